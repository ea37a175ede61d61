//! A2A's refusals: each with the code of the protocol's table, the same on every binding.

use std::io::{Read as _, Write as _};

use holdpoint::wire::lf as pb;
use holdpoint::wire::lf::a2a_service_client::A2aServiceClient;
use holdpoint::wire::lf::{
    GetTaskRequest, Part, Role, SendMessageRequest, part, send_message_response,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::a2a::calls::{Agent, coded, state, text, to};
use crate::a2a::key_of;
use crate::support::server::{Server, Setup};

fn server() -> (TempDir, Server, Agent) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let agent = Agent::new(server.address(), "/a2a/approve_and_send");
    (here, server, agent)
}

#[test]
fn a_wrong_call_has_the_code_of_the_table_on_json_rpc() {
    let (_here, _server, agent) = server();
    let message = |change: &dyn Fn(&mut Value)| {
        let mut message = text("m", "Tell Ada.");
        change(&mut message);
        json!({"message": message})
    };
    let cases = [
        (-32601, "Nothing", json!({})),
        (-32601, "message/send", json!({})),
        (-32602, "SendMessage", json!({})),
        (-32602, "SendMessage", message(&|it| it["parts"] = json!([]))),
        (-32602, "SendMessage", message(&|it| it["parts"] = json!([{}]))),
        (-32602, "SendMessage", message(&|it| it["messageId"] = json!(""))),
        (-32602, "SendMessage", message(&|it| it["role"] = json!("ROLE_AGENT"))),
        (-32602, "SendMessage", message(&|it| it["contextId"] = json!("two words"))),
        (-32001, "SendMessage", message(&|it| it["taskId"] = json!("mine"))),
        (-32005, "SendMessage", message(&|it| it["parts"] = json!([{"raw": "AA=="}]))),
        (-32005, "SendMessage", message(&|it| it["parts"][0]["mediaType"] = json!("image/png"))),
        (-32602, "GetTask", json!({})),
        (-32602, "GetTask", json!({"id": ""})),
        (-32001, "GetTask", json!({"id": "x"})),
        (-32602, "GetTask", json!({"id": "x", "historyLength": -1})),
        (-32602, "ListTasks", json!({"pageSize": 0})),
        (-32602, "ListTasks", json!({"pageSize": 101})),
        (-32602, "ListTasks", json!({"pageToken": "?"})),
        (-32602, "ListTasks", json!({"status": "WAITING"})),
        (-32602, "ListTasks", json!({"statusTimestampAfter": "yesterday"})),
        (-32602, "ListTasks", json!({"tenant": "chat"})),
        (-32001, "CancelTask", json!({"id": "x"})),
        (-32001, "SubscribeToTask", json!({"id": "x"})),
        (-32001, "ListTaskPushNotificationConfigs", json!({"taskId": "x"})),
        (-32004, "GetExtendedAgentCard", json!({})),
    ];
    for (code, method, params) in cases {
        let told = agent.rpc(method, &params);
        assert_eq!(told["error"]["code"], code, "{method} {params}: {told}");
        assert!(told["error"]["data"][0]["reason"].is_string(), "{told}");
    }
    assert_eq!(agent.call("ListTasks", &json!({}))["totalSize"], 0, "none left a trace");
}

