//! Audit of a store on PostgreSQL: every row is read once, as one moment has it, and every column is held against the
//! head that it was made of.

use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row, Transaction};

use crate::kernel::{Recorded, RunId};
use crate::ports::{Fault, StoreReport};
use crate::store::audit::Audit;
use crate::store::codec;
use crate::store::keys::{self, Packed};
use crate::store::postgres::connections::Lost;
use crate::store::postgres::prepared::{Columns, int};
use crate::store::postgres::reader::{events, get, head, number, run};
use crate::store::postgres::replicas::packed_of;
use crate::store::postgres::rights::{self, Lacking};
use crate::store::postgres::{PostgresJournal, desks, evidence, notes, schema};

/// Runs that are looked at at a time.
const AT_ONCE: i64 = 200;

const RUNS: &str =
    "select r.run, r.head, r.version, r.link, r.session, r.owner, r.workflow, r.status, r.updated,
      r.wake, r.deadline, r.since, r.family, r.desks, s.session is not null
    from holdpoint.runs r
    left join holdpoint.sessions s on s.session = r.session
    where r.run > $1 order by r.run limit $2";

/// What belongs to no run.
const ORPHANS: &str = "select 'entries', count(*) from holdpoint.entries x
      where not exists (select 1 from holdpoint.runs r where r.run = x.run)
    union all select 'keys', count(*) from holdpoint.keys x
      where not exists (select 1 from holdpoint.runs r where r.run = x.run)
    union all select 'desks', count(*) from holdpoint.desks x
      where not exists (select 1 from holdpoint.runs r where r.run = x.run)
    union all select 'outbox_entries', count(*) from holdpoint.outbox x
      where not exists (select 1 from holdpoint.runs r where r.run = x.run)";

fn failed(error: tokio_postgres::Error) -> Fault {
    Lost::Error(error).into()
}

impl PostgresJournal {
    pub(super) async fn look_at_everything(&self) -> Result<StoreReport, Fault> {
        let mut lent = self.connections.lend().await?;
        let moment = lent.client()?.build_transaction();
        let moment = moment.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        let moment = moment.start().await.map_err(failed)?;
        let mut audit = Audit::new("postgres", codec::CHAINED);
        let mut after = Vec::new();
        loop {
            let params = [(&after as _, Type::BYTEA), (&AT_ONCE as _, Type::INT8)];
            let rows = moment.query_typed(RUNS, &params).await.map_err(failed)?;
            let Some(last) = rows.last() else { break };
            let next: Vec<u8> = get(last, 0)?;
            for row in &rows {
                if let Err(what) = look_at(&moment, row, &mut audit).await? {
                    audit.damage(what);
                }
            }
            after = next;
        }
        for row in moment.query_typed(ORPHANS, &[]).await.map_err(failed)? {
            let (table, count): (String, i64) = (get(&row, 0)?, get(&row, 1)?);
            if count > 0 {
                audit.damage(format!("`{table}` has {count} rows that belong to no run"));
            }
        }
        desks::compare(&moment, &mut audit).await?;
        evidence::look_beyond(&moment, &mut audit).await?;
        notes::look_beyond(&moment, &mut audit).await?;
        sessions(&moment, &mut audit).await?;
        let sql = "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint from pg_class c
            join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'holdpoint' and c.relkind = 'r'";
        let row = moment.query_typed_one(sql, &[]).await.map_err(failed)?;
        audit.report.bytes = number(&row, 0)?;
        audit.report.tables = schema::about(&moment).await.map_err(failed)?;
        match rights::lacking(&moment).await.map_err(failed)? {
            Some(Lacking::ToWrite) => audit.report.tables.push(rights::ONLY_READS.into()),
            Some(lacks @ Lacking::Rights { .. }) => {
                audit.report.lacks = Some(format!("{}; {}", lacks.why(), lacks.remedy()));
            }
            None => {}
        }
        Ok(audit.finish())
    }
}

