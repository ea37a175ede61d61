//! Oversight: gathers what people decided lately and what waits, for the figures that a person looks at. Of the
//! newest runs alone: it is a window, and the audit is the whole.

use std::sync::Arc;

use crate::engine::narrate::Published;
use crate::engine::{AuditEntry, AuditFilter, Engine, EngineError, InboxFilter};
use crate::kernel::oversight::{Figures, Made, Open, Pace, READ_CHARS_PER_SECOND, pace};
use crate::kernel::{Event, Millis, Principal, Refusal, Verb};

/// Open requests that are counted: more than a page can make anything of.
const OPEN_MAX: usize = 1_000;
/// Heads that are read at a time.
const HEADS: usize = 250;
/// Entries of the audit in one step.
const ENTRIES: i32 = 500;
/// Steps: some thousand decisions.
const STEPS_MAX: usize = 8;
/// Quick decisions that are listed.
const QUICK_MAX: usize = 50;

/// What a person looks at.
#[derive(Debug)]
pub struct Overseen {
    /// The figures.
    pub figures: Figures,
    /// Decisions that were quicker than could be read, newest first.
    pub quick: Vec<AuditEntry>,
    /// Answers that were refused.
    pub refused: u64,
    /// The time of the oldest decision that was looked at; none if there is none.
    pub since: Option<Millis>,
}

impl Engine {
    /// How people decided lately, and what waits. For whoever sees everything.
    pub async fn oversee(
        &self,
        chars_per_second: u64,
        who: &Principal,
    ) -> Result<Overseen, EngineError> {
        if !who.sees_store() {
            let why = "how people decide is shown to whoever sees everything: use a key with the role \
                       `auditor`, `operator` or `admin`, confined to no workflow";
            return Err(Refusal::Forbidden(why).into());
        }
        let now = self.inner.clock.now();
        let mut figures = Figures::default();
        let open = self.inbox(who, &InboxFilter::default(), None, OPEN_MAX).await?;
        for one in &open.rows {
            let waits_for = if one.question.to.is_empty() {
                one.owner.clone()
            } else {
                one.question.to.join(", ")
            };
            figures.open(&waits_for, &one.question, now);
        }
        let mut overseen = Overseen { figures, quick: Vec::new(), refused: 0, since: None };
        let mut cursor = String::new();
        for _ in 0..STEPS_MAX {
            let page = self.audit(&AuditFilter::default(), &cursor, ENTRIES, who).await?;
            page.rows.into_iter().for_each(|entry| overseen.take(entry, chars_per_second));
            let Some(next) = page.next else { break };
            cursor = next;
        }
        overseen.quick.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        overseen.quick.truncate(QUICK_MAX);
        Ok(overseen)
    }
}

impl Engine {
    /// What is open, by age, for whoever watches from outside; of the first so many.
    pub async fn open_by_age(&self) -> Result<Open, EngineError> {
        let (mut open, mut cursor) = (Open::default(), None);
        let (now, mut left) = (self.inner.clock.now(), OPEN_MAX);
        loop {
            let page = self.inner.journal.waiting(cursor.as_deref(), left.min(HEADS)).await?;
            let heads = self.stilled_clocks(page.rows).await;
            for question in heads.iter().flat_map(|head| &head.questions) {
                open.count(question, now);
            }
            left = left.saturating_sub(heads.len());
            cursor = page.next;
            if cursor.is_none() || left == 0 {
                return Ok(open);
            }
        }
    }

    /// Counts what was decided here, for whoever watches from outside.
    pub(super) fn count_decisions(batch: &[Arc<Published>]) {
        count(batch);
    }
}

fn count(batch: &[Arc<Published>]) {
    for published in batch {
        if let Some(ms) = published.waited_ms {
            #[expect(clippy::cast_precision_loss, reason = "a figure that is looked at")]
            metrics::histogram!("holdpoint_decision_seconds").record(ms as f64 / 1_000.0);
        }
        let (Event::Answered { shown, value, known, .. }
        | Event::Voted { shown, value, known, .. }) = &*published.event
        else {
            continue;
        };
        // Words of a conversation decide nothing.
        let Some(verb) = Verb::of(value).filter(|_| !shown.is_empty()) else { continue };
        let said = if verb.is_no() { "no" } else { "yes" };
        metrics::counter!("holdpoint_decisions_total", "said" => said).increment(1);
        let seen = known.as_ref().and_then(|known| known.seen);
        let Some(at_most) = published.at_most.or(seen) else { continue };
        if pace(seen, at_most, READ_CHARS_PER_SECOND) == Pace::Quick {
            metrics::counter!("holdpoint_decisions_quick_total").increment(1);
        }
    }
}

impl Overseen {
    fn take(&mut self, entry: AuditEntry, chars_per_second: u64) {
        if entry.action == "answer_refused" {
            self.refused += entry.count;
            return;
        }
        let (Some(question), Some(value)) = (&entry.question, &entry.value) else { return };
        if !matches!(entry.action, "answered" | "voted") || entry.principal.is_empty() {
            return;
        }
        let seen = entry.known.as_ref().and_then(|known| known.seen);
        let made = Made { by: &entry.principal, at: entry.at, question, value, seen };
        self.figures.made(&entry.workflow, &made, chars_per_second);
        self.since = Some(self.since.map_or(entry.at, |since| since.min(entry.at)));
        if made.pace(chars_per_second) == Pace::Quick && question.decides() {
            self.quick.push(entry);
        }
    }
}
