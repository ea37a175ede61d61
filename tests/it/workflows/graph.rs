//! Graphs on the real server: customer onboarding and the research task, four ways; external events.

use std::fs;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    GetRunRequest, GetRunResponse, Request, RunStatus, SendResponsesRequest, SignalRunRequest,
    WorkflowEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Server, Setup, names, run, send, start_of};
use crate::terminal::cli::holdpoint;

/// How it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Straight,
    KilledWaiting,
    KilledResumingBefore,
    KilledResumingAfter,
}

const WAYS: [Way; 4] =
    [Way::Straight, Way::KilledWaiting, Way::KilledResumingBefore, Way::KilledResumingAfter];

struct Play {
    root: TempDir,
    server: Server,
    way: Way,
    run_id: String,
    answers: u32,
}

impl Play {
    async fn start(workflow: &str, way: Way, input: &str) -> (Self, Vec<WorkflowEvent>) {
        Self::start_with(workflow, way, input, None).await
    }

    /// Plays a workflow of a file of its own, if one is given.
    async fn start_with(
        workflow: &str,
        way: Way,
        input: &str,
        file: Option<&str>,
    ) -> (Self, Vec<WorkflowEvent>) {
        let root = TempDir::new().unwrap();
        if let Some(text) = file {
            let folder = root.path().join("flows");
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("w.yaml"), text).unwrap();
            let script = "research_task.script.yaml";
            let from = concat!(env!("CARGO_MANIFEST_DIR"), "/workflows/");
            fs::copy(format!("{from}{script}"), folder.join(script)).unwrap();
        }
        let server = Setup::new(root.path()).start();
        let events = run(&mut server.client().await, start_of(workflow, "", input, "key")).await;
        let run_id = events[0].run_id.clone();
        (Self { root, server, way, run_id, answers: 0 }, events)
    }

    async fn answer(&mut self, after: &[WorkflowEvent], value: Value) -> Vec<WorkflowEvent> {
        self.answers += 1;
        let request = only(after).request_id;
        let answer = SendResponsesRequest {
            responses: [(request, value.into())].into(),
            idempotency_key: format!("answer-{}", self.answers),
            ..SendResponsesRequest::default()
        };
        match self.way {
            Way::Straight => {}
            Way::KilledWaiting => self.server.restart(),
            Way::KilledResumingBefore => self.dies_at("engine.before_append", &answer).await,
            Way::KilledResumingAfter => self.dies_at("engine.after_append", &answer).await,
        }
        let events = send(&mut self.server.client().await, answer).await;
        assert!(matches!(names(&events).last(), Some(&"status" | &"completed" | &"failed")));
        events
    }

    async fn dies_at(&mut self, failpoint: &str, answer: &SendResponsesRequest) {
        self.server.restart_at(failpoint);
        let outcome = self.server.client().await.send_responses(answer.clone()).await;
        assert!(outcome.is_err(), "it died before it could say anything");
        self.server.wait();
        self.server.restart();
    }

    async fn view(&self) -> GetRunResponse {
        let request = GetRunRequest { run_id: self.run_id.clone(), omit_conversation: false };
        self.server.client().await.get_run(request).await.unwrap().into_inner()
    }
}

/// The open requests of a pause.
pub(crate) fn requests(events: &[WorkflowEvent]) -> Vec<Request> {
    let Some(Event::Status(status)) = &events.last().unwrap().event else {
        panic!("no pause: {:?}", names(events))
    };
    status.workflow_waiting.clone().unwrap().requests
}

#[track_caller]
fn only(events: &[WorkflowEvent]) -> Request {
    let mut requests = requests(events);
    assert_eq!(requests.len(), 1, "{requests:?}");
    requests.remove(0)
}

fn ids(request: &Request) -> Vec<&str> {
    request.options.iter().map(|option| option.id.as_str()).collect()
}

