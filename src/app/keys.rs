//! Keys: the file of API keys, and who speaks when one of them is shown.
//!
//! Only hashes are kept: a stolen file opens nothing. A plain SHA-256 is enough because a secret is
//! 256 random bits, which nobody guesses; a slow hash protects words that people choose.
//!
//! ```toml
//! [[key]]
//! name = "laptop"
//! role = "user"
//! sha256 = "…"
//! created = "2026-11-15T03:17:58Z"
//! ```

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::app::config::Config;
use crate::kernel::{Role, digest};

/// What every secret begins with, so that people and scanners recognise one that leaked.
pub const PREFIX: &str = "hp_";
/// Every lookup compares with all keys; this many take well under a millisecond.
const KEYS_MAX: usize = 1000;
/// Keys, names and dates of that many, generously.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A name is the owner of sessions and a word in every log line.
const NAME_BYTES_MAX: usize = 64;
/// Who speaks on loopback where there are no keys; a key of that name would inherit its sessions.
const RESERVED: &str = "local";

/// One key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Who speaks: the principal's id.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The SHA-256 of the secret, in hex.
    pub sha256: String,
    /// When it was made, as RFC 3339.
    pub created: String,
}

/// The keys of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    #[serde(default, rename = "key")]
    keys: Vec<Key>,
}

/// Why the keys cannot be read or changed.
#[derive(Debug, thiserror::Error)]
pub enum KeysError {
    /// The file cannot be read or written.
    #[error("cannot {deed} the keys file `{}`", .path.display())]
    Io {
        /// What was tried.
        deed: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file does not hold keys.
    #[error("cannot understand the keys file `{}`", .path.display())]
    NotKeys {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: Box<toml::de::Error>,
    },
    /// The file holds something that no `keys add` has written.
    #[error("the keys file `{}` is not usable: {why}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The name cannot be one.
    #[error("name: `{0}` is not made of 1 to 64 letters, digits and `.`, `-`, `_`, `@`")]
    BadName(String),
    /// The name means something else.
    #[error("name: `{RESERVED}` is who speaks where there are no keys; take another name")]
    Reserved,
    /// There is a key of that name.
    #[error("there is a key `{0}` already; remove it first, or take another name")]
    Taken(String),
    /// There is no key of that name.
    #[error("there is no key `{0}`")]
    Unknown(String),
    /// The file is full.
    #[error("there are {KEYS_MAX} keys already; remove some first")]
    Full,
    /// The machine gives no randomness.
    #[error("the system's random source does not answer: {0}")]
    NoChance(String),
}

impl Keys {
    /// Reads the keys from `path`.
    pub fn load(path: &Path) -> Result<Self, KeysError> {
        let failed = |source| KeysError::Io { deed: "read", path: path.into(), source };
        if fs::metadata(path).map_err(failed)?.len() > FILE_BYTES_MAX {
            let why = format!("it has more than {FILE_BYTES_MAX} bytes");
            return Err(KeysError::Unusable { path: path.into(), why });
        }
        let text = fs::read_to_string(path).map_err(failed)?;
        let keys: Self = toml::from_str(&text)
            .map_err(|source| KeysError::NotKeys { path: path.into(), source: Box::new(source) })?;
        match keys.complaint() {
            None => Ok(keys),
            Some(why) => Err(KeysError::Unusable { path: path.into(), why }),
        }
    }

    /// The keys a server is to ask for: none, if none were set up.
    ///
    /// A file that was named must be there; the one in the data directory may be absent.
    pub fn for_server(config: &Config) -> Result<Option<Self>, KeysError> {
        let path = config.keys_path();
        if config.keys.is_none() && !path.exists() {
            return Ok(None);
        }
        Self::load(&path).map(Some)
    }

