//! Fold question: what a question changes when it is asked, and what came of it when it ended; told to
//! whoever waits for it: an agent's call, a gate, a step, the workflow as a whole.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::kernel::act::{self, REPLY};
use crate::kernel::brought;
use crate::kernel::budget;
use crate::kernel::editing;
use crate::kernel::failure::NotDone;
use crate::kernel::gate::{self, Ruling};
use crate::kernel::graph;
use crate::kernel::lost;
use crate::kernel::message::{Audience, Message, Speaker, ToolCall, readable};
use crate::kernel::pattern;
use crate::kernel::principal::Assurance;
use crate::kernel::question::{Ending, Origin, Question};
use crate::kernel::reading::Verdict;
use crate::kernel::renewal;
use crate::kernel::run::{Heard, Last, Progress, Run, Status};
use crate::kernel::said::{Said, Vote};
use crate::kernel::spoken::{say, tool_outcome, tool_returned};
use crate::kernel::terms::{Excluded, OnTimeout};
use crate::kernel::time::Millis;
use crate::kernel::turn::{CallWaits, Looked, OpenCall};
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Pattern;

pub(super) fn asked(run: &mut Run, question: &Question, at: Millis) -> Result<(), &'static str> {
    if renewal::is_due(run, question.ordinal) {
        return renewal::reasked(run, question, at);
    }
    if usize::try_from(question.ordinal) != Ok(run.endings.len() + 1) {
        return Err("questions are counted one by one");
    }
    let mut question = question.clone();
    question.asked_at = at;
    question.remind_at = question.remind_ms.map(|ms| at.plus(ms));
    question.leg = Some(run.leg.clone());
    question.participants = if bars_participants(&question) {
        run.participants.iter().cloned().collect()
    } else {
        Vec::new()
    };
    name_service(run, &mut question);
    stand_for_passed(&mut question);
    let agent = question.agent.clone().unwrap_or_default();
    let spoken = Message::text(Speaker::Assistant, agent.clone(), question.prompt.clone());
    let is_graph = matches!(run.workflow.pattern, Pattern::Graph(_));
    match &question.origin {
        Origin::UserTurn => {}
        Origin::Budget(_) => budget::asked(run, &question),
        Origin::Phase(point) => {
            graph::asked(run, &question.step, question.ordinal, Some(*point), at)?;
        }
        Origin::HumanStep if is_graph => {
            graph::asked(run, &question.step, question.ordinal, None, at)?;
            say(run, spoken);
        }
        Origin::Directive | Origin::HumanStep => say(run, spoken),
        Origin::ToolCall(call) => {
            let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
            let waits = CallWaits::Person(question.ordinal);
            let call = ToolCall::new(call.clone(), crate::kernel::offer::ASK_TOOL, Value::Null);
            let (judged, released, looked) = (Vec::new(), Vec::new(), Looked::default());
            run.turn_mut(number)?.calls.push(OpenCall { call, waits, judged, released, looked });
            say(run, spoken.to(Audience::Except(agent)));
        }
        Origin::LostOutcome(call) => {
            let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
            let open = run.turn_mut(number)?.calls.iter_mut().find(|open| open.call.id == *call);
            open.ok_or("no such call is open")?.waits = CallWaits::Person(question.ordinal);
        }
        Origin::Gate(call) => asked_at_gate(run, &question, call)?,
    }
    brought::asked(run, &question);
    question.messages = run.conversation.len();
    question.seal(run.belongs());
    run.endings.push(None);
    run.tails.push(question.tail());
    let stages = question.stages.iter().flat_map(|stage| &stage.to);
    let asked: BTreeSet<&String> = stages.chain(&question.to).collect();
    run.asked_of.push(asked.into_iter().cloned().collect());
    run.questions.insert(question.ordinal, Arc::new(question));
    Ok(())
}

