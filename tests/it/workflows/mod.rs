//! What a file can say, from start to end on the real binary.

pub(crate) mod asked_by_models;
pub(crate) mod conversation;
pub(crate) mod documented;
pub(crate) mod editing;
pub(crate) mod graph;
pub(crate) mod graph_wide;
pub(crate) mod memory;
pub(crate) mod memory_doors;
pub(crate) mod memory_served;
pub(crate) mod request_types;
pub(crate) mod scenarios;
pub(crate) mod scenarios_served;
pub(crate) mod sessions_owned;
