//! Halt: a hand on the brake: what of a run stands still while somebody has stopped something. Whatever is about to
//! be done waits, what is asked stays open and takes no decision, and its deadlines stand still. What is
//! under way is let come home. It decides nothing for good: once a halt is taken back, all of it goes on.
//!
//! Keeping halts, and telling runs when one has ended, is the engine's.

use std::sync::Arc;

use crate::kernel::command::{Command, Decision};
use crate::kernel::event::Event;
use crate::kernel::graph::Task;
use crate::kernel::halts::{Halt, Halts, Scope, Still};
use crate::kernel::plan::{Effect, plan};
use crate::kernel::question::{Origin, Question};
use crate::kernel::refusal::Refusal;
use crate::kernel::run::{Run, Status};
use crate::kernel::time::Millis;
use crate::kernel::turn::Turn;
use crate::kernel::workflow::Workflow;

/// The halt that stops what is about to be done for a run, if one does.
pub fn of_effect<'a>(halts: &'a Halts, run: &Run, effect: &Effect) -> Option<&'a Halt> {
    if halts.0.is_empty() {
        return None;
    }
    let (agent, tool) = worker(run, effect);
    of_work(halts, run, &agent, tool.as_deref())
}

/// The halt that stops an agent's work, or a tool's, in a run; if one does.
pub fn of_work<'a>(
    halts: &'a Halts,
    run: &Run,
    agent: &str,
    tool: Option<&str>,
) -> Option<&'a Halt> {
    halts.0.iter().find(|halt| halt.scope.holds(&run.workflow.name, agent, tool))
}

/// The halts that a run stands at: they stop what is owed for it now, or what it waits for. A call that was under way
/// before is let come home.
pub fn standing<'a>(halts: &'a Halts, run: &Run) -> Vec<&'a Halt> {
    if halts.0.is_empty() || run.status.is_over() {
        return Vec::new();
    }
    let is_running = run.status == Status::Running;
    let owed = if is_running { plan(run) } else { Vec::new() };
    let stopping = owed.iter().filter(|effect| !is_under_way(run, effect));
    let stopping: Vec<_> = stopping.filter_map(|effect| of_effect(halts, run, effect)).collect();
    let stands = |halt: &&Halt| {
        // One that waits takes no word, no event and no look at the clock.
        (!is_running && halt.scope.holds_run(&run.workflow.name))
            || stopping.iter().any(|other| other.id == halt.id)
            || run.questions.values().any(|question| concerns(halt, run, question))
    };
    halts.0.iter().filter(stands).collect()
}

/// Whether a call was under way before anybody stopped it.
fn is_under_way(run: &Run, effect: &Effect) -> bool {
    match effect {
        Effect::CallTool { turn, call, .. } => !run.held.contains(&(*turn, call.id.clone())),
        Effect::Reply { .. } => false,
    }
}

/// The halt under which a question takes no decision, if there is one.
fn of_question<'a>(run: &'a Run, question: &Question) -> Option<&'a Halt> {
    run.operator.halts.0.iter().find(|halt| concerns(halt, run, question))
}

/// The no that a decision on a question would get as long as a halt stands in its way; nothing, where none does.
pub fn of_decision(halts: &Halts, run: &Run, question: &Question) -> Option<Refusal> {
    halts.0.iter().find(|halt| concerns(halt, run, question)).map(refused)
}

/// A question of a run as it is shown: it says that its clock stands still, where it does.
pub fn shown(halts: &Halts, run: &Run, mut question: Arc<Question>) -> Arc<Question> {
    let still = still_under(&question, halts.0.iter().filter(|it| concerns(it, run, &question)));
    if still.is_some() {
        Arc::make_mut(&mut question).still = still;
    }
    question
}

/// Only the run itself tells what a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeedsRun;

/// Whether the clock of an open question stands still, from what it says itself: lists have no more of a run.
pub fn still(
    halts: &Halts,
    workflow: &str,
    question: &Question,
) -> Result<Option<Still>, NeedsRun> {
    let mut stopping = Vec::new();
    for halt in &halts.0 {
        if concerns_itself(halt, workflow, question)? {
            stopping.push(halt);
        }
    }
    Ok(still_under(question, stopping.into_iter()))
}

