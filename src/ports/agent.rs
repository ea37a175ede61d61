//! Agents and tools: whoever does the work. One call is one attempt; the engine journals around it.

use async_trait::async_trait;
use serde_json::Value;

use crate::kernel::{AgentInput, AttemptFault, Reply, ToolCall, ToolFault, Workflow};

/// Takes what an agent has to say before it is done. `push` takes its text while it is still speaking. `push` waits while earlier pieces are being
/// made durable, so a fast model cannot run ahead of the disk (E6).
#[async_trait]
pub trait DeltaSink: Send {
    /// Takes a piece of text.
    async fn push(&mut self, text: String);

    /// Keeps `memo` with the turn, in place of what was kept before: a later try of the same turn
    /// finds it in its input. `Ok` means that it is durable; after an error the attempt must end,
    /// for nobody wants it any more or nothing can be written.
    async fn note(&mut self, memo: Value) -> Result<(), AttemptFault>;
}

/// Whoever replies for an agent.
///
/// - `input` is everything the agent is given; nothing else may be looked up (K5).
/// - Dropping the future stops the work.
#[async_trait]
pub trait Agents: Send + Sync + std::fmt::Debug {
    /// Says what is wrong with a workflow's models and tools, when it is loaded: an unknown
    /// provider, a setting that is missing. `(field path, remedy)`.
    fn check(&self, workflow: &Workflow) -> Result<(), (String, String)>;

    /// The reply, if it can be had at once, without waiting and without touching the world. Such
    /// an attempt needs no durable intent: repeating it after a crash harms nobody.
    fn reply_at_once(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>>;

    /// One attempt of a reply.
    async fn reply(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, AttemptFault>;

    /// The run is over, and an attempt of `agent` had noted `memo`: whatever still works for it
    /// elsewhere may stop. Called at least once; an error says why it must be tried again.
    async fn release(
        &self,
        _workflow: &Workflow,
        _agent: &str,
        _memo: &Value,
    ) -> Result<(), String> {
        Ok(())
    }
}

/// Whoever performs a tool call.
#[async_trait]
pub trait Tools: Send + Sync + std::fmt::Debug {
    /// One try of one call. `key` is the same for every try of the same call (E2). A fault says
    /// whether the deed may have been done all the same; where that is not known, it may.
    ///
    /// A call with a `deed` is compared with it right before it is sent: where what would go out, or
    /// where to, is not that, nothing is sent (`consent.broken`), and it goes nowhere else (K3).
    async fn call(
        &self,
        workflow: &Workflow,
        call: &ToolCall,
        key: &str,
    ) -> Result<Value, ToolFault>;
}
