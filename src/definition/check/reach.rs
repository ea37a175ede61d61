//! Reach: where words get to a deed that nobody decides about, and where a deed does something else than
//! what was approved before it. These are warnings: such a file is right, and may be meant so.
//!
//! What a model does with what it is told is not known here; only what it is given to do it with.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::check::literal::literals;
use crate::definition::compile;
use crate::definition::file::{HumanInputFile, PatternName, WorkflowFile};
use crate::definition::graph::{Mode, NodeFile};
use crate::definition::human::HumanFile;
use crate::definition::mcp;
use crate::definition::problem::Problem;
use crate::definition::source::{Source, under};
use crate::kernel::workflow::{Gate, Safety, Tool};

/// The provider that answers from a script.
const SCRIPTED: &str = "scripted";

/// What is worth a second look in a file that is right, in the order of its lines.
pub(in crate::definition) fn warnings(source: &Source, file: &WorkflowFile) -> Vec<Problem> {
    let gates = compile::gates(file);
    let tools = mcp::tools(file).into_iter().collect();
    let mut look = Look { source, file, gates, tools, warnings: Vec::new() };
    look.ignored();
    look.agents();
    let mut way = Way::default();
    look.sequence(&mut way);
    if let Some(graph) = &file.graph {
        look.block("/graph/steps", &graph.steps, &mut way);
    }
    look.warnings.extend(literals(source, file));
    look.warnings.sort_by_key(|problem| (problem.line, problem.column));
    look.warnings.dedup();
    look.warnings
}

/// What has happened on the way to a step.
#[derive(Debug, Clone, Default)]
struct Way {
    /// Steps whose words nobody has decided about since.
    words: BTreeSet<String>,
    /// Steps at which somebody has approved something.
    approved: BTreeSet<String>,
    /// What an item is called that comes of what was approved at a step.
    items: BTreeSet<(String, String)>,
}

impl Way {
    /// Notes what the items of a list are called, where it is what was approved.
    fn name_items(&mut self, node: &NodeFile) {
        let Some(list) = &node.for_each else { return };
        let name = node.name.as_deref().unwrap_or("item");
        // Within it the name is this list's, whatever it was outside.
        self.items.retain(|(known, _)| known != name);
        let inner: Vec<_> = self.approved.iter().filter(|step| has_subject(list, step)).collect();
        self.items.extend(inner.into_iter().map(|step| (name.to_owned(), step.clone())));
    }

    /// Two ways that come together: what is open on one of them is open.
    fn join(&mut self, other: Self) {
        self.words.extend(other.words);
        self.approved.extend(other.approved);
        self.items.extend(other.items);
    }
}

struct Look<'a> {
    source: &'a Source,
    file: &'a WorkflowFile,
    gates: Vec<Gate>,
    tools: Vec<(String, Tool)>,
    warnings: Vec<Problem>,
}

