//! Approvers: whom a question admits, how many of them it needs, and what their votes add up to.
//!
//! Everything here is judged stage by stage, by what the operator says when somebody speaks: whom one
//! stage excludes, another may need. What came of judging is in the journal; nothing is looked up when
//! it is read back. Handing one's place over, and claims, are decided in `places`.
//!
//! - **K8** Only those whom a question admits can answer it, at every door. Every rule that stops an
//!   action is satisfied by somebody *that rule* admits: rules with different approvers are stages,
//!   one after the other, and their lists are never united.

use std::collections::BTreeSet;

use crate::kernel::claims::Delegation;
use crate::kernel::operator::Operator;
use crate::kernel::principal::{Assurance, Footing};
use crate::kernel::question::{Question, WhyNot};
use crate::kernel::said::Vote;
use crate::kernel::terms::{Excluded, OnTimeout, Stage};
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

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
    /// The run's workflow, to which a credential may not be good.
    pub workflow: &'a str,
}

impl Asker<'_> {
    fn asked_for_it(&self, who: &str) -> bool {
        who == self.owner || self.requesters.iter().any(|known| known == who)
    }
}

/// By what it is judged whom a question admits: whose run asks, what the operator says, and when.
#[derive(Debug, Clone, Copy)]
pub struct Admission<'a> {
    /// Whose run asks.
    pub by: Asker<'a>,
    /// What the operator says.
    pub operator: &'a Operator,
    /// When.
    pub now: Millis,
}

