//! Directory: the data directory around sled's own. Who holds it, what format it has, what room is
//! left. Everything that must be true before sled may open, and nothing of what is in the store.
//!
//! ```text
//! lock          held by the one process that has the store open; its pid inside
//! server.json   the address that process serves, for others to talk to; or that of a server over a database (`beside`)
//! terminal.sock where it listens for other terminals, if it is a command and no server
//! format        `holdpoint store 4`, written last: without it there is no store yet; or where the store was moved to
//! audit.key     the key that heads of the log of leaves are signed with, unless it is kept elsewhere;
//! audit.pub     its public half, to be handed out
//! wal, wal2     the write-ahead log, in two files by turns: what is durable and not yet in the tree
//! tide          the high-water mark: the last append that was acknowledged, which the store must show
//!               when it opens
//! store/        sled's: db, conf, snap.*, and blobs/, which stays empty
//! values/       the value log: what is too large for sled, in numbered files
//! ```

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::failpoint;
use crate::store::beside::{self, Beside};
use crate::store::config::{OpenError, StoreConfig};

/// What every format begins with.
const OURS: &str = "holdpoint store ";
/// The folder of the value log.
pub(super) const VALUES: &str = "values";
/// The format of the directory: layout, keys and records together.
const FORMAT: &str = "holdpoint store 4";
/// The format before it, in which every value lies in the tree. It is read as it is, and what is written anew lies beside
/// the tree: nothing but the name changes when such a store is opened.
const INLINE: &str = "holdpoint store 3";
/// The format before that, in which nothing is packed either.
const UNPACKED: &str = "holdpoint store 2";
/// The first format, without a chain (J13): such a store is taken over when it is opened.
const OLDER: &str = "holdpoint store 1";
/// While the first opening is under way: whatever is in `store/` then is nobody's yet.
const UNFINISHED: &str = "holdpoint store 4 unfinished";
const INLINE_UNFINISHED: &str = "holdpoint store 3 unfinished";
const UNPACKED_UNFINISHED: &str = "holdpoint store 2 unfinished";
const OLDER_UNFINISHED: &str = "holdpoint store 1 unfinished";
/// Every format in which there is a store.
const FORMATS: [&str; 4] = [FORMAT, INLINE, UNPACKED, OLDER];
/// What is written in its place once the store is elsewhere; where, and by which move, stand below it. A build that
/// knows of no moves does not open it either.
const MOVED: &str = "holdpoint store moved";

/// Files of ours that may be there before a store is: a server that others can reach wants its keys
/// before its first start.
const AROUND: [&str; 11] = [
    "lock",
    "server.json",
    "format.new",
    "keys.toml",
    "keys.toml.lock",
    "keys.toml.new",
    crate::store::SOCKET,
    "audit.key",
    "audit.key.new",
    "audit.pub",
    "HALT",
];

/// A data directory that is ours for as long as this lives.
#[derive(Debug)]
pub(super) struct Directory {
    path: PathBuf,
    found: Found,
    /// Held, not read: the lock goes with it.
    lock: Mutex<Option<File>>,
}

/// What an opening finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// Nothing.
    Nothing,
    /// A store of the format without a chain.
    Older,
    /// A store of the format in which nothing is packed.
    Unpacked,
    /// A store of the format in which every value lies in the tree.
    Inline,
    /// A store.
    Whole,
}

#[derive(Debug, Serialize, Deserialize)]
struct Holder {
    pid: u32,
    address: String,
}

