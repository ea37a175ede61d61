//! Recovery: what was under way when the process died is asked for again, made again, or put to a
//! person; nothing that was done is done twice (E2, E3).

use std::sync::Arc;

use serde_json::{Value, json};

use super::brought::{by, chiefs, mine, open};
use super::cast::{forever, graph, human, sequence, step, support, terms};
use super::stage::{Act, Stage, answers, calls, hands_to, play, returns, says};
use crate::kernel::workflow::{Condition, Gate, Workflow};
use crate::kernel::{Done, Effect, Event, Kind, Millis, carried_out, plan, secret};

fn charges() -> Act {
    calls("", [("c1", "charge", json!({"id": 1}))])
}

#[test]
fn a_lost_reply_is_a_new_attempt_that_counts_against_nobody() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([Act::Recovers, Act::Recovers, Act::Recovers, Act::Recovers, Act::Fails(true)]);
    assert!(stage.told.contains("recovers -> a try 5\n"), "{}", stage.told);
    let turn = &stage.run.turns[&1];
    assert_eq!((turn.attempt, turn.failures), (5, 1));
    assert!(turn.retry_at.is_some(), "it is the first failure of three");
}

#[test]
fn of_a_lost_reply_nobody_says_that_a_server_was_restarted_which_may_be_silent() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([Act::Recovers]);
    let failures = stage.journal.iter().filter_map(|recorded| {
        if let Event::StepFailed { failure, .. } = &recorded.event { Some(failure) } else { None }
    });
    let [failure] = failures.collect::<Vec<_>>()[..] else { panic!("it is one") };
    assert_eq!(failure.code, "step.interrupted");
    assert!(!failure.message.contains("restarted"), "{}", failure.message);
}

#[test]
fn a_report_of_the_lost_attempt_comes_too_late() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let before = crate::kernel::Command::Replied {
        turn: 1,
        attempt: 1,
        reply: crate::kernel::Reply { text: "Late.".into(), ..Default::default() },
        summarises: None,
    };
    stage.perform([Act::Recovers]);
    assert_eq!(stage.command_by(&before), Err("work.stale"));
}

#[test]
fn a_completed_step_is_never_performed_again() {
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), "Hello");
    stage.perform([says("One."), Act::Recovers, says("Two."), Act::Recovers]);
    let of_a = stage.journal.iter().filter(
        |recorded| matches!(&recorded.event, Event::StepStarted { agent, .. } if agent == "a"),
    );
    assert_eq!(of_a.count(), 1, "E3");
    assert!(stage.told.ends_with("recovers -> completed with \"Two.\"\n"));
}

#[test]
fn a_parked_run_is_left_alone() {
    let workflow = sequence(vec![human("ok", Kind::Approval, forever()), step("a")]);
    let mut stage = Stage::open(&workflow, "Hello");
    let version = stage.run.version;
    stage.perform([Act::Recovers]);
    assert_eq!(stage.run.version, version);
}

#[test]
fn a_repeatable_call_is_made_again_with_the_same_key() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([calls("", [("c1", "lookup", json!({}))])]);
    let key_of = |stage: &Stage| match plan(&stage.run).as_slice() {
        [Effect::CallTool { key, .. }] => key.clone(),
        other => panic!("one call: {other:?}"),
    };
    let before = key_of(&stage);
    stage.perform([Act::Recovers]);
    assert_eq!(key_of(&stage), before);
    stage.perform([returns("c1", json!(1)), returns("c1", json!(2))]);
    assert!(stage.told.ends_with("c1 returns 1 -> a\nc1 returns 2 -> refused work.stale\n"));
}

#[test]
fn e2_a_call_that_may_have_happened_becomes_a_question() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([charges(), Act::Recovers, returns("c1", json!("late"))]);
    assert!(stage.told.ends_with(
        "recovers -> waiting for #1 outcome_check\nc1 returns \"late\" -> refused work.stale\n"
    ));
    let asked = &stage.run.questions[&1];
    assert_eq!(asked.context, json!({"tool": "charge", "arguments": {"id": 1}}));
    stage.perform([answers(1, "yes"), answers(1, json!({"verb": "happened"}))]);
    assert_eq!(stage.told.matches("refused answer.invalid").count(), 2, "K7: {}", stage.told);
}

#[test]
fn e2_it_happened_and_the_agent_gets_the_result() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let happened = json!({"verb": "happened", "result": {"paid": 10}});
    stage.perform([charges(), Act::Recovers, answers(1, happened)]);
    assert!(stage.given().ends_with("tool : {\"paid\":10}\n"));
}