/// The same as `concerns`, where a question alone tells it.
fn concerns_itself(halt: &Halt, workflow: &str, question: &Question) -> Result<bool, NeedsRun> {
    let agent = question.agent.as_deref().unwrap_or_default();
    let called = if let Origin::Gate(call) = &question.origin { Some(call) } else { None };
    let tool = called.map(|call| call.tool.as_str());
    if halt.scope.holds(workflow, agent, tool) {
        return Ok(true);
    }
    let is_known = match &halt.scope {
        Scope::All | Scope::Agent(_) => true,
        Scope::Tool(_) => !matches!(
            question.origin,
            Origin::LostOutcome(_) | Origin::ToolCall(_) | Origin::Phase(_)
        ),
        // Whether a step lies in that workflow is said by what is around it.
        Scope::Workflow(_) => {
            !question.step.contains('/') && !matches!(question.origin, Origin::Phase(_))
        }
    };
    if is_known { Ok(false) } else { Err(NeedsRun) }
}

/// What is said of a clock under these halts, all of which stop it.
fn still_under<'a>(question: &Question, halts: impl Iterator<Item = &'a Halt>) -> Option<Still> {
    let halts: Vec<_> = halts.collect();
    let what = halts.first()?.scope.words();
    let from = stood_from(halts.iter().map(|halt| halt.at).min()?, question);
    Some(Still { what, left_ms: question.deadline.map(|deadline| deadline.since(from)) })
}

/// From when on a question stands under a halt since then: not before it was asked, and no time counts twice.
fn stood_from(since: Millis, question: &Question) -> Millis {
    since.max(question.stood_to).max(question.asked_at)
}

/// Whose work it is, and by which tool.
pub fn worker(run: &Run, effect: &Effect) -> (String, Option<String>) {
    match effect {
        Effect::Reply { input, .. } => (input.agent.clone(), None),
        Effect::CallTool { turn, call, .. } => {
            let agent = run.turns.get(turn).map(|turn| turn.agent.clone());
            (agent.unwrap_or_default(), Some(call.tool.clone()))
        }
    }
}

/// Whether a workflow has what a scope names.
pub fn knows(workflow: &Workflow, scope: &Scope) -> bool {
    match scope {
        Scope::All => true,
        Scope::Workflow(name) => workflow.name == *name,
        Scope::Tool(name) => workflow.tools.contains_key(name),
        Scope::Agent(name) => workflow.agents.contains_key(name),
    }
}

/// Whether a halt stops what a question is about.
fn concerns(halt: &Halt, run: &Run, question: &Question) -> bool {
    let agent = question.agent.as_deref().unwrap_or_default();
    // What a workflow that is a step of this one asks is a decision of that one.
    let is_step_of =
        |name: &str| run.graph.around(&question.step).any(|step| is_workflow(&step.task, name));
    halt.scope.holds(&run.workflow.name, agent, tool_of(run, question))
        || matches!(&halt.scope, Scope::Workflow(name) if is_step_of(name))
}

fn is_workflow(task: &Task, name: &str) -> bool {
    matches!(task, Task::Sub { workflow, .. } if workflow == name)
}

/// The tool that a question is about, if it is about one.
fn tool_of<'a>(run: &'a Run, question: &'a Question) -> Option<&'a str> {
    match &question.origin {
        Origin::Gate(call) => Some(&call.tool),
        Origin::LostOutcome(id) | Origin::ToolCall(id) => {
            let turn = run.turns.get(&question.turn?)?;
            let open = turn.calls.iter().find(|open| open.call.id == *id)?;
            Some(&open.call.tool)
        }
        Origin::Phase(_) => {
            let step = run.graph.step(&question.step)?;
            if let Task::Tool { tool, .. } = &step.task { Some(tool) } else { None }
        }
        Origin::UserTurn | Origin::Directive | Origin::HumanStep | Origin::Budget(_) => None,
    }
}

/// Refuses what is not taken while a halt stands: nothing is decided, and no clock is looked at. What the
/// world reports is taken, and so is whatever stops more.
pub(super) fn refuse(run: &Run, command: &Command) -> Result<(), Refusal> {
    let halts = &run.operator.halts;
    if halts.0.is_empty() {
        return Ok(());
    }
    let of_run = || halts.of_run(&run.workflow.name);
    let halt = match command {
        Command::Withdraw { request, .. } => {
            run.questions.get(&request.ordinal).and_then(|open| of_question(run, open))
        }
        Command::Signal { .. } | Command::Tick | Command::Retry => of_run(),
        // Answers are weighed with their questions: what was said before is known again all the same.
        Command::Answer { .. }
        | Command::Claim { .. }
        | Command::Delegate { .. }
        | Command::Revoke { .. }
        | Command::Cancel { .. }
        | Command::Delta { .. }
        | Command::Noted { .. }
        | Command::Replied { .. }
        | Command::AttemptFailed { .. }
        | Command::ToolReturned { .. }
        | Command::Recover
        | Command::Renew { .. }
        | Command::Recall { .. }
        | Command::Rule
        | Command::Stand { .. }
        | Command::Hold { .. } => None,
    };
    halt.map_or(Ok(()), |halt| Err(refused(halt)))
}

