//! Notifier: whoever carries what happens in runs to listeners outside, over whatever they speak.

use async_trait::async_trait;

use crate::kernel::{Event, Millis, Run, Version};
use crate::ports::HookRow;

/// What is carried.
#[derive(Debug)]
pub struct Delivery<'a> {
    /// Which listener.
    pub channel: &'a str,
    /// The hook behind the channel, if it is one.
    pub hook: Option<&'a HookRow>,
    /// The run, with the event folded in, and perhaps what came after it.
    pub run: &'a Run,
    /// The event's place in the journal: a listener knows a repeat by it.
    pub version: Version,
    /// When it happened.
    pub at: Millis,
    /// What happened.
    pub event: &'a Event,
}

/// Why something was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undelivered {
    /// What went wrong, without secrets.
    pub problem: String,
    /// Whether another try could help.
    pub is_final: bool,
}

/// Carries events to listeners.
#[async_trait]
pub trait Notifier: Send + Sync + std::fmt::Debug {
    /// Whether the listener of this channel is told of such an event at all. Cheap: it is asked for
    /// every event that is appended.
    fn carries(&self, channel: &str, workflow: &str, event: &Event) -> bool;

    /// The channels that every run has, beside those of its hooks.
    fn channels(&self) -> &[String];

    /// Whether the listener of this channel can be spoken to from here at all. What is for others stays in the outbox, as if
    /// nobody had looked at it, until somebody comes who can.
    fn reaches(&self, _lane: &str) -> bool {
        true
    }

    /// What is wrong with the address of a hook, as far as it can be seen without asking anybody.
    fn check(&self, url: &str) -> Result<(), String>;

    /// Carries one event. At least once: the same may come again after a crash.
    async fn carry(&self, consignment: Delivery<'_>) -> Result<(), Undelivered>;

    /// Hands a signed head of the log of leaves to whoever keeps such, so that a witness has it (J13). Once: the
    /// next one holds everything in it.
    async fn publish(&self, _note: &str, _leaves: u64, _at: Millis) -> Result<(), Undelivered> {
        Ok(())
    }
}

/// Where nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNotifier;

#[async_trait]
impl Notifier for NoNotifier {
    fn carries(&self, _lane: &str, _workflow: &str, _event: &Event) -> bool {
        false
    }

    fn channels(&self) -> &[String] {
        &[]
    }

    fn check(&self, _url: &str) -> Result<(), String> {
        Err("nobody is told anything here".into())
    }

    async fn carry(&self, _consignment: Delivery<'_>) -> Result<(), Undelivered> {
        Ok(())
    }
}
