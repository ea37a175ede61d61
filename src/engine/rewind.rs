//! Rewind: what an engine does about a store that lacks what it had acknowledged (J10), as a database does after a
//! failover to a standby that had not got everything. What it remembers beyond the store is dropped and decided again;
//! nothing more is done in the world until an operator has looked, and people are asked anew what they were asked.
//!
//! It restores nothing: what the store lost is lost, and only said: of every run that this process remembers otherwise,
//! also where somebody who could not know has written over it since.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::cell::{Cell, State};
use crate::engine::holder::Holder;
use crate::engine::narrate::{Narrator, Published};
use crate::engine::trace::SpanBuilder;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Event, Millis, Recorded, RunId, Status, Version, replay};
use crate::ports::identity::Identity;
use crate::ports::{Fault, Note, Rewind};

/// Runs that are named in the store's own log after one rewind: of its entries a tenth. The rest is counted.
const NAMED_MAX: usize = 1_000;

/// Runs that lack something: how far each was known to be and where it is, and the deeds that were begun in what is
/// missing.
type Lost = BTreeMap<RunId, (Version, Version, Vec<String>)>;

/// What this process knows of whether the store has gone back in time.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    /// That it lacks what it had acknowledged, until that is seen to.
    rewind: Mutex<Option<Rewind>>,
    /// Its epoch when it was last found to have everything that it acknowledged, and when that was.
    whole_in: Mutex<Option<(String, Millis)>>,
    /// In which epoch it was last counted that it had gone back; empty before.
    counted_in: Mutex<String>,
    /// What was begun in runs that were found to be missing whole, by a look and before anybody looked back.
    missing: Mutex<VecDeque<(RunId, Vec<String>)>>,
    /// Held by whoever sees to it.
    seeing: tokio::sync::Mutex<()>,
}

impl Suspicion {
    /// The store seems to have gone back: nothing is done in the world before that is seen to.
    fn suspect(&self, rewind: Rewind) {
        self.lock_rewind().get_or_insert(rewind);
    }

    pub(super) fn suspected(&self) -> Option<Rewind> {
        *self.lock_rewind()
    }

    fn seen_to(&self, rewind: Rewind) {
        let mut suspected = self.lock_rewind();
        if *suspected == Some(rewind) {
            *suspected = None;
        }
    }

    /// The store has everything that it acknowledged, in this epoch.
    fn found_whole(&self, epoch: String, then: Millis) {
        *self.whole_in.lock().unwrap_or_else(PoisonError::into_inner) = Some((epoch, then));
    }

    fn whole_in(&self) -> Option<(String, Millis)> {
        self.whole_in.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Counts that the store had gone back, once for each epoch that began by it: whoever finds it has often heard of it.
    pub(super) fn count_rewound(&self, epoch: &str) {
        let mut counted = self.counted_in.lock().unwrap_or_else(PoisonError::into_inner);
        if *counted != epoch {
            epoch.clone_into(&mut counted);
            metrics::counter!("holdpoint_store_rewound_total").increment(1);
        }
    }

    fn lock_rewind(&self) -> MutexGuard<'_, Option<Rewind>> {
        self.rewind.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Looks whether the store still has what it acknowledged, and sees to it where it has not.
    pub(super) async fn look_back(&self) -> Result<(), EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        // From before it is asked.
        let (epoch, now) = (self.epoch(), self.inner.clock.now());
        if let Some(rewind) = replicas.look_back().await? {
            self.inner.sharing.suspicion.suspect(rewind);
        }
        // One at a time: whoever comes second finds it seen to.
        let _seeing = self.inner.sharing.suspicion.seeing.lock().await;
        let Some(rewind) = self.inner.sharing.suspicion.suspected() else {
            self.inner.sharing.suspicion.found_whole(epoch, now);
            return Ok(());
        };
        self.went_back(rewind).await?;
        self.inner.sharing.suspicion.seen_to(rewind);
        Ok(())
    }

    /// A run is missing whole, and is forgotten here: what was begun in it, as far as it was told here, is remembered. The
    /// store may have gone back; where it was only pruned, nobody will ask.
    pub(super) fn note_missing(&self, cell: &Cell) {
        let deeds = begun_in_missing(&cell.after(0), &[]);
        if !self.is_shared() || deeds.is_empty() {
            return;
        }
        let missing = &self.inner.sharing.suspicion.missing;
        let mut missing = missing.lock().unwrap_or_else(PoisonError::into_inner);
        missing.truncate(NAMED_MAX - 1);
        missing.push_front((cell.id.clone(), deeds));
    }

