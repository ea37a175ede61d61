//! E2 on the real binary: a tool that counts its calls, and SIGKILL between its deed and the
//! journalled outcome. Never a second call of an `unsafe` tool without a person's word; the same key
//! on every repeated one.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use holdpoint::wire::json::Json;
use holdpoint::wire::v1::orchestrator_client::OrchestratorClient;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    RequestKind, RunStatus, RunWorkflowRequest, SendResponsesRequest, WatchRunRequest,
    WorkflowEvent,
};
use serde_json::json;
use tonic::Streaming;
use tonic::transport::Channel;

use crate::support::tool_server::{Answer, ToolServer};

/// The real server, killed when it goes out of scope.
struct Served {
    child: Child,
    address: String,
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

impl Served {
    fn start(root: &Path, failpoint: Option<&str>) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("HOLDPOINT_") {
                command.env_remove(name);
            }
        }
        command.envs(failpoint.map(|place| ("HOLDPOINT_FAILPOINT", place)));
        let mut child = command
            .args(["serve", "--json", "--listen", "127.0.0.1:0"])
            .args(["--data", "data", "--workflows", "flows"])
            .current_dir(root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        Self { child, address: told["listening"].as_str().unwrap().to_owned() }
    }

    async fn client(&self) -> OrchestratorClient<Channel> {
        OrchestratorClient::connect(format!("http://{}", self.address)).await.unwrap()
    }
}

fn verb(verb: &str, result: Option<&str>) -> Json {
    let mut said = json!({"verb": verb});
    if let Some(result) = result {
        said["result"] = result.into();
    }
    said.into()
}

/// Everything until the stream ends, or the server does.
async fn until_end(mut stream: Streaming<WorkflowEvent>) -> Vec<WorkflowEvent> {
    let mut told = Vec::new();
    while let Ok(Some(event)) = stream.message().await {
        told.push(event);
    }
    told
}

/// A payment that was cut off: the tool's server has been called, ours is dead.
struct CutOff {
    folder: tempfile::TempDir,
    tool: ToolServer,
    run: String,
}

/// Where the server dies.
#[derive(Clone, Copy)]
enum Death {
    /// While the tool is at its deed.
    Meanwhile,
    /// When the answer is there, and not yet in the journal.
    BeforeOutcome,
}

async fn cut_off(safety: &str, death: Death) -> CutOff {
    let tool = ToolServer::start([("/pay", Answer::Gated(json!("receipt 7")))]).await;
    let folder = tempfile::TempDir::new().unwrap();
    std::fs::create_dir(folder.path().join("flows")).unwrap();
    let flow = json!({
        "name": "payment",
        "pattern": "sequential",
        "steps": [{"agent": "clerk"}],
        "models": {"m": {"provider": "scripted", "script": [
            {"agent": "clerk", "turn": 1, "call": [{"tool": "pay", "arguments": {"amount": 7}}]},
            {"agent": "clerk", "say": "The tool said: {{last}}"},
        ]}},
        "tools": {"pay": {
            "provider": "http", "safety": safety,
            "settings": {
                "method": "POST", "url": tool.url("/pay"), "allow_private": true, "timeout": "1h",
            },
        }},
        "agents": {"clerk": {"tools": ["pay"]}},
    });
    std::fs::write(folder.path().join("flows/payment.yaml"), flow.to_string()).unwrap();
    let failpoint = match death {
        Death::Meanwhile => None,
        Death::BeforeOutcome => Some("engine.after_effect:1"),
    };
    let mut served = Served::start(folder.path(), failpoint);
    let request = RunWorkflowRequest {
        workflow_id: "payment".into(),
        input: Some("Pay 7.".into()),
        ..Default::default()
    };
    let mut client = served.client().await;
    let mut stream = client.run_workflow(request).await.unwrap().into_inner();
    let first = stream.message().await.unwrap().unwrap();
    tool.asked().await;
    match death {
        Death::Meanwhile => served.child.kill().unwrap(),
        Death::BeforeOutcome => tool.open_gate(),
    }
    let died = served.child.wait().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&died), Some(9), "{died}");
    drop(stream);
    CutOff { folder, tool, run: first.run_id }
}

impl CutOff {
    /// A server that was started again, and what the run says until it rests.
    async fn again(&self) -> (Served, Vec<WorkflowEvent>) {
        let served = Served::start(self.folder.path(), None);
        let mut client = served.client().await;
        let request = WatchRunRequest { run_id: self.run.clone(), ..Default::default() };
        let stream = client.watch_run(request).await.unwrap().into_inner();
        (served, until_end(stream).await)
    }

