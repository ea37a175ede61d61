//! Prune: what goes when a run is forgotten, in one transaction: all that hangs on it, and a tombstone in its place.

use tokio_postgres::types::Type;

use crate::kernel::Millis;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::Leaf;
use crate::ports::{Fault, Guard};
use crate::store::codec;
use crate::store::keys;
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::Lost;
use crate::store::postgres::prepared::time;
use crate::store::postgres::reader::{get, most, number, run};
use crate::store::postgres::replicas::packed_of;

/// Runs that are over, in sessions and families in which nothing goes on.
const OVER: &str = "select r.run, r.version, r.link, r.session from holdpoint.runs r
    where r.status not in ('RUNNING', 'WAITING') and r.updated < $1
      and not exists (select 1 from holdpoint.runs o
        where o.session = r.session and o.status in ('RUNNING', 'WAITING'))
      and not exists (select 1 from holdpoint.runs o
        where o.family = coalesce(r.family, r.run) and o.status in ('RUNNING', 'WAITING'))
      and not exists (select 1 from holdpoint.runs o
        where o.run = coalesce(r.family, r.run) and o.status in ('RUNNING', 'WAITING'))
    order by r.updated, r.run limit $2 for update of r skip locked";

/// What hangs on runs.
const FORGET: &str = "with e as (delete from holdpoint.entries where run = any($1)),
    p as (delete from holdpoint.outbox where run = any($1)),
    h as (delete from holdpoint.hooks where run = any($1)),
    k as (delete from holdpoint.keys where run = any($1)),
    d as (delete from holdpoint.desks where run = any($1)),
    g as (delete from holdpoint.guards where name = any($2)),
    t as (insert into holdpoint.pending (place, body) select * from unnest($3::bytea[], $4::bytea[]))
    delete from holdpoint.runs where run = any($1)";

/// Sessions that nothing is left of. A run that begins in one holds it; whoever locks it here sees that run, or is first.
const SESSIONS: &str = "delete from holdpoint.sessions s where s.session = any($1)
    and not exists (select 1 from holdpoint.runs r where r.session = s.session)";

impl PostgresJournal {
    pub(super) async fn forget(&self, before: Millis, limit: usize) -> Result<usize, Fault> {
        let failed = |error: tokio_postgres::Error| Fault::from(Lost::Error(error));
        let mut lent = self.connections.lend().await?;
        let transaction = lent.begin().await?;
        let params = [(&time(before) as _, Type::INT8), (&most(limit) as _, Type::INT8)];
        let rows = transaction.query_typed(OVER, &params).await.map_err(failed)?;
        if rows.is_empty() {
            return Ok(0);
        }
        let (mut runs, mut sessions) = (Vec::new(), Vec::new());
        let (mut places, mut tombs, mut guards) = (Vec::new(), Vec::new(), Vec::new());
        for row in &rows {
            let (id, version) = (run(row, 0)?, number(row, 1)?);
            let link = Hash::read(get(row, 2)?)
                .ok_or_else(|| Fault::Corrupt(format!("the link of run `{id}` is none")))?;
            let packed: Vec<u8> = get(row, 0)?;
            sessions.push(get::<Vec<u8>>(row, 3)?);
            guards.push(Guard::family(&id));
            if let Some(packed) = packed_of(&packed) {
                self.links.forget(&packed);
            }
            runs.push(packed);
            let leaf = Leaf::Tombstone { run: id, version, link };
            if let Some(place) = keys::leaf_place(keys::PENDING, &leaf.place()) {
                tombs.push(codec::seal(&place, leaf.text().as_bytes()));
                places.push(place);
            }
        }
        sessions.sort();
        sessions.dedup();
        let lock =
            "select 1 from holdpoint.sessions where session = any($1) order by session for update";
        let params = [(&sessions as _, Type::BYTEA_ARRAY)];
        transaction.query_typed(lock, &params).await.map_err(failed)?;
        let gone = [
            (&runs as _, Type::BYTEA_ARRAY),
            (&guards as _, Type::TEXT_ARRAY),
            (&places as _, Type::BYTEA_ARRAY),
            (&tombs as _, Type::BYTEA_ARRAY),
        ];
        transaction.execute_typed(FORGET, &gone).await.map_err(failed)?;
        transaction.execute_typed(SESSIONS, &params).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(runs.len())
    }
}
