//! Whether the steps, the coordinator or the handoffs of a file hold together.

use std::collections::{BTreeSet, VecDeque};

use crate::definition::check::{Asked, Check, question};
use crate::definition::file::{CoordinatorFile, PatternName, StepFile};
use crate::definition::gates::GateFile;
use crate::definition::handoffs::{AfterWorkFile, END, HandoffFile, HandoffToFile, USER};
use crate::definition::human::HumanFile;
use crate::definition::source::under;
use crate::kernel::expression::Type;
use crate::kernel::{Kind, Origin};

impl<'a> Check<'a> {
    pub(super) fn pattern(&mut self) {
        let file = self.file;
        let blocks = [
            (PatternName::Sequential, "steps", file.steps.is_some()),
            (PatternName::Coordinator, "coordinator", file.coordinator.is_some()),
            (PatternName::Handoff, "handoff", file.handoff.is_some()),
            (PatternName::Graph, "graph", file.graph.is_some()),
            (PatternName::Concurrent, "concurrent", file.concurrent.is_some()),
            (PatternName::GroupChat, "group_chat", file.group_chat.is_some()),
            (PatternName::PlanExecute, "plan_execute", file.plan_execute.is_some()),
        ];
        let wanted = blocks.iter().find(|(name, ..)| *name == file.pattern).map_or("", |b| b.1);
        for (name, block, is_given) in blocks {
            if is_given && name != file.pattern {
                let message =
                    format!("the pattern has no `{block}`; it is described under `{wanted}`");
                self.at_key(&under("", block), "pattern.block", message);
            }
            if !is_given && name == file.pattern {
                let message = format!("the pattern needs `{block}`, which describes it");
                self.at("/pattern", "pattern.block", message);
            }
        }
        match file.pattern {
            PatternName::Sequential => file.steps.iter().for_each(|steps| self.steps(steps)),
            PatternName::Coordinator => {
                file.coordinator.iter().for_each(|terms| self.coordinator(terms));
            }
            PatternName::Handoff => file.handoff.iter().for_each(|terms| self.handoff(terms)),
            PatternName::Concurrent => file.concurrent.iter().for_each(|terms| {
                self.crew("/concurrent", &terms.agents, ("aggregator", terms.aggregator.as_ref()));
            }),
            PatternName::GroupChat => file.group_chat.iter().for_each(|terms| {
                self.crew("/group_chat", &terms.agents, ("selector", terms.selector.as_ref()));
            }),
            PatternName::PlanExecute => {
                file.plan_execute.iter().for_each(|terms| drop(self.plan_execute(terms)));
            }
            PatternName::Graph => {
                // The program is made again when the file is compiled.
                file.graph.iter().for_each(|graph| drop(self.graph(graph)));
            }
        }
    }

    /// Agents that nobody can ever give a turn to.
    pub(super) fn unreachable(&mut self, reached: &BTreeSet<&str>, remedy: &str) {
        let mut apart: BTreeSet<&str> = self.file.gates.iter().flat_map(GateFile::judges).collect();
        apart.extend(self.file.conversation.as_ref().and_then(|terms| terms.summariser()));
        for name in self.file.agents.keys() {
            if !reached.contains(name.as_str()) && !apart.contains(name.as_str()) {
                let message = format!("`{name}` never gets a turn: {remedy}, or take it out");
                self.at_key(&under("/agents", name), "agent.unreachable", message);
            }
        }
    }

