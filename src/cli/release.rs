//! `holdpoint release`: lets a store go on that was put back from a backup, or imported.

use serde_json::json;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::wire::v1::{ListHaltsRequest, ReleaseStoreRequest};

/// Let a restored or imported store go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint inbox && holdpoint runs && holdpoint release

Look first: `holdpoint cancel` is taken before it, nothing else is. A server that runs goes on at once.")]
pub(super) struct Args {}

/// Releases.
pub(super) async fn perform(_args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.connect().await?;
    let answered = connection.client.release_store(ReleaseStoreRequest {}).await;
    let is_halted = matches!(
        connection.client.list_halts(ListHaltsRequest {}).await,
        Ok(listed) if !listed.get_ref().halts.is_empty()
    );
    connection.close().await;
    let was_held = answered?.into_inner().was_held;
    let text = match (ctx.json, was_held) {
        (true, _) => json!({"was_held": was_held}).to_string(),
        (false, true) => "released: what waits goes on".into(),
        (false, false) => "the store was not held".into(),
    };
    ctx.term.line(&text)?;
    if is_halted && !ctx.json {
        ctx.term.note("halts stand; `holdpoint halt` lists them, and `holdpoint halt --release HALT` ends one");
    }
    Ok(Exit::Done)
}