/// A call waits at a gate from here on.
fn asked_at_gate(run: &mut Run, question: &Question, call: &ToolCall) -> Result<(), &'static str> {
    let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
    let waits = CallWaits::Person(question.ordinal);
    let turn = run.turn_mut(number)?;
    let known = turn.calls.iter().position(|known| known.call.id == call.id);
    let known = known.map(|place| turn.calls.remove(place));
    let (before, looked) = known.map(|known| (known.released, known.looked)).unwrap_or_default();
    // Whoever looks because the start asked for it releases nothing (K12).
    let is_brought = brought::is_brought(question);
    let released = if is_brought { before } else { question.stages.clone() };
    let judged = Vec::new();
    turn.calls.push(OpenCall { call: call.clone(), waits, judged, released, looked });
    turn.makes(call);
    Ok(())
}

/// Whether any of its stages excludes whoever took part in the run.
fn bars_participants(question: &Question) -> bool {
    question.stages.iter().any(|stage| stage.not.contains(&Excluded::Participant))
}

/// An earlier build did not write down which service an editor's word came through: the answer that it was says so.
fn name_service(run: &Run, question: &mut Question) {
    if question.editor_assurance != Assurance::Vouched || question.editor_service.is_some() {
        return;
    }
    let said = run.endings.iter().rev().flatten().find_map(|ending| match ending {
        Ending::Answered(said) if said.by == question.editor => Some(said),
        Ending::Answered(_) | Ending::Closed(_) => None,
    });
    question.editor_service = said.and_then(|said| said.service.clone());
    for vote in question.votes.iter_mut().filter(|vote| vote.service.is_none()) {
        vote.service.clone_from(&question.editor_service);
    }
}

/// An edited action may be asked about beyond the stages in which the editor's own yes stands: it is
/// their word there, and is judged again like any other.
fn stand_for_passed(question: &mut Question) {
    for stage in 0..question.stage {
        if !question.votes.iter().any(|vote| vote.stage == stage) {
            let verb = editing::standing_word(question).word().to_owned();
            let by = question.editor.clone();
            let (assurance, service) = (question.editor_assurance, question.editor_service.clone());
            let vote = Vote { by, verb, stage, assurance, service, instead_of: None, at: None };
            question.votes.push(vote);
        }
    }
    // What an editor's word stands for was said when the question was asked, and is as old.
    let asked_at = question.asked_at;
    question.votes.iter_mut().for_each(|vote| vote.at = vote.at.or(Some(asked_at)));
}

/// Somebody has answered something in the run: where that bars them from what is open, it does so
/// from here on.
pub(super) fn took_part<'a>(run: &mut Run, people: impl IntoIterator<Item = &'a String>) {
    for who in people {
        if !run.participants.insert(who.clone()) {
            continue;
        }
        for question in run.questions.values_mut().filter(|question| bars_participants(question)) {
            Arc::make_mut(question).participants.push(who.clone());
        }
    }
}

/// These words no longer count.
pub(super) fn voided(
    run: &mut Run,
    ordinal: u32,
    void: &[(u32, String)],
) -> Result<(), &'static str> {
    let is_void =
        |vote: &Vote| void.iter().any(|(stage, by)| *stage == vote.stage && *by == vote.by);
    run.question_mut(ordinal)?.votes.retain(|vote| !is_void(vote));
    Ok(())
}

/// Somebody's standing word: it takes the place of their own before it.
pub(super) fn voted(
    run: &mut Run,
    (ordinal, stage): (u32, u32),
    value: &Value,
    said: Said,
    at: Millis,
) -> Result<(), &'static str> {
    let verb = Verb::of(value).ok_or("a vote says a verb")?;
    let question = run.question_mut(ordinal)?;
    let here = question.stage;
    question.votes.retain(|vote| vote.by != said.by || vote.stage != here);
    // Where it went on by more than one stage, they were admitted to those as well, and not asked
    // again: their word stands there too, unless it has somebody's.
    let is_free = |one: &u32| {
        let needs_one = question.stage_at(*one).is_some_and(|stage| stage.need <= 1);
        needs_one && !question.votes.iter().any(|vote| vote.stage == *one)
    };
    let stages: Vec<u32> = [here].into_iter().chain((here + 1..stage).filter(is_free)).collect();
    let word = verb.word();
    question.votes.extend(stages.into_iter().map(|stage| said.vote((word.to_owned(), stage), at)));
    // Whoever has spoken is no longer looking.
    question.claim = question.claim.take().filter(|claim| claim.by != said.by);
    if stage != here {
        question.enter(stage, at);
    }
    run.voted.push((ordinal, said));
    // Nothing is let pass yet: the run pauses again, and whoever voted is told so.
    run.status = Status::Running;
    Ok(())
}

