//! The house itself: that it stands as it is drawn, and that its pages, generated files and packages are true.

pub(crate) mod architecture;
pub(crate) mod bench;
pub(crate) mod cycles;
pub(crate) mod errors;
pub(crate) mod generated;
pub(crate) mod laws;
pub(crate) mod packages;
pub(crate) mod signposts;
