//! Evolve: what a fact changes. Folding a journal through it gives the run back, live or years later.
//!
//! Live it cannot fail, because `decide` made the event; on replay a failure means that the stored
//! bytes are wrong, and the run stops for a person rather than guess.

use std::sync::Arc;

use serde_json::Value;

use crate::kernel::act::REPLY;
use crate::kernel::apart::Veil;
use crate::kernel::digest;
use crate::kernel::event::{Closing, Event};
use crate::kernel::failure::{Failure, Failures};
use crate::kernel::family;
use crate::kernel::fold_question::{self, asked, close, escalated, heard, voted};
use crate::kernel::graph;
use crate::kernel::halt;
use crate::kernel::halts::Stood;
use crate::kernel::id::{RunId, Version};
use crate::kernel::judging;
use crate::kernel::keys::Keys;
use crate::kernel::listing::Listing;
use crate::kernel::message::{Message, ToolCall};
use crate::kernel::places;
use crate::kernel::principal::{Assurance, Known};
use crate::kernel::question::{Closed, Ending, Leg};
use crate::kernel::renewal;
use crate::kernel::run::{Heard, Last, Progress, Run, Status};
use crate::kernel::said::Said;
use crate::kernel::session_memory::Earlier;
use crate::kernel::spending::{Extensions, Spent, Usage};
use crate::kernel::spoken::{count_failure, message_added, not_done, tool_returned};
use crate::kernel::started::Started;
use crate::kernel::time::Millis;
use crate::kernel::turn::{CallWaits, OpenCall, Turn};
use crate::kernel::verb::Verb;
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

/// The run as its first event makes it.
#[expect(clippy::too_many_lines, reason = "one field after the other, and no logic")]
pub fn begin(id: RunId, workflow: Arc<Workflow>, started: &Started, at: Millis) -> Run {
    let first = Message::said(started.owner.clone(), &started.input);
    let mut graph = match &workflow.pattern {
        Pattern::Graph(program) => {
            let metadata = serde_json::to_value(&started.metadata).unwrap_or_default();
            graph::begin(program, &started.input, metadata)
        }
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            graph::State::default()
        }
    };
    graph.heard(&first.author, &first.text, 1);
    let progress = Progress::of(&workflow.pattern);
    let mut veil = Veil::default();
    veil.knows(&started.hides);
    let mut run = Run {
        graph,
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
        edited: None,
        metadata: started.metadata.clone(),
        forked_from: started.forked_from.clone(),
        family: started.descent.as_ref().map(|descent| descent.family.clone()),
        copied: started.descent.as_ref().map_or(0, |descent| descent.copied),
        done: started.done_before().map(|done| (done.clone(), false)).collect(),
        requesters: started.requesters(),
        participants: std::collections::BTreeSet::new(),
        returned: std::collections::BTreeMap::new(),
        let_on_by: Vec::new(),
        let_on_call: None,
        seed: started.seed.clone(),
        is_seed_open: false,
        veil,
        epoch: started.epoch.clone(),
        renewals: Vec::new(),
        stood: Stood::default(),
        held: std::collections::BTreeSet::new(),
        leg: Leg { by: started.owner.clone(), door: started.door.clone() },
        operator: Arc::default(),
        noes: Arc::default(),
        refusals: Vec::new(),
        conversation_bytes: first.bytes(),
        conversation: vec![Arc::new(first)],
        turns: std::collections::BTreeMap::new(),
        turns_taken: 0,
        judgements: 0,
        questions: std::collections::BTreeMap::new(),
        endings: Vec::new(),
        tails: Vec::new(),
        asked_of: Vec::new(),
        voted: Vec::new(),
        listing: Listing::default(),
        last: Last::Started,
        progress,
        output: None,
        checkpoints: Vec::new(),
        pauses: Vec::new(),
        usage: Usage::default(),
        failed_calls: 0,
        failures: Failures::default(),
        brought: started.gates.clone(),
        held_back: false,
        owed: std::collections::BTreeMap::new(),
        policy: started.policy.as_deref().cloned().unwrap_or_default(),
        grants: Vec::new(),
        spent: Spent::default(),
        spent_before: started.spent_before,
        spent_beside: Spent::default(),
        extensions: Extensions::default(),
        abandoned: Vec::new(),
        loose: Vec::new(),
        trace: started.trace.clone(),
        keys: Keys::default(),
        follows: started.follows.clone(),
        earlier: Earlier::default(),
    };
    run.heed_input();
    run.is_seed_open = !run.hides();
    run
}

