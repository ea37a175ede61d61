//! PostgreSQL: the store that several processes share, on any of which every decision may be taken. What it means is
//! said by the store in memory (`memory::cluster`); what is stored is what the embedded store stores, record by record.
//!
//! There is no lock but a row's and no clock but the database's. An append is one round trip (`group`); nobody waits in
//! a transaction for anything outside the database.

mod address;
mod adopt;
mod audit;
mod committer;
mod config;
mod connections;
mod copied_columns;
mod descent;
mod desk_marks;
mod desks;
mod difference;
mod error;
mod evidence;
mod faults;
mod gate;
mod group;
mod hints;
mod hosts;
mod indexes;
mod links;
mod looks;
mod lost;
mod marks;
mod notes;
mod prepared;
mod prune;
mod raising;
mod reader;
mod replicas;
mod rights;
mod schema;
mod sessions;
mod settings;
mod slots;
mod standby;
mod steps;
mod tls;
mod twins;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use tokio::sync::{broadcast, mpsc, oneshot};
use tokio_postgres::types::Type;

pub use self::address::Durability;
pub(super) use self::adopt::Adopter;
pub use self::config::{PostgresConfig, is_postgres};
pub use self::error::{PostgresError, READS, SCHEMA};
pub use self::schema::Migrated;
use crate::kernel::{Millis, Recorded, RunId, SessionId, Version};
use crate::ports::evidence::Evidence;
use crate::ports::{
    Append, AppendError, Appended, Desk, Fault, Fence, Head, Hint, HookRow, Incarnation,
    Introduction, Journal, KeyRow, Logged, Noting, OutboxEntry, Page, Replicas, RunFilter,
    SessionRow, Settlement, StoreReport,
};
use crate::store::postgres::committer::{Committer, Waiting};
use crate::store::postgres::connections::{Connections, Lost};
use crate::store::postgres::faults::closed;
use crate::store::postgres::links::Links;
use crate::store::postgres::marks::{Lane, Marks};
use crate::store::postgres::prepared::{Prepared, int, packed, time, uint};
use crate::store::postgres::reader::{OUTBOX_ENTRY, get, most, number, run as run_of, unpacked};
use crate::store::postgres::replicas::{Beats, keepsake, unsealed};
use crate::store::{codec, keys, outbox_entries};

/// Appends that wait to be gathered: a few groups; whoever comes then waits outside.
const WAITING_MAX: usize = 1_024;
/// What was written and is not told yet: past it a hint is lost, which costs a second.
const CRIES_MAX: usize = 4_096;
/// Hints that are kept for a slow process; past it, it looks everywhere.
const HINTS_MAX: usize = 1_024;

/// A store on PostgreSQL, as one process has it open.
#[derive(Debug)]
pub(super) struct PostgresJournal {
    connections: Arc<Connections>,
    links: Arc<Links>,
    marks: Arc<Marks>,
    me: Arc<AtomicU64>,
    who: Mutex<Introduction>,
    is_draining: AtomicBool,
    beats: Beats,
    queue: mpsc::Sender<Waiting>,
    hints: tokio::sync::Mutex<broadcast::Receiver<Hint>>,
    is_closed: AtomicBool,
}

/// Makes the tables in a database where there are none.
pub(super) async fn migrate(config: &PostgresConfig) -> Result<Migrated, PostgresError> {
    let mut line = Connections::new(config.clone()).reach().await?;
    schema::migrate(config, &mut line.client).await
}

impl PostgresJournal {
    /// Opens a store, in which a life of this process begins.
    pub(super) async fn open(config: &PostgresConfig) -> Result<Self, PostgresError> {
        let connections = Arc::new(Connections::new(config.clone()));
        // What is wrong is told as it is, not as a fault.
        drop(connections.connect(None).await?);
        let (links, me) = (Arc::<Links>::default(), Arc::<AtomicU64>::default());
        let marks = Arc::<Marks>::default();
        let (queue, waiting) = mpsc::channel(WAITING_MAX);
        let (cry, written) = mpsc::channel(CRIES_MAX);
        let (told, hints) = broadcast::channel(HINTS_MAX);
        let opened = Self {
            connections: Arc::clone(&connections),
            links: Arc::clone(&links),
            marks: Arc::clone(&marks),
            me: Arc::clone(&me),
            who: Mutex::default(),
            is_draining: AtomicBool::new(false),
            beats: Beats::default(),
            queue,
            hints: tokio::sync::Mutex::new(hints),
            is_closed: AtomicBool::new(false),
        };
        let born = match opened.born().await {
            Ok(born) => born,
            Err(error) => return Err(connections.explained(error).await),
        };
        me.store(born.0, Ordering::SeqCst);
        let over = Arc::clone(&connections);
        let committer = Committer { connections: over, links, marks, me, cry, queue: waiting };
        tokio::spawn(committer.run());
        tokio::spawn(hints::cry(Arc::clone(&connections), written));
        tokio::spawn(hints::listen(connections, told));
        opened.warn_of_indexes().await;
        Ok(opened)
    }

