//! Ledger: what is on its way into the store's own log. The same refusal again and again is one entry
//! with a count; an entry is written before whoever was refused is told, if the store is well.
//!
//! It never stops what it tells of: a store that takes no writes costs the entry a while, and the caller
//! at most a moment. How often something was refused is written at 1, 2, 4, 8 … and whenever somebody
//! reads: a kill may cost a part of a count, never an entry.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::engine::{Engine, EngineError, Reach};
use crate::kernel::{Millis, Principal, Refusal, RequestId, RunId};
use crate::ports::log::Lane;
use crate::ports::{Fault, Note, Noting};

/// How long the same refusal is counted with the first.
const WINDOW_MS: u64 = 10 * 60_000;
/// Refusals told apart at a time; beyond it they are counted together.
const APART_MAX: usize = 1_024;
/// Deeds that may wait for a store that takes no writes; beyond it they are only counted.
const WAITING_MAX: usize = 1_024;
/// How long whoever is refused waits for a slow disk.
const PATIENCE_MS: u64 = 1_000;

/// What is on its way into the log.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    book: Mutex<Book>,
    /// Whether something is to be written now.
    is_due: AtomicBool,
    /// One writes at a time, so that more of the same finds the place of the first.
    writing: tokio::sync::Mutex<()>,
}

/// The book itself: no clock, no disk.
#[derive(Debug, Default)]
struct Book {
    refusals: HashMap<Note, Tally>,
    /// What is to be written whole, in order.
    waiting: VecDeque<Noting>,
    /// What there was no room for.
    lost: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Tally {
    place: Option<u64>,
    first: Millis,
    last: Millis,
    count: u64,
    written: u64,
}

impl Tally {
    fn noting(self, note: &Note) -> Noting {
        let Self { place, first, last, count, .. } = self;
        Noting { place, first, last, count, note: note.clone() }
    }

    fn is_over(self, now: Millis) -> bool {
        now >= self.first.plus(WINDOW_MS)
    }
}

impl Book {
    /// Takes a note; whether something is to be written now.
    fn take(&mut self, note: Note, now: Millis) -> bool {
        match note.lane() {
            Lane::Refusals => self.count(&note, now),
            Lane::Deeds => {
                self.wait(Noting::once(now, note));
                true
            }
        }
    }

    fn count(&mut self, note: &Note, now: Millis) -> bool {
        if let Some(tally) = self.refusals.get_mut(note)
            && !tally.is_over(now)
        {
            tally.count += 1;
            tally.last = now;
            return tally.count.is_power_of_two();
        }
        if !self.refusals.contains_key(note) && self.refusals.len() >= APART_MAX {
            self.sweep(now);
            // Room for one is always left.
            if self.refusals.len() >= APART_MAX && *note != Note::Crowded {
                return self.count(&Note::Crowded, now);
            }
        }
        let fresh = Tally { place: None, first: now, last: now, count: 1, written: 0 };
        if let Some(old) = self.refusals.insert(note.clone(), fresh) {
            self.settle(note, old);
        }
        true
    }

    /// Lets go of what is over.
    fn sweep(&mut self, now: Millis) {
        let over: Vec<_> = self.refusals.extract_if(|_, tally| tally.is_over(now)).collect();
        for (note, tally) in over {
            self.settle(&note, tally);
        }
    }

    /// What is over has its last count written.
    fn settle(&mut self, note: &Note, tally: Tally) {
        if tally.count > tally.written {
            self.wait(tally.noting(note));
        }
    }

    fn wait(&mut self, noting: Noting) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(noting);
        } else {
            self.lost += noting.count;
        }
    }

    /// What is to be written next.
    fn owed(&mut self, now: Millis) -> Vec<Noting> {
        if self.lost > 0 && self.waiting.len() < WAITING_MAX {
            let count = std::mem::take(&mut self.lost);
            self.waiting.push_back(Noting { count, ..Noting::once(now, Note::Lost) });
        }
        let counted = self.refusals.iter().filter(|(_, tally)| tally.count > tally.written);
        let counted = counted.map(|(note, tally)| tally.noting(note));
        let mut owed: Vec<_> = self.waiting.iter().cloned().chain(counted).collect();
        owed.sort_by_key(|noting| noting.first);
        owed
    }

    /// That was written.
    fn written(&mut self, noting: &Noting, place: u64) {
        if let Some(index) = self.waiting.iter().position(|one| one == noting) {
            self.waiting.remove(index);
            return;
        }
        if let Some(tally) = self.refusals.get_mut(&noting.note)
            && tally.first == noting.first
        {
            tally.place = Some(place);
            tally.written = tally.written.max(noting.count);
        }
    }
}

