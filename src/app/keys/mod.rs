//! Keys: the file of API keys, and who speaks when one of them is shown. What somebody may do then is
//! the kernel's to say.
//!
//! Only hashes are kept: a stolen file opens nothing. A plain SHA-256 is enough because a secret is
//! 256 random bits, which nobody guesses; a slow hash protects words that people choose.
//!
//! ```toml
//! [[key]]
//! name = "laptop"
//! person = "ada"                  # whose it is; `name` unless given
//! roles = ["starter", "approver"]
//! sha256 = "…"
//! created = "2026-11-15T03:17:58Z"
//!
//! [[key]]
//! name = "helpdesk"
//! kind = "service"
//! roles = ["user"]
//! workflows = ["tickets"]         # all of them unless given
//! expires = "2027-01-01T00:00:00Z"
//! sha256 = "…"
//! created = "2026-11-15T03:17:58Z"
//!
//! [[retired]]                     # whoever comes by that name again is said to be the same
//! name = "desktop"
//! person = "bob"
//! removed = "2026-11-15T03:17:58Z"
//! ```

mod change;
mod key;
pub(super) mod removed;
pub(super) mod shared;

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

use crate::api::Shown;
use crate::app::config::Config;
use crate::app::reread;
use crate::kernel::{
    Assurance, Credential, Known, Millis, Principal, Refusal, Role, Roles, digest,
};

pub use change::NewKey;
#[cfg(feature = "postgres")]
pub(in crate::app) use change::lock;
pub use key::{Key, KeyKind, Retired};

/// What every secret begins with, so that people and scanners recognise one that leaked.
pub const PREFIX: &str = "hp_";
/// Every lookup compares with all keys; this many take well under a millisecond.
const KEYS_MAX: usize = 1000;
/// Names that are remembered after their keys are gone; with all keys they fit the file's bound.
const RETIRED_MAX: usize = 4000;
/// What helps where the file cannot be used.
const FILE_REMEDY: &str =
    "put a copy of it back, or move it away and make keys with `holdpoint keys add NAME`";
/// Keys, names and dates of that many, generously.
const FILE_BYTES_MAX: u64 = 2 << 20;
/// A name is the owner of sessions and a word in every log line.
const NAME_BYTES_MAX: usize = 64;
/// Workflows that one key is confined to; whoever needs more is confined to nothing.
const WORKFLOWS_MAX: usize = 100;
/// Who speaks on loopback where there are no keys, whose sessions a key of that name would inherit; and what the
/// trail says where nobody spoke, or a file in the data directory did. A file of an earlier build may have the latter.
const RESERVED: [&str; 5] = ["local", "timer", "fork", "file", "-"];

/// What the first key is called, and whose it is.
const FIRST: &str = "first";
/// How long it is good: for making others.
const FIRST_HOURS: jiff::SignedDuration = jiff::SignedDuration::from_hours(24);

