//! A journal whose writes can be seen before they are durable, as a real store's can: what an agent
//! says while it speaks is written, and acknowledged only when the test lets it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use holdpoint::kernel::{Event, Millis, Recorded, RunId, SessionId, Version};
use holdpoint::ports::evidence::Evidence;
use holdpoint::ports::{
    Append, AppendError, Appended, Fault, Fence, Head, HookRow, Incarnation, Journal, KeyRow,
    Logged, Noting, OutboxEntry, Page, RunFilter, SessionRow, Settlement, StoreReport,
};
use tokio::sync::{Semaphore, SemaphorePermit};

#[derive(Debug)]
pub(crate) struct Held {
    inner: Arc<dyn Journal>,
    /// A permit for each write that has been made and not acknowledged.
    pub(crate) written: Semaphore,
    /// A permit for each that may be.
    pub(crate) durable: Semaphore,
    /// How often runs were listed.
    pub(crate) listed: AtomicUsize,
    /// A permit for each connection, where there are only so many.
    connections: Option<Semaphore>,
}

impl Held {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::with(None))
    }

    /// One with a single connection, where a database's has few: whoever looks for a run or a session, or keeps a
    /// definition, has it meanwhile.
    pub(crate) fn narrow() -> Arc<Self> {
        Arc::new(Self::with(Some(Semaphore::new(1))))
    }

    fn with(connections: Option<Semaphore>) -> Self {
        let inner = holdpoint::store::memory().journal();
        let (written, durable) = (Semaphore::new(0), Semaphore::new(0));
        Self { inner, written, durable, listed: AtomicUsize::new(0), connections }
    }

    /// The connection, where there is one alone; others get their turn while somebody has it.
    async fn lend(&self) -> Option<SemaphorePermit<'_>> {
        let lent = self.connections.as_ref()?.acquire().await.unwrap();
        tokio::task::yield_now().await;
        Some(lent)
    }
}

#[async_trait]
impl Journal for Held {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        let is_held = append.events.iter().any(|event| matches!(&**event, Event::Delta { .. }));
        let outcome = self.inner.append(append).await;
        if is_held {
            self.written.add_permits(1);
            self.durable.acquire().await.unwrap().forget();
        }
        outcome
    }

    async fn read(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        self.inner.read(run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        let _lent = self.lend().await;
        self.inner.head(run).await
    }

    async fn heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        self.listed.fetch_add(1, Ordering::SeqCst);
        self.inner.heads(filter, cursor, limit).await
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Fault> {
        let _lent = self.lend().await;
        let row = self.inner.session(session).await;
        // As a store of a disk would: others get their turn.
        tokio::task::yield_now().await;
        row
    }

    async fn sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault> {
        self.inner.sessions(owner, cursor, limit).await
    }

    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        self.inner.put_session(knew, row).await
    }

    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault> {
        self.inner.key(owner, key).await
    }

    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        self.inner.key_of(run).await
    }

    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault> {
        self.inner.waiting(cursor, limit).await
    }

    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault> {
        self.inner.due(now, limit).await
    }

    async fn next_due(&self) -> Result<Option<Millis>, Fault> {
        self.inner.next_due().await
    }

    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault> {
        self.inner.running(cursor, limit).await
    }

    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault> {
        self.inner.forks(family).await
    }

    fn incarnation(&self) -> Incarnation {
        self.inner.incarnation()
    }

    async fn take(
        &self,
        run: &RunId,
        from: Option<Incarnation>,
        expected: Version,
    ) -> Result<Fence, AppendError> {
        self.inner.take(run, from, expected).await
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        let _lent = self.lend().await;
        self.inner.put_definition(digest, json).await
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        self.inner.definition(digest).await
    }

    async fn outbox_entries(&self, now: Millis, limit: usize) -> Result<Vec<OutboxEntry>, Fault> {
        self.inner.outbox_entries(now, limit).await
    }

    async fn next_outbox_entry(&self) -> Result<Option<Millis>, Fault> {
        self.inner.next_outbox_entry().await
    }

    async fn settle(&self, run: &RunId, channel: &str, outcome: Settlement) -> Result<(), Fault> {
        self.inner.settle(run, channel, outcome).await
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        self.inner.put_hook(hook).await
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        self.inner.hooks(run).await
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        self.inner.remove_hook(run, id).await
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.inner.prune(before, limit).await
    }

    async fn note(&self, noting: Noting) -> Result<u64, Fault> {
        self.inner.note(noting).await
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        self.inner.notes(cursor, limit).await
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        self.inner.remember(name, text).await
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        self.inner.remembered(name).await
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        self.inner.verify().await
    }

    fn evidence(&self) -> &dyn Evidence {
        self.inner.evidence()
    }

    fn is_healthy(&self) -> bool {
        self.inner.is_healthy()
    }

    fn has_room(&self) -> bool {
        self.inner.has_room()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
