//! `holdpoint man`: the pages of the manual, one a command, made of what `--help` says.

use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::line;

/// Write the manual's pages into a folder
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint man ~/.local/share/man/man1 && man holdpoint-run")]
pub(super) struct Args {
    /// The folder; it is made if it is not there
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
}

/// Writes those of this command line.
pub(super) fn perform(args: &Args, command: clap::Command, ctx: &Ctx) -> Result<Exit, Trouble> {
    let failed = |error: std::io::Error| {
        let text = format!("cannot write the manual into `{}`: {error}", args.folder.display());
        Trouble::new(Exit::Failed, text)
    };
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(command, &args.folder).map_err(failed)?;
    let place = args.folder.display().to_string();
    let text = if ctx.json {
        json!({"folder": place}).to_string()
    } else {
        format!("the manual is in `{}`", line(&place, 400))
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}