impl Ledger {
    fn lock(&self) -> MutexGuard<'_, Book> {
        // Whoever panicked beside it has counted or not; both can be gone on from.
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Notes something in the store's own log, durably where the store is well. Never fails.
    pub async fn note(&self, note: Note) {
        self.notice(note);
        self.write_down().await;
    }

    /// The same, to be written by whoever next calls [`Engine::write_down`].
    pub fn notice(&self, note: Note) {
        // Whoever only looks changes nothing (E8).
        if self.reach() == Reach::Nothing {
            return;
        }
        if self.inner.ledger.lock().take(note.bounded(), self.inner.clock.now()) {
            self.inner.ledger.is_due.store(true, Ordering::Release);
        }
    }

    /// Keeps something of the operator's under a name, in place of what was there.
    pub async fn remember(&self, name: &str, text: &str) -> Result<(), EngineError> {
        Ok(self.inner.journal.remember(name, text).await?)
    }

    /// What is kept under that name.
    pub async fn remembered(&self, name: &str) -> Result<Option<String>, EngineError> {
        Ok(self.inner.journal.remembered(name).await?)
    }

    /// Whether something was noticed and is not written.
    pub fn has_unwritten(&self) -> bool {
        self.inner.ledger.is_due.load(Ordering::Acquire)
    }

    /// Writes what was noticed. A store that takes long is not waited for.
    pub async fn write_down(&self) {
        if !self.has_unwritten() {
            return;
        }
        let engine = self.clone();
        // Apart, so that a caller that leaves, or waits no longer, stops nothing half-way.
        let writing = self.inner.tasks.spawn(async move { engine.write_all().await });
        tokio::select! {
            biased;
            _ = writing => {}
            () = self.inner.clock.pause(PATIENCE_MS) => {
                tracing::warn!("the store's own log is written slowly; nobody waits for it");
            }
        }
    }

    /// Writes everything that is not written, counts too.
    pub(super) async fn write_all(&self) {
        if self.reach() == Reach::Nothing {
            return;
        }
        let ledger = &self.inner.ledger;
        let _writing = ledger.writing.lock().await;
        ledger.is_due.store(false, Ordering::Release);
        let owed = ledger.lock().owed(self.inner.clock.now());
        let written = owed.into_iter().map(|noting| async move {
            let place = self.inner.journal.note(noting.clone()).await?;
            ledger.lock().written(&noting, place);
            Ok::<_, Fault>(())
        });
        for outcome in futures::future::join_all(written).await {
            if let Err(fault) = outcome {
                // It is kept, and goes with the next.
                tracing::warn!(%fault, "an entry of the store's own log could not be written");
            }
        }
    }

