//! Inbox: changes of what waits for people, told to whoever watches.

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::broadcast;

use crate::engine::narrate::{Narrator, Published};
use crate::engine::views::{InboxFilter, OpenRequest};
use crate::engine::whose::Told as _;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Closed, Closing, Delegated, Ending, Event, Principal, RequestId, Run, RunId, Version, evolve,
    halt,
};
use crate::ports::Fault;

/// How often the inbox is read again where others change it: their hints may be lost.
const LOOK_AGAIN_MS: u64 = 5_000;

/// One change of the inbox.
#[derive(Debug, Clone)]
pub enum InboxChange {
    /// A request is open.
    Opened(Box<OpenRequest>),
    /// A request is no longer open.
    Closed {
        /// Which.
        request: RequestId,
        /// How: `answered`, `rejected`, `passed`, `withdrawn`, `run_over`.
        how: &'static str,
        /// By whom.
        by: String,
        /// Whose run it was.
        owner: String,
    },
    /// Everything that was open at the beginning has been told.
    CaughtUp,
}

/// Hints that something in the inbox has changed. What changed is read from the views, so a missed one costs nothing.
#[derive(Debug)]
pub struct InboxHints {
    changes: broadcast::Receiver<InboxChange>,
    engine: Engine,
    principal: Principal,
}

impl InboxHints {
    /// Returns when something that the principal may see has been asked or closed. One that fell
    /// behind is told so at once: it only reads the inbox again.
    pub async fn next(&mut self) -> Result<(), EngineError> {
        loop {
            let change = tokio::select! {
                biased;
                change = self.changes.recv() => change,
                error = self.engine.ended() => return Err(error),
            };
            match change {
                Ok(InboxChange::Opened(request))
                    if request.is_known_to(
                        &self.principal,
                        &self.engine.operator(),
                        self.engine.inner.clock.now(),
                    ) =>
                {
                    return Ok(());
                }
                Ok(InboxChange::Opened(_) | InboxChange::CaughtUp) => {}
                // That something was closed tells nobody anything: the page reads again what is theirs.
                Ok(InboxChange::Closed { .. }) | Err(broadcast::error::RecvError::Lagged(_)) => {
                    return Ok(());
                }
                Err(broadcast::error::RecvError::Closed) => return Err(EngineError::Draining),
            }
        }
    }
}

impl Engine {
    /// Hints of changes of the inbox, from now on.
    pub fn inbox_hints(&self, principal: Principal) -> InboxHints {
        InboxHints { changes: self.inner.inbox.subscribe(), engine: self.clone(), principal }
    }

    /// Tells the inbox what a durable batch changed.
    pub(super) fn tell_inbox(&self, run: &Run, batch: &[Arc<Published>]) {
        self.inner.desks.keep(run);
        if self.inner.inbox.receiver_count() == 0 {
            return;
        }
        for published in batch {
            for change in changes(run, published) {
                // An error only means that the last watcher has just left.
                drop(self.inner.inbox.send(change));
            }
        }
    }

    /// Whether anybody watches the inbox.
    pub(super) fn has_inbox_watchers(&self) -> bool {
        self.inner.inbox.receiver_count() > 0
    }

    /// Tells the inbox what somebody else has written to a run that is not in memory, after that version.
    pub(super) async fn tell_of(&self, run: &RunId, after: Version) -> Result<(), EngineError> {
        let Some(head) = self.inner.journal.head(run).await? else { return Ok(()) };
        let workflow = self.inner.library.kept(&*self.inner.journal, &head.definition).await?;
        let known = after.max(1).min(head.version);
        let mut folded = self.fold_all(run, workflow, known).await?;
        let tail = self.read_on(run, known, head.version).await?;
        let mut narrator = Narrator::at(&folded);
        let mut told = Vec::with_capacity(tail.len());
        for recorded in tail {
            evolve(&mut folded, &recorded.event, recorded.at)?;
            let event = Arc::new(recorded.event);
            told.push(Arc::new(narrator.tell(&folded, recorded.version, recorded.at, event)));
        }
        self.tell_inbox(&folded, &told);
        Ok(())
    }

