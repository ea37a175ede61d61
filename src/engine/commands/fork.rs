//! Fork: a new run from a checkpoint of another.

use serde_json::json;

use crate::engine::cell::State;
use crate::engine::commands::check::{check_key, parse_session, shortened};
use crate::engine::commands::{Begun, ForkRequest};
use crate::engine::drive::{Batch, Extras};
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Event, Principal, Recorded, Refusal, Run, RunId, SessionId, Started, Version, digest,
    parse_checkpoint, replay, unkeyed,
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
        // It goes on from what its original went on from.
        let run = self.recalling(run).await?;
        let events = forked.into_iter().map(|recorded| recorded.event).collect();
        let batch = Batch { expected: 0, events, now, extras: Extras::default() };
        self.begin(run, batch, (request.key, digest), who).await
    }
}

/// The version to fork at: right after the pause that the checkpoint was saved for.
fn checkpoint_of(run: &Run, id: &RunId, checkpoint: &str) -> Result<Version, Refusal> {
    let unknown = || Refusal::UnknownCheckpoint(shortened(checkpoint));
    let version = if checkpoint.is_empty() {
        run.checkpoints.last().map(|(version, _)| *version)
    } else {
        let (of, version) = parse_checkpoint(checkpoint).map_err(|_| unknown())?;
        run.checkpoints.iter().map(|(known, _)| *known).find(|known| of == *id && *known == version)
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
