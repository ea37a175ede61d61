//! `holdpoint verify`: looks at a store or at a bundle without trust in the disk, and names what does not hold.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::counted;
use crate::app::evidence::{self, Against, Bundled, Verified};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::export::progress;
use crate::cli::term::plain;
use crate::kernel::evidence::note::VerifyKey;

/// Check a data directory, or a bundle, without trust in the disk; name what does not hold
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint verify
  holdpoint verify --data /var/lib/holdpoint --since head-of-last-month.txt
  holdpoint verify run.json --key audit.pub

Every append is hashed anew and held against the chain, the log of leaves and the signed head; a
server on the same directory must be stopped first. Ends with 1 if anything does not hold. What is
proven by it, and what is not, is in docs/evidence.md.")]
pub(super) struct Args {
    /// A bundle that `holdpoint export --run` wrote, or a data directory; the configured one if none is named
    pub path: Option<PathBuf>,
    /// The public key that heads must be signed with, or a file that has it: `audit.pub`
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// A signed head that was kept elsewhere: everything in it must still be there
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
}

/// Verifies.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let against = Against { key: args.key.as_deref().map(key).transpose()?, since: None };
    let against = Against { since: args.since.as_deref().map(text).transpose()?, ..against };
    let mut config = ctx.config.clone();
    match args.path {
        Some(path) if !path.is_dir() => return bundle(&path, &against, ctx),
        Some(data) => config.data = data,
        None => {}
    }
    let looked = evidence::verify(&config, &against, &progress(ctx)).await?;
    store(&looked, ctx)
}

fn text(path: &Path) -> Result<String, Trouble> {
    fs::read_to_string(path).map_err(|error| {
        Trouble::new(Exit::Failed, format!("cannot read `{}`: {error}", path.display()))
    })
}

/// A key, as it is or from a file.
fn key(given: &str) -> Result<String, Trouble> {
    if Path::new(given).is_file() { text(Path::new(given)) } else { Ok(given.to_owned()) }
}

fn bundle(file: &Path, against: &Against, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Bundled { run, events, unchained, proven, unproven, signer, finding } =
        evidence::verify_bundle(&text(file)?, against)?;
    let is_ok = finding.is_none();
    let shown = if ctx.json {
        json!({
            "ok": is_ok, "run": run, "events": events, "unchained": unchained, "proven": proven,
            "unproven": unproven, "signed_by": signer, "finding": finding,
        })
        .to_string()
    } else if let Some(finding) = finding {
        format!("{}  {}", ctx.term.paint.bad("wrong"), plain(&finding))
    } else {
        let signer = match signer {
            Some(signer) => format!("signed by {}", plain(&signer)),
            None => "no key was given: no signature was looked at".into(),
        };
        let events = counted(events, "event");
        let (mark, all) = (ctx.term.paint.good("ok   "), proven + unproven);
        let mut told =
            format!("{mark}  {run}: {events}, {proven} of {all} leaves proven, {signer}");
        if unproven > 0 {
            told.push_str(
                "\n       the others came after the signed head: export again after the next one",
            );
        }
        if unchained > 0 {
            told.push_str("\n       the events of an earlier build are proven as they were when they were taken over");
        }
        told
    };
    ctx.term.line(&shown)?;
    Ok(if is_ok { Exit::Done } else { Exit::Failed })
}

fn store(looked: &Verified, ctx: &Ctx) -> Result<Exit, Trouble> {
    let is_ok = looked.findings.is_empty();
    let findings: Vec<_> = looked.findings.iter().map(ToString::to_string).collect();
    if ctx.json {
        let findings = looked.findings.iter();
        let findings: Vec<Value> =
            findings.map(|one| json!({"place": one.place, "what": one.what})).collect();
        let told = json!({
            "ok": is_ok, "runs": looked.runs, "events": looked.events, "unchained": looked.unchained,
            "leaves": looked.leaves, "waiting": looked.waiting, "forgotten": looked.forgotten,
            "signed": looked.signed, "key": looked.signer.as_ref().map(VerifyKey::text),
            "findings": findings,
        });
        ctx.term.line(&told.to_string())?;
    } else {
        let paint = ctx.term.paint;
        for finding in &findings {
            ctx.term.line(&format!("{}  {}", paint.bad("wrong"), plain(finding)))?;
        }
        let mark = if is_ok { paint.good("ok   ") } else { paint.bad("wrong") };
        ctx.term.line(&format!("{mark}  {}", looked.words().replace('\n', "\n       ")))?;
    }
    Ok(if is_ok { Exit::Done } else { Exit::Failed })
}
