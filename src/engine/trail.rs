//! Trail: the store's own log as it is shown: whole, to whoever sees everything; and, run by run, beside
//! what the run's journal tells. Nothing is written here but what was noticed and not yet written down.

use std::collections::HashMap;

use crate::engine::audit_entry::{AuditEntry, AuditFilter};
use crate::engine::views::{page_size, token};
use crate::engine::{Engine, EngineError};
use crate::kernel::{Millis, Principal, Refusal, RunId};
use crate::ports::log::{DEEDS_MAX, REFUSALS_MAX, read_cursor};
use crate::ports::{Head, Logged, Page};

/// Entries looked through for one page: a filter that matches little must not hold a caller for long.
const LOOKED_AT: usize = 2_000;

impl Engine {
    /// The store's own log, newest first, for whoever sees everything. A page may be short, even empty,
    /// and still have a next one.
    pub async fn log(
        &self,
        filter: &AuditFilter,
        cursor: &str,
        limit: i32,
        who: &Principal,
    ) -> Result<Page<Logged>, EngineError> {
        if !who.sees_store() {
            let why = "the store's own log is shown to whoever sees everything: use a key with the role \
                       `auditor`, `operator` or `admin`, confined to no workflow";
            return Err(Refusal::Forbidden(why).into());
        }
        let limit = page_size(limit)?;
        let mut cursor = token(cursor, |text| read_cursor(text).is_some())?.map(str::to_owned);
        self.write_all().await;
        let (mut rows, mut looked_at) = (Vec::new(), 0);
        while rows.len() < limit && looked_at < LOOKED_AT {
            let page = self.inner.journal.notes(cursor.as_deref(), limit - rows.len()).await?;
            looked_at += page.rows.len().max(1);
            rows.extend(page.rows.into_iter().filter(|entry| filter.accepts_logged(entry)));
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Page { rows, next: cursor })
    }

    /// What the log has to say of runs.
    pub(super) async fn noted(&self) -> Result<Noted, EngineError> {
        self.write_all().await;
        let most = usize::try_from(REFUSALS_MAX + DEEDS_MAX).unwrap_or(usize::MAX);
        let page = self.inner.journal.notes(None, most.saturating_add(1)).await?;
        let mut noted = Noted::default();
        for entry in page.rows.into_iter().rev() {
            for run in entry.note.runs() {
                noted.0.entry(run.clone()).or_default().push(entry.clone());
            }
        }
        Ok(noted)
    }
}

/// Entries of the log by the runs that they are about, oldest first.
#[derive(Debug, Default)]
pub(super) struct Noted(HashMap<RunId, Vec<Logged>>);

impl Noted {
    /// When the last of them about a run happened.
    pub(super) fn last_of(&self, run: &RunId) -> Millis {
        let of = self.0.get(run).map_or(&[][..], Vec::as_slice);
        of.iter().map(|entry| entry.last).max().unwrap_or_default()
    }

    /// A run's trail with what the log has of it, each where it belongs in time.
    pub(super) fn among(&self, head: &Head, mut trail: Vec<AuditEntry>) -> Vec<AuditEntry> {
        for entry in self.0.get(&head.run).map_or(&[][..], Vec::as_slice) {
            let place = trail.iter().rposition(|known| known.at <= entry.first);
            let place = place.map_or(0, |place| place + 1);
            trail.insert(place, told(head, entry));
        }
        trail
    }
}

/// An entry of the log as one of a run's trail.
fn told(head: &Head, entry: &Logged) -> AuditEntry {
    let (who, door) = entry.note.who();
    AuditEntry {
        action: entry.note.action(),
        principal: who.to_owned(),
        door: door.to_owned(),
        known: entry.note.known().cloned(),
        note: entry.note.words(),
        count: entry.count,
        last: entry.last,
        ..AuditEntry::bare(head, entry.first, 0)
    }
}

impl AuditFilter {
    /// Whether an entry of the log is listed.
    fn accepts_logged(&self, entry: &Logged) -> bool {
        self.principal.as_ref().is_none_or(|who| entry.note.who().0 == who)
            && self.since.is_none_or(|since| entry.last >= since)
            && self.until.is_none_or(|until| entry.first < until)
    }
}
