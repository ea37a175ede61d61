//! Store: which store is opened: the data directory, or the database that was named. Only servers write to a database
//! that several of them share: a command beside them would be one more engine.

use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "postgres")]
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::app::config::Origin;
use crate::app::signer::{self, Signatory};
use crate::app::{AppError, Config, auth, probe};
use crate::engine::Reach;
use crate::kernel::evidence::Hash;
use crate::kernel::evidence::note::VerifyKey;
use crate::ports::evidence::ORIGIN;
use crate::ports::{Fault, Journal, LastHead};
#[cfg(feature = "postgres")]
use crate::store::OpenError;
#[cfg(feature = "postgres")]
use crate::store::moving::{MoveError, take_up};
use crate::store::{self, Store, StoreConfig};
#[cfg(feature = "postgres")]
use crate::store::{Migrated, PostgresConfig};

/// Under which name a database kept what the console's passes are made with.
const SECRET: &str = "console.key";
/// How often a server looks whether another beside the same directory has ended.
#[cfg(feature = "postgres")]
const LOOK: Duration = Duration::from_secs(1);

/// Opens the store for an engine.
pub(super) async fn open(config: &Config, reach: Reach) -> Result<Store, AppError> {
    if let Some(address) = &config.store {
        return shared(config, reach, address).await;
    }
    Ok(store::open(&StoreConfig::new(&config.data)).await?)
}

#[cfg(feature = "postgres")]
async fn shared(config: &Config, reach: Reach, address: &str) -> Result<Store, AppError> {
    match reach {
        Reach::Everything => {}
        // Beside servers it would be one more engine.
        Reach::Own => return Err(AppError::SharedStore),
        Reach::Nothing => return Ok(store::look_at_postgres(&PostgresConfig::new(address)?).await?),
    }
    // What people are asked there would vanish without a word.
    if store::has_runs(&config.data).await {
        return Err(AppError::OwnStore(config.data.clone()));
    }
    // What is this machine's own lies there still: the secrets of the console and of the log's heads.
    let (path, dir) = (config.data.clone(), &config.data);
    std::fs::create_dir_all(dir).map_err(|source| OpenError::Io { path, source })?;
    let named = PostgresConfig::new(address)?;
    let opened = crate::app::awaiting::open(&named, config.listen).await?;
    // The first to open it: a mark that a move has left is no reason to refuse it.
    taken_up(config, &named).await?;
    Ok(opened)
}

/// Goes on with a move that came to its end in the data directory, and not in the database that is to be served.
#[cfg(feature = "postgres")]
pub(super) async fn taken_up(config: &Config, named: &PostgresConfig) -> Result<(), AppError> {
    match take_up(&config.data, named).await {
        // A directory that went elsewhere once may lie beside any database.
        Ok(false) | Err(MoveError::Elsewhere { .. }) => Ok(()),
        Ok(true) => {
            tracing::info!("the move into this database is over");
            Ok(())
        }
        Err(MoveError::Postgres(error)) => Err(error.into()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
async fn shared(_config: &Config, _reach: Reach, _address: &str) -> Result<Store, AppError> {
    Err(AppError::NoPostgres)
}

/// Has all servers over one database that sign with one key make the console's passes with one secret, which follows from
/// that key: in the database, whoever may read it could make a pass for anybody. Each keeps it in its data directory, as one
/// that is alone does.
pub(super) async fn share_secret(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    if journal.replicas().is_none() {
        return Ok(());
    }
    if journal.remembered(SECRET).await?.is_some_and(|kept| !kept.is_empty()) {
        // An earlier build put it there.
        journal.remember(SECRET, "").await?;
    }
    let text = passes_text(journal).await?;
    let signed = match signer::signatory(config, journal).await? {
        Signatory::Here(signer) => signer.sign(&text).await,
        Signatory::Elsewhere(_) => Err(Fault::Permanent("--audit-key names no key here".into())),
    };
    let signed = match signed {
        Ok(signed) => signed,
        Err(fault) => {
            tracing::warn!(%fault, "whoever signs in at the console here is not known at other servers");
            return Ok(());
        }
    };
    let shared = Hash::of(&[signed.as_slice()]);
    let path = config.data.join(auth::FILE);
    let kept = auth::secret(&path).and_then(|own| {
        if own == shared.0 {
            return Ok(());
        }
        // In the place of what only this machine knew, and its owner's alone as that was.
        let part = path.with_extension("part");
        std::fs::write(&part, shared.0)?;
        std::fs::rename(&part, &path)
    });
    kept.map_err(|source| AppError::Passes { data: config.data.clone(), source })
}

/// What passes were made with until the signing key was changed, for as long as the settings name the one before: whoever
/// has signed in stays so while servers change over. Any other key than the one that the log knows as that has made none;
/// of one that was changed before it had signed a head the log knows nothing, and the settings' word is taken.
pub(super) async fn secret_before(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<[u8; 32]>, AppError> {
    if journal.replicas().is_none() {
        return Ok(None);
    }
    let Some(before) = signer::before(config)? else { return Ok(None) };
    let handed = LastHead::handed(journal).await?;
    let known = handed.last().map(|change| VerifyKey::parse(&change.before));
    let text = passes_text(journal).await?;
    match before.sign(&text).await {
        Ok(signed) => {
            let has_signed =
                |key: Option<VerifyKey>| key.is_some_and(|key| key.signed(&text, &signed));
            Ok(known.is_none_or(has_signed).then(|| Hash::of(&[signed.as_slice()]).0))
        }
        Err(fault) => {
            tracing::warn!(%fault, "whoever signed in at the console under the key before signs in again here");
            Ok(None)
        }
    }
}

/// What is signed to make passes with: no head of a log begins like this.
async fn passes_text(journal: &dyn Journal) -> Result<String, Fault> {
    let origin = journal.remembered(ORIGIN).await?.unwrap_or_default();
    Ok(format!("what the console's passes are made with\n{origin}\n"))
}

/// Where the store is, as people are told.
pub(super) fn place(config: &Config) -> String {
    #[cfg(feature = "postgres")]
    if let Some(named) =
        config.store.as_deref().and_then(|address| PostgresConfig::new(address).ok())
    {
        return format!("the database at {}", named.place());
    }
    config.data.display().to_string()
}

/// The server over the database that is named which has this data directory, as commands talk to it; none where none lives.
pub(super) fn server_here(config: &Config) -> Option<String> {
    let beside = store::beside(&config.data)?;
    let address = beside.server?;
    let is_same = is_at(config.store.as_deref()?, &beside.place);
    is_same.then(|| address.parse().map_or_else(|_| format!("http://{address}"), probe::here))
}

/// The server that a command speaks to in the place of the database that is named, so that whoever has a key is who they
/// are. Who names the database here and now, and only looks, means the database.
pub(super) fn at_hand(config: &Config, reach: Reach) -> Option<String> {
    let is_meant = config.origin("store") == Origin::Flag && reach == Reach::Nothing;
    server_here(config).filter(|_| !is_meant)
}

/// Whether the database that is named is at a place that was told.
#[cfg(feature = "postgres")]
fn is_at(address: &str, place: &str) -> bool {
    PostgresConfig::new(address).is_ok_and(|named| named.is_at(place))
}

#[cfg(not(feature = "postgres"))]
fn is_at(_address: &str, _place: &str) -> bool {
    false
}

/// Tells commands that are led to the data directory where its server can be talked to, for as long as what is returned
/// lives; a store in the directory does so itself. Where another server lives beside the same directory commands are led
/// to that one, until it ends.
#[cfg(feature = "postgres")]
pub(super) fn announce(config: &Config, listens: SocketAddr) -> Option<AbortOnDropHandle<()>> {
    let named = PostgresConfig::new(config.store.as_deref()?).ok()?;
    let (data, listens) = (config.data.clone(), listens.to_string());
    let say = move || store::announce_beside(&data, &listens, &named.place());
    let mut said = say();
    if matches!(said, Ok(None)) {
        let other = store::beside(&config.data).and_then(|beside| beside.server);
        tracing::warn!(
            other,
            data = %config.data.display(),
            "another server lives beside this data directory, and commands there talk to that one: give each server a `--data` of \
             its own"
        );
    }
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        while let Ok(None) = said {
            tokio::time::sleep(LOOK).await;
            said = say();
        }
        match said {
            // Said for as long as this is waited for.
            Ok(_announced) => std::future::pending().await,
            Err(error) => {
                tracing::warn!(%error, "commands on this machine do not find this server");
            }
        }
    })))
}

