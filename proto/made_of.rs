//! Made of: which files, and which versions of the generators, the checked-in code comes of, as a text to compare. Shared
//! by `build.rs`, which writes it down beside what it generates, and the test that holds the tree to it; it generates
//! nothing itself.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// What of the generated is kept; packages of others come with their own crates.
pub(crate) const KEPT: [&str; 4] =
    ["holdpoint.v1.rs", "lf.a2a.v1.rs", "a2a.v1.rs", "descriptors.bin"];

/// Where it is kept.
pub(crate) const KEPT_IN: &str = "proto/rust";

/// Whose versions decide what is generated.
const GENERATORS: [&str; 4] = ["prost-build", "protox", "protox-parse", "tonic-prost-build"];

/// A line for each generator, each file of `proto/` and each that is kept, with what it is now.
pub(crate) fn told(digest: impl Fn(&[u8]) -> String) -> io::Result<String> {
    let mut files = Vec::new();
    protos(Path::new("proto"), &mut files)?;
    files.sort();
    files.extend(KEPT.iter().map(|name| Path::new(KEPT_IN).join(name)));
    let mut text = versions(&fs::read_to_string("Cargo.lock")?);
    for file in files {
        let name = file.to_string_lossy().replace('\\', "/");
        // Writing to memory does not fail.
        writeln!(text, "{} {name}", digest(&fs::read(&file)?)).unwrap_or_default();
    }
    Ok(text)
}

/// All `.proto` files below a folder.
fn protos(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            protos(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "proto") {
            files.push(path);
        }
    }
    Ok(())
}

/// The generators' versions, as the lock file has them.
fn versions(lock: &str) -> String {
    let mut text = String::new();
    for name in GENERATORS {
        let entry = format!("name = \"{name}\"\nversion = \"");
        let version = lock.split(&entry).nth(1).and_then(|rest| rest.split('"').next());
        writeln!(text, "{} {name}", version.unwrap_or("absent")).unwrap_or_default();
    }
    text
}
