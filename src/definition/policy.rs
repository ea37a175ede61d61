//! Policy: the operator's rules over all workflows, as they are written in YAML, checked against the workflows and
//! people that there are, as a whole: with one problem in it none of it is taken.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use jsonschema::Validator;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use crate::definition::check::condition_problem;
use crate::definition::conditions::ConditionFile;
use crate::definition::gates::{AnyOr, AnyWord, GateFile};
use crate::definition::load::shaped;
use crate::definition::modes::{CheckpointFile, ModeFile, PLANNING};
use crate::definition::people::ApproversFile;
use crate::definition::problem::Problem;
use crate::definition::schema::schema_of;
use crate::definition::source::{Source, under};
use crate::kernel::policy::{Policy, Rule, STEP};
use crate::kernel::workflow::Pattern;
use crate::kernel::{ANY, Operator, Workflow, digest};

/// A Holdpoint policy: rules over all workflows.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyFile {
    /// A ready-made rule for every workflow and everybody.
    mode: Option<ModeFile>,
    /// The rules, in order; each adds to those before it.
    #[serde(default)]
    #[schemars(length(max = 100))]
    rules: Vec<RuleFile>,
}

/// One rule.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleFile {
    /// Its name, unique in the policy.
    name: String,
    /// The workflows it is for; all of them unless given.
    #[serde(default)]
    workflows: Vec<String>,
    /// Whose runs it is for: people by name, `group:NAME`, `role:NAME`; everybody's unless given.
    #[serde(default)]
    people: Vec<String>,
    /// A ready-made rule.
    mode: Option<ModeFile>,
    /// With `mode: mandatory`: at which checkpoints; at all of them unless given.
    #[serde(default)]
    checkpoints: Vec<CheckpointFile>,
    /// Gates that it adds, as a workflow file has them.
    #[serde(default)]
    #[schemars(length(max = 100))]
    gates: Vec<GateFile>,
    /// Gates of the files that it lifts: their names, `step:ID` for where a person looks at a step, or `any`. Only
    /// with `workflows` and `people`.
    lift: Option<AnyOr<String>>,
}

/// The JSON Schema of a policy file.
pub fn policy_schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| schema_of::<PolicyFile>("Holdpoint policy"));
    &SCHEMA
}

static SHAPE: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::validator_for(policy_schema()).expect("our own schema is a JSON Schema")
});

/// The policy of a text, or everything that is wrong with it. `name` is what it is called in problems.
pub fn load_policy(
    name: &str,
    text: &str,
    workflows: &[Arc<Workflow>],
    operator: &Operator,
) -> Result<Policy, Vec<Problem>> {
    let source = Source::read(name, text)?;
    let file: PolicyFile = shaped(&source, policy_schema(), &SHAPE)?;
    let mut check = Check { source: &source, workflows, operator, problems: Vec::new() };
    check.file(&file);
    if !check.problems.is_empty() {
        return Err(check.problems);
    }
    let every = file.mode.map(|mode| RuleFile {
        name: "mode".into(),
        workflows: Vec::new(),
        people: Vec::new(),
        mode: Some(mode),
        checkpoints: Vec::new(),
        gates: Vec::new(),
        lift: None,
    });
    let rules = every.iter().chain(&file.rules).flat_map(|rule| rule.compile(workflows)).collect();
    Ok(Policy { digest: digest::of(&source.value), rules })
}

