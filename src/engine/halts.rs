//! Halts: what is stopped, as the store keeps it, durably; and as others who share the store change it. What it means is
//! `halting`'s, and the kernel's.
//!
//! Which were taken back is kept, too. One that is known here, and that a shared store has neither among those that stand
//! nor among those that were taken back, is missing because the store went back in time: it stands until an admin takes
//! it back (K7).

use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::engine::drive::DECIDE_TRIES;
use crate::engine::{Engine, EngineError, Reach};
use crate::kernel::{Halt, Halts, Operator, Principal, Refusal};
use crate::ports::{Fault, Guard, Journal};

/// Under which name a store keeps them.
pub(super) const NAME: &str = "halts";

/// How many of those that were taken back are remembered: whoever shares the store hears of each within seconds.
const ENDED_MAX: usize = 256;

/// How many idempotency keys of those are remembered: whoever repeats a call does so soon.
const SPENT_MAX: usize = 64;

/// The idempotency key of a halt that was taken back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Spent {
    by: String,
    key: String,
}

/// Halts as a store keeps them.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    halts: Halts,
    /// Those that were taken back, by id, the last one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    ended: Vec<String>,
    /// The keys of those that had one, the last one last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    spent: Vec<Spent>,
}

impl Kept {
    fn read(text: &str) -> Result<Self, Fault> {
        serde_json::from_str(text)
            .map_err(|error| Fault::Corrupt(format!("the store's halts: {error}")))
    }

    /// Those that are known here and that nobody has taken back, in the order in which they were known.
    fn missing<'a>(&'a self, known: &'a Halts) -> impl Iterator<Item = &'a Halt> {
        let stands = |halt: &&Halt| self.halts.0.iter().any(|other| other.id == halt.id);
        let ended = |halt: &&Halt| self.ended.contains(&halt.id);
        known.0.iter().filter(move |halt| !stands(halt) && !ended(halt))
    }

    /// The same with these halts, of which those that stood and do no more were taken back.
    fn with(self, halts: Halts) -> Self {
        let Self { halts: before, mut ended, mut spent } = self;
        let stands = |id: &str| halts.0.iter().any(|halt| halt.id == id);
        // One by a file may come again.
        ended.retain(|id| !stands(id));
        for Halt { id, by, key, .. } in before.0.into_iter().filter(|halt| !stands(&halt.id)) {
            ended.push(id);
            spent.extend((!key.is_empty()).then_some(Spent { by, key }));
        }
        ended.drain(..ended.len().saturating_sub(ENDED_MAX));
        spent.drain(..spent.len().saturating_sub(SPENT_MAX));
        Self { halts, ended, spent }
    }
}

/// What a store keeps as halted, for whoever looks at it and does nothing.
pub async fn halts_kept(journal: &dyn Journal) -> Result<Halts, Fault> {
    let text = journal.remembered(NAME).await?;
    Ok(text.as_deref().map(Kept::read).transpose()?.unwrap_or_default().halts)
}

impl Engine {
    /// Reads what the store keeps. To be called before anything is looked at.
    pub(super) async fn read_halts(&self) -> Result<(), EngineError> {
        let Some(text) = self.inner.journal.remembered(NAME).await? else { return Ok(()) };
        let kept = Kept::read(&text)?;
        let mut read = self.read_of_halts();
        self.set_halts(kept.halts);
        *read = Some(text);
        Ok(())
    }

    /// Heeds what others have stopped, or let go on, where they share the store.
    pub(super) async fn heed_halts(&self) -> Result<(), EngineError> {
        if !self.is_shared() {
            return Ok(());
        }
        for _ in 0..DECIDE_TRIES {
            let knew = self.read_of_halts().clone();
            let asked = self.inner.clock.ticks();
            let text = self.inner.journal.remembered(NAME).await?;
            if text == knew {
                self.inner.halting.asked.fetch_max(asked, Ordering::AcqRel);
                return Ok(());
            }
            let kept = text.as_deref().map(Kept::read).transpose()?.unwrap_or_default();
            // Another task of this process may have taken in what is newer than this.
            let Some(missing) = self.take_in_halts(knew.as_deref(), text, kept) else { continue };
            self.inner.halting.asked.fetch_max(asked, Ordering::AcqRel);
            return self.stand_again(&missing).await;
        }
        Err(EngineError::Moved)
    }

