//! Lost: which runs a database that has gone back lacks something of, or tells another history of than it did, as far as
//! this process remembers them. What is done about it is the engine's.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::kernel::evidence::Hash;
use crate::kernel::evidence::leaf::Place;
use crate::kernel::{RunId, Version};
use crate::ports::{Fault, LostRun};
use crate::store::codec;
use crate::store::keys;
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::links::Witness;
use crate::store::postgres::prepared::{int, uint};
use crate::store::postgres::reader::{get, number};

/// What is asked of a moment's rows at a time.
const AT_ONCE: usize = 1_000;

/// Of each run: where it stands, and what was appended right after the version at which it is known, which holds on to the
/// link that it had there.
const STANDS: &str = "select k.at, r.version, r.link, e.first, e.body,
      exists (select 1 from holdpoint.pending t where t.place = k.tomb)
        or exists (select 1 from holdpoint.leaves t where t.place = k.tomb)
    from unnest($1::bytea[], $2::bigint[], $3::bytea[]) with ordinality as k (run, version, tomb, at)
    left join holdpoint.runs r on r.run = k.run
    left join lateral (
      select x.first, x.body from holdpoint.entries x
        where r.version > k.version and x.run = k.run and x.last > k.version order by x.last limit 1
    ) e on true";

impl PostgresJournal {
    pub(super) async fn find_lost(&self) -> Result<Vec<LostRun>, Fault> {
        let mut lost: BTreeMap<RunId, (Version, Version)> = BTreeMap::new();
        for known in self.links.witnesses().chunks(AT_ONCE) {
            let runs: Vec<_> = known.iter().map(|(run, _, _)| run.to_vec()).collect();
            let versions: Vec<_> = known.iter().map(|(_, version, _)| int(*version)).collect();
            let tombs: Vec<_> = known.iter().map(tombstone).collect();
            let params = [
                (&runs as _, Type::BYTEA_ARRAY),
                (&versions as _, Type::INT8_ARRAY),
                (&tombs as _, Type::BYTEA_ARRAY),
            ];
            for row in &self.connections.ask(STANDS, &params).await? {
                let at = usize::try_from(get::<i64>(row, 0)? - 1).unwrap_or(usize::MAX);
                let Some(witness) = known.get(at) else { continue };
                let (Some(run), Some(has)) = (keys::unpack(&witness.0), lacks(row, witness)?)
                else {
                    continue;
                };
                let (had, now) = lost.entry(run).or_default();
                (*had, *now) = (witness.1.max(*had), has);
            }
        }
        Ok(lost.into_iter().map(|(run, (had, has))| LostRun { run, had, has }).collect())
    }
}

/// Where the leaf lies that says that a run was forgotten as it should be.
fn tombstone((run, _, _): &Witness) -> Vec<u8> {
    let place = keys::unpack(run).map(Place::Tombstone);
    place.and_then(|place| keys::leaf_place(keys::PENDING, &place)).unwrap_or_default()
}

/// Where a run is that lacks what it is known by; none where it has that.
fn lacks(row: &Row, (run, version, link): &Witness) -> Result<Option<Version>, Fault> {
    let Some(has) = get::<Option<i64>>(row, 1)?.map(uint) else {
        return Ok((!get::<bool>(row, 5)?).then_some(0));
    };
    if has < *version {
        return Ok(Some(has));
    }
    if has == *version {
        return Ok((get::<&[u8]>(row, 2)? != link.0).then_some(has));
    }
    // One append went past it: that version was never the last.
    if get::<Option<i64>>(row, 3)?.map(uint) != Some(version + 1) {
        return Ok(Some(has));
    }
    let first = number(row, 3)?;
    let (prev, ..) = codec::unseal_apart(&keys::entry(run, first), get(row, 4)?)?;
    // What an earlier build wrote holds on to nothing.
    Ok(prev.filter(|prev: &Hash| prev != link).map(|_| has))
}
