//! `holdpoint export`: the whole store as one file that any version can read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::app::counted;
use crate::app::evidence::{self, Secrets};
use crate::app::offline::{self, Transferred};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// One line of progress for this many runs: often enough to see it move.
pub(super) const PROGRESS_RUNS: u64 = 10_000;

/// Write everything in a data directory, or a database, to one file
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint export backup.jsonl
  holdpoint export - | zstd > backup.jsonl.zst
  holdpoint export run.json --run run_01k9zq3v7m8n4p5r6s7t8v9w0x
  holdpoint export backup.jsonl --store postgres://holdpoint@db.internal/holdpoint

With --run the file holds that run alone, with all that proves it, for `holdpoint verify` on any machine.
The file is JSON Lines with a checksum at its end; `holdpoint import` reads it into an empty data
directory or database. A server on the same directory must be stopped first; those over a database may run. The file holds conversations; all but
a bundle without --with-secrets holds what is secret in them.")]
pub(super) struct Args {
    /// The file to write; `-` for stdout. It must not exist yet
    pub file: PathBuf,
    /// This run alone, as a bundle that can be verified with nothing but the public key
    #[arg(long, value_name = "RUN")]
    pub run: Option<String>,
    /// With what the run keeps secret; without it, hashes stand there, and the bundle proves as much
    #[arg(long, requires = "run")]
    pub with_secrets: bool,
}

/// Exports.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let to_stdout = args.file.as_os_str() == "-";
    if let Some(run) = &args.run {
        let secrets = if args.with_secrets { Secrets::Included } else { Secrets::LeftOut };
        return one((run, secrets), &args.file, to_stdout, ctx).await;
    }
    let done = if to_stdout {
        offline::export(&ctx.config, Box::new(io::stdout()), &progress(ctx)).await?
    } else {
        let cannot = |error| cannot_create(&args.file, &error);
        let (beside, to) = Beside::create(&args.file).map_err(cannot)?;
        let done = offline::export(&ctx.config, Box::new(to), &progress(ctx)).await?;
        beside.finish(&args.file).map_err(cannot)?;
        done
    };
    tell(ctx, ("exported", "from"), done, to_stdout)?;
    Ok(Exit::Done)
}

/// Exports one run.
async fn one(
    (run, secrets): (&str, Secrets),
    file: &Path,
    to_stdout: bool,
    ctx: &Ctx,
) -> Result<Exit, Trouble> {
    let unknown = || {
        let text = format!("--run: there is no run `{run}` in {}", offline::place(&ctx.config));
        Trouble::new(Exit::NotFound, text).hint("`holdpoint runs` lists them")
    };
    if to_stdout {
        let is_there =
            evidence::export_run(&ctx.config, run, secrets, Box::new(io::stdout())).await?;
        return if is_there { Ok(Exit::Done) } else { Err(unknown()) };
    }
    let cannot = |error| cannot_create(file, &error);
    let (beside, to) = Beside::create(file).map_err(cannot)?;
    if !evidence::export_run(&ctx.config, run, secrets, Box::new(to)).await? {
        return Err(unknown());
    }
    beside.finish(file).map_err(cannot)?;
    let text = if ctx.json {
        json!({"run": run, "store": offline::bare_place(&ctx.config)}).to_string()
    } else {
        format!("exported {run} from {}", offline::place(&ctx.config))
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}

/// Why there is no file, and what to do about that.
fn cannot_create(file: &Path, error: &io::Error) -> Trouble {
    let text = format!("cannot create `{}`: {error}", file.display());
    let is = |kinds: &[io::ErrorKind]| kinds.contains(&error.kind());
    let hint = if is(&[io::ErrorKind::AlreadyExists]) {
        "name a file that does not exist yet"
    } else if is(&[io::ErrorKind::NotFound]) {
        "its folder does not exist: make that first, or name another"
    } else if is(&[io::ErrorKind::NotADirectory, io::ErrorKind::InvalidFilename]) {
        "name a file in a folder"
    } else if is(&[io::ErrorKind::PermissionDenied, io::ErrorKind::ReadOnlyFilesystem]) {
        "you may not write there: name a file where you may"
    } else if is(&[io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded]) {
        "there is no room left: make some, or name a file elsewhere"
    } else {
        "name a file elsewhere"
    };
    Trouble::new(Exit::Failed, text).hint(hint)
}

/// A file on its way: written beside the one that was asked for, and gone unless it is finished. So an
/// export is there whole or not at all.
#[derive(Debug)]
struct Beside {
    path: PathBuf,
    file: File,
    is_finished: bool,
}

impl Beside {
    fn create(target: &Path) -> io::Result<(Self, File)> {
        if target.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let name = target.file_name().ok_or(io::ErrorKind::InvalidFilename)?;
        // Two at once do not write into one another's.
        let name = format!("{}.{}.part", name.to_string_lossy(), std::process::id());
        let path = target.with_file_name(name);
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).open(&path)?;
        let to = file.try_clone()?;
        Ok((Self { path, file, is_finished: false }, to))
    }

    /// Everything is written: it gets its name once it is on disk.
    fn finish(mut self, target: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        if target.try_exists()? {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        fs::rename(&self.path, target)?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if !self.is_finished {
            // Nothing is told here: whoever asked hears why there is no export.
            drop(fs::remove_file(&self.path));
        }
    }
}

/// Tells how far it is.
pub(super) fn progress(ctx: &Ctx) -> impl Fn(u64) + Send + Sync {
    let term = ctx.term;
    move |runs| {
        if runs > 0 && runs.is_multiple_of(PROGRESS_RUNS) {
            term.note(&term.paint_error.dim(&counted(runs, "run")));
        }
    }
}

/// Tells what went through.
pub(super) fn tell(
    ctx: &Ctx,
    (verb, way): (&str, &str),
    done: Transferred,
    to_stderr: bool,
) -> Result<(), Trouble> {
    let Transferred { definitions, runs, events } = done;
    let text = if ctx.json {
        let place = offline::bare_place(&ctx.config);
        json!({"definitions": definitions, "runs": runs, "events": events, "store": place})
            .to_string()
    } else {
        let definitions = counted(definitions, "definition");
        let (runs, events) = (counted(runs, "run"), counted(events, "event"));
        let place = offline::place(&ctx.config);
        format!("{verb} {definitions}, {runs}, {events} {way} {place}")
    };
    if to_stderr {
        ctx.term.note(&text);
        return Ok(());
    }
    ctx.term.line(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_in_the_way_of_a_file_decides_what_is_said_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let there = folder.path().join("there.json");
        fs::write(&there, "").unwrap();
        for (file, part) in [
            (there.clone(), "does not exist yet"),
            (folder.path().join("no/such.json"), "folder does not exist"),
            (there.join("within.json"), "name a file in a folder"),
        ] {
            let error = Beside::create(&file).expect_err("it cannot be made");
            let told = cannot_create(&file, &error).to_json();
            let hint = told["error"]["hint"].as_str().unwrap_or_default();
            assert!(hint.contains(part), "{}: {hint}", file.display());
        }
    }
}