    /// How a request was closed that was open, as its run's journal has it.
    async fn closed_how(&self, request: &RequestId) -> Result<InboxChange, EngineError> {
        let head = self.inner.journal.head(&request.run).await?;
        let (owner, version) = head.map(|head| (head.owner, head.version)).unwrap_or_default();
        let events = self.read_all(&request.run, version).await?;
        let ended = events.iter().rev().find_map(|recorded| {
            if recorded.event.question() != Some(request.ordinal) {
                return None;
            }
            if let Event::Answered { by, .. } = &recorded.event {
                return Some(("answered", by.clone()));
            }
            let Event::Closed { closing, by, .. } = &recorded.event else { return None };
            Some((word(*closing), by.clone()))
        });
        let (how, by) = ended.unwrap_or_else(|| ("run_over", String::new()));
        Ok(InboxChange::Closed { request: request.clone(), how, by, owner })
    }

    /// Watches the inbox: first what is open, then every change.
    pub fn watch_inbox(&self, principal: Principal, filter: InboxFilter) -> InboxWatch {
        InboxWatch {
            changes: self.inner.inbox.subscribe(),
            engine: self.clone(),
            principal,
            filter,
            phase: Phase::Snapshot { cursor: None },
            ready: Vec::new(),
            known: HashSet::new(),
            looks_again: 0,
        }
    }
}

/// The word for how a request was closed.
fn word(closing: Closing) -> &'static str {
    match closing {
        Closing::Rejected => "rejected",
        Closing::Passed => "passed",
        Closing::Withdrawn => "withdrawn",
        Closing::Moot => "moot",
    }
}

