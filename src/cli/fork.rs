//! `holdpoint fork`: a new run from a point of another.

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::talk::{Interaction, Talk};
use crate::wire::v1::ForkRunRequest;

/// Start a new run from a checkpoint of another, or where it failed
///
/// Completed steps are not performed again.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint fork run_01k9zq…                                   # from its latest checkpoint, or where it failed
  holdpoint fork run_01k9zq… --checkpoint chk_01k9zq…-000006   # to answer that question otherwise

A run that failed is taken up where it failed: that step is tried again, with one more attempt, and
nothing that was finished is done again. If it had called a tool that is not `pure`, you are asked
first whether that happened.")]
pub(super) struct Args {
    /// The run to fork
    pub run: String,
    /// The checkpoint to start from; where it failed, or the latest, if left out
    #[arg(long, value_name = "ID")]
    pub checkpoint: Option<String>,
    /// The session of the new run; that of the old one if left out
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// An idempotency key: the same command with the same key again shows the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    #[command(flatten)]
    pub interaction: Interaction,
}

/// Forks.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.connect_to_existing().await?;
    let request = ForkRunRequest {
        run_id: args.run,
        checkpoint_id: args.checkpoint.unwrap_or_default(),
        session_id: args.session.unwrap_or_default(),
        idempotency_key: args.key.clone().unwrap_or_default(),
    };
    let talk = async {
        let begun = connection.client.fork_run(request).await;
        let unheard = |status| Trouble::from(status).may_have_begun(args.key.is_some());
        let stream = begun.map_err(unheard)?.into_inner();
        Talk::new(ctx, &mut connection.client, args.interaction).follow(stream).await
    };
    let ended = talk.await;
    connection.close().await;
    ended
}
