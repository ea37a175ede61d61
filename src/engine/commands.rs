//! Commands: what callers may ask of the engine: start, answer, withdraw, cancel, signal, fork.
//!
//! Every one carries a principal; what is not theirs is unknown to them (D2).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::engine::cell::{Cell, Hot, State};
use crate::engine::drive::{Batch, Extras, joined};
use crate::engine::library::Entry;
use crate::engine::watch::{Until, Watch};
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Answer, Command, Ending, Event, Principal, Recorded, Refusal, RequestId, Run, RunId, SessionId,
    Started, Version, digest, replay, schema, start,
};
use crate::ports::{Fault, KeyRow, RunFilter, SessionRow};

/// An input's weight: it is part of every agent's conversation.
const INPUT_BYTES_MAX: usize = 1 << 20;
/// An idempotency key's length: it is a key in the store.
const KEY_BYTES_MAX: usize = 256;
/// Answers in one call; more is no person's doing.
const ANSWERS_MAX: usize = 1_000;
/// Metadata entries, and the bytes of each: labels, not storage.
const METADATA_MAX: usize = 64;
const METADATA_BYTES_MAX: usize = 1_024;

/// Starts a workflow, or answers the session's one open request.
#[derive(Debug, Clone, Default)]
pub struct StartRequest {
    /// The workflow's name.
    pub workflow: String,
    /// The caller's session id; empty for a new one.
    pub session: String,
    /// What the caller says.
    pub input: Value,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
    /// Whatever the caller wants to find again.
    pub metadata: BTreeMap<String, String>,
}

/// Answers open requests.
#[derive(Debug, Clone, Default)]
pub struct AnswerRequest {
    /// The session, if the caller names it.
    pub session: String,
    /// The run, if the caller names it.
    pub run: String,
    /// The answers by request id, each with the digest of what was shown, if there is one.
    pub answers: Vec<(String, Value, Option<String>)>,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
}

/// Starts a new run from a checkpoint of another.
#[derive(Debug, Clone, Default)]
pub struct ForkRequest {
    /// The run.
    pub run: String,
    /// The checkpoint; empty for the latest.
    pub checkpoint: String,
    /// The new run's session; empty for the old run's.
    pub session: String,
    /// Makes the call safe to repeat; empty for none.
    pub key: String,
}

/// A command that was taken: its run, and where its events begin.
#[derive(Debug)]
pub struct Begun {
    /// The run.
    pub run: RunId,
    /// Its events, from this command on.
    pub watch: Watch,
}

impl Engine {
    /// Starts a workflow, or answers the session's one open request with the input.
    pub async fn start(
        &self,
        request: StartRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        check_key(&request.key)?;
        check_value("input", &request.input)?;
        check_metadata(&request.metadata)?;
        let digest = digest::of(&json!([request.workflow, request.session, request.input]));
        if let Some(begun) = self.begun_before(&request.key, &digest, who).await? {
            return Ok(begun);
        }
        let session = match request.session.as_str() {
            "" => SessionId::fresh(&self.inner.clock.fresh_stem()),
            given => {
                let session = parse_session(given)?;
                self.refuse_foreign(&session, who).await?;
                if let Some(request_id) = self.only_request(&session, &request.workflow).await? {
                    return self.answer_with_input(request, request_id, digest, who).await;
                }
                session
            }
        };
        let entry = self.workflow(&request.workflow)?;
        let started = Started {
            session,
            workflow: entry.workflow.name.clone(),
            definition: entry.digest.clone(),
            owner: who.id.clone(),
            door: who.door.into(),
            input: request.input,
            metadata: request.metadata,
            forked_from: None,
        };
        let now = self.inner.clock.now();
        let id = RunId::fresh(&self.inner.clock.fresh_stem());
        let (run, events) = start(id, Arc::clone(&entry.workflow), started, now)?;
        self.begin(
            run,
            Batch { expected: 0, events, now, extras: Extras::default() },
            (request.key, digest),
            who,
        )
        .await
    }

