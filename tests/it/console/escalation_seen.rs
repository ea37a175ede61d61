//! Once nobody has answered in time and others are asked, every view says who is asked now, until when, and who was
//! before.

use std::io::BufRead as _;

use holdpoint::wire::v1::WatchRunRequest;
use holdpoint::wire::v1::workflow_event::Event;
use serde_json::json;

use crate::consent::stage::{Stage, question};

const FLOW: &str = "
name: bills
pattern: graph
graph:
  steps:
    - id: ok
      human:
        kind: approval
        prompt: Pay the bill?
        approvers: {to: [ada], within: 1s, escalate: [{to: [bob], within: 1d}]}
";

const PEOPLE: [(&str, &str); 3] = [("ada", "user"), ("bob", "user"), ("clerk", "user")];

#[tokio::test(flavor = "multi_thread")]
async fn every_view_says_who_is_asked_now_who_was_before_and_until_when() {
    let stage = Stage::with_people(FLOW, &PEOPLE).await;
    let events = stage.start("clerk", "s", "Bill 7.").await;
    let asked = question(&events);
    assert_eq!(asked.asked_before, Vec::<String>::new());
    let page = stage.console("ada").get(&format!("/console/requests/{}", asked.request_id));
    // The page that is open asks for itself again, and shows who is asked by then.
    let live = page.body.split("data-live=\"").nth(1).unwrap().split('"').next().unwrap();
    let mut told = stage.console("ada").dial("GET", &live.replace("&amp;", "&"), "").lines();
    let watch =
        WatchRunRequest { run_id: asked.run_id.clone(), through_pauses: true, after_sequence: 0 };
    let mut stream = stage.client("clerk").await.watch_run(watch).await.unwrap().into_inner();
    let until = loop {
        let event = stream.message().await.unwrap().expect("it was never escalated").event;
        if let Some(Event::RequestEscalated(it)) = event {
            assert_eq!(it.to, ["ada", "bob"]);
            break it.deadline.unwrap();
        }
    };
    assert!(told.any(|line| line.unwrap() == "event: changed"), "the page is told");
    for who in ["ada", "bob"] {
        let request = stage.inbox(who).await.remove(0);
        assert_eq!(request.to, ["ada", "bob"]);
        assert_eq!((request.asked_before, request.deadline), (vec!["ada".to_owned()], Some(until)));
        let page = stage.console(who).get(&format!("/console/requests/{}", asked.request_id)).body;
        for part in ["ada, bob", "before, of ada alone", "id=\"silence\""] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
    let shown = stage.command("clerk", &["runs", &asked.run_id]);
    assert!(shown.out.contains("asked of ada, bob; before, of ada alone"), "{shown:?}");
    assert!(shown.out.contains("until 20"), "{shown:?}");
    let run = stage.console("clerk").get(&format!("/console/runs/{}", asked.run_id)).body;
    assert!(run.contains("Nobody answered in time; now asked of ada, bob"), "{run}");
    // At the doors of programs: in words, and as fields.
    let task = stage.agent("clerk").call("GetTask", &json!({"id": asked.run_id}));
    let told = task.to_string();
    assert!(told.contains("bob is asked as well now, until 20"), "{told}");
    assert!(told.contains("it was asked of ada alone"), "{told}");
}