#[test]
fn what_is_no_call_at_all_is_told_so() {
    let (_here, _server, agent) = server();
    let json = agent.clone().with("Content-Type: application/json");
    let code = |agent: &Agent, body: &str| {
        agent.http("POST", "/a2a/approve_and_send/", body).json()["error"]["code"].clone()
    };
    assert_eq!(code(&json, "{"), -32700);
    assert_eq!(code(&json, &"[".repeat(1_000)), -32700);
    assert_eq!(code(&json, "[]"), -32600);
    assert_eq!(code(&json, r#"{"jsonrpc": "1.0", "id": 1, "method": "GetTask"}"#), -32600);
    assert_eq!(code(&json, r#"{"jsonrpc": "2.0", "id": {}, "method": "GetTask"}"#), -32600);
    assert_eq!(code(&agent.clone().with("Content-Type: text/plain"), "{}"), -32005);
    let list = r#"{"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}"#;
    let wrong = Agent { headers: vec!["Content-Type: application/json".into()], ..agent.clone() };
    assert_eq!(code(&wrong, list), -32009, "no version means 0.3");
    assert_eq!(code(&wrong.clone().with("A2A-Version: 99.0"), list), -32009);
    assert_eq!(code(&wrong.with("A2A-Version: 1.0.1"), list), Value::Null, "a patch is the same");
    let large = json!({"message": text("m", &"x".repeat(2 << 20))});
    assert_eq!(agent.rpc("SendMessage", &large)["error"]["code"], -32602);
}

#[test]
fn a_wrong_call_has_the_status_of_the_table_on_http() {
    let (_here, server, agent) = server();
    let task = agent.send(&text("m1", "Tell Ada."));
    let done = agent.send(&to(&task, text("m2", &coded(&task, "approve"))));
    let id = done["id"].as_str().unwrap();
    let message = json!({"message": text("m", "Tell Ada.")});
    let cases = [
        (404, "TASK_NOT_FOUND", "GET", "/tasks/x".to_owned(), Value::Null),
        (400, "TASK_NOT_CANCELABLE", "POST", format!("/tasks/{id}:cancel"), Value::Null),
        (400, "UNSUPPORTED_OPERATION", "GET", format!("/tasks/{id}:subscribe"), Value::Null),
        (400, "UNSUPPORTED_OPERATION", "POST", format!("/tasks/{id}%3Asubscribe"), Value::Null),
        (400, "UNSUPPORTED_OPERATION", "GET", "/extendedAgentCard".into(), Value::Null),
        (400, "field.invalid", "POST", "/message:send".into(), json!({})),
        (400, "field.invalid", "GET", "/tasks?pageSize=101".into(), Value::Null),
        (400, "field.invalid", "GET", "/tasks?pageSize=many".into(), Value::Null),
        (404, "path.unknown", "GET", "/message:send".into(), Value::Null),
        (
            400,
            "field.invalid",
            "GET",
            format!("/tasks/{id}/pushNotificationConfigs?pageSize=-1"),
            Value::Null,
        ),
    ];
    for (status, reason, verb, path, body) in cases {
        let reply = agent.rest(verb, &path, &body);
        let told = reply.json();
        assert_eq!(reply.status, status, "{verb} {path}: {told}");
        assert_eq!(told["error"]["details"][0]["reason"], reason, "{verb} {path}");
        assert_eq!(reply.header("content-type"), Some("application/json"));
    }
    let old = Agent { headers: vec!["A2A-Version: 99.0".into()], ..agent.clone() };
    let told = old.rest("POST", "/message:send", &message).json();
    assert_eq!(told["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    let plain = agent.clone().with("Content-Type: text/plain");
    let told =
        plain.http("POST", "/a2a/approve_and_send/message:send", &message.to_string()).json();
    assert_eq!(told["error"]["details"][0]["reason"], "CONTENT_TYPE_NOT_SUPPORTED");
    let nobody = Agent::new(server.address(), "/a2a/nobody");
    assert_eq!(nobody.rest("POST", "/message:send", &message).status, 404);
    let sent = agent.rest("POST", "/message:send", &message).json();
    assert_eq!(state(&sent["task"]), "INPUT_REQUIRED");
}

#[tokio::test]
async fn grpc_speaks_the_same_with_error_info() {
    let (_here, server, _agent) = server();
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let versioned = |id: &str, version: &'static str| {
        let (tenant, id) = ("approve_and_send".into(), id.into());
        let mut request = Request::new(GetTaskRequest { tenant, id, history_length: None });
        request.metadata_mut().insert("a2a-version", MetadataValue::from_static(version));
        request
    };
    for (version, code, reason) in [
        ("1.0", Code::NotFound, "TASK_NOT_FOUND"),
        ("99.0", Code::FailedPrecondition, "VERSION_NOT_SUPPORTED"),
        ("", Code::FailedPrecondition, "VERSION_NOT_SUPPORTED"),
    ] {
        let status = client.get_task(versioned("x", version)).await.unwrap_err();
        let info = status.get_details_error_info().unwrap();
        assert_eq!((status.code(), info.reason.as_str()), (code, reason));
        assert_eq!(info.domain, "a2a-protocol.org");
    }

    let say = |text: &str, task_id: &str| {
        let part = Part { content: Some(part::Content::Text(text.into())), ..Part::default() };
        let message = holdpoint::wire::lf::Message {
            message_id: format!("m-{text}"),
            task_id: task_id.into(),
            role: Role::User.into(),
            parts: vec![part],
            ..Default::default()
        };
        let tenant = "approve_and_send".into();
        let request = SendMessageRequest { tenant, message: Some(message), ..Default::default() };
        let mut request = Request::new(request);
        request.metadata_mut().insert("a2a-version", MetadataValue::from_static("1.0"));
        request
    };
    let sent = client.send_message(say("Tell Ada.", "")).await.unwrap().into_inner();
    let Some(send_message_response::Payload::Task(task)) = sent.payload else { panic!("no task") };
    let mut stream = client
        .send_streaming_message(say(&coded(format!("{task:?}"), "approve"), &task.id))
        .await
        .unwrap()
        .into_inner();
    let mut told = 0;
    while let Some(event) = stream.message().await.unwrap() {
        assert!(event.payload.is_some());
        told += 1;
    }
    assert!(told >= 3, "a task, a result, its end");
    let done = client.get_task(versioned(&task.id, "1.0")).await.unwrap().into_inner();
    assert_eq!(done.status.unwrap().state(), holdpoint::wire::lf::TaskState::Completed);
    assert_eq!(done.artifacts.len(), 1);
}

/// A call by gRPC, with its version and perhaps a key.
fn asked<T>(message: T, key: &str) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("a2a-version", MetadataValue::from_static("1.0"));
    if !key.is_empty() {
        request.metadata_mut().insert("authorization", format!("Bearer {key}").parse().unwrap());
    }
    request
}

/// The code and the reason of a no.
fn no<T: std::fmt::Debug>(outcome: Result<T, tonic::Status>) -> (Code, String) {
    let status = outcome.unwrap_err();
    let info = status.get_details_error_info();
    (status.code(), info.map(|info| info.reason).unwrap_or_default())
}

fn said(parts: Vec<Part>, change: impl FnOnce(&mut pb::Message)) -> SendMessageRequest {
    let mut message = pb::Message {
        message_id: "m".into(),
        role: Role::User.into(),
        parts,
        ..pb::Message::default()
    };
    change(&mut message);
    let tenant = "approve_and_send".into();
    SendMessageRequest { tenant, message: Some(message), ..Default::default() }
}

fn part(media_type: &str, content: part::Content) -> Part {
    Part { content: Some(content), media_type: media_type.into(), ..Part::default() }
}

#[tokio::test]
async fn a_wrong_call_has_the_code_of_the_table_on_grpc() {
    let (_here, server, agent) = server();
    let task = agent.send(&text("m1", "Tell Ada."));
    let id = agent.send(&to(&task, text("m2", &coded(&task, "approve"))))["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let tenant = || "approve_and_send".to_owned();
    let words = || part("", part::Content::Text("Tell Ada.".into()));
    let invalid = (Code::InvalidArgument, "field.invalid".to_owned());
    let unknown = (Code::NotFound, "TASK_NOT_FOUND".to_owned());
    let content = (Code::InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED".to_owned());
    let unsupported = (Code::FailedPrecondition, "UNSUPPORTED_OPERATION".to_owned());
    let nobody = SendMessageRequest { tenant: tenant(), ..Default::default() };
    for (expected, request) in [
        (&invalid, nobody),
        (&invalid, said(vec![], |_| {})),
        (&invalid, said(vec![Part::default()], |_| {})),
        (&invalid, said(vec![words()], |it| it.message_id.clear())),
        (&invalid, said(vec![words()], |it| it.role = 0)),
        (&invalid, said(vec![words()], |it| it.context_id = "two words".into())),
        (&unknown, said(vec![words()], |it| it.task_id = "x".into())),
        (&unsupported, said(vec![words()], |it| it.task_id.clone_from(&id))),
        (&content, said(vec![part("image/png", part::Content::Text("?".into()))], |_| {})),
        (&content, said(vec![part("", part::Content::Raw(vec![0]))], |_| {})),
    ] {
        let outcome = client.send_message(asked(request.clone(), "")).await;
        assert_eq!(&no(outcome), expected, "{request:?}");
        let outcome = client.send_streaming_message(asked(request, "")).await;
        assert_eq!(&no(outcome.map(|_| ())), expected, "before the first event");
    }
    for page_size in [0, -1, 101] {
        let page_size = Some(page_size);
        let list = pb::ListTasksRequest { tenant: tenant(), page_size, ..Default::default() };
        assert_eq!(no(client.list_tasks(asked(list, "")).await), invalid);
    }
    let list = pb::ListTasksRequest { tenant: tenant(), status: 99, ..Default::default() };
    assert_eq!(no(client.list_tasks(asked(list, "")).await), invalid);
    let get = |id: &str, history_length| {
        asked(GetTaskRequest { tenant: tenant(), id: id.into(), history_length }, "")
    };
    assert_eq!(no(client.get_task(get(&id, Some(-1))).await), invalid);
    assert_eq!(no(client.get_task(get("", None)).await), invalid);
    let cancel = pb::CancelTaskRequest { tenant: tenant(), id: id.clone(), metadata: None };
    let over = (Code::FailedPrecondition, "TASK_NOT_CANCELABLE".to_owned());
    assert_eq!(no(client.cancel_task(asked(cancel, "")).await), over);
    let subscribe =
        |id: &str| asked(pb::SubscribeToTaskRequest { tenant: tenant(), id: id.into() }, "");
    let stream = client.subscribe_to_task(subscribe(&id)).await;
    assert_eq!(no(stream.map(|_| ())), unsupported);
    let stream = client.subscribe_to_task(subscribe("x")).await;
    assert_eq!(no(stream.map(|_| ())), unknown);
    let list = pb::ListTaskPushNotificationConfigsRequest {
        tenant: tenant(),
        task_id: id.clone(),
        page_size: -1,
        ..Default::default()
    };
    assert_eq!(no(client.list_task_push_notification_configs(asked(list, "")).await), invalid);
    let elsewhere = GetTaskRequest { tenant: "nobody".into(), id, history_length: None };
    let (code, reason) = no(client.get_task(asked(elsewhere, "")).await);
    assert_eq!((code, reason.as_str()), (Code::NotFound, "workflow.unknown"));
}

#[tokio::test]
async fn webhooks_that_are_turned_off_are_refused_on_every_binding() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--a2a-push=false").start();
    let agent = Agent::new(server.address(), "/a2a/approve_and_send");
    let id = agent.send(&text("m1", "Tell Ada."))["id"].as_str().unwrap().to_owned();
    let hook = json!({"taskId": id, "id": "h", "url": "https://example.com/hook"});
    let inline = json!({"message": text("m2", "Tell Bob."),
        "configuration": {"taskPushNotificationConfig": hook}});
    for (method, params) in [
        ("CreateTaskPushNotificationConfig", &hook),
        ("GetTaskPushNotificationConfig", &hook),
        ("ListTaskPushNotificationConfigs", &hook),
        ("DeleteTaskPushNotificationConfig", &hook),
        ("SendMessage", &inline),
    ] {
        assert_eq!(agent.rpc(method, params)["error"]["code"], -32003, "{method}");
    }
    let one = format!("/tasks/{id}/pushNotificationConfigs/h");
    let all = format!("/tasks/{id}/pushNotificationConfigs");
    for (verb, path, body) in [
        ("POST", &all, &hook),
        ("GET", &all, &Value::Null),
        ("GET", &one, &Value::Null),
        ("DELETE", &one, &Value::Null),
        ("POST", &"/message:send".to_owned(), &inline),
    ] {
        let reply = agent.rest(verb, path, body);
        let reason = reply.json()["error"]["details"][0]["reason"].clone();
        let expected = (400, json!("PUSH_NOTIFICATION_NOT_SUPPORTED"));
        assert_eq!((reply.status, reason), expected, "{verb} {path}");
    }
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let config = pb::TaskPushNotificationConfig {
        tenant: "approve_and_send".into(),
        task_id: id,
        url: "https://example.com/hook".into(),
        ..Default::default()
    };
    let made = client.create_task_push_notification_config(asked(config, "")).await;
    let expected = (Code::FailedPrecondition, "PUSH_NOTIFICATION_NOT_SUPPORTED".to_owned());
    assert_eq!(no(made), expected);
    assert_eq!(agent.call("ListTasks", &json!({}))["totalSize"], 1, "none left a trace");
}

#[tokio::test]
async fn d2_another_callers_task_looks_like_none_on_http_and_grpc_too() {
    let here = TempDir::new().unwrap();
    let (ada, bob) = (key_of(here.path(), "ada"), key_of(here.path(), "bob"));
    let server = Setup::new(here.path()).arg("--keys=keys.toml").start();
    let agent = Agent::new(server.address(), "/a2a/approve_and_send");
    let as_key = |key: &str| agent.clone().with(&format!("Authorization: Bearer {key}"));
    let id = as_key(&ada).send(&text("m1", "Tell Ada."))["id"].as_str().unwrap().to_owned();
    let none = "run_00000000000000000000000000";
    let hook = json!({"url": "https://example.com/hook"});
    for (verb, path, body) in [
        ("GET", "/tasks/{id}", &Value::Null),
        ("POST", "/tasks/{id}:cancel", &Value::Null),
        ("GET", "/tasks/{id}:subscribe", &Value::Null),
        ("POST", "/tasks/{id}/pushNotificationConfigs", &hook),
        ("GET", "/tasks/{id}/pushNotificationConfigs", &Value::Null),
        ("GET", "/tasks/{id}/pushNotificationConfigs/h", &Value::Null),
        ("DELETE", "/tasks/{id}/pushNotificationConfigs/h", &Value::Null),
    ] {
        let of = |task: &str| as_key(&bob).rest(verb, &path.replace("{id}", task), body);
        let (theirs, unknown) = (of(&id), of(none));
        assert_eq!((theirs.status, unknown.status), (404, 404), "{verb} {path}");
        assert_eq!(theirs.body.replace(&id, none), unknown.body, "{verb} {path}");
    }
    let mut client = A2aServiceClient::connect(server.url()).await.unwrap();
    let tenant = || "approve_and_send".to_owned();
    let get = |id: &str, key: &str| {
        asked(GetTaskRequest { tenant: tenant(), id: id.into(), history_length: None }, key)
    };
    let (theirs, unknown) =
        (client.get_task(get(&id, &bob)).await, client.get_task(get(none, &bob)).await);
    assert_eq!(no(theirs), no(unknown));
    let words = part("", part::Content::Text("approve".into()));
    let answer = said(vec![words], |it| it.task_id.clone_from(&id));
    let answered = client.send_message(asked(answer, &bob)).await;
    assert_eq!(no(answered), (Code::NotFound, "TASK_NOT_FOUND".into()));
    let cancel = pb::CancelTaskRequest { tenant: tenant(), id: id.clone(), metadata: None };
    assert_eq!(no(client.cancel_task(asked(cancel, &bob)).await).0, Code::NotFound);
    let subscribe = pb::SubscribeToTaskRequest { tenant: tenant(), id: id.clone() };
    let stream = client.subscribe_to_task(asked(subscribe, &bob)).await;
    assert_eq!(no(stream.map(|_| ())).0, Code::NotFound);
    let stranger = client.get_task(get(&id, "")).await;
    assert_eq!(no(stranger).0, Code::Unauthenticated);
    let hers = client.get_task(get(&id, &ada)).await.unwrap().into_inner();
    assert_eq!(hers.status.unwrap().state(), pb::TaskState::InputRequired);
}

#[test]
fn a_body_that_is_no_json_or_of_another_kind_is_refused_on_http() {
    let (_here, _server, agent) = server();
    let json = agent.clone().with("Content-Type: application/json");
    let path = "/a2a/approve_and_send/message:send";
    for body in ["", "{", "null", "[]", "7"] {
        let reply = json.http("POST", path, body);
        let reason = reply.json()["error"]["details"][0]["reason"].clone();
        assert_eq!(reply.status, 400, "{body}: {reason}");
        assert!(reason == "call.no_json" || reason == "field.invalid", "{body}: {reason}");
    }
    let nothing = agent.http("POST", path, "{}");
    let reason = nothing.json()["error"]["details"][0]["reason"].clone();
    assert_eq!(reason, "CONTENT_TYPE_NOT_SUPPORTED", "no type at all");
    for page in ["pageSize=0", "pageSize=-1", "pageSize=101", "pageToken=x", "status=WAITING"] {
        let reply = agent.rest("GET", &format!("/tasks?{page}"), &Value::Null);
        assert_eq!(reply.status, 400, "{page}");
    }
    let no_version = Agent { headers: Vec::new(), ..agent };
    let reply = no_version.rest("GET", "/tasks", &Value::Null);
    assert_eq!(reply.json()["error"]["details"][0]["reason"], "VERSION_NOT_SUPPORTED");
    let asked = no_version.rest("GET", "/tasks?A2A-Version=1.0", &Value::Null);
    assert_eq!(asked.status, 200, "the version may be in the query");
}

#[test]
fn a_foreign_name_or_page_is_turned_away_where_no_key_guards_the_machine() {
    let (_here, server, agent) = server();
    let http = |head: &str, path: &str| {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": "ListTasks"}).to_string();
        let fixed = "A2A-Version: 1.0\r\nContent-Type: application/json";
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\n{head}\r\n{fixed}\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.split(' ').nth(1).unwrap().parse::<u16>().unwrap()
    };
    let own = format!("Host: {}", server.address());
    for path in ["/a2a/approve_and_send", "/v1/responses", "/v1/conversations"] {
        assert!(![421, 403].contains(&http(&own, path)), "{path}");
        assert_eq!(http("Host: evil.example", path), 421, "{path}");
        for foreign in ["http://evil.example", "null", "http://127.0.0.1:1"] {
            assert_eq!(http(&format!("{own}\r\nOrigin: {foreign}"), path), 403, "{path} {foreign}");
        }
        let site = format!("{own}\r\nSec-Fetch-Site: cross-site");
        assert_eq!(http(&site, path), 403, "{path}");
    }
    assert_eq!(agent.call("ListTasks", &json!({}))["totalSize"], 0);
}
