//! Watch: a run's events after any sequence number, nothing missing and nothing twice (E1).
//!
//! A watcher reads the tail in memory while it keeps up, and the journal where it does not: a slow
//! reader is never waited for and never buffered for. Nothing here can change a run (E5).

use std::collections::VecDeque;
use std::sync::Arc;

use crate::engine::cell::{Cell, Glance, Rest};
use crate::engine::narrate::{Narrator, Published};
use crate::engine::{Engine, EngineError, Reach};
use crate::kernel::{Event, Millis, Recorded, Run, SessionId, Version, begin, evolve};

/// Events handed over at a time.
const BATCH: usize = 128;

/// When a stream ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At the first pause or end that it comes to: what one call did.
    FirstRest,
    /// At the first end, or pause that asks somebody; a wait for the clock or an event is no end.
    Asked,
    /// When the run rests now: caught up, and nothing moves.
    CurrentRest,
    /// When the run is over.
    Over,
}

/// A stream of a run's events.
#[derive(Debug)]
pub struct Watch {
    engine: Engine,
    cell: Arc<Cell>,
    session: SessionId,
    after: Version,
    /// When the last event that was told was recorded.
    told_of: Option<Millis>,
    /// Which of the run's histories is told.
    history: u64,
    until: Until,
    ready: VecDeque<Arc<Published>>,
    /// Apart: few need it, and a watch goes through many hands.
    replay: Option<Box<Replay>>,
    is_done: bool,
    /// For whoever was asked and does not know the run: what became of these questions, and no more.
    only: Option<Vec<u32>>,
}

/// A run folded up to where a watcher stands, so that it can be told what it missed.
#[derive(Debug)]
struct Replay {
    run: Run,
    narrator: Narrator,
}

impl Watch {
    pub(super) fn new(
        engine: Engine,
        cell: Arc<Cell>,
        session: SessionId,
        after: Version,
        until: Until,
    ) -> Self {
        let history = cell.histories();
        Self {
            engine,
            cell,
            session,
            after,
            told_of: None,
            history,
            until,
            ready: VecDeque::new(),
            replay: None,
            is_done: false,
            only: None,
        }
    }

    /// The same, from a later place.
    #[must_use]
    pub(super) fn past(mut self, version: Version) -> Self {
        (self.after, self.told_of) = (version, None);
        self
    }

    /// The same, to another end.
    #[must_use]
    pub fn until(mut self, until: Until) -> Self {
        self.until = until;
        self
    }

    /// The same, of what was said to these questions alone: seeing a question gives no right to
    /// anything else in its session (K8).
    #[must_use]
    pub(super) fn confined(mut self, questions: Vec<u32>) -> Self {
        self.only = Some(questions);
        self
    }

    /// The run that is watched.
    pub fn run_id(&self) -> &crate::kernel::RunId {
        &self.cell.id
    }

    /// Its session.
    pub fn session_id(&self) -> &SessionId {
        &self.session
    }

    /// The place of the last event that was told; before the first, where the stream begins.
    pub fn after(&self) -> Version {
        self.after
    }

    /// The next event; none when the stream is over.
    pub async fn next(&mut self) -> Result<Option<Arc<Published>>, EngineError> {
        loop {
            if let Some(published) = self.ready.pop_front() {
                (self.after, self.told_of) = (published.sequence, Some(published.at));
                let ends = match self.until {
                    Until::FirstRest => is_rest(&published.event),
                    Until::Asked => is_rest(&published.event) && !asks_nobody(&published),
                    Until::CurrentRest | Until::Over => false,
                };
                if ends {
                    self.is_done = true;
                    self.ready.clear();
                }
                let is_theirs = self.only.as_ref().is_none_or(|only| is_said(&published, only));
                if !is_theirs {
                    continue;
                }
                return Ok(Some(Published::in_session(published, &self.session)));
            }
            if self.is_done {
                return Ok(None);
            }
            self.refill().await?;
        }
    }

