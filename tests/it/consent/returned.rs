//! `return`: a no with a note that goes back to the agent whose work it is about, at every place where
//! there is one.

use holdpoint::wire::v1::{Request, RunStatus};
use serde_json::json;

use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};

/// An agent that wants to pay, and tries again with less when it is told to.
fn gated() -> String {
    format!(
        "
name: bills
models:
  default:
    provider: scripted
    script:
      - {{when: {{tool_result_contains: paid}}, say: Done.}}
      - {{when: {{tool_result_contains: Returned by}}, call: [{{tool: pay, arguments: {{amount: 10}}}}]}}
      - {{call: [{{tool: pay, arguments: {{amount: 100}}}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay]}}]
agents:
  payer: {{tools: [pay], human_input: false}}
pattern: sequential
steps: [{{id: pay, agent: payer}}]
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_a_returned_call_is_not_made_and_the_agent_may_try_another() {
    let stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    assert_eq!(asked.verbs.last().map(String::as_str), Some("return"));
    let bare = refusal(stage.answer(LOCAL, &asked, json!("return")).await);
    assert_eq!(bare.1, "answer.invalid", "it needs a note");
    let empty = json!({"decision": "return", "note": ""});
    assert_eq!(refusal(stage.answer(LOCAL, &asked, empty).await).1, "answer.invalid");
    stage.say(LOCAL, "s", &format!("return {}: ten is enough", asked.code)).await.unwrap();
    let is_new = |one: &Request| one.request_id != asked.request_id;
    let again = stage.until(LOCAL, &asked.run_id, is_new).await;
    assert_eq!(stage.paid(), 0, "what was returned is not done");
    stage.answer(LOCAL, &again, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &asked.run_id).await, [json!({"amount": 10})]);
    let trail = format!("{:?}", stage.audit(LOCAL, &asked.run_id).await);
    assert!(trail.contains("ten is enough"), "{trail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_returned_draft_is_written_again_and_shown_again_in_the_browser() {
    let flow = "
name: letters
models:
  default:
    provider: scripted
    script: [{when: {conversation_contains: 'Returned: Shorter.'}, say: Short draft.}, {say: Long draft.}]
agents:
  writer: {human_input: false}
pattern: sequential
steps:
  - {id: write, agent: writer}
  - {id: ok, human: {kind: approval, prompt: Send it?}}
  - {id: send, agent: writer}
";
    let stage = Stage::open(flow).await;
    let asked = question(&stage.start(LOCAL, "", "Write.").await);
    let path = format!("/console/requests/{}", asked.request_id);
    let page = stage.console(LOCAL).raw("GET", &path, "").body;
    assert!(page.contains("Return with a note") && page.contains("does its step again"), "{page}");
    let bare = stage.form(LOCAL, &asked, &[("decision", "return")]);
    assert_eq!(bare.status, 422, "it needs a note: {}", bare.body);
    let sent = stage.form(LOCAL, &asked, &[("decision", "return"), ("answer/note", "Shorter.")]);
    assert_eq!(sent.status, 303, "{}", sent.body);
    let is_new = |one: &Request| one.request_id != asked.request_id;
    let again = stage.until(LOCAL, &asked.run_id, is_new).await;
    assert!(format!("{:?}", again.subject).contains("Short draft."), "{again:?}");
    assert_ne!(again.digest, asked.digest);
    stage.answer(LOCAL, &again, json!("approve")).await.unwrap();
    let run = stage.runs(LOCAL).await.remove(0);
    assert_eq!(run.status(), RunStatus::Completed);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_return_is_enough_however_many_are_asked() {
    let flow = "
name: letters
models:
  default:
    provider: scripted
    script: [{when: {conversation_contains: 'Returned: Shorter.'}, say: Short draft.}, {say: Long draft.}]
agents:
  writer: {human_input: false}
pattern: graph
graph:
  steps:
    - {id: write, agent: writer}
    - {id: ok, human: {kind: approval, prompt: Send it?, approvers: {to: [ann, bob], need: 2}}}
    - {id: send, agent: writer}
";
    let people = [("clerk", "user"), ("ann", "user"), ("bob", "user")];
    let stage = Stage::with_people(flow, &people).await;
    stage.start("clerk", "", "Write.").await;
    let asked = stage.inbox("ann").await.remove(0);
    stage.answer("ann", &asked, json!("approve")).await.unwrap();
    let no = json!({"decision": "return", "note": "Shorter."});
    stage.answer("bob", &asked, no).await.unwrap();
    let is_new = |one: &Request| one.request_id != asked.request_id;
    let again = stage.until("clerk", &asked.run_id, is_new).await;
    assert!(again.votes.is_empty(), "nobody has said anything to this draft");
    assert!(format!("{:?}", again.subject).contains("Short draft."), "{again:?}");
}
