//! Support: a clock that tests move, agents that tests steer, an engine over any store.

pub(crate) mod caller;
pub(crate) mod chance;
pub(crate) mod collector;
pub(crate) mod fake_orchestrator;
pub(crate) mod kit;
pub(crate) mod listener;
pub(crate) mod log;
pub(crate) mod raw;
pub(crate) mod screen;
pub(crate) mod server;
pub(crate) mod tool_server;

pub(crate) mod actors;
pub(crate) mod clock;
pub(crate) mod held;
pub(crate) mod pair;
pub(crate) mod plays;
pub(crate) mod postgres;
pub(crate) mod proxy;
pub(crate) mod python;
pub(crate) mod workflows;

use std::sync::Arc;

use holdpoint::engine::{Engine, Entry, Library, Published, Watch};
use holdpoint::kernel::{Event, Principal, Workflow, digest};
use holdpoint::ports::Journal;

pub(crate) use actors::Actors;
pub(crate) use clock::SimClock;

/// Everything an engine stands on; engines come and go, this stays, as a disk does.
#[derive(Debug, Clone)]
pub(crate) struct Ground {
    pub(crate) journal: Arc<dyn Journal>,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) actors: Arc<Actors>,
}

impl Ground {
    pub(crate) fn new(actors: Actors) -> Self {
        Self {
            journal: holdpoint::store::memory().journal(),
            clock: Arc::new(SimClock::default()),
            actors: Arc::new(actors),
        }
    }

    /// An engine that has just been started, as after a boot.
    pub(crate) async fn boot(&self, workflows: &[Workflow]) -> Engine {
        let engine = self.engine(workflows).await;
        engine.recover().await.unwrap();
        let timers = engine.clone();
        tokio::spawn(async move { timers.run_timers().await });
        engine
    }

    /// An engine that nothing was asked of yet.
    pub(crate) async fn engine(&self, workflows: &[Workflow]) -> Engine {
        let library = Library::default();
        for workflow in workflows {
            let digest = digest::of(&serde_json::to_value(workflow).unwrap());
            let entry = Entry { workflow: Arc::new(workflow.clone()), digest };
            library.add(&*self.journal, entry).await.unwrap();
        }
        Engine::new(
            self.journal.clone(),
            self.clock.clone(),
            self.actors.clone(),
            self.actors.clone(),
            library,
        )
    }
}

pub(crate) fn someone() -> Principal {
    Principal::local("grpc")
}

/// Everything a stream tells until it ends.
pub(crate) async fn all(mut watch: Watch) -> Vec<Published> {
    let mut told = Vec::new();
    while let Some(published) = watch.next().await.unwrap() {
        told.push(Arc::unwrap_or_clone(published));
    }
    told
}

/// The names of events, as a play reads.
pub(crate) fn names(events: &[Published]) -> Vec<&'static str> {
    events.iter().map(|published| name(&published.event)).collect()
}

pub(crate) fn name(event: &Event) -> &'static str {
    match event {
        Event::Started(_) => "started",
        Event::StepStarted { .. } => "invoked",
        Event::Delta { .. } => "delta",
        Event::MessageAdded { .. } => "message",
        Event::ToolCalled { .. } => "tool_call",
        Event::ToolReturned { .. } => "tool_result",
        Event::HandedOff { .. } => "handoff",
        Event::StepCompleted { .. } => "step_completed",
        Event::StepFailed { .. } => "step_failed",
        Event::Asked(_) => "asked",
        Event::Answered { .. } => "answered",
        Event::Voted { .. } => "voted",
        Event::Claimed(_) => "claimed",
        Event::Delegated(_) => "delegated",
        Event::Closed { .. } => "closed",
        Event::Noted { .. } => "noted",
        Event::Reminded { .. } => "reminded",
        Event::Escalated { .. } => "escalated",
        Event::Stood { .. } => "stood",
        Event::Held { .. } => "held",
        Event::Renewed { .. } => "renewed",
        Event::Ruled(_) => "policy",
        Event::Revoked { .. } => "revoked",
        Event::StepOpened { .. } => "opened",
        Event::StepOutcome { .. } => "came",
        Event::StepClosed { .. } => "settled",
        Event::Signalled { .. } => "signalled",
        Event::CheckpointSaved => "checkpoint",
        Event::Parked => "parked",
        Event::Output { .. } => "output",
        Event::Warned(_) => "warned",
        Event::Completed => "completed",
        Event::Failed(_) => "failed",
        Event::Cancelled { .. } => "cancelled",
    }
}

/// The request that a pause waits for.
pub(crate) fn request_of(events: &[Published]) -> String {
    let waiting = events.iter().rev().find_map(|published| published.waiting.clone()).unwrap();
    waiting.questions[0].id(&waiting.run).to_string()
}
