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
  holdpoint health --data /var/lib/holdpoint
  holdpoint health --ready --server http://127.0.0.1:4653

Ends with 0 if it is well, with 1 if it answers that it is not, with 7 if it does not answer within five
seconds. Without --server it asks the server that has the data directory; where none has said there that it serves, or
with --listen, where one with these settings would listen (HOLDPOINT_LISTEN). With --data on the command line it is the
one that serves from there, or none. It needs no key, and looks at no data.")]
pub(super) struct Args {
    /// Ask whether it takes work, too: one that drains, or has no room, is alive and takes none
    #[arg(long)]
    pub ready: bool,
}

/// Asks.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let probe = if args.ready { Probe::Readiness } else { Probe::Health };
    let told = match probe::ask(&ctx.config, probe).await {
        Ok(told) => told,
        // Unlike every other command this one asks a server and nobody else.
        Err(error) if error.is_unreachable() => {
            let hint = if ctx.config.server.is_some() {
                "is it started there, and is that the address that it listens on? --server names another"
            } else {
                "start one with `holdpoint serve`, or name one with --server: without that it is the one that has the data \
                 directory (--data), else the address of --listen, HOLDPOINT_LISTEN or the settings file"
            };
            return Err(Trouble::from(error).hint(hint));
        }
        Err(error) => return Err(error.into()),
    };
    let text = if ctx.json {
        json!({"server": told.server, "ok": told.is_well, "detail": told.words}).to_string()
    } else {
        plain(&told.words).into_owned()
    };
    ctx.term.line(&text)?;
    if !told.is_well && !ctx.json {
        let (words, again) =
            if args.ready { ("takes no work now", "") } else { ("is not well", " --ready") };
        ctx.term.note(&format!(
            "{} {words}; its log says why, and `holdpoint health{again}` asks again",
            plain(&told.server)
        ));
    }
    Ok(if told.is_well { Exit::Done } else { Exit::Failed })
}
