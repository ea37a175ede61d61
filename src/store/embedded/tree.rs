//! Tree: the ordered tree on disk, which is sled, behind a handful of calls. Nothing else in the house
//! names sled; what is known of its ways is known here: that its `flush` is no fsync, that it panics over
//! damage, and that it lets go of its file a moment late. It knows nothing of what is stored; how that lies in it is for
//! `disk` to say.

use std::fs::{File, OpenOptions};
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use ::sled::{Db, Error};

use crate::ports::Fault;
use crate::store::config::OpenError;
use crate::store::embedded::directory::Directory;
use crate::store::embedded::panic_hook;

/// A key or a value as the tree hands it out: shared, not copied.
pub(super) type Bytes = ::sled::IVec;
/// A stretch of keys.
pub(super) type Span = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// A key and what lies there.
pub(super) type Row = Result<(Bytes, Bytes), Fault>;

/// What is said of pages that rotted. They are below the records: which of these lay there is not known, so no run, no
/// version and no byte can be named.
const PAGES: &str = "pages of its tree (`store/db`, or `store/snap.*`) do not check out, and what lay on them cannot be named";

/// sled lets go of its file a moment after it is dropped; this is how long we wait for it.
const LET_GO_TRIES: u32 = 500;
const LET_GO_PAUSE: Duration = Duration::from_millis(10);
/// How often sled's own thread rolls its log and cleans up behind us; durability does not hang on it.
const HOUSEKEEPING_MS: u64 = 500;

/// The open tree. A clone is a handle of the same one, and keeps it open.
#[derive(Debug, Clone)]
pub(super) struct Tree {
    db: Db,
    /// Our own handle of sled's log: `flush` writes it but does not make it durable.
    log: Arc<File>,
}

impl Tree {
    /// Opens what is in the directory, and makes it if it is not there.
    pub(super) fn open(directory: &Directory, cache_bytes: u64) -> Result<Self, OpenError> {
        let path = directory.store();
        // sled panics on some damage; that is an answer too, and told in our words.
        let quiet = panic_hook::quiet_while_opening();
        let opened = catch_unwind(AssertUnwindSafe(|| open_patiently(&path, cache_bytes)));
        drop(quiet);
        let dir = || directory.path().to_path_buf();
        let db = match opened {
            Ok(Ok(db)) => db,
            Ok(Err(Error::Io(source))) => return Err(OpenError::of(&path, source)),
            Ok(Err(Error::Unsupported(found))) => {
                let expected = "sled 0.34 with 512 KiB segments, not compressed".into();
                return Err(OpenError::WrongFormat { dir: dir(), found, expected });
            }
            Ok(Err(error)) => {
                return Err(OpenError::Damaged { dir: dir(), what: damage(&error) });
            }
            Err(_) => {
                let what = "sled gave up reading it; the log has its last words".into();
                return Err(OpenError::Damaged { dir: dir(), what });
            }
        };
        Self::with_log(db, &path)
    }

    fn with_log(db: Db, path: &Path) -> Result<Self, OpenError> {
        let path = path.join("db");
        let log = OpenOptions::new().write(true).open(&path);
        let log = log.map_err(|source| OpenError::of(&path, source))?;
        Ok(Self { db, log: Arc::new(log) })
    }

    /// A tree of its own for a test, and where it lies: nothing there outlives it.
    #[cfg(test)]
    pub(super) fn temporary() -> (Self, std::path::PathBuf) {
        let config = ::sled::Config::new().temporary(true);
        let path = config.get_path();
        (Self::with_log(config.open().unwrap(), &path).unwrap(), path)
    }

