//! Oversize: the alarm that is raised when an MCP server sends more than can be held. Who reads raises it, who
//! called hears it; how a connection ends is not said here.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Raised when a server sends more than can be held.
#[derive(Debug)]
pub(super) struct Oversize {
    pub(super) bytes_max: usize,
    raised: Notify,
    is_raised: AtomicBool,
}

impl Oversize {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self { bytes_max, raised: Notify::new(), is_raised: AtomicBool::new(false) }
    }

    pub(super) fn raise(&self) {
        self.is_raised.store(true, Ordering::Release);
        self.raised.notify_waiters();
    }

    pub(super) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Acquire)
    }

    /// Returns when it is raised from now on.
    pub(super) fn raised(&self) -> impl Future<Output = ()> {
        self.raised.notified()
    }
}