impl Admission<'_> {
    /// Why `question`, as it stands, does not admit `who`.
    pub fn why_not(&self, question: &Question, who: &str) -> WhyNot {
        let stages = u32::try_from(question.stages.len()).unwrap_or(u32::MAX);
        if !self.is_asked(question, question.stage, who) {
            let mut later = question.stage + 1..stages;
            let is_later = later.any(|stage| self.place(question, stage, who).is_some());
            return if is_later { WhyNot::Later } else { WhyNot::NotAsked };
        }
        let not = question.current_stage().map(|stage| stage.not.as_slice()).unwrap_or_default();
        let excludes = |excluded| not.contains(&excluded);
        let needs_others = question.decides() && self.operator.four_eyes;
        if self.by.asked_for_it(who) && (needs_others || excludes(Excluded::Requester)) {
            WhyNot::AskedForIt
        } else if (question.editor == who || question.editor_for == who)
            && (needs_others || excludes(Excluded::Editor))
        {
            WhyNot::ChangedIt
        } else if excludes(Excluded::Participant) {
            WhyNot::TookPart
        } else {
            WhyNot::NotAsked
        }
    }

    /// Whether `question` admits whoever is called `who`, as it stands (K8).
    pub fn admits(&self, question: &Question, who: &str) -> bool {
        self.place(question, question.stage, who).is_some()
    }

    /// In whose place `who` speaks in a stage: their own, or one that was handed to them; none where
    /// the stage does not admit them.
    pub(super) fn place<'q>(
        &self,
        question: &'q Question,
        stage: u32,
        who: &'q str,
    ) -> Option<&'q str> {
        if self.is_barred(question, stage, who) {
            return None;
        }
        if self.is_asked(question, stage, who) {
            return Some(who);
        }
        let wanted = wants(question.stage_at(stage), self.operator);
        let is_known = |assurance: Assurance| !question.decides() || assurance >= wanted;
        let mut standing = question.delegations.iter().filter(|handed| {
            let is_good = is_known(handed.assurance) && self.is_theirs(question, handed);
            handed.stands(self.now) && is_good
        });
        let holds =
            |by: &str| self.is_asked(question, stage, by) && !self.is_barred(question, stage, by);
        let handed = standing.find(|handed| handed.to == who && holds(&handed.by));
        handed.map(|handed| handed.by.as_str())
    }

    /// Whether a stage is addressed to `who`; that alone admits nobody.
    pub(super) fn is_asked(&self, question: &Question, stage: u32, who: &str) -> bool {
        is_among(question.asked_in(stage), self.by, who, self.operator)
    }

    /// Whether something bars `who` from a stage, however they are named: what the stage excludes, or
    /// what the operator wants of every decision.
    pub(super) fn is_barred(&self, question: &Question, stage: u32, who: &str) -> bool {
        let is_excluded = |excluded: &Excluded| match excluded {
            Excluded::Requester => self.by.asked_for_it(who),
            Excluded::Editor => question.editor == who || question.editor_for == who,
            Excluded::Participant => question.participants.iter().any(|known| known == who),
        };
        let not = question.stage_at(stage).map(|stage| stage.not.as_slice()).unwrap_or_default();
        let needs_others = question.decides() && self.operator.four_eyes;
        !self.operator.knows(who)
            || not.iter().any(is_excluded)
            || needs_others && (self.by.asked_for_it(who) || is_excluded(&Excluded::Editor))
    }

    /// The stage that a question is in after `who` has said `verb` to it; none if that was the last
    /// word that it needed. Whoever is admitted to the next stage too is not asked again.
    ///
    /// Once a stage has what it needs, every word of every stage is judged again: whoever is no longer
    /// known, admitted or entitled to the place they spoke in counts for nothing, and it goes back to
    /// the first stage that lacks somebody.
    pub(super) fn after(
        &self,
        question: &Question,
        (who, footing, verb): (&str, Footing<'_>, Verb),
    ) -> Option<u32> {
        // An edit is another action: what is asked now is closed, and that one is asked (K10).
        if verb.is_no() || verb == Verb::Edit {
            return None;
        }
        let vote = |stage| {
            let (by, verb) = (who.to_owned(), verb.word().to_owned());
            let Footing { assurance, service, at } = footing;
            let service = service.map(str::to_owned);
            Vote { by, verb, stage, assurance, service, instead_of: None, at }
        };
        let mut votes = question.votes.clone();
        votes.retain(|vote| vote.by != who || vote.stage != question.stage);
        votes.push(vote(question.stage));
        // Within a stage they must say the very same.
        if self.agreed(question, &votes, question.stage, verb.word()) < question.need() {
            return Some(question.stage);
        }
        let mut next = question.stage + 1;
        while let Some(stage) = question.stage_at(next) {
            let is_known = footing.assurance >= wants(Some(stage), self.operator);
            // Whoever speaks in another's place speaks in that one alone.
            let is_own = |stage: u32| self.place(question, stage, who) == Some(who);
            if stage.need <= 1 && is_known && is_own(question.stage) && is_own(next) {
                votes.push(vote(next));
            } else if !self.is_met(question, &votes, next, verb) {
                break;
            }
            next += 1;
        }
        let stages = u32::try_from(question.stages.len()).unwrap_or(u32::MAX).max(1);
        (0..stages).find(|stage| !self.is_met(question, &votes, *stage, verb))
    }

    /// Whose words no longer count, and in which stage: those of whoever is no longer known, admitted
    /// or entitled to the place they spoke in.
    pub(super) fn void(&self, question: &Question) -> Vec<(u32, String)> {
        let is_void = |vote: &&Vote| !self.counts(question, vote);
        let void = question.votes.iter().filter(is_void);
        void.map(|vote| (vote.stage, vote.by.clone())).collect()
    }

    /// Whether a stage has all the words that it needs for `verb`.
    fn is_met(&self, question: &Question, votes: &[Vote], stage: u32, verb: Verb) -> bool {
        let need = question.stage_at(stage).map_or(1, |stage| stage.need.max(1));
        let said = votes.iter().filter(|vote| vote.stage == stage && agree(&vote.verb, verb));
        let words: BTreeSet<&str> = said.map(|vote| vote.verb.as_str()).collect();
        words.into_iter().any(|word| self.agreed(question, votes, stage, word) >= need)
    }

    /// The first stage, from the one that a question is in, which fewer people could agree in than it needs, and how many
    /// could; none, as far as that is known.
    pub(super) fn short_of(&self, question: &Question) -> Option<(u32, u32)> {
        let stages = u32::try_from(question.stages.len()).unwrap_or(u32::MAX).max(1);
        (question.stage..stages).find_map(|stage| {
            let need = question.stage_at(stage).map_or(1, |stage| stage.need.max(1));
            let left = self.left_in(question, stage)?;
            (left < need).then_some((stage, left))
        })
    }

    /// How many people there are whom a stage would admit, those included whom it goes to when nobody answers; not known,
    /// where nobody says who is in a group.
    fn left_in(&self, question: &Question, stage: u32) -> Option<u32> {
        let levels = question.stage_at(stage).map(|stage| stage.escalate.as_slice());
        let levels = levels.unwrap_or_default().iter().flat_map(|level| &level.to);
        let later = match &question.on_timeout {
            OnTimeout::EscalateTo { to, .. } => to.as_slice(),
            OnTimeout::Reject | OnTimeout::DefaultAnswer(_) | OnTimeout::Continue => &[],
        };
        let named: Vec<&String> =
            question.asked_in(stage).iter().chain(levels).chain(later).collect();
        let known = &self.operator.people;
        if known.is_empty() && named.iter().any(|name| name.contains(':')) {
            return None;
        }
        let people: BTreeSet<&str> = match (named.is_empty(), known.is_empty()) {
            (true, _) => [self.by.owner].into(),
            (false, true) => named.iter().map(|name| name.as_str()).collect(),
            (false, false) => {
                let is_meant = |who: &&str| named.iter().any(|name| self.operator.means(name, who));
                known.keys().map(String::as_str).filter(is_meant).collect()
            }
        };
        let left = people.into_iter().filter(|who| !self.is_barred(question, stage, who));
        Some(u32::try_from(left.count()).unwrap_or(u32::MAX))
    }

    /// How many people have said `word` in a stage, of those whose word counts now. They are counted
    /// by the places that they speak in: whoever handed theirs over and whoever holds it are one.
    fn agreed(&self, question: &Question, votes: &[Vote], stage: u32, word: &str) -> u32 {
        let said = votes.iter().filter(|vote| vote.stage == stage && vote.verb == word);
        let said = said.filter(|vote| self.counts(question, vote));
        let places: BTreeSet<&str> =
            said.filter_map(|vote| self.place(question, stage, &vote.by)).collect();
        u32::try_from(places.len()).unwrap_or(u32::MAX)
    }

    /// Whether a word counts now: whoever said it is admitted, was known as well as its stage wants, and
    /// could still say it.
    pub(super) fn counts(&self, question: &Question, vote: &Vote) -> bool {
        let wanted = wants(question.stage_at(vote.stage), self.operator);
        let is_known = !question.decides() || vote.assurance >= wanted;
        // Whoever speaks is refused by their key's roles and workflows; whoever has spoken, here. Somebody whose keys are all
        // newer has said it with one that is gone: whoever had that may have been another.
        let is_theirs = || {
            let workflow = self.by.workflow;
            !question.decides() || self.operator.stands_by(&vote.by, vote.footing(), workflow)
        };
        let place = self.place(question, vote.stage, &vote.by);
        let is_in_place =
            place.is_some_and(|place| place == vote.by || was_handed(question, place, vote));
        is_known && is_in_place && is_theirs()
    }

    /// Whether whoever handed a place over still stands by that: it is as old as their key, like any other word.
    pub(super) fn is_theirs(&self, question: &Question, handed: &Delegation) -> bool {
        let workflow = self.by.workflow;
        !question.decides() || self.operator.stands_by(&handed.by, handed.footing(), workflow)
    }
}

