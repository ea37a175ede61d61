//! A2A: the real binary as an agent: pauses, answers, streams, restarts, and who may see what.

pub(crate) mod calls;
pub(crate) mod card;
pub(crate) mod chain;
pub(crate) mod older;
pub(crate) mod onboarding;
pub(crate) mod refusals;
pub(crate) mod remote;
pub(crate) mod sdk;
pub(crate) mod spoken;

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::calls::{Agent, coded, state, text, to, word};
use crate::support::server::{Server, Setup, forget_settings};

const APPROVE: &str = "/a2a/approve_and_send";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

fn agent(server: &Server, path: &str) -> Agent {
    Agent::new(server.address(), path)
}

fn words(task: &Value) -> &str {
    task["status"]["message"]["parts"][0]["text"].as_str().unwrap()
}

fn result(task: &Value) -> &str {
    task["artifacts"][0]["parts"][0]["text"].as_str().unwrap()
}

#[test]
fn a_paused_task_is_answered_by_another_process_after_a_kill() {
    let (_here, mut server) = server();
    let asked = agent(&server, APPROVE).send(&text("m1", "Tell Ada."));
    assert_eq!(state(&asked), "INPUT_REQUIRED");
    let (yes, no) = (coded(&asked, "approve"), coded(&asked, "reject"));
    let back = coded(&asked, "return");
    let told = format!("Send this message?\n\nTell Ada.\n\nAnswer `{yes}`, `{no}` or `{back}`.");
    assert_eq!(words(&asked), told);

    server.restart();
    let done =
        agent(&server, APPROVE).send(&to(&asked, text("m2", &yes.replace("approve", "yes"))));
    assert_eq!((state(&done), result(&done)), ("COMPLETED", "Sent: Tell Ada."));
    assert_eq!(done["contextId"], asked["contextId"]);
    let again = agent(&server, APPROVE).call("GetTask", &json!({"id": asked["id"]}));
    // Whoever decided is given what proves it; whoever looks is not.
    let mut told = done.clone();
    let metadata = told.as_object_mut().unwrap().shift_remove("metadata").unwrap();
    assert_eq!(metadata["holdpoint.receipt"]["run_id"], asked["id"], "{metadata}");
    assert_eq!(again, told);
}

#[test]
fn a_task_that_was_working_when_the_server_died_goes_on_and_a_subscriber_sees_the_end() {
    let (_here, mut server) = server();
    let errand = |server: &Server| agent(server, "/a2a/errand");
    let now =
        json!({"message": text("m1", "an order"), "configuration": {"returnImmediately": true}});
    let task = errand(&server).call("SendMessage", &now)["task"].take();
    assert_eq!(state(&task), "WORKING");

    server.restart();
    let id = json!({"id": task["id"]});
    let mut watch = errand(&server).stream("SubscribeToTask", &id);
    let is_pause = |told: &Value| word(told).ends_with("INPUT_REQUIRED");
    let (_, asked) = watch.find(|(_, told)| is_pause(told)).expect("it went on to its question");
    let done = errand(&server).send(&to(&task, text("m2", &coded(&asked, "approve"))));
    assert_eq!(state(&done), "COMPLETED");
    let last = watch.last().unwrap();
    assert_eq!(word(&last.1), "COMPLETED");
}

#[test]
fn a_bad_answer_leaves_the_task_waiting_and_says_why() {
    let (_here, server) = server();
    let agent = agent(&server, APPROVE);
    let asked = agent.send(&text("m1", "Tell Ada."));
    let still = agent.send(&to(&asked, text("m2", "perhaps")));
    assert_eq!(state(&still), "INPUT_REQUIRED");
    assert!(words(&still).contains("words alone decide nothing"), "{still}");
    assert_eq!(still["status"]["message"]["parts"][1]["data"]["problem"]["code"], "answer.unbound");
    let strange =
        agent.send(&to(&asked, text("m3", &coded(&asked, "approve").replace("approve", "retry"))));
    assert_eq!(
        strange["status"]["message"]["parts"][1]["data"]["problem"]["code"],
        "answer.invalid"
    );
    let done = agent.send(&to(&asked, text("m4", &coded(&asked, "approve"))));
    assert_eq!(state(&done), "COMPLETED");
}

