//! `holdpoint chat`: a full-screen conversation with workflows. In a pipe, plain lines.
//!
//! What is asked comes up over what was said; several requests queue. Leaving loses nothing: the
//! conversation is the server's, and the same command takes it up again.

mod cancel;
mod draw;
mod drive;
mod lines;
mod model;
mod overlay;
mod pipe;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Talk with a workflow, full screen
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint chat multi_tier_support
  holdpoint chat event_planning --session party
  printf 'Tell Ada.\\napprove\\n' | holdpoint chat approve_and_send

Enter sends or answers, Esc hides a request, /help lists the commands, Ctrl-C leaves. What
/handoff-cancel does is the setting --on-cancel, or the word after it: hide, withdraw or run. Leaving loses
nothing: the same session can be taken up again, here or through any other door.")]
pub(super) struct Args {
    /// The workflow's name; `holdpoint workflows` lists them
    pub workflow: Option<String>,
    /// The session to talk in; a new one if left out
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
}

/// Talks.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.connect().await?;
    let workflow = args.workflow.unwrap_or_default();
    let session = args.session.unwrap_or_default();
    let ended = if ctx.term.is_interactive && !ctx.json {
        let drive =
            drive::Drive::new((connection.client.clone(), connection.hands()), workflow, session)
                .cancelling(ctx.config.on_cancel.unwrap_or(model::ON_CANCEL));
        Box::pin(drive.run(ctx)).await
    } else {
        Box::pin(pipe::talk(ctx, &mut connection.client, &workflow, &session)).await
    };
    connection.close().await;
    ended
}