fn changes(run: &Run, published: &Published) -> Vec<InboxChange> {
    let closed = |ordinal: u32, how, by: &str| InboxChange::Closed {
        request: run.request(ordinal),
        how,
        by: by.to_owned(),
        owner: run.owner.clone(),
    };
    let opened = |question| {
        let shown = halt::shown(&run.operator.halts, run, question);
        InboxChange::Opened(Box::new(OpenRequest::of(run, shown)))
    };
    match &*published.event {
        Event::Asked(_) => {
            published.asked.iter().map(|asked| opened(asked.question.clone())).collect()
        }
        // Others may be asked from now on, to whom it is new.
        Event::Escalated { ordinal, .. }
        | Event::Voted { ordinal, .. }
        | Event::Delegated(Delegated { ordinal, .. }) => {
            run.questions.get(ordinal).cloned().map(opened).into_iter().collect()
        }
        Event::Answered { ordinal, by, .. } => vec![closed(*ordinal, "answered", by)],
        Event::Closed { ordinal, closing, by, .. } => {
            vec![closed(*ordinal, word(*closing), by)]
        }
        Event::Completed | Event::Failed(_) | Event::Cancelled { .. } => (1..)
            .zip(&run.endings)
            .filter(|(_, ending)| **ending == Some(Ending::Closed(Closed::RunOver)))
            .map(|(ordinal, _)| closed(ordinal, "run_over", ""))
            .collect(),
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Noted { .. }
        | Event::Reminded { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::Claimed(_)
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::StepOpened { .. }
        | Event::StepOutcome { .. }
        | Event::StepClosed { .. }
        | Event::Signalled { .. }
        | Event::CheckpointSaved
        | Event::Parked
        | Event::Output { .. }
        | Event::Warned(_) => Vec::new(),
    }
}

/// A stream of inbox changes.
#[derive(Debug)]
pub struct InboxWatch {
    changes: broadcast::Receiver<InboxChange>,
    engine: Engine,
    principal: Principal,
    filter: InboxFilter,
    phase: Phase,
    ready: Vec<InboxChange>,
    /// Requests told as open, so that the seam between snapshot and changes tells none twice.
    known: HashSet<RequestId>,
    /// When the inbox is read again, where others change it whose hints may be lost.
    looks_again: u64,
}

#[derive(Debug)]
enum Phase {
    Snapshot { cursor: Option<String> },
    Live,
}

impl InboxWatch {
    /// The next change. Errs when the watcher fell behind and must begin anew.
    pub async fn next(&mut self) -> Result<InboxChange, EngineError> {
        loop {
            if let Some(change) = self.ready.pop() {
                return Ok(change);
            }
            if let Phase::Snapshot { cursor } = &self.phase {
                let page = self
                    .engine
                    .inbox(&self.principal, &self.filter, cursor.as_deref(), 100)
                    .await?;
                self.known.extend(page.rows.iter().map(OpenRequest::id));
                let opened = page.rows.into_iter().map(|row| InboxChange::Opened(Box::new(row)));
                self.ready = opened.rev().collect();
                self.phase = if page.next.is_some() {
                    Phase::Snapshot { cursor: page.next }
                } else {
                    self.ready.insert(0, InboxChange::CaughtUp);
                    Phase::Live
                };
                continue;
            }
            let is_shared = self.engine.is_shared();
            let look_in = self.looks_again.saturating_sub(self.engine.inner.clock.ticks());
            let change = tokio::select! {
                biased;
                change = self.changes.recv() => change,
                error = self.engine.ended() => return Err(error),
                () = self.engine.inner.clock.pause(look_in), if is_shared => {
                    self.look_again().await?;
                    continue;
                }
            };
            match change {
                Ok(change) if self.concerns(&change) => return Ok(self.told(change)),
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => {
                    let why = "the watcher fell behind the inbox; watch again";
                    return Err(Fault::Retriable(why.into()).into());
                }
                Err(broadcast::error::RecvError::Closed) => return Err(EngineError::Draining),
            }
        }
    }

    /// Reads what is open, and tells of what has changed since it was last told.
    async fn look_again(&mut self) -> Result<(), EngineError> {
        let (mut open, mut cursor) = (HashSet::new(), None::<String>);
        loop {
            let page =
                self.engine.inbox(&self.principal, &self.filter, cursor.as_deref(), 100).await?;
            for row in page.rows {
                let id = row.id();
                if self.known.insert(id.clone()) {
                    self.ready.push(InboxChange::Opened(Box::new(row)));
                }
                open.insert(id);
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut gone: Vec<_> = self.known.iter().filter(|id| !open.contains(id)).cloned().collect();
        gone.sort_unstable_by_key(ToString::to_string);
        for id in gone {
            self.known.remove(&id);
            self.ready.push(self.engine.closed_how(&id).await?);
        }
        self.looks_again = self.engine.inner.clock.ticks() + LOOK_AGAIN_MS;
        Ok(())
    }

    fn told(&self, change: InboxChange) -> InboxChange {
        match change {
            InboxChange::Opened(request) => {
                InboxChange::Opened(Box::new(request.told_to(&self.principal)))
            }
            closed @ (InboxChange::Closed { .. } | InboxChange::CaughtUp) => closed,
        }
    }

    /// Whether a request admits whoever watches, as it stands now.
    pub fn admits(&self, request: &OpenRequest) -> bool {
        self.engine.admits(request, &self.principal)
    }

    fn concerns(&mut self, change: &InboxChange) -> bool {
        match change {
            InboxChange::Opened(request) => {
                let (operator, now) = (self.engine.operator(), self.engine.inner.clock.now());
                request.is_known_to(&self.principal, &operator, now)
                    && self.filter.accepts(request, &self.principal, &operator, now)
                    && self.known.insert(request.id())
            }
            InboxChange::Closed { request, .. } => self.known.remove(request),
            InboxChange::CaughtUp => true,
        }
    }
}
