//! Policy: rules that an operator makes over workflows: gates that are added, and, for named workflows and people
//! alone, gates of the file that are lifted. What of it is in force for a run is worked out here, kept in its
//! journal, and changed by an event of its own: a replay looks at no file.
//!
//! What a start brings with it is in force beside it, and nothing takes it away (`brought`).
//!
//! - **K12** A requester chooses nothing that decides whether they are asked. Who they are is known by their
//!   credential, or by a service that speaks for them; a rule that loosens wants every requester of a run to be
//!   named, and one that tightens is content with one.
//! - **K7** A question that is open stays open, whatever is lifted.

use serde_json::{Value, json};

use crate::kernel::brought;
use crate::kernel::digest;
use crate::kernel::nested::is_called;
use crate::kernel::operator::Operator;
use crate::kernel::rules::ANY;
use crate::kernel::run::Run;
use crate::kernel::workflow::Gate;

pub use crate::kernel::rules::{InForce, Policy, Rule};

/// What a name of a gate begins with that the operator's policy has added.
pub const ADDED: &str = "policy:";
/// And the phase gate of a step, where it is lifted by name.
pub const STEP: &str = "step:";
/// Characters of a digest in a gate's name: by these, gates of other terms are other gates.
const MARK: usize = 8;

impl Policy {
    /// What of it is in force for a run of `workflow` that these people asked for.
    pub fn for_run(&self, workflow: &str, requesters: &[String], operator: &Operator) -> InForce {
        let mut force = InForce::default();
        for rule in &self.rules {
            let is_for =
                rule.workflows.is_empty() || rule.workflows.iter().any(|it| it == workflow);
            let is_named =
                |who: &String| rule.people.iter().any(|named| operator.means(named, who));
            let any = rule.people.is_empty() || requesters.iter().any(is_named);
            if !is_for || !any {
                continue;
            }
            force.rules.push(rule.name.clone());
            force.gates.extend(rule.gates.iter().map(|gate| named(&rule.name, gate)));
            // K12: loosened is only for those who are named, each of them, in workflows that are.
            let all = !rule.people.is_empty() && requesters.iter().all(is_named);
            if all && !rule.workflows.is_empty() && !requesters.is_empty() {
                force.lifts.extend(rule.lifts.iter().cloned());
            }
        }
        if force.is_nothing() {
            return InForce::default();
        }
        force.policy.clone_from(&self.digest);
        force
    }
}

/// A gate of a policy under a name of its own, in which its terms are: where they change it is another gate, and
/// nobody's yes to the one before passes it.
fn named(rule: &str, gate: &Gate) -> Gate {
    let terms = digest::of(&serde_json::to_value(gate).unwrap_or_default());
    let mark: String = terms.chars().take(MARK).collect();
    Gate { name: format!("{ADDED}{rule}.{}#{mark}", gate.name), ..gate.clone() }
}

/// Whether what is called so is meant by a name in a gate; one over all workflows means it within their steps, too.
pub(super) fn means_name(rule: &Gate, named: &str, called: &str) -> bool {
    let is_over_all = rule.name.starts_with(ADDED) || brought::is_named_so(&rule.name);
    called == named || is_over_all && is_called(called, named)
}

impl Run {
    /// The gates that are in force: the file's that nobody has lifted, those that its start brought, and the
    /// operator's.
    pub fn gates(&self) -> impl Iterator<Item = &Gate> + Clone {
        let stands = |gate: &&Gate| !self.policy.lifts(&gate.name);
        let own = self.workflow.gates.iter().filter(stands);
        own.chain(&self.brought).chain(&self.policy.gates)
    }

    /// Whether the phase gate of a step is lifted.
    pub(super) fn lifts_step(&self, id: &str) -> bool {
        !self.policy.lifts.is_empty() && self.policy.lifts(&format!("{STEP}{id}"))
    }

