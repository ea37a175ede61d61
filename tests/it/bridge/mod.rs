//! The HTTP bridge on the real binary: what is refused and how, who sees what, and that every other
//! door sees the same.

pub(crate) mod calls;
pub(crate) mod conversations;
pub(crate) mod dialects;
pub(crate) mod fields;
pub(crate) mod frameworks;
pub(crate) mod frameworks_history;
pub(crate) mod frameworks_torn;
pub(crate) mod live;
pub(crate) mod sdk;
pub(crate) mod web_pages;

use std::path::Path;
use std::process::Command;

use holdpoint::kernel::schema;
use holdpoint::wire::v1::{ListRequestsRequest, RunStatus};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::calls::{Caller, Reply, call_id, kinds, output};
use crate::support::server::{
    Server, Setup, answer_to, forget_settings, names, run, send, start_of,
};

const APPROVE: &str = "approve_and_send";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

fn answer(items: &[Value]) -> Value {
    json!({"model": APPROVE, "input": items})
}

#[test]
fn two_answers_are_one_and_the_second_is_told_who_was_first() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let id = call_id(&caller.start(APPROVE, "Tell Ada."));
    let done = caller.post("/v1/responses", &answer(&[output(&id, "approve")])).ok();
    assert_eq!(done["output"][0]["content"][0]["text"], "Sent: Tell Ada.");
    let second = caller.post("/v1/responses", &answer(&[output(&id, "reject")]));
    assert_eq!(second.refusal().0, 409);
    assert_eq!(second.json()["error"]["answered_by"], "local");
    assert!(second.head.to_lowercase().contains("x-should-retry: false"), "{}", second.head);
}

#[test]
fn the_same_call_with_the_same_key_is_one_call() {
    let (_here, mut server) = server();
    let caller = |server: &Server| Caller::new(server.address()).with("Idempotency-Key: k1");
    let first = caller(&server).start(APPROVE, "Tell Ada.");
    server.restart();
    assert_eq!(caller(&server).start(APPROVE, "Tell Ada."), first);
    let other = json!({"model": APPROVE, "input": "Tell Bob."});
    let refused = caller(&server).post("/v1/responses", &other);
    assert_eq!(refused.refusal().1, "idempotency_key.reused");
    let caller = Caller::new(server.address()).with("Idempotency-Key: k2");
    let said = answer(&[output(&call_id(&first), "approve")]);
    let done = caller.post("/v1/responses", &said).ok();
    assert_eq!(caller.post("/v1/responses", &said).ok(), done, "the first outcome, again");
}

#[test]
fn an_id_of_one_conversation_is_unknown_in_another() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let start = |conversation: &str| {
        let body = json!({"model": APPROVE, "input": "Hello", "conversation": conversation});
        caller.post("/v1/responses", &body).ok()
    };
    let (one, other) = (start("one"), start("other"));
    assert_eq!(one["conversation"]["id"], "one");
    let mut stray = answer(&[output(&call_id(&one), "approve")]);
    stray["conversation"] = json!({"id": "other"});
    assert_eq!(caller.post("/v1/responses", &stray).refusal().0, 404);
    stray["conversation"] = Value::Null;
    stray["previous_response_id"] = other["id"].clone();
    assert_eq!(caller.post("/v1/responses", &stray).refusal().0, 404);
    stray["conversation"] = json!("one");
    assert_eq!(caller.post("/v1/responses", &stray).refusal().2, "conversation");
    stray["previous_response_id"] = one["id"].clone();
    assert_eq!(caller.post("/v1/responses", &stray).ok()["workflow_waiting"], Value::Null);
    // A plain message in a conversation that waits for a decision is none.
    let body = json!({"model": APPROVE, "input": "perhaps", "conversation": "other"});
    assert_eq!(
        caller.post("/v1/responses", &body).ok()["id"],
        other["id"],
        "words alone decide nothing: it is asked again"
    );
    let code = other["workflow_waiting"]["requests"][0]["code"].as_str().unwrap();
    let yes = format!("approve {code}");
    let body = json!({"model": APPROVE, "input": yes, "conversation": "other"});
    let done = caller.post("/v1/responses", &body).ok();
    assert_eq!((&done["run_id"], &done["workflow_waiting"]), (&other["run_id"], &Value::Null));
}

