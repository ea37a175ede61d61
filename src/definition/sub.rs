//! Sub-workflows: another file's workflow as a step of this one, kept whole.
//!
//! Its agents, models, tools and gates come along under its name (`close__writer`), so that nothing
//! in one file can reach into the other; its program keeps variables of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::kernel::ANY;
use crate::kernel::Workflow;
use crate::kernel::expression::{Form, Template};
use crate::kernel::graph::{Ask, Branch, Case, Program, Step, Steps, Task};
use crate::kernel::workflow::{Condition, Gate, Pattern, Safety, Work};

/// How deep workflows may be steps of one another: deeper is nobody's plan.
pub(super) const DEPTH_MAX: usize = 4;

/// The workflows that a file has as steps, by the names of their files.
pub(super) type Subs = BTreeMap<String, Arc<Workflow>>;

/// A workflow as a program, with its own names; nothing, where it is a conversation.
pub(super) fn program(workflow: &Workflow) -> Option<Program> {
    let program = match &workflow.pattern {
        Pattern::Graph(program) => program.clone(),
        Pattern::Sequential { steps } => {
            let steps = steps.iter().map(sequential).map(Arc::new).collect();
            Program { steps: Arc::new(steps), output: Form::default() }
        }
        Pattern::Coordinator { .. } | Pattern::Handoff(_) => return None,
    };
    let steps = renamed(&program.steps, &workflow.name);
    Some(Program { steps, output: program.output })
}

fn sequential(step: &crate::kernel::workflow::Step) -> Step {
    let task = match &step.work {
        Work::Agent { agent, prompt } => Task::Agent {
            agent: agent.clone(),
            prompt: prompt.as_deref().and_then(|text| Template::parse(text).ok()),
            output: None,
        },
        Work::Human(human) => Task::Human(Box::new(Ask {
            kind: human.kind,
            named: human.named.clone(),
            prompt: Template::parse(&human.prompt).unwrap_or_else(|_| empty()),
            context: escaped(&human.context),
            options: human.options.clone(),
            options_from: None,
            response_schema: human.response_schema.clone(),
            show: human.show.as_deref().map(|text| escaped(&Value::from(text))).unwrap_or_default(),
            decides: human.decides,
            editable: human.editable.clone(),
            patience: human.patience.clone(),
        })),
    };
    Step {
        id: step.id.clone(),
        task,
        skip_if: None,
        retry: None,
        timeout_ms: None,
        critical: true,
        gate: None,
    }
}

fn empty() -> Template {
    Template::parse("").expect("nothing has no variables")
}

