//! Schema: how our tables come to be in a database, and whether they are what they were made as. Only
//! `holdpoint store migrate` makes or changes them; whoever serves looks, and refuses.

use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;
use tokio_postgres::{Client, SimpleQueryMessage, Transaction};

use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::difference::{Difference, difference};
use crate::store::postgres::error::{PostgresError, READS, SCHEMA};
use crate::store::postgres::faults::refused;
use crate::store::postgres::hosts::History;
use crate::store::postgres::indexes;
use crate::store::postgres::raising::{self, DESKS, MAKE, RAISE};
use crate::store::postgres::rights;
use crate::store::postgres::settings;

/// One at a time makes or changes the tables.
const MIGRATING: i64 = 0x686f_6c64;
/// How appends are decided and written, and what is asked most: as they are now, whatever they were.
const FUNCTIONS: [&str; 2] = [include_str!("append.sql"), include_str!("asked.sql")];

/// What the tables, their columns and constraints, whatever hangs on them, and the functions are, one line each: a
/// table that is not logged, or a trigger that drops rows, loses what was acknowledged.
const SHAPE: &str = "
select coalesce(string_agg(line, E'\\n' order by line collate \"C\"), '') from (
  select c.relname || '.' || a.attname || ' ' || pg_catalog.format_type(a.atttypid, a.atttypmod)
         || case when a.attnotnull then ' not null' else '' end
         || coalesce(' default ' || pg_catalog.pg_get_expr(d.adbin, d.adrelid), '') as line
    from pg_catalog.pg_attribute a
    left join pg_catalog.pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    join pg_catalog.pg_class c on c.oid = a.attrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped
  union all
  select c.relname || ' ' || c.relpersistence::text || case when c.relrowsecurity then ' row security' else '' end
         || case when c.relforcerowsecurity then ' forced' else '' end
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and c.relkind in ('r', 'p', 'v', 'm', 'f')
  union all
  select c.relname || ' ' || pg_catalog.pg_get_constraintdef(k.oid)
    from pg_catalog.pg_constraint k join pg_catalog.pg_class c on c.oid = k.conrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and k.contype <> 'n'
  union all
  select c.relname || ' ' || pg_catalog.pg_get_indexdef(i.indexrelid) || case when i.indisvalid then '' else ' invalid' end
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and i.indisunique
  union all
  select c.relname || ' is a part of ' || h.inhparent::pg_catalog.regclass::text
    from pg_catalog.pg_inherits h join pg_catalog.pg_class c on c.oid = h.inhrelid
    join pg_catalog.pg_class p on p.oid = h.inhparent join pg_catalog.pg_namespace n on n.oid = p.relnamespace
    where n.nspname = 'holdpoint'
  union all
  select c.relname || ' policy ' || y.polname
    from pg_catalog.pg_policy y join pg_catalog.pg_class c on c.oid = y.polrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint'
  union all
  select c.relname || ' trigger ' || t.tgname || ' ' || t.tgenabled::text
    from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and not t.tgisinternal
  union all
  select c.relname || ' rule ' || w.rulename || ' ' || w.ev_enabled::text
    from pg_catalog.pg_rewrite w join pg_catalog.pg_class c on c.oid = w.ev_class
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint'
  union all
  select p.proname || '() ' || case when p.prosecdef then 'security definer ' else '' end || p.provolatile::text || ' '
         || pg_catalog.md5(p.prosrc || coalesce(pg_catalog.array_to_string(p.proconfig, ' '), ''))
    from pg_catalog.pg_proc p
    join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'holdpoint'
) lines";

/// Settings by which a server says the same otherwise: what it is asked within one transaction is told as it was when the
/// tables were made, whatever is set there.
const PLAINLY: &str = "select pg_catalog.set_config('bytea_output', 'hex', true),
    pg_catalog.set_config('standard_conforming_strings', 'on', true),
    pg_catalog.set_config('quote_all_identifiers', 'off', true)";

/// Looks at what a connection leads to: whether it may be trusted with anything, and whether our tables are there.
pub(super) async fn check(config: &PostgresConfig, client: &Client) -> Result<(), PostgresError> {
    settings::check(config, client).await?;
    let place = config.place();
    let failed = |error: tokio_postgres::Error| refused(place.clone(), &error);
    match kept(client).await.map_err(failed)? {
        None => Err(PostgresError::NoStore { place }),
        Some((found, _)) if found < SCHEMA => Err(PostgresError::Older { place, found }),
        Some((found, _)) if found > SCHEMA => Err(PostgresError::Newer { place, found }),
        Some((_, made)) => {
            let is = shape(client).await.map_err(failed)?;
            if is != made {
                let Difference { what, remedy } = difference(&made, &is);
                return Err(PostgresError::Altered { place, what, remedy });
            }
            let row = client.query_typed_one("select form from holdpoint.meta", &[]).await;
            let found: i32 = row.and_then(|row| row.try_get(0)).map_err(failed)?;
            if found > READS {
                return Err(PostgresError::NewerForm { place, found, reads: READS });
            }
            if config.only_looks {
                let lacks = rights::lacking_to_look(client).await.map_err(failed)?;
                return lacks.map_or(Ok(()), |(why, remedy)| {
                    Err(PostgresError::Denied { place, why, remedy })
                });
            }
            match rights::lacking(client).await.map_err(failed)? {
                None => Ok(()),
                Some(lacking) => {
                    let (why, remedy) = (lacking.why(), lacking.remedy());
                    Err(PostgresError::Denied { place, why, remedy })
                }
            }
        }
    }
}

/// Which history a server that takes writes tells; none where it does not say, as what only speaks the same language.
pub(super) async fn history(client: &Client) -> Option<History> {
    let sql = "select (select system_identifier from pg_catalog.pg_control_system()),
        case when pg_catalog.pg_is_in_recovery() then null
          else substr(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 1, 8) end,
        (extract(epoch from pg_catalog.pg_postmaster_start_time()) * 1000000)::bigint,
        (select oid::bigint from pg_catalog.pg_database where datname = pg_catalog.current_database())";
    let row = client.query_typed_one(sql, &[]).await.ok()?;
    let timeline: String = row.try_get::<_, Option<String>>(1).ok()??;
    let timeline = u32::from_str_radix(&timeline, 16).ok()?;
    let (system, started) = (row.try_get(0).ok()?, row.try_get(2).ok()?);
    Some(History { system, database: row.try_get(3).ok()?, timeline, started })
}

/// The schema that is there, and what it was made as; none if there is none.
async fn kept(client: &Client) -> Result<Option<(i32, String)>, tokio_postgres::Error> {
    match client.query_typed_one("select schema, shape from holdpoint.meta", &[]).await {
        Ok(row) => Ok(Some((row.try_get(0)?, row.try_get(1)?))),
        Err(error) => {
            let is_absent = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
            if error.code().is_some_and(|code| is_absent.contains(code)) {
                return Ok(None);
            }
            Err(error)
        }
    }
}

/// What the tables are, in lines. Both statements go as one, and are so one transaction: also behind a pooler.
async fn shape(client: &Client) -> Result<String, tokio_postgres::Error> {
    let said = client.simple_query(&format!("{PLAINLY}; {SHAPE}")).await?;
    let rows = said
        .iter()
        .filter_map(|said| if let SimpleQueryMessage::Row(row) = said { Some(row) } else { None });
    Ok(rows.last().and_then(|row| row.get(0)).unwrap_or_default().to_owned())
}

/// What a migration came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Migrated {
    /// The store was made.
    Made,
    /// It was of an earlier build, and is as it should be now.
    Raised,
    /// These indexes were missing, and were made again.
    Mended(Vec<String>),
    /// It is as it should be.
    Current,
}