/// Folds one event in.
pub fn evolve(run: &mut Run, event: &Event, at: Millis) -> Result<(), Corruption> {
    let version = run.version + 1;
    let moved_ms = if run.status == Status::Running {
        halt::moved(event, at).since(run.updated_at)
    } else {
        0
    };
    run.updated_at = at;
    let was_tools = is_tools_failure(run, event);
    family::heard(run, event, at);
    run.heed_secrets(event);
    run.heed_done(event);
    renewal::heard(run, event);
    let outcome = if run.status.is_over() {
        Err("K6: the run is over")
    } else {
        fold(run, event, at, version)
    };
    outcome.map_err(|why| Corruption { run: run.id.clone(), version, why })?;
    run.spent.wall_ms = run.spent.wall_ms.saturating_add(moved_ms);
    if !was_tools {
        run.spent.count(event);
    }
    run.keys.learn(event, version);
    run.version = version;
    Ok(())
}

/// The failure of a tool's own step, which no model was asked about.
fn is_tools_failure(run: &Run, event: &Event) -> bool {
    let Event::StepFailed { turn, .. } = event else { return false };
    run.turns.get(turn).is_some_and(Turn::is_tools)
}

#[expect(clippy::too_many_lines, reason = "one arm an event, and nothing else")]
fn fold(run: &mut Run, event: &Event, at: Millis, version: Version) -> Result<(), &'static str> {
    match event {
        Event::Started(_) => return Err("a run starts once"),
        Event::StepStarted { turn, step, agent, attempt, purpose, prompt, judges } => {
            let of = (*purpose, judges.as_deref().cloned());
            let mut begun = Turn::new(*turn, step.clone(), agent.clone(), of);
            begun.prompt.clone_from(prompt);
            begun.began_at = at;
            step_started(run, begun, *attempt, at)?;
        }
        Event::Delta { turn, attempt, .. } => {
            if run.turn_mut(*turn)?.attempt != *attempt {
                return Err("text of an attempt that is not under way");
            }
        }
        Event::Noted { turn, attempt, memo } => noted(run, (*turn, *attempt), memo)?,
        Event::MessageAdded { turn, message, usage } => message_added(run, *turn, message, *usage)?,
        Event::ToolCalled { turn, call, safety, .. } => {
            let waits = CallWaits::Tool(*safety);
            let turn = run.turn_mut(*turn)?;
            let known = turn.calls.iter().find(|known| known.call.id == call.id);
            let (released, looked) = known
                .map(|known| (known.released.clone(), known.looked.clone()))
                .unwrap_or_default();
            let judged = Vec::new();
            let open = OpenCall { call: call.clone(), waits, judged, released, looked };
            turn.calls.retain(|known| known.call.id != call.id);
            turn.calls.push(open);
            turn.makes(call);
        }
        Event::ToolReturned { turn, call_id, value, failed } => {
            run.failed_calls += u32::from(*failed);
            if *failed {
                count_failure(run, *turn, call_id);
            }
            let is_it = |(of, call): &(u32, ToolCall)| of == turn && call.id == *call_id;
            if let Some(place) = run.loose.iter().position(is_it) {
                run.loose.remove(place);
            } else {
                let wrong = failed.then(|| not_done(value));
                tool_returned(run, *turn, call_id, value, wrong)?;
            }
        }
        Event::HandedOff { turn, call_id, to, .. } => {
            let number = *turn;
            run.turn_mut(number)?.handoff = Some(to.clone());
            let told = Value::String(format!("handed off to {to}"));
            tool_returned(run, number, call_id, &told, None)?;
        }
        Event::StepCompleted { turn, output } => step_completed(run, *turn, output, at)?,
        Event::StepFailed { turn, attempt, failure, retry_at, interrupted } => {
            let told = run.turn_mut(*turn)?;
            if told.attempt != *attempt {
                return Err("the failure of an attempt that is not under way");
            }
            told.failures += u32::from(!interrupted);
            let step = told.step.clone();
            let is_tools = told.is_tools();
            // A tool's own step has been counted with its call.
            if !interrupted && !is_tools {
                run.failures.attempt(&step);
            }
            step_failed(run, *turn, (failure, *retry_at), at)?;
        }
        Event::StepOpened { path, opening } => graph::opened(run, path, opening, at)?,
        Event::StepOutcome { path, outcome } => graph::came(run, path, outcome, at)?,
        Event::StepClosed { path, outcome } => graph::settled(run, path, outcome, at)?,
        Event::Signalled { name, value, .. } => graph::signal(run, name, value, at),
        Event::Asked(question) => asked(run, question, at)?,
        Event::Answered {
            ordinal,
            value,
            by,
            key,
            given,
            door,
            known,
            instead_of,
            asks_anew,
            ..
        } => {
            let given = given.clone().unwrap_or_else(|| digest::of(value));
            let (by, key) = (by.clone(), key.clone());
            let is_no = Verb::of(value).is_some_and(Verb::is_no);
            let (assurance, service) = rests_on(known.as_deref());
            let said = Said {
                by: by.clone(),
                key,
                given,
                version,
                is_no,
                assurance,
                service,
                instead_of: instead_of.clone(),
            };
            let ending = Ending::Answered(said);
            run.leg = Leg { by: by.clone(), door: door.clone() };
            let said = (value, by, instead_of.as_ref());
            fold_question::answered(run, (*ordinal, *asks_anew), said, (ending, at))?;
        }
        Event::Voted { ordinal, value, by, key, given, stage, known, instead_of, void, .. } => {
            fold_question::voided(run, *ordinal, void)?;
            let (by, key, given) = (by.clone(), key.clone(), given.clone());
            let (assurance, service) = rests_on(known.as_deref());
            let (is_no, instead_of) = (false, instead_of.clone());
            let said = Said { by, key, given, version, is_no, assurance, service, instead_of };
            voted(run, (*ordinal, *stage), value, said, at)?;
        }
        Event::Claimed(claimed) => places::claimed(run, claimed, at)?,
        Event::Delegated(delegated) => places::delegated(run, delegated, at)?,
        Event::Closed { ordinal, closing, by, .. } => closed(run, *ordinal, (*closing, by), at)?,
        Event::Reminded { ordinal, next } => run.question_mut(*ordinal)?.remind_at = *next,
        Event::Escalated { ordinal, to, deadline } => escalated(run, *ordinal, to, *deadline)?,
        Event::Held { turn, call_id, is_over } => {
            let call = (*turn, call_id.clone());
            let is_news = if *is_over { run.held.remove(&call) } else { run.held.insert(call) };
            if !is_news {
                return Err("a call is held once, and let go once");
            }
        }
        Event::Stood { since, is_whole, questions } => {
            halt::stood(run, (*since, *is_whole), questions, at)?;
        }
        Event::Renewed { epoch, seed, only } => renewal::renewed(run, (epoch, seed), only)?,
        Event::Ruled(force) => {
            run.policy = (**force).clone();
            // What was allowed at a gate that is there no more, or has other terms, is allowed no more.
            let names: Vec<String> = run.gates().map(|gate| gate.name.clone()).collect();
            run.grants.retain(|grant| names.contains(&grant.gate));
        }
        Event::Revoked { tool, .. } => run.grants.retain(|grant| grant.tool != *tool),
        Event::CheckpointSaved => {
            run.checkpoints.push((version, at));
            run.pauses.push(!run.questions.is_empty());
        }
        Event::Parked => {
            if run.questions.is_empty() && !run.graph.waits() {
                return Err("a run is parked only on what may come");
            }
            run.status = Status::Waiting { since: at };
            run.listing = run.listing.at_pause(run.questions.len(), run.endings.len());
        }
        Event::Output { value } => run.output = Some(value.clone()),
        Event::Warned(_) => {}
        Event::Completed => finish(run, Status::Completed),
        Event::Failed(failure) => finish(run, Status::Failed(failure.clone())),
        Event::Cancelled { by, .. } => finish(run, Status::Cancelled { by: by.clone() }),
    }
    Ok(())
}