    /// Answers open requests, all of them or none.
    pub async fn answer(
        &self,
        request: AnswerRequest,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        check_key(&request.key)?;
        if request.answers.is_empty() {
            return Err(Refusal::invalid(
                "responses",
                "expected at least one answer, by request id",
            )
            .into());
        }
        if request.answers.len() > ANSWERS_MAX {
            let remedy = format!("at most {ANSWERS_MAX} answers in one call");
            return Err(Refusal::TooLarge { field: "responses".into(), remedy }.into());
        }
        let mut answers = Vec::with_capacity(request.answers.len());
        for (id, value, digest) in request.answers {
            check_value(&format!("responses[{id}]"), &value)?;
            let request = parse_request(&id)?;
            answers.push(Answer { request, value, digest });
        }
        answers.sort_by_key(|answer| answer.request.ordinal);
        let run = answers[0].request.run.clone();
        if answers.iter().any(|answer| answer.request.run != run) {
            let remedy = "expected requests of one run; answer each run's in a call of its own";
            return Err(Refusal::invalid("responses", remedy).into());
        }
        if !request.run.is_empty() && request.run != run.as_str() {
            let request_id = answers[0].request.to_string();
            return Err(Refusal::ForeignRequest { request: request_id, run: request.run }.into());
        }
        let unknown = Refusal::UnknownRequest(answers[0].request.to_string());
        let (cell, session) = self.seen(&run, who, &unknown).await?;
        if !request.session.is_empty() && request.session != session.as_str() {
            return Err(unknown.into());
        }
        let command = Command::Answer { answers, key: request.key, principal: who.clone() };
        let done = self.submit(&cell, command, Extras::default()).await?;
        Ok(self.begun(cell, session, done.after))
    }

