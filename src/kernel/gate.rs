//! Gate: which tool calls become questions, and what a person may say to one.
//!
//! A gate without conditions always asks. One with conditions asks when any of them holds. Rules
//! over what is known (the call, the agent's words, the run) come first; where none of them holds,
//! a judging agent may be asked. A gate can only add a question, never take one away.
//!
//! - **K4** A call that was denied, or that nobody allowed in time, has no path to being made.
//! - **K7** Only a clear yes lets a call through.

use serde_json::{Value, json};

use crate::kernel::event::Event;
use crate::kernel::judging::{self, Judge};
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::pattern::Draft;
use crate::kernel::question::{Kind, Origin};
use crate::kernel::reply;
use crate::kernel::run::{Judgement, Run, Turn};
use crate::kernel::time::Millis;
use crate::kernel::workflow::{Condition, Gate, Patience, Tool};

/// Words that say that the speaker does not know.
const DOUBTS: [&str; 8] =
    ["not sure", "unsure", "uncertain", "not certain", "maybe", "perhaps", "i guess", "might be"];

/// What a person may say to a call that waits at a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Ruling {
    /// Make it, this once.
    AllowOnce,
    /// Make it, and others of the same tool in this run.
    AllowForRun,
    /// Make it with these arguments.
    Edit(Value),
    /// Do not make it.
    Deny,
}

/// What an accepted answer rules. Whatever is not clearly a yes is a no.
pub(super) fn ruling(value: &Value) -> Ruling {
    match (value.get("decision").and_then(Value::as_str), value.get("arguments")) {
        (Some("allow_once"), _) => Ruling::AllowOnce,
        (Some("allow_for_run"), _) => Ruling::AllowForRun,
        (Some("edit"), Some(arguments)) => Ruling::Edit(arguments.clone()),
        (Some(_) | None, _) => Ruling::Deny,
    }
}

/// A call on its way to being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) turn: &'a Turn,
    pub(super) call: &'a ToolCall,
    /// What the agent says with it.
    pub(super) said: &'a str,
    /// What judges have said of it so far.
    pub(super) judged: &'a [Judgement],
}

/// The numbers that the next question and the next turn have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub(super) question: usize,
    pub(super) turn: u32,
}

impl Next {
    /// What comes next in a run.
    pub(super) fn of(run: &Run) -> Self {
        Self { question: run.endings.len() + 1, turn: run.turns_taken + 1 }
    }

    /// What comes after that event.
    pub(super) fn after(self, event: &Event) -> Self {
        let begins = matches!(event, Event::StepStarted { attempt: 1, .. });
        Self {
            question: self.question + usize::from(matches!(event, Event::Asked(_))),
            turn: self.turn + u32::from(begins),
        }
    }
}

/// What becomes of a call now: the intent to make it, the question whether it may be made, or the
/// turn of somebody who says whether that must be asked (E2, K4).
pub(super) fn passed(run: &Run, wish: Wish<'_>, next: Next, now: Millis) -> Event {
    let (turn, call) = (wish.turn, wish.call);
    let tool = run.workflow.tools.get(&call.tool);
    if let Some(tool) = tool {
        let gates: Vec<&Gate> = run
            .workflow
            .gates
            .iter()
            .filter(|gate| concerns(gate, &call.tool, tool) && !is_granted(gate, run, call, now))
            .collect();
        if let Some(draft) = question(run, wish, tool, &gates) {
            return Event::Asked(Box::new(reply::ask(draft, next.question, now)));
        }
        if let Some(judge) = gates.iter().find_map(|gate| unheard(gate, wish.judged)) {
            return judging::begins(judge, wish, next.turn, now);
        }
    }
    let safety = tool.map(|tool| tool.safety).unwrap_or_default();
    Event::ToolCalled { turn: turn.number, call: call.clone(), safety }
}

/// The first judge of a gate that has not spoken yet.
fn unheard<'a>(gate: &'a Gate, judged: &[Judgement]) -> Option<Judge<'a>> {
    gate.when.iter().find_map(|condition| {
        let Condition::Judge { agent, within_ms } = condition else { return None };
        let is_heard = judged.iter().any(|known| known.agent == *agent);
        (!is_heard).then_some(Judge { gate: &gate.name, agent, within_ms: *within_ms })
    })
}

/// The question that a call becomes, if any gate stops it.
fn question(run: &Run, wish: Wish<'_>, tool: &Tool, gates: &[&Gate]) -> Option<Draft> {
    let (turn, call) = (wish.turn, wish.call);
    let stops: Vec<_> =
        gates.iter().filter_map(|gate| Some((gate, reasons(gate, run, wish)?))).collect();
    let (first, _) = stops.first()?;
    let always = stops.iter().any(|(gate, _)| gate.when.is_empty());
    let names: Vec<_> = stops.iter().map(|(gate, _)| gate.name.clone()).collect();
    let why: Vec<_> = stops.iter().flat_map(|(_, reasons)| reasons.clone()).collect();
    let asked = first.prompt.clone();
    let who = if turn.is_tools() { format!("step `{}`", turn.step) } else { turn.agent.clone() };
    let mut context = json!({
        "tool": call.tool,
        "arguments": call.arguments,
        "gates": names,
        "reasons": why,
    });
    if !wish.judged.is_empty() {
        let verdict =
            |one: &Judgement| json!({"judge": one.agent, "ask": one.ask, "reason": one.reason});
        context["verdicts"] = wish.judged.iter().map(verdict).collect();
    }
    Some(Draft {
        step: turn.step.clone(),
        agent: (!turn.is_tools()).then(|| turn.agent.clone()),
        turn: Some(turn.number),
        origin: Origin::Gate(Box::new(call.clone())),
        kind: Kind::ToolApproval,
        prompt: asked.unwrap_or_else(|| format!("May {who} call `{}`?", call.tool)),
        context,
        options: Vec::new(),
        schema: Some(schema(tool, !always)),
        patience: strictest(stops.iter().map(|(gate, _)| &gate.patience)),
    })
}