impl Run {
    /// What was answered to a question, if it was.
    fn answer_to(&self, ordinal: u32) -> Option<&Said> {
        let index = usize::try_from(ordinal).ok()?.checked_sub(1)?;
        match self.endings.get(index)?.as_ref()? {
            Ending::Answered(said) => Some(said),
            Ending::Closed(_) => None,
        }
    }

    /// Notes who was asked a question at some time: they may learn how it ended.
    pub(super) fn also_asked(&mut self, ordinal: u32, who: &[String]) {
        let index = usize::try_from(ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
        let Some(known) = index.and_then(|index| self.asked_of.get_mut(index)) else { return };
        let more: Vec<_> = who.iter().filter(|name| !known.contains(name)).cloned().collect();
        known.extend(more);
    }
}

/// Others are asked as well from now on.
pub(super) fn escalated(
    run: &mut Run,
    ordinal: u32,
    to: &[String],
    deadline: Option<Millis>,
) -> Result<(), &'static str> {
    run.also_asked(ordinal, to);
    let owner = run.owner.clone();
    let question = run.question_mut(ordinal)?;
    let before = std::mem::replace(&mut question.to, to.to_vec());
    question.asked_before = if before.is_empty() { vec![owner] } else { before };
    question.deadline = deadline;
    if matches!(question.on_timeout, OnTimeout::EscalateTo { .. }) {
        question.on_timeout = OnTimeout::Reject;
    } else {
        question.level += 1;
    }
    Ok(())
}

pub(super) fn close(
    run: &mut Run,
    ordinal: u32,
    ending: Ending,
) -> Result<Arc<Question>, &'static str> {
    let question = run.questions.remove(&ordinal).ok_or("K2: the question is not open")?;
    let index = usize::try_from(ordinal).map_err(|_| "no such question")? - 1;
    *run.endings.get_mut(index).ok_or("no such question")? = Some(ending);
    Ok(question)
}

/// Somebody has answered: that is the end of the question. What they changed and others must agree to is
/// asked next, and nothing goes on until that is answered (K10).
pub(super) fn answered(
    run: &mut Run,
    (ordinal, asks_anew): (u32, bool),
    (value, by, instead_of): (&Value, String, Option<&String>),
    (ending, at): (Ending, Millis),
) -> Result<(), &'static str> {
    let question = close(run, ordinal, ending)?;
    // K12: whoever was asked because the start said so has by that no part in what the file asks, and lets nothing on.
    let is_brought = brought::is_brought(&question);
    if !is_brought {
        let votes = question.votes.iter().flat_map(|vote| vote.instead_of.iter().chain([&vote.by]));
        took_part(run, votes.chain(instead_of).chain([&by]));
    }
    run.status = Status::Running;
    if asks_anew {
        say(run, spoken_by(&by, &question, value));
        return Ok(());
    }
    let lets_on = question.decides() && !Verb::of(value).is_some_and(Verb::is_no);
    if lets_on && !is_brought && !question.stages.is_empty() {
        run.let_on_by.clone_from(&question.stages);
        run.let_on_call = lost::seen_at(&question);
    }
    let is_rejection = question.is_verdict() && Question::verdict(value) == Verdict::Rejected;
    heard(run, &question, Heard::Answer { value: value.clone(), by, is_rejection }, at)?;
    if lets_on && !is_rejection && question.origin == Origin::HumanStep {
        run.goes_on_with(&question, value);
    }
    Ok(())
}