    /// Takes a question back.
    pub async fn withdraw(&self, request: &str, who: &Principal) -> Result<RunId, EngineError> {
        let id = parse_request(request)?;
        let unknown = Refusal::UnknownRequest(request.to_owned());
        let (cell, _) = self.seen(&id.run, who, &unknown).await?;
        let command = Command::Withdraw { request: id.clone(), principal: who.clone() };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id.run)
    }

    /// Stops a run. A run that is over already stays as it is.
    pub async fn cancel(
        &self,
        run: &str,
        reason: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        if reason.len() > METADATA_BYTES_MAX {
            let remedy = format!("at most {METADATA_BYTES_MAX} bytes");
            return Err(Refusal::TooLarge { field: "reason".into(), remedy }.into());
        }
        let (id, cell) = self.seen_run(run, who).await?;
        let command = Command::Cancel { reason: reason.to_owned(), principal: who.clone() };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id)
    }

    /// Delivers an external event.
    pub async fn signal(
        &self,
        run: &str,
        name: &str,
        who: &Principal,
    ) -> Result<RunId, EngineError> {
        if name.is_empty() {
            return Err(Refusal::invalid("name", "expected the signal's name").into());
        }
        let (id, cell) = self.seen_run(run, who).await?;
        let command = Command::Signal { name: name.to_owned() };
        self.submit(&cell, command, Extras::default()).await?;
        Ok(id)
    }

    /// Starts a new run from a checkpoint of another. What was done up to there is copied as
    /// facts, not done again (E3); its questions are open again, under ids of the new run.
    pub async fn fork(&self, request: ForkRequest, who: &Principal) -> Result<Begun, EngineError> {
        check_key(&request.key)?;
        let digest = digest::of(&json!(["fork", request.run, request.checkpoint, request.session]));
        if let Some(begun) = self.begun_before(&request.key, &digest, who).await? {
            return Ok(begun);
        }
        let (id, cell) = self.seen_run(&request.run, who).await?;
        let (session, version) = {
            let state = self.hot(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            (hot.run.session.clone(), checkpoint_of(&hot.run, &id, &request.checkpoint)?)
        };
        let session = match request.session.as_str() {
            "" => session,
            given => {
                let session = parse_session(given)?;
                self.refuse_foreign(&session, who).await?;
                session
            }
        };
        let old = self.read_all(&id, version).await?;
        let now = self.inner.clock.now();
        let forked: Vec<Recorded> = old
            .into_iter()
            .map(|recorded| Recorded {
                at: now,
                event: refounded(recorded.event, &session, who, (&id, version)),
                ..recorded
            })
            .collect();
        let Some(Event::Started(started)) = forked.first().map(|first| &first.event) else {
            return Err(Fault::Corrupt(format!("the journal of `{id}` has no beginning")).into());
        };
        let workflow = self.inner.library.kept(&*self.inner.journal, &started.definition).await?;
        let run = replay(&RunId::fresh(&self.inner.clock.fresh_stem()), workflow, &forked)?;
        let events = forked.into_iter().map(|recorded| recorded.event).collect();
        let batch = Batch { expected: 0, events, now, extras: Extras::default() };
        self.begin(run, batch, (request.key, digest), who).await
    }

    /// A run's events after `after`.
    pub async fn watch(
        &self,
        run: &str,
        after: Version,
        until: Until,
        who: &Principal,
    ) -> Result<Watch, EngineError> {
        let id = parse_run(run)?;
        let (cell, session) = self.seen(&id, who, &Refusal::UnknownRun(run.to_owned())).await?;
        Ok(Watch::new(self.clone(), cell, session, after, until))
    }

    /// Makes a new run durable and sets it going.
    async fn begin(
        &self,
        run: Run,
        mut batch: Batch,
        (key, digest): (String, String),
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        if self.is_draining() {
            return Err(EngineError::Draining);
        }
        let (id, session) = (run.id.clone(), run.session.clone());
        let row =
            SessionRow { session: session.clone(), owner: who.id.clone(), started_at: batch.now };
        let key_row = (!key.is_empty())
            .then(|| (key.clone(), KeyRow { request: digest.clone(), run: id.clone() }));
        batch.extras = Extras { session: Some(row), key: key_row };
        let cell = self.inner.cells.get(&id);
        let (engine, held) = (self.clone(), Arc::clone(&cell));
        let task = self.inner.tasks.spawn(async move {
            let mut state = held.state.lock().await;
            *state = State::Hot(Box::new(Hot::new(run)));
            engine.commit(&held, &mut state, batch).await
        });
        let outcome = joined(task.await);
        if outcome.is_err() {
            self.inner.cells.forget(&id);
        }
        match outcome {
            Ok(()) => {
                metrics::counter!("holdpoint_runs_started_total").increment(1);
                Ok(self.begun(cell, session, 0))
            }
            Err(EngineError::Refused(Refusal::KeyReused(_))) => {
                // The same call came twice at once, and the other one was first.
                let begun = self.begun_before(&key, &digest, who).await?;
                begun.ok_or_else(|| Refusal::KeyReused(key).into())
            }
            Err(EngineError::Refused(Refusal::UnknownSession(_))) => {
                Err(Refusal::UnknownSession(session.to_string()).into())
            }
            Err(error) => Err(error),
        }
    }

    /// The run that the same call began before, if it did.
    async fn begun_before(
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
        let after = {
            let state = self.hot(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            answered_with(&hot.run, key).unwrap_or(0)
        };
        Ok(Some(self.begun(cell, session, after)))
    }

    async fn answer_with_input(
        &self,
        request: StartRequest,
        id: RequestId,
        digest: String,
        who: &Principal,
    ) -> Result<Begun, EngineError> {
        let unknown = Refusal::UnknownRequest(id.to_string());
        let (cell, session) = self.seen(&id.run, who, &unknown).await?;
        let key = (!request.key.is_empty())
            .then(|| (request.key.clone(), KeyRow { request: digest, run: id.run.clone() }));
        let answer = Answer { request: id, value: request.input, digest: None };
        let command =
            Command::Answer { answers: vec![answer], key: request.key, principal: who.clone() };
        let done = self.submit(&cell, command, Extras { session: None, key }).await?;
        Ok(self.begun(cell, session, done.after))
    }

    /// The session's only open request, if it is of this workflow; several are ambiguous.
    async fn only_request(
        &self,
        session: &SessionId,
        workflow: &str,
    ) -> Result<Option<RequestId>, EngineError> {
        let filter = RunFilter {
            session: Some(session.clone()),
            status: Some("WAITING".into()),
            workflow: (!workflow.is_empty()).then(|| workflow.to_owned()),
            owner: None,
        };
        let page = self.inner.journal.heads(&filter, None, ANSWERS_MAX).await?;
        let open: Vec<_> = page
            .rows
            .iter()
            .flat_map(|head| head.questions.iter().map(|question| question.id(&head.run)))
            .collect();
        match open.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            several => Err(Refusal::AmbiguousAnswer {
                session: session.to_string(),
                requests: several.iter().map(ToString::to_string).collect(),
            }
            .into()),
        }
    }

    async fn refuse_foreign(
        &self,
        session: &SessionId,
        who: &Principal,
    ) -> Result<(), EngineError> {
        match self.inner.journal.session(session).await? {
            Some(row) if !who.may_see(&row.owner) => {
                Err(Refusal::UnknownSession(session.to_string()).into())
            }
            Some(_) | None => Ok(()),
        }
    }

    fn workflow(&self, name: &str) -> Result<Entry, EngineError> {
        if name.is_empty() {
            let remedy = "expected a workflow's name; ListWorkflows names the ones there are";
            return Err(Refusal::invalid("workflow_id", remedy).into());
        }
        let entry = self.inner.library.get(name);
        entry.ok_or_else(|| Refusal::UnknownWorkflow(shortened(name)).into())
    }

    pub(super) async fn seen_run(
        &self,
        run: &str,
        who: &Principal,
    ) -> Result<(RunId, Arc<Cell>), EngineError> {
        let id = parse_run(run)?;
        let (cell, _) = self.seen(&id, who, &Refusal::UnknownRun(run.to_owned())).await?;
        Ok((id, cell))
    }

    /// The cell of a run that this principal may see; `unknown` if there is none, or not for them.
    async fn seen(
        &self,
        run: &RunId,
        who: &Principal,
        unknown: &Refusal,
    ) -> Result<(Arc<Cell>, SessionId), EngineError> {
        let cell = self.inner.cells.get(run);
        let state = match self.hot(&cell).await {
            Ok(state) => state,
            Err(EngineError::Refused(Refusal::UnknownRun(_))) => {
                return Err(unknown.clone().into());
            }
            Err(error) => return Err(error),
        };
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        if !who.may_see(&hot.run.owner) {
            return Err(unknown.clone().into());
        }
        let session = hot.run.session.clone();
        drop(state);
        Ok((cell, session))
    }

    fn begun(&self, cell: Arc<Cell>, session: SessionId, after: Version) -> Begun {
        let run = cell.id.clone();
        Begun { run, watch: Watch::new(self.clone(), cell, session, after, Until::FirstRest) }
    }
}

