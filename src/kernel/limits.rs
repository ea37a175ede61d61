//! Limits: how far a run may go, how much of what was said an agent is given and how long a reply may be. What becomes
//! of one that would go further is decided where it would: in `advance`, `context_window` and `cut`.

use serde::{Deserialize, Serialize};

use crate::kernel::spending::Budgets;

/// A run takes at most this many steps unless its file says otherwise: a loop must end some day.
pub const STEPS_DEFAULT: u32 = 100;

/// Rounds of model calls within one turn, so that an agent cannot call tools for ever.
pub const ROUNDS_DEFAULT: u32 = 25;

/// Bounds of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Steps in all.
    pub steps: u32,
    /// Model calls within one turn.
    pub rounds: u32,
    /// What a run, and its session, may spend.
    #[serde(default, skip_serializing_if = "Budgets::is_nothing")]
    pub budgets: Budgets,
    /// How much of the conversation an agent is given; the whole of it, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conversation: Option<Bound>,
    /// How far back its agents remember.
    #[serde(default, skip_serializing_if = "Remembers::is_session")]
    pub remembers: Remembers,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            steps: STEPS_DEFAULT,
            rounds: ROUNDS_DEFAULT,
            budgets: Budgets::default(),
            conversation: None,
            remembers: Remembers::default(),
        }
    }
}

/// A conversation's weight, with what was said before it: it is held in memory and given whole to every agent.
pub const CONVERSATION_BYTES_MAX: usize = 16 << 20;

/// Questions of one run; an ordinal has a place in memory for good.
pub const QUESTIONS_MAX: usize = 100_000;

/// How much of the conversation an agent is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bound {
    /// The most, in bytes of text.
    pub bytes: usize,
    /// What happens when it is more.
    #[serde(default)]
    pub when_full: WhenFull,
}

/// What happens when an agent would be given too much.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenFull {
    /// Its step fails.
    #[default]
    Refuse,
    /// This agent sums up the older part.
    Summarise(String),
}

/// What becomes of a reply that was cut short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenCut {
    /// Its step fails.
    #[default]
    Fail,
    /// The agent is asked to go on, and what it says is one reply.
    Continue,
    /// It is taken as it is.
    Keep,
}

/// How far back the agents of a run remember.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remembers {
    /// To the beginning of the session.
    #[default]
    Session,
    /// To the beginning of the run.
    Run,
}

impl Remembers {
    /// Whether this is the default, and need not be stored.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub fn is_session(&self) -> bool {
        *self == Self::Session
    }
}
