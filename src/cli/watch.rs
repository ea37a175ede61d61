//! `holdpoint watch`: looks on while a run goes its way.

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::follow::{Ending, Follow, Telling};
use crate::cli::numbers::sequence;
use crate::cli::render::Audience;
use crate::cli::suggest;
use crate::wire::v1::{GetRunRequest, RunStatus, WorkflowWaiting};

/// Follow a run's events, from the beginning or from any point
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint watch run_01k9zq…
  holdpoint watch run_01k9zq… --follow           # through pauses, until it is over; where a server works
  holdpoint watch run_01k9zq… --after 12 --json  # only what came after event 12

Ends like the run: 0 completed, 3 failed, 4 waits.")]
pub(super) struct Args {
    /// The run
    pub run: String,
    /// Only events after this sequence number
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = sequence, allow_negative_numbers = true)]
    pub after: u64,
    /// Stay while the run waits, until it is over
    #[arg(long, short)]
    pub follow: bool,
}

/// Watches.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let mut follow = Follow::new(Telling::story(ctx, Audience::Onlooker));
    follow.run_id = args.run;
    follow.sequence = args.after;
    // Whoever looks has the directory to themselves: where no server works nothing would ever follow, and nobody
    // else could answer meanwhile.
    follow.through_pauses = args.follow && !connection.embedded;
    // A halt is a pause as well, and where nobody sits nobody leaves.
    follow.leaves_at_halts = !args.follow && !ctx.term.is_interactive;
    let watched = async {
        let stream = follow.watch(&mut connection.client).await?;
        follow.read(ctx, &mut connection.client, stream).await
    };
    let ended = match watched.await {
        Err(trouble) => {
            let run = follow.run_id.clone();
            Err(suggest::run(trouble, &run, &mut connection.client).await)
        }
        Ok(Ending::Moving) if follow.sequence == args.after && args.after > 0 => {
            standing(&follow, &mut connection.client).await
        }
        ended => ended,
    };
    let is_embedded = connection.embedded;
    connection.close().await;
    let ended = ended?;
    if is_embedded && ended == Ending::Moving {
        let (run, again) = (&follow.run_id, ctx.again());
        ctx.term.note(&format!(
            "nobody drives this run now; `holdpoint resume {run}{again}` does, or `holdpoint serve`"
        ));
    }
    if is_embedded && args.follow && matches!(ended, Ending::Waiting(_)) {
        let again = ctx.again();
        ctx.term.note(&format!(
            "that is all: no server works here, so nothing follows; `holdpoint serve` does, or answer it: \
             holdpoint inbox{again}"
        ));
    }
    Ok(ended.exit())
}

/// How a run stands of which nothing came: whoever had read all of it is told nothing new, and not that it is over.
async fn standing(follow: &Follow, client: &mut Client) -> Result<Ending, Trouble> {
    let request = GetRunRequest { run_id: follow.run_id.clone(), omit_conversation: true };
    let run = client.get_run(request).await?.into_inner().run.unwrap_or_default();
    if follow.sequence > run.sequence {
        let (after, last) = (follow.sequence, run.sequence);
        let text = format!(
            "--after: event {after} has not happened; the last one of `{}` is {last}",
            run.run_id
        );
        return Err(Trouble::new(Exit::Usage, text));
    }
    Ok(match run.status() {
        RunStatus::Waiting => Ending::Waiting(WorkflowWaiting::default()),
        RunStatus::Completed => Ending::Completed,
        RunStatus::Failed | RunStatus::Cancelled => Ending::Failed,
        RunStatus::Unspecified | RunStatus::Running => Ending::Moving,
    })
}
