//! Start: a new run, or, where its session waits for exactly one answer, that answer.

use std::sync::Arc;

use serde_json::json;

use crate::engine::cell::{Hot, State};
use crate::engine::commands::check::{check_key, check_metadata, check_value, shortened};
use crate::engine::commands::{Begun, Speech, StartRequest, Taken};
use crate::engine::detach_on_drop::DetachOnDrop;
use crate::engine::drive::{Batch, DECIDE_TRIES, Extras};
use crate::engine::library::Entry;
use crate::engine::purse::Held;
use crate::engine::trace::SpanBuilder;
use crate::engine::{Engine, EngineError};
use crate::kernel::brought::refuse_telling;
use crate::kernel::{
    Act, Earlier, Principal, Refusal, Run, RunId, SessionId, Spent, Started, digest, start,
};
use crate::ports::{Head, Hook, HookRow, KeyRow, RunFilter, SessionRow, trace};

/// Runs of a session that a message is weighed against, newest first; older ones have long ended.
pub(super) const SESSION_RUNS_MAX: usize = 1_000;

impl StartRequest {
    /// By it the same call is known again; without a key nobody asks.
    pub(super) fn digest(&self) -> String {
        if self.key.is_empty() {
            return String::new();
        }
        if self.gates.is_empty() {
            return digest::of(&json!([self.workflow, self.session, self.input]));
        }
        digest::of(&json!([self.workflow, self.session, self.input, self.gates]))
    }
}

impl Engine {
    /// Starts a workflow, or answers the session's one open request with the input.
    pub async fn start(
        &self,
        request: StartRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        // Whoever brings gates means a run of its own: an answer has none.
        let afresh = request.afresh || !request.gates.is_empty();
        let speech = Speech { start: StartRequest { afresh, ..request }, ..Speech::default() };
        match self.answer_or_start(speech, who).await? {
            Taken::Began(begun) | Taken::Answered { begun, .. } | Taken::Repeated(begun) => {
                Ok(begun)
            }
            Taken::Declined(_, refusal) => Err(refusal.into()),
            Taken::Idle(run) => Err(Refusal::UnknownRun(run.to_string()).into()),
        }
    }

    /// Refuses what no run could begin with, before anything is looked at.
    pub(super) fn check_start(&self, request: &StartRequest) -> Result<(), EngineError> {
        self.refuse_unless_ready()?;
        check_key(&request.key)?;
        check_value("input", &request.input)?;
        check_metadata(&request.metadata)?;
        request.hooks.iter().try_for_each(|hook| self.check_hook(hook))?;
        Ok(())
    }

    /// Starts a workflow in a session; in one of its own, where none is given.
    pub(super) async fn start_in(
        &self,
        session: Option<SessionId>,
        request: StartRequest,
        digest: String,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        // Only where others write to the store can something change that it was decided on.
        for _ in 1..if self.is_shared() { DECIDE_TRIES } else { 1 } {
            let again = (session.clone(), request.clone(), digest.clone());
            match self.start_once(again.0, again.1, again.2, who).await {
                Err(EngineError::Moved) => {}
                outcome => return outcome,
            }
        }
        self.start_once(session, request, digest, who).await
    }

