//! Graph: what a picture of a workflow shows: who takes part, and who follows whom.

use std::collections::BTreeMap;

use crate::kernel::graph::Program;
use crate::kernel::workflow::{Agent, Handoff, Pattern, ReturnTo, Step, Tool, Work};
use crate::kernel::{Kind, Workflow};

/// How an agent is marked that may stop and ask.
pub(super) const ASKS: &str = "may ask a person";

/// What a node stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// Where a run begins, or ends.
    Terminal,
    /// An agent's turn.
    Agent,
    /// A point at which a person decides.
    Person,
}

/// One box.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) label: String,
    /// A second line, smaller; may be empty.
    pub(super) note: String,
    pub(super) shape: Shape,
}

/// One arrow, between nodes by their index.
#[derive(Debug, Clone)]
pub(super) struct Edge {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) label: String,
    /// Whether it goes both ways.
    pub(super) is_mutual: bool,
    /// Whether it leads to a person and back.
    pub(super) is_dashed: bool,
}

/// Everything that is drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Graph {
    pub(super) title: String,
    pub(super) nodes: Vec<Node>,
    pub(super) edges: Vec<Edge>,
    /// Tools behind gates: whether a person is always asked before they are called.
    guarded: BTreeMap<String, bool>,
    /// The tools of each agent.
    tools: BTreeMap<String, Vec<String>>,
}

/// What a picture of the workflow shows.
pub(super) fn of(workflow: &Workflow) -> Graph {
    let agents = workflow.agents.iter();
    let mut graph = Graph {
        title: workflow.name.clone(),
        guarded: guarded(workflow),
        tools: agents.map(|(name, agent)| (name.clone(), agent.tools.clone())).collect(),
        ..Graph::default()
    };
    let start = graph.node("start", "", Shape::Terminal);
    match &workflow.pattern {
        Pattern::Sequential { steps } => graph.sequence(workflow, start, steps),
        Pattern::Coordinator { coordinator, specialists, .. } => {
            graph.coordination(workflow, start, coordinator, specialists);
        }
        Pattern::Handoff(terms) => graph.handoffs(start, terms),
        Pattern::Graph(program) => graph.program(start, program),
    }
    graph
}

/// Which tools wait at a gate; `true` where a person is asked whatever the call is.
fn guarded(workflow: &Workflow) -> BTreeMap<String, bool> {
    let mut guarded = BTreeMap::new();
    for gate in &workflow.gates {
        let tagged = |tool: &Tool| tool.tags.iter().any(|tag| gate.tags.contains(tag));
        for (name, tool) in &workflow.tools {
            if gate.tools.contains(name) || tagged(tool) {
                *guarded.entry(name.clone()).or_default() |= gate.when.is_empty();
            }
        }
    }
    guarded
}

impl Graph {
    /// The gates that an agent's calls wait at, in words; nothing, where there are none.
    pub(super) fn gates_of(&self, agent: &str) -> String {
        let tools = self.tools.get(agent).into_iter().flatten();
        let words = tools.filter_map(|tool| {
            let always = self.guarded.get(tool)?;
            let word = if *always { "asks" } else { "may ask" };
            Some(format!("{word} before {tool}"))
        });
        words.collect::<Vec<_>>().join(", ")
    }

