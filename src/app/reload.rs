//! Reload: looks at the keys while the server runs, in their file or in the store that several servers share, and has the
//! door ask for what is there. What it cannot read changes nothing: the keys that were there stay in force, and it is said
//! loudly.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tokio::sync::Mutex;

use crate::app::auth::Keyed;
use crate::app::keys::removed::Removed;
use crate::app::keys::{Keys, KeysError, shared};
use crate::kernel::Millis;
use crate::ports::{Fault, Journal};

/// How often it looks: a change counts within two seconds, with room for a machine that is busy.
const EVERY: Duration = Duration::from_millis(500);
/// A file that changed so lately may change again in the same tick of the file system's clock.
const FRESH: Duration = Duration::from_secs(2);

/// What tells one state of a file from another.
type Stamp = (u64, u64, i64, i64, u64);

/// Who is told of the keys that are in force.
pub(super) type Heed = Box<dyn Fn(Option<&Keys>) + Send + Sync>;

/// Tells of the keys in force where they are others than before, or where the time of one has come.
struct Told {
    heed: Heed,
    known: Option<Arc<Keys>>,
    looked_at: Millis,
}

impl Told {
    fn beside(door: &Keyed, heed: Heed) -> Self {
        Self { heed, known: door.keys(), looked_at: door.now() }
    }

    fn tell(&mut self, door: &Keyed) {
        let now = door.keys();
        let (before, at) = (self.looked_at, door.now());
        self.looked_at = at.max(before);
        let has_ended = now.as_ref().is_some_and(|keys| keys.has_ended(before, self.looked_at));
        if has_ended {
            tracing::info!("the time of a key has come");
            door.look_again();
        }
        if now != self.known || has_ended {
            // Keys that are all gone are not none: the server still asks for them.
            (self.heed)(now.as_deref());
            self.known = now;
        }
    }
}

/// Looks at a file of keys for as long as the server runs.
pub(super) async fn watch(door: Arc<Keyed>, path: PathBuf, heed: Heed) {
    let (mut seen, mut told) = (None, Told::beside(&door, heed));
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let (beside, path) = (Arc::clone(&door), path.clone());
        let looked = tokio::task::spawn_blocking(move || look(&beside, &path, seen)).await;
        seen = looked.unwrap_or_default();
        told.tell(&door);
    }
}

/// Looks at the keys of a store that several servers share: every half second, and at once where somebody found that they
/// have changed. Who there is is told before the door says that its keys are those that are kept: what is decided rests on
/// who speaks now and on everybody whose word counts beside theirs (K7, K8).
pub(super) struct Lookout {
    door: Arc<Keyed>,
    journal: Arc<dyn Journal>,
    /// What tells that a store has gone back in time, and that somebody has let it go on.
    epoch: Box<dyn Fn() -> Option<String> + Send + Sync>,
    seen: Mutex<Seen>,
}

/// What was seen there last.
struct Seen {
    written: Option<String>,
    /// Why that cannot be used here.
    unusable: Option<String>,
    removed: Removed,
    told: Told,
}

impl std::fmt::Debug for Lookout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lookout").field("door", &self.door).finish_non_exhaustive()
    }
}

impl Lookout {
    pub(super) fn new(
        door: Arc<Keyed>,
        journal: Arc<dyn Journal>,
        epoch: impl Fn() -> Option<String> + Send + Sync + 'static,
        heed: Heed,
    ) -> Self {
        let told = Told::beside(&door, heed);
        let seen = Seen { written: None, unusable: None, removed: Removed::default(), told };
        Self { door, journal, epoch: Box::new(epoch), seen: Mutex::new(seen) }
    }

    /// Looks there for as long as the server runs.
    pub(super) async fn watch(self: Arc<Self>) {
        let mut every = tokio::time::interval(EVERY);
        loop {
            every.tick().await;
            if let Err(fault) = self.look(&mut *self.seen.lock().await).await {
                tracing::debug!(%fault, "the keys could not be looked at: nothing is decided by them until they are");
            }
        }
    }

