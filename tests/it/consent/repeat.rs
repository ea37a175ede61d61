//! A repeat is recognised before anything that waits is looked at (K9), at A2A: the message that began
//! a task is never taken for the answer to what the task then asks.

use serde_json::{Value, json};

use crate::a2a::calls::{Agent, state, text};
use crate::consent::stage::{LOCAL, Stage, TOOL};

/// A deed behind a gate, with whatever goes before it.
fn flow(before: &str) -> String {
    format!(
        "
name: orders
models:
  default:
    provider: scripted
    script:
      - {{agent: payer, when: {{last_from: tool}}, say: Done.}}
      - {{agent: payer, call: [{{tool: pay, arguments: {{amount: 100}}}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay]}}]
agents:
  payer: {{tools: [pay], human_input: false}}
pattern: sequential
steps: [{before}{{id: pay, agent: payer}}]
"
    )
}

const ASKS: &str = "{id: which, human: {kind: clarification, prompt: Which account?}}, ";

/// Which call is made again.
#[derive(Debug, Clone, Copy)]
enum Binding {
    JsonRpc,
    Rest,
    Stream,
}

/// A message that begins a task in a context of the caller's, and would be a yes to its question.
fn begins() -> Value {
    let mut message = text("m1", "approve");
    message["contextId"] = json!("ours");
    message
}

/// The task that a call came to, if it was answered with one.
fn sent(agent: &Agent, binding: Binding) -> Value {
    let params = json!({"message": begins()});
    match binding {
        Binding::JsonRpc => agent.rpc("SendMessage", &params)["result"]["task"].take(),
        Binding::Rest => agent.rest("POST", "/message:send", &params).json()["task"].take(),
        Binding::Stream => {
            agent.stream("SendStreamingMessage", &params).for_each(drop);
            agent.call("ListTasks", &json!({}))["tasks"][0].take()
        }
    }
}

/// Sends the same message twice, perhaps with a key, perhaps with a kill in between.
async fn twice(before: &str, binding: Binding, has_key: bool, is_killed: bool) {
    let how = format!("{binding:?}, key: {has_key}, kill: {is_killed}");
    let mut stage = Stage::open(&flow(before)).await;
    let agent = |stage: &Stage| {
        let agent = stage.agent(LOCAL);
        if has_key { agent.with("Idempotency-Key: k1") } else { agent }
    };
    let first = sent(&agent(&stage), binding);
    let run_id = first["id"].as_str().unwrap().to_owned();
    let open = stage.inbox(LOCAL).await;
    if is_killed {
        stage.server.restart();
    }
    let again = sent(&agent(&stage), binding);
    let deeds = stage.deeds(LOCAL, &run_id).await;
    assert_eq!(deeds, Vec::<Value>::new(), "K10: {how}: the start was taken for a yes");
    assert_eq!(stage.answers(LOCAL, &run_id).await, [], "K9: {how}: it answered its own question");
    assert_eq!(stage.runs(LOCAL).await.len(), 1, "{how}: one message, one task");
    let still: Vec<_> = stage.inbox(LOCAL).await.into_iter().map(|one| one.request_id).collect();
    assert_eq!(still, [open[0].request_id.clone()], "{how}: still open");
    assert_eq!((&again["id"], state(&again)), (&first["id"], "INPUT_REQUIRED"), "{how}: {again}");
}

macro_rules! repeats {
    ($($name:ident: $before:expr, $binding:ident, key: $key:literal, kill: $kill:literal;)*) => {
        $(
            #[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                twice($before, Binding::$binding, $key, $kill).await;
            }
        )*
    };
}

repeats! {
    k9_the_message_that_began_a_task_is_no_yes_to_its_gate:
        "", JsonRpc, key: false, kill: false;
    k9_the_message_that_began_a_task_is_no_yes_to_its_gate_with_a_key:
        "", JsonRpc, key: true, kill: false;
    k9_the_message_that_began_a_task_is_no_yes_to_its_gate_after_a_kill:
        "", JsonRpc, key: false, kill: true;
    k9_the_message_that_began_a_task_is_no_yes_to_its_gate_with_a_key_after_a_kill:
        "", JsonRpc, key: true, kill: true;
    k9_the_message_that_began_a_task_answers_no_question_for_words:
        ASKS, JsonRpc, key: false, kill: false;
    k9_the_message_that_began_a_task_answers_no_question_for_words_with_a_key:
        ASKS, JsonRpc, key: true, kill: false;
    k9_the_message_that_began_a_task_answers_no_question_for_words_after_a_kill:
        ASKS, JsonRpc, key: false, kill: true;
    k9_the_message_that_began_a_task_answers_no_question_for_words_with_a_key_after_a_kill:
        ASKS, JsonRpc, key: true, kill: true;
    k9_the_message_that_began_a_task_by_http_is_no_yes_to_its_gate:
        "", Rest, key: false, kill: false;
    k9_the_message_that_began_a_task_by_http_is_no_yes_to_its_gate_with_a_key_after_a_kill:
        "", Rest, key: true, kill: true;
    k9_the_message_that_began_a_task_in_a_stream_is_no_yes_to_its_gate:
        "", Stream, key: false, kill: false;
    k9_the_message_that_began_a_task_in_a_stream_is_no_yes_to_its_gate_with_a_key_after_a_kill:
        "", Stream, key: true, kill: true;
}

/// The same at gRPC and `/v1/responses`, where a key is what makes a call the same.
#[tokio::test(flavor = "multi_thread")]
async fn k9_a_start_repeated_with_its_key_is_no_yes_to_its_gate_at_other_doors() {
    let stage = Stage::open(&flow("")).await;
    let caller = stage.http(LOCAL).with("Idempotency-Key: k1");
    let body = json!({"model": "orders", "conversation": "mine", "input": "approve"});
    let first = caller.post("/v1/responses", &body).ok();
    let again = caller.post("/v1/responses", &body).ok();
    assert_eq!(first["id"], again["id"], "a repeat is the first outcome");
    let run_id = first["run_id"].as_str().unwrap();
    assert_eq!(stage.deeds(LOCAL, run_id).await, Vec::<Value>::new(), "/v1/responses");
    assert_eq!(stage.answers(LOCAL, run_id).await, [], "/v1/responses");
    let start = crate::support::server::start_of("orders", "other", "approve", "k2");
    let mut client = stage.client(LOCAL).await;
    let one = crate::support::server::run(&mut client, start.clone()).await;
    let other = crate::support::server::run(&mut client, start).await;
    assert_eq!(one, other, "gRPC: a repeat streams the same");
    assert_eq!(stage.deeds(LOCAL, &one[0].run_id).await, Vec::<Value>::new(), "gRPC");
}
