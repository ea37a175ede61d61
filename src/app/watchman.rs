//! Watchman: beside the doorkeeper, notes who shows a key that is none, and from where. Lets nobody in
//! and turns nobody away: that is the doorkeeper's.

use std::net::IpAddr;
use std::sync::Arc;

use tokio::sync::watch;

use crate::api::{Doorkeeper, Shown};
use crate::engine::Engine;
use crate::kernel::{Millis, Principal, Refusal};
use crate::ports::Note;

tokio::task_local! {
    /// Whom the request that is being answered came from.
    pub(super) static PEER: IpAddr;
}

/// What those who look again whether an open stream may stay open say their door is: it has been shown
/// before, and is no knock.
const OPEN: &str = "open";

/// A doorkeeper with somebody beside it.
#[derive(Debug)]
pub(super) struct Watchman {
    keeper: Arc<dyn Doorkeeper>,
    engine: Engine,
}

impl Watchman {
    /// Watches over `keeper`; what is noticed is written before anybody is told, where the answer goes
    /// out (`dispatch`).
    pub(super) fn beside(keeper: Arc<dyn Doorkeeper>, engine: Engine) -> Self {
        Self { keeper, engine }
    }

    fn notice(&self, door: &str) {
        let peer = PEER.try_with(ToString::to_string).unwrap_or_default();
        self.engine.notice(Note::KeyRefused { peer, door: door.into() });
    }
}

impl Doorkeeper for Watchman {
    fn admit(&self, shown: Shown<'_>, door: &'static str) -> Result<Principal, Refusal> {
        let admitted = self.keeper.admit(shown, door);
        if admitted.is_err() && shown.bearer.is_some() && door != OPEN {
            self.notice(door);
        }
        admitted
    }

    fn wants_key(&self) -> bool {
        self.keeper.wants_key()
    }

    fn pass(&self, bearer: &str, until: Millis) -> Result<String, Refusal> {
        let pass = self.keeper.pass(bearer, until);
        if pass.is_err() {
            self.notice("console");
        }
        pass
    }

    fn still_admits_pass(&self, pass: &str) -> bool {
        self.keeper.still_admits_pass(pass)
    }

    fn admit_pass(
        &self,
        pass: &str,
        now: Millis,
        door: &'static str,
    ) -> Result<Principal, Refusal> {
        // A pass that is over is an old browser tab; one that was never made is nobody's key.
        self.keeper.admit_pass(pass, now, door)
    }

    fn void_pass(&self, pass: &str, now: Millis) {
        self.keeper.void_pass(pass, now);
    }

    fn is_constant(&self) -> bool {
        self.keeper.is_constant()
    }

    fn changes(&self) -> Option<watch::Receiver<()>> {
        self.keeper.changes()
    }

    fn trouble(&self) -> Option<String> {
        self.keeper.trouble()
    }
}
