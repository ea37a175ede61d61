//! Principal: who is speaking. Every command carries one; what it may see of runs is decided by
//! `may_see`, whom a question admits in `approvers`.

use serde::{Deserialize, Serialize};

/// What a principal may do beyond its own sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// Sees and answers only what belongs to its own sessions, or is asked of it.
    User,
    /// Sees everything; operates the server. That admits to no decision (K8).
    Admin,
}

/// Who is speaking, and through which door.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Principal {
    /// The name under which its sessions are owned and its answers are kept.
    pub id: String,
    /// What it may do.
    pub role: Role,
    /// The door it came through: `grpc`, `cli`, `a2a`, `http`, `console`, `timer`.
    pub door: &'static str,
    /// What it goes on from, as its door names it; kept with what it starts or answers.
    pub from: Option<String>,
}

impl Principal {
    /// Whoever has that name, at a door.
    pub fn new(id: impl Into<String>, role: Role, door: &'static str) -> Self {
        Self { id: id.into(), role, door, from: None }
    }

    /// The one who owns the machine: a caller on loopback where no keys are set up.
    pub fn local(door: &'static str) -> Self {
        Self::new("local", Role::Admin, door)
    }

    /// Whether everything is known to this principal.
    pub fn is_admin(&self) -> bool {
        self.role == Role::Admin
    }

    /// Whether what `owner` began is known to this principal at all (D2).
    pub fn may_see(&self, owner: &str) -> bool {
        match self.role {
            Role::Admin => true,
            Role::User => self.id == owner,
        }
    }
}
