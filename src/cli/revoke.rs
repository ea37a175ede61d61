//! `holdpoint revoke`: takes back that a tool was allowed for the rest of a run.

use serde_json::json as literal;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::term::line;
use crate::wire::v1::RevokeGrantRequest;

/// Take back that a tool was allowed for the rest of a run
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint revoke run_01k9zq… write_file

`holdpoint runs RUN` lists what is allowed. From now on the tool's gates ask again.")]
pub(super) struct Args {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The tool
    #[arg(value_name = "TOOL")]
    pub tool: String,
    /// An idempotency key: the same command with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Revokes.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.connect_to_existing().await?;
    let request = RevokeGrantRequest {
        run_id: args.run.clone(),
        tool: args.tool.clone(),
        idempotency_key: args.key.unwrap_or_default(),
    };
    let answered = connection.client.revoke_grant(request).await;
    connection.close().await;
    let run = answered?.into_inner().run.unwrap_or_default();
    if ctx.json {
        ctx.term.line(&literal!({"run": json::of(&run)}).to_string())?;
    } else {
        let text = format!("{} is no longer allowed for {}", args.tool, args.run);
        ctx.term.line(&line(&text, 200))?;
    }
    Ok(Exit::Done)
}