impl Directory {
    /// Takes the directory, and makes it if it is not there.
    pub(super) fn take(config: &StoreConfig) -> Result<Self, OpenError> {
        let StoreConfig { dir: path, reserve_bytes, is_only_looked_at, .. } = config;
        let fail = |source| OpenError::of(path, source);
        refuse_foreign(path)?;
        fs::create_dir_all(path).map_err(fail)?;
        let lock = lock(path)?;
        let beside = lies_beside(path);
        let found = check_format(path, beside.as_ref())?;
        if let Some(beside) = beside {
            return Err(OpenError::beside(path, beside));
        }
        remove_if_there(&path.join("server.json")).map_err(fail)?;
        let free = free_bytes(path).map_err(fail)?;
        let needed = reserve_bytes / 4;
        if free < needed {
            return Err(OpenError::NoSpace {
                path: path.clone(),
                free_mib: free >> 20,
                needed_mib: needed >> 20,
            });
        }
        let mut directory = Self { path: path.clone(), found, lock: Mutex::new(Some(lock)) };
        match found {
            Found::Nothing => replace(path, "format", UNFINISHED.as_bytes()).map_err(fail)?,
            // Before anything is written: no build that cannot read what lies beside the tree may open it then.
            Found::Unpacked | Found::Inline if !is_only_looked_at => {
                failpoint::hit("store.before_renaming");
                replace(path, "format", FORMAT.as_bytes()).map_err(fail)?;
                failpoint::hit("store.after_renaming");
                directory.found = Found::Whole;
            }
            Found::Unpacked | Found::Inline | Found::Older | Found::Whole => {}
        }
        directory.clear_leftovers().map_err(fail)?;
        Ok(directory)
    }

    /// Whether there was no store in it.
    pub(super) fn is_new(&self) -> bool {
        self.found == Found::Nothing
    }

    /// Whether the store in it is of the format before, and is to be taken over.
    pub(super) fn is_older(&self) -> bool {
        self.found == Found::Older
    }

    /// Whether what is written to the tree is packed.
    pub(super) fn packs(&self) -> bool {
        self.found != Found::Unpacked
    }

    /// Whether values that are written lie beside the tree.
    pub(super) fn lays_beside(&self) -> bool {
        self.packs() && self.found != Found::Inline
    }

    /// The number of its format.
    pub(super) fn format(&self) -> u8 {
        match self.found {
            Found::Unpacked => 2,
            Found::Inline => 3,
            Found::Nothing | Found::Older | Found::Whole => 4,
        }
    }

    /// The data directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Where sled lives.
    pub(super) fn store(&self) -> PathBuf {
        self.path.join("store")
    }

    /// Where the value log's files are.
    pub(super) fn values(&self) -> PathBuf {
        self.path.join(VALUES)
    }

    /// Where everything lies that is stored: sled's, and what lies beside it.
    pub(super) fn stored(&self) -> [PathBuf; 2] {
        [self.store(), self.values()]
    }

    /// The store is whole and durable: names it as one, and makes its files' names durable too.
    pub(super) fn finish(&self) -> io::Result<()> {
        File::open(self.store())?.sync_all()?;
        if matches!(self.found, Found::Nothing | Found::Older) {
            failpoint::hit("store.before_format");
            replace(&self.path, "format", FORMAT.as_bytes())?;
            failpoint::hit("store.after_format");
        }
        File::open(&self.path)?.sync_all()
    }

    /// Tells other processes where the holder can be talked to.
    pub(super) fn announce(&self, address: &str) -> io::Result<()> {
        let holder = Holder { pid: std::process::id(), address: address.to_owned() };
        replace(&self.path, "server.json", &serde_json::to_vec(&holder)?)
    }

    /// From now on the store is there and not here: the one point at which that changes.
    #[cfg(feature = "postgres")]
    pub(super) fn moved(&self, place: &str, token: &str) -> io::Result<()> {
        replace(&self.path, "format", format!("{MOVED}\n{place}\n{token}").as_bytes())
    }

    /// Gives the directory back; a second time does nothing.
    pub(super) fn release(&self) {
        let Some(lock) = self.lock.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return;
        };
        if let Err(error) = remove_if_there(&self.path.join("server.json")) {
            tracing::warn!(%error, "could not take back the server's address");
        }
        drop(lock);
    }

    /// sled takes a half-written `snap.*.generating` for its newest snapshot and refuses to open;
    /// it is of no use to anyone, and the one before it is still there.
    pub(super) fn clear_leftovers(&self) -> io::Result<()> {
        if !self.store().exists() {
            return Ok(());
        }
        for entry in fs::read_dir(self.store())? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("snap.") && name.ends_with(".generating") {
                tracing::warn!(file = %name, "removed a half-written snapshot");
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        self.release();
    }
}

