//! Fork: a new run from a checkpoint of another, or from where another failed.

use std::sync::Arc;

use serde_json::json;

use crate::engine::cell::State;
use crate::engine::commands::check::{check_key, parse_session, shortened};
use crate::engine::commands::{Begun, ForkRequest};
use crate::engine::drive::{Batch, Extras};
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Command, Decision, Event, Millis, Principal, Recorded, Refusal, Run, RunId, SessionId, Started,
    Status, Version, Workflow, apply, digest, parse_checkpoint, replay, retry_point, unkeyed,
};
use crate::ports::{Fault, trace};

impl Engine {
    /// Starts a new run from a checkpoint of another. What was done up to there is copied as
    /// facts, not done again (E3); its questions are open again, under ids of the new run.
    pub async fn fork(&self, request: ForkRequest, who: &Principal) -> Result<Begun, EngineError> {
        check_key(&request.key)?;
        let digest = digest::of(&json!(["fork", request.run, request.checkpoint, request.session]));
        if let Some(begun) = self.begun_before(&request.key, &digest, who).await? {
            return Ok(begun);
        }
        let (id, cell) = self.seen_run(&request.run, who).await?;
        let (session, marks, failed) = {
            let state = self.hot(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            (hot.run.session.clone(), hot.run.checkpoints.clone(), Failed::of(&hot.run))
        };
        let retry = match failed {
            None => None,
            Some(failed) => {
                failed.retry_point(&id, &self.read_all(&id, failed.version).await?, self)
            }
        };
        let version = checkpoint_of(&marks, retry, &id, &request.checkpoint)?;
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
        // It goes on from what its original went on from.
        let mut run = self.recalling(run).await?;
        let mut events: Vec<_> = forked.into_iter().map(|recorded| recorded.event).collect();
        let is_retry = retry == Some(version);
        // What is told of a retry begins after the pauses that were over before it.
        let told = if is_retry { pauses_end(&events) } else { 0 };
        if is_retry && let Decision::Events(more) = apply(&mut run, &Command::Retry, now)? {
            events.extend(more);
        }
        let batch = Batch { expected: 0, events, now, extras: Extras::default() };
        let begun = self.begin(run, batch, (request.key, digest), who).await?;
        Ok(Begun { watch: begun.watch.past(told), ..begun })
    }
}

/// A run that failed.
#[derive(Debug)]
pub(in crate::engine) struct Failed {
    /// How long its journal is.
    pub(in crate::engine) version: Version,
    workflow: Arc<Workflow>,
}

impl Failed {
    /// The run, if it failed.
    pub(in crate::engine) fn of(run: &Run) -> Option<Self> {
        match run.status {
            Status::Failed(_) => {
                Some(Self { version: run.version, workflow: Arc::clone(&run.workflow) })
            }
            Status::Running
            | Status::Waiting { .. }
            | Status::Completed
            | Status::Cancelled { .. } => None,
        }
    }

    /// The version up to which its journal is taken over to try again what failed.
    pub(in crate::engine) fn retry_point(
        &self,
        id: &RunId,
        journal: &[Recorded],
        engine: &Engine,
    ) -> Option<Version> {
        retry_point(id, Arc::clone(&self.workflow), journal, engine.inner.clock.now())
    }
}

/// The version of the last pause in a journal.
fn pauses_end(events: &[Event]) -> Version {
    let place = events.iter().rposition(|event| *event == Event::Parked);
    place.map_or(0, |place| Version::try_from(place).unwrap_or(Version::MAX).saturating_add(1))
}

/// The version to fork at: right after the pause that the checkpoint was saved for, or where a
/// failed step is tried again, which comes after all pauses.
fn checkpoint_of(
    marks: &[(Version, Millis)],
    retry: Option<Version>,
    id: &RunId,
    checkpoint: &str,
) -> Result<Version, Refusal> {
    let unknown = || Refusal::UnknownCheckpoint(shortened(checkpoint));
    let mut known = marks.iter().map(|(version, _)| *version).chain(retry.map(|at| at - 1));
    let version = if checkpoint.is_empty() {
        known.next_back()
    } else {
        let (of, version) = parse_checkpoint(checkpoint).map_err(|_| unknown())?;
        known.find(|known| of == *id && *known == version)
    };
    version.map(|version| version + 1).ok_or_else(unknown)
}

/// A fork's journal begins as the old one did, but under its own name.
fn refounded(event: Event, session: &SessionId, who: &Principal, from: (&RunId, Version)) -> Event {
    if let Event::Started(started) = event {
        return Event::Started(Box::new(Started {
            session: session.clone(),
            owner: who.id.clone(),
            door: who.door.into(),
            forked_from: Some((from.0.clone(), from.1 - 1)),
            trace: trace::current(),
            from: who.from.clone(),
            ..*started
        }));
    }
    unkeyed(event)
}
