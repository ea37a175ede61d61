//! A fork inherits history, not permission (K11): what was allowed in the old run is asked anew, a no
//! cannot be forked around, and the copied part of the trail says when and by whom it was.

use holdpoint::wire::json::Json;
use holdpoint::wire::proto_json::read;
use holdpoint::wire::v1::{
    AuditEntry, ForkRunRequest, ListCheckpointsRequest, Request, RevokeGrantRequest, WorkflowEvent,
};
use serde_json::{Value, json};
use tonic::Status;

use crate::bridge::calls::output;
use crate::consent::stage::{LOCAL, Stage, TOOL, form_of, question, refusal};
use crate::support::server::{asked, drained};

/// Two payments: the first is allowed for a while, the second comes after a word of the user's.
fn paying(allow_for: &str, between: &str) -> String {
    format!(
        "
name: paying
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates:
  - {{name: small, tools: [pay], allow_for: {allow_for}, when: [{{argument: {{pointer: /amount, over: 5}}}}]}}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: one, tool: pay, arguments: {{amount: 10}}}}
{between}
    - {{id: more, human: {{kind: clarification, prompt: Another one?}}}}
    - {{id: two, tool: pay, arguments: {{amount: 9}}}}
    - {{id: end, agent: idle}}
"
    )
}

async fn forked(stage: &Stage, who: &str, run_id: &str) -> Result<Vec<WorkflowEvent>, Status> {
    let request = ForkRunRequest { run_id: run_id.into(), ..Default::default() };
    drained(stage.client(who).await.fork_run(request).await?.into_inner()).await
}

/// A run whose first payment was allowed for a while, and which waits for a word.
async fn allowed(allow_for: &str, between: &str) -> (Stage, Request) {
    let stage = Stage::open(&paying(allow_for, between)).await;
    let first = question(&stage.start(LOCAL, "", "Orders.").await);
    stage.answer(LOCAL, &first, json!("allow_for_run")).await.unwrap();
    let is_word = |one: &Request| one.source_step == "more";
    let more = stage.until(LOCAL, &first.run_id, is_word).await;
    assert_eq!(stage.deeds(LOCAL, &first.run_id).await.len(), 1);
    (stage, more)
}

