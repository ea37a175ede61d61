//! Call: what can be asked of a remote agent, and why nothing may come of it, whatever carries it. How it is
//! carried is not known here.

use std::pin::Pin;

use futures::Stream;
use serde_json::{Value, json};

use crate::agents::a2a::fault::{Code, RemoteFault};

/// A task with its results; what is larger is not kept in a conversation anyway.
pub(super) const BODY_BYTES_MAX: usize = 4 << 20;
/// The header that says which version of the protocol is spoken.
pub(super) const VERSION: &str = "a2a-version";
/// The header with the key that is the same for every try of a call.
pub(super) const KEY: &str = "idempotency-key";

/// What is asked of a remote agent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Call<'a> {
    /// Takes a message, and tells what follows.
    Stream(&'a Value),
    /// Takes a message, and comes back at once.
    Send(&'a Value),
    /// How a task stands.
    Get(&'a str),
    /// What happens to a task from now on.
    Subscribe(&'a str),
    /// Stops a task.
    Cancel(&'a str),
}

impl Call<'_> {
    /// It as a message of the protocol, to one of those that a server may speak for.
    pub(super) fn params(self, tenant: &str) -> Value {
        let mut params = match self {
            Self::Stream(message) => json!({"message": message}),
            Self::Send(message) => {
                json!({"message": message, "configuration": {"returnImmediately": true}})
            }
            Self::Get(id) => json!({"id": id, "historyLength": 0}),
            Self::Subscribe(id) | Self::Cancel(id) => json!({"id": id}),
        };
        if !tenant.is_empty() {
            params["tenant"] = json!(tenant);
        }
        params
    }
}

/// Why a call brought nothing home.
#[derive(Debug)]
pub(super) enum CallError {
    /// There is no such task.
    NotFound,
    /// It does not do that, or not now.
    Unsupported(String),
    /// It cannot be reached, or is ill; another try may help.
    Ill(String),
    /// Anything else: an answer that no further try changes.
    Fault(RemoteFault),
}

impl CallError {
    /// As a fault, where no other meaning is wanted.
    pub(super) fn into_fault(self) -> RemoteFault {
        match self {
            Self::NotFound => RemoteFault::new(Code::Refused, "there is nothing at its address"),
            Self::Unsupported(why) => RemoteFault::new(Code::Refused, why),
            Self::Ill(why) => RemoteFault::new(Code::Unreachable, why),
            Self::Fault(fault) => fault,
        }
    }
}

/// What a remote tells while it happens.
pub(super) type Events = Pin<Box<dyn Stream<Item = Result<Value, CallError>> + Send>>;