#[tokio::test]
async fn s4_comes_to_the_same_end_however_the_server_dies() {
    for way in WAYS {
        let (mut play, events) = Play::start("customer_onboarding", way, "Onboard Acme").await;
        let asked = only(&events);
        assert_eq!(
            (asked.source_step.as_str(), ids(&asked)),
            ("account/default/select_account", vec!["A-1", "A-2"])
        );
        assert_eq!(asked.options[1].label, "Acme Labs");
        let events = play.answer(&events, json!("Acme Labs")).await;
        assert_eq!(ids(&only(&events)), ["O-10", "O-11"], "{way:?}");
        let events = play.answer(&events, json!("O-10")).await;
        assert_eq!(requests(&events), [], "it waits for an event and asks nobody");
        let view = play.view().await.run.unwrap();
        assert_eq!(view.status(), RunStatus::Waiting);
        let signal = SignalRunRequest {
            run_id: play.run_id.clone(),
            name: "onboarding_complete".into(),
            ..Default::default()
        };
        if way == Way::KilledWaiting {
            play.server.restart();
        }
        play.server.client().await.signal_run(signal.clone()).await.unwrap();
        let view = play.view().await;
        let run = view.run.unwrap();
        assert_eq!((run.status(), run.workflow_waiting), (RunStatus::Completed, None), "{way:?}");
        let report = "Onboarding report. Account A-2, opportunity O-10 (Platform licence), case \
                      C-100, 3 tasks; the customer's side ended by signal.";
        assert_eq!(**view.output.as_ref().unwrap(), json!(report), "{way:?}");
        let again = play.server.client().await.signal_run(signal).await;
        assert!(again.is_err(), "the run is over");
        let journal =
            crate::support::server::journal(&mut play.server.client().await, &play.run_id).await;
        let settled = journal.iter().filter(|event| {
            matches!(&event.event, Some(Event::StepSettled(it)) if it.executor_id == "update_stage")
        });
        assert_eq!(settled.count(), 1, "E3");
    }
}

#[tokio::test]
async fn s4_asks_nothing_where_there_is_no_choice_and_takes_its_event_from_another_process() {
    let (mut play, events) =
        Play::start("customer_onboarding", Way::Straight, "Onboard Globex").await;
    assert_eq!(only(&events).source_step, "select_opportunity");
    let events = play.answer(&events, json!("2")).await;
    assert_eq!(requests(&events), []);
    let url = play.server.url();
    let tell = |name: &str| {
        let arguments = ["signal", &play.run_id, name, "{\"by\": \"Ann\"}", "--server", &url];
        holdpoint(play.root.path(), &arguments, "")
    };
    assert_ne!(tell("something_else").code, 0, "it does not wait for that");
    assert_eq!(tell("onboarding_complete").code, 0);
    assert_eq!(play.view().await.run.unwrap().status(), RunStatus::Completed);
}

#[tokio::test]
async fn s2_plan_review_and_both_layers_of_gates_however_the_server_dies() {
    for way in WAYS {
        let input = "Measure the dust in the data and publish a report.";
        let (mut play, events) = Play::start("research_task", way, input).await;
        let plan = only(&events);
        assert_eq!(
            (plan.source_step.as_str(), plan.prompt.as_str()),
            ("planning", "Review this plan.")
        );
        assert_eq!(plan.context.as_ref().unwrap()["plan"]["steps"][0]["title"], "Analyse the data");
        let note = "Please be careful with the “old” data.";
        let events = play.answer(&events, json!({"decision": "approve", "note": note})).await;
        assert_eq!(only(&events).prompt, "Step 1: Analyse the data", "{way:?}");
        // The first step runs code, which is not dangerous; the second edits a file, which always is.
        let events = play.answer(&events, json!("approve")).await;
        assert_eq!(only(&events).prompt, "Step 2: Write the report", "{way:?}");
        let events = play.answer(&events, json!("approve")).await;
        assert_eq!(only(&events).prompt, "May engineer call `write_file`?");
        let events = play.answer(&events, json!("allow_once")).await;
        assert_eq!(names(&events).last(), Some(&"completed"), "{way:?}");
        let view = play.view().await;
        let output = view.output.as_ref().unwrap();
        assert_eq!(
            output["results"],
            json!(["The program says that the mean is 0.42.", "The report is written."]),
            "{way:?}"
        );
        assert!(view.conversation.iter().any(|said| said.text == note && said.role == "user"));
    }
}

/// The shipped file, with one text in place of another.
fn research(from: &str, to: &str) -> String {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/workflows/research_task.yaml");
    let text = fs::read_to_string(file).unwrap();
    assert!(text.contains(from), "{from}");
    text.replace(from, to)
}

/// A text without what stands from one place to another.
fn without(text: &str, from: &str, to: &str) -> String {
    let (before, rest) = text.split_once(from).unwrap();
    let (_, after) = rest.split_once(to).unwrap();
    format!("{before}{to}{after}")
}

const MODE: &str = "mode: [before_step, on_error], prompt: \"Step ${index + 1}: ${step.title}\"";
const MANDATORY: &str = "  - name: before_file_edit\n    tags: [edits]\n";

/// Plays a control phase to its end, approving all; returns what was asked.
async fn asked_in(file: &str, plan: Value) -> Vec<String> {
    let (mut play, mut events) =
        Play::start_with("research_task", Way::Straight, "Go.", Some(file)).await;
    let mut asked = Vec::new();
    while names(&events).last() == Some(&"status") {
        let request = only(&events);
        let value = match request.kind().as_str_name() {
            "REQUEST_KIND_PLAN_REVIEW" => json!({"decision": "modify", "plan": {"steps": plan}}),
            "REQUEST_KIND_TOOL_APPROVAL" => json!("allow_once"),
            _ => json!("approve"),
        };
        asked.push(format!("{} {}", request.source_step, request.kind().as_str_name()));
        events = play.answer(&events, value).await;
    }
    assert_eq!(names(&events).last(), Some(&"completed"));
    asked.into_iter().skip(1).collect()
}

