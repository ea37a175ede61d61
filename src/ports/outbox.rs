//! Outbox: what runs owe to listeners outside. A entry is no copy of anything: it says up to where
//! a listener has been told of a run and up to where there is something to tell; what is told is in
//! the journal. So it is small, in order, and written with the events that it stands for.
//!
//! - **J8** A entry is recorded with the events that it tells of, or not at all, and is listed until
//!   everything up to its tip is settled.

use serde::{Deserialize, Serialize};

use crate::kernel::{Millis, RunId, Version};

/// Listeners of one run; each is a call for every change of it.
pub const HOOKS_MAX: usize = 32;

/// Something that a listener has not been told yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxEntry {
    /// The run.
    pub run: RunId,
    /// Which listener: `push:<hook>`, `webhook`, `release`. Stored under the name that it had at first.
    #[serde(rename = "lane")]
    pub channel: String,
    /// Everything up to here was delivered.
    pub after: Version,
    /// There is something to deliver up to here.
    pub tip: Version,
    /// When it is tried.
    pub due: Millis,
    /// Tries that failed since something was last delivered.
    #[serde(default)]
    pub tries: u32,
    /// What went wrong last.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

/// What came of a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settlement {
    /// Everything up to this version was taken.
    Delivered {
        /// The version.
        up_to: Version,
    },
    /// Everything up to `after` was taken; the rest is tried again.
    Later {
        /// The version.
        after: Version,
        /// When.
        due: Millis,
        /// What went wrong.
        problem: String,
    },
    /// It will never be taken.
    Dropped,
}

impl OutboxEntry {
    /// What an append adds to a channel: a new entry, or a further tip to the one that is there.
    #[must_use]
    pub fn grown(old: Option<Self>, new: Self) -> Self {
        match old {
            Some(old) => Self { tip: new.tip, ..old },
            None => new,
        }
    }

    /// What is left after a settlement; none if nothing is.
    #[must_use]
    pub fn settled(self, settlement: &Settlement) -> Option<Self> {
        match settlement {
            Settlement::Dropped => None,
            Settlement::Delivered { up_to } if *up_to >= self.tip => None,
            Settlement::Delivered { up_to } => {
                let after = self.after.max(*up_to);
                Some(Self { after, tries: 0, problem: String::new(), ..self })
            }
            Settlement::Later { after, due, problem } => {
                let tries = if *after > self.after { 1 } else { self.tries.saturating_add(1) };
                let (after, problem) = (self.after.max(*after), problem.clone());
                Some(Self { after, due: *due, tries, problem, ..self })
            }
        }
    }
}

/// Somebody who wants to be told what happens to a run.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// Its id, unique in its run.
    pub id: String,
    /// Where to tell it.
    pub url: String,
    /// A token that goes with every call.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub token: String,
    /// How to prove who calls: the scheme.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub scheme: String,
    /// And the credentials.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub credentials: String,
    /// Whether it is told in the older version of the protocol.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_older: bool,
}

impl Hook {
    /// The same, called by its run where it has no id of its own, as callers expect.
    #[must_use]
    pub fn of(self, run: &RunId) -> Self {
        let id = if self.id.is_empty() { run.to_string() } else { self.id };
        Self { id, ..self }
    }
}

impl std::fmt::Debug for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its URL, its token and its credentials are the caller's secrets.
        write!(f, "Hook({})", self.id)
    }
}

/// A hook and the run that it hangs on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HookRow {
    /// The run.
    pub run: RunId,
    /// Who wants to be told.
    #[serde(flatten)]
    pub hook: Hook,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox_entry(after: Version, tip: Version) -> OutboxEntry {
        let run = RunId::fresh("01k9zq3v7m8n4p5r6s7t8v9w0x");
        let (channel, due) = ("webhook".into(), Millis(1));
        OutboxEntry { run, channel, after, tip, due, tries: 0, problem: String::new() }
    }

    #[test]
    fn j8_an_entry_lasts_until_its_tip_is_settled() {
        let one = OutboxEntry::grown(Some(outbox_entry(3, 5)), outbox_entry(5, 9));
        assert_eq!((one.after, one.tip), (3, 9), "what was owed before is owed still");
        let one = one.settled(&Settlement::Delivered { up_to: 5 }).unwrap();
        assert_eq!((one.after, one.tip), (5, 9), "events that came meanwhile are owed");
        let later = |after| Settlement::Later { after, due: Millis(7), problem: "no".into() };
        let one = one.settled(&later(5)).unwrap().settled(&later(5)).unwrap();
        assert_eq!((one.tries, one.due), (2, Millis(7)));
        let one = one.settled(&later(6)).unwrap();
        assert_eq!((one.after, one.tries), (6, 1), "whoever takes something is not given up on");
        assert_eq!(one.clone().settled(&Settlement::Delivered { up_to: 9 }), None);
        assert_eq!(one.settled(&Settlement::Dropped), None);
    }
}
