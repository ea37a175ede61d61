//! `holdpoint claim`: says that one is looking at a question, so that others need not.

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::handles;
use crate::cli::numbers::length;
use crate::cli::people;
use crate::wire::v1::ClaimRequestRequest;

/// Say that you are looking at a question, for a while
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint claim req_01k9zq…-0001-80x5jdy6
  holdpoint claim req_01k9zq…-0001-80x5jdy6 --for 1h
  holdpoint claim req_01k9zq…-0001-80x5jdy6 --release

A claim is advice: others see it, and can answer all the same. It ends by itself.")]
pub(super) struct Args {
    /// The question, by its id or its number in the last inbox
    #[arg(value_name = "REQUEST")]
    pub request: String,
    /// For how long, up to a day: `10m`, `2h`; ten minutes unless given
    #[arg(long = "for", value_name = "TIME", value_parser = length, conflicts_with = "release")]
    pub length: Option<u64>,
    /// Let it go
    #[arg(long)]
    pub release: bool,
    /// An idempotency key: the same command with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Claims.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    if args.length == Some(0) {
        return Err(Trouble::new(Exit::Usage, "--for: expected more than nothing"));
    }
    let name = handles::request(&ctx.config, &args.request)?;
    let mut connection = ctx.connect_to_existing().await?;
    let request = ClaimRequestRequest {
        request_id: name.clone(),
        for_ms: args.length.unwrap_or_default(),
        release: args.release,
        idempotency_key: args.key.unwrap_or_default(),
    };
    let answered = connection.client.claim_request(request).await;
    connection.close().await;
    let request = answered?.into_inner().request.unwrap_or_default();
    let first = args.release.then(|| format!("you no longer claim {name}"));
    people::tell(ctx, &request, first)
}