    /// What came of an operator's wish; where it was refused, that is noted, too: whoever tries what is not theirs stands in
    /// the log with it, at every door.
    pub(super) async fn or_noted<T>(
        &self,
        taken: Result<T, EngineError>,
        note: impl FnOnce(&'static str) -> Note,
    ) -> Result<T, EngineError> {
        if let Err(EngineError::Refused(refusal)) = &taken {
            self.note(note(refusal.code())).await;
        }
        taken
    }

    /// Notes that an answer was not taken, and why.
    pub async fn note_refused(&self, named: &str, refusal: &Refusal, who: &Principal) {
        let (named, run) = told(named, refusal);
        self.note_refused_as(&named, run, refusal.code(), who).await;
    }

    /// The same, where a door has its own word for why.
    pub async fn note_refused_as(
        &self,
        named: &str,
        run: Option<RunId>,
        code: &str,
        who: &Principal,
    ) {
        let run = run.or_else(|| run_of(named));
        metrics::counter!("holdpoint_answers_refused_total", "code" => code.to_owned())
            .increment(1);
        let note = Note::answer_refused((&who.id, who.door), named, run, code);
        self.note(note.known_as(&who.known)).await;
    }
}

/// What an answer named, as well as can be told: what the refusal is about, else what the caller wrote.
fn told(named: &str, refusal: &Refusal) -> (String, Option<RunId>) {
    let request = match refusal {
        Refusal::UnknownRequest(request)
        | Refusal::ForeignRequest { request, .. }
        | Refusal::WrongAnswer { request, .. }
        | Refusal::AlreadyAnswered { request, .. }
        | Refusal::AlreadyCounted { request, .. }
        | Refusal::NobodyLeft { request, .. }
        | Refusal::RequestClosed { request, .. }
        | Refusal::StaleDigest { request }
        | Refusal::DigestNeeded { request }
        | Refusal::AskedAnew { request }
        | Refusal::NotAssured { request, .. }
        | Refusal::HandedOver { request, .. }
        | Refusal::NotDelegable { request, .. }
        | Refusal::NotDelegated { request }
        | Refusal::NotClaimed { request }
        | Refusal::Unspent { request, .. }
        | Refusal::NotAdmitted { request, .. } => Some(request.as_str()),
        Refusal::Unbound { open } | Refusal::StillUnbound { open } => {
            open.first().map(|one| one.request.as_str())
        }
        Refusal::AmbiguousAnswer { requests, .. } => requests.first().map(String::as_str),
        Refusal::UnknownCode { code } => Some(code.as_str()),
        Refusal::RunOver { run, .. } => return (named.to_owned(), RunId::parse(run).ok()),
        Refusal::UnknownWorkflow(_)
        | Refusal::BrokenWorkflow { .. }
        | Refusal::UnknownSession(_)
        | Refusal::UnknownRun(_)
        | Refusal::PrunedRun(_)
        | Refusal::UnknownHalt(_)
        | Refusal::UnknownCheckpoint(_)
        | Refusal::StalePause
        | Refusal::KeyReused(_)
        | Refusal::NotListening { .. }
        | Refusal::NotGranted { .. }
        | Refusal::SessionFull { .. }
        | Refusal::Invalid { .. }
        | Refusal::BadGate { .. }
        | Refusal::TooLarge { .. }
        | Refusal::Unauthenticated
        | Refusal::UnknownKey
        | Refusal::KeyExpired(_)
        | Refusal::UnknownPerson(_)
        | Refusal::Role { .. }
        | Refusal::NotSender { .. }
        | Refusal::Forbidden(_)
        | Refusal::Held
        | Refusal::Rewound
        | Refusal::Halted { .. }
        | Refusal::Stale => None,
    };
    let request = request.unwrap_or(named);
    (request.to_owned(), run_of(request))
}

/// The run of what a request id names, or that is named itself.
fn run_of(named: &str) -> Option<RunId> {
    let request = RequestId::parse(named).map(|id| id.run).ok();
    request.or_else(|| RunId::parse(named).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(who: &str) -> Note {
        Note::answer_refused((who, "grpc"), "req_1", None, "answer.not_admitted")
    }

    /// Writes what is owed; how often each was said to have happened.
    fn written(book: &mut Book, now: Millis) -> Vec<u64> {
        let owed = book.owed(now);
        for (noting, place) in owed.iter().zip(7..) {
            book.written(noting, noting.place.unwrap_or(place));
        }
        owed.iter().map(|noting| noting.count).collect()
    }

    #[test]
    fn the_same_refusal_is_one_entry_with_a_count_for_a_while() {
        let mut book = Book::default();
        assert!(book.take(refused("eve"), Millis(1)));
        assert_eq!(written(&mut book, Millis(1)), [1]);
        let due: Vec<_> = (2..=9).map(|at| book.take(refused("eve"), Millis(at))).collect();
        assert_eq!(due, [true, false, true, false, false, false, true, false], "2, 4, 8");
        let owed = book.owed(Millis(9));
        assert_eq!((owed.len(), owed[0].count, owed[0].place), (1, 9, Some(7)), "more of the same");
        assert_eq!(written(&mut book, Millis(9)), [9]);
        assert_eq!(written(&mut book, Millis(9)), [0; 0]);
        // Another person, and the same after a while, are entries of their own.
        book.take(refused("mallory"), Millis(10));
        book.take(refused("eve"), Millis(11));
        assert!(book.take(refused("eve"), Millis(WINDOW_MS + 1)));
        let owed = book.owed(Millis(WINDOW_MS + 1));
        let told: Vec<_> = owed.iter().map(|noting| (noting.count, noting.place)).collect();
        assert_eq!(told, [(10, Some(7)), (1, None), (1, None)]);
    }

    #[test]
    fn whoever_is_refused_in_a_thousand_ways_costs_a_thousand_entries_and_no_more() {
        let mut book = Book::default();
        for number in 0..3_000 {
            book.take(refused(&format!("eve-{number}")), Millis(1));
        }
        assert_eq!(book.refusals.len(), APART_MAX + 1);
        assert_eq!(book.refusals[&Note::Crowded].count, 3_000 - APART_MAX as u64);
        written(&mut book, Millis(1));
        book.take(refused("ann"), Millis(WINDOW_MS + 1));
        assert_eq!(book.refusals.len(), 1, "what is over is let go of");
    }

    #[test]
    fn what_a_sick_store_does_not_take_is_kept_and_at_last_counted() {
        let mut book = Book::default();
        for number in 0..WAITING_MAX + 5 {
            assert!(book.take(Note::Imported { runs: number as u64, events: 0 }, Millis(1)));
        }
        assert_eq!(book.owed(Millis(2)).len(), WAITING_MAX);
        written(&mut book, Millis(2));
        let owed = book.owed(Millis(3));
        assert_eq!((owed.len(), &owed[0].note, owed[0].count), (1, &Note::Lost, 5));
    }
}
