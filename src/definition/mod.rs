//! Definition: workflow files and what they mean: YAML in, `kernel::Workflow` out.
//!
//! ```text
//! text ─► source (value + places) ─► shape (against the schema) ─► file ─► check ─► compile
//! ```
//!
//! Every problem has a file, a line, a column and a stable code, and all of them are told at once.
//! Which providers there are, and what their settings mean, is not known here.

mod brought;
mod budgets;
mod check;
mod compile;
mod conditions;
mod conversation;
pub mod draw;
mod file;
mod gates;
mod graph;
mod handoffs;
mod human;
mod known;
mod limits;
mod load;
mod mcp;
mod models;
mod modes;
mod patience;
mod patterns;
mod people;
mod policy;
mod problem;
mod request_types;
mod retry;
mod schema;
mod script;
mod shape;
mod shipped;
mod source;
mod sub;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_gates;
#[cfg(test)]
mod tests_graph;
#[cfg(test)]
mod tests_policy;
#[cfg(test)]
mod tests_reach;
#[cfg(test)]
mod tests_words;
mod time;

pub use brought::brought;
pub use load::{
    Each, Loaded, ResolveScript, Voices, called, load_dir, load_each, load_file, load_text,
};
pub use policy::{load_policy, policy_schema};
pub use problem::{Problem, nearest, nearest_within};
pub use schema::{script_schema, workflow_schema};
pub use shipped::shipped;
pub use source::FILE_BYTES_MAX;