    async fn refill(&mut self) -> Result<(), EngineError> {
        // Registered before looking, so that a publication in between is not overlooked.
        let cell = Arc::clone(&self.cell);
        let mut changed = std::pin::pin!(cell.changed.notified());
        changed.as_mut().enable();
        if self.cell.histories() != self.history {
            return Err(EngineError::Rewound);
        }
        match self.cell.glance(self.after, BATCH) {
            Glance::Events(events) => {
                self.replay = None;
                self.ready.extend(events);
            }
            Glance::Behind => return self.catch_up().await,
            // What was told is gone: whoever heard it must not wait for what will never follow (J10).
            Glance::Ahead(_) if self.engine.is_shared() => return Err(EngineError::Rewound),
            Glance::UpToDate(rest) | Glance::Ahead(rest) => {
                let ends = match (rest, self.until) {
                    (Rest::Over, _) | (Rest::Waiting, Until::CurrentRest) => true,
                    (Rest::Waiting, Until::FirstRest | Until::Asked | Until::Over)
                    | (Rest::Moving, _) => false,
                };
                // Where no run is driven nothing more can come.
                if ends || self.engine.reach() == Reach::Nothing {
                    self.is_done = true;
                    return Ok(());
                }
                // What was published before the end is told before the end is.
                tokio::select! {
                    biased;
                    () = changed => {}
                    error = self.engine.ended() => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Reads a piece of the journal and tells it. A store may show what it is only about to make
    /// durable, so nothing is told from it that was not published (E1).
    async fn catch_up(&mut self) -> Result<(), EngineError> {
        let journal = &self.engine.inner.journal;
        let from = self.replay.as_ref().map_or(0, |replay| replay.run.version);
        let published = self.cell.published();
        let durable = |recorded: &Recorded| recorded.version <= published;
        let read = journal.read(&self.cell.id, from, BATCH).await?;
        for recorded in read.into_iter().take_while(durable) {
            let replay = match (&mut self.replay, &recorded.event) {
                (Some(replay), event) => {
                    evolve(&mut replay.run, event, recorded.at)?;
                    replay
                }
                (none, Event::Started(started)) => {
                    let library = &self.engine.inner.library;
                    let workflow = library.kept(&**journal, &started.definition).await?;
                    let mut run = begin(self.cell.id.clone(), workflow, started, recorded.at);
                    // What turned out to be secret later is hidden where it was said before.
                    let head = journal.head(&self.cell.id).await?;
                    if let Some(head) = head {
                        run.veil.join(&head.veil);
                    }
                    none.insert(Box::new(Replay { run, narrator: Narrator::default() }))
                }
                (None, _) => continue,
            };
            let told = replay.narrator.tell(
                &replay.run,
                recorded.version,
                recorded.at,
                Arc::new(recorded.event),
            );
            let is_last = told.sequence == self.after;
            if is_last && self.told_of.is_some_and(|at| at != told.at) {
                // It is not what was told in that place: the store has gone back, and was written to since (J10).
                return Err(EngineError::Rewound);
            }
            if told.sequence > self.after {
                self.ready.push_back(Arc::new(told));
            }
        }
        Ok(())
    }
}

/// Whether an event is somebody's word on one of these questions.
fn is_said(published: &Published, questions: &[u32]) -> bool {
    matches!(&*published.event, Event::Answered { ordinal, .. } | Event::Voted { ordinal, .. } if questions.contains(ordinal))
}

fn is_rest(event: &Event) -> bool {
    matches!(event, Event::Parked | Event::Completed | Event::Failed(_) | Event::Cancelled { .. })
}

/// Whether a pause waits for the clock or an external event alone.
fn asks_nobody(published: &Published) -> bool {
    let waiting = published.waiting.as_ref();
    waiting.is_some_and(|waiting| waiting.questions.is_empty())
}
