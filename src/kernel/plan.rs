//! Plan: what a run owes to the world. Derived, never stored: after a crash, ask the run again.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::json;

use crate::kernel::context_window::{self, Due};
use crate::kernel::failure::Failure;
use crate::kernel::message::{Message, Speaker, ToolCall};
use crate::kernel::offer::{AgentInput, HANDOFF_PREFIX, ToolOffer, ask_offer};
use crate::kernel::pattern;
use crate::kernel::run::{Run, Status};
use crate::kernel::templates;
use crate::kernel::tool::Safety;
use crate::kernel::turn::{CallWaits, Purpose, Turn};
use crate::kernel::workflow::{Agent, Pattern, Work};

/// Work owed to the world.
#[derive(Debug, Clone, PartialEq)]
pub enum Effect {
    /// An agent's reply.
    Reply {
        /// The turn.
        turn: u32,
        /// The attempt.
        attempt: u32,
        /// Everything the agent is given.
        input: Box<AgentInput>,
    },
    /// A tool's outcome.
    CallTool {
        /// The turn.
        turn: u32,
        /// The call.
        call: ToolCall,
        /// The same for every try of this call, so that the other side can tell (E2).
        key: String,
    },
}

/// The first reply that the run owes now, without working the others out.
pub fn first_reply(run: &Run) -> Option<(u32, u32, Box<AgentInput>)> {
    if run.status != Status::Running {
        return None;
    }
    let turn = run.turns.values().find(|turn| turn.owes_reply())?;
    Some((turn.number, turn.attempt, Box::new(asked_for(run, turn)?)))
}

/// What the run owes now. A waiting or finished run owes nothing.
pub fn plan(run: &Run) -> Vec<Effect> {
    match run.status {
        Status::Running => run.turns.values().flat_map(|turn| owed_by(run, turn)).collect(),
        Status::Waiting { .. }
        | Status::Completed
        | Status::Failed(_)
        | Status::Cancelled { .. } => Vec::new(),
    }
}

fn owed_by(run: &Run, turn: &Turn) -> Vec<Effect> {
    if turn.owes_reply() {
        let input = asked_for(run, turn).map(Box::new);
        let reply = |input| Effect::Reply { turn: turn.number, attempt: turn.attempt, input };
        return input.map(reply).into_iter().collect();
    }
    let called = |open: &crate::kernel::turn::OpenCall| match open.waits {
        CallWaits::Tool(_) => Some(Effect::CallTool {
            turn: turn.number,
            call: open.call.clone(),
            key: format!("{}/{}/{}", run.id, turn.number, open.call.id),
        }),
        CallWaits::Person(_) | CallWaits::Judge(_) | CallWaits::Nobody => None,
    };
    turn.calls.iter().filter_map(called).collect()
}

/// Whether a call may be made again after a crash without asking anybody.
pub fn may_repeat(safety: Safety) -> bool {
    match safety {
        Safety::Pure | Safety::Idempotent => true,
        Safety::Unsafe => false,
    }
}

/// What the agent of `turn` is given.
pub fn input_of(run: &Run, turn: &Turn) -> Option<AgentInput> {
    let agent = run.workflow.agents.get(&turn.agent)?;
    let (mut messages, begins) = context_window::view(run, turn);
    if let Some(told) = told_for(run, turn).transpose().ok()? {
        messages.push(Arc::new(Message::text(Speaker::System, run.workflow.name.clone(), told)));
    }
    Some(AgentInput {
        agent: turn.agent.clone(),
        model: agent.model.clone(),
        instructions: templates::filled(run, &agent.instructions).ok()?.into_owned(),
        messages,
        begins,
        tools: offers(run, turn, agent),
        output: pattern::output_schema(run, turn),
        failures: turn.failures,
        key: format!("{}/{}/{}", run.id, turn.number, turn.rounds + turn.corrections),
        memo: turn.memo.clone(),
        summarises: None,
    })
}

/// What is asked for in a turn that owes a reply: the agent's own words; before them, where it would
/// be given too much, a summary.
fn asked_for(run: &Run, turn: &Turn) -> Option<AgentInput> {
    match context_window::due(run, turn) {
        Some(Due::Summary(place)) => context_window::input(run, turn, place),
        Some(Due::Refusal(_)) | None => input_of(run, turn),
    }
}

/// What the agent of `turn` is told for its step, if it is told something.
pub(super) fn told_for(run: &Run, turn: &Turn) -> Option<Result<String, Failure>> {
    let text = match (&run.workflow.pattern, turn.purpose) {
        // A graph has filled it in when the step began, a judge's was written when it was called.
        (Pattern::Graph(_), _) | (_, Purpose::Judgement) => return turn.prompt.clone().map(Ok),
        (Pattern::Coordinator { synthesis, .. }, Purpose::Synthesis) => Some(synthesis),
        (Pattern::Sequential { steps }, _) => {
            steps.iter().find(|step| step.id == turn.step).and_then(|step| match &step.work {
                Work::Agent { prompt, .. } => prompt.as_ref(),
                Work::Human(_) => None,
            })
        }
        (Pattern::Coordinator { .. } | Pattern::Handoff(_), _) => None,
    };
    text.map(|text| templates::filled(run, text).map(Cow::into_owned))
}

fn offers(run: &Run, turn: &Turn, agent: &Agent) -> Vec<ToolOffer> {
    if turn.is_judges() {
        return Vec::new();
    }
    let mut offers: Vec<_> = agent
        .tools
        .iter()
        .filter_map(|tool| {
            let known = run.workflow.tools.get(tool)?;
            Some(ToolOffer {
                name: tool.clone(),
                description: known.description.clone(),
                parameters: known.parameters.clone().unwrap_or_else(|| json!({"type": "object"})),
            })
        })
        .collect();
    for target in pattern::handoff_targets(run, &turn.agent) {
        offers.push(ToolOffer {
            name: format!("{HANDOFF_PREFIX}{target}"),
            description: format!("Hand the conversation over to {target}."),
            parameters: json!({"type": "object"}),
        });
    }
    if agent.human_input.enabled {
        offers.push(ask_offer(&run.workflow));
    }
    offers
}

/// What cannot be filled in of what the agent of `turn` is told.
pub(super) fn unfilled(run: &Run, turn: &Turn) -> Option<Failure> {
    let agent = run.workflow.agents.get(&turn.agent)?;
    if !turn.owes_reply() {
        return None;
    }
    let placed = |failure: Failure| Failure {
        message: format!("step `{}`: {}", turn.step, failure.message),
        ..failure
    };
    let instructions = templates::filled(run, &agent.instructions).err();
    instructions.or_else(|| told_for(run, turn).and_then(Result::err)).map(placed)
}
