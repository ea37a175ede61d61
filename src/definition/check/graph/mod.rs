//! Whether the steps of a graph hold together: names, expressions with their types, branches,
//! bounds. What holds becomes a program; the two are one walk, so that they never disagree.

mod human;
mod parts;
mod work;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::definition::check::Check;
use crate::definition::graph::{GraphFile, NodeFile};
use crate::definition::source::under;
use crate::kernel::expression::{Known, Type};
use crate::kernel::graph::{Program, Step, Steps};

/// What a block of steps becomes: the program's steps, what the last of them comes to, and what is
/// known after them.
pub(super) struct Block {
    pub(super) steps: Steps,
    pub(super) last: Type,
    pub(super) known: Known,
}

impl<'a> Check<'a> {
    /// The program of a graph. Where there are problems, it is not to be used.
    pub(super) fn graph(&mut self, graph: &'a GraphFile) -> Program {
        let pointer = "/graph/steps";
        if graph.steps.is_empty() {
            self.at("/graph/steps", "steps.empty", "a graph needs at least one step");
        }
        let known = self.known_at_first(graph);
        let mut ids = BTreeSet::new();
        self.unique_nodes(pointer, &graph.steps, &mut ids);
        let block = self.block(pointer, &graph.steps, &known);
        let (output, _) = self.form("/graph/output", &graph.output, &block.known);
        let program = Program { steps: block.steps, output };
        let reached = program.all();
        let reached = reached.iter().filter_map(|step| step.task.agent()).collect();
        self.unreachable(&reached, "name it in a step");
        program
    }

    fn known_at_first(&self, graph: &GraphFile) -> Known {
        let spoken = Type::object([
            ("last".to_owned(), Type::Text),
            ("author".to_owned(), Type::Text),
            ("messages".to_owned(), Type::Number),
        ]);
        let mut known = self.known_everywhere();
        known.variables.insert("conversation".into(), spoken);
        gather(&graph.steps, &mut known.elsewhere);
        known
    }

    fn unique_nodes(&mut self, pointer: &str, nodes: &'a [NodeFile], seen: &mut BTreeSet<&'a str>) {
        for (index, node) in nodes.iter().enumerate() {
            let pointer = under(pointer, index);
            if let Some(id) = node.id()
                && !seen.insert(id)
            {
                let message = format!("there is a step `{id}` already; give this one its own `id`");
                self.at(&under(&pointer, "id"), "name.duplicate", message);
            }
            for (inner, nodes) in node.blocks() {
                self.unique_nodes(&format!("{pointer}{inner}"), nodes, seen);
            }
        }
    }

    /// Steps, one after the other.
    pub(super) fn block(&mut self, pointer: &str, nodes: &'a [NodeFile], known: &Known) -> Block {
        let mut known = known.clone();
        let mut steps = Vec::with_capacity(nodes.len());
        let mut last = Type::Null;
        for (index, node) in nodes.iter().enumerate() {
            let Some((step, came)) = self.node(&under(pointer, index), node, &known) else {
                continue;
            };
            known.steps.insert(step.id.clone(), came.clone());
            last = came;
            steps.push(Arc::new(step));
        }
        Block { steps: Arc::new(steps), last, known }
    }

    fn node(&mut self, pointer: &str, node: &'a NodeFile, known: &Known) -> Option<(Step, Type)> {
        let kind = self.kind_of(pointer, node)?;
        let Some(id) = node.id() else {
            let message = "a step needs the field `id`: later steps know it as `steps.<id>`";
            self.at(pointer, "field.missing", message);
            return None;
        };
        self.name(&under(pointer, "id"), id, true);
        self.stray(pointer, node, kind);
        let skip_if = node.skip_if.as_ref();
        let skip_if =
            skip_if.and_then(|text| self.condition(&under(pointer, "skip_if"), text, known));
        let (task, came) = self.task(pointer, node, kind, known)?;
        if let Some(retry) = &node.retry {
            self.retry(&under(pointer, "retry"), retry);
        }
        self.duration(&under(pointer, "timeout"), node.timeout.as_ref());
        let gate = node.gate.as_ref();
        let gate = gate.and_then(|gate| self.phase_gate(&under(pointer, "gate"), gate, known));
        let timeout = node.timeout.as_ref();
        let step = Step {
            id: id.to_owned(),
            task,
            skip_if,
            retry: node.retry.as_ref().map(crate::definition::retry::RetryFile::compile),
            timeout_ms: timeout.and_then(|time| crate::kernel::duration_ms(&time.0)),
            critical: node.critical.unwrap_or(true),
            gate,
        };
        Some((step, came))
    }

