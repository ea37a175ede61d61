//! Principal: who is speaking, and how that is known. Every command carries one. What somebody may do
//! is said in `permission`; whom a question admits, in `approvers`.
//!
//! A principal is a *person* or a *service*, never a credential: several keys of one person are that
//! person, who owns the same sessions and has one vote with all of them (K8).

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::kernel::time::Millis;

/// What a credential is good for. One may have several.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// Somebody at work: looks at, starts, answers, cancels, forks, signals and revokes what is their
    /// own, and answers what is asked of them.
    User,
    /// Reads what it may see.
    Viewer,
    /// Starts runs, and goes on with its own sessions.
    Starter,
    /// Answers what is asked of it.
    Approver,
    /// Cancels, forks, signals and revokes, whosever it is. Sees everything.
    Operator,
    /// Sees everything, and changes nothing.
    Auditor,
    /// Keys and policy. Sees everything; that admits to no decision (K8).
    Admin,
}

impl Role {
    /// Every role, for lists and checks.
    pub const ALL: [Self; 7] = [
        Self::User,
        Self::Viewer,
        Self::Starter,
        Self::Approver,
        Self::Operator,
        Self::Auditor,
        Self::Admin,
    ];

    /// The word used in files and on the command line.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Viewer => "viewer",
            Self::Starter => "starter",
            Self::Approver => "approver",
            Self::Operator => "operator",
            Self::Auditor => "auditor",
            Self::Admin => "admin",
        }
    }

    /// The role of that name.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.word() == word)
    }

    fn bit(self) -> u8 {
        1 << match self {
            Self::User => 0,
            Self::Viewer => 1,
            Self::Starter => 2,
            Self::Approver => 3,
            Self::Operator => 4,
            Self::Auditor => 5,
            Self::Admin => 6,
        }
    }
}

/// The roles of a credential: a set that is carried along with every call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Roles(u8);

impl Roles {
    /// Whether `role` is among them.
    pub fn has(self, role: Role) -> bool {
        self.0 & role.bit() != 0
    }

    /// Whether any of these is among them.
    pub fn has_any(self, roles: &[Role]) -> bool {
        roles.iter().any(|role| self.has(*role))
    }

    /// Whether there are none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Each of them, in the order of [`Role::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Role> {
        Role::ALL.into_iter().filter(move |role| self.has(*role))
    }

    /// Their words, by commas.
    pub fn words(self) -> String {
        self.iter().map(Role::word).collect::<Vec<_>>().join(",")
    }
}

impl From<Role> for Roles {
    fn from(role: Role) -> Self {
        Self(role.bit())
    }
}

impl FromIterator<Role> for Roles {
    fn from_iter<T: IntoIterator<Item = Role>>(roles: T) -> Self {
        Self(roles.into_iter().fold(0, |all, role| all | role.bit()))
    }
}

impl Serialize for Roles {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self.iter().map(Role::word))
    }
}

impl<'de> Deserialize<'de> for Roles {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let words = Vec::<String>::deserialize(from)?;
        let role = |word: &String| {
            let known = Role::ALL.map(Role::word).join(", ");
            let wrong = || de::Error::custom(format!("`{word}` is none of the roles {known}"));
            Role::parse(word).ok_or_else(wrong)
        };
        words.iter().map(role).collect()
    }
}

/// How well it is known that a person speaks, from the weakest to the strongest.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Assurance {
    /// No person does: a service by itself, or a model's tool call. Never enough for a decision.
    Model,
    /// A service says that this person does.
    Vouched,
    /// The person has shown something of their own.
    #[default]
    Proven,
}

impl Assurance {
    /// Whether it is what was taken for granted before it was written down.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub(super) fn is_proven(&self) -> bool {
        *self == Self::Proven
    }

    /// The word used in files, in the trail and on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Vouched => "vouched",
            Self::Proven => "proven",
        }
    }

    /// What a file or an operator may ask for in a decision: never less than a person (K8).
    pub fn parse(word: &str) -> Option<Self> {
        [Self::Vouched, Self::Proven].into_iter().find(|assurance| assurance.word() == word)
    }
}

/// By what somebody is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Credential {
    /// By nothing: nobody is asked for anything on this machine's own loopback.
    Machine,
    /// By a key of their own, of this name.
    Key(String),
    /// By a pass of the console's, made with the key of this name.
    Pass(String),
    /// By a service's key, of this name.
    Service(String),
}

impl std::fmt::Display for Credential {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Machine => f.write_str("machine"),
            Self::Key(name) => write!(f, "key {name}"),
            Self::Pass(name) => write!(f, "pass {name}"),
            Self::Service(name) => write!(f, "service {name}"),
        }
    }
}

