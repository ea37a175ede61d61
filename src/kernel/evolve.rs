//! Evolve: what a fact changes. Folding a journal through it gives the run back, live or years later.
//!
//! Live it cannot fail, because `decide` made the event; on replay a failure means that the stored
//! bytes are wrong, and the run stops for a person rather than guess.

use std::sync::Arc;

use serde_json::Value;

use crate::kernel::budget::{self, Extensions, Spent};
use crate::kernel::digest;
use crate::kernel::event::{Closing, Event, Purpose, Recorded, Started, Usage, Version};
use crate::kernel::gate::{self, Ruling};
use crate::kernel::id::RunId;
use crate::kernel::message::{Audience, Message, Speaker, ToolCall, readable};
use crate::kernel::question::{OnTimeout, Origin, Question, Verdict};
use crate::kernel::run::{CallWaits, Ending, Grant, Heard, Last, OpenCall, Run, Status, Turn};
use crate::kernel::time::Millis;
use crate::kernel::workflow::{Pattern, Workflow};

/// An event that cannot have happened: the stored bytes are wrong, or we are.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("run `{run}`: the event at version {version} cannot follow: {why}")]
pub struct Corruption {
    /// The run.
    pub run: RunId,
    /// The version of the event.
    pub version: Version,
    /// What does not fit.
    pub why: &'static str,
}

/// Folds a whole journal.
pub fn replay<'a>(
    id: &RunId,
    workflow: Arc<Workflow>,
    journal: impl IntoIterator<Item = &'a Recorded>,
) -> Result<Run, Corruption> {
    let mut journal = journal.into_iter();
    let corruption = |version, why| Corruption { run: id.clone(), version, why };
    let first = journal.next().ok_or_else(|| corruption(0, "the journal is empty"))?;
    let Event::Started(started) = &first.event else {
        return Err(corruption(first.version, "a journal begins with `started`"));
    };
    if first.version != 1 {
        return Err(corruption(first.version, "J5: a journal begins at version 1"));
    }
    let mut run = begin(id.clone(), workflow, started, first.at);
    for recorded in journal {
        if recorded.version != run.version + 1 {
            return Err(corruption(recorded.version, "J5: a gap in the versions"));
        }
        evolve(&mut run, &recorded.event, recorded.at)?;
    }
    Ok(run)
}

/// The run as its first event makes it.
pub fn begin(id: RunId, workflow: Arc<Workflow>, started: &Started, at: Millis) -> Run {
    let first = Message::said(started.owner.clone(), &started.input);
    Run {
        id,
        session: started.session.clone(),
        workflow,
        definition: started.definition.clone(),
        owner: started.owner.clone(),
        version: 1,
        started_at: at,
        updated_at: at,
        status: Status::Running,
        input: started.input.clone(),
        metadata: started.metadata.clone(),
        forked_from: started.forked_from.clone(),
        conversation_bytes: first.bytes(),
        conversation: vec![Arc::new(first)],
        turns: std::collections::BTreeMap::new(),
        turns_taken: 0,
        questions: std::collections::BTreeMap::new(),
        endings: Vec::new(),
        last: Last::Started,
        count: 0,
        output: None,
        checkpoints: Vec::new(),
        usage: Usage::default(),
        failed_calls: 0,
        grants: Vec::new(),
        spent: Spent::default(),
        spent_before: started.spent_before,
        extensions: Extensions::default(),
        abandoned: Vec::new(),
    }
}

/// Folds one event in.
pub fn evolve(run: &mut Run, event: &Event, at: Millis) -> Result<(), Corruption> {
    let version = run.version + 1;
    let moved_ms =
        if run.status == Status::Running { at.0.saturating_sub(run.updated_at.0) } else { 0 };
    run.updated_at = at;
    let outcome = if run.status.is_over() {
        Err("K6: the run is over")
    } else {
        fold(run, event, at, version)
    };
    outcome.map_err(|why| Corruption { run: run.id.clone(), version, why })?;
    run.spent.wall_ms = run.spent.wall_ms.saturating_add(moved_ms);
    run.spent.count(event);
    run.version = version;
    Ok(())
}

