//! Config: what an embedded store is told when it is opened, and every way in which it does not.

use std::io;
use std::path::{Path, PathBuf};

use crate::store::beside::Beside;

/// What an embedded store is told.
#[derive(Debug, Clone)]
pub struct StoreConfig {
    /// The data directory; made if it is not there.
    pub dir: PathBuf,
    /// Memory for pages. A hint: sled takes up to twice as much.
    pub cache_bytes: u64,
    /// Below this much free space no more appends are taken, so that the disk is never found full
    /// in the middle of a write; reading and pruning go on. A quarter of it must be free to open
    /// the store: sled saves its page table then, 14 MB for a million runs.
    pub reserve_bytes: u64,
    /// After writing this much to the tree the page table is saved anew as soon as nobody writes for a moment, so that a restart
    /// reads only the log since then: about a second a gigabyte. Saving stops everybody meanwhile, for about as long as a
    /// restart takes then; so it waits for a lull.
    pub refresh_bytes: u64,
    /// After writing this much it is saved though somebody writes: a restart is never longer than that.
    pub refresh_bytes_max: u64,
    /// After so many more events a run is saved folded, so that a long one is taken up from there.
    pub fold_events: u64,
    /// Whoever opens it only looks: a store of the build before keeps its form, and that build opens it afterwards (E8).
    pub is_only_looked_at: bool,
}

impl StoreConfig {
    /// The usual settings for a data directory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            cache_bytes: 64 << 20,
            reserve_bytes: 64 << 20,
            refresh_bytes: 256 << 20,
            refresh_bytes_max: 4 << 30,
            fold_events: 10_000,
            is_only_looked_at: false,
        }
    }

    /// The same, to be looked at and left in the form that it has.
    pub fn looked_at(dir: impl Into<PathBuf>) -> Self {
        Self { is_only_looked_at: true, ..Self::new(dir) }
    }
}

/// Why a store did not open. Nothing was changed, and no empty one was put in its place.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process has it.
    #[error("data directory `{}` is held by {}", .dir.display(), holder(*.pid, .server.as_deref()))]
    Held {
        /// The data directory.
        dir: PathBuf,
        /// The process, if it said.
        pid: Option<u32>,
        /// The address it serves, if it does.
        server: Option<String>,
    },
    /// It was written in another format.
    #[error(
        "data directory `{}` has format {found}, this program reads {expected}; `holdpoint export` \
         with the program that wrote it, then `holdpoint import` into a new directory", .dir.display()
    )]
    WrongFormat {
        /// The data directory.
        dir: PathBuf,
        /// What is there.
        found: String,
        /// What we read.
        expected: String,
    },
    /// It is elsewhere now.
    #[error(
        "the store of `{}` was moved to the database at {place}: serve it from there, with that address in `--store` \
         or HOLDPOINT_STORE; what is left here is as it was when it moved", .dir.display()
    )]
    Moved {
        /// The data directory.
        dir: PathBuf,
        /// Where it is, without a password.
        place: String,
        /// The address of the server that serves it from there with this directory, if one does.
        server: Option<String>,
    },
    /// It is the directory of a server whose store is elsewhere.
    #[error(
        "`{}` is the data directory of a server over the database at {place}{}, and its store is there: name that database \
         with `--store` or HOLDPOINT_STORE; a store in a directory wants another one", .dir.display(), serves(.server.as_deref())
    )]
    Beside {
        /// The directory.
        dir: PathBuf,
        /// Where the store is, without a password.
        place: String,
        /// The address of the server, while it lives.
        server: Option<String>,
    },
    /// There is something else of that name.
    #[error("data: `{}` is no directory; give one that is empty or does not exist", .path.display())]
    NoDirectory {
        /// What was named.
        path: PathBuf,
    },
    /// It is not ours.
    #[error(
        "`{}` holds files but no Holdpoint store; give an empty directory or one that does not exist",
        .dir.display()
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// Its bytes do not check out.
    #[error(
        "the store in `{}` is damaged: {what}; it was left as it is: copy the directory away. To go on, put a backup of the \
         directory in its place, or `holdpoint import` the latest export into a new one; what can still be proven, and by what, \
         docs/evidence.md says (Checking)", .dir.display()
    )]
    Damaged {
        /// The data directory.
        dir: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// It opens, and acknowledged events are missing.
    #[error(
        "the store in `{}` has lost the end of its log, which does not check out: {what}; copy the \
         directory away, then `holdpoint import` the latest export into a new one; to go on without \
         what is lost, remove the file `tide`", .dir.display()
    )]
    Lost {
        /// The data directory.
        dir: PathBuf,
        /// What is missing.
        what: String,
    },
    /// It cannot be written to.
    #[error("`{}` cannot be written to; give this user the right to, or another directory", .path.display())]
    ReadOnly {
        /// The file or directory.
        path: PathBuf,
    },
    /// The disk is full, or nearly.
    #[error(
        "the file system of `{}` has {free_mib} MiB left, at least {needed_mib} MiB are needed; \
         free some space and start again", .path.display()
    )]
    NoSpace {
        /// The data directory.
        path: PathBuf,
        /// What is left.
        free_mib: u64,
        /// What is needed.
        needed_mib: u64,
    },
    /// Anything else the operating system says.
    #[error("`{}` cannot be opened", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What it says.
        #[source]
        source: io::Error,
    },
}

impl OpenError {
    /// A directory that lies beside a database.
    pub(super) fn beside(dir: &Path, Beside { place, server }: Beside) -> Self {
        Self::Beside { dir: dir.to_path_buf(), place, server }
    }

    /// The address of whoever can be talked to in the place of the directory.
    pub fn server(&self) -> Option<&str> {
        match self {
            Self::Held { server, .. }
            | Self::Moved { server, .. }
            | Self::Beside { server, .. } => server.as_deref(),
            Self::WrongFormat { .. }
            | Self::Foreign { .. }
            | Self::NoDirectory { .. }
            | Self::Damaged { .. }
            | Self::Lost { .. }
            | Self::ReadOnly { .. }
            | Self::NoSpace { .. }
            | Self::Io { .. } => None,
        }
    }

    /// What an operating system's no means for a path.
    pub(super) fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        if matches!(
            source.kind(),
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem
        ) {
            return Self::ReadOnly { path };
        }
        if matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return Self::NoSpace { path, free_mib: 0, needed_mib: 1 };
        }
        Self::Io { path, source }
    }
}

fn serves(server: Option<&str>) -> String {
    server.map(|server| format!(", which serves {server}")).unwrap_or_default()
}

fn holder(pid: Option<u32>, server: Option<&str>) -> String {
    let process = pid.map_or("another process".into(), |pid| format!("process {pid}"));
    match server {
        Some(server) => format!("{process}, which serves {server}: talk to it there, or stop it"),
        None => format!("{process}, another command at this machine: wait for it to end"),
    }
}
