//! `holdpoint graph`: draws a workflow.

use std::{fs, path::PathBuf};

use serde_json::json;

use crate::app::offline::{self, Drawing};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Draw a workflow
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint graph event_planning
  holdpoint graph event_planning --format svg -o event_planning.svg
  holdpoint graph ./flows/mine.yaml --format dot | dot -Tpng > mine.png")]
pub(super) struct Args {
    /// The workflow's name, or its file
    pub name: String,
    /// How to draw it
    #[arg(long, value_name = "FORMAT", default_value = "mermaid")]
    pub format: Drawing,
    /// Write to this file instead of stdout
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Draws.
pub(super) fn perform(args: &Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let drawn = offline::graph(&ctx.config, &args.name, args.format)?;
    match &args.output {
        Some(path) => write(path, &drawn)?,
        None if ctx.json => ctx.term.line(&json!({"drawing": drawn}).to_string())?,
        None => ctx.term.line(drawn.trim_end())?,
    }
    Ok(Exit::Done)
}

fn write(path: &PathBuf, text: &str) -> Result<(), Trouble> {
    fs::write(path, text).map_err(|error| {
        Trouble::new(Exit::Failed, format!("cannot write `{}`: {error}", path.display()))
    })
}
