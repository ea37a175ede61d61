//! Gates: which tool calls wait for a person, as it is written in YAML, and what that means.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::compile::patience;
use crate::definition::file::{LengthOfTime, OnTimeoutFile, WorkflowFile};
use crate::definition::mcp;
use crate::definition::people::{ApproversFile, AssuranceFile, BindingFile, ExcludedFile};
use crate::kernel::workflow::{Condition, Gate, Patience};
use crate::kernel::{JUDGE_MS_DEFAULT, duration_ms};

/// A rule that makes calls of some tools wait for a person.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GateFile {
    /// Its name, such as `before_deploy`.
    pub(super) name: String,
    /// The tools it is bound to, by name.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// The tools it is bound to, by tag.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// When it asks: if any of these holds. Always, if there are none.
    #[serde(default)]
    #[schemars(length(max = 100))]
    pub(super) when: Vec<ConditionFile>,
    /// What is asked, if not simply whether the tool may be called.
    pub(super) prompt: Option<String>,
    /// How long it waits for an answer; silence is a no. For ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline: `reject`, or `escalate_to` somebody else first.
    pub(super) on_timeout: Option<OnTimeoutFile>,
    /// How long after the asking, and then again and again, whoever should answer is reminded.
    pub(super) remind: Option<LengthOfTime>,
    /// Whom it is addressed to: people by name, `group:NAME`, `role:NAME`; whoever owns the session
    /// unless given.
    #[serde(default)]
    #[schemars(length(max = 32))]
    pub(super) to: Vec<String>,
    /// Whom it never admits.
    #[serde(default)]
    pub(super) not: Vec<ExcludedFile>,
    /// Who is asked, stage by stage, and how many must agree; in place of `to`.
    pub(super) approvers: Option<ApproversFile>,
    /// How well whoever decides must be known: `proven` (a key of their own, the console) or `vouched`
    /// (a service's word); as the operator says unless given.
    pub(super) assurance: Option<AssuranceFile>,
    /// `digest`: it is answered only with the digest of what was shown; a request id or a printed
    /// code alone is refused. The terminal, the console and the chat send it themselves.
    pub(super) binding: Option<BindingFile>,
    /// How long *allow for this run* lasts; to the end of the run unless given.
    pub(super) allow_for: Option<LengthOfTime>,
}

/// Something that makes a call worth a person's look.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ConditionFile {
    /// One of these words is in the tool's name, its arguments, or what the agent says with it.
    Keywords(#[schemars(length(min = 1))] Vec<String>),
    /// The server works in one of these environments, or nobody has said in which; the run's metadata
    /// entry `environment` can only add the question.
    Environment(#[schemars(length(min = 1))] Vec<String>),
    /// The agent says that it does not know.
    Uncertain,
    /// More tool calls than this have failed in the run.
    FailuresOver(u32),
    /// A number among the arguments is larger than this, or is not there.
    Argument {
        /// Where: a JSON pointer such as `/amount`.
        #[schemars(extend("pattern" = "^/"))]
        pointer: String,
        /// The largest number that needs nobody.
        over: f64,
    },
    /// Where no rule has stopped the call, this agent looks at it, and may ask for a person; so
    /// does its failure, its silence, and whatever is no clear verdict.
    Judge(JudgeFile),
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

impl GateFile {
    /// Whether it asks whatever the call is.
    pub(super) fn is_mandatory(&self) -> bool {
        self.when.is_empty()
    }

    /// Agents that judge at it.
    pub(super) fn judges(&self) -> impl Iterator<Item = &str> {
        self.when.iter().filter_map(|condition| match condition {
            ConditionFile::Judge(judge) => Some(judge.agent()),
            ConditionFile::Keywords(_)
            | ConditionFile::Environment(_)
            | ConditionFile::Uncertain
            | ConditionFile::FailuresOver(_)
            | ConditionFile::Argument { .. } => None,
        })
    }

    /// The gate that a checked file means.
    pub(super) fn compile(&self, file: &WorkflowFile) -> Gate {
        let ms = |length: &LengthOfTime| duration_ms(&length.0);
        Gate {
            name: self.name.clone(),
            tools: self.tools.iter().flat_map(|tool| mcp::bound(file, tool)).collect(),
            tags: self.tags.clone(),
            when: self.when.iter().map(ConditionFile::compile).collect(),
            prompt: self.prompt.clone(),
            patience: Patience {
                remind_ms: self.remind.as_ref().and_then(ms),
                to: self.to.clone(),
                not: ExcludedFile::compile(&self.not),
                assurance: self.assurance.map(AssuranceFile::compile),
                approvers: ApproversFile::compile(self.approvers.as_ref(), self.assurance),
                by_digest: self.binding.is_some(),
                ..patience(self.deadline.as_ref(), self.on_timeout.as_ref())
            },
            allow_ms: self.allow_for.as_ref().and_then(ms),
        }
    }
}

impl ConditionFile {
    fn compile(&self) -> Condition {
        match self {
            Self::Keywords(words) => Condition::Keywords(words.clone()),
            Self::Environment(names) => Condition::Environment(names.clone()),
            Self::Uncertain => Condition::Uncertain,
            Self::FailuresOver(most) => Condition::FailuresOver(*most),
            Self::Argument { pointer, over } => {
                Condition::Argument { pointer: pointer.clone(), over: *over }
            }
            Self::Judge(judge) => Condition::Judge {
                agent: judge.agent().to_owned(),
                within_ms: judge
                    .within()
                    .and_then(|time| duration_ms(&time.0))
                    .unwrap_or(JUDGE_MS_DEFAULT),
            },
        }
    }
}
