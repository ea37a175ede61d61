//! Patterns: how the work goes from one to the next, one file each, all as pure functions of a run.
//!
//! A pattern is asked only when no turn is under way and no question is open; it looks at the
//! last thing that happened and says what comes next. The free graph is not asked here: it has a
//! room of its own (`graph`), because many of its steps may move at the same time.

mod coordinator;
mod handoff;
mod sequential;

use serde_json::Value;

use crate::kernel::failure::Failure;
use crate::kernel::judging;
use crate::kernel::question::Origin;
use crate::kernel::run::Run;
use crate::kernel::templates;
use crate::kernel::turn::{Purpose, Turn};
use crate::kernel::workflow::{Pattern, Workflow};

pub use crate::kernel::draft::Draft;
pub use coordinator::Directive;
pub(in crate::kernel) use sequential::author;

/// What comes next.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// An agent's turn.
    Turn {
        /// The step.
        step: String,
        /// Who.
        agent: String,
        /// Why.
        purpose: Purpose,
    },
    /// A person is asked.
    Ask(Box<Draft>),
    /// The run is over, with this result.
    Finish(Value),
    /// The run cannot go on.
    Fail(Failure),
    /// A person stopped it by taking a question back.
    Cancel {
        /// Who.
        by: String,
    },
}

/// What comes next in a run that is at rest between turns.
pub fn next(run: &Run) -> Move {
    match &run.workflow.pattern {
        Pattern::Sequential { steps } => sequential::next(run, steps),
        Pattern::Coordinator { coordinator, .. } => coordinator::next(run, coordinator),
        Pattern::Handoff(terms) => handoff::next(run, terms),
        // A graph is asked whenever one of its frames can move; it is never at rest between turns.
        Pattern::Graph(_) => {
            Move::Fail(Failure::new("graph.stuck", "nothing is left that can move"))
        }
    }
}

/// The schema an agent's reply must fit in this turn.
pub fn output_schema(run: &Run, turn: &Turn) -> Option<Value> {
    let of_agent = || run.workflow.agents.get(&turn.agent).and_then(|agent| agent.output.clone());
    match (&run.workflow.pattern, turn.purpose) {
        (_, Purpose::Judgement) => Some(judging::schema()),
        (Pattern::Coordinator { .. }, Purpose::Work) => Some(coordinator::schema()),
        (Pattern::Graph(_), _) => {
            let step = run.graph.step(&turn.step);
            step.and_then(|step| step.task.output().cloned()).or_else(of_agent)
        }
        (Pattern::Coordinator { .. }, Purpose::Synthesis)
        | (Pattern::Sequential { .. } | Pattern::Handoff(_), _) => of_agent(),
    }
}

/// Whether what an agent says is text for people, and not structured output. A step of a graph may
/// ask for a structure of its own: an agent of which any does is not taken to speak plainly.
pub fn speaks_plainly(workflow: &Workflow, agent: &str, purpose: Purpose) -> bool {
    let has_shape = || workflow.agents.get(agent).is_none_or(|agent| agent.output.is_some());
    match (&workflow.pattern, purpose) {
        (_, Purpose::Judgement) | (Pattern::Coordinator { .. }, Purpose::Work) => false,
        (Pattern::Graph(program), _) => {
            let is_shaped = program
                .all()
                .into_iter()
                .any(|step| step.task.agent() == Some(agent) && step.task.output().is_some());
            !has_shape() && !is_shaped
        }
        (Pattern::Coordinator { .. }, Purpose::Synthesis)
        | (Pattern::Sequential { .. } | Pattern::Handoff(_), _) => !has_shape(),
    }
}

/// What is wrong with a reply beyond its schema, in words for the agent.
pub fn objection(workflow: &Workflow, turn: &Turn, output: &Value) -> Option<String> {
    match (&workflow.pattern, turn.purpose) {
        (Pattern::Coordinator { coordinator, specialists, .. }, Purpose::Work) => {
            let agent = workflow.agents.get(&turn.agent);
            let may_ask = agent.is_some_and(|agent| agent.human_input.enabled);
            coordinator::objection(coordinator, specialists, may_ask, output)
        }
        (Pattern::Coordinator { .. }, Purpose::Synthesis | Purpose::Judgement)
        | (Pattern::Sequential { .. } | Pattern::Handoff(_) | Pattern::Graph(_), _) => None,
    }
}

/// What others read of a structured reply.
pub fn words_of(workflow: &Workflow, purpose: Purpose, output: &Value) -> Option<String> {
    match (&workflow.pattern, purpose) {
        (Pattern::Coordinator { .. }, Purpose::Work) => Some(Directive::read(output).summary),
        (Pattern::Coordinator { .. }, Purpose::Synthesis | Purpose::Judgement)
        | (Pattern::Sequential { .. } | Pattern::Handoff(_) | Pattern::Graph(_), _) => None,
    }
}

/// To whom an agent may hand the conversation now: what its file makes a condition, and cannot be worked out,
/// is not offered (K7).
pub fn handoff_targets<'a>(run: &'a Run, agent: &str) -> Vec<&'a str> {
    match &run.workflow.pattern {
        Pattern::Handoff(terms) => {
            let all = terms.handoffs.get(agent).map_or(&[][..], Vec::as_slice).iter();
            let when = terms.when.get(agent);
            let holds = |to: &&String| {
                let when = when.and_then(|when| when.get(*to));
                when.is_none_or(|when| templates::holds(run, when) == Ok(true))
            };
            all.filter(holds).map(String::as_str).collect()
        }
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Graph(_) => Vec::new(),
    }
}

/// Whether an answer to the user's turn ends the conversation: an empty list, or the verb `end`.
pub fn is_end(origin: &Origin, value: &Value) -> bool {
    let is_verb = value.get("verb").and_then(Value::as_str) == Some("end");
    *origin == Origin::UserTurn && (is_verb || value.as_array().is_some_and(Vec::is_empty))
}

/// The end of a run whose question nobody answered in time.
fn expired(step: &str) -> Move {
    Move::Fail(Failure::new(
        "question.expired",
        format!("nobody answered the question of step `{step}` before its deadline"),
    ))
}
