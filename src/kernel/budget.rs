//! Budget: how much a run and its session may spend, and what happens when that is spent.
//!
//! What was spent follows from the journal, so a restart refills nothing. Steps, model calls and tool
//! calls are stopped before one too many is made; tokens are known only afterwards, so the call that
//! passes the bound is the last. Time in which a run waits for people is nobody's spending.
//!
//! Runs of one session that go on at the same time spend of one budget: each is told what the others have
//! spent, and what they are about to, before it decides anything.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::kernel::event::{Event, Failure, Purpose};
use crate::kernel::message::Speaker;
use crate::kernel::pattern::Draft;
use crate::kernel::question::{Kind, OnTimeout, Origin, Question};
use crate::kernel::run::{CallWaits, Heard, Run, Status};
use crate::kernel::time::Millis;
use crate::kernel::workflow::Patience;

/// What was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Spent {
    /// Steps begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub steps: u64,
    /// Model calls that came back, with a reply or without.
    #[serde(skip_serializing_if = "is_zero")]
    pub model_calls: u64,
    /// Tokens read and written.
    #[serde(skip_serializing_if = "is_zero")]
    pub tokens: u64,
    /// Tool calls begun.
    #[serde(skip_serializing_if = "is_zero")]
    pub tool_calls: u64,
    /// Milliseconds in which the run moved.
    #[serde(skip_serializing_if = "is_zero")]
    pub wall_ms: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Spent {
    /// Whether there is nothing to store.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.each(other, u64::saturating_add)
    }

    /// The higher of each.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.each(other, u64::max)
    }

    fn each(self, other: Self, of: fn(u64, u64) -> u64) -> Self {
        Self {
            steps: of(self.steps, other.steps),
            model_calls: of(self.model_calls, other.model_calls),
            tokens: of(self.tokens, other.tokens),
            tool_calls: of(self.tool_calls, other.tool_calls),
            wall_ms: of(self.wall_ms, other.wall_ms),
        }
    }

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

/// The most that may be spent; what is not given is not bounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budget {
    /// Steps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub steps: Option<u64>,
    /// Model calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_calls: Option<u64>,
    /// Tokens, read and written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Tool calls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool_calls: Option<u64>,
    /// Milliseconds in which it moves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wall_ms: Option<u64>,
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

    /// Whether nothing is bounded.
    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// What happens when a budget is spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnExceeded {
    /// The run fails.
    #[default]
    Fail,
    /// A person is asked for as much again; silence is a no (K7).
    Ask,
}

/// The budgets of a workflow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Budgets {
    /// Of one run.
    #[serde(skip_serializing_if = "Budget::is_nothing")]
    pub run: Budget,
    /// Of all runs of a session.
    #[serde(skip_serializing_if = "Budget::is_nothing")]
    pub session: Budget,
    /// What happens when one is spent.
    pub on_exceeded: OnExceeded,
    /// How long a person has to extend it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
}

impl Budgets {
    /// Whether nothing is bounded.
    pub fn is_nothing(&self) -> bool {
        self.run.is_nothing() && self.session.is_nothing()
    }
}

/// Extensions of budgets by people, and the no of one who did not extend.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Extensions {
    /// What is allowed instead, by the budget's name: `run.tokens`.
    extended: BTreeMap<String, u64>,
    /// The budget that somebody refused to extend.
    refused: Option<String>,
    /// What the session's other runs had spent when somebody was asked last.
    beside: Spent,
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
pub(super) enum Verdict {
    Fail(Failure),
    Ask(Box<Draft>),
    /// The question is asked: the run rests until it is answered.
    Rest,
}

/// What the budgets say of a run at `now`; `calls` is whether what was decided just now is a call of a tool.
pub(super) fn verdict(run: &Run, now: Millis, calls: bool) -> Option<Verdict> {
    if let Some(name) = &run.extensions.refused {
        let message = format!("the budget `{name}` is spent, and nobody extended it");
        return Some(Verdict::Fail(Failure::new("budget.exceeded", message)));
    }
    if run.questions.values().any(|question| matches!(question.origin, Origin::Budget(_))) {
        return Some(Verdict::Rest);
    }
    if run.turns.is_empty() {
        return None;
    }
    let excess = excess(run, now, calls)?;
    let (name, amount) = (&excess.name, amount(excess.item, excess.allowed));
    match run.workflow.limits.budgets.on_exceeded {
        OnExceeded::Fail => {
            let message = format!("the budget `{name}` of {amount} is spent");
            Some(Verdict::Fail(Failure::new("budget.exceeded", message)))
        }
        OnExceeded::Ask => Some(Verdict::Ask(Box::new(draft(run, &excess, &amount)))),
    }
}

/// When the time that a run may take is up, if nothing happens before.
pub(super) fn wake_at(run: &Run) -> Option<Millis> {
    let budgets = &run.workflow.limits.budgets;
    if run.status != Status::Running || run.turns.is_empty() || waits_to_ask(run) {
        return None;
    }
    let of = |name: &str, limit: Option<u64>, spent: Spent| {
        let left = allowed(run, name, limit?).saturating_sub(spent.wall_ms);
        Some(run.updated_at.plus(left))
    };
    let own = of("run.wall_time", budgets.run.wall_ms, run.spent);
    let all = of("session.wall_time", budgets.session.wall_ms, run.spent.plus(run.spent_before));
    own.into_iter().chain(all).min()
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