    /// Returns when the keys in force are those that are kept, as of now. A fault where they cannot be: then nothing is
    /// decided by them.
    pub(super) async fn confirm(&self) -> Result<(), Fault> {
        let mut seen = self.seen.lock().await;
        // Somebody may have looked while this one waited.
        if self.door.is_confirmed() {
            return Ok(());
        }
        self.look(&mut seen).await
    }

    async fn look(&self, seen: &mut Seen) -> Result<(), Fault> {
        if seen.removed.are_looked_at((self.epoch)()) {
            seen.written = None;
        }
        let ticks = self.door.ticks();
        let looked = self.take_kept(seen).await;
        // In this order: whoever is told by the door that the keys are these finds those people, and no others.
        seen.told.tell(&self.door);
        looked?;
        self.door.confirm(ticks, seen.written.as_deref());
        Ok(())
    }

    /// Has the door ask for what is kept. What cannot be used here changes nothing at the door, and nothing is decided here
    /// until it can: whoever was removed in it would count for somebody.
    async fn take_kept(&self, seen: &mut Seen) -> Result<(), Fault> {
        let text = match shared::written(&*self.journal).await {
            Ok(Some(text)) => text,
            Ok(None) if seen.written.is_none() => return Ok(()),
            Ok(None) => return Err(self.lost("the database keeps no keys any more")),
            // One that is out of reach says so itself.
            Err(fault @ (Fault::Corrupt(_) | Fault::Permanent(_))) => {
                return Err(self.lost(&fault.to_string()));
            }
            Err(fault) => return Err(fault),
        };
        if seen.written.as_ref() != Some(&text) {
            let left = shared::read(&text).map(|keys| seen.removed.leave_out(keys));
            let checked = left.and_then(|(keys, back)| Ok((self.door.check(keys)?, back)));
            seen.unusable = match checked {
                Ok((keys, back)) => {
                    tell_back(&back);
                    take(&self.door, keys);
                    None
                }
                Err(error) => Some(error.to_string()),
            };
            seen.written = Some(text);
        }
        match &seen.unusable {
            None => {
                recovered(&self.door);
                Ok(())
            }
            Some(why) => Err(self.lost(why)),
        }
    }

    /// Tells that what the database keeps is no ground for a decision here.
    fn lost(&self, why: &str) -> Fault {
        complain(&self.door, why);
        Fault::Retriable(format!(
            "the keys that the database keeps cannot be used here, and nothing is decided until they can: {why}"
        ))
    }
}

/// Tells of keys that were removed and are there again.
fn tell_back(back: &[String]) {
    for key in back {
        tracing::error!(
            key,
            "a key that was removed is in the database again, which has gone back in time: it is not taken until \
             `holdpoint release`; look at `holdpoint keys list` first"
        );
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
            complain(door, &KeysError::Io { deed: "read", path: path.into(), source }.to_string());
            return None;
        }
    };
    if seen == Some(stamp) {
        return seen;
    }
    match Keys::load(path).and_then(|keys| door.check(keys)) {
        Ok(keys) => take(door, keys),
        Err(error) => complain(door, &error.to_string()),
    }
    (!is_fresh).then_some(stamp)
}

fn take(door: &Keyed, keys: Keys) {
    recovered(door);
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

/// Says no more that they cannot be used, where it was said.
fn recovered(door: &Keyed) {
    use crate::api::Doorkeeper as _;
    if door.trouble().is_some() {
        tracing::info!("the keys can be read again");
        door.troubled(None);
    }
}

fn complain(door: &Keyed, why: &str) {
    use crate::api::Doorkeeper as _;
    if door.trouble().as_deref() == Some(why) {
        return;
    }
    tracing::error!(why, "the keys cannot be used: the keys of before are in force, and no others");
    door.troubled(Some(why.to_owned()));
}
