//! Adopt: puts a store that comes from elsewhere into a database, record by record. While it does so the store there is
//! nobody's: what it is said to be refuses whoever would serve it. What is put, and when it is over, is said by the move.

use std::time::Duration;

use tokio_postgres::types::Type;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::Leaf;
use crate::kernel::evidence::tree::{Frontier, leaf_hash};
use crate::ports::Fault;
use crate::ports::identity::{self, Identity};
use crate::store::codec;
use crate::store::copies::{Place, Record, RunCopy};
use crate::store::keys::{self, Packed};
use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::connections::{Connections, Line, Param};
use crate::store::postgres::copied_columns::{RecordColumns, RunColumns, unplaced};
use crate::store::postgres::desk_marks;
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::faults::{fault, unread};
use crate::store::postgres::prepared::{int, uint};
use crate::store::postgres::replicas::keepsake;
use crate::store::postgres::schema;

/// How long one step may take: a large batch, on a server that has much else to do.
const PATIENCE: Duration = Duration::from_mins(2);
/// What a store is made of, beside who lives and what the tables are.
const TABLES: [&str; 14] = [
    "runs",
    "desks",
    "entries",
    "sessions",
    "keys",
    "definitions",
    "hooks",
    "outbox",
    "guards",
    "log",
    "kept",
    "pending",
    "leaves",
    "nodes",
];

/// A database that takes a store in.
#[derive(Debug)]
pub(in crate::store) struct Adopter {
    line: Line,
    /// What the store is said to be while things are put there.
    mark: Vec<u8>,
}

const BYTES: Type = Type::BYTEA_ARRAY;
const LONGS: Type = Type::INT8_ARRAY;

impl Adopter {
    /// Reaches a database; tables that are made for it say from the first moment that they are half a store.
    pub(in crate::store) async fn reach(
        config: &PostgresConfig,
        mark: Option<&Identity>,
    ) -> Result<Self, PostgresError> {
        let connections = Connections::new(config.clone());
        let mut line = connections.reach().await?;
        let text = mark.map(Identity::text).transpose().map_err(|fault| PostgresError::Says {
            place: config.place(),
            why: fault.to_string(),
            passes: false,
        })?;
        let seal = |text: String| codec::seal(&keys::keepsake(identity::NAME), text.as_bytes());
        let first = text.map(|text| (keepsake(identity::NAME), seal(text)));
        schema::migrate_as(config, &mut line.client, first).await?;
        Ok(Self { line, mark: Vec::new() })
    }