    /// Opens a store to look at it: no life begins in it, nothing is ever written, and a role that may read is enough.
    pub(super) async fn look(config: &PostgresConfig) -> Result<Self, PostgresError> {
        let connections = Arc::new(Connections::new(config.looking()));
        drop(connections.connect(None).await?);
        // Nobody is at the other end of either.
        let ((queue, _), (_, hints)) = (mpsc::channel(1), broadcast::channel(1));
        Ok(Self {
            connections,
            links: Arc::default(),
            marks: Arc::default(),
            me: Arc::default(),
            who: Mutex::default(),
            is_draining: AtomicBool::new(false),
            beats: Beats::default(),
            queue,
            hints: tokio::sync::Mutex::new(hints),
            is_closed: AtomicBool::new(false),
        })
    }

    /// The life in which it writes.
    fn me(&self) -> Incarnation {
        Incarnation(self.me.load(Ordering::SeqCst))
    }

    /// Whether it was opened to be looked at: no life of this process has begun in it.
    fn only_looks(&self) -> bool {
        self.me().0 == 0
    }

    fn check_open(&self) -> Result<(), Fault> {
        if self.is_closed.load(Ordering::SeqCst) {
            return Err(closed());
        }
        // What it acknowledged now could be lost, or could not be read by others (J2).
        match self.connections.unfit() {
            Some(why) => Err(Fault::Retriable(why)),
            None => self.connections.refuse_stuck(),
        }
    }
}

fn failed(error: tokio_postgres::Error) -> Fault {
    Lost::Error(error).into()
}

#[async_trait]
impl Journal for PostgresJournal {
    async fn append(&self, append: Append) -> Result<Appended, AppendError> {
        self.check_open()?;
        let (told, outcome) = oneshot::channel();
        let waiting = Waiting::new(Prepared::new(append)?, told);
        self.queue.send(waiting).await.map_err(|_| closed())?;
        outcome.await.map_err(|_| AppendError::from(closed()))?
    }

    async fn read(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        self.read_events(run, after, limit).await
    }