#[cfg(not(feature = "postgres"))]
pub(super) fn announce(_config: &Config, _listens: SocketAddr) -> Option<AbortOnDropHandle<()>> {
    None
}

/// Refuses a command that would work on runs where a database was named: servers do.
pub(super) fn refuse_shared(config: &Config, reach: Reach) -> Result<(), AppError> {
    let is_refused = config.store.is_some() && reach != Reach::Nothing;
    if is_refused { Err(AppError::SharedStore) } else { Ok(()) }
}

/// The store, for a command that does something to all of it; none where a data directory is meant.
#[cfg(feature = "postgres")]
pub(super) async fn worked_on(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    let Some(address) = &config.store else { return Ok(None) };
    Ok(Some(store::open_postgres(&PostgresConfig::new(address)?).await?.journal()))
}

/// The store, for a command that looks at all of it; none where a data directory is meant.
#[cfg(feature = "postgres")]
pub(super) async fn looked_at(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    let Some(address) = &config.store else { return Ok(None) };
    Ok(Some(store::look_at_postgres(&PostgresConfig::new(address)?).await?.journal()))
}

/// The store, for a command that does something to all of it; none where a data directory is meant.
#[cfg(not(feature = "postgres"))]
pub(super) async fn worked_on(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    looked_at(config).await
}

/// The store, for a command that looks at all of it; none where a data directory is meant.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
pub(super) async fn looked_at(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    if config.store.is_some() { Err(AppError::NoPostgres) } else { Ok(None) }
}

/// What making the tables of a store came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tables {
    /// Where they are.
    pub place: String,
    /// Whether there were none.
    pub is_made: bool,
    /// Whether they were of an earlier build.
    pub is_raised: bool,
    /// The indexes that were missing, and were made again.
    pub mended: Vec<String>,
    /// Which schema they have now.
    pub schema: i32,
    /// The newest form of records that this program reads.
    pub reads_form: i32,
}

/// Makes the tables of the store that is named.
#[cfg(feature = "postgres")]
pub async fn migrate(config: &Config) -> Result<Tables, AppError> {
    let address = config.store.as_deref().ok_or(AppError::NoStoreNamed)?;
    let named = PostgresConfig::new(address)?;
    let outcome = store::migrate(&named).await?;
    Ok(Tables {
        place: named.place(),
        is_made: outcome == Migrated::Made,
        is_raised: outcome == Migrated::Raised,
        mended: if let Migrated::Mended(indexes) = outcome { indexes } else { Vec::new() },
        schema: store::SCHEMA,
        reads_form: store::READS,
    })
}

/// Makes the tables of the store that is named.
#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "as it is with the feature")]
pub async fn migrate(_config: &Config) -> Result<Tables, AppError> {
    Err(AppError::NoPostgres)
}