    async fn tell(&self, sql: &str, params: &[Param<'_>]) -> Result<u64, Fault> {
        let told =
            tokio::time::timeout(PATIENCE, self.line.client.execute_typed(sql, params)).await;
        let told = told.map_err(|_| late())?;
        told.map_err(|error| fault(&error))
    }

    async fn batch(&self, sql: &str) -> Result<(), Fault> {
        let told = tokio::time::timeout(PATIENCE, self.line.client.batch_execute(sql)).await;
        told.map_err(|_| late())?.map_err(|error| fault(&error))
    }

    async fn ask(&self, sql: &str) -> Result<tokio_postgres::Row, Fault> {
        let asked =
            tokio::time::timeout(PATIENCE, self.line.client.query_typed_one(sql, &[])).await;
        asked.map_err(|_| late())?.map_err(|error| fault(&error))
    }

    /// What the store there says it is.
    pub(in crate::store) async fn identity(&self) -> Result<Option<Identity>, Fault> {
        let sql = "select body from holdpoint.kept where name = $1";
        let name = keepsake(identity::NAME);
        let rows = self.line.client.query_typed(sql, &[(&name, Type::TEXT)]).await;
        let rows = rows.map_err(|error| fault(&error))?;
        let Some(row) = rows.first() else { return Ok(None) };
        let body: &[u8] = row.try_get(0).map_err(|error| unread(&error))?;
        let bytes = codec::unseal(&keys::keepsake(identity::NAME), body)?;
        Identity::read(&String::from_utf8_lossy(bytes)).map(Some)
    }

    /// Whether there is anything of a store there.
    pub(in crate::store) async fn is_empty(&self) -> Result<bool, Fault> {
        let has = TABLES.iter().filter(|table| **table != "kept");
        let has: Vec<_> =
            has.map(|table| format!("exists (select from holdpoint.{table})")).collect();
        let row = self.ask(&format!("select {}", has.join(" or "))).await?;
        let has: bool = row.try_get(0).map_err(|error| unread(&error))?;
        Ok(!has)
    }

    /// Takes away whatever an earlier move left, and says that a move is under way, where the database is free; whether it
    /// was. What is there is looked at where nobody can change it any more: another move may have come to its end, and
    /// servers may work on it, since it was last looked at.
    pub(in crate::store) async fn begin(
        &mut self,
        mark: &Identity,
        is_free: impl Fn(Option<&Identity>, bool) -> bool + Send,
    ) -> Result<bool, Fault> {
        self.batch("begin; lock table holdpoint.kept, holdpoint.runs in exclusive mode").await?;
        let (known, is_empty) = (self.identity().await?, self.is_empty().await?);
        if !is_free(known.as_ref(), is_empty) {
            self.batch("rollback").await?;
            return Ok(false);
        }
        let gone: Vec<_> =
            TABLES.iter().map(|table| format!("delete from holdpoint.{table}")).collect();
        let gone = gone.join(";");
        self.batch(&format!(
            "{gone}; insert into holdpoint.kept (name) values ('mlog'), ('mtree')"
        ))
        .await?;
        self.keep_identity(mark).await?;
        self.mark = sealed(mark)?;
        self.batch("commit").await?;
        Ok(true)
    }

    /// Has the store there keep something that stood beside the one that moves.
    pub(in crate::store) async fn put_keepsake(&self, name: &str, text: &str) -> Result<(), Fault> {
        self.step().await?;
        self.keep(name, text).await?;
        self.batch("commit").await
    }

    /// Has the store there keep something under a name.
    async fn keep(&self, name: &str, text: &str) -> Result<(), Fault> {
        let body = codec::seal(&keys::keepsake(name), text.as_bytes());
        let sql = "insert into holdpoint.kept (name, body) values ($1, $2)
            on conflict (name) do update set body = excluded.body";
        let params = [(&keepsake(name) as _, Type::TEXT), (&body as _, Type::BYTEA)];
        self.tell(sql, &params).await.map(drop)
    }

    async fn keep_identity(&self, identity: &Identity) -> Result<(), Fault> {
        self.keep(identity::NAME, &identity.text()?).await
    }

    /// Says what the store is from now on, if it is still what it was said to be: of two moves, one goes on. Durable
    /// when this returns, and with it everything that was put before.
    pub(in crate::store) async fn turn(
        &self,
        from: &Identity,
        to: &Identity,
    ) -> Result<bool, Fault> {
        let (from, to) = (sealed(from)?, sealed(to)?);
        let name = keepsake(identity::NAME);
        let sql = "update holdpoint.kept set body = $2 where name = $1 and body = $3";
        let params = [(&name as _, Type::TEXT), (&to as _, Type::BYTEA), (&from as _, Type::BYTEA)];
        Ok(self.tell(sql, &params).await? > 0)
    }

    /// Begins a step that need not be durable by itself: the last one is, and what was before it with it. Nothing is put
    /// where another move has begun since.
    async fn step(&self) -> Result<(), Fault> {
        self.batch("begin; set local synchronous_commit = off").await?;
        let sql = "select from holdpoint.kept where name = $1 and body = $2 for share";
        let name = keepsake(identity::NAME);
        let params = [(&name as _, Type::TEXT), (&self.mark as _, Type::BYTEA)];
        if self.tell(sql, &params).await? == 0 {
            self.batch("rollback").await?;
            return Err(Fault::Permanent("another move into this database came between".into()));
        }
        Ok(())
    }

    /// Puts runs as they now are, and takes away those that are no more.
    pub(in crate::store) async fn put_runs(
        &self,
        copies: &[RunCopy],
        gone: &[Packed],
    ) -> Result<(), Fault> {
        let rows = RunColumns::of(copies)?;
        self.step().await?;
        let sql = "insert into holdpoint.runs (run, version, link, holder, fence, session, owner, workflow, status,
              updated, wake, deadline, since, family, head, desks)
            select run, version, link, null, 0, session, owner, workflow, status, updated, wake, deadline, since,
              family, head, desks
            from unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[], $5::bytea[], $6::bytea[], $7::text[],
              $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bytea[], $13::bytea[], $14::bytea[])
              as t (run, version, link, session, owner, workflow, status, updated, wake, deadline, since, family, head,
                desks)
            on conflict (run) do update set version = excluded.version, link = excluded.link,
              session = excluded.session, owner = excluded.owner, workflow = excluded.workflow,
              status = excluded.status, updated = excluded.updated, wake = excluded.wake,
              deadline = excluded.deadline, since = excluded.since, family = excluded.family, head = excluded.head,
              desks = excluded.desks";
        let params = [
            (&rows.run as _, BYTES),
            (&rows.version as _, LONGS),
            (&rows.link as _, BYTES),
            (&rows.session as _, BYTES),
            (&rows.owner as _, BYTES),
            (&rows.workflow as _, BYTES),
            (&rows.status as _, Type::TEXT_ARRAY),
            (&rows.updated as _, LONGS),
            (&rows.wake as _, LONGS),
            (&rows.deadline as _, LONGS),
            (&rows.since as _, LONGS),
            (&rows.family as _, BYTES),
            (&rows.head as _, BYTES),
            (&rows.desks as _, BYTES),
        ];
        self.tell(sql, &params).await?;
        let lain = "delete from holdpoint.desks where run = any($1)";
        self.tell(lain, &[(&rows.run, BYTES)]).await?;
        self.tell(&desk_marks::laying_some_out(), &[(&rows.run, BYTES)]).await?;
        let sql = "insert into holdpoint.entries (run, last, first, body)
            select * from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bytea[]) on conflict do nothing";
        let (run, last, first, body) = &rows.entries;
        let params =
            [(run as _, BYTES), (last as _, LONGS), (first as _, LONGS), (body as _, BYTES)];
        self.tell(sql, &params).await?;
        let sql = "insert into holdpoint.keys (id, run, said, body)
            select * from unnest($1::bytea[], $2::bytea[], $3::bytea[], $4::bytea[])
            on conflict (id) do update set run = excluded.run, said = excluded.said, body = excluded.body";
        let (id, run, said, body) = &rows.keys;
        let params = [(id as _, BYTES), (run as _, BYTES), (said as _, BYTES), (body as _, BYTES)];
        self.tell_any(rows.keys.0.len(), sql, &params).await?;
        self.put_listeners(&rows).await?;
        if !gone.is_empty() {
            let gone: Vec<_> = gone.iter().map(|run| run.to_vec()).collect();
            for table in ["runs", "desks", "entries", "keys", "hooks", "outbox"] {
                let sql = format!("delete from holdpoint.{table} where run = any($1)");
                self.tell(&sql, &[(&gone, BYTES)]).await?;
            }
        }
        self.batch("commit").await
    }

    /// Listeners, and what they are owed: all of a run's, in the place of what was there.
    async fn put_listeners(&self, rows: &RunColumns) -> Result<(), Fault> {
        for table in ["hooks", "outbox"] {
            let sql = format!("delete from holdpoint.{table} where run = any($1)");
            self.tell(&sql, &[(&rows.run, BYTES)]).await?;
        }
        let sql = "insert into holdpoint.hooks (run, id, body)
            select * from unnest($1::bytea[], $2::bytea[], $3::bytea[])";
        let (run, id, body) = &rows.hooks;
        self.tell_any(run.len(), sql, &[(run, BYTES), (id, BYTES), (body, BYTES)]).await?;
        let sql = "insert into holdpoint.outbox (run, lane, after, tip, due, tries, problem)
            select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[],
              $7::bytea[])";
        let (run, lane, after, tip, due, tries, problem) = &rows.outbox;
        let params = [
            (run as _, BYTES),
            (lane as _, BYTES),
            (after as _, LONGS),
            (tip as _, LONGS),
            (due as _, LONGS),
            (tries as _, LONGS),
            (problem as _, BYTES),
        ];
        self.tell_any(run.len(), sql, &params).await
    }

    /// Puts what lies at places that are no run's; takes away what does so no more.
    pub(in crate::store) async fn put_records(
        &self,
        records: &[(Place, Option<Record>)],
    ) -> Result<(), Fault> {
        let records = RecordColumns::of(records)?;
        self.step().await?;
        let (digest, body) = &records.definitions;
        let sql = "insert into holdpoint.definitions (digest, body)
            select * from unnest($1::bytea[], $2::bytea[]) on conflict do nothing";
        self.tell_any(digest.len(), sql, &[(digest, BYTES), (body, BYTES)]).await?;
        let (session, owner, body) = &records.sessions;
        let sql = "insert into holdpoint.sessions (session, owner, body)
            select * from unnest($1::bytea[], $2::bytea[], $3::bytea[])
            on conflict (session) do update set owner = excluded.owner, body = excluded.body";
        let params = [(session as _, BYTES), (owner as _, BYTES), (body as _, BYTES)];
        self.tell_any(session.len(), sql, &params).await?;
        let gone = &records.sessions_gone;
        let sql = "delete from holdpoint.sessions where session = any($1)";
        self.tell_any(gone.len(), sql, &[(gone, BYTES)]).await?;
        let (lane, index, body) = &records.log;
        let sql = "insert into holdpoint.log (lane, index, body)
            select * from unnest($1::smallint[], $2::bigint[], $3::bytea[])
            on conflict (lane, index) do update set body = excluded.body";
        let params = [(lane as _, Type::INT2_ARRAY), (index as _, LONGS), (body as _, BYTES)];
        self.tell_any(lane.len(), sql, &params).await?;
        let (lane, index) = &records.log_gone;
        let sql = "delete from holdpoint.log where (lane, index) in
            (select * from unnest($1::smallint[], $2::bigint[]))";
        self.tell_any(lane.len(), sql, &[(lane, Type::INT2_ARRAY), (index, LONGS)]).await?;
        let (name, body) = &records.kept;
        let sql =
            "insert into holdpoint.kept (name, body) select * from unnest($1::text[], $2::bytea[])
            on conflict (name) do update set body = excluded.body";
        self.tell_any(name.len(), sql, &[(name, Type::TEXT_ARRAY), (body, BYTES)]).await?;
        self.batch("commit").await
    }

    /// The same as `tell`, where there are any rows: a statement for none costs a round trip, too.
    async fn tell_any(&self, rows: usize, sql: &str, params: &[Param<'_>]) -> Result<(), Fault> {
        if rows == 0 { Ok(()) } else { self.tell(sql, params).await.map(drop) }
    }

    /// Puts leaves that have their places, which go on from `edge`.
    pub(in crate::store) async fn put_leaves(
        &self,
        texts: &[String],
        edge: &mut Frontier,
    ) -> Result<(), Fault> {
        let (mut indexes, mut places, mut bodies) = (Vec::new(), Vec::new(), Vec::new());
        let (mut levels, mut of_level, mut hashes) = (Vec::new(), Vec::new(), Vec::new());
        for text in texts {
            let leaf = Leaf::parse(text);
            let leaf = leaf.ok_or_else(|| Fault::Corrupt("a leaf cannot be read".into()))?;
            let place = keys::leaf_place(keys::PENDING, &leaf.place());
            let index = edge.size();
            edge.push(leaf_hash(text.as_bytes()), |level, index, hash| {
                levels.push(i16::from(level));
                of_level.push(int(index));
                hashes.push(codec::seal(&keys::node(level, index), &hash.0));
            });
            indexes.push(int(index));
            places.push(place.ok_or_else(|| unplaced("the log of leaves"))?);
            bodies.push(codec::seal(&keys::leaf(index), text.as_bytes()));
        }
        self.step().await?;
        let sql = "insert into holdpoint.leaves (index, place, body)
            select * from unnest($1::bigint[], $2::bytea[], $3::bytea[])";
        self.tell(sql, &[(&indexes, LONGS), (&places, BYTES), (&bodies, BYTES)]).await?;
        let sql = "insert into holdpoint.nodes (level, index, body)
            select * from unnest($1::smallint[], $2::bigint[], $3::bytea[])";
        let params =
            [(&levels as _, Type::INT2_ARRAY), (&of_level as _, LONGS), (&hashes as _, BYTES)];
        self.tell(sql, &params).await?;
        self.batch("commit").await
    }

    /// Puts the leaves that wait, in the place of those that did.
    pub(in crate::store) async fn put_waiting(
        &self,
        waiting: &[(Place, String)],
    ) -> Result<(), Fault> {
        let places: Vec<_> = waiting.iter().map(|(place, _)| place.clone()).collect();
        let bodies = waiting.iter().map(|(place, text)| codec::seal(place, text.as_bytes()));
        let bodies: Vec<_> = bodies.collect();
        self.step().await?;
        self.tell("delete from holdpoint.pending", &[]).await?;
        let sql = "insert into holdpoint.pending (place, body) select * from unnest($1::bytea[], $2::bytea[])";
        self.tell(sql, &[(&places, BYTES), (&bodies, BYTES)]).await?;
        self.batch("commit").await
    }

    /// What is there, counted and hashed: runs, events, leaves, and where every run stands.
    pub(in crate::store) async fn sum(&self) -> Result<Sum, Fault> {
        let row = self
            .ask("select count(*), coalesce(sum(version), 0)::bigint,
                (select count(*) from holdpoint.leaves),
                (select coalesce(sum(last - first + 1), 0)::bigint from holdpoint.entries),
                coalesce(sha256(string_agg(run || int8send(version) || link, ''::bytea order by run)), sha256(''))
                from holdpoint.runs")
            .await?;
        let number =
            |at: usize| row.try_get::<_, i64>(at).map(uint).map_err(|error| unread(&error));
        let hash: &[u8] = row.try_get(4).map_err(|error| unread(&error))?;
        let standings = Hash::read(hash).unwrap_or_default();
        Ok(Sum {
            runs: number(0)?,
            events: number(1)?,
            leaves: number(2)?,
            recorded: number(3)?,
            standings,
        })
    }
}

/// What is in a store, counted and hashed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::store) struct Sum {
    pub(in crate::store) runs: u64,
    /// Events, as the heads have it.
    pub(in crate::store) events: u64,
    pub(in crate::store) leaves: u64,
    /// Events, as the journals have it.
    pub(in crate::store) recorded: u64,
    pub(in crate::store) standings: Hash,
}

/// An identity as a store keeps it.
fn sealed(identity: &Identity) -> Result<Vec<u8>, Fault> {
    Ok(codec::seal(&keys::keepsake(identity::NAME), identity.text()?.as_bytes()))
}

fn late() -> Fault {
    Fault::Retriable("the database takes too long to answer".into())
}