impl RuleFile {
    /// The workflows that it is for, of those there are.
    fn meant<'a>(&self, all: &'a [Arc<Workflow>]) -> impl Iterator<Item = &'a Arc<Workflow>> {
        let names = self.workflows.clone();
        all.iter().filter(move |one| names.is_empty() || names.contains(&one.name))
    }

    /// The rules that it means: one for its own gates, and one for each workflow where a mode has others there.
    fn compile(&self, all: &[Arc<Workflow>]) -> Vec<Rule> {
        let lifts = match (&self.lift, self.mode.is_some_and(ModeFile::lifts)) {
            (Some(AnyOr::Any(AnyWord::Any)), _) | (_, true) => vec![ANY.to_owned()],
            // `[any]` is `any`.
            (Some(AnyOr::List(names)), false) => {
                names.iter().map(|name| if name == "any" { ANY } else { name }.to_owned()).collect()
            }
            (None, false) => Vec::new(),
        };
        let own = Rule {
            name: self.name.clone(),
            workflows: self.workflows.clone(),
            people: self.people.clone(),
            gates: self.gates.iter().map(|gate| gate.meaning(tools_of)).collect(),
            lifts,
        };
        let of_mode = self.meant(all).filter_map(|workflow| {
            let gates = self.mode?.gates(workflow, &self.checkpoints);
            let gates: Vec<_> = gates.iter().map(|gate| gate.meaning(tools_of)).collect();
            (!gates.is_empty()).then(|| Rule {
                name: self.name.clone(),
                workflows: vec![workflow.name.clone()],
                people: self.people.clone(),
                gates,
                lifts: Vec::new(),
            })
        });
        let mut rules: Vec<Rule> = of_mode.collect();
        if !own.gates.is_empty() || !own.lifts.is_empty() {
            rules.insert(0, own);
        }
        rules
    }
}

/// The tool that a name means: `time.now` is that of an MCP server.
fn tools_of(tool: &str) -> Vec<String> {
    vec![tool.replace('.', "__")]
}

struct Check<'a> {
    source: &'a Source,
    workflows: &'a [Arc<Workflow>],
    operator: &'a Operator,
    problems: Vec<Problem>,
}

