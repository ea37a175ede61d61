//! Key: one key as it is kept, and what can be said of it alone.

use serde::{Deserialize, Serialize};

use crate::app::keys::{KeysError, NAME_BYTES_MAX, RESERVED, WORKFLOWS_MAX};
use crate::kernel::{Millis, Role, Roles};

/// Whose hand a key is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyKind {
    /// A person's: what is said with it, they say.
    #[default]
    Person,
    /// A service's: it says for whom it speaks, or speaks for nobody.
    Service,
}

impl KeyKind {
    /// The word used in the file and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Service => "service",
        }
    }

    /// The kind of that name.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Person, Self::Service].into_iter().find(|kind| kind.word() == word)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    fn is_person(&self) -> bool {
        *self == Self::Person
    }
}

/// One key, as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Raw")]
pub struct Key {
    /// What it is called.
    pub name: String,
    /// Whose it is, where that is not its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// Whose hand it is in.
    #[serde(skip_serializing_if = "KeyKind::is_person")]
    pub kind: KeyKind,
    /// What it is good for.
    pub roles: Roles,
    /// The workflows that it is confined to; all of them, if empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub workflows: Vec<String>,
    /// When it is good no more, as RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires: Option<String>,
    /// The SHA-256 of the secret, in hex.
    pub sha256: String,
    /// When it was made, as RFC 3339.
    pub created: String,
}

/// A key whose holder is gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retired {
    /// What it was called.
    pub name: String,
    /// Whose it was.
    pub person: String,
    /// When it was removed, as RFC 3339.
    pub removed: String,
}

/// A key as files have it: those of earlier builds have one `role`, and are personal.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    name: String,
    person: Option<String>,
    #[serde(default)]
    kind: KeyKind,
    role: Option<String>,
    roles: Option<Roles>,
    #[serde(default)]
    workflows: Vec<String>,
    expires: Option<String>,
    sha256: String,
    created: String,
}

impl TryFrom<Raw> for Key {
    type Error = String;

    fn try_from(raw: Raw) -> Result<Self, String> {
        let roles = match (raw.role.as_deref(), raw.roles) {
            (None, Some(roles)) => roles,
            (Some("user"), None) => Role::User.into(),
            // It started, answered and operated beside seeing everything, and still does.
            (Some("admin"), None) => {
                [Role::User, Role::Operator, Role::Admin].into_iter().collect()
            }
            (Some(role), None) => {
                return Err(format!("`role` of `{}` is `{role}`: expected `roles`", raw.name));
            }
            (Some(_), Some(_)) => return Err(format!("`{}` has `role` and `roles`", raw.name)),
            (None, None) => return Err(format!("`{}` has no `roles`", raw.name)),
        };
        Ok(Self {
            name: raw.name,
            person: raw.person,
            kind: raw.kind,
            roles,
            workflows: raw.workflows,
            expires: raw.expires,
            sha256: raw.sha256,
            created: raw.created,
        })
    }
}

impl Key {
    /// The person or the service: the principal's id.
    pub fn identity(&self) -> &str {
        self.person.as_deref().unwrap_or(&self.name)
    }

    /// What tells it from another of its name, and tells nobody its secret.
    pub fn mark(&self) -> u64 {
        let start = self.sha256.get(..16).unwrap_or_default();
        u64::from_str_radix(start, 16).unwrap_or_default()
    }

    /// When it is good no more, if ever.
    pub fn ends_at(&self) -> Option<Millis> {
        let text = self.expires.as_deref()?;
        // K7: what cannot be read was checked when it was loaded; were it not, it would be over.
        Some(moment(text).unwrap_or_default())
    }

    /// Whether it is good for a decision.
    pub fn decides(&self) -> bool {
        self.roles.has_any(&[Role::User, Role::Approver])
    }

    /// Whether it is good no more.
    pub fn is_over(&self, now: Millis) -> bool {
        self.ends_at().is_some_and(|end| end <= now)
    }

    /// What is wrong with it, if it is none that `keys add` would have made.
    pub(super) fn complaint(&self) -> Option<String> {
        let Self { name, .. } = self;
        if check_name("name", name).is_err() {
            return Some(format!("`{name}` is not a name a key can have"));
        }
        if let Some(person) = &self.person
            && check_name("person", person).is_err()
        {
            return Some(format!("`{person}` is not a name a person can have"));
        }
        if self.kind == KeyKind::Service && self.person.is_some() {
            return Some(format!("`{name}` is a service's, and has a person"));
        }
        let is_hash = self.sha256.len() == 64
            && self.sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        if !is_hash {
            return Some(format!("`sha256` of `{name}` is not 64 lower-case hex digits"));
        }
        if self.roles.is_empty() {
            return Some(format!("`{name}` has no role"));
        }
        if self.workflows.len() > WORKFLOWS_MAX || self.workflows.iter().any(String::is_empty) {
            return Some(format!("`workflows` of `{name}` are not 1 to {WORKFLOWS_MAX} names"));
        }
        if self.expires.as_deref().is_some_and(|text| moment(text).is_none()) {
            return Some(format!("`expires` of `{name}` is no time as RFC 3339 has it"));
        }
        None
    }
}

/// A point in time, as RFC 3339 has it.
pub(super) fn moment(text: &str) -> Option<Millis> {
    let at: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(at.as_millisecond()).ok().map(Millis)
}

/// Whether a key or a person can be called so.
pub(super) fn check_name(field: &'static str, name: &str) -> Result<(), KeysError> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b".-_@".contains(&byte);
    if name.is_empty() || name.len() > NAME_BYTES_MAX || !name.bytes().all(fits) {
        return Err(KeysError::BadName { field, name: name.into() });
    }
    if name == RESERVED[0] { Err(KeysError::Reserved(field)) } else { Ok(()) }
}