#[test]
fn a_bad_call_is_told_which_field_and_what_to_do() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let id = call_id(&caller.start(APPROVE, "Tell Ada."));
    let unknown = "req_00000000000000000000000000-0001";
    let message = |part: Value| json!([{"role": "user", "content": [part]}]);
    let approval =
        json!([{"type": "mcp_approval_response", "approval_request_id": id, "approve": "yes"}]);
    let cases: [(Value, (u16, &str, &str)); 12] = [
        (json!({"input": "x"}), (400, "field.invalid", "model")),
        (json!({"model": APPROVE}), (400, "field.invalid", "input")),
        (json!({"model": APPROVE, "input": []}), (400, "field.invalid", "input")),
        (json!({"model": APPROVE, "input": 7}), (400, "field.invalid", "input")),
        (json!({"model": "nobody", "input": "x"}), (404, "workflow.unknown", "model")),
        (
            json!({"model": APPROVE, "input": "x", "stream": "yes"}),
            (400, "field.invalid", "stream"),
        ),
        (
            json!({"model": APPROVE, "input": "x", "conversation": 7}),
            (400, "field.invalid", "conversation"),
        ),
        (
            json!({"model": APPROVE, "input": "x", "conversation": "two words"}),
            (400, "field.invalid", "conversation"),
        ),
        (
            json!({"model": APPROVE, "input": message(json!({"type": "input_image"}))}),
            (400, "field.invalid", "input[0].content[0]"),
        ),
        (json!({"model": APPROVE, "input": approval}), (400, "field.invalid", "input[0].approve")),
        (
            answer(&[output(unknown, "x")]),
            (404, "request.unknown", "responses[req_00000000000000000000000000-0001]"),
        ),
        (answer(&[output("call_7", "x")]), (404, "request.unknown", "responses[call_7]")),
    ];
    for (body, (status, code, param)) in cases {
        let refused = caller.post("/v1/responses", &body).refusal();
        assert_eq!(refused, (status, code.into(), param.into()), "{body}");
    }
    let wrong = caller.post("/v1/responses", &answer(&[output(&id, "perhaps")]));
    assert_eq!(wrong.refusal(), (400, "answer.invalid".into(), format!("responses[{id}]")));
    assert!(wrong.json()["error"]["message"].as_str().unwrap().contains("`approve` or `reject`"));
    assert_eq!(caller.post("/v1/responses", &answer(&[output(&id, "approve")])).status, 200);
}

