//! Descent: whether the database that was promoted last comes from another that takes writes as well. A timeline's number
//! says how often a server was promoted, and not from what: a copy that was promoted by itself has a higher one than its
//! original, and lacks what was decided there since. So the earlier one is asked what was written there last, and the later
//! one whether it has that; and nobody lives at an earlier one. A process that lived through a failover goes by what it
//! knows; this is for whoever has used none yet. It reads, and decides; what follows is whoever's looks.

use std::sync::PoisonError;
use std::time::Duration;

use tokio_postgres::Client;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use crate::kernel::evidence::leaf::Place;
use crate::store::keys;
use crate::store::postgres::connections::{Connections, Line, PATIENCE};
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::faults::refused;
use crate::store::postgres::hosts::{Earlier, Found, History};

/// Runs that are compared, of those that were written last: what was written after two parted is among them.
const RUNS: i64 = 256;
/// After how long is looked again whether somebody lives there: some signs of life.
const BEATS: Duration = Duration::from_secs(3);

/// How far a store has come, by numbers that only grow, and its newest sign of life by its own clock.
const COUNTS: &str = "select
    (select count(*) from holdpoint.pending) + (select coalesce(max(index) + 1, 0) from holdpoint.leaves),
    (select coalesce(max(index) + 1, 0) from holdpoint.log where lane = 0),
    (select coalesce(max(index) + 1, 0) from holdpoint.log where lane = 1),
    (select (extract(epoch from max(until)) * 1000000)::bigint from holdpoint.replicas),
    (select coalesce(max(until) > pg_catalog.clock_timestamp() - interval '500 milliseconds', false)
      from holdpoint.replicas)";

/// The runs that were written last, and the hash of what was written last to each, which holds on to all before it.
const WRITTEN: &str = "select r.run, r.version, pg_catalog.sha256(e.body)
    from (select run, version from holdpoint.runs order by updated desc, run limit $1) r
    join holdpoint.entries e on e.run = r.run and e.last = r.version";

/// What stands last in the logs that only grow, with its place there: the last leaf, and the last deed in the store's own
/// log. (Of a refusal it is counted in its place how often it was repeated.) Two that grew apart are as long as may be.
const LAST: &str = "(select 0 as log, index, pg_catalog.sha256(body) from holdpoint.leaves order by index desc limit 1)
    union all
    (select 1, index, pg_catalog.sha256(body) from holdpoint.log where lane = 1 order by index desc limit 1)";

/// Which of those stands elsewhere otherwise. One that is not there was forgotten, or is counted as missing.
const UNLIKE: &str = "select k.log, k.index
    from unnest($1::bigint[], $2::bigint[], $3::bytea[]) as k (log, index, hash)
    where exists (select from holdpoint.leaves l
        where k.log = 0 and l.index = k.index and pg_catalog.sha256(l.body) <> k.hash)
      or exists (select from holdpoint.log l
        where k.log = 1 and l.lane = 1 and l.index = k.index and pg_catalog.sha256(l.body) <> k.hash)
    limit 1";

/// Leaves that wait for their place, and do not make way for others as those of refusals do.
const WAITING: &str = "select place from holdpoint.pending
    where pg_catalog.substr(place, 2, 1) <> $1 order by place desc limit 1000";

/// One of those that is neither waiting elsewhere nor has its place there.
const UNPLACED: &str = "select k.place from unnest($1::bytea[]) as k (place)
    where not exists (select from holdpoint.pending t where t.place = k.place)
      and not exists (select from holdpoint.leaves t where t.place = k.place)
    limit 1";

/// One of those that a store does not have so, nor has forgotten as it should.
const LACKED: &str = "select k.run
    from unnest($1::bytea[], $2::bigint[], $3::bytea[], $4::bytea[]) as k (run, version, hash, tomb)
    where not exists (select from holdpoint.entries e
        where e.run = k.run and e.last = k.version and pg_catalog.sha256(e.body) = k.hash)
      and not exists (select from holdpoint.pending t where t.place = k.tomb)
      and not exists (select from holdpoint.leaves t where t.place = k.tomb)
    limit 1";

/// How far a store has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    /// Leaves, those that wait among them.
    leaves: i64,
    /// Entries of the store's own log, lane by lane.
    refusals: i64,
    deeds: i64,
}

/// The signs of life at a store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Lives {
    /// Whether somebody is not dead yet.
    are_some: bool,
    /// Until when the last of them lives.
    newest: Option<i64>,
}

