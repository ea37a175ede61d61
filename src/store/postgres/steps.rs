//! Steps: a transaction of several statements, each of which is waited for as long as there is patience: a server that is
//! frozen keeps its connections open and says nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, Transaction};

use crate::ports::Fault;
use crate::store::postgres::faults::fault;

/// How long a question may take before the connection is given up. No statement of the server's own ends a commit
/// that waits for a standby.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// A value that goes with a statement.
pub(super) type Param<'a> = (&'a (dyn ToSql + Sync), Type);

/// A transaction under way.
pub(super) struct Steps<'a> {
    transaction: Transaction<'a>,
    is_torn: &'a AtomicBool,
}

impl<'a> Steps<'a> {
    /// Begins one. Whoever is stopped in the middle of it, and wakes much later or never, holds nobody up: the server ends
    /// it.
    pub(super) async fn begin(
        client: &'a mut Client,
        is_torn: &'a AtomicBool,
    ) -> Result<Self, Fault> {
        let failed = |error: tokio_postgres::Error| fault(&error);
        let transaction = bounded(is_torn, client.transaction()).await.map_err(failed)?;
        let bounds =
            "set local idle_in_transaction_session_timeout = '5s'; set local lock_timeout = '5s'";
        bounded(is_torn, transaction.batch_execute(bounds)).await.map_err(failed)?;
        Ok(Self { transaction, is_torn })
    }

    pub(super) async fn query_typed(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed(sql, params)).await
    }

    pub(super) async fn query_typed_opt(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed_opt(sql, params)).await
    }

    pub(super) async fn query_typed_one(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<Row, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.query_typed_one(sql, params)).await
    }

    pub(super) async fn execute_typed(
        &self,
        sql: &str,
        params: &[Param<'_>],
    ) -> Result<u64, tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.execute_typed(sql, params)).await
    }

    pub(super) async fn commit(self) -> Result<(), tokio_postgres::Error> {
        bounded(self.is_torn, self.transaction.commit()).await
    }
}

async fn bounded<T>(
    is_torn: &AtomicBool,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    answered_within(PATIENCE, is_torn, asked).await
}

/// An answer, for as long as there is patience. Until it is there the connection is nobody else's.
async fn answered_within<T>(
    patience: Duration,
    is_torn: &AtomicBool,
    asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
) -> Result<T, tokio_postgres::Error> {
    is_torn.store(true, Ordering::Relaxed);
    let answer = tokio::time::timeout(patience, asked).await;
    let answer = answer.map_err(|_| tokio_postgres::Error::__private_api_timeout())?;
    is_torn.store(false, Ordering::Relaxed);
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_step_that_is_never_answered_ends_and_its_connection_is_nobody_elses() {
        let is_torn = AtomicBool::new(false);
        let silent = std::future::pending::<Result<(), tokio_postgres::Error>>();
        let ended = answered_within(Duration::from_millis(1), &is_torn, silent).await;
        assert!(ended.is_err() && is_torn.load(Ordering::Relaxed));
        assert!(bounded(&is_torn, async { Ok(()) }).await.is_ok());
        assert!(!is_torn.load(Ordering::Relaxed));
    }
}