    /// The same for a call that is a step of its own.
    pub(super) fn gate_of(&self, tool: &str) -> &'static str {
        match self.guarded.get(tool) {
            Some(true) => "asks first",
            Some(false) => "may ask first",
            None => "",
        }
    }

    pub(super) fn node(&mut self, label: &str, note: &str, shape: Shape) -> usize {
        self.nodes.push(Node { label: label.to_owned(), note: note.to_owned(), shape });
        self.nodes.len() - 1
    }

    pub(super) fn edge(&mut self, from: usize, to: usize, label: &str) -> &mut Edge {
        let label = label.to_owned();
        let index = self.edges.len();
        self.edges.push(Edge { from, to, label, is_mutual: false, is_dashed: false });
        &mut self.edges[index]
    }

    fn sequence(&mut self, workflow: &Workflow, start: usize, steps: &[Step]) {
        let mut before = (start, "");
        for step in steps {
            let (node, label) = match &step.work {
                Work::Agent { agent, .. } => {
                    let by = if *agent == step.id { String::new() } else { format!("by {agent}") };
                    let asks = asks(workflow.agents.get(agent));
                    let gates = self.gates_of(agent);
                    let note = [by.as_str(), asks, &gates].map(str::to_owned);
                    let note: Vec<_> = note.into_iter().filter(|part| !part.is_empty()).collect();
                    (self.node(&step.id, &note.join(", "), Shape::Agent), "")
                }
                Work::Human(human) => {
                    let is_verdict = human.kind == Kind::Approval;
                    let node = self.node(&step.id, decision(human.kind), Shape::Person);
                    (node, if is_verdict { "approved" } else { "" })
                }
            };
            self.edge(before.0, node, before.1);
            before = (node, label);
        }
        let end = self.node("end", "", Shape::Terminal);
        self.edge(before.0, end, before.1);
    }

    fn coordination(&mut self, workflow: &Workflow, start: usize, boss: &str, others: &[String]) {
        let coordinator = self.node(boss, "says who is next", Shape::Agent);
        self.edge(start, coordinator, "");
        for name in others {
            let note = joined(asks(workflow.agents.get(name)), &self.gates_of(name));
            let node = self.node(name, &note, Shape::Agent);
            self.edge(coordinator, node, "").is_mutual = true;
        }
        let end = self.node("end", "", Shape::Terminal);
        self.edge(coordinator, end, "sums up");
    }

    /// A program, block by block; every block has one way in and one way out.
    fn program(&mut self, start: usize, program: &Program) {
        let ends = self.steps(vec![(start, String::new())], &program.steps);
        let end = self.node("end", "", Shape::Terminal);
        for (from, label) in ends {
            self.edge(from, end, &label);
        }
    }

    fn handoffs(&mut self, start: usize, terms: &Handoff) {
        let names = reached(terms);
        let first = self.nodes.len();
        for name in &names {
            let note = if *name == terms.start { "speaks first" } else { "" };
            let note = joined(note, &self.gates_of(name));
            self.node(name, &note, Shape::Agent);
        }
        self.edge(start, first, "");
        let hands_to = |from: &str, to: &str| {
            terms.handoffs.get(from).is_some_and(|targets| targets.iter().any(|one| one == to))
        };
        for (index, from) in names.iter().enumerate() {
            for (other, to) in names.iter().enumerate() {
                let is_mutual = hands_to(to, from);
                // A pair that may hand off both ways is one arrow, drawn once.
                if hands_to(from, to) && (!is_mutual || index < other) {
                    self.edge(first + index, first + other, "").is_mutual = is_mutual;
                }
            }
        }
        let user = self.node("the user", "takes a turn", Shape::Person);
        for index in 0..names.len() {
            let edge = self.edge(first + index, user, "");
            edge.is_dashed = true;
            edge.is_mutual = terms.return_to == ReturnTo::Previous || index == 0;
        }
        let end = self.node("end", "", Shape::Terminal);
        self.edge(user, end, &ending(terms));
    }
}

/// The agents of a handoff, the first speaker first and then as the conversation comes to them.
fn reached(terms: &Handoff) -> Vec<&str> {
    let mut names = vec![terms.start.as_str()];
    let mut index = 0;
    while let Some(from) = names.get(index) {
        for to in terms.handoffs.get(*from).into_iter().flatten() {
            if !names.contains(&to.as_str()) {
                names.push(to);
            }
        }
        index += 1;
    }
    names
}

fn ending(terms: &Handoff) -> String {
    match (terms.ends.user_messages_over, &terms.ends.last_message_contains) {
        (Some(most), _) => format!("more than {most} messages"),
        (None, Some(word)) => format!("somebody says {word}"),
        (None, None) => "says that it is over".into(),
    }
}

/// Two parts of a note.
pub(super) fn joined(one: &str, other: &str) -> String {
    let parts = [one, other].into_iter().filter(|part| !part.is_empty());
    parts.collect::<Vec<_>>().join(", ")
}

fn asks(agent: Option<&Agent>) -> &'static str {
    if agent.is_some_and(|agent| agent.human_input.enabled) { ASKS } else { "" }
}

pub(super) fn decision(kind: Kind) -> &'static str {
    match kind {
        Kind::Clarification => "a person answers",
        Kind::Selection => "a person chooses",
        Kind::Approval | Kind::ToolApproval => "a person approves",
        Kind::PlanReview => "a person reviews",
        Kind::OutcomeCheck => "a person checks",
    }
}
