//! Model providers from outside: servers that speak each true wire format, and all that can go
//! wrong with them.

mod anthropic;
pub(crate) mod chat;
mod circuit;
mod cut;
pub(crate) mod desk;
mod faults;
pub(crate) mod fixture;
mod halted;
mod keys;
mod player;
mod plays;
mod real;
mod recorded;
mod responses;
mod streaming;
