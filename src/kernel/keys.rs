//! Keys: which signals, cancels, withdrawals, revocations, claims and delegations were sent with an idempotency key.
//! Folded from the journal, like everything of a run. What follows from a repeat is decided in `repeat`.
//!
//! The keys of answers are not kept here: they lie with how their questions ended. Marks of them are, for
//! the run's head: by these it is seen without loading a run that nothing was said there with a key.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::kernel::claims::{Claimed, Delegated, Holder, Span};
use crate::kernel::digest;
use crate::kernel::event::Event;
use crate::kernel::id::Version;

/// Keys that a run remembers, the newest: a caller repeats within minutes what it got no answer to,
/// and no run is told a thousand other things meanwhile. One takes about 200 bytes.
pub const KEYS_MAX: usize = 1_024;

/// The keys that a run remembers, oldest first. Most runs have none, and a run is carried about a lot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Keys(Option<Box<Memory>>);

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
struct Memory {
    used: VecDeque<Used>,
    /// Marks of the keys of answers, oldest first.
    marks: VecDeque<String>,
}

/// Marks that a run's head has, the newest. A head is written with every append; of a run with as many,
/// its marks say nothing, and it is loaded.
pub const MARKS_MAX: usize = 32;
/// Forty-eight bits: a mark that is another's costs one run that is loaded in vain.
const MARK_CHARS: usize = 12;

/// The mark of an answer that `by` gave with `key`.
fn mark(by: &str, key: &str) -> String {
    let mut mark = whose(by, key);
    mark.truncate(MARK_CHARS);
    mark
}

/// Whether something may have been answered by `by` with `key` in a run with these marks; none are known
/// of runs that an earlier build wrote.
pub fn may_have_said(marks: Option<&[String]>, by: &str, key: &str) -> bool {
    marks.is_none_or(|marks| marks.len() >= MARKS_MAX || marks.contains(&mark(by, key)))
}

/// A key that was used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Used {
    /// The digest of who used it and of the key, whose length is the caller's choice.
    whose: String,
    /// The digest of what was asked with it.
    pub(super) content: String,
    /// The version of the event that came of it.
    pub(super) version: Version,
}

/// What was asked, as far as a repeat is known by it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Deed<'a> {
    Withdraw(u32),
    Revoke(&'a str),
    Cancel(&'a str),
    Signal(&'a str, &'a Value),
    Claim(u32, Option<Span>),
    Delegate(u32, Option<&'a Holder>),
}

impl Deed<'_> {
    /// The digest of it.
    pub(super) fn content(self) -> String {
        digest::of(&match self {
            Self::Withdraw(ordinal) => json!(["withdraw", ordinal]),
            Self::Revoke(tool) => json!(["revoke", tool]),
            Self::Cancel(reason) => json!(["cancel", reason]),
            Self::Signal(name, value) => json!(["signal", name, value]),
            Self::Claim(ordinal, span) => json!(["claim", ordinal, span]),
            Self::Delegate(ordinal, to) => json!(["delegate", ordinal, to]),
        })
    }
}

fn whose(by: &str, key: &str) -> String {
    digest::of(&json!([by, key]))
}

impl Keys {
    /// Remembers the key of an event that came of a caller's wish, if it has one.
    pub(super) fn learn(&mut self, event: &Event, version: Version) {
        if let Event::Answered { by, key, .. } | Event::Voted { by, key, .. } = event
            && !key.is_empty()
        {
            let marks = &mut self.0.get_or_insert_default().marks;
            if marks.len() >= MARKS_MAX {
                marks.pop_front();
            }
            marks.push_back(mark(by, key));
        }
        let Some((deed, by, key)) = deed_of(event) else { return };
        let all = &mut self.0.get_or_insert_default().used;
        if all.len() >= KEYS_MAX {
            all.pop_front();
        }
        all.push_back(Used { whose: whose(by, key), content: deed.content(), version });
    }

    /// Marks of the keys that answers came with, for the run's head.
    pub fn marks(&self) -> Vec<String> {
        self.0.iter().flat_map(|memory| memory.marks.iter().cloned()).collect()
    }

    /// What was asked by `by` with that key, if something was.
    pub(super) fn used(&self, by: &str, key: &str) -> Option<&Used> {
        let all = &self.0.as_ref()?.used;
        let whose = whose(by, key);
        all.iter().rev().find(|used| used.whose == whose)
    }
}

/// What a caller asked for, who, and with which key, where the event came of that.
fn deed_of(event: &Event) -> Option<(Deed<'_>, &str, &str)> {
    let (deed, by, key) = if let Event::Closed { ordinal, by, key, .. } = event {
        (Deed::Withdraw(*ordinal), by, key)
    } else if let Event::Revoked { tool, by, key, .. } = event {
        (Deed::Revoke(tool), by, key)
    } else if let Event::Cancelled { by, reason, key, .. } = event {
        (Deed::Cancel(reason), by, key)
    } else if let Event::Signalled { name, value, by, key, .. } = event {
        (Deed::Signal(name, value), by, key)
    } else if let Event::Claimed(Claimed { ordinal, span, by, key, .. }) = event {
        (Deed::Claim(*ordinal, *span), by, key)
    } else if let Event::Delegated(Delegated { ordinal, to, by, key, .. }) = event {
        (Deed::Delegate(*ordinal, to.as_ref()), by, key)
    } else {
        return None;
    };
    (!key.is_empty()).then_some((deed, by, key))
}

/// The event as another run takes it over: a key belongs to a call, and the call was to the first.
pub fn unkeyed(mut event: Event) -> Event {
    if let Event::Closed { key, .. }
    | Event::Revoked { key, .. }
    | Event::Cancelled { key, .. }
    | Event::Claimed(Claimed { key, .. })
    | Event::Delegated(Delegated { key, .. })
    | Event::Signalled { key, .. } = &mut event
    {
        key.clear();
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_very_many_keys_the_newest_are_remembered() {
        let mut keys = Keys::default();
        let signal = |key: usize| Event::Signalled {
            name: "go".into(),
            value: Value::Null,
            by: "ann".into(),
            door: String::new(),
            known: None,
            key: key.to_string(),
        };
        for number in 0..=KEYS_MAX {
            keys.learn(&signal(number), 2);
        }
        assert_eq!(keys.0.as_ref().map(|all| all.used.len()), Some(KEYS_MAX));
        assert!(keys.used("ann", "0").is_none(), "the oldest has made room");
        assert!(keys.used("ann", "1").is_some() && keys.used("bob", "1").is_none());
    }

    #[test]
    fn what_another_run_takes_over_has_no_key() {
        let (door, known) = (String::new(), None);
        let (by, reason) = ("ann".into(), String::new());
        let event = Event::Cancelled { by, reason, door, known, key: "k".into() };
        assert!(deed_of(&event).is_some() && deed_of(&unkeyed(event)).is_none());
    }
}
