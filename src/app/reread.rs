//! Reread: files that are looked at again while a server runs: whether one lies there, and what it says. It waits for
//! nobody at the other end of a pipe, and judges nothing.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Whether anything lies there: a link that leads nowhere is no sign that nobody put a file.
pub(super) fn lies(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .map_or_else(|error| error.kind() != io::ErrorKind::NotFound, |_| true)
}

/// What a file says that has so many bytes at most. What is opened is what is looked at: it may be replaced meanwhile.
pub(super) fn text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let not_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(not_waiting).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is no file; name one that can be read again and again"));
    }
    if about.len() > bytes_max {
        let why = format!("it has more than {bytes_max} bytes");
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
    }
    let mut text = String::new();
    file.take(bytes_max).read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn k7_a_pipe_is_no_file_and_a_link_that_leads_nowhere_lies_there() {
        let here = tempfile::tempdir().unwrap();
        let at = |name: &str| here.path().join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, at("pipe"), 0o600.into()).unwrap();
        assert!(text(&at("pipe"), 9).unwrap_err().to_string().contains("no file"));
        symlink(at("nowhere"), at("link")).unwrap();
        assert!(lies(&at("link")) && !lies(&at("nowhere")));
        assert_eq!(text(&at("link"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(at("long"), "0123456789").unwrap();
        assert_eq!(text(&at("long"), 9).unwrap_err().kind(), io::ErrorKind::FileTooLarge);
        assert_eq!(text(&at("long"), 10).unwrap(), "0123456789");
    }
}