/// Refuses what is somebody else's, before anything is written to it or changed.
pub(in crate::store) fn refuse_foreign(path: &Path) -> Result<(), OpenError> {
    let dir = || path.to_path_buf();
    match fs::metadata(path) {
        Ok(about) if about.is_dir() => {}
        Ok(_) => return Err(OpenError::NoDirectory { path: dir() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(OpenError::of(path, error)),
    }
    let is_empty = || is_empty(path).map_err(|source| OpenError::of(path, source));
    let has_sled = || path.join("store").join("db").exists();
    match fs::read_to_string(path.join("format")) {
        Ok(text) if FORMATS.contains(&text.trim()) && !has_sled() => {
            Err(OpenError::Damaged { dir: dir(), what: "`store/db` is missing".into() })
        }
        Ok(text) if text.starts_with(OURS) || has_sled() => Ok(()),
        // What rotted is told as what it is by the opening.
        Err(error) if error.kind() == io::ErrorKind::InvalidData && has_sled() => Ok(()),
        Err(error)
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) =>
        {
            Err(OpenError::of(&path.join("format"), error))
        }
        Err(_) if beside::said(path).is_some() || is_empty()? => Ok(()),
        Err(_) if has_sled() => {
            Err(OpenError::Damaged { dir: dir(), what: "`format` is missing".into() })
        }
        Ok(_) | Err(_) => Err(OpenError::Foreign { dir: dir() }),
    }
}

/// Whether there is more in a directory than what may be there before a store is.
pub(in crate::store) fn is_there(path: &Path) -> bool {
    if lies_beside(path).is_some() {
        return true;
    }
    match is_empty(path) {
        Ok(is_empty) => !is_empty,
        // Whatever cannot be looked into is for the opening to tell.
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    }
}

/// Whether some process holds a directory.
#[cfg(feature = "postgres")]
pub(in crate::store) fn is_held(path: &Path) -> bool {
    File::open(path.join("lock"))
        .is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// Whether the store in a directory is of the format before: whoever opens it takes it over.
pub(in crate::store) fn is_older(path: &Path) -> bool {
    let format = fs::read_to_string(path.join("format")).unwrap_or_default();
    [OLDER, OLDER_UNFINISHED].contains(&format.trim())
}

/// Which database a directory lies beside, if it does. Of one with a store of its own that counts while the server lives:
/// afterwards it is as good as any.
pub(in crate::store) fn lies_beside(path: &Path) -> Option<Beside> {
    beside::said(path).filter(|beside| beside.server.is_some() || !is_whole(path))
}

/// Whether there is a store in a directory that was not moved elsewhere.
pub(in crate::store) fn is_whole(path: &Path) -> bool {
    let format = fs::read_to_string(path.join("format")).unwrap_or_default();
    FORMATS.contains(&format.trim())
}

/// Where the store of a directory was moved to, and by which move.
#[cfg(feature = "postgres")]
pub(in crate::store) fn moved_to(path: &Path) -> Option<(String, String)> {
    moved(&fs::read_to_string(path.join("format")).ok()?)
}

fn moved(format: &str) -> Option<(String, String)> {
    let mut lines = format.lines();
    let is_moved = lines.next()? == MOVED;
    let (place, token) = (lines.next()?.to_owned(), lines.next()?.to_owned());
    is_moved.then_some((place, token))
}

/// What is left on the file system of `path` for this user.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let room = rustix::fs::statvfs(path)?;
    Ok(room.f_bavail.saturating_mul(room.f_frsize))
}

/// The bytes of all files below `path`.
pub(super) fn bytes_below(path: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        sum += if metadata.is_dir() { bytes_below(&entry.path())? } else { metadata.len() };
    }
    Ok(sum)
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let name = path.join("lock");
    let fail = |source| OpenError::of(&name, source);
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).create(true).truncate(false).open(&name).map_err(fail)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => {
            let server = fs::read(path.join("server.json")).ok();
            let server: Option<Holder> =
                server.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let pid = fs::read_to_string(&name).ok().and_then(|text| text.trim().parse().ok());
            return Err(OpenError::Held {
                dir: path.to_path_buf(),
                pid,
                server: server.map(|holder| holder.address),
            });
        }
        Err(TryLockError::Error(source)) => return Err(fail(source)),
    }
    file.set_len(0).map_err(fail)?;
    writeln!(file, "{}", std::process::id()).map_err(fail)?;
    Ok(file)
}

