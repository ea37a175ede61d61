//! `holdpoint journal`: every event of a run, as it is kept.

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::follow::{Follow, Telling};
use crate::cli::suggest;
use crate::wire::v1::GetRunRequest;

/// Show every event of a run so far
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint journal run_01k9zq…
  holdpoint journal run_01k9zq… --json | jq 'select(.type == \"request_info\")'")]
pub(super) struct Args {
    /// The run
    pub run: String,
}

/// Shows the journal.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let run = args.run.clone();
    let ended = match show(args, ctx, &mut connection.client).await {
        Err(trouble) => Err(suggest::run(trouble, &run, &mut connection.client).await),
        shown => shown,
    };
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn show(args: Args, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let request = GetRunRequest { run_id: args.run.clone(), omit_conversation: true };
    let sequence = client.get_run(request).await?.into_inner().run.map_or(0, |run| run.sequence);
    let mut follow = Follow::new(Telling::journal(ctx));
    follow.run_id = args.run;
    // The journal is what there is now: neither a pause in it nor what comes later is its end.
    follow.through_pauses = true;
    follow.until = Some(sequence);
    let stream = follow.watch(client).await?;
    follow.read(ctx, client, stream).await?;
    Ok(())
}
