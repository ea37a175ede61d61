//! Conversations over HTTP: opened, labelled, listed, read, hidden; and a run taken up from a checkpoint.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::calls::{Caller, call_id, output};
use crate::support::server::Server;

const APPROVE: &str = "approve_and_send";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

fn ids(list: &Value) -> Vec<&str> {
    list["data"].as_array().unwrap().iter().map(|row| row["id"].as_str().unwrap()).collect()
}

#[test]
fn a_conversation_is_opened_before_anything_is_said_and_survives_a_kill() {
    let (_here, mut server) = server();
    let body = json!({"metadata": {"entity_id": APPROVE, "title": "For Ada"}});
    let opened = Caller::new(server.address()).post("/v1/conversations", &body).ok();
    let id = opened["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&opened["object"], &opened["metadata"]),
        (&json!("conversation"), &body["metadata"])
    );
    server.restart();
    let caller = Caller::new(server.address());
    let path = format!("/v1/conversations/{id}");
    assert_eq!(caller.get(&path).ok(), opened);
    assert_eq!(ids(&caller.get(&format!("{path}/items")).ok()), Vec::<&str>::new());
    let listed = caller.get(&format!("/v1/conversations?entity_id={APPROVE}")).ok();
    assert_eq!(ids(&listed), [id.as_str()]);
    assert_eq!(ids(&caller.get("/v1/conversations?entity_id=chat").ok()), Vec::<&str>::new());

    let say = json!({"model": APPROVE, "input": "Tell Ada.", "conversation": {"id": id}});
    let asked = caller.post("/v1/responses", &say).ok();
    assert_eq!(asked["conversation"]["id"], format!("conv_{id}"), "as OpenAI's clients take it");
    let alias = caller.get(&format!("/v1/conversations/conv_{id}")).ok();
    assert_eq!(alias["id"], id.as_str(), "and both names are taken");
    let waits = caller.get(&path).ok();
    assert_eq!(waits["workflow_waiting"]["requests"][0]["request_id"], call_id(&asked).as_str());
    let changed = caller.post(&path, &json!({"metadata": {"title": "Done"}})).ok();
    assert_eq!(changed["metadata"], json!({"title": "Done"}));
    server.restart();
    assert_eq!(Caller::new(server.address()).get(&path).ok(), changed);
}

#[test]
fn the_items_are_what_was_said_asked_and_saved() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let asked = caller.start(APPROVE, "Tell Ada.");
    let path = format!("/v1/conversations/{}/items", asked["conversation"]["id"].as_str().unwrap());
    let items = caller.get(&format!("{path}?order=asc")).ok();
    let kinds: Vec<_> = items["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["message", "message", "message", "function_call", "checkpoint"]);
    assert_eq!(items["data"][0]["content"][0]["text"], "Tell Ada.");
    assert_eq!(items["data"][3]["call_id"], call_id(&asked).as_str());
    let newest = caller.get(&format!("{path}?limit=2")).ok();
    let mut reversed = ids(&items);
    reversed.reverse();
    assert_eq!((ids(&newest), &newest["has_more"]), (reversed[..2].to_vec(), &json!(true)));
    let rest = caller.get(&format!("{path}?after={}", reversed[1])).ok();
    assert_eq!((ids(&rest), &rest["has_more"]), (reversed[2..].to_vec(), &json!(false)));
    assert_eq!(caller.get(&format!("{path}?after=x")).refusal().2, "after");
    assert_eq!(caller.get(&format!("{path}/x")).refusal().1, "item.unknown");
}

#[test]
fn what_is_deleted_is_shown_no_more_and_stays_in_the_journal() {
    let (_here, mut server) = server();
    let first = Caller::new(server.address()).start(APPROVE, "Tell Ada.");
    let caller = Caller::new(server.address());
    let id = first["id"].as_str().unwrap();
    let deleted = caller.raw("DELETE", &format!("/v1/responses/{id}"), "").ok();
    assert_eq!(deleted, json!({"id": id, "object": "response.deleted", "deleted": true}));
    let path = format!("/v1/conversations/{}", first["conversation"]["id"].as_str().unwrap());
    assert_eq!(caller.get(&path).status, 200);
    assert_eq!(caller.raw("DELETE", &path, "").ok()["deleted"], true);
    server.restart();
    let caller = Caller::new(server.address());
    assert_eq!(caller.get(&format!("/v1/responses/{id}")).refusal().1, "response.unknown");
    assert_eq!(caller.get(&path).refusal().1, "session.unknown");
    assert_eq!(caller.raw("DELETE", &path, "").refusal().1, "session.unknown");
    assert_eq!(ids(&caller.get("/v1/conversations").ok()), Vec::<&str>::new());
    let say = json!({"model": APPROVE, "input": "yes", "conversation": first["conversation"]});
    assert_eq!(caller.post("/v1/responses", &say).refusal().1, "session.unknown");
    let run = first["run_id"].as_str().unwrap();
    assert_eq!(caller.get(&format!("/v1/runs/{run}/status")).ok()["status"], "WAITING");
}

#[test]
fn devui_resumes_from_a_checkpoint_as_a_run_of_its_own() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    let first = caller.start(APPROVE, "Tell Ada.");
    let request = call_id(&first);
    let body = json!({"model": APPROVE, "input": [output(&request, "reject")]});
    assert_eq!(caller.post("/v1/responses", &body).ok()["status"], "failed");
    let path = format!("/v1/conversations/{}/items", first["conversation"]["id"].as_str().unwrap());
    let items = caller.get(&path).ok();
    let saved = items["data"].as_array().unwrap().iter().find(|item| item["type"] == "checkpoint");
    let checkpoint = saved.unwrap()["id"].as_str().unwrap();
    assert!(checkpoint.starts_with("checkpoint_chk_"), "{checkpoint}");
    let answer = json!([{"type": "message", "role": "user", "content": [
        {"type": "workflow_hil_response", "responses": {&request: {"response": "approve"}}},
    ]}]);
    let mut body = json!({
        "metadata": {"entity_id": APPROVE},
        "conversation": first["conversation"],
        "input": answer,
        "extra_body": {"checkpoint_id": checkpoint},
    });
    let asked = caller.post("/v1/responses", &body).ok();
    assert_ne!(asked["run_id"], first["run_id"]);
    let (bare, given) = (&asked["conversation"]["id"], &first["conversation"]["id"]);
    assert_eq!(given.as_str().unwrap(), format!("conv_{}", bare.as_str().unwrap()));
    let anew = asked["workflow_waiting"]["requests"][0]["request_id"].as_str().unwrap();
    assert_ne!(anew, request, "a fork carries no answer: it asks");
    let yes = json!({"model": APPROVE, "input": [output(anew, "approve")]});
    let done = caller.post("/v1/responses", &yes).ok();
    assert_eq!((&done["status"], &done["workflow_waiting"]), (&json!("completed"), &Value::Null));
    body["extra_body"]["checkpoint_id"] = json!("checkpoint_x");
    assert_eq!(caller.post("/v1/responses", &body).refusal().2, "checkpoint_id");
}
