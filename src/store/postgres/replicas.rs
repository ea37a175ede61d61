//! Replicas: who lives of those who write to the same database, by its own clock, and what each may do. What is asked
//! here is asked every second by everybody: each is one statement that reads an index.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use tokio::sync::broadcast;
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::kernel::evidence::Hash;
use crate::kernel::{Millis, Recorded, RunId, Version};
use crate::ports::{
    Fault, Guard, Hint, Incarnation, Introduction, LostRun, OutboxEntry, Outlook, Replica,
    Replicas, Rewind, Standing,
};
use crate::store::codec;
use crate::store::keys::{self, Packed};
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::away;
use crate::store::postgres::faults::fault;
use crate::store::postgres::marks::Lane;
use crate::store::postgres::prepared::{int, time, uint};
use crate::store::postgres::reader::{OUTBOX_ENTRY, get, most, number, outbox_entries, run};

/// How long a life lasts after a beat: a few beats may be lost, and a dead one holds nobody up for long.
pub(super) const TTL_MS: u64 = 6_000;
/// What is tried with whether there is room again.
const ROOM_BYTES: usize = 256 << 10;
/// Beats after which the database is looked at as over a new connection: some seconds.
const BEATS_A_LOOK: u64 = 3;

/// When the database is looked at: with every few signs of life; and where none is given, since something fails before it, with
/// every few attempts. Otherwise what was last said of it would stand for as long as that lasts.
#[derive(Debug, Default)]
pub(super) struct Beats {
    given: AtomicU64,
    /// Attempts since it was last looked at.
    tried: AtomicU64,
}

impl Beats {
    /// A sign of life is given; whether it is looked at with this one.
    fn is_due(&self) -> bool {
        let is_due = self.given.fetch_add(1, Ordering::Relaxed) % BEATS_A_LOOK == BEATS_A_LOOK - 1;
        if is_due {
            self.tried.store(0, Ordering::Relaxed);
        }
        is_due
    }

    /// One is about to be given; whether too many were about to be, and it was not looked at.
    fn is_overdue(&self) -> bool {
        let is_overdue = self.tried.fetch_add(1, Ordering::Relaxed) >= BEATS_A_LOOK;
        if is_overdue {
            self.tried.store(0, Ordering::Relaxed);
        }
        is_overdue
    }
}