impl Look<'_> {
    /// Whether a tool does something in the world and no gate is bound to it.
    fn is_unguarded(&self, tool: &str) -> bool {
        let name = mcp::name(self.file, tool);
        let known = self.tools.iter().find(|(known, _)| *known == name);
        let Some((_, known)) = known else { return false };
        let is_bound = |gate: &Gate| {
            gate.tools.contains(&name) || gate.tags.iter().any(|tag| known.tags.contains(tag))
        };
        known.safety != Safety::Pure && !self.gates.iter().any(is_bound)
    }

    /// The first tool of an agent that does something and that no gate stops.
    fn unguarded_of(&self, agent: &str) -> Option<(usize, &str)> {
        let tools = self.file.agents.get(agent)?.tools.iter().enumerate();
        tools.map(|(at, tool)| (at, tool.as_str())).find(|(_, tool)| self.is_unguarded(tool))
    }

    /// Settings that a scripted model has no use for: they belong to the model that it stands in for, or are mistaken.
    fn ignored(&mut self) {
        let models = self.source.value["models"].as_object().into_iter().flatten();
        for (name, model) in models.filter(|(_, model)| model["provider"] == SCRIPTED) {
            let known = ["provider", "script"];
            let unused = model.as_object().into_iter().flatten().map(|(field, _)| field.as_str());
            for field in unused.filter(|field| !known.contains(field)) {
                let pointer = under(&under("/models", name), field);
                let message = format!(
                    "a scripted model says what its script says: `{field}` changes nothing of it"
                );
                let hint = "take it away, or name the provider that it is meant for";
                self.warnings.push(self.source.at(&pointer, "model.ignored", message).hint(hint));
            }
        }
    }

    fn words_reach(&mut self, pointer: &str, tool: &str, from: &str) {
        let message = format!(
            "{from} reaches `{tool}`, which does something, and nobody decides in between: words are no \
             permission"
        );
        let hint = "bind a gate to the tool, put an approval before it, or say `decides: true` at the \
                    question (`decides: false`, if words are meant to be enough)";
        self.warnings.push(self.source.at(pointer, "consent.words", message).hint(hint));
    }

    /// Agents that ask a person, or are told what one says, and can do something on the strength of it.
    fn agents(&mut self) {
        let is_talk = self.file.pattern == PatternName::Handoff;
        for (name, agent) in &self.file.agents {
            let asks = !matches!(agent.human_input, HumanInputFile::Switch(false));
            let Some((at, tool)) = self.unguarded_of(name).filter(|_| is_talk || asks) else {
                continue;
            };
            let tool = tool.to_owned();
            let pointer = under(&under(&under("/agents", name), "tools"), at);
            let from = if is_talk {
                "what the user says in their turn".to_owned()
            } else {
                format!("what a person answers `{name}` (`human_input`)")
            };
            self.words_reach(&pointer, &tool, &from);
        }
    }

    /// The name of what is to be decided, where what has that name is meant: people would decide about the name.
    fn shown_itself(&mut self, pointer: &str, human: &HumanFile) {
        let Some(text) = human.show.as_str() else { return };
        let mut parts = text.trim().split('.');
        let is_name = |part: &str| {
            !part.is_empty() && part.chars().all(|it| it.is_alphanumeric() || "_-[]".contains(it))
        };
        if matches!(parts.next(), Some("steps" | "input"))
            && text.contains('.')
            && parts.all(is_name)
        {
            let message =
                format!("`{text}` is shown as it stands here, and not what has that name");
            let hint = format!("write `${{{}}}`", text.trim());
            let at = under(&under(pointer, "human"), "show");
            self.warnings.push(self.source.at(&at, "consent.name", message).hint(hint));
        }
    }

    fn sequence(&mut self, way: &mut Way) {
        for (index, step) in self.file.steps.iter().flatten().enumerate() {
            let pointer = under("/steps", index);
            if let Some(human) = &step.human {
                self.shown_itself(&pointer, human);
                asked(human, step.id().unwrap_or_default(), way);
            } else if let Some(agent) = &step.agent {
                self.agents_turn(&under(&pointer, "agent"), agent, way);
            }
        }
    }

    fn agents_turn(&mut self, pointer: &str, agent: &str, way: &Way) {
        let tool = self.unguarded_of(agent).map(|(_, tool)| tool.to_owned());
        if let (Some(tool), Some(step)) = (tool, way.words.first()) {
            let from = format!("the answer to step `{step}`");
            self.words_reach(pointer, &tool, &from);
        }
    }

    /// Steps, one after the other.
    fn block(&mut self, pointer: &str, nodes: &[NodeFile], way: &mut Way) {
        for (index, node) in nodes.iter().enumerate() {
            self.node(&under(pointer, index), node, way);
        }
    }

    fn node(&mut self, pointer: &str, node: &NodeFile, way: &mut Way) {
        let modes = node.gate.as_ref().map(|gate| gate.mode.all()).unwrap_or_default();
        let has = |wanted: &[Mode]| modes.iter().any(|mode| wanted.contains(mode));
        if has(&[Mode::BeforeStep, Mode::Both]) {
            way.words.clear();
        }
        let is_gated = has(&[Mode::BeforeStep, Mode::Both]);
        if let Some(human) = &node.human {
            self.shown_itself(pointer, human);
            asked(human, node.id().unwrap_or_default(), way);
        } else if let Some(agent) = &node.agent {
            self.agents_turn(&under(pointer, "agent"), agent, way);
        } else if let Some(tool) = node.tool.as_deref().filter(|_| !is_gated) {
            self.tools_call(pointer, (node, tool), way);
        }
        self.inner(pointer, node, way);
        if has(&[Mode::AfterStep, Mode::Both, Mode::PlanReview]) {
            way.words.clear();
        }
    }

    /// What is done within a step: each of its ways from where it begins, and what is open on any of them.
    fn inner(&mut self, pointer: &str, node: &NodeFile, way: &mut Way) {
        let blocks = node.blocks();
        if blocks.is_empty() {
            return;
        }
        // A choice without an `else` may pass all of them by; so may a list without items.
        let may_pass = node.repeat.is_none()
            && (node.for_each.is_some()
                || node.when.is_some() && node.otherwise.is_none()
                || node.skip_if.is_some());
        let mut after = if may_pass { way.clone() } else { Way::default() };
        for (place, nodes) in blocks {
            let mut branch = way.clone();
            branch.name_items(node);
            self.block(&format!("{pointer}{place}"), nodes, &mut branch);
            if node.repeat.is_some() || node.for_each.is_some() {
                // Another round begins with what the one before has left; another item with what was approved of the
                // list, and with nothing that was approved of the item before it.
                if node.for_each.is_some() {
                    branch.approved.clone_from(&way.approved);
                }
                self.block(&format!("{pointer}{place}"), nodes, &mut branch);
            }
            branch.items.clone_from(&way.items);
            after.join(branch);
        }
        *way = after;
    }

    fn tools_call(&mut self, pointer: &str, (node, tool): (&NodeFile, &str), way: &Way) {
        if !self.is_unguarded(tool) {
            return;
        }
        let at = under(pointer, "tool");
        if let Some(step) = way.words.first() {
            let from = format!("the answer to step `{step}`");
            self.words_reach(&at, tool, &from);
        }
        let arguments = Value::Object(node.arguments.clone().unwrap_or_default()).to_string();
        let uses = |step: &String| {
            let is_item = |(name, of): &(String, String)| of == step && names(&arguments, name);
            has_subject(&arguments, step) || way.items.iter().any(is_item)
        };
        let Some(step) = way.approved.first().filter(|_| !way.approved.iter().any(uses)) else {
            return;
        };
        // What the file says itself is the same whatever was shown.
        if !arguments.contains("${") {
            return;
        }
        let message = format!(
            "`{tool}` follows what was approved at step `{step}`, and does not use it: something else may \
             be done than what was shown"
        );
        let hint = format!(
            "give it `${{steps.{step}.subject}}`, or bind a gate to the tool, which shows the call itself"
        );
        self.warnings.push(self.source.at(&at, "consent.subject", message).hint(hint));
    }
}

/// Whether a text with expressions uses what was approved at a step.
fn has_subject(text: &str, step: &str) -> bool {
    text.contains(&format!("steps.{step}.subject"))
}

/// Whether it uses something of that name.
fn names(text: &str, name: &str) -> bool {
    let is_part = |char: char| char.is_alphanumeric() || char == '_' || char == '.';
    let inner = text.split("${").skip(1).filter_map(|rest| rest.split('}').next());
    let mut used = inner.flat_map(|expression| expression.split(|char| !is_part(char)));
    used.any(|word| word.split('.').next() == Some(name))
}

/// What a person is asked at a step, as far as the way from there depends on it.
fn asked(human: &HumanFile, step: &str, way: &mut Way) {
    if human.decides() {
        way.words.clear();
        if !human.kind.kind().may_pass_by_silence() {
            way.approved.insert(step.to_owned());
        }
    } else if human.decides.is_none() {
        way.words.insert(step.to_owned());
    }
}