    /// That what is stopped is what is known here, where others change it too.
    pub(super) fn guard_of_halts(&self) -> Option<Guard> {
        self.is_shared().then(|| Guard::kept(NAME, self.read_of_halts().as_deref()))
    }

    /// Whether it is longer ago than that that the store was asked for what others may have stopped.
    pub(super) fn halts_are_old(&self, ms: u64) -> bool {
        let asked = self.inner.halting.asked.load(Ordering::Acquire);
        self.is_shared() && self.inner.clock.ticks() >= asked.saturating_add(ms)
    }

    /// Takes in what the store keeps, if what is known here is still `knew`; the halts that it lacks though nobody took
    /// them back.
    fn take_in_halts(
        &self,
        knew: Option<&str>,
        text: Option<String>,
        kept: Kept,
    ) -> Option<Vec<Halt>> {
        let mut read = self.read_of_halts();
        if read.as_deref() != knew {
            return None;
        }
        let before = self.halts();
        let missing: Vec<_> = kept.missing(&before).cloned().collect();
        let mut now = kept.halts;
        now.0.extend(missing.iter().cloned());
        let is_over = |known: &Halt| now.0.iter().all(|other| other.id != known.id);
        let are_over = before.0.iter().any(is_over);
        self.set_halts(now);
        *read = text;
        drop(read);
        if are_over {
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                if let Err(error) = engine.go_on().await {
                    tracing::error!(%error, "what stood still does not go on");
                }
            });
        }
        Some(missing)
    }

    /// Has the store keep those that stand and that it lacks: whoever comes next knows of them, too.
    async fn stand_again(&self, missing: &[Halt]) -> Result<(), EngineError> {
        if missing.is_empty() || self.reach() == Reach::Nothing {
            return Ok(());
        }
        for halt in missing {
            tracing::error!(
                halt.id = %halt.id,
                what = halt.scope.words(),
                "the store has gone back: it lacks a halt that nobody took back, and that stands"
            );
        }
        // Where others came first, they have kept it or it is found missing again.
        let (knew, halts) = self.known_halts();
        self.keep_halts(knew, &halts, None).await.map(drop)
    }

    /// What is known here, and what of it the store had.
    fn known_halts(&self) -> (Option<String>, Halts) {
        let read = self.read_of_halts();
        (read.clone(), Halts::clone(&self.halts()))
    }

    /// Refuses a call that comes again after what it stopped was let go on: it stops nothing more, and whoever sent it
    /// must not think that it did.
    pub(super) fn refuse_if_spent(&self, by: &str, key: &str) -> Result<(), EngineError> {
        let kept = self.read_of_halts().as_deref().map(Kept::read).transpose()?.unwrap_or_default();
        if key.is_empty() || kept.spent.iter().all(|spent| spent.by != by || spent.key != key) {
            return Ok(());
        }
        let remedy =
            "what was halted with this key was let go on since; to halt it again, use another key";
        Err(Refusal::invalid("idempotency_key", remedy).into())
    }

    /// What the store had when it was last asked.
    pub(super) fn read_of_halts(&self) -> MutexGuard<'_, Option<String>> {
        self.inner.halting.read.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finishes what somebody who died was taking back.
    pub(super) fn finish_halts(&self) {
        if self.halts().0.iter().any(|known| known.is_ending) {
            let engine = self.clone();
            self.inner.tasks.spawn(async move {
                if let Err(error) = engine.settle_halts().await {
                    tracing::error!(%error, "a halt is not taken back yet");
                }
            });
        }
    }

    /// Keeps them with a change; where others change them meanwhile, over what they left.
    pub(super) async fn change_halts(
        &self,
        who: Option<&Principal>,
        change: impl Fn(&mut Halts) + Send + Sync,
    ) -> Result<Halts, EngineError> {
        for _ in 0..DECIDE_TRIES {
            self.heed_halts().await?;
            // After it: whoever was cut off from the store waited there, and keys were changed meanwhile (K7).
            let rests = match who {
                Some(who) => self.refuse_if_unknown(who).await?,
                None => None,
            };
            let (knew, mut halts) = self.known_halts();
            change(&mut halts);
            if self.keep_halts(knew, &halts, rests.as_ref()).await? {
                return Ok(halts);
            }
            if let Some(rests) = rests {
                self.doubt(&rests.name);
            }
        }
        Err(EngineError::Moved)
    }

    /// Keeps them in the place of what the store had, and heeds them from then on. Whether they were kept; not, where
    /// others have changed them since.
    async fn keep_halts(
        &self,
        knew: Option<String>,
        halts: &Halts,
        rests: Option<&Guard>,
    ) -> Result<bool, EngineError> {
        let before = knew.as_deref().map(Kept::read).transpose()?.unwrap_or_default();
        let kept = serde_json::to_string(&before.with(halts.clone()))
            .map_err(|error| Fault::Permanent(format!("the store's halts: {error}")))?;
        let is_kept = match self.replicas() {
            None => self.inner.journal.remember(NAME, &kept).await.map(|()| true)?,
            Some(replicas) => {
                replicas.remember_resting(NAME, (knew.as_deref(), &kept), rests).await?
            }
        };
        let mut read = self.read_of_halts();
        // What was taken in meanwhile was written after this.
        if is_kept && *read == knew {
            self.set_halts(halts.clone());
            *read = Some(kept);
        }
        Ok(is_kept)
    }

    fn set_halts(&self, halts: Halts) {
        let mut operator = self.inner.operator.write().unwrap_or_else(PoisonError::into_inner);
        let halts = Arc::new(halts);
        *operator = Arc::new(Operator { halts, ..Operator::clone(&operator) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::{Millis, Scope};

    fn halt(id: &str) -> Halt {
        let (scope, at, is_ending) = (Scope::All, Millis(1), false);
        let [reason, by, door, key] = ["odd", "ann", "cli", ""].map(str::to_owned);
        let (known, ended_by) = (None, None);
        Halt { id: id.into(), scope, reason, by, door, known, at, is_ending, ended_by, key }
    }

    fn halts(ids: &[&str]) -> Halts {
        Halts(ids.iter().map(|id| halt(id)).collect())
    }

    fn missing(kept: &Kept, known: &[&str]) -> Vec<String> {
        kept.missing(&halts(known)).map(|halt| halt.id.clone()).collect()
    }

    #[test]
    fn k7_a_halt_is_over_when_somebody_took_it_back_and_not_when_it_is_merely_gone() {
        let first = Kept::default().with(halts(&["one"]));
        let both = Kept::read(&serde_json::to_string(&first).unwrap()).unwrap();
        let both = both.with(halts(&["one", "two"]));
        assert_eq!(missing(&first, &["one", "two"]), ["two"], "the list is an older one");
        let left = both.with(halts(&["one"]));
        assert_eq!(missing(&left, &["one", "two"]), [""; 0], "it was taken back");
        let again = left.with(halts(&["one", "two"]));
        assert_eq!(again.ended, [""; 0], "by the same name, as by a file");
    }

    #[test]
    fn the_key_of_one_that_was_taken_back_is_remembered_up_to_a_bound() {
        let keyed = |key: &str| Halts(vec![Halt { key: key.into(), ..halt(key) }]);
        let mut kept = Kept::default().with(halts(&["without"])).with(halts(&[]));
        assert_eq!(kept.spent, []);
        for number in 0..SPENT_MAX + 10 {
            kept = kept.with(keyed(&number.to_string()));
            assert!(kept.spent.iter().all(|spent| spent.key != number.to_string()), "it stands");
            kept = kept.with(halts(&[]));
        }
        assert_eq!((kept.spent.len(), kept.spent[0].key.as_str()), (SPENT_MAX, "10"));
        let read = Kept::read(&serde_json::to_string(&kept).unwrap()).unwrap();
        assert_eq!(read.spent, kept.spent);
    }

    #[test]
    fn those_that_were_taken_back_are_remembered_up_to_a_bound() {
        let mut kept = Kept::default();
        for number in 0..ENDED_MAX + 10 {
            kept = kept.with(halts(&[&number.to_string()])).with(halts(&[]));
        }
        assert_eq!((kept.ended.len(), kept.ended[0].as_str()), (ENDED_MAX, "10"));
    }
}