impl PostgresJournal {
    /// What this process says of itself.
    pub(super) fn who(&self) -> Introduction {
        self.who.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What was written with that mark is acknowledged.
    pub(super) fn left(&self, me: Incarnation, mark: i64) {
        self.marks.acknowledge(me, Lane::Beats, mark);
    }

    /// Whoever held something in this life does so no more.
    pub(super) async fn let_go(&self) -> Result<(), Fault> {
        self.connections.refuse_stuck()?;
        let me = int(self.me().0);
        let sql = "with dead as (delete from holdpoint.replicas where incarnation = $1),
            marks as (delete from holdpoint.marks where incarnation = $1),
            carried as (update holdpoint.outbox set held_by = null, held_until = null where held_by = $1)
            update holdpoint.runs set holder = null where holder = $1";
        self.connections.tell(sql, &[(&me, Type::INT8)]).await.map(drop)
    }

    /// Looks at the database as at what a new connection leads to.
    async fn look_again(&self) -> Result<(), Fault> {
        let Err(fault) = self.connections.look().await else { return Ok(()) };
        self.connections.found(Some(fault.to_string()));
        self.connections.judge_beat(Err(fault)).await
    }

    /// Tries whether there is room again, with as much as many appends take: a few, and every sign of life, find their place
    /// in what is there. Nothing stays of it.
    async fn look_for_room(&self) -> Result<(), Fault> {
        let mut body = vec![0; ROOM_BYTES];
        // What says nothing would be packed, and take none.
        getrandom::fill(&mut body).map_err(|error| Fault::Retriable(error.to_string()))?;
        let mut lent = self.connections.lend().await?;
        let steps = lent.begin().await?;
        let sql = "insert into holdpoint.entries (run, last, first, body) values ('', 0, 0, $1)";
        match steps.execute_typed(sql, &[(&body, Type::BYTEA)]).await {
            Ok(_) => self.connections.had_room(None),
            Err(error) => self.connections.had_room(Some(fault(&error).to_string())),
        }
        Ok(())
    }

    async fn runs(&self, sql: &str, me: Option<i64>, limit: usize) -> Result<Vec<RunId>, Fault> {
        let limit = most(limit);
        let all = [(&limit as _, Type::INT8), (&me as _, Type::INT8)];
        let params = if me.is_some() { &all[..] } else { &all[..1] };
        let rows = self.connections.ask(sql, params).await?;
        rows.iter().map(|row| run(row, 0)).collect()
    }
}

#[async_trait]
impl Replicas for PostgresJournal {
    async fn beat(&self) -> Result<Option<u64>, Fault> {
        self.connections.refuse_still_stuck().await?;
        // Now and then it is looked at as a new connection is.
        if self.beats.is_due() {
            self.look_again().await?;
        }
        if self.connections.full().is_some() {
            self.look_for_room().await?;
        }
        let (me, mark) = (self.me(), self.marks.draw(Lane::Beats));
        let (lasts, who) = (f64::from(u32::try_from(TTL_MS).unwrap_or(u32::MAX)), self.who());
        let sql = "with m as (update holdpoint.marks set mark = greatest(mark, $6), at = clock_timestamp()
              where incarnation = $1 and lane = 1)
            update holdpoint.replicas set until = clock_timestamp() + $2 * interval '1 millisecond',
              name = $3, address = $4, program = $5, draining = $7
            where incarnation = $1 returning 1";
        let params = [
            (&int(me.0) as _, Type::INT8),
            (&lasts as _, Type::FLOAT8),
            (&who.name as _, Type::TEXT),
            (&who.address as _, Type::TEXT),
            (&who.program as _, Type::TEXT),
            (&mark as _, Type::INT8),
            (&self.is_draining.load(Ordering::SeqCst) as _, Type::BOOL),
        ];
        let beaten = self.connections.ask_one(sql, &params).await;
        self.connections.found(beaten.as_ref().err().map(ToString::to_string));
        let beaten = self.connections.judge_beat(beaten).await?;
        if beaten.is_some() {
            self.left(me, mark);
        }
        Ok(beaten.map(|_| TTL_MS))
    }

    async fn time(&self) -> Result<Millis, Fault> {
        let sql = "select (extract(epoch from clock_timestamp()) * 1000)::bigint";
        let row = self.connections.ask_one(sql, &[]).await?;
        let row = row.ok_or_else(|| Fault::Retriable("the database tells no time".into()))?;
        number(&row, 0).map(Millis)
    }

    async fn look_back(&self) -> Result<Option<Rewind>, Fault> {
        // What follows from going back is written, and nothing is while the database is not trusted: where that has passed it
        // is found out here, since no sign of life is given before.
        if self.beats.is_overdue() || self.connections.is_distrusted() {
            self.look_again().await?;
        }
        self.read_marks().await
    }

    async fn lost(&self) -> Result<Vec<LostRun>, Fault> {
        self.find_lost().await
    }

    fn unlearn(&self, run: Option<&RunId>) {
        match run {
            None => self.links.forget_all(),
            Some(run) => {
                if let Some(packed) = keys::pack(run) {
                    self.links.forget(&packed);
                }
            }
        }
    }

    async fn introduce(&self, who: Introduction) -> Result<(), Fault> {
        *self.who.lock().unwrap_or_else(PoisonError::into_inner) = who;
        self.beat().await.map(drop)
    }

    async fn drain(&self) -> Result<(), Fault> {
        self.is_draining.store(true, Ordering::SeqCst);
        self.beat().await.map(drop)
    }

