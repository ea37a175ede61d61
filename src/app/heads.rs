//! Heads: the last signed head of each log, kept beside the key that signs them and away from the store: whoever can
//! write to the store, and has no key, cannot have it forgotten what was signed. What is done with it is not decided here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use crate::kernel::Millis;
use crate::ports::Fault;

/// What lies beside a key: heads by the origin of their log. None where the key lies in the data directory itself, where
/// it would prove nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Heads {
    own: Option<PathBuf>,
    /// Beside the key before: a key that is changed knows what that one has signed.
    before: Option<PathBuf>,
}

impl Heads {
    /// Beside a key that was named, and the one before it.
    pub(super) fn beside(key: Option<&Path>, before: Option<&Path>) -> Self {
        let beside = |path: &Path| path.with_added_extension("heads");
        Self { own: key.map(beside), before: before.map(beside) }
    }

    /// The last ones of a log.
    pub(super) fn last(&self, origin: &str) -> Result<Vec<String>, Fault> {
        self.kept_since(origin, None)
    }

    /// The same, each with the file that it lies in.
    pub(super) fn kept(&self, origin: &str) -> Result<Vec<(String, PathBuf)>, Fault> {
        let mut kept = Vec::new();
        for path in self.own.iter().chain(&self.before) {
            let note = all(path)?.remove(origin).filter(|note| !note.is_empty());
            kept.extend(note.map(|note| (note, path.clone())));
        }
        Ok(kept)
    }

    /// The last ones of a log that lie in files which were written since `seen`, by the file system. What was given up with
    /// one key is not known again by the one before it.
    pub(super) fn kept_since(
        &self,
        origin: &str,
        seen: Option<Millis>,
    ) -> Result<Vec<String>, Fault> {
        let is_seen = |path: &Path| seen.zip(written_at(path)).is_some_and(|(seen, at)| at < seen);
        let mut kept = Vec::new();
        for path in self.own.iter().chain(&self.before).filter(|path| !is_seen(path)) {
            kept.extend(all(path)?.remove(origin).filter(|note| !note.is_empty()));
        }
        Ok(kept)
    }

    /// Another log that the key has signed, and its last head, where it was never said to sign this one.
    pub(super) fn other_than(&self, origin: &str) -> Result<Option<(String, String)>, Fault> {
        let Some(path) = &self.own else { return Ok(None) };
        let known = all(path)?;
        Ok(if known.contains_key(origin) { None } else { known.into_iter().next() })
    }

    /// Keeps another one in its place.
    pub(super) fn keep(&self, origin: &str, note: &str) -> Result<(), Fault> {
        let Some(path) = &self.own else { return Ok(()) };
        change(path, |heads| drop(heads.insert(origin.to_owned(), note.to_owned())))
    }

    /// The log goes on from whatever it holds: what was signed of it counts no more, and that it is this key's stays known.
    /// What cannot be read is given up with it: it is why somebody says so.
    pub(super) fn forget(&self, origin: &str) -> Result<(), Fault> {
        if let Some(path) = &self.before
            && all(path).is_ok_and(|heads| heads.contains_key(origin))
        {
            change(path, |heads| drop(heads.remove(origin)))?;
        }
        let Some(path) = &self.own else { return Ok(()) };
        let mut heads = all(path).unwrap_or_default();
        heads.insert(origin.to_owned(), String::new());
        write(path, &heads).map_err(|error| wrong(path, &error))
    }
}

/// When a file was last written; none where that is not known.
fn written_at(path: &Path) -> Option<Millis> {
    let changed = fs::metadata(path).ok()?.modified().ok()?;
    let since = changed.duration_since(UNIX_EPOCH).ok()?.as_millis();
    u64::try_from(since).ok().map(Millis)
}

fn all(path: &Path) -> Result<BTreeMap<String, String>, Fault> {
    let read = match fs::read(path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::from),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    };
    read.map_err(|error| wrong(path, &error))
}

fn change(path: &Path, by: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<(), Fault> {
    let mut heads = all(path)?;
    by(&mut heads);
    write(path, &heads).map_err(|error| wrong(path, &error))
}

fn write(path: &Path, heads: &BTreeMap<String, String>) -> io::Result<()> {
    // Whole or not at all: half of one would keep every later head from being signed.
    let fresh = path.with_added_extension("new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(heads)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

fn wrong(path: &Path, error: &io::Error) -> Fault {
    Fault::Retriable(format!(
        "`{}`, where the last signed head is kept beside the key: {error}",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_beside_the_key_before_and_was_given_up_is_not_known_again() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new] = ["old.pem", "new.pem"].map(|name| folder.path().join(name));
        Heads::beside(Some(&old), None).keep("log", "of the old").unwrap();
        // Somebody lets the store go on at a server that does not name the key before, and it signs from there.
        let seen = written_at(&old.with_added_extension("heads")).unwrap().plus(1);
        let heads = Heads::beside(Some(&new), Some(&old));
        assert_eq!(heads.kept_since("log", None).unwrap(), ["of the old"]);
        assert_eq!(heads.kept_since("log", Some(seen)).unwrap(), [""; 0]);
        heads.keep("log", "of the new").unwrap();
        let file = fs::File::options().write(true).open(new.with_added_extension("heads")).unwrap();
        file.set_modified(UNIX_EPOCH + std::time::Duration::from_millis(seen.0)).unwrap();
        assert_eq!(heads.kept_since("log", Some(seen)).unwrap(), ["of the new"]);
        assert_eq!(heads.last("log").unwrap(), ["of the new", "of the old"], "signing heeds both");
    }
}
