//! Handoff: agents pass the conversation on, the user has a turn, and some day it is over.

use serde_json::json;

use super::cast::{support, terms};
use super::stage::{Stage, answers, calls, hands_to, play, says};
use crate::kernel::workflow::{Ends, Handoff, ReturnTo};

fn ends(user_messages_over: Option<u32>, last_message_contains: Option<&str>) -> Ends {
    Ends { user_messages_over, last_message_contains: last_message_contains.map(Into::into) }
}

#[test]
fn the_loop_of_four_utterances_has_three_pauses_and_ends_with_the_whole_conversation() {
    let workflow = support(Handoff { ends: ends(Some(3), None), ..terms() });
    let first =
        "I need help with order 12345. I want a replacement and need to know when it will arrive.";
    let mut stage = Stage::open(&workflow, first);
    stage.perform([
        hands_to("repair"),
        says("What is wrong with it?"),
        answers(1, "The item arrived damaged."),
        hands_to("billing"),
        says("It is on its way."),
        answers(2, "Great! Is the shipping free?"),
        says("It is."),
        answers(3, "Thank you!"),
    ]);
    assert_eq!(
        stage.told,
        "\
triage
calls handoff_to_repair -> repair
says \"What is wrong with it?\" -> waiting for #1 clarification
answers #1 \"The item arrived damaged.\" -> repair
calls handoff_to_billing -> billing
says \"It is on its way.\" -> waiting for #2 clarification
answers #2 \"Great! Is the shipping free?\" -> billing
says \"It is.\" -> waiting for #3 clarification
answers #3 \"Thank you!\" -> completed with 7 messages
"
    );
    let output = stage.run.output.clone().expect("completed");
    let said = output.as_array().expect("a list").iter();
    let said: Vec<_> = said
        .map(|line| (line["author_name"].as_str().expect("a"), line["text"].as_str().expect("t")))
        .collect();
    assert_eq!(said.first(), Some(&("ann", first)));
    assert_eq!(said[1], ("repair", "What is wrong with it?"));
    assert_eq!(said.last(), Some(&("ann", "Thank you!")));
}

#[test]
fn the_end_is_looked_for_before_a_turn_and_after_it() {
    let before = support(Handoff { ends: ends(Some(0), None), ..terms() });
    assert_eq!(play(&before, []), "completed with 1 messages\n");
    let after = support(Handoff { ends: ends(None, Some("GOODBYE")), ..terms() });
    assert_eq!(
        play(&after, [says("Well, goodbye then.")]),
        "triage\nsays \"Well, goodbye then.\" -> completed with 2 messages\n"
    );
    let told = play(&after, [says("Hi."), answers(1, "Goodbye.")]);
    assert!(told.ends_with("answers #1 \"Goodbye.\" -> completed with 3 messages\n"), "{told}");
}

#[test]
fn an_answer_goes_to_the_asker_or_through_the_start_agent() {
    let script = || [hands_to("repair"), says("What?"), answers(1, "It broke.")];
    assert!(play(&support(terms()), script()).ends_with("-> repair\n"));
    let through_start = support(Handoff { return_to: ReturnTo::Start, ..terms() });
    assert!(play(&through_start, script()).ends_with("-> triage\n"));
}

#[test]
fn an_autonomous_agent_goes_on_up_to_its_limit_and_then_asks() {
    let mut free = terms();
    free.autonomous.insert("repair".into(), 2);
    let script = [
        says("Hi."),
        answers(1, "Go."),
        hands_to("repair"),
        says("Step one."),
        says("Step two."),
        answers(2, "Go on."),
        says("Step three."),
    ];
    assert_eq!(
        play(&support(free), script),
        "\
triage
says \"Hi.\" -> waiting for #1 clarification
answers #1 \"Go.\" -> triage
calls handoff_to_repair -> repair
says \"Step one.\" -> repair
says \"Step two.\" -> waiting for #2 clarification
answers #2 \"Go on.\" -> repair
says \"Step three.\" -> repair
"
    );
}

#[test]
fn an_agent_is_told_about_a_target_that_is_not_its_own() {
    let mut stage = Stage::open(&support(terms()), "Hello");
    stage.perform([hands_to("repair"), hands_to("triage")]);
    assert!(stage.told.ends_with("calls handoff_to_triage -> repair\n"));
    let given = stage.given();
    assert!(
        given.contains("error: `repair` cannot hand off to `triage`; it may hand off to: billing")
    );
}

#[test]
fn only_allowed_targets_are_offered() {
    let mut stage = Stage::open(&support(terms()), "Hello");
    let offers = |stage: &Stage| {
        let turn = stage.run.turns.values().next().expect("a turn");
        let input = crate::kernel::input_of(&stage.run, turn).expect("a cast agent");
        input.tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>()
    };
    let all = ["lookup", "charge", "handoff_to_repair", "handoff_to_billing", "request_user_input"];
    assert_eq!(offers(&stage), all);
    stage.perform([hands_to("billing")]);
    assert_eq!(offers(&stage), ["lookup", "charge", "request_user_input"]);
}

#[test]
fn only_the_first_of_two_handoffs_counts_and_other_calls_are_finished_first() {
    let script = [
        calls(
            "",
            [
                ("c1", "handoff_to_repair", json!({})),
                ("c2", "handoff_to_billing", json!({})),
                ("c3", "lookup", json!({})),
            ],
        ),
        super::stage::returns("c3", json!(7)),
    ];
    assert_eq!(
        play(&support(terms()), script),
        "\
triage
calls handoff_to_repair, handoff_to_billing, lookup -> lookup(c3)
c3 returns 7 -> repair
"
    );
}

#[test]
fn an_empty_list_or_the_verb_end_ends_the_conversation_without_a_word() {
    for end in [json!([]), json!({"verb": "end"})] {
        let told = play(&support(terms()), [says("Hi."), answers(1, end)]);
        assert!(told.ends_with("-> completed with 2 messages\n"), "{told}");
    }
    let told = play(&support(terms()), [says("Hi."), answers(1, json!(["x"])), answers(1, "")]);
    assert_eq!(told.matches("refused answer.invalid").count(), 2, "{told}");
}

#[test]
fn k5_a_handoff_shows_the_words_and_hides_the_tools() {
    let mut stage = Stage::open(&support(terms()), "Hello");
    stage.perform([
        calls("Let me look.", [("c1", "lookup", json!({"id": 1}))]),
        super::stage::returns("c1", json!({"found": true})),
        calls("Over to repair.", [("c2", "handoff_to_repair", json!({}))]),
    ]);
    assert_eq!(
        stage.given(),
        "user ann: Hello\nassistant triage: Let me look.\nassistant triage: Over to repair.\n"
    );
}

#[test]
fn a_run_of_endless_handoffs_meets_the_step_cap() {
    let mut ring = terms();
    ring.handoffs.insert("billing".into(), vec!["triage".into()]);
    let mut workflow = support(ring);
    workflow.limits.steps = 3;
    let told = play(&workflow, [hands_to("billing"), hands_to("triage"), hands_to("billing")]);
    assert!(told.ends_with("calls handoff_to_billing -> failed step.cap\n"), "{told}");
}