    async fn answered(&self, answer: Json) -> (Served, Vec<WorkflowEvent>) {
        let (served, told) = self.again().await;
        let request = outcome_check(&told);
        assert_eq!(self.tool.seen().len(), 1, "E2: not called again before a person has spoken");
        let responses = [(request, answer)].into_iter().collect();
        let request =
            SendResponsesRequest { run_id: self.run.clone(), responses, ..Default::default() };
        let mut client = served.client().await;
        let stream = client.send_responses(request).await.unwrap().into_inner();
        (served, until_end(stream).await)
    }
}

/// The question of a pause: whether it happened.
fn outcome_check(told: &[WorkflowEvent]) -> String {
    let Some(Event::Status(status)) = &told.last().unwrap().event else { panic!("{told:?}") };
    assert_eq!(status.status(), RunStatus::Waiting);
    let requests = &status.workflow_waiting.as_ref().unwrap().requests;
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].kind(), RequestKind::OutcomeCheck);
    assert!(requests[0].prompt.contains("`pay`"), "{}", requests[0].prompt);
    requests[0].request_id.clone()
}

fn output(told: &[WorkflowEvent]) -> String {
    let of = |event: &WorkflowEvent| match &event.event {
        Some(Event::Output(output)) => output.value.as_ref()?.as_str().map(str::to_owned),
        _ => None,
    };
    told.iter().find_map(of).unwrap_or_else(|| panic!("{told:?}"))
}

async fn is_called_again_with_the_same_key(safety: &str, death: Death) {
    let cut = cut_off(safety, death).await;
    cut.tool.open_gate();
    let (_served, told) = cut.again().await;
    assert_eq!(output(&told), "The tool said: receipt 7", "{safety}");
    let seen = cut.tool.seen();
    assert_eq!(seen.len(), 2, "{safety}");
    assert_eq!(seen[0].key(), seen[1].key(), "{safety}: the same key");
    assert!(seen[0].key().starts_with(&cut.run), "the key names the run: {}", seen[0].key());
    assert_eq!(seen[0].body, seen[1].body);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pure_tool_is_called_again_with_the_same_key() {
    is_called_again_with_the_same_key("pure", Death::Meanwhile).await;
    is_called_again_with_the_same_key("pure", Death::BeforeOutcome).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_tool_is_called_again_with_the_same_key() {
    is_called_again_with_the_same_key("idempotent", Death::Meanwhile).await;
    is_called_again_with_the_same_key("idempotent", Death::BeforeOutcome).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_tool_that_happened_is_never_called_again() {
    for death in [Death::Meanwhile, Death::BeforeOutcome] {
        let cut = cut_off("unsafe", death).await;
        let (_served, told) = cut.answered(verb("happened", Some("receipt 8"))).await;
        assert_eq!(output(&told), "The tool said: receipt 8");
        assert_eq!(cut.tool.seen().len(), 1, "never a second call");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_tool_is_called_again_when_a_person_says_so() {
    for death in [Death::Meanwhile, Death::BeforeOutcome] {
        let cut = cut_off("unsafe", death).await;
        cut.tool.open_gate();
        let (_served, told) = cut.answered(verb("redo", None)).await;
        assert_eq!(output(&told), "The tool said: receipt 7");
        let seen = cut.tool.seen();
        assert_eq!(seen.len(), 2, "once before, once by a person's word");
        assert_eq!(seen[0].key(), seen[1].key(), "and the other side can tell");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unsafe_tool_that_is_aborted_ends_the_run() {
    for death in [Death::Meanwhile, Death::BeforeOutcome] {
        let cut = cut_off("unsafe", death).await;
        let (_served, told) = cut.answered(verb("abort", None)).await;
        let Some(Event::Failed(failed)) = &told.last().unwrap().event else { panic!("{told:?}") };
        assert!(format!("{failed:?}").contains("outcome.aborted"), "{failed:?}");
        assert_eq!(cut.tool.seen().len(), 1, "never a second call");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dying_again_and_again_asks_once_and_calls_never() {
    let cut = cut_off("unsafe", Death::Meanwhile).await;
    let mut asked = Vec::new();
    for _ in 0..3 {
        let (_served, told) = cut.again().await;
        asked.push(outcome_check(&told));
    }
    asked.dedup();
    assert_eq!(asked.len(), 1, "one question, however often the server dies");
    assert_eq!(cut.tool.seen().len(), 1);
}
