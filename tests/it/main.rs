//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod a2a;
mod a2a_calls;
mod a2a_chain;
mod a2a_older;
mod a2a_refusals;
mod a2a_remote;
mod a2a_sdk;
mod architecture;
mod audit;
mod bad_inputs;
mod bench;
mod budgets;
mod caller;
mod cli;
mod cli_talk;
mod clients;
mod contract;
mod contract_outbox;
mod damage;
mod drain;
mod effects;
mod embedded;
mod engine;
mod errors;
mod golden;
mod kill;
mod kit;
mod listener;
mod models;
mod outbox_served;
mod raw;
mod refusals;
mod refusals_stage;
mod scenarios;
mod scenarios_served;
mod server;
mod support;
mod tool_server;
mod tools_http;
mod tools_mcp;
mod transfer;
mod twins;
