//! Verbs: decisions as buttons say them, and how those look. What they mean is the kernel's.

use crate::api::console::text;
use crate::kernel::Verb;

/// A decision as a button says it.
pub(in crate::api::console) fn spelled(word: &str) -> String {
    match Verb::parse(word) {
        Some(Verb::AllowForRun) => "Allow for the rest of the run".into(),
        Some(Verb::Edit) => "Edit, then allow".into(),
        Some(Verb::Revise) => "Ask for another version".into(),
        Some(Verb::Modify) => "Use my own version".into(),
        Some(Verb::Return) => "Return with a note".into(),
        Some(_) | None => text::words(word),
    }
}

/// How a button of it looks.
pub(super) fn look(word: &str) -> &'static str {
    match Verb::parse(word) {
        Some(Verb::Approve | Verb::AllowOnce | Verb::Continue) => "primary",
        Some(Verb::Reject | Verb::Deny | Verb::Abort) => "danger",
        Some(_) | None => "plain",
    }
}

/// The key that leads to it: a yes, or a no.
pub(super) fn key(word: &str) -> Option<&'static str> {
    match look(word) {
        "primary" => Some("a"),
        "danger" => Some("r"),
        _plain => None,
    }
}
