//! Retries: a run that failed is taken up where it failed, on the real binary with a tool that
//! counts its calls. What was finished is never done again (E3), and what may have been done is
//! asked about first (E2).

use holdpoint::wire::json::Json;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    Checkpoint, ForkRunRequest, ListCheckpointsRequest, RequestKind, SendResponsesRequest,
    WorkflowEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Server, asked, drained, run, send, start_of};
use crate::support::tool_server::{Answer, ToolServer};
use crate::terminal::cli::holdpoint;

fn served(flow: &Value) -> (TempDir, Server) {
    let root = TempDir::new().unwrap();
    let flows = root.path().join("flows");
    std::fs::create_dir(&flows).unwrap();
    std::fs::write(flows.join("trip.yaml"), flow.to_string()).unwrap();
    let server = Server::start(root.path());
    (root, server)
}

fn tool(tools: &ToolServer, path: &str, safety: &str) -> Value {
    json!({"provider": "http", "safety": safety, "settings": {
        "method": "POST", "url": tools.url(path), "allow_private": true,
    }})
}

/// Books, which is `unsafe` and succeeds; then looks something up beside a pause, which fails once.
fn trip(tools: &ToolServer, second: &str) -> Value {
    let once = json!({"attempts": 1});
    json!({
        "name": "trip",
        "description": "Books, then does something that fails the first time.",
        "tools": {
            "book": tool(tools, "/book", "unsafe"),
            "second": tool(tools, "/second", second),
        },
        "pattern": "graph",
        "graph": {"steps": [
            {"id": "book", "tool": "book", "arguments": {"n": 1}},
            {"id": "both", "parallel": {
                "one": [{"id": "second", "tool": "second", "arguments": {}, "retry": once}],
                "other": [{"id": "nap", "wait": {"signal": "go", "for": "7d"}}],
            }},
        ]},
    })
}

fn calls(tools: &ToolServer, path: &str) -> usize {
    tools.seen().iter().filter(|seen| seen.path == path).count()
}

/// A run of the workflow that has failed.
async fn failed(server: &Server) -> String {
    let told = run(&mut server.client().await, start_of("trip", "", "Go", "")).await;
    let last = told.last().unwrap();
    assert!(matches!(last.event, Some(Event::Failed(_))), "{told:?}");
    last.run_id.clone()
}

async fn checkpoints(server: &Server, run_id: &str) -> Vec<Checkpoint> {
    let request = ListCheckpointsRequest { run_id: run_id.into() };
    server.client().await.list_checkpoints(request).await.unwrap().into_inner().checkpoints
}

async fn forked(server: &Server, run_id: &str, checkpoint: &str) -> Vec<WorkflowEvent> {
    let request = ForkRunRequest {
        run_id: run_id.into(),
        checkpoint_id: checkpoint.into(),
        ..Default::default()
    };
    drained(server.client().await.fork_run(request).await.unwrap().into_inner()).await.unwrap()
}

