//! Operator: what whoever runs the server has said, and no requester can choose (K12): the
//! environment, who belongs to which group, whether four eyes are wanted, how well somebody who decides
//! must be known, what is stopped.
//!
//! It is read at each decision and pinned in no run; what came of reading it is in the journal. So is what of the
//! policy is in force for a run: a change of it is an event.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::kernel::halts::Halts;
use crate::kernel::principal::{Assurance, Footing, Roles};
use crate::kernel::rules::Policy;
use crate::kernel::time::Millis;

/// Where the server works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Environment {
    /// Here.
    Named(String),
    /// Nobody said. A rule that asks in some environments asks (K7).
    #[default]
    Unsaid,
}

/// What a person is part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// Groups: `group:finance` names them.
    pub groups: Vec<String>,
    /// What they are in the house: `role:director` names them.
    pub titles: Vec<String>,
    /// Where what they say with keys of their own counts, key by key.
    pub own: Vec<Say>,
    /// What those keys of their own are good for that are confined to no workflow: a service that speaks for them lets
    /// nothing go on that they could not.
    pub own_roles: Roles,
}

impl Default for Membership {
    /// Somebody who is heard everywhere, as whoever has no key of their own is.
    fn default() -> Self {
        let (groups, titles, own_roles) = (Vec::new(), Vec::new(), Roles::default());
        Self { groups, titles, own: vec![Say::default()], own_roles }
    }
}

/// What a key is good for in a decision, be it a person's or that of a service which speaks for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Say {
    /// Where what is said with it counts.
    pub voice: Voice,
    /// When it was made; the beginning, where that is not known.
    pub since: Millis,
}

impl Say {
    /// Whether something can have been said with it in that workflow, at that time.
    fn carries(&self, workflow: &str, at: Option<Millis>) -> bool {
        self.voice.covers(workflow) && at.is_none_or(|at| self.since <= at)
    }
}

/// In which workflows somebody's credentials are good for a decision.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Voice {
    /// In all of them.
    #[default]
    Everywhere,
    /// In these; nowhere, if there are none.
    Within(BTreeSet<String>),
}

impl Voice {
    /// Whether it is good for that workflow.
    pub fn covers(&self, workflow: &str) -> bool {
        match self {
            Self::Everywhere => true,
            Self::Within(workflows) => workflows.contains(workflow),
        }
    }
}

/// What the operator has said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operator {
    /// Where the server works.
    pub environment: Environment,
    /// Who there is and what they belong to, by name: everybody with a credential. Empty where the
    /// server asks for none.
    pub people: BTreeMap<String, Membership>,
    /// The services that speak for people, by the names of their keys.
    pub services: BTreeMap<String, Say>,
    /// Whether nobody decides what they asked for themselves, in any workflow.
    pub four_eyes: bool,
    /// How well whoever decides must be known, where the file does not say.
    pub assurance: Assurance,
    /// The rules that are over all workflows.
    pub policy: Arc<Policy>,
    /// What is stopped.
    pub halts: Arc<Halts>,
}

impl Operator {
    /// Whether `named` (a name, `group:…`, `role:…`) means whoever has that name.
    pub fn means(&self, named: &str, who: &str) -> bool {
        let known = self.people.get(who);
        match named.split_once(':') {
            Some(("group", group)) => {
                known.is_some_and(|known| known.groups.iter().any(|own| own == group))
            }
            Some(("role", title)) => {
                known.is_some_and(|known| known.titles.iter().any(|own| own == title))
            }
            Some(_) | None => named == who,
        }
    }

    /// Whether a word of somebody's that has this footing still counts in that workflow: by the role of a credential that
    /// is good now, is not confined to others, and was there when it was said. What a service said for somebody goes by
    /// the key of that very service: another has not said it.
    pub fn stands_by(&self, who: &str, footing: Footing<'_>, workflow: &str) -> bool {
        let Some(known) = self.people.get(who) else { return self.knows(who) };
        let carries = |say: &Say| say.carries(workflow, footing.at);
        match footing.assurance {
            Assurance::Proven => known.own.iter().any(carries),
            Assurance::Vouched => {
                footing.service.and_then(|name| self.services.get(name)).is_some_and(carries)
            }
            Assurance::Model => false,
        }
    }

    /// Whether somebody could decide something in that workflow, by themselves or through a service.
    pub fn could_hear(&self, who: &str, workflow: &str) -> bool {
        let Some(known) = self.people.get(who) else { return self.knows(who) };
        known.own.iter().chain(self.services.values()).any(|say| say.carries(workflow, None))
    }

    /// Whether anybody of that name is known; everybody is, where nobody was ever named.
    pub fn knows(&self, who: &str) -> bool {
        self.people.is_empty() || self.people.contains_key(who)
    }
}
