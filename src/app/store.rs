//! Store: which store is opened: the data directory, or the database that was named. Only servers write to a database
//! that several of them share: a command beside them would be one more engine.

use std::sync::Arc;

use crate::app::{AppError, Config, auth};
use crate::engine::Reach;
use crate::kernel::evidence::Hash;
use crate::ports::{Fault, Journal};
#[cfg(feature = "postgres")]
use crate::store::OpenError;
use crate::store::{self, Store, StoreConfig};
#[cfg(feature = "postgres")]
use crate::store::{Migrated, PostgresConfig};

/// Under which name a database keeps what the console's passes are made with.
const SECRET: &str = "console.key";

/// Opens the store for an engine.
pub(super) async fn open(config: &Config, reach: Reach) -> Result<Store, AppError> {
    if let Some(address) = &config.store {
        return shared(config, reach, address).await;
    }
    Ok(store::open(&StoreConfig::new(&config.data)).await?)
}

#[cfg(feature = "postgres")]
async fn shared(config: &Config, reach: Reach, address: &str) -> Result<Store, AppError> {
    if reach != Reach::Everything {
        return Err(AppError::SharedStore);
    }
    // What is this machine's own lies there still: the secrets of the console and of the log's heads.
    let (path, dir) = (config.data.clone(), &config.data);
    std::fs::create_dir_all(dir).map_err(|source| OpenError::Io { path, source })?;
    crate::app::awaiting::open(&PostgresConfig::new(address)?, config.listen).await
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
async fn shared(_config: &Config, _reach: Reach, _address: &str) -> Result<Store, AppError> {
    Err(AppError::NoPostgres)
}

/// Has all servers over one database make the console's passes with one secret: that of the first of them. Each keeps
/// it in its data directory, as one that is alone does.
pub(super) async fn share_secret(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    let Some(replicas) = journal.replicas() else { return Ok(()) };
    let data = config.data.clone();
    let failed = |source| AppError::Passes { data: data.clone(), source };
    let path = config.data.join(auth::FILE);
    let own = Hash(auth::secret(&path).map_err(failed)?);
    if replicas.remember_if(SECRET, None, &own.to_string()).await? {
        return Ok(());
    }
    let kept = journal.remembered(SECRET).await?.as_deref().and_then(Hash::parse);
    let kept = kept.ok_or_else(|| Fault::Corrupt("the console's secret cannot be read".into()))?;
    if kept != own {
        // In the place of what only this machine knew, and its owner's alone as that was.
        let part = path.with_extension("part");
        std::fs::write(&part, kept.0).map_err(failed)?;
        std::fs::rename(&part, &path).map_err(failed)?;
    }
    Ok(())
}

/// Refuses a command that would open a data directory where a database was named.
pub(super) fn refuse_shared(config: &Config) -> Result<(), AppError> {
    if config.store.is_some() { Err(AppError::SharedStore) } else { Ok(()) }
}

/// The store, for a command that looks at all of it; none where a data directory is meant.
#[cfg(feature = "postgres")]
pub(super) async fn looked_at(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    let Some(address) = &config.store else { return Ok(None) };
    Ok(Some(store::open_postgres(&PostgresConfig::new(address)?).await?.journal()))
}

/// The store, for a command that looks at all of it; none where a data directory is meant.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
pub(super) async fn looked_at(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    if config.store.is_some() { Err(AppError::NoPostgres) } else { Ok(None) }
}

/// Makes the tables of the store that is named; where it is, and whether there were none.
#[cfg(feature = "postgres")]
pub async fn migrate(config: &Config) -> Result<(String, bool), AppError> {
    let address = config.store.as_deref().ok_or(AppError::NoStoreNamed)?;
    let named = PostgresConfig::new(address)?;
    let outcome = store::migrate(&named).await?;
    Ok((named.place(), outcome == Migrated::Made))
}

/// Makes the tables of the store that is named; where it is, and whether there were none.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
pub async fn migrate(_config: &Config) -> Result<(String, bool), AppError> {
    Err(AppError::NoPostgres)
}