/// Whether a word was said in a place that was handed over before it. One that was taken back, ran out or became void, and
/// is handed over once more, is another: what was said in the one before is not said in it.
fn was_handed(question: &Question, place: &str, vote: &Vote) -> bool {
    let mut handed = question.delegations.iter();
    let handed = handed.find(|handed| handed.by == place && handed.to == vote.by);
    let since = handed.and_then(|handed| handed.at);
    since.zip(vote.at).is_none_or(|(since, at)| since <= at)
}

/// Whether a word that was said and `verb` add up: words do only where they are one. A yes for once
/// and a yes for longer are a yes for once.
fn agree(word: &str, verb: Verb) -> bool {
    let passes = Verb::parse(word).is_some_and(Verb::lets_pass);
    word == verb.word() || passes && verb.lets_pass()
}

pub(super) fn is_among(to: &[String], by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    if to.is_empty() { who == by.owner } else { to.iter().any(|named| operator.means(named, who)) }
}

/// Whether any stage of `question` is addressed to `who`: they may know how it stands.
pub(super) fn concerns(question: &Question, by: Asker<'_>, who: &str, operator: &Operator) -> bool {
    let stages = question.stages.iter().map(|stage| &stage.to);
    stages.chain([&question.to]).any(|to| !to.is_empty() && is_among(to, by, who, operator))
}