    async fn listed(&self) -> Result<Vec<Replica>, Fault> {
        let sql = "select incarnation, name, address, program, draining,
              (extract(epoch from since) * 1000)::bigint,
              (extract(epoch from until) * 1000)::bigint - $1,
              (select count(*) from holdpoint.runs r where r.holder = l.incarnation)
            from holdpoint.replicas l where name <> '' order by since, incarnation";
        let rows = self.connections.ask(sql, &[(&int(TTL_MS), Type::INT8)]).await?;
        let listed = rows.iter().map(|row| {
            let who =
                Introduction { name: get(row, 1)?, address: get(row, 2)?, program: get(row, 3)? };
            Ok(Replica {
                incarnation: Incarnation(number(row, 0)?),
                who,
                since: Millis(number(row, 5)?),
                beaten: Millis(number(row, 6)?),
                drives: number(row, 7)?,
                is_draining: get(row, 4)?,
            })
        });
        listed.collect()
    }

    async fn serving(&self) -> Result<usize, Fault> {
        // As `listed`, less what each of them drives: every server asks with every beat.
        let sql = "select count(*) from holdpoint.replicas where name <> ''";
        let row = self.connections.ask_one(sql, &[]).await?;
        let count = row.map_or(Ok(0), |row| number(&row, 0))?;
        Ok(usize::try_from(count).unwrap_or(usize::MAX))
    }

    async fn reborn(&self) -> Result<(), Fault> {
        let who = self.born().await.map_err(|error| away(&error))?;
        self.me.store(who.0, Ordering::SeqCst);
        Ok(())
    }

    async fn bury(&self) -> Result<Vec<Introduction>, Fault> {
        self.connections.refuse_stuck()?;
        let me = int(self.me().0);
        // Half a second more: a beat that is on its way comes to count.
        let sql = "delete from holdpoint.replicas
            where incarnation <> $1 and until <= clock_timestamp() - interval '500 milliseconds'
            returning name, address, program";
        // Once: asked again it would name nobody.
        let mut lent = self.connections.lend().await?;
        let dead = lent.query(sql, &[(&me, Type::INT8)]).await?;
        drop(lent);
        if !dead.is_empty() {
            // Marks are kept for whoever wakes late; not for ever.
            let sql = "delete from holdpoint.marks m
                where not exists (select 1 from holdpoint.replicas l where l.incarnation = m.incarnation)
                  and not exists (select 1 from holdpoint.marks b where b.incarnation = m.incarnation
                    and b.at > clock_timestamp() - interval '30 days')";
            self.connections.tell(sql, &[]).await?;
        }
        let said = |row: &Row| {
            Ok(Introduction { name: get(row, 0)?, address: get(row, 1)?, program: get(row, 2)? })
        };
        dead.iter().map(said).collect()
    }

    async fn living(&self) -> Result<Vec<Incarnation>, Fault> {
        let sql = "select incarnation from holdpoint.replicas order by incarnation";
        let rows = self.connections.ask(sql, &[]).await?;
        rows.iter().map(|row| number(row, 0).map(Incarnation)).collect()
    }

    async fn standing(&self, run: &RunId) -> Result<Option<Standing>, Fault> {
        let Some(packed) = keys::pack(run) else { return Ok(None) };
        let sql = "select * from holdpoint.standing($1)";
        let key = packed.to_vec();
        let row = self.connections.ask_one(sql, &[(&key, Type::BYTEA)]).await?;
        row.map_or(Ok(None), |row| self.stands(packed, &row))
    }

