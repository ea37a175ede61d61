//! The configuration matrix of planning and control, cell by cell: once with gates in the file, once with none in the
//! file and a policy's modes. The same questions are asked, and nothing is done before they are answered.

use std::fs;
use std::path::Path;

use holdpoint::wire::v1::Request;
use serde_json::json;
use tempfile::TempDir;

use crate::support::server::{Client, Setup, asked, run, send, start_of};

/// A plan of one step, whose engineer says something and writes a file.
fn flow(review: &str, gate: &str, gates: &str, says: &str) -> String {
    format!(
        "
name: matrix
models:
  default:
    provider: scripted
    script:
      - {{agent: planner, output: {{steps: [{{title: Write it}}]}}}}
      - {{agent: engineer, turn: 1, say: '{says}', call: [{{tool: write_file, arguments: {{path: a}}}}]}}
      - {{agent: engineer, say: Done.}}
tools:
  write_file: {{provider: scripted, safety: idempotent, tags: [edits], settings: {{returns: written}}}}
gates: {gates}
agents:
  planner: {{human_input: false}}
  engineer: {{human_input: false, tools: [write_file]}}
pattern: plan_execute
plan_execute:
  planner: planner
  review: {{mode: {review}}}
  workers: [engineer]
  gate: {{mode: {gate}}}
"
    )
}

const RISKY: &str = "I will delete the old one.";
const CALM: &str = "I write it.";
/// As the mode has it.
const SMART: &str = "{name: smart, tools: ['*'], replies: any, when: [{keywords: [delete, production, deploy, \
                     critical, irreversible]}, {environment: [production]}, uncertain, {complex: {options: 5, \
                     steps: 10}}, {failures_over: 2}]}";

/// Every step of a plan, and nothing else.
const STEPS: &str =
    "rules: [{name: r, workflows: [matrix], mode: custom, gates: [{name: g, steps: ['*']}]}]";

/// What is asked, in order, when everything is answered with a yes.
async fn questions(root: &Path, flow: &str, policy: Option<&str>) -> Vec<String> {
    fs::create_dir_all(root.join("flows")).unwrap();
    fs::write(root.join("flows/matrix.yaml"), flow).unwrap();
    let mut setup = Setup::new(root);
    if let Some(policy) = policy {
        fs::write(root.join("policy.yaml"), policy).unwrap();
        setup = setup.arg("--policy=policy.yaml");
    }
    let server = setup.start();
    let mut client: Client = server.client().await;
    let mut told = run(&mut client, start_of("matrix", "", "Write it.", "")).await;
    let mut found = Vec::new();
    while let Some(request) = asked(&told) {
        found.push(shown(&request));
        let yes = if request.kind().as_str_name() == "REQUEST_KIND_TOOL_APPROVAL" {
            "allow_once"
        } else {
            "approve"
        };
        let mut answer = crate::support::server::answer_to(&request.request_id, "", "");
        answer.responses = [(request.request_id.clone(), json!({"decision": yes}).into())].into();
        told = send(&mut client, answer).await;
        assert!(found.len() < 20, "{found:?}");
    }
    assert_eq!(crate::support::server::names(&told).last(), Some(&"completed"), "{found:?}");
    found
}

/// A question as far as both ways ask it alike: of which kind, and about which step or tool.
fn shown(request: &Request) -> String {
    let kind = request.kind().as_str_name().trim_start_matches("REQUEST_KIND_").to_lowercase();
    let step = request.source_step.rsplit('/').next().unwrap_or_default();
    let tool = format!("{:?}", request.context);
    let about =
        if tool.contains("write_file") && kind == "tool_approval" { "write_file" } else { step };
    format!("{kind} {about}")
}

struct Cell {
    config: &'static str,
    /// In the file: review, gate, gates.
    file: (&'static str, &'static str, String),
    policy: &'static str,
    says: &'static str,
    asks: &'static [&'static str],
}

