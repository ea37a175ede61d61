//! Desks: on which of them a run with open questions lies, and which are somebody's own. A run lies on the desk of whoever
//! began it, and of everybody it asks as it stands: by name, by group, by role, or because a place was handed to them.
//!
//! They only narrow what is read. Who may see or answer a question is the kernel's to say, of each that is found (K8); so a
//! desk may have more than is somebody's, and must never lack anything that is.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::kernel::{Operator, Question};

/// A desk, by its name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Desk(String);

impl Desk {
    /// That of the runs that somebody began.
    pub fn began(owner: &str) -> Self {
        Self(format!("began {owner}"))
    }

    /// That of what is asked of a name, a group or a role.
    pub fn asked(named: &str) -> Self {
        Self(format!("asked {named}"))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Those on which a run with these questions lies.
    pub fn of<'a>(
        owner: &str,
        questions: impl Iterator<Item = &'a Arc<Question>>,
    ) -> BTreeSet<Self> {
        let mut desks = BTreeSet::from([Self::began(owner)]);
        for question in questions {
            // A place that was handed over lies on the desk of whoever holds it; when that is over, they
            // are no longer admitted.
            let holders = question.delegations.iter().map(|handed| &handed.to);
            desks.extend(question.to.iter().chain(holders).map(|named| Self::asked(named)));
        }
        desks
    }

    /// Those that are the own of whoever is called `who`.
    pub fn own(who: &str, operator: &Operator) -> Vec<Self> {
        let known = operator.people.get(who);
        let groups = known.into_iter().flat_map(|known| &known.groups);
        let titles = known.into_iter().flat_map(|known| &known.titles);
        let mut desks = vec![Self::began(who), Self::asked(who)];
        desks.extend(groups.map(|group| Self::asked(&format!("group:{group}"))));
        desks.extend(titles.map(|title| Self::asked(&format!("role:{title}"))));
        desks
    }
}
