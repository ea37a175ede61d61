//! Standby: whether commits wait for a synchronous standby that is not there. The database says nothing to whoever waits:
//! it is asked what it says of itself, once a sign of life took too long. While it is so nothing more is sent that would
//! wait as well; what is read is read as before.

use crate::ports::Fault;
use crate::store::postgres::address::Durability;
use crate::store::postgres::connections::{Connections, Lost, PATIENCE, away};
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::slots::Purpose;

/// Whether a standby is demanded and none is connected, or something that was written by this role has waited for one for
/// longer than a commit takes. Whoever may not see which standbys are synchronous sees that there are some, and what
/// waits of their own.
const MISSING: &str =
    "select coalesce(current_setting('synchronous_standby_names', true), '') <> '' and (
      not exists (select from pg_catalog.pg_stat_replication)
      or exists (select from pg_catalog.pg_stat_activity
        where usename = current_user and wait_event = 'SyncRep'
          and query_start < pg_catalog.clock_timestamp() - interval '2 seconds'))";

impl Connections {
    /// Says that commits wait for a standby, where they do.
    async fn missing_standby(&self) -> Result<Option<PostgresError>, Fault> {
        if self.config.durability == Durability::Platform {
            return Ok(None);
        }
        // Beside all others, which may wait for nothing else.
        let line = self.open(None, Purpose::Aside).await.map_err(|error| away(&error))?;
        let asked = tokio::time::timeout(PATIENCE, line.client.query_typed_one(MISSING, &[]));
        let row = asked.await.map_err(|_| Lost::Late)?.map_err(Lost::Error)?;
        let is_missing = row.try_get::<_, bool>(0).unwrap_or(false);
        Ok(is_missing.then(|| PostgresError::NoStandby { place: self.config.place() }))
    }

    /// Refuses what would wait for a standby that was missing when it was last asked.
    pub(super) fn refuse_stuck(&self) -> Result<(), Fault> {
        self.stuck().map_or(Ok(()), |why| Err(Fault::Retriable(why)))
    }

    /// The same for a sign of life, by which it is found out: where one was missing it is asked whether it still is.
    pub(super) async fn refuse_still_stuck(&self) -> Result<(), Fault> {
        if self.stuck().is_some()
            && let Ok(missing) = self.missing_standby().await
        {
            self.beaten(missing.map(|error| error.to_string()));
        }
        self.refuse_stuck()
    }

    /// What became of a sign of life, in better words where one did not come through and it is known why.
    pub(super) async fn judge_beat<T>(&self, beaten: Result<T, Fault>) -> Result<T, Fault> {
        let Err(fault) = beaten else {
            self.beaten(None);
            return beaten;
        };
        if let Ok(missing) = self.missing_standby().await {
            self.beaten(missing.map(|error| error.to_string()));
        }
        Err(self.stuck().map_or(fault, Fault::Retriable))
    }

    /// Why something took too long or was not reached, in better words where there are some.
    pub(super) async fn explained(&self, error: PostgresError) -> PostgresError {
        if !error.is_away() {
            return error;
        }
        self.missing_standby().await.ok().flatten().unwrap_or(error)
    }
}
