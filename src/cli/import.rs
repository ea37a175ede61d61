//! `holdpoint import`: an exported file back into an empty store, in a directory or in a database.

use std::{fmt::Display, fs::File, io, path::PathBuf};

use crate::app::offline;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::export::{progress, tell};

/// Read an exported file into an empty directory or database
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint import backup.jsonl --data ./restored
  zstd -dc backup.jsonl.zst | holdpoint import - --data ./restored
  holdpoint import backup.jsonl --store postgres://holdpoint@db.internal/holdpoint

Every run is replayed as it comes in; a file that is cut or damaged is refused. An import that is cut off is
refused by whoever would serve it; the same command again goes on where it broke off.")]
pub(super) struct Args {
    /// The file to read; `-` for stdin
    pub file: PathBuf,
}

/// Imports.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let from = if args.file.as_os_str() == "-" {
        spooled()?
    } else {
        let cannot = |why: &dyn Display| {
            Trouble::new(Exit::Failed, format!("cannot read `{}`: {why}", args.file.display()))
        };
        if args.file.is_dir() {
            return Err(cannot(&"it is a directory; name the file that `holdpoint export` wrote"));
        }
        File::open(&args.file).map_err(|error| cannot(&error))?
    };
    let (done, open) = offline::import(&ctx.config, from, &progress(ctx)).await?;
    tell(ctx, ("imported", "into"), done, false)?;
    if !ctx.json && done.runs > 0 {
        ctx.term.note(held(open > 0));
    }
    Ok(Exit::Done)
}

/// What is said of a store that was imported: only what is not over could be set going.
fn held(has_open_runs: bool) -> &'static str {
    if has_open_runs {
        "the store is held: start `holdpoint serve` on it, which tells every run that is not over and listens then; look \
         with `holdpoint inbox` and `holdpoint runs`, and let it go on with `holdpoint release`"
    } else {
        "every run in it is over, and nothing is held: start `holdpoint serve` on it"
    }
}

/// Standard input as a file: an import is read twice, so that it is checked before it is written.
fn spooled() -> Result<File, Trouble> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    io::Seek::rewind(&mut file)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_store_in_which_a_run_is_not_over_is_said_to_be_held() {
        assert!(held(true).contains("is held") && held(true).contains("`holdpoint release`"));
        assert!(held(false).contains("nothing is held") && !held(false).contains("release"));
    }
}
