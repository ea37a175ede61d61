//! Door: who is let in. Without keys everybody is the owner of the machine; with keys nobody is
//! anybody without one.

use crate::api::Doorkeeper;
use crate::app::keys::Keys;
use crate::kernel::{Principal, Refusal};

/// Lets everybody in as `local`: the server listens on loopback, or is embedded.
#[derive(Debug, Clone, Copy)]
pub(super) struct Open;

impl Doorkeeper for Open {
    fn admit(&self, _bearer: Option<&str>, door: &'static str) -> Result<Principal, Refusal> {
        Ok(Principal::local(door))
    }

    fn wants_key(&self) -> bool {
        false
    }
}

/// Lets in whoever shows a key.
#[derive(Debug)]
pub(super) struct Keyed(pub(super) Keys);

impl Doorkeeper for Keyed {
    fn admit(&self, bearer: Option<&str>, door: &'static str) -> Result<Principal, Refusal> {
        let known = bearer.and_then(|secret| self.0.principal(secret));
        let (name, role) = known.ok_or(Refusal::Unauthenticated)?;
        Ok(Principal { id: name.to_owned(), role, door })
    }

    fn wants_key(&self) -> bool {
        true
    }
}
