//! `holdpoint restored`: says that a data directory was put back from a backup. It changes nothing of any
//! run itself: whoever opens the directory next does.

use serde_json::json;

use crate::app::{counted, offline};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Say that a data directory was put back from a backup
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint restored --data ./holdpoint-data && holdpoint serve
  holdpoint inbox && holdpoint runs && holdpoint release   # once the server has opened it

What was said and done after the backup is not in it. So every open decision is asked anew, deeds that
were released and not finished are asked about, and nothing is done until `holdpoint release`. The
server must be stopped. `holdpoint import` does the same by itself.")]
pub(super) struct Args {}

/// Says so.
pub(super) async fn perform(_args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let open = offline::restored(&ctx.config).await?;
    let text = if ctx.json {
        let place = offline::bare_place(&ctx.config);
        json!({"restored": true, "open_runs": open, "store": place}).to_string()
    } else {
        let place = offline::place(&ctx.config);
        let runs = counted(open, "run");
        format!(
            "{runs} not over in {place}: what they ask is asked anew at the next start, and nothing is done until \
             `holdpoint release`"
        )
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}
