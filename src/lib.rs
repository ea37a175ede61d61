//! Holdpoint: a durable orchestrator for agent workflows that wait for people.
//!
//! Imports go downstairs only:
//!
//! ```text
//!   roof   main.rs · cli · bench              arguments → one call → exit code │ what it all costs
//!    4     app                                wiring: config → store → engine → doors
//!    3     api                                the doors: grpc, a2a, bridge (HTTP), console, pages
//!    2     engine   │   store   │   agents    async; strangers to one another
//!    1     ports    │   wire    │ definition  traits and faults │ generated shapes │ files → kernel
//!    0     kernel                             pure: no async, no clock, no chance, no I/O
//!   leaf   failpoint                          where a test build can be made to die; nothing in release
//! ```
//!
//! Start reading in [`kernel`]: `decide`, `evolve` and `plan` are the whole product; the rest
//! carries values to them and back. The laws that comments and tests cite are in `docs/laws.md`.

pub mod agents;
pub mod api;
pub mod app;
#[cfg(feature = "bench")]
pub mod bench;
pub mod cli;
pub mod definition;
pub mod engine;
pub mod failpoint;
pub mod kernel;
pub mod ports;
pub mod store;
pub mod wire;