fn fold(run: &mut Run, event: &Event, at: Millis, version: Version) -> Result<(), &'static str> {
    match event {
        Event::Started(_) => return Err("a run starts once"),
        Event::StepStarted { turn, step, agent, attempt, purpose } => {
            step_started(run, *turn, (step, agent), *attempt, *purpose)?;
        }
        Event::Delta { turn, attempt, .. } => {
            if turn_of(run, *turn)?.attempt != *attempt {
                return Err("text of an attempt that is not under way");
            }
        }
        Event::Noted { turn, attempt, memo } => noted(run, (*turn, *attempt), memo)?,
        Event::MessageAdded { turn, message, usage } => message_added(run, *turn, message, *usage)?,
        Event::ToolCalled { turn, call, safety } => {
            let open = OpenCall { call: call.clone(), waits: CallWaits::Tool(*safety) };
            let turn = turn_of(run, *turn)?;
            turn.calls.retain(|known| known.call.id != call.id);
            turn.calls.push(open);
        }
        Event::ToolReturned { turn, call_id, value, failed } => {
            run.failed_calls += u32::from(*failed);
            tool_returned(run, *turn, call_id, value)?;
        }
        Event::HandedOff { turn, call_id, to, .. } => {
            let number = *turn;
            turn_of(run, number)?.handoff = Some(to.clone());
            tool_returned(run, number, call_id, &Value::String(format!("handed off to {to}")))?;
        }
        Event::StepCompleted { turn, output } => step_completed(run, *turn, output)?,
        Event::StepFailed { turn, attempt, retry_at, interrupted, .. } => {
            let turn = turn_of(run, *turn)?;
            if turn.attempt != *attempt {
                return Err("the failure of an attempt that is not under way");
            }
            turn.retry_at = *retry_at;
            turn.failures += u32::from(!interrupted);
        }
        Event::Asked(question) => asked(run, question, at)?,
        Event::Answered { ordinal, value, by, key, given, .. } => {
            let given = given.clone().unwrap_or_else(|| digest::of(value));
            let (by, key) = (by.clone(), key.clone());
            let ending = Ending::Answered { by: by.clone(), key, given, version };
            answered(run, *ordinal, value, by, ending)?;
        }
        Event::Closed { ordinal, closing, by } => closed(run, *ordinal, *closing, by)?,
        Event::Reminded { ordinal, next } => question_of(run, *ordinal)?.remind_at = *next,
        Event::Escalated { ordinal, to, deadline } => escalated(run, *ordinal, to, *deadline)?,
        Event::Revoked { tool, .. } => run.grants.retain(|grant| grant.tool != *tool),
        Event::CheckpointSaved => run.checkpoints.push((version, at)),
        Event::Parked => {
            if run.questions.is_empty() {
                return Err("a run is parked only on open questions");
            }
            run.status = Status::Waiting { since: at };
        }
        Event::Output { value } => run.output = Some(value.clone()),
        Event::Warned(_) => {}
        Event::Completed => finish(run, Status::Completed),
        Event::Failed(failure) => finish(run, Status::Failed(failure.clone())),
        Event::Cancelled { by, .. } => finish(run, Status::Cancelled { by: by.clone() }),
    }
    Ok(())
}

fn message_added(
    run: &mut Run,
    turn: Option<u32>,
    message: &Message,
    usage: Usage,
) -> Result<(), &'static str> {
    if let Some(number) = turn {
        let turn = turn_of(run, number)?;
        match message.role {
            Speaker::Assistant => turn.rounds += 1,
            Speaker::System | Speaker::User | Speaker::Tool => turn.corrections += 1,
        }
    }
    run.usage.input_tokens += usage.input_tokens;
    run.usage.output_tokens += usage.output_tokens;
    say(run, message.clone());
    Ok(())
}

fn answered(
    run: &mut Run,
    ordinal: u32,
    value: &Value,
    by: String,
    ending: Ending,
) -> Result<(), &'static str> {
    let question = close(run, ordinal, ending)?;
    let is_rejection = question.is_verdict() && Question::verdict(value) == Verdict::Rejected;
    heard(run, question, Heard::Answer { value: value.clone(), by, is_rejection })?;
    run.status = Status::Running;
    Ok(())
}

fn closed(run: &mut Run, ordinal: u32, closing: Closing, by: &str) -> Result<(), &'static str> {
    let (word, reply) = match closing {
        Closing::Rejected => ("its deadline has passed", Heard::Expired),
        Closing::Passed => ("its deadline has passed", Heard::Nothing),
        Closing::Withdrawn => ("it was withdrawn", Heard::Withdrawn(by.to_owned())),
    };
    let question = close(run, ordinal, Ending::Closed(word))?;
    heard(run, question, reply)?;
    run.status = Status::Running;
    Ok(())
}