/// What was seen of one that takes writes, and of the one that was promoted last.
#[derive(Debug, Clone, Default)]
struct Seen {
    earlier: Counts,
    later: Counts,
    /// A run of which the later one lacks what the earlier one has.
    run: Option<String>,
    /// Something in the logs of the earlier one that is another at the later one, or not there.
    logged: Option<String>,
    lives: Lives,
    /// Those at the earlier one a few beats after that, where it was looked at again.
    again: Option<Lives>,
}

/// What follows from that.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Descent {
    /// The later one has all that the earlier one has, and nobody lives there.
    Descends,
    /// It does not, and why.
    Parted(String),
    /// Somebody who is not dead yet was there last: it is looked at again.
    LookAgain,
}

/// Whether one comes from the other.
fn judge(seen: &Seen) -> Descent {
    if let Some(run) = &seen.run {
        return Descent::Parted(format!("what was written last to run {run}"));
    }
    if let Some(what) = &seen.logged {
        return Descent::Parted(what.clone());
    }
    let (earlier, later) = (seen.earlier, seen.later);
    for (has, lacks, what) in [
        (earlier.leaves, later.leaves, "leaves of the audit's log"),
        (earlier.deeds, later.deeds, "deeds in the store's own log"),
        (earlier.refusals, later.refusals, "refusals in the store's own log"),
    ] {
        if has > lacks {
            return Descent::Parted(format!("{has} {what}, where the other has {lacks}"));
        }
    }
    match (seen.lives.are_some, seen.again) {
        (true, None) => Descent::LookAgain,
        (true, Some(again)) if again.newest > seen.lives.newest => Descent::Parted(LIVES.into()),
        (true, Some(_)) | (false, _) => Descent::Descends,
    }
}

/// What an earlier one has where somebody lives there.
const LIVES: &str = "signs of life of a server that uses it";

impl Connections {
    /// Refuses all where the one that would be used does not come from another that takes writes, and holds both; for whoever
    /// has used none yet.
    pub(super) async fn refuse_parted(
        &self,
        seen: Option<Earlier<'_, Line>>,
    ) -> Result<(), PostgresError> {
        let Some((last, earlier)) = seen.filter(|_| !self.histories.is_used()) else {
            return Ok(());
        };
        for one in earlier {
            if let Some(what) = has_more(one, last).await? {
                return Err(self.hold_parted(last, one, &what).await);
            }
        }
        Ok(())
    }

    /// Looks whether somebody lives at an earlier one than the one that is used: their newest sign of life is later than it
    /// was at the look before. Both are held then. One that does not say is asked at the next look.
    pub(super) async fn find_living(
        &self,
        seen: Option<Earlier<'_, Line>>,
    ) -> Option<PostgresError> {
        let (last, earlier) = seen?;
        for one in earlier {
            if let Some(what) = self.has_more_unseen(one, last).await {
                return Some(self.hold_parted(last, one, &what).await);
            }
            let asked = within(one, counts(&one.line.client)).await;
            let Ok(Some((_, lives))) = asked else { continue };
            let before = {
                let mut lives_at = self.lives_at.lock().unwrap_or_else(PoisonError::into_inner);
                lives_at.insert(one.host, (one.history, lives.newest))
            };
            let is_same = before.filter(|(history, _)| *history == one.history);
            if is_same.is_some_and(|(_, before)| lives.newest > before) {
                return Some(self.hold_parted(last, one, LIVES).await);
            }
        }
        None
    }

    /// The same of one that did not answer when this process came: what it has was never held against the one that is used.
    /// Whoever lived through the failover knows that itself. Once is enough: nobody writes there any more, or lives there.
    async fn has_more_unseen(&self, one: &Found<Line>, last: &Found<Line>) -> Option<String> {
        let history = one.history.filter(|history| !self.histories.has_lived_in(*history))?;
        let compared = || self.compared.lock().unwrap_or_else(PoisonError::into_inner);
        if compared().contains(&history) {
            return None;
        }
        match has_more(one, last).await {
            Ok(Some(what)) => return Some(what),
            Ok(None) => drop(compared().insert(history)),
            Err(error) => tracing::debug!(%error, "not compared with the database that is used"),
        }
        None
    }

