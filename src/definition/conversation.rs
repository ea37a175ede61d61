//! Conversation: how much of it an agent is given, and how far back, as it is written in YAML, and
//! what that means.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::kernel::{Bound, Remembers, WhenFull};

/// How much of the conversation an agent is given, and what happens when it is more.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConversationFile {
    /// The most that an agent is given, in bytes of text; a token is about four.
    #[schemars(range(min = 1_000, max = 16_777_216))]
    pub(super) max_bytes: usize,
    /// `refuse` fails the step; `{summarise: AGENT}` has that agent sum up the older part. `refuse`
    /// unless given.
    #[serde(default)]
    pub(super) when_full: WhenFullFile,
}

/// What happens when an agent would be given too much.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum WhenFullFile {
    /// The step fails.
    #[default]
    Refuse,
    /// This agent sums up the older part; the journal keeps all of it.
    Summarise(String),
}

/// How far back agents remember.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum RemembersFile {
    /// To the beginning of the session.
    #[default]
    Session,
    /// To the beginning of the run.
    Run,
}

impl RemembersFile {
    /// What it means.
    pub(super) fn compile(self) -> Remembers {
        match self {
            Self::Session => Remembers::Session,
            Self::Run => Remembers::Run,
        }
    }
}

impl ConversationFile {
    /// Who sums up, if somebody does.
    pub(super) fn summariser(&self) -> Option<&str> {
        match &self.when_full {
            WhenFullFile::Summarise(agent) => Some(agent),
            WhenFullFile::Refuse => None,
        }
    }

    /// The bound that a checked file means.
    pub(super) fn compile(&self) -> Bound {
        let when_full = match &self.when_full {
            WhenFullFile::Refuse => WhenFull::Refuse,
            WhenFullFile::Summarise(agent) => WhenFull::Summarise(agent.clone()),
        };
        Bound { bytes: self.max_bytes, when_full }
    }
}
