//! What a body of `POST /v1/responses` may say beside the words: honoured, or refused by name; and said once.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::calls::Agent;
use crate::bridge::calls::{Caller, call_id, output};
use crate::bridge::sdk::Sdk;
use crate::support::server::Server;

const APPROVE: &str = "approve_and_send";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

/// The statuses of a workflow's runs.
fn statuses(caller: &Caller, workflow: &str) -> Vec<String> {
    let listed = caller.get(&format!("/v1/workflows/{workflow}/runs")).ok();
    let status = |run: &Value| run["status"].as_str().unwrap().to_owned();
    listed["data"].as_array().unwrap().iter().map(status).collect()
}

#[test]
fn what_a_workflow_does_not_take_from_its_caller_is_refused_by_name() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let schema =
        json!({"format": {"type": "json_schema", "name": "x", "schema": {"type": "object"}}});
    let spoken = |role: &str| json!([{"role": role, "content": "Be brief."}, {"role": "user", "content": "Hi."}]);
    let tool = |name: &str| json!([{"type": "function", "name": name, "parameters": {}}]);
    for (field, value, param) in [
        ("instructions", json!("Be brief."), "instructions"),
        ("prompt", json!({"id": "pmpt_1"}), "prompt"),
        ("tools", tool("get_weather"), "tools"),
        ("tools", json!([{"type": "web_search"}]), "tools"),
        ("tools", json!([tool("request_info")[0], tool("pay")[0]]), "tools"),
        ("tools", json!({"type": "function", "name": "request_info"}), "tools"),
        ("text", schema, "text.format"),
        ("input", spoken("system"), "input[0].role"),
        ("input", spoken("developer"), "input[0].role"),
    ] {
        let mut body = json!({"model": APPROVE, "input": "Tell Ada."});
        body[field] = value;
        let refused = caller.post("/v1/responses", &body).refusal();
        assert_eq!(refused, (400, "field.invalid".into(), param.into()), "{body}");
    }
    assert_eq!(statuses(&caller, APPROVE), Vec::<String>::new(), "nothing was begun");
    // What says nothing, and what only tunes a model, is no wish; the function that a pause calls may be named.
    let body = json!({
        "model": APPROVE, "input": "Tell Ada.", "instructions": "", "tools": tool("request_info"),
        "text": {"format": {"type": "text"}}, "temperature": 0.1, "store": false, "max_output_tokens": 9,
    });
    assert_eq!(caller.post("/v1/responses", &body).ok()["status"], "completed");
}

#[test]
fn openais_sdk_is_told_that_nothing_is_put_into_a_conversation_unsaid() {
    let (_here, server) = server();
    let told = Sdk::Python.act(&server, &["put_items", "Hello."]);
    let no = json!({"refused": "field.invalid", "status": 400, "param": "items"});
    assert_eq!(told, [no.clone(), no]);
}

#[test]
fn the_last_leg_of_a_handoff_has_the_words_that_it_ended_with() {
    let (_here, server) = server();
    for (workflow, words) in [
        ("chat", &["One.", "Two.", "Three.", "Four."][..]),
        (
            "multi_tier_support",
            &["I want a replacement.", "It arrived damaged.", "Is it charged?", "Thank you!"],
        ),
    ] {
        let first = Sdk::Python.told(&server, &["start", workflow, words[0]]);
        let conversation = first["conversation"].as_str().unwrap();
        let mut last = Value::Null;
        for said in &words[1..] {
            last = Sdk::Python.told(&server, &["say_in", workflow, conversation, said]);
        }
        assert_eq!(last["whole"]["workflow_waiting"], Value::Null, "{workflow}: {last}");
        let text = last["text"].as_str().unwrap();
        assert!(!text.is_empty(), "{workflow}: {last}");
        assert!(!last["whole"]["output"].as_array().unwrap().is_empty(), "{workflow}: {last}");
    }
}

/// What DevUI calls an executor, by its step, as a response ends.
fn executors(response: &Value) -> Vec<(String, String)> {
    let items = response["output"].as_array().unwrap().iter();
    let items = items.filter(|item| item["type"] == "executor_action");
    let word = |item: &Value, field: &str| item[field].as_str().unwrap().to_owned();
    items.map(|item| (word(item, "executor_id"), word(item, "status"))).collect()
}

