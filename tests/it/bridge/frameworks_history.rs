//! Clients that keep the conversation themselves and send all of it every time: it is found by our ids, or the call
//! is refused by name; nothing is forgotten in silence, and nothing that a person types begins a second run.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::calls::{Caller, call_id};
use crate::bridge::frameworks::{Framework, User};
use crate::support::server::Server;

const APPROVE: &str = "approve_and_send";

fn server() -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    (here, server)
}

/// The runs of a workflow: each with its conversation and status, the newest last.
fn runs(server: &Server, workflow: &str) -> Vec<(String, String)> {
    let path = format!("/v1/workflows/{workflow}/runs");
    let listed = Caller::new(server.address()).get(&path).ok();
    let word = |run: &Value, field: &str| run[field].as_str().unwrap().to_owned();
    let rows = listed["data"].as_array().unwrap().iter().rev();
    rows.map(|run| (word(run, "conversation"), word(run, "status"))).collect()
}

fn statuses(server: &Server, workflow: &str) -> Vec<String> {
    runs(server, workflow).into_iter().map(|(_, status)| status).collect()
}

/// Asked, answered by its call after a kill, and heard again in the same conversation.
fn is_answered_and_remembered(user: &User) {
    let (_here, mut server) = server();
    let first = user.says(&server, "Tell Ada.");
    assert_eq!(first["asked"], json!(["Send this message?"]), "{first}");
    server.restart_here();
    let done = user.answers(&server, "approve");
    assert_eq!((&done["text"], &done["asked"]), (&json!("Sent: Tell Ada."), &json!([])), "{done}");
    let next = user.says(&server, "Tell Bob.");
    assert_eq!(next["asked"], json!(["Send this message?"]), "{next}");
    let runs = runs(&server, APPROVE);
    assert_eq!(runs.len(), 2, "{runs:?}");
    assert_eq!(runs[0].0, runs[1].0, "one conversation");
    assert_eq!((runs[0].1.as_str(), runs[1].1.as_str()), ("COMPLETED", "WAITING"));
}

#[test]
fn langchain_answers_by_a_message_of_its_tool_and_is_remembered() {
    is_answered_and_remembered(&User::new(Framework::LangChain, APPROVE, &[]));
}

#[test]
fn vercels_sdk_answers_by_the_result_of_its_tool_and_is_remembered() {
    is_answered_and_remembered(&User::new(Framework::Vercel, APPROVE, &["declared"]));
}

#[test]
fn pydantic_ai_answers_by_its_deferred_call_and_is_remembered() {
    is_answered_and_remembered(&User::new(Framework::PydanticAi, APPROVE, &[]));
}

#[test]
fn agent_framework_answers_by_the_result_of_its_call_and_is_remembered() {
    is_answered_and_remembered(&User::new(Framework::Microsoft, APPROVE, &[]));
}

#[test]
fn agent_framework_that_keeps_the_history_itself_answers_and_is_remembered() {
    is_answered_and_remembered(&User::new(Framework::Microsoft, APPROVE, &["local"]));
}

#[test]
fn the_agents_sdk_answers_by_its_tool_and_its_session_is_remembered() {
    let (_here, mut server) = server();
    let user = User::new(Framework::Agents, APPROVE, &["says=approve"]);
    for words in ["Tell Ada.", "Tell Bob."] {
        let told = user.says(&server, words);
        let sent = format!("Sent: {words}");
        assert_eq!((&told["text"], &told["asked"]), (&json!(sent), &json!(["Send this message?"])));
        server.restart_here();
    }
    let runs = runs(&server, APPROVE);
    assert_eq!((runs.len(), &runs[0]), (2, &runs[1]), "one conversation, both completed");
}

/// A person who types "approve" where the client shows a conversation.
fn types_approve(framework: Framework, options: &[&'static str]) -> Value {
    let (_here, mut server) = server();
    let user = User::new(framework, APPROVE, options);
    user.says(&server, "Tell Ada.");
    server.restart_here();
    let told = user.says(&server, "approve");
    assert_eq!(statuses(&server, APPROVE), ["WAITING"], "one run, and nothing decided: {told}");
    told
}

#[test]
fn k9_an_approve_typed_into_pydantic_ai_decides_nothing_and_begins_no_second_run() {
    let told = types_approve(Framework::PydanticAi, &[]);
    assert!(told["stopped"].is_string(), "its client takes no words while a call is open: {told}");
}

#[test]
fn k9_an_approve_typed_into_the_agents_sdk_decides_nothing_and_begins_no_second_run() {
    // Its client forgets what it could not take, and nothing tells whose words they are.
    let told = types_approve(Framework::Agents, &["undeclared"]);
    let no = (&json!("history.unknown"), &json!(400), &json!("input"));
    assert_eq!((&told["refused"], &told["status"], &told["param"]), no, "{told}");
}

#[test]
fn k9_an_approve_typed_into_agent_framework_decides_nothing_and_begins_no_second_run() {
    for options in [&[][..], &["local"]] {
        let told = types_approve(Framework::Microsoft, options);
        assert_eq!(told["asked"], json!(["Send this message?"]), "asked again: {told}");
    }
}

#[test]
fn k9_an_approve_typed_into_vercels_sdk_decides_nothing_and_begins_no_second_run() {
    let told = types_approve(Framework::Vercel, &[]);
    assert_eq!(told["asked"], json!(["Send this message?"]), "asked again: {told}");
}

#[test]
fn k7_what_a_framework_says_where_it_has_nobody_to_ask_is_no_answer() {
    let (_here, server) = server();
    // The question asks for any words at all.
    let told = User::new(Framework::PydanticAi, "chat", &["undeclared"]).says(&server, "Hello");
    let no = (&json!("answer.not_given"), &json!(400), &json!("input[3].output"));
    assert_eq!((&told["refused"], &told["status"], &told["param"]), no, "{told}");
    assert_eq!(statuses(&server, "chat"), ["WAITING"]);
    // Vercel's sends it along with the next words of the person, and those are the answer.
    let user = User::new(Framework::Vercel, "chat", &[]);
    assert_eq!(user.says(&server, "Hello")["text"], "You said: Hello");
    assert_eq!(user.says(&server, "I am Ada")["text"], "You said: I am Ada");
    assert_eq!(statuses(&server, "chat"), ["WAITING", "WAITING"], "two conversations, two runs");
}

/// Says what it hears, and asks nothing.
const ECHO: &str = r#"{"name": "echo",
"models": {"m": {"provider": "scripted", "script": [{"say": "You said: {{last_user}}"}]}},
"agents": {"host": {"human_input": false}},
"pattern": "sequential", "steps": [{"agent": "host"}]}"#;

