//! Reader: what is asked of the tables, and how rows become values again. Whatever has a checksum is checked (J6).

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, RunId, SessionId, Version};
use crate::ports::{Fault, Head, HookRow, KeyRow, OutboxEntry, Page, RunFilter, SessionRow};
use crate::store::codec;
use crate::store::index_entries::{NEVER, Waiting};
use crate::store::keys::{self, Packed};
use crate::store::pagination;
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::faults::unread;
use crate::store::postgres::prepared::{int, time, uint};

/// A column of a row.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Fault> {
    row.try_get(at).map_err(|error| unread(&error))
}

/// A number of ours in a column.
pub(super) fn number(row: &Row, at: usize) -> Result<u64, Fault> {
    get::<i64>(row, at).map(uint)
}

/// A run's id in a column.
pub(super) fn run(row: &Row, at: usize) -> Result<RunId, Fault> {
    unpacked(get(row, at)?)
}

/// A run's id, as it is kept.
pub(super) fn unpacked(bytes: &[u8]) -> Result<RunId, Fault> {
    keys::unpack(bytes).ok_or_else(|| Fault::Corrupt("a run's id in the database is none".into()))
}

/// The head of a row that has run and head, and the link in it.
pub(super) fn head(row: &Row, at: usize) -> Result<(Head, Option<Hash>), Fault> {
    let bytes: &[u8] = get(row, at)?;
    let packed = Packed::try_from(bytes);
    let packed = packed.map_err(|_| Fault::Corrupt("a run's id in the database is none".into()))?;
    let record: &[u8] = get(row, at + 1)?;
    let stored = codec::unseal_head(&keys::head(&packed), record)?;
    Ok((stored.head, stored.link))
}

/// The events of a row that has first version and record.
pub(super) fn events(run: &Packed, row: &Row, at: usize) -> Result<Vec<Recorded>, Fault> {
    let first = number(row, at)?;
    let record: &[u8] = get(row, at + 1)?;
    Ok(codec::unseal_events(&keys::entry(run, first), record, first)?)
}

fn outbox_entry(row: &Row) -> Result<OutboxEntry, Fault> {
    let text = |at| {
        let bytes: Vec<u8> = get(row, at)?;
        String::from_utf8(bytes).map_err(|_| Fault::Corrupt("a outbox_entry cannot be read".into()))
    };
    Ok(OutboxEntry {
        run: run(row, 0)?,
        channel: text(1)?,
        after: number(row, 2)?,
        tip: number(row, 3)?,
        due: Millis(number(row, 4)?),
        tries: u32::try_from(get::<i64>(row, 5)?).unwrap_or(u32::MAX),
        problem: text(6)?,
    })
}

/// What entries of the outbox have.
pub(super) const OUTBOX_ENTRY: &str = "run, lane, after, tip, due, tries, problem";

/// Entries from rows of that.
pub(super) fn outbox_entries(rows: &[Row]) -> Result<Vec<OutboxEntry>, Fault> {
    rows.iter().map(outbox_entry).collect()
}

/// One more than is wanted: whether there is a next page is known by it.
pub(super) fn wanted(limit: usize) -> i64 {
    i64::try_from(limit.max(1)).unwrap_or(i64::MAX - 1).saturating_add(1)
}

