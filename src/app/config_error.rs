//! Config error: why the settings cannot be understood, each with its place.

use std::io;
use std::path::PathBuf;

/// A settings file has a dozen short lines; anything near this size is some other file.
pub(super) const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why the settings cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The settings file cannot be read.
    #[error("cannot read the settings file `{}`", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The settings file is not one.
    #[error("`{}` has more than {FILE_BYTES_MAX} bytes; it is not a settings file", .0.display())]
    TooLarge(PathBuf),
    /// The settings file does not parse, or has a setting that does not exist.
    #[error("cannot understand the settings file `{}`: line {line}: {why}", .path.display())]
    NotSettings {
        /// The file.
        path: PathBuf,
        /// Where: the line itself may have a secret in it, and is not repeated.
        line: usize,
        /// Why.
        why: String,
    },
    /// A variable is called nearly like a setting: what it says would be passed over, keys and rules included.
    #[error(
        "{variable} is no setting; did you mean HOLDPOINT_{}? Call it so, or unset it", .meant.to_uppercase()
    )]
    Misspelt {
        /// What is set.
        variable: String,
        /// The setting that is called nearly so.
        meant: String,
    },
    /// A setting has a value it cannot have.
    #[error("{place}: `{value}` is not {expected}")]
    Bad {
        /// Where it was said: the flag, the variable, or the file and its field.
        place: String,
        /// What was said.
        value: String,
        /// What can be said.
        expected: &'static str,
    },
}