/// What the directory holds; an error if that is not a store of ours.
fn check_format(path: &Path, beside: Option<&Beside>) -> Result<Found, OpenError> {
    let name = path.join("format");
    let found = match fs::read(&name) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).trim().to_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return if let Some(beside) = beside {
                Err(OpenError::beside(path, beside.clone()))
            } else if is_empty(path).map_err(|source| OpenError::of(path, source))? {
                Ok(Found::Nothing)
            } else {
                Err(OpenError::Foreign { dir: path.to_path_buf() })
            };
        }
        Err(source) => return Err(OpenError::of(&name, source)),
    };
    if let Some((place, _)) = moved(&found) {
        let server = beside.and_then(|beside| beside.server.clone());
        return Err(OpenError::Moved { dir: path.to_path_buf(), place, server });
    }
    match found.as_str() {
        UNFINISHED | INLINE_UNFINISHED | UNPACKED_UNFINISHED | OLDER_UNFINISHED => {
            Ok(Found::Nothing)
        }
        FORMAT if path.join("store").join("db").exists() => Ok(Found::Whole),
        INLINE if path.join("store").join("db").exists() => Ok(Found::Inline),
        UNPACKED if path.join("store").join("db").exists() => Ok(Found::Unpacked),
        OLDER if path.join("store").join("db").exists() => Ok(Found::Older),
        FORMAT | INLINE | UNPACKED | OLDER => Err(OpenError::Damaged {
            dir: path.to_path_buf(),
            what: "`store/db` is missing".into(),
        }),
        other => Err(OpenError::WrongFormat {
            dir: path.to_path_buf(),
            found: format!("`{other}`"),
            expected: format!("`{FORMAT}`"),
        }),
    }
}

/// Whether nothing is there but what we leave around a store.
fn is_empty(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        // The last is what a file system that is mounted there has of its own.
        if !AROUND.iter().any(|ours| name == *ours) && name != "lost+found" {
            return Ok(false);
        }
        if is_anothers(&path.join(&name), &name.to_string_lossy()) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether a file that has the name of one of ours, and would be written over, is somebody else's.
fn is_anothers(path: &Path, name: &str) -> bool {
    let is_ours: fn(&str) -> bool = match name {
        "lock" => |text| text.trim().bytes().all(|byte| byte.is_ascii_digit()),
        "server.json" => |text| serde_json::from_str::<Holder>(text).is_ok(),
        "audit.pub" => |text| text.trim().is_empty() || text.split('+').count() >= 3,
        _other => return false,
    };
    match fs::metadata(path) {
        // Small, and a file: nothing else is looked into.
        Ok(about) if about.is_file() && about.len() <= 4096 => {
            fs::read_to_string(path).map_or(true, |text| !is_ours(&text))
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

/// Writes a small file so that it is there whole or not at all, whatever happens.
fn replace(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = dir.join(format!("{name}.new"));
    let mut file = File::create(&fresh)?;
    file.write_all(bytes)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    fs::rename(&fresh, dir.join(name))?;
    File::open(dir)?.sync_all()
}

fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}