/// What came of a question, told to whoever waits for it.
pub(super) fn heard(
    run: &mut Run,
    question: &Question,
    reply: Heard,
    at: Millis,
) -> Result<(), &'static str> {
    note_return(run, question, &reply);
    let is_graph = matches!(run.workflow.pattern, Pattern::Graph(_));
    match (&question.origin, question.turn) {
        (Origin::ToolCall(call), Some(number)) => {
            let turn = run.turn_mut(number)?;
            turn.calls.retain(|open| open.call.id != *call);
            let agent = turn.agent.clone();
            if let Heard::Answer { value, by, .. } = &reply {
                say(run, Message::said(by.clone(), value).to(Audience::Except(agent.clone())));
            }
            // What was answered is kept as it was given: a remote agent is answered with it.
            let data = match &reply {
                Heard::Answer { value, .. } => Some(value.clone()),
                Heard::Nothing | Heard::Expired | Heard::Withdrawn(_) => None,
            };
            say(run, Message { data, ..tool_outcome(agent, call, &told(&reply)) });
        }
        (Origin::LostOutcome(call), Some(number)) => lost_outcome(run, number, call, &reply)?,
        (Origin::Gate(call), Some(number)) => at_gate(run, (question, number), call, &reply)?,
        (Origin::Budget(budget), _) => budget::heard(run, budget, &reply),
        (Origin::Phase(_), _) => graph::heard(run, question, &reply, at)?,
        (Origin::HumanStep, _) if is_graph => {
            if let Heard::Answer { value, by, .. } = &reply {
                say(run, spoken_by(by, question, value));
            }
            graph::heard(run, question, &reply, at)?;
        }
        (Origin::ToolCall(_) | Origin::LostOutcome(_) | Origin::Gate(_), None) => {
            return Err("a tool call's question belongs to a turn");
        }
        (Origin::UserTurn | Origin::Directive | Origin::HumanStep, _) => {
            if let Heard::Answer { value, by, .. } = &reply
                && !pattern::is_end(&question.origin, value)
            {
                say(run, spoken_by(by, question, value));
            }
            run.progress = gone_on(run, &reply);
            run.last = Last::Asked {
                step: question.step.clone(),
                agent: question.agent.clone(),
                origin: question.origin.clone(),
                reply,
            };
        }
    }
    Ok(())
}

/// Notes with which words work was given back: whoever is asked about it next is told.
fn note_return(run: &mut Run, question: &Question, reply: &Heard) {
    if !matches!(question.origin, Origin::HumanStep | Origin::Phase(_)) {
        return;
    }
    run.returned.remove(&question.step);
    let Heard::Answer { value, by, .. } = reply else { return };
    let again = [Verb::Return, Verb::Redo, Verb::Revise, Verb::Retry];
    let is_again = Verb::of(value).is_some_and(|verb| again.contains(&verb));
    let note = value.get("note").map(readable).filter(|note| is_again && !note.is_empty());
    if let Some(note) = note {
        run.returned.insert(question.step.clone(), json!({"by": by, "note": note}));
    }
}

/// How far the pattern has come after such a question: on by a step, or back to the agent whose work was given
/// back; and once the user has spoken, nobody's turns are counted from before.
fn gone_on(run: &Run, reply: &Heard) -> Progress {
    match (run.progress, &run.workflow.pattern) {
        (Progress::Step(next), Pattern::Sequential { steps }) => {
            let author = pattern::author(steps, run.progress.step());
            let author = author.filter(|_| is_returned(reply));
            let author = author.and_then(|author| u32::try_from(author).ok());
            Progress::Step(author.unwrap_or(next + 1))
        }
        (Progress::Turns(_), _) => Progress::Turns(0),
        (progress @ (Progress::Step(_) | Progress::Uncounted), _) => progress,
    }
}

/// Whether an agent's work was given back to it.
fn is_returned(reply: &Heard) -> bool {
    match reply {
        Heard::Answer { value, .. } => Verb::of(value) == Some(Verb::Return),
        Heard::Nothing | Heard::Expired | Heard::Withdrawn(_) => false,
    }
}