/// The keys of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keys {
    #[serde(default, rename = "key")]
    keys: Vec<Key>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    retired: Vec<Retired>,
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
    /// The file holds something that no `keys add` has written.
    #[error("the keys file `{}` is not usable: {why}", .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The name cannot be one.
    #[error("{field}: `{name}` is not made of 1 to 64 letters, digits and `.`, `-`, `_`, `@`")]
    BadName {
        /// Which name.
        field: &'static str,
        /// What was given.
        name: String,
    },
    /// The name means something else.
    #[error(
        "{0}: `local`, `timer`, `fork`, `file` and `-` mean something else in the trail; take another name"
    )]
    Reserved(&'static str),
    /// There is a key of that name.
    #[error("there is a key `{0}` already; remove it first, or take another name")]
    Taken(String),
    /// Nobody could tell the two apart.
    #[error("{field}: `{given}` differs from `{known}` only in case; take another name")]
    LooksLike {
        /// Which name.
        field: &'static str,
        /// What was given.
        given: String,
        /// What there is.
        known: String,
    },
    /// The name is somebody else's.
    #[error("{field}: `{given}` is a name of {whose}; take another name")]
    Belongs {
        /// Which name.
        field: &'static str,
        /// What was given.
        given: String,
        /// Whose it is.
        whose: String,
    },
    /// A service would speak under somebody's name.
    #[error(
        "name: `{0}` is a person in `[people]`, and a service is none; take another name for the service, or \
         take the person out of the settings"
    )]
    ServiceNamed(String),
    /// A service is nobody's.
    #[error("person: a service is no person's key; leave --person out")]
    ServiceOfPerson,
    /// There was somebody of that name.
    #[error(
        "`{person}` had a key until {removed}, and whoever comes by that name sees what that one began \
         and is held to be the same person; say --again if they are, else take another name"
    )]
    Retired {
        /// Who.
        person: String,
        /// When their last key was removed.
        removed: String,
    },
    /// The key would be good for nothing.
    #[error("{0}")]
    BadTerms(String),
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
        let unread = |source| KeysError::Io { deed: "read", path: path.into(), source };
        Self::read(&reread::text(path, FILE_BYTES_MAX).map_err(unread)?, path)
    }

    /// Reads the keys that are written so at `path`.
    fn read(text: &str, path: &Path) -> Result<Self, KeysError> {
        let keys: Self = toml::from_str(text).map_err(|error| {
            // Its own words show the line, and a key may stand there.
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            let why = format!("line {line} is no part of a list of keys; {FILE_REMEDY}");
            KeysError::Unusable { path: path.into(), why }
        })?;
        match keys.complaint() {
            None => Ok(keys),
            Some(why) => Err(KeysError::Unusable { path: path.into(), why }),
        }
    }

    /// As they are written at `path`.
    fn text(&self, path: &Path) -> Result<String, KeysError> {
        let failed = |source| KeysError::Io { deed: "write", path: path.into(), source };
        toml::to_string(self).map_err(|error| failed(io::Error::other(error)))
    }

    /// The keys a server is to ask for: none, if none were set up.
    ///
    /// A file that was named must be there; the one in the data directory may be absent.
    pub fn for_server(config: &Config) -> Result<Option<Self>, KeysError> {
        let path = config.keys_path();
        if config.keys.is_none() && !reread::lies(&path) {
            return Ok(None);
        }
        let keys = Self::load(&path)?;
        // Whoever names a file wants to be asked for keys.
        if config.keys.is_some() && keys.list().is_empty() {
            let why = "it has no keys; `holdpoint keys add NAME` makes one there, and without `keys` none is asked for".into();
            return Err(KeysError::Unusable { path, why });
        }
        Ok(Some(keys))
    }

    /// Makes the first key of a server that has never been used, and returns it: a person's, who may look after it
    /// and begin with it. Nothing is made where there are keys, or data, which are somebody's already.
    pub fn first(
        config: &Config,
        has_data: bool,
        now: jiff::Timestamp,
    ) -> Result<Option<(NewKey, String)>, KeysError> {
        let path = config.keys_path();
        // Servers that share a store share its keys, too: none of them is the first.
        let is_shared = config.store.is_some();
        let is_used = has_data || reread::lies(&path) || config.keys.is_some() || is_shared;
        if is_used || config.listen.ip().is_loopback() {
            return Ok(None);
        }
        // It stands in the log of whatever started the server: it must not be good for long.
        let ends = now.checked_add(FIRST_HOURS).ok().map(|at| at.to_string());
        let roles = [Role::Admin, Role::User].into_iter().collect::<Roles>();
        let new = NewKey { expires: ends, ..NewKey::of(FIRST, roles) };
        let people = config.people.keys().cloned().collect();
        let secret = Self::make(&path, &new, &people, &now.to_string())?;
        Ok(Some((new, secret)))
    }

    /// The key that is shown by its secret, if it is one. Takes as long for one as for another.
    pub fn find(&self, secret: &str) -> Option<&Key> {
        let shown = hash(secret);
        let mut found = u32::MAX;
        for (index, key) in (0_u32..).zip(&self.keys) {
            let same: Choice = key.sha256.as_bytes().ct_eq(shown.as_bytes());
            found.conditional_assign(&index, same);
        }
        self.keys.get(usize::try_from(found).ok()?)
    }

    /// Who speaks, having shown this at `now`; `settings` are the people whom the operator names.
    pub(super) fn principal(
        &self,
        shown: Shown<'_>,
        settings: &BTreeSet<String>,
        now: Millis,
        door: &'static str,
    ) -> Result<Principal, Refusal> {
        let secret = shown.bearer.ok_or(Refusal::Unauthenticated)?;
        let key = self.find(secret).ok_or(Refusal::UnknownKey)?;
        if key.is_over(now) {
            return Err(Refusal::KeyExpired(key.name.clone()));
        }
        let (id, assurance, credential) = match (key.kind, shown.on_behalf_of) {
            (KeyKind::Person, None) => {
                (key.identity(), Assurance::Proven, Credential::Key(key.name.clone()))
            }
            (KeyKind::Person, Some(_)) => {
                let why = "x-holdpoint-on-behalf-of: only a service's key speaks for others; leave it out";
                return Err(Refusal::Forbidden(why));
            }
            (KeyKind::Service, None) => {
                (key.identity(), Assurance::Model, Credential::Service(key.name.clone()))
            }
            (KeyKind::Service, Some(person)) => {
                if !self.knows(person, settings.contains(person), now) {
                    let shortened = person.chars().take(NAME_BYTES_MAX).collect();
                    return Err(Refusal::UnknownPerson(shortened));
                }
                (person, Assurance::Vouched, Credential::Service(key.name.clone()))
            }
        };
        let known = Known::new(assurance, credential);
        let workflows = key.workflows.clone();
        let mark = Some(key.mark());
        Ok(Principal { workflows, known, mark, ..Principal::new(id, key.roles, door) })
    }

    /// Whether there is such a person: somebody with a key that is good, or whom the settings name
    /// where a service can speak for them. Whoever's last key was taken away is nobody, whatever the
    /// settings still say.
    pub(super) fn knows(&self, person: &str, is_named: bool, now: Millis) -> bool {
        let mut good = self.keys.iter().filter(|key| !key.is_over(now));
        let has_key = |key: &Key| {
            key.kind == KeyKind::Person && key.identity() == person && !key.is_over(now)
        };
        if self.keys.iter().any(has_key) {
            return true;
        }
        let had_key = self.keys.iter().any(|key| key.identity() == person);
        let is_retired = self.retired.iter().any(|known| known.person == person);
        let is_vouched_for = good.any(|key| key.kind == KeyKind::Service);
        is_named && is_vouched_for && !had_key && !is_retired
    }

    /// A service that is called like a person whom the settings name.
    pub(super) fn service_named(&self, settings: &BTreeSet<String>) -> Option<&str> {
        let mut services = self.keys.iter().filter(|key| key.kind == KeyKind::Service);
        services.find(|key| settings.contains(&key.name)).map(|key| key.name.as_str())
    }

    /// The keys, in the order they were made.
    pub fn list(&self) -> &[Key] {
        &self.keys
    }

    /// Those whose keys were removed.
    pub(super) fn retired(&self) -> &[Retired] {
        &self.retired
    }

    /// Whether the time of any key came after `before`, and has come by `now`.
    pub(super) fn has_ended(&self, before: Millis, now: Millis) -> bool {
        self.keys.iter().any(|key| !key.is_over(before) && key.is_over(now))
    }

    /// Names that differ only in case. `keys add` makes no such two; where an earlier build has, each is
    /// still somebody of their own: refusing the file would lock everybody out of a store that worked,
    /// and making them one would hand each what the other began. So it is said, and nothing else.
    pub fn look_alikes(&self, settings: &BTreeSet<String>) -> Vec<(String, String)> {
        let names = self.keys.iter().flat_map(|key| [key.name.as_str(), key.identity()]);
        let names: BTreeSet<&str> = names.chain(settings.iter().map(String::as_str)).collect();
        let names: Vec<&str> = names.into_iter().collect();
        let mut found = Vec::new();
        for (index, one) in names.iter().enumerate() {
            let alike =
                names.iter().skip(index + 1).filter(|other| one.eq_ignore_ascii_case(other));
            found.extend(alike.map(|other| ((*one).to_owned(), (*other).to_owned())));
        }
        found
    }

    fn complaint(&self) -> Option<String> {
        if self.keys.len() > KEYS_MAX {
            return Some(format!("it has more than {KEYS_MAX} keys"));
        }
        for (index, key) in self.keys.iter().enumerate() {
            if let Some(why) = key.complaint() {
                return Some(why);
            }
            if self.keys.iter().take(index).any(|other| other.name == key.name) {
                return Some(format!("the name `{}` appears twice", key.name));
            }
        }
        None
    }
}

fn hash(secret: &str) -> String {
    digest::of_bytes(secret.as_bytes())
}

#[cfg(test)]
mod tests;
