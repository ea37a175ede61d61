//! `holdpoint bench`: what this machine does, beside what it could do.

use tokio::signal::unix::{SignalKind, signal};

use crate::app::config::Origin;
use crate::bench::{self, Options};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::table;

/// Measure what pausing, resuming and full inboxes cost
///
/// Measure pause and resume, long conversations, many waiting, full inboxes, slow models and many
/// questions at once, over real gRPC on a real disk
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint bench
  holdpoint bench w1 --clients 64 --seconds 30 --passes 3
  holdpoint bench w3 w4 --sessions 10000,100000 --json
  holdpoint bench w5 --runs 1000
  holdpoint bench w6 --branches 125,1000
  holdpoint bench w1 w2 w3 --store postgres://me@localhost/postgres --replicas 3

Starts servers of its own in a scratch directory beside --data, and prints the raw figures of the
machine (fsync rate, bare gRPC streams) in the same run: what counts is the ratio. With --store, w1 to w3 are
measured over databases that it makes in that PostgreSQL, and takes away again.")]
pub(super) struct Args {
    #[command(flatten)]
    pub options: Options,
}

/// Measures. Whoever ends it early ends its servers, and its directory goes with it.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut terminate = signal(SignalKind::terminate())?;
    let place = args.options.scratch.clone();
    let place = place.unwrap_or_else(|| bench::place_beside(&ctx.config.data));
    // A database that is meant for servers is not one to try things in: it must be said here.
    let is_said = ctx.config.origin("store") == Origin::Flag;
    let store = ctx.config.store.as_deref().filter(|_| is_said);
    if let Some(trouble) = args.options.misplaced(store.is_some()) {
        return Err(Trouble::new(Exit::Usage, trouble));
    }
    let term = ctx.term;
    let progress = move |text: &str| term.note(&term.paint_error.dim(text));
    let report = tokio::select! {
        report = bench::run(&args.options, &place, store, &progress) => report?,
        _ = terminate.recv() => return Ok(Exit::Interrupted),
    };
    if ctx.json {
        ctx.term.line(&report.to_json().to_string())?;
        return Ok(Exit::Done);
    }
    for section in report.sections() {
        ctx.term.line(&format!("\n{}", ctx.term.paint.bold(&section.title)))?;
        ctx.term.write(&table(ctx.term.paint, &section.rows))?;
    }
    Ok(Exit::Done)
}
