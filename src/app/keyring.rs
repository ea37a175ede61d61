//! Keyring: where the keys of a server are. In a file; or, where several servers share a store in a database and no file
//! was named, in that, so that a key that is removed is gone at all of them. What a key is good for is said elsewhere.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::app::clock::SystemClock;
use crate::app::keys::shared::{self, SharedKeysError};
use crate::app::keys::{Keys, KeysError, NewKey};
use crate::app::stranded::Stranded;
use crate::app::{AppError, Config, offline, people, posture, reread, store};
use crate::kernel::Millis;
use crate::ports::{Clock as _, Journal};
#[cfg(feature = "postgres")]
use crate::store::{OpenError, PostgresConfig};

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
        if config.shares_keys() { shared::kept(journal).await? } else { Keys::for_server(config)? };
    Ok(keys.filter(|keys| !keys.list().is_empty()))
}

/// The same for a server that begins to serve. Nothing fails open: where a server asked for keys, nobody is let in without
/// one because they are gone.
pub(super) async fn at_the_door(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<Keys>, AppError> {
    if !config.shares_keys() {
        let own = in_force(config, journal).await?;
        // A file of one's own that has none opens what others ask for keys at.
        let has = |keys: Option<Keys>| keys.is_some_and(|keys| !keys.list().is_empty());
        if own.is_some() {
            return Ok(own);
        }
        // A file that was emptied or lost looks like one that never was.
        if config.store.is_none() && posture::had_keys(journal).await? {
            return Err(AppError::OwnKeysGone(config.keys_path()));
        }
        if config.store.is_some()
            && (has(shared::kept(journal).await?) || posture::had_keys(journal).await?)
        {
            return Err(AppError::KeysGone);
        }
        return Ok(own);
    }
    match shared::kept(journal).await? {
        Some(keys) if !keys.list().is_empty() => Ok(Some(keys)),
        Some(_) => Err(AppError::KeysGone),
        None if posture::had_keys(journal).await? => Err(AppError::KeysGone),
        None => Ok(None),
    }
}

/// The keys of a server that begins to serve, if anybody can be let in with them, and nobody who should not be.
pub(super) async fn admitting(
    config: &Config,
    journal: &dyn Journal,
) -> Result<Option<Keys>, AppError> {
    let keys = at_the_door(config, journal).await?;
    admits(config, keys.as_ref())?;
    Ok(keys)
}

/// Whether anybody can be let in with these keys, and nobody who should not be.
pub(super) fn admits(config: &Config, keys: Option<&Keys>) -> Result<(), AppError> {
    if keys.is_none() && !config.listen.ip().is_loopback() {
        return Err(AppError::NoKeys { listen: config.listen, in_store: config.shares_keys() });
    }
    Ok(people::refuse_confusion(config, keys)?)
}

/// What time it is where the keys are: by it they end.
pub async fn time(config: &Config) -> Result<Millis, AppError> {
    let journal = if config.shares_keys() { store::looked_at(config).await? } else { None };
    let Some(journal) = journal else { return Ok(SystemClock.now()) };
    let time = offline::time_of(&*journal).await;
    journal.close().await;
    Ok(time?)
}

/// Takes the keys of the data directory along, where the store has none yet: whoever was asked for one before is not let
/// in without (K7).
pub(super) async fn bring(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    let path = config.keys_path();
    if !config.shares_keys() || !reread::lies(&path) || is_left_for_another(config) {
        return Ok(());
    }
    let own = Keys::load(&path)?;
    if own.list().is_empty() {
        return Ok(());
    }
    if shared::bring(journal, &own).await? {
        tracing::info!(path = %path.display(), "the keys of this file are in the database from now on");
        return Ok(());
    }
    let missing = missing(&own, &shared::kept(journal).await?.unwrap_or_default());
    if !missing.is_empty() {
        tracing::warn!(
            path = %path.display(), missing,
            "the keys in the database are in force, and not those of this file: make what is missing with `holdpoint keys add \
             NAME --store URL`, and remove the file to end this warning"
        );
    }
    Ok(())
}

/// The keys of a file that those in force have no key for, by their names; of those that were removed nobody misses any.
fn missing(file: &Keys, in_force: &Keys) -> String {
    let known = in_force.list().iter().map(|key| key.name.as_str());
    let known = known.chain(in_force.retired().iter().map(|gone| gone.name.as_str()));
    let known: BTreeSet<_> = known.collect();
    let names = file.list().iter().map(|key| key.name.as_str());
    names.filter(|name| !known.contains(name)).collect::<Vec<_>>().join(", ")
}

/// Whether the store of the data directory went to another database than the one that was named: its keys went along.
#[cfg(feature = "postgres")]
fn is_left_for_another(config: &Config) -> bool {
    let named = config.store.as_deref().and_then(|to| PostgresConfig::new(to).ok());
    let moved = crate::store::moving::is_moved(&config.data);
    let Some((named, moved)) = named.zip(moved) else { return false };
    let is_another = !named.is_at(&moved);
    if is_another {
        tracing::warn!(
            data = %config.data.display(), moved, named = named.place(),
            "the store of this data directory was moved to another database than this one, and what was asked there is not \
             here: look at the address (`--store`, HOLDPOINT_STORE). Where this one is meant: its keys are not taken along, \
             those in this database are in force; remove its `keys.toml`, which counts no more, to end this warning"
        );
    }
    is_another
}

#[cfg(not(feature = "postgres"))]
fn is_left_for_another(_config: &Config) -> bool {
    false
}

/// Where the store is that a server with this data directory serves, if not there: none asks for the keys in it.
#[cfg(feature = "postgres")]
pub fn left_for(config: &Config) -> Option<String> {
    if config.store.is_some() || config.keys.is_some() {
        return None;
    }
    let moved = crate::store::moving::is_moved(&config.data);
    moved.or_else(|| crate::store::beside(&config.data).map(|beside| beside.place))
}

/// Where the store is that a server with this data directory serves: without databases, there.
#[cfg(not(feature = "postgres"))]
pub fn left_for(_config: &Config) -> Option<String> {
    None
}

/// Refuses to change keys of a data directory whose store is elsewhere: they would be good nowhere.
#[cfg(feature = "postgres")]
fn refuse_left(config: &Config) -> Result<(), AppError> {
    let Some(place) = left_for(config) else { return Ok(()) };
    let dir = config.data.clone();
    Err(if crate::store::moving::is_moved(&dir).is_some() {
        OpenError::Moved { dir, place, server: None }.into()
    } else {
        OpenError::Beside { dir, place, server: None }.into()
    })
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unnecessary_wraps, reason = "as it is with the feature")]
fn refuse_left(_config: &Config) -> Result<(), AppError> {
    Ok(())
}

