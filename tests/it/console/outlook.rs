//! Outlook: what the page of a request says will follow is what follows, in sequences, graphs, branches and gates, and
//! when nobody answers.

use holdpoint::wire::v1::{RunStatus, WatchRunRequest};
use serde_json::json;

use crate::consent::stage::{LOCAL, Stage, bills, question};

/// An approval, and a payment that stands after it.
const ASKED: &str = "human: {kind: approval, prompt: Pay it?}";

fn letters() -> String {
    "
name: letters
models: {default: {provider: scripted, script: [{agent: writer, say: Dear Ada}, {say: Sent.}]}}
agents: {writer: {human_input: false}, sender: {human_input: false}}
pattern: sequential
steps:
  - {agent: writer}
  - {id: ok, human: {kind: approval, prompt: Send it?}}
  - {id: send, agent: sender}
"
    .to_owned()
}

/// What is said on the page of what a run asks, and what came of an answer, or of none: how the run ended, and how
/// often the tool was called.
async fn follows(flow: &str, said: &str, answer: Option<&str>) -> (RunStatus, usize) {
    let stage = Stage::open(flow).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let page = stage.console(LOCAL).get(&format!("/console/requests/{}", asked.request_id)).body;
    // As somebody reads it, without what it is drawn with.
    let plain: String =
        page.split('<').map(|one| one.split_once('>').map_or(one, |it| it.1)).collect();
    assert!(plain.contains(said), "{said}: {plain}");
    if let Some(word) = answer {
        stage.answer(LOCAL, &asked, json!(word)).await.unwrap();
    } else {
        let run_id = asked.run_id.clone();
        let watch = WatchRunRequest { run_id, through_pauses: true, after_sequence: 0 };
        let mut told = stage.client(LOCAL).await.watch_run(watch).await.unwrap().into_inner();
        while told.message().await.unwrap().is_some() {}
    }
    let paid = stage.deeds(LOCAL, &asked.run_id).await.len();
    let run = stage.runs(LOCAL).await.remove(0);
    (run.status(), paid)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_does_what_the_page_says_it_does() {
    let fails = "If you reject, none of it happens: the run ends as failed";
    assert_eq!(follows(&letters(), fails, Some("reject")).await, (RunStatus::Failed, 0));
    let graph = bills(&format!("{{id: ask, {ASKED}}}, {{id: act, tool: pay}}"));
    assert_eq!(follows(&graph, fails, Some("reject")).await, (RunStatus::Failed, 0));
    let yes = "the run goes on with:act, where the tool pay is called";
    assert_eq!(follows(&graph, yes, Some("approve")).await, (RunStatus::Completed, 1));
    // In a branch that may fail, what stands after it is done all the same, and what stands in it is not.
    let inner = format!(
        "one: [{{id: ask, {ASKED}}}, {{id: inner, tool: pay}}], two: [{{id: wait, agent: idle}}]"
    );
    let branch = bills(&format!(
        "{{id: both, critical: false, parallel: {{{inner}}}}}, {{id: act, tool: pay}}"
    ));
    let stops = "this step ends as failed, and what it is part of stops; where the file lets that fail, what stands after it is done all the same";
    assert_eq!(follows(&branch, stops, Some("reject")).await, (RunStatus::Completed, 1));
    let strict = branch.replace("critical: false, ", "");
    assert_eq!(follows(&strict, stops, Some("reject")).await, (RunStatus::Failed, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn at_a_gate_each_word_does_what_stands_beside_it() {
    let gated = bills("{id: act, tool: pay, gate: {mode: before_step}}");
    for (word, said, came) in [
        ("approve", "the step is done", (RunStatus::Completed, 1)),
        ("skip", "the step is passed over, and the run goes on", (RunStatus::Completed, 0)),
        ("reject", "the step fails, and is not begun", (RunStatus::Failed, 0)),
    ] {
        assert_eq!(follows(&gated, said, Some(word)).await, came, "{word}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_no_to_a_call_of_a_step_fails_it_and_no_agent_is_spoken_of() {
    let gated = |steps: &str| format!("{}gates: [{{name: money, tools: [pay]}}]\n", bills(steps));
    let fails = "If you deny it, nothing is done: the run ends as failed and says who denied it.";
    let alone = gated("{id: act, tool: pay}");
    assert_eq!(follows(&alone, fails, Some("deny")).await, (RunStatus::Failed, 0));
    let goes_on = "this step ends as failed and says who denied it; the file lets the others go on";
    let lenient = gated("{id: act, tool: pay, critical: false}");
    assert_eq!(follows(&lenient, goes_on, Some("deny")).await, (RunStatus::Completed, 0));
    let stops = "this step ends as failed, and what it is part of stops";
    let branch = gated(
        "{id: both, parallel: {one: [{id: act, tool: pay}], two: [{id: wait, agent: idle}]}}",
    );
    assert_eq!(follows(&branch, stops, Some("deny")).await, (RunStatus::Failed, 0));
    // What stands in a block is told before it is decided on.
    let ahead = bills(&format!(
        "{{id: ask, {ASKED}}}, {{id: all, parallel: {{one: [{{id: act, tool: pay}}]}}}}"
    ));
    let told = "all, several steps, which call pay";
    assert_eq!(follows(&ahead, told, Some("reject")).await, (RunStatus::Failed, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn silence_does_what_the_page_says_it_does() {
    let asked = |patience: &str| {
        let human = format!("human: {{kind: approval, prompt: Pay it?, {patience}}}");
        bills(&format!("{{id: ask, {human}}}, {{id: act, tool: pay}}"))
    };
    let no = follows(&asked("deadline: 1s"), "that is a no.", None).await;
    assert_eq!(no, (RunStatus::Failed, 0));
    // Those who are asked as well may be silent, too.
    let more = asked("approvers: {to: [local], within: 1s, escalate: [{to: [bob], within: 1s}]}");
    assert_eq!(follows(&more, "these are asked as well: bob", None).await, (RunStatus::Failed, 0));
    // A conversation may go on without an answer.
    let human =
        "human: {kind: clarification, prompt: Anything else?, deadline: 1s, on_timeout: continue}";
    let goes_on = bills(&format!("{{id: ask, {human}}}, {{id: act, tool: pay}}"));
    let said = "the run goes on without an answer.";
    assert_eq!(follows(&goes_on, said, None).await, (RunStatus::Completed, 1));
}
