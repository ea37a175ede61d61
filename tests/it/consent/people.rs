//! The right person (K8): a question that is addressed to somebody is theirs, wherever they come in. Who
//! began the run sees that it waits and may not answer; to everybody else there is nothing.

use holdpoint::wire::v1::{Request, RunStatus, SendResponsesRequest};
use serde_json::{Value, json};
use tonic::Code;

use crate::a2a::calls::text;
use crate::bridge::calls::output;
use crate::consent::stage::{Stage, TOOL, question, refusal};

/// A gate for one person, and what a yes to it is.
#[derive(Debug, Clone, Copy)]
struct Gate {
    gates: &'static str,
    step: &'static str,
    yes: &'static str,
}

const TOOL_GATE: Gate = Gate {
    gates: "[{name: money, tools: [pay], to: [cfo]}]",
    step: "{id: act, tool: pay}",
    yes: "allow_once",
};
const STEP_GATE: Gate = Gate {
    gates: "[]",
    step: "{id: act, tool: pay, gate: {mode: before_step, to: [cfo]}}",
    yes: "approve",
};
const HUMAN_STEP: Gate = Gate {
    gates: "[]",
    step: "{id: ask, human: {kind: approval, prompt: Pay it?, to: [cfo]}}, {id: act, tool: pay}",
    yes: "approve",
};
const GATES: [Gate; 3] = [TOOL_GATE, STEP_GATE, HUMAN_STEP];

/// First somebody else is asked, who does not answer.
const ESCALATED: Gate = Gate {
    gates: "[{name: money, tools: [pay], to: [deputy], deadline: 300ms, \
            on_timeout: {escalate_to: {to: [cfo], within: 1h}}}]",
    step: "{id: act, tool: pay}",
    yes: "allow_once",
};

const PEOPLE: [(&str, &str); 5] =
    [("clerk", "user"), ("cfo", "user"), ("deputy", "user"), ("eve", "user"), ("ops", "admin")];

/// A run of the clerk's that waits for the CFO, and what it asks.
async fn asked(gate: Gate) -> (Stage, Request) {
    let flow = format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: {}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{}, {{id: end, agent: idle}}]
",
        gate.gates, gate.step
    );
    let stage = Stage::with_people(&flow, &PEOPLE).await;
    let events = stage.start("clerk", "", "Bill 7.").await;
    if gate.gates.contains("escalate_to") {
        let is_hers = |one: &Request| one.to.contains(&"cfo".to_owned());
        escalated(&stage, &events[0].run_id).await;
        let told = stage.inbox("ops").await;
        let request = told.into_iter().find(is_hers).unwrap_or_else(|| question(&events));
        return (stage, request);
    }
    // Whoever is asked has it in full; where nobody has, the one who began it was told.
    let request = stage.inbox("cfo").await.into_iter().next();
    let request = request.unwrap_or_else(|| question(&events));
    (stage, request)
}

/// Waits until somebody else is asked.
async fn escalated(stage: &Stage, run_id: &str) {
    use holdpoint::wire::v1::WatchRunRequest;
    use holdpoint::wire::v1::workflow_event::Event;
    let watch = WatchRunRequest { run_id: run_id.into(), through_pauses: true, after_sequence: 0 };
    let mut stream = stage.client("clerk").await.watch_run(watch).await.unwrap().into_inner();
    while let Some(told) = stream.message().await.unwrap() {
        if matches!(told.event, Some(Event::RequestEscalated(_))) {
            return;
        }
    }
    panic!("it was never escalated");
}

/// Nothing was done, and the run waits: the one who began it sees as much.
async fn assert_waits(stage: &Stage, request: &Request, how: &str) {
    let deeds = stage.deeds("clerk", &request.run_id).await;
    assert_eq!(deeds, Vec::<Value>::new(), "K8: {how}: it was done without the right person");
    let run = stage.runs("clerk").await.remove(0);
    assert_eq!(run.status(), RunStatus::Waiting, "{how}");
    assert_eq!(run.workflow_waiting.unwrap().open_requests, 1, "{how}: it is seen to wait");
}

fn not_admitted() -> (Code, String) {
    (Code::PermissionDenied, "answer.not_admitted".into())
}

