//! Gates that change without another file, on the real binary: what a start brings, what the operator's policy adds
//! and lifts, while a run waits and while it works, across SIGKILL; and policies that are refused whole.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{GetRunRequest, RuleInForce, RunWorkflowRequest, WatchRunRequest};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::a2a::calls::text;
use crate::consent::stage::{LOCAL, Stage, TOOL, refusal};
use crate::support::server::{Setup, asked, drained, run, start_of};
use crate::terminal::cli::holdpoint;

/// A payment, and then another.
fn flow(gates: &str) -> String {
    format!(
        "
name: refunds
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
gates: {gates}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: first, tool: pay, arguments: {{amount: 10}}}}
    - {{id: look, human: {{kind: approval, prompt: 'Go on?', show: on}}}}
    - {{id: second, tool: pay, arguments: {{amount: 20}}}}
    - {{id: end, agent: idle}}
"
    )
}

const ADDS: &str =
    "rules: [{name: careful, workflows: [refunds], gates: [{name: pay, tools: [pay]}]}]";
const LIFTS: &str =
    "rules: [{name: easy, workflows: [refunds], people: [local], lift: [before_pay]}]";
const NOTHING: &str = "rules: []";

/// A policy file that can be changed, beside the server.
struct PolicyFile {
    _folder: TempDir,
    path: PathBuf,
}

impl PolicyFile {
    fn new(text: &str) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("policy.yaml");
        fs::write(&path, text).unwrap();
        Self { _folder: folder, path }
    }

    fn write(&self, text: &str) {
        let beside = self.path.with_extension("new");
        fs::write(&beside, text).unwrap();
        fs::rename(&beside, &self.path).unwrap();
    }

    fn argument(&self) -> String {
        format!("--policy={}", self.path.display())
    }
}

async fn rules(stage: &Stage, run_id: &str) -> Vec<RuleInForce> {
    let request = GetRunRequest { run_id: run_id.into(), omit_conversation: true };
    stage.client(LOCAL).await.get_run(request).await.unwrap().into_inner().rules
}

/// Returns when the run was told of a policy; follows it through its pauses.
async fn told_of_policy(stage: &Stage, run_id: &str, times: usize) {
    let watch = WatchRunRequest { run_id: run_id.into(), through_pauses: true, after_sequence: 0 };
    let mut stream = stage.client(LOCAL).await.watch_run(watch).await.unwrap().into_inner();
    let mut seen = 0;
    while seen < times {
        let event = stream.message().await.unwrap().expect("the run was never told").event;
        seen +=
            usize::from(matches!(event, Some(Event::Warning(why)) if why.code == "policy.changed"));
    }
}