#[test]
fn a_body_that_is_no_call_is_refused_before_anything_is_done() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let json = caller.clone().with("Content-Type: application/json");
    assert_eq!(json.raw("POST", "/v1/responses", "{").refusal().1, "call.no_json");
    assert_eq!(json.raw("POST", "/v1/responses", "[1]").refusal().1, "field.invalid");
    // What a stranger's page can have a browser send is not taken for a call.
    let plain = caller.clone().with("Content-Type: text/plain");
    let refused =
        plain.raw("POST", "/v1/responses", r#"{"model": "approve_and_send", "input": "x"}"#);
    assert_eq!(refused.refusal().0, 415);
    let large = format!(r#"{{"model": "x", "input": "{}"}}"#, "x".repeat(5 << 20));
    assert_eq!(json.raw("POST", "/v1/responses", &large).refusal().0, 413);
    assert_eq!(caller.get("/v1/nothing").refusal().1, "path.unknown");
    assert_eq!(caller.raw("PUT", "/v1/responses", "").refusal().0, 405);
    for id in ["resp_x", "resp_00000000000000000000000000-000000", "%20"] {
        assert_eq!(
            caller.get(&format!("/v1/responses/{id}")).refusal().1,
            "response.unknown",
            "{id}"
        );
    }
    // A place in the journal where nobody asked for anything is no response.
    let first = caller.start(APPROVE, "Tell Ada.")["id"].as_str().unwrap().to_owned();
    let between = first.replace("-000000", "-000002");
    assert_eq!(caller.get(&format!("/v1/responses/{between}")).refusal().1, "response.unknown");
    let bad = caller.get(&format!("/v1/responses/{first}?stream=true&starting_after=x"));
    assert_eq!(bad.refusal().2, "starting_after");
    assert_eq!(
        caller.get("/v1/workflows/approve_and_send/runs").ok()["data"].as_array().unwrap().len(),
        1
    );
}

/// The secret of a new key.
pub(crate) fn key_of(here: &Path, name: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    forget_settings(&mut command);
    command.args(["keys", "add", name, "--json", "--keys", "keys.toml"]).current_dir(here);
    let told: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
    told["secret"].as_str().unwrap().to_owned()
}

#[test]
fn d2_what_is_another_callers_looks_like_nothing() {
    let here = TempDir::new().unwrap();
    let (ada, bob) = (key_of(here.path(), "ada"), key_of(here.path(), "bob"));
    let server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    let stranger = Caller::new(server.address());
    let with = |key: &str| stranger.clone().with(&format!("Authorization: Bearer {key}"));
    let (ada, bob) = (with(&ada), with(&bob));
    let refused = stranger.get("/v1/models");
    assert_eq!(refused.refusal(), (401, "auth.missing".into(), "authorization".into()));
    assert!(refused.head.to_lowercase().contains("www-authenticate: bearer"), "{}", refused.head);
    assert!(refused.body.contains("wants an API key"), "{}", refused.body);
    for path in ["/v1/models", "/a2a/approve_and_send/tasks"] {
        let unknown = with("hp_of_nobody").with("A2A-Version: 1.0").get(path);
        assert_eq!(unknown.status, 401, "{path}: {}", unknown.body);
        assert!(unknown.body.contains("is unknown here"), "{path}: {}", unknown.body);
    }

    let first = ada.start(APPROVE, "Tell Ada.");
    let (id, request) = (first["id"].as_str().unwrap(), call_id(&first));
    let run = first["run_id"].as_str().unwrap();
    let nobody = "00000000000000000000000000";
    let same = |theirs: &Reply, none: &Reply, own: &str| {
        assert_eq!(theirs.status, 404, "{theirs:?}");
        let stem = run.strip_prefix("run_").unwrap();
        assert_eq!(theirs.body.replace(stem, nobody), none.body, "{own}");
    };
    for path in [
        "/v1/responses/resp_STEM-000000",
        "/v1/runs/run_STEM/status",
        "/v1/runs/run_STEM/audit",
        "/v1/responses/resp_STEM-000000/input_items",
    ] {
        let at = |stem: &str| bob.get(&path.replace("STEM", stem));
        same(&at(run.strip_prefix("run_").unwrap()), &at(nobody), path);
    }
    let stolen = |request: &str| bob.post("/v1/responses", &answer(&[output(request, "approve")]));
    same(
        &stolen(&request),
        &stolen(&request.replace(run.strip_prefix("run_").unwrap(), nobody)),
        "answer",
    );
    let cancel = bob.post(&format!("/v1/responses/{id}/cancel"), &json!({}));
    assert_eq!(cancel.status, 404);
    let path = format!("/v1/workflows/{APPROVE}/send_responses");
    assert_eq!(bob.post(&path, &json!({"responses": {&request: "approve"}})).status, 404);
    assert_eq!(bob.post(&path, &json!({"input": "approve"})).refusal().1, "session.ambiguous");
    assert_eq!(ada.get(&format!("/v1/responses/{id}")).ok(), first, "nothing has changed");
    let words = ada.post(&path, &json!({"input": "approve", "stream": false}));
    assert_eq!(words.refusal(), (400, "answer.unbound".into(), "input".into()));
    let code = first["workflow_waiting"]["requests"][0]["code"].as_str().unwrap();
    let yes = json!({"input": format!("approve {code}"), "stream": false});
    assert_eq!(ada.post(&path, &yes).ok()["run_id"], run);
}

#[tokio::test]
async fn d1_a_run_goes_through_every_door() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let mut client = server.client().await;
    // Begun over HTTP, answered over gRPC.
    let first = caller.start(APPROVE, "Tell Ada.");
    let open = client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner();
    assert_eq!(open.requests[0].request_id, call_id(&first));
    let events = send(&mut client, answer_to(&open.requests[0].request_id, "approve", "")).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    let status = caller.get(&format!("/v1/runs/{}/status", events[0].run_id)).ok();
    assert_eq!(status["status"], "COMPLETED");
    // Begun over gRPC, answered over HTTP.
    let events = run(&mut client, start_of(APPROVE, "shared", "Tell Bob.", "")).await;
    let open = client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner();
    let yes = format!("approve {}", open.requests[0].code);
    let body = json!({"model": APPROVE, "input": yes, "conversation": "shared"});
    let done = caller.post("/v1/responses", &body).ok();
    assert_eq!(done["run_id"], events[0].run_id.as_str());
    let journal = crate::support::server::journal(&mut client, &events[0].run_id).await;
    assert_eq!(names(&journal).last(), Some(&"completed"));
    let audit = caller.get(&format!("/v1/runs/{}/audit", events[0].run_id)).ok();
    let answered =
        audit["events"].as_array().unwrap().iter().find_map(|event| event["event"].get("answered"));
    assert_eq!(answered.unwrap()["door"], "http");
    assert_eq!(
        client
            .list_runs(holdpoint::wire::v1::ListRunsRequest {
                status: RunStatus::Waiting.into(),
                ..Default::default()
            })
            .await
            .unwrap()
            .into_inner()
            .runs
            .len(),
        0
    );
}

