//! `holdpoint release`: lets a store go on that was put back from a backup, or imported.

use serde_json::json as literal;

use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::line;
use crate::cli::{Ctx, json};
use crate::wire::v1::{KeptHead, ListHaltsRequest, ReleaseStoreRequest, ReleaseStoreResponse};

/// Let a restored or imported store go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint inbox && holdpoint runs && holdpoint release
  holdpoint verify; holdpoint release --forget-head     # what was signed since the backup is given up

Look first: `holdpoint cancel` is taken before it, nothing else is. A server that runs goes on at once.

Where the log lacks what a head that is kept beside the key holds, nothing is signed: that head is the proof that the
store was put back. It stays until somebody says `--forget-head`, and who did stands in `holdpoint audit --store`.")]
pub(super) struct Args {
    /// A halt, which this is not for: whoever names one is told what is
    #[arg(value_name = "HALT", hide = true)]
    pub halt: Option<String>,
    /// Give up the heads beside the key that the log does not hold, and have it signed from whatever it holds
    #[arg(long)]
    pub forget_head: bool,
}

/// Releases.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    if let Some(halt) = &args.halt {
        let why = "this lets a store go on that was put back or imported, and takes no name";
        let halt = line(halt, 80);
        return Err(Trouble::new(Exit::Usage, why)
            .hint(format!("a halt is taken back with `holdpoint halt --release {halt}`")));
    }
    let mut connection = ctx.connect_to_existing().await?;
    let request = ReleaseStoreRequest { forget_head: args.forget_head };
    let answered = connection.client.release_store(request).await;
    let is_halted = matches!(
        connection.client.list_halts(ListHaltsRequest {}).await,
        Ok(listed) if !listed.get_ref().halts.is_empty()
    );
    let place = line(&connection.place, 400);
    connection.close().await;
    let done = answered?.into_inner();
    if ctx.json {
        let told = literal!({
            "was_held": done.was_held,
            "store": place,
            "heads": json::all(&done.heads),
            "heads_forgotten": done.heads_forgotten,
        });
        ctx.term.line(&told.to_string())?;
        return Ok(Exit::Done);
    }
    ctx.term.line(if done.was_held {
        "released: what waits goes on"
    } else {
        "the store was not held"
    })?;
    ctx.term.note(&ctx.term.paint_error.dim(&format!("at {place}")));
    tell_heads(ctx, &args, &done)?;
    if is_halted {
        ctx.term.note("halts stand; `holdpoint halt` lists them, and `holdpoint halt --release HALT` ends one");
    }
    Ok(Exit::Done)
}

/// What became of the heads beside the key that the log does not hold.
fn tell_heads(ctx: &Ctx, args: &Args, done: &ReleaseStoreResponse) -> Result<(), Trouble> {
    for head in &done.heads {
        let what = if done.heads_forgotten { "forgotten" } else { "not forgotten" };
        ctx.term.line(&format!("{what}: {}", words(head)))?;
    }
    if done.heads_forgotten {
        ctx.term
            .note("the log is signed from what it holds; that stands in `holdpoint audit --store`");
    } else if !done.heads.is_empty() {
        ctx.term.note(
            "the log does not hold that head, and is not signed: it was put back, cut off or written over, or is another \
             one (`holdpoint verify`). Put back what was; or, where this is meant, `holdpoint release --forget-head`",
        );
    } else if args.forget_head {
        ctx.term.note("there was no head to forget: none beside the key is missing from the log");
    }
    Ok(())
}

fn words(KeptHead { origin, leaves, root }: &KeptHead) -> String {
    format!("the head of {leaves} leaves of {origin}, root {root}")
}