/// How well somebody was known, and by which service if one spoke for them; whoever spoke before it was written down had a
/// key of their own.
fn rests_on(known: Option<&Known>) -> (Assurance, Option<String>) {
    let assurance = known.map(|known| known.assurance).unwrap_or_default();
    (assurance, known.and_then(Known::service).map(str::to_owned))
}

/// An attempt is over. In a graph a step that is not tried again has failed, and nothing else has.
fn step_failed(
    run: &mut Run,
    number: u32,
    (failure, retry_at): (&Failure, Option<Millis>),
    at: Millis,
) -> Result<(), &'static str> {
    let turn = run.turn_mut(number)?;
    turn.retry_at = retry_at;
    if let Some(step) = turn.tool_step_mut() {
        step.returned = None;
    }
    if let (None, Some(judging)) = (retry_at, turn.judging().cloned()) {
        let judge = run.turns.remove(&number).ok_or("no such turn is under way")?;
        return judging::judged(run, &judge, &judging, Err(failure));
    }
    if retry_at.is_none() && matches!(run.workflow.pattern, Pattern::Graph(_)) {
        let turn = run.turns.remove(&number).ok_or("no such turn is under way")?;
        graph::turned(run, &turn.step, Err(failure.clone()), at)?;
    }
    Ok(())
}

