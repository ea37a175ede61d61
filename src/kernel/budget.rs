//! Budget: how much a run and its session may spend, and what happens when that is spent.
//!
//! What was spent follows from the journal, so a restart refills nothing. Steps, model calls and tool
//! calls are stopped before one too many is made; tokens are known only afterwards, so the call that
//! passes the bound is the last. Time in which a run waits for people is nobody's spending.
//!
//! Runs of one session that go on at the same time spend of one budget: each is told what the others have
//! spent, and what they are about to, before it decides anything.

use serde_json::json;

use crate::kernel::draft::Draft;
use crate::kernel::event::Event;
use crate::kernel::failure::Failure;
use crate::kernel::message::Speaker;
use crate::kernel::question::{Origin, Question};
use crate::kernel::run::{Heard, Run, Status};
use crate::kernel::spending::{Budget, OnExceeded, Spent};
use crate::kernel::terms::{Kind, OnTimeout, Patience};
use crate::kernel::time::Millis;
use crate::kernel::turn::{CallWaits, Purpose};

impl Spent {
    fn of(self, item: Item) -> u64 {
        match item {
            Item::Steps => self.steps,
            Item::ModelCalls => self.model_calls,
            Item::Tokens => self.tokens,
            Item::ToolCalls => self.tool_calls,
            Item::WallTime => self.wall_ms,
        }
    }

    /// Adds what an event costs.
    pub(super) fn count(&mut self, event: &Event) {
        match event {
            Event::StepStarted { attempt, purpose, .. } => {
                let is_step = *attempt == 1 && *purpose != Purpose::Judgement;
                self.steps += u64::from(is_step);
            }
            Event::MessageAdded { turn, message, usage } => {
                // One that was cut short and fails its step is counted with that.
                let fails = message.cut && message.audience.is_all();
                let is_reply = turn.is_some() && message.role == Speaker::Assistant && !fails;
                self.model_calls += u64::from(is_reply);
                self.tokens += usage.input_tokens.saturating_add(usage.output_tokens);
            }
            Event::StepFailed { .. } => self.model_calls += 1,
            Event::ToolCalled { .. } => self.tool_calls += 1,
            Event::Started(_)
            | Event::Delta { .. }
            | Event::ToolReturned { .. }
            | Event::HandedOff { .. }
            | Event::StepCompleted { .. }
            | Event::Asked(_)
            | Event::Answered { .. }
            | Event::Closed { .. }
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
            | Event::Completed
            | Event::Failed(_)
            | Event::Cancelled { .. } => {}
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Steps,
    ModelCalls,
    Tokens,
    ToolCalls,
    WallTime,
}

impl Item {
    const ALL: [Self; 5] =
        [Self::Steps, Self::ModelCalls, Self::Tokens, Self::ToolCalls, Self::WallTime];

    fn word(self) -> &'static str {
        match self {
            Self::Steps => "steps",
            Self::ModelCalls => "model_calls",
            Self::Tokens => "tokens",
            Self::ToolCalls => "tool_calls",
            Self::WallTime => "wall_time",
        }
    }
}

impl Budget {
    fn of(&self, item: Item) -> Option<u64> {
        match item {
            Item::Steps => self.steps,
            Item::ModelCalls => self.model_calls,
            Item::Tokens => self.tokens,
            Item::ToolCalls => self.tool_calls,
            Item::WallTime => self.wall_ms,
        }
    }
}

/// What the question for more says of others: it is folded with the question, so that what an answer
/// extends follows from the journal.
pub(super) fn asked(run: &mut Run, question: &Question) {
    let told = question.context.get("beside").cloned();
    let beside = told.and_then(|told| serde_json::from_value(told).ok());
    run.extensions.beside = beside.unwrap_or_default();
}

/// What came of the question for more.
pub(super) fn heard(run: &mut Run, budget: &str, reply: &Heard) {
    match reply {
        Heard::Answer { is_rejection: false, .. } => {
            if let Some(more) = extended(run, budget) {
                run.extensions.extended.insert(budget.to_owned(), more);
            }
        }
        Heard::Answer { is_rejection: true, .. }
        | Heard::Nothing
        | Heard::Expired
        | Heard::Withdrawn(_) => run.extensions.refused = Some(budget.to_owned()),
    }
}

/// As much again: on top of what was allowed, or of what was spent where that is only known
/// afterwards, so that nobody is asked twice for the same.
fn extended(run: &Run, name: &str) -> Option<u64> {
    let (scope, word) = name.split_once('.')?;
    let item = Item::ALL.into_iter().find(|item| item.word() == word)?;
    let budgets = &run.workflow.limits.budgets;
    let (limit, spent) = if scope == "session" {
        let others = run.spent_before.max(run.extensions.beside);
        (budgets.session.of(item)?, run.spent.plus(others))
    } else {
        (budgets.run.of(item)?, run.spent)
    };
    let (before, spent) = (allowed(run, name, limit), spent.of(item));
    Some(match item {
        Item::Steps | Item::ToolCalls => before.saturating_add(limit).max(spent),
        Item::ModelCalls => before.saturating_add(limit).max(spent.saturating_add(1)),
        Item::Tokens | Item::WallTime => before.max(spent).saturating_add(limit),
    })
}

/// A budget that is spent.
struct Excess {
    name: String,
    item: Item,
    allowed: u64,
}

/// What follows from the budgets: a failure, a question, or nothing. Asked while a turn is under
/// way, so a run that has come to its end is never stopped on its doorstep.
pub(super) enum Stop {
    Fail(Failure),
    Ask(Box<Draft>),
    /// The question is asked: the run rests until it is answered.
    Rest,
}

/// What the budgets say of a run at `now`; `calls` is whether what was decided just now is a call of a tool.
pub(super) fn stop(run: &Run, now: Millis, calls: bool) -> Option<Stop> {
    if let Some(name) = &run.extensions.refused {
        let message = format!("the budget `{name}` is spent, and nobody extended it");
        return Some(Stop::Fail(Failure::new("budget.exceeded", message)));
    }
    if run.questions.values().any(|question| matches!(question.origin, Origin::Budget(_))) {
        return Some(Stop::Rest);
    }
    if run.turns.is_empty() {
        return None;
    }
    let excess = excess(run, now, calls)?;
    let (name, amount) = (&excess.name, amount(excess.item, excess.allowed));
    match run.workflow.limits.budgets.on_exceeded {
        OnExceeded::Fail => {
            let message = format!("the budget `{name}` of {amount} is spent");
            Some(Stop::Fail(Failure::new("budget.exceeded", message)))
        }
        OnExceeded::Ask => Some(Stop::Ask(Box::new(draft(run, &excess, &amount)))),
    }
}

fn excess(run: &Run, now: Millis, calls: bool) -> Option<Excess> {
    let budgets = &run.workflow.limits.budgets;
    if budgets.is_nothing() {
        return None;
    }
    let mut spent = run.spent;
    spent.wall_ms = spent.wall_ms.saturating_add(now.0.saturating_sub(run.updated_at.0));
    let together = spent.plus(run.spent_before.max(run.spent_beside));
    let scopes = [("run", &budgets.run, spent), ("session", &budgets.session, together)];
    for (scope, budget, spent) in scopes {
        for item in Item::ALL {
            let Some(limit) = budget.of(item) else { continue };
            let name = format!("{scope}.{}", item.word());
            let allowed = allowed(run, &name, limit);
            let is_looked_at = item != Item::ToolCalls || calls;
            if is_looked_at && is_over(run, item, spent.of(item), allowed) {
                return Some(Excess { name, item, allowed });
            }
        }
    }
    None
}

fn allowed(run: &Run, name: &str, limit: u64) -> u64 {
    run.extensions.extended.get(name).copied().unwrap_or(limit)
}

impl Run {
    /// When the time that it may take is up, if nothing happens before.
    pub(super) fn time_is_up_at(&self) -> Option<Millis> {
        let budgets = &self.workflow.limits.budgets;
        if self.status != Status::Running || self.turns.is_empty() || waits_to_ask(self) {
            return None;
        }
        let of = |name: &str, limit: Option<u64>, spent: Spent| {
            let left = allowed(self, name, limit?).saturating_sub(spent.wall_ms);
            Some(self.updated_at.plus(left))
        };
        let own = of("run.wall_time", budgets.run.wall_ms, self.spent);
        let together = self.spent.plus(self.spent_before);
        let all = of("session.wall_time", budgets.session.wall_ms, together);
        own.into_iter().chain(all).min()
    }

