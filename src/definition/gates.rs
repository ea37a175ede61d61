//! Gates: what waits for a person, as it is written in YAML, and what that means.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::conditions::{ConditionFile, JudgeFile};
use crate::definition::patience::{OnTimeoutFile, patience};
use crate::definition::people::{ApproversFile, AssuranceFile, BindingFile, ExcludedFile};
use crate::definition::time::LengthOfTime;
use crate::kernel::graph::Point;
use crate::kernel::workflow::{Between, Gate, Patience};
use crate::kernel::{ANY, duration_ms};

/// A rule that makes some of what agents do wait for a person.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GateFile {
    /// Its name, such as `before_deploy`.
    pub(super) name: String,
    /// The tools it is bound to, by name; `*` is each that is not `pure`.
    #[serde(default)]
    pub(super) tools: Vec<String>,
    /// The tools it is bound to, by tag.
    #[serde(default)]
    pub(super) tags: Vec<String>,
    /// The handoffs it is bound to: `any`, or a list of `{from, to}`.
    pub(super) handoffs: Option<AnyOr<BetweenFile>>,
    /// The agents whose replies it is bound to, before they become final: `any`, or a list.
    pub(super) replies: Option<AnyOr<String>>,
    /// The steps of a graph it is bound to, by id; a plan's own are `planning` and, each of its steps, `execute`.
    #[serde(default)]
    pub(super) steps: Vec<String>,
    /// Where it looks at those steps; `before` unless given.
    #[serde(default)]
    pub(super) at: Vec<PointFile>,
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
    #[schemars(length(min = 1, max = 32))]
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

/// Any of them, or a list.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum AnyOr<T> {
    /// `any`.
    Any(AnyWord),
    /// These.
    List(Vec<T>),
}

/// The word for any of them.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AnyWord {
    /// Any of them.
    Any,
}

/// Handoffs of one agent, or to one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct BetweenFile {
    /// Whose; anybody's unless given.
    pub(super) from: Option<String>,
    /// To whom; to anybody unless given.
    pub(super) to: Option<String>,
}

/// Where a step is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum PointFile {
    /// Before it is begun.
    Before,
    /// When it is done.
    After,
    /// When it is done, and is a plan.
    Review,
    /// When it has failed.
    Error,
}

impl GateFile {
    /// Whether it is bound to something that no tool is.
    pub(super) fn looks_elsewhere(&self) -> bool {
        self.handoffs.is_some() || self.replies.is_some() || !self.steps.is_empty()
    }

    /// Whether it asks whatever the call is.
    pub(super) fn is_mandatory(&self) -> bool {
        self.when.is_empty()
    }

    /// Agents that judge at it.
    pub(super) fn judges(&self) -> impl Iterator<Item = &str> {
        self.when.iter().filter_map(ConditionFile::judge).map(JudgeFile::agent)
    }

    /// The gate that a checked file means. Which tools a name stands for is known elsewhere.
    pub(super) fn meaning(&self, bound: impl Fn(&str) -> Vec<String>) -> Gate {
        let ms = |length: &LengthOfTime| duration_ms(&length.0);
        Gate {
            name: self.name.clone(),
            tools: self.tools.iter().flat_map(|tool| bound(tool)).collect(),
            tags: self.tags.clone(),
            handoffs: match &self.handoffs {
                None => Vec::new(),
                Some(AnyOr::Any(AnyWord::Any)) => vec![Between::default()],
                Some(AnyOr::List(list)) => list
                    .iter()
                    .map(|one| Between { from: one.from.clone(), to: one.to.clone() })
                    .collect(),
            },
            replies: match &self.replies {
                None => Vec::new(),
                Some(AnyOr::Any(AnyWord::Any)) => vec![ANY.to_owned()],
                Some(AnyOr::List(list)) => list.clone(),
            },
            steps: self.steps.clone(),
            at: self.at.iter().map(|at| at.compile()).collect(),
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

impl PointFile {
    fn compile(self) -> Point {
        match self {
            Self::Before => Point::Before,
            Self::After => Point::After,
            Self::Review => Point::Review,
            Self::Error => Point::Error,
        }
    }
}
