//! Apart: what a run knows to be secret, and what of it stands apart from the event that it was said in. How it is
//! known, and hidden, is `veil`'s.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::kernel::evidence::Hash;

/// Says what a hash is of.
const SECRET: &[u8] = b"holdpoint secret 1\n";

/// What a run knows to be secret: texts and numbers, as JSON. Where it is known who has said one in a marked place, or has
/// answered a question that showed it to them, their name and it as a list of two.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Veil(pub(super) BTreeSet<String>);

impl fmt::Debug for Veil {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Veil({})", self.0.len())
    }
}

/// A value that stands apart from the event that it belongs to.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Apart {
    /// What nobody can guess of its hash.
    pub salt: String,
    /// The value, as JSON.
    pub json: String,
}

impl fmt::Debug for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apart({})", self.hash())
    }
}

impl Apart {
    /// What stands in its place.
    pub fn hash(&self) -> Hash {
        Hash::of(&[SECRET, self.salt.as_bytes(), b"\n", self.json.as_bytes()])
    }
}
