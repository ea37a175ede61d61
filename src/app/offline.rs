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
