//! Criteria: what a file says that makes an act worth a person's look. Whether it is found in an act is `condition`'s
//! to say.

use serde::{Deserialize, Serialize};

/// Something that makes an act worth a person's look.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Condition {
    /// One of these words is in the tool's name, its arguments or what the agent says with it.
    Keywords(Vec<String>),
    /// The run's metadata says that it works in one of these environments.
    Environment(Vec<String>),
    /// The agent says that it does not know.
    Uncertain,
    /// The same, in the file's own words and languages, or by a figure of the agent's own.
    UncertainBy(Doubt),
    /// More tool calls than this have failed in the run.
    FailuresOver(u32),
    /// More of one kind than this have failed.
    FailuresOf {
        /// Of which kind.
        same: Same,
        /// The most that need nobody.
        count: u32,
    },
    /// There is more to decide than this.
    Complex(Complexity),
    /// A number among the arguments is larger than this, or is not there.
    Argument {
        /// Where: a JSON pointer.
        pointer: String,
        /// The largest number that needs nobody.
        over: f64,
    },
    /// A judging agent says so; or fails, is late, or answers nonsense (K7).
    Judge {
        /// Who.
        agent: String,
        /// How long it has.
        within_ms: u64,
    },
}

/// Figures in a definition come from JSON, which has no number that is not equal to itself.
impl Eq for Condition {}

/// In which words, and by which figure, an agent says that it does not know.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Doubt {
    /// Phrases of the file's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub phrases: Vec<String>,
    /// Languages whose phrases are known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub languages: Vec<String>,
    /// The least confidence that needs nobody, where the agent's output declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_under: Option<f64>,
}

/// Of which kind failures are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Same {
    /// Of one tool.
    Tool,
    /// Of one step.
    Step,
}

/// The most of each that need nobody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Complexity {
    /// Options that are put side by side.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub options: Option<u32>,
    /// Steps of a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<u32>,
    /// Amounts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub amounts: Option<u32>,
}
