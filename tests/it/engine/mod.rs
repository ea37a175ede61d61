//! The engine: its laws in memory, and what moves a run on at the real binary.

pub(crate) mod at_once;
pub(crate) mod budgets;
pub(crate) mod drain;
pub(crate) mod effects;
pub(crate) mod graphs;
pub(crate) mod laws;
pub(crate) mod log_lines;
pub(crate) mod moving;
pub(crate) mod outbox;
pub(crate) mod reloaded;
pub(crate) mod retries;
pub(crate) mod rewound;
pub(crate) mod supervised;
pub(crate) mod telemetry;
pub(crate) mod two_engines;
pub(crate) mod two_engines_halted;
