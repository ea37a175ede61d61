//! Conditions: what makes an act worth a person's look, as it is written in YAML, and what that means.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::time::LengthOfTime;
use crate::kernel::workflow::{Complexity, Condition, Doubt, Same};
use crate::kernel::{JUDGE_MS_DEFAULT, duration_ms};

/// Something that makes an act worth a person's look.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ConditionFile {
    /// A condition that needs nothing else.
    Word(WordFile),
    /// A condition with its terms.
    Full(FullConditionFile),
}

/// A condition that needs nothing else.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WordFile {
    /// The agent says that it does not know.
    Uncertain,
}

/// A condition with its terms.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum FullConditionFile {
    /// One of these words is in the tool's name, its arguments, or what the agent says with it; of a handoff, a
    /// reply or a step, also in what was said since a person spoke last.
    Keywords(#[schemars(length(min = 1))] Vec<String>),
    /// The server works in one of these environments, or nobody has said in which; the run's metadata
    /// entry `environment` can only add the question.
    Environment(#[schemars(length(min = 1))] Vec<String>),
    /// The agent says that it does not know, in these words or languages, or by a figure of its own.
    Uncertain(UncertainFile),
    /// More tool calls than this have failed in the run; or more of one tool, or in one step.
    FailuresOver(FailuresFile),
    /// There is more to decide than this.
    Complex(ComplexFile),
    /// A number among the arguments is larger than this, or is not there.
    Argument {
        /// Where: a JSON pointer such as `/amount`.
        #[schemars(extend("pattern" = "^/"))]
        pointer: String,
        /// The largest number that needs nobody. Beyond 2^53 two whole numbers would be one here: such a bound is refused.
        #[schemars(range(min = -9_007_199_254_740_992.0, max = 9_007_199_254_740_992.0))]
        over: f64,
    },
    /// Where no rule has stopped the call, this agent looks at it, and may ask for a person; so
    /// does its failure, its silence, and whatever is no clear verdict.
    Judge(JudgeFile),
}

/// In which words, and by which figure, an agent says that it does not know.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct UncertainFile {
    /// Phrases of one's own, whatever their case.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) phrases: Vec<String>,
    /// Languages whose phrases are known: `en`, `de`, `fr`, `es`. English where nothing is given.
    #[serde(default)]
    pub(super) languages: Vec<String>,
    /// The least `confidence` that needs nobody, where the agent's output declares one.
    pub(super) confidence_under: Option<f64>,
}

/// How many failures are too many.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum FailuresFile {
    /// Of all tools, in the whole run.
    Count(u32),
    /// Of one tool, or in one step.
    Same(SameFile),
}

/// Failures of one tool, or in one step.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SameFile {
    /// Of which kind: `tool` counts calls of the same tool, `step` whatever failed in the same step.
    same: SameWord,
    /// The most that need nobody.
    count: u32,
}

/// Of which kind failures are counted.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
enum SameWord {
    Tool,
    Step,
}

/// The most of each that need nobody.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ComplexFile {
    /// Options: items of the longest list in the act, or lines of a list in what is said.
    pub(super) options: Option<u32>,
    /// Steps of a plan: items of a list called `steps`.
    pub(super) steps: Option<u32>,
    /// Amounts: numbers in the act and in what is said.
    pub(super) amounts: Option<u32>,
}

/// A judging agent: its name, or its name with the time that it has.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum JudgeFile {
    /// Who judges.
    Agent(String),
    /// Who judges, and how long it has.
    Full(JudgeFields),
}

/// A judging agent with the time that it has.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct JudgeFields {
    /// Who judges.
    pub(super) agent: String,
    /// How long it has; a minute unless given. After that a person is asked.
    pub(super) within: Option<LengthOfTime>,
}

impl JudgeFile {
    pub(super) fn agent(&self) -> &str {
        match self {
            Self::Agent(agent) => agent,
            Self::Full(full) => &full.agent,
        }
    }

    pub(super) fn within(&self) -> Option<&LengthOfTime> {
        match self {
            Self::Agent(_) => None,
            Self::Full(full) => full.within.as_ref(),
        }
    }
}

impl ConditionFile {
    /// The judge that it is, if it is one.
    pub(super) fn judge(&self) -> Option<&JudgeFile> {
        match self {
            Self::Full(FullConditionFile::Judge(judge)) => Some(judge),
            Self::Full(_) | Self::Word(_) => None,
        }
    }

    pub(super) fn compile(&self) -> Condition {
        let full = match self {
            Self::Word(WordFile::Uncertain) => return Condition::Uncertain,
            Self::Full(full) => full,
        };
        match full {
            FullConditionFile::Keywords(words) => Condition::Keywords(words.clone()),
            FullConditionFile::Environment(names) => Condition::Environment(names.clone()),
            FullConditionFile::Uncertain(terms) => Condition::UncertainBy(Doubt {
                phrases: terms.phrases.clone(),
                languages: terms.languages.clone(),
                confidence_under: terms.confidence_under,
            }),
            FullConditionFile::FailuresOver(FailuresFile::Count(most)) => {
                Condition::FailuresOver(*most)
            }
            FullConditionFile::FailuresOver(FailuresFile::Same(terms)) => Condition::FailuresOf {
                same: match terms.same {
                    SameWord::Tool => Same::Tool,
                    SameWord::Step => Same::Step,
                },
                count: terms.count,
            },
            FullConditionFile::Complex(terms) => Condition::Complex(Complexity {
                options: terms.options,
                steps: terms.steps,
                amounts: terms.amounts,
            }),
            FullConditionFile::Argument { pointer, over } => {
                Condition::Argument { pointer: pointer.clone(), over: *over }
            }
            FullConditionFile::Judge(judge) => Condition::Judge {
                agent: judge.agent().to_owned(),
                within_ms: judge
                    .within()
                    .and_then(|time| duration_ms(&time.0))
                    .unwrap_or(JUDGE_MS_DEFAULT),
            },
        }
    }
}
