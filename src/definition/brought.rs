//! Brought: gates that a start brings with it, read and checked against the workflow's own. What would say who
//! else may decide, how it is put to them or how long a yes lasts is not a requester's to say (K12). How they are kept apart
//! from all others is in `kernel::brought`.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::Deserialize as _;
use serde_json::Value;

use crate::definition::check::condition_problem;
use crate::definition::conditions::ConditionFile;
use crate::definition::gates::{AnyOr, GateFile, PointFile};
use crate::definition::known;
use crate::definition::people::{ApproversFile, ExcludedFile};
use crate::definition::policy::steps_of;
use crate::definition::source::Source;
use crate::kernel::brought::BROUGHT;
use crate::kernel::expression::Expression;
use crate::kernel::graph::{Step, Task};
use crate::kernel::workflow::{Gate, Pattern};
use crate::kernel::{ANY, Operator, Refusal, Workflow, duration_ms};

/// Gates of one start; more is no person's doing.
const GATES_MAX: usize = 32;
/// The name of the field, at every door.
const FIELD: &str = "gates";
/// What a start may not say of a gate.
const NOT_THEIRS: [&str; 5] = ["prompt", "on_timeout", "remind", "allow_for", "assurance"];

/// The gates that a start of `workflow` brings, or why it cannot bring them.
pub fn brought(
    workflow: &Workflow,
    written: &[Value],
    operator: &Operator,
) -> Result<Vec<Gate>, Refusal> {
    if written.len() > GATES_MAX {
        let remedy = format!("at most {GATES_MAX} gates in one start");
        return Err(Refusal::TooLarge { field: FIELD.into(), remedy });
    }
    if !written.is_empty()
        && let Pattern::Graph(program) = &workflow.pattern
        && looks_beside(&program.steps, false)
    {
        let remedy = "branches of this workflow decide by `conversation` while others speak, and a gate of a start \
                      would say what they see by then; put it into the file, or into a policy";
        return Err(contradiction(FIELD, remedy));
    }
    let mut names = BTreeSet::new();
    let mut gates = Vec::with_capacity(written.len());
    for (index, value) in written.iter().enumerate() {
        let field = format!("{FIELD}[{index}]");
        let file = read(&field, value)?;
        if !names.insert(file.name.clone()) {
            let remedy = format!("`{}` is here twice; each may be given once", file.name);
            return Err(invalid(&format!("{field}.name"), remedy));
        }
        check(&field, &file, workflow)?;
        refuse_impassable(&field, &file, (value, operator))?;
        refuse_contradiction(&field, &file, workflow)?;
        let gate = file.meaning(|tool| vec![tool.replace('.', "__")]);
        gates.push(Gate { name: format!("{BROUGHT}{}", gate.name), ..gate });
    }
    Ok(gates)
}

/// Whether anything within branches or items decides by what is said in all of them: that depends on which of them
/// is held back.
fn looks_beside(steps: &[Arc<Step>], is_beside: bool) -> bool {
    steps.iter().any(|step| {
        let decided = match &step.task {
            Task::If { when, .. } => [Some(when), None],
            Task::Switch { on, .. } => [Some(on), None],
            Task::Loop { while_, until, .. } => [while_.as_ref(), until.as_ref()],
            Task::ForEach { items, .. } => [Some(items), None],
            Task::Agent { .. }
            | Task::Tool { .. }
            | Task::Parallel { .. }
            | Task::Group { .. }
            | Task::Wait { .. }
            | Task::Human(_)
            | Task::Extract { .. }
            | Task::Sub { .. } => [None, None],
        };
        let all = decided.into_iter().chain([step.skip_if.as_ref()]).flatten();
        let looks = all.map(Expression::text).any(|text| text.contains("conversation"));
        let within = is_beside
            || match &step.task {
                Task::Parallel { .. } => true,
                Task::ForEach { concurrency, .. } => *concurrency != Some(1),
                Task::Agent { .. }
                | Task::Tool { .. }
                | Task::If { .. }
                | Task::Switch { .. }
                | Task::Loop { .. }
                | Task::Group { .. }
                | Task::Wait { .. }
                | Task::Human(_)
                | Task::Extract { .. }
                | Task::Sub { .. } => false,
            };
        is_beside && looks
            || step.task.blocks().into_iter().any(|block| looks_beside(block, within))
    })
}