fn answered_with(run: &Run, key: &str) -> Option<Version> {
    run.endings.iter().flatten().find_map(|ending| match ending {
        Ending::Answered { key: used, version, .. } if used == key => Some(version - 1),
        Ending::Answered { .. } | Ending::Closed(_) => None,
    })
}

/// The version to fork at: right after the pause that the checkpoint was saved for.
fn checkpoint_of(run: &Run, id: &RunId, checkpoint: &str) -> Result<Version, Refusal> {
    let unknown = || Refusal::UnknownCheckpoint(shortened(checkpoint));
    let version = if checkpoint.is_empty() {
        run.checkpoints.last().map(|(version, _)| *version)
    } else {
        let (of, version) = crate::kernel::parse_checkpoint(checkpoint).map_err(|_| unknown())?;
        run.checkpoints.iter().map(|(known, _)| *known).find(|known| of == *id && *known == version)
    };
    version.map(|version| version + 1).ok_or_else(unknown)
}

/// A fork's journal begins as the old one did, but under its own name.
fn refounded(event: Event, session: &SessionId, who: &Principal, from: (&RunId, Version)) -> Event {
    if let Event::Started(started) = event {
        return Event::Started(Started {
            session: session.clone(),
            owner: who.id.clone(),
            door: who.door.into(),
            forked_from: Some((from.0.clone(), from.1 - 1)),
            ..started
        });
    }
    event
}

fn parse_run(text: &str) -> Result<RunId, Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid("run_id", "expected a run's id; ListRuns names them"));
    }
    RunId::parse(text).map_err(|_| Refusal::UnknownRun(shortened(text)))
}

fn parse_request(text: &str) -> Result<RequestId, Refusal> {
    if text.is_empty() {
        return Err(Refusal::invalid(
            "request_id",
            "expected a request's id; ListRequests names them",
        ));
    }
    RequestId::parse(text).map_err(|_| Refusal::UnknownRequest(shortened(text)))
}

pub(super) fn parse_session(text: &str) -> Result<SessionId, Refusal> {
    SessionId::parse(text).map_err(|bad| Refusal::invalid("session_id", bad.to_string()))
}

/// A caller's words in a message of ours: enough to recognise, not enough to flood a log.
pub(super) fn shortened(text: &str) -> String {
    let short: String = text.chars().take(80).collect();
    if short.len() < text.len() { format!("{short}…") } else { short }
}

fn check_key(key: &str) -> Result<(), Refusal> {
    if key.len() > KEY_BYTES_MAX {
        let remedy = format!("at most {KEY_BYTES_MAX} bytes");
        return Err(Refusal::TooLarge { field: "idempotency_key".into(), remedy });
    }
    Ok(())
}

fn check_value(field: &str, value: &Value) -> Result<(), Refusal> {
    if schema::is_too_deep(value) {
        let remedy = format!("nest values at most {} deep", schema::DEPTH_MAX);
        return Err(Refusal::invalid(field, remedy));
    }
    let bytes = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    if bytes > INPUT_BYTES_MAX {
        let remedy = format!("at most {INPUT_BYTES_MAX} bytes");
        return Err(Refusal::TooLarge { field: field.into(), remedy });
    }
    Ok(())
}

fn check_metadata(metadata: &BTreeMap<String, String>) -> Result<(), Refusal> {
    let too_long = |(name, value): (&String, &String)| {
        name.len() > METADATA_BYTES_MAX || value.len() > METADATA_BYTES_MAX
    };
    if metadata.len() > METADATA_MAX || metadata.iter().any(too_long) {
        let remedy = format!("at most {METADATA_MAX} entries of {METADATA_BYTES_MAX} bytes each");
        return Err(Refusal::TooLarge { field: "metadata".into(), remedy });
    }
    Ok(())
}
