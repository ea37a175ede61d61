//! Session memory: what was said in a session before a run began. Its agents are given it before the run's
//! own conversation (K5), of which it is no part: a journal points at the run that it follows and
//! copies nothing, so what is stored grows with what is said.
//!
//! Whoever has the journals at hand puts it together; here it is a value. What a run follows is over
//! when the run begins, so this value is the same whenever it is put together again.

use std::sync::Arc;

use crate::kernel::id::RunId;
use crate::kernel::limits::CONVERSATION_BYTES_MAX;
use crate::kernel::message::Message;
use crate::kernel::refusal::Refusal;

/// Runs that one run remembers, one after the other: each is a journal to read where none of them is
/// in memory, and some thousands of short ones are read in a second.
pub const EARLIER_RUNS_MAX: usize = 10_000;

/// Messages that one run remembers: each weighs some hundreds of bytes in memory beside its text.
pub const EARLIER_MESSAGES_MAX: usize = 100_000;

/// What was said in a session before a run began; nothing, for a run that follows nobody. It is
/// shared, and most runs have none: a run carries one word for it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Earlier(Option<Arc<Past>>);

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Past {
    messages: Vec<Arc<Message>>,
    bytes: usize,
    runs: Vec<RunId>,
}

impl Earlier {
    /// What is remembered after `before`, and then these runs' own words, oldest first.
    pub fn then<I>(before: &Self, spoken: I) -> Self
    where
        I: IntoIterator<Item = (RunId, Vec<Arc<Message>>)>,
    {
        let mut messages = before.messages().to_vec();
        let mut runs = before.runs().to_vec();
        for (run, words) in spoken {
            messages.extend(words);
            runs.push(run);
        }
        Self::of(messages, runs)
    }

    /// What was said, oldest first.
    pub fn messages(&self) -> &[Arc<Message>] {
        self.0.as_ref().map_or(&[], |past| &past.messages)
    }

    /// The weight of it.
    pub fn bytes(&self) -> usize {
        self.0.as_ref().map_or(0, |past| past.bytes)
    }

    /// The runs that it was said in, oldest first.
    pub fn runs(&self) -> &[RunId] {
        self.0.as_ref().map_or(&[], |past| &past.runs)
    }

    fn of(messages: Vec<Arc<Message>>, runs: Vec<RunId>) -> Self {
        let bytes = messages.iter().map(|message| message.bytes()).sum();
        let is_nothing = messages.is_empty() && runs.is_empty();
        Self((!is_nothing).then(|| Arc::new(Past { messages, bytes, runs })))
    }

    /// Why a run cannot begin after all this, if it cannot: it is given whole to every agent, so it
    /// has a bound, and nothing of it is left out silently.
    pub fn refusal(&self, input_bytes: usize) -> Option<Refusal> {
        let remedy = "begin a new session, or say `remembers: run` in the workflow's file";
        if self.bytes() > 0 && self.bytes().saturating_add(input_bytes) > CONVERSATION_BYTES_MAX {
            let why = format!("all that is said in it may have {CONVERSATION_BYTES_MAX} bytes");
            return Some(Refusal::SessionFull { why, remedy });
        }
        if self.messages().len() > EARLIER_MESSAGES_MAX {
            let why = format!("a run remembers at most {EARLIER_MESSAGES_MAX} messages before it");
            return Some(Refusal::SessionFull { why, remedy });
        }
        if self.runs().len() > EARLIER_RUNS_MAX {
            let why = format!("a run remembers at most {EARLIER_RUNS_MAX} runs before it");
            return Some(Refusal::SessionFull { why, remedy });
        }
        None
    }

    /// The newest of it: so many messages.
    pub(super) fn newest(self, most: usize) -> Self {
        match self.messages().len().checked_sub(most) {
            None | Some(0) => self,
            Some(over) => Self::of(self.messages()[over..].to_vec(), self.runs().to_vec()),
        }
    }
}

impl From<Vec<Arc<Message>>> for Earlier {
    fn from(messages: Vec<Arc<Message>>) -> Self {
        Self::of(messages, Vec::new())
    }
}