#[test]
fn e2_it_is_done_now_and_after_another_crash_asked_again() {
    let redo = json!({"verb": "redo"});
    let script =
        [charges(), Act::Recovers, answers(1, redo.clone()), Act::Recovers, answers(2, redo)];
    let told = play(&sequence(vec![step("a")]), script);
    let outcomes: Vec<_> = told.lines().filter_map(|line| line.split(" -> ").nth(1)).collect();
    assert_eq!(
        outcomes,
        [
            "charge(c1)",
            "waiting for #1 outcome_check",
            "charge(c1)",
            "waiting for #2 outcome_check",
            "charge(c1)"
        ]
    );
}

#[test]
fn e2_it_is_aborted_and_a_repeat_of_that_is_known() {
    let abort = || Act::Answers(vec![(1, json!({"verb": "abort"})), (2, json!("x"))], "k");
    let both = calls(
        "",
        [("c1", "charge", json!({})), ("c2", "request_user_input", json!({"prompt": "Well?"}))],
    );
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([both, Act::Recovers]);
    // The agent's question came first; the lost outcome is the second.
    let abort_second = || Act::Answers(vec![(2, json!({"verb": "abort"})), (1, json!("x"))], "k");
    stage.perform([abort(), abort_second(), abort_second()]);
    assert!(stage.told.contains("-> refused answer.invalid\n"), "{}", stage.told);
    assert!(stage.told.contains("-> failed outcome.aborted\n"), "{}", stage.told);
    assert!(stage.told.contains("-> repeats what came after"), "{}", stage.told);
}

#[test]
fn k4_a_withdrawn_outcome_check_leaves_the_call_undone() {
    let script = [charges(), Act::Recovers, Act::Withdraws(1)];
    let told = play(&sequence(vec![step("a")]), script);
    assert!(told.ends_with("withdraws #1 -> a\n"), "{told}");
}

#[test]
fn a_crash_within_a_handoff_asks_about_the_call_and_then_hands_over() {
    let both = calls("", [("c1", "charge", json!({})), ("c2", "handoff_to_repair", json!({}))]);
    let happened = json!({"verb": "happened", "result": null});
    let told = play(&support(terms()), [both, Act::Recovers, answers(1, happened)]);
    assert!(told.ends_with("-> repair\n"), "{told}");
    assert!(
        play(&support(terms()), [hands_to("repair"), Act::Recovers]).ends_with("repair try 2\n")
    );
}

#[test]
fn a_pause_for_a_retry_outlasts_a_restart() {
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([Act::Fails(true)]);
    let due = stage.run.wake_at();
    stage.now = Millis(10);
    stage.perform([Act::Recovers]);
    assert_eq!((stage.run.wake_at(), plan(&stage.run).len()), (due, 0));
}

#[test]
fn e2_an_answer_lost_on_the_way_is_asked_about_where_the_deed_may_not_be_repeated() {
    let lost = |call: &str| Act::Returns(call.into(), Err("lost on the way".into()));
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([charges(), lost("c1")]);
    assert!(stage.told.ends_with("-> waiting for #1 outcome_check\n"), "{}", stage.told);
    let prompt = &stage.run.questions[&1].prompt;
    assert!(prompt.starts_with("The call of `charge` was cut off: lost on the way."), "{prompt}");
    stage.perform([answers(1, json!({"verb": "happened", "result": "receipt 7"}))]);
    assert!(stage.given().ends_with("tool : receipt 7\n"));
    // One that may be repeated was repeated already, so its caller is told.
    let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    stage.perform([calls("", [("c1", "lookup", json!({}))]), lost("c1")]);
    assert!(stage.given().ends_with("tool : error: lost on the way [world.fault]\n"));
}

/// The same, in which `charge` marks a card for those who decide, and a pin for nobody.
fn marked(mut workflow: Workflow) -> Workflow {
    let charge = workflow.tools.get_mut("charge").expect("a tool");
    charge.parameters = Some(json!({"type": "object", "properties": {
        "card": {"type": "string", "secret": true}, "pin": {"type": "string", "writeOnly": true},
    }}));
    secret::noticed(workflow)
}

/// What was done in a run, in the words in which its forks tell of it.
fn done_in(stage: &Stage) -> Vec<String> {
    carried_out(&stage.run, &stage.journal, 0).done.iter().map(Done::words).collect()
}

#[test]
fn what_was_done_is_told_without_what_is_marked_in_it_and_says_where_it_was_cut() {
    let workflow = marked(sequence(vec![step("a")]));
    let mut stage = Stage::open(&workflow, "Hello");
    let arguments = json!({"card": "4929-canary", "pin": "7q-canary", "words": "w".repeat(300)});
    stage.perform([calls("", [("c1", "charge", arguments)]), returns("c1", json!("ok"))]);
    let done = done_in(&stage);
    assert!(done.len() == 1 && !done[0].contains("canary"), "{done:?}");
    assert!(done[0].contains("••• (11 characters)") && done[0].ends_with('…'), "{done:?}");
}

