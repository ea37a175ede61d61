//! Handoffs: to whom a conversation may be handed and where it goes when an agent is done, as it is written in YAML,
//! and what a checked file means by it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::definition::patience::OnTimeoutFile;
use crate::definition::time::LengthOfTime;
use crate::kernel::expression::{Expression, Wrong};
use crate::kernel::workflow::{AfterWork, Destination};

/// The words for what is no agent.
pub(super) const USER: &str = "user";
pub(super) const END: &str = "end";

/// Who may hand off to whom, and when the conversation ends.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct HandoffFile {
    /// Who speaks first.
    pub(super) start: String,
    /// For each agent, to whom it may hand the conversation.
    #[serde(default)]
    pub(super) handoffs: BTreeMap<String, Vec<HandoffToFile>>,
    /// For each agent, where the conversation goes when it is done and has handed off to nobody: an agent's name,
    /// `user` or `end`; or a list of `{to, when}`, of which the first that holds counts. The user unless given.
    #[serde(default)]
    pub(super) after_work: BTreeMap<String, AfterWorkFile>,
    /// To whom the user's answer goes; `previous` unless given.
    #[serde(default)]
    pub(super) return_to: ReturnToFile,
    /// When the conversation is over: any of these.
    #[serde(default)]
    pub(super) ends: EndsFile,
    /// Agents that go on without asking, and for how many turns.
    #[serde(default)]
    pub(super) autonomous: BTreeMap<String, Turns>,
    /// What the user is asked when a turn ends without a handoff.
    pub(super) prompt: Option<String>,
    /// How long the user's turn lasts; for ever unless given.
    pub(super) deadline: Option<LengthOfTime>,
    /// What silence means at the deadline; `reject` unless given.
    pub(super) on_timeout: Option<OnTimeoutFile>,
}

/// To whom a conversation may be handed: an agent's name, or its name with a condition.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum HandoffToFile {
    /// To that agent.
    Name(String),
    /// To that agent, while this holds.
    When(ConditionalFile),
}

/// Somewhere, and on what condition.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ConditionalFile {
    /// Where.
    pub(super) to: String,
    /// An expression over `input`, `metadata` and `conversation` (`last`, `author`, `messages`).
    pub(super) when: Option<String>,
}

/// Where a conversation goes when an agent is done.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub(super) enum AfterWorkFile {
    /// There.
    To(String),
    /// To the first of these that holds.
    First(Vec<ConditionalFile>),
}

/// A number of turns.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(super) struct Turns(#[schemars(range(min = 1, max = 1_000))] pub(super) u32);

/// To whom the user's answer goes.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum ReturnToFile {
    /// The agent that asked.
    #[default]
    Previous,
    /// The agent that speaks first.
    Start,
}

/// When a conversation is over: any of these.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct EndsFile {
    /// There are more messages of the user than this.
    #[schemars(range(min = 1, max = 10_000))]
    pub(super) user_messages_over: Option<u32>,
    /// The last message contains this text, whatever its case.
    #[schemars(length(min = 1))]
    pub(super) last_message_contains: Option<String>,
}

impl HandoffToFile {
    /// To whom.
    pub(super) fn to(&self) -> &str {
        match self {
            Self::Name(to) => to,
            Self::When(terms) => &terms.to,
        }
    }

    /// While this holds.
    pub(super) fn when(&self) -> Option<&str> {
        match self {
            Self::Name(_) => None,
            Self::When(terms) => terms.when.as_deref(),
        }
    }
}

impl AfterWorkFile {
    /// Where it goes, in the order in which it is looked at.
    pub(super) fn all(&self) -> Vec<ConditionalFile> {
        match self {
            Self::To(to) => vec![ConditionalFile { to: to.clone(), when: None }],
            Self::First(list) => list.clone(),
        }
    }
}

impl HandoffFile {
    /// Who may hand off to whom.
    pub(super) fn targets(&self) -> BTreeMap<String, Vec<String>> {
        let names =
            |list: &Vec<HandoffToFile>| list.iter().map(|one| one.to().to_owned()).collect();
        self.handoffs.iter().map(|(from, list)| (from.clone(), names(list))).collect()
    }

    /// And while what holds.
    pub(super) fn conditions(&self) -> BTreeMap<String, BTreeMap<String, Expression>> {
        let mut all: BTreeMap<String, BTreeMap<String, Expression>> = BTreeMap::new();
        for (from, list) in &self.handoffs {
            for one in list {
                if let Some(Ok(when)) = one.when().map(parsed) {
                    all.entry(from.clone()).or_default().insert(one.to().to_owned(), when);
                }
            }
        }
        all
    }

    /// Where the conversation goes when each agent is done.
    pub(super) fn rules_after_work(&self) -> BTreeMap<String, Vec<AfterWork>> {
        let rule = |one: &ConditionalFile| AfterWork {
            to: match one.to.as_str() {
                USER => Destination::User,
                END => Destination::End,
                agent => Destination::Agent(agent.to_owned()),
            },
            when: one.when.as_deref().and_then(|when| parsed(when).ok()),
        };
        let rules = |list: &AfterWorkFile| list.all().iter().map(rule).collect();
        self.after_work.iter().map(|(agent, list)| (agent.clone(), rules(list))).collect()
    }
}

/// A condition, with or without `${…}` around it.
fn parsed(text: &str) -> Result<Expression, Wrong> {
    let inner = text.trim().strip_prefix("${").and_then(|text| text.strip_suffix('}'));
    Expression::parse(inner.unwrap_or(text))
}
