//! Cast: agents, tools and listeners as one process reaches them. They are slow, fail, and stop with their process;
//! what they have really done is seen by all.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex};

use async_trait::async_trait;
use holdpoint::agents::Registry;
use holdpoint::kernel::workflow::Workflow;
use holdpoint::kernel::{
    AgentInput, AttemptFault, Event, Failure, Millis, Reply, ToolCall, ToolFault, Version,
};
use holdpoint::ports::{
    Agents, Clock as _, Delivery, DeltaSink, Notifier, Tools, Undelivered, leave,
};
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::clock::SimClock;
use crate::dice::Dice;

/// The tools that a server has: the last look before something is sent is theirs. One for all, since it reads every
/// certificate of the machine; none of these takes any time.
static TOOLS: LazyLock<Registry> = LazyLock::new(|| Registry::new(Arc::new(SimClock::default())));

/// How a process fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fares {
    Well,
    Frozen,
    Dead,
}

/// What was really done, whoever did it.
#[derive(Debug, Default)]
pub(crate) struct Wiring {
    /// Deeds: by which tool, under which key, and with what.
    pub(crate) done: Mutex<Vec<(String, String, Value)>>,
    /// When each of them was done.
    pub(crate) times: Mutex<Vec<Millis>>,
    /// From when on somebody was told that everything is stopped, and until when.
    pub(crate) halts: Mutex<Vec<(Millis, Option<Millis>)>>,
    /// What listeners were told: the run, the hook, and the place in the journal.
    pub(crate) told: Mutex<BTreeSet<(String, String, Version)>>,
    /// How often something was altered on its way to a tool.
    pub(crate) altered: Mutex<u64>,
}

/// The cast of one process.
#[derive(Debug)]
pub(crate) struct Cast {
    pub(crate) fares: Mutex<Fares>,
    pub(crate) changed: Notify,
    clock: Arc<SimClock>,
    dice: Dice,
    world: Arc<Wiring>,
}

impl Cast {
    pub(crate) fn new(clock: &Arc<SimClock>, dice: &Dice, world: &Arc<Wiring>) -> Self {
        Self {
            fares: Mutex::new(Fares::Well),
            changed: Notify::new(),
            clock: Arc::clone(clock),
            dice: dice.clone(),
            world: Arc::clone(world),
        }
    }

    /// A process that is stopped does nothing, and one that is dead nothing ever.
    async fn stands(&self) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if *self.fares.lock().unwrap() == Fares::Well {
                return;
            }
            changed.await;
        }
    }

    async fn takes_a_while(&self) {
        let until = self.clock.now().plus(self.dice.roll(4_000));
        self.clock.sleep_until(until).await;
        self.stands().await;
    }
}

#[async_trait]
impl Agents for Cast {
    fn check(&self, _workflow: &Workflow) -> Result<(), (String, String)> {
        Ok(())
    }

    fn reply_at_once(
        &self,
        _workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>> {
        (input.agent == "draft").then(|| Ok(Reply { text: "Dear team".into(), ..Reply::default() }))
    }

    async fn reply(
        &self,
        _workflow: &Workflow,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, AttemptFault> {
        self.stands().await;
        deltas.push("Well".into()).await;
        self.takes_a_while().await;
        if self.dice.roll(10) == 0 {
            let failure = Failure::new("model.busy", "come again");
            return Err(AttemptFault { failure, retriable: true });
        }
        let has_paid = input.messages.iter().any(|message| message.call_id.is_some());
        if input.agent != "worker" || has_paid {
            return Ok(Reply { text: "Done.".into(), ..Reply::default() });
        }
        let calls = vec![ToolCall::new("pay-1", "pay", wanted(input))];
        Ok(Reply { calls, ..Reply::default() })
    }
}

/// What the user wants to be paid.
fn wanted(input: &AgentInput) -> Value {
    let mut texts = input.messages.iter().map(|message| &message.text);
    let said = texts.find_map(|text| serde_json::from_str::<Value>(text).ok());
    json!({"amount": said.and_then(|said| said.get("amount").cloned())})
}

#[async_trait]
impl Tools for Cast {
    async fn call(
        &self,
        workflow: &Workflow,
        call: &ToolCall,
        key: &str,
    ) -> Result<Value, ToolFault> {
        self.stands().await;
        let mut call = call.clone();
        // Whatever lies between a decision and a deed may go wrong: a bit, a bug, somebody at work.
        if self.dice.roll(12) == 0 {
            call.arguments = json!({"amount": 1_000_000});
            *self.world.altered.lock().unwrap() += 1;
        }
        let outcome = TOOLS.call(workflow, &call, key).await?;
        // As late as can be, as whoever sends something does.
        if !leave::still_holds().await {
            let failure = Failure::new("tool.late", leave::LATE);
            return Err(ToolFault { failure, may_have_happened: false });
        }
        self.world.times.lock().unwrap().push(self.clock.now());
        self.world.done.lock().unwrap().push((call.tool, key.to_owned(), call.arguments));
        self.takes_a_while().await;
        match self.dice.roll(10) {
            0 => {
                let failure = Failure::new("tool.cut", "the line was cut");
                Err(ToolFault { failure, may_have_happened: true })
            }
            _ => Ok(outcome),
        }
    }
}

#[async_trait]
impl Notifier for Cast {
    fn carries(&self, _lane: &str, _workflow: &str, event: &Event) -> bool {
        is_carried(event)
    }

    fn channels(&self) -> &[String] {
        &[]
    }

    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn carry(&self, consignment: Delivery<'_>) -> Result<(), Undelivered> {
        self.stands().await;
        if self.dice.roll(6) == 0 {
            return Err(Undelivered { problem: "nobody answers".into(), is_final: false });
        }
        let run = consignment.run.id.to_string();
        let place = (run, consignment.channel.to_owned(), consignment.version);
        self.world.told.lock().unwrap().insert(place);
        Ok(())
    }
}

/// What listeners are told of.
pub(crate) fn is_carried(event: &Event) -> bool {
    matches!(event, Event::Parked | Event::Completed | Event::Failed(_) | Event::Cancelled { .. })
}