#[test]
fn the_same_message_again_is_one_answer_and_another_body_is_judged_on_its_own() {
    let (_here, mut server) = server();
    let chat = |server: &Server| agent(server, "/a2a/chat");
    let asked = chat(&server).send(&text("m1", "one"));
    let first = chat(&server).send(&to(&asked, text("m2", "two")));
    assert_eq!(state(&first), "INPUT_REQUIRED");
    server.restart();
    let again = chat(&server).send(&to(&asked, text("m2", "two")));
    assert_eq!(again["history"], first["history"], "nothing was said twice");
    let mut in_context = text("m2", "two");
    in_context["contextId"] = asked["contextId"].clone();
    assert_eq!(chat(&server).send(&in_context)["id"], asked["id"]);
    let other = chat(&server).send(&to(&asked, text("m2", "three")));
    let (before, after) = (first["history"].as_array(), other["history"].as_array());
    assert!(after.unwrap().len() > before.unwrap().len(), "{other}");
    // A new task is never an old one, however alike the messages are.
    assert_ne!(chat(&server).send(&text("m1", "one"))["id"], asked["id"]);
}

/// How many runs the server has read back from their journals.
fn loaded(server: &Server) -> u64 {
    counted(&server.page("/metrics").1)
}

/// The same, where the metrics are for those alone who have a key.
fn loaded_with(server: &Server, key: &str) -> u64 {
    let caller = agent(server, "/").with(&format!("Authorization: Bearer {key}"));
    counted(&caller.http("GET", "/metrics", "").body)
}

