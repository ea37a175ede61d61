//! Lull: says when nobody has written for a while and the page table is due to be saved. That stops everybody (see
//! `Database::reopen`), for longer the larger the store is: so it is done where nobody is there to wait. What is due, the
//! committer counts; nothing is written here.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use tokio::sync::mpsc::WeakSender;

/// How long nobody must have written: longer than anybody who works thinks between two calls of theirs, and shorter than
/// people do.
const LULL: Duration = Duration::from_millis(250);

/// What was written since the page table was saved, as the committer counts it and the watcher sees it. The watcher ends
/// with it.
#[derive(Debug)]
pub(super) struct Lull {
    written: Arc<AtomicU64>,
    _watched: SyncSender<()>,
}

impl Lull {
    /// Sends `told` to the queue in a lull once `due` bytes are written.
    pub(super) fn watch<Job: Send + 'static>(
        queue: WeakSender<Job>,
        due: u64,
        told: fn() -> Job,
    ) -> io::Result<Self> {
        let written = Arc::new(AtomicU64::new(0));
        let (watched, over) = sync_channel(0);
        let seen = Arc::clone(&written);
        let work = move || watch(&over, &seen, due, || queue.upgrade()?.try_send(told()).ok());
        std::thread::Builder::new().name("holdpoint-lull".into()).spawn(work)?;
        Ok(Self { written, _watched: watched })
    }

    /// So many bytes more were written.
    pub(super) fn wrote(&self, bytes: u64) {
        self.written.fetch_add(bytes, Ordering::AcqRel);
    }

    /// How many were since the page table was saved.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// It was saved.
    pub(super) fn saved(&self) {
        self.written.store(0, Ordering::Release);
    }
}

/// Looks now and then until it is over. A queue that is full, or closed, is no lull.
fn watch(over: &Receiver<()>, written: &AtomicU64, due: u64, tell: impl Fn() -> Option<()>) {
    let mut before = 0;
    while over.recv_timeout(LULL) == Err(RecvTimeoutError::Timeout) {
        let now = written.load(Ordering::Acquire);
        if now >= due && now == before {
            tell();
        }
        before = now;
    }
}
