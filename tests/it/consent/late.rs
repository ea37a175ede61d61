//! The right question (K9): a yes that was meant for a question which has ended since is no yes to the
//! one that is open now, through whichever door the words come.

use holdpoint::wire::v1::{Request, RequestKind};
use serde_json::{Value, json};
use tonic::Code;

use crate::a2a::calls::{state, text, to};
use crate::bridge::calls::Caller;
use crate::consent::stage::{LOCAL, Stage, TOOL, question, refusal};

/// Asks about a form, which nobody has time for, and then about money.
fn late() -> String {
    let first = "{kind: selection, prompt: Use the short form?, options: ['yes', 'no'], \
                 deadline: 300ms, on_timeout: continue}";
    flow("late", first)
}

/// Asks for an approval, and then about money.
fn two() -> String {
    flow("two", "{kind: approval, prompt: Publish the page?}")
}

fn flow(name: &str, first: &str) -> String {
    format!(
        "
name: {name}
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
steps:
  - id: first
    human: {first}
  - {{id: pay, agent: payer}}
"
    )
}

fn is_money(request: &Request) -> bool {
    request.kind() == RequestKind::ToolApproval
}

/// Begins by gRPC in a session, and comes back when the first question has expired: the second.
async fn expired(session: &str) -> (Stage, Request) {
    let stage = Stage::open(&late()).await;
    let run_id = stage.start(LOCAL, session, "Order 7.").await[0].run_id.clone();
    let money = stage.until(LOCAL, &run_id, is_money).await;
    (stage, money)
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_a_late_yes_by_session_is_no_yes_to_the_next_question() {
    let (stage, money) = expired("mine").await;
    let said = stage.say(LOCAL, "mine", "yes").await;
    stage.assert_untouched(LOCAL, &money, "RunWorkflow").await;
    let status = said.unwrap_err();
    let (code, reason) = refusal::<()>(Err(status.clone()));
    assert_eq!((code, reason.as_str()), (Code::FailedPrecondition, "answer.unbound"));
    let told = format!("{status:?}");
    assert!(told.contains(&money.request_id), "what is open is listed: {told}");
    stage.answer(LOCAL, &money, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds(LOCAL, &money.run_id).await.len(), 1, "by its id it is answered");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_a_late_yes_by_a2a_task_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let task = stage.agent(LOCAL).send(&text("m1", "Order 7."));
    let money = stage.until(LOCAL, task["id"].as_str().unwrap(), is_money).await;
    let told = stage.agent(LOCAL).send(&to(&task, text("m2", "yes")));
    stage.assert_untouched(LOCAL, &money, "A2A taskId").await;
    assert_eq!(state(&told), "INPUT_REQUIRED", "it is told again: {told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_a2a_context_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let in_context = |id: &str, words: &str| {
        let mut message = text(id, words);
        message["contextId"] = json!("ours");
        message
    };
    let task = stage.agent(LOCAL).send(&in_context("m1", "Order 7."));
    let money = stage.until(LOCAL, task["id"].as_str().unwrap(), is_money).await;
    let told = stage.agent(LOCAL).send(&in_context("m2", "yes"));
    stage.assert_untouched(LOCAL, &money, "A2A contextId").await;
    assert_eq!((state(&told), &told["id"]), ("INPUT_REQUIRED", &task["id"]), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_a2a_over_http_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let task = stage.agent(LOCAL).send(&text("m1", "Order 7."));
    let money = stage.until(LOCAL, task["id"].as_str().unwrap(), is_money).await;
    let body = json!({"message": to(&task, text("m2", "yes"))});
    let reply = stage.agent(LOCAL).rest("POST", "/message:send", &body);
    stage.assert_untouched(LOCAL, &money, "A2A by HTTP+JSON").await;
    assert_eq!(state(&reply.json()["task"]), "INPUT_REQUIRED", "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_a2a_in_a_stream_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let task = stage.agent(LOCAL).send(&text("m1", "Order 7."));
    let money = stage.until(LOCAL, task["id"].as_str().unwrap(), is_money).await;
    let body = json!({"message": to(&task, text("m2", "yes"))});
    let told: Vec<_> = stage.agent(LOCAL).stream("SendStreamingMessage", &body).collect();
    stage.assert_untouched(LOCAL, &money, "A2A in a stream").await;
    assert!(!told.is_empty(), "the question is told again");
}

/// Begins over HTTP, and comes back when the first question has expired: the first response, the
/// second question.
async fn expired_over_http(stage: &Stage) -> (Value, Request) {
    let first = stage.http(LOCAL).start("late", "Order 7.");
    let money = stage.until(LOCAL, first["run_id"].as_str().unwrap(), is_money).await;
    (first, money)
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_conversation_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let (first, money) = expired_over_http(&stage).await;
    let body = json!({"model": "late", "conversation": first["conversation"], "input": "yes"});
    let reply = stage.http(LOCAL).post("/v1/responses", &body);
    stage.assert_untouched(LOCAL, &money, "conversation").await;
    let told = reply.ok();
    assert_eq!(told["workflow_waiting"]["requests"][0]["request_id"], money.request_id.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_in_devui_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let (first, money) = expired_over_http(&stage).await;
    let body = json!({
        "metadata": {"entity_id": "late"}, "conversation": first["conversation"], "input": "yes",
    });
    stage.http(LOCAL).post("/v1/responses", &body);
    stage.assert_untouched(LOCAL, &money, "DevUI").await;
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_a_late_yes_to_the_response_that_showed_the_first_question_is_stale() {
    let stage = Stage::open(&late()).await;
    let (first, money) = expired_over_http(&stage).await;
    let body = json!({"model": "late", "previous_response_id": first["id"], "input": "yes"});
    let reply = stage.http(LOCAL).post("/v1/responses", &body);
    stage.assert_untouched(LOCAL, &money, "previous_response_id").await;
    assert_eq!(reply.status, 400, "stale, and no SDK repeats it by itself: {reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_qlaws_input_is_no_yes_to_the_next_question() {
    let stage = Stage::open(&late()).await;
    let (_, money) = expired_over_http(&stage).await;
    let path = "/v1/workflows/late/send_responses";
    stage.http(LOCAL).post(path, &json!({"input": "yes"}));
    stage.assert_untouched(LOCAL, &money, "qlaw").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_next_line_on_a_sticky_server_is_no_yes_to_the_next_question() {
    let stage = Stage::set(&late(), &[], &["--http-sticky=true"]).await;
    let (_, money) = expired_over_http(&stage).await;
    let caller = Caller::by_hand(stage.server.address());
    let body = json!({"model": "late", "input": "yes", "stream": true});
    caller.post("/v1/responses", &body);
    stage.assert_untouched(LOCAL, &money, "sticky qlaw").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_late_yes_by_websocket_is_no_yes_to_the_next_question() {
    let (stage, money) = expired("mine").await;
    let start = json!({
        "type": "start", "workflow_id": "late", "conversation": "mine", "input": "yes",
    });
    let told = stage.socket(LOCAL, &start).await;
    stage.assert_untouched(LOCAL, &money, "WebSocket").await;
    let code = &told["error"]["code"];
    assert!(told["type"] == "ack" || code == "answer.unbound", "{told}");
}

/// Two see the first question; one approves it, and the second is asked. The first response that
/// the owner saw, and the second question.
async fn approved_by_the_other(stage: &Stage) -> (Value, Request) {
    let first = stage.http("ann").start("two", "The page.");
    let publish = stage.until("ann", first["run_id"].as_str().unwrap(), |_| true).await;
    let events = stage.answer("ann", &publish, json!("approve")).await.unwrap();
    let money = question(&events);
    assert!(is_money(&money), "{money:?}");
    (first, money)
}

/// A stage with two people who may both see what the first of them began.
async fn two_people() -> Stage {
    Stage::with_people(&two(), &[("ann", "user"), ("bob", "admin")]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_the_second_persons_late_approve_by_session_does_not_approve_the_next_question() {
    let mut seen = Vec::new();
    for who in ["bob", "ann"] {
        let stage = two_people().await;
        let (_, money) = approved_by_the_other(&stage).await;
        let said = stage.say(who, &money.session_id, "approve").await;
        seen.push((who, stage.touched("ann", &money).await, said.is_err()));
    }
    assert_eq!(seen, [("bob", None, true), ("ann", None, true)], "words are refused there");
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_the_second_persons_late_approve_by_a2a_does_not_approve_the_next_question() {
    let mut wrong = Vec::new();
    for who in ["bob", "ann"] {
        for field in ["taskId", "contextId"] {
            let stage = two_people().await;
            let (_, money) = approved_by_the_other(&stage).await;
            let mut message = text("m1", "approve");
            let named = if field == "taskId" { &money.run_id } else { &money.session_id };
            message[field] = json!(named);
            stage.agent(who).rpc("SendMessage", &json!({"message": message}));
            wrong.extend(stage.touched("ann", &money).await.map(|why| (who, field, why)));
        }
    }
    assert_eq!(wrong, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_the_second_persons_late_approve_over_http_does_not_approve_the_next_question() {
    let mut wrong = Vec::new();
    for who in ["bob", "ann"] {
        for field in ["conversation", "previous_response_id"] {
            let stage = two_people().await;
            let (first, money) = approved_by_the_other(&stage).await;
            let named =
                if field == "conversation" { &first["conversation"]["id"] } else { &first["id"] };
            let body = json!({"model": "two", field: named, "input": "approve"});
            let reply = stage.http(who).post("/v1/responses", &body);
            wrong.extend(stage.touched("ann", &money).await.map(|why| (who, field, why)));
            if field == "previous_response_id" && reply.status != 400 {
                wrong.push((who, field, format!("it is stale, and was told {}", reply.status)));
            }
        }
    }
    assert_eq!(wrong, []);
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k9_the_second_persons_late_answer_by_id_is_told_that_it_is_late() {
    let stage = two_people().await;
    let (first, money) = approved_by_the_other(&stage).await;
    let publish = first["workflow_waiting"]["requests"][0]["request_id"].as_str().unwrap();
    let body = json!({"model": "two", "previous_response_id": first["id"], "input": [
        {"type": "function_call_output", "call_id": publish, "output": "approve"},
    ]});
    let reply = stage.http("bob").post("/v1/responses", &body);
    stage.assert_untouched("ann", &money, "by id").await;
    assert_eq!(reply.refusal().1, "request.already_answered");
}