/// Where the keys are that a command works on, as people are told.
pub fn place(config: &Config) -> String {
    if config.shares_keys() {
        return offline::place(config);
    }
    format!("`{}`", config.keys_path().display())
}

/// The same for scripts, with no mark about it.
pub fn bare_place(config: &Config) -> String {
    if config.shares_keys() {
        return offline::bare_place(config);
    }
    config.keys_path().display().to_string()
}

/// The store that has the keys, for a command; none where a file has them.
async fn opened(config: &Config) -> Result<Option<Arc<dyn Journal>>, AppError> {
    refuse_left(config)?;
    if !config.shares_keys() {
        if config.keys.is_none() {
            crate::store::refuse_foreign(&config.data)?;
        }
        return Ok(None);
    }
    let Some(journal) = store::worked_on(config).await? else { return Ok(None) };
    // What is made in a half is gone when the whole comes.
    offline::refuse_half(config, &*journal).await?;
    Ok(Some(journal))
}

/// Makes a key, and returns its secret, which is kept nowhere; with the first one in a database, what waits there for
/// `local`, whom nobody is from then on.
pub async fn add(
    config: &Config,
    new: &NewKey,
    people: &BTreeSet<String>,
    now: &str,
) -> Result<(String, Option<Stranded>), AppError> {
    let Some(journal) = opened(config).await? else {
        return Ok((Keys::make(&config.keys_path(), new, people, now)?, None));
    };
    let added = put(&*journal, new, people, now).await;
    journal.close().await;
    added
}

async fn put(
    journal: &dyn Journal,
    new: &NewKey,
    people: &BTreeSet<String>,
    now: &str,
) -> Result<(String, Option<Stranded>), AppError> {
    let secret = new.draw()?;
    let is_first = shared::kept(journal).await?.is_none_or(|keys| keys.list().is_empty());
    shared::change(journal, |keys| keys.put(new, people, (&secret, now))).await?;
    note_change(journal).await;
    if !is_first {
        return Ok((secret, None));
    }
    let stranded = Stranded::of(journal).await;
    // The key is made whatever comes of this, and its secret is told this once.
    let told = stranded.inspect_err(|fault| {
        tracing::warn!(%fault, "what waits for `local` could not be counted");
    });
    Ok((secret, told.ok()))
}

/// Notes that the keys of a database are others now. They are, whatever comes of that.
async fn note_change(journal: &dyn Journal) {
    let noted = match shared::kept(journal).await {
        Ok(kept) => {
            posture::note_keys(journal, &kept.unwrap_or_default()).await.map_err(AppError::from)
        }
        Err(error) => Err(error.into()),
    };
    if let Err(error) = noted {
        tracing::warn!(%error, "that the keys were changed could not be noted; the next server does");
    }
}

/// Removes a key.
pub async fn remove(config: &Config, name: &str, now: &str) -> Result<(), AppError> {
    let Some(journal) = opened(config).await? else {
        return Ok(Keys::remove(&config.keys_path(), name, now)?);
    };
    let take = |keys: &mut Keys| -> Result<(), KeysError> { keys.take_out(name, now) };
    let changed = shared::change(&*journal, take).await;
    if changed.is_ok() {
        note_change(&*journal).await;
    }
    journal.close().await;
    Ok(changed?)
}

/// The keys there are.
pub async fn list(config: &Config) -> Result<Keys, AppError> {
    if config.shares_keys() {
        let Some(journal) = store::looked_at(config).await? else { return Ok(Keys::default()) };
        let kept = shared::kept(&*journal).await;
        journal.close().await;
        return Ok(kept?.unwrap_or_default());
    }
    let path = config.keys_path();
    if reread::lies(&path) {
        return Ok(Keys::load(&path)?);
    }
    if config.keys.is_none() {
        crate::store::refuse_foreign(&config.data)?;
    }
    Ok(Keys::default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::Role;

    fn keys(names: &[&str]) -> Keys {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        for name in names {
            Keys::add(&path, name, Role::User, "2026-01-01T00:00:00Z").unwrap();
        }
        Keys::load(&path).unwrap()
    }

    #[test]
    fn only_names_that_a_database_neither_has_nor_had_are_missing_there() {
        let file = keys(&["ada", "bob"]);
        let mut kept = keys(&["ada", "bob", "eve"]);
        assert_eq!(missing(&file, &kept), "", "it has more, and other secrets");
        kept.take_out("bob", "2026-01-02T00:00:00Z").unwrap();
        assert_eq!(missing(&file, &kept), "", "somebody has removed it there");
        assert_eq!(missing(&file, &keys(&["eve"])), "ada, bob");
        assert_eq!(missing(&file, &Keys::default()), "ada, bob");
    }
}