/// Makes the tables where there are none, or takes those of an earlier build on, in one transaction: all of it is done,
/// or nothing.
pub(super) async fn migrate(
    config: &PostgresConfig,
    client: &mut Client,
) -> Result<Migrated, PostgresError> {
    migrate_as(config, client, None).await
}

/// The same; tables that are made have this kept in them from the first moment, by its name.
pub(super) async fn migrate_as(
    config: &PostgresConfig,
    client: &mut Client,
    first: Option<(String, Vec<u8>)>,
) -> Result<Migrated, PostgresError> {
    let place = config.place();
    settings::check(config, client).await?;
    let failed = |error: tokio_postgres::Error| not_owned(&place, &error, true);
    let unmade = |error: tokio_postgres::Error| not_owned(&place, &error, false);
    let transaction = client.transaction().await.map_err(failed)?;
    let lock = format!("{PLAINLY}; select pg_catalog.pg_advisory_xact_lock({MIGRATING})");
    transaction.batch_execute(&lock).await.map_err(failed)?;
    let is_there = "select pg_catalog.to_regclass('holdpoint.meta') is not null";
    let row = transaction.query_typed_one(is_there, &[]).await.map_err(failed)?;
    let is_there: bool = row.try_get(0).map_err(failed)?;
    if !is_there {
        transaction.batch_execute(MAKE).await.map_err(unmade)?;
        let made = "insert into holdpoint.meta (schema) values (1)";
        transaction.batch_execute(made).await.map_err(failed)?;
    }
    let row = transaction.query_typed_one("select schema from holdpoint.meta for update", &[]);
    let found: i32 = row.await.and_then(|row| row.try_get(0)).map_err(failed)?;
    if found < SCHEMA {
        raise(&place, &transaction, found).await?;
    }
    let outcome = match (is_there, found) {
        (false, _) => Migrated::Made,
        (true, found) if found < SCHEMA => Migrated::Raised,
        (true, _) => Migrated::Current,
    };
    if let (Migrated::Made, Some((name, body))) = (&outcome, &first) {
        let kept = "insert into holdpoint.kept (name, body) values ($1, $2)";
        let params = [(name as _, Type::TEXT), (body as _, Type::BYTEA)];
        transaction.execute_typed(kept, &params).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    // As whoever serves would: an older or a newer one, or one that was altered, is told.
    check(config, client).await?;
    let mended = mend(&place, client).await?;
    let is_mended = outcome == Migrated::Current && !mended.is_empty();
    Ok(if is_mended { Migrated::Mended(mended) } else { outcome })
}

/// Makes the indexes again that are missing. Whoever writes waits meanwhile, and is not waited for without end.
async fn mend(place: &str, client: &mut Client) -> Result<Vec<String>, PostgresError> {
    let failed = |error: tokio_postgres::Error| not_owned(place, &error, true);
    let transaction = client.transaction().await.map_err(failed)?;
    let alone = format!(
        "set local lock_timeout = '5s'; select pg_catalog.pg_advisory_xact_lock({MIGRATING})"
    );
    transaction.batch_execute(&alone).await.map_err(failed)?;
    let missing = indexes::missing(&transaction).await.map_err(failed)?;
    for index in &missing {
        transaction.batch_execute(&index.anew()).await.map_err(failed)?;
    }
    transaction.commit().await.map_err(failed)?;
    Ok(missing.into_iter().map(|index| index.name.to_owned()).collect())
}

/// What tables say of themselves, one sentence each: which schema they are, in which form their records are, and what is
/// missing without which they can be used.
pub(super) async fn about(client: &Transaction<'_>) -> Result<Vec<String>, tokio_postgres::Error> {
    let row = client.query_typed_one("select schema, form from holdpoint.meta", &[]).await?;
    let (schema, form): (i32, i32) = (row.try_get(0)?, row.try_get(1)?);
    let versions = format!(
        "schema {schema}, records of form {form}; this program needs schema {SCHEMA} and reads up to form {READS}"
    );
    let missing = indexes::missing(client).await?;
    Ok(std::iter::once(versions).chain(missing.into_iter().map(indexes::words)).collect())
}

/// What a no means to whoever makes or changes the tables: one for want of a right is not the password's matter, nor that
/// of whoever only serves.
fn not_owned(place: &str, error: &tokio_postgres::Error, are_there: bool) -> PostgresError {
    match error.as_db_error() {
        Some(told) if *told.code() == SqlState::INSUFFICIENT_PRIVILEGE => PostgresError::NotOwner {
            place: place.to_owned(),
            why: told.message().to_owned(),
            are_there,
        },
        Some(_) | None => refused(place.to_owned(), error),
    }
}

/// Takes tables on from an earlier schema. Whoever serves from them would write what the new ones must know of, and write it
/// the old way: nobody does meanwhile.
async fn raise(
    place: &str,
    transaction: &Transaction<'_>,
    found: i32,
) -> Result<(), PostgresError> {
    let failed = |error: tokio_postgres::Error| not_owned(place, &error, true);
    let alone =
        "set local lock_timeout = '5s'; lock table holdpoint.replicas in share row exclusive mode";
    transaction.batch_execute(alone).await.map_err(failed)?;
    // As long as whoever is taken for dead is given.
    let living = "select count(*) from holdpoint.replicas
        where until > pg_catalog.clock_timestamp() - interval '500 milliseconds'";
    let row = transaction.query_typed_one(living, &[]).await;
    let servers: i64 = row.and_then(|row| row.try_get(0)).map_err(failed)?;
    if servers > 0 {
        return Err(PostgresError::Served { place: place.to_owned(), servers });
    }
    for (_, raise) in RAISE.iter().filter(|(schema, _)| *schema > found) {
        transaction.batch_execute(raise).await.map_err(failed)?;
    }
    for functions in FUNCTIONS {
        transaction.batch_execute(functions).await.map_err(failed)?;
    }
    if found < DESKS {
        raising::lay_out(transaction).await.map_err(failed)?;
    }
    let raised = format!("update holdpoint.meta set schema = {SCHEMA}, shape = ({SHAPE})");
    transaction.batch_execute(&raised).await.map_err(failed)
}
