//! One binary for all integration tests: it links once and runs fast.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod contract;
mod embedded;
mod golden;
mod kit;
mod transfer;
mod twins;