    async fn outlook(&self, run: &RunId, guard: &str, kept: &str) -> Result<Outlook, Fault> {
        let packed = keys::pack(run);
        let sql = "select s.*, holdpoint.guarded($2), holdpoint.kept_as($3) from holdpoint.standing($1) s";
        let params = [
            (&packed.map(|packed| packed.to_vec()) as _, Type::BYTEA),
            (&guard as _, Type::TEXT),
            (&keepsake(kept) as _, Type::TEXT),
        ];
        let row = self.connections.ask_one(sql, &params).await?;
        let Some(row) = row else { return Err(Fault::Corrupt("a function says nothing".into())) };
        let standing = packed.map_or(Ok(None), |packed| self.stands(packed, &row))?;
        let guard = get::<Option<i64>>(&row, 6)?.map_or(0, uint);
        let kept = get::<Option<&[u8]>>(&row, 7)?.map(|body| unsealed(kept, body)).transpose()?;
        Ok(Outlook { kept, guard, standing })
    }

    async fn read_on_from(
        &self,
        run: &RunId,
        known: (Version, Hash),
        limit: usize,
    ) -> Result<Option<Vec<Recorded>>, Fault> {
        self.read_events_from(run, known, limit).await
    }

    async fn gone_on(&self, known: &[(RunId, Version)]) -> Result<Vec<RunId>, Fault> {
        let pairs = known.iter().filter_map(|(run, version)| Some((keys::pack(run)?, *version)));
        let (runs, versions): (Vec<_>, Vec<_>) =
            pairs.map(|(run, version)| (run.to_vec(), int(version))).unzip();
        let sql = "select k.run from unnest($1::bytea[], $2::bigint[]) as k (run, version)
            left join holdpoint.runs r on r.run = k.run where r.version is distinct from k.version";
        let params = [(&runs as _, Type::BYTEA_ARRAY), (&versions as _, Type::INT8_ARRAY)];
        let rows = self.connections.ask(sql, &params).await?;
        rows.iter().map(|row| run(row, 0)).collect()
    }

    async fn stranded(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let sql = "select r.run from holdpoint.runs r
            left join holdpoint.replicas l on l.incarnation = r.holder
            where r.status = 'RUNNING' and l.incarnation is null order by r.run limit $1";
        self.runs(sql, None, limit).await
    }

    async fn held(&self, limit: usize) -> Result<Vec<RunId>, Fault> {
        let sql = "select run from holdpoint.runs where holder = $2 order by run limit $1";
        self.runs(sql, Some(int(self.me().0)), limit).await
    }

    async fn hint(&self) -> Option<Hint> {
        let mut hints = self.hints.lock().await;
        let hint = tokio::select! {
            hint = hints.recv() => hint,
            () = self.connections.closed() => return None,
        };
        match hint {
            Ok(hint) => Some(hint),
            Err(broadcast::error::RecvError::Lagged(_)) => Some(Hint::Lost),
            Err(broadcast::error::RecvError::Closed) => {
                self.connections.closed().await;
                None
            }
        }
    }

    async fn guard(&self, name: &str) -> Result<u64, Fault> {
        // Who listens to a run is a number of its own row.
        let of_hooks = name.strip_prefix("hooks ").and_then(|run| RunId::parse(run).ok());
        let row = if let Some(packed) = of_hooks.as_ref().and_then(keys::pack) {
            let sql = "select hooks from holdpoint.runs where run = $1";
            let key = packed.to_vec();
            self.connections.ask_one(sql, &[(&key, Type::BYTEA)]).await?
        } else {
            let sql = "select holdpoint.guarded($1)";
            self.connections.ask_one(sql, &[(&name, Type::TEXT)]).await?
        };
        let number = row.map(|row| get::<Option<i64>>(&row, 0)).transpose()?.flatten();
        Ok(number.map_or(0, uint))
    }

