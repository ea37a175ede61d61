//! The WebSocket on the real binary: events out, decisions in, replay from the last event seen.

use futures::{SinkExt as _, StreamExt as _};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream};

use crate::bridge::calls::Caller;
use crate::support::server::{Server, Setup};

/// One end of a socket.
pub(crate) struct Socket(WebSocketStream<MaybeTlsStream<TcpStream>>);

impl Socket {
    pub(crate) async fn open(
        server: &Server,
        headers: &[(&'static str, &str)],
    ) -> Result<Self, u16> {
        let url = format!("ws://{}/v1/ws", server.address());
        let mut request = url.into_client_request().unwrap();
        for (name, value) in headers {
            request.headers_mut().insert(*name, value.parse().unwrap());
        }
        match tokio_tungstenite::connect_async(request).await {
            Ok((stream, _)) => Ok(Self(stream)),
            Err(Error::Http(response)) => Err(response.status().as_u16()),
            Err(error) => panic!("{error}"),
        }
    }

    pub(crate) async fn say(&mut self, message: &Value) {
        self.0.send(Message::Text(message.to_string().into())).await.unwrap();
    }

    /// The next message that is one; none when the socket is closed or broken.
    pub(crate) async fn hear(&mut self) -> Option<Value> {
        loop {
            match self.0.next().await? {
                Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
                Ok(Message::Ping(_) | Message::Pong(_)) => {}
                Ok(_) | Err(_) => return None,
            }
        }
    }

    /// Says something, and hears what came of it.
    async fn call(&mut self, message: &Value) -> Value {
        self.say(message).await;
        loop {
            let told = self.hear().await.unwrap();
            if told["id"] == message["id"] && (told["type"] == "ack" || told["type"] == "error") {
                return told;
            }
        }
    }

    /// Events up to the one of that name.
    async fn events_to(&mut self, name: &str) -> Vec<Value> {
        let mut events = Vec::new();
        loop {
            let told = self.hear().await.unwrap();
            if told["type"] != "event" {
                continue;
            }
            let is_last = told["name"] == name;
            events.push(told);
            if is_last {
                return events;
            }
        }
    }
}

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

fn sequences(events: &[Value]) -> Vec<u64> {
    events.iter().map(|event| event["sequence"].as_u64().unwrap()).collect()
}

#[tokio::test]
async fn a_run_is_started_watched_and_answered_and_a_killed_server_changes_nothing() {
    let (_here, mut server) = server();
    let mut socket = Socket::open(&server, &[]).await.unwrap();
    let begun = socket
        .call(&json!({"type": "start", "id": 1, "workflow_id": "approve_and_send", "input": "Tell Ada."}))
        .await;
    assert_eq!((&begun["type"], &begun["after"]), (&json!("ack"), &json!(0)), "{begun}");
    let run = begun["run_id"].as_str().unwrap().to_owned();
    socket.say(&json!({"type": "watch", "id": 2, "run_id": run, "after": 0})).await;
    let seen = socket.events_to("status").await;
    let asked = seen.iter().find(|event| event["name"] == "request_info").unwrap();
    assert_eq!(asked["request"]["prompt"], "Send this message?");
    assert_eq!(asked["request"]["conversation"][0]["text"], "Tell Ada.");
    let waiting = &seen.last().unwrap()["workflow_waiting"];
    let id = waiting["requests"][0]["request_id"].as_str().unwrap().to_owned();
    let digest = waiting["requests"][0]["digest"].clone();

    server.restart();
    assert_eq!(socket.hear().await, None, "the socket went with the server");
    let mut socket = Socket::open(&server, &[]).await.unwrap();
    // It says the last event that it saw, somewhere in the middle, and gets what it missed.
    let last = seen[3]["sequence"].clone();
    socket.say(&json!({"type": "watch", "id": 1, "run_id": run, "after": last})).await;
    assert_eq!(socket.events_to("status").await, seen[4..], "nothing missing, nothing twice");
    let wrong = json!({"type": "answer", "id": 2, "responses": {&id: "perhaps"}});
    let refused = socket.call(&wrong).await;
    assert_eq!(refused["error"]["code"], "answer.invalid");
    let stale =
        json!({"type": "answer", "id": 3, "responses": {&id: "approve"}, "digests": {&id: "x"}});
    assert_eq!(socket.call(&stale).await["error"]["code"], "answer.stale_digest");
    let answer =
        json!({"type": "answer", "id": 4, "responses": {&id: "approve"}, "digests": {&id: digest}});
    socket.say(&answer).await;
    let rest = socket.events_to("completed").await;
    assert_eq!(sequences(&rest)[0], sequences(&seen).last().unwrap() + 1);
    let again = json!({"type": "answer", "id": 5, "responses": {&id: "reject"}});
    let refused = socket.call(&again).await;
    assert_eq!(refused["error"]["answered_by"], "local");
}

#[tokio::test]
async fn two_sockets_see_a_request_and_who_answered_it() {
    let (_here, server) = server();
    let (mut one, mut other) =
        (Socket::open(&server, &[]).await.unwrap(), Socket::open(&server, &[]).await.unwrap());
    for socket in [&mut one, &mut other] {
        socket.say(&json!({"type": "watch_requests", "workflow_id": "approve_and_send"})).await;
        assert_eq!(socket.hear().await.unwrap()["type"], "ack");
        assert_eq!(socket.hear().await.unwrap()["type"], "caught_up");
    }
    Caller::new(server.address()).start("approve_and_send", "Tell Ada.");
    let opened = one.hear().await.unwrap();
    assert_eq!(opened["type"], "request_opened");
    assert_eq!(other.hear().await.unwrap(), opened);
    let id = opened["request"]["request_id"].as_str().unwrap();
    one.say(&json!({"type": "answer", "responses": {id: "approve"}})).await;
    let closed = other.hear().await.unwrap();
    assert_eq!(
        closed,
        json!({"type": "request_closed", "request_id": id, "how": "answered", "by": "local"})
    );
    // And one that is taken back, and a run that is stopped.
    Caller::new(server.address()).start("approve_and_send", "Tell Bob.");
    let opened = other.hear().await.unwrap();
    let withdraw =
        json!({"type": "withdraw", "id": 7, "request_id": opened["request"]["request_id"]});
    assert_eq!(other.call(&withdraw).await["run_id"], opened["run_id"]);
    let cancel = json!({"type": "cancel", "id": 8, "run_id": "run_x"});
    assert_eq!(other.call(&cancel).await["error"]["code"], "run.unknown");
}

#[tokio::test]
async fn what_is_answered_over_a_socket_is_audited_as_that() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let first = caller.start("approve_and_send", "Tell Ada.");
    let mut socket = Socket::open(&server, &[]).await.unwrap();
    let id = crate::bridge::calls::call_id(&first);
    // The same thing said twice says nothing.
    let twice =
        format!(r#"{{"type": "answer", "responses": {{"{id}": "reject", "{id}": "approve"}}}}"#);
    socket.0.send(Message::Text(twice.into())).await.unwrap();
    let refused = socket.hear().await.unwrap()["error"].take();
    let place = format!("responses.{id}");
    let no = (&json!("call.duplicate_key"), &json!(place));
    assert_eq!((&refused["code"], &refused["param"]), no, "{refused}");
    let answer = json!({"type": "answer", "id": 1, "responses": {&id: "approve"}});
    assert_eq!(socket.call(&answer).await["type"], "ack");
    let path = format!("/v1/runs/{}/audit", first["run_id"].as_str().unwrap());
    let audit = caller.get(&path).ok();
    let events = audit["events"].as_array().unwrap();
    let answered = events.iter().find_map(|event| event["event"].get("answered")).unwrap();
    assert_eq!(answered["door"], "websocket", "{answered}");
}

#[tokio::test]
async fn bad_messages_are_refused_and_the_socket_stays() {
    let (_here, server) = server();
    let mut socket = Socket::open(&server, &[]).await.unwrap();
    for (text, code) in [
        ("{", "call.no_json"),
        ("[]", "field.invalid"),
        ("{\"type\": \"dance\"}", "field.invalid"),
        ("{\"type\": \"answer\"}", "field.invalid"),
        ("{\"type\": \"start\"}", "field.invalid"),
        ("{\"type\": \"watch\", \"run_id\": \"run_x\"}", "run.unknown"),
        ("{\"type\": \"watch\", \"run_id\": \"run_x\", \"after\": -1}", "field.invalid"),
        (
            "{\"type\": \"start\", \"workflow_id\": \"approve_and_send\", \"conversation\": 5}",
            "field.invalid",
        ),
        (
            "{\"type\": \"start\", \"workflow_id\": \"approve_and_send\", \"gate\": [{}]}",
            "field.invalid",
        ),
        ("{\"type\": \"answer\", \"responses\": {\"a\": 1}, \"digests\": 5}", "field.invalid"),
        (
            "{\"type\": \"answer\", \"responses\": {\"a\": 1}, \"idempotency_key\": 5}",
            "field.invalid",
        ),
    ] {
        socket.0.send(Message::Text(text.into())).await.unwrap();
        let told = socket.hear().await.unwrap();
        assert_eq!(
            (&told["type"], &told["error"]["code"]),
            (&json!("error"), &json!(code)),
            "{text}"
        );
    }
    socket.0.send(Message::Binary(vec![1].into())).await.unwrap();
    assert_eq!(socket.hear().await.unwrap()["error"]["code"], "field.invalid");
    // Sixty-four things at once are enough for one page.
    for _ in 0..64 {
        socket.say(&json!({"type": "watch_requests"})).await;
    }
    let refused = socket.call(&json!({"type": "watch_requests", "id": "last"})).await;
    assert_eq!(refused["error"]["code"], "field.too_large");
}

#[tokio::test]
async fn who_has_no_key_or_comes_from_another_page_is_not_let_in() {
    let here = TempDir::new().unwrap();
    let key = crate::bridge::key_of(here.path(), "ada");
    let server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    assert_eq!(Socket::open(&server, &[]).await.err(), Some(401));
    let by_protocol = format!("holdpoint.v1, bearer.{key}");
    assert!(Socket::open(&server, &[("sec-websocket-protocol", &by_protocol)]).await.is_ok());
    let bearer = format!("Bearer {key}");
    let from = |origin: String| {
        let (server, bearer) = (&server, &bearer);
        async move {
            Socket::open(server, &[("authorization", bearer), ("origin", &origin)]).await.err()
        }
    };
    assert_eq!(from("https://evil.example".into()).await, Some(403));
    assert_eq!(from("null".into()).await, Some(403));
    assert_eq!(from(server.url()).await, None);
    let plain = Caller::new(server.address()).with(&format!("Authorization: {bearer}"));
    assert_eq!(plain.get("/v1/ws").refusal(), (426, "call.no_websocket".into(), "upgrade".into()));
}