    /// Agents that work together, and one that has a part of its own.
    fn crew(
        &mut self,
        pointer: &str,
        agents: &'a [String],
        (part, other): (&str, Option<&'a String>),
    ) {
        let at = under(pointer, "agents");
        for (index, name) in agents.iter().enumerate() {
            self.known_agent(&under(&at, index), name);
        }
        self.unique(&at, agents.iter().map(String::as_str).enumerate());
        if let Some(name) = other {
            let at = under(pointer, part);
            self.known_agent(&at, name);
            if agents.contains(name) {
                let message = format!("`{name}` is one of the agents; the {part} is another");
                self.at(&at, "name.duplicate", message);
            }
        }
        let reached = agents.iter().chain(other).map(String::as_str).collect();
        self.unreachable(&reached, "name it among the agents");
    }

    fn steps(&mut self, steps: &'a [StepFile]) {
        if steps.is_empty() {
            self.at("/steps", "steps.empty", "a sequential workflow needs at least one step");
        }
        for (index, step) in steps.iter().enumerate() {
            let pointer = under("/steps", index);
            match (&step.agent, &step.human) {
                (Some(agent), None) => {
                    self.known_agent(&under(&pointer, "agent"), agent);
                    let prompt = step.prompt.as_deref().unwrap_or_default();
                    self.wording(&under(&pointer, "prompt"), prompt);
                }
                (None, Some(human)) => self.human(&pointer, step, human),
                (Some(_), Some(_)) => {
                    let message = "a step is an agent's or a person's; keep `agent` or `human`";
                    self.at(&pointer, "step.work", message);
                }
                (None, None) => {
                    let message = "a step needs an `agent` to take a turn, or a `human` to decide";
                    self.at(&pointer, "step.work", message);
                }
            }
            if let Some(id) = &step.id {
                self.name(&under(&pointer, "id"), id, true);
            }
        }
        self.unique_ids(steps);
        let reached = steps.iter().filter_map(|step| step.agent.as_deref()).collect();
        self.unreachable(&reached, "name it in a step");
    }

    fn unique_ids(&mut self, steps: &'a [StepFile]) {
        let mut seen = BTreeSet::new();
        for (index, step) in steps.iter().enumerate() {
            let Some(id) = step.id() else { continue };
            if !seen.insert(id) {
                let field = if step.id.is_some() { "id" } else { "agent" };
                let pointer = under(&under("/steps", index), field);
                let message = format!("there is a step `{id}` already; give this one its own `id`");
                self.at(&pointer, "name.duplicate", message);
            }
        }
    }

    fn human(&mut self, pointer: &str, step: &StepFile, human: &HumanFile) {
        if step.id.is_none() {
            self.at(pointer, "field.missing", "a human step needs the field `id`");
        }
        if step.prompt.is_some() {
            let message = "a person is asked by `human.prompt`; `prompt` is for agents";
            self.at_key(&under(pointer, "prompt"), "step.work", message);
        }
        let pointer = under(pointer, "human");
        self.wording(&under(&pointer, "prompt"), &human.prompt);
        if human.options_from.is_some() {
            let message = "options are found in the run only in a graph; give `options`";
            self.at_key(&under(&pointer, "options_from"), "question.options", message);
        }
        self.decision(&pointer, human);
        let steps = self.file.steps.iter().flatten();
        let has_spoken = steps.take_while(|one| one.id != step.id).any(|one| one.agent.is_some());
        if human.editable().is_some() && human.show.is_null() && !has_spoken {
            let message = "no agent has spoken before this step: say with `show` what is edited";
            self.at_key(&under(&pointer, "editable"), "question.editable", message);
        }
    }

    fn coordinator(&mut self, terms: &'a CoordinatorFile) {
        self.known_agent("/coordinator/agent", &terms.agent);
        self.wording("/coordinator/synthesis", terms.synthesis.as_deref().unwrap_or_default());
        let specialists = "/coordinator/specialists";
        for (index, name) in terms.specialists.iter().enumerate() {
            let pointer = under(specialists, index);
            self.known_agent(&pointer, name);
            if *name == terms.agent {
                let message = format!("`{name}` coordinates; it is not its own specialist");
                self.at(&pointer, "name.duplicate", message);
            }
        }
        self.unique(specialists, terms.specialists.iter().map(String::as_str).enumerate());
        let names = terms.specialists.iter().chain([&terms.agent]).map(String::as_str);
        self.unreachable(&names.collect(), "name it under `coordinator.specialists`");
    }

    fn handoff(&mut self, terms: &'a HandoffFile) {
        self.known_agent("/handoff/start", &terms.start);
        for (from, targets) in &terms.handoffs {
            let pointer = under("/handoff/handoffs", from);
            self.known_key(&pointer, from);
            for (index, target) in targets.iter().enumerate() {
                let (pointer, to) = (under(&pointer, index), target.to());
                let name = match target {
                    HandoffToFile::Name(_) => pointer.clone(),
                    HandoffToFile::When(_) => under(&pointer, "to"),
                };
                self.known_agent(&name, to);
                self.talk_condition(&under(&pointer, "when"), target.when());
                if to == from {
                    let message = format!("`{from}` cannot hand off to itself");
                    self.at(&pointer, "handoff.self", message);
                }
            }
            self.unique(&pointer, targets.iter().map(HandoffToFile::to).enumerate());
        }
        self.after_work(terms);
        for name in terms.autonomous.keys() {
            self.known_key(&under("/handoff/autonomous", name), name);
        }
        let asked = Asked {
            pointer: "/handoff",
            kind: Kind::Clarification,
            origin: Origin::UserTurn,
            deadline: terms.deadline.as_ref(),
            on_timeout: terms.on_timeout.as_ref(),
            remind: None,
        };
        self.patience(&asked);
        self.default_answer("/handoff", terms.on_timeout.as_ref(), &question(&asked));
        if self.file.agents.contains_key(&terms.start) {
            self.unreachable(&reached(terms), "let somebody hand off to it");
        }
    }

    /// Everywhere that a conversation goes when an agent is done, and on what conditions.
    fn after_work(&mut self, terms: &'a HandoffFile) {
        for (agent, list) in &terms.after_work {
            let pointer = under("/handoff/after_work", agent);
            self.known_key(&pointer, agent);
            let is_list = matches!(list, AfterWorkFile::First(_));
            let all = list.all();
            for (index, one) in all.iter().enumerate() {
                let pointer = if is_list { under(&pointer, index) } else { pointer.clone() };
                let at = if is_list { under(&pointer, "to") } else { pointer.clone() };
                if one.to != USER && one.to != END {
                    self.known_agent(&at, &one.to);
                }
                if one.to == *agent && one.when.is_none() {
                    let message = format!(
                        "`{agent}` would have the word for ever; say `when`, or give it `autonomous` turns"
                    );
                    self.at(&at, "handoff.self", message);
                }
                if one.when.is_none() && index + 1 < all.len() {
                    let message =
                        "this always holds, and what comes after it never counts; say `when`";
                    self.at(&pointer, "condition.always", message);
                }
                self.talk_condition(&under(&pointer, "when"), one.when.as_deref());
            }
        }
    }

    /// A condition over what is known where a conversation goes on.
    fn talk_condition(&mut self, pointer: &str, text: Option<&str>) {
        let Some(text) = text else { return };
        let mut known = self.known_everywhere();
        known.variables.insert("conversation".into(), Type::any_object());
        self.condition(pointer, text, &known);
    }

    fn known_key(&mut self, pointer: &str, name: &str) {
        let before = self.problems.len();
        self.known_agent(pointer, name);
        if let Some(problem) = self.problems.get_mut(before) {
            let key = self.source.at_key(pointer, problem.code, problem.message.clone());
            (problem.line, problem.column) = (key.line, key.column);
            problem.excerpt = key.excerpt;
        }
    }
}

/// Agents to whom a conversation goes when another is done.
fn after(list: &AfterWorkFile) -> Vec<&str> {
    let all: Vec<&str> = match list {
        AfterWorkFile::To(to) => vec![to],
        AfterWorkFile::First(list) => list.iter().map(|one| one.to.as_str()).collect(),
    };
    all.into_iter().filter(|to| *to != USER && *to != END).collect()
}

/// Everybody to whom the conversation can come.
fn reached(terms: &HandoffFile) -> BTreeSet<&str> {
    let mut reached = BTreeSet::from([terms.start.as_str()]);
    let mut next = VecDeque::from([terms.start.as_str()]);
    while let Some(from) = next.pop_front() {
        let handed = terms.handoffs.get(from).into_iter().flatten().map(HandoffToFile::to);
        let after = terms.after_work.get(from).into_iter().flat_map(after);
        for to in handed.chain(after) {
            if reached.insert(to) {
                next.push_back(to);
            }
        }
    }
    reached
}