fn escaped(value: &Value) -> Form {
    fn texts(value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(text.replace("${", "$${")),
            Value::Array(items) => items.iter().map(texts).collect(),
            Value::Object(map) => {
                map.iter().map(|(name, item)| (name.clone(), texts(item))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
    Form::parse(&texts(value)).unwrap_or_default()
}

/// A name of another workflow, as it is called in this one.
fn named(workflow: &str, name: &str) -> String {
    format!("{workflow}__{name}")
}

fn renamed(steps: &Steps, workflow: &str) -> Steps {
    let each = |step: &Arc<Step>| {
        Arc::new(Step { task: renamed_task(&step.task, workflow), ..(**step).clone() })
    };
    Arc::new(steps.iter().map(each).collect())
}

fn renamed_task(task: &Task, workflow: &str) -> Task {
    let within = |steps: &Steps| renamed(steps, workflow);
    let mut task = task.clone();
    match &mut task {
        Task::Agent { agent: name, .. } | Task::Tool { tool: name, .. } => {
            *name = named(workflow, name);
        }
        Task::If { then, otherwise, .. } => {
            (*then, *otherwise) = (within(then), within(otherwise));
        }
        Task::Switch { cases, otherwise, .. } => {
            let each = |case: &Case| Case { steps: within(&case.steps), ..case.clone() };
            *cases = cases.iter().map(each).collect();
            *otherwise = otherwise.as_ref().map(within);
        }
        Task::Parallel { branches } => {
            let each = |branch: &Branch| Branch { steps: within(&branch.steps), ..branch.clone() };
            *branches = branches.iter().map(each).collect();
        }
        Task::ForEach { steps, .. } | Task::Loop { steps, .. } | Task::Group { steps } => {
            *steps = within(steps);
        }
        Task::Sub { program, .. } => {
            let inner = Program { steps: within(&program.steps), output: program.output.clone() };
            *program = Arc::new(inner);
        }
        Task::Wait { .. } | Task::Human(_) | Task::Extract { .. } => {}
    }
    task
}

/// Brings what other workflows need into the one that has them as steps.
pub(super) fn adopt(workflow: &mut Workflow, subs: &Subs) {
    for other in subs.values() {
        let prefix = &other.name;
        for (name, model) in &other.models {
            let mut model = model.clone();
            let agents: Vec<_> = other.agents.keys().collect();
            let tools: Vec<_> = other.tools.keys().collect();
            rename_script(&mut model.settings, prefix, (&agents, &tools));
            workflow.models.insert(named(prefix, name), model);
        }
        for (name, tool) in &other.tools {
            workflow.tools.insert(named(prefix, name), tool.clone());
        }
        for (name, agent) in &other.agents {
            let mut agent = agent.clone();
            agent.model = named(prefix, &agent.model);
            agent.tools = agent.tools.iter().map(|tool| named(prefix, tool)).collect();
            workflow.agents.insert(named(prefix, name), agent);
        }
        workflow.gates.extend(other.gates.iter().map(|gate| renamed_gate(gate, other)));
        for (name, known) in &other.request_types {
            workflow.request_types.entry(name.clone()).or_insert_with(|| known.clone());
        }
    }
}

/// A gate of another workflow holds for that workflow's tools and for no others.
fn renamed_gate(gate: &Gate, other: &Workflow) -> Gate {
    let tagged =
        other.tools.iter().filter(|(_, tool)| tool.tags.iter().any(|tag| gate.tags.contains(tag)));
    let is_any = gate.tools.iter().any(|name| name == ANY);
    let touching = other.tools.iter().filter(|(_, tool)| is_any && tool.safety != Safety::Pure);
    let own = gate.tools.iter().filter(|name| *name != ANY);
    let names = own.chain(tagged.chain(touching).map(|(name, _)| name));
    let speaks = |agent: &&String| gate.replies.iter().any(|one| one == ANY || one == *agent);
    let spoken = other.agents.keys().filter(speaks);
    Gate {
        replies: spoken.map(|agent| named(&other.name, agent)).collect(),
        name: named(&other.name, &gate.name),
        tools: names.map(|name| named(&other.name, name)).collect(),
        tags: Vec::new(),
        when: gate.when.iter().map(|condition| renamed_judge(condition, other)).collect(),
        ..gate.clone()
    }
}

fn renamed_judge(condition: &Condition, other: &Workflow) -> Condition {
    let mut condition = condition.clone();
    if let Condition::Judge { agent, .. } = &mut condition {
        *agent = named(&other.name, agent);
    }
    condition
}

/// A script speaks of agents and tools by name: in its rules, in its calls, in `{{said.<agent>}}`.
fn rename_script(settings: &mut Value, prefix: &str, (agents, tools): (&[&String], &[&String])) {
    match settings {
        Value::Object(map) => {
            for (field, value) in map.iter_mut() {
                let known = match field.as_str() {
                    "agent" => agents,
                    "tool" => tools,
                    _ => &[],
                };
                if let Some(name) =
                    value.as_str().filter(|name| known.iter().any(|one| one == name))
                {
                    *value = Value::String(named(prefix, name));
                } else {
                    rename_script(value, prefix, (agents, tools));
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                rename_script(item, prefix, (agents, tools));
            }
        }
        Value::String(text) => *text = text.replace("{{said.", &format!("{{{{said.{prefix}__")),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
