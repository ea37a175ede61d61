//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod architecture;
mod cli;
mod cli_talk;
mod contract;
mod embedded;
mod engine;
mod golden;
mod kit;
mod models;
mod scenarios;
mod support;
mod transfer;
mod twins;
