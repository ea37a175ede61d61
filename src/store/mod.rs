//! The store: journals that last. The door to the adapters of [`Journal`]; callers see the port.

mod audit;
mod beside;
pub mod codec;
mod config;
#[cfg(feature = "postgres")]
mod copies;
mod embedded;
mod index_entries;
pub mod keys;
mod leases;
mod log;
mod memory;
#[cfg(feature = "postgres")]
pub mod moving;
mod outbox_entries;
pub mod packing;
mod pagination;
#[cfg(feature = "postgres")]
mod postgres;
pub mod transfer;
pub mod verify;

use std::sync::Arc;

pub use beside::{Announced, Beside, announce as announce_beside, server_of};
pub use config::{OpenError, StoreConfig};
pub use memory::cluster::{Delay, Fate, MemoryCluster, MemoryReplica, Mishap, Picture, Written};
#[cfg(feature = "postgres")]
pub use postgres::{
    Durability, Migrated, PostgresConfig, PostgresError, READS, SCHEMA, is_postgres,
};

use crate::ports::Journal;
#[cfg(feature = "postgres")]
use crate::ports::RunFilter;

/// The socket in a data directory at which a terminal that has it open can be reached by others.
pub const SOCKET: &str = "terminal.sock";

/// An open store.
#[derive(Debug, Clone)]
pub struct Store {
    journal: Arc<dyn Journal>,
    embedded: Option<Arc<embedded::EmbeddedJournal>>,
}

impl Store {
    /// Its journals.
    pub fn journal(&self) -> Arc<dyn Journal> {
        Arc::clone(&self.journal)
    }

    /// Tells other processes, which find the directory held, where this one can be talked to.
    pub fn announce(&self, address: &str) -> std::io::Result<()> {
        match &self.embedded {
            Some(embedded) => embedded.announce(address),
            None => Ok(()),
        }
    }
}

/// A store that lives as long as the process.
pub fn memory() -> Store {
    Store { journal: Arc::new(memory::MemoryJournal::default()), embedded: None }
}

/// Whether a directory holds anything that an opening would find: a store, or what is none of ours.
pub fn is_there(dir: &std::path::Path) -> bool {
    embedded::is_there(dir)
}

/// Refuses a data directory that is somebody else's, before anything is written to it or changed.
pub fn refuse_foreign(dir: &std::path::Path) -> Result<(), OpenError> {
    embedded::refuse_foreign(dir)
}

/// Whether some process has the store of a directory open.
#[cfg(feature = "postgres")]
pub fn is_held(dir: &std::path::Path) -> bool {
    embedded::is_held(dir)
}

/// Which database a directory lies beside, if it does.
pub fn beside(dir: &std::path::Path) -> Option<Beside> {
    embedded::lies_beside(dir)
}

/// Whether a directory has a store of its own, which was not moved elsewhere.
pub fn has_own(dir: &std::path::Path) -> bool {
    embedded::is_whole(dir)
}

/// Whether there is a store in a directory that has runs and was not moved elsewhere. One that cannot be asked may have
/// some, and one of the format before is not taken over to ask it.
#[cfg(feature = "postgres")]
pub async fn has_runs(dir: &std::path::Path) -> bool {
    if !embedded::is_whole(dir) {
        return false;
    }
    // Another server over the database has looked, and keeps whoever would open it away.
    if beside(dir).is_some_and(|beside| beside.server.is_some()) {
        return false;
    }
    if is_older(dir) {
        return true;
    }
    let Ok(store) = open(&StoreConfig::new(dir)).await else { return true };
    let runs = store.journal().heads(&RunFilter::default(), None, 1).await;
    store.journal().close().await;
    !runs.is_ok_and(|page| page.rows.is_empty())
}

/// Whether the store in a directory is of the format before, without a chain: whoever opens it takes it over.
pub fn is_older(dir: &std::path::Path) -> bool {
    embedded::is_older(dir)
}

/// Opens the embedded store in a directory, which is made if it is not there. A store that does not
/// open is an error with the remedy in it, never a fresh empty one.
pub async fn open(config: &StoreConfig) -> Result<Store, OpenError> {
    let told = config.clone();
    let opened = tokio::task::spawn_blocking(move || embedded::EmbeddedJournal::open(&told)).await;
    let embedded = opened.map_err(|error| OpenError::Damaged {
        dir: config.dir.clone(),
        what: format!("it could not be read: {error}"),
    })??;
    let embedded = Arc::new(embedded);
    let journal: Arc<dyn Journal> = embedded.clone();
    Ok(Store { journal, embedded: Some(embedded) })
}

/// Opens the store in a database, in which a life of this process begins. One that is not there, or is not as it should
/// be, is an error with the remedy in it: only [`migrate`] makes one.
#[cfg(feature = "postgres")]
pub async fn open_postgres(config: &PostgresConfig) -> Result<Store, PostgresError> {
    let journal = Arc::new(postgres::PostgresJournal::open(config).await?);
    Ok(Store { journal, embedded: None })
}

/// Opens the store in a database to look at it: nothing is written, and a role that may only read is enough.
#[cfg(feature = "postgres")]
pub async fn look_at_postgres(config: &PostgresConfig) -> Result<Store, PostgresError> {
    let journal = Arc::new(postgres::PostgresJournal::look(config).await?);
    Ok(Store { journal, embedded: None })
}

/// Makes the store in a database where there is none.
#[cfg(feature = "postgres")]
pub async fn migrate(config: &PostgresConfig) -> Result<Migrated, PostgresError> {
    postgres::migrate(config).await
}

/// The value that lies beside the tree of a directory, by what lies in the tree for it: for whoever looks into a store
/// that nobody has open. None if that is no place, or the value rotted.
pub fn value_beside(
    dir: &std::path::Path,
    key: &[u8],
    lies: &[u8],
) -> std::io::Result<Option<Vec<u8>>> {
    embedded::peek(dir, key, lies)
}
