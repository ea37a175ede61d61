//! Whom a question is asked of: names that can be names, and stages that somebody can pass.

use crate::definition::check::Check;
use crate::definition::graph::PhaseGateFile;
use crate::definition::people::{ApproversFile, ExcludedFile};
use crate::definition::source::under;

/// Whom a question is asked of, as a file says it.
pub(super) struct Whom<'a> {
    pub(super) to: &'a [String],
    pub(super) not: &'a [ExcludedFile],
    pub(super) approvers: Option<&'a ApproversFile>,
    /// Whether the question decides: words of a conversation need one answer, and no quorum.
    pub(super) decides: bool,
    /// Whether the file gives the question a deadline of its own.
    pub(super) is_timed: bool,
}

impl PhaseGateFile {
    /// Whom its questions are asked of.
    pub(super) fn whom(&self) -> Whom<'_> {
        Whom {
            to: &self.to,
            not: &self.not,
            approvers: self.approvers.as_ref(),
            decides: true,
            is_timed: self.deadline.is_some() || self.on_timeout.is_some(),
        }
    }
}

impl Check<'_> {
    /// Whether those who are asked can be asked.
    pub(super) fn whom(&mut self, pointer: &str, whom: &Whom<'_>) {
        self.named(&under(pointer, "to"), whom.to);
        // Where nobody is named whoever owns the session is asked, and that is who asked for it.
        let is_theirs = whom.to.is_empty() && whom.approvers.is_none() && !whom.is_timed;
        if is_theirs && whom.not.contains(&ExcludedFile::Requester) {
            let message = "nobody can pass this: without `to` it is asked of whoever began the run, \
                           and `not` excludes them; say `to` whom else";
            self.at_key(&under(pointer, "not"), "approvers.impassable", message);
        }
        let Some(approvers) = whom.approvers else { return };
        let at = under(pointer, "approvers");
        if !whom.to.is_empty() || !whom.not.is_empty() {
            let message = "`approvers` says who is asked; take `to` and `not` out";
            self.at_key(&at, "approvers.contradiction", message);
        }
        if whom.is_timed {
            let message =
                "each of the `approvers` has its `within`; take `deadline` and `on_timeout` out";
            self.at_key(&at, "approvers.contradiction", message);
        }
        if !whom.decides {
            let message =
                "only a decision has `approvers`: an approval, a gate, or `decides: true`";
            self.at_key(&at, "approvers.contradiction", message);
        }
        for (index, stage) in approvers.stages().iter().enumerate() {
            let at = match approvers {
                ApproversFile::One(_) => at.clone(),
                ApproversFile::Many(_) => under(&at, index),
            };
            self.named(&under(&at, "to"), &stage.to);
            let mut people: Vec<&String> = stage.to.iter().collect();
            for (level, more) in stage.escalate.iter().enumerate() {
                self.named(&under(&under(&under(&at, "escalate"), level), "to"), &more.to);
                people.extend(&more.to);
            }
            people.sort_unstable();
            people.dedup();
            let is_person = |name: &&String| !name.contains(':');
            let need = usize::try_from(stage.need.unwrap_or(1)).unwrap_or(usize::MAX);
            if people.iter().all(is_person) && people.len() < need {
                let message = format!(
                    "nobody can pass this stage: it needs {need} people, and names {}",
                    people.len()
                );
                self.at(&under(&at, "need"), "approvers.impassable", message);
            }
            if !stage.escalate.is_empty() && stage.within.is_none() {
                let message = "who is asked as well is asked after `within`; say how long that is";
                self.at_key(&under(&at, "escalate"), "approvers.contradiction", message);
            }
        }
    }

    /// Whether each is a person's name, `group:NAME` or `role:NAME`. None is filled in from what a
    /// requester can choose.
    pub(super) fn named(&mut self, pointer: &str, names: &[String]) {
        for (index, name) in names.iter().enumerate() {
            let bare = match name.split_once(':') {
                Some(("group" | "role", bare)) => Some(bare),
                Some(_) => None,
                None => Some(name.as_str()),
            };
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
            let is_name = |bare: &str| !bare.is_empty() && bare.bytes().all(is_letter);
            if !bare.is_some_and(is_name) {
                let message = "expected a person's name, `group:NAME` or `role:NAME`, of letters, \
                               digits and `.`, `-`, `_`, `@`";
                self.at(&under(pointer, index), "approvers.name", message);
            }
        }
    }
}