#[tokio::test]
async fn s2_the_configuration_matrix_of_the_control_phase() {
    let plan = json!([{"title": "Write the report"}, {"title": "Clean up"}]);
    let (step, tool) = ("REQUEST_KIND_APPROVAL", "REQUEST_KIND_TOOL_APPROVAL");
    let first = format!("control[0]/execute {step}");
    let second = format!("control[1]/execute {step}");
    let engineer = ["execute[1]", "work", "case0", "engineer"].join("/");
    let edit = format!("control[0]/{engineer} {tool}");
    let delete = format!("control[1]/{engineer} {tool}");
    let whole = research(MODE, "mode: before_step");
    let without_smart = without(&whole, "  # Smart", "agents:\n");
    // Phase gates only.
    let phase_only = without(&without_smart, "gates:\n", "agents:\n");
    assert_eq!(asked_in(&phase_only, plan.clone()).await, [first.clone(), second.clone()]);
    // Phase gates and a mandatory checkpoint for file edits.
    let expected = [first.clone(), edit, second.clone()];
    assert_eq!(asked_in(&without_smart, plan.clone()).await, expected);
    // Phase gates and dynamic escalation.
    let smart = whole.replace(MANDATORY, "");
    let expected = [first, second, delete.clone()];
    assert_eq!(asked_in(&smart, plan.clone()).await, expected);
    // Only dynamic escalation.
    let never = smart.replace("gate: {mode: before_step}", "gate: {mode: never}");
    assert_eq!(asked_in(&never, plan).await, [delete]);
}

/// A planning phase alone: the planner looks something up first, and one worker does the rest.
fn planning(review: &str, gates: &str) -> String {
    let has_judge = gates.contains("auditor");
    let auditor = if has_judge { ", auditor: {}" } else { "" };
    let rules =
        "      - {agent: auditor, when: {last_contains: odd}, output: {ask: true, reason: Odd.}}
      - {agent: auditor, output: {ask: false, reason: Plain.}}\n";
    let rules = if has_judge { rules } else { "" };
    format!(
        "\
name: research_task
models:
  m:
    provider: scripted
    script:
      - {{agent: planner, turn: 1, call: [{{tool: search, arguments: {{q: '{{{{first_user}}}}'}}}}]}}
      - {{agent: planner, output: {{steps: [{{title: Walk}}]}}}}
{rules}      - {{say: Done.}}
tools: {{search: {{provider: scripted, settings: {{returns: a map}}}}}}
agents: {{planner: {{tools: [search]}}, worker: {{}}{auditor}}}
gates: {gates}
pattern: plan_execute
plan_execute: {{planner: planner, workers: [worker], gate: {{mode: never}}, review: {{mode: {review}}}}}
"
    )
}

#[tokio::test]
async fn s2_the_configuration_matrix_of_the_planning_phase() {
    let smart =
        "[{name: smart, tools: [search], when: [{keywords: [production]}, {judge: auditor}]}]";
    let (review, call) = ("planning plan_review", "planning[1]/planner tool_approval");
    for (mode, gates, input, expected) in [
        // Without people at all.
        ("never", "[]", "Plan production.", vec![]),
        // A mandatory checkpoint after planning.
        ("plan_review", "[]", "Plan production.", vec![review]),
        // Escalation during planning: by a rule, by the judge, and not at all.
        ("never", smart, "Plan production.", vec![call]),
        ("never", smart, "Plan something odd.", vec![call]),
        ("never", smart, "Plan a walk.", vec![]),
        // Both.
        ("plan_review", smart, "Plan something odd.", vec![call, review]),
    ] {
        let file = planning(mode, gates);
        let (mut play, mut events) =
            Play::start_with("research_task", Way::Straight, input, Some(&file)).await;
        let mut asked = Vec::new();
        while names(&events).last() == Some(&"status") {
            let request = only(&events);
            let kind =
                request.kind().as_str_name().trim_start_matches("REQUEST_KIND_").to_lowercase();
            let yes = if kind == "plan_review" { "approve" } else { "allow_once" };
            asked.push(format!("{} {kind}", request.source_step));
            events = play.answer(&events, json!(yes)).await;
        }
        assert_eq!(names(&events).last(), Some(&"completed"), "{mode} {gates} {input}");
        assert_eq!(asked, expected, "{mode} {gates} {input}");
    }
}

