//! One binary for all integration tests: links once, runs fast.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod a2a;
mod bridge;
mod consent;
mod console;
mod contract;
mod engine;
mod evidence;
mod grpc;
mod house;
mod models;
mod policy;
mod postgres;
mod store;
mod support;
mod terminal;
mod tools;
mod workflows;
