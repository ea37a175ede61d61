//! Approvers: whom a question admits, how many of them it needs, and what their votes add up to.
//!
//! - **K8** Only those whom a question admits can answer it, at every door. Every rule that stops an
//!   action is satisfied by somebody *that rule* admits: rules with different approvers are stages,
//!   one after the other, and their lists are never united.

use serde::{Deserialize, Serialize};

use crate::kernel::operator::Operator;
use crate::kernel::principal::Assurance;
use crate::kernel::question::Question;
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

/// Who is never admitted, however they are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Excluded {
    /// Whoever asked for it: who started the run, or forked it, and whoever that was for.
    Requester,
    /// Whoever changed what is now asked.
    Editor,
    /// Whoever has answered something else in the run.
    Participant,
}

/// Who is asked, and how many of them must agree.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stage {
    /// The rules that this satisfies, by their names; none for a step's own question.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// Whom it is addressed to: names, `group:…`, `role:…`; empty for whoever may answer there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub to: Vec<String>,
    /// Whom it never admits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not: Vec<Excluded>,
    /// How many people must say the same.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub need: u32,
    /// How long they have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
    /// Who is asked as well when that time is up, level by level.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Level>,
    /// How well they must be known; as the operator says, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assurance: Option<Assurance>,
}

/// Who is asked as well, and how long all of them then have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Level {
    /// Whom.
    pub to: Vec<String>,
    /// How long; for ever, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within_ms: Option<u64>,
}

fn one() -> u32 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_one(need: &u32) -> bool {
    *need == 1
}

/// Somebody's standing word on a question that needs more than theirs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vote {
    /// Who.
    pub by: String,
    /// What they said.
    pub verb: String,
    /// In which stage, counted from 0.
    pub stage: u32,
    /// How well they were known. All were proven before it was written down.
    #[serde(default, skip_serializing_if = "is_proven")]
    pub assurance: Assurance,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_proven(assurance: &Assurance) -> bool {
    *assurance == Assurance::Proven
}

/// How well whoever decides in `stage` must be known: never less than a person.
pub fn wants(stage: Option<&Stage>, operator: &Operator) -> Assurance {
    let said = stage.and_then(|stage| stage.assurance).unwrap_or(operator.assurance);
    said.max(Assurance::Vouched)
}

/// Whose run asks, as far as admission needs it.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'a> {
    /// Who owns the session.
    pub owner: &'a str,
    /// Who asked for what is asked.
    pub requesters: &'a [String],
}

impl Asker<'_> {
    fn asked_for_it(&self, who: &str) -> bool {
        who == self.owner || self.requesters.iter().any(|known| known == who)
    }
}

/// Whether `question` admits whoever is called `who`, as it stands (K8).
pub fn admits(question: &Question, by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    may_decide(question, by, who, operator) && is_among(&question.to, by, who, operator)
}

/// Whether nothing bars `who` from it, in whichever stage.
fn may_decide(question: &Question, by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    let is_barred = question.barred.iter().any(|barred| barred == who);
    let needs_others = question.decides() && operator.four_eyes;
    operator.knows(who) && !(is_barred || needs_others && by.asked_for_it(who))
}

pub(super) fn is_among(to: &[String], by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    if to.is_empty() { who == by.owner } else { to.iter().any(|named| operator.means(named, who)) }
}

/// Whether any stage of `question` is addressed to `who`: they may know how it stands.
pub(super) fn concerns(question: &Question, by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    let stages = question.stages.iter().map(|stage| &stage.to);
    stages.chain([&question.to]).any(|to| !to.is_empty() && is_among(to, by, who, operator))
}

/// The stage that a question is in after `who` has said `verb` to it; none if that was the last
/// word that it needed. Whoever is admitted to the next stage too is not asked again.
pub(super) fn after(
    question: &Question,
    by: Asker<'_>,
    (who, assurance, verb): (&str, Assurance, Verb),
    operator: &Operator,
) -> Option<u32> {
    // An edit is another action: what is asked now is closed, and that one is asked (K10).
    if verb.is_no() || verb == Verb::Edit {
        return None;
    }
    // K8: a vote counts only if whoever gave it would be let in now.
    let wanted = wants(question.current_stage(), operator);
    let counts =
        |vote: &&Vote| vote.assurance >= wanted && admits(question, by, &vote.by, operator);
    let agree = question.said(verb, who).filter(counts).count();
    let need = usize::try_from(question.need()).unwrap_or(usize::MAX);
    if agree + 1 < need {
        return Some(question.stage);
    }
    let mut next = question.stage + 1;
    while let Some(stage) = question.stages.get(usize::try_from(next).unwrap_or(usize::MAX)) {
        let is_known = assurance >= wants(Some(stage), operator);
        if stage.need > 1 || !is_known || !is_among(&stage.to, by, who, operator) {
            return Some(next);
        }
        next += 1;
    }
    None
}

/// What those of the stages before have said, where `verb` is not the same: words add up only where
/// they are one. A yes for once and a yes for longer are a yes for once.
pub(super) fn disagrees(question: &Question, verb: Verb) -> Option<&str> {
    let passes = |word: &str| Verb::parse(word).is_some_and(Verb::lets_pass);
    let before = question.votes.iter().filter(|vote| vote.stage < question.stage);
    let differs =
        |vote: &&Vote| vote.verb != verb.word() && !(passes(&vote.verb) && verb.lets_pass());
    let is_free = verb.is_no() || verb == Verb::Edit;
    before.filter(|_| !is_free).find(differs).map(|vote| vote.verb.as_str())
}

/// Whom a question waits for, in words.
pub fn waits_for(question: &Question, by: Asker<'_>) -> String {
    if question.to.is_empty() { by.owner.to_owned() } else { question.to.join(", ") }
}

impl Question {
    /// The stage that it is in.
    pub fn current_stage(&self) -> Option<&Stage> {
        self.stages.get(usize::try_from(self.stage).unwrap_or(usize::MAX))
    }

    /// How many people the current stage needs.
    pub fn need(&self) -> u32 {
        self.current_stage().map_or(1, |stage| stage.need.max(1))
    }

    /// The votes for `verb` in the current stage, other than that of `but`.
    pub fn said<'a>(&'a self, verb: Verb, but: &'a str) -> impl Iterator<Item = &'a Vote> {
        self.votes.iter().filter(move |vote| {
            vote.stage == self.stage && vote.verb == verb.word() && vote.by != but
        })
    }

    /// Takes it back to where nobody has said anything to it: what an editor's word had passed before it was
    /// asked is not passed in another run (K11).
    pub fn ask_anew(&mut self, at: Millis) {
        let has_begun = self.stage > 0 || !self.votes.is_empty();
        self.votes.clear();
        if has_begun {
            self.enter(0, at);
        }
    }

    /// Puts it into a stage that begins at `at`.
    pub(super) fn enter(&mut self, stage: u32, at: Millis) {
        self.stage = stage;
        self.level = 0;
        if let Some(stage) = self.current_stage().cloned() {
            self.to = stage.to;
            self.deadline = stage.within_ms.map(|ms| at.plus(ms));
        }
    }
}