#[tokio::test]
pub(crate) async fn s2_an_error_is_a_persons_to_decide() {
    let (mut play, events) = Play::start("research_task", Way::Straight, "Go.").await;
    let plan = json!({"steps": [{"title": "Break it"}]});
    let events = play.answer(&events, json!({"decision": "modify", "plan": plan})).await;
    let events = play.answer(&events, json!("approve")).await;
    let asked = only(&events);
    assert_eq!(ids(&asked), ["retry", "skip", "abort"]);
    let events = play.answer(&events, json!("skip")).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
}

#[tokio::test]
async fn a_chat_goes_round_until_somebody_says_the_word() {
    let file = "\
name: chat
models: {m: {provider: scripted, script: [{agent: b, turn: 2, say: I AGREE.}, {say: Hm.}]}}
agents: {a: {human_input: false}, b: {human_input: false}}
pattern: group_chat
group_chat: {agents: [a, b], rounds: 9, ends: i agree}
";
    let (play, events) = Play::start_with("chat", Way::Straight, "Talk.", Some(file)).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    let said = play.view().await.conversation;
    let said: Vec<_> = said.iter().map(|one| one.author_name.as_str()).collect();
    assert_eq!(said[1..], ["a", "b", "a", "b"]);
}

#[tokio::test]
pub(crate) async fn s4_is_answered_through_other_doors_than_it_was_started_from() {
    let (play, events) = Play::start("customer_onboarding", Way::Straight, "Onboard Acme").await;
    let url = play.server.url();
    let session = events[0].session_id.clone();
    let tell = |arguments: &[&str]| {
        let arguments = [arguments, &["--server", &url, "--json"]].concat();
        holdpoint(play.root.path(), &arguments, "")
    };
    // By id from another process; then as a second message in the session.
    let told = tell(&["respond", &only(&events).request_id, "Acme Labs"]);
    assert_eq!(told.code, 4, "it waits again: {}", told.err);
    let told = tell(&["run", "customer_onboarding", "O-11", "--session", &session]);
    assert_eq!(told.code, 4, "it waits for its event: {}", told.err);
    assert_eq!(tell(&["signal", &play.run_id, "onboarding_complete"]).code, 0);
    let trail = tell(&["audit", "--run", &play.run_id]).out;
    let signalled = trail.lines().find(|line| line.contains("\"signalled\"")).unwrap();
    let signalled: Value = serde_json::from_str(signalled).unwrap();
    assert_eq!(
        (&signalled["principal"], &signalled["note"]),
        (&json!("local"), &json!("onboarding_complete"))
    );
    assert_eq!(play.view().await.run.unwrap().status(), RunStatus::Completed);
}

#[tokio::test]
pub(crate) async fn s2_is_answered_through_other_doors_than_it_was_started_from() {
    let input = "Measure the dust in the data and publish a report.";
    let (play, events) = Play::start("research_task", Way::Straight, input).await;
    let url = play.server.url();
    let session = events[0].session_id.clone();
    let tell = |arguments: &[&str]| {
        let arguments = [arguments, &["--server", &url, "--json"]].concat();
        let told = holdpoint(play.root.path(), &arguments, "");
        assert_eq!(told.code, 4, "it waits again: {}", told.err);
    };
    // The plan by id from another process, with a note; the first gate as a message in the session;
    // the second from the inbox; the tool over gRPC again.
    let note = "{\"decision\": \"approve\", \"note\": \"Carefully.\"}";
    tell(&["respond", &only(&events).request_id, note]);
    let inbox = || holdpoint(play.root.path(), &["inbox", "--server", &url, "--json"], "").json();
    let code = inbox()["requests"][0]["code"].as_str().unwrap().to_owned();
    tell(&["run", "research_task", &format!("approve {code}"), "--session", &session]);
    let inbox = inbox();
    tell(&["respond", inbox["requests"][0]["request_id"].as_str().unwrap(), "approve"]);
    let mut client = play.server.client().await;
    let events = crate::support::server::journal(&mut client, &play.run_id).await;
    assert_eq!(only(&events).prompt, "May engineer call `write_file`?");
    let answer = SendResponsesRequest {
        responses: [(only(&events).request_id, json!("allow_once").into())].into(),
        ..SendResponsesRequest::default()
    };
    let events = send(&mut client, answer).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    let journal = crate::support::server::journal(&mut client, &play.run_id).await;
    let doors: Vec<_> = journal
        .iter()
        .filter_map(|event| match &event.event {
            Some(Event::ResponseReceived(response)) => Some(response.door.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(doors, ["grpc", "grpc", "grpc", "grpc"]);
    let said = play.view().await.conversation;
    assert!(said.iter().any(|one| one.text == "Carefully." && one.role == "user"));
}
