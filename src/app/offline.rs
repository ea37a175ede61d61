//! Offline: what commands ask of the rooms below without a run: files, drawings, the store itself.
//!
//! Each function is the one line between a command and its room.

use std::io::{Read, Write};
use std::path::PathBuf;

use serde_json::Value;

use crate::app::{AppError, Config};

/// One file that was checked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The file.
    pub path: PathBuf,
    /// The workflow in it, if it could be read that far.
    pub workflow: Option<String>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The stable code.
    pub code: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// What was probably meant.
    pub hint: Option<String>,
    /// All of it as people read it, with the source line and a caret.
    pub shown: String,
}

/// How a workflow is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Drawing {
    /// Text that Markdown viewers draw.
    Mermaid,
    /// Text that Graphviz draws.
    Dot,
    /// A picture.
    Svg,
}

/// Which file a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// A workflow file.
    Workflow,
    /// The script of a scripted model.
    Script,
}

/// What went through an export or an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Sessions.
    pub sessions: u64,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
}

/// How one part of the installation is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was looked at.
    pub subject: String,
    /// Whether it is as it should be.
    pub is_ok: bool,
    /// What was found, and the remedy where it is not ok.
    pub detail: String,
}

/// What to measure.
#[derive(Debug, Clone, clap::Args)]
pub struct BenchOptions {
    /// The workloads: `w1` pause and resume, `w2` a long conversation, `w3` many waiting
    #[arg(value_name = "WORKLOAD", default_values = ["w1", "w2", "w3"], value_parser = ["w1", "w2", "w3"])]
    pub workloads: Vec<String>,
    /// How many clients at once, for w1
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [1, 16, 64])]
    pub clients: Vec<u16>,
    /// How long each measurement of w1 takes, in seconds
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub seconds: u32,
    /// How many turns w2 has
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [200, 1000])]
    pub turns: Vec<u32>,
    /// How many sessions wait in w3
    #[arg(long, value_name = "N", value_delimiter = ',', default_values_t = [10_000])]
    pub sessions: Vec<u32>,
    /// How often each is measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub passes: u32,
}

/// Checks the files and folders; the configured folder if none is named.
pub fn check(_config: &Config, _paths: &[PathBuf]) -> Result<Vec<Checked>, AppError> {
    Err(AppError::NotWired("check"))
}

/// Draws the workflow of that name, or in that file.
pub fn graph(_config: &Config, _name: &str, _drawing: Drawing) -> Result<String, AppError> {
    Err(AppError::NotWired("graph"))
}

/// The JSON Schema of a kind of file.
pub fn schema(_of: SchemaOf) -> Result<Value, AppError> {
    Err(AppError::NotWired("schema"))
}

/// Writes the whole store to `to`; `progress` is told how many runs are done.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn export(
    _config: &Config,
    _to: Box<dyn Write + Send>,
    _progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Transferred, AppError> {
    Err(AppError::NotWired("export"))
}

/// Reads a whole store from `from` into an empty one.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn import(
    _config: &Config,
    _from: Box<dyn Read + Send>,
    _progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Transferred, AppError> {
    Err(AppError::NotWired("import"))
}

/// Forgets runs that were over this long ago; returns how many.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn prune(_config: &Config, _older_than_ms: u64) -> Result<u64, AppError> {
    Err(AppError::NotWired("prune"))
}

/// Looks at everything: settings, workflows, keys, store.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn doctor(_config: &Config) -> Result<Vec<Finding>, AppError> {
    Err(AppError::NotWired("doctor"))
}

/// Measures; `say` is told each line of the report as it is known. The whole of it comes back.
#[expect(clippy::unused_async, reason = "a stub")]
pub async fn bench(
    _config: &Config,
    _options: &BenchOptions,
    _say: &(dyn Fn(&str) + Send + Sync),
) -> Result<Value, AppError> {
    Err(AppError::NotWired("bench"))
}
