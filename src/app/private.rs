//! Private: what this process writes is for its owner's eyes alone: conversations, keys, exports. What an
//! older build left open to others is shut when it is opened again.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::Mode;

/// What only the owner may do.
const OTHERS: u32 = 0o077;
/// A data directory has two floors; whatever lies deeper is not ours.
const DEPTH_MAX: usize = 4;

/// Has every file that this process makes be its owner's alone. Where files are made by a library, this is
/// the only way to say so; programs that are started for tools inherit it.
pub fn mask() {
    rustix::process::umask(Mode::RWXG | Mode::RWXO);
}

/// Shuts what others could read below `data`. What cannot be shut is told, and stands in nobody's way.
pub(super) fn mend(data: &Path) {
    let mut mended = 0_usize;
    shut(data, 0, &mut mended);
    if mended > 0 {
        tracing::warn!(
            data = %data.display(),
            mended,
            "the permissions of the data directory let others in; they are its owner's alone now"
        );
    }
}

fn shut(path: &Path, depth: usize, mended: &mut usize) {
    // What a link leads to is not ours to change; the directory that was named may be one.
    let about = if depth == 0 { fs::metadata(path) } else { fs::symlink_metadata(path) };
    let Ok(about) = about else { return };
    if about.is_symlink() || depth > DEPTH_MAX {
        return;
    }
    let mode = about.permissions().mode();
    if mode & OTHERS != 0 {
        match fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS)) {
            Ok(()) => *mended += 1,
            Err(error) => {
                tracing::warn!(%error, path = %path.display(), "others can read this, and it cannot be shut");
            }
        }
    }
    if about.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| shut(&entry.path(), depth + 1, mended));
    }
}