    async fn start_once(
        &self,
        session: Option<SessionId>,
        request: StartRequest,
        digest: String,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        who.may(Act::Start, &who.id)?;
        let entry = self.workflow(&request.workflow, who)?;
        let entry = self.inner.library.ready(&*self.inner.journal, entry).await??;
        // Held until the run is durable: one that begins at the same time then sees it.
        let mut purse = None;
        let mut spent_before = Spent::default();
        if let Some(session) = &session {
            purse = self.purse(session, &entry.workflow).await?;
            if purse.is_some() {
                spent_before = self.spent_before(session).await?;
            }
        }
        // Nothing was said before in a session that begins here.
        let (follows, earlier) = match &session {
            None => (None, Earlier::default()),
            // Apart, so that a start without one carries nothing of it around.
            Some(session) => {
                Box::pin(self.following(session, entry.workflow.limits.remembers)).await?
            }
        };
        let hides = self.hidden_before(follows.as_ref()).await?;
        // By now the servers of its tools have told what they mark.
        if entry.workflow.secretive || !hides.is_empty() {
            refuse_telling(&request.gates)?;
        }
        let session = session.unwrap_or_else(|| SessionId::fresh(&self.inner.clock.fresh_stem()));
        let started = Started {
            session,
            workflow: entry.workflow.name.clone(),
            definition: entry.digest.clone(),
            owner: who.id.clone(),
            door: who.door.into(),
            input: request.input,
            metadata: request.metadata,
            forked_from: None,
            spent_before,
            trace: trace::current(),
            from: who.from.clone(),
            follows: follows.map(Box::new),
            seed: self.fresh_seed(),
            hides,
            epoch: self.epoch(),
            requesters: Vec::new(),
            known: Some(Box::new(who.known.clone())),
            descent: None,
            gates: request.gates,
            policy: None,
        };
        let now = self.inner.clock.now();
        let id = RunId::fresh(&self.inner.clock.fresh_stem());
        let hook_of = |hook: Hook| HookRow { run: id.clone(), hook: hook.of(&id) };
        let hooks = request.hooks.into_iter().map(hook_of).collect();
        let workflow = Arc::clone(&entry.workflow);
        let (run, events) = start(id, workflow, started, (earlier, self.operator()), now)?;
        let guards = purse.as_ref().and_then(|purse| purse.guard.clone()).into_iter().collect();
        let extras = Extras { hooks, guards, ..Extras::default() };
        let batch = Batch::new(0, events, now, extras);
        self.begin(run, batch, (request.key, digest), (who, purse)).await
    }

    /// What came of words that were meant as an answer, or of a fork that would go round one; where they were
    /// not taken, that is noted (K1).
    pub(super) async fn unless_refused<T>(
        &self,
        outcome: Result<T, EngineError>,
        who: &Principal,
    ) -> Result<T, EngineError> {
        if let Err(EngineError::Refused(refusal)) = &outcome {
            self.note_refused("", refusal, who).await;
        }
        outcome
    }

    /// Heads of a session's runs that ask something.
    pub(in crate::engine) async fn asking(
        &self,
        session: &SessionId,
    ) -> Result<Vec<Head>, EngineError> {
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let heads = self.all_heads(&filter).await?;
        Ok(heads.into_iter().filter(|head| !head.questions.is_empty()).map(Head::sealed).collect())
    }

    /// Makes a new run durable and sets it going. The purse of its session is held until it is durable, and no longer:
    /// whoever holds a run waits for the purse, so nobody who has that may wait for a run.
    pub(super) async fn begin(
        &self,
        run: Box<Run>,
        mut batch: Batch,
        (key, digest): (String, String),
        (who, purse): (&Principal, Option<Held>),
    ) -> Result<Begun, EngineError> {
        self.refuse_unless_ready()?;
        self.refuse_if_looking()?;
        self.refuse_if_held(None)?;
        self.heed_pulled(None).await?;
        // Both are as they are known here when it is written, or it is looked at again (K7).
        batch.extras.guards.extend(self.guard_of_halts());
        batch.extras.guards.extend(self.refuse_if_unknown(who).await?);
        self.refuse_if_halted(&run.workflow.name)?;
        let (id, session) = (run.id.clone(), run.session.clone());
        let row = SessionRow::new(session.clone(), who.id.clone(), batch.now);
        let key_row = (!key.is_empty())
            .then(|| (key.clone(), KeyRow { request: digest.clone(), run: id.clone() }));
        let hooks = batch.extras.hooks.clone();
        batch.extras.session = Some(row);
        batch.extras.key = key_row;
        let cell = self.inner.cells.get(&id);
        let (engine, held) = (self.clone(), Arc::clone(&cell));
        let scribe = self.inner.tracer.get().map(|_| match run.forked_from {
            None => Box::new(SpanBuilder::begins(&run)),
            Some(_) => Box::new(SpanBuilder::takes_up(&run)),
        });
        let mut batch = batch;
        let work = async move {
            let mut state = held.state.lock().await;
            // What is new has been forked by nobody.
            let has_kin = Some(run.forked_from.is_some());
            // Of a family that nobody has forked in.
            let family_number = run.forked_from.is_none().then_some(0);
            let mut hot = Hot { hooks, scribe, has_kin, family_number, ..Hot::new(run) };
            // Nothing of it was durable before this.
            hot.narrator.rested = false;
            *state = State::Hot(Box::new(hot));
            engine.commit(&held, &mut state, &mut batch).await
        };
        let outcome = DetachOnDrop::new(&self.inner.tasks, work).await;
        drop(purse);
        if outcome.is_err() {
            self.inner.cells.forget(&id);
        }
        match outcome {
            Ok(()) => {
                metrics::counter!("holdpoint_runs_started_total").increment(1);
                self.owns(&id);
                Ok(self.begun(cell, &session, 0, who))
            }
            Err(EngineError::Refused(Refusal::KeyReused(_))) => {
                // The same call came twice at once, and the other one was first.
                let begun = self.begun_before(&key, &digest, who).await?;
                begun.ok_or_else(|| Refusal::KeyReused(key).into())
            }
            Err(EngineError::Refused(Refusal::UnknownSession(_))) if who.sees_all() => {
                let why = "the session belongs to another principal: leave session_id out, or \
                           answer what it waits for with SendResponses";
                Err(Refusal::Forbidden(why).into())
            }
            Err(EngineError::Refused(Refusal::UnknownSession(_))) => {
                Err(Refusal::UnknownSession(session.told_to(&who.id).to_string()).into())
            }
            Err(error) => Err(error),
        }
    }