fn invalid(field: &str, remedy: impl Into<String>) -> Refusal {
    Refusal::BadGate { field: field.to_owned(), code: "gate.invalid", remedy: remedy.into() }
}

fn contradiction(field: &str, remedy: impl Into<String>) -> Refusal {
    Refusal::BadGate { field: field.to_owned(), code: "gate.contradiction", remedy: remedy.into() }
}

fn read(field: &str, value: &Value) -> Result<GateFile, Refusal> {
    let given = value.as_object();
    if let Some(own) = given.and_then(|given| NOT_THEIRS.iter().find(|it| given.contains_key(**it)))
    {
        let remedy = format!("a start can only add or tighten; `{own}` is for a file to say");
        return Err(invalid(&format!("{field}.{own}"), remedy));
    }
    let file = GateFile::deserialize(value).map_err(|error| invalid(field, error.to_string()))?;
    let is_letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
    if file.name.is_empty() || file.name.len() > 64 || !file.name.chars().all(is_letter) {
        let remedy = "expected lower-case letters, digits, `_` and `-`, at most 64";
        return Err(invalid(&format!("{field}.name"), remedy));
    }
    Ok(file)
}

fn check(field: &str, file: &GateFile, workflow: &Workflow) -> Result<(), Refusal> {
    if file.tools.is_empty() && file.tags.is_empty() && !file.looks_elsewhere() {
        let remedy = "it is bound to nothing; expected `tools`, `tags`, `handoffs`, `replies` or \
                      `steps`";
        return Err(invalid(field, remedy));
    }
    let unknown = |place: &str, what: &str, name: &str| {
        Err(invalid(&format!("{field}.{place}"), format!("there is no {what} `{name}`")))
    };
    for tool in file.tools.iter().filter(|tool| *tool != ANY) {
        if !workflow.tools.contains_key(&tool.replace('.', "__")) {
            return unknown("tools", "tool", tool);
        }
    }
    let tags = || workflow.tools.values().flat_map(|tool| &tool.tags);
    if let Some(tag) = file.tags.iter().find(|tag| !tags().any(|known| known == *tag)) {
        return unknown("tags", "tool with the tag", tag);
    }
    let pairs = match &file.handoffs {
        Some(AnyOr::List(pairs)) => pairs.as_slice(),
        Some(AnyOr::Any(_)) | None => &[],
    };
    let handed = pairs.iter().flat_map(|pair| pair.from.iter().chain(&pair.to));
    let spoken = match &file.replies {
        Some(AnyOr::List(names)) => names.as_slice(),
        Some(AnyOr::Any(_)) | None => &[],
    };
    if let Some(agent) = handed.chain(spoken).find(|name| !workflow.agents.contains_key(*name)) {
        return unknown("handoffs", "agent", agent);
    }
    let steps = steps_of(workflow);
    if let Some(step) = file.steps.iter().find(|step| *step != ANY && !steps.contains(step)) {
        return unknown("steps", "step", step);
    }
    if file.at.iter().any(|at| !matches!(at, PointFile::Before)) {
        let remedy = "what a start brings looks before a step is begun; what is done afterwards is for a file to say";
        return Err(invalid(&format!("{field}.at"), remedy));
    }
    for condition in &file.when {
        if condition.judge().is_some() {
            let remedy = "a judge is for a file to name";
            return Err(invalid(&format!("{field}.when"), remedy));
        }
        if let ConditionFile::Full(full) = condition
            && let Some((_, remedy)) = condition_problem(full)
        {
            return Err(invalid(&format!("{field}.when"), remedy));
        }
    }
    check_people(field, file)
}

