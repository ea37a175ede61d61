//! Oversight: what an outsider needs to see whether people decide or only click: figures and a list, made of the
//! audit, and no judgement of anybody. It keeps nothing, and nothing is decided by it.

use std::collections::BTreeMap;

use crate::engine::audit::{AuditEntry, AuditFilter};
use crate::engine::views::{InboxFilter, OpenRequest};
use crate::engine::{Engine, EngineError};
use crate::kernel::{Millis, Origin, Principal, Refusal, Seen, Verb};
use crate::ports::Note;

/// Characters that somebody reads in a second, where nobody says otherwise: about 250 words a minute.
pub const CHARS_PER_SECOND: u64 = 25;
/// Entries of the audit that one look takes in; more are told of as left out.
const ENTRIES_MAX: usize = 20_000;
/// Open requests that one look takes in.
const OPEN_MAX: usize = 10_000;
/// Decisions listed one by one.
const LISTED_MAX: usize = 100;
/// Entries asked for at a time.
const PAGE: i32 = 1_000;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// From when on.
    pub since: Millis,
    /// Characters that somebody reads in a second.
    pub chars_per_second: u64,
}

/// Figures of decisions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many there were.
    pub decisions: u64,
    /// Those that let something happen, as it was asked.
    pub passed: u64,
    /// Those that let something else happen: an edit, a version of one's own.
    pub edited: u64,
    /// Those that did not.
    pub refused: u64,
    /// Those that were quicker than the text could be read, of those whose time on a screen is known.
    pub quick: u64,
    /// How long each took from the asking.
    took_ms: Vec<u64>,
}

/// A decision that was quicker than the text could be read.
#[derive(Debug, Clone, PartialEq)]
pub struct Quick {
    /// As the audit has it.
    pub entry: AuditEntry,
    /// What was shown, and how long.
    pub seen: Seen,
}

/// Open requests by their age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ages {
    /// Asked within the last hour.
    pub hour: u64,
    /// Within the last day.
    pub day: u64,
    /// Within the last week.
    pub week: u64,
    /// Longer ago.
    pub older: u64,
}

/// What there is to see.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Oversight {
    /// Decisions by whoever made them.
    pub people: BTreeMap<String, Tally>,
    /// Decisions by what asked: workflow, step, and the tool of a gate.
    pub rules: BTreeMap<String, Tally>,
    /// All of them together.
    pub all: Tally,
    /// The newest that were quicker than the text could be read.
    pub quick: Vec<Quick>,
    /// What is open, by whom it is asked of.
    pub open: BTreeMap<String, Ages>,
    /// Questions that nobody answered in time.
    pub expired: u64,
    /// Answers that were refused, by code.
    pub refusals: BTreeMap<String, u64>,
    /// Whether there was more than one look takes in.
    pub is_cut: bool,
}

impl Engine {
    /// How decisions were made since then, for whoever sees everything.
    pub async fn oversight(&self, span: Span, who: &Principal) -> Result<Oversight, EngineError> {
        if !who.sees_store() {
            let why = "oversight is for whoever sees everything: use a key with the role `auditor`, \
                       `operator` or `admin`, confined to no workflow";
            return Err(Refusal::Forbidden(why).into());
        }
        let mut seen = Oversight::default();
        let filter = AuditFilter { since: Some(span.since), ..AuditFilter::default() };
        let (mut cursor, mut looked_at) = (String::new(), 0);
        loop {
            let page = self.audit(&filter, &cursor, PAGE, who).await?;
            looked_at += page.rows.len();
            page.rows.into_iter().for_each(|entry| seen.take(entry, span.chars_per_second));
            match page.next {
                Some(next) if looked_at < ENTRIES_MAX => cursor = next,
                more => {
                    seen.is_cut |= more.is_some();
                    break;
                }
            }
        }
        seen.quick.sort_by_key(|quick| std::cmp::Reverse(quick.entry.at));
        seen.quick.truncate(LISTED_MAX);
        let open = self.inbox(who, &InboxFilter::default(), None, OPEN_MAX).await?;
        seen.is_cut |= open.next.is_some();
        let now = self.inner.clock.now();
        open.rows.iter().for_each(|request| seen.is_open(request, now));
        self.refusals(&filter, &mut seen, who).await?;
        Ok(seen)
    }

    async fn refusals(
        &self,
        filter: &AuditFilter,
        seen: &mut Oversight,
        who: &Principal,
    ) -> Result<(), EngineError> {
        let (mut cursor, mut looked_at) = (String::new(), 0);
        loop {
            let page = self.log(filter, &cursor, PAGE, who).await?;
            looked_at += page.rows.len();
            for entry in page.rows {
                if let Note::AnswerRefused { code, .. } = entry.note {
                    *seen.refusals.entry(code).or_default() += entry.count;
                }
            }
            match page.next {
                Some(next) if looked_at < ENTRIES_MAX => cursor = next,
                _ => return Ok(()),
            }
        }
    }
}

impl Oversight {
    /// Takes in one thing that happened.
    fn take(&mut self, entry: AuditEntry, chars_per_second: u64) {
        // What a fork copied was decided elsewhere, and counts there.
        if entry.note.contains("copied from") {
            return;
        }
        if entry.action == "expired" {
            self.expired += 1;
        }
        if !["answered", "voted"].contains(&entry.action) {
            return;
        }
        let (Some(question), Some(value)) = (&entry.question, &entry.value) else { return };
        let Some(verb) = Verb::of(value).filter(|_| question.decides()) else { return };
        let shown = entry.known.as_ref().and_then(|known| known.seen);
        let quick = shown.filter(|seen| {
            seen.ms.saturating_mul(chars_per_second) < seen.chars.saturating_mul(1_000)
        });
        let took_ms = entry.at.since(question.asked_at);
        let rule = match &question.origin {
            Origin::Gate(call) => format!("{} · {} · {}", entry.workflow, question.step, call.tool),
            Origin::UserTurn
            | Origin::Directive
            | Origin::ToolCall(_)
            | Origin::HumanStep
            | Origin::LostOutcome(_)
            | Origin::Budget(_)
            | Origin::Phase(_) => format!("{} · {}", entry.workflow, question.step),
        };
        let people = self.people.entry(entry.principal.clone()).or_default();
        let rules = self.rules.entry(rule).or_default();
        for tally in [people, rules, &mut self.all] {
            tally.add(verb, quick.is_some(), took_ms);
        }
        if let Some(seen) = quick {
            self.quick.push(Quick { entry, seen });
        }
    }

    /// Takes in one request that is open.
    fn is_open(&mut self, request: &OpenRequest, now: Millis) {
        let question = &request.question;
        let asked = if question.to.is_empty() { &request.requesters } else { &question.to };
        let age = now.since(question.asked_at);
        for name in asked {
            let ages = self.open.entry(name.clone()).or_default();
            *match age {
                0..3_600_000 => &mut ages.hour,
                3_600_000..86_400_000 => &mut ages.day,
                86_400_000..604_800_000 => &mut ages.week,
                604_800_000.. => &mut ages.older,
            } += 1;
        }
    }
}

impl Tally {
    fn add(&mut self, verb: Verb, is_quick: bool, took_ms: u64) {
        self.decisions += 1;
        self.quick += u64::from(is_quick);
        self.took_ms.push(took_ms);
        if verb.is_no() {
            self.refused += 1;
        } else if verb.brings_another() {
            self.edited += 1;
        } else if verb.lets_pass() {
            self.passed += 1;
        }
    }

    /// Half of them took no longer than this.
    pub fn median_ms(&self) -> u64 {
        let mut sorted = self.took_ms.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}
