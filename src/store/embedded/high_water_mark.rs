//! High-water mark: how far the journals had come when somebody was last told so. A store that shows less when
//! it opens has lost what was acknowledged, and says so instead of going on.
//!
//! sled takes bytes at the end of its log that do not check out for a write that was cut short, and
//! drops them with all that follows. After a crash that is right; where they rotted it would be a
//! silent loss (J6). The mark is written after the sync and not synced itself: it may be behind what
//! is durable, never ahead of it, so it never accuses a store that is whole.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::kernel::{RunId, Version};
use crate::store::embedded::reader;
use crate::store::embedded::view::View;

/// The file's name in the data directory; it is called so in every store that there is.
const NAME: &str = "tide";
/// More than a mark ever has: an id, a version of twenty digits, and the check.
const BYTES_MAX: usize = 128;

/// The mark of the last append that was acknowledged.
#[derive(Debug)]
pub(super) struct HighWaterMark {
    file: File,
}

impl HighWaterMark {
    /// Opens the mark of a data directory, and makes it if it is not there.
    pub(super) fn open(dir: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false);
        Ok(Self { file: file.open(dir.join(NAME))? })
    }

    /// What a store lacks of the append that the mark stands for; nothing if it has it. Records that
    /// are there and do not check out are told by whoever reads them.
    pub(super) fn lost(&self, view: View<'_>) -> Option<String> {
        let (run, version) = self.read()?;
        let found = reader::head(view, &run).ok()?.map_or(0, |head| head.version);
        let lost = || format!("run `{run}` was at version {version} and is at {found}");
        (found < version).then(lost)
    }

    /// Everything up to this append is durable. Should the mark not be written, less is checked.
    pub(super) fn write(&self, run: &RunId, version: Version) {
        let text = sealed(&format!("{run} {version:020}"));
        if let Err(error) = self.file.write_all_at(text.as_bytes(), 0) {
            tracing::debug!(%error, "the high-water mark could not be written");
        }
    }

    /// Takes the mark away: its run may be about to be pruned.
    pub(super) fn clear(&self) -> io::Result<()> {
        self.file.set_len(0)
    }

    /// The mark; none if there is none, or if a power cut left half of one.
    pub(super) fn read(&self) -> Option<(RunId, Version)> {
        let mut bytes = [0; BYTES_MAX];
        let length = self.file.read_at(&mut bytes, 0).ok()?;
        let text = std::str::from_utf8(bytes.get(..length)?).ok()?;
        let (mark, _) = text.rsplit_once(' ')?;
        if sealed(mark) != text {
            return None;
        }
        let (run, version) = mark.split_once(' ')?;
        Some((RunId::parse(run).ok()?, version.parse().ok()?))
    }
}

/// A mark with its check, always of the same length.
fn sealed(mark: &str) -> String {
    format!("{mark} {:08x}\n", crc32c::crc32c(mark.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";

    #[test]
    fn a_mark_is_read_back_until_it_is_cleared_or_torn() {
        let dir = tempfile::tempdir().unwrap();
        let mark = HighWaterMark::open(dir.path()).unwrap();
        let run = RunId::parse(RUN).unwrap();
        assert_eq!(mark.read(), None);
        mark.write(&run, u64::MAX);
        mark.write(&run, 7);
        assert_eq!(HighWaterMark::open(dir.path()).unwrap().read(), Some((run.clone(), 7)));
        mark.file.write_all_at(b"9", 49).unwrap();
        assert_eq!(mark.read(), None, "half of one mark and half of another");
        mark.write(&run, 8);
        mark.clear().unwrap();
        assert_eq!(mark.read(), None);
    }
}
