//! Heads: the last signed head of each log, kept beside the key that signs them and away from the store: whoever can
//! write to the store, and has no key, cannot have it forgotten what was signed. What is done with it is not decided here.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::ports::Fault;

/// What lies beside a key: heads by the origin of their log. None where the key lies in the data directory itself, where
/// it would prove nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Heads(Option<PathBuf>);

impl Heads {
    /// Beside a key that was named.
    pub(super) fn beside(key: Option<&Path>) -> Self {
        Self(key.map(|path| path.with_added_extension("heads")))
    }

    /// The last of a log.
    pub(super) fn last(&self, origin: &str) -> Result<Option<String>, Fault> {
        let Some(path) = &self.0 else { return Ok(None) };
        Ok(all(path).map_err(|error| wrong(path, &error))?.remove(origin))
    }

    /// Keeps another one in its place, or none.
    pub(super) fn keep(&self, origin: &str, note: Option<&str>) -> Result<(), Fault> {
        let Some(path) = &self.0 else { return Ok(()) };
        keep(path, origin, note).map_err(|error| wrong(path, &error))
    }
}

fn all(path: &Path) -> io::Result<BTreeMap<String, String>> {
    match fs::read(path) {
        Ok(bytes) => Ok(serde_json::from_slice(&bytes)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}

fn keep(path: &Path, origin: &str, note: Option<&str>) -> io::Result<()> {
    let mut heads = all(path)?;
    match note {
        Some(note) => drop(heads.insert(origin.to_owned(), note.to_owned())),
        None => drop(heads.remove(origin)),
    }
    // Whole or not at all: half of one would keep every later head from being signed.
    let fresh = path.with_added_extension("new");
    let mut file = fs::File::create(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(&heads)?)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}

fn wrong(path: &Path, error: &io::Error) -> Fault {
    Fault::Retriable(format!(
        "`{}`, where the last signed head is kept beside the key: {error}",
        path.display()
    ))
}
