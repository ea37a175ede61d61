//! Evidence of a store on PostgreSQL: its appends as they were hashed, and its log of leaves, for whoever checks them
//! (J13). It reads, and gives leaves their places; what is found is not judged here.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};

use async_trait::async_trait;
use tokio_postgres::Transaction;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::kernel::evidence::leaf::{Leaf, Place};
use crate::kernel::evidence::tree::{self, Frontier, TreeHead, leaf_hash};
use crate::kernel::evidence::walk::Entry;
use crate::kernel::evidence::{Hash, chain};
use crate::kernel::{RunId, Version};
use crate::ports::Fault;
use crate::ports::evidence::{Evidence, Lain, LogEntry, Sequenced};
use crate::ports::log::Lane;
use crate::store::audit::{Audit, count};
use crate::store::codec;
use crate::store::keys;
use crate::store::log::ChainedNote;
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::Lost;
use crate::store::postgres::notes::lane_number;
use crate::store::postgres::prepared::{int, uint};
use crate::store::postgres::reader::{get, most, number};

/// The name under which the right edge of the log of leaves is kept.
const TREE: &str = "mtree";

/// The right edge of the log; its beginning where nothing is kept yet.
fn frontier(body: Option<&[u8]>) -> Result<Frontier, Fault> {
    let Some(body) = body else { return Ok(Frontier::default()) };
    let bytes = codec::unseal(keys::TREE, body)?;
    let edge = bytes.split_first_chunk::<8>().and_then(|(size, peaks)| {
        let peaks = peaks.chunks(32).map(Hash::read).collect::<Option<_>>()?;
        Frontier::read(u64::from_be_bytes(*size), peaks)
    });
    edge.ok_or_else(|| Fault::Corrupt("the edge of the log of leaves cannot be read".into()))
}

/// It was made with the tables: a log without an end would be read as one without leaves.
fn endless() -> Fault {
    Fault::Corrupt("the row that says where the log of leaves ends is gone".into())
}

/// Looks for leaves that lie where the log is said to have ended: whoever reads it does not come upon them.
pub(super) async fn look_beyond(moment: &Transaction<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let failed = |error: tokio_postgres::Error| Fault::from(Lost::Error(error));
    let sql = "select body from holdpoint.kept where name = $1";
    let row = moment.query_typed_opt(sql, &[(&TREE, Type::TEXT)]).await.map_err(failed)?;
    let edge = row.ok_or_else(endless).and_then(|row| frontier(get(&row, 0)?));
    let size = match edge {
        Ok(edge) => edge.size(),
        Err(what) => {
            audit.damage(what.to_string());
            0
        }
    };
    let sql = "select count(*) from holdpoint.leaves where index >= $1";
    let row = moment.query_typed_one(sql, &[(&int(size), Type::INT8)]).await.map_err(failed)?;
    let beyond = number(&row, 0)?;
    if beyond > 0 {
        audit.damage(format!(
            "the log of leaves is said to end at {size}, and {beyond} leaves lie beyond that"
        ));
    }
    Ok(())
}

fn sealed(frontier: &Frontier) -> Vec<u8> {
    let mut bytes = frontier.size().to_be_bytes().to_vec();
    frontier.peaks().iter().for_each(|peak| bytes.extend_from_slice(&peak.0));
    codec::seal(keys::TREE, &bytes)
}

/// The text of a leaf, under the place that it waits at or lies at.
fn text(place: &[u8], body: &[u8]) -> Result<String, Fault> {
    let bytes = codec::unseal(place, body)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Fault::Corrupt("a leaf is not text".into()))
}

fn leaf_of(text: &str) -> Result<Leaf, Fault> {
    Leaf::parse(text).ok_or_else(|| Fault::Corrupt("a leaf cannot be read".into()))
}

/// What giving leaves their places writes.
#[derive(Default)]
struct Grown {
    places: Vec<Vec<u8>>,
    indexes: Vec<i64>,
    bodies: Vec<Vec<u8>>,
    levels: Vec<i16>,
    of_level: Vec<i64>,
    hashes: Vec<Vec<u8>>,
}