/// An answer as a client sends it that knows nothing of digests.
async fn sends(stage: &Stage, who: &str, request: &Request, yes: &str) -> (Code, String) {
    let message = SendResponsesRequest {
        responses: [(request.request_id.clone(), yes.into())].into(),
        ..Default::default()
    };
    refusal(stage.client(who).await.send_responses(message).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_is_asked_finds_it_in_the_inbox_and_passes_it() {
    let mut stages = Vec::new();
    let mut open = Vec::new();
    for gate in GATES {
        let (stage, request) = asked(gate).await;
        open.push(stage.inbox("cfo").await.len());
        stages.push((gate, stage, request));
    }
    assert_eq!(open, [1, 1, 1], "K8: the inbox of the one who is asked, at each kind of gate");
    for (gate, stage, request) in stages {
        let inbox = stage.inbox("cfo").await;
        stage.answer("cfo", &inbox[0], json!(gate.yes)).await.unwrap();
        let deeds = stage.deeds("clerk", &request.run_id).await;
        assert_eq!(deeds.len(), 1, "{gate:?}: the right person said yes");
        let answers = stage.answers("clerk", &request.run_id).await;
        assert_eq!(answers, [(inbox[0].request_id.clone(), "cfo".to_owned())], "{gate:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_is_asked_passes_it_over_http() {
    let (stage, request) = asked(TOOL_GATE).await;
    let id = stage.inbox("cfo").await.first().map(|one| one.request_id.clone());
    let id = id.expect("K8: the inbox of the one who is asked");
    let body = json!({"model": "bills", "input": [output(&id, "allow_once")]});
    let reply = stage.http("cfo").post("/v1/responses", &body);
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "{reply:?}");
    assert_eq!(reply.status, 200, "what was taken is not called unknown: {reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_whoever_is_asked_passes_it_at_the_console() {
    let (stage, request) = asked(TOOL_GATE).await;
    let inbox = stage.console("cfo").get("/console/inbox");
    assert!(inbox.body.contains(&request.request_id), "K8: the inbox of the one who is asked");
    let page = stage.console("cfo").get(&format!("/console/requests/{}", request.request_id));
    assert_eq!(page.status, 200);
    let reply = stage.form("cfo", &request, &[("decision", "allow_once")]);
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "{reply:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_is_refused_by_grpc() {
    let mut seen = Vec::new();
    for gate in GATES {
        let (stage, request) = asked(gate).await;
        let refused = sends(&stage, "clerk", &request, gate.yes).await;
        seen.push((stage.deeds("clerk", &request.run_id).await.len(), refused));
    }
    assert_eq!(seen, vec![(0, not_admitted()); 3], "K8: what was done, and what was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_does_not_pass_it_with_words_in_the_session() {
    let (stage, request) = asked(TOOL_GATE).await;
    let said = stage.say("clerk", &request.session_id, "approve").await;
    assert_waits(&stage, &request, "RunWorkflow").await;
    assert!(said.is_err(), "words are refused there");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_is_refused_over_http() {
    let mut seen = Vec::new();
    for way in ["function_call_output", "mcp_approval_response", "workflow_hil_response", "qlaw"] {
        let (stage, request) = asked(TOOL_GATE).await;
        let id = request.request_id.as_str();
        let item = match way {
            "function_call_output" => output(id, "allow_once"),
            "mcp_approval_response" => {
                json!({"type": way, "approval_request_id": id, "approve": true})
            }
            _ => json!({"type": "message", "role": "user", "content": [
                {"type": way, "responses": {id: {"response": "allow_once"}}},
            ]}),
        };
        let refused = if way == "qlaw" {
            let path = format!("/v1/workflows/bills/requests/{id}/responses");
            stage.http("clerk").post(&path, &json!({"response": "allow_once"}))
        } else {
            let body = json!({"model": "bills", "input": [item]});
            stage.http("clerk").post("/v1/responses", &body)
        };
        let is_told = refused.body.contains("answer.not_admitted");
        let deeds = stage.deeds("clerk", &request.run_id).await.len();
        seen.push((way, deeds, refused.status, is_told));
    }
    let wrong: Vec<_> =
        seen.into_iter().filter(|it| (it.1, it.2, it.3) != (0, 403, true)).collect();
    assert_eq!(wrong, [], "K8: what was done, the status, and whether the code was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_does_not_pass_it_with_words_over_http() {
    let (stage, request) = asked(TOOL_GATE).await;
    let words = json!({"model": "bills", "conversation": request.session_id, "input": "approve"});
    stage.http("clerk").post("/v1/responses", &words);
    assert_waits(&stage, &request, "words in the conversation").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_does_not_pass_it_with_words_by_a2a() {
    let (stage, request) = asked(TOOL_GATE).await;
    let mut message = text("m1", "approve");
    message["taskId"] = json!(request.run_id);
    stage.agent("clerk").rpc("SendMessage", &json!({"message": message}));
    assert_waits(&stage, &request, "A2A, words").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_is_refused_by_a2a() {
    let (stage, request) = asked(TOOL_GATE).await;
    let mut message = text("m1", "");
    message["taskId"] = json!(request.run_id);
    message["parts"] = json!([{"data": {"responses": {&request.request_id: "allow_once"}}}]);
    let told = stage.agent("clerk").rpc("SendMessage", &json!({"message": message}));
    assert_waits(&stage, &request, "A2A, by id").await;
    assert!(told.to_string().contains("answer.not_admitted"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_whoever_began_it_is_refused_at_the_console() {
    let (stage, request) = asked(TOOL_GATE).await;
    let refused = stage.form("clerk", &request, &[("decision", "allow_once")]);
    assert_waits(&stage, &request, "console").await;
    assert_eq!(refused.status, 403, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_whoever_began_it_is_refused_by_websocket() {
    let (stage, request) = asked(TOOL_GATE).await;
    let answer = json!({"type": "answer", "responses": {&request.request_id: "allow_once"}});
    let told = stage.socket("clerk", &answer).await;
    assert_waits(&stage, &request, "WebSocket").await;
    assert_eq!(told["error"]["code"], "answer.not_admitted", "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn d2_whoever_is_neither_asked_nor_began_it_finds_nothing() {
    let (stage, request) = asked(TOOL_GATE).await;
    assert_eq!(stage.inbox("eve").await, []);
    let refused = sends(&stage, "eve", &request, "allow_once").await;
    assert_eq!(refused.0, Code::NotFound, "{refused:?}");
    let body = json!({"model": "bills", "input": [output(&request.request_id, "allow_once")]});
    assert_eq!(stage.http("eve").post("/v1/responses", &body).status, 404);
    let mut message = text("m1", "approve");
    message["taskId"] = json!(request.run_id);
    let told = stage.agent("eve").rpc("SendMessage", &json!({"message": message}));
    assert_eq!(told["error"]["code"], -32001, "{told}");
    assert_eq!(stage.form("eve", &request, &[("decision", "allow_once")]).status, 404);
    let answer = json!({"type": "answer", "responses": {&request.request_id: "allow_once"}});
    assert_eq!(stage.socket("eve", &answer).await["error"]["code"], "request.unknown");
    assert_waits(&stage, &request, "a stranger").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_admin_who_is_not_asked_is_refused_too() {
    let mut seen = Vec::new();
    for gate in GATES {
        let (stage, request) = asked(gate).await;
        let refused = sends(&stage, "ops", &request, gate.yes).await;
        seen.push((stage.deeds("clerk", &request.run_id).await.len(), refused));
    }
    assert_eq!(seen, vec![(0, not_admitted()); 3], "K8: what was done, and what was told");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_admin_who_is_not_asked_is_refused_at_the_console_too() {
    let (stage, request) = asked(TOOL_GATE).await;
    let refused = stage.form("ops", &request, &[("decision", "allow_once")]);
    assert_waits(&stage, &request, "an admin at the console").await;
    assert_eq!(refused.status, 403, "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_after_an_escalation_it_is_the_next_persons() {
    let (stage, request) = asked(ESCALATED).await;
    let refused = sends(&stage, "clerk", &request, "allow_once").await;
    assert_waits(&stage, &request, "whoever began it").await;
    assert_eq!(refused, not_admitted());
    assert_eq!(sends(&stage, "ops", &request, "allow_once").await, not_admitted(), "an admin");
    assert_eq!(sends(&stage, "eve", &request, "allow_once").await.0, Code::NotFound);
    let inbox = stage.inbox("cfo").await;
    assert_eq!(inbox.len(), 1, "K8: the inbox of the one who is asked now");
    stage.answer("cfo", &inbox[0], json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_after_an_escalation_the_next_person_passes_it() {
    let (stage, request) = asked(ESCALATED).await;
    let inbox = stage.inbox("cfo").await;
    assert_eq!(inbox.len(), 1, "K8: the inbox of the one who is asked now");
    stage.answer("cfo", &inbox[0], json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}
