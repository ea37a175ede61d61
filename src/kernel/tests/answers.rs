//! Answers: a question has at most one (K2), against what was shown (K3), and a refusal leaves no
//! trace (K1).

use serde_json::{Value, json};

use super::cast::{forever, human, sequence, step};
use super::stage::{Act, Stage, ann, answers, calls, play, says};
use crate::kernel::{
    Answer, Command, Decision, Event, Kind, Principal, Refusal, RequestId, Role, RunId, Seen,
    Workflow, decide,
};

fn two_questions() -> Act {
    calls(
        "Two things.",
        [
            ("c1", "request_user_input", json!({"prompt": "Where?"})),
            ("c2", "request_user_input", json!({"prompt": "When?"})),
        ],
    )
}

fn approval() -> Workflow {
    sequence(vec![human("ok", Kind::Approval, forever()), step("a")])
}

fn both(place: &str, time: &str) -> Vec<(u32, Value)> {
    vec![(1, json!(place)), (2, json!(time))]
}

#[test]
fn several_questions_are_answered_by_one_map() {
    let script = [two_questions(), Act::Answers(both("here", "now"), "k")];
    assert_eq!(
        play(&sequence(vec![step("a")]), script),
        "\
a
calls request_user_input, request_user_input -> waiting for #1 clarification, #2 clarification
answers #1 \"here\", #2 \"now\" (k) -> a
"
    );
}

#[test]
fn part_of_them_may_be_answered_and_the_rest_stay_open() {
    let script = [two_questions(), answers(2, "now"), answers(2, "later"), answers(1, "here")];
    assert_eq!(
        play(&sequence(vec![step("a")]), script),
        "\
a
calls request_user_input, request_user_input -> waiting for #1 clarification, #2 clarification
answers #2 \"now\" -> waiting for #1 clarification
answers #2 \"later\" -> refused request.already_answered
answers #1 \"here\" -> a
"
    );
}

#[test]
fn k1_of_several_answers_all_are_taken_or_none() {
    let script = [
        two_questions(),
        Act::Answers(both("here", ""), "k"),
        Act::Answers(vec![(1, json!("here")), (3, json!("now"))], "k"),
        Act::Answers(vec![(1, json!("here")), (1, json!("there"))], "k"),
        Act::Answers(Vec::new(), "k"),
        Act::Answers(both("here", "now"), "k"),
    ];
    assert_eq!(
        play(&sequence(vec![step("a")]), script),
        "\
a
calls request_user_input, request_user_input -> waiting for #1 clarification, #2 clarification
answers #1 \"here\", #2 \"\" (k) -> refused answer.invalid
answers #1 \"here\", #3 \"now\" (k) -> refused request.unknown
answers #1 \"here\", #1 \"there\" (k) -> refused field.invalid
answers  (k) -> refused field.invalid
answers #1 \"here\", #2 \"now\" (k) -> a
"
    );
}

#[test]
fn k2_the_same_answer_with_the_same_key_returns_the_first_outcome() {
    let mut stage = Stage::open(&approval(), "Hello");
    // Versions: 1 started, 2 asked, 3 checkpoint, 4 parked; the answer is event 5.
    let yes = || Act::Answers(vec![(1, json!("Yes"))], "k");
    stage.perform([yes(), yes(), says("Done."), yes()]);
    assert_eq!(
        stage.told,
        "\
waiting for #1 approval
answers #1 \"Yes\" (k) -> a
answers #1 \"Yes\" (k) -> repeats what came after 4
says \"Done.\" -> completed with \"Done.\"
answers #1 \"Yes\" (k) -> repeats what came after 4
"
    );
}

#[test]
fn k2_a_repeat_is_known_however_the_answer_was_spelled() {
    let mut stage =
        Stage::open(&sequence(vec![human("pick", Kind::Selection, forever())]), "Hello");
    let second = || Act::Answers(vec![(1, json!("2"))], "k");
    stage.perform([second(), second(), Act::Answers(vec![(1, json!("1"))], "k")]);
    assert_eq!(
        stage.told,
        "\
waiting for #1 selection
answers #1 \"2\" (k) -> completed with \"y\"
answers #1 \"2\" (k) -> repeats what came after 4
answers #1 \"1\" (k) -> refused idempotency_key.reused
"
    );
}

#[test]
fn k2_a_key_stands_for_everything_that_was_given_with_it() {
    let script = [
        two_questions(),
        Act::Answers(both("here", "now"), "k"),
        Act::Answers(both("here", "now"), "k"),
        Act::Answers(both("here", "later"), "k"),
        Act::Answers(vec![(1, json!("here"))], "k"),
        Act::Answers(vec![(1, json!("here")), (2, json!("now")), (3, json!("x"))], "k"),
        calls("", [("c3", "request_user_input", json!({"prompt": "Why?"}))]),
        Act::Answers(vec![(3, json!("x"))], "k"),
        Act::Answers(vec![(3, json!("x"))], "k2"),
    ];
    let told = play(&sequence(vec![step("a")]), script);
    let outcomes: Vec<_> = told.lines().filter_map(|line| line.split(" -> ").nth(1)).collect();
    assert_eq!(
        outcomes[2..],
        [
            "repeats what came after 7",
            "refused idempotency_key.reused",
            "refused idempotency_key.reused",
            "refused idempotency_key.reused",
            "waiting for #3 clarification",
            "refused idempotency_key.reused",
            "a",
        ]
    );
}

