//! Gate: how a life begins, and who is not let in yet. A process says which forms of records it reads and which it
//! writes; nobody begins to write a form that somebody who lives cannot read, and nobody serves from records that it
//! cannot read itself. So a newer build waits until the last older server is gone, and then there is no way back.

use tokio_postgres::types::Type;

use crate::ports::{Fault, Incarnation};
use crate::store::postgres::PostgresJournal;
use crate::store::postgres::connections::Lost;
use crate::store::postgres::error::{PostgresError, READS, WRITES};
use crate::store::postgres::faults::refused;
use crate::store::postgres::reader::{get, number};
use crate::store::postgres::replicas::TTL_MS;

/// Somebody who lives and does not read what this program writes, or writes what it does not read.
const OTHERS: &str =
    "select coalesce(nullif(name, ''), 'a server') || case when program = '' then ''
      else ' (' || program || ')' end, reads, writes
    from holdpoint.replicas
    where until > clock_timestamp() - interval '500 milliseconds' and (reads < $1 or writes > $2)
    order by writes desc, reads limit 1";

/// A life that nobody has had: the time by the database's clock, and chance. A server that has gone back in time gives
/// none out again.
const BORN: &str = "with born as (
      insert into holdpoint.replicas (incarnation, until, since, name, address, program, reads, writes)
      values (((extract(epoch from clock_timestamp()) * 1000)::bigint << 21) | $1,
              clock_timestamp() + $2 * interval '1 millisecond', clock_timestamp(), $3, $4, $5, $6, $7)
      returning incarnation),
    marks as (insert into holdpoint.marks (incarnation, lane, mark)
      select incarnation, lane, 0 from born cross join generate_series(0, 1) as lanes (lane)),
    form as (update holdpoint.meta set form = $7 where form < $7)
    select incarnation from born";

impl PostgresJournal {
    /// Begins a life.
    pub(super) async fn born(&self) -> Result<Incarnation, PostgresError> {
        let place = self.connections.config.place();
        let told = |fault: Fault| match fault {
            Fault::Retriable(why) => PostgresError::Away { place: place.clone(), why },
            fault @ (Fault::Permanent(_) | Fault::Corrupt(_) | Fault::Rewound) => {
                PostgresError::Says { place: place.clone(), why: fault.to_string(), passes: false }
            }
        };
        let failed = |error: tokio_postgres::Error| refused(place.clone(), &error);
        let mut chance = [0; 4];
        getrandom::fill(&mut chance)
            .map_err(|error| told(Fault::Retriable(format!("no chance to be had: {error}"))))?;
        let chance = i64::from(u32::from_be_bytes(chance) >> 11);
        let mut lent = self.connections.lend().await.map_err(told)?;
        let transaction = lent.begin().await.map_err(told)?;
        // One at a time: of an older and a newer one that come at once, the second sees the first.
        let lock = "select form from holdpoint.meta for update";
        let row = transaction.query_typed_one(lock, &[]).await.map_err(failed)?;
        let found: i32 = row.try_get(0).map_err(failed)?;
        if found > READS {
            return Err(PostgresError::NewerForm { place, found, reads: READS });
        }
        let params = [(&WRITES as _, Type::INT4), (&READS as _, Type::INT4)];
        if let Some(row) = transaction.query_typed_opt(OTHERS, &params).await.map_err(failed)? {
            let who: String = get(&row, 0).map_err(told)?;
            let (reads, writes): (i32, i32) =
                (get(&row, 1).map_err(told)?, get(&row, 2).map_err(told)?);
            return Err(if writes > READS {
                PostgresError::NewerForm { place, found: writes, reads: READS }
            } else {
                PostgresError::OlderReplica { place, who, reads, writes: WRITES }
            });
        }
        let lasts = f64::from(u32::try_from(TTL_MS).unwrap_or(u32::MAX));
        let who = self.who();
        let params = [
            (&chance as _, Type::INT8),
            (&lasts as _, Type::FLOAT8),
            (&who.name as _, Type::TEXT),
            (&who.address as _, Type::TEXT),
            (&who.program as _, Type::TEXT),
            (&READS as _, Type::INT4),
            (&WRITES as _, Type::INT4),
        ];
        let row = transaction.query_typed_one(BORN, &params).await.map_err(failed)?;
        transaction.commit().await.map_err(|error| told(Lost::Error(error).into()))?;
        Ok(Incarnation(number(&row, 0).map_err(told)?))
    }
}