#[test]
fn a_caller_that_leaves_changes_nothing_and_finds_everything() {
    let (_here, mut server) = server();
    let start = json!({"model": "errand", "input": "an order", "stream": true});
    let mut stream = Caller::new(server.address()).follow("POST", "/v1/responses", &start);
    let first = stream.next().unwrap();
    drop(stream);
    server.restart();
    let id = first.data["response"]["id"].as_str().unwrap();
    let path = format!("/v1/responses/{id}?stream=true");
    let caller = Caller::new(server.address());
    let whole = caller.events("GET", &path, &Value::Null);
    assert_eq!(kinds(&whole).last(), Some(&"response.completed"));
    let response = &whole.last().unwrap().data["response"];
    assert_eq!(response["workflow_waiting"]["requests"][0]["prompt"], "Pay this?");
    // Text came in pieces, and the pieces are the text.
    let messages =
        response["output"].as_array().unwrap().iter().filter(|item| item["type"] == "message");
    for item in messages {
        let pieces: String = whole
            .iter()
            .filter(|sse| sse.data["item_id"] == item["id"])
            .filter_map(|sse| sse.data["delta"].as_str())
            .collect();
        assert_eq!(item["content"][0]["text"], pieces.as_str());
    }
    let last = caller.clone().with("Last-Event-ID: 3");
    let rest = last.events("GET", &path, &Value::Null);
    assert_eq!(rest[0].data, whole[4].data);
}

#[test]
fn a_tool_call_at_a_gate_is_a_request_to_approve_it() {
    let (_here, mut server) = server();
    for (approve, says) in [(true, "completed"), (false, "completed")] {
        let first = Caller::new(server.address()).start("guarded", "the release");
        let item = first["output"].as_array().unwrap().last().unwrap();
        assert_eq!(
            (&item["type"], &item["name"]),
            (&json!("mcp_approval_request"), &json!("deploy"))
        );
        let arguments: Value = serde_json::from_str(item["arguments"].as_str().unwrap()).unwrap();
        assert_eq!(arguments, json!({"target": "production"}));
        server.restart();
        let response = json!({"type": "mcp_approval_response", "approval_request_id": item["id"], "approve": approve});
        let body =
            json!({"model": "guarded", "previous_response_id": first["id"], "input": [response]});
        let caller = Caller::new(server.address());
        let done = caller.post("/v1/responses", &body).ok();
        assert_eq!(done["status"], says, "{done}");
        let audit =
            caller.get(&format!("/v1/runs/{}/audit", done["run_id"].as_str().unwrap())).ok();
        let events = audit["events"].as_array().unwrap();
        let was_called = events.iter().any(|event| event["event"].get("tool_called").is_some());
        assert_eq!(was_called, approve, "K4: {audit}");
    }
}

#[test]
fn what_the_description_names_is_served_and_nothing_else_is() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let description = caller.get("/openapi.json").ok();
    for (path, operations) in description["paths"].as_object().unwrap() {
        let real = path.replace(['{', '}'], "");
        for method in ["GET", "POST", "PUT", "PATCH", "DELETE"] {
            let reply = caller.raw(method, &real, "").json();
            let code = reply["error"]["code"].as_str().unwrap_or_default();
            let is_routed = code != "method.unknown" && code != "path.unknown";
            let is_told = operations.get(method.to_lowercase()).is_some();
            assert_eq!(is_routed, is_told, "{method} {real}: {reply}");
        }
    }
}

#[test]
fn the_previous_response_is_told_as_it_was_named() {
    let (_here, mut server) = server();
    let caller = Caller::new(server.address());
    let first = caller.start(APPROVE, "Tell Ada.");
    assert_eq!(first["previous_response_id"], Value::Null);
    let mut body = answer(&[output(&call_id(&first), "approve")]);
    body["previous_response_id"] = first["id"].clone();
    let done = caller.post("/v1/responses", &body).ok();
    assert_eq!(done["previous_response_id"], first["id"], "{done}");

    // A run of its own in the same conversation goes on from it too, here told as it happens.
    let body = json!({
        "model": APPROVE, "previous_response_id": done["id"], "input": "Tell Bob.", "stream": true,
    });
    let told = caller.events("POST", "/v1/responses?dialect=openai", &body);
    let objects: Vec<_> = told.iter().map(|sse| &sse.data["response"]).collect();
    let objects: Vec<_> = objects.into_iter().filter(|object| object.is_object()).collect();
    assert!(objects.len() >= 3, "{told:?}");
    for object in &objects {
        assert_eq!(object["previous_response_id"], done["id"], "{object}");
    }
    let next = (*objects.last().unwrap()).clone();
    assert_ne!(next["run_id"], done["run_id"]);
    assert_eq!(next["conversation"], done["conversation"]);
    server.restart();
    let caller = Caller::new(server.address());
    for object in [&first, &done, &next] {
        let path = format!("/v1/responses/{}", object["id"].as_str().unwrap());
        assert_eq!(caller.get(&path).ok(), *object);
    }
}

