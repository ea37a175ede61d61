//! What a graph's step does, kind by kind, and what it comes to.

use std::sync::Arc;

use serde_json::Value;

use crate::definition::check::Check;
use crate::definition::check::graph::type_of;
use crate::definition::graph::{LoopFile, NodeFile, SubFile, WaitFile};
use crate::definition::mcp;
use crate::definition::source::under;
use crate::definition::sub;
use crate::kernel::duration_ms;
use crate::kernel::expression::{Form, Known, Type};
use crate::kernel::graph::{Branch, Case, ITEMS_DEFAULT, Task};
use crate::kernel::has_variables;

type Found = Option<(Task, Type)>;

impl<'a> Check<'a> {
    /// What a step does, and what it comes to.
    pub(super) fn task(
        &mut self,
        pointer: &str,
        node: &'a NodeFile,
        kind: &str,
        known: &Known,
    ) -> Found {
        match kind {
            "agent" => self.agents_turn(pointer, node, known),
            "tool" => self.tools_call(pointer, node, known),
            "if" => self.either(pointer, node, known),
            "switch" => self.switch(pointer, node, known),
            "parallel" => self.parallel(pointer, node, known),
            "for_each" => self.for_each(pointer, node, known),
            "loop" => Some(self.repeat(pointer, node, node.repeat.as_ref()?, known)),
            "wait" => Some(self.wait(&under(pointer, "wait"), node.wait.as_ref()?, known)),
            "human" => {
                self.cannot_be_let_go(pointer, node);
                self.asked_human(&under(pointer, "human"), node.human.as_ref()?, known)
            }
            "extract" => {
                let values = Value::Object(node.extract.clone()?);
                let (values, came) = self.form(&under(pointer, "extract"), &values, known);
                Some((Task::Extract { values }, came))
            }
            "workflow" => {
                self.other_workflow(&under(pointer, "workflow"), node.workflow.as_ref()?, known)
            }
            _ => {
                let nodes = node.steps.as_deref()?;
                let block = self.block(&under(pointer, "steps"), nodes, known);
                Some((Task::Group { steps: block.steps }, block.last))
            }
        }
    }

    fn agents_turn(&mut self, pointer: &str, node: &NodeFile, known: &Known) -> Found {
        let agent = node.agent.clone()?;
        self.known_agent(&under(pointer, "agent"), &agent);
        self.schema(&under(pointer, "output"), node.output.as_ref());
        let prompt = node.prompt.as_ref();
        let prompt = prompt.and_then(|text| self.template(&under(pointer, "prompt"), text, known));
        let own = self.file.agents.get(&agent).and_then(|agent| agent.output.as_ref());
        let came = type_of(node.output.as_ref().or(own), Type::Text);
        Some((Task::Agent { agent, prompt, output: node.output.clone() }, came))
    }

    fn tools_call(&mut self, pointer: &str, node: &NodeFile, known: &Known) -> Found {
        let tool = node.tool.clone()?;
        self.known_tool(&under(pointer, "tool"), &tool);
        self.schema(&under(pointer, "output"), node.output.as_ref());
        let arguments = Value::Object(node.arguments.clone().unwrap_or_default());
        let (arguments, _) = self.form(&under(pointer, "arguments"), &arguments, known);
        let came = type_of(node.output.as_ref(), Type::Any);
        let tool = mcp::name(self.file, &tool);
        Some((Task::Tool { tool, arguments, output: node.output.clone() }, came))
    }

    fn either(&mut self, pointer: &str, node: &'a NodeFile, known: &Known) -> Found {
        let when = self.condition(&under(pointer, "if"), node.when.as_ref()?, known);
        if node.then.is_none() && node.otherwise.is_none() {
            self.at_key(pointer, "step.work", "a condition needs `then`, `else` or both");
        }
        let then = node.then.as_deref().unwrap_or_default();
        let then = self.block(&under(pointer, "then"), then, known);
        let otherwise = node.otherwise.as_deref().unwrap_or_default();
        let otherwise = self.block(&under(pointer, "else"), otherwise, known);
        let came = then.last.or(&otherwise.last);
        Some((Task::If { when: when?, then: then.steps, otherwise: otherwise.steps }, came))
    }

