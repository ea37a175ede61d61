//! What was said before: given to every agent before the run's own words, by reference, and bounded.

use std::sync::Arc;

use serde_json::json;

use crate::kernel::tests::cast::{sequence, step, workflow};
use crate::kernel::tests::stage::{Act, Stage, answers, calls, returns, says, started};
use crate::kernel::workflow::{Pattern, Workflow};
use crate::kernel::{
    Bound, CONVERSATION_BYTES_MAX, Declined, EARLIER_MESSAGES_MAX, EARLIER_RUNS_MAX, Earlier,
    Event, Follows, Message, Millis, Refusal, RunId, Speaker, WhenFull, plan, replay, start,
};

fn words(text: &str) -> Arc<Message> {
    Arc::new(Message::text(Speaker::User, "ann", text))
}

/// A run in which a tool was called, a person asked and something said.
fn first_run() -> Stage {
    let mut stage = Stage::open(&sequence(vec![step("a"), step("b")]), "I am Ada.");
    stage.perform([
        calls("I look.", [("c1", "lookup", json!({}))]),
        returns("c1", json!("secret-7")),
        calls("", [("c2", "request_user_input", json!({"prompt": "Red or blue?"}))]),
        answers(1, "Blue, please."),
        says("Blue it is, Ada."),
        says("Noted."),
    ]);
    assert!(stage.told.ends_with("completed with \"Noted.\"\n"), "{}", stage.told);
    stage
}

/// What is remembered after a run that had `before`.
fn told(before: &Earlier, stage: &Stage) -> Earlier {
    Earlier::then(before, [(stage.run.id.clone(), stage.run.said())])
}

const SAID: &str = "user ann: I am Ada.\nassistant a: I look.\nassistant a: Red or blue?\n\
                    user ann: Blue, please.\nassistant a: Blue it is, Ada.\nassistant b: Noted.\n";

#[test]
fn k5_a_run_is_given_what_was_said_in_the_one_it_follows_and_no_tool_traffic() {
    let first = first_run();
    let earlier = told(&Earlier::default(), &first);
    let flow = sequence(vec![step("a"), step("b")]);
    let mut second = Stage::open_following(&flow, "What did I want?", earlier);
    assert_eq!(second.given(), format!("{SAID}user ann: What did I want?\n"));
    second.perform([says("Blue.")]);
    let given = format!("{SAID}user ann: What did I want?\nassistant a: Blue.\n");
    assert_eq!(second.given(), given, "so is the next agent");
    second.perform([says("Indeed.")]);
    assert!(second.told.ends_with("completed with \"Indeed.\"\n"), "{}", second.told);
    assert_eq!(second.run.conversation.len(), 3, "its conversation is its own");
    let earlier = told(&second.run.earlier, &second);
    let third = Stage::open_following(&flow, "And now?", earlier);
    let more = "user ann: What did I want?\nassistant a: Blue.\nassistant b: Indeed.\n";
    assert_eq!(third.given(), format!("{SAID}{more}user ann: And now?\n"));
}

#[test]
fn what_was_said_plainly_is_shared_and_not_copied() {
    let first = first_run();
    let said = first.run.said();
    let own = first.run.conversation.first().expect("a message");
    assert!(Arc::ptr_eq(own, &said[0]));
    let text = |stage: &Stage| serde_json::to_string(&stage.journal[0].event).expect("JSON");
    let flow = sequence(vec![step("a")]);
    let short = Stage::open_following(&flow, "Hello", Earlier::from(vec![words("x")]));
    let long =
        Stage::open_following(&flow, "Hello", Earlier::from(vec![words(&"x".repeat(9_999))]));
    assert_eq!(text(&short).len(), text(&long).len(), "a journal points, and copies nothing");
}

#[test]
fn an_event_that_follows_nobody_is_written_as_it_ever_was() {
    let stage = Stage::open(&sequence(vec![step("a")]), "Hello");
    let text = serde_json::to_string(&stage.journal[0].event).expect("JSON");
    assert!(!text.contains("follows"), "{text}");
}

#[test]
fn what_was_said_before_counts_against_the_bound_of_a_conversation() {
    let flow = sequence(vec![step("a"), step("b")]);
    let nearly = words(&"x".repeat(CONVERSATION_BYTES_MAX - 100));
    let mut stage = Stage::open_following(&flow, "Hello", Earlier::from(vec![nearly.clone()]));
    let ask = calls("", [("c1", "request_user_input", json!({"prompt": "Well?"}))]);
    stage.act(&ask).expect("taken");
    assert_eq!(stage.act(&answers(1, "x".repeat(100))), Err("field.too_large"));
    let mut stage = Stage::open_following(&flow, "Hello", Earlier::from(vec![nearly]));
    stage.act(&says(&"x".repeat(200))).expect("taken");
    assert!(format!("{:?}", stage.run.status).contains("conversation.too_large"));
}