    async fn take_outbox_entries(
        &self,
        now: Millis,
        limit: usize,
    ) -> Result<Vec<OutboxEntry>, Fault> {
        self.connections.refuse_stuck()?;
        // A minute: longer than a listener may take.
        let sql = format!(
            "with taken as (
               update holdpoint.outbox p set held_by = $1, held_until = clock_timestamp() + interval '60 seconds'
               from (select run, lane from holdpoint.outbox
                     where due <= $2 and (held_until is null or held_until <= clock_timestamp())
                     order by due limit $3 for update skip locked) t
               where p.run = t.run and p.lane = t.lane returning p.*)
             select {OUTBOX_ENTRY} from taken order by due, run, lane"
        );
        let (me, now, limit) = (int(self.me().0), time(now), most(limit));
        let params = [(&me as _, Type::INT8), (&now as _, Type::INT8), (&limit as _, Type::INT8)];
        let mut lent = self.connections.lend().await?;
        let rows = lent.query(&sql, &params).await?;
        outbox_entries(&rows)
    }

    async fn remember_resting(
        &self,
        name: &str,
        (knew, text): (Option<&str>, &str),
        rests: Option<&Guard>,
    ) -> Result<bool, Fault> {
        self.check_open()?;
        let (at, place) = (keys::keepsake(name), keepsake(name));
        let body = codec::seal(&at, text.as_bytes());
        let knew = knew.map(|knew| codec::seal(&at, knew.as_bytes()));
        let resting = rests.and_then(Guard::of_kept).map(keepsake);
        let number = int(rests.map_or(0, |guard| guard.number));
        let (me, mark) = (self.me(), self.marks.draw(Lane::Beats));
        let life = int(me.0);
        let sql = "with m as (update holdpoint.marks set mark = greatest(mark, $4) where incarnation = $3 and lane = 1)
            select holdpoint.keep_if($1, $2, $5, $6, $7)";
        let params = [
            (&place as _, Type::TEXT),
            (&body as _, Type::BYTEA),
            (&life as _, Type::INT8),
            (&mark as _, Type::INT8),
            (&knew as _, Type::BYTEA),
            (&resting as _, Type::TEXT),
            (&number as _, Type::INT8),
        ];
        let row = self.connections.ask_one(sql, &params).await?;
        self.left(me, mark);
        row.as_ref().map_or(Ok(false), |row| get(row, 0))
    }
}

/// The name under which something of the store's own is kept.
pub(super) fn keepsake(name: &str) -> String {
    format!("mown.{name}")
}

impl PostgresJournal {
    /// How a run stands, by what the function of that name says; none if there is no such run.
    fn stands(&self, packed: Packed, row: &Row) -> Result<Option<Standing>, Fault> {
        let Some(version) = get::<Option<i64>>(row, 0)?.map(uint) else { return Ok(None) };
        let (holder, is_living): (Option<i64>, bool) = (get(row, 1)?, get(row, 5)?);
        let link = Hash::read(get(row, 4)?);
        // Whoever asks is about to append.
        if let Some(link) = link
            && !self.links.see(packed, version, link)
        {
            return Err(Fault::Rewound);
        }
        let holder = holder.map(|who| (Incarnation(uint(who)), is_living));
        let (fence, hooks) = (number(row, 2)?, number(row, 3)?);
        Ok(Some(Standing { version, holder, fence, hooks, link }))
    }
}

/// What is kept under a name, in its own words.
pub(super) fn unsealed(name: &str, body: &[u8]) -> Result<String, Fault> {
    let bytes = codec::unseal(&keys::keepsake(name), body)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| Fault::Corrupt(format!("`{name}` is not text")))
}

/// The run of a row of ours, as it is kept.
pub(super) fn packed_of(bytes: &[u8]) -> Option<Packed> {
    bytes.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_at_with_every_few_signs_of_life_and_also_where_none_is_given() {
        let beats = Beats::default();
        // Each is tried, and given.
        let looks = (0..9).map(|_| (beats.is_overdue(), beats.is_due()));
        let looks: Vec<_> = looks.collect();
        let rest = [(false, false), (false, false), (false, true)];
        assert_eq!(looks, [rest, rest, rest].concat());
        // Each is tried, and something fails before it is given.
        let looks: Vec<_> = (0..8).map(|_| beats.is_overdue()).collect();
        assert_eq!(looks, [false, false, false, true, false, false, false, true]);
    }
}