    fn switch(&mut self, pointer: &str, node: &'a NodeFile, known: &Known) -> Found {
        let on = self.expression(&under(pointer, "switch"), node.switch.as_ref()?, known);
        let at = under(pointer, "cases");
        let given = node.cases.as_deref().unwrap_or_default();
        if given.is_empty() {
            self.at_key(pointer, "step.work", "a switch needs `cases`: a value and its steps each");
        }
        let mut came: Option<Type> = None;
        let mut cases: Vec<Case> = Vec::new();
        for (index, case) in given.iter().enumerate() {
            let at = under(&at, index);
            if cases.iter().any(|before| before.is == case.is) {
                let message =
                    format!("there is a case `{}` already; this one is never met", case.is);
                self.at(&under(&at, "is"), "switch.unreachable", message);
            }
            if let Some((_, decides)) = &on
                && *decides != Type::Any
                && std::mem::discriminant(decides) != std::mem::discriminant(&Type::of(&case.is))
            {
                let message =
                    format!("`{}` is never met: the switch is on {}", case.is, decides.word());
                self.at(&under(&at, "is"), "switch.unreachable", message);
            }
            let block = self.block(&under(&at, "steps"), &case.steps, known);
            came = Some(came.map_or_else(|| block.last.clone(), |one| one.or(&block.last)));
            cases.push(Case { is: case.is.clone(), steps: block.steps });
        }
        let otherwise = node.default.as_deref().map(|nodes| {
            let block = self.block(&under(pointer, "default"), nodes, known);
            came = Some(came.take().map_or_else(|| block.last.clone(), |one| one.or(&block.last)));
            block.steps
        });
        Some((Task::Switch { on: on?.0, cases, otherwise }, came.unwrap_or(Type::Any)))
    }

    fn parallel(&mut self, pointer: &str, node: &'a NodeFile, known: &Known) -> Found {
        let at = under(pointer, "parallel");
        let given = node.parallel.as_ref()?;
        if given.is_empty() {
            self.at_key(&at, "step.work", "`parallel` needs branches, by name");
        }
        self.names(&at, given);
        let (mut branches, mut fields) = (Vec::new(), Vec::new());
        for (name, nodes) in given {
            let block = self.block(&under(&at, name), nodes, known);
            fields.push((name.clone(), block.last));
            branches.push(Branch { name: name.clone(), steps: block.steps });
        }
        Some((Task::Parallel { branches }, Type::object(fields)))
    }

    fn for_each(&mut self, pointer: &str, node: &'a NodeFile, known: &Known) -> Found {
        let at = under(pointer, "for_each");
        let items = self.expression(&at, node.for_each.as_ref()?, known);
        let item = items.as_ref().map_or(Type::Any, |(_, list)| self.item_of(&at, list));
        let name = node.name.clone().unwrap_or_else(|| "item".into());
        self.variable_name(&under(pointer, "as"), &name, known);
        let mut inner = known.clone();
        inner.variables.insert(name.clone(), item);
        inner.variables.insert("index".into(), Type::Number);
        let steps = self.body(pointer, node, &inner);
        let max_items = node.max_items.unwrap_or(ITEMS_DEFAULT);
        let came = Type::List(Box::new(steps.last));
        let steps = steps.steps;
        let concurrency = node.concurrency;
        Some((Task::ForEach { items: items?.0, name, steps, max_items, concurrency }, came))
    }

    /// A name that an expression can say and that does not hide another.
    fn variable_name(&mut self, pointer: &str, name: &str, known: &Known) {
        let sayable =
            name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
                && name.starts_with(|c: char| c.is_ascii_lowercase());
        let reserved = ["steps", "index", "round", "previous", "option", "true", "false", "null"];
        if !sayable || reserved.contains(&name) {
            let message =
                format!("`{name}` is no name for an item; expected letters, digits and `_`");
            self.at(pointer, "name.invalid", message);
        } else if known.variables.contains_key(name) && name != "item" {
            let message = format!("`{name}` is something else already; take another name");
            self.at(pointer, "name.duplicate", message);
        }
    }