    async fn hold_parted(
        &self,
        last: &Found<Line>,
        one: &Found<Line>,
        what: &str,
    ) -> PostgresError {
        let both = [one, last];
        let told: Vec<(History, &Found<Line>)> =
            both.iter().filter_map(|found| Some((found.history?, *found))).collect();
        self.hold_twins(&told).await;
        PostgresError::Parted {
            place: last.place.clone(),
            other: one.place.clone(),
            what: what.to_owned(),
        }
    }
}

/// What the first has that the second, which was promoted last, lacks; nothing where one of them has no store.
async fn has_more(one: &Found<Line>, last: &Found<Line>) -> Result<Option<String>, PostgresError> {
    let (at_one, at_last) = (&one.line.client, &last.line.client);
    // The earlier one first: what is replicated or written meanwhile is not taken for what is lacking.
    let Some((earlier, lives)) = within(one, counts(at_one)).await? else { return Ok(None) };
    let written = within(one, written(at_one)).await?.unwrap_or_default();
    let logs = within(one, logs(at_one)).await?.unwrap_or_default();
    let Some((later, _)) = within(last, counts(at_last)).await? else { return Ok(None) };
    let run = within(last, lacked(at_last, &written)).await?.flatten();
    let logged = within(last, unlike(at_last, &logs)).await?.flatten();
    let mut seen = Seen { earlier, later, run, logged, lives, again: None };
    loop {
        match judge(&seen) {
            Descent::Descends => return Ok(None),
            Descent::Parted(what) => return Ok(Some(what)),
            Descent::LookAgain => {
                tokio::time::sleep(BEATS).await;
                let again = within(one, counts(at_one)).await?;
                seen.again = Some(again.map(|(_, lives)| lives).unwrap_or_default());
            }
        }
    }
}

/// An answer of one of them in its time; none where it has no such tables. One that does not answer says nothing of what it
/// has, and nothing is used without that.
async fn within<T>(
    one: &Found<Line>,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<Option<T>, PostgresError> {
    let place = || one.place.clone();
    let Ok(answer) = tokio::time::timeout(PATIENCE, asked).await else {
        let why = "it takes writes, and too long to say what was written there last".into();
        return Err(PostgresError::Away { place: place(), why });
    };
    let absent = [SqlState::UNDEFINED_TABLE, SqlState::INVALID_SCHEMA_NAME];
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(error) if error.code().is_some_and(|code| absent.contains(code)) => Ok(None),
        Err(error) => Err(refused(place(), &error)),
    }
}

async fn counts(client: &Client) -> Result<(Counts, Lives), tokio_postgres::Error> {
    let row = client.query_typed_one(COUNTS, &[]).await?;
    let (leaves, refusals, deeds) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
    let lives = Lives { newest: row.try_get(3)?, are_some: row.try_get(4)? };
    Ok((Counts { leaves, refusals, deeds }, lives))
}

/// Runs, and what was written last to each.
#[derive(Debug, Default)]
struct Written {
    runs: Vec<Vec<u8>>,
    versions: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    /// Where the leaf lies that says that it was forgotten.
    tombs: Vec<Vec<u8>>,
}

async fn written(client: &Client) -> Result<Written, tokio_postgres::Error> {
    let mut written = Written::default();
    for row in client.query_typed(WRITTEN, &[(&RUNS, Type::INT8)]).await? {
        let run: Vec<u8> = row.try_get(0)?;
        let tomb = keys::unpack(&run).map(Place::Tombstone);
        let tomb = tomb.and_then(|place| keys::leaf_place(keys::PENDING, &place));
        written.tombs.push(tomb.unwrap_or_default());
        written.runs.push(run);
        written.versions.push(row.try_get(1)?);
        written.hashes.push(row.try_get(2)?);
    }
    Ok(written)
}

/// What stands last in the logs of a store, and which leaves wait there.
#[derive(Debug, Default)]
struct Logs {
    which: Vec<i64>,
    places: Vec<i64>,
    hashes: Vec<Vec<u8>>,
    waiting: Vec<Vec<u8>>,
}

async fn logs(client: &Client) -> Result<Logs, tokio_postgres::Error> {
    let mut logs = Logs::default();
    for row in client.query_typed(LAST, &[]).await? {
        logs.which.push(row.try_get::<_, i32>(0)?.into());
        logs.places.push(row.try_get(1)?);
        logs.hashes.push(row.try_get(2)?);
    }
    let passing = vec![keys::REFUSALS_LEAF];
    for row in client.query_typed(WAITING, &[(&passing, Type::BYTEA)]).await? {
        logs.waiting.push(row.try_get(0)?);
    }
    Ok(logs)
}