impl PostgresJournal {
    async fn edge(&self) -> Result<Frontier, Fault> {
        let sql = "select body from holdpoint.kept where name = $1";
        let row = self.connections.ask_one(sql, &[(&TREE, Type::TEXT)]).await?;
        frontier(get(&row.ok_or_else(endless)?, 0)?)
    }

    /// Hashes of whole subtrees, as many as `ask` looks at: it is asked once to learn which, and once with them.
    async fn over_nodes<T>(
        &self,
        ask: impl Fn(&dyn Fn(u8, u64) -> Result<Hash, Fault>) -> Result<T, Fault> + Send,
    ) -> Result<T, Fault> {
        let wanted = {
            let wanted = RefCell::new(BTreeSet::new());
            ask(&|level, index| {
                wanted.borrow_mut().insert((level, index));
                Ok(chain::GENESIS)
            })?;
            wanted.into_inner()
        };
        let mut known = HashMap::new();
        // Of the lowest level the leaves themselves are kept.
        let (leaves, wanted): (Vec<_>, Vec<_>) =
            wanted.into_iter().partition(|(level, _)| *level == 0);
        let leaves: Vec<_> = leaves.into_iter().map(|(_, index)| int(index)).collect();
        if !leaves.is_empty() {
            let sql = "select index, body from holdpoint.leaves where index = any($1)";
            for row in self.connections.ask(sql, &[(&leaves, Type::INT8_ARRAY)]).await? {
                let index = number(&row, 0)?;
                let text = text(&keys::leaf(index), get(&row, 1)?)?;
                known.insert((0, index), leaf_hash(text.as_bytes()));
            }
        }
        let (levels, indexes): (Vec<_>, Vec<_>) =
            wanted.iter().map(|(level, index)| (i16::from(*level), int(*index))).unzip();
        let sql = "select n.level, n.index, n.body from holdpoint.nodes n
            join unnest($1::smallint[], $2::bigint[]) as w (level, index)
              on n.level = w.level and n.index = w.index";
        let params = [(&levels as _, Type::INT2_ARRAY), (&indexes as _, Type::INT8_ARRAY)];
        for row in self.connections.ask(sql, &params).await? {
            let level = u8::try_from(get::<i16>(&row, 0)?).unwrap_or(u8::MAX);
            let (index, body): (u64, &[u8]) = (number(&row, 1)?, get(&row, 2)?);
            let hash = Hash::read(codec::unseal(&keys::node(level, index), body)?);
            let hash = hash.ok_or_else(|| Fault::Corrupt("a hash of the log is none".into()))?;
            known.insert((level, index), hash);
        }
        ask(&|level, index| {
            let hash = known.get(&(level, index)).copied();
            hash.ok_or_else(|| Fault::Corrupt("a hash of the log is missing".into()))
        })
    }
}