fn closed(
    run: &mut Run,
    ordinal: u32,
    (closing, by): (Closing, &str),
    at: Millis,
) -> Result<(), &'static str> {
    let (how, reply) = match closing {
        Closing::Moot => {
            // The step that asked is stopped by what follows.
            close(run, ordinal, Ending::Closed(Closed::StepOver))?;
            return Ok(());
        }
        Closing::Rejected => (Closed::Expired, Heard::Expired),
        Closing::Passed => (Closed::Expired, Heard::Nothing),
        Closing::Withdrawn => (Closed::Withdrawn, Heard::Withdrawn(by.to_owned())),
    };
    let question = close(run, ordinal, Ending::Closed(how))?;
    heard(run, &question, reply, at)?;
    run.status = Status::Running;
    Ok(())
}

fn noted(run: &mut Run, (turn, attempt): (u32, u32), memo: &Value) -> Result<(), &'static str> {
    let turn = run.turn_mut(turn)?;
    if turn.attempt != attempt {
        return Err("a note of an attempt that is not under way");
    }
    turn.memo = Some(memo.clone());
    Ok(())
}

fn step_started(run: &mut Run, begun: Turn, attempt: u32, at: Millis) -> Result<(), &'static str> {
    let number = begun.number;
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
    let mut begun = begun;
    if let Some(judging) = begun.judging() {
        judging::asked(run, number, judging)?;
    } else if matches!(run.workflow.pattern, Pattern::Graph(_)) {
        begun.unseen = run.graph.unseen(&begun.step);
        graph::working(run, &begun.step, number, at)?;
    }
    run.turns.insert(number, begun);
    Ok(())
}

fn step_completed(
    run: &mut Run,
    number: u32,
    output: &Value,
    at: Millis,
) -> Result<(), &'static str> {
    let mut turn = run.turns.remove(&number).ok_or("no such turn is under way")?;
    // A reply that waited is what completes it.
    turn.calls.retain(|open| open.call.tool != REPLY);
    if !turn.calls.is_empty() {
        return Err("E3: a step is complete only when its calls are");
    }
    if let Some(judging) = turn.judging() {
        return judging::judged(run, &turn, judging, Ok(output));
    }
    if matches!(run.workflow.pattern, Pattern::Graph(_)) {
        let spoken = output.is_null() && !turn.is_tools();
        let value = if spoken { Value::String(turn.said) } else { output.clone() };
        return graph::turned(run, &turn.step, Ok(value), at);
    }
    run.progress.turned(turn.handoff.is_some());
    run.last = Last::Turned {
        step: turn.step,
        agent: turn.agent,
        purpose: turn.purpose,
        handoff: turn.handoff,
        output: output.clone(),
    };
    Ok(())
}

/// K6: a finished run owes nothing and waits for nothing.
fn finish(run: &mut Run, status: Status) {
    let left = std::mem::take(&mut run.turns).into_values();
    run.abandoned = left.filter_map(|turn| Some((turn.agent, turn.memo?))).collect();
    run.graph = graph::State::default();
    run.loose.clear();
    run.owed.clear();
    for question in std::mem::take(&mut run.questions).into_values() {
        let index = usize::try_from(question.ordinal).unwrap_or(usize::MAX).wrapping_sub(1);
        if let Some(ending) = run.endings.get_mut(index) {
            *ending = Some(Ending::Closed(Closed::RunOver));
        }
    }
    run.status = status;
}
