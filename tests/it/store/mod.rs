//! The embedded store: what survives, what rots, what is taken over and what goes out and in.

pub(crate) mod collected;
pub(crate) mod damage;
pub(crate) mod embedded;
pub(crate) mod golden;
pub(crate) mod golden_crowd;
pub(crate) mod golden_rules;
pub(crate) mod kill;
pub(crate) mod no_room;
pub(crate) mod private_files;
pub(crate) mod sled;
pub(crate) mod taken_over;
pub(crate) mod transfer;
pub(crate) mod transfer_cut;