fn turn_of(run: &mut Run, number: u32) -> Result<&mut Turn, &'static str> {
    run.turns.get_mut(&number).ok_or("no such turn is under way")
}

fn noted(run: &mut Run, (turn, attempt): (u32, u32), memo: &Value) -> Result<(), &'static str> {
    let turn = turn_of(run, turn)?;
    if turn.attempt != attempt {
        return Err("a note of an attempt that is not under way");
    }
    turn.memo = Some(memo.clone());
    Ok(())
}

fn escalated(
    run: &mut Run,
    ordinal: u32,
    to: &[String],
    deadline: Option<Millis>,
) -> Result<(), &'static str> {
    let question = question_of(run, ordinal)?;
    question.to = to.to_vec();
    question.deadline = deadline;
    question.on_timeout = OnTimeout::Reject;
    Ok(())
}

fn question_of(run: &mut Run, ordinal: u32) -> Result<&mut Question, &'static str> {
    run.questions.get_mut(&ordinal).ok_or("no such question is open")
}

fn say(run: &mut Run, message: Message) {
    run.conversation_bytes += message.bytes();
    run.conversation.push(Arc::new(message));
}

fn step_started(
    run: &mut Run,
    number: u32,
    (step, agent): (&str, &str),
    attempt: u32,
    purpose: Purpose,
) -> Result<(), &'static str> {
    if let Some(turn) = run.turns.get_mut(&number) {
        if attempt != turn.attempt + 1 {
            return Err("attempts are counted one by one");
        }
        turn.attempt = attempt;
        turn.retry_at = None;
        return Ok(());
    }
    if number != run.turns_taken + 1 || attempt != 1 {
        return Err("turns are counted one by one");
    }
    run.turns_taken = number;
    run.turns.insert(
        number,
        Turn {
            number,
            step: step.to_owned(),
            agent: agent.to_owned(),
            purpose,
            attempt,
            failures: 0,
            rounds: 0,
            corrections: 0,
            calls: Vec::new(),
            retry_at: None,
            handoff: None,
            memo: None,
        },
    );
    Ok(())
}

fn tool_returned(
    run: &mut Run,
    number: u32,
    call_id: &str,
    value: &Value,
) -> Result<(), &'static str> {
    let turn = turn_of(run, number)?;
    turn.calls.retain(|open| open.call.id != call_id);
    let agent = turn.agent.clone();
    say(run, tool_outcome(agent, call_id, value));
    Ok(())
}

fn tool_outcome(agent: String, call_id: &str, value: &Value) -> Message {
    Message {
        call_id: Some(call_id.to_owned()),
        ..Message::text(Speaker::Tool, "", readable(value)).to(Audience::Only(agent))
    }
}

fn step_completed(run: &mut Run, number: u32, output: &Value) -> Result<(), &'static str> {
    let turn = run.turns.remove(&number).ok_or("no such turn is under way")?;
    if !turn.calls.is_empty() {
        return Err("E3: a step is complete only when its calls are");
    }
    match run.workflow.pattern {
        Pattern::Sequential { .. } => run.count += 1,
        Pattern::Handoff(_) => run.count = if turn.handoff.is_some() { 0 } else { run.count + 1 },
        Pattern::Coordinator { .. } => {}
    }
    run.last = Last::Turned {
        step: turn.step,
        agent: turn.agent,
        purpose: turn.purpose,
        handoff: turn.handoff,
        output: output.clone(),
    };
    Ok(())
}

fn asked(run: &mut Run, question: &Question, at: Millis) -> Result<(), &'static str> {
    if usize::try_from(question.ordinal) != Ok(run.endings.len() + 1) {
        return Err("questions are counted one by one");
    }
    let mut question = question.clone();
    question.asked_at = at;
    question.remind_at = question.remind_ms.map(|ms| at.plus(ms));
    let agent = question.agent.clone().unwrap_or_default();
    let spoken = Message::text(Speaker::Assistant, agent.clone(), question.prompt.clone());
    match &question.origin {
        Origin::UserTurn | Origin::Budget(_) => {}
        Origin::Directive | Origin::HumanStep => say(run, spoken),
        Origin::ToolCall(call) => {
            let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
            let waits = CallWaits::Person(question.ordinal);
            let call = ToolCall {
                id: call.clone(),
                tool: super::plan::ASK_TOOL.into(),
                arguments: Value::Null,
            };
            turn_of(run, number)?.calls.push(OpenCall { call, waits });
            say(run, spoken.to(Audience::Except(agent)));
        }
        Origin::LostOutcome(call) => {
            let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
            let open = turn_of(run, number)?.calls.iter_mut().find(|open| open.call.id == *call);
            open.ok_or("no such call is open")?.waits = CallWaits::Person(question.ordinal);
        }
        Origin::Gate(call) => {
            let number = question.turn.ok_or("a tool call's question belongs to a turn")?;
            let waits = CallWaits::Person(question.ordinal);
            turn_of(run, number)?.calls.push(OpenCall { call: (**call).clone(), waits });
        }
    }
    question.messages = run.conversation.len();
    run.endings.push(None);
    run.questions.insert(question.ordinal, question);
    Ok(())
}