fn counted(metrics: &str) -> u64 {
    let line = metrics.lines().find_map(|line| line.strip_prefix("holdpoint_runs_loaded_total "));
    line.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_message_in_a_context_loads_no_run_but_the_one_that_it_is_for() {
    let (_here, mut server) = server();
    let within = |id: &str, words: &str| {
        let mut message = text(id, words);
        message["contextId"] = json!("our-talk");
        message
    };
    for n in 0..5 {
        let asked = agent(&server, APPROVE).send(&within(&format!("m{n}"), "Tell Ada."));
        let no = within(&format!("n{n}"), &coded(&asked, "reject"));
        assert_eq!(agent(&server, APPROVE).send(&no)["id"], asked["id"]);
    }
    let asked = agent(&server, APPROVE).send(&within("m9", "Tell Ben."));
    server.restart();
    let yes = within("n9", &coded(&asked, "approve"));
    let done = agent(&server, APPROVE).send(&yes);
    assert_eq!((state(&done), &done["id"]), ("COMPLETED", &asked["id"]));
    assert_eq!(loaded(&server), 1);
    // The same again is known by the marks of that run, and is still one answer.
    server.restart();
    let again = agent(&server, APPROVE).send(&yes);
    assert_eq!((&again["id"], &again["history"]), (&done["id"], &done["history"]));
    assert_eq!(loaded(&server), 1);
}

#[test]
fn a_message_with_the_context_alone_resumes_its_one_waiting_task_or_begins_another() {
    let (_here, mut server) = server();
    let mut first = text("m1", "Tell Ada.");
    first["contextId"] = json!("our-talk");
    let asked = agent(&server, APPROVE).send(&first);
    assert_eq!(asked["contextId"], "our-talk");
    server.restart();
    let mut second = text("m2", &coded(&asked, "approve"));
    second["contextId"] = json!("our-talk");
    let done = agent(&server, APPROVE).send(&second);
    assert_eq!((&done["id"], state(&done)), (&asked["id"], "COMPLETED"));
    let mut third = text("m3", "Tell Bob.");
    third["contextId"] = json!("our-talk");
    let other = agent(&server, APPROVE).send(&third);
    assert_ne!(other["id"], asked["id"]);
    assert_eq!((state(&other), &other["contextId"]), ("INPUT_REQUIRED", &asked["contextId"]));
}

#[test]
fn an_answer_by_request_id_is_held_to_the_digest_of_what_was_shown() {
    let (_here, server) = server();
    let agent = agent(&server, APPROVE);
    let asked = agent.send(&text("m1", "Tell Ada."));
    let request = asked["status"]["message"]["parts"][1]["data"]["requests"][0].clone();
    assert_eq!(request["kind"], "approval");
    let id = request["requestId"].as_str().unwrap();
    let answer = |digest: &Value| {
        let data = json!({
            "responses": {id: {"decision": "approve", "note": "go"}},
            "digests": {id: digest},
        });
        let parts = json!([{"data": data}]);
        to(&asked, json!({"messageId": "m2", "role": "ROLE_USER", "parts": parts}))
    };
    let stale = agent.send(&answer(&json!("0000")));
    assert_eq!(state(&stale), "INPUT_REQUIRED");
    assert!(words(&stale).contains("digest"), "{stale}");
    assert_eq!(state(&agent.send(&answer(&request["digest"]))), "COMPLETED");
}

#[test]
fn a_stream_ends_at_a_pause_and_a_subscription_stays_through_it() {
    let (_here, mut server) = server();
    let told = agent(&server, APPROVE)
        .stream("SendStreamingMessage", &json!({"message": text("m1", "Tell Ada.")}));
    let told: Vec<_> = told.map(|(_, told)| told).collect();
    let said: Vec<_> = told.iter().map(word).collect();
    let draft = "WORKING: Tell Ada.";
    assert_eq!(said, ["task SUBMITTED", "WORKING", draft, "INPUT_REQUIRED"]);
    let task = &told[0]["task"];

    server.restart();
    let mut watch = agent(&server, APPROVE).stream("SubscribeToTask", &json!({"id": task["id"]}));
    let (seen, first) = watch.next().unwrap();
    assert_eq!(word(&first), "task INPUT_REQUIRED");
    let resumed = agent(&server, APPROVE).stream(
        "SendStreamingMessage",
        &json!({"message": to(task, text("m2", &coded(told.last().unwrap(), "approve")))}),
    );
    let resumed: Vec<_> = resumed.map(|(_, told)| word(&told)).collect();
    assert_eq!(resumed, ["task WORKING", "artifact: Sent: Tell Ada.", "COMPLETED"]);
    let rest: Vec<_> = watch.map(|(_, told)| word(&told)).collect();
    assert_eq!(rest, ["WORKING", "artifact: Sent: Tell Ada.", "COMPLETED"]);

    // Whoever comes back with the last event's id is told the rest, even of a task that is over.
    server.restart();
    let back = agent(&server, APPROVE).with(&format!("Last-Event-ID: {seen}"));
    let missed = back.stream("SubscribeToTask", &json!({"id": task["id"]}));
    let missed: Vec<_> = missed.map(|(_, told)| word(&told)).collect();
    assert_eq!(missed, rest);
    let over = agent(&server, APPROVE).rpc("SubscribeToTask", &json!({"id": task["id"]}));
    assert_eq!(over["error"]["code"], -32004);
}

#[test]
fn a_result_is_told_in_pieces_while_it_is_spoken() {
    let (_here, server) = server();
    let agent = agent(&server, "/a2a/errand");
    let asked = agent.send(&text("m1", "an order"));
    let answer = json!({"message": to(&asked, text("m2", &coded(&asked, "approve")))});
    let told: Vec<_> =
        agent.stream("SendStreamingMessage", &answer).map(|(_, told)| told).collect();
    let pieces: Vec<_> = told.iter().filter_map(|told| told.get("artifactUpdate")).collect();
    let (whole, pieces) = pieces.split_last().unwrap();
    assert!(pieces.len() > 1, "{told:?}");
    assert!(pieces[0].get("append").is_none() && pieces[1]["append"] == true, "{pieces:?}");
    let text = |piece: &Value| piece["artifact"]["parts"][0]["text"].as_str().unwrap().to_owned();
    let joined: String = pieces.iter().map(|piece| text(piece)).collect();
    assert_eq!(joined, text(whole));
    assert_eq!(whole["lastChunk"], true);
}

#[test]
fn tasks_are_listed_by_page_the_last_changed_first() {
    let (_here, server) = server();
    let agent = agent(&server, APPROVE);
    let first = agent.send(&text("m1", "one"));
    let second = agent.send(&text("m2", "two"));
    agent.send(&to(&first, text("m3", &coded(&first, "approve"))));
    let waiting = agent.call("ListTasks", &json!({"status": "TASK_STATE_INPUT_REQUIRED"}));
    assert_eq!((&waiting["tasks"][0]["id"], &waiting["totalSize"]), (&second["id"], &json!(1)));
    let page = agent.call("ListTasks", &json!({"pageSize": 1}));
    assert_eq!((&page["tasks"][0]["id"], &page["totalSize"]), (&first["id"], &json!(2)));
    assert!(page["tasks"][0].get("artifacts").is_none());
    let rest = format!(
        "/tasks?pageSize=1&includeArtifacts=true&pageToken={}",
        page["nextPageToken"].as_str().unwrap()
    );
    let rest = agent.rest("GET", &rest, &Value::Null).json();
    assert_eq!((&rest["tasks"][0]["id"], &rest["nextPageToken"]), (&second["id"], &json!("")));
    let other = Agent { path: "/a2a/chat".into(), ..agent };
    assert_eq!(
        other.call("ListTasks", &json!({}))["totalSize"],
        0,
        "another agent's are not there"
    );
}

#[test]
fn d2_another_callers_task_that_is_not_in_memory_is_not_read_to_refuse_it() {
    let here = TempDir::new().unwrap();
    let (ada, bob) = (key_of(here.path(), "ada"), key_of(here.path(), "bob"));
    let mut server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    let as_key = |server: &Server, key: &str| {
        agent(server, APPROVE).with(&format!("Authorization: Bearer {key}"))
    };
    let task = as_key(&server, &ada).send(&text("m1", "Tell Ada."));
    server.restart();
    let theirs = json!({"id": task["id"]});
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let refused = as_key(&server, &bob).rpc(method, &theirs);
        assert_eq!(refused["error"]["code"], -32001, "{method}: {refused}");
    }
    assert_eq!(loaded_with(&server, &ada), 0);
    assert_eq!(as_key(&server, &ada).call("GetTask", &theirs)["id"], task["id"]);
    assert_eq!(loaded_with(&server, &ada), 1);
}

