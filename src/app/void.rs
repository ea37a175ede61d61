//! Void: passes whose people have signed out, until they would have ended by themselves. Kept in the data
//! directory, so that a restart makes none of them good again; who may have a pass is the door's.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::kernel::Millis;

/// The list, in the data directory: a code and its end, a line each.
const FILE: &str = "console.void";
/// More people do not sign out in the twelve hours that a pass lives; what is beyond is still void until
/// the server starts anew.
const KEPT_MAX: usize = 100_000;

/// The codes of passes that are good no more, and when they end.
#[derive(Debug)]
pub(super) struct Void {
    path: PathBuf,
    codes: Mutex<BTreeMap<String, Millis>>,
}

impl Void {
    /// Reads the list in `data`, if there is one.
    pub(super) fn open(data: &Path) -> io::Result<Self> {
        let path = data.join(FILE);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let codes = text.lines().filter_map(|line| {
            let (code, until) = line.split_once(' ')?;
            Some((code.to_owned(), Millis(until.parse().ok()?)))
        });
        Ok(Self { path, codes: Mutex::new(codes.collect()) })
    }

    pub(super) fn has(&self, code: &str) -> bool {
        self.codes.lock().unwrap_or_else(PoisonError::into_inner).contains_key(code)
    }

    /// Adds a code; those that have ended leave.
    pub(super) fn add(&self, code: &str, until: Millis, now: Millis) {
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|_, until| now < *until);
        codes.insert(code.to_owned(), until);
        if let Err(error) = self.keep(&codes) {
            tracing::error!(%error, path = %self.path.display(), "a signed-out pass was not noted");
        }
    }

    fn keep(&self, codes: &BTreeMap<String, Millis>) -> io::Result<()> {
        let fresh = self.path.with_extension("void.new");
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        let mut text = String::new();
        for (code, until) in codes.iter().take(KEPT_MAX) {
            text.extend([code, " ", &until.0.to_string(), "\n"]);
        }
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)
    }
}