    async fn head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        self.read_head(run).await
    }

    async fn heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        self.read_heads(filter, cursor, limit).await
    }

    async fn session(&self, session: &SessionId) -> Result<Option<SessionRow>, Fault> {
        Ok(self.read_session(session).await?.map(|(row, _)| row))
    }

    async fn sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault> {
        self.read_sessions(owner, cursor, limit).await
    }

    async fn put_session(
        &self,
        knew: Option<SessionRow>,
        row: SessionRow,
    ) -> Result<(), AppendError> {
        self.check_open()?;
        self.write_session(knew, row).await
    }

    async fn key(&self, owner: &str, key: &str) -> Result<Option<KeyRow>, Fault> {
        let id = keys::idempotency(owner, key);
        let sql = "select body from holdpoint.keys where id = $1";
        let Some(row) = self.connections.ask_one(sql, &[(&id, Type::BYTEA)]).await? else {
            return Ok(None);
        };
        Ok(Some(codec::unseal_json(&id, get(&row, 0)?)?))
    }

    async fn key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        self.read_key_of(run).await
    }

    async fn waiting(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Head>, Fault> {
        self.read_waiting(cursor, limit).await
    }

    async fn waiting_on(
        &self,
        desks: &[Desk],
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        self.read_desks(desks, cursor, limit).await
    }

    async fn due(&self, now: Millis, limit: usize) -> Result<Vec<(Millis, RunId)>, Fault> {
        let sql =
            "select wake, run from holdpoint.runs where wake <= $1 order by wake, run limit $2";
        let params = [(&time(now) as _, Type::INT8), (&most(limit) as _, Type::INT8)];
        let rows = self.connections.ask(sql, &params).await?;
        rows.iter().map(|row| Ok((Millis(number(row, 0)?), run_of(row, 1)?))).collect()
    }

    async fn next_due(&self) -> Result<Option<Millis>, Fault> {
        let sql =
            "select wake from holdpoint.runs where wake is not null order by wake, run limit 1";
        let row = self.connections.ask_one(sql, &[]).await?;
        row.map(|row| number(&row, 0).map(Millis)).transpose()
    }

    async fn running(&self, cursor: Option<&str>, limit: usize) -> Result<Page<RunId>, Fault> {
        self.read_running(cursor, limit).await
    }

    async fn forks(&self, family: &RunId) -> Result<Vec<RunId>, Fault> {
        let Some(packed) = keys::pack(family) else { return Ok(Vec::new()) };
        let sql = "select holdpoint.family($1)";
        let row = self.connections.ask_one(sql, &[(&packed.to_vec(), Type::BYTEA)]).await?;
        let runs: Vec<Vec<u8>> = row.map_or_else(|| Ok(Vec::new()), |row| get(&row, 0))?;
        runs.iter().map(|run| unpacked(run)).collect()
    }

    fn incarnation(&self) -> Incarnation {
        self.me()
    }

    async fn take(
        &self,
        run: &RunId,
        from: Option<Incarnation>,
        expected: Version,
    ) -> Result<Fence, AppendError> {
        self.check_open()?;
        let (me, run) = (int(self.me().0), packed(run)?.to_vec());
        let (from, expected) = (from.map(|who| int(who.0)), int(expected));
        let sql = "select * from holdpoint.take($1, $2, $3, $4)";
        let params = [
            (&me as _, Type::INT8),
            (&run as _, Type::BYTEA),
            (&from as _, Type::INT8),
            (&expected as _, Type::INT8),
        ];
        let mut lent = self.connections.lend().await?;
        let rows = lent.query(sql, &params).await.map_err(Fault::from)?;
        let row = rows.first().ok_or_else(|| Fault::Permanent("nothing was taken".into()))?;
        let (said, told): (String, Option<i64>) = (get(row, 0)?, get(row, 1)?);
        match (said.as_str(), told) {
            ("ok", Some(fence)) => Ok(uint(fence)),
            ("moved", at) => Err(AppendError::Moved { at: uint(at.unwrap_or(0)) }),
            (_, by) => Err(AppendError::Held { by: by.map(|by| Incarnation(uint(by))) }),
        }
    }

    fn replicas(&self) -> Option<&dyn Replicas> {
        Some(self)
    }

    async fn put_definition(&self, digest: &str, json: &str) -> Result<(), Fault> {
        let body = codec::seal(&keys::definition(digest), json.as_bytes());
        let sql = "insert into holdpoint.definitions (digest, body) values ($1, $2) on conflict do nothing";
        let params = [(&digest.as_bytes() as _, Type::BYTEA), (&body as _, Type::BYTEA)];
        self.connections.ask(sql, &params).await.map(drop)
    }

    async fn definition(&self, digest: &str) -> Result<Option<String>, Fault> {
        let sql = "select body from holdpoint.definitions where digest = $1";
        let row = self.connections.ask_one(sql, &[(&digest.as_bytes(), Type::BYTEA)]).await?;
        row.map(|row| audit::definition(digest, get(&row, 0)?)).transpose()
    }

    async fn outbox_entries(&self, now: Millis, limit: usize) -> Result<Vec<OutboxEntry>, Fault> {
        let sql = format!(
            "select {OUTBOX_ENTRY} from holdpoint.outbox where due <= $1 order by due, run, lane limit $2"
        );
        let params = [(&time(now) as _, Type::INT8), (&most(limit) as _, Type::INT8)];
        reader::outbox_entries(&self.connections.ask(&sql, &params).await?)
    }

    async fn next_outbox_entry(&self) -> Result<Option<Millis>, Fault> {
        let sql = "select due from holdpoint.outbox order by due limit 1";
        let row = self.connections.ask_one(sql, &[]).await?;
        row.map(|row| number(&row, 0).map(Millis)).transpose()
    }

    async fn settle(&self, run: &RunId, channel: &str, outcome: Settlement) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        let (key, channel, me) = (packed.to_vec(), channel.as_bytes(), int(self.me().0));
        let mut lent = self.connections.lend().await?;
        let transaction = lent.begin().await?;
        // Of one that somebody else took when our time was over, what becomes of it is theirs to say.
        let sql = format!(
            "select {OUTBOX_ENTRY} from holdpoint.outbox
             where run = $1 and lane = $2 and (held_by is null or held_by = $3) for update"
        );
        let place = [(&key as _, Type::BYTEA), (&channel as _, Type::BYTEA)];
        let params = [place[0].clone(), place[1].clone(), (&me as _, Type::INT8)];
        let rows = transaction.query_typed(&sql, &params).await.map_err(failed)?;
        let Some(outbox_entry) = reader::outbox_entries(&rows)?.pop() else { return Ok(()) };
        match outbox_entry.settled(&outcome) {
            None => {
                let sql = "delete from holdpoint.outbox where run = $1 and lane = $2";
                transaction.execute_typed(sql, &place).await.map_err(failed)?;
            }
            Some(left) => {
                let sql =
                    "update holdpoint.outbox set after = $3, due = $4, tries = $5, problem = $6,
                    held_by = null, held_until = null where run = $1 and lane = $2";
                let params = [
                    place[0].clone(),
                    place[1].clone(),
                    (&int(left.after) as _, Type::INT8),
                    (&time(left.due) as _, Type::INT8),
                    (&i64::from(left.tries) as _, Type::INT8),
                    (&left.problem.as_bytes() as _, Type::BYTEA),
                ];
                transaction.execute_typed(sql, &params).await.map_err(failed)?;
            }
        }
        transaction.commit().await.map_err(failed)
    }

    async fn put_hook(&self, hook: &HookRow) -> Result<(), Fault> {
        outbox_entries::check_hook(hook)?;
        let packed = packed(&hook.run)?;
        let body = codec::seal_json(&keys::hook(&packed, &hook.hook.id), hook)?;
        // Whoever appends meanwhile is through before, or is told that somebody listens.
        let sql = "with put as (insert into holdpoint.hooks (run, id, body) values ($1, $2, $3)
              on conflict (run, id) do update set body = excluded.body)
            update holdpoint.runs set hooks = hooks + 1 where run = $1";
        let params = [
            (&packed.to_vec() as _, Type::BYTEA),
            (&hook.hook.id.as_bytes() as _, Type::BYTEA),
            (&body as _, Type::BYTEA),
        ];
        self.connections.ask(sql, &params).await.map(drop)
    }

    async fn hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        if self.only_looks() {
            // Whoever drives nothing tells nobody, and the credentials of listeners are not theirs to read.
            return Ok(Vec::new());
        }
        self.read_hooks(run).await
    }

    async fn remove_hook(&self, run: &RunId, id: &str) -> Result<(), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(()) };
        let channel = outbox_entries::channel_of(id);
        let sql = "with gone as (delete from holdpoint.hooks where run = $1 and id = $2),
            owed as (delete from holdpoint.outbox where run = $1 and lane = $3)
            update holdpoint.runs set hooks = hooks + 1 where run = $1";
        let params = [
            (&packed.to_vec() as _, Type::BYTEA),
            (&id.as_bytes() as _, Type::BYTEA),
            (&channel.as_bytes() as _, Type::BYTEA),
        ];
        self.connections.ask(sql, &params).await.map(drop)
    }

    async fn prune(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        self.check_open()?;
        self.forget(before, limit).await
    }

    async fn note(&self, noting: Noting) -> Result<u64, Fault> {
        self.check_open()?;
        self.write_note(noting).await
    }

    async fn notes(&self, cursor: Option<&str>, limit: usize) -> Result<Page<Logged>, Fault> {
        self.read_notes(cursor, limit).await
    }

    async fn remember(&self, name: &str, text: &str) -> Result<(), Fault> {
        self.check_open()?;
        let body = codec::seal(&keys::keepsake(name), text.as_bytes());
        let sql = "with m as (update holdpoint.marks set mark = greatest(mark, $4) where incarnation = $3 and lane = 1)
            insert into holdpoint.kept (name, body) values ($1, $2)
            on conflict (name) do update set body = excluded.body";
        let (me, mark) = (self.me(), self.marks.draw(Lane::Beats));
        let params = [
            (&keepsake(name) as _, Type::TEXT),
            (&body as _, Type::BYTEA),
            (&int(me.0) as _, Type::INT8),
            (&mark as _, Type::INT8),
        ];
        self.connections.ask(sql, &params).await?;
        self.left(me, mark);
        Ok(())
    }

    async fn remembered(&self, name: &str) -> Result<Option<String>, Fault> {
        let sql = "select holdpoint.kept_as($1)";
        let row = self.connections.ask_one(sql, &[(&keepsake(name), Type::TEXT)]).await?;
        let body = row.as_ref().map(|row| get::<Option<&[u8]>>(row, 0)).transpose()?.flatten();
        body.map(|body| unsealed(name, body)).transpose()
    }

    async fn verify(&self) -> Result<StoreReport, Fault> {
        self.look_at_everything().await
    }

    fn evidence(&self) -> &dyn Evidence {
        self
    }

    fn is_healthy(&self) -> bool {
        !self.is_closed.load(Ordering::SeqCst)
    }

    fn away(&self) -> Option<String> {
        self.connections.away()
    }

    async fn close(&self) {
        if self.is_closed.swap(true, Ordering::SeqCst) {
            return;
        }
        // Whoever only looked has held nothing. Where it cannot be told, others find out in their time.
        if !self.only_looks()
            && let Err(error) = self.let_go().await
        {
            tracing::warn!(%error, "what this process held was not given back; others take it in seconds");
        }
        self.connections.close();
    }
}