#[test]
fn every_workflow_has_a_card_and_the_card_is_kept_by_its_tag() {
    let here = TempDir::new().unwrap();
    let server = Setup::new(here.path()).arg("--a2a-root").arg("chat").start();
    let caller = agent(&server, "/a2a");
    let root = caller.http("GET", "/.well-known/agent-card.json", "");
    assert_eq!((root.status, &root.json()["name"]), (200, &json!("chat")));
    assert!(root.header("cache-control").is_some() && root.header("last-modified").is_some());
    let tag = format!("If-None-Match: {}", root.header("etag").unwrap());
    let again = caller.clone().with(&tag).http("GET", "/.well-known/agent-card.json", "");
    assert_eq!((again.status, again.body.as_str()), (304, ""));

    let own = caller.http("GET", &format!("{APPROVE}/.well-known/agent-card.json"), "").json();
    let interfaces = &own["supportedInterfaces"];
    assert_eq!(interfaces[0]["url"], format!("{}{APPROVE}", server.url()));
    assert_eq!(interfaces.as_array().unwrap().len(), 2, "every address is of its own origin");
    let at_grpc = format!("{APPROVE}/grpc/.well-known/agent-card.json");
    let by_grpc = caller.http("GET", &at_grpc, "").json()["supportedInterfaces"][2].take();
    assert_eq!(by_grpc["url"], server.address());
    assert_eq!(by_grpc["tenant"], "approve_and_send");
    let root = caller.http("GET", "/a2a/grpc/.well-known/agent-card.json", "").json();
    assert_eq!(
        (&root["name"], &root["supportedInterfaces"][2]["tenant"]),
        (&json!("chat"), &Value::Null)
    );
    assert!(own.get("securitySchemes").is_none(), "no key is wanted, and none is declared");
    assert_eq!(caller.http("GET", "/a2a/nobody/.well-known/agent-card.json", "").status, 404);
    // By tenant, at the root, it is the same agent.
    let params = json!({"tenant": "approve_and_send", "message": text("m1", "Tell Ada.")});
    let asked = caller.call("SendMessage", &params)["task"].take();
    assert_eq!(
        agent(&server, APPROVE).call("GetTask", &json!({"id": asked["id"]}))["id"],
        asked["id"]
    );
    assert_eq!(caller.rpc("GetTask", &json!({"id": asked["id"]}))["error"]["code"], -32001);
}