/// The terms of several gates as one: the shortest deadline with what silence means there, the most
/// frequent reminder, everybody to whom any of them is addressed.
fn strictest<'a>(all: impl Iterator<Item = &'a Patience> + Clone) -> Patience {
    let timed = all.clone().filter(|patience| patience.deadline_ms.is_some());
    let first = timed.min_by_key(|patience| patience.deadline_ms);
    let mut to: Vec<String> = Vec::new();
    for name in all.clone().flat_map(|patience| &patience.to) {
        if !to.contains(name) {
            to.push(name.clone());
        }
    }
    Patience {
        deadline_ms: first.and_then(|patience| patience.deadline_ms),
        on_timeout: first.map(|patience| patience.on_timeout.clone()).unwrap_or_default(),
        remind_ms: all.filter_map(|patience| patience.remind_ms).min(),
        to,
    }
}

/// How long a tool is allowed that is allowed now: as long as the strictest of its gates says.
pub(super) fn allowed_until(run: &Run, name: &str) -> Option<Millis> {
    let tool = run.workflow.tools.get(name)?;
    let gates = run.workflow.gates.iter().filter(|gate| concerns(gate, name, tool));
    gates.filter_map(|gate| gate.allow_ms).min().map(|ms| run.updated_at.plus(ms))
}

fn concerns(gate: &Gate, name: &str, tool: &Tool) -> bool {
    gate.tools.iter().any(|known| known == name)
        || gate.tags.iter().any(|tag| tool.tags.contains(tag))
}

/// Whether a person allowed the call beforehand; a gate that always asks cannot be passed so.
fn is_granted(gate: &Gate, run: &Run, call: &ToolCall, now: Millis) -> bool {
    !gate.when.is_empty() && run.grants.iter().any(|grant| grant.covers(&call.tool, now))
}

/// Why a gate stops a call; nothing, if it lets it through.
fn reasons(gate: &Gate, run: &Run, wish: Wish<'_>) -> Option<Vec<String>> {
    if gate.when.is_empty() {
        return Some(vec![format!("{}: always a person", gate.name)]);
    }
    let met: Vec<_> = gate.when.iter().filter_map(|rule| met(rule, run, wish)).collect();
    (!met.is_empty()).then_some(met)
}

/// What a condition found, in words; nothing, if it does not hold.
fn met(condition: &Condition, run: &Run, wish: Wish<'_>) -> Option<String> {
    let Wish { turn, call, said, judged } = wish;
    let words = format!("{} {} {said}", call.tool, readable(&call.arguments)).to_lowercase();
    match condition {
        Condition::Keywords(list) => {
            let found = list.iter().find(|word| words.contains(&word.to_lowercase()))?;
            Some(format!("high-risk word `{found}`"))
        }
        Condition::Environment(list) => {
            let here = run.metadata.get("environment")?;
            let found = list.iter().find(|name| name.eq_ignore_ascii_case(here))?;
            Some(format!("environment `{found}`"))
        }
        Condition::Uncertain => {
            let found = DOUBTS.iter().find(|doubt| said.to_lowercase().contains(*doubt))?;
            Some(format!("the agent says `{found}`"))
        }
        Condition::FailuresOver(most) => {
            (run.failed_calls > *most).then(|| format!("{} calls have failed", run.failed_calls))
        }
        Condition::Argument { pointer, over } => {
            match call.arguments.pointer(pointer).map(Value::as_f64) {
                Some(Some(number)) if number <= *over => None,
                Some(Some(number)) => Some(format!("`{pointer}` is {number}, over {over}")),
                // Nothing there, or no number: that is not a small number.
                Some(None) | None => Some(format!("`{pointer}` is no number")),
            }
        }
        // K7: where there is no judge but the one whose call it is, a person is asked.
        Condition::Judge { agent, .. } if !run.workflow.agents.contains_key(agent) => {
            Some(format!("there is no judge `{agent}`"))
        }
        Condition::Judge { agent, .. } if *agent == turn.agent => {
            Some(format!("`{agent}` cannot judge its own call"))
        }
        Condition::Judge { agent, .. } => {
            let said = judged.iter().find(|known| known.agent == *agent && known.ask)?;
            Some(format!("judge `{agent}`: {}", said.reason))
        }
    }
}

/// The schema of an answer; a gate that always asks cannot be passed for the rest of the run.
fn schema(tool: &Tool, may_allow_for_run: bool) -> Value {
    let mut decisions = vec!["allow_once", "deny", "edit"];
    if may_allow_for_run {
        decisions.push("allow_for_run");
    }
    let arguments = tool.parameters.clone().unwrap_or_else(|| json!({"type": "object"}));
    json!({
        "type": "object",
        "properties": {
            "decision": {"enum": decisions},
            "arguments": arguments,
            "note": {"type": "string"},
        },
        "required": ["decision"],
        "additionalProperties": false,
        "if": {"properties": {"decision": {"const": "edit"}}},
        "then": {"required": ["decision", "arguments"]},
    })
}

/// What a person's no tells the agent.
pub(super) fn denial(value: &Value, by: &str) -> Value {
    let note = value.get("note").map(readable).unwrap_or_default();
    let because = if note.is_empty() { String::new() } else { format!(": {note}") };
    Value::String(format!("Denied by {by}{because}. Do not do it."))
}
