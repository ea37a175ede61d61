//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod architecture;
mod contract;
mod engine;
mod kit;
mod scenarios;
mod support;
