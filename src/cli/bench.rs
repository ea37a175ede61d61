//! `holdpoint bench`: what this machine does, beside what it could do.

use crate::app::offline::{self, BenchOptions};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Measure pause and resume, long conversations and many waiting, over real gRPC on a real disk
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint bench
  holdpoint bench w1 --clients 64 --seconds 30 --passes 3
  holdpoint bench w3 --sessions 10000,100000 --json

Takes a scratch directory beside --data, and prints the raw figures of the machine (fsync rate,
bare gRPC streams) in the same run: what counts is the ratio.")]
pub(super) struct Args {
    #[command(flatten)]
    pub options: BenchOptions,
}

/// Measures.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let (term, json) = (ctx.term, ctx.json);
    let say = move |text: &str| {
        if json {
            term.note(text);
        } else {
            drop(term.line(text));
        }
    };
    let report = offline::bench(&ctx.config, &args.options, &say).await?;
    if json {
        ctx.term.line(&report.to_string())?;
    }
    Ok(Exit::Done)
}
