//! Started: how a run came to be: the first entry of every journal. The stored contract, as `event` is.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::done::Done;
use crate::kernel::id::{RunId, SessionId, Version};
use crate::kernel::principal::Known;
use crate::kernel::question::Question;
use crate::kernel::rules::InForce;
use crate::kernel::sealing::Belongs;
use crate::kernel::spending::Spent;
use crate::kernel::time::Millis;
use crate::kernel::trace::Trace;
use crate::kernel::workflow::Gate;

/// How a run came to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Started {
    /// The session it belongs to.
    pub session: SessionId,
    /// The workflow's name.
    pub workflow: String,
    /// The digest of the definition it keeps for life.
    pub definition: String,
    /// Whose run it is.
    pub owner: String,
    /// Which door it came through.
    pub door: String,
    /// What the caller said.
    pub input: Value,
    /// Whatever the caller wants to find again.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The run and version that this one was forked from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<(RunId, Version)>,
    /// What the session's earlier runs had spent by then.
    #[serde(default, skip_serializing_if = "Spent::is_nothing")]
    pub spent_before: Spent,
    /// The trace that the caller is in, if it is in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<Trace>,
    /// What the caller went on from, as its door names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// What it goes on from, where something was said in its session before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub follows: Option<Box<Follows>>,
    /// What the nonces of its questions are drawn from: a secret of the journal's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub seed: String,
    /// What was secret in the runs that it goes on from, as JSON.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hides: Vec<String>,
    /// The epoch of the store that it began in; empty before stores had one.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub epoch: String,
    /// Who asked for what it does, beside its owner: those of the runs that it was forked from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub requesters: Vec<String>,
    /// How whoever began it was known; absent before it was written down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Known>>,
    /// Which family a fork is of, and what it copied; absent in what earlier builds forked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub descent: Option<Box<Descent>>,
    /// Gates that it brings: they add to those of the file, and take none away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gate>,
    /// What of the operator's policy is in force for it from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Box<InForce>>,
}

impl Started {
    /// Who asked for what the run does: its owner, and those of what it was forked from.
    pub fn requesters(&self) -> Vec<String> {
        let mut all = self.requesters.clone();
        if !all.contains(&self.owner) {
            all.push(self.owner.clone());
        }
        all
    }

    /// What was done already where a fork comes from.
    pub(super) fn done_before(&self) -> impl Iterator<Item = &Done> {
        self.descent.iter().flat_map(|descent| &descent.done)
    }

    /// A question of the run, as it was asked at `at`: with all that follows from when and where.
    pub fn sealed(&self, run: &RunId, question: &Question, at: Millis) -> Question {
        let mut question = Question { asked_at: at, ..question.clone() };
        let requesters = self.requesters();
        let (definition, seed) = (self.definition.as_str(), self.seed.as_str());
        let epoch = self.epoch.as_str();
        question.seal(Belongs { run, definition, requesters: &requesters, seed, epoch });
        question
    }
}

/// Where a fork comes from, beside the run that it was forked from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Descent {
    /// The first run of its family.
    pub family: RunId,
    /// How many of its events are copies.
    pub copied: Version,
    /// What was done already after these, in the runs that it comes from; absent in what earlier builds forked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<Done>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_none(messages: &usize) -> bool {
    *messages == 0
}

/// What a run goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Follows {
    /// The newest run of its session that was over when it began.
    pub run: RunId,
    /// Runs of the session, oldest first, that went on while that one was under way already, and
    /// have ended since: it knows nothing of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<RunId>,
    /// How many messages it was given of all these and those before them. Places in what an agent
    /// sees are counted with them, and stay what they are though the oldest runs be pruned.
    #[serde(default, skip_serializing_if = "is_none")]
    pub messages: usize,
}
