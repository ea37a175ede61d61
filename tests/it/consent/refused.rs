//! A no holds in its own run (K11): the same call again, in other words, in another step, under a grant or after its
//! question was taken back, is asked about, and tells of the no. And nobody passes alone what they wrote
//! themselves where four eyes are wanted.

use holdpoint::wire::v1::{CancelRequestRequest, Request};
use serde_json::{Value, json};

use crate::consent::stage::{Stage, TOOL, facts, refusal};

const PEOPLE: [(&str, &str); 3] = [("mallory", "user"), ("cfo", "user"), ("ada", "user")];

/// An agent that tries again whatever it was told, and a gate.
fn stubborn(gate: &str, first: &str) -> String {
    format!(
        "
name: stubborn
models:
  default:
    provider: scripted
    script:
      - {{agent: one, turn: 1, say: I will delete it now, call: [{first}]}}
      - {{agent: one, when: {{tool_result_contains: paid}}, say: done}}
      - {{agent: one, turn: 2, say: trying again, call: [{{tool: pay, arguments: {{amount: 90}}}}]}}
      - {{agent: one, say: given up}}
tools:{TOOL}
agents: {{one: {{human_input: false, tools: [pay]}}}}
gates: [{{name: guard, tools: [pay], to: [cfo, ada]{gate}}}]
pattern: sequential
steps: [{{id: work, agent: one}}]
"
    )
}

const NINETY: &str = "{tool: pay, arguments: {amount: 90}}";
const BY_WORDS: &str = ", when: [{keywords: [delete]}]";

/// Whatever the no was, the agent's second try is asked about and tells of it.
async fn assert_asked_again(stage: &Stage, told: &str) {
    let again = stage.inbox("ada").await;
    assert_eq!(again.len(), 1, "K11: the same call again passed the gate unasked");
    assert!(facts(&again[0]).contains(told), "{}", facts(&again[0]));
    assert_eq!(stage.paid(), 0, "K11: what was refused was done");
    // Whoever knows of the no may take it up again.
    stage.answer("ada", &again[0], json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("mallory", &again[0].run_id).await, [json!({"amount": 90})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_holds_in_its_run_though_the_agent_finds_other_words() {
    for no in [json!("deny"), json!({"decision": "return", "note": "not this one"})] {
        let stage = Stage::with_people(&stubborn(BY_WORDS, NINETY), &PEOPLE).await;
        stage.start("mallory", "", "Order 7.").await;
        let asked = stage.inbox("cfo").await.remove(0);
        stage.answer("cfo", &asked, no).await.unwrap();
        assert_asked_again(&stage, "cfo refused it").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_what_the_requester_takes_back_is_not_done_unasked() {
    let stage = Stage::with_people(&stubborn(BY_WORDS, NINETY), &PEOPLE).await;
    stage.start("mallory", "", "Order 7.").await;
    let request_id = stage.inbox("ada").await.remove(0).request_id;
    let back = CancelRequestRequest { request_id, ..Default::default() };
    stage.client("mallory").await.cancel_request(back).await.unwrap();
    assert_asked_again(&stage, "mallory took it back").await;
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_an_earlier_grant_does_not_beat_a_later_no() {
    let both = "{tool: pay, arguments: {amount: 100}}, {tool: pay, arguments: {amount: 90}}";
    let gate = ", allow_for: 30m, when: [{argument: {pointer: /amount, over: 50}}]";
    let flow = stubborn(gate, both).replace("when: {tool_result_contains: paid}", "turn: 3");
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    stage.start("mallory", "", "Order 7.").await;
    let amount = |asked: &Request, amount: u64| facts(asked).contains(&format!("({amount})"));
    let asked = stage.inbox("cfo").await;
    assert_eq!(asked.len(), 2, "each call is asked about");
    let is_ninety = |asked: &&Request| !amount(asked, 100);
    let ninety = asked.iter().find(is_ninety).unwrap();
    stage.answer("cfo", ninety, json!("deny")).await.unwrap();
    let hundred = asked.iter().find(|one| one.request_id != ninety.request_id).unwrap();
    stage.answer("ada", hundred, json!("allow_for_run")).await.unwrap();
    let again = stage.inbox("ada").await;
    assert_eq!(again.len(), 1, "K11: a grant let pass what somebody had refused");
    assert!(facts(&again[0]).contains("cfo refused it (deny)"), "{}", facts(&again[0]));
    assert_eq!(stage.deeds("mallory", &again[0].run_id).await, [json!({"amount": 100})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_where_four_eyes_are_wanted_nobody_passes_their_own_version_alone() {
    let gate = ", when: [{argument: {pointer: /amount, over: 50}}]";
    let flow = stubborn(gate, NINETY);
    let stage = Stage::set(&flow, &PEOPLE, &["--four-eyes=true"]).await;
    stage.start("mallory", "", "Order 7.").await;
    let asked = stage.inbox("cfo").await.remove(0);
    let edit = json!({"decision": "edit", "arguments": {"amount": 1_000_000}});
    stage.answer("cfo", &asked, edit).await.unwrap();
    assert_eq!(stage.deeds("mallory", &asked.run_id).await, Vec::<Value>::new());
    let theirs = stage.inbox("ada").await.remove(0);
    assert!(facts(&theirs).contains("1000000"), "{}", facts(&theirs));
    let own = refusal(stage.answer("cfo", &theirs, json!("allow_once")).await);
    assert_eq!(own.1, "answer.not_admitted");
    stage.answer("ada", &theirs, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("mallory", &asked.run_id).await, [json!({"amount": 1_000_000})]);
}
