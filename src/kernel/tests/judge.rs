//! Judge: the laws that hold in every run at every moment, checked after each act of each play.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::stage::Stage;
use crate::kernel::graph::{Opening, Outcome, Point};
use crate::kernel::workflow::Pattern;
use crate::kernel::{
    AgentInput, Audience, Closing, Corruption, Effect, Event, Kind, Millis, Origin, Question,
    Recorded, Run, Speaker, Status, Verb, Verdict, plan, readable, replay, saved,
};

/// Panics, naming the law, where one does not hold.
pub(super) fn judge(stage: &Stage) {
    let run = &stage.run;
    journal_is_the_truth(stage);
    match run.workflow.pattern {
        Pattern::Graph(_) => k4_a_no_is_the_end_of_its_branch(&stage.journal),
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            k4_a_no_is_the_end(&stage.journal);
        }
    }
    k4_a_denied_call_is_never_made(&stage.journal);
    k7_a_judged_call_is_made_only_on_a_clear_word(&stage.journal);
    for effect in plan(run) {
        if let Effect::Reply { turn, input, .. } = effect {
            k5_the_whole_conversation(run, turn, &input);
        }
    }
    match run.status {
        Status::Running => {
            let moves = !plan(run).is_empty() || run.wake_at().is_some();
            assert!(moves, "a run that moves owes something, or looks at the clock some day");
        }
        Status::Waiting { .. } => {
            assert!(plan(run).is_empty(), "E4: a parked run owes nothing");
            assert!(!run.questions.is_empty() || run.graph.waits(), "a run waits for something");
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
    saved_is_the_same(&stage.run, again.as_ref());
    let again = again
        .map(|again| again.remembering(stage.run.earlier.clone()))
        // What the operator says is handed in, and in no journal.
        .map(|again| Run { operator: Arc::clone(&stage.run.operator), ..again });
    assert!(again.as_ref() == Ok(&stage.run), "replay gives the run back: {again:?}");
}

/// What is saved of a run comes back as its journal folds to, whatever it came to.
fn saved_is_the_same(run: &Run, folded: Result<&Run, &Corruption>) {
    let text = saved::save(run).expect("a run can be saved");
    let saved = saved::read(&text, &run.workflow).expect("what was saved can be read");
    assert!(folded == Ok(&saved), "what is saved is what the journal folds to: {saved:?}");
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
                // What was given back is done again, and asked about again.
                let says_no = Question::verdict(value) == Verdict::Rejected && !returns(value);
                stopped |= is_human(ordinal) && wants_a_yes(asked[ordinal].kind) && says_no;
            }
            Event::Closed { ordinal, closing, by, .. } => {
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
            | Event::Voted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_)
            | Event::Failed(_)
            | Event::Cancelled { .. } => {}
        }
    }
}

/// K4 in a graph, told by the journal alone. A step that was not let begin is not begun; after a no
/// at a human step nothing follows in its sequence. What is over can be begun anew, in a loop.
fn k4_a_no_is_the_end_of_its_branch(journal: &[Recorded]) {
    let mut asked: BTreeMap<u32, &Question> = BTreeMap::new();
    let mut shut: Vec<String> = Vec::new();
    let mut ended: Vec<String> = Vec::new();
    for Recorded { event, at, .. } in journal {
        if let Event::Asked(question) = event {
            assert!(!is_shut(&shut, &question.step), "K4: asked on after a no");
            asked.insert(question.ordinal, question);
        } else if let Event::Answered { ordinal, value, by, .. } = event {
            let question = asked[ordinal];
            on_time(question, by, *at);
            assert!(by != "timer" || !wants_a_yes(question.kind), "K7: silence is no yes");
            let says_no = Question::verdict(value) == Verdict::Rejected;
            if question.origin == Origin::Phase(Point::Before) && says_no {
                shut.push(question.step.clone());
            }
            let of_person = question.origin == Origin::HumanStep && wants_a_yes(question.kind);
            if of_person && says_no && !returns(value) {
                ended.push(sequence_of(&question.step));
            }
        } else if let Event::Closed { ordinal, closing: Closing::Rejected, by, .. } = event {
            let question = asked[ordinal];
            on_time(question, by, *at);
            if matches!(question.origin, Origin::Phase(_)) {
                shut.push(question.step.clone());
            } else if question.origin == Origin::HumanStep {
                ended.push(sequence_of(&question.step));
            }
        } else if let Event::StepOpened { path, opening } = event {
            assert!(!is_shut(&shut, path), "K4: `{path}` was begun after a no");
            let follows = *opening == Opening::Step && ended.contains(&sequence_of(path));
            assert!(!follows, "K4: `{path}` follows a no");
        } else if let Event::StepStarted { step, .. } = event {
            assert!(!is_shut(&shut, step), "K4: `{step}` was done after a no");
        } else if let Event::StepClosed { path, outcome } | Event::StepOutcome { path, outcome } =
            event
        {
            shut.retain(|known| !is_within(known, path));
            // A step whose failure is tolerated ends its own no, where it is the human step itself.
            let tolerated = matches!(outcome, Outcome::Tolerated(_));
            let own = sequence_of(path);
            ended.retain(|known| !(is_within(known, path) || tolerated && *known == own));
        } else if *event == Event::Completed {
            assert!(ended.is_empty(), "K4: completed after a no");
        }
    }
}

