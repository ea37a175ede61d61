//! Database: databases of the bench's own in the PostgreSQL that was named, one for each measurement, so that none is measured
//! on what another left behind, and nothing of whoever named it is touched. They go when the bench ends; where it is killed,
//! `holdpoint_bench_…` are left.

use std::sync::{Mutex, PoisonError};

use crate::bench::BenchError;

/// A PostgreSQL in which databases are made.
#[derive(Debug)]
pub(super) struct Databases {
    /// Where it is, as it was named.
    address: String,
    made: Mutex<Vec<String>>,
}

impl Databases {
    /// In the server that this address leads to.
    pub(super) fn of(address: &str) -> Self {
        Self { address: address.to_owned(), made: Mutex::default() }
    }

    fn names(&self) -> Vec<String> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    #[cfg_attr(not(feature = "postgres"), expect(dead_code, reason = "nothing is made"))]
    fn next_name(&self) -> String {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let name = format!("holdpoint_bench_{}_{}", std::process::id(), made.len());
        made.push(name.clone());
        name
    }
}

#[cfg(feature = "postgres")]
impl Databases {
    /// A new one, with nothing in it: its address.
    pub(super) async fn fresh(&self) -> Result<String, BenchError> {
        let name = self.next_name();
        self.tell(&format!("create database {name}")).await?;
        let mut address = url::Url::parse(&self.address).map_err(|error| failed(&error))?;
        address.set_path(&name);
        Ok(address.into())
    }

    /// What a database weighs.
    pub(super) async fn bytes(address: &str) -> Result<u64, BenchError> {
        let client = reach(address).await?;
        let row = client.query_one("select pg_database_size(current_database())", &[]).await;
        let bytes: i64 = row.and_then(|row| row.try_get(0)).map_err(|error| failed(&error))?;
        Ok(u64::try_from(bytes).unwrap_or(0))
    }

    /// Takes all of them away.
    pub(super) async fn leave(&self) {
        for name in self.names() {
            // Whoever looks finds it by its name.
            drop(self.tell(&format!("drop database if exists {name} with (force)")).await);
        }
    }

    async fn tell(&self, sql: &str) -> Result<(), BenchError> {
        let client = reach(&self.address).await?;
        client.batch_execute(sql).await.map_err(|error| failed(&error))
    }
}

#[cfg(feature = "postgres")]
async fn reach(address: &str) -> Result<tokio_postgres::Client, BenchError> {
    let reached = tokio_postgres::connect(&for_driver(address), tokio_postgres::NoTls).await;
    let (client, connection) = reached.map_err(|error| failed(&error))?;
    tokio::spawn(connection);
    Ok(client)
}

/// An address without what is ours in it, which the driver does not know.
#[cfg(feature = "postgres")]
fn for_driver(address: &str) -> String {
    let (front, query) = address.split_once('?').unwrap_or((address, ""));
    let theirs: Vec<_> = query.split('&').filter(|pair| !pair.starts_with("durability=")).collect();
    let theirs = theirs.join("&");
    if theirs.is_empty() { front.to_owned() } else { format!("{front}?{theirs}") }
}

#[cfg(feature = "postgres")]
fn failed(error: &(dyn std::error::Error + 'static)) -> BenchError {
    let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
    BenchError::Database(why)
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
impl Databases {
    pub(super) async fn fresh(&self) -> Result<String, BenchError> {
        Err(BenchError::Database("this program was built without the feature `postgres`".into()))
    }

    pub(super) async fn bytes(_address: &str) -> Result<u64, BenchError> {
        Ok(0)
    }

    pub(super) async fn leave(&self) {
        drop((self.names(), &self.address));
    }
}
