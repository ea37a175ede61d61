//! Keyring: where the keys of a server are. In a file; or, where several servers share a store in a database and no file
//! was named, in that, so that a key that is removed is gone at all of them. What a key is good for is said elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::app::clock::SystemClock;
use crate::app::keys::shared::{self, SharedKeysError};
use crate::app::keys::{Keys, KeysError, NewKey};
use crate::app::{AppError, Config, offline, posture, store};
use crate::kernel::Millis;
use crate::ports::{Clock as _, Journal};

/// Whether the keys are in the store that was named.
pub(super) fn is_shared(config: &Config) -> bool {
    config.store.is_some() && config.keys.is_none()
}

impl From<SharedKeysError> for AppError {
    fn from(error: SharedKeysError) -> Self {
        match error {
            SharedKeysError::Keys(error) => Self::Keys(error),
            SharedKeysError::Fault(fault) => Self::Fault(fault),
        }
    }
}

/// The keys that a server over this store asks for; none where there are none.
pub(super) async fn in_force(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<Keys>, AppError> {
    let keys =
        if is_shared(config) { shared::kept(journal).await? } else { Keys::for_server(config)? };
    Ok(keys.filter(|keys| !keys.list().is_empty()))
}

/// The same for a server that begins to serve. Nothing fails open: where servers over a database asked for keys, nobody
/// is let in without one because they are gone.
pub(super) async fn at_the_door(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<Keys>, AppError> {
    if !is_shared(config) {
        return in_force(config, journal).await;
    }
    match shared::kept(journal).await? {
        Some(keys) if !keys.list().is_empty() => Ok(Some(keys)),
        Some(_) => Err(AppError::KeysGone),
        None if posture::had_keys(journal).await? => Err(AppError::KeysGone),
        None => Ok(None),
    }
}

/// What time it is where the keys are: by it they end.
pub async fn time(config: &Config) -> Result<Millis, AppError> {
    let journal = if is_shared(config) { store::looked_at(config).await? } else { None };
    let Some(journal) = journal else { return Ok(SystemClock.now()) };
    let time = offline::time_of(&*journal).await;
    journal.close().await;
    Ok(time?)
}

/// Takes the keys of the data directory along, where the store has none yet: whoever was asked for one before is not let
/// in without (K7).
pub(super) async fn bring(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    let path = config.keys_path();
    if !is_shared(config) || !path.exists() {
        return Ok(());
    }
    let own = Keys::load(&path)?;
    if own.list().is_empty() {
        return Ok(());
    }
    if shared::bring(journal, &own).await? {
        tracing::info!(path = %path.display(), "the keys of this file are in the database from now on");
    } else if shared::kept(journal).await?.as_ref() != Some(&own) {
        tracing::warn!(path = %path.display(), "the keys in the database are in force, and not those of this file");
    }
    Ok(())
}

/// Refuses keys of a data directory whose store went elsewhere: no server would ask for them.
#[cfg(feature = "postgres")]
fn refuse_left(config: &Config) -> Result<(), AppError> {
    if config.store.is_some() || config.keys.is_some() {
        return Ok(());
    }
    match crate::store::moving::is_moved(&config.data) {
        Some(place) => {
            Err(crate::store::OpenError::Moved { dir: config.data.clone(), place }.into())
        }
        None => Ok(()),
    }
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unnecessary_wraps, reason = "as it is with the feature")]
fn refuse_left(_config: &Config) -> Result<(), AppError> {
    Ok(())
}

/// The store that has the keys, for a command; none where a file has them.
async fn opened(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    refuse_left(config)?;
    if is_shared(config) { store::worked_on(config).await } else { Ok(None) }
}

/// Makes a key, and returns its secret, which is kept nowhere.
pub async fn add(
    config: &Config,
    new: &NewKey,
    people: &BTreeSet<String>,
    now: &str,
) -> Result<String, AppError> {
    let Some(journal) = opened(config).await? else {
        return Ok(Keys::make(&config.keys_path(), new, people, now)?);
    };
    let secret = new.draw()?;
    let put = |keys: &mut Keys| keys.put(new, people, (&secret, now));
    let changed = shared::change(&*journal, put).await;
    journal.close().await;
    changed?;
    Ok(secret)
}

/// Removes a key.
pub async fn remove(config: &Config, name: &str, now: &str) -> Result<(), AppError> {
    let Some(journal) = opened(config).await? else {
        return Ok(Keys::remove(&config.keys_path(), name, now)?);
    };
    let take = |keys: &mut Keys| -> Result<(), KeysError> { keys.take_out(name, now) };
    let changed = shared::change(&*journal, take).await;
    journal.close().await;
    Ok(changed?)
}

/// The keys there are.
pub async fn list(config: &Config) -> Result<Keys, AppError> {
    if is_shared(config) {
        let Some(journal) = store::looked_at(config).await? else { return Ok(Keys::default()) };
        let kept = shared::kept(&*journal).await;
        journal.close().await;
        return Ok(kept?.unwrap_or_default());
    }
    let path = config.keys_path();
    Ok(if path.exists() { Keys::load(&path)? } else { Keys::default() })
}
