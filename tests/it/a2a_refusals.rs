//! A2A's refusals: each with the code of the protocol's table, the same on every binding.

use holdpoint::wire::lf::a2a_service_client::A2aServiceClient;
use holdpoint::wire::lf::{
    GetTaskRequest, Part, Role, SendMessageRequest, part, send_message_response,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::metadata::MetadataValue;
use tonic::{Code, Request};
use tonic_types::StatusExt as _;

use crate::a2a_calls::{Agent, state, text, to};
use crate::server::Server;

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
    let done = agent.send(&to(&task, text("m2", "approve")));
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
    let mut stream =
        client.send_streaming_message(say("approve", &task.id)).await.unwrap().into_inner();
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
