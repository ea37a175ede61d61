//! `holdpoint export`: the whole store as one file that any version can read.

use std::{fs, io::Write, path::PathBuf};

use serde_json::json;

use crate::app::offline::{self, Transferred};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// One line of progress for this many runs: often enough to see it move.
pub(super) const PROGRESS_RUNS: u64 = 10_000;

/// Write everything in the data directory to one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint export backup.jsonl
  holdpoint export - | zstd > backup.jsonl.zst

The file is JSON Lines with a checksum at its end; `holdpoint import` reads it into an empty data
directory. A server on the same directory must be stopped first. The file holds conversations.")]
pub(super) struct Args {
    /// The file to write; `-` for stdout. It must not exist yet
    pub file: PathBuf,
}

/// Exports.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let to_stdout = args.file.as_os_str() == "-";
    let to: Box<dyn Write + Send> = if to_stdout {
        Box::new(std::io::stdout())
    } else {
        let created = fs::OpenOptions::new().write(true).create_new(true).open(&args.file);
        Box::new(created.map_err(|error| {
            let text = format!("cannot create `{}`: {error}", args.file.display());
            Trouble::new(Exit::Failed, text).hint("name a file that does not exist yet")
        })?)
    };
    let done = offline::export(&ctx.config, to, &progress(ctx)).await?;
    tell(ctx, "exported", done, to_stdout)?;
    Ok(Exit::Done)
}

/// Tells how far it is.
pub(super) fn progress(ctx: &Ctx) -> impl Fn(u64) + Send + Sync {
    let term = ctx.term;
    move |runs| {
        if runs > 0 && runs.is_multiple_of(PROGRESS_RUNS) {
            term.note(&term.paint_error.dim(&format!("{runs} runs")));
        }
    }
}

/// Tells what went through.
pub(super) fn tell(
    ctx: &Ctx,
    verb: &str,
    done: Transferred,
    to_stderr: bool,
) -> Result<(), Trouble> {
    let Transferred { definitions, runs, events } = done;
    let text = if ctx.json {
        json!({"definitions": definitions, "runs": runs, "events": events}).to_string()
    } else {
        format!("{verb} {definitions} definitions, {runs} runs, {events} events")
    };
    if to_stderr {
        ctx.term.note(&text);
        return Ok(());
    }
    ctx.term.line(&text)
}