/// What of that is another there, or is not there.
async fn unlike(client: &Client, logs: &Logs) -> Result<Option<String>, tokio_postgres::Error> {
    let params = [
        (&logs.which as _, Type::INT8_ARRAY),
        (&logs.places as _, Type::INT8_ARRAY),
        (&logs.hashes as _, Type::BYTEA_ARRAY),
    ];
    if let Some(row) = client.query_typed_opt(UNLIKE, &params).await? {
        let (log, place): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let what = if log == 0 { "leaf" } else { "deed" };
        return Ok(Some(format!("another {what} {place} in its logs")));
    }
    let params = [(&logs.waiting as _, Type::BYTEA_ARRAY)];
    let unplaced = client.query_typed_opt(UNPLACED, &params).await?;
    Ok(unplaced.map(|_| "a leaf that waits for its place, which the other has not".into()))
}

/// The first of those runs that is not there so.
async fn lacked(
    client: &Client,
    written: &Written,
) -> Result<Option<String>, tokio_postgres::Error> {
    let params = [
        (&written.runs as _, Type::BYTEA_ARRAY),
        (&written.versions as _, Type::INT8_ARRAY),
        (&written.hashes as _, Type::BYTEA_ARRAY),
        (&written.tombs as _, Type::BYTEA_ARRAY),
    ];
    let Some(row) = client.query_typed_opt(LACKED, &params).await? else { return Ok(None) };
    let run: Vec<u8> = row.try_get(0)?;
    Ok(Some(keys::unpack(&run).map_or_else(|| "of no name".into(), |run| run.to_string())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two that have the same, as when one was promoted and nothing was written since.
    fn same() -> Seen {
        let counts = Counts { leaves: 9, refusals: 2, deeds: 3 };
        Seen { earlier: counts, later: counts, ..Seen::default() }
    }

    fn is_parted(seen: &Seen) -> bool {
        matches!(judge(seen), Descent::Parted(_))
    }

    #[test]
    fn after_a_clean_failover_the_old_primary_has_nothing_that_the_new_one_lacks() {
        assert_eq!(judge(&same()), Descent::Descends);
        // It woke long after others have gone on at the new one.
        let gone_on = Counts { leaves: 40, refusals: 2, deeds: 8 };
        assert_eq!(judge(&Seen { later: gone_on, ..same() }), Descent::Descends);
        // Whoever lived there a moment ago gives no more signs of life there.
        let lives = Lives { are_some: true, newest: Some(7) };
        let soon = Seen { later: gone_on, lives, ..same() };
        assert_eq!(judge(&soon), Descent::LookAgain);
        assert_eq!(judge(&Seen { again: Some(lives), ..soon.clone() }), Descent::Descends);
        assert_eq!(
            judge(&Seen { again: Some(Lives::default()), ..soon }),
            Descent::Descends,
            "it left"
        );
    }

    #[test]
    fn a_copy_that_was_promoted_by_itself_lacks_what_was_decided_at_its_original() {
        // A yes and a deed since, and the server there has left.
        let ahead = Counts { leaves: 11, ..same().earlier };
        assert!(is_parted(&Seen { earlier: ahead, ..same() }));
        let noted = Counts { deeds: 4, ..same().earlier };
        assert!(is_parted(&Seen { earlier: noted, ..same() }));
        let refused = Counts { refusals: 3, ..same().earlier };
        assert!(is_parted(&Seen { earlier: refused, ..same() }));
    }

    #[test]
    fn one_of_two_standbys_that_were_both_promoted_lacks_what_the_other_was_told() {
        // Both went on, the one that is asked for further than the other: what counts is what it lacks.
        let further = Counts { leaves: 90, refusals: 9, deeds: 9 };
        let seen = Seen { later: further, run: Some("r".into()), ..same() };
        assert_eq!(judge(&seen), Descent::Parted("what was written last to run r".into()));
        let seen = Seen { later: further, logged: Some("another leaf 8".into()), ..same() };
        assert_eq!(judge(&seen), Descent::Parted("another leaf 8".into()), "though it is longer");
    }

    #[test]
    fn where_somebody_lives_at_the_earlier_one_the_later_one_is_not_used() {
        let lives = Lives { are_some: true, newest: Some(7) };
        let again = Some(Lives { newest: Some(8), ..lives });
        let seen = Seen { lives, again, ..same() };
        assert_eq!(judge(&seen), Descent::Parted(LIVES.into()));
    }
}
