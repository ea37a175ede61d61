//! Graphs in the engine: a fork repeats no deed of any branch; a call that is under way when its step
//! is stopped is told of, and its outcome taken down; questions of a graph are addressed, said again
//! and passed on.

use holdpoint::definition;
use holdpoint::engine::{AnswerRequest, Engine, ForkRequest, Published, StartRequest, Until};
use holdpoint::kernel::{Event, Workflow};
use holdpoint::ports::HeadStatus;
use serde_json::{Value, json};

use crate::support::{Actors, Ground, all, name, names, request_of, someone};

fn workflow(steps: &str) -> Workflow {
    let text = format!(
        "name: g\ninput: {{type: object}}\n\
         models: {{m: {{provider: scripted, script: [{{say: x}}]}}}}\n\
         tools:\n  book: {{provider: scripted, settings: {{returns: x}}}}\n  \
         pay: {{provider: scripted, settings: {{returns: x}}}}\n\
         agents: {{a: {{}}}}\npattern: graph\ngraph:\n  steps:\n{steps}"
    );
    let loaded = definition::load_text("g.yaml", &text, &|_| Err("no script".into()));
    (*loaded.unwrap_or_else(|problems| panic!("{problems:?} in\n{text}")).workflow).clone()
}

async fn started(engine: &Engine) -> (String, Vec<Published>) {
    let request =
        StartRequest { workflow: "g".into(), input: json!({}), ..StartRequest::default() };
    let begun = engine.start(request, &someone()).await.unwrap();
    (begun.run.to_string(), all(begun.watch).await)
}

async fn said(engine: &Engine, told: &[Published], value: Value) -> Vec<Published> {
    let answers = vec![(request_of(told), value, None)];
    let request = AnswerRequest { answers, ..AnswerRequest::default() };
    all(engine.answer(request, &someone()).await.unwrap().watch).await
}

fn calls(ground: &Ground) -> Vec<String> {
    ground.actors.calls.lock().unwrap().iter().map(|(tool, _)| tool.clone()).collect()
}

