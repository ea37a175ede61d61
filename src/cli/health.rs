//! `holdpoint health`: how a server is, as an exit code: for containers, which have nothing else to ask with.

use serde_json::json;

use crate::app::probe::{self, Probe};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::plain;

/// Ask a server whether it is well; the exit code says it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint health
  holdpoint health --ready --server http://127.0.0.1:4653

Ends with 0 if it is well, with 1 if it answers that it is not, with 7 if it does not answer within five
seconds. Without --server it asks where a server with these settings listens (--listen, HOLDPOINT_LISTEN).
It needs no key, and looks at no data.")]
pub(super) struct Args {
    /// Ask whether it takes work, too: one that drains, or has no room, is alive and takes none
    #[arg(long)]
    pub ready: bool,
}

/// Asks.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let probe = if args.ready { Probe::Readiness } else { Probe::Health };
    let told = probe::ask(&ctx.config, probe).await?;
    let text = if ctx.json {
        json!({"server": told.server, "ok": told.is_well, "detail": told.words}).to_string()
    } else {
        plain(&told.words).into_owned()
    };
    ctx.term.line(&text)?;
    Ok(if told.is_well { Exit::Done } else { Exit::Failed })
}