pub(crate) fn key_of(here: &Path, name: &str) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    forget_settings(&mut command);
    let added =
        command.args(["keys", "add", name, "--json", "--keys", "keys.toml"]).current_dir(here);
    let told: Value = serde_json::from_slice(&added.output().unwrap().stdout).unwrap();
    told["secret"].as_str().unwrap().to_owned()
}

#[test]
fn d2_another_callers_task_looks_like_none_on_every_operation() {
    let here = TempDir::new().unwrap();
    let (ada, bob) = (key_of(here.path(), "ada"), key_of(here.path(), "bob"));
    let server = Setup::new(here.path()).arg("--keys").arg("keys.toml").start();
    let agent = agent(&server, APPROVE);
    let as_key = |key: &str| agent.clone().with(&format!("Authorization: Bearer {key}"));
    let (ada, bob) = (as_key(&ada), as_key(&bob));
    let card = agent.http("GET", &format!("{APPROVE}/.well-known/agent-card.json"), "").json();
    assert_eq!(card["securitySchemes"]["bearer"]["httpAuthSecurityScheme"]["scheme"], "Bearer");
    let stranger = agent.rest("GET", "/tasks", &Value::Null);
    assert_eq!((stranger.status, stranger.header("www-authenticate")), (401, Some("Bearer")));

    let mut message = text("m1", "Tell Ada.");
    message["contextId"] = json!("hers");
    let task = ada.send(&message);
    let unknown = json!({"id": "run_00000000000000000000000000"});
    for method in ["GetTask", "CancelTask", "SubscribeToTask"] {
        let (theirs, none) =
            (bob.rpc(method, &json!({"id": task["id"]})), bob.rpc(method, &unknown));
        assert_eq!(theirs["error"]["code"], -32001, "{method}: {theirs}");
        assert_eq!(theirs["error"]["data"], none["error"]["data"], "{method}");
    }
    let answer = bob.rpc("SendMessage", &json!({"message": to(&task, text("m2", "approve"))}));
    assert_eq!(answer["error"]["code"], -32001);
    assert_eq!(bob.call("ListTasks", &json!({}))["totalSize"], 0);
    // A context of that name is his own: it begins with what he says.
    message["parts"] = json!([{"text": "approve"}]);
    let own = bob.send(&message);
    assert_eq!((&own["contextId"], own["id"] == task["id"]), (&json!("hers"), false));
    assert_eq!(state(&ada.call("GetTask", &json!({"id": task["id"]}))), "INPUT_REQUIRED");
}
