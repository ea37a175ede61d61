//! Redacted, whoever starts or forks: a gate that a start brings shows nobody what is for those whom the file asks, and
//! tells nothing of it by when it asks; and whoever forks another's run is not asked in their place for what they gave.

use holdpoint::wire::v1::{
    ForkRunRequest, GetRequestRequest, ListCheckpointsRequest, Request, RequestKind,
    RunWorkflowRequest,
};
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::consent::stage::{Stage, facts, question, refusal};
use crate::models::chat::{chunk, saying};
use crate::models::desk::data;
use crate::models::fixture::{Answer, Fixture};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_who_forks_a_call_that_failed_says_what_came_of_it_without_what_was_confided() {
    let own = json!({"name": "mine", "tools": ["refund"], "to": ["ada"]});
    let silent = "gates: [{name: money, tools: [refund], to: [bob], when: [{keywords: [danger]}]}]";
    for (gates, brought) in [("", vec![]), ("", vec![own]), (silent, vec![])] {
        let stage =
            Stage::with_people(&flow(gates).replace("TOOLS/pay", "TOOLS/broken"), &PEOPLE).await;
        let run_id = begun(&stage, &brought).await.unwrap();
        given(&stage).await;
        if !brought.is_empty() {
            let held = stage.inbox("ada").await.pop().expect("the start's own gate asks");
            stage.answer("ada", &held, json!("allow_once")).await.unwrap();
        }
        let sent = json!({"account": "A1", "pin": PIN});
        assert_eq!(stage.deeds("ada", &run_id).await, [sent], "it was called, and failed");
        let request = ForkRunRequest { run_id: run_id.clone(), ..Default::default() };
        let fork = stage.client("ada").await.fork_run(request).await.unwrap().into_inner();
        drained(fork).await.unwrap();
        let check = stage.inbox("ada").await.pop().expect("the fork asks");
        assert!(check.kind() == RequestKind::OutcomeCheck && check.run_id != run_id, "{check:?}");
        let id = check.request_id.as_str();
        let shown = whole(&stage, "ada", &check).await;
        assert!(shown.admits_you == Some(true) && shown.veiled, "{shown:?}");
        let doors = [
            format!("{shown:?}"),
            stage.command("ada", &["inbox", id, "--json"]).out,
            stage.agent("ada").call("GetTask", &json!({"id": check.run_id})).to_string(),
            stage.console("ada").get(&format!("/console/requests/{id}")).body,
        ];
        for told in doors {
            assert!(told.contains("•••") && !told.contains(PIN), "{gates} {brought:?}: {told}");
        }
        stage.answer("ada", &check, json!({"verb": "happened", "result": "paid"})).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fork_from_before_something_was_confided_tells_what_was_done_without_it() {
    // The tool marks nothing: that it is secret is said by the question alone to which it was given.
    let marked = "pin: {type: string, secret: true}}\n    settings";
    let plain = flow("").replace(marked, "pin: {type: string}}\n    settings");
    let first = "steps:\n    - {id: may, human: {kind: approval, prompt: Begin?, to: [ada]}}\n";
    let stage = Stage::with_people(&plain.replace("steps:\n", first), &PEOPLE).await;
    let run_id = begun(&stage, &[]).await.unwrap();
    let may = stage.inbox("ada").await.pop().unwrap();
    stage.answer("ada", &may, json!("approve")).await.unwrap();
    given(&stage).await;
    let sent = json!({"account": "A1", "pin": PIN});
    assert_eq!(stage.deeds("ada", &run_id).await, [sent]);
    let mut client = stage.client("ada").await;
    let marks = ListCheckpointsRequest { run_id: run_id.clone() };
    let marks = client.list_checkpoints(marks).await.unwrap().into_inner();
    let checkpoint_id = marks.checkpoints[0].checkpoint_id.clone();
    let request = ForkRunRequest { run_id: run_id.clone(), checkpoint_id, ..Default::default() };
    drained(client.fork_run(request).await.unwrap().into_inner()).await.unwrap();
    let again = stage.inbox("ada").await.pop().expect("the fork asks");
    assert_ne!(again.run_id, run_id);
    let told = facts(&whole(&stage, "ada", &again).await);
    assert!(told.contains("`refund` was called in run") && told.contains("A1"), "{told}");
    assert!(told.contains("•••"), "{told}");
    let id = again.request_id.as_str();
    let doors = [
        told,
        format!("{again:?}"),
        stage.command("ada", &["inbox", id]).out,
        stage.command("ada", &["inbox", id, "--json"]).out,
        stage.agent("ada").call("GetTask", &json!({"id": again.run_id})).to_string(),
        stage.console("ada").get(&format!("/console/requests/{id}")).body,
        format!("{:?}", journal(&mut client, &again.run_id).await),
    ];
    for told in doors {
        assert!(!told.contains(PIN), "{told}");
    }
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

/// A workflow that marks nothing; its model asks for what it wants to be secret.
const ASKING: &str = "
name: refunds
models: {default: {provider: openai_chat, model: small, base_url: 'MODEL', key_env: none}}
tools:
  refund:
    provider: http
    parameters: {type: object, properties: {pin: {type: string}}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
agents: {clerk: {instructions: Ask., human_input: {to: [cyd]}}}
pattern: graph
graph:
  steps:
    - {id: talk, agent: clerk}
    - {id: pay, tool: refund, arguments: {pin: '${steps.talk}'}}
";

/// A model that asks for a PIN, and says it when it knows it.
pub(super) async fn curious(pin: &'static str) -> Fixture {
    let schema =
        json!({"type": "object", "properties": {"pin": {"type": "string", "secret": true}}});
    let asks = json!({"prompt": "Your PIN?", "response_schema": schema}).to_string();
    let function = json!({"name": "request_user_input", "arguments": asks});
    let call =
        json!({"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]});
    let events = [chunk(&call, &Value::Null), chunk(&json!({}), &json!("tool_calls"))];
    let asks = format!("{}data: [DONE]\n\n", data(&events));
    Fixture::start(move |_, seen| {
        let knows = seen.body["messages"].to_string().contains(pin);
        Answer::stream(if knows { saying(&[pin]) } else { asks.clone() })
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k12_a_starts_conditions_do_not_look_at_what_an_agent_asked_for_as_secret() {
    let model = curious(PIN).await;
    let stage = Stage::with_people(&ASKING.replace("MODEL", &model.base_url), &PEOPLE).await;
    let looks_for = |name: &str, word: &str| json!({"name": name, "tools": ["refund"], "to": ["ada"], "when": [{"keywords": [word]}]});
    let run_id = begun(&stage, &[looks_for("y", "835"), looks_for("n", "836")]).await.unwrap();
    // A fork goes on with the gates of its original.
    let request = ForkRunRequest { run_id: run_id.clone(), ..Default::default() };
    let fork = stage.client("ada").await.fork_run(request).await.unwrap().into_inner();
    let fork = question(&drained(fork).await.unwrap()).run_id;
    for run in [run_id, fork] {
        let mut asked = stage.inbox("cyd").await;
        asked.retain(|asked| asked.run_id == run);
        stage.answer("cyd", &asked[0], json!({"pin": PIN})).await.unwrap();
        let mut held = stage.inbox("ada").await;
        held.retain(|held| held.run_id == run);
        let held = whole(&stage, "ada", &held[0]).await;
        let told = facts(&held);
        for gate in ["start:y", "start:n"] {
            let why = format!("{gate}: something is secret here");
            assert!(told.contains(&why), "{gate} asks, whatever it looks for: {told}");
        }
        let told = format!("{held:?}");
        assert!(!told.contains("high-risk word") && !told.contains(PIN), "{told}");
    }
}