    /// What lies at a key.
    pub(super) fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        self.db.get(key).map_err(|error| fault(&error))
    }

    /// Puts a value at a key, or empties it; what lay there comes back. Durable only after [`Tree::sync`].
    pub(super) fn set(&self, key: &[u8], value: Option<&Bytes>) -> Result<Option<Bytes>, Fault> {
        let outcome = match value {
            Some(value) => self.db.insert(key, value),
            None => self.db.remove(key),
        };
        outcome.map_err(|error| fault(&error))
    }

    /// The rows of a stretch of keys, from either end.
    pub(super) fn rows(&self, span: Span) -> impl DoubleEndedIterator<Item = Row> + use<> {
        self.db.range(span).map(|row| row.map_err(|error| fault(&error)))
    }

    /// About how large it is; 0 where that cannot be told.
    pub(super) fn bytes(&self) -> u64 {
        self.db.size_on_disk().unwrap_or_default()
    }

    /// Makes everything that was set durable: sled's `flush` ends in `sync_file_range`, which survives no
    /// power cut, so fdatasync comes after it. An error is final: what the kernel could not write it may
    /// have dropped, and a second try would succeed without it (E7).
    pub(super) fn sync(&self) -> Result<(), Fault> {
        self.db.flush().map_err(|error| fault(&error))?;
        self.log.sync_data().map_err(|error| Fault::Permanent(format!("fdatasync: {error}")))
    }

    /// Lets go of the tree, for as long as `patience`. On a thread of its own: where sled's housekeeping
    /// has panicked over damage, sled waits for it for ever.
    pub(super) fn close(self, patience: Duration) -> Result<(), Fault> {
        let (told, done) = mpsc::sync_channel(1);
        let closing = std::thread::Builder::new().name("holdpoint-closing".into());
        let closing = closing.spawn(move || {
            drop(self);
            told.send(()).unwrap_or_default();
        });
        if closing.is_err() {
            // Not even a thread is to be had; then it was let go of here and now.
            return Ok(());
        }
        match done.recv_timeout(patience) {
            Ok(()) | Err(RecvTimeoutError::Disconnected) => Ok(()),
            Err(RecvTimeoutError::Timeout) => Err(Fault::Permanent(
                "sled does not let go of its file; `holdpoint doctor` says what is damaged".into(),
            )),
        }
    }
}

/// What sled's no means for us.
fn fault(error: &Error) -> Fault {
    match error {
        Error::Corruption { .. } => Fault::Corrupt(damage(error)),
        Error::Io(_)
        | Error::CollectionNotFound(_)
        | Error::Unsupported(_)
        | Error::ReportableBug(_) => Fault::Permanent(damage(error)),
    }
}

/// sled's no in words. Of pages that rotted it tells an offset, which it mostly does not know, and nothing that helps:
/// there ours stand.
fn damage(error: &Error) -> String {
    match error {
        Error::Corruption { .. } => PAGES.to_owned(),
        Error::Io(_)
        | Error::CollectionNotFound(_)
        | Error::Unsupported(_)
        | Error::ReportableBug(_) => format!("sled: {error}"),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a blocking thread waits for sled's threads, which no clock of ours knows"
)]
fn open_patiently(path: &Path, cache_bytes: u64) -> ::sled::Result<Db> {
    let config = ::sled::Config::new()
        .path(path)
        .cache_capacity(cache_bytes)
        .flush_every_ms(Some(HOUSEKEEPING_MS));
    for _ in 0..LET_GO_TRIES {
        match config.open() {
            Err(Error::Io(error)) if error.to_string().contains("acquire lock") => {
                std::thread::sleep(LET_GO_PAUSE);
            }
            other => return other,
        }
    }
    config.open()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn j6_of_pages_that_rotted_it_is_said_what_is_damaged_and_that_no_place_can_be_named() {
        let rotten = Error::Corruption { at: None, bt: () };
        let dir = Path::new("data").to_path_buf();
        let told = OpenError::Damaged { dir, what: damage(&rotten) }.to_string();
        for word in ["offset", "backtrace", "None"] {
            assert!(!told.contains(word), "{word}: {told}");
        }
        assert!(told.contains("pages of its tree") && told.contains("cannot be named"), "{told}");
        // Whoever runs it goes on with a copy; whoever checks it is told where to read on.
        for remedy in ["a backup", "`holdpoint import` the latest export", "docs/evidence.md"] {
            assert!(told.contains(remedy), "{remedy}: {told}");
        }
        assert!(matches!(fault(&rotten), Fault::Corrupt(_)));
    }
}
