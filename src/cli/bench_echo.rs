//! `holdpoint bench-echo`: the bare gRPC server that `holdpoint bench` measures beside ours.

use serde_json::json;

use crate::bench;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Serve constant events over bare gRPC: a yardstick that `holdpoint bench` starts for itself
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint bench-echo --json")]
pub(super) struct Args {}

/// Serves until it is killed.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Args {} = args;
    let ready = |address: std::net::SocketAddr| {
        let text = if ctx.json {
            json!({"listening": address.to_string(), "pid": std::process::id()}).to_string()
        } else {
            format!("listening on {address}")
        };
        drop(ctx.term.line(&text));
    };
    bench::serve_echo(ready).await?;
    Ok(Exit::Done)
}