    fn body(
        &mut self,
        pointer: &str,
        node: &'a NodeFile,
        known: &Known,
    ) -> crate::definition::check::graph::Block {
        let nodes = node.steps.as_deref().unwrap_or_default();
        if nodes.is_empty() {
            self.at_key(pointer, "steps.empty", "there is nothing to do; give it `steps`");
        }
        self.block(&under(pointer, "steps"), nodes, known)
    }

    fn repeat(
        &mut self,
        pointer: &str,
        node: &'a NodeFile,
        terms: &LoopFile,
        known: &Known,
    ) -> (Task, Type) {
        let at = under(pointer, "loop");
        if terms.while_.is_none() && terms.until.is_none() {
            self.at_key(
                &at,
                "loop.end",
                "a loop needs `while` or `until`, beside its `max_rounds`",
            );
        }
        let mut inner = known.clone();
        inner.variables.insert("round".into(), Type::Number);
        let while_ = terms.while_.as_ref();
        let while_ = while_.and_then(|text| self.condition(&under(&at, "while"), text, &inner));
        inner.variables.insert("previous".into(), Type::Any);
        let body = self.body(pointer, node, &inner);
        let mut after = body.known;
        after.variables.remove("previous");
        let until = terms.until.as_ref();
        let until = until.and_then(|text| self.condition(&under(&at, "until"), text, &after));
        let (steps, max_rounds) = (body.steps, terms.max_rounds);
        (Task::Loop { while_, until, steps, max_rounds }, body.last)
    }

    fn wait(&mut self, pointer: &str, terms: &WaitFile, known: &Known) -> (Task, Type) {
        if terms.timer.is_none() && terms.signal.is_none() {
            self.at_key(pointer, "step.work", "a wait needs `for`, `signal` or both");
        }
        let at = under(pointer, "for");
        let mut timer = None;
        if let Some(text) = &terms.timer {
            timer = self.template(&at, text, known);
            if !text.contains("${") && duration_ms(text).is_none() {
                let message = format!("`{text}` is no length of time such as `2h`");
                self.at(&at, "field.value", message);
            }
        }
        if let Some(signal) = &terms.signal {
            self.name(&under(pointer, "signal"), signal, true);
        }
        let came = Type::object([("by".to_owned(), Type::Text), ("value".to_owned(), Type::Any)]);
        if !terms.from.is_empty() && terms.signal.is_none() {
            let message = "`from` says who sends the `signal`; say which that is";
            self.at_key(&under(pointer, "from"), "step.work", message);
        }
        self.named(&under(pointer, "from"), &terms.from);
        (Task::Wait { timer, signal: terms.signal.clone(), from: terms.from.clone() }, came)
    }

    fn other_workflow(&mut self, pointer: &str, terms: &SubFile, known: &Known) -> Found {
        // What the loader could not read it has told already.
        let other = Arc::clone(self.subs.get(&terms.file)?);
        let Some(program) = sub::program(&other) else {
            let message = format!(
                "`{}` is a conversation, and cannot be a step; a graph or a sequence can",
                other.name
            );
            self.at(&under(pointer, "file"), "workflow.pattern", message);
            return None;
        };
        // In it, `input` would be this workflow's own.
        let speaks = other.agents.iter().find(|(_, agent)| has_variables(&agent.instructions));
        if let Some((name, _)) = speaks {
            let message = format!(
                "the instructions of `{name}` in `{}` have `${{…}}` in them, which no step can have; say it in a `prompt`",
                other.name
            );
            self.at(&under(pointer, "file"), "workflow.variables", message);
        }
        let (input, came) = self.form(&under(pointer, "input"), &terms.input, known);
        let input = if input.is_nothing() {
            Form::parse(&Value::String("${input}".into())).unwrap_or_default()
        } else {
            input
        };
        if other.input.is_none()
            && !matches!(came, Type::Any | Type::Null | Type::Text | Type::Object { .. })
        {
            let message = format!("`{}` takes a text or a map, not {}", other.name, came.word());
            self.at(&under(pointer, "input"), "expression.type", message);
        }
        let task = Task::Sub {
            workflow: other.name.clone(),
            input,
            input_schema: other.input.clone(),
            program: Arc::new(program),
        };
        Some((task, Type::Any))
    }
}