/// What came of the second thing that is said, and the conversations of the runs.
fn says_twice(framework: Framework, options: &[&'static str]) -> (Value, Vec<String>) {
    let here = TempDir::new().unwrap();
    std::fs::create_dir_all(here.path().join("flows")).unwrap();
    std::fs::write(here.path().join("flows/echo.yaml"), ECHO).unwrap();
    let server = Server::start(here.path());
    let user = User::new(framework, "echo", options);
    assert_eq!(user.says(&server, "One.")["text"], "You said: One.", "{framework:?}");
    let told = user.says(&server, "Two.");
    let runs = runs(&server, "echo").into_iter().map(|(conversation, _)| conversation);
    (told, runs.collect())
}

fn is_remembered(framework: Framework, options: &[&'static str]) {
    let (told, runs) = says_twice(framework, options);
    assert_eq!(told["text"], "You said: Two.", "{framework:?}: {told}");
    assert_eq!((runs.len(), &runs[0]), (2, &runs[1]), "{framework:?}");
}

/// Its client sends what was said without our ids.
fn is_refused(framework: Framework, options: &[&'static str]) {
    let (told, runs) = says_twice(framework, options);
    let no = (&json!("history.unknown"), &json!(400), &json!("input"));
    assert_eq!((&told["refused"], &told["status"], &told["param"]), no, "{told}");
    assert_eq!(runs.len(), 1, "{framework:?}");
}

#[test]
fn a_history_of_pydantic_ais_is_remembered_by_the_last_response_or_refused_by_name() {
    is_remembered(Framework::PydanticAi, &["auto"]);
    is_refused(Framework::PydanticAi, &[]);
}

#[test]
fn a_history_of_agent_frameworks_is_remembered_by_its_conversation_or_refused_by_name() {
    is_remembered(Framework::Microsoft, &[]);
    is_refused(Framework::Microsoft, &["local"]);
}

#[test]
fn a_history_of_the_agents_sdks_is_remembered_by_the_ids_in_it() {
    is_remembered(Framework::Agents, &[]);
}

#[test]
fn a_history_of_vercels_is_remembered_by_the_ids_in_it() {
    is_remembered(Framework::Vercel, &[]);
}

#[test]
fn agent_framework_answers_in_a_conversation_whose_id_its_owner_chose() {
    let (_here, server) = server();
    let caller = Caller::new(server.address());
    for (name, option) in [("party", "in=conv_party"), ("picnic", "in=picnic")] {
        let body = json!({"model": APPROVE, "input": "Tell Ada.", "conversation": name});
        let asked = caller.post("/v1/responses", &body).ok();
        assert_eq!(asked["conversation"]["id"], name, "as it was chosen");
        let user = User::new(Framework::Microsoft, APPROVE, &[option]);
        let again = user.says(&server, "approve");
        assert_eq!(again["asked"], json!(["Send this message?"]), "{again}");
        let done = user.answers(&server, "approve");
        assert_eq!(done["text"], "Sent: Tell Ada.", "{done}");
        let alias = caller.get(&format!("/v1/conversations/conv_{name}")).ok();
        assert_eq!((&alias["id"], &alias["workflow_waiting"]), (&json!(name), &Value::Null));
        let late = json!({"model": APPROVE, "previous_response_id": name,
            "input": [crate::bridge::calls::output(&call_id(&asked), "reject")]});
        assert_eq!(caller.post("/v1/responses", &late).refusal().1, "request.already_answered");
    }
    assert_eq!(statuses(&server, APPROVE), ["COMPLETED", "COMPLETED"]);
    let nowhere = json!({"model": APPROVE, "previous_response_id": "nowhere", "input": "Hi."});
    let refused = caller.post("/v1/responses", &nowhere).refusal();
    assert_eq!(refused, (404, "response.unknown".into(), "previous_response_id".into()));
    // One that really is called so goes first.
    let own = json!({"model": APPROVE, "input": "Tell Bob.", "conversation": "conv_new"});
    assert_eq!(caller.post("/v1/responses", &own).ok()["conversation"]["id"], "conv_new");
}