/// Refuses a decision on what stands still.
pub(super) fn refuse_decision(run: &Run, question: &Question) -> Result<(), Refusal> {
    let halt = of_question(run, question);
    halt.map_or(Ok(()), |halt| Err(refused(halt)))
}

/// Whether the clock of a question stands still.
pub(super) fn stops(run: &Run, question: &Question) -> bool {
    of_question(run, question).is_some()
}

/// What a look at the clock comes to. Where all that is due stands still, it is no: somebody who looks again
/// and again would find the same.
pub(super) fn unless_stopped(
    run: &Run,
    events: Vec<Event>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let is_due = |at: Option<Millis>| at.is_some_and(|at| at <= now);
    let mut due =
        run.questions.values().filter(|open| is_due(open.deadline) || is_due(open.remind_at));
    let halt = due.find_map(|question| of_question(run, question));
    match halt {
        Some(halt) if events.is_empty() => Err(refused(halt)),
        Some(_) | None => Ok(Decision::Events(events)),
    }
}

/// Calls of a run that are owed and stopped, and not known to be; and calls that were, and are not stopped any more:
/// by turn and id, and whether they are to be made now.
pub fn holds(run: &Run, halts: &Halts) -> Vec<(u32, String, bool)> {
    if (halts.0.is_empty() && run.held.is_empty()) || run.status != Status::Running {
        return Vec::new();
    }
    let owed = plan(run).into_iter().filter_map(|effect| {
        let is_stopped = of_effect(halts, run, &effect).is_some();
        let Effect::CallTool { turn, call, .. } = effect else { return None };
        let is_held = run.held.contains(&(turn, call.id.clone()));
        (is_stopped != is_held).then_some((turn, call.id, is_held))
    });
    owed.collect()
}

/// A call is not made, or is about to be.
pub(super) fn hold(turn: u32, call_id: &str, is_over: bool) -> Decision {
    Decision::Events(vec![Event::Held { turn, call_id: call_id.to_owned(), is_over }])
}

/// The no of a halt.
pub fn refused(halt: &Halt) -> Refusal {
    let (what, by, reason) = (halt.scope.words(), halt.by_whom(), halt.reason.clone());
    Refusal::Halted { what, by, reason }
}

/// Up to when a run has moved by the time of an event: one that stood did not.
pub(super) fn moved(event: &Event, at: Millis) -> Millis {
    if let Event::Stood { since, is_whole: true, .. } = event { at.min(*since) } else { at }
}

/// What a run is told when a halt ends: nothing, where it stopped nothing of it.
pub(super) fn decide(run: &Run, halt: &Halt, now: Millis) -> Decision {
    let is_whole = halt.scope.holds_run(&run.workflow.name);
    let questions = run.questions.values().filter(|question| concerns(halt, run, question));
    let questions: Vec<u32> = questions.map(|question| question.ordinal).collect();
    let is_known = (!is_whole || run.stood.run >= now)
        && questions.iter().all(|one| run.questions.get(one).is_some_and(|it| it.stood_to >= now));
    if run.status.is_over() || is_known || halt.at >= now {
        return Decision::Repeat { after: run.version };
    }
    Decision::Events(vec![Event::Stood { since: halt.at, is_whole, questions }])
}

/// Moves on whatever would have been due meanwhile, by as much as it stood: no time counts twice, though
/// halts may overlap.
pub(super) fn stood(
    run: &mut Run,
    (since, is_whole): (Millis, bool),
    questions: &[u32],
    at: Millis,
) -> Result<(), &'static str> {
    for ordinal in questions {
        let Some(question) = run.questions.get_mut(ordinal) else {
            return Err("only what is open has stood still");
        };
        let question = Arc::make_mut(question);
        let ms = at.since(stood_from(since, question));
        question.stood_to = at;
        for due in [&mut question.deadline, &mut question.remind_at] {
            *due = due.map(|due| due.plus(ms));
        }
    }
    if is_whole {
        let ms = at.since(since.max(run.stood.run).max(run.started_at));
        run.stood.run = at;
        run.graph.stood(ms);
        for judging in run.turns.values_mut().filter_map(Turn::judging_mut) {
            judging.until = judging.until.plus(ms);
        }
    }
    Ok(())
}
