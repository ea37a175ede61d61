//! What moves a run on, and what must not stand in its way: runs that are damaged, attempts that nobody
//! waits for.

use std::time::Duration;

use holdpoint::engine::{AnswerRequest, StartRequest, Until};
use holdpoint::kernel::Event;
use holdpoint::kernel::workflow::Patience;
use serde_json::json;

use crate::support::kit::{self, Play};
use crate::support::workflows::approval;
use crate::support::{Actors, Ground, all, name, someone};

/// A bound on what is waited for here.
const PATIENCE: Duration = Duration::from_secs(10);

#[tokio::test]
async fn an_attempt_that_nobody_waits_for_is_stopped_while_its_run_goes_on() {
    let text = "name: g\ninput: {type: object}\n\
        models: {m: {provider: scripted, script: [{say: x}]}}\nagents: {a: {}}\npattern: graph\n\
        graph:\n  steps:\n    - id: both\n      critical: false\n      parallel:\n        \
        one: [{id: think, agent: a}]\n        \
        two: [{id: stop, human: {kind: approval, prompt: Go on?}}]\n    - {id: more, agent: a}\n";
    let loaded = holdpoint::definition::load_text("g.yaml", text, &|_| Err("none".into()));
    let flow = (*loaded.unwrap().workflow).clone();
    let ground = Ground::new(Actors::default().says("a", "Thought.").slowly("a"));
    let engine = ground.boot(&[flow]).await;
    let request =
        StartRequest { workflow: "g".into(), input: json!({}), ..StartRequest::default() };
    let mut begun = engine.start(request, &someone()).await.unwrap();
    let asked = loop {
        let told = begun.watch.next().await.unwrap().unwrap();
        if let (Event::Asked(_), Some(request)) = (&*told.event, &told.request) {
            break request.to_string();
        }
    };
    ground.actors.asked().await;
    let answers = vec![(asked, json!("reject"), None)];
    let request = AnswerRequest { answers, ..AnswerRequest::default() };
    engine.answer(request, &someone()).await.unwrap();
    // The next step is at work, and the one that was stopped no longer is.
    ground.actors.asked().await;
    tokio::time::timeout(PATIENCE, ground.actors.given_up()).await.unwrap();
    ground.actors.gate("a").add_permits(1);
    let watch = engine.watch(begun.run.as_str(), 0, Until::Over, &someone()).await.unwrap();
    assert_eq!(all(watch).await.last().map(|last| name(&last.event)), Some("completed"));
}

#[tokio::test]
async fn damaged_runs_that_are_due_stop_no_other_deadline() {
    let ground = Ground::new(Actors::default().says("draft", "Dear team"));
    // Their definition is nowhere: none of them can be loaded.
    for number in 1_000..1_100 {
        let lost = kit::workflow(Some(1_000));
        Play::park(&*ground.journal, number, &format!("s{number}"), 10, &lost).await;
    }
    let patience = Patience { deadline_ms: Some(60_000), ..Patience::default() };
    let engine = ground.boot(&[approval(patience)]).await;
    let request = StartRequest {
        workflow: "approval".into(),
        input: json!("Tell the team."),
        ..StartRequest::default()
    };
    let mut begun = engine.start(request, &someone()).await.unwrap();
    while name(&begun.watch.next().await.unwrap().unwrap().event) != "parked" {}
    let watch = engine.watch(begun.run.as_str(), 0, Until::Over, &someone()).await.unwrap();
    ground.clock.advance(60_000);
    let told = tokio::time::timeout(PATIENCE, all(watch)).await.unwrap();
    assert_eq!(told.last().map(|last| name(&last.event)), Some("failed"), "its deadline came");
}