/// The fork of a run comes to its second payment, and asks.
async fn assert_asks_anew(stage: &Stage, run_id: &str, how: &str) -> String {
    let events = forked(stage, LOCAL, run_id).await.unwrap();
    let fork = events[0].run_id.clone();
    let mut open = question(&events);
    if open.source_step == "more" {
        stage.answer(LOCAL, &open, json!("Yes.")).await.unwrap();
        let deeds = stage.deeds(LOCAL, &fork).await;
        assert_eq!(deeds.len(), 1, "K11: {how}: the fork paid without asking");
        let mut inbox = stage.inbox(LOCAL).await;
        inbox.retain(|one| one.run_id == fork);
        open = inbox.remove(0);
    }
    assert_eq!(open.source_step, "two", "{how}");
    fork
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_a_fork_asks_again_where_a_grant_had_expired() {
    let (stage, more) = allowed("2s", "    - {id: hold, wait: {for: 3s}}").await;
    assert_asks_anew(&stage, &more.run_id, "expired").await;
    // So does the run itself.
    stage.answer(LOCAL, &more, json!("Yes.")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &more.run_id).await.len(), 1, "it had expired");
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_asks_again_where_a_grant_was_revoked() {
    let (stage, more) = allowed("1h", "").await;
    let named = json!({"runId": more.run_id, "tool": "pay"});
    let request: RevokeGrantRequest = read("holdpoint.v1.RevokeGrantRequest", named).unwrap();
    stage.client(LOCAL).await.revoke_grant(request).await.unwrap();
    assert_asks_anew(&stage, &more.run_id, "revoked").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_asks_again_where_a_grant_still_holds() {
    let (stage, more) = allowed("1h", "").await;
    assert_asks_anew(&stage, &more.run_id, "it holds in the old run").await;
    stage.answer(LOCAL, &more, json!("Yes.")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &more.run_id).await.len(), 2, "in the old run it still holds");
}

/// The answer to the first payment, as a trail has it.
fn first_answer(trail: &[AuditEntry]) -> AuditEntry {
    trail.iter().find(|entry| entry.action == "answered").unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_what_a_fork_copied_keeps_its_times_and_says_that_it_was_copied() {
    let (stage, more) = allowed("1h", "    - {id: hold, wait: {for: 1100ms}}").await;
    let events = forked(&stage, LOCAL, &more.run_id).await.unwrap();
    let fork = events[0].run_id.clone();
    let old = first_answer(&stage.audit(LOCAL, &more.run_id).await);
    let copied = first_answer(&stage.audit(LOCAL, &fork).await);
    assert_eq!(copied.time, old.time, "K11: nobody answered at the fork's time");
    assert_eq!((&copied.principal, &copied.door), (&old.principal, &old.door));
    let told = format!("{copied:?}").to_lowercase();
    let is_marked = ["fork", "copied", "copy"].iter().any(|word| told.contains(word));
    assert!(is_marked, "K11: the copy does not say that it is one: {copied:?}");
}

/// A payment that the boss alone may allow.
fn bossy() -> String {
    format!(
        "
name: bossy
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: [{{name: money, tools: [pay], to: [boss]}}]
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{{id: act, tool: pay}}, {{id: end, agent: idle}}]
"
    )
}

/// A run of the clerk's that the boss said no to.
async fn denied() -> (Stage, String) {
    let stage = Stage::with_people(&bossy(), &[("clerk", "user"), ("boss", "admin")]).await;
    let run_id = stage.start("clerk", "", "Bill 7.").await[0].run_id.clone();
    let request = stage.inbox("boss").await.remove(0);
    stage.answer("boss", &request, json!({"decision": "deny", "note": "No."})).await.unwrap();
    assert_eq!(stage.deeds("clerk", &run_id).await, Vec::<Value>::new());
    (stage, run_id)
}

/// What a fork asks: as its stream has it, or as the one has it who is asked.
async fn open_in(stage: &Stage, fork: &str, events: &[WorkflowEvent]) -> Option<Request> {
    let told = asked(events);
    if told.is_some() {
        return told;
    }
    stage.inbox("boss").await.into_iter().find(|one| one.run_id == fork)
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_is_not_forked_around_by_grpc() {
    let (stage, run_id) = denied().await;
    let Ok(events) = forked(&stage, "clerk", &run_id).await else { return };
    let fork = events[0].run_id.clone();
    if let Some(open) = open_in(&stage, &fork, &events).await {
        let outcome = stage.answer("clerk", &open, json!("allow_once")).await;
        let deeds = stage.deeds("clerk", &fork).await;
        assert_eq!(deeds, Vec::<Value>::new(), "K11: a no was forked around");
        assert!(outcome.is_err(), "whoever was told no cannot say yes to the copy");
    }
}

/// The clerk goes on from the checkpoint of the question, with what `input` makes of its id.
async fn forks_over_http(input: impl Fn(&str) -> Value) {
    let (stage, run_id) = denied().await;
    let request = ListCheckpointsRequest { run_id: run_id.clone() };
    let saved = stage.client("clerk").await.list_checkpoints(request).await.unwrap().into_inner();
    let saved = saved.checkpoints.last().unwrap().clone();
    let session = stage.runs("clerk").await.remove(0).session_id;
    let open = saved.workflow_waiting.unwrap_or_default().requests;
    let id = open.first().map(|one| one.request_id.clone()).unwrap_or_default();
    let body = json!({
        "model": "bossy", "conversation": session, "input": input(&id),
        "checkpoint_id": saved.checkpoint_id,
    });
    let reply = stage.http("clerk").post("/v1/responses", &body);
    // Whatever the fork asks is not for the clerk to say.
    let words = json!({"model": "bossy", "conversation": session, "input": "approve"});
    stage.http("clerk").post("/v1/responses", &words);
    for run in stage.runs("clerk").await {
        let deeds = stage.deeds("clerk", &run.run_id).await;
        assert_eq!(deeds, Vec::<Value>::new(), "K11: a no was forked around: {reply:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_is_not_forked_around_with_words_over_http() {
    forks_over_http(|_| json!("approve")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_is_not_forked_around_by_id_over_http() {
    forks_over_http(|id| json!([output(id, "allow_once")])).await;
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k11_a_no_is_not_forked_around_at_the_console() {
    let (stage, run_id) = denied().await;
    let console = stage.console("clerk");
    console.raw("POST", &format!("/console/runs/{run_id}/fork"), &form_of(&[("checkpoint", "")]));
    let forks = stage.runs("clerk").await.into_iter().filter(|run| run.run_id != run_id);
    for fork in forks {
        let open = fork.workflow_waiting.unwrap_or_default().requests;
        for request in open {
            let reply = stage.form("clerk", &request, &[("decision", "allow_once")]);
            let deeds = stage.deeds("clerk", &fork.run_id).await;
            assert_eq!(deeds, Vec::<Value>::new(), "K11: a no was forked around: {reply:?}");
            assert_eq!(reply.status, 403, "{reply:?}");
        }
    }
}

/// Somebody allows what a clarification stands before: the yes is not spent while the run waits there.
const APPROVED: &str = "
name: approved
models:
  default: {provider: scripted, script: [{say: Done.}]}
tools:{TOOL}
agents:
  idle: {human_input: false}
pattern: graph
graph:
  steps:
    - {id: ok, human: {kind: approval, prompt: Pay ten?, show: '10'}}
    - {id: word, human: {kind: clarification, prompt: Anything to add?}}
    - {id: act, tool: pay, arguments: {amount: 10}}
    - {id: later, human: {kind: clarification, prompt: And now?}}
    - {id: end, agent: idle}
";

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_begins_where_no_yes_is_left_to_be_spent_twice() {
    let stage = Stage::open(&APPROVED.replace("{TOOL}", TOOL)).await;
    let first = question(&stage.start(LOCAL, "", "Bill 7.").await);
    stage.answer(LOCAL, &first, json!("approve")).await.unwrap();
    let run = first.run_id.clone();
    let word = stage.until(LOCAL, &run, |one| one.source_step == "word").await;
    // Where nothing is said, the newest place at which the approval is still asked.
    let events = forked(&stage, LOCAL, &run).await.unwrap();
    assert_eq!(question(&events).source_step, "ok", "the approval is asked anew");
    let mut client = stage.client(LOCAL).await;
    let list = ListCheckpointsRequest { run_id: run.clone() };
    let newest = client.list_checkpoints(list).await.unwrap().into_inner().checkpoints;
    let newest = newest.iter().map(|one| one.checkpoint_id.clone()).max().unwrap();
    let there =
        ForkRunRequest { run_id: run.clone(), checkpoint_id: newest, ..ForkRunRequest::default() };
    let refused = client.fork_run(there).await;
    let words =
        refused.as_ref().err().map(|status| status.message().to_owned()).unwrap_or_default();
    assert_eq!(refusal(refused).1, "fork.unspent", "{words}");
    assert!(words.contains("fork from `chk_"), "{words}");
    assert!(words.contains(&first.request_id), "it names the request: {words}");
    // Once it is spent, what comes after it can be tried again.
    stage.answer(LOCAL, &word, json!("No.")).await.unwrap();
    stage.until(LOCAL, &run, |one| one.source_step == "later").await;
    let events = forked(&stage, LOCAL, &run).await.unwrap();
    assert_eq!(question(&events).source_step, "later");
    assert_eq!(stage.paid(), 1, "one yes, one deed");
}

/// A word and an approval of ada's, and two payments that bob allows one by one.
const TWICE: &str = "
name: twice
models:
  default: {provider: scripted, script: [{say: Done.}]}
tools:{TOOL}
gates: [{name: money, tools: [pay], to: [bob]}]
agents:
  idle: {human_input: false}
pattern: graph
graph:
  steps:
    - {id: word, human: {kind: clarification, prompt: What for?}}
    - {id: go, human: {kind: approval, prompt: Go?, to: [ada]}}
    - {id: b, tool: pay, arguments: {amount: 7}}
    - {id: b2, tool: pay, arguments: {amount: 8}}
    - {id: end, agent: idle}
";

/// Goes through such a run: what whoever is asked in each of its steps is told to have been done already.
async fn told_on_the_way(stage: &Stage, run_id: &str) -> Vec<Vec<String>> {
    let way = [
        ("ada", "word", "Rent."),
        ("ada", "go", "approve"),
        ("bob", "b", "allow_once"),
        ("bob", "b2", "allow_once"),
    ];
    let mut all = Vec::new();
    for (who, step, said) in way {
        let is_it = |one: &Request| one.run_id == run_id && one.source_step == step;
        stage.until("ada", run_id, is_it).await;
        let asked = stage.inbox(who).await.into_iter().find(is_it).unwrap();
        let facts = asked.context.clone().map(Json::into_value).unwrap_or_default();
        let told = facts["already_done"].as_array().into_iter().flatten();
        all.push(told.map(|done| done.as_str().unwrap().to_owned()).collect());
        stage.answer(who, &asked, json!(said)).await.unwrap();
    }
    all
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_fork_tells_everybody_who_decides_in_it_what_was_done_already() {
    let people = [("ada", "user"), ("bob", "user")];
    let stage = Stage::with_people(&TWICE.replace("{TOOL}", TOOL), &people).await;
    let run_id = stage.start("ada", "", "Bill 7.").await[0].run_id.clone();
    let told = told_on_the_way(&stage, &run_id).await;
    assert!(told.iter().all(Vec::is_empty), "nothing was done before: {told:?}");
    assert_eq!(stage.deeds("ada", &run_id).await.len(), 2);
    let mut client = stage.client("ada").await;
    let list = ListCheckpointsRequest { run_id: run_id.clone() };
    let marks = client.list_checkpoints(list).await.unwrap().into_inner().checkpoints;
    let checkpoint_id = marks[0].checkpoint_id.clone();
    let there = ForkRunRequest { run_id: run_id.clone(), checkpoint_id, ..Default::default() };
    let events = drained(client.fork_run(there).await.unwrap().into_inner()).await.unwrap();
    let told = told_on_the_way(&stage, &events[0].run_id).await;
    let counts: Vec<_> = told.iter().map(Vec::len).collect();
    assert_eq!(
        counts,
        [0, 2, 2, 1],
        "a word decides nothing; what is done anew is told no more: {told:?}"
    );
    let first = format!("`pay` was called in run {run_id} on ");
    assert!(told[2][0].starts_with(&first) && told[2][0].ends_with("{\"amount\":7}"), "{told:?}");
    assert!(told[3][0].ends_with("{\"amount\":8}"), "{told:?}");
    assert_eq!(stage.deeds("ada", &events[0].run_id).await.len(), 4, "whoever was told may do it");
}
