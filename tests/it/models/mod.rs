//! Model providers from outside: servers that speak each true wire format, and all that can go
//! wrong with them.

mod anthropic;
mod chat;
mod circuit;
mod desk;
mod faults;
mod fixture;
mod keys;
mod player;
mod plays;
mod real;
mod recorded;
mod responses;
mod streaming;
