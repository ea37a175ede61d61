//! Reload: looks at the keys while the server runs, in their file or in the store that several servers share, and has the
//! door ask for what is there. What it cannot read changes nothing: the keys that were there stay in force, and it is said
//! loudly.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::app::auth::Keyed;
use crate::app::keys::removed::Removed;
use crate::app::keys::{Keys, KeysError, shared};
use crate::engine::Engine;
use crate::ports::Journal;

/// How often it looks: a change counts within two seconds, with room for a machine that is busy.
const EVERY: Duration = Duration::from_millis(500);
/// A file that changed so lately may change again in the same tick of the file system's clock.
const FRESH: Duration = Duration::from_secs(2);

/// What tells one state of a file from another.
type Stamp = (u64, u64, i64, i64, u64);

/// Where keys are.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// In a file.
    File(PathBuf),
    /// In a store that several servers share, and what knows whether that has gone back in time.
    Store(Arc<dyn Journal>, Engine),
}

/// Looks there for as long as the server runs; `heed` is told of the keys that are in force.
pub(super) async fn watch(
    door: Arc<Keyed>,
    source: Source,
    heed: impl Fn(Option<&Keys>) + Send + 'static,
) {
    let (mut seen, mut written, mut removed) = (None, None, Removed::default());
    let mut known = door.keys();
    let mut looked_at = door.now();
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        match &source {
            Source::File(path) => {
                let (beside, path) = (Arc::clone(&door), path.clone());
                let looked = tokio::task::spawn_blocking(move || look(&beside, &path, seen)).await;
                seen = looked.unwrap_or_default();
            }
            Source::Store(journal, engine) => {
                if removed.are_looked_at(engine.epoch_in_force()) {
                    written = None;
                }
                let ticks = door.ticks();
                if look_in(&door, &**journal, (&mut written, &mut removed)).await {
                    door.confirm(ticks, written.as_deref());
                }
            }
        }
        let now = door.keys();
        let (before, at) = (looked_at, door.now());
        looked_at = at.max(before);
        let has_ended = now.as_ref().is_some_and(|keys| keys.has_ended(before, looked_at));
        if has_ended {
            tracing::info!("the time of a key has come");
            door.look_again();
        }
        if now != known || has_ended {
            // Keys that are all gone are not none: the server still asks for them.
            heed(now.as_deref());
            known = now;
        }
    }
}

/// Looks once; returns what was seen, if it need not be looked at again.
fn look(door: &Keyed, path: &Path, seen: Option<Stamp>) -> Option<Stamp> {
    let (stamp, is_fresh) = match fs::metadata(path) {
        Ok(about) => {
            let stamp = (about.dev(), about.ino(), about.ctime(), about.ctime_nsec(), about.size());
            let changed = SystemTime::UNIX_EPOCH
                .checked_add(Duration::from_secs(u64::try_from(about.ctime()).unwrap_or_default()));
            let age = changed.and_then(|changed| changed.elapsed().ok());
            (stamp, age.is_none_or(|age| age < FRESH))
        }
        // Nobody has made keys, and nobody need.
        Err(error) if error.kind() == io::ErrorKind::NotFound && door.keys().is_none() => {
            return None;
        }
        Err(source) => {
            complain(door, &KeysError::Io { deed: "read", path: path.into(), source });
            return None;
        }
    };
    if seen == Some(stamp) {
        return seen;
    }
    match Keys::load(path).and_then(|keys| door.check(keys)) {
        Ok(keys) => take(door, keys),
        Err(error) => complain(door, &error),
    }
    (!is_fresh).then_some(stamp)
}

/// Looks once at what a store keeps; whether what is in force is that. While it is out of reach nothing is decided.
async fn look_in(
    door: &Keyed,
    journal: &dyn Journal,
    (written, removed): (&mut Option<String>, &mut Removed),
) -> bool {
    let Ok(text) = shared::written(journal).await else { return false };
    let Some(text) = text else { return true };
    if written.as_ref() == Some(&text) {
        return true;
    }
    let left = shared::read(&text).map(|keys| removed.leave_out(keys));
    let checked = left.and_then(|(keys, back)| Ok((door.check(keys)?, back)));
    match checked {
        Ok((keys, back)) => {
            for key in back {
                tracing::error!(
                    key,
                    "a key that was removed is in the database again, which has gone back in time: it is not taken until \
                     `holdpoint release`; look at `holdpoint keys list` first"
                );
            }
            take(door, keys);
        }
        Err(error) => complain(door, &error),
    }
    *written = Some(text);
    true
}

fn take(door: &Keyed, keys: Keys) {
    use crate::api::Doorkeeper as _;
    if door.trouble().is_some() {
        tracing::info!("the keys can be read again");
        door.troubled(None);
    }
    let is_same = match door.keys() {
        // A file without keys asks nobody for one; once there were some, it lets nobody in.
        None => keys.list().is_empty(),
        Some(known) => *known == keys,
    };
    if is_same {
        return;
    }
    let count = keys.list().len();
    if let Err(error) = door.take(keys) {
        tracing::error!(%error, "the console's passes cannot be made");
    }
    tracing::info!(count, "the keys have changed");
}

fn complain(door: &Keyed, error: &KeysError) {
    use crate::api::Doorkeeper as _;
    let why = error.to_string();
    if door.trouble().as_ref() == Some(&why) {
        return;
    }
    tracing::error!(why, "the keys cannot be used: the keys of before are in force, and no others");
    door.troubled(Some(why));
}