fn cells() -> Vec<Cell> {
    let cell =
        |config, (review, gate, gates): (&'static str, &'static str, &str), policy, says, asks| {
            Cell { config, file: (review, gate, gates.to_owned()), policy, says, asks }
        };
    let smart = format!("[{SMART}]");
    let edits = "[{name: before_file_edit, tags: [edits]}]";
    let one = |mode: &str| format!("rules: [{{name: r, workflows: [matrix], mode: {mode}}}]");
    // Each text lives as long as the test.
    let kept = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
    let (plan_only, smartly) = (kept(one("plan_only")), kept(one("smart")));
    vec![
        cell(
            "planning: no handoffs to people",
            ("never", "never", "[]"),
            "rules: [{name: r, workflows: [matrix], people: [local], mode: autonomous}]",
            RISKY,
            &[],
        ),
        cell(
            "planning: after_planning",
            ("plan_review", "never", "[]"),
            plan_only,
            CALM,
            &["plan_review planning"],
        ),
        cell(
            "planning and control: after_planning and before_step",
            ("plan_review", "before_step", "[]"),
            kept(one("manual")),
            CALM,
            &["plan_review planning", "approval execute"],
        ),
        cell("planning: smart", ("never", "never", &smart), smartly, CALM, &[]),
        cell(
            "control: before_step",
            ("never", "before_step", "[]"),
            STEPS,
            RISKY,
            &["approval execute"],
        ),
        cell(
            "control: before_step and before_file_edit",
            ("never", "before_step", edits),
            "rules: [{name: r, workflows: [matrix], gates: [{name: g, steps: ['*']}]}, {name: m, workflows: [matrix], mode: mandatory, \
             checkpoints: [before_file_edit]}]",
            CALM,
            &["approval execute", "tool_approval write_file"],
        ),
        cell(
            "control: before_step and smart",
            ("never", "before_step", &smart),
            "rules: [{name: r, workflows: [matrix], gates: [{name: g, steps: ['*']}]}, {name: s, workflows: [matrix], mode: smart}]",
            RISKY,
            // The word is still in the conversation when the engineer has the last one.
            &["approval execute", "tool_approval write_file", "tool_approval engineer"],
        ),
        cell(
            "control: smart alone",
            ("never", "never", &smart),
            smartly,
            RISKY,
            &["tool_approval write_file", "tool_approval engineer"],
        ),
        cell(
            "control: gates of one's own",
            ("never", "never", edits),
            "rules: [{name: r, workflows: [matrix], mode: custom, gates: [{name: g, tags: [edits]}]}]",
            CALM,
            &["tool_approval write_file"],
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_cell_of_the_matrix_asks_the_same_from_a_file_and_from_a_policy() {
    for Cell { config, file: (review, gate, gates), policy, says, asks } in cells() {
        let here = TempDir::new().unwrap();
        let of_file = questions(here.path(), &flow(review, gate, &gates, says), None).await;
        let there = TempDir::new().unwrap();
        let bare = flow("never", "never", "[]", says);
        let of_policy = questions(there.path(), &bare, Some(policy)).await;
        assert_eq!(of_file, asks, "{config}, from the file");
        assert_eq!(of_policy, asks, "{config}, from the policy");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn autonomous_lifts_for_those_who_are_named_what_the_file_asks() {
    let file =
        flow("plan_review", "before_step", "[{name: before_file_edit, tags: [edits]}]", CALM);
    let here = TempDir::new().unwrap();
    let all = ["plan_review planning", "approval execute", "tool_approval write_file"];
    assert_eq!(questions(here.path(), &file, None).await, all);
    let there = TempDir::new().unwrap();
    let policy = "rules: [{name: r, workflows: [matrix], people: [local], mode: autonomous}]";
    assert_eq!(questions(there.path(), &file, Some(policy)).await, [""; 0]);
    let elsewhere = TempDir::new().unwrap();
    let of_others = policy.replace("local", "ada");
    assert_eq!(questions(elsewhere.path(), &file, Some(&of_others)).await, all);
}
