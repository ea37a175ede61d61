//! Halting: stops what somebody wants stopped, and lets it go on again. What of a run a halt stops is the
//! kernel's to say; here it is heeded before anything is done in the world. How halts are kept is another file's
//! (`halts`).

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, OnceLock};

use crate::engine::cell::{Cell, Hot, State, WorkKey};
use crate::engine::commands::check::{REASON_CHARS_MAX, check_halt_reason, check_key, shortened};
use crate::engine::drive::{Batch, Extras};
use crate::engine::outlook::Ahead;
use crate::engine::sharing::HALTS_MS;
use crate::engine::{Engine, EngineError, Reach};
use crate::failpoint;
use crate::kernel::{
    BY_FILE, Command, Decision, Effect, EndedBy, Halt, Halts, Millis, Principal, Refusal, Role,
    Run, RunId, Scope, apply, halt, legible, release,
};
use crate::ports::Note;
use crate::ports::brake::Brake;

/// Halts that stand at once: each is looked at with every deed.
const HALTS_MAX: usize = 64;
/// Runs that are told at a time that a halt is over.
const TOLD_AT_ONCE: usize = 64;
/// By what the halt of a file is known.
const FILE_ID: &str = "halt_file";

/// What somebody wants stopped.
#[derive(Debug, Clone)]
pub struct HaltRequest {
    /// What.
    pub scope: Scope,
    /// Why.
    pub reason: String,
    /// The caller's idempotency key; empty if it has none.
    pub key: String,
}

/// What is known of halts beside what the operator says.
#[derive(Debug, Default)]
pub(super) struct Halting {
    /// Held while they are changed: one is kept whole before the next.
    changing: tokio::sync::Mutex<()>,
    /// What the store had when it was last asked, where others change it too.
    pub(super) read: Mutex<Option<String>>,
    /// When it was last asked, in ticks.
    pub(super) asked: AtomicU64,
    brake: OnceLock<Arc<dyn Brake>>,
}

impl Engine {
    /// Everything that is stopped.
    pub fn halts(&self) -> Arc<Halts> {
        Arc::clone(&self.operator().halts)
    }

    /// Everything that is stopped, for whoever looks: with what the brake says before it was heeded.
    pub fn halts_listed(&self) -> Halts {
        let mut halts = Halts::clone(&self.halts());
        let pulled = self.inner.halting.brake.get().and_then(|brake| brake.pulled());
        if let Some(reason) = pulled.filter(|_| halts.0.iter().all(|known| known.id != FILE_ID)) {
            halts.0.push(self.by_brake(&reason));
        }
        halts
    }

    /// Heeds a brake beside the doors. To be said before anything runs; the first one stays.
    pub fn brake_by(&self, brake: Arc<dyn Brake>) {
        self.inner.halting.brake.get_or_init(|| brake);
    }