#[tokio::test]
async fn e3_a_fork_of_a_graph_repeats_no_deed_of_any_branch() {
    let flow = workflow(
        "    - id: both\n      parallel:\n        \
         one: [{id: book, tool: book}]\n        \
         two: [{id: ask, human: {kind: approval, prompt: Pay?}}, {id: pay, tool: pay}]\n    \
         - {agent: a}\n",
    );
    let ground = Ground::new(Actors::default().says("a", "Done."));
    let engine = ground.boot(std::slice::from_ref(&flow)).await;
    let (run, told) = started(&engine).await;
    assert_eq!((calls(&ground), names(&told).last()), (vec!["book".into()], Some(&"parked")));
    let told = said(&engine, &told, json!("approve")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(calls(&ground), ["book", "pay"]);

    // After a restart, too: what a fork knows is in the journal.
    for _ in 0..2 {
        let engine = ground.boot(std::slice::from_ref(&flow)).await;
        let fork = ForkRequest { run: run.clone(), ..ForkRequest::default() };
        let begun = engine.fork(fork, &someone()).await.unwrap();
        let told = all(begun.watch).await;
        assert_eq!(names(&told).last(), Some(&"parked"));
        assert_eq!(calls(&ground), ["book", "pay"], "E3: nothing is done again");
        let told = said(&engine, &told, json!("reject")).await;
        assert_eq!(names(&told).last(), Some(&"failed"));
        assert_eq!(calls(&ground), ["book", "pay"], "K4: the fork was told no");
    }
    let head = engine.head(&run, &someone()).await.unwrap();
    assert_eq!(head.status, HeadStatus::Completed, "the old run is as it was");
}

#[tokio::test]
async fn e2_a_call_whose_step_was_stopped_is_told_of_and_its_outcome_taken_down() {
    let flow = workflow(
        "    - id: both\n      critical: false\n      parallel:\n        \
         one: [{id: pay, tool: pay}]\n        \
         two: [{id: hold, wait: {for: 1s}}, {id: stop, human: {kind: approval, prompt: Go on?}}]\n    \
         - {id: end, human: {kind: clarification, prompt: And now?}}\n    - {agent: a}\n",
    );
    let ground = Ground::new(Actors::default().says("a", "Done.").tool("pay"));
    let engine = ground.boot(&[flow]).await;
    let request =
        StartRequest { workflow: "g".into(), input: json!({}), ..StartRequest::default() };
    let begun = engine.start(request, &someone()).await.unwrap();
    let run = begun.run.to_string();
    let mut watch = engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    ground.actors.asked().await;
    ground.clock.advance(1_000);
    let mut told = Vec::new();
    // The payment is under way; somebody says no beside it.
    while told.last().is_none_or(|last: &Published| name(&last.event) != "asked") {
        told.push(watch.next().await.unwrap().unwrap().as_ref().clone());
    }
    let id = told.last().unwrap().request.as_ref().unwrap().to_string();
    let request =
        AnswerRequest { answers: vec![(id, json!("reject"), None)], ..AnswerRequest::default() };
    engine.answer(request, &someone()).await.unwrap();
    while told.last().is_none_or(|last: &Published| *last.event != Event::Parked) {
        told.push(watch.next().await.unwrap().unwrap().as_ref().clone());
    }
    let warned = told
        .iter()
        .any(|one| matches!(&*one.event, Event::Warned(failure) if failure.code == "tool.cut_off"));
    assert!(warned, "{:?}", names(&told));
    // Now it comes back: nothing follows, and the journal has it.
    ground.actors.gate("pay").add_permits(1);
    let late = watch.next().await.unwrap().unwrap();
    assert!(
        matches!(&*late.event, Event::ToolReturned { value, .. } if value == "done"),
        "{late:?}"
    );
    let trail = engine
        .audit(
            &holdpoint::engine::AuditFilter { run: Some(run), ..Default::default() },
            "",
            0,
            &someone(),
        )
        .await
        .unwrap();
    assert!(trail.rows.iter().any(|entry| entry.action == "cut_off"), "{:?}", trail.rows);
}

#[tokio::test]
async fn questions_of_a_graph_are_addressed_said_again_and_passed_on() {
    let terms =
        "remind: 10m, to: [ann], deadline: 1h, on_timeout: {escalate_to: {to: [boss], within: 1h}}";
    let gate = format!(
        "    - {{id: pay, tool: pay, gate: {{mode: before_step, {terms}}}}}\n    - {{agent: a}}\n"
    );
    let human = format!(
        "    - {{id: ok, human: {{kind: approval, prompt: Go?, {terms}}}}}\n    - {{id: pay, tool: pay}}\n    - {{agent: a}}\n"
    );
    for steps in [gate, human] {
        let ground = Ground::new(Actors::default().says("a", "Done."));
        let engine = ground.boot(&[workflow(&steps)]).await;
        let (run, told) = started(&engine).await;
        let waiting = told.last().unwrap().waiting.clone().unwrap();
        assert_eq!(waiting.questions[0].to, ["ann"]);
        let after = told.last().unwrap().sequence;
        let mut watch = engine.watch(&run, after, Until::Over, &someone()).await.unwrap();
        for (ms, wanted) in [(600_000, "reminded"), (3_000_000, "escalated"), (3_600_000, "closed")]
        {
            ground.clock.advance(ms);
            let mut told = watch.next().await.unwrap().unwrap();
            while name(&told.event) != wanted {
                assert_eq!(name(&told.event), "reminded");
                told = watch.next().await.unwrap().unwrap();
            }
            if let Event::Escalated { to, .. } = &*told.event {
                assert_eq!(to, &["ann", "boss"]);
            }
        }
        assert_eq!(names(&all(watch).await).last(), Some(&"failed"));
        assert_eq!(calls(&ground), [""; 0], "K7: nobody has said yes");
    }
}

#[tokio::test]
async fn a_million_items_are_refused_before_anything_is_done_for_one() {
    let flow = workflow(
        "    - {id: each, for_each: input.items, steps: [{id: pay, tool: pay}]}\n    - {agent: a}\n",
    );
    let ground = Ground::new(Actors::default().says("a", "Done."));
    let engine = ground.boot(&[flow]).await;
    let start = async |count: usize| {
        let input = json!({"items": vec![0; count]});
        let request = StartRequest { workflow: "g".into(), input, ..StartRequest::default() };
        engine.start(request, &someone()).await
    };
    let refused = start(1_000_000).await.unwrap_err().to_string();
    assert!(refused.contains("too large"), "so much does not even come in: {refused}");
    let told = all(start(500_000).await.unwrap().watch).await;
    let Event::Failed(failure) = &*told.last().unwrap().event else { panic!("{:?}", names(&told)) };
    assert_eq!(failure.code, "for_each.cap");
    assert!(failure.message.contains("`each`: 500000 items; the most is 1000"), "{failure:?}");
    assert!(calls(&ground).is_empty());
}
