//! Recent: how the runs stand that were last written. A memory of what is stored, never ahead of it: it
//! can be forgotten at any time, and is read back from the heads.

use std::collections::HashMap;
use std::sync::Arc;

use crate::kernel::Version;
use crate::store::keys::Packed;
use crate::store::places::Places;

/// Runs that are remembered: more than are written to within a few seconds.
const RECENT_MAX: usize = 4_096;

/// What an append is checked against. Kept for the runs that were last written: reading it back from
/// their heads was half of what deciding on a group took.
#[derive(Debug, Clone)]
pub(super) struct Brief {
    pub(super) version: Version,
    pub(super) fence: u64,
    pub(super) key: Option<String>,
    pub(super) places: Places,
    /// In how many pieces the head lies.
    pub(super) pieces: u16,
    /// Which open questions lie beside it, in order.
    pub(super) apart: Arc<[u32]>,
}

/// How the runs stand that were last written.
#[derive(Debug, Default)]
pub(super) struct Recent {
    briefs: HashMap<Packed, Brief>,
}

impl Recent {
    pub(super) fn get(&self, run: &Packed) -> Option<&Brief> {
        self.briefs.get(run)
    }

    pub(super) fn add(&mut self, run: Packed, brief: Brief) {
        self.briefs.insert(run, brief);
    }

    /// Takes on what a group has changed, now that it is durable.
    pub(super) fn take(&mut self, changed: Self) {
        if self.briefs.len() + changed.briefs.len() > RECENT_MAX {
            self.clear();
        }
        self.briefs.extend(changed.briefs);
    }

    /// Forgets everything: runs are about to go.
    pub(super) fn clear(&mut self) {
        self.briefs.clear();
    }
}
