//! Visit: one request to the console that was vetted: all that a page knows of who asks, and for what. How it is
//! vetted is not known here (`request_context`).

use crate::api::console::Console;
use crate::api::console::fields::Fields;
use crate::api::console::memory::Memory;
use crate::engine::Engine;
use crate::kernel::{Millis, Principal};

/// One request, vetted.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) console: Console,
    pub(super) who: Principal,
    /// What the browser showed in place of a key.
    pub(super) pass: Option<String>,
    pub(super) is_post: bool,
    /// The path below `/console`.
    pub(super) path: Vec<String>,
    pub(super) query: Fields,
    /// The form, where one was sent.
    pub(super) fields: Fields,
    pub(super) now: Millis,
    /// What the browser remembers of what was opened and put off.
    pub(super) memory: Memory,
}

impl Visit {
    pub(super) fn engine(&self) -> &Engine {
        &self.console.inner.engine
    }

    /// Whether people sign in here.
    pub(super) fn is_keyed(&self) -> bool {
        self.console.inner.doorkeeper.wants_key()
    }
}
