//! Verb: the words by which a person decides, each with its one meaning.
//!
//! Kernel and doors take their words from here, so that no door can offer, draw or understand one
//! that the kernel does not. What a verb leads to at its place is said where it is taken (`gate`,
//! `graph`); whether it lets something happen is said here, once.
//!
//! - **K7** A word that is not one of these decides nothing.

use serde_json::{Value, json};

/// What a person may say to a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verb {
    /// Yes.
    Approve,
    /// No.
    Reject,
    /// Make this call, this once.
    AllowOnce,
    /// Make it, and others within the bounds that were shown.
    AllowForRun,
    /// Not this call, but one with these arguments.
    Edit,
    /// Do not make this call.
    Deny,
    /// Pass this step over.
    Skip,
    /// Go on with what was done.
    Continue,
    /// Do it again.
    Redo,
    /// Make another version.
    Revise,
    /// Go on with my own version.
    Modify,
    /// Try again what failed.
    Retry,
    /// End the run.
    Abort,
    /// It was done, and this came of it.
    Happened,
    /// No, and why: whoever made it makes it again.
    Return,
}

impl Verb {
    /// Every verb, for lists and checks.
    pub const ALL: [Self; 15] = [
        Self::Approve,
        Self::Reject,
        Self::AllowOnce,
        Self::AllowForRun,
        Self::Edit,
        Self::Deny,
        Self::Skip,
        Self::Continue,
        Self::Redo,
        Self::Revise,
        Self::Modify,
        Self::Retry,
        Self::Abort,
        Self::Happened,
        Self::Return,
    ];

    /// The word, as it is written in answers, schemas and on buttons' values.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
            Self::AllowOnce => "allow_once",
            Self::AllowForRun => "allow_for_run",
            Self::Edit => "edit",
            Self::Deny => "deny",
            Self::Skip => "skip",
            Self::Continue => "continue",
            Self::Redo => "redo",
            Self::Revise => "revise",
            Self::Modify => "modify",
            Self::Retry => "retry",
            Self::Abort => "abort",
            Self::Happened => "happened",
            Self::Return => "return",
        }
    }

    /// The verb of that word, exactly.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    /// What a plain word says that people use in place of a verb: yes or no; nothing, where it is none of them. One list
    /// for all doors, so that no word is taken at one and refused at another.
    pub fn plainly(word: &str) -> Option<bool> {
        match word.to_lowercase().as_str() {
            "y" | "yes" | "approve" | "approved" | "allow" => Some(true),
            "n" | "no" | "reject" | "rejected" | "deny" | "denied" => Some(false),
            &_ => None,
        }
    }

    /// The verb that an accepted answer says: as a word, as its `decision` or `verb`, or as a plain
    /// `true` or `false`.
    pub fn of(value: &Value) -> Option<Self> {
        let said = value.get("decision").or_else(|| value.get("verb")).unwrap_or(value);
        match said {
            Value::String(word) => Self::parse(word),
            Value::Bool(true) => Some(Self::Approve),
            Value::Bool(false) => Some(Self::Reject),
            Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Whether it refuses what was shown. One such word is enough, however many are asked.
    pub fn is_no(self) -> bool {
        match self {
            Self::Reject | Self::Deny | Self::Abort | Self::Revise | Self::Return => true,
            Self::Approve
            | Self::AllowOnce
            | Self::AllowForRun
            | Self::Edit
            | Self::Skip
            | Self::Continue
            | Self::Redo
            | Self::Modify
            | Self::Retry
            | Self::Happened => false,
        }
    }

    /// Whether it says yes to exactly what was shown.
    pub fn lets_pass(self) -> bool {
        match self {
            Self::Approve | Self::AllowOnce | Self::AllowForRun => true,
            Self::Reject
            | Self::Edit
            | Self::Deny
            | Self::Skip
            | Self::Continue
            | Self::Redo
            | Self::Revise
            | Self::Modify
            | Self::Retry
            | Self::Abort
            | Self::Happened
            | Self::Return => false,
        }
    }

    /// Whether it says nothing without a note: why it is given back.
    pub fn needs_note(self) -> bool {
        matches!(self, Self::Revise | Self::Return)
    }

    /// The rule of a schema that it is said with a note.
    pub(super) fn note_rule(self) -> Value {
        json!({
            "if": {"properties": {"decision": {"const": self.word()}}},
            "then": {"required": ["decision", "note"], "properties": {"note": {"minLength": 1}}},
        })
    }

    /// Whether it brings a version of the speaker's own.
    pub fn brings_another(self) -> bool {
        matches!(self, Self::Edit | Self::Modify)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_one_verbs_and_no_other() {
        for verb in Verb::ALL {
            assert_eq!(Verb::parse(verb.word()), Some(verb));
            assert!(!(verb.is_no() && verb.lets_pass()), "{verb:?}");
        }
        assert_eq!(Verb::parse("Approve"), None);
    }

    #[test]
    fn k7_what_is_no_verb_decides_nothing() {
        for value in [json!("maybe"), json!(1), json!(null), json!({"decision": "yes"}), json!([])]
        {
            assert_eq!(Verb::of(&value), None, "{value}");
        }
        assert_eq!(Verb::of(&json!({"decision": "deny"})), Some(Verb::Deny));
        assert_eq!(Verb::of(&json!({"verb": "redo"})), Some(Verb::Redo));
        assert_eq!(Verb::of(&json!(true)), Some(Verb::Approve));
    }
}
