//! A program as boxes and arrows: every step a box, every gate a person beside it.

use crate::definition::draw::graph::{Graph, Shape, joined};
use crate::kernel::graph::{After, Steps, Task};

/// Where arrows come from, and what is written on them.
type Ends = Vec<(usize, String)>;

/// The longest condition that is written on a box; the file has the rest.
const SHOWN_CHARS_MAX: usize = 36;

impl Graph {
    /// Draws steps after those ends; returns where the arrows go on from.
    pub(super) fn steps(&mut self, mut ends: Ends, steps: &Steps) -> Ends {
        for step in steps.iter() {
            let gate = step.gate.as_ref();
            if gate.is_some_and(|gate| gate.before) {
                let node = self.person(&format!("before {}", step.id), "approve, reject, skip");
                self.join(&ends, node);
                ends = vec![(node, "approve".into())];
            }
            let note = joined(&note(&step.task), &self.gates_at(&step.task));
            let node = self.node(&step.id, &note, shape(&step.task));
            self.join(&ends, node);
            ends = self.within(node, &step.task);
            if gate.is_some_and(|gate| gate.on_error) {
                let person = self.person(&format!("{} failed", step.id), "retry, skip, abort");
                let edge = self.edge(node, person, "error");
                (edge.is_dashed, edge.is_mutual) = (true, true);
            }
            let after = gate.map_or(After::Nothing, |gate| gate.after);
            let (label, words, on, again) = match after {
                After::Nothing => continue,
                After::Look => ("after", "continue, redo, abort", "continue", "redo"),
                After::Review => ("review", "approve, reject, revise, modify", "approve", "revise"),
            };
            let person = self.person(&format!("{label} {}", step.id), words);
            self.join(&ends, person);
            self.edge(person, node, again).is_dashed = true;
            ends = vec![(person, on.into())];
        }
        ends
    }

    /// The gates that a step's calls wait at, in words.
    fn gates_at(&self, task: &Task) -> String {
        match task {
            Task::Agent { agent, .. } => self.gates_of(agent),
            Task::Tool { tool, .. } => self.gate_of(tool).to_owned(),
            Task::If { .. }
            | Task::Switch { .. }
            | Task::Parallel { .. }
            | Task::ForEach { .. }
            | Task::Loop { .. }
            | Task::Wait { .. }
            | Task::Human(_)
            | Task::Extract { .. }
            | Task::Sub { .. }
            | Task::Group { .. } => String::new(),
        }
    }

    fn person(&mut self, label: &str, note: &str) -> usize {
        self.node(label, note, Shape::Person)
    }

    fn join(&mut self, ends: &Ends, to: usize) {
        for (from, label) in ends {
            self.edge(*from, to, label);
        }
    }

    /// What is drawn within a step, and where the arrows go on from.
    fn within(&mut self, node: usize, task: &Task) -> Ends {
        let from = |label: &str| vec![(node, label.to_owned())];
        match task {
            Task::Agent { .. } | Task::Tool { .. } | Task::Wait { .. } | Task::Extract { .. } => {
                from("")
            }
            Task::Human(_) => from("answered"),
            Task::If { then, otherwise, .. } => {
                let mut ends = self.steps(from("yes"), then);
                ends.extend(self.steps(from("no"), otherwise));
                ends
            }
            Task::Switch { cases, otherwise, .. } => {
                let mut ends = Vec::new();
                for case in cases {
                    let is = case.is.as_str().map_or_else(|| case.is.to_string(), str::to_owned);
                    ends.extend(self.steps(from(&is), &case.steps));
                }
                if let Some(otherwise) = otherwise {
                    ends.extend(self.steps(from("otherwise"), otherwise));
                }
                ends
            }
            Task::Parallel { branches } => {
                let mut ends = Vec::new();
                for branch in branches {
                    ends.extend(self.steps(from(&branch.name), &branch.steps));
                }
                ends
            }
            Task::ForEach { steps, name, .. } => self.steps(from(&format!("each {name}")), steps),
            Task::Loop { steps, .. } => {
                let ends = self.steps(from(""), steps);
                for (end, _) in &ends {
                    self.edge(*end, node, "again").is_dashed = true;
                }
                ends
            }
            Task::Sub { program, .. } => self.steps(from(""), &program.steps),
            Task::Group { steps } => self.steps(from(""), steps),
        }
    }
}

fn shape(task: &Task) -> Shape {
    match task {
        Task::Human(_) => Shape::Person,
        Task::Agent { .. }
        | Task::Tool { .. }
        | Task::Wait { .. }
        | Task::Extract { .. }
        | Task::If { .. }
        | Task::Switch { .. }
        | Task::Parallel { .. }
        | Task::ForEach { .. }
        | Task::Loop { .. }
        | Task::Sub { .. }
        | Task::Group { .. } => Shape::Agent,
    }
}

fn note(task: &Task) -> String {
    let short = |text: &str| {
        let cut: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        if cut.len() < text.len() { format!("{cut}…") } else { cut }
    };
    match task {
        Task::Agent { agent, .. } => format!("by {agent}"),
        Task::Tool { tool, .. } => format!("calls {tool}"),
        Task::If { when, .. } => short(&format!("if {}", when.text())),
        Task::Switch { on, .. } => short(&format!("by {}", on.text())),
        Task::Parallel { .. } => "at the same time".into(),
        Task::ForEach { items, .. } => short(&format!("for each of {}", items.text())),
        Task::Loop { max_rounds, .. } => format!("at most {max_rounds} rounds"),
        Task::Wait { timer, signal, .. } => match (timer, signal) {
            (Some(timer), Some(signal)) => {
                short(&format!("waits for {signal}, or {}", timer.text()))
            }
            (Some(timer), None) => short(&format!("waits {}", timer.text())),
            (None, signal) => short(&format!("waits for {}", signal.clone().unwrap_or_default())),
        },
        Task::Human(ask) => super::graph::decision(ask.kind).into(),
        Task::Extract { .. } => "takes values".into(),
        Task::Sub { workflow, .. } => format!("workflow {workflow}"),
        Task::Group { .. } => "together".into(),
    }
}
