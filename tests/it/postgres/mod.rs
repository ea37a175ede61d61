//! Many servers over one PostgreSQL, and the way there.

pub(crate) mod auditor;
pub(crate) mod chaos;
pub(crate) mod clocks;
pub(crate) mod desks;
pub(crate) mod history;
pub(crate) mod keys;
pub(crate) mod moved;
pub(crate) mod moved_people;
pub(crate) mod moves_at_once;
pub(crate) mod operators;
mod parted;
pub(crate) mod refused_starts;
mod replicas;
pub(crate) mod rewound;
pub(crate) mod scenarios;
pub(crate) mod served;
pub(crate) mod store;
pub(crate) mod tables;
pub(crate) mod transfer;
pub(crate) mod two_engines;
pub(crate) mod which_store;