#[test]
fn k2_without_a_key_or_with_another_the_second_answer_is_told_who_answered() {
    let mut stage = Stage::open(&approval(), "Hello");
    stage.perform([Act::Answers(vec![(1, json!("yes"))], "k")]);
    for key in ["", "k2"] {
        let again = stage.answer(&[(1, json!("yes"))], key);
        let refusal = decide(&stage.run, &again, stage.now).expect_err("K2");
        assert!(refusal.to_string().ends_with("was already answered by ann"), "{refusal}");
    }
}

#[test]
fn k2_a_key_is_its_principals_own() {
    let mut stage = Stage::open(&approval(), "Hello");
    stage.perform([Act::Answers(vec![(1, json!("yes"))], "k")]);
    let Command::Answer { answers, key, .. } = stage.answer(&[(1, json!("yes"))], "k") else {
        panic!("an answer")
    };
    let bob = Principal { id: "bob".into(), ..ann() };
    let again = Command::Answer { answers, key, principal: bob, seed: String::new() };
    assert_eq!(stage.command_by(&again), Err("request.unknown"), "nor is he told how it ended");
    let Command::Answer { answers, key, .. } = stage.answer(&[(1, json!("yes"))], "k") else {
        panic!("an answer")
    };
    let ops = Principal { id: "ops".into(), roles: Role::Operator.into(), ..ann() };
    let again = Command::Answer { answers, key, principal: ops, seed: String::new() };
    assert_eq!(stage.command_by(&again), Err("request.already_answered"));
}

#[test]
fn k3_an_answer_to_what_is_not_asked_is_refused() {
    let mut stage = Stage::open(&approval(), "Hello");
    let shown = stage.run.questions[&1].digest.clone();
    let mut answer_to = |digest: &str| {
        let request = stage.request(1);
        let answer = Answer { request, value: json!("yes"), digest: Some(digest.into()) };
        let (answers, key, seed) = (vec![answer], String::new(), String::new());
        let command = Command::Answer { answers, key, principal: ann(), seed };
        stage.command_by(&command)
    };
    assert_eq!(answer_to("something else"), Err("answer.stale_digest"));
    assert_eq!(answer_to(&shown), Ok(None));
}

#[test]
fn a_request_of_another_run_is_never_taken_for_ones_own() {
    let mut stage = Stage::open(&approval(), "Hello");
    let foreign =
        RequestId { run: RunId::fresh("0000000000000000000000000z"), ordinal: 1, tail: None };
    let answer = Answer { request: foreign.clone(), value: json!("yes"), digest: None };
    let (answers, key, seed) = (vec![answer], String::new(), String::new());
    let command = Command::Answer { answers, key, principal: ann(), seed };
    assert_eq!(stage.command_by(&command), Err("request.foreign"));
    let command = Command::Withdraw { request: foreign, principal: ann(), key: String::new() };
    assert_eq!(stage.command_by(&command), Err("request.foreign"));
}

#[test]
fn k1_unknown_requests_and_finished_runs_are_refused() {
    let script = [
        answers(0, "yes"),
        answers(2, "yes"),
        answers(u32::MAX, "yes"),
        Act::Withdraws(9),
        Act::Cancels,
        Act::Cancels,
        answers(1, "yes"),
        Act::Recovers,
        Act::Waits(1),
    ];
    let told = play(&approval(), script);
    let outcomes: Vec<_> = told.lines().filter_map(|line| line.split(" -> ").nth(1)).collect();
    assert_eq!(
        outcomes,
        [
            "refused request.unknown",
            "refused request.unknown",
            "refused request.unknown",
            "refused request.unknown",
            "cancelled by ann",
            "refused run.over",
            "refused request.closed",
            "cancelled by ann",
            "cancelled by ann",
        ]
    );
}

#[test]
fn a_wrong_choice_is_refused_with_the_options() {
    let stage = Stage::open(&sequence(vec![human("pick", Kind::Selection, forever())]), "Hello");
    let wrong = stage.answer(&[(1, json!("z"))], "");
    let refusal = decide(&stage.run, &wrong, stage.now).expect_err("no such option");
    assert!(matches!(refusal, Refusal::WrongAnswer { .. }));
    assert!(refusal.to_string().ends_with("does not fit: expected one of: x, y"), "{refusal}");
}

#[test]
fn no_run_listens_to_signals_yet() {
    let mut stage = Stage::open(&approval(), "Hello");
    let signal = Command::Signal {
        name: "done".into(),
        value: Value::Null,
        principal: ann(),
        key: String::new(),
    };
    assert_eq!(stage.command_by(&signal), Err("run.not_listening"));
}

#[test]
fn nobody_was_shown_more_than_there_can_be_nor_before_it_was_asked() {
    let run = Stage::open(&approval(), "Hello").run;
    let question = &run.questions[&1];
    let (asked_at, request) = (question.asked_at, question.id(&run.id));
    let kept = |chars: u64, ms: u64| {
        let mut principal = Principal::new("ann", Role::User, "test");
        principal.known.seen = Some(Seen { chars, ms });
        let digest = Some(question.digest.clone());
        let answers = vec![Answer { request: request.clone(), value: json!("approve"), digest }];
        let (key, seed) = (String::new(), String::new());
        let command = Command::Answer { answers, key, principal, seed };
        let Ok(Decision::Events(events)) = decide(&run, &command, asked_at.plus(2_000)) else {
            panic!("it is taken");
        };
        let known = events
            .into_iter()
            .find_map(|event| if let Event::Answered { known, .. } = event { known } else { None });
        known.unwrap().seen.unwrap()
    };
    assert_eq!(kept(120, 1_500), Seen { chars: 120, ms: 1_500 });
    assert_eq!(kept(u64::MAX, u64::MAX), Seen { chars: 16 * 1024 * 1024, ms: 2_000 });
}