#[test]
fn what_was_done_is_told_without_what_was_confided_to_the_run_wherever_that_was_sent() {
    let pin = "zebra-8812-quux";
    let schema =
        json!({"type": "object", "properties": {"pin": {"type": "string", "secret": true}}});
    let asks = json!({"prompt": "Your PIN?", "response_schema": schema});
    // By itself, as a name, and where what is told is cut in the middle of it.
    let cut = format!("{} {pin}", "w".repeat(180));
    for arguments in [json!({"card": pin}), json!({pin: 1}), json!({"memo": cut})] {
        let mut stage = Stage::open(&sequence(vec![step("a")]), "Hello");
        let asks = calls("", [("c0", "request_user_input", asks.clone())]);
        stage.perform([asks, answers(1, json!({"pin": pin}))]);
        stage.perform([
            calls("", [("c1", "charge", arguments.clone())]),
            returns("c1", json!("ok")),
        ]);
        let done = done_in(&stage);
        assert!(
            done.len() == 1 && done[0].contains("•••"),
            "{arguments}: {done:?}\n{}",
            stage.told
        );
        assert!(!done[0].contains("zebra"), "{arguments}: {done:?}");
    }
}

/// A step that charges, with a gate of its own where there is one, and after that where there is something.
fn pays(before: Option<Value>, own: Option<Value>, gates: Vec<Gate>) -> Workflow {
    let arguments = json!({"card": "4929-canary", "pin": "7q-canary", "memo": "for 4929-canary"});
    let mut pay =
        json!({"id": "pay", "task": {"tool": {"tool": "charge", "arguments": arguments}}});
    if let (Some(own), Value::Object(pay)) = (own, &mut pay) {
        pay.insert("gate".into(), own);
    }
    let steps: Vec<Value> = before.into_iter().chain([pay]).collect();
    marked(Workflow { gates, ..graph(&json!(steps)) })
}

/// What whoever is asked what came of the call is shown of it, once these have let it be made.
fn asked_after(workflow: &Workflow, brought: Vec<Gate>, yeses: &[(&str, &str)]) -> Value {
    let mut stage = open(workflow, brought);
    for (who, word) in yeses {
        let ordinal = *stage.run.questions.keys().next().expect("it asks");
        let yes = by(who, &stage, ordinal, *word);
        assert_eq!(stage.command_by(&yes), Ok(None), "{who}: {}", stage.told);
    }
    stage.perform([Act::Recovers]);
    let lost = stage.run.questions.values().next().expect("it asks what came of it");
    assert_eq!(lost.kind, Kind::OutcomeCheck, "{}", stage.told);
    stage.run.veil.question(Arc::clone(lost)).as_decided().shown()["arguments"].take()
}

#[test]
fn what_is_secret_in_a_lost_call_is_shown_to_those_alone_who_were_asked_about_that_call() {
    let asks = json!({"kind": "approval", "prompt": "Well?", "patience": {"to": ["bob"]}});
    let approval = json!({"id": "ok", "task": {"human": asks}});
    let own = json!({"before": true, "redo": 2, "attempts": 3, "patience": {"to": ["bob"]}});
    let danger = || vec![Condition::Keywords(vec!["danger".into()])];
    let nobodys = Gate { patience: forever(), ..chiefs(vec![]) };
    let none = || pays(None, None, vec![]);
    let start = || vec![mine(&[], &["charge"])];
    let (allows, approves) = (("bob", "allow_once"), ("bob", "approve"));
    let table = [
        ("nobody was", none(), vec![], vec![], false),
        ("by the start alone", none(), start(), vec![("ann", "allow_once")], false),
        ("by no gate that held", pays(None, None, vec![chiefs(danger())]), vec![], vec![], false),
        ("about another thing", pays(Some(approval), None, vec![]), vec![], vec![approves], false),
        ("by the file", pays(None, None, vec![chiefs(vec![])]), vec![], vec![allows], true),
        (
            "by the file, after the start",
            pays(None, None, vec![chiefs(vec![])]),
            start(),
            vec![("ann", "allow_once"), allows],
            true,
        ),
        (
            "by a gate that names nobody",
            pays(None, None, vec![nobodys]),
            vec![],
            vec![("ann", "allow_once")],
            true,
        ),
        ("at its step", pays(None, Some(own), vec![]), vec![], vec![approves], true),
    ];
    for (asked, workflow, brought, yeses, is_shown) in table {
        let shown = asked_after(&workflow, brought, &yeses);
        assert_eq!(shown["card"] == "4929-canary", is_shown, "{asked}: {shown}");
        assert_eq!(shown["memo"] == "for 4929-canary", is_shown, "{asked}: {shown}");
        assert_eq!(shown.to_string().contains("4929"), is_shown, "{asked}: {shown}");
        assert_eq!(shown["pin"], "••• (9 characters)", "{asked}: that is nobody's");
    }
}