    /// The run that the same call began before, if it did.
    pub(super) async fn begun_before(
        &self,
        key: &str,
        digest: &str,
        who: &Principal,
    ) -> Result<Option<Begun>, EngineError> {
        if key.is_empty() {
            return Ok(None);
        }
        let Some(row) = self.inner.journal.key(&who.id, key).await? else { return Ok(None) };
        if row.request != digest {
            return Err(Refusal::KeyReused(key.to_owned()).into());
        }
        let (cell, session) =
            self.seen(&row.run, who, &Refusal::UnknownRun(row.run.to_string())).await?;
        // Whoever starts it again wants it to go on.
        self.taken_up(&cell).await?;
        Ok(Some(self.begun(cell, &session, 0, who)))
    }

    /// All heads that pass a filter, up to the bound on a session's runs that are looked at.
    pub(in crate::engine) async fn all_heads(
        &self,
        filter: &RunFilter,
    ) -> Result<Vec<Head>, EngineError> {
        let mut heads = Vec::new();
        let mut cursor = None;
        loop {
            let page =
                self.inner.journal.heads(filter, cursor.as_deref(), SESSION_RUNS_MAX).await?;
            heads.extend(page.rows);
            cursor = page.next;
            if cursor.is_none() || heads.len() >= SESSION_RUNS_MAX {
                return Ok(heads);
            }
        }
    }

    /// The workflow of that name, for those whose credential is good for it.
    pub fn workflow(&self, name: &str, who: &Principal) -> Result<Entry, EngineError> {
        if name.is_empty() {
            let remedy = "expected a workflow's name; ListWorkflows names the ones there are";
            return Err(Refusal::invalid("workflow_id", remedy).into());
        }
        let library = &self.inner.library;
        if let Some(entry) = library.get(name).filter(|_| who.covers(name)) {
            return Ok(entry);
        }
        // A file that is there and cannot be read is not unknown to those who may start it.
        let broken = library.broken().into_iter().find(|broken| broken.workflow == name);
        Err(match broken.filter(|_| who.covers(name)) {
            Some(broken) => {
                Refusal::BrokenWorkflow { workflow: broken.workflow, why: broken.why }.into()
            }
            None => Refusal::UnknownWorkflow(shortened(name)).into(),
        })
    }

    /// The workflows that can be started, of those that this principal's credential is good for.
    pub fn workflows(&self, who: &Principal) -> Vec<Entry> {
        let all = self.inner.library.all();
        all.into_iter().filter(|entry| who.covers(&entry.workflow.name)).collect()
    }
}
