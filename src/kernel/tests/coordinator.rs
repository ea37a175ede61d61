//! Coordinator: ask before next before synthesis; what does not fit is corrected, a bounded number
//! of times.

use serde_json::json;

use super::cast::coordination;
use super::stage::{Act, Stage, answers, directs, play, says};
use crate::kernel::Status;
use crate::kernel::workflow::{Between, Gate, Workflow};

#[test]
fn the_coordinator_calls_upon_specialists_and_sums_up() {
    let script = [
        directs("Off we go.", Some("venue"), None),
        directs("The pier.", Some("budget"), None),
        directs("It fits.", None, None),
        says("The pier, and it fits."),
    ];
    assert_eq!(
        play(&coordination(), script),
        "\
chief
directs \"Off we go.\" -> venue
directs \"The pier.\" -> budget
directs \"It fits.\" -> chief sums up
says \"The pier, and it fits.\" -> completed with \"The pier, and it fits.\"
"
    );
}

#[test]
fn asking_the_user_comes_before_the_next_agent_and_the_answer_returns_to_the_asker() {
    let mut stage = Stage::open(&coordination(), "Hello");
    stage.perform([
        directs("Off.", Some("venue"), None),
        directs("Two halls.", Some("budget"), Some("Which one?")),
        answers(1, "the second"),
    ]);
    assert_eq!(
        stage.told,
        "\
chief
directs \"Off.\" -> venue
directs \"Two halls.\" -> waiting for #1 clarification
answers #1 \"the second\" -> venue
"
    );
    assert_eq!(
        stage.given(),
        "\
user ann: Hello
assistant chief: Off.
assistant venue: Two halls.
assistant venue: Which one?
user ann: the second
"
    );
}

#[test]
fn at_the_synthesis_the_coordinator_is_told_to_sum_up() {
    let mut stage = Stage::open(&coordination(), "Hello");
    stage.perform([directs("Nothing to do.", None, None)]);
    assert_eq!(
        stage.given(),
        "user ann: Hello\nassistant chief: Nothing to do.\nsystem play: Sum up.\n"
    );
}

#[test]
fn an_unknown_next_agent_is_corrected_twice_and_then_fails() {
    let mut stage = Stage::open(&coordination(), "Hello");
    let lost = || directs("Off.", Some("nobody"), None);
    stage.perform([lost(), lost()]);
    let given = stage.given();
    assert!(
        given.contains("there is no agent `nobody`; next_agent is null or one of: venue, budget")
    );
    stage.perform([lost()]);
    assert_eq!(
        stage.told,
        "\
chief
directs \"Off.\" -> chief
directs \"Off.\" -> chief
directs \"Off.\" -> failed reply.invalid
"
    );
    let Status::Failed(failure) = &stage.run.status else { panic!("failed") };
    assert!(failure.message.contains("after 2 corrections: there is no agent `nobody`"));
}

#[test]
fn k5_a_correction_is_between_the_agent_and_us() {
    let mut stage = Stage::open(&coordination(), "Hello");
    stage.perform([says("Sure, I will!"), directs("Off.", Some("venue"), None)]);
    assert_eq!(stage.given(), "user ann: Hello\nassistant chief: Off.\n");
    stage.perform([directs("Back.", Some("chief"), None)]);
    assert!(stage.given().contains("Sure, I will!"), "its own words are its own to see");
}

#[test]
fn malformed_output_is_corrected_and_then_fails_clearly() {
    let script = [
        says("not json"),
        Act::Outputs(json!({"summary": "x"})),
        says(
            "{\"summary\": 3, \"next_agent\": null, \"user_input_needed\": false, \"user_prompt\": null}",
        ),
    ];
    let told = play(&coordination(), script);
    assert!(told.ends_with("-> failed reply.invalid\n"), "{told}");
    let mut stage = Stage::open(&coordination(), "Hello");
    stage.perform([Act::Outputs(json!({"summary": "x"}))]);
    let given = stage.given();
    assert!(
        given.contains("assistant chief: {\"summary\":\"x\"}"),
        "it sees what it said: {given}"
    );
    assert!(given.contains("system holdpoint: Your reply was not accepted:"), "{given}");
}