fn close(run: &mut Run, ordinal: u32, ending: Ending) -> Result<Question, &'static str> {
    let question = run.questions.remove(&ordinal).ok_or("K2: the question is not open")?;
    let index = usize::try_from(ordinal).map_err(|_| "no such question")? - 1;
    *run.endings.get_mut(index).ok_or("no such question")? = Some(ending);
    Ok(question)
}

/// What came of a question, told to whoever waits for it.
fn heard(run: &mut Run, question: Question, reply: Heard) -> Result<(), &'static str> {
    match (&question.origin, question.turn) {
        (Origin::ToolCall(call), Some(number)) => {
            let turn = turn_of(run, number)?;
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
        (Origin::Gate(call), Some(number)) => at_gate(run, number, call, &reply)?,
        (Origin::Budget(budget), _) => budget::heard(run, budget, &reply),
        (Origin::ToolCall(_) | Origin::LostOutcome(_) | Origin::Gate(_), None) => {
            return Err("a tool call's question belongs to a turn");
        }
        (Origin::UserTurn | Origin::Directive | Origin::HumanStep, _) => {
            if let Heard::Answer { value, by, .. } = &reply
                && !super::pattern::is_end(&question.origin, value)
            {
                say(run, Message::said(by.clone(), value));
            }
            match run.workflow.pattern {
                Pattern::Sequential { .. } => run.count += 1,
                Pattern::Handoff(_) => run.count = 0,
                Pattern::Coordinator { .. } => {}
            }
            run.last = Last::Asked {
                step: question.step,
                agent: question.agent,
                origin: question.origin,
                reply,
            };
        }
    }
    Ok(())
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
        Heard::Answer { value, .. } => value.get("verb").and_then(Value::as_str),
        Heard::Nothing | Heard::Expired | Heard::Withdrawn(_) => None,
    };
    match (verb, reply) {
        (Some("redo"), _) => {
            let open = turn_of(run, number)?.calls.iter_mut().find(|open| open.call.id == call);
            let open = open.ok_or("no such call is open")?;
            open.waits = CallWaits::Tool(crate::kernel::workflow::Safety::Unsafe);
            Ok(())
        }
        (Some("happened"), Heard::Answer { value, .. }) => {
            let result = value.get("result").cloned().unwrap_or_default();
            tool_returned(run, number, call, &result)
        }
        (Some(_) | None, _) => tool_returned(run, number, call, &told(reply)),
    }
}

/// A person's word about a call that waits at a gate. One that is allowed stays open, and the
/// intent to make it follows; any other is over, and the agent is told (K4).
fn at_gate(run: &mut Run, number: u32, call: &ToolCall, reply: &Heard) -> Result<(), &'static str> {
    let Heard::Answer { value, by, .. } = reply else {
        return tool_returned(run, number, &call.id, &told(reply));
    };
    match gate::ruling(value) {
        Ruling::Deny => tool_returned(run, number, &call.id, &gate::denial(value, by)),
        Ruling::AllowOnce | Ruling::Edit(_) => Ok(()),
        Ruling::AllowForRun => {
            let until = gate::allowed_until(run, &call.tool);
            let (tool, by, at) = (call.tool.clone(), by.clone(), run.updated_at);
            run.grants.push(Grant { tool, by, at, until });
            Ok(())
        }
    }
}

/// K6: a finished run owes nothing and waits for nothing.
fn finish(run: &mut Run, status: Status) {
    let left = std::mem::take(&mut run.turns).into_values();
    run.abandoned = left.filter_map(|turn| Some((turn.agent, turn.memo?))).collect();
    for question in std::mem::take(&mut run.questions).into_values() {
        let index = usize::try_from(question.ordinal).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(ending) = run.endings.get_mut(index) {
            *ending = Some(Ending::Closed("its run is over"));
        }
    }
    run.status = status;
}
