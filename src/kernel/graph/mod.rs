//! The free graph: a workflow as a tree of steps, of which many may be under way at the same time.
//!
//! `program` is what a file says, `state` where a run of it stands. `moves` and `begin` say what
//! follows of itself, as events; `fold` is what these events change. `gates` are the points at which
//! a person looks, `scope` which values an expression sees, `unseen` what a yes was not given to.

mod begin;
mod fold;
mod frozen;
mod gates;
mod moves;
mod outcome;
mod path;
mod program;
mod scope;
mod state;
mod unseen;

pub use frozen::Frozen;
pub(super) use frozen::called;
pub use outcome::{Opening, Outcome, Point};
pub use program::{
    ATTEMPTS_DEFAULT, After, Ask, Branch, Case, ITEMS_DEFAULT, OptionsFrom, PhaseGate, Program,
    REDO_DEFAULT, REVISE_DEFAULT, Step, Steps, Task,
};
pub use state::State;

pub(super) use fold::{asked, begin, came, heard, opened, settled, signal, turned, working};
pub(super) use moves::{due, next};
