//! `holdpoint verify`: looks at a store or at a bundle without trust in the disk, and names what does not hold.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::app::counted;
use crate::app::evidence::{self, Against, Bundled, Receipted, Verified};
use crate::cli::Ctx;
use crate::cli::decided;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::export::progress;
use crate::cli::term::plain;
use crate::kernel::Millis;
use crate::kernel::evidence::note::VerifyKey;

/// Check a store or a bundle without trust in the disk
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint verify
  holdpoint verify --data /var/lib/holdpoint --since head-of-last-month.txt
  holdpoint verify --data /var/lib/holdpoint --resume looked.txt
  holdpoint verify run.json --key audit.pub
  holdpoint verify receipt.json --key audit.pub

Every append is hashed anew and held against the chain, the log of leaves and the signed head; a
server on the same directory must be stopped first. Ends with 1 if anything does not hold, and with 4
if a bundle has something that no signed head proves yet. Of a bundle it lists who decided what, when and
by which leaf. What is proven by it, and what is not, is in docs/evidence.md.")]
pub(super) struct Args {
    /// A bundle that `holdpoint export --run` wrote, a receipt, or a data directory; the configured one if none is named
    pub path: Option<PathBuf>,
    /// The public key that heads must be signed with, or a file that has it: `audit.pub`
    #[arg(long, value_name = "KEY", allow_hyphen_values = true)]
    pub key: Option<String>,
    /// A signed head that was kept elsewhere: everything in it must still be there
    #[arg(long, value_name = "FILE")]
    pub since: Option<PathBuf>,
    /// Keeps in this file which runs hold, and does not look again at those that have not changed: a look that was
    /// cut off goes on
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
}

/// Verifies.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let against = Against { key: args.key.as_deref().map(key).transpose()?, since: None };
    let against = Against { since: args.since.as_deref().map(text).transpose()?, ..against };
    let mut config = ctx.config.clone();
    match args.path {
        Some(path) if !path.is_dir() && args.resume.is_some() => {
            let what = format!("--resume is for a store; `{}` is one file", path.display());
            return Err(Trouble::new(Exit::Usage, what));
        }
        Some(path) if !path.is_dir() => return bundle(&path, &against, ctx),
        Some(data) => config.data = data,
        None => {}
    }
    let resume = args.resume.as_deref();
    let looked = evidence::verify(&config, &against, resume, &progress(ctx)).await?;
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

/// Tells of a receipt.
fn receipt(looked: Receipted, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Receipted { place, is_proven, signer, is_own_key, finding } = looked;
    let is_ok = is_proven && signer.is_some() && finding.is_none();
    let paint = ctx.term.paint;
    let shown = if ctx.json {
        json!({
            "ok": is_ok, "receipt": place, "proven": is_proven, "signed_by": signer,
            "own_key": is_own_key, "finding": finding,
        })
        .to_string()
    } else if let Some(finding) = &finding {
        format!("{}  {}", paint.bad("wrong"), plain(finding))
    } else if let Some(signer) = &signer {
        let whence = if is_own_key {
            ", as the file itself says: have the key from elsewhere (--key)"
        } else {
            ""
        };
        let (place, signer) = (plain(&place), plain(signer));
        format!("{}  {place} is in the log that is signed by {signer}{whence}", paint.good("ok   "))
    } else {
        let place = plain(&place);
        format!(
            "{}  {place}\n       NOT PROVEN: no signed head holds it yet; fetch it again after the next one",
            paint.dim("open ")
        )
    };
    ctx.term.line(&shown)?;
    Ok(match (&finding, is_ok) {
        (Some(_), _) => Exit::Failed,
        (None, true) => Exit::Done,
        (None, false) => Exit::Waiting,
    })
}

fn bundle(file: &Path, against: &Against, ctx: &Ctx) -> Result<Exit, Trouble> {
    let text = text(file)?;
    if let Some(looked) = evidence::verify_receipt(&text, against)? {
        return receipt(looked, ctx);
    }
    let looked = evidence::verify_bundle(&text, against)?;
    let Bundled { proven, unproven, unproven_events, .. } = looked;
    // What is not proven yet is neither right nor wrong.
    let is_wrong = looked.finding.is_some();
    let is_open = !is_wrong
        && (unproven > 0 || unproven_events > 0 || proven == 0 || looked.signer.is_none());
    let is_ok = !is_wrong && !is_open;
    let shown = if ctx.json {
        let decisions: Vec<_> = looked.decided.iter().map(decided::of).collect();
        let cancelled = looked.cancelled.as_ref().map(decided::cancelled);
        json!({
            "ok": is_ok, "run": looked.run, "events": looked.events, "unchained": looked.unchained,
            "proven": proven, "unproven": unproven, "unproven_events": unproven_events,
            "over": looked.is_over, "left_out": looked.left_out, "signed_by": looked.signer,
            "own_key": looked.is_own_key, "decisions": decisions, "cancelled": cancelled, "finding": looked.finding,
        })
        .to_string()
    } else if let Some(finding) = &looked.finding {
        format!("{}  {}", ctx.term.paint.bad("wrong"), plain(finding))
    } else {
        let paint = ctx.term.paint;
        let mark = if is_ok { paint.good("ok   ") } else { paint.dim("open ") };
        format!("{mark}  {}", told(&looked).join("\n       "))
    };
    ctx.term.line(&shown)?;
    Ok(match (is_wrong, is_open) {
        (true, _) => Exit::Failed,
        (false, true) => Exit::Waiting,
        (false, false) => Exit::Done,
    })
}

