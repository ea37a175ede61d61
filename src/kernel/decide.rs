//! Decide: what a command means for a run, right now.
//!
//! Pure: reads no clock and touches no store, so a test needs neither. The engine appends what
//! comes back; nothing here knows that there is an engine.
//!
//! - **K1** A refused command leaves no trace.

use std::slice;

use serde_json::Value;

use crate::kernel::act;
use crate::kernel::answer;
use crate::kernel::attempt;
use crate::kernel::command::{Command, Decision, ToolFault};
use crate::kernel::context_window;
use crate::kernel::event::{Closing, Event};
use crate::kernel::failure::Failure;
use crate::kernel::family;
use crate::kernel::graph;
use crate::kernel::halt;
use crate::kernel::judging;
use crate::kernel::lost;
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::permission;
use crate::kernel::places;
use crate::kernel::plan::may_repeat;
use crate::kernel::principal::Principal;
use crate::kernel::question::Question;
use crate::kernel::refusal::Refusal;
use crate::kernel::renewal;
use crate::kernel::repeat;
use crate::kernel::reply::{self, REPLY_BYTES_MAX};
use crate::kernel::run::{Run, Status};
use crate::kernel::schema;
use crate::kernel::terms::OnTimeout;
use crate::kernel::time::Millis;
use crate::kernel::tool::Safety;
use crate::kernel::turn::{CallWaits, Turn};
use crate::kernel::workflow::Pattern;

/// What `command` means for `run` at `now`.
pub fn decide(run: &Run, command: &Command, now: Millis) -> Result<Decision, Refusal> {
    if let Some(after) = repeat::before(run, command, now)? {
        return Ok(Decision::Repeat { after });
    }
    permission::refuse(run, command)?;
    halt::refuse(run, command)?;
    match command {
        Command::Answer { answers, key, principal, seed } => {
            answer::decide(run, answers, (key, seed), principal, now)
        }
        Command::Withdraw { request, principal, key } => {
            answer::withdraw(run, request, (principal, key))
        }
        Command::Claim { request, span, principal, key } => {
            places::claim(run, request, *span, (principal, key), now)
        }
        Command::Delegate { request, to, principal, key } => {
            places::delegate(run, request, to.as_ref(), (principal, key), now)
        }
        Command::Revoke { tool, principal, key } => {
            refuse_if_over(run)?;
            if !run.grants.iter().any(|grant| grant.tool == *tool && grant.stands(now)) {
                let (run, tool) = (run.id.to_string(), tool.clone());
                return Err(Refusal::NotGranted { run, tool });
            }
            let ((by, door, known), key) = (principal.recorded(), key.clone());
            let tool = tool.clone();
            Ok(Decision::Events(vec![Event::Revoked { tool, by, door, known, key }]))
        }
        Command::Cancel { reason, principal, key } => {
            refuse_if_over(run)?;
            Ok(Decision::Events(vec![cancelled(reason, principal, key)]))
        }
        Command::Signal { name, value, principal, key } => {
            refuse_if_over(run)?;
            signal(run, name, value, (principal, key)).map(Decision::Events)
        }
        Command::Delta { turn, attempt, text } => {
            delta(run, (*turn, *attempt), text).map(Decision::Events)
        }
        Command::Noted { turn, attempt, memo } => {
            current_attempt(run, *turn, *attempt)?;
            let event = Event::Noted { turn: *turn, attempt: *attempt, memo: memo.clone() };
            Ok(Decision::Events(vec![event]))
        }
        Command::Replied { turn, attempt, reply, summarises } => {
            let turn = current_attempt(run, *turn, *attempt)?;
            Ok(Decision::Events(match summarises {
                None => reply::events(run, turn, reply, now),
                Some(place) => context_window::summarised(run, turn, *place, reply)
                    .unwrap_or_else(|fault| attempt::failed(run, turn, &fault, now)),
            }))
        }
        Command::AttemptFailed { turn, attempt, fault } => {
            let turn = current_attempt(run, *turn, *attempt)?;
            Ok(Decision::Events(attempt::failed(run, turn, fault, now)))
        }
        Command::ToolReturned { turn, call_id, outcome } => {
            tool_returned(run, *turn, call_id, outcome).map(Decision::Events)
        }
        // What the operator says is in force before anything goes on.
        Command::Recover => {
            Ok(Decision::Events(ruled(run).chain(recover(run, &RESTARTED, now)).collect()))
        }
        Command::Retry => Ok(Decision::Events(recover(run, &FORKED, now))),
        Command::Renew { epoch, seed } => renew(run, epoch, seed, now),
        Command::Recall { noes, seed } => Ok(family::recall(run, noes, seed, now)),
        Command::Rule => Ok(Decision::Events(ruled(run).collect())),
        Command::Hold { turn, call_id, is_over } => Ok(halt::hold(*turn, call_id, *is_over)),
        Command::Stand { halt } => Ok(halt::decide(run, halt, now)),
        Command::Tick => halt::unless_stopped(run, due(run, now), now),
    }
}