    /// Who shows `secret`, if it is anybody's. Takes as long for one as for another.
    pub fn principal(&self, secret: &str) -> Option<(&str, Role)> {
        let shown = hash(secret);
        let mut found = u32::MAX;
        for (index, key) in (0_u32..).zip(&self.keys) {
            let same: Choice = key.sha256.as_bytes().ct_eq(shown.as_bytes());
            found.conditional_assign(&index, same);
        }
        let key = self.keys.get(usize::try_from(found).ok()?)?;
        Some((&key.name, key.role))
    }

    /// The keys, in the order they were made.
    pub fn list(&self) -> &[Key] {
        &self.keys
    }

    /// Makes a key, keeps its hash in `path`, and returns the secret, which is kept nowhere.
    pub fn add(path: &Path, name: &str, role: Role, created: &str) -> Result<String, KeysError> {
        check_name(name)?;
        let secret = draw()?;
        change(path, |keys| {
            if keys.iter().any(|key| key.name == name) {
                return Err(KeysError::Taken(name.into()));
            }
            if keys.len() >= KEYS_MAX {
                return Err(KeysError::Full);
            }
            let sha256 = hash(&secret);
            keys.push(Key { name: name.into(), role, sha256, created: created.into() });
            Ok(())
        })?;
        Ok(secret)
    }

    /// Forgets the key of that name.
    pub fn remove(path: &Path, name: &str) -> Result<(), KeysError> {
        change(path, |keys| {
            let before = keys.len();
            keys.retain(|key| key.name != name);
            if keys.len() == before { Err(KeysError::Unknown(name.into())) } else { Ok(()) }
        })
    }

    fn complaint(&self) -> Option<String> {
        if self.keys.len() > KEYS_MAX {
            return Some(format!("it has more than {KEYS_MAX} keys"));
        }
        for (index, key) in self.keys.iter().enumerate() {
            if check_name(&key.name).is_err() {
                return Some(format!("`{}` is not a name a key can have", key.name));
            }
            if self.keys.iter().take(index).any(|other| other.name == key.name) {
                return Some(format!("the name `{}` appears twice", key.name));
            }
            let is_hash = key.sha256.len() == 64
                && key.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            if !is_hash {
                return Some(format!("`sha256` of `{}` is not 64 lower-case hex digits", key.name));
            }
        }
        None
    }
}

fn check_name(name: &str) -> Result<(), KeysError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        return Err(KeysError::BadName(name.into()));
    }
    if name == RESERVED { Err(KeysError::Reserved) } else { Ok(()) }
}

fn hash(secret: &str) -> String {
    digest::of_bytes(secret.as_bytes())
}

/// 32 bytes straight from the system: ids of the uuid family carry fixed and timed bits, and a
/// secret should have none.
fn draw() -> Result<String, KeysError> {
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| KeysError::NoChance(error.to_string()))?;
    Ok(format!("{PREFIX}{}", base64url(&bytes)))
}

/// Base64 with the URL alphabet and no padding: 43 characters for 32 bytes.
fn base64url(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 1);
    for group in bytes.chunks(3) {
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for digit in 0..=group.len() {
            let index = (bits >> (18 - 6 * digit)) & 63;
            text.push(char::from(ALPHABET[usize::try_from(index).unwrap_or(0)]));
        }
    }
    text
}

/// Reads, changes and replaces the file in one step; two changes at once wait for one another.
fn change(
    path: &Path,
    edit: impl FnOnce(&mut Vec<Key>) -> Result<(), KeysError>,
) -> Result<(), KeysError> {
    let failed = |source| KeysError::Io { deed: "write", path: path.into(), source };
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) | None => Path::new("."),
    };
    fs::create_dir_all(folder).map_err(failed)?;
    let lock = beside(path, "lock");
    let lock = private().create(true).truncate(false).open(lock).map_err(failed)?;
    lock.lock().map_err(failed)?;
    let mut keys = if path.exists() { Keys::load(path)? } else { Keys::default() };
    edit(&mut keys.keys)?;
    let text = toml::to_string(&keys).map_err(|error| failed(io::Error::other(error)))?;
    let fresh = beside(path, "new");
    replace(path, &fresh, folder, &text).map_err(failed)
}