/// Looks at one run; what is wrong with it, where it cannot be read.
async fn look_at(
    moment: &Transaction<'_>,
    row: &Row,
    audit: &mut Audit,
) -> Result<Result<(), String>, Fault> {
    let bytes: Vec<u8> = get(row, 0)?;
    let (Ok(id), Some(packed)) = (run(row, 0), packed_of(&bytes)) else {
        return Ok(Err("a row of `runs` names no run".into()));
    };
    let (head, link) = match head(row, 0) {
        Ok(read) => read,
        Err(what) => return Ok(Err(format!("the head of run `{id}`: {what}"))),
    };
    let journal = match journal(moment, (&id, &packed), head.version).await? {
        Ok(journal) => journal,
        Err(what) => return Ok(Err(format!("run `{id}`: {what}"))),
    };
    let sql = "select body from holdpoint.definitions where digest = $1";
    let digest = head.definition.as_bytes();
    let found = moment.query_typed_opt(sql, &[(&digest, Type::BYTEA)]).await.map_err(failed)?;
    let definition = match &found {
        None => None,
        Some(row) => match definition(&head.definition, get(row, 0)?) {
            Ok(text) => Some(text),
            Err(what) => return Ok(Err(what.to_string())),
        },
    };
    audit.run(&head, &journal, definition.as_deref());
    let (version, kept): (u64, &[u8]) = (number(row, 2)?, get(row, 3)?);
    if version != head.version || link.is_none_or(|link| link.0 != *kept) {
        audit.damage(format!("run `{id}`: its row is at another version than its head"));
    }
    if columns(row)? != Columns::of(&head) {
        audit.damage(format!("run `{id}`: what it is found by is not its head's"));
    }
    if !get::<bool>(row, 14)? {
        audit.damage(format!("run `{id}`: its session `{}` is not there", head.session));
    }
    Ok(Ok(()))
}

fn columns(row: &Row) -> Result<Columns, Fault> {
    Ok(Columns {
        session: get(row, 4)?,
        owner: get(row, 5)?,
        workflow: get(row, 6)?,
        status: get(row, 7)?,
        updated: get(row, 8)?,
        wake: get(row, 9)?,
        deadline: get(row, 10)?,
        since: get(row, 11)?,
        family: get(row, 12)?,
        desks: get(row, 13)?,
    })
}

async fn journal(
    moment: &Transaction<'_>,
    (_, packed): (&RunId, &Packed),
    version: u64,
) -> Result<Result<Vec<Recorded>, String>, Fault> {
    let sql =
        "select first, body from holdpoint.entries where run = $1 and last <= $2 order by last";
    let (key, version) = (packed.to_vec(), int(version));
    let params = [(&key as _, Type::BYTEA), (&version as _, Type::INT8)];
    let mut journal = Vec::new();
    for row in moment.query_typed(sql, &params).await.map_err(failed)? {
        match events(packed, &row, 0) {
            Ok(more) => journal.extend(more),
            Err(what) => return Ok(Err(what.to_string())),
        }
    }
    Ok(Ok(journal))
}

/// A definition from its record.
pub(super) fn definition(digest: &str, body: &[u8]) -> Result<String, Fault> {
    let bytes = codec::unseal(&keys::definition(digest), body)?;
    String::from_utf8(bytes.to_vec())
        .map_err(|_| Fault::Corrupt(format!("definition `{digest}` is not text")))
}

async fn sessions(moment: &Transaction<'_>, audit: &mut Audit) -> Result<(), Fault> {
    let sql = "select session, owner, body from holdpoint.sessions";
    for row in moment.query_typed(sql, &[]).await.map_err(failed)? {
        audit.report.sessions += 1;
        let (id, owner, body): (&[u8], &[u8], &[u8]) =
            (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let read = codec::unseal_session(&[&[keys::SESSION], id].concat(), body);
        match read {
            Ok(stored) if stored.row.owner.as_bytes() == owner => {}
            Ok(stored) => audit.damage(format!(
                "session `{}`: its row says that it is another's",
                stored.row.session
            )),
            Err(what) => {
                let id = String::from_utf8_lossy(id);
                audit.damage(format!("session `{id}`: {what}"));
            }
        }
    }
    Ok(())
}
