//! `holdpoint man`: the pages of the manual, one a command, made of what `--help` says.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

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

/// What else this program writes is its owner's alone; a manual is for everybody.
fn open_to_all(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let is_ours =
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("holdpoint"));
        if is_ours && path.extension().is_some_and(|kind| kind == "1") {
            fs::set_permissions(path, Permissions::from_mode(0o644))?;
        }
    }
    Ok(())
}

/// Writes those of this command line.
pub(super) fn perform(args: &Args, command: clap::Command, ctx: &Ctx) -> Result<Exit, Trouble> {
    let failed = |error: io::Error| {
        let text = format!("cannot write the manual into `{}`: {error}", args.folder.display());
        Trouble::new(Exit::Failed, text)
    };
    fs::create_dir_all(&args.folder).map_err(failed)?;
    clap_mangen::generate_to(command, &args.folder).map_err(failed)?;
    open_to_all(&args.folder).map_err(failed)?;
    let place = args.folder.display().to_string();
    let text = if ctx.json {
        json!({"folder": place}).to_string()
    } else {
        format!("the manual is in `{}`", line(&place, 400))
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}