    /// Which of the kinds of steps it is; a problem, if it is none or several.
    fn kind_of(&mut self, pointer: &str, node: &NodeFile) -> Option<&'static str> {
        let given: Vec<_> =
            node.kinds().into_iter().filter(|(_, is)| *is).map(|(name, _)| name).collect();
        match given.as_slice() {
            [one] => Some(one),
            [] if node.steps.is_some() => Some("steps"),
            [] => {
                let names: Vec<_> = node.kinds().iter().map(|(name, _)| *name).collect();
                let message = format!("a step needs one of: {}, steps", names.join(", "));
                self.at(pointer, "step.work", message);
                None
            }
            [first, second, ..] => {
                let message = format!("a step is one thing; keep `{first}` or `{second}`");
                self.at(pointer, "step.work", message);
                None
            }
        }
    }

    /// Fields that go with another kind of step.
    fn stray(&mut self, pointer: &str, node: &NodeFile, kind: &str) {
        let fields: [(&str, bool, &[&str]); 10] = [
            ("prompt", node.prompt.is_some(), &["agent"]),
            ("arguments", node.arguments.is_some(), &["tool"]),
            ("output", node.output.is_some(), &["agent", "tool"]),
            ("then", node.then.is_some(), &["if"]),
            ("else", node.otherwise.is_some(), &["if"]),
            ("cases", node.cases.is_some(), &["switch"]),
            ("default", node.default.is_some(), &["switch"]),
            ("as", node.name.is_some(), &["for_each"]),
            ("max_items", node.max_items.is_some(), &["for_each"]),
            ("concurrency", node.concurrency.is_some(), &["for_each"]),
        ];
        for (field, given, with) in fields {
            if given && !with.contains(&kind) {
                let message =
                    format!("`{field}` goes with `{}`, not with `{kind}`", with.join("` or `"));
                self.at_key(&under(pointer, field), "step.field", message);
            }
        }
        if node.steps.is_some() && !["for_each", "loop", "steps"].contains(&kind) {
            let message =
                format!("`steps` go with `for_each` or `loop`, or stand alone; not with `{kind}`");
            self.at_key(&under(pointer, "steps"), "step.field", message);
        }
    }
}

/// The ids of all steps there are.
fn gather(nodes: &[NodeFile], ids: &mut Vec<String>) {
    for node in nodes {
        ids.extend(node.id().map(str::to_owned));
        for (_, inner) in node.blocks() {
            gather(inner, ids);
        }
    }
}

impl NodeFile {
    /// Its id: its own, or its agent's or tool's name.
    pub(in crate::definition) fn id(&self) -> Option<&str> {
        self.id.as_deref().or(self.agent.as_deref()).or(self.tool.as_deref())
    }

    /// The kinds of steps there are, and which of them is given.
    fn kinds(&self) -> [(&'static str, bool); 11] {
        [
            ("agent", self.agent.is_some()),
            ("tool", self.tool.is_some()),
            ("if", self.when.is_some()),
            ("switch", self.switch.is_some()),
            ("parallel", self.parallel.is_some()),
            ("for_each", self.for_each.is_some()),
            ("loop", self.repeat.is_some()),
            ("wait", self.wait.is_some()),
            ("human", self.human.is_some()),
            ("extract", self.extract.is_some()),
            ("workflow", self.workflow.is_some()),
        ]
    }

    /// The blocks of steps within it, each with its JSON pointer.
    pub(in crate::definition) fn blocks(&self) -> Vec<(String, &[NodeFile])> {
        let mut found: Vec<(String, &[NodeFile])> = Vec::new();
        let plain = [
            ("/then", &self.then),
            ("/else", &self.otherwise),
            ("/default", &self.default),
            ("/steps", &self.steps),
        ];
        for (place, nodes) in plain {
            found.extend(nodes.as_ref().map(|nodes| (place.to_owned(), nodes.as_slice())));
        }
        for (index, case) in self.cases.iter().flatten().enumerate() {
            found.push((format!("/cases/{index}/steps"), &case.steps));
        }
        for (name, nodes) in self.parallel.iter().flatten() {
            found.push((under("/parallel", name), nodes));
        }
        found
    }

    /// Every step within it and itself.
    pub(in crate::definition) fn all(&self) -> Vec<&Self> {
        let mut found = vec![self];
        for (_, nodes) in self.blocks() {
            found.extend(nodes.iter().flat_map(Self::all));
        }
        found
    }
}

/// What a schema says, or nothing.
pub(super) fn type_of(schema: Option<&Value>, otherwise: Type) -> Type {
    schema.map_or(otherwise, Type::of_schema)
}