    /// Model calls that are begun and have not come back.
    pub fn owed_replies(&self) -> u64 {
        if self.status.is_over() {
            return 0;
        }
        self.turns.values().filter(|turn| turn.owes_reply()).count() as u64
    }
}

/// Intents are in the journal before the deed, so one too many is seen before it is done: a call, where it is decided
/// on. Later, what others of the session have tried in vain is nothing to a call that was within its bound.
fn is_over(run: &Run, item: Item, spent: u64, allowed: u64) -> bool {
    let owed = run.owed_replies();
    match item {
        Item::Steps | Item::ToolCalls => spent > allowed,
        Item::ModelCalls => spent.saturating_add(owed) > allowed && owed > 0,
        Item::Tokens => spent >= allowed && owed > 0,
        Item::WallTime => spent >= allowed && !waits_to_ask(run),
    }
}

/// A run that is asked about rests, and its work is cut off: not while a tool may be at its deed.
fn waits_to_ask(run: &Run) -> bool {
    let asks = run.workflow.limits.budgets.on_exceeded == OnExceeded::Ask;
    let mut calls = run.turns.values().flat_map(|turn| &turn.calls);
    asks && calls.any(|open| matches!(open.waits, CallWaits::Tool(_)))
}

fn amount(item: Item, allowed: u64) -> String {
    match item {
        Item::WallTime => format!("{allowed} ms"),
        Item::Steps | Item::ModelCalls | Item::Tokens | Item::ToolCalls => {
            let many = item.word().replace('_', " ");
            // One of a thing is one thing.
            let one = many.strip_suffix('s').filter(|_| allowed == 1);
            format!("{allowed} {}", one.unwrap_or(&many))
        }
    }
}

fn draft(run: &Run, excess: &Excess, amount: &str) -> Draft {
    let whose = if excess.name.starts_with("session") { "session" } else { "run" };
    let mut context = json!({"budget": excess.name, "allowed": excess.allowed, "spent": run.spent});
    if !run.spent_beside.is_nothing() {
        context["beside"] = json!(run.spent_beside);
    }
    Draft {
        step: run.turns.values().next().map(|turn| turn.step.clone()).unwrap_or_default(),
        agent: None,
        turn: None,
        origin: Origin::Budget(excess.name.clone()),
        kind: Kind::Approval,
        prompt: format!(
            "The {whose} has spent its budget of {amount}. Approve as much again, or reject to end the run."
        ),
        context,
        options: Vec::new(),
        schema: None,
        patience: Patience {
            deadline_ms: run.workflow.limits.budgets.deadline_ms,
            on_timeout: OnTimeout::Reject,
            ..Patience::default()
        },
        subject: None,
        decides: true,
        returns: false,
        editable: None,
        named: None,
    }
}
