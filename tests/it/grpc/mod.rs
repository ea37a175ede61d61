//! gRPC as callers meet it: what is refused, what is repeated, and whose key it is.

pub(crate) mod bad_inputs;
pub(crate) mod clients;
pub(crate) mod keys_again;
pub(crate) mod keys_served;
pub(crate) mod large_pages;
pub(crate) mod refusals;
pub(crate) mod refusals_stage;
pub(crate) mod repeats;
pub(crate) mod silence;
pub(crate) mod slow_reader;
