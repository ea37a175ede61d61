//! The doors: each a translation of the same commands. gRPC, A2A, the HTTP bridge, the console, and the
//! operator's pages.
//!
//! - **D1** A run begun at one door can be watched, answered and cancelled at every other.
//! - **D2** Unknown and forbidden look the same to a caller.
//! - **D3** An error names the field and the remedy, carries a stable code, and shows no internals.

pub mod a2a;
mod asked;
pub mod bridge;
pub mod console;
mod convert;
pub mod envelope;
pub mod grpc;
pub mod host;
pub mod pages;
mod people;
mod status;
pub mod webhook;

use tokio::sync::watch;

use crate::kernel::{Millis, Principal, Refusal};

/// Who a caller is, by the secret that it shows.
pub trait Doorkeeper: Send + Sync + std::fmt::Debug {
    /// The principal behind `bearer`, coming through `door`; a refusal where a key is wanted and
    /// none, or an unknown one, is shown.
    fn admit(&self, bearer: Option<&str>, door: &'static str) -> Result<Principal, Refusal>;

    /// Whether nobody is admitted without a key.
    fn wants_key(&self) -> bool;

    /// A pass that stands for the key in `bearer` until `until`: what a browser keeps instead.
    fn pass(&self, bearer: &str, until: Millis) -> Result<String, Refusal>;

    /// The principal behind a pass at `now`, coming through `door`.
    fn admit_pass(&self, pass: &str, now: Millis, door: &'static str)
    -> Result<Principal, Refusal>;

    /// Makes a pass worth nothing from now on: its person has signed out.
    fn void_pass(&self, _pass: &str, _now: Millis) {}

    /// Whether it admits for ever whom it admits once: then there are no `changes`.
    fn is_constant(&self) -> bool {
        true
    }

    /// Told whenever somebody who was admitted may no longer be; nothing, where that never happens.
    fn changes(&self) -> Option<watch::Receiver<()>> {
        None
    }

    /// What is wrong with what it knows people by, if anything is.
    fn trouble(&self) -> Option<String> {
        None
    }
}

/// A message's weight on the wire: an input and its envelope, with room to spare.
pub const MESSAGE_BYTES_MAX: usize = 4 << 20;
