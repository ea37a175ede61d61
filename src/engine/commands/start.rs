//! Start: a new run, or, where its session waits for exactly one answer, that answer.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::cell::{Hot, State};
use crate::engine::commands::check::{
    check_key, check_metadata, check_value, parse_session, shortened,
};
use crate::engine::commands::{Begun, StartRequest};
use crate::engine::drive::{Batch, Extras};
use crate::engine::library::Entry;
use crate::engine::steadfast::Steadfast;
use crate::engine::trace::Scribe;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Act, Answer, Command, Earlier, Principal, Refusal, RequestId, Run, RunId, Said, SessionId,
    Spent, Started, Version, binding, digest, start,
};
use crate::ports::{Head, HookRow, KeyRow, RunFilter, SessionRow, trace};

/// What an input that names a session is.
enum Awaited {
    /// New work.
    Nothing,
    /// The answer to this question.
    Answer(RequestId, Value),
    /// What was said before: what came of it begins after this version.
    Repeat(RunId, Version),
}

/// Runs of a session that a message is weighed against, newest first; older ones have long ended.
pub(super) const SESSION_RUNS_MAX: usize = 1_000;

impl StartRequest {
    /// By it the same call is known again; without a key nobody asks.
    fn digest(&self) -> String {
        if self.key.is_empty() {
            return String::new();
        }
        digest::of(&json!([self.workflow, self.session, self.input]))
    }
}