/// A piece of text; nobody hears a word of what may not be let through.
fn delta(run: &Run, (turn, attempt): (u32, u32), text: &str) -> Result<Vec<Event>, Refusal> {
    let held = current_attempt(run, turn, attempt)?;
    if act::holds_replies(run, held) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::Delta { turn, attempt, text: text.to_owned() }])
}

/// That something else is in force of the operator's policy, where it is.
fn ruled(run: &Run) -> impl Iterator<Item = Event> + use<> {
    run.ruled_otherwise().map(|force| Event::Ruled(Box::new(force))).into_iter()
}

/// The store has another epoch; a run is told once.
fn renew(run: &Run, epoch: &str, seed: &str, now: Millis) -> Result<Decision, Refusal> {
    if run.epoch == epoch {
        return Ok(Decision::Repeat { after: run.version });
    }
    refuse_if_over(run)?;
    let (epoch, seed, only) = (epoch.to_owned(), seed.to_owned(), Vec::new());
    let mut events: Vec<Event> = ruled(run).collect();
    events.push(Event::Renewed { epoch, seed, only });
    events.extend(renewal::asked_anew(run, now));
    events.extend(recover(run, &RENEWED, now));
    Ok(Decision::Events(events))
}

fn refuse_if_over(run: &Run) -> Result<(), Refusal> {
    let status = match &run.status {
        Status::Running | Status::Waiting { .. } => return Ok(()),
        Status::Completed => "completed",
        Status::Failed(_) => "failed",
        Status::Cancelled { .. } => "cancelled",
    };
    Err(Refusal::RunOver { run: run.id.to_string(), status })
}

/// Reports about work that is no longer under way are dropped: another attempt speaks for it now.
fn current_attempt(run: &Run, number: u32, attempt: u32) -> Result<&Turn, Refusal> {
    match run.turns.get(&number) {
        Some(turn) if turn.attempt == attempt && turn.owes_reply() => Ok(turn),
        Some(_) | None => Err(Refusal::Stale),
    }
}

/// An external event is taken where the workflow waits for it, now or some day.
fn cancelled(reason: &str, principal: &Principal, key: &str) -> Event {
    let ((by, door, known), key) = (principal.recorded(), key.to_owned());
    Event::Cancelled { by, reason: reason.to_owned(), door, known, key }
}

fn signal(
    run: &Run,
    name: &str,
    value: &Value,
    (principal, key): (&Principal, &str),
) -> Result<Vec<Event>, Refusal> {
    let listens = matches!(&run.workflow.pattern, Pattern::Graph(program) if program.listens(name));
    if !listens {
        return Err(Refusal::NotListening { run: run.id.to_string(), name: name.to_owned() });
    }
    if schema::is_too_deep(value) || readable(value).len() > REPLY_BYTES_MAX {
        let remedy = format!("at most {REPLY_BYTES_MAX} bytes, {} deep", schema::DEPTH_MAX);
        return Err(Refusal::TooLarge { field: "payload".into(), remedy });
    }
    if run.graph.is_full_of_signals() {
        let remedy = "too many signals came before anything waited for them".into();
        return Err(Refusal::TooLarge { field: "name".into(), remedy });
    }
    let (by, door, known) = principal.recorded();
    let (name, value, key) = (name.to_owned(), value.clone(), key.to_owned());
    Ok(vec![Event::Signalled { name, value, by, door, known, key }])
}

