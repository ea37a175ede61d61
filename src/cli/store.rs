//! `holdpoint store migrate`: makes the tables of a store in a database. It makes nothing else, and changes no run.

use serde_json::json;

use crate::app;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};

/// Make the tables of a store on PostgreSQL
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  HOLDPOINT_STORE=postgres://holdpoint:PASSWORD@db.internal/holdpoint holdpoint store migrate
  holdpoint store migrate --store postgres://holdpoint@localhost/holdpoint

`holdpoint serve --store URL` refuses a database that has no such tables, or those of another build: a server
that makes an empty store by itself would hide that it was led to the wrong database. Run this once, and after
an upgrade that asks for it. It may be run again at any time: what is there stays as it is.")]
pub(super) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

/// What can be done to a store as a whole.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Command {
    /// Make the tables where there are none
    Migrate,
}

/// Makes the tables.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let Command::Migrate = args.command;
    let (place, is_made) = app::store::migrate(&ctx.config).await?;
    let text = if ctx.json {
        json!({"store": place, "made": is_made}).to_string()
    } else if is_made {
        format!("made a store in the database at {place}")
    } else {
        format!("the store in the database at {place} is as it should be")
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}
