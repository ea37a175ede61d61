//! `holdpoint serve`: the server, until it is told to stop.

use std::net::SocketAddr;

use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use crate::app::config::masked;
use crate::app::keys::Keys;
use crate::app::probe;
use crate::app::{self, Config};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Serve gRPC and HTTP on one port, until Ctrl-C or SIGTERM
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint serve
  holdpoint serve --data /var/lib/holdpoint --listen 127.0.0.1:4653 --workflows ./flows
  holdpoint keys add laptop && holdpoint serve --listen 0.0.0.0:4653
  holdpoint serve --listen 0.0.0.0:4653 --first-key      # a container's first start

People open /console in a browser; everything else is for programs.
On any address but loopback it refuses to start without API keys (`holdpoint keys add`).
A first Ctrl-C drains: no new work, open streams are told, the journal is synced. A second one
ends at once; nothing that was acknowledged is lost either way.")]
pub(super) struct Args {
    /// Where there are no data and no keys yet, make a first key and print it, once
    ///
    /// For containers. It is an admin's and a user's, good for 24 hours, and stands in the log of whatever started
    /// the server: make keys of your own with it, and remove it. It is not made on loopback, which needs none.
    #[arg(long)]
    pub first_key: bool,
}

/// Serves.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    if args.first_key {
        first_key(ctx)?;
    }
    serve(ctx.config.clone(), ctx, |address| ready(ctx, address)).await
}

/// Makes the first key, where there is nothing yet that one could take. It goes to stderr: the first line of stdout
/// says where the server listens.
fn first_key(ctx: &Ctx) -> Result<(), Trouble> {
    let now = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default();
    let Some((key, secret)) = Keys::first(&ctx.config, app::offline::has_data(&ctx.config), now)?
    else {
        return Ok(());
    };
    if ctx.json {
        let shown = json!({"first_key": {
            "name": key.name, "roles": key.roles, "expires": key.expires, "secret": secret,
        }});
        ctx.term.note(&shown.to_string());
        return Ok(());
    }
    let ends = key.expires.as_deref().unwrap_or_default();
    ctx.term.note(&format!(
        "there are no keys and no data here yet: this is the first key, shown this once, good until {ends}:\n\n    \
         {secret}\n\nuse it at the console, whose address follows, or with HOLDPOINT_API_KEY. Make your own with `holdpoint keys add NAME`, then \
         `holdpoint keys remove {}`.\n",
        key.name
    ));
    Ok(())
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
        let public = ctx.config.public_url.as_deref().map(masked);
        let try_it = try_it(address, public.as_deref());
        ctx.term.note(&ctx.term.paint_error.dim(&try_it));
    }
}

/// Where a person looks at it, and a command that does. Every address is none that a browser opens: here it is this
/// machine's own.
fn try_it(address: SocketAddr, public: Option<&str>) -> String {
    let here = probe::here(address);
    let there = public.map_or(here.as_str(), |public| public.trim_end_matches('/'));
    let elsewhere = if address.ip().is_unspecified() && public.is_none() {
        format!(" (from elsewhere: this machine's name, port {})", address.port())
    } else {
        String::new()
    };
    format!("open {there}/console{elsewhere}, or try: holdpoint workflows --server {here}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_opened_whatever_is_listened_on() {
        let told = |listen: &str, public| try_it(listen.parse().unwrap(), public);
        assert_eq!(
            told("0.0.0.0:4653", None),
            "open http://127.0.0.1:4653/console (from elsewhere: this machine's name, port 4653), or try: \
             holdpoint workflows --server http://127.0.0.1:4653"
        );
        let public = told("0.0.0.0:4653", Some("https://hold.example/"));
        assert!(public.starts_with("open https://hold.example/console, or try:"), "{public}");
        let loopback = told("127.0.0.1:4653", None);
        assert!(loopback.starts_with("open http://127.0.0.1:4653/console, or"), "{loopback}");
    }
}
