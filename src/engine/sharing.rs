//! Sharing: what an engine does because others write to the same store: it shows that it lives, hears what they have
//! written, and takes up what the dead have left. Where one process has the store alone nothing of this runs.
//!
//! A hint makes things quick and may be lost; what is true is asked for every second.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::engine::cell::{Cell, State, WorkKey};
use crate::engine::holder::Holder;
use crate::engine::replicas::tell_of_dead;
use crate::engine::rewind::Suspicion;
use crate::engine::work::LastWord;
use crate::engine::work::is_under_way;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Millis, Refusal, RunId, Status};
use crate::ports::leave::Leave;
use crate::ports::{Fault, Hint, Incarnation, Journal, Replicas, Token, keep_time};

/// How often a process shows that it lives: four times in what a life lasts.
const BEAT_MS: u64 = 1_500;
/// How long before its life is over a process stops doing anything in the world: a call must be on its way by then.
const MARGIN_MS: u64 = 1_000;
/// How often is asked what others have done.
pub(super) const POLL_MS: u64 = 1_000;
/// How long others wait for the one whose turn it is.
const TURN_MS: u64 = 2_000;
/// How long it counts what a process was told of the halts of a store that others change, too: nothing is sent on the word
/// of what is older. Whoever halts something waits for as long, and a little more: by then no call goes out anywhere.
pub(super) const HALTS_MS: u64 = 500;
/// Runs taken over at a time.
const TAKE_AT_ONCE: usize = 64;
/// Runs of its own that a process asks for at a time: more than it has work for at once.
const HELD_MAX: usize = 4_096;
/// Runs whose turn at others is awaited at most; past it nobody waits.
const AWAITED_MAX: usize = 4_096;

/// What is known of those who share the store.
#[derive(Debug)]
pub(super) struct Sharing {
    is_shared: bool,
    /// How many tokens were drawn.
    drawn: AtomicU64,
    /// Until which tick this process may do something in the world.
    until: AtomicU64,
    beaten: Notify,
    /// That the store answers again after it did not.
    back: Notify,
    /// Held by whoever shows that this process lives: of two that are told at once that it is dead, each would begin a life.
    beating: tokio::sync::Mutex<()>,
    living: Mutex<Vec<Incarnation>>,
    /// How many of them have said who they are: those serve.
    serving: AtomicUsize,
    /// Whether the store has gone back in time.
    pub(super) suspicion: Suspicion,
}

impl Sharing {
    pub(super) fn new(journal: &dyn Journal) -> Self {
        let is_shared = journal.replicas().is_some();
        Self {
            is_shared,
            drawn: AtomicU64::new(0),
            until: AtomicU64::new(if is_shared { 0 } else { u64::MAX }),
            beaten: Notify::new(),
            back: Notify::new(),
            beating: tokio::sync::Mutex::default(),
            living: Mutex::default(),
            serving: AtomicUsize::new(0),
            suspicion: Suspicion::default(),
        }
    }
}

impl Engine {
    /// The others, where there are any.
    pub(super) fn replicas(&self) -> Option<&dyn Replicas> {
        self.inner.journal.replicas()
    }

    /// Whether others write to the same store.
    pub(super) fn is_shared(&self) -> bool {
        self.inner.sharing.is_shared
    }

    /// This life, as a word.
    pub(super) fn life(&self) -> String {
        self.inner.journal.incarnation().0.to_string()
    }

    /// A token that no other append has.
    pub(super) fn token(&self) -> Token {
        let number = self.inner.sharing.drawn.fetch_add(1, Ordering::Relaxed);
        Token { by: self.inner.journal.incarnation(), number }
    }

    /// Returns when this process may do something in the world: not while others may take it for dead.
    pub(super) async fn may_act(&self) {
        let sharing = &self.inner.sharing;
        loop {
            let mut beaten = std::pin::pin!(sharing.beaten.notified());
            beaten.as_mut().enable();
            if self.is_in_time() {
                return;
            }
            beaten.await;
        }
    }

