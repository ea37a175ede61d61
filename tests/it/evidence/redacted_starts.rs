//! Redacted, whoever starts or forks: a gate that a start brings shows nobody what is for those whom the file asks, and
//! tells nothing of it by when it asks; and whoever forks another's run is not asked in their place for what they gave.

use holdpoint::wire::v1::{ForkRunRequest, GetRequestRequest, Request, RunWorkflowRequest};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::consent::stage::{Stage, question, refusal};
use crate::support::server::{drained, journal, start_of};

const PIN: &str = "8352-zanzibar-77";

const FLOW: &str = "
name: refunds
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  refund:
    provider: http
    parameters:
      type: object
      properties: {account: {type: string}, pin: {type: string, secret: true}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
GATES
agents: {idle: {human_input: false}}
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Your PIN?
        to: [cyd]
        response_schema: {type: object, properties: {pin: {type: string, secret: true}}}
    - {id: pay, tool: refund, arguments: {account: A1, pin: '${steps.ask.pin}'}}
    - {id: end, agent: idle}
";

const PEOPLE: [(&str, &str); 5] = [
    ("ada", "user"),
    ("bob", "user"),
    ("cyd", "user"),
    ("dan", "user"),
    ("op", "--role user --role operator"),
];

fn flow(gates: &str) -> String {
    FLOW.replace("GATES", gates)
}

/// Ada starts a run with gates of her own.
async fn begun(stage: &Stage, gates: &[Value]) -> Result<String, Status> {
    let request = RunWorkflowRequest {
        gates: gates.iter().cloned().map(Into::into).collect(),
        ..start_of("refunds", "", "Pay.", "")
    };
    let stream = stage.client("ada").await.run_workflow(request).await?.into_inner();
    Ok(question(&drained(stream).await?).run_id)
}

async fn given(stage: &Stage) {
    let asked = stage.inbox("cyd").await.pop().unwrap();
    stage.answer("cyd", &asked, json!({"pin": PIN})).await.unwrap();
}

async fn whole(stage: &Stage, who: &str, request: &Request) -> Request {
    let wanted = GetRequestRequest { request_id: request.request_id.clone() };
    stage.client(who).await.get_request(wanted).await.unwrap().into_inner().request.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k12_a_gate_of_a_start_shows_nobody_what_is_for_those_whom_the_file_asks() {
    let stage =
        Stage::with_people(&flow("gates: [{name: money, tools: [refund], to: [bob]}]"), &PEOPLE)
            .await;
    let gates = [
        ("ada", json!({"name": "mine", "tools": ["refund"]})),
        ("dan", json!({"name": "mine", "tools": ["refund"], "to": ["dan"]})),
        ("ada", json!({"name": "mine", "steps": ["pay"]})),
    ];
    for (asked_there, gate) in gates {
        let run = begun(&stage, std::slice::from_ref(&gate)).await.unwrap();
        given(&stage).await;
        let held = stage.inbox(asked_there).await.pop().expect("the start's own gate asks");
        assert_eq!(held.run_id, run, "{gate}");
        let page = format!("/console/requests/{}", held.request_id);
        let page = stage.console(asked_there).get(&page).body;
        let told = format!("{:?} {held:?} {page}", whole(&stage, asked_there, &held).await);
        assert!(told.contains("•••") && !told.contains(PIN), "{gate}: {told}");
        let told = format!("{:?}", journal(&mut stage.client("ada").await, &run).await);
        assert!(!told.contains(PIN), "{told}");
        // A yes there goes on to whom the file asks, who see it; and what is sent is what was given.
        stage.answer(asked_there, &held, json!(held.verbs[0])).await.unwrap();
        let asked = stage.inbox("bob").await.pop().unwrap();
        let told = format!("{:?}", whole(&stage, "bob", &asked).await);
        assert!(told.contains(PIN), "{told}");
        let before = stage.paid();
        stage.answer("bob", &asked, json!("allow_once")).await.unwrap();
        assert_eq!(stage.paid(), before + 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k12_a_start_does_not_ask_which_words_are_in_what_it_may_not_see() {
    let stage = Stage::with_people(&flow(""), &PEOPLE).await;
    for when in [
        json!([{"keywords": ["835"]}]),
        json!([{"argument": {"pointer": "/pin", "over": 5}}]),
        json!([{"uncertain": {"phrases": ["zanzibar"]}}]),
        json!(["uncertain"]),
        json!([{"complex": {"amounts": 1}}]),
    ] {
        let gate = json!({"name": "m", "steps": ["pay"], "to": ["dan"], "when": when});
        let refused = begun(&stage, &[gate]).await.unwrap_err();
        assert!(refused.message().contains("marked as secret"), "{when}: {refused:?}");
        assert_eq!(refusal::<()>(Err(refused)), (Code::InvalidArgument, "gate.invalid".into()));
    }
    let gate =
        json!({"name": "m", "steps": ["pay"], "to": ["dan"], "when": [{"failures_over": 3}]});
    begun(&stage, &[gate]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_may_fork_anothers_run_is_not_asked_in_their_place_for_what_was_confided() {
    // Nobody is named: the owner is asked.
    let stage = Stage::with_people(&flow("gates: [{name: money, tools: [refund]}]"), &PEOPLE).await;
    let run_id = begun(&stage, &[]).await.unwrap();
    let fork = |who: &'static str| {
        let request = ForkRunRequest { run_id: run_id.clone(), ..Default::default() };
        let stage = &stage;
        async move { drained(stage.client(who).await.fork_run(request).await?.into_inner()).await }
    };
    fork("op").await.expect("nothing was confided yet");
    let mut asked = stage.inbox("cyd").await;
    asked.retain(|asked| asked.run_id == run_id);
    stage.answer("cyd", &asked[0], json!({"pin": PIN})).await.unwrap();
    assert_eq!(refusal(fork("op").await).0, Code::PermissionDenied);
    let told = format!("{:?}", stage.inbox("op").await);
    assert!(!told.contains(PIN), "{told}");
    fork("ada").await.expect("its owner may");
}

/// A workflow that marks nothing, whose agent says again what it was told.
const ECHO: &str = "
=== echo
name: echo
models: {default: {provider: scripted, script: [{say: 'not sure about 8352-zanzibar-77'}]}}
agents: {parrot: {human_input: false}}
pattern: sequential
steps: [{agent: parrot}]
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k12_a_gate_of_a_start_shows_nothing_that_was_confided_wherever_it_is_said_again() {
    // The tool marks nothing, and the file asks nobody.
    let marked = "pin: {type: string, secret: true}}\n    settings";
    let plain = flow("").replace(marked, "pin: {type: string}}\n    settings");
    let stage = Stage::with_people(&format!("{plain}{ECHO}"), &PEOPLE).await;
    let hides = async |gate: &Value, run: &str| {
        let held = stage.inbox("ada").await;
        let held = held.iter().find(|held| held.run_id == run).expect("the start's own gate asks");
        let told = format!("{:?}", whole(&stage, "ada", held).await);
        assert!(told.contains("•••") && !told.contains(PIN), "{gate}: {told}");
        stage.answer("ada", held, json!(held.verbs[0])).await.unwrap();
    };
    let mut session = String::new();
    for gate in [json!({"name": "m", "tools": ["refund"]}), json!({"name": "m", "steps": ["pay"]})]
    {
        let run = begun(&stage, std::slice::from_ref(&gate)).await.unwrap();
        given(&stage).await;
        let before = stage.paid();
        hides(&gate, &run).await;
        assert_eq!(stage.paid(), before + 1, "what is sent is what was given");
        let runs = stage.runs("ada").await;
        session = runs.iter().find(|known| known.run_id == run).unwrap().session_id.clone();
    }
    // The session remembers it, and the next workflow there marks nothing.
    let again = async |gate: &Value| {
        let request = RunWorkflowRequest {
            gates: vec![gate.clone().into()],
            ..start_of("echo", &session, "Say it.", "")
        };
        let stream = stage.client("ada").await.run_workflow(request).await?.into_inner();
        drained(stream).await
    };
    let gate = json!({"name": "m", "replies": "any"});
    let run = question(&again(&gate).await.unwrap()).run_id;
    hides(&gate, &run).await;
    let gate = json!({"name": "m", "replies": "any", "when": [{"keywords": ["835"]}]});
    let refused = again(&gate).await.unwrap_err();
    assert!(refused.message().contains("in this session"), "{refused:?}");
}
