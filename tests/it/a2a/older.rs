//! A2A 0.3: the older protocol on three bindings, behind its switch, with the SDK of its time.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use holdpoint::wire::older as pb;
use holdpoint::wire::older::a2a_service_client::A2aServiceClient;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::a2a::calls::{Agent, coded};
use crate::a2a::sdk::{line, told};
use crate::support::python;
use crate::support::server::{Server, Setup};

fn message(id: &str, text: &str, task: &Value) -> Value {
    json!({"message": {
        "kind": "message", "messageId": id, "role": "user", "taskId": task,
        "parts": [{"kind": "text", "text": text}],
    }})
}

#[test]
fn an_older_client_pauses_and_resumes_across_a_kill() {
    let here = TempDir::new().unwrap();
    let mut server = Setup::new(here.path()).arg("--a2a-v03").arg("true").start();
    let agent = |address: &str| Agent {
        headers: Vec::new(),
        ..Agent::new(address, "/a2a/approve_and_send")
    };
    let card = agent(server.address());
    let card = card.http("GET", "/a2a/approve_and_send/.well-known/agent-card.json", "").json();
    assert_eq!(
        (&card["protocolVersion"], &card["preferredTransport"]),
        (&json!("0.3.0"), &json!("JSONRPC"))
    );
    assert_eq!(card["url"], format!("{}/a2a/approve_and_send", server.url()));

    let asked =
        agent(server.address()).call("message/send", &message("m1", "Tell Ada.", &Value::Null));
    assert_eq!(
        (&asked["kind"], &asked["status"]["state"]),
        (&json!("task"), &json!("input-required"))
    );
    let parts = &asked["status"]["message"]["parts"];
    assert_eq!((&parts[0]["kind"], &parts[1]["kind"]), (&json!("text"), &json!("data")));

    server.restart();
    let answer = message("m2", &coded(&asked, "approve"), &asked["id"]);
    let told: Vec<_> =
        agent(server.address()).stream("message/stream", &answer).map(|it| it.1).collect();
    let kinds: Vec<_> = told.iter().map(|told| told["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["task", "artifact-update", "status-update"]);
    assert_eq!(
        (&told[2]["status"]["state"], &told[2]["final"]),
        (&json!("completed"), &json!(true))
    );

    let id = json!({"id": asked["id"]});
    let mut again = agent(server.address()).stream("tasks/resubscribe", &id);
    assert_eq!(
        again.next().unwrap().1["status"]["state"],
        "completed",
        "one that is over is told once"
    );
    assert_eq!(again.next(), None);
    let gone = agent(server.address()).rpc("tasks/get", &json!({"id": "x"}));
    assert_eq!(gone["error"]["code"], -32001);
    let newer = Agent::new(server.address(), "/a2a/approve_and_send").call("GetTask", &id);
    assert_eq!(
        newer["status"]["state"], "TASK_STATE_COMPLETED",
        "either version sees the same task"
    );
}

/// One act of the SDK of that time, with the root's agent.
fn act(server: &Server, binding: &str, rest: &[&str]) -> Child {
    // Whoever speaks gRPC reads the card that names it.
    let base = match binding {
        "GRPC" => format!("{}/a2a/grpc", server.url()),
        _ => server.url(),
    };
    python::act("a2a-03", "a2a_client_03.py")
        .args([&base, binding])
        .args(rest)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn the_older_sdk_resumes_a_pause_after_kills(binding: &str) {
    let here = TempDir::new().unwrap();
    let mut server =
        Setup::new(here.path()).arg("--a2a-v03=true").arg("--a2a-root=approve_and_send").start();
    let asked = told(act(&server, binding, &["send", "Tell Ada."]));
    let (state, words, task) = asked.last().unwrap();
    assert_eq!(state, "input-required", "{asked:?}");
    assert!(words.starts_with("Send this message?"), "{words}");

    server.restart();
    let mut watch = act(&server, binding, &["watch", task]);
    let mut seen =
        BufReader::new(watch.stdout.take().unwrap()).lines().map(|text| line(&text.unwrap()));
    assert_eq!(seen.next().unwrap().0, "input-required", "the snapshot of a paused task");
    let refused = told(act(&server, binding, &["answer", task, "perhaps"]));
    assert_eq!(refused.last().unwrap().0, "input-required", "{refused:?}");
    let done = told(act(&server, binding, &["answer", task, &coded(words, "approve")]));
    assert_eq!(done.last().unwrap().0, "completed", "{done:?}");
    let rest: Vec<_> = seen.map(|(word, ..)| word).collect();
    assert_eq!(rest, ["working", "artifact_update", "completed"], "another's resume is seen");
    assert!(watch.wait().unwrap().success());

    server.restart();
    let kept = told(act(&server, binding, &["get", task]));
    let kept: Vec<_> =
        kept.iter().map(|(word, words, _)| (word.as_str(), words.as_str())).collect();
    assert_eq!(kept, [("completed", ""), ("artifact", "Sent: Tell Ada.")]);
}

#[test]
fn the_older_sdk_resumes_a_pause_after_kills_by_json_rpc() {
    the_older_sdk_resumes_a_pause_after_kills("JSONRPC");
}

#[test]
fn the_older_sdk_resumes_a_pause_after_kills_by_http() {
    the_older_sdk_resumes_a_pause_after_kills("HTTP+JSON");
}

#[test]
fn the_older_sdk_resumes_a_pause_after_kills_by_grpc() {
    the_older_sdk_resumes_a_pause_after_kills("GRPC");
}

#[test]
fn a_wrong_call_of_the_older_protocol_is_told_so_by_http() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--a2a-v03=true").start();
    let agent =
        Agent { headers: Vec::new(), ..Agent::new(server.address(), "/a2a/approve_and_send") };
    let message = json!({"message": {"messageId": "m", "role": "ROLE_USER",
        "content": [{"text": "Tell Ada."}]}});
    let sent = agent.rest("POST", "/v1/message:send", &message).json();
    let id = sent["task"]["id"].as_str().unwrap();
    let (yes, no) = (coded(&sent, "approve"), coded(&sent, "reject"));
    let back = coded(&sent, "return");
    assert_eq!(
        sent["task"]["status"]["message"]["content"][0]["text"],
        format!("Send this message?\n\nTell Ada.\n\nAnswer `{yes}`, `{no}` or `{back}`.")
    );
    let cases = [
        (404, "TASK_NOT_FOUND", "GET", "/v1/tasks/x".to_owned(), Value::Null),
        (404, "TASK_NOT_FOUND", "POST", "/v1/tasks/x:cancel".to_owned(), json!({})),
        (404, "TASK_NOT_FOUND", "GET", "/v1/tasks/x:subscribe".to_owned(), Value::Null),
        (400, "field.invalid", "POST", "/v1/message:send".into(), json!({})),
        (400, "field.invalid", "POST", "/v1/message:send".into(), json!({"message": 7})),
        (
            400,
            "field.invalid",
            "POST",
            "/v1/message:send".into(),
            json!({"message":
            {"messageId": "m", "role": "ROLE_USER", "content": [{}]}}),
        ),
        (
            400,
            "CONTENT_TYPE_NOT_SUPPORTED",
            "POST",
            "/v1/message:send".into(),
            json!({"message":
            {"messageId": "m", "role": "ROLE_USER", "content": [{"file":
                {"fileWithUri": "http://x"}}]}}),
        ),
        (
            400,
            "field.invalid",
            "POST",
            format!("/v1/tasks/{id}/pushNotificationConfigs"),
            json!({}),
        ),
        (404, "path.unknown", "GET", "/v1/tasks".into(), Value::Null),
        (404, "path.unknown", "DELETE", "/v1/message:send".into(), Value::Null),
    ];
    for (status, reason, verb, path, body) in cases {
        let reply = agent.rest(verb, &path, &body);
        let told = reply.json();
        assert_eq!(reply.status, status, "{verb} {path}: {told}");
        assert_eq!(told["error"]["details"][0]["reason"], reason, "{verb} {path}");
    }
    let newer = agent.clone().with("A2A-Version: 1.0").rest("GET", "/v1/tasks/x", &Value::Null);
    assert_eq!(newer.json()["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    let rpc = agent.clone().with("A2A-Version: 99.0").rpc("tasks/get", &json!({"id": id}));
    assert_eq!(rpc["error"]["code"], -32009);
    let json = agent.clone().with("Content-Type: application/json");
    let path = "/a2a/approve_and_send/v1/message:send";
    assert_eq!(
        json.http("POST", path, "{").json()["error"]["details"][0]["reason"],
        "call.no_json"
    );
    let none = agent.rest("GET", "/v1/card", &Value::Null).json();
    let reason = &none["error"]["details"][0]["reason"];
    assert_eq!(reason, "EXTENDED_AGENT_CARD_NOT_CONFIGURED");
    let card = agent.rest("GET", "/.well-known/agent-card.json", &Value::Null).json();
    assert_eq!(card["additionalInterfaces"][0]["transport"], "HTTP+JSON");
}

#[tokio::test]
async fn the_older_service_has_webhooks_and_a_card() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path())
        .arg("--a2a-v03=true")
        .arg("--a2a-root=approve_and_send")
        .arg("--push-allow=localhost")
        .start();
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let card = client.get_agent_card(pb::GetAgentCardRequest {}).await.unwrap().into_inner();
    let transports: Vec<_> =
        card.additional_interfaces.iter().map(|one| one.transport.as_str()).collect();
    assert_eq!(transports, ["HTTP+JSON", "GRPC"]);
    // It is dialled as it stands.
    assert_eq!(card.additional_interfaces[1].url, server.address());
    let gone = pb::GetTaskRequest { name: "tasks/x".into(), ..Default::default() };
    let refused = client.get_task(gone).await.unwrap_err();
    assert!(refused.message().starts_with("TaskNotFoundError: "), "{refused}");
    assert_eq!((card.url, card.name), (format!("{}/a2a", server.url()), "approve_and_send".into()));

    let part = pb::Part { part: Some(pb::part::Part::Text("Tell Ada.".into())), metadata: None };
    let message = pb::Message {
        message_id: "m".into(),
        role: pb::Role::User.into(),
        content: vec![part],
        ..pb::Message::default()
    };
    let request = pb::SendMessageRequest { request: Some(message), ..Default::default() };
    let sent = client.send_message(request).await.unwrap().into_inner();
    let Some(pb::send_message_response::Payload::Task(task)) = sent.payload else {
        panic!("no task")
    };
    let parent = format!("tasks/{}", task.id);
    let config = pb::PushNotificationConfig {
        url: "http://localhost:1/hook".into(),
        token: "t".into(),
        ..Default::default()
    };
    let config = pb::TaskPushNotificationConfig {
        name: String::new(),
        push_notification_config: Some(config),
    };
    let create = pb::CreateTaskPushNotificationConfigRequest {
        parent: parent.clone(),
        config_id: "hook".into(),
        config: Some(config),
    };
    let made = client.create_task_push_notification_config(create).await.unwrap().into_inner();
    assert_eq!(made.name, format!("{parent}/pushNotificationConfigs/hook"));
    let list = pb::ListTaskPushNotificationConfigRequest { parent, ..Default::default() };
    let listed = client.list_task_push_notification_config(list).await.unwrap().into_inner();
    assert_eq!(listed.configs, vec![made.clone()]);
    let name = made.name.clone();
    let delete = pb::DeleteTaskPushNotificationConfigRequest { name: name.clone() };
    client.delete_task_push_notification_config(delete).await.unwrap();
    let get = pb::GetTaskPushNotificationConfigRequest { name };
    let gone = client.get_task_push_notification_config(get).await.unwrap_err();
    assert_eq!(gone.code(), Code::NotFound);
    let get = pb::GetTaskRequest { name: task.id.clone(), history_length: 0 };
    assert_eq!(client.get_task(get).await.unwrap_err().code(), Code::InvalidArgument);
    let cancel = pb::CancelTaskRequest { name: format!("tasks/{}", task.id) };
    let over = client.cancel_task(cancel.clone()).await.unwrap().into_inner();
    assert_eq!(over.status.unwrap().state(), pb::TaskState::Cancelled);
    let again = client.cancel_task(cancel).await.unwrap_err();
    let info = again.get_details_error_info().unwrap();
    assert_eq!(
        (again.code(), info.reason.as_str()),
        (Code::FailedPrecondition, "TASK_NOT_CANCELABLE")
    );
}

#[tokio::test]
async fn the_older_service_is_not_spoken_unless_it_is_asked_for() {
    let here = TempDir::new().unwrap();
    let other = Setup::new(here.path()).start();
    let mut client = A2aServiceClient::connect(other.url()).await.unwrap();
    let off = client.get_agent_card(pb::GetAgentCardRequest {}).await.unwrap_err();
    assert_eq!(off.code(), Code::Unimplemented);
    let off = Agent::new(other.address(), "/a2a/approve_and_send");
    assert_eq!(off.rest("GET", "/v1/card", &Value::Null).status, 404);
}

#[test]
fn whoever_asks_for_a_stream_of_the_older_protocol_is_told_why_not_in_one() {
    let here = TempDir::new().unwrap();
    let server =
        Setup::new(here.path()).arg("--a2a-v03=true").arg("--push-allow=localhost").start();
    let agent =
        Agent { headers: Vec::new(), ..Agent::new(server.address(), "/a2a/approve_and_send") };
    for (method, code) in [("tasks/resubscribe", -32001), ("message/stream", -32602)] {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": {"id": "x"}});
        let reply = agent.rest("POST", "", &call);
        assert_eq!(reply.header("content-type"), Some("text/event-stream"), "{method}");
        let told: Value =
            serde_json::from_str(reply.body.trim().strip_prefix("data: ").unwrap()).unwrap();
        assert_eq!((&told["id"], &told["error"]["code"]), (&json!(7), &json!(code)), "{method}");
    }
    // A webhook without a name is the default one.
    let task = agent.call("message/send", &message("m1", "Tell Ada.", &Value::Null));
    let hook = json!({"taskId": task["id"],
        "pushNotificationConfig": {"url": "http://localhost:1/hook"}});
    let made = agent.call("tasks/pushNotificationConfig/set", &hook);
    assert_eq!(made["pushNotificationConfig"]["id"], "default");
    let found = agent.call("tasks/pushNotificationConfig/get", &json!({"id": task["id"]}));
    assert_eq!(found, made);
}