impl Check<'_> {
    fn at(&mut self, pointer: &str, code: &'static str, message: impl Into<String>) {
        self.problems.push(self.source.at(pointer, code, message));
    }

    /// A name that must be one of those known.
    fn known(
        &mut self,
        pointer: &str,
        (what, code): (&str, &'static str),
        name: &str,
        known: &BTreeSet<String>,
    ) {
        if !known.contains(name) {
            let problem = self.source.at(pointer, code, format!("there is no {what} `{name}`"));
            self.problems.push(problem.did_you_mean(name, known.iter().map(String::as_str)));
        }
    }

    fn file(&mut self, file: &PolicyFile) {
        if file.mode.is_some_and(ModeFile::lifts) {
            let message = "only a rule that names `workflows` and `people` loosens anything";
            self.at("/mode", "policy.unnamed", message);
        }
        let mut names = BTreeSet::new();
        for (index, rule) in file.rules.iter().enumerate() {
            let pointer = under("/rules", index);
            let is_letter =
                |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c);
            if rule.name.is_empty() || !rule.name.chars().all(is_letter) || rule.name == "mode" {
                let message = "expected lower-case letters, digits, `_` and `-`, and not `mode`";
                self.at(&under(&pointer, "name"), "name.invalid", message);
            }
            if !names.insert(&rule.name) {
                let message = format!("`{}` is here twice; each may be given once", rule.name);
                self.at(&under(&pointer, "name"), "name.duplicate", message);
            }
            self.rule(&pointer, rule);
        }
    }

    fn rule(&mut self, pointer: &str, rule: &RuleFile) {
        let names = self.workflows.iter().map(|one| one.name.clone()).collect();
        for (index, name) in rule.workflows.iter().enumerate() {
            let at = under(&under(pointer, "workflows"), index);
            self.known(&at, ("workflow", "workflow.unknown"), name, &names);
        }
        self.people(&under(pointer, "people"), &rule.people);
        let loosens = rule.lift.is_some() || rule.mode.is_some_and(ModeFile::lifts);
        if loosens && (rule.workflows.is_empty() || rule.people.is_empty()) {
            let message = "only a rule that names `workflows` and `people` loosens anything";
            let field = if rule.lift.is_some() { "lift" } else { "mode" };
            self.at(&under(pointer, field), "policy.unnamed", message);
        }
        if !rule.checkpoints.is_empty() && rule.mode != Some(ModeFile::Mandatory) {
            let message = "`checkpoints` go with `mode: mandatory`";
            self.at(&under(pointer, "checkpoints"), "gate.contradiction", message);
        }
        if rule.mode.is_none() && rule.gates.is_empty() && rule.lift.is_none() {
            let message = "this rule says nothing; give it a `mode`, `gates` or `lift`";
            self.at(pointer, "policy.empty", message);
        }
        let meant: Vec<Arc<Workflow>> = rule.meant(self.workflows).cloned().collect();
        self.checkpoints(&under(pointer, "checkpoints"), rule, &meant);
        if let Some(AnyOr::List(lifted)) = &rule.lift {
            let gates = meant.iter().flat_map(|one| &one.gates).map(|gate| gate.name.clone());
            let steps = meant.iter().flat_map(|one| gated_steps(one));
            let known = gates.chain(steps.map(|id| format!("{STEP}{id}"))).collect();
            for (index, name) in lifted.iter().enumerate().filter(|(_, name)| *name != "any") {
                let at = under(&under(pointer, "lift"), index);
                self.known(&at, ("gate", "gate.unknown"), name, &known);
            }
        }
        let mut names = BTreeSet::new();
        for (index, gate) in rule.gates.iter().enumerate() {
            let at = under(&under(pointer, "gates"), index);
            if !names.insert(&gate.name) {
                let message = format!("`{}` is here twice; each may be given once", gate.name);
                self.at(&under(&at, "name"), "name.duplicate", message);
            }
            self.gate(&at, gate, &meant);
        }
    }

    /// A checkpoint that is named is one that something comes to. All four, where none is named, are for whatever there is.
    fn checkpoints(&mut self, pointer: &str, rule: &RuleFile, meant: &[Arc<Workflow>]) {
        if meant.is_empty() || rule.mode != Some(ModeFile::Mandatory) {
            return;
        }
        for (index, checkpoint) in rule.checkpoints.iter().enumerate() {
            let at = under(pointer, index);
            match checkpoint.tag() {
                Some(tag) => {
                    let tools = meant.iter().flat_map(|one| one.tools.values());
                    if !tools.flat_map(|tool| &tool.tags).any(|known| known == tag) {
                        let message = format!(
                            "no tool of these workflows is tagged `{tag}`: this checkpoint would never ask; tag the tools \
                             (`tags: [{tag}]`), or take it away"
                        );
                        self.at(&at, "tag.unknown", message);
                    }
                }
                None => {
                    if !meant.iter().any(|one| steps_of(one).iter().any(|id| id == PLANNING)) {
                        let message = "none of these workflows makes a plan: this checkpoint would never ask; take it away";
                        self.at(&at, "step.unknown", message);
                    }
                }
            }
        }
    }

    /// People, groups and roles that the operator knows.
    fn people(&mut self, pointer: &str, names: &[String]) {
        let people = &self.operator.people;
        let groups: BTreeSet<String> =
            people.values().flat_map(|one| one.groups.iter().cloned()).collect();
        let titles: BTreeSet<String> =
            people.values().flat_map(|one| one.titles.iter().cloned()).collect();
        let persons: BTreeSet<String> = people.keys().cloned().collect();
        for (index, name) in names.iter().enumerate() {
            let at = under(pointer, index);
            match name.split_once(':') {
                Some(("group", group)) => {
                    self.known(&at, ("group", "group.unknown"), group, &groups);
                }
                Some(("role", title)) => self.known(&at, ("role", "role.unknown"), title, &titles),
                Some(_) => self.at(&at, "approvers.name", "expected `group:NAME` or `role:NAME`"),
                None if persons.is_empty() => {}
                None => self.known(&at, ("person", "person.unknown"), name, &persons),
            }
        }
    }

    fn gate(&mut self, pointer: &str, gate: &GateFile, meant: &[Arc<Workflow>]) {
        let is_bound = !gate.tools.is_empty() || !gate.tags.is_empty() || gate.looks_elsewhere();
        if !is_bound {
            let message = "this gate is bound to nothing; expected `tools`, `tags`, `handoffs`, \
                           `replies` or `steps`";
            self.at(pointer, "gate.unbound", message);
        }
        let mut tools: BTreeSet<String> =
            meant.iter().flat_map(|one| one.tools.keys().cloned()).collect();
        tools.insert(ANY.to_owned());
        for (index, tool) in gate.tools.iter().enumerate() {
            let at = under(&under(pointer, "tools"), index);
            self.known(&at, ("tool", "tool.unknown"), &tool.replace('.', "__"), &tools);
        }
        let all = meant.iter().flat_map(|one| one.tools.values());
        let tags: BTreeSet<String> = all.flat_map(|tool| tool.tags.iter().cloned()).collect();
        for (index, tag) in gate.tags.iter().enumerate() {
            let at = under(&under(pointer, "tags"), index);
            self.known(&at, ("tool with the tag", "tag.unknown"), tag, &tags);
        }
        self.bound_agents(pointer, gate, meant);
        let mut steps: BTreeSet<String> = meant.iter().flat_map(|one| steps_of(one)).collect();
        steps.insert(ANY.to_owned());
        for (index, step) in gate.steps.iter().enumerate() {
            let at = under(&under(pointer, "steps"), index);
            self.known(&at, ("step", "step.unknown"), step, &steps);
        }
        for (index, condition) in gate.when.iter().enumerate() {
            let at = under(&under(pointer, "when"), index);
            if condition.judge().is_some() {
                let message = "a judge is an agent of a workflow; say so in its file";
                self.at(&at, "gate.contradiction", message);
            } else if let ConditionFile::Full(full) = condition
                && let Some((code, message)) = condition_problem(full)
            {
                self.at(&at, code, message);
            }
        }
        self.people(&under(pointer, "to"), &gate.to);
        let stages = gate.approvers.as_ref().map(ApproversFile::stages).unwrap_or_default();
        for (index, stage) in stages.iter().enumerate() {
            let at = under(&under(pointer, "approvers"), index);
            self.people(&under(&at, "to"), &stage.to);
        }
    }

    fn bound_agents(&mut self, pointer: &str, gate: &GateFile, meant: &[Arc<Workflow>]) {
        let agents: BTreeSet<String> =
            meant.iter().flat_map(|one| one.agents.keys().cloned()).collect();
        if let Some(AnyOr::List(names)) = &gate.replies {
            for (index, name) in names.iter().enumerate() {
                let at = under(&under(pointer, "replies"), index);
                self.known(&at, ("agent", "agent.unknown"), name, &agents);
            }
        }
        let Some(AnyOr::List(pairs)) = &gate.handoffs else { return };
        for (index, pair) in pairs.iter().enumerate() {
            let at = under(&under(pointer, "handoffs"), index);
            for (field, name) in [("from", &pair.from), ("to", &pair.to)] {
                if let Some(name) = name {
                    self.known(&under(&at, field), ("agent", "agent.unknown"), name, &agents);
                }
            }
        }
    }
}

/// The steps of a workflow's graph.
pub(super) fn steps_of(workflow: &Workflow) -> Vec<String> {
    match &workflow.pattern {
        Pattern::Graph(program) => program.all().into_iter().map(|step| step.id.clone()).collect(),
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            Vec::new()
        }
    }
}

/// Those at which a person looks.
fn gated_steps(workflow: &Workflow) -> Vec<String> {
    match &workflow.pattern {
        Pattern::Graph(program) => {
            let all = program.all().into_iter().filter(|step| step.gate.is_some());
            all.map(|step| step.id.clone()).collect()
        }
        Pattern::Sequential { .. } | Pattern::Coordinator { .. } | Pattern::Handoff(_) => {
            Vec::new()
        }
    }
}
