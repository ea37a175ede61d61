//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod architecture;
mod budgets;
mod cli;
mod cli_talk;
mod contract;
mod effects;
mod embedded;
mod engine;
mod golden;
mod kit;
mod scenarios;
mod support;
mod tool_server;
mod tools_http;
mod tools_mcp;
mod transfer;
mod twins;