    /// What whoever does something for this process asks at the last moment: whether it may be taken for dead by now,
    /// and of a call, or of what is handed to a remote agent, whether it was stopped meanwhile.
    pub(super) fn leave(
        &self,
        (workflow, agent): (&str, &str),
        tool: Option<&str>,
        (cell, key): (&Arc<Cell>, &WorkKey),
        last: &LastWord,
    ) -> Leave {
        let (engine, last) = (self.clone(), last.clone());
        let (workflow, agent) = (workflow.to_owned(), agent.to_owned());
        let tool = tool.map(ToOwned::to_owned);
        let (living, asking, is_call) = (self.clone(), self.clone(), tool.is_some());
        let (no, no_more) = (last.clone(), last);
        let (cell, key, is_gone) =
            (Arc::clone(cell), key.clone(), Arc::new(AtomicBool::new(false)));
        let goes = Arc::clone(&is_gone);
        let goes_on = Arc::new(move || {
            let halts = &engine.operator().halts;
            let is_no =
                engine.halts_are_old(HALTS_MS) || halts.stop(&workflow, &agent, tool.as_deref());
            if is_no {
                no.no();
            }
            !is_no
        });
        let begins = Arc::clone(&goes_on);
        let leave = Leave::new(move || {
            let is_dead =
                living.is_shared() && (!living.is_in_time() || goes.load(Ordering::Acquire));
            if is_dead {
                no_more.no();
            }
            // A call is sent whole; what an agent has begun is let come home.
            !is_dead && (!is_call || goes_on())
        });
        let leave = leave.begun_if(move || begins());
        leave.renewed_by(move || {
            let (engine, is_gone) = (asking.clone(), Arc::clone(&is_gone));
            let (cell, key) = (Arc::clone(&cell), key.clone());
            Box::pin(async move {
                is_gone.store(!engine.is_wanted(&cell, &key).await, Ordering::Release);
                if engine.halts_are_old(HALTS_MS / 2)
                    && let Err(error) = engine.heed_halts().await
                {
                    tracing::warn!(%error, "what is stopped could not be asked: nothing is sent");
                }
            })
        })
    }

    /// Whether something is still to be done, where others write to the same store: they may have ended its run, and this
    /// process not have heard of it.
    async fn is_wanted(&self, cell: &Arc<Cell>, key: &WorkKey) -> bool {
        if !self.is_shared() {
            return true;
        }
        match self.read(cell).await {
            Ok(state) => matches!(&*state, State::Hot(hot) if hot.work.contains_key(key)),
            Err(error) => {
                tracing::warn!(run.id = %cell.id, %error, "what became of a run could not be asked: nothing is sent");
                false
            }
        }
    }

    fn is_in_time(&self) -> bool {
        let sharing = &self.inner.sharing;
        sharing.suspicion.suspected().is_none()
            && self.inner.clock.ticks() < sharing.until.load(Ordering::Acquire)
    }

    /// That others may take this process for dead, once it has lived, where they may.
    pub(super) fn is_unheard(&self) -> Option<String> {
        let has_lived = self.inner.sharing.until.load(Ordering::Acquire) > 0;
        (self.is_shared() && has_lived && !self.is_in_time()).then(|| {
            "no sign of life came to the store in time: others may take this server for dead".into()
        })
    }

    /// What is said of something that the store does not have. Whoever was not heard there in time may be reading where
    /// others have gone on since, as from a primary that was replaced and woke: that knows of nothing new, and nobody is
    /// told that what they were asked is not there.
    pub(super) fn not_there(&self, unknown: Refusal) -> EngineError {
        match self.is_unheard() {
            Some(why) => Fault::Retriable(why).into(),
            None => unknown.into(),
        }
    }

    /// How many servers are known to share the store, this one among them; none where nobody does. They are those that
    /// are listed: a life in which nobody serves yet, or a command works, is none.
    pub fn replicas_known(&self) -> usize {
        self.inner.sharing.serving.load(Ordering::Acquire)
    }

    /// Whether something that any of them could do is this one's to do first.
    pub fn is_ours_first(&self, what: &str) -> bool {
        if !self.is_shared() {
            return true;
        }
        let living = self.inner.sharing.living.lock().unwrap_or_else(PoisonError::into_inner);
        first_of(&living, what).is_none_or(|first| first == self.inner.journal.incarnation())
    }

    /// Whether it is this one's after others had their turn.
    pub(super) fn is_ours(&self, what: &str, since: Millis) -> bool {
        self.is_ours_first(what) || since.plus(TURN_MS) <= self.inner.clock.now()
    }

