//! What a gate is bound to beside tools, and conditions that can never be met, or always are.

use serde_json::Value;

use crate::definition::check::Check;
use crate::definition::conditions::{ConditionFile, FullConditionFile, UncertainFile};
use crate::definition::file::PatternName;
use crate::definition::gates::{AnyOr, GateFile};
use crate::definition::source::under;
use crate::kernel::workflow::Doubt;

impl Check<'_> {
    /// Every agent and step that a gate is bound to is there.
    pub(super) fn bindings(&mut self, pointer: &str, gate: &GateFile) {
        if let Some(AnyOr::List(pairs)) = &gate.handoffs {
            for (index, pair) in pairs.iter().enumerate() {
                let at = under(&under(pointer, "handoffs"), index);
                for (field, name) in [("from", &pair.from), ("to", &pair.to)] {
                    if let Some(name) = name {
                        self.known_agent(&under(&at, field), name);
                    }
                }
            }
        }
        let has_handoffs =
            matches!(self.file.pattern, PatternName::Handoff | PatternName::Coordinator);
        if gate.handoffs.is_some() && !has_handoffs {
            let message = "only `pattern: handoff`, and `pattern: coordinator` by `next_agent`, pass the conversation on; \
                           this gate would never ask";
            self.at_key(&under(pointer, "handoffs"), "condition.never", message);
        }
        if let Some(AnyOr::List(agents)) = &gate.replies {
            for (index, name) in agents.iter().enumerate() {
                self.known_agent(&under(&under(pointer, "replies"), index), name);
            }
        }
        self.bound_steps(pointer, gate);
    }

    fn bound_steps(&mut self, pointer: &str, gate: &GateFile) {
        let at = under(pointer, "steps");
        let is_graph = match self.file.pattern {
            PatternName::Graph
            | PatternName::Concurrent
            | PatternName::GroupChat
            | PatternName::PlanExecute => true,
            PatternName::Sequential | PatternName::Coordinator | PatternName::Handoff => false,
        };
        if !gate.steps.is_empty() && !is_graph {
            let message = "only the steps of a graph are looked at; bind the gate to `replies`";
            self.at_key(&at, "condition.never", message);
        } else if self.file.pattern == PatternName::Graph {
            let ids = self.graph_ids();
            for (index, step) in gate.steps.iter().enumerate() {
                self.known(&under(&at, index), ("step", "step.unknown"), step, ids.iter());
            }
        }
        if !gate.at.is_empty() && gate.steps.is_empty() {
            let message = "`at` says where `steps` are looked at, and there are none";
            self.at_key(&under(pointer, "at"), "gate.contradiction", message);
        }
        if !gate.steps.is_empty() && gate.judges().next().is_some() {
            let message = "no judge looks at a step; bind the judge's gate to `tools`, `handoffs` or \
                           `replies`";
            self.at_key(&under(pointer, "when"), "gate.contradiction", message);
        }
    }

    /// The ids of all steps of a graph, at whatever depth.
    fn graph_ids(&self) -> Vec<String> {
        let mut left: Vec<_> = self.file.graph.iter().map(|graph| graph.steps.as_slice()).collect();
        let mut ids = Vec::new();
        while let Some(nodes) = left.pop() {
            for node in nodes {
                left.extend(node.blocks().into_iter().map(|(_, nodes)| nodes));
                let id = node.id.as_ref().or(node.agent.as_ref()).or(node.tool.as_ref());
                ids.extend(id.cloned());
            }
        }
        ids
    }

    /// A condition that can never be met, or always is, is not what anybody meant.
    pub(super) fn conditions(&mut self, pointer: &str, gate: &GateFile) {
        for (index, condition) in gate.when.iter().enumerate() {
            let at = under(&under(pointer, "when"), index);
            let ConditionFile::Full(full) = condition else { continue };
            let found = match full {
                FullConditionFile::Argument { pointer, over } => {
                    self.argument(gate, pointer, *over)
                }
                FullConditionFile::Keywords(_)
                | FullConditionFile::Environment(_)
                | FullConditionFile::Uncertain(_)
                | FullConditionFile::Complex(_)
                | FullConditionFile::FailuresOver(_)
                | FullConditionFile::Judge(_) => condition_problem(full),
            };
            if let Some((code, message)) = found {
                self.at(&at, code, message);
            }
        }
    }

    /// Whether the schemas of all tools of a gate settle a bound on an argument beforehand.
    fn argument(
        &self,
        gate: &GateFile,
        pointer: &str,
        over: f64,
    ) -> Option<(&'static str, String)> {
        if gate.looks_elsewhere() || !gate.tags.is_empty() || gate.tools.is_empty() {
            return None;
        }
        let mut verdicts = Vec::new();
        for tool in &gate.tools {
            let schema = self.file.tools.get(tool)?.parameters.as_ref()?;
            verdicts.push(settled(schema, pointer, over)?);
        }
        let first = *verdicts.first()?;
        let message = if first == "condition.never" {
            format!("the schema of every tool keeps `{pointer}` at {over} or below")
        } else {
            format!("by the schema of every tool `{pointer}` is over {over}, or no number")
        };
        verdicts.iter().all(|verdict| *verdict == first).then_some((first, message))
    }
}

