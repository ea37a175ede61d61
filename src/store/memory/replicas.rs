//! Replicas of a store in memory: what several processes ask of the state that they share, each by a handle of its own.
//! How handles fare, and what befalls them, is the cluster's.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use tokio::sync::broadcast;

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, RunId, Version};
use crate::ports::{
    Fault, Guard, HeadStatus, Hint, Incarnation, Introduction, Journal, LostRun, OutboxEntry,
    Outlook, Replica, Replicas, Rewind, Standing,
};
use crate::store::memory::MemoryJournal;
use crate::store::memory::cluster::Condition;
use crate::store::memory::lives::TTL_MS;
use crate::store::memory::state::Seen;

/// How long an entry is carried before others take it for lost: longer than a listener may take.
const CARRY_MS: u64 = 60_000;

impl MemoryJournal {
    fn now(&self) -> Millis {
        self.seat.as_ref().map(|seat| seat.shared.clock.now()).unwrap_or_default()
    }
}

#[async_trait]
impl Replicas for MemoryJournal {
    async fn beat(&self) -> Result<Option<u64>, Fault> {
        let (me, now) = (self.me(), self.now());
        self.enter().await?;
        let late = self.seat.as_ref().map_or(0, |seat| seat.late.swap(0, Ordering::SeqCst));
        for _ in 0..late {
            tokio::task::yield_now().await;
        }
        let mut state = self.entered().await?;
        Ok(state.lives.beat(me, now.max(self.now())).then_some(TTL_MS))
    }

    async fn time(&self) -> Result<Millis, Fault> {
        self.entered().await.map(|_| self.now())
    }

    async fn reborn(&self) -> Result<(), Fault> {
        self.enter().await?;
        // As with a database, others come to do something meanwhile.
        tokio::task::yield_now().await;
        if let Some(seat) = &self.seat {
            self.me.store(seat.shared.born().0, Ordering::SeqCst);
            let who = seat.who.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.lock().introduced.insert(self.me(), (who, false));
        }
        Ok(())
    }

    async fn look_back(&self) -> Result<Option<Rewind>, Fault> {
        let Some(seat) = &self.seat else { return Ok(None) };
        let diverged = seat.links.lock().unwrap_or_else(PoisonError::into_inner).diverged.take();
        if let Some(version) = diverged {
            return Ok(Some(Rewind { had: version, has: version }));
        }
        let state = self.entered().await?;
        let mut known = seat.acknowledged.lock().unwrap_or_else(PoisonError::into_inner);
        let has = |who: &Incarnation| state.marks.get(who).copied().unwrap_or(0);
        let lacks = known.iter().find(|(who, had)| has(who) < **had);
        let lacks = lacks.map(|(who, had)| Rewind { had: *had, has: has(who) });
        for (who, had) in known.iter_mut() {
            *had = has(who).min(*had);
        }
        Ok(lacks)
    }

    async fn lost(&self) -> Result<Vec<LostRun>, Fault> {
        let Some(seat) = &self.seat else { return Ok(Vec::new()) };
        let state = self.entered().await?;
        let seen = seat.links.lock().unwrap_or_else(PoisonError::into_inner);
        let mut lost = BTreeMap::new();
        for (run, had, link) in &seen.ever {
            let has = match state.runs.get(run) {
                None if state.has_tombstone(run) => continue,
                Some(kept) if kept.link_at(*had) == Some(*link) => continue,
                None => 0,
                Some(kept) => kept.head.version,
            };
            lost.insert(run.clone(), (*had, has));
        }
        Ok(lost.into_iter().map(|(run, (had, has))| LostRun { run, had, has }).collect())
    }

    fn unlearn(&self, run: Option<&RunId>) {
        let Some(seat) = &self.seat else { return };
        let mut links = seat.links.lock().unwrap_or_else(PoisonError::into_inner);
        match run {
            Some(run) => drop(links.last.remove(run)),
            None => *links = Seen::default(),
        }
    }

