//! Rules: what an operator's policy says, and what of it is in force for a run. How the one follows from the other is
//! worked out in `policy`.

use serde::{Deserialize, Serialize};

use crate::kernel::workflow::Gate;

/// Whatever there is of its kind.
pub const ANY: &str = "*";

/// The operator's rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// The digest of what it means; empty where there is none.
    pub digest: String,
    /// The rules, in order.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// The workflows it is for; all, if there are none.
    pub workflows: Vec<String>,
    /// The people whose runs it is for; everybody's, if there are none.
    pub people: Vec<String>,
    /// Gates that it adds.
    pub gates: Vec<Gate>,
    /// Gates of the file that it lifts, by name; `step:ID` is a step's own, `*` is each of them.
    pub lifts: Vec<String>,
}

/// What of a policy is in force for a run.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InForce {
    /// The digest of the policy that it is of.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub policy: String,
    /// The rules that are for the run, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Gates that they add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// Gates of the file that they lift.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lifts: Vec<String>,
}

impl InForce {
    /// Whether nothing of a policy is in force.
    pub fn is_nothing(&self) -> bool {
        self.gates.is_empty() && self.lifts.is_empty()
    }

    /// Whether a gate of the file is lifted.
    pub fn lifts(&self, name: &str) -> bool {
        self.lifts.iter().any(|lifted| lifted == ANY || lifted == name)
    }

    /// Whether it asks and lets pass what another does, from whichever policy.
    pub fn is_same(&self, other: &Self) -> bool {
        self.gates == other.gates && self.lifts == other.lifts
    }
}