/// Whoever is asked as well is asked by a stage of their own; nobody is put into another's.
fn check_people(field: &str, file: &GateFile) -> Result<(), Refusal> {
    let stages = file.approvers.as_ref().map(ApproversFile::stages).unwrap_or_default();
    if stages.iter().any(|stage| !stage.escalate.is_empty() || stage.assurance.is_some()) {
        let remedy =
            "a start can only add or tighten; `escalate` and `assurance` are for a file to say";
        return Err(invalid(&format!("{field}.approvers"), remedy));
    }
    let times = stages.iter().map(|stage| &stage.within).chain([&file.deadline]);
    for time in times.flatten() {
        if duration_ms(&time.0).is_none_or(|ms| ms == 0) {
            return Err(invalid(
                &format!("{field}.deadline"),
                "expected a length of time such as `2h`",
            ));
        }
    }
    if file.approvers.is_some() && (!file.to.is_empty() || !file.not.is_empty()) {
        let remedy = "`approvers` says who is asked; take `to` and `not` out";
        return Err(contradiction(&format!("{field}.approvers"), remedy));
    }
    Ok(())
}

/// Refuses a gate that nobody could pass: its run would wait for ever, or end where nobody has said no.
fn refuse_impassable(
    field: &str,
    file: &GateFile,
    (value, operator): (&Value, &Operator),
) -> Result<(), Refusal> {
    let is_theirs = file.to.is_empty() && file.approvers.is_none();
    if is_theirs && file.not.contains(&ExcludedFile::Requester) {
        let remedy = "nobody can pass this: without `to` it is asked of whoever began the run, and `not` \
                      excludes them; say `to` whom else";
        return Err(invalid(&format!("{field}.not"), remedy));
    }
    for stage in file.approvers.as_ref().map(ApproversFile::stages).unwrap_or_default() {
        let people: BTreeSet<&String> = stage.to.iter().collect();
        let need = usize::try_from(stage.need.unwrap_or(1)).unwrap_or(usize::MAX);
        if people.iter().all(|name| !name.contains(':')) && people.len() < need {
            let remedy = format!(
                "nobody can pass this stage: it needs {need} people, and names {}",
                people.len()
            );
            return Err(invalid(&format!("{field}.approvers"), remedy));
        }
    }
    // As the operator knows people, like a file's.
    let Ok(source) = Source::read(FIELD, &value.to_string()) else { return Ok(()) };
    match known::problems(&source, operator).into_iter().next() {
        Some(problem) => Err(invalid(field, problem.message)),
        None => Ok(()),
    }
}

/// A gate under the name of the file's, or one that would ask under conditions where the file always asks, says
/// something else than the file about the same thing.
fn refuse_contradiction(field: &str, file: &GateFile, workflow: &Workflow) -> Result<(), Refusal> {
    if workflow.gates.iter().any(|gate| gate.name == file.name) {
        let remedy = format!("the file has a gate `{}`; give this one another name", file.name);
        return Err(contradiction(&format!("{field}.name"), remedy));
    }
    if file.is_mandatory() {
        return Ok(());
    }
    let always = workflow.gates.iter().filter(|gate| gate.when.is_empty());
    for gate in always {
        let tool = file.tools.iter().find(|tool| gate.tools.contains(tool));
        let tag = file.tags.iter().find(|tag| gate.tags.contains(tag));
        if let Some(what) = tool.or(tag) {
            let remedy = format!(
                "the file's gate `{}` always asks about `{what}`, and this one only under conditions; \
                 take `when` out, or leave it to the file",
                gate.name
            );
            return Err(contradiction(&format!("{field}.when"), remedy));
        }
    }
    Ok(())
}
