//! Handles: the numbers that the last inbox showed somebody, for them to type instead of a request's id. A number
//! stands for the request *and the digest* that it was shown with, so that a late `1` never decides something
//! that was not shown (K3, K9).
//!
//! They are kept in the user's own state directory, a file for each place and key, and never in the data
//! directory: looking changes nothing there (E8). Where they cannot be kept there are none.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::{env, process};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::app::{Config, counted};
use crate::cli::exit::{Exit, Trouble};
use crate::wire::v1::Request;

/// What one number stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Handle {
    /// The request.
    pub request_id: String,
    /// What was shown of it.
    pub digest: String,
}

/// What an inbox showed, in its order.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    shown: Vec<Handle>,
}

/// Remembers what is shown by its numbers; whether it could. An inbox without requests leaves no number behind.
pub(super) fn keep(config: &Config, requests: &[Request]) -> bool {
    let Some(path) = file(config) else { return false };
    if requests.is_empty() {
        drop(fs::remove_file(&path));
        return false;
    }
    let shown = requests.iter().map(|request| Handle {
        request_id: request.request_id.clone(),
        digest: request.digest.clone(),
    });
    let kept = write(&path, &Kept { shown: shown.collect() });
    if kept.is_err() {
        // Numbers of an inbox before this one would be taken for this one's.
        drop(fs::remove_file(&path));
    }
    kept.is_ok()
}

/// What somebody means by a number; nothing if it is none.
pub(super) fn meant(config: &Config, typed: &str) -> Result<Option<Handle>, Trouble> {
    let text = typed.trim();
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Ok(None);
    }
    let kept = file(config).and_then(|path| fs::read(path).ok());
    let kept: Option<Kept> = kept.and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let hint = "`holdpoint inbox` shows what is open, with a number for each";
    let Some(Kept { shown }) = kept else {
        let text = format!(
            "`{text}` is a number of the inbox, and the last one here, if there was one, showed nothing"
        );
        return Err(Trouble::new(Exit::NotFound, text).hint(hint));
    };
    let place = text.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let found = place.and_then(|place| shown.get(place)).cloned();
    found.map(Some).ok_or_else(|| {
        let had = counted(shown.len() as u64, "request");
        let text = format!("there is no number {text}: the last inbox showed {had}");
        Trouble::new(Exit::NotFound, text).hint(hint)
    })
}

/// The request that somebody names by its id, or by its number in the last inbox.
pub(super) fn request(config: &Config, typed: &str) -> Result<String, Trouble> {
    Ok(meant(config, typed)?.map_or_else(|| typed.to_owned(), |handle| handle.request_id))
}

/// The file of this place and this key; none where there is no directory for it.
fn file(config: &Config) -> Option<PathBuf> {
    let place = if let Some(server) = &config.server {
        server.clone()
    } else {
        let data = config.data.canonicalize().ok();
        data.or_else(|| std::path::absolute(&config.data).ok())?.display().to_string()
    };
    let key = config.api_key.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{place}\n{key}"));
    let digit = |value: u8| char::from_digit(value.into(), 16).unwrap_or('0');
    let name: String =
        digest.iter().take(12).flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect();
    Some(folder()?.join(format!("inbox-{name}.json")))
}

/// Where a user's programs keep what they remember.
fn folder() -> Option<PathBuf> {
    let set = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = set("XDG_STATE_HOME").or_else(|| Some(set("HOME")?.join(".local/state")))?;
    Some(state.join("holdpoint"))
}

/// Written aside and renamed: two inboxes at once leave the numbers of one of them.
fn write(path: &Path, kept: &Kept) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let aside = path.with_extension(format!("{}.new", process::id()));
    let mut file =
        OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
    file.write_all(&serde_json::to_vec(kept)?)?;
    fs::rename(&aside, path)
}