/// What a bundle that holds came to, line by line: what is proven of it, and what is not.
fn told(looked: &Bundled) -> Vec<String> {
    let Bundled { run, proven, unproven, .. } = looked;
    let signer = match &looked.signer {
        Some(signer) if looked.is_own_key => format!(
            "signed by {}, as the file itself says: have the key from elsewhere (--key)",
            plain(signer)
        ),
        Some(signer) => format!("signed by {}", plain(signer)),
        None => "no head is signed, or no key is known".into(),
    };
    let (events, all) = (counted(looked.events, "event"), proven + unproven);
    let leaves = if all == 1 { "leaf" } else { "leaves" };
    let mut told = vec![format!("{run}: {events}, {proven} of {all} {leaves} proven, {signer}")];
    told.extend(not_proven(looked));
    if !looked.is_over {
        let open =
            "the run is not over in this file: what came later, if anything did, is not in it";
        told.push(open.into());
    }
    if looked.left_out > 0 {
        let hidden = u64::try_from(looked.left_out).unwrap_or(u64::MAX);
        let are = if looked.left_out == 1 {
            "is left out; its hash is"
        } else {
            "are left out; their hashes are"
        };
        let what = "secrets, and the seeds, keys and digests by which a short one could be guessed";
        told.push(format!("{} {are} there ({what})", counted(hidden, "hidden value")));
    }
    if looked.unchained > 0 && not_proven(looked).is_none() {
        let earlier =
            "the events of an earlier build are proven as they were when they were taken over";
        told.push(earlier.into());
    }
    if !looked.decided.is_empty() {
        told.push(format!("{}:", decided::counts(&looked.decided)));
        told.extend(looked.decided.iter().map(|one| format!("  {}", decided::in_words(one))));
    }
    told.extend(looked.cancelled.as_ref().map(decided::cancelled_in_words));
    told
}

/// What of a bundle no signed head says anything of, in words.
fn not_proven(looked: &Bundled) -> Option<String> {
    let all = counted(looked.events, "event");
    let after = counted(looked.unproven_events, "event");
    let what = match (looked.proven, looked.unproven, looked.unproven_events) {
        (0, 0, _) => format!(
            "all {all}: none of them has a leaf, since nothing in them is a decision or an end; export again after one"
        ),
        (0, _, _) => format!(
            "all {all}: no signed head holds a leaf of them yet; export again after the next one"
        ),
        (_, leaves @ 1.., _) => {
            let leaves = if leaves == 1 { "1 leaf".into() } else { format!("{leaves} leaves") };
            format!(
                "{leaves}, and {after} at the end: no signed head holds them yet; export again after the next one"
            )
        }
        (_, 0, 1..) => {
            format!("{after} after the last leaf that is proven; anybody can have put them there")
        }
        (_, 0, 0) if looked.signer.is_none() => "none of it: no signature was looked at".into(),
        (_, 0, 0) => return None,
    };
    Some(format!("NOT PROVEN: {what}"))
}

fn store(looked: &Verified, ctx: &Ctx) -> Result<Exit, Trouble> {
    let is_ok = looked.findings.is_empty();
    let findings: Vec<_> = looked.findings.iter().map(ToString::to_string).collect();
    if ctx.json {
        let findings = looked.findings.iter();
        let findings =
            findings.map(|one| json!({"place": one.place, "what": one.what, "byte": one.byte}));
        let findings: Vec<Value> = findings.collect();
        let since = looked.since.as_ref();
        let since =
            since.map(|it| json!({"origin": it.origin, "leaves": it.leaves, "file": it.file}));
        let told = json!({
            "ok": is_ok, "runs": looked.runs, "skipped": looked.skipped, "events": looked.events, "unchained": looked.unchained,
            "leaves": looked.leaves, "waiting": looked.waiting, "forgotten": looked.forgotten,
            "signed": looked.signed, "key": looked.signer.as_ref().map(VerifyKey::text),
            "brought": looked.brought.as_ref().map(VerifyKey::text),
            "since": since, "imported": looked.imported.map(Millis::date), "findings": findings,
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
