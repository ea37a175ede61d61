//! Places: where a workflow's file sends its tools and remote agents, and what of it the guard would refuse. It is
//! told when the file is looked at, and not when somebody has approved a call that can never be made.

use crate::agents::a2a::{self, Remotes};
use crate::agents::tools::guard::{self, Place};
use crate::agents::tools::{Toolbox, Wrong};
use crate::kernel::Workflow;

/// What lets the guard pass it.
const REMEDY: &str = "`allow_private: true`, or a list of hosts with it, allows it";

/// Places that are never reached: an address that is written out is not resolved, so nothing makes it another later.
pub(super) fn never(workflow: &Workflow) -> Vec<Wrong> {
    let refused = |place: Place| {
        let private = guard::check_literal(&place.url).err().filter(|_| !place.is_allowed())?;
        Some((place.at, format!("{private}; {REMEDY}")))
    };
    written(workflow).into_iter().filter_map(refused).collect()
}

/// Places that are hardly reached: what a name of this machine leads to is known when it is resolved, and then refused.
pub(super) fn hardly(workflow: &Workflow) -> Vec<Wrong> {
    let doubted = |place: Place| {
        let host = place.url.host_str().filter(|_| place.is_here() && !place.is_allowed())?;
        let told = format!("`{host}` is this machine, which is not on the public internet");
        Some((place.at, format!("{told}: calls are refused; {REMEDY}")))
    };
    written(workflow).into_iter().filter_map(doubted).collect()
}

/// Every place of a workflow that the guard watches, once; of settings that cannot be read it is told elsewhere.
/// Models are not guarded: many a one is served on the same machine.
fn written(workflow: &Workflow) -> Vec<Place> {
    let remotes = workflow.models.iter().filter(|(_, model)| model.provider == a2a::PROVIDER);
    let remotes = remotes.filter_map(|(name, model)| Remotes::place(name, model));
    let tools = workflow.tools.iter().filter_map(|(name, tool)| Toolbox::place(name, tool));
    let mut places: Vec<Place> = remotes.chain(tools).collect();
    // Tools of one server lead to the same place.
    places.sort_by(|one, other| one.at.cmp(&other.at));
    places.dedup_by(|one, other| one.at == other.at);
    places
}