#[test]
fn a_session_that_is_full_is_refused_with_the_remedy() {
    let begins = |earlier: Earlier| {
        let started = started(json!("Hello"));
        let id = RunId::fresh(super::stage::STEM);
        start(id, sequence(vec![step("a")]).into(), started, (earlier, Arc::default()), Millis(0))
            .map(|_| ())
    };
    let code = |declined: Declined| match declined {
        Declined::Refused(Refusal::SessionFull { remedy, .. }) => remedy,
        Declined::Refused(_) | Declined::Corrupt(_) => panic!("{declined}"),
    };
    let full = Earlier::from(vec![words(&"x".repeat(CONVERSATION_BYTES_MAX))]);
    assert!(code(begins(full).expect_err("full")).contains("begin a new session"));
    let silent = (RunId::fresh(super::stage::STEM), Vec::new());
    let runs = |count: usize| Earlier::then(&Earlier::default(), vec![silent.clone(); count]);
    assert_eq!(begins(runs(EARLIER_RUNS_MAX)), Ok(()));
    let short = |count: usize| Earlier::from(vec![words("x"); count]);
    assert_eq!(begins(short(EARLIER_MESSAGES_MAX)), Ok(()));
    assert!(begins(short(EARLIER_MESSAGES_MAX + 1)).is_err());
    assert!(code(begins(runs(EARLIER_RUNS_MAX + 1)).expect_err("long")).contains("remembers: run"));
}

fn summarised() -> Workflow {
    let pattern = Pattern::Sequential { steps: vec![step("a"), step("b")] };
    let mut flow = workflow(&["a", "b", "scribe"], pattern);
    let when_full = WhenFull::Summarise("scribe".into());
    flow.limits.conversation = Some(Bound { bytes: 1_000, when_full });
    flow
}

#[test]
fn what_was_said_before_is_summed_up_like_the_rest_and_the_runs_first_message_stays() {
    let earlier = Earlier::from(vec![words(&"x".repeat(990)), words("Then blue.")]);
    let mut stage = Stage::open_following(&summarised(), "What we want.", earlier);
    let asked = stage.given();
    assert!(asked.contains("xxx") && !asked.contains("Then blue."), "{asked}");
    stage.perform([says("They said x.")]);
    let summary = "assistant scribe: Summary of what was said before:\nThey said x.\n";
    let rest = "user ann: Then blue.\nuser ann: What we want.\n";
    assert_eq!(stage.given(), format!("{summary}{rest}"));
    let input = owed(&stage);
    assert_eq!((input.begins, input.messages.len()), (2, 3));
    // The next agent has seen nothing of it, and by then the newest is too long to stay.
    stage.perform([says(&"y".repeat(300))]);
    let asked = stage.given();
    assert!(asked.contains("ann: What we want.") && asked.contains("yyy"), "{asked}");
    stage.perform([says("They said x and y.")]);
    let summary = "assistant scribe: Summary of what was said before:\nThey said x and y.\n";
    assert_eq!(stage.given(), format!("user ann: What we want.\n{summary}"));
    assert_eq!(owed(&stage).begins, 0);
}

#[test]
fn places_stay_what_they_are_though_the_oldest_runs_be_pruned() {
    let earlier = Earlier::from(vec![words(&"x".repeat(990)), words("Then blue.")]);
    let mut stage = Stage::open_following(&summarised(), "What we want.", earlier);
    stage.perform([says("They said x.")]);
    let given = stage.given();
    let again = |earlier: Earlier| {
        let run = replay(&stage.run.id, Arc::clone(&stage.run.workflow), &stage.journal);
        let run = run.expect("folds").remembering(earlier);
        let (now, journal) = (stage.now, stage.journal.clone());
        Stage { run, now, journal, told: String::new() }
    };
    assert_eq!(again(Earlier::from(vec![words("Then blue.")])).given(), given);
    let rest = given.replace("user ann: Then blue.\n", "");
    assert_eq!(again(Earlier::default()).given(), rest);
    let more = vec![words("Too old."), words(&"x".repeat(990)), words("Then blue.")];
    assert_eq!(again(Earlier::from(more)).given(), given, "and never more than it was given");
}

#[test]
fn a_restart_in_a_run_that_follows_another_changes_nothing_of_what_is_given() {
    let earlier = told(&Earlier::default(), &first_run());
    let mut stage = Stage::open_following(&sequence(vec![step("a")]), "What did I want?", earlier);
    let given = stage.given();
    stage.perform([Act::Recovers]);
    assert_eq!(stage.given(), given);
    let Event::Started(started) = &stage.journal[0].event else { panic!("it begins") };
    let follows = Follows { run: RunId::fresh(super::stage::STEM), also: Vec::new(), messages: 6 };
    assert_eq!(started.follows, Some(Box::new(follows)));
}

fn owed(stage: &Stage) -> Box<crate::kernel::AgentInput> {
    let replies = plan(&stage.run).into_iter().find_map(|effect| match effect {
        crate::kernel::Effect::Reply { input, .. } => Some(input),
        crate::kernel::Effect::CallTool { .. } => None,
    });
    replies.expect("a reply is owed")
}