impl Engine {
    /// Starts a workflow, or answers the session's one open request with the input.
    pub async fn start(
        &self,
        request: StartRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        self.refuse_if_draining()?;
        check_key(&request.key)?;
        check_value("input", &request.input)?;
        check_metadata(&request.metadata)?;
        request.hooks.iter().try_for_each(|hook| self.check_hook(hook))?;
        let digest = request.digest();
        if let Some(begun) = self.begun_before(&request.key, &digest, who).await? {
            return Ok(begun);
        }
        let session = match request.session.as_str() {
            "" => SessionId::fresh(&self.inner.clock.fresh_stem()),
            given => {
                let session = parse_session(given)?;
                self.refuse_foreign(&session, who).await?;
                let awaited = self.awaited(&session, &request, who).await;
                match self.unless_refused(awaited, who).await? {
                    Awaited::Nothing => session,
                    Awaited::Answer(id, value) => {
                        return self.answer_with_input(request.key, (id, value), who).await;
                    }
                    Awaited::Repeat(run, after) => {
                        let unknown = Refusal::UnknownRun(run.to_string());
                        let (cell, session) = self.seen(&run, who, &unknown).await?;
                        return Ok(self.begun(cell, session, after));
                    }
                }
            }
        };
        who.may(Act::Start, &who.id)?;
        let entry = self.workflow(&request.workflow, who)?;
        let spent_before = self.spent_before(&request.session, &entry).await?;
        // Nothing was said before in a session that begins here.
        let (follows, earlier) = match request.session.as_str() {
            "" => (None, Earlier::default()),
            // Apart, so that a start without one carries nothing of it around.
            _ => Box::pin(self.following(&session, entry.workflow.limits.remembers)).await?,
        };
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
            seed: self.inner.clock.fresh_secret(),
            epoch: self.epoch(),
            requesters: Vec::new(),
            known: Some(Box::new(who.known.clone())),
            descent: None,
        };
        let now = self.inner.clock.now();
        let id = RunId::fresh(&self.inner.clock.fresh_stem());
        let hook_of = |hook| HookRow { run: id.clone(), hook };
        let hooks = request.hooks.into_iter().map(hook_of).collect();
        let workflow = Arc::clone(&entry.workflow);
        let (run, events) = start(id, workflow, started, (earlier, self.operator()), now)?;
        self.begin(
            run,
            Batch { expected: 0, events, now, extras: Extras { hooks, ..Extras::default() } },
            (request.key, digest),
            who,
        )
        .await
    }

    /// The request of the session that the input answers, and what it says to it, if it is to answer
    /// one. What it names is found by the kernel's rule (K9).
    async fn awaited(
        &self,
        session: &SessionId,
        request: &StartRequest,
        who: &Principal,
    ) -> Result<Awaited, EngineError> {
        if request.afresh {
            return Ok(Awaited::Nothing);
        }
        // The same call again is known before anything that waits is looked at.
        if let Some((run, after)) = self.said_before(session, request, who).await? {
            return Ok(Awaited::Repeat(run, after));
        }
        if let Some((run, after)) = &request.goes_on_from {
            self.refuse_stale(run, *after).await?;
        }
        let heads = self.asking(session).await?;
        let is_meant =
            |head: &&Head| request.workflow.is_empty() || head.workflow == request.workflow;
        let open: Vec<_> = heads.iter().filter(is_meant).flat_map(Head::open).collect();
        let said = binding::resolve(&request.input, &open, who, session.as_str())?;
        Ok(said.map_or(Awaited::Nothing, |(id, value)| Awaited::Answer(id, value)))
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

    /// Refuses words that were said to a pause which is over: whatever is asked now, they were not
    /// meant for it (K9).
    async fn refuse_stale(&self, run: &RunId, after: Version) -> Result<(), EngineError> {
        let cell = self.inner.cells.get(run);
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        if hot.run.has_gone_on_since(after) {
            return Err(Refusal::StalePause.into());
        }
        Ok(())
    }

    /// The run that `who` began under `key`, if they did.
    pub async fn begun_with(
        &self,
        key: &str,
        who: &Principal,
    ) -> Result<Option<RunId>, EngineError> {
        if key.is_empty() {
            return Ok(None);
        }
        Ok(self.inner.journal.key(&who.id, key).await?.map(|row| row.run))
    }

    /// The run of a session in which `who` answered under `key`, if they did.
    pub async fn answered_with(
        &self,
        session: &SessionId,
        key: &str,
        who: &Principal,
    ) -> Result<Option<RunId>, EngineError> {
        self.refuse_foreign(session, who).await?;
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        for head in self.all_heads(&filter).await? {
            let cell = self.inner.cells.get(&head.run);
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            if hot.run.said_by(&who.id).any(|said| said.key == key) {
                return Ok(Some(head.run));
            }
        }
        Ok(None)
    }

    /// Heads of a session's runs that ask something, for those who may see it.
    pub async fn asking_in(
        &self,
        session: &SessionId,
        who: &Principal,
    ) -> Result<Vec<Head>, EngineError> {
        self.refuse_foreign(session, who).await?;
        self.asking(session).await
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

    /// What the session's runs have spent so far, where that counts. A run learns it when it
    /// begins: what others of its session spend meanwhile is counted for the next one.
    async fn spent_before(&self, session: &str, entry: &Entry) -> Result<Spent, EngineError> {
        if session.is_empty() || entry.workflow.limits.budgets.session.is_nothing() {
            return Ok(Spent::default());
        }
        let session = Some(parse_session(session)?);
        let heads = self.all_heads(&RunFilter { session, ..RunFilter::default() }).await?;
        let sum = heads.iter().fold(Spent::default(), |sum, head| sum.plus(head.spent));
        // Runs that were pruned since are known to those that came after them.
        let carried = heads.iter().map(|head| head.spent.plus(head.spent_before));
        Ok(carried.fold(sum, Spent::max))
    }

    /// Makes a new run durable and sets it going.
    pub(super) async fn begin(
        &self,
        run: Run,
        mut batch: Batch,
        (key, digest): (String, String),
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        self.refuse_if_draining()?;
        self.refuse_if_looking()?;
        self.refuse_if_held(None)?;
        let (id, session) = (run.id.clone(), run.session.clone());
        let row = SessionRow::new(session.clone(), who.id.clone(), batch.now);
        let key_row = (!key.is_empty())
            .then(|| (key.clone(), KeyRow { request: digest.clone(), run: id.clone() }));
        let hooks = batch.extras.hooks.clone();
        batch.extras = Extras { session: Some(row), key: key_row, hooks: hooks.clone() };
        let cell = self.inner.cells.get(&id);
        let (engine, held) = (self.clone(), Arc::clone(&cell));
        let scribe = self.inner.tracer.get().map(|_| match run.forked_from {
            None => Box::new(Scribe::begins(&run)),
            Some(_) => Box::new(Scribe::takes_up(&run)),
        });
        let work = async move {
            let mut state = held.state.lock().await;
            *state = State::Hot(Box::new(Hot { hooks, scribe, ..Hot::new(run) }));
            engine.commit(&held, &mut state, batch).await
        };
        let outcome = Steadfast::new(&self.inner.tasks, work).await;
        if outcome.is_err() {
            self.inner.cells.forget(&id);
        }
        match outcome {
            Ok(()) => {
                metrics::counter!("holdpoint_runs_started_total").increment(1);
                self.owns(&id);
                Ok(self.begun(cell, session, 0))
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
                Err(Refusal::UnknownSession(session.to_string()).into())
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
        Ok(Some(self.begun(cell, session, 0)))
    }

    async fn answer_with_input(
        &self,
        key: String,
        (id, value): (RequestId, Value),
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        let unknown = Refusal::UnknownRequest(id.to_string());
        let (cell, session) = self.seen(&id.run, who, &unknown).await?;
        let answer = Answer { request: id, value, digest: None };
        let command = Command::Answer { answers: vec![answer], key, principal: who.clone() };
        let done = self.submit(&cell, command, Extras::default()).await;
        let done = self.unless_refused(done, who).await?;
        Ok(self.begun(cell, session, done.after))
    }

    /// The run of a session, and the version before what came of it, where the same was said before
    /// by the same principal: under the same key, or, in a client's own retry, in the same words.
    async fn said_before(
        &self,
        session: &SessionId,
        request: &StartRequest,
        who: &Principal,
    ) -> Result<Option<(RunId, Version)>, EngineError> {
        if request.key.is_empty() && !request.is_retry {
            return Ok(None);
        }
        let given = digest::of(&request.input);
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        for head in self.all_heads(&filter).await? {
            let cell = self.inner.cells.get(&head.run);
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            let is_it = |said: &&Said| match request.key.as_str() {
                "" => said.given == given,
                key => said.key == key,
            };
            let own = hot.run.said_by(&who.id);
            // Without a key it is only the last of theirs that can have been sent twice.
            let own: Vec<_> = if request.key.is_empty() {
                own.last().into_iter().collect()
            } else {
                own.collect()
            };
            if let Some(said) = own.into_iter().find(is_it) {
                // A key that a door has drawn from the call tells the call already.
                let is_callers = !["resp:", "a2a:"].iter().any(|of| request.key.starts_with(of));
                if said.given != given && is_callers && !request.key.is_empty() {
                    return Err(Refusal::KeyReused(request.key.clone()).into());
                }
                return Ok(Some((head.run, said.version - 1)));
            }
            let is_start = hot.run.owner == who.id && digest::of(&hot.run.input) == given;
            if request.key.is_empty() && is_start {
                return Ok(Some((head.run, 0)));
            }
        }
        Ok(None)
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

    pub(super) async fn refuse_foreign(
        &self,
        session: &SessionId,
        who: &Principal,
    ) -> Result<(), EngineError> {
        match self.inner.journal.session(session).await? {
            Some(row) if !self.knows_session(&row, who).await? => {
                Err(Refusal::UnknownSession(session.to_string()).into())
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The workflow of that name, for those whose credential is good for it.
    pub fn workflow(&self, name: &str, who: &Principal) -> Result<Entry, EngineError> {
        if name.is_empty() {
            let remedy = "expected a workflow's name; ListWorkflows names the ones there are";
            return Err(Refusal::invalid("workflow_id", remedy).into());
        }
        let entry = self.inner.library.get(name).filter(|_| who.covers(name));
        entry.ok_or_else(|| Refusal::UnknownWorkflow(shortened(name)).into())
    }

    /// The workflows that can be started, of those that this principal's credential is good for.
    pub fn workflows(&self, who: &Principal) -> Vec<Entry> {
        let all = self.inner.library.all();
        all.into_iter().filter(|entry| who.covers(&entry.workflow.name)).collect()
    }
}
