//! `holdpoint delegate`: hands one's own place in a question to somebody else, until a time.

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::handles;
use crate::cli::numbers::length;
use crate::cli::people;
use crate::wire::v1::DelegateRequestRequest;

/// Hand your place in a question to somebody else, until a time
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint delegate req_01k9zq…-0001-80x5jdy6 --to dan --for 2d
  holdpoint delegate req_01k9zq…-0001-80x5jdy6 --to dan --until 2026-12-01T08:00:00Z
  holdpoint delegate req_01k9zq…-0001-80x5jdy6 --take-back

What they say counts as yours would. Until it is over, or you take it back, you do not answer it
yourself. It can go to nobody whom the question excludes or asks already, and is not handed on.")]
pub(super) struct Args {
    /// The question, by its id or its number in the last inbox
    #[arg(value_name = "REQUEST")]
    pub request: String,
    /// To whom: one person's name
    #[arg(long, value_name = "WHO", required_unless_present = "take_back")]
    pub to: Option<String>,
    /// Until when, as RFC 3339: `2026-12-01T08:00:00Z`
    #[arg(long, value_name = "TIME", value_parser = moment, conflicts_with = "length")]
    pub until: Option<jiff::Timestamp>,
    /// For how long: `2h`, `3d`
    #[arg(long = "for", value_name = "TIME", value_parser = length)]
    pub length: Option<u64>,
    /// Take it back
    #[arg(long, conflicts_with_all = ["to", "until", "length"])]
    pub take_back: bool,
    /// An idempotency key: the same command with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

fn moment(text: &str) -> Result<jiff::Timestamp, String> {
    text.parse().map_err(|_| "expected a time as RFC 3339, such as `2026-12-01T08:00:00Z`".into())
}

/// Hands over.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    if !args.take_back && args.until.is_none() && args.length.is_none_or(|ms| ms == 0) {
        let text = "expected how long: --for or --until";
        return Err(Trouble::new(Exit::Usage, text));
    }
    let name = handles::request(&ctx.config, &args.request)?;
    let mut connection = ctx.connect_to_existing().await?;
    let until = args.until.map(|at| prost_types::Timestamp {
        seconds: at.as_second(),
        nanos: at.subsec_nanosecond(),
    });
    let request = DelegateRequestRequest {
        request_id: name.clone(),
        to: args.to.unwrap_or_default(),
        until,
        for_ms: args.length.unwrap_or_default(),
        take_back: args.take_back,
        idempotency_key: args.key.unwrap_or_default(),
    };
    let answered = connection.client.delegate_request(request).await;
    connection.close().await;
    let request = answered?.into_inner().request.unwrap_or_default();
    let first = args.take_back.then(|| format!("your place in {name} is yours again"));
    people::tell(ctx, &request, first)
}
