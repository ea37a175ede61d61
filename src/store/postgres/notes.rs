//! Notes: the store's own log on PostgreSQL. Where its lanes begin and end is one row: whoever notes something has it
//! until that is written.

use std::collections::HashMap;

use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use crate::ports::log::{Lane, read_cursor};
use crate::ports::{Fault, Logged, Noting, Page};
use crate::store::audit::Audit;
use crate::store::codec;
use crate::store::keys;
use crate::store::log::{ChainedNote, Ends};
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::Lost;
use crate::store::postgres::prepared::int;
use crate::store::postgres::reader::{get, number};

/// The name under which is kept where the lanes begin and end.
const ENDS: &str = "mlog";

/// A lane in a column.
pub(super) fn lane_number(lane: Lane) -> i16 {
    match lane {
        Lane::Refusals => 0,
        Lane::Deeds => 1,
    }
}

fn ends(body: Option<&[u8]>) -> Result<Ends, Fault> {
    match body {
        Some(body) => Ok(codec::unseal_json(keys::LOG_ENDS, body)?),
        None => Ok(Ends::default()),
    }
}

/// It was made with the tables: a log without ends would be read as one without entries.
fn endless() -> Fault {
    Fault::Corrupt("the row that says where the store's own log begins and ends is gone".into())
}

/// Looks for entries that lie where the log is said to have ended: whoever reads it does not come upon them.
pub(super) async fn look_beyond(moment: &Transaction<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let failed = |error: tokio_postgres::Error| Fault::from(Lost::Error(error));
    let sql = "select body from holdpoint.kept where name = $1";
    let row = moment.query_typed_opt(sql, &[(&ENDS, Type::TEXT)]).await.map_err(failed)?;
    let ends = row.ok_or_else(endless).and_then(|row| ends(get(&row, 0)?));
    let ends = ends.unwrap_or_else(|what| {
        audit.damage(what.to_string());
        Ends::default()
    });
    for lane in Lane::ALL {
        let (word, end) = (lane.word(), ends.of(lane).next);
        let sql = "select count(*) from holdpoint.log where lane = $1 and index >= $2";
        let params = [(&lane_number(lane) as _, Type::INT2), (&int(end) as _, Type::INT8)];
        let row = moment.query_typed_one(sql, &params).await.map_err(failed)?;
        let beyond = number(&row, 0)?;
        if beyond > 0 {
            audit.damage(format!(
                "the store's own log ({word}) is said to end at {end}, and {beyond} entries lie beyond that"
            ));
        }
    }
    Ok(())
}

impl PostgresJournal {
    pub(super) async fn log_ends(&self) -> Result<Ends, Fault> {
        let sql = "select body from holdpoint.kept where name = $1";
        let row = self.connections.ask_one(sql, &[(&ENDS, Type::TEXT)]).await?;
        ends(get(&row.ok_or_else(endless)?, 0)?)
    }

    pub(super) async fn write_note(&self, noting: Noting) -> Result<u64, Fault> {
        let failed = |error: tokio_postgres::Error| Fault::from(Lost::Error(error));
        let lane = noting.note.lane();
        let mut lent = self.connections.lend().await?;
        let transaction = lent.begin().await?;
        let sql = "select body from holdpoint.kept where name = $1 for update";
        let row = transaction.query_typed_one(sql, &[(&ENDS, Type::TEXT)]).await;
        let mut ends = ends(get(&row.map_err(failed)?, 0)?)?;
        let looked_at: Vec<_> =
            noting.place.into_iter().chain([ends.of(lane).first]).map(int).collect();
        let sql = "select index, body from holdpoint.log where lane = $1 and index = any($2)";
        let number_of_lane = lane_number(lane);
        let params = [(&number_of_lane as _, Type::INT2), (&looked_at as _, Type::INT8_ARRAY)];
        let mut known: HashMap<u64, ChainedNote> = HashMap::new();
        for row in transaction.query_typed(sql, &params).await.map_err(failed)? {
            let index = number(&row, 0)?;
            known.insert(index, codec::unseal_json(&keys::log(lane, index), get(&row, 1)?)?);
        }
        let placed = ends.place(noting, |_, at| Ok(known.get(&at).cloned()))?;
        let body = codec::seal_json(&keys::log(placed.lane, placed.index), &placed.entry)?;
        let kept = codec::seal_json(keys::LOG_ENDS, &ends)?;
        let gone = placed.gone.map(int);
        let leaf = placed.leaf.as_ref().and_then(|leaf| {
            let place = keys::leaf_place(keys::PENDING, &leaf.place())?;
            let record = codec::seal(&place, leaf.text().as_bytes());
            Some((place, record))
        });
        let (place, record) = leaf.unzip();
        let outdone = placed.outdone.and_then(|place| keys::leaf_place(keys::PENDING, &place));
        let sql = "with kept as (update holdpoint.kept set body = $5 where name = 'mlog'),
            gone as (delete from holdpoint.log where lane = $1 and index = $4),
            leaf as (insert into holdpoint.pending (place, body) select $6, $7 where $6 is not null),
            outdone as (delete from holdpoint.pending where place = $8)
            insert into holdpoint.log (lane, index, body) values ($1, $2, $3)
              on conflict (lane, index) do update set body = excluded.body";
        let params = [
            (&number_of_lane as _, Type::INT2),
            (&int(placed.index) as _, Type::INT8),
            (&body as _, Type::BYTEA),
            (&gone as _, Type::INT8),
            (&kept as _, Type::BYTEA),
            (&place as _, Type::BYTEA),
            (&record as _, Type::BYTEA),
            (&outdone as _, Type::BYTEA),
        ];
        transaction.execute_typed(sql, &params).await.map_err(failed)?;
        transaction.commit().await.map_err(failed)?;
        Ok(placed.index)
    }

    pub(super) async fn read_notes(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Logged>, Fault> {
        let ends = self.log_ends().await?;
        let from = match cursor.map(read_cursor) {
            None => [ends.of(Lane::Refusals).next, ends.of(Lane::Deeds).next],
            Some(Some(from)) => from,
            Some(None) => return Ok(Page { rows: Vec::new(), next: None }),
        };
        // At most so many are taken of either lane, and one more is looked at.
        let span = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
        let mut known = HashMap::new();
        for (lane, next) in Lane::ALL.into_iter().zip(from) {
            let sql = "select index, body from holdpoint.log
                where lane = $1 and index < $2 order by index desc limit $3";
            let params = [
                (&lane_number(lane) as _, Type::INT2),
                (&int(next) as _, Type::INT8),
                (&span as _, Type::INT8),
            ];
            for row in self.connections.ask(sql, &params).await? {
                let index = number(&row, 0)?;
                let chained: ChainedNote =
                    codec::unseal_json(&keys::log(lane, index), get(&row, 1)?)?;
                known.insert((lane_number(lane), index), chained.entry);
            }
        }
        ends.page(cursor, limit, |lane, at| Ok(known.get(&(lane_number(lane), at)).cloned()))
    }
}
