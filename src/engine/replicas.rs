//! Replicas: who shares the store, as whoever operates it looks at them, and who of them drives a run. It changes nothing.

use crate::engine::{Engine, EngineError};
use crate::kernel::{Principal, Refusal};
use crate::ports::{Introduction, Replica};

/// How long a store that is away may hold up whoever leaves.
const DRAIN_MS: u64 = 1_000;

impl Engine {
    /// Says to the others who this process is. Where nobody shares the store nobody is told.
    pub async fn introduce(&self, who: Introduction) {
        let Some(replicas) = self.replicas() else { return };
        // It is told again with every life; what lacks it till then is a listing.
        if let Err(error) = replicas.introduce(who).await {
            tracing::warn!(%error, "the others could not be told who this is");
        } else if let Err(error) = self.beat().await {
            tracing::debug!(%error, "how many there are is asked with the next sign of life");
        }
    }

    /// Says to the others that this process is about to leave.
    pub(super) async fn say_draining(&self) {
        let Some(replicas) = self.replicas() else { return };
        tokio::select! {
            biased;
            told = replicas.drain() => if let Err(error) = told {
                tracing::debug!(%error, "the others could not be told that this process leaves");
            },
            () = self.inner.clock.pause(DRAIN_MS) => {}
        }
    }

    /// Those who share the store, the oldest first; none where one process has it alone. For whoever is shown what
    /// belongs to no run.
    pub async fn replicas_listed(&self, who: &Principal) -> Result<Vec<Replica>, EngineError> {
        if !who.sees_store() {
            let why = "who shares the store is shown to whoever sees all of it: use a key with the role `operator`, \
                       `auditor` or `admin`";
            return Err(Refusal::Forbidden(why).into());
        }
        match self.replicas() {
            Some(replicas) => Ok(replicas.listed().await?),
            None => Ok(Vec::new()),
        }
    }

    /// Which life this process is in, where others share the store.
    pub fn replica_id(&self) -> Option<String> {
        self.is_shared().then(|| self.life())
    }

    /// Who drives a run now, by the name they gave, and by their address where another has that name; none where nobody does, nobody is known to, or one process has
    /// the store alone. For whoever sees the run.
    pub async fn driver(&self, run: &str, who: &Principal) -> Result<Option<String>, EngineError> {
        let Some(replicas) = self.replicas() else { return Ok(None) };
        let (run, _) = self.seen_run(run, who).await?;
        let standing = replicas.standing(&run).await?;
        let Some((holder, true)) = standing.and_then(|standing| standing.holder) else {
            return Ok(None);
        };
        let listed = replicas.listed().await?;
        let driver = listed.iter().find(|replica| replica.incarnation == holder);
        let is_alike = |driver: &Replica| {
            listed.iter().filter(|other| other.who.name == driver.who.name).count() > 1
        };
        Ok(driver.map(|driver| called(&driver.who, who.sees_store() && is_alike(driver))))
    }
}

/// Names those who were taken for dead. A life that nobody has spoken for was a command's, or a start's that came to nothing.
pub(super) fn tell_of_dead(dead: &[Introduction]) {
    for who in dead.iter().filter(|who| !who.name.is_empty()) {
        tracing::warn!(
            server = called(who, true),
            version = who.program,
            "a server gave no sign of life in time and is taken for dead: what it drove is taken up by those who live"
        );
    }
}

/// What a server is called: machines that run several of them tell those apart by their addresses, to whoever is shown
/// who shares the store.
fn called(who: &Introduction, with_address: bool) -> String {
    let Introduction { name, address, .. } = who;
    if with_address { format!("{name} ({address})") } else { name.clone() }
}