async fn started(stage: &Stage, gates: Vec<Value>) -> Vec<holdpoint::wire::v1::WorkflowEvent> {
    let gates = gates.into_iter().map(Into::into).collect();
    let start = RunWorkflowRequest { gates, ..start_of("refunds", "", "Order 7.", "") };
    run(&mut stage.client(LOCAL).await, start).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_s_own_gate_asks_across_a_kill_and_is_told_with_where_it_is_from() {
    let mut stage = Stage::open(&flow("[]")).await;
    let gate = json!({"name": "mine", "tools": ["pay"]});
    let told = started(&stage, vec![gate.clone()]).await;
    let request = asked(&told).expect("the start's gate asks");
    assert_eq!(stage.paid(), 0);
    stage.server.restart();
    let rules = rules(&stage, &request.run_id).await;
    let mine = rules.iter().find(|rule| rule.gate == "start:mine").unwrap();
    assert_eq!((mine.from.as_str(), mine.lifted), ("start", false));
    let shown = stage.command(LOCAL, &["runs", &request.run_id]).out;
    assert!(shown.contains("gate start:mine from start"), "{shown}");
    let trail = stage.audit(LOCAL, &request.run_id).await;
    assert!(trail[0].note.contains("brings the gates start:mine"), "{}", trail[0].note);
    stage.answer(LOCAL, &request, json!("yes")).await.unwrap();
    assert_eq!(stage.paid(), 1);

    // The same through the other doors: each asks, and nothing is done.
    let list = json!([gate]).to_string();
    let body =
        json!({"model": "refunds", "input": "Order 8.", "metadata": {"holdpoint.gates": list}});
    let told = stage.http(LOCAL).post("/v1/responses", &body).ok();
    assert!(told["workflow_waiting"].is_object(), "{told}");
    let mut message = text("m1", "Order 9.");
    message["metadata"] = json!({"holdpoint.gates": [gate]});
    let task = stage.agent(LOCAL).send(&message);
    assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
    let at_terminal =
        ["run", "refunds", "Order 10.", "--gate", r#"{"name": "mine", "tools": ["pay"]}"#];
    assert_eq!(stage.command(LOCAL, &at_terminal).code, 4, "it waits");
    assert_eq!(stage.paid(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_s_gate_that_loosens_contradicts_or_is_none_is_refused_with_its_code() {
    let stage = Stage::open(&flow("[{name: before_pay, tools: [pay]}]")).await;
    for (gate, code, field) in [
        (json!({"name": "before_pay", "tools": ["pay"]}), "gate.contradiction", "gates[0].name"),
        (
            json!({"name": "x", "tools": ["pay"], "when": ["uncertain"]}),
            "gate.contradiction",
            "gates[0].when",
        ),
        (json!({"name": "x"}), "gate.invalid", "gates[0]"),
        (json!({"name": "x", "tools": ["refund"]}), "gate.invalid", "gates[0].tools"),
        (
            json!({"name": "x", "tools": ["pay"], "prompt": "Fine?"}),
            "gate.invalid",
            "gates[0].prompt",
        ),
        (
            json!({"name": "x", "tools": ["pay"], "deadline": "1m",
                "on_timeout": {"escalate_to": {"to": ["local"]}}}),
            "gate.invalid",
            "gates[0].on_timeout",
        ),
        (json!({"name": "x", "tools": ["pay"], "lift": true}), "gate.invalid", "gates[0]"),
        (
            json!({"name": "x", "tools": ["pay"], "allow_for": "1h"}),
            "gate.invalid",
            "gates[0].allow_for",
        ),
    ] {
        let start = RunWorkflowRequest {
            gates: vec![gate.clone().into()],
            ..start_of("refunds", "", "Order 7.", "")
        };
        let status = stage.client(LOCAL).await.run_workflow(start).await.unwrap_err();
        assert_eq!(refusal::<()>(Err(status.clone())).1, code, "{gate}: {status:?}");
        assert!(status.message().starts_with(field), "{gate}: {}", status.message());
        let list = json!([gate]).to_string();
        let body = json!({"model": "refunds", "input": "x", "metadata": {"holdpoint.gates": list}});
        let told = stage.http(LOCAL).post("/v1/responses", &body);
        assert_eq!(told.refusal().1, code, "{gate}");
    }
    assert!(stage.runs(LOCAL).await.is_empty(), "nothing began");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_while_a_run_waits_is_an_event_and_the_next_deed_is_asked() {
    let policy = PolicyFile::new(NOTHING);
    let argument = policy.argument();
    let mut stage = Stage::set(&flow("[]"), &[], &[&argument]).await;
    let told = started(&stage, Vec::new()).await;
    let open = asked(&told).expect("the human step asks");
    assert_eq!(stage.paid(), 1, "the first payment was nobody's to ask about");
    policy.write(ADDS);
    told_of_policy(&stage, &open.run_id, 1).await;
    let now = rules(&stage, &open.run_id).await;
    assert!(now.iter().any(|rule| rule.gate.starts_with("policy:careful.pay#")), "{now:?}");
    let trail = stage.audit(LOCAL, &open.run_id).await;
    assert!(trail.iter().any(|entry| entry.action == "policy_changed"), "{trail:?}");
    stage.server.restart();
    let told = stage.answer(LOCAL, &open, json!("approve")).await.unwrap();
    let gate = asked(&told).expect("the policy's gate asks");
    assert_eq!(stage.paid(), 1);
    // A kill while the changed gate waits.
    stage.server.restart();
    policy.write(NOTHING);
    told_of_policy(&stage, &open.run_id, 2).await;
    assert_eq!(stage.paid(), 1, "a loosening answers no open question");
    let told = stage.answer(LOCAL, &gate, json!("yes")).await.unwrap();
    assert_eq!((stage.paid(), asked(&told).is_none()), (2, true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_lifts_a_gate_for_named_people_and_the_run_says_so() {
    let policy = PolicyFile::new(LIFTS);
    let argument = policy.argument();
    let stage = Stage::set(&flow("[{name: before_pay, tools: [pay]}]"), &[], &[&argument]).await;
    let told = started(&stage, Vec::new()).await;
    let open = asked(&told).expect("the human step asks");
    assert_eq!((stage.paid(), open.kind().as_str_name()), (1, "REQUEST_KIND_APPROVAL"));
    let now = rules(&stage, &open.run_id).await;
    let own = now.iter().find(|rule| rule.gate == "before_pay").unwrap();
    assert!(own.lifted && own.from.starts_with("policy "), "{own:?}");
    policy.write(NOTHING);
    told_of_policy(&stage, &open.run_id, 1).await;
    let told = stage.answer(LOCAL, &open, json!("approve")).await.unwrap();
    assert!(asked(&told).is_some(), "the file's gate is there again");
    assert_eq!(stage.paid(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_is_wrong_in_anything_is_refused_whole_and_the_old_one_stays_in_force() {
    let policy = PolicyFile::new(ADDS);
    let argument = policy.argument();
    let stage = Stage::set(&flow("[]"), &[], &[&argument]).await;
    for wrong in [
        "rules: [{name: a, workflows: [refund], mode: smart}]",
        "rules: [{name: a, gates: [{name: g, tools: [refund]}]}]",
        "rules: [{name: a, people: ['group:nobody'], mode: smart}]",
        "rules: [{name: a, mode: smart, loosen: true}]",
        "rules: [{name: a, lift: any}]",
        "mode: autonomous",
        "rules: [{name: a, gates: [{name: g, tools: [pay], when: [{keywords: ['']}]}]}]",
        "rules: [",
    ] {
        policy.write(wrong);
        while !stage.server.page("/readyz").1.contains("policy file is refused") {
            tokio::task::yield_now().await;
        }
        let paid = stage.paid();
        assert!(asked(&started(&stage, Vec::new()).await).is_some(), "{wrong}");
        assert_eq!(stage.paid(), paid, "the old one asks: {wrong}");
        policy.write(ADDS);
        while stage.server.page("/readyz").1 != "ready\n" {
            tokio::task::yield_now().await;
        }
    }
    // A pipe in its place holds up nobody who looks, and what lies there afterwards counts.
    fs::remove_file(&policy.path).unwrap();
    assert!(Command::new("mkfifo").arg(&policy.path).status().unwrap().success());
    while !stage.server.page("/readyz").1.contains("policy file is refused") {
        tokio::task::yield_now().await;
    }
    fs::remove_file(&policy.path).unwrap();
    policy.write(NOTHING);
    while stage.server.page("/readyz").1 != "ready\n" {
        tokio::task::yield_now().await;
    }
    let paid = stage.paid();
    started(&stage, Vec::new()).await;
    assert_eq!(stage.paid(), paid + 1, "the new one asks nobody");
    // One that is wrong at the beginning is no policy to begin with.
    let root = TempDir::new().unwrap();
    let broken = PolicyFile::new("mode: perhaps");
    let setup = Setup::new(root.path()).arg(&broken.argument());
    assert!(setup.try_start().is_err(), "no server without the rules that were asked for");
}

/// A run that is at work while its policy changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_changes_while_a_run_works_is_heeded_at_its_next_act() {
    let policy = PolicyFile::new(NOTHING);
    let argument = policy.argument();
    let flow = flow("[]").replace("{say: Done.}", "{say: Done., delay: 3s}").replace(
        "    - {id: first, tool: pay, arguments: {amount: 10}}\n    - {id: look, human: {kind: approval, prompt: 'Go on?', show: on}}\n",
        "    - {id: think, agent: idle}\n",
    );
    let stage = Stage::set(&flow, &[], &[&argument]).await;
    let start = start_of("refunds", "", "Order 7.", "");
    let mut stream = stage.client(LOCAL).await.run_workflow(start).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    policy.write(ADDS);
    told_of_policy(&stage, &first.run_id, 1).await;
    let told = drained(stream).await.unwrap();
    assert!(asked(&told).is_some(), "the gate that came meanwhile asks");
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_runs_are_told_of_a_policy_each_of_them_is_told_once() {
    let policy = PolicyFile::new(NOTHING);
    let argument = policy.argument();
    let mut stage = Stage::set(&flow("[]"), &[], &[&argument]).await;
    let mut open = Vec::new();
    for session in ["a", "b", "c"] {
        let told = stage.start(LOCAL, session, "Order 7.").await;
        open.push(asked(&told).expect("the human step asks"));
    }
    stage.server.restart_at_passage("engine.before_rule", 2);
    policy.write(ADDS);
    stage.server.ended().await;
    stage.server.restart();
    for (place, request) in open.iter().enumerate() {
        let told = stage.answer(LOCAL, request, json!("approve")).await.unwrap();
        asked(&told).expect("the policy's gate asks");
        let trail = stage.audit(LOCAL, &request.run_id).await;
        let changes = trail.iter().filter(|entry| entry.action == "policy_changed").count();
        assert_eq!((place, changes, stage.paid()), (place, 1, 3), "{trail:?}");
    }
}

/// A check, an approval of the office's, and the payment; the same with the approval in a block.
fn guarded(approval: &str) -> String {
    format!(
        "
name: refunds
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps:
    - {{id: check, agent: idle}}
    - {approval}
    - {{id: act, tool: pay, arguments: {{amount: 10}}}}
"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_nobody_passes_an_approval_by_a_gate_that_they_brought_themselves() {
    let office = "{id: ok, human: {kind: approval, prompt: 'Pay?', to: [cfo]}}";
    let block =
        "{id: block, steps: [{id: ok, human: {kind: approval, prompt: 'Pay?', to: [cfo]}}]}";
    let people = [("ada", "user"), ("cfo", "user")];
    for (approval, gated) in [(office, "ok"), (office, "check"), (block, "block")] {
        let stage = Stage::with_people(&guarded(approval), &people).await;
        let gate = json!({"name": "mine", "steps": [gated], "to": ["ada"]});
        let start = RunWorkflowRequest {
            gates: vec![gate.into()],
            ..start_of("refunds", "", "Order 7.", "")
        };
        let told = run(&mut stage.client("ada").await, start.clone()).await;
        let own = asked(&told).expect("her own gate asks her");
        for word in ["skip", "edit", "continue", "redo"] {
            let refused = stage.answer("ada", &own, json!({"decision": word})).await;
            assert_eq!(refusal(refused).1, "answer.invalid", "{gated}: {word}");
        }
        // A no ends the run.
        stage.answer("ada", &own, json!("reject")).await.unwrap();
        let run_id = own.run_id.clone();
        let state = stage.runs("ada").await.into_iter().find(|run| run.run_id == run_id).unwrap();
        assert_eq!(state.status().as_str_name(), "RUN_STATUS_FAILED", "{gated}");
        // A yes lets it come to whoever is asked by the file.
        let told = run(&mut stage.client("ada").await, start).await;
        let own = asked(&told).unwrap();
        stage.answer("ada", &own, json!("approve")).await.unwrap();
        let office = stage.inbox("cfo").await.remove(0);
        assert_eq!(
            refusal(stage.answer("ada", &office, json!("approve")).await).1,
            "answer.not_admitted"
        );
        assert_eq!(stage.paid(), 0, "{gated}");
        stage.answer("cfo", &office, json!("reject")).await.unwrap();
        assert_eq!(stage.paid(), 0, "{gated}: a no is a no");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k12_a_gate_that_was_brought_lets_nobody_choose_the_arguments_or_look_afterwards() {
    let gates =
        "[{name: much, tools: [pay], when: [{argument: {pointer: /amount, over: 15}}], to: [cfo]}]";
    let people = [("ada", "user"), ("cfo", "user")];
    let stage = Stage::with_people(&flow(gates), &people).await;
    let start = |gate: Value| RunWorkflowRequest {
        gates: vec![gate.into()],
        ..start_of("refunds", "", "Order 7.", "")
    };
    let mine = json!({"name": "mine", "tools": ["pay"], "to": ["ada"]});
    let told = run(&mut stage.client("ada").await, start(mine.clone())).await;
    let own = asked(&told).unwrap();
    let edit = json!({"decision": "edit", "arguments": {"amount": 14}});
    assert_eq!(refusal(stage.answer("ada", &own, edit).await).1, "answer.invalid");
    // Taken back, it is a no, and the end.
    stage
        .client("ada")
        .await
        .cancel_request(holdpoint::wire::v1::CancelRequestRequest {
            request_id: own.request_id.clone(),
            ..Default::default()
        })
        .await
        .unwrap();
    let state = stage.runs("ada").await.remove(0);
    assert_eq!((state.status().as_str_name(), stage.paid()), ("RUN_STATUS_FAILED", 0));
    let after = json!({"name": "mine", "steps": ["look"], "at": ["error"], "to": ["ada"]});
    let refused = stage.client("ada").await.run_workflow(start(after)).await.map(drop);
    assert_eq!(refusal(refused).1, "gate.invalid");
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_store_that_was_served_with_rules_is_not_served_without_a_policy() {
    let policy = PolicyFile::new("rules: [{name: careful, mode: manual}]");
    let root = TempDir::new().unwrap();
    let changes = || {
        let told = holdpoint(root.path(), &["audit", "--store", "--json", "--data", "data"], "");
        told.out.matches(r#""action":"policy_changed","principal""#).count()
    };
    served(&Setup::new(root.path()).arg(&policy.argument()));
    assert_eq!(changes(), 1, "the first policy is told of");
    for command in [["serve", "--listen=127.0.0.1:0"], ["run", "approve_and_send"]] {
        let args =
            [&command[..], &["--data", "data"], if command[0] == "run" { &["x"] } else { &[] }];
        let refused = holdpoint(root.path(), &args.concat(), "");
        assert!(refused.code != 0 && refused.err.contains("--policy FILE"), "{refused:?}");
    }
    // Whoever only looks is let, and what was changed while nobody served is told.
    let looked = holdpoint(root.path(), &["inbox", "--data", "data"], "");
    assert_eq!(looked.code, 0, "{looked:?}");
    let told = holdpoint(root.path(), &["doctor", "--data", "data"], "");
    assert!(told.code != 0 && told.out.contains("no policy is named"), "{told:?}");
    policy.write(NOTHING);
    served(&Setup::new(root.path()).arg(&policy.argument()));
    assert_eq!(changes(), 2, "and the next");
    // Once it has no rules, none is missing.
    served(&Setup::new(root.path()));
}

/// Serves, and stops as it should.
fn served(setup: &Setup) {
    let mut server = setup.start();
    server.terminate();
    assert!(server.wait().success());
}
