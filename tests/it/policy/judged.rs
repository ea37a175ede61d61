//! A judge at a gate on the real server: what it says is asked for once, whenever the server dies,
//! and the tool behind it is called only after a clear word. The tool counts its calls.

use std::fs;
use std::path::PathBuf;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{ListAuditRequest, WorkflowEvent};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{
    Server, Setup, answer_to, asked, drained, journal, names, run, send, start_of,
};
use crate::support::tool_server::{Answer, ToolServer};

/// A clerk who pays, and a judge who looks at it first.
struct Stage {
    root: TempDir,
    tool: ToolServer,
}

impl Stage {
    async fn new(judge: Value) -> Self {
        let tool = ToolServer::start([("/pay", Answer::Json(json!("receipt 7")))]).await;
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("flows")).unwrap();
        let mut judge = judge;
        judge["agent"] = json!("risk_officer");
        let flow = json!({
            "name": "payment",
            "pattern": "sequential",
            "steps": [{"agent": "clerk"}],
            "models": {"m": {"provider": "scripted", "script": [
                {"agent": "clerk", "turn": 1, "say": "I pay it.",
                 "call": [{"tool": "pay", "arguments": {"amount": 7}}]},
                {"agent": "clerk", "say": "The tool said: {{last}}"},
                judge,
            ]}},
            "tools": {"pay": {
                "provider": "http", "safety": "idempotent",
                "settings": {"method": "POST", "url": tool.url("/pay"), "allow_private": true},
            }},
            "agents": {
                "clerk": {"tools": ["pay"]},
                "risk_officer": {"instructions": "Look.", "retry": {"attempts": 1}},
            },
            "gates": [{
                "name": "risky", "tools": ["pay"],
                "when": [{"keywords": ["delete"]}, {"judge": "risk_officer"}],
            }],
        });
        fs::write(root.path().join("flows/payment.yaml"), flow.to_string()).unwrap();
        Self { root, tool }
    }

    fn setup(&self) -> Setup {
        let inputs = self.inputs();
        Setup::new(self.root.path()).arg("--record-inputs").arg(inputs.to_str().unwrap())
    }

    fn inputs(&self) -> PathBuf {
        self.root.path().join("inputs.jsonl")
    }

    /// How often the judge was asked.
    fn judged(&self) -> usize {
        let text = fs::read_to_string(self.inputs()).unwrap();
        text.lines().filter(|line| line.contains("\"agent\":\"risk_officer\"")).count()
    }

    /// Starts a run on a server that dies at the failpoint; returns another, and the run's journal.
    async fn dies_at(&self, failpoint: &str, passage: u32) -> (Server, Vec<WorkflowEvent>) {
        let mut server = self.setup().failpoint(failpoint, passage).start();
        let mut client = server.client().await;
        let start = start_of("payment", "", "Pay 7.", "k0");
        if let Ok(stream) = client.run_workflow(start.clone()).await {
            drop(drained(stream.into_inner()).await);
        }
        server.wait();
        server.restart();
        // The same call with the same key is the same run.
        let mut client = server.client().await;
        let run_id = run(&mut client, start).await[0].run_id.clone();
        let events = journal(&mut client, &run_id).await;
        (server, events)
    }
}

fn verdict(ask: bool, reason: &str) -> Value {
    json!({"output": {"ask": ask, "reason": reason}, "delay": "1ms"})
}

fn count(events: &[WorkflowEvent], name: &str) -> usize {
    names(events).into_iter().filter(|known| *known == name).count()
}