/// What a person said, as the conversation has it. What was given back, or changed, is said in words: an
/// agent goes on from them.
fn spoken_by(by: &str, question: &Question, value: &Value) -> Message {
    if let Some(version) = editing::version(question, value) {
        return editing::spoken(by, version, value.get("note"));
    }
    if Verb::of(value) != Some(Verb::Return) {
        return Message::said(by.to_owned(), value);
    }
    let note = value.get("note").map(readable).unwrap_or_default();
    Message::text(Speaker::User, by.to_owned(), format!("Returned: {note}"))
}

/// What an agent is told where silence lets it go on.
pub const UNANSWERED: &str = "Nobody answered in time. Go on without an answer.";

/// What an agent is told came of the question that it asked by tool call.
fn told(reply: &Heard) -> Value {
    match reply {
        Heard::Answer { value, .. } => value.clone(),
        Heard::Nothing => UNANSWERED.into(),
        Heard::Expired => "Rejected: nobody answered before the deadline. Do not go ahead.".into(),
        Heard::Withdrawn(_) => "The question was withdrawn. Do not go ahead.".into(),
    }
}

/// A person's word about a call whose outcome was lost: it happened, do it now, or (by ending the
/// run, elsewhere) abort. Silence and withdrawal leave it undone, and the agent is told.
fn lost_outcome(run: &mut Run, number: u32, call: &str, reply: &Heard) -> Result<(), &'static str> {
    let verb = match reply {
        Heard::Answer { value, .. } => Verb::of(value),
        Heard::Nothing | Heard::Expired | Heard::Withdrawn(_) => None,
    };
    match (verb, reply) {
        (Some(Verb::Redo), _) => {
            let open = run.turn_mut(number)?.calls.iter_mut().find(|open| open.call.id == call);
            let open = open.ok_or("no such call is open")?;
            open.waits = CallWaits::Tool(crate::kernel::tool::Safety::Unsafe);
            Ok(())
        }
        (Some(Verb::Happened), Heard::Answer { value, .. }) => {
            let result = value.get("result").cloned().unwrap_or_default();
            tool_returned(run, number, call, &result, None)
        }
        (Some(_) | None, _) => {
            tool_returned(run, number, call, &told(reply), Some(NotDone::Unknown))
        }
    }
}

/// A person's word about a call that waits at a gate. One that is allowed stays open, and the
/// intent to make it follows; any other is over, and the agent is told (K4).
fn at_gate(
    run: &mut Run,
    (question, number): (&Question, u32),
    call: &ToolCall,
    reply: &Heard,
) -> Result<(), &'static str> {
    let Heard::Answer { value, by, .. } = reply else {
        return denied(run, number, call, &told(reply));
    };
    let ruling = gate::ruling(value);
    if ruling != Ruling::Deny {
        let owed = run.owed.remove(&question.ordinal).unwrap_or_default();
        let open = run.turn_mut(number)?.calls.iter_mut().find(|open| open.call.id == call.id);
        let open = open.ok_or("no such call is open")?;
        open.looked.pass(question, owed);
        // It is looked at again, as if the start had brought nothing.
        if brought::is_brought(question) {
            open.waits = CallWaits::Nobody;
            return Ok(());
        }
    }
    match ruling {
        Ruling::Deny => denied(run, number, call, &gate::denial(value, by)),
        Ruling::AllowOnce | Ruling::Edit(_) => Ok(()),
        Ruling::AllowForRun => {
            // K8: what one list grants does not open another's gate. All of them must have said so.
            let lasting = Verb::AllowForRun.word();
            if question.votes.iter().all(|vote| vote.verb == lasting) {
                let said = run.answer_to(question.ordinal).ok_or("a grant is an answer")?;
                let granted = gate::grants(run, question, call, said);
                run.grants.extend(granted);
            }
            Ok(())
        }
    }
}

/// An act that is not done: its agent is told, of a reply in words, for it made no call.
fn denied(run: &mut Run, number: u32, call: &ToolCall, told: &Value) -> Result<(), &'static str> {
    if call.tool != REPLY {
        return tool_returned(run, number, &call.id, told, Some(NotDone::Denied));
    }
    let turn = run.turn_mut(number)?;
    turn.calls.retain(|open| open.call.id != call.id);
    let agent = turn.agent.clone();
    say(run, act::unsaid(&agent, told));
    Ok(())
}
