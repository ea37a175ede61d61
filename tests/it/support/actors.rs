//! Agents and tools that a test steers: each replies at once, or when the test lets it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holdpoint::kernel::{AgentInput, AttemptFault, Failure, Reply, ToolCall, ToolFault, Workflow};
use holdpoint::ports::{Agents, DeltaSink, Tools, leave};
use serde_json::Value;
use tokio::sync::Semaphore;

type Role = Box<dyn Fn(&AgentInput) -> Reply + Send + Sync>;

/// What every agent does, and what has been asked of whom.
#[derive(Default)]
pub(crate) struct Actors {
    roles: HashMap<String, Role>,
    /// Agents that wait for a permit before they reply, and speak in pieces.
    slow: HashMap<String, Arc<Semaphore>>,
    /// Tools that wait for a permit before they return.
    tools: HashMap<String, Arc<Semaphore>>,
    /// How long it takes to reach any of them: a permit each, and then they are asked whether they still may.
    pub(crate) connecting: Option<Arc<Semaphore>>,
    pub(crate) inputs: Mutex<Vec<AgentInput>>,
    pub(crate) calls: Mutex<Vec<(String, String)>>,
    pub(crate) called: Semaphore0,
    /// Slow replies that were stopped before they came.
    given_up: Arc<Semaphore0>,
}

/// Counts events that a test waits for.
pub(crate) struct Semaphore0(pub(crate) Semaphore);

impl Default for Semaphore0 {
    fn default() -> Self {
        Self(Semaphore::new(0))
    }
}

/// Says so when it goes away before it was told not to.
struct Stopped(Option<Arc<Semaphore0>>);

impl Stopped {
    fn not(mut self) {
        self.0 = None;
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if let Some(given_up) = &self.0 {
            given_up.0.add_permits(1);
        }
    }
}

impl std::fmt::Debug for Actors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Actors")
    }
}

impl Actors {
    /// An agent that always says the same.
    pub(crate) fn says(self, agent: &str, text: &'static str) -> Self {
        self.plays(agent, move |_| Reply { text: text.into(), ..Reply::default() })
    }

    pub(crate) fn plays(
        mut self,
        agent: &str,
        role: impl Fn(&AgentInput) -> Reply + Send + Sync + 'static,
    ) -> Self {
        self.roles.insert(agent.into(), Box::new(role));
        self
    }

    /// Makes an agent wait for a permit; the gate is returned by `gate`.
    pub(crate) fn slowly(mut self, agent: &str) -> Self {
        self.slow.insert(agent.into(), Arc::new(Semaphore::new(0)));
        self
    }

    /// A tool that returns `done` when its gate lets it.
    pub(crate) fn tool(mut self, tool: &str) -> Self {
        self.tools.insert(tool.into(), Arc::new(Semaphore::new(0)));
        self
    }

    pub(crate) fn gate(&self, name: &str) -> Arc<Semaphore> {
        self.slow.get(name).or_else(|| self.tools.get(name)).unwrap().clone()
    }

    /// Returns when an agent or a tool has been asked once more.
    pub(crate) async fn asked(&self) {
        self.called.0.acquire().await.unwrap().forget();
    }

    /// Returns when a slow agent has been stopped once more.
    pub(crate) async fn given_up(&self) {
        self.given_up.0.acquire().await.unwrap().forget();
    }

    fn reply_of(&self, input: &AgentInput) -> Result<Reply, AttemptFault> {
        match self.roles.get(&input.agent) {
            Some(role) => Ok(role(input)),
            None => Err(AttemptFault {
                failure: Failure::new("test.nobody", "nobody plays this"),
                retriable: false,
            }),
        }
    }
}

#[async_trait]
impl Agents for Actors {
    fn check(&self, _workflow: &Workflow) -> Result<(), (String, String)> {
        Ok(())
    }

    fn reply_at_once(
        &self,
        _workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>> {
        if self.slow.contains_key(&input.agent) {
            return None;
        }
        self.inputs.lock().unwrap().push(input.clone());
        Some(self.reply_of(input))
    }

    async fn reply(
        &self,
        _workflow: &Workflow,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, AttemptFault> {
        self.inputs.lock().unwrap().push(input.clone());
        self.called.0.add_permits(1);
        let reply = self.reply_of(input)?;
        if let Some(first) = reply.text.split_whitespace().next() {
            deltas.push(first.to_owned()).await;
        }
        if let Some(gate) = self.slow.get(&input.agent) {
            let stopped = Stopped(Some(Arc::clone(&self.given_up)));
            gate.acquire().await.unwrap().forget();
            stopped.not();
        }
        Ok(reply)
    }
}

#[async_trait]
impl Tools for Actors {
    async fn call(
        &self,
        _workflow: &Workflow,
        call: &ToolCall,
        key: &str,
    ) -> Result<Value, ToolFault> {
        if let Some(connecting) = &self.connecting {
            self.called.0.add_permits(1);
            connecting.acquire().await.unwrap().forget();
            if !leave::still_holds().await {
                let failure = Failure::new("tool.late", leave::LATE);
                return Err(ToolFault { failure, may_have_happened: false });
            }
        }
        self.calls.lock().unwrap().push((call.tool.clone(), key.to_owned()));
        self.called.0.add_permits(1);
        if let Some(gate) = self.tools.get(&call.tool) {
            gate.acquire().await.unwrap().forget();
        }
        Ok(Value::String("done".into()))
    }
}