#[test]
fn devui_shows_no_step_at_work_while_its_run_waits() {
    let (_here, server) = server();
    let body = json!({
        "metadata": {"entity_id": "event_planning"}, "stream": true, "input": "Plan a party for 30 people",
    });
    let told = Caller::new(server.address()).events("POST", "/v1/responses", &body);
    let last = told.last().unwrap();
    assert_eq!(last.kind(), "response.completed");
    assert_ne!(last.data["response"]["workflow_waiting"], Value::Null);
    let steps = executors(&last.data["response"]);
    assert!(steps.iter().any(|(step, _)| step == "venue"), "the one that asks: {steps:?}");
    assert!(steps.iter().all(|(_, status)| status != "in_progress"), "{steps:?}");
    // Its page reads the events: each step that began was told to have stopped.
    let of = |kind: &str| {
        let of_kind = told.iter().filter(|sse| sse.kind() == kind);
        of_kind.filter(|sse| sse.data["item"]["type"] == "executor_action").count()
    };
    assert_eq!(of("response.output_item.added"), of("response.output_item.done"));
}

#[test]
fn k7_a_body_that_says_one_thing_twice_is_refused_at_every_http_door() {
    let (_here, server) = server();
    let caller = Caller::new(server.address()).with("Content-Type: application/json");
    let asked = caller.start(APPROVE, "Tell Ada.");
    let id = call_id(&asked);
    let run = asked["run_id"].as_str().unwrap();
    let twice = format!(r#"{{"{id}": "reject", "{id}": "approve"}}"#);
    let item = r#"{"type": "function_call_output", "call_id": "ID", "output": "reject", "output": "approve"}"#;
    let item = item.replace("ID", &id);
    let packed = json!(format!("[{item}]"));
    let fields = r#"{"decision": "reject", "decision": "approve"}"#;
    for (path, body, place) in [
        (
            "/v1/responses".to_owned(),
            format!(r#"{{"model": "{APPROVE}", "input": [{item}]}}"#),
            "input.0.output".to_owned(),
        ),
        (
            "/v1/responses".to_owned(),
            format!(r#"{{"metadata": {{"entity_id": "{APPROVE}"}}, "input": {packed}}}"#),
            "input.0.output".to_owned(),
        ),
        (
            format!("/v1/workflows/{APPROVE}/send_responses"),
            format!(r#"{{"responses": {twice}}}"#),
            format!("responses.{id}"),
        ),
        (
            format!("/v1/workflows/{APPROVE}/requests/{id}/responses"),
            format!(r#"{{"response": {fields}}}"#),
            "response.decision".to_owned(),
        ),
    ] {
        let refused = caller.raw("POST", &path, &body).refusal();
        assert_eq!(refused, (400, "call.duplicate_key".into(), place), "{path} {body}");
    }
    // The same as a text, and the answer under two names.
    let text = json!({"model": APPROVE, "input": [output(&id, fields)]});
    assert_eq!(caller.post("/v1/responses", &text).refusal().1, "answer.invalid");
    let path = format!("/v1/workflows/{APPROVE}/requests/{id}/responses");
    let both = json!({"response": "reject", "value": "approve"});
    assert_eq!(caller.post(&path, &both).refusal().2, "response");

    let part = format!(r#"{{"data": {{"responses": {twice}}}}}"#);
    let message = format!(
        r#"{{"messageId": "m1", "role": "ROLE_USER", "taskId": "{run}", "parts": [{part}]}}"#
    );
    let call = format!(
        r#"{{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {{"message": {message}}}}}"#
    );
    let agent = Agent::new(server.address(), "/a2a/approve_and_send")
        .with("Content-Type: application/json");
    let refused = agent.http("POST", "/a2a/approve_and_send", &call).json();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert!(refused.to_string().contains("call.duplicate_key"), "{refused}");
    let sent = format!(r#"{{"message": {message}}}"#);
    let refused = agent.http("POST", "/a2a/approve_and_send/message:send", &sent);
    assert_eq!(refused.status, 400, "{refused:?}");
    assert!(refused.body.contains("call.duplicate_key"), "{refused:?}");
    assert_eq!(statuses(&caller, APPROVE), ["WAITING"], "nobody has decided anything");
}

#[test]
fn k7_a_digest_that_cannot_be_read_is_refused_at_every_http_door_and_nothing_is_taken() {
    let (_here, server) = server();
    let caller = Caller::new(server.address()).with("Content-Type: application/json");
    let asked = caller.start(APPROVE, "Tell Ada.");
    let id = call_id(&asked);
    let run = asked["run_id"].as_str().unwrap();
    let responses = "/v1/responses".to_owned();
    let of_workflow = format!("/v1/workflows/{APPROVE}/send_responses");
    let of_request = format!("/v1/workflows/{APPROVE}/requests/{id}/responses");
    let item = |more: Value| {
        let mut item = output(&id, "approve");
        item.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        json!({"model": APPROVE, "input": [item]})
    };
    let body = |more: Value| {
        let mut body = item(json!({}));
        body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        body
    };
    let nothing = "0".repeat(64);
    let hil = json!({"type": "workflow_hil_response", "responses": {&id: "approve"}, "digests": 5});
    let said = json!([{"role": "user", "content": [hil]}]);
    for (path, body, place) in [
        (&responses, body(json!({"digests": 5})), "digests"),
        (&responses, body(json!({"digests": [{&id: nothing}]})), "digests"),
        (&responses, body(json!({"digest": nothing})), "digest"),
        (&responses, body(json!({"Digests": {&id: nothing}})), "Digests"),
        (&responses, item(json!({"digest": 5})), "input[0].digest"),
        (&responses, item(json!({"digests": nothing})), "input[0].digests"),
        (&responses, item(json!({"status": "incomplete"})), "input[0].status"),
        (&responses, json!({"model": APPROVE, "input": said}), "digests"),
        (&of_workflow, json!({"responses": {&id: "approve"}, "digests": "x"}), "digests"),
        (&of_workflow, json!({"responses": {&id: "approve"}, "digest": "x"}), "digest"),
        (&of_request, json!({"response": "approve", "digests": true}), "digests"),
        (&of_request, json!({"response": "approve", "digest": 5}), "digest"),
    ] {
        let refused = caller.post(path, &body).refusal();
        assert_eq!(refused, (400, "field.invalid".into(), place.into()), "{path} {body}");
    }
    let agent = Agent::new(server.address(), "/a2a/approve_and_send")
        .with("Content-Type: application/json");
    for wrong in [json!({"digests": 5}), json!({"digests": "x"}), json!({"digest": "x"})] {
        let mut data = json!({"responses": {&id: "approve"}});
        data.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        let sent = json!({"message": {
            "messageId": wrong.to_string(), "role": "ROLE_USER", "taskId": run, "parts": [{"data": data}],
        }});
        let refused = agent.http("POST", "/a2a/approve_and_send/message:send", &sent.to_string());
        assert_eq!(refused.status, 400, "{refused:?}");
    }
    assert_eq!(statuses(&caller, APPROVE), ["WAITING"], "nobody has decided anything");
}

#[test]
fn k7_a_field_of_ours_that_is_something_else_or_nearly_named_is_refused() {
    let (_here, server) = server();
    let caller = Caller::new(server.address()).with("Content-Type: application/json");
    let gate = json!([{"name": "mine", "steps": ["send"]}]);
    for (name, value) in [
        ("previous_response_id", json!(5)),
        ("previous_response_id", json!({"id": "resp_1"})),
        ("conversation", json!(5)),
        ("checkpoint_id", json!(5)),
        ("gate", gate.clone()),
        ("Gates", gate.clone()),
        ("holdpoint.gates", gate),
    ] {
        let mut body = json!({"model": APPROVE, "input": "Tell Ada."});
        body[name] = value;
        let refused = caller.post("/v1/responses", &body).refusal();
        assert_eq!(refused, (400, "field.invalid".into(), name.into()), "{body}");
    }
    let twice = r#"[{"name": "m", "steps": ["send"], "to": ["bob"], "to": ["eve"]}]"#;
    let body = json!({"model": APPROVE, "input": "x", "gates": twice});
    assert_eq!(caller.post("/v1/responses", &body).refusal().2, "gates");
    let body = json!({"model": APPROVE, "input": "x", "metadata": {" Holdpoint.gates": "[]"}});
    assert_eq!(caller.post("/v1/responses", &body).refusal().0, 400);
    assert!(statuses(&caller, APPROVE).is_empty(), "nothing has begun");
}