/// As many as are wanted.
pub(super) fn most(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// A page of rows of which one more than wanted was asked for.
pub(super) fn page<T>(rows: Vec<T>, limit: usize, cursor: impl FnOnce(&T) -> String) -> Page<T> {
    let (mut rows, limit) = (rows, limit.max(1));
    let has_more = rows.len() > limit;
    rows.truncate(limit);
    let next = if has_more { rows.last().map(cursor) } else { None };
    Page { rows, next }
}

impl PostgresJournal {
    pub(super) async fn read_events(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<Vec<Recorded>, Fault> {
        Ok(self.read_entries(run, after, limit).await?.1)
    }

    /// The same, where they go on from the link that the run is known to have had there.
    pub(super) async fn read_events_from(
        &self,
        run: &RunId,
        (after, link): (Version, Hash),
        limit: usize,
    ) -> Result<Option<Vec<Recorded>>, Fault> {
        let (rows, events) = self.read_entries(run, after, limit).await?;
        if let (Some(row), Some(packed)) = (rows.first(), keys::pack(run)) {
            let first = number(row, 0)?;
            let (prev, ..) = codec::unseal_apart(&keys::entry(&packed, first), get(row, 1)?)?;
            // Where one append went past it, that version was never the last. What an earlier build wrote holds on to nothing.
            if first != after + 1 || prev.is_some_and(|prev: Hash| prev != link) {
                return Ok(None);
            }
        }
        Ok(Some(events))
    }

    /// The rows that have any of them, and they themselves.
    async fn read_entries(
        &self,
        run: &RunId,
        after: Version,
        limit: usize,
    ) -> Result<(Vec<Row>, Vec<Recorded>), Fault> {
        let Some(packed) = keys::pack(run) else { return Ok((Vec::new(), Vec::new())) };
        let end = after.saturating_add(u64::try_from(limit).unwrap_or(u64::MAX));
        let sql = "select first, body from holdpoint.entries
            where run = $1 and last > $2 and first <= $3 order by last";
        let (key, from, to) = (packed.to_vec(), int(after), int(end));
        let params = [(&key as _, Type::BYTEA), (&from as _, Type::INT8), (&to as _, Type::INT8)];
        let rows = self.connections.ask(sql, &params).await?;
        let mut found = Vec::new();
        for row in &rows {
            found.extend(events(&packed, row, 0)?);
        }
        found.retain(|recorded| recorded.version > after && recorded.version <= end);
        // A gap is what was lost: it is not read over (J5).
        let first = after.saturating_add(1);
        let is_whole = found.iter().zip(first..).all(|(one, version)| one.version == version);
        if !is_whole {
            return Err(Fault::Corrupt(format!("run `{run}`: events after {after} are missing")));
        }
        Ok((rows, found))
    }

    pub(super) async fn read_head(&self, run: &RunId) -> Result<Option<Head>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(None) };
        let sql = "select run, head from holdpoint.runs where run = $1";
        let key = packed.to_vec();
        let Some(row) = self.connections.ask_one(sql, &[(&key, Type::BYTEA)]).await? else {
            return Ok(None);
        };
        let (head, link) = head(&row, 0)?;
        if let Some(link) = link {
            self.links.put(packed, head.version, link);
        }
        Ok(Some(head))
    }

    pub(super) async fn read_heads(
        &self,
        filter: &RunFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let cursor = pagination::cursor(cursor, |text| keys::pack(&RunId::parse(text).ok()?));
        let Some(cursor) = cursor else { return Ok(pagination::nothing()) };
        let cursor = cursor.map(|packed| packed.to_vec());
        let session = filter.session.as_ref().map(|session| session.as_str().as_bytes().to_vec());
        let owner = filter.owner.as_ref().map(|owner| owner.as_bytes().to_vec());
        let workflow = filter.workflow.as_ref().map(|workflow| workflow.as_bytes().to_vec());
        let sql = "select run, head from holdpoint.runs
            where ($1::bytea is null or run < $1) and ($2::bytea is null or session = $2)
              and ($3::bytea is null or owner = $3) and ($4::bytea is null or workflow = $4)
              and ($5::text is null or status = $5)
            order by run desc limit $6";
        let params = [
            (&cursor as _, Type::BYTEA),
            (&session as _, Type::BYTEA),
            (&owner as _, Type::BYTEA),
            (&workflow as _, Type::BYTEA),
            (&filter.status as _, Type::TEXT),
            (&wanted(limit) as _, Type::INT8),
        ];
        let rows = self.connections.ask(sql, &params).await?;
        let heads = rows.iter().map(|row| head(row, 0).map(|(head, _)| head));
        let heads = heads.collect::<Result<Vec<_>, _>>()?;
        Ok(page(heads, limit, |head| head.run.to_string()))
    }

    pub(super) async fn read_waiting(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Head>, Fault> {
        let cursor = pagination::cursor(cursor, |text| {
            let (place, run) = Waiting::read_cursor(text)?;
            Some((place, keys::pack(&run)?.to_vec()))
        });
        let Some(cursor) = cursor else { return Ok(pagination::nothing()) };
        let (deadline, since) = match &cursor {
            Some((place, _)) => (time(place.deadline), time(place.since)),
            None => (-1, -1),
        };
        let run = cursor.map(|(_, run)| run).unwrap_or_default();
        let sql = "select run, head, deadline, since from holdpoint.runs
            where since is not null and (deadline, since, run) > ($1, $2, $3)
            order by deadline, since, run limit $4";
        let params = [
            (&deadline as _, Type::INT8),
            (&since as _, Type::INT8),
            (&run as _, Type::BYTEA),
            (&wanted(limit) as _, Type::INT8),
        ];
        let rows = self.connections.ask(sql, &params).await?;
        let heads = rows.iter().map(|row| {
            let deadline = Some(Millis(number(row, 2)?)).filter(|at| at.0 != u64::MAX);
            let since = Millis(number(row, 3)?);
            let place = Waiting { deadline: deadline.unwrap_or(NEVER), since };
            Ok((head(row, 0)?.0, place))
        });
        let heads = heads.collect::<Result<Vec<_>, Fault>>()?;
        let page = page(heads, limit, |(head, place)| place.cursor(&head.run));
        let rows = page.rows.into_iter().map(|(head, _)| head).collect();
        Ok(Page { rows, next: page.next })
    }

    pub(super) async fn read_running(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<RunId>, Fault> {
        let cursor = pagination::cursor(cursor, |text| keys::pack(&RunId::parse(text).ok()?));
        let Some(cursor) = cursor else { return Ok(pagination::nothing()) };
        let cursor = cursor.map(|packed| packed.to_vec());
        let sql = "select run from holdpoint.runs
            where status = 'RUNNING' and ($1::bytea is null or run > $1) order by run limit $2";
        let params = [(&cursor as _, Type::BYTEA), (&wanted(limit) as _, Type::INT8)];
        let rows = self.connections.ask(sql, &params).await?;
        let runs = rows.iter().map(|row| run(row, 0)).collect::<Result<Vec<_>, _>>()?;
        Ok(page(runs, limit, ToString::to_string))
    }

    pub(super) async fn read_session(
        &self,
        session: &SessionId,
    ) -> Result<Option<(SessionRow, Vec<u8>)>, Fault> {
        let sql = "select body from holdpoint.sessions where session = $1";
        let id = session.as_str().as_bytes();
        let Some(row) = self.connections.ask_one(sql, &[(&id, Type::BYTEA)]).await? else {
            return Ok(None);
        };
        let body: Vec<u8> = get(&row, 0)?;
        let stored = codec::unseal_session(&keys::session(session), &body)?;
        Ok(Some((stored.row, body)))
    }

    pub(super) async fn read_sessions(
        &self,
        owner: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SessionRow>, Fault> {
        let cursor = pagination::cursor(cursor, |text| SessionId::parse(text).ok());
        let Some(cursor) = cursor else { return Ok(pagination::nothing()) };
        let cursor = cursor.map(|session| session.as_str().as_bytes().to_vec());
        let owner = owner.map(str::as_bytes);
        let sql = "select session, body from holdpoint.sessions
            where ($1::bytea is null or session < $1) and ($2::bytea is null or owner = $2)
            order by session desc limit $3";
        let params = [
            (&cursor as _, Type::BYTEA),
            (&owner as _, Type::BYTEA),
            (&wanted(limit) as _, Type::INT8),
        ];
        let rows = self.connections.ask(sql, &params).await?;
        let sessions = rows.iter().map(|row| {
            let (id, body): (&[u8], &[u8]) = (get(row, 0)?, get(row, 1)?);
            let key = [&[keys::SESSION], id].concat();
            Ok(codec::unseal_session(&key, body)?.row)
        });
        let sessions = sessions.collect::<Result<Vec<_>, Fault>>()?;
        Ok(page(sessions, limit, |row: &SessionRow| row.session.to_string()))
    }

    pub(super) async fn read_key_of(&self, run: &RunId) -> Result<Option<(String, KeyRow)>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(None) };
        let sql = "select id, said, body from holdpoint.keys where run = $1";
        let key = packed.to_vec();
        let Some(row) = self.connections.ask_one(sql, &[(&key, Type::BYTEA)]).await? else {
            return Ok(None);
        };
        let (id, said, body): (&[u8], Vec<u8>, &[u8]) =
            (get(&row, 0)?, get(&row, 1)?, get(&row, 2)?);
        let said = String::from_utf8(said)
            .map_err(|_| Fault::Corrupt(format!("the key of run `{run}` is not text")))?;
        Ok(Some((said, codec::unseal_json(id, body)?)))
    }

    pub(super) async fn read_hooks(&self, run: &RunId) -> Result<Vec<HookRow>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(Vec::new()) };
        let sql = "select id, body from holdpoint.hooks where run = $1 order by id";
        let key = packed.to_vec();
        let rows = self.connections.ask(sql, &[(&key, Type::BYTEA)]).await?;
        let hooks = rows.iter().map(|row| {
            let (id, body): (&[u8], &[u8]) = (get(row, 0)?, get(row, 1)?);
            let at = [&[keys::HOOK], &packed[..], id].concat();
            Ok(codec::unseal_json(&at, body)?)
        });
        hooks.collect()
    }
}