fn signal(run_id: &str) -> holdpoint::wire::v1::SignalRunRequest {
    holdpoint::wire::v1::SignalRunRequest {
        run_id: run_id.into(),
        name: "go".into(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_a_run_that_failed_is_taken_up_at_the_step_that_failed_and_nothing_else_is_done_again() {
    let answers = [
        ("/book", Answer::Json(json!({"booked": 1}))),
        ("/second", Answer::Mended(500, json!({"found": 1}))),
    ];
    let tools = ToolServer::start(answers).await;
    let (_root, mut server) = served(&trip(&tools, "pure"));
    let run_id = failed(&server).await;
    server.restart();
    let listed = checkpoints(&server, &run_id).await;
    assert_eq!(listed.len(), 1, "one place to take it up: {listed:?}");
    for checkpoint in ["", &listed[0].checkpoint_id] {
        let told = forked(&server, &run_id, checkpoint).await;
        let fork = told.last().unwrap().run_id.clone();
        assert_ne!(fork, run_id);
        server.client().await.signal_run(signal(&fork)).await.unwrap();
        let told = crate::support::server::journal(&mut server.client().await, &fork).await;
        assert!(matches!(told.last().unwrap().event, Some(Event::Completed(_))), "{told:?}");
    }
    assert_eq!((calls(&tools, "/book"), calls(&tools, "/second")), (1, 3));
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_retry_asks_about_a_deed_that_may_have_happened_before_it_is_done_again() {
    for safety in ["unsafe", "idempotent"] {
        let answers = [
            ("/book", Answer::Json(json!({"booked": 1}))),
            ("/second", Answer::Mended(500, json!({"paid": 1}))),
        ];
        let tools = ToolServer::start(answers).await;
        let (_root, server) = served(&trip(&tools, safety));
        let run_id = failed(&server).await;
        let told = forked(&server, &run_id, "").await;
        let request = asked(&told).unwrap();
        assert_eq!(request.kind(), RequestKind::OutcomeCheck, "{safety}");
        assert!(request.prompt.contains("`second`"), "{}", request.prompt);
        assert_eq!(calls(&tools, "/second"), 1, "{safety}: not before a person has spoken");
        let responses: std::collections::HashMap<String, Json> =
            [(request.request_id, json!({"verb": "redo"}).into())].into();
        let answer = SendResponsesRequest { responses, ..Default::default() };
        send(&mut server.client().await, answer).await;
        assert_eq!((calls(&tools, "/book"), calls(&tools, "/second")), (1, 2), "{safety}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_the_retry_of_an_agents_turn_keeps_what_its_tools_have_done() {
    let tools = ToolServer::start([("/book", Answer::Json(json!("booked")))]).await;
    let retry = json!({"attempts": 1});
    let flow = json!({
        "name": "trip",
        "description": "Drafts; then books, and fails at the next word.",
        "models": {"m": {"provider": "scripted", "script": [
            {"agent": "drafter", "say": "A draft."},
            {"agent": "clerk", "when": {"last_from": "tool"}, "fail": {"message": "overloaded"}},
            {"agent": "clerk", "call": [{"tool": "book", "arguments": {}}]},
        ]}},
        "tools": {"book": tool(&tools, "/book", "unsafe")},
        "agents": {
            "drafter": {"instructions": "Draft.", "human_input": false},
            "clerk": {"instructions": "Book.", "tools": ["book"], "human_input": false,
                "retry": retry},
        },
        "pattern": "sequential",
        "steps": [{"id": "draft", "agent": "drafter"}, {"id": "book", "agent": "clerk"}],
    });
    let (root, server) = served(&flow);
    let run_id = failed(&server).await;
    let told = forked(&server, &run_id, "").await;
    assert!(matches!(told.last().unwrap().event, Some(Event::Failed(_))), "it fails still");
    let begun = |step: &str| {
        let is_it = |event: &&WorkflowEvent| matches!(&event.event, Some(Event::ExecutorInvoked(it)) if it.executor_id == step);
        told.iter().filter(is_it).count()
    };
    assert_eq!((begun("draft"), begun("book")), (1, 2), "the failed step again, and no other");
    // A fork that failed is taken up like any other run; from the command line, too.
    let fork = told.last().unwrap().run_id.clone();
    let again = holdpoint(root.path(), &["fork", &fork, "--server", &server.url()], "");
    assert_ne!(again.code, 0, "it fails still");
    assert!(format!("{}{}", again.out, again.err).contains("overloaded"), "{again:?}");
    assert_eq!(calls(&tools, "/book"), 1, "booked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_what_was_answered_before_the_failure_is_not_asked_again() {
    let answers = [
        ("/book", Answer::Json(json!({"booked": 1}))),
        ("/second", Answer::Mended(500, json!({"found": 1}))),
    ];
    let tools = ToolServer::start(answers).await;
    let mut flow = trip(&tools, "pure");
    let steps = flow["graph"]["steps"].as_array_mut().unwrap();
    steps.insert(0, json!({"id": "when", "human": {"kind": "clarification", "prompt": "When?"}}));
    let (_root, server) = served(&flow);
    let mut client = server.client().await;
    let told = run(&mut client, start_of("trip", "", "Go", "")).await;
    let request = asked(&told).unwrap();
    let told =
        send(&mut client, crate::support::server::answer_to(&request.request_id, "May", "")).await;
    assert!(matches!(told.last().unwrap().event, Some(Event::Failed(_))), "{told:?}");
    let run_id = told.last().unwrap().run_id.clone();
    let listed = checkpoints(&server, &run_id).await;
    assert_eq!(listed.len(), 2, "the question, and where it failed: {listed:?}");
    assert!(listed[0].workflow_waiting.is_some() && listed[1].workflow_waiting.is_none());
    let told = forked(&server, &run_id, "").await;
    let last = told.last().unwrap();
    let Some(Event::Status(status)) = &last.event else { panic!("{told:?}") };
    let waiting = status.workflow_waiting.as_ref().unwrap();
    assert_eq!(waiting.requests, [], "it waits for its event");
    assert_eq!((calls(&tools, "/book"), calls(&tools, "/second")), (1, 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_a_step_that_a_person_denied_is_nothing_to_retry() {
    let tools = ToolServer::start([("/book", Answer::Json(json!("booked")))]).await;
    let mut flow = trip(&tools, "pure");
    flow["gates"] = json!([{"name": "before_book", "tools": ["book"]}]);
    let (_root, server) = served(&flow);
    let mut client = server.client().await;
    let told = run(&mut client, start_of("trip", "", "Go", "")).await;
    let request = asked(&told).unwrap();
    let told =
        send(&mut client, crate::support::server::answer_to(&request.request_id, "deny", "")).await;
    assert!(matches!(told.last().unwrap().event, Some(Event::Failed(_))), "{told:?}");
    let run_id = told.last().unwrap().run_id.clone();
    let listed = checkpoints(&server, &run_id).await;
    assert_eq!(listed.len(), 1, "where it was asked: {listed:?}");
    let told = forked(&server, &run_id, "").await;
    assert_eq!(asked(&told).unwrap().kind(), RequestKind::ToolApproval, "it is asked again");
    assert_eq!(calls(&tools, "/book"), 0);
}