    async fn introduce(&self, who: Introduction) -> Result<(), Fault> {
        let Some(seat) = &self.seat else { return Ok(()) };
        seat.who.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&who);
        self.entered().await?.introduced.insert(self.me(), (who, false));
        Ok(())
    }

    async fn drain(&self) -> Result<(), Fault> {
        let mut state = self.entered().await?;
        state.introduced.entry(self.me()).or_default().1 = true;
        Ok(())
    }

    async fn listed(&self) -> Result<Vec<Replica>, Fault> {
        let state = self.entered().await?;
        let living = state.lives.all().into_iter().filter_map(|incarnation| {
            let (who, is_draining) = state.introduced.get(&incarnation)?.clone();
            let (since, beaten) = state.lives.times(incarnation);
            let held = state.runs.values().filter(|kept| kept.holder == Some(incarnation));
            let drives = held.count() as u64;
            Some(Replica { incarnation, who, since, beaten, drives, is_draining })
        });
        Ok(living.filter(|replica| !replica.who.name.is_empty()).collect())
    }

    async fn bury(&self) -> Result<Vec<Introduction>, Fault> {
        let mut state = self.entered().await?;
        let dead = state.lives.bury(self.me(), self.now());
        let said = |who| state.introduced.get(&who).cloned().unwrap_or_default().0;
        Ok(dead.into_iter().map(said).collect())
    }

    async fn living(&self) -> Result<Vec<Incarnation>, Fault> {
        Ok(self.entered().await?.lives.all())
    }

    async fn standing(&self, run: &RunId) -> Result<Option<Standing>, Fault> {
        let state = self.entered().await?;
        let Some(kept) = state.runs.get(run) else { return Ok(None) };
        if let Some(seat) = &self.seat {
            seat.see(run, kept.head.version, kept.link)?;
        }
        let hooks = state.guards.get(&Guard::hooks(run)).copied().unwrap_or(0);
        let holder = kept.holder.map(|who| (who, state.lives.is_living(who)));
        let (version, link) = (kept.head.version, Some(kept.link));
        Ok(Some(Standing { version, holder, fence: kept.fence, hooks, link }))
    }

    async fn outlook(&self, run: &RunId, guard: &str, kept: &str) -> Result<Outlook, Fault> {
        let (kept, guard) = (self.remembered(kept).await?, self.guard(guard).await?);
        Ok(Outlook { kept, guard, standing: self.standing(run).await? })
    }

    async fn read_on_from(
        &self,
        run: &RunId,
        (after, link): (Version, Hash),
        limit: usize,
    ) -> Result<Option<Vec<Recorded>>, Fault> {
        let goes_on = {
            let state = self.entered().await?;
            state.runs.get(run).is_none_or(|kept| kept.link_at(after) == Some(link))
        };
        if goes_on { self.read(run, after, limit).await.map(Some) } else { Ok(None) }
    }

    async fn gone_on(&self, known: &[(RunId, Version)]) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let at = |run: &RunId| state.runs.get(run).map(|kept| kept.head.version);
        let gone = known.iter().filter(|(run, version)| at(run) != Some(*version));
        Ok(gone.map(|(run, _)| run.clone()).collect())
    }

    async fn stranded(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let adrift = state.runs.iter().filter(|(_, kept)| {
            let is_driven = kept.holder.is_some_and(|who| state.lives.is_living(who));
            kept.head.status == HeadStatus::Running && !is_driven
        });
        Ok(adrift.take(limit).map(|(run, _)| run.clone()).collect())
    }

    async fn held(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let state = self.entered().await?;
        let mine = state.runs.iter().filter(|(_, kept)| kept.holder == Some(self.me()));
        Ok(mine.take(limit).map(|(run, _)| run.clone()).collect())
    }

    async fn hint(&self) -> Option<Hint> {
        let seat = self.seat.as_ref()?;
        let mut ears = seat.ears.lock().await;
        let hint = tokio::select! {
            biased;
            hint = ears.recv() => hint,
            _ = seat.wait_for(|fares| fares == Condition::Gone) => return None,
        };
        seat.enter().await.ok()?;
        match hint {
            Ok(hint) => Some(hint),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Hint::Lost),
            Err(broadcast::error::RecvError::Closed) => None,
        }
    }

    async fn guard(&self, name: &str) -> Result<u64, Fault> {
        Ok(self.entered().await?.guards.get(name).copied().unwrap_or(0))
    }

    async fn take_outbox_entries(
        &self,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, Fault> {
        let (mut state, me) = (self.entered().await?, self.me());
        let until = self.now().plus(CARRY_MS);
        let is_free = |place: &(RunId, String)| {
            let carried = state.carried.get(place);
            carried.is_none_or(|(_, until)| *until <= self.now())
        };
        let due = state
            .outbox_entries
            .iter()
            .filter(|(place, outbox_entry)| outbox_entry.due <= now && is_free(place));
        let mut due: Vec<_> = due.map(|(_, outbox_entry)| outbox_entry.clone()).collect();
        due.sort_by_key(|outbox_entry| outbox_entry.due);
        due.truncate(limit);
        for outbox_entry in &due {
            state
                .carried
                .insert((outbox_entry.run.clone(), outbox_entry.channel.clone()), (me, until));
        }
        Ok(due)
    }

    async fn remember_resting(
        &self,
        name: &str,
        (knew, text): (Option<&str>, &str),
        rests: Option<&Guard>,
    ) -> Result<bool, Fault> {
        let mut state = self.entered().await?;
        let is_known = state.keepsakes.get(name).map(String::as_str) == knew
            && state.check_guards(rests.map_or(&[], std::slice::from_ref)).is_ok();
        if is_known {
            state.keepsakes.insert(name.to_owned(), text.to_owned());
        }
        Ok(is_known)
    }
}
