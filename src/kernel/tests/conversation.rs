//! The conversation's bound: refused, or summed up by a named agent; never cut silently.

use serde_json::json;

use crate::kernel::tests::cast::{sequence, step, workflow};
use crate::kernel::tests::stage::{Act, Stage, calls, says};
use crate::kernel::workflow::{Pattern, Work, Workflow};
use crate::kernel::{Bound, Event, WhenFull, input_of, replay};

const LONG: usize = 700;

fn bounded(mut workflow: Workflow, when_full: WhenFull) -> Workflow {
    workflow.limits.conversation = Some(Bound { bytes: 1_000, when_full });
    workflow
}

fn summarised() -> Workflow {
    let steps = vec![step("a"), step("b"), step("a")];
    let steps = steps.into_iter().enumerate().map(|(index, mut step)| {
        step.id = format!("{}{index}", step.id);
        step
    });
    let pattern = Pattern::Sequential { steps: steps.collect() };
    bounded(workflow(&["a", "b", "scribe"], pattern), WhenFull::Summarise("scribe".into()))
}

#[test]
fn more_than_the_bound_is_refused_by_name() {
    let flow = bounded(sequence(vec![step("a"), step("b")]), WhenFull::Refuse);
    let mut stage = Stage::open(&flow, "Hello");
    stage.perform([says(&"x".repeat(400)), says("Done.")]);
    assert!(stage.told.ends_with("completed with \"Done.\"\n"), "{}", stage.told);
    let mut stage = Stage::open(&flow, "Hello");
    stage.perform([says(&"x".repeat(1_200))]);
    assert!(stage.told.ends_with("failed conversation.full\n"), "{}", stage.told);
}

#[test]
fn the_older_part_is_summed_up_and_the_rest_stays_word_for_word() {
    let mut stage = Stage::open(&summarised(), "What we want.");
    stage.perform([says(&"x".repeat(LONG)), says(&"y".repeat(LONG))]);
    assert!(stage.told.ends_with(" -> scribe\n"), "{}", stage.told);
    let asked = stage.given();
    assert!(asked.contains("ann: What we want.") && asked.contains(&"x".repeat(LONG)), "{asked}");
    stage.perform([says("They said x and y.")]);
    assert!(stage.told.ends_with(" -> a\n"), "{}", stage.told);
    let given = stage.given();
    assert!(given.starts_with("user ann: What we want.\nassistant scribe: Summary of"), "{given}");
    assert!(given.contains("They said x and y."), "{given}");
    assert!(!given.contains("xxx"), "{given}");
    let warned = stage.journal.iter().any(|recorded| {
        matches!(&recorded.event, Event::Warned(told) if told.code == "conversation.summarised")
    });
    assert!(warned, "it is told to whoever watches");
    let whole = stage.run.conversation.iter().map(|message| message.text.len()).sum::<usize>();
    assert!(whole > 2 * LONG, "the conversation keeps every word");
    stage.perform([says("Done.")]);
    assert!(stage.told.ends_with("completed with \"Done.\"\n"), "{}", stage.told);
    let again = replay(&stage.run.id, stage.run.workflow.clone(), &stage.journal).expect("folds");
    assert_eq!(again, stage.run);
}

#[test]
fn a_summary_that_is_journalled_is_not_asked_for_again() {
    let mut stage = Stage::open(&summarised(), "What we want.");
    stage.perform([says(&"x".repeat(LONG)), says(&"y".repeat(LONG)), Act::Recovers]);
    assert!(stage.told.ends_with(" -> scribe try 2\n"), "{}", stage.told);
    stage.perform([says("They said x and y."), Act::Recovers]);
    assert!(stage.told.ends_with(" -> a try 3\n"), "{}", stage.told);
}

#[test]
fn no_summary_and_one_that_is_too_long_are_failed_attempts() {
    let mut stage = Stage::open(&summarised(), "What we want.");
    stage.perform([says(&"x".repeat(LONG)), says(&"y".repeat(LONG)), says(&"z".repeat(600))]);
    let turn = stage.run.turns.values().next().expect("a turn");
    assert_eq!(turn.failures, 1);
    stage.perform([Act::Waits(60_000), says(" "), Act::Waits(60_000), says(&"z".repeat(600))]);
    assert!(stage.told.ends_with("failed step.failed\n"), "{}", stage.told);
}

#[test]
fn an_agents_own_tool_traffic_is_summed_up_with_its_calls() {
    let mut stage = Stage::open(&summarised(), "What we want.");
    let lookup = calls("I look.", [("c1", "lookup", json!({}))]);
    stage.perform([lookup, Act::Returns("c1".into(), Ok(json!("w".repeat(1_100))))]);
    assert!(stage.told.ends_with(" -> scribe\n"), "{}", stage.told);
    let asked = stage.given();
    assert!(asked.contains("a called `lookup` with {}") && asked.contains("www"), "{asked}");
    stage.perform([says("It found w.")]);
    let given = stage.given();
    assert!(!given.contains("tool :") && !given.contains("lookup"), "{given}");
    assert!(given.contains("It found w."), "{given}");
}

#[test]
fn a_first_message_that_is_too_long_cannot_be_summed_up() {
    let stage = Stage::open(&summarised(), "x".repeat(1_100));
    assert!(stage.told.ends_with("failed conversation.full\n"), "{}", stage.told);
}

#[test]
fn texts_are_filled_in_for_the_run() {
    let mut flow = sequence(vec![step("a"), step("b")]);
    flow.agents.get_mut("a").expect("an agent").instructions = "You help ${input.name}.".into();
    let Pattern::Sequential { steps } = &mut flow.pattern else { panic!("sequential") };
    let prompt = Some("Greet ${input.name}, $${plainly}.".to_owned());
    steps[1].work = Work::Agent { agent: "b".into(), prompt };
    let mut stage = Stage::open(&flow, json!({"name": "Ada"}));
    let turn = stage.run.turns.values().next().expect("a turn").clone();
    let input = input_of(&stage.run, &turn).expect("an input");
    assert_eq!(input.instructions, "You help Ada.");
    stage.perform([says("Hello.")]);
    assert!(stage.given().ends_with("system play: Greet Ada, ${plainly}.\n"), "{}", stage.given());
}

#[test]
fn what_cannot_be_filled_in_fails_by_name() {
    let mut flow = sequence(vec![step("a")]);
    flow.agents.get_mut("a").expect("an agent").instructions = "You help ${input.name}.".into();
    let stage = Stage::open(&flow, "no name here");
    assert_eq!(stage.told, "failed value.missing\n");
}
