//! A wide graph on the real server: a thousand branches that each ask a person, across a restart.

use std::fs;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{SendResponsesRequest, WorkflowEvent};
use serde_json::json;
use tempfile::TempDir;

use crate::support::server::{Setup, names, run, send, start_of};
use crate::workflows::graph::requests;

/// How many requests the last pause lists, and how many it says are open.
fn listed(events: &[WorkflowEvent]) -> (usize, u32) {
    let Some(Event::Status(status)) = &events[events.len() - 1].event else { panic!("a pause") };
    let waiting = status.workflow_waiting.as_ref().unwrap();
    (waiting.requests.len(), waiting.open_requests)
}

#[tokio::test]
async fn a_thousand_branches_are_answered_in_any_order_across_a_restart() {
    const COUNT: usize = 1_000;
    let items: Vec<_> = (0..COUNT).map(|n| json!({"n": n})).collect();
    let file = "\
name: wide
input: {type: object}
pattern: graph
graph:
  steps:
    - id: each
      for_each: input.items
      as: one
      steps:
        - id: ask
          human: {kind: clarification, prompt: 'What of ${one.n}?'}
  output: ${size(steps.each)}
";
    let root = TempDir::new().unwrap();
    let folder = root.path().join("flows");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("wide.yaml"), file).unwrap();
    let mut server = Setup::new(root.path()).start();
    let mut start = start_of("wide", "", "", "key");
    start.input = Some(json!({"items": items}).into());
    let events = run(&mut server.client().await, start).await;
    let mut open: Vec<String> = requests(&events).into_iter().map(|one| one.request_id).collect();
    assert_eq!(open.len(), COUNT);
    assert_eq!(listed(&events), (COUNT, 1_000), "all are new");
    // An order that is nobody's, and the same every time.
    open.sort_by_key(|id| id.bytes().fold(7_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 1009));
    let mut last = Vec::new();
    let mut client = server.client().await;
    // One by one, but for a few that come together.
    let (single, together) = open.split_at(COUNT - 20);
    for (index, batch) in single.chunks(1).chain([together]).enumerate() {
        if index == COUNT / 2 {
            server.restart();
            client = server.client().await;
        }
        let responses = batch.iter().map(|id| (id.clone(), "fine".into())).collect();
        let answer = SendResponsesRequest { responses, ..SendResponsesRequest::default() };
        last = send(&mut client, answer).await;
        if index == 0 {
            assert_eq!(listed(&last), (100, 999), "those that have been open longest");
        }
    }
    assert_eq!(names(&last).last(), Some(&"completed"));
    let Some(Event::Output(output)) = &last[last.len() - 2].event else { panic!("an output") };
    assert_eq!(**output.value.as_ref().unwrap(), json!(1000));
}