    /// Shows that this process lives, hears what others write, and takes up what the dead have left, until the
    /// engine stops. Returns at once where nobody shares the store.
    pub async fn run_replica(&self) {
        if !self.is_shared() {
            return;
        }
        let stop = self.inner.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = self.beat_for_ever() => {}
            () = self.listen_for_ever() => {}
            () = self.look_for_ever() => {}
        }
    }

    async fn beat_for_ever(&self) {
        let mut was_away = false;
        loop {
            let beaten = self.beat().await;
            match &beaten {
                Ok(()) if was_away => {
                    self.tell_back();
                    self.inner.sharing.back.notify_waiters();
                }
                Err(error) if self.is_news(error) => {
                    tracing::warn!(%error, "no sign of life could be given; it is tried again");
                }
                Ok(()) | Err(_) => {}
            }
            was_away = beaten.is_err();
            self.inner.clock.pause(BEAT_MS).await;
        }
    }

    /// Waits before something is tried again, and where the store was away no longer than until it is back.
    pub(super) async fn pause_for_store(&self, ms: u64) {
        tokio::select! {
            biased;
            () = self.inner.sharing.back.notified() => {}
            () = self.inner.clock.pause(ms) => {}
        }
    }

    /// Shows that this process lives. One that was declared dead begins another life with nothing in hand.
    pub(super) async fn beat(&self) -> Result<(), EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        // One at a time: whoever comes second finds the life that the first has begun.
        let _beating = self.inner.sharing.beating.lock().await;
        keep_time(&*self.inner.clock, replicas).await?;
        self.look_back().await?;
        // From before it is asked: what takes long has taken it off.
        let asked = self.inner.clock.ticks();
        let lasts = if let Some(lasts) = replicas.beat().await? {
            lasts
        } else {
            tracing::warn!("this process was taken for dead; it begins anew");
            metrics::counter!("holdpoint_replica_reborn_total").increment(1);
            // Whatever waits for its turn to act waits on.
            self.inner.sharing.until.store(1, Ordering::Release);
            // First: what was taken in the old life while the rest is dropped would be nobody's, and done here.
            replicas.reborn().await?;
            self.drop_everything().await;
            replicas.beat().await?.unwrap_or(0)
        };
        let living = replicas.living().await?;
        *self.inner.sharing.living.lock().unwrap_or_else(PoisonError::into_inner) = living;
        self.inner.sharing.serving.store(replicas.serving().await?, Ordering::Release);
        let until = asked.saturating_add(lasts.saturating_sub(MARGIN_MS));
        self.inner.sharing.until.store(until, Ordering::Release);
        self.inner.sharing.beaten.notify_waiters();
        Ok(())
    }

    /// Lets go of every run: what was under way is stopped, and none of it is believed any more.
    async fn drop_everything(&self) {
        for cell in self.inner.cells.all() {
            let mut state = cell.state.lock().await;
            if let State::Hot(hot) = &mut *state {
                hot.stop_all();
            }
            *state = State::Cold;
        }
    }

    async fn listen_for_ever(&self) {
        let Some(replicas) = self.replicas() else { return };
        while let Some(hint) = replicas.hint().await {
            let heard = match hint {
                Hint::Run(run, after) => self.follow(&run, after).await,
                Hint::Lost => self.catch_up_all().await,
            };
            if let Err(error) = heard {
                tracing::debug!(%error, "a hint led nowhere; it is asked again");
            }
        }
        // Whoever hears nothing more still asks.
        std::future::pending::<()>().await;
    }

    async fn look_for_ever(&self) {
        let mut awaited = HashMap::new();
        loop {
            if let Err(error) = self.look_around(&mut awaited).await
                && self.is_news(&error)
            {
                tracing::warn!(%error, "what others do could not be asked; it is tried again");
            }
            self.inner.clock.pause(POLL_MS).await;
        }
    }

    async fn look_around(&self, awaited: &mut HashMap<RunId, Millis>) -> Result<(), EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        let dead = replicas.bury().await?;
        if !dead.is_empty() {
            tell_of_dead(&dead);
            self.beat().await?;
            self.finish_halts();
        }
        self.heed_halts().await?;
        self.heed_standing().await?;
        self.take_over(awaited).await?;
        self.take_up_own().await?;
        self.catch_up_all().await
    }

    /// Takes up what nobody living drives: each the ones that are its own to take first, and others' after a while.
    pub(super) async fn take_over(
        &self,
        awaited: &mut HashMap<RunId, Millis>,
    ) -> Result<usize, EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(0) };
        if self.is_draining() || self.is_held() {
            return Ok(0);
        }
        // Those that are awaited, or cannot be taken, may be first in the store's list: it is read past them.
        let stranded = replicas.stranded(TAKE_AT_ONCE + awaited.len()).await?;
        if stranded.iter().any(|run| !awaited.contains_key(run)) {
            // Whoever has just given back what it drove has no turn any more: known as living, it would be waited for.
            self.beat().await?;
        }
        awaited.retain(|run, _| stranded.contains(run));
        let mut taken = 0;
        for run in stranded {
            let now = self.inner.clock.now();
            if awaited.len() < AWAITED_MAX {
                awaited.entry(run.clone()).or_insert(now);
            }
            let since = awaited.get(&run).copied().unwrap_or_default();
            if !self.is_ours(run.as_str(), since) {
                continue;
            }
            let cell = self.inner.cells.get(&run);
            match self.nudged(&cell).await {
                Ok(()) => taken += usize::from(!is_left(&cell).await),
                Err(EngineError::Moved | EngineError::Superseded) => {}
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "run could not be taken over");
                }
            }
        }
        if taken > 0 {
            tracing::info!(runs = taken, "what nobody living drove is driven here from now on");
        }
        Ok(taken)
    }

    /// Takes up what this process drives, as the store has it, and does nothing for: its claim was written and the
    /// answer to that was lost, or what was done for it did not come home.
    async fn take_up_own(&self) -> Result<(), EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        for run in replicas.held(HELD_MAX).await? {
            let cell = self.inner.cells.get(&run);
            let is_seen_to = match cell.state.try_lock() {
                Ok(mut state) => match &mut *state {
                    State::Hot(hot) => is_under_way(hot),
                    State::Cold => false,
                },
                // Somebody has it in hand.
                Err(_) => true,
            };
            if !is_seen_to {
                self.look_after(&cell);
            }
        }
        Ok(())
    }

    /// Every run in memory takes in what others have written to it.
    async fn catch_up_all(&self) -> Result<(), EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(()) };
        let cells = self.inner.cells.all();
        let known: Vec<_> = cells.iter().map(|cell| (cell.id.clone(), cell.published())).collect();
        for run in replicas.gone_on(&known).await? {
            let Some(cell) = self.inner.cells.peek(&run) else { continue };
            // One that cannot be read keeps nobody from hearing of the others.
            if let Err(error) = self.followed(&cell).await {
                tracing::warn!(run.id = %run, %error, "what others wrote to a run was not taken in; it is tried again");
            }
        }
        Ok(())
    }

    /// Somebody has written to a run after that version: whoever watches it, or waits for what it asks, hears of it.
    async fn follow(&self, run: &RunId, after: u64) -> Result<(), EngineError> {
        if let Some(cell) = self.inner.cells.peek(run) {
            if cell.published() > after {
                return Ok(());
            }
            return self.followed(&cell).await;
        }
        if self.has_inbox_watchers() {
            self.tell_of(run, after).await?;
        }
        Ok(())
    }

    async fn followed(&self, cell: &Arc<Cell>) -> Result<(), EngineError> {
        match self.read(cell).await {
            Ok(_) | Err(EngineError::Refused(Refusal::UnknownRun(_))) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

/// Which of them has the first turn at something: all of them come to the same, and what is one's is not moved when
/// another comes or goes.
fn first_of(living: &[Incarnation], what: &str) -> Option<Incarnation> {
    living.iter().copied().max_by_key(|who| (weight(*who, what), *who))
}

fn weight(who: Incarnation, what: &str) -> u64 {
    let bytes = who.0.to_le_bytes().into_iter().chain(what.bytes());
    let mixed = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // The last bytes must weigh as much as the first.
    let mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    mixed ^ (mixed >> 32)
}

/// Whether a run moves and nobody drives it: all that it owes is stopped.
async fn is_left(cell: &Cell) -> bool {
    let State::Hot(hot) = &*cell.state.lock().await else { return false };
    hot.run.status == Status::Running && !matches!(hot.holder, Holder::Mine(_))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_shared_out_and_move_only_with_whoever_leaves() {
        let three = [Incarnation(1), Incarnation(2), Incarnation(3)];
        let names: Vec<_> = (0..3_000).map(|number| format!("run_{number:026}")).collect();
        let mut had = [0_u32; 3];
        for name in &names {
            let first = first_of(&three, name).unwrap();
            had[usize::try_from(first.0 - 1).unwrap()] += 1;
            if first != three[2] {
                assert_eq!(first_of(&three[..2], name), Some(first), "{name}");
            }
        }
        assert!(had.iter().all(|had| (800..1_200).contains(had)), "{had:?}");
        assert_eq!(first_of(&[], "x"), None);
    }
}
