//! Audit entry: one line of the audit trail, and which lines somebody wants. How they come to be is told by `audit` and
//! `trail`.

use serde_json::Value;

use crate::kernel::{Known, Millis, Question, RunId, SessionId, Version};
use crate::ports::Head;

/// Which entries are listed.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Of this run.
    pub run: Option<String>,
    /// Of this session.
    pub session: Option<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// That this principal did, or was asked.
    pub principal: Option<String>,
    /// At this time or later.
    pub since: Option<Millis>,
    /// Before this time.
    pub until: Option<Millis>,
}

/// One thing that somebody was asked, or did.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditEntry {
    /// When.
    pub at: Millis,
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The workflow's name.
    pub workflow: String,
    /// Its place in the journal.
    pub sequence: Version,
    /// What happened: `started`, `asked`, `answered` …
    pub action: &'static str,
    /// Who did it; empty where nobody did.
    pub principal: String,
    /// Through which door, where that is kept.
    pub door: String,
    /// How they were known, where that is kept.
    pub known: Option<Known>,
    /// The question, word for word.
    pub question: Option<Question>,
    /// What was said: the input, the answer.
    pub value: Option<Value>,
    /// Why, or to whom.
    pub note: String,
    /// How often, where the same is told once.
    pub count: u64,
    /// When it last happened.
    pub last: Millis,
}

impl AuditEntry {
    /// Something that happened to a run, of which nothing else is said yet.
    pub(super) fn bare(head: &Head, at: Millis, sequence: Version) -> Self {
        Self {
            at,
            run: head.run.clone(),
            session: head.session.clone(),
            workflow: head.workflow.clone(),
            sequence,
            action: "",
            principal: String::new(),
            door: String::new(),
            known: None,
            question: None,
            value: None,
            note: String::new(),
            count: 1,
            last: at,
        }
    }
}
