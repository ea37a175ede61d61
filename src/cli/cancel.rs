//! `holdpoint cancel`: stops a run, or takes a question back.

use serde_json::json as literal;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::term::line;
use crate::wire::v1::{CancelRequestRequest, CancelRunRequest};

/// Stop a run, or take a question back
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint cancel run_01k9zq… --reason \"the party is off\"
  holdpoint cancel req_01k9zq…-1

What a cancelled run asked can no longer be answered. The run stays, and can be looked at.")]
pub(super) struct Args {
    /// A run or a question
    #[arg(value_name = "RUN|REQUEST")]
    pub id: String,
    /// Why; kept with the run
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// An idempotency key: the same command with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Cancels.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let is_request = args.id.starts_with("req_");
    if is_request && args.reason.is_some() {
        return Err(Trouble::new(Exit::Usage, "--reason goes with a run, not with a question"));
    }
    let mut connection = ctx.connect_to_existing().await?;
    let idempotency_key = args.key.unwrap_or_default();
    let answered = if is_request {
        let request = CancelRequestRequest { request_id: args.id.clone(), idempotency_key };
        connection.client.cancel_request(request).await.map(|it| it.into_inner().run)
    } else {
        let reason = args.reason.unwrap_or_default();
        let request = CancelRunRequest { run_id: args.id.clone(), reason, idempotency_key };
        connection.client.cancel_run(request).await.map(|it| it.into_inner().run)
    };
    connection.close().await;
    let run = answered?.unwrap_or_default();
    if ctx.json {
        ctx.term.line(&literal!({"run": json::of(&run)}).to_string())?;
    } else {
        let text = format!("{} is cancelled; its run is {}", args.id, json::status(run.status));
        ctx.term.line(&line(&text, 200))?;
    }
    Ok(Exit::Done)
}