/// What a door has shown somebody before they spoke, where it can tell. Nothing depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Seen {
    /// Characters.
    pub chars: u64,
    /// Milliseconds from the showing to the answer.
    pub ms: u64,
}

impl std::fmt::Display for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} characters shown for {} s", self.chars, self.ms / 1_000)
    }
}

/// How somebody was known when they spoke; journalled with every answer and vote.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Known {
    /// How well.
    pub assurance: Assurance,
    /// By what.
    pub credential: Credential,
    /// What they had been shown, where the door can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
}

impl Known {
    /// Somebody known so.
    pub fn new(assurance: Assurance, credential: Credential) -> Self {
        Self { assurance, credential, seen: None }
    }
}

/// What somebody's word rests on: how well they were known, which service spoke for them if one did, and when. Whether that
/// still holds is the operator's to say (`Operator::stands_by`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Footing<'a> {
    /// How well they were known.
    pub assurance: Assurance,
    /// The service that spoke for them, by the name of its key.
    pub service: Option<&'a str>,
    /// When; now, or before that was written down, if absent.
    pub at: Option<Millis>,
}

impl Known {
    /// The service that spoke for them, if one did.
    pub fn service(&self) -> Option<&str> {
        match &self.credential {
            Credential::Service(name) => Some(name),
            Credential::Machine | Credential::Key(_) | Credential::Pass(_) => None,
        }
    }

    /// What a word that is said now rests on.
    pub fn footing(&self) -> Footing<'_> {
        Footing { assurance: self.assurance, service: self.service(), at: None }
    }
}

/// Who is speaking, and through which door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The person, or the service: the name under which its sessions are owned and its answers are
    /// kept, whichever of its credentials it shows.
    pub id: String,
    /// What its credential is good for.
    pub roles: Roles,
    /// The workflows that its credential is confined to; all of them, if empty.
    pub workflows: Vec<String>,
    /// How it is known.
    pub known: Known,
    /// A mark of the very credential that was shown: one that is made anew may have the name of the one before.
    pub mark: Option<u64>,
    /// The door it came through: `grpc`, `cli`, `a2a`, `http`, `console`, `timer`.
    pub door: &'static str,
    /// What it goes on from, as its door names it; kept with what it starts or answers.
    pub from: Option<String>,
}

impl Principal {
    /// Whoever has that name and shows a key of that name, at a door.
    pub fn new(id: impl Into<String>, roles: impl Into<Roles>, door: &'static str) -> Self {
        let id = id.into();
        let credential = Credential::Key(id.clone());
        let known = Known::new(Assurance::Proven, credential);
        let (mark, from) = (None, None);
        Self { id, roles: roles.into(), workflows: Vec::new(), known, mark, door, from }
    }

    /// Who it is, through which door and how it is known, as events have it.
    pub fn recorded(&self) -> (String, String, Option<Box<Known>>) {
        (self.id.clone(), self.door.to_owned(), Some(Box::new(self.known.clone())))
    }

    /// The one who owns the machine: a caller on loopback where no keys are set up.
    pub fn local(door: &'static str) -> Self {
        let roles: Roles = Role::ALL.into_iter().collect();
        let known = Known::new(Assurance::Proven, Credential::Machine);
        Self { known, ..Self::new("local", roles, door) }
    }

    /// Whether it sees what others began.
    pub fn sees_all(&self) -> bool {
        self.roles.has_any(&[Role::Operator, Role::Auditor, Role::Admin])
    }

    /// Whether it is shown what belongs to no run: the store's own log.
    pub fn sees_store(&self) -> bool {
        self.sees_all() && self.workflows.is_empty()
    }

    /// Whether it says what becomes of the store as a whole.
    pub fn operates_all(&self) -> bool {
        self.roles.has_any(&[Role::Operator, Role::Admin]) && self.workflows.is_empty()
    }

    /// Whether its credential is good for that workflow.
    pub fn covers(&self, workflow: &str) -> bool {
        self.workflows.is_empty() || self.workflows.iter().any(|known| known == workflow)
    }

    /// Whether what `owner` began is known to this principal, as far as that depends on whose it is.
    pub fn reaches(&self, owner: &str) -> bool {
        self.sees_all() || self.id == owner
    }

    /// Whether a run of `workflow` that `owner` began is known to this principal at all (D2).
    pub fn may_see(&self, owner: &str, workflow: &str) -> bool {
        self.covers(workflow) && self.reaches(owner)
    }
}