/// Why a condition can never be met, or always is, whatever it is bound to.
pub(in crate::definition) fn condition_problem(
    condition: &FullConditionFile,
) -> Option<(&'static str, String)> {
    match condition {
        FullConditionFile::Keywords(words) | FullConditionFile::Environment(words) => {
            let empty = words.is_empty() || words.iter().any(|word| word.trim().is_empty());
            empty.then_some(("condition.always", "a word of nothing is in everything".into()))
        }
        FullConditionFile::Uncertain(terms) => uncertain(terms),
        FullConditionFile::Complex(terms) => {
            let is_bare = [terms.options, terms.steps, terms.amounts] == [None; 3];
            let message = "expected the most `options`, `steps` or `amounts`";
            is_bare.then_some(("condition.never", message.into()))
        }
        FullConditionFile::Argument { .. }
        | FullConditionFile::FailuresOver(_)
        | FullConditionFile::Judge(_) => None,
    }
}

/// What a schema says of a bound on one of its numbers, if it settles it.
fn settled(schema: &Value, pointer: &str, over: f64) -> Option<&'static str> {
    let mut at = schema;
    for name in pointer.split('/').skip(1) {
        let next = at.pointer("/properties").and_then(|fields| fields.get(name));
        let Some(next) = next else {
            let is_closed = at.get("additionalProperties") == Some(&Value::Bool(false));
            return is_closed.then_some("condition.always");
        };
        at = next;
    }
    let number = |name: &str| at.get(name).and_then(Value::as_f64);
    if number("maximum").is_some_and(|most| most <= over) {
        // It must also be there: what is missing is met.
        let parent = pointer.rsplit_once('/').map(|(parent, name)| (parent.is_empty(), name));
        let required = schema.get("required").and_then(Value::as_array);
        let is_required = parent.is_some_and(|(is_top, name)| {
            is_top && required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
        });
        return is_required.then_some("condition.never");
    }
    let is_text = at
        .get("type")
        .and_then(Value::as_str)
        .is_some_and(|kind| !["number", "integer"].contains(&kind));
    (is_text || number("minimum").is_some_and(|least| least > over)).then_some("condition.always")
}

fn uncertain(terms: &UncertainFile) -> Option<(&'static str, String)> {
    if terms.phrases.iter().any(|phrase| phrase.trim().is_empty()) {
        return Some(("condition.always", "a phrase of nothing is in everything".into()));
    }
    let known: Vec<&str> = Doubt::languages().collect();
    if let Some(other) = terms.languages.iter().find(|one| !known.contains(&one.as_str())) {
        let message = format!(
            "no phrases of `{other}` are known: there is {}; give `phrases` of your own",
            known.join(", ")
        );
        return Some(("condition.never", message));
    }
    match terms.confidence_under {
        Some(least) if least <= 0.0 => Some((
            "condition.never",
            "no confidence is under 0; expected more, and at most 1".into(),
        )),
        Some(least) if least > 1.0 => {
            Some(("condition.always", "every confidence is under that; expected at most 1".into()))
        }
        Some(_) | None => None,
    }
}