fn replace(path: &Path, fresh: &Path, folder: &Path, text: &str) -> io::Result<()> {
    // A leftover of a crash may have other permissions than the ones a new file gets.
    match fs::remove_file(fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        Ok(()) | Err(_) => {}
    }
    let mut file = private().create_new(true).open(fresh)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(fresh, path)?;
    File::open(folder)?.sync_all()
}

fn private() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).mode(0o600);
    options
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".");
    name.push(suffix);
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const NOW: &str = "2026-11-15T03:17:58Z";

    #[test]
    fn a_key_is_known_by_its_secret_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/keys.toml");
        let ada = Keys::add(&path, "ada", Role::User, NOW).unwrap();
        let bob = Keys::add(&path, "bob@example.org", Role::Admin, NOW).unwrap();
        assert_ne!(ada, bob);
        let keys = Keys::load(&path).unwrap();
        assert_eq!(keys.principal(&ada), Some(("ada", Role::User)));
        assert_eq!(keys.principal(&bob), Some(("bob@example.org", Role::Admin)));
        let hashes = keys.list().iter().map(|key| key.sha256.as_str());
        for wrong in ["", "ada", "hp_", ada.trim_end_matches(char::is_alphanumeric)]
            .into_iter()
            .chain(hashes)
        {
            assert_eq!(keys.principal(wrong), None, "{wrong}");
        }
        assert_eq!(Keys::default().principal(&ada), None);
    }

    #[test]
    fn a_secret_has_its_form_and_is_not_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let secret = Keys::add(&path, "ada", Role::User, NOW).unwrap();
        let digits = secret.strip_prefix(PREFIX).unwrap();
        assert_eq!(digits.len(), 43);
        assert!(digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)));
        let text = fs::read_to_string(&path).unwrap();
        assert!(!text.contains(digits) && text.contains("[[key]]"), "{text}");
        let mode = fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn base64url_spells_as_the_standard_does() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg"), (b"fo", "Zm8"), (b"foo", "Zm9v"), (b"\xfb\xff", "-_8")]
        {
            assert_eq!(base64url(bytes), text);
        }
    }

    #[test]
    fn names_are_checked_and_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        Keys::add(&path, "ada", Role::User, NOW).unwrap();
        let before = fs::read_to_string(&path).unwrap();
        let taken = Keys::add(&path, "ada", Role::Admin, NOW).unwrap_err();
        assert!(matches!(taken, KeysError::Taken(_)), "{taken}");
        for name in ["", "a b", "a\nb", "ä", "local", &"x".repeat(65)] {
            assert!(Keys::add(&path, name, Role::User, NOW).is_err(), "{name}");
        }
        let unknown = Keys::remove(&path, "bob").unwrap_err();
        assert!(matches!(unknown, KeysError::Unknown(_)), "{unknown}");
        assert_eq!(fs::read_to_string(&path).unwrap(), before);
        Keys::remove(&path, "ada").unwrap();
        assert_eq!(Keys::load(&path).unwrap().list(), []);
    }

    #[test]
    fn a_file_that_no_one_could_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("keys.toml");
        let sha = "0".repeat(64);
        let entry = |name: &str, sha: &str| {
            format!(
                "[[key]]\nname = \"{name}\"\nrole = \"user\"\nsha256 = \"{sha}\"\ncreated = \"\"\n"
            )
        };
        for text in [
            "nonsense".to_owned(),
            entry("ada", "short"),
            entry("ada", &sha) + &entry("ada", &sha),
            entry("a b", &sha),
            entry("ada", &sha).replace("user", "root"),
        ] {
            fs::write(&path, &text).unwrap();
            assert!(Keys::load(&path).is_err(), "{text}");
        }
    }
}