#[test]
fn the_description_is_served_and_what_is_answered_fits_it() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let description = caller.get("/openapi.json").ok();
    let fits = |path: &str, method: &str, value: &Value| {
        let mut described = description["paths"][path][method]["responses"]["200"]["content"]["application/json"]["schema"].clone();
        assert!(described.is_object(), "{method} {path} is not described");
        // Referred to from where they are.
        described["components"] = description["components"].clone();
        let fits = schema::check(&described, value);
        assert!(fits.is_ok(), "{method} {path}: {fits:?}\n{value}");
    };
    let waiting = caller.start(APPROVE, "Tell Ada.");
    fits("/v1/responses", "post", &waiting);
    let (id, run) = (waiting["id"].as_str().unwrap(), waiting["run_id"].as_str().unwrap());
    let get = |path: &str, real: &str| fits(path, "get", &caller.get(real).ok());
    get("/v1/responses/{response_id}", &format!("/v1/responses/{id}"));
    get("/v1/responses/{response_id}/input_items", &format!("/v1/responses/{id}/input_items"));
    get("/v1/models", "/v1/models");
    let conversation = caller.post("/v1/conversations", &json!({"metadata": {"a": "b"}})).ok();
    fits("/v1/conversations", "post", &conversation);
    let own = format!("/v1/conversations/{}", conversation["id"].as_str().unwrap());
    let held = format!("/v1/conversations/{}", waiting["conversation"]["id"].as_str().unwrap());
    let path = "/v1/conversations/{conversation_id}";
    get("/v1/conversations", "/v1/conversations");
    get(path, &held);
    fits(path, "post", &caller.post(&own, &json!({"metadata": {"a": "c"}})).ok());
    fits(path, "delete", &caller.raw("DELETE", &own, "").ok());
    get("/v1/conversations/{conversation_id}/items", &format!("{held}/items"));
    let items = caller.get(&format!("{held}/items")).ok();
    let one = format!("{held}/items/{}", items["data"][0]["id"].as_str().unwrap());
    get("/v1/conversations/{conversation_id}/items/{item_id}", &one);
    get("/v1/models/{workflow_id}", "/v1/models/approve_and_send");
    get("/health", "/health");
    get("/meta", "/meta");
    get("/v1/entities", "/v1/entities");
    get("/v1/entities/{workflow_id}/info", "/v1/entities/approve_and_send/info");
    get("/v1/agents", "/v1/agents");
    get("/v1/workflows", "/v1/workflows");
    get("/v1/workflows/{workflow_id}", "/v1/workflows/approve_and_send");
    get("/v1/workflows/{workflow_id}/runs", "/v1/workflows/approve_and_send/runs");
    get("/v1/runs/{run_id}/status", &format!("/v1/runs/{run}/status"));
    get("/v1/runs/{run_id}/audit", &format!("/v1/runs/{run}/audit"));
    let path = "/v1/workflows/{workflow_id}/send_responses";
    let real = path.replace("{workflow_id}", APPROVE);
    let status = caller.get(&format!("/v1/runs/{run}/status")).ok();
    let code = status["workflow_waiting"]["requests"][0]["code"].as_str().unwrap().to_owned();
    let no = json!({"input": format!("reject {code}"), "stream": false});
    let done = caller.post(&real, &no).ok();
    assert_eq!(
        (&done["status"], &done["error"]["code"]),
        (&json!("failed"), &json!("question.rejected"))
    );
    fits(path, "post", &done);
    let other = caller.start(APPROVE, "Tell Bob.")["id"].as_str().unwrap().to_owned();
    let cancelled = caller.post(&format!("/v1/responses/{other}/cancel"), &json!({}));
    fits("/v1/responses/{response_id}/cancel", "post", &cancelled.ok());
    let deleted = caller.raw("DELETE", &format!("/v1/responses/{other}"), "").ok();
    fits("/v1/responses/{response_id}", "delete", &deleted);
    let refused = caller.get("/v1/responses/resp_x").json();
    let mut shape = description["components"]["schemas"]["Error"].clone();
    shape["components"] = description["components"].clone();
    assert!(schema::Compiled::of(&shape).fits(&refused), "{refused}");
}