    /// A run is known further than the store has it: that is looked into at once, and the run is not believed.
    pub(super) fn gone_back(&self, cell: &Cell, (had, has): (Version, Version)) -> EngineError {
        if !self.is_shared() {
            tracing::error!(run.id = %cell.id, had, has, "the store lacks what it had acknowledged");
            let what = "the store lacks events of this run that it had acknowledged";
            return Fault::Corrupt(what.into()).into();
        }
        self.inner.sharing.suspicion.suspect(Rewind { had, has });
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.look_back().await {
                tracing::warn!(%error, "a store that has gone back could not be seen to; it is tried again");
            }
        });
        if has < had {
            tracing::error!(run.id = %cell.id, had, has, "the store has gone back: it lacks what it had acknowledged");
        } else {
            tracing::error!(run.id = %cell.id, had, has, "the store has gone back, and tells another history of a run than it did");
        }
        EngineError::Rewound
    }

    async fn went_back(&self, rewind: Rewind) -> Result<(), EngineError> {
        let Rewind { had, has } = rewind;
        // First: whoever shares the store does nothing more before somebody has looked.
        let is_first = self.hold_rewound(rewind).await?;
        let mut lost = self.lost().await?;
        self.note(Note::Rewound { run: None, had, has, deeds: Vec::new() }).await;
        for cell in self.inner.cells.all() {
            if let Err(error) = self.fall_back(&cell, &mut lost).await {
                tracing::error!(run.id = %cell.id, %error, "what is left of a run could not be read; it is read anew");
                *cell.state.lock().await = State::Cold;
                cell.another();
            }
        }
        let missing = &self.inner.sharing.suspicion.missing;
        let missing = std::mem::take(&mut *missing.lock().unwrap_or_else(PoisonError::into_inner));
        for (run, deeds) in missing {
            let known = lost.get_mut(&run).filter(|(_, _, known)| known.is_empty());
            if let Some((_, _, known)) = known {
                *known = deeds;
            }
        }
        self.tell_lost(lost).await;
        if let Some(replicas) = self.replicas() {
            replicas.unlearn(None);
        }
        if is_first {
            self.renew_aside();
        }
        Ok(())
    }

    /// Tells every run that is not over, beside everything else.
    pub(super) fn renew_aside(&self) {
        let engine = self.clone();
        self.inner.tasks.spawn(async move {
            if let Err(error) = engine.renew_rewound().await {
                tracing::error!(%error, "not every run was told that the store is another; each is when it is next used");
            }
        });
    }

    /// The runs that this process remembers otherwise than the store has them.
    async fn lost(&self) -> Result<Lost, EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(Lost::new()) };
        let lost = replicas.lost().await?.into_iter();
        Ok(lost.map(|lost| (lost.run, (lost.had, lost.has, Vec::new()))).collect())
    }

    /// Names them in the store's own log, those first of which deeds are known.
    async fn tell_lost(&self, lost: Lost) {
        let (mut done, rest): (Vec<_>, Vec<_>) =
            lost.into_iter().partition(|(_, (_, _, deeds))| !deeds.is_empty());
        done.extend(rest);
        let more = done.len().saturating_sub(NAMED_MAX);
        if more > 0 {
            tracing::error!(more, "more runs lack something than the store's log names");
        }
        for (run, (had, has, deeds)) in done.into_iter().take(NAMED_MAX) {
            self.note(Note::Rewound { run: Some(run), had, has, deeds }).await;
        }
    }

    /// Has the store be another one, in which nothing is done before an operator says so; whether nobody had said
    /// that before.
    async fn hold_rewound(&self, Rewind { had, has }: Rewind) -> Result<bool, EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(false) };
        let epoch = self.inner.clock.fresh_secret();
        let both = (&*self.inner.journal, replicas);
        // Whoever finds it late finds what others have found since, and somebody may have looked at: that is not held
        // a second time.
        let (whole_in, now) = (self.inner.sharing.suspicion.whole_in(), self.inner.clock.now());
        let identity = Identity::change(both, |known| {
            let is_found = whole_in.as_ref().is_some_and(|(epoch, then)| {
                known.epoch != *epoch && known.is_renewed_since(*then)
            });
            let is_so = (known.is_held && known.is_rewound) || is_found;
            (!is_so).then(|| known.rewound(epoch.clone()).at(now))
        });
        let _changing = self.inner.standing.changing.lock().await;
        let identity = identity.await?;
        let is_first = identity.epoch == epoch;
        // Before it is so: whoever sees that this one stands still finds why.
        self.inner.sharing.suspicion.count_rewound(&identity.epoch);
        tracing::error!(
            had,
            has,
            "the store has gone back in time: it lacks what it had acknowledged; nothing is done until `holdpoint release`"
        );
        self.stand(identity);
        Ok(is_first)
    }

    /// Tells every run that is not over that it is in another store now.
    async fn renew_rewound(&self) -> Result<(), EngineError> {
        let runs = self.renew_all().await?;
        self.note(Note::Renewed { epoch: self.epoch(), runs }).await;
        let Some(replicas) = self.replicas() else { return Ok(()) };
        let both = (&*self.inner.journal, replicas);
        let told = Identity::change(both, |known| {
            known.is_renewing.then(|| Identity { is_renewing: false, ..known.clone() })
        });
        let _changing = self.inner.standing.changing.lock().await;
        self.stand(told.await?);
        Ok(())
    }

    /// What is known of a run is read anew: the store may lack some of it, or have been written to since. What is under
    /// way for it comes home if the store still knows that it was begun (E9); of everything else begun in what is
    /// missing the store's own log tells.
    async fn fall_back(&self, cell: &Arc<Cell>, lost: &mut Lost) -> Result<(), EngineError> {
        let mut state = cell.state.lock().await;
        let State::Hot(hot) = &mut *state else {
            // What whoever watches it was told is not known here.
            cell.another();
            return Ok(());
        };
        // Whatever was known of it before.
        if let Some(replicas) = self.replicas() {
            replicas.unlearn(Some(&cell.id));
        }
        let standing = self.standing(cell).await?;
        let (had, has) = (cell.published(), standing.map_or(0, |standing| standing.version));
        let told = cell.after(0);
        let mut events = Vec::new();
        if standing.is_none() {
            hot.stop_all();
            *state = State::Cold;
            self.inner.cells.forget(&cell.id);
            cell.lost();
        } else {
            events = self.read_all(&cell.id, has).await?;
            let run = replay(&cell.id, Arc::clone(&hot.run.workflow), &events)?;
            let run = self.recalling(run).await?;
            hot.narrator = Narrator::at(&run);
            hot.scribe = self.inner.tracer.get().map(|_| Box::new(SpanBuilder::takes_up(&run)));
            *hot.run = run;
            hot.is_unsure = false;
            hot.holder = Holder::of(standing, self.inner.journal.incarnation());
            if has < had
                || lost.contains_key(&cell.id)
                || self.is_another(cell, hot, standing).await?
            {
                cell.another();
            }
            hot.known = standing.and_then(|standing| standing.known());
            if !matches!(hot.holder, Holder::Mine(_)) {
                // What is on its way is not called back: it could not be undone.
                hot.work.clear();
                hot.is_adrift = hot.run.status == Status::Running;
            }
            cell.loaded(&hot.run);
        }
        drop(state);
        let deeds = begun_in_missing(&told, &events);
        if has < had || !deeds.is_empty() || lost.contains_key(&cell.id) {
            let known = lost.entry(cell.id.clone()).or_default();
            *known = (had.max(known.0), has, deeds);
        }
        Ok(())
    }
}

/// Deeds that were told of here, and that the journal has not, or has as another's.
fn begun_in_missing(told: &[Arc<Published>], events: &[Recorded]) -> Vec<String> {
    let is_there = |told: &Published| {
        let at = usize::try_from(told.sequence).ok().and_then(|at| events.get(at.checked_sub(1)?));
        at.is_some_and(|there| there.at == told.at && deed(&there.event) == deed(&told.event))
    };
    told.iter().filter(|told| !is_there(told)).filter_map(|told| deed(&told.event)).collect()
}

/// What was begun in the world with an event, in words.
fn deed(event: &Event) -> Option<String> {
    let Event::ToolCalled { call, .. } = event else { return None };
    Some(format!("{} ({})", call.tool, call.id))
}