fn tool_returned(
    run: &Run,
    number: u32,
    call_id: &str,
    outcome: &Result<Value, ToolFault>,
) -> Result<Vec<Event>, Refusal> {
    let Some(turn) = run.turns.get(&number) else {
        return came_home_late(run, number, call_id, outcome);
    };
    let mut waiting = turn.calls.iter().filter_map(|open| match open.waits {
        CallWaits::Tool(safety) if open.call.id == call_id => Some((open, safety)),
        CallWaits::Tool(_) | CallWaits::Person(_) | CallWaits::Judge(_) | CallWaits::Nobody => None,
    });
    let (open, safety) = waiting.next().ok_or(Refusal::Stale)?;
    let (value, failed) = match outcome {
        Ok(value) if schema::is_too_deep(value) => {
            let most = schema::DEPTH_MAX;
            (wrong("tool.too_deep", &format!("the outcome nests deeper than {most}")), true)
        }
        Ok(value) if readable(value).len() > REPLY_BYTES_MAX => {
            let what = format!("the outcome has more than {REPLY_BYTES_MAX} bytes");
            (wrong("tool.too_large", &what), true)
        }
        Ok(value) => (value.clone(), false),
        Err(fault) if fault.may_have_happened && !may_repeat(safety) => {
            let ordinal = u32::try_from(run.endings.len()).unwrap_or(u32::MAX).saturating_add(1);
            let (tool, what) = (&open.call.tool, &fault.failure.message);
            let why = format!("The call of `{tool}` was cut off: {what}.");
            let asked = lost::outcome(run, (turn, open), ordinal, &why);
            return Ok(vec![Event::Asked(Box::new(asked))]);
        }
        Err(fault) => (wrong(&fault.failure.code, &fault.failure.message), true),
    };
    Ok(vec![Event::ToolReturned { turn: number, call_id: call_id.to_owned(), value, failed }])
}

/// The outcome of a call whose step was stopped meanwhile: it is taken down, and nothing follows.
fn came_home_late(
    run: &Run,
    number: u32,
    call_id: &str,
    outcome: &Result<Value, ToolFault>,
) -> Result<Vec<Event>, Refusal> {
    let is_it = |(turn, call): &&(u32, ToolCall)| *turn == number && call.id == call_id;
    run.loose.iter().find(is_it).ok_or(Refusal::Stale)?;
    let is_large =
        |value: &Value| schema::is_too_deep(value) || readable(value).len() > REPLY_BYTES_MAX;
    let (value, failed) = match outcome {
        Ok(value) if is_large(value) => (wrong("tool.too_large", "the outcome is too large"), true),
        Ok(value) => (value.clone(), false),
        Err(fault) => (wrong(&fault.failure.code, &fault.failure.message), true),
    };
    Ok(vec![Event::ToolReturned { turn: number, call_id: call_id.to_owned(), value, failed }])
}

/// What an agent is told in place of an outcome: the fault's words, and its stable code.
fn wrong(code: &str, message: &str) -> Value {
    Value::String(format!("error: {message} [{code}]"))
}

/// What became of work that was under way.
struct CutOff {
    /// What a reply that is asked for again is told to have come to.
    failure: (&'static str, &'static str),
    /// What a person is told of a call.
    why: fn(&str) -> String,
    /// Whether a call may be made again without asking anybody.
    may_repeat: fn(Safety) -> bool,
    /// Whether a call that a halt had stopped is known not to have been made.
    heeds_holds: bool,
}

/// The server stopped: it died, was stopped, or stood still for so long that another took over.
const RESTARTED: CutOff = CutOff {
    failure: ("step.interrupted", "the server that was at it stopped, or was silent for too long"),
    why: |tool| format!("The server stopped while `{tool}` was being called."),
    may_repeat,
    heeds_holds: true,
};

/// The run failed, and another takes it up. A key names its run: nobody who was called knows the
/// fork's, so a call is made again without asking only where it touches nothing.
const FORKED: CutOff = CutOff {
    failure: ("step.retried", "the run failed here, and is taken up again"),
    why: |tool| format!("The run before this one called `{tool}`, and that failed or was cut off."),
    may_repeat: touches_nothing,
    heeds_holds: false,
};

/// The store was put back from a backup, or made from an export: what was under way may have been done
/// since, and more than it.
const RENEWED: CutOff = CutOff {
    failure: ("step.interrupted", "the store was put back meanwhile"),
    why: |tool| {
        format!("The store was put back from a backup or a copy while `{tool}` was being called.")
    },
    may_repeat: touches_nothing,
    heeds_holds: false,
};