    /// What the operator's policy says of this run now, where that is another thing than is in force.
    pub fn ruled_otherwise(&self) -> Option<InForce> {
        if self.status.is_over() {
            return None;
        }
        let operator = &self.operator;
        let now = operator.policy.for_run(&self.workflow.name, &self.requesters, operator);
        (!now.is_same(&self.policy)).then_some(now)
    }

    /// What is in force, each with where it is from: for people and programs to read.
    pub fn rules_in_force(&self) -> Vec<InForceRule> {
        let rule = |gate: &Gate, from: &str, is_lifted| InForceRule {
            gate: gate.name.clone(),
            from: from.to_owned(),
            means: means(gate),
            is_lifted,
        };
        let by_policy = format!("policy {}", self.policy.policy);
        let own = self.workflow.gates.iter().map(|gate| {
            let is_lifted = self.policy.lifts(&gate.name);
            rule(gate, if is_lifted { &by_policy } else { "file" }, is_lifted)
        });
        let steps = self.policy.lifts.iter().filter(|name| name.starts_with(STEP) || *name == ANY);
        let steps = steps.map(|name| InForceRule {
            gate: if name == ANY { format!("{STEP}{ANY}") } else { name.clone() },
            from: by_policy.clone(),
            means: "where a person looks at a step".into(),
            is_lifted: true,
        });
        let brought = self.brought.iter().map(|gate| rule(gate, "start", false));
        let added = self.policy.gates.iter().map(|gate| rule(gate, &by_policy, false));
        own.chain(steps).chain(brought).chain(added).collect()
    }
}

/// A gate that is in force, or was lifted, and from where that is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InForceRule {
    /// Its name.
    pub gate: String,
    /// Where it is from, or who lifted it: `file`, `start`, `policy DIGEST`.
    pub from: String,
    /// What it looks at, and when it asks whom.
    pub means: String,
    /// Whether it is lifted.
    pub is_lifted: bool,
}

/// What a gate looks at, when it asks and whom, in a line.
pub fn means(gate: &Gate) -> String {
    let mut parts = Vec::new();
    let list = |what: &str, names: &[String]| {
        let names: Vec<_> =
            names.iter().map(|name| if name == ANY { "any" } else { name }).collect();
        (!names.is_empty()).then(|| format!("{what} {}", names.join(", ")))
    };
    parts.extend(list("tools", &gate.tools));
    parts.extend(list("tools tagged", &gate.tags));
    parts.extend(list("replies of", &gate.replies));
    parts.extend(list("steps", &gate.steps));
    if !gate.handoffs.is_empty() {
        let any = || "any".to_owned();
        let one = |pair: &crate::kernel::workflow::Between| {
            let (from, to) = (pair.from.clone(), pair.to.clone());
            format!("{} to {}", from.unwrap_or_else(any), to.unwrap_or_else(any))
        };
        let pairs: Vec<_> = gate.handoffs.iter().map(one).collect();
        parts.push(format!("handoffs {}", pairs.join(", ")));
    }
    let looks = parts.join("; ");
    let asks = if gate.when.is_empty() {
        "always a person".to_owned()
    } else {
        let words = |condition| {
            let value: Value = serde_json::to_value(condition).unwrap_or_default();
            value.as_str().map_or_else(|| value.to_string(), str::to_owned)
        };
        let all: Vec<String> = gate.when.iter().map(words).collect();
        format!("a person when {}", all.join(" or "))
    };
    let patience = &gate.patience;
    let stages = patience.approvers.iter().flat_map(|stage| &stage.to);
    let to: Vec<&str> = patience.to.iter().chain(stages).map(String::as_str).collect();
    let to = if to.is_empty() { String::new() } else { format!(" ({})", to.join(", ")) };
    format!("{looks}: {asks}{to}")
}

/// What is in force as a value: what the journal's event tells.
pub fn told(force: &InForce) -> Value {
    let gates: Vec<Value> =
        force.gates.iter().map(|gate| json!({"gate": gate.name, "means": means(gate)})).collect();
    json!({"policy": force.policy, "rules": force.rules, "gates": gates, "lifts": force.lifts})
}
