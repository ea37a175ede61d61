//! `holdpoint doctor`: looks at everything, and says what is wrong and what to do.

use serde_json::json;

use crate::app::doctor;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::{line, plain};

/// Look at settings, workflows, keys and store; say what is wrong
///
/// What is wrong is said with what to do about it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint doctor
  holdpoint doctor --data /var/lib/holdpoint --json

Every record is read and checked; nothing is changed. Ends with 1 if anything is wrong.")]
pub(super) struct Args {}

/// Looks.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Args {} = args;
    let findings = doctor::look(&ctx.config).await?;
    let is_ok = findings.iter().all(|finding| finding.is_ok);
    if ctx.json {
        let all = findings.iter().map(|finding| {
            json!({"subject": finding.subject, "ok": finding.is_ok, "detail": finding.detail})
        });
        ctx.term.line(&json!({"ok": is_ok, "findings": all.collect::<Vec<_>>()}).to_string())?;
    } else {
        let paint = ctx.term.paint;
        for finding in &findings {
            let mark = if finding.is_ok { paint.good("ok   ") } else { paint.bad("wrong") };
            let detail = plain(&finding.detail).replace('\n', "\n       ");
            ctx.term.line(&format!("{mark}  {}: {detail}", line(&finding.subject, 64)))?;
        }
    }
    Ok(if is_ok { Exit::Done } else { Exit::Failed })
}