fn touches_nothing(safety: Safety) -> bool {
    match safety {
        Safety::Pure => true,
        Safety::Idempotent | Safety::Unsafe => false,
    }
}

/// After a crash: a reply is asked for again, a repeatable call is made again with its key, and
/// any other call becomes a question to a person (E2).
fn recover(run: &Run, cut: &CutOff, now: Millis) -> Vec<Event> {
    if run.status != Status::Running {
        return Vec::new();
    }
    let mut events = Vec::new();
    let mut ordinal = u32::try_from(run.endings.len()).unwrap_or(u32::MAX);
    for turn in run.turns.values() {
        if turn.owes_reply() {
            events.push(Event::StepFailed {
                turn: turn.number,
                attempt: turn.attempt,
                failure: Failure::new(cut.failure.0, cut.failure.1),
                retry_at: Some(now),
                interrupted: true,
            });
        }
        for open in &turn.calls {
            let CallWaits::Tool(safety) = open.waits else { continue };
            let is_held = run.held.contains(&(turn.number, open.call.id.clone()));
            if (cut.may_repeat)(safety) || (cut.heeds_holds && is_held) {
                continue;
            }
            ordinal += 1;
            let why = (cut.why)(&open.call.tool);
            let asked = lost::outcome(run, (turn, open), ordinal, &why);
            events.push(Event::Asked(Box::new(asked)));
        }
    }
    events
}

/// Deadlines and reminders that are due. Never early: each is due at its own millisecond.
fn due(run: &Run, now: Millis) -> Vec<Event> {
    let is_due = |at: Option<Millis>| at.is_some_and(|at| at <= now);
    let moving = run.questions.values().filter(|question| !halt::stops(run, question));
    let events = moving.filter_map(|question| {
        if is_due(question.deadline) {
            return Some(silence(run, question, now));
        }
        let next = question.remind_ms.map(|ms| now.plus(ms));
        is_due(question.remind_at).then_some(Event::Reminded { ordinal: question.ordinal, next })
    });
    let silent: Vec<Event> = events.chain(judging::due(run, now)).collect();
    // A step whose time is up may hold one of these questions: its turn comes with the next look,
    // which is due at once.
    if silent.is_empty() { graph::due(run, now) } else { silent }
}

/// What silence means for a question. A default that does not fit it is no answer (K7).
fn silence(run: &Run, question: &Question, now: Millis) -> Event {
    let (ordinal, by) = (question.ordinal, "timer".to_owned());
    let closed = |closing| Event::closed_by_itself(ordinal, closing, &by);
    let escalated = |more: &[String], within_ms: Option<u64>| {
        // Whoever was asked still is: others are asked as well.
        let asked = if question.to.is_empty() { slice::from_ref(&run.owner) } else { &question.to };
        let mut to = asked.to_vec();
        to.extend(more.iter().filter(|name| !asked.contains(name)).cloned());
        Event::Escalated { ordinal, to, deadline: within_ms.map(|ms| now.plus(ms)) }
    };
    let level = usize::try_from(question.level).unwrap_or(usize::MAX);
    if let Some(level) = question.current_stage().and_then(|stage| stage.escalate.get(level)) {
        return escalated(&level.to, level.within_ms);
    }
    if let OnTimeout::EscalateTo { to, within_ms } = &question.on_timeout {
        return escalated(to, *within_ms);
    }
    if question.decides() {
        return closed(Closing::Rejected);
    }
    match &question.on_timeout {
        OnTimeout::Reject | OnTimeout::EscalateTo { .. } => closed(Closing::Rejected),
        OnTimeout::Continue => closed(Closing::Passed),
        OnTimeout::DefaultAnswer(value) => match question.read(value) {
            Err(_) => closed(Closing::Rejected),
            Ok(value) => {
                let (door, key) = (by.clone(), String::new());
                let (given, from, shown, seed) = (None, None, String::new(), String::new());
                let (known, instead_of, asks_anew) = (None, None, false);
                Event::Answered {
                    ordinal,
                    value,
                    by,
                    door,
                    key,
                    given,
                    from,
                    shown,
                    known,
                    instead_of,
                    asks_anew,
                    seed,
                }
            }
        },
    }
}
