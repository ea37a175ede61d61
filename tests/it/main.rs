//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod a2a;
mod a2a_calls;
mod a2a_older;
mod a2a_refusals;
mod a2a_sdk;
mod architecture;
mod caller;
mod cli;
mod cli_talk;
mod contract;
mod embedded;
mod engine;
mod golden;
mod kill;
mod kit;
mod scenarios;
mod server;
mod support;
mod transfer;
mod twins;