    /// Stops something: durable when this returns, and heeded before whatever is done next, at any server.
    pub async fn halt(&self, wish: HaltRequest, who: &Principal) -> Result<Halt, EngineError> {
        let what = wish.scope.words();
        let refused = |code: &'static str| {
            let (who, door, known) = who.recorded();
            Note::HaltRefused { who, door, what, code: code.into(), known }
        };
        self.or_noted(self.halt_as(wish, who).await, refused).await
    }

    async fn halt_as(&self, wish: HaltRequest, who: &Principal) -> Result<Halt, EngineError> {
        if !who.operates_all() {
            let why = "whoever operates the server stops it: use a key with the role `operator` or `admin`";
            return Err(Refusal::Forbidden(why).into());
        }
        self.refuse_unless_ready()?;
        self.refuse_if_looking()?;
        check_key(&wish.key)?;
        check_halt_reason(&wish.reason)?;
        let scope = self.known_scope(wish.scope).await?;
        let changing = self.inner.halting.changing.lock().await;
        self.heed_halts().await?;
        // After it: whoever was cut off from the store waited there, and keys were changed meanwhile.
        self.refuse_if_unknown(who).await?;
        let halts = self.halts();
        let again =
            |known: &&Halt| !wish.key.is_empty() && known.key == wish.key && known.by == who.id;
        if let Some(known) = halts.0.iter().find(again) {
            if known.scope != scope {
                return Err(Refusal::KeyReused(wish.key).into());
            }
            return Ok(self.heeded(known.clone()).await);
        }
        self.refuse_if_spent(&who.id, &wish.key)?;
        if halts.0.len() >= HALTS_MAX {
            let remedy = format!("at most {HALTS_MAX} halts stand at once; take one back first");
            return Err(Refusal::TooLarge { field: "scope".into(), remedy }.into());
        }
        let (by, door, known) = who.recorded();
        let new = Halt {
            id: format!("halt_{}", self.inner.clock.fresh_stem()),
            scope,
            reason: wish.reason,
            by,
            door,
            known,
            at: self.inner.clock.now(),
            is_ending: false,
            ended_by: None,
            key: wish.key,
        };
        self.add(new.clone(), Some(who)).await?;
        drop(changing);
        Ok(self.heeded(new).await)
    }

    /// A halt that every server knows of: what others still sent they had asked for before it was kept, and that is on its
    /// way by now.
    async fn heeded(&self, halt: Halt) -> Halt {
        if self.is_shared() {
            self.inner.clock.pause(HALTS_MS + HALTS_MS / 5).await;
        }
        halt
    }

    /// Takes a halt back, without saying why.
    pub async fn release_halt(&self, id: &str, who: &Principal) -> Result<Halt, EngineError> {
        self.release_halt_for(id, "", who).await
    }

    /// Takes a halt back: whatever stood still is told for how long, and goes on. Why is noted, where it is said.
    pub async fn release_halt_for(
        &self,
        id: &str,
        reason: &str,
        who: &Principal,
    ) -> Result<Halt, EngineError> {
        // By that name it is listed, as whose halt it is; and no key is called so.
        let id = if id == BY_FILE { FILE_ID } else { id };
        let refused = |code: &'static str| {
            let (who, door, known) = who.recorded();
            Note::ReleaseRefused { who, door, halt: id.to_owned(), code: code.into(), known }
        };
        self.or_noted(self.release_halt_as(id, reason, who).await, refused).await
    }

    async fn release_halt_as(
        &self,
        id: &str,
        reason: &str,
        who: &Principal,
    ) -> Result<Halt, EngineError> {
        if !who.roles.has(Role::Admin) || !who.workflows.is_empty() {
            let why = "a halt is taken back by an admin: use a key with the role `admin`";
            return Err(Refusal::Forbidden(why).into());
        }
        if !reason.is_empty() {
            check_halt_reason(reason)?;
        }
        self.refuse_unless_ready()?;
        self.refuse_if_looking()?;
        // It is listed from the moment that the file is there.
        if id == FILE_ID {
            self.heed_brake().await?;
        }
        self.heed_halts().await?;
        // After it: whoever was cut off from the store waited there, and keys were changed meanwhile.
        self.refuse_if_unknown(who).await?;
        let halts = self.halts();
        let Some(known) = halts.0.iter().find(|known| known.id == id) else {
            return Err(Refusal::UnknownHalt(shortened(id)).into());
        };
        // One that lies on another machine may be out of reach; where it is not, it is heeded again at once.
        if known.id == FILE_ID && (!self.is_shared() || known.key == self.brake_place()) {
            let remedy =
                "everything is stopped by the file HALT in the data directory: remove the file";
            return Err(Refusal::invalid("halt_id", remedy).into());
        }
        release::refuse_halt(known, who, &self.operator())?;
        let by = EndedBy { reason: reason.to_owned(), ..EndedBy::from(who) };
        self.end(id, by, Some(who)).await
    }

    /// Looks at the brake beside the doors, and does as it says.
    pub async fn heed_brake(&self) -> Result<(), EngineError> {
        let Some(brake) = self.inner.halting.brake.get() else { return Ok(()) };
        let pulled = brake.pulled();
        let stands =
            self.halts().0.iter().find(|known| known.id == FILE_ID && !known.is_ending).cloned();
        match pulled {
            Some(reason) if stands.is_none() => self.pulled(&reason).await,
            None if stands.is_some_and(|known| self.is_ours_to_end(&known)) => {
                let (who, door) = (BY_FILE.into(), BY_FILE.into());
                let by = EndedBy { who, door, ..EndedBy::default() };
                self.end(FILE_ID, by, None).await.map(drop)
            }
            Some(_) | None => Ok(()),
        }
    }

    /// Whether a brake's halt is this process's to end: the file lies on the machine of whoever pulled it, and says so
    /// for as long as it lies there, whoever has died since (K7).
    fn is_ours_to_end(&self, known: &Halt) -> bool {
        !self.is_shared() || known.key == self.brake_place()
    }

    fn brake_place(&self) -> String {
        self.inner.halting.brake.get().map(|brake| brake.place()).unwrap_or_default()
    }

    /// Looks whether the brake was pulled, before something is decided or begun: it counts from that moment.
    pub(super) async fn heed_pulled(&self, ahead: Option<&Ahead>) -> Result<(), EngineError> {
        if !ahead.is_some_and(|ahead| self.halts_are_as(ahead)) {
            self.heed_halts().await?;
        }
        match self.inner.halting.brake.get().and_then(|brake| brake.pulled()) {
            Some(reason) => self.pulled(&reason).await,
            None => Ok(()),
        }
    }

    /// Everything is stopped by the brake. Nobody waits here: whoever asks may hold a run, and whoever changes the
    /// halts meanwhile may be waiting for that one. What they ask for is stopped all the same, and the brake is
    /// looked at again.
    async fn pulled(&self, reason: &str) -> Result<(), EngineError> {
        let is_known = || self.halts().0.iter().any(|known| known.id == FILE_ID);
        if is_known() {
            return Ok(());
        }
        let Ok(_changing) = self.inner.halting.changing.try_lock() else {
            return Err(halt::refused(&self.by_brake(reason)).into());
        };
        if is_known() {
            return Ok(());
        }
        self.add(self.by_brake(reason), None).await
    }

    /// The halt of whoever pulled the brake here: among several servers it says where that is.
    fn by_brake(&self, reason: &str) -> Halt {
        let key = if self.is_shared() { self.brake_place() } else { String::new() };
        Halt { key, ..by_file(reason, self.inner.clock.now()) }
    }

    /// Whether something is stopped that is about to be done. The brake is asked, too: it counts from the
    /// moment it is pulled.
    pub(super) async fn is_stopped(&self, run: (&str, &str), tool: Option<&str>) -> bool {
        let pulled = self.inner.halting.brake.get().and_then(|brake| brake.pulled());
        if let Some(reason) = pulled {
            // What cannot be kept stops this deed all the same.
            if let Err(error) = self.pulled(&reason).await {
                tracing::error!(%error, "the file HALT is heeded, but could not be kept");
            }
            return true;
        }
        if let Err(error) = self.heed_halts().await {
            // Who knows what was stopped meanwhile (K7).
            if self.is_news(&error) {
                tracing::warn!(%error, "what is stopped could not be asked: nothing is done");
            }
            return true;
        }
        self.is_rewound() || self.operator().halts.stop(run.0, run.1, tool)
    }

    /// A deed was not done: it is owed as before, and its journal says so.
    pub(super) async fn not_done(&self, cell: &Arc<Cell>, key: &WorkKey) {
        if let State::Hot(hot) = &mut *cell.state.lock().await {
            hot.work.remove(key);
        }
        if let Err(error) = self.nudged(cell).await {
            tracing::error!(run.id = %cell.id, %error, "that a call was stopped could not be recorded");
        }
    }

    /// Notes which calls are not made, since a halt stands, and which are made after all: in the append that they
    /// follow from, so that after a crash nobody is asked whether they happened. What is under way is let come home.
    pub(super) fn note_holds(&self, hot: &mut Hot, batch: &mut Batch) -> Result<(), EngineError> {
        for (turn, call_id, is_over) in halt::holds(&hot.run, &self.halts()) {
            let key = WorkKey::Call { turn, call: call_id.clone() };
            if hot.work.contains_key(&key) {
                continue;
            }
            let command = Command::Hold { turn, call_id, is_over };
            if let Decision::Events(more) = apply(&mut hot.run, &command, batch.now)? {
                batch.events.extend(more);
            }
        }
        Ok(())
    }

    /// Refuses to begin a run that would stand at once.
    pub(super) fn refuse_if_halted(&self, workflow: &str) -> Result<(), EngineError> {
        match self.operator().halts.of_run(workflow) {
            Some(stands) => Err(halt::refused(stands).into()),
            None => Ok(()),
        }
    }

    /// Whether an effect is stopped, as far as is known here.
    pub(super) fn is_halted(&self, run: &Run, effect: &Effect) -> bool {
        halt::of_effect(&self.operator().halts, run, effect).is_some()
    }

    /// Finishes what was being taken back when the last process ended, and looks at the brake. To be called
    /// before anything runs.
    pub async fn settle_halts(&self) -> Result<(), EngineError> {
        if self.reach() == Reach::Nothing {
            return Ok(());
        }
        let ending: Vec<_> =
            self.halts().0.iter().filter(|known| known.is_ending).cloned().collect();
        for known in ending {
            let by = known.ended_by.map(|by| *by).unwrap_or_default();
            self.end(&known.id, by, None).await?;
        }
        self.heed_brake().await
    }

    /// Keeps one more. The caller holds the right to change them.
    async fn add(&self, new: Halt, who: Option<&Principal>) -> Result<(), EngineError> {
        self.change_halts(who, |halts| halts.0.push(new.clone())).await?;
        failpoint::hit("engine.halt_kept");
        tracing::warn!(halt.id = %new.id, what = new.scope.words(), principal.id = %new.by, "halted");
        self.note(Note::Halted {
            who: new.by,
            door: new.door,
            halt: new.id,
            what: new.scope.words(),
            reason: new.reason,
            known: new.known,
        })
        .await;
        Ok(())
    }

    /// Ends one, whatever becomes of whoever wished it. It stands until every run was told.
    async fn end(
        &self,
        id: &str,
        by: EndedBy,
        who: Option<&Principal>,
    ) -> Result<Halt, EngineError> {
        let (engine, id, who) = (self.clone(), id.to_owned(), who.cloned());
        let ending = async move {
            let _changing = engine.inner.halting.changing.lock().await;
            engine.end_now(&id, by, who).await
        };
        crate::engine::drive::joined(self.inner.tasks.spawn(ending).await)
    }

    async fn end_now(
        &self,
        id: &str,
        by: EndedBy,
        who: Option<Principal>,
    ) -> Result<Halt, EngineError> {
        let ends = |halts: &mut Halts| {
            for known in halts.0.iter_mut().filter(|known| known.id == id) {
                known.is_ending = true;
                // Whoever was first: those who come while it ends only wait for that.
                known.ended_by.get_or_insert_with(|| Box::new(by.clone()));
            }
        };
        // First: should we die on the way, the next start goes on with it.
        let ending = self.change_halts(who.as_ref(), ends).await?;
        let Some(ended) = ending.0.into_iter().find(|known| known.id == id) else {
            return Err(Refusal::invalid("halt_id", "it was taken back meanwhile").into());
        };
        failpoint::hit("engine.halt_ending");
        self.tell_stood(&ended).await?;
        failpoint::hit("engine.halt_told");
        let by = ended.ended_by.as_deref().cloned().unwrap_or_default();
        let EndedBy { who, door, known, reason } = by;
        let (halt, what) = (id.to_owned(), ended.scope.words());
        self.note(Note::HaltReleased { who, door, halt, what, known, reason }).await;
        self.change_halts(None, |halts| halts.0.retain(|known| known.id != id)).await?;
        failpoint::hit("engine.halt_ended");
        tracing::warn!(halt.id = %ended.id, what = ended.scope.words(), "a halt was taken back");
        self.go_on().await?;
        Ok(ended)
    }

    /// Tells every run whose clock stood still for how long it did.
    async fn tell_stood(&self, ended: &Halt) -> Result<(), EngineError> {
        let mut cursor = None;
        loop {
            let page = self.inner.journal.waiting(cursor.as_deref(), TOLD_AT_ONCE).await?;
            let clocked = page.rows.iter().filter(|head| head.wake_at.is_some());
            self.stood(clocked.map(|head| head.run.clone()), ended).await;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        self.each_running(|engine, runs| async move {
            engine.stood(runs.into_iter(), ended).await;
        })
        .await
    }

    async fn stood(&self, runs: impl Iterator<Item = RunId>, ended: &Halt) {
        let told = runs.map(|run| async move {
            let cell = self.inner.cells.get(&run);
            let command = Command::Stand { halt: Box::new(ended.clone()) };
            // One that cannot be told stands still for another reason.
            match self.submit(&cell, command, Extras::default()).await {
                Ok(_) | Err(EngineError::Refused(_)) => {}
                Err(error) => {
                    tracing::error!(run.id = %run, %error, "run was not told how long it stood");
                }
            }
        });
        futures::future::join_all(told).await;
    }

    /// Sets going what is owed, and has all clocks looked at.
    pub(super) async fn go_on(&self) -> Result<(), EngineError> {
        self.inner.aside.clear();
        self.wake_at(self.inner.clock.now());
        self.each_running(|engine, runs| async move {
            for run in runs {
                let cell = engine.inner.cells.get(&run);
                if let Err(error) = engine.nudged(&cell).await {
                    tracing::error!(run.id = %run, %error, "run does not go on");
                }
            }
        })
        .await
    }

    /// Sets going what one run owes.
    pub(super) async fn nudged(&self, cell: &Arc<Cell>) -> Result<(), EngineError> {
        let mut state = self.hot(cell).await?;
        let State::Hot(hot) = &mut *state else { return Ok(()) };
        hot.run.operator = self.operator();
        let (expected, now) = (hot.run.version, self.now_for(&hot.run));
        let mut batch = Batch::new(expected, Vec::new(), now, Extras::default());
        self.commit(cell, &mut state, &mut batch).await
    }

    /// The runs under way that are driven here, some at a time.
    async fn each_running<'a, F: Future<Output = ()>>(
        &'a self,
        of: impl Fn(&'a Self, Vec<RunId>) -> F,
    ) -> Result<(), EngineError> {
        if self.reach() != Reach::Everything {
            of(self, self.inner.domain.own()).await;
            return Ok(());
        }
        let mut cursor = None;
        loop {
            let page = self.inner.journal.running(cursor.as_deref(), TOLD_AT_ONCE).await?;
            of(self, page.rows).await;
            cursor = page.next;
            if cursor.is_none() {
                return Ok(());
            }
        }
    }
}

/// The halt of whoever pulled the brake.
fn by_file(reason: &str, at: Millis) -> Halt {
    Halt {
        id: FILE_ID.into(),
        scope: Scope::All,
        reason: legible(reason).chars().take(REASON_CHARS_MAX).collect(),
        by: BY_FILE.into(),
        door: BY_FILE.into(),
        known: None,
        at,
        is_ending: false,
        ended_by: None,
        key: String::new(),
    }
}
