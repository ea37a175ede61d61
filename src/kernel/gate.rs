//! Gate: which tool calls become questions, and what a person may say to one.
//!
//! A gate without conditions always asks. One with conditions asks when any of them holds; all of
//! them are rules over what is known (the call, the agent's words, the run), so the same run is
//! always judged the same. A gate can only add a question, never take one away.
//!
//! - **K4** A call that was denied, or that nobody allowed in time, has no path to being made.
//! - **K7** Only a clear yes lets a call through.

use serde_json::{Value, json};

use crate::kernel::message::{ToolCall, readable};
use crate::kernel::pattern::Draft;
use crate::kernel::question::{Kind, Origin};
use crate::kernel::run::{Run, Turn};
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

/// The question that a call becomes, if any gate stops it.
pub(super) fn question(
    run: &Run,
    turn: &Turn,
    call: &ToolCall,
    said: &str,
    now: Millis,
) -> Option<Draft> {
    let tool = run.workflow.tools.get(&call.tool)?;
    let stops: Vec<_> = run
        .workflow
        .gates
        .iter()
        .filter(|gate| concerns(gate, &call.tool, tool))
        .filter_map(|gate| Some((gate, reasons(gate, run, call, said, now)?)))
        .collect();
    let (first, _) = stops.first()?;
    let always = stops.iter().any(|(gate, _)| gate.when.is_empty());
    let shortest = stops.iter().filter_map(|(gate, _)| gate.patience.deadline_ms).min();
    let names: Vec<_> = stops.iter().map(|(gate, _)| gate.name.clone()).collect();
    let why: Vec<_> = stops.iter().flat_map(|(_, reasons)| reasons.clone()).collect();
    let asked = first.prompt.clone();
    let who = if turn.is_tools() { format!("step `{}`", turn.step) } else { turn.agent.clone() };
    Some(Draft {
        step: turn.step.clone(),
        agent: (!turn.is_tools()).then(|| turn.agent.clone()),
        turn: Some(turn.number),
        origin: Origin::Gate(Box::new(call.clone())),
        kind: Kind::ToolApproval,
        prompt: asked.unwrap_or_else(|| format!("May {who} call `{}`?", call.tool)),
        context: json!({
            "tool": call.tool,
            "arguments": call.arguments,
            "gates": names,
            "reasons": why,
        }),
        options: Vec::new(),
        schema: Some(schema(tool, !always)),
        patience: Patience { deadline_ms: shortest, ..Patience::default() },
    })
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

/// Why a gate stops a call; nothing, if it lets it through.
fn reasons(
    gate: &Gate,
    run: &Run,
    call: &ToolCall,
    said: &str,
    now: Millis,
) -> Option<Vec<String>> {
    if gate.when.is_empty() {
        return Some(vec![format!("{}: always a person", gate.name)]);
    }
    if run.grants.iter().any(|grant| grant.covers(&call.tool, now)) {
        return None;
    }
    let met: Vec<_> = gate.when.iter().filter_map(|rule| met(rule, run, call, said)).collect();
    (!met.is_empty()).then_some(met)
}

/// What a condition found, in words; nothing, if it does not hold.
fn met(condition: &Condition, run: &Run, call: &ToolCall, said: &str) -> Option<String> {
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