/// What those of the other stages have said, where `verb` does not add up with it.
pub(super) fn disagrees(question: &Question, verb: Verb) -> Option<&str> {
    let mut others = question.votes.iter().filter(|vote| vote.stage != question.stage);
    let is_free = verb.is_no() || verb == Verb::Edit;
    let other = others.find(|vote| !is_free && !agree(&vote.verb, verb));
    other.map(|vote| vote.verb.as_str())
}

/// Whom a question waits for, in words.
pub fn waits_for(question: &Question, by: Asker<'_>) -> String {
    if question.to.is_empty() { by.owner.to_owned() } else { question.to.join(", ") }
}

/// How a stage stands, as far as its question alone can tell: whose word counts is judged when somebody
/// speaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// How many more people must say the same as most have said.
    pub missing: u32,
    /// Of those it is addressed to, who has not spoken: names, `group:…`, `role:…`.
    pub silent: Vec<String>,
}

impl Question {
    /// A stage.
    pub fn stage_at(&self, stage: u32) -> Option<&Stage> {
        self.stages.get(usize::try_from(stage).unwrap_or(usize::MAX))
    }

    /// The stage that it is in.
    pub fn current_stage(&self) -> Option<&Stage> {
        self.stage_at(self.stage)
    }

    /// How many people the current stage needs.
    pub fn need(&self) -> u32 {
        self.current_stage().map_or(1, |stage| stage.need.max(1))
    }

    /// Whom a stage is addressed to: now, when it was left, or when it will be entered.
    pub fn asked_in(&self, stage: u32) -> &[String] {
        if stage == self.stage {
            return &self.to;
        }
        let left = self.reached.iter().find(|(number, _)| *number == stage).map(|(_, to)| to);
        let written = || self.stage_at(stage).map(|stage| &stage.to);
        left.or_else(written).map(Vec::as_slice).unwrap_or_default()
    }

    /// Takes it back to where nobody has said anything to it: what an editor's word had passed before it was
    /// asked is not passed in another run (K11).
    pub fn ask_anew(&mut self, at: Millis) {
        self.votes.clear();
        self.reached.clear();
        self.asked_before.clear();
        self.delegations.clear();
        self.claim = None;
        if self.stage > 0
            && let Some(first) = self.stages.first()
        {
            (self.stage, self.level, self.to) = (0, 0, first.to.clone());
            self.deadline = first.within_ms.map(|ms| at.plus(ms));
        }
    }

    /// The words that stand: not what was said in a place that its owner has taken back since.
    pub fn standing_votes(&self) -> impl Iterator<Item = &Vote> {
        let stands = |vote: &&Vote| {
            let Some(owner) = &vote.instead_of else { return true };
            self.delegations.iter().any(|handed| handed.by == *owner && handed.to == vote.by)
        };
        self.votes.iter().filter(stands)
    }

    /// How a stage stands.
    pub fn standing(&self, stage: u32) -> Standing {
        let need = self.stage_at(stage).map_or(1, |stage| stage.need.max(1));
        let of_stage = || self.standing_votes().filter(|vote| vote.stage == stage);
        let place = |vote: &Vote| vote.instead_of.clone().unwrap_or_else(|| vote.by.clone());
        let spoken: BTreeSet<String> = of_stage().map(place).collect();
        let said = |word: &str| {
            let places: BTreeSet<String> =
                of_stage().filter(|vote| vote.verb == word).map(place).collect();
            u32::try_from(places.len()).unwrap_or(u32::MAX)
        };
        let most = of_stage().map(|vote| said(&vote.verb)).max().unwrap_or_default();
        let missing = need.saturating_sub(most);
        let silent = self.asked_in(stage).iter().filter(|name| !spoken.contains(*name));
        Standing { missing, silent: silent.filter(|_| missing > 0).cloned().collect() }
    }

    /// Puts it into a stage that begins at `at`. Whoever was asked in the one that it leaves still was,
    /// and whoever was asked in this one before still is.
    pub(super) fn enter(&mut self, stage: u32, at: Millis) {
        let to = self.asked_in(stage).to_vec();
        let left = (self.stage, std::mem::take(&mut self.to));
        self.reached.retain(|(number, _)| *number != left.0 && *number != stage);
        self.reached.push(left);
        (self.stage, self.level, self.to, self.claim) = (stage, 0, to, None);
        self.asked_before.clear();
        if let Some(stage) = self.current_stage() {
            self.deadline = stage.within_ms.map(|ms| at.plus(ms));
        }
    }
}

#[cfg(test)]
#[path = "approvers_tests.rs"]
mod tests;