#[test]
fn corrections_are_counted_for_each_turn_anew() {
    let bad = || says("not json");
    let script = [
        bad(),
        bad(),
        directs("Off.", Some("venue"), None),
        bad(),
        bad(),
        directs("On.", None, None),
    ];
    assert!(play(&coordination(), script).ends_with("-> chief sums up\n"));
}

#[test]
fn an_agent_that_may_not_ask_is_told_so() {
    let mut workflow = coordination();
    workflow.agents.get_mut("chief").expect("cast").human_input.enabled = false;
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([directs("Hm.", None, Some("What?"))]);
    assert!(stage.given().contains("decide by your own judgment"));
    stage.perform([directs("Well.", Some("venue"), None), directs("Hm.", None, Some("What?"))]);
    assert!(stage.told.ends_with("-> waiting for #1 clarification\n"), "others still may");
}

#[test]
fn a_directive_without_a_prompt_still_asks() {
    let output = json!({"summary": "", "next_agent": "venue", "user_input_needed": true, "user_prompt": null});
    let mut stage = Stage::open(&coordination(), "Hello");
    stage.perform([Act::Outputs(output)]);
    assert_eq!(stage.run.questions[&1].prompt, "Please provide input.");
}

#[test]
fn a_withdrawn_question_of_a_directive_cancels_the_run() {
    let script = [directs("Hm.", None, Some("What?")), Act::Withdraws(1)];
    assert!(play(&coordination(), script).ends_with("-> cancelled by ann\n"));
}

fn gated(between: Between) -> Workflow {
    let gate = Gate { name: "next".into(), handoffs: vec![between], ..Gate::default() };
    Workflow { gates: vec![gate], ..coordination() }
}

#[test]
fn k4_who_is_next_waits_at_a_gate_on_handoffs_and_a_no_gives_the_word_back() {
    let mut stage = Stage::open(&gated(Between::default()), "Hello");
    stage.perform([directs("Off we go.", Some("venue"), None)]);
    let asked = &stage.run.questions[&1];
    assert_eq!(asked.prompt, "May what chief says stand, and venue be next?");
    assert!(stage.run.last_words().is_none(), "nobody has heard it");
    stage.perform([answers(1, json!({"decision": "deny", "note": "the budget first"}))]);
    assert!(stage.given().contains("Denied by ann: the budget first."), "{}", stage.given());
    stage.perform([directs("Then so.", Some("budget"), None), answers(2, "yes")]);
    assert_eq!(stage.told.lines().last().unwrap(), "answers #2 \"yes\" -> budget");
}

#[test]
fn a_gate_on_handoffs_looks_at_who_hands_over_to_whom_and_at_no_reply_that_does_not() {
    let only = Between { from: Some("venue".into()), to: Some("budget".into()) };
    let mut stage = Stage::open(&gated(only.clone()), "Hello");
    stage.perform([
        directs("Off we go.", Some("venue"), None),
        directs("Which?", Some("budget"), Some("Pier or hall?")),
    ]);
    assert_eq!(stage.run.questions[&1].prompt, "Pier or hall?", "the user is asked first");
    stage.perform([answers(1, "the pier"), directs("The pier.", Some("budget"), None)]);
    assert_eq!(stage.run.questions[&2].prompt, "May what venue says stand, and budget be next?");
    let mut stage = Stage::open(&gated(only), "Hello");
    stage.perform([directs("Nothing.", None, None), says("That is all.")]);
    assert!(matches!(stage.run.status, Status::Completed), "{:?}", stage.run.status);
}

#[test]
fn whoever_edits_who_is_next_names_somebody_who_is_there() {
    let mut stage = Stage::open(&gated(Between::default()), "Hello");
    stage.perform([directs("Off we go.", Some("venue"), None)]);
    let edit = |next: &str| {
        let output = json!({"summary": "Off.", "next_agent": next, "user_input_needed": false,
            "user_prompt": null});
        json!({"decision": "edit", "arguments": {"output": output}})
    };
    stage.perform([answers(1, edit("nobody"))]);
    assert!(stage.told.lines().last().unwrap().contains("refused"), "{}", stage.told);
    stage.perform([answers(1, edit("budget"))]);
    assert!(stage.told.lines().last().unwrap().ends_with("-> budget"), "{}", stage.told);
}
