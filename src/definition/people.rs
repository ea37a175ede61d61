//! People: whom a question is asked of, as it is written in YAML, and what that means. Who somebody
//! is, and which groups there are, is the operator's word and not the file's.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::time::LengthOfTime;
use crate::kernel::{Assurance, Excluded, Level, Stage, duration_ms};

/// One stage, or several that follow one another.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum ApproversFile {
    /// One stage.
    One(Box<StageFile>),
    /// Several, one after the other.
    Many(#[schemars(length(min = 1, max = 16))] Vec<StageFile>),
}

/// Who is asked, and how many of them must agree.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct StageFile {
    /// Whom: people by name, `group:NAME`, `role:NAME`.
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
    /// Whom it never admits.
    #[serde(default)]
    pub(super) not: Vec<ExcludedFile>,
    /// How many people must say the same; one unless given.
    #[schemars(range(min = 1, max = 32))]
    pub(super) need: Option<u32>,
    /// How long they have; for ever unless given.
    pub(super) within: Option<LengthOfTime>,
    /// Who is asked as well when that time is up, level by level; silence at the end is a no.
    #[serde(default)]
    #[schemars(length(max = 8))]
    pub(super) escalate: Vec<LevelFile>,
    /// How well they must be known; as the whole question says, or else the operator, unless given.
    pub(super) assurance: Option<AssuranceFile>,
}

/// How well whoever decides must be known. A service or a model by itself never decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum AssuranceFile {
    /// By a key of their own, or signed in at the console.
    Proven,
    /// A service's word for them is enough.
    Vouched,
}

impl AssuranceFile {
    pub(super) fn compile(self) -> Assurance {
        match self {
            Self::Proven => Assurance::Proven,
            Self::Vouched => Assurance::Vouched,
        }
    }
}

/// By what an answer to a decision must name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum BindingFile {
    /// By the digest of what was shown: a request id or a printed code alone is refused.
    Digest,
}

/// Who is asked as well, and how long all of them then have.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct LevelFile {
    /// Whom: people by name, `group:NAME`, `role:NAME`.
    #[schemars(length(min = 1, max = 32))]
    pub(super) to: Vec<String>,
    /// How long; for ever unless given.
    pub(super) within: Option<LengthOfTime>,
}

/// Who is never admitted, however they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ExcludedFile {
    /// Whoever asked for it.
    Requester,
    /// Whoever changed what is now asked.
    Editor,
    /// Whoever has answered something else in the run.
    Participant,
}

impl ExcludedFile {
    pub(super) fn compile(all: &[Self]) -> Vec<Excluded> {
        let one = |excluded: &Self| match excluded {
            Self::Requester => Excluded::Requester,
            Self::Editor => Excluded::Editor,
            Self::Participant => Excluded::Participant,
        };
        all.iter().map(one).collect()
    }
}

impl ApproversFile {
    /// The stages, one after the other.
    pub(super) fn stages(&self) -> &[StageFile] {
        match self {
            Self::One(one) => std::slice::from_ref(one),
            Self::Many(many) => many,
        }
    }

    /// The stages that a checked file means; none where it has none. What is said of the whole
    /// question holds where a stage says nothing.
    pub(super) fn compile(given: Option<&Self>, assurance: Option<AssuranceFile>) -> Vec<Stage> {
        let stages = given.map(Self::stages).unwrap_or_default().iter();
        let whole = assurance.map(AssuranceFile::compile);
        let stages = stages.map(StageFile::compile);
        stages.map(|stage| Stage { assurance: stage.assurance.or(whole), ..stage }).collect()
    }
}

impl StageFile {
    fn compile(&self) -> Stage {
        let ms = |time: &Option<LengthOfTime>| time.as_ref().and_then(|time| duration_ms(&time.0));
        let level =
            |level: &LevelFile| Level { to: level.to.clone(), within_ms: ms(&level.within) };
        Stage {
            rules: Vec::new(),
            to: self.to.clone(),
            not: ExcludedFile::compile(&self.not),
            need: self.need.unwrap_or(1),
            within_ms: ms(&self.within),
            escalate: self.escalate.iter().map(level).collect(),
            assurance: self.assurance.map(AssuranceFile::compile),
        }
    }
}