fn returns(value: &serde_json::Value) -> bool {
    Verb::of(value) == Some(Verb::Return)
}

fn is_within(path: &str, whole: &str) -> bool {
    let rest = path.strip_prefix(whole);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '[']))
}

fn is_shut(shut: &[String], path: &str) -> bool {
    shut.iter().any(|known| is_within(path, known))
}

/// The sequence that a step is in: `notify[3]` for `notify[3]/send`.
fn sequence_of(step: &str) -> String {
    step.rsplit_once('/').map_or(String::new(), |(above, _)| above.to_owned())
}

/// K4: a call that was denied, or that nobody allowed in time, is never made.
fn k4_a_denied_call_is_never_made(journal: &[Recorded]) {
    let mut at_gate: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    let mut denied: Vec<(u32, String)> = Vec::new();
    for Recorded { event, .. } in journal {
        if let Event::Asked(question) = event {
            if let (Origin::Gate(call), Some(turn)) = (&question.origin, question.turn) {
                at_gate.insert(question.ordinal, (turn, call.id.clone()));
            }
        } else if let Event::Answered { ordinal, value, .. } = event {
            let no = Question::verdict(value) == Verdict::Rejected;
            denied.extend(at_gate.get(ordinal).filter(|_| no).cloned());
        } else if let Event::Closed { ordinal, .. } = event {
            denied.extend(at_gate.get(ordinal).cloned());
        } else if let Event::ToolCalled { turn, call, .. } = event {
            let made = (*turn, call.id.clone());
            assert!(!denied.contains(&made), "K4: a denied call was made: {made:?}");
        }
    }
}

/// K7: a call that a judge looks at is made only when every judge has said that nobody need look,
/// or when a person has said yes.
fn k7_a_judged_call_is_made_only_on_a_clear_word(journal: &[Recorded]) {
    let mut judges: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    let mut stopped: Vec<(u32, String)> = Vec::new();
    let mut asked: BTreeMap<u32, (u32, String)> = BTreeMap::new();
    for Recorded { event, .. } in journal {
        if let Event::StepStarted { turn, judges: Some(judging), .. } = event {
            let call = (judging.turn, judging.call.id.clone());
            stopped.push(call.clone());
            judges.insert(*turn, call);
        } else if let Event::StepCompleted { turn, output } = event {
            let passes = output.get("ask") == Some(&false.into());
            if let Some(call) = judges.get(turn).filter(|_| passes) {
                stopped.retain(|known| known != call);
            }
        } else if let Event::Asked(question) = event {
            if let (Origin::Gate(call), Some(turn)) = (&question.origin, question.turn) {
                asked.insert(question.ordinal, (turn, call.id.clone()));
            }
        } else if let Event::Answered { ordinal, value, .. } = event {
            let yes = Question::verdict(value) == Verdict::Approved;
            if let Some(call) = asked.get(ordinal).filter(|_| yes) {
                stopped.retain(|known| known != call);
            }
        } else if let Event::ToolCalled { turn, call, .. } = event {
            let made = (*turn, call.id.clone());
            assert!(!stopped.contains(&made), "K7: made without a clear word: {made:?}");
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
fn k5_the_whole_conversation(run: &Run, turn: u32, input: &AgentInput) {
    if input.summarises.is_some() {
        return;
    }
    let first = input.messages.get(input.begins).map(|message| message.text.clone());
    assert_eq!(
        first,
        Some(readable(&run.input)),
        "K5: the caller's first message comes first, after what was said before the run"
    );
    if input.messages.iter().any(|message| message.replaces.is_some()) {
        return;
    }
    let public = |audience: &Audience| match audience {
        Audience::All => true,
        Audience::Only(_) => false,
        Audience::Except(agent) => *agent != input.agent,
    };
    // K3: what was said between a question and the yes that began the turn was not seen by whoever said it.
    let unseen = &run.turns[&turn].unseen;
    let is_seen = |place: usize| !unseen.iter().any(|(from, to)| (*from..*to).contains(&place));
    let here = run.conversation.iter().enumerate().filter(|(place, _)| is_seen(*place));
    let spoken = run
        .earlier
        .messages()
        .iter()
        .chain(here.map(|(_, message)| message))
        .filter(|message| public(&message.audience));
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
