//! Looked: which runs of a store were found to hold, in a file of whoever looks: a look at a large store that was cut off
//! goes on where it was. It remembers, and judges nothing.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::kernel::RunId;
use crate::kernel::evidence::Hash;
use crate::store::verify::{Glance, Memory};

/// What stands at the beginning of the file.
const TITLE: &str = "holdpoint looked 1";

/// The file.
#[derive(Debug)]
pub(super) struct Looked {
    known: HashMap<String, Glance>,
    file: Mutex<File>,
}

impl Looked {
    /// Reads what is in a file, and makes it where there is none. A last line that was cut off is none.
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        let options = options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path)?;
        let (mut known, mut whole) = (HashMap::new(), 0_u64);
        let mut lines = BufReader::new(&mut file);
        let mut line = String::new();
        while lines.read_line(&mut line)? > 0 && line.ends_with('\n') {
            let text = line.trim_end();
            if whole == 0 && text != TITLE {
                let what = format!("expected a file that begins with `{TITLE}`, or none");
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            if let Some((run, glance)) = read(text) {
                known.insert(run, glance);
            }
            whole += u64::try_from(line.len()).unwrap_or_default();
            line.clear();
        }
        // What is no title and no line, and was there before, is somebody's.
        if whole == 0 && !line.is_empty() {
            let what = format!("expected a file that begins with `{TITLE}`, or none");
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        file.set_len(whole)?;
        file.seek(SeekFrom::Start(whole))?;
        if whole == 0 {
            writeln!(file, "{TITLE}")?;
        }
        Ok(Self { known, file: Mutex::new(file) })
    }
}

fn read(line: &str) -> Option<(String, Glance)> {
    let mut parts = line.split(' ');
    let run = parts.next()?.to_owned();
    let (version, unchained) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    Some((run, Glance { version, unchained, link: Hash::parse(parts.next()?)? }))
}

impl Memory for Looked {
    fn known(&self, run: &RunId) -> Option<Glance> {
        self.known.get(run.as_str()).copied()
    }

    fn held(&self, run: &RunId, glance: Glance) {
        let Glance { version, unchained, link } = glance;
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        // What cannot be kept is looked at again.
        writeln!(file, "{run} {version} {unchained} {link}").unwrap_or_default();
    }
}
