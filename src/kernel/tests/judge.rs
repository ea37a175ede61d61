//! Judge: the laws that hold in every run at every moment, checked after each act of each play.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stage::Stage;
use crate::kernel::{
    AgentInput, Audience, Closing, Effect, Event, Kind, Millis, Origin, Question, Recorded, Run,
    Speaker, Status, Verdict, plan, readable, replay,
};

/// Panics, naming the law, where one does not hold.
pub(super) fn judge(stage: &Stage) {
    let run = &stage.run;
    journal_is_the_truth(stage);
    k4_a_no_is_the_end(&stage.journal);
    for effect in plan(run) {
        if let Effect::Reply { input, .. } = effect {
            k5_the_whole_conversation(run, &input);
        }
    }
    match run.status {
        Status::Running => {
            let moves = !plan(run).is_empty() || run.wake_at().is_some();
            assert!(moves, "a run that moves owes something, or looks at the clock some day");
        }
        Status::Waiting { .. } => {
            assert!(plan(run).is_empty(), "E4: a parked run owes nothing");
            assert!(!run.questions.is_empty(), "a run waits for something");
        }
        Status::Completed | Status::Failed(_) | Status::Cancelled { .. } => k6_over_is_over(run),
    }
}

/// K1, and a repeat is a no-op: the run is as it was.
pub(super) fn k1_no_trace(before: &Run, after: &Run) {
    assert!(before == after, "K1: a refused command left a trace: {before:?} became {after:?}");
}

/// J5, and recovery is replay: what is read back from the stored form is the run, to the letter.
fn journal_is_the_truth(stage: &Stage) {
    let read_back = |(version, recorded): (u64, &Recorded)| {
        assert_eq!(recorded.version, version, "J5: versions have no gaps");
        let text = serde_json::to_string(&recorded.event).expect("an event can be written");
        let event: Event = serde_json::from_str(&text).expect("an event can be read");
        assert_eq!(event, recorded.event, "an event is read back as it was written");
        Recorded { version, at: recorded.at, event }
    };
    let journal: Vec<_> = (1..).zip(&stage.journal).map(read_back).collect();
    assert_eq!(Some(stage.run.version), journal.last().map(|last| last.version));
    let again = replay(&stage.run.id, Arc::clone(&stage.run.workflow), &journal);
    assert!(again.as_ref() == Ok(&stage.run), "replay gives the run back: {again:?}");
}

/// K4: after a human step was rejected, expired or withdrawn, nothing is begun any more.
fn k4_a_no_is_the_end(journal: &[Recorded]) {
    let mut asked: BTreeMap<u32, &Question> = BTreeMap::new();
    let mut stopped = false;
    for recorded in journal {
        let is_human = |ordinal: &u32| asked[ordinal].origin == Origin::HumanStep;
        match &recorded.event {
            Event::Asked(question) => {
                assert!(!stopped, "K4: asked on after a no");
                asked.insert(question.ordinal, question);
            }
            Event::Answered { ordinal, value, by, .. } => {
                on_time(asked[ordinal], by, recorded.at);
                let by_clock = by == "timer" && wants_a_yes(asked[ordinal].kind);
                assert!(!by_clock, "K7: silence answered an approval");
                let says_no = Question::verdict(value) == Verdict::Rejected;
                stopped |= is_human(ordinal) && wants_a_yes(asked[ordinal].kind) && says_no;
            }
            Event::Closed { ordinal, closing, by } => {
                on_time(asked[ordinal], by, recorded.at);
                stopped |= is_human(ordinal) && *closing != Closing::Passed;
            }
            Event::StepStarted { .. } | Event::ToolCalled { .. } | Event::Completed => {
                assert!(!stopped, "K4: went on after a no");
            }
            Event::Started(_)
            | Event::Delta { .. }
            | Event::MessageAdded { .. }
            | Event::ToolReturned { .. }
            | Event::HandedOff { .. }
            | Event::StepCompleted { .. }
            | Event::StepFailed { .. }
            | Event::Noted { .. }
            | Event::Reminded { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_)
            | Event::Failed(_)
            | Event::Cancelled { .. } => {}
        }
    }
}

/// Judged by the kind alone, so that the kernel's own notion is judged with it.
fn wants_a_yes(kind: Kind) -> bool {
    matches!(kind, Kind::Approval | Kind::PlanReview | Kind::ToolApproval)
}

/// The clock speaks at the deadline or later, never early.
fn on_time(question: &Question, by: &str, at: Millis) {
    let is_due = question.deadline.is_some_and(|deadline| deadline <= at);
    assert!(is_due || by != "timer", "the clock was early");
}

/// K5: the caller's first message and every public word, in order, and nobody else's tool traffic.
fn k5_the_whole_conversation(run: &Run, input: &AgentInput) {
    let first = input.messages.first().map(|message| message.text.clone());
    assert_eq!(first, Some(readable(&run.input)), "K5: the caller's first message comes first");
    let public = |audience: &Audience| match audience {
        Audience::All => true,
        Audience::Only(_) => false,
        Audience::Except(agent) => *agent != input.agent,
    };
    let spoken = run.conversation.iter().filter(|message| public(&message.audience));
    let spoken: Vec<_> =
        spoken.map(|message| &message.text).filter(|text| !text.is_empty()).collect();
    let told = input.messages.iter().filter(|message| !message.text.is_empty());
    let told = told.filter(|message| public(&message.audience));
    // What an agent is told for this step comes last and is nobody's utterance.
    let told = told.filter(|message| message.role != Speaker::System);
    assert_eq!(told.map(|message| &message.text).collect::<Vec<_>>(), spoken, "K5");
    for message in &input.messages {
        let own = message.author == input.agent || message.calls.is_empty();
        assert!(own, "K5: the calls of others are not shown");
        let for_us = message.audience == Audience::Only(input.agent.clone());
        assert!(message.role != Speaker::Tool || for_us, "K5: nor are their outcomes");
    }
}

fn k6_over_is_over(run: &Run) {
    assert!(plan(run).is_empty(), "K6: a finished run owes nothing");
    assert!(run.questions.is_empty() && run.turns.is_empty(), "K6: and waits for nothing");
    assert!(run.endings.iter().all(Option::is_some), "K6: every question has ended");
    assert_eq!(run.wake_at(), None, "K6: no clock runs for it");
}
