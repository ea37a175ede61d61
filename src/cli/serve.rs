//! `holdpoint serve`: the server, until it is told to stop.

use std::net::SocketAddr;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::{self, Config};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Serve gRPC and HTTP on one port, until Ctrl-C or SIGTERM
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint serve
  holdpoint serve --data /var/lib/holdpoint --listen 127.0.0.1:4653 --workflows ./flows
  holdpoint keys add laptop && holdpoint serve --listen 0.0.0.0:4653

People open /console in a browser; everything else is for programs.
On any address but loopback it refuses to start without API keys (`holdpoint keys add`).
A first Ctrl-C drains: no new work, open streams are told, the journal is synced. A second one
ends at once; nothing that was acknowledged is lost either way.")]
pub(super) struct Args {}

/// Serves.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Args {} = args;
    serve(ctx.config.clone(), ctx, |address| ready(ctx, address)).await
}

/// Serves with this configuration; `on_ready` is told where.
pub(super) async fn serve(
    config: Config,
    ctx: &Ctx,
    on_ready: impl FnOnce(SocketAddr) + Send,
) -> Result<Exit, Trouble> {
    app::telemetry::begin(&config)?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let stop = CancellationToken::new();
    let drained = stop.clone().cancelled_owned();
    let serving = app::serve(config, on_ready, drained);
    let mut serving = Box::pin(serving);
    tokio::select! {
        ended = &mut serving => return ended.map(|()| Exit::Done).map_err(Trouble::from),
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    ctx.term.note("stopping: what is under way is finished first; again to stop at once");
    stop.cancel();
    tokio::select! {
        ended = &mut serving => ended.map(|()| Exit::Done).map_err(Trouble::from),
        _ = terminate.recv() => Ok(Exit::Interrupted),
        _ = interrupt.recv() => Ok(Exit::Interrupted),
    }
}

/// A supervisor reads the first line of stdout, and a person the second; neither may stop us.
pub(super) fn ready(ctx: &Ctx, address: SocketAddr) {
    let text = if ctx.json {
        json!({"listening": address.to_string(), "pid": std::process::id()}).to_string()
    } else {
        format!("holdpoint is listening on http://{address}")
    };
    drop(ctx.term.line(&text));
    if !ctx.json {
        let try_it = format!(
            "open http://{address}/console, or try: holdpoint workflows --server http://{address}"
        );
        ctx.term.note(&ctx.term.paint_error.dim(&try_it));
    }
}