fn output(events: &[WorkflowEvent]) -> String {
    let said = events.iter().find_map(|event| match &event.event {
        Some(Event::Output(output)) => output.value.clone(),
        _ => None,
    });
    format!("{said:?}")
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_judging_the_judge_is_asked_again_and_the_person_once() {
    // Before the judge is asked, and when it has spoken and nobody has written it down.
    for point in ["engine.before_effect", "engine.after_effect"] {
        let stage = Stage::new(verdict(true, "the sum is odd")).await;
        let (server, events) = stage.dies_at(point, 1).await;
        let request = asked(&events).unwrap();
        assert_eq!(count(&events, "request_info"), 1, "{point}");
        assert_eq!(stage.judged(), if point.contains("before") { 1 } else { 2 }, "{point}");
        assert!(format!("{:?}", request.context).contains("the sum is odd"), "{request:?}");
        assert_eq!(stage.tool.seen().len(), 0, "K7: nobody has allowed it");
        let mut client = server.client().await;
        let events = send(&mut client, answer_to(&request.request_id, "allow_once", "k1")).await;
        assert_eq!(names(&events).last(), Some(&"completed"), "{point}");
        assert_eq!(stage.tool.seen().len(), 1, "{point}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_was_written_down_is_not_asked_for_again() {
    // The second append is that of the verdict.
    let stage = Stage::new(verdict(true, "the sum is odd")).await;
    let (mut server, events) = stage.dies_at("engine.after_append", 2).await;
    let request = asked(&events).unwrap();
    server.restart();
    let mut client = server.client().await;
    let events = journal(&mut client, &events[0].run_id).await;
    assert_eq!(asked(&events).unwrap().request_id, request.request_id, "killed while it waits");
    assert_eq!((stage.judged(), stage.tool.seen().len()), (1, 0));
    let events = send(&mut client, answer_to(&request.request_id, "deny", "k1")).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    assert_eq!((stage.judged(), stage.tool.seen().len()), (1, 0), "a no is a no");

    let stage = Stage::new(verdict(false, "a small sum")).await;
    let (_server, events) = stage.dies_at("engine.after_append", 2).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    assert!(output(&events).contains("receipt 7"), "{}", output(&events));
    assert_eq!((stage.judged(), stage.tool.seen().len()), (1, 1));
    assert_eq!(count(&events, "request_info"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_judge_that_is_down_or_talks_nonsense_is_a_question_and_is_in_the_trail() {
    let words = [
        (json!({"fail": {"message": "overloaded"}, "delay": "1ms"}), "overloaded"),
        (json!({"say": "Looks fine to me."}), "judge.nonsense"),
        (json!({"output": {"ask": "no", "reason": "x"}}), "judge.nonsense"),
    ];
    for (judge, told) in words {
        let stage = Stage::new(judge).await;
        let server = stage.setup().start();
        let mut client = server.client().await;
        let events = run(&mut client, start_of("payment", "", "Pay 7.", "k0")).await;
        let request = asked(&events).unwrap();
        assert!(format!("{:?}", request.context).contains(told), "{told}: {request:?}");
        assert_eq!(stage.tool.seen().len(), 0);
        let filter = ListAuditRequest { run_id: events[0].run_id.clone(), ..Default::default() };
        let trail = client.list_audit(filter).await.unwrap().into_inner().entries;
        let actions: Vec<_> = trail.iter().map(|entry| entry.action.as_str()).collect();
        assert_eq!(actions, ["started", "judged", "asked"]);
        assert_eq!(trail[1].principal, "risk_officer");
        assert!(trail[1].note.starts_with("pay {\"amount\":7}: "), "{}", trail[1].note);
        assert!(trail[1].note.contains(told), "{}", trail[1].note);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verdict_that_lets_a_call_pass_is_in_the_trail_with_its_reason() {
    let stage = Stage::new(verdict(false, "a small sum")).await;
    let server = stage.setup().start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("payment", "", "Pay 7.", "k0")).await;
    assert_eq!(names(&events).last(), Some(&"completed"));
    let filter = ListAuditRequest { run_id: events[0].run_id.clone(), ..Default::default() };
    let trail = client.list_audit(filter).await.unwrap().into_inner().entries;
    assert_eq!(trail[1].action, "judged");
    let said = trail[1].value.as_deref();
    assert_eq!(said, Some(&json!({"ask": false, "reason": "a small sum"})));
}