#[async_trait]
impl Evidence for PostgresJournal {
    async fn entries(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Entry>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(Vec::new()) };
        let sql = "select first, body from holdpoint.entries
            where run = $1 and last > $2 and first > $2 order by last limit $3";
        let (key, after, limit) = (packed.to_vec(), int(after), most(limit));
        let params =
            [(&key as _, Type::BYTEA), (&after as _, Type::INT8), (&limit as _, Type::INT8)];
        let rows = self.connections.ask(sql, &params).await?;
        let entries = rows.iter().map(|row| {
            let (version, body): (u64, &[u8]) = (number(row, 0)?, get(row, 1)?);
            let bad =
                |what: String| Fault::Corrupt(format!("run `{run}` at version {version}: {what}"));
            let (prev, payload, secrets) =
                codec::unseal_apart(&keys::entry(&packed, version), body)
                    .map_err(|unread| bad(unread.to_string()))?;
            let payload =
                String::from_utf8(payload.to_vec()).map_err(|_| bad("it is not text".into()))?;
            Ok(Entry { version, prev, payload, secrets })
        });
        entries.collect()
    }

    async fn first_of(&self, run: &RunId, version: Version) -> Result<Option<Version>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(None) };
        let sql = "select first from holdpoint.entries
            where run = $1 and last >= $2 and first <= $2 order by last limit 1";
        let (key, version) = (packed.to_vec(), int(version));
        let params = [(&key as _, Type::BYTEA), (&version as _, Type::INT8)];
        let row = self.connections.ask_one(sql, &params).await?;
        row.map(|row| number(&row, 0)).transpose()
    }

    async fn link(&self, run: &RunId) -> Result<Option<Hash>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(None) };
        let sql = "select run, head from holdpoint.runs where run = $1";
        let key = packed.to_vec();
        let row = self.connections.ask_one(sql, &[(&key, Type::BYTEA)]).await?;
        let Some(row) = row else { return Ok(None) };
        Ok(crate::store::postgres::reader::head(&row, 0)?.1)
    }

    async fn sequence(&self, most_of_them: usize) -> Result<Sequenced, Fault> {
        let mut lent = self.connections.lend().await?;
        let outcome = async {
            let failed = |error: tokio_postgres::Error| Fault::from(Lost::Error(error));
            let transaction = lent.begin().await?;
            // One at a time: whoever comes second is told to try again.
            let sql = "select body from holdpoint.kept where name = $1 for update nowait";
            let row = transaction.query_typed_one(sql, &[(&TREE, Type::TEXT)]).await;
            let row = row.map_err(|error| match error.code() {
                Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    Fault::Retriable("another server gives leaves their places".into())
                }
                Some(_) | None => failed(error),
            })?;
            let mut edge = frontier(get(&row, 0)?)?;
            let sql = "select place, body from holdpoint.pending order by place limit $1";
            let limit = most(most_of_them);
            let rows = transaction.query_typed(sql, &[(&limit, Type::INT8)]).await;
            let rows = rows.map_err(failed)?;
            let added = rows.len();
            if added == 0 {
                return Ok(Sequenced { head: edge.head(), added });
            }
            let mut grown = Grown::default();
            for row in &rows {
                let (place, body): (Vec<u8>, &[u8]) = (get(row, 0)?, get(row, 1)?);
                let text = text(&place, body)?;
                let index = edge.size();
                edge.push(leaf_hash(text.as_bytes()), |level, index, hash| {
                    grown.levels.push(i16::from(level));
                    grown.of_level.push(int(index));
                    grown.hashes.push(codec::seal(&keys::node(level, index), &hash.0));
                });
                grown.bodies.push(codec::seal(&keys::leaf(index), text.as_bytes()));
                grown.indexes.push(int(index));
                grown.places.push(place);
            }
            let sql = "with gone as (delete from holdpoint.pending where place = any($1)),
                kept as (update holdpoint.kept set body = $7 where name = 'mtree'),
                nodes as (insert into holdpoint.nodes (level, index, body)
                  select * from unnest($4::smallint[], $5::bigint[], $6::bytea[]))
                insert into holdpoint.leaves (index, place, body)
                  select i, p, b from unnest($1::bytea[], $2::bigint[], $3::bytea[]) as t (p, i, b)";
            let edge_body = sealed(&edge);
            let params = [
                (&grown.places as _, Type::BYTEA_ARRAY),
                (&grown.indexes as _, Type::INT8_ARRAY),
                (&grown.bodies as _, Type::BYTEA_ARRAY),
                (&grown.levels as _, Type::INT2_ARRAY),
                (&grown.of_level as _, Type::INT8_ARRAY),
                (&grown.hashes as _, Type::BYTEA_ARRAY),
                (&edge_body as _, Type::BYTEA),
            ];
            transaction.execute_typed(sql, &params).await.map_err(failed)?;
            transaction.commit().await.map_err(failed)?;
            Ok(Sequenced { head: edge.head(), added })
        };
        outcome.await
    }

    async fn tree(&self) -> Result<TreeHead, Fault> {
        Ok(self.edge().await?.head())
    }

    async fn root(&self, size: u64) -> Result<Option<Hash>, Fault> {
        if size > self.edge().await?.size() {
            return Ok(None);
        }
        self.over_nodes(|node| tree::root(size, &|level, index| node(level, index))).await.map(Some)
    }

    async fn leaf(&self, place: &Place) -> Result<Option<Lain>, Fault> {
        let Some(at) = keys::leaf_place(keys::PENDING, place) else { return Ok(None) };
        // Waiting or lain, as one look has it: in between it is neither here nor there for two.
        let sql = "select null::bigint, body from holdpoint.pending where place = $1
            union all select index, body from holdpoint.leaves where place = $1";
        let Some(row) = self.connections.ask_one(sql, &[(&at, Type::BYTEA)]).await? else {
            return Ok(None);
        };
        let (index, body): (Option<i64>, &[u8]) = (get(&row, 0)?, get(&row, 1)?);
        let index = index.map(uint);
        let text = match index {
            Some(index) => text(&keys::leaf(index), body)?,
            None => text(&at, body)?,
        };
        Ok(Some(Lain { leaf: leaf_of(&text)?, index }))
    }

    async fn leaves(&self, from: u64, limit: usize) -> Result<Vec<String>, Fault> {
        let left = self.edge().await?.size().saturating_sub(from);
        let wanted = limit.min(usize::try_from(left).unwrap_or(limit));
        let sql =
            "select index, body from holdpoint.leaves where index >= $1 order by index limit $2";
        let (first, limit) = (int(from), most(wanted));
        let params = [(&first as _, Type::INT8), (&limit as _, Type::INT8)];
        let rows = self.connections.ask(sql, &params).await?;
        let mut texts = Vec::with_capacity(rows.len());
        for (row, expected) in rows.iter().zip(from..) {
            let index = number(row, 0)?;
            if index != expected {
                break;
            }
            texts.push(text(&keys::leaf(index), get(row, 1)?)?);
        }
        if texts.len() < wanted {
            let missing = from + count(texts.len());
            return Err(Fault::Corrupt(format!("leaf {missing} of the log is missing")));
        }
        Ok(texts)
    }

    async fn waiting_leaves(&self, limit: usize) -> Result<Vec<Leaf>, Fault> {
        let sql = "select place, body from holdpoint.pending order by place limit $1";
        let rows = self.connections.ask(sql, &[(&most(limit), Type::INT8)]).await?;
        let leaves = rows.iter().map(|row| leaf_of(&text(get(row, 0)?, get(row, 1)?)?));
        leaves.collect()
    }

    async fn inclusion(&self, index: u64, size: u64) -> Result<Option<Vec<Hash>>, Fault> {
        if index >= size || size > self.edge().await?.size() {
            return Ok(None);
        }
        let proof = self
            .over_nodes(|node| tree::inclusion(index, size, &|level, index| node(level, index)));
        proof.await.map(Some)
    }

    async fn log(
        &self,
        lane: Lane,
        from: u64,
        limit: usize,
    ) -> Result<(Vec<LogEntry>, Hash), Fault> {
        let end = self.log_ends().await?.of(lane);
        let first = from.max(end.first);
        let last = end.next.min(first.saturating_add(count(limit)));
        let sql = "select index, body from holdpoint.log
            where lane = $1 and index >= $2 and index < $3 order by index";
        let params = [
            (&lane_number(lane) as _, Type::INT2),
            (&int(first) as _, Type::INT8),
            (&int(last) as _, Type::INT8),
        ];
        let rows = self.connections.ask(sql, &params).await?;
        let mut entries = Vec::with_capacity(rows.len());
        for (row, expected) in rows.iter().zip(first..) {
            let index = number(row, 0)?;
            if index != expected {
                break;
            }
            let ChainedNote { entry, prev } =
                codec::unseal_json(&keys::log(lane, index), get(row, 1)?)?;
            entries.push(LogEntry { index, prev, entry });
        }
        let missing = first + count(entries.len());
        if missing < last {
            let word = lane.word();
            return Err(Fault::Corrupt(format!(
                "entry {missing} of the store's own log ({word}) is missing"
            )));
        }
        Ok((entries, end.link))
    }
}
