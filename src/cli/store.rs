//! `holdpoint store`: what is done to a store as a whole: its tables are made in a database, and a store in a directory is
//! moved there. It changes no run.

use serde_json::json;

use crate::app::moving::{self, Stage};
use crate::app::store::Tables;
use crate::app::{self, AppError, counted};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::export::PROGRESS_RUNS;

/// Make the tables of a store on PostgreSQL, and move a store there
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  HOLDPOINT_STORE=postgres://holdpoint:PASSWORD@db.internal/holdpoint holdpoint store migrate
  holdpoint store migrate --store postgres://holdpoint@localhost/holdpoint
  HOLDPOINT_MOVE_TO=postgres://holdpoint:PASSWORD@db.internal/holdpoint holdpoint store move

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
    #[command(after_help = "Examples:
  HOLDPOINT_STORE=postgres://holdpoint:PASSWORD@db.internal/holdpoint holdpoint store migrate
  holdpoint store migrate --store postgres://holdpoint@localhost/holdpoint")]
    Migrate,
    /// Move the store in the data directory into a database, while it is served or not
    #[command(after_help = "Examples:
  HOLDPOINT_MOVE_TO=postgres://holdpoint:PASSWORD@db.internal/holdpoint holdpoint store move --data /var/lib/holdpoint
  holdpoint store move --to postgres://holdpoint@localhost/holdpoint

Run it where the data directory is, as its owner. A server on it goes on serving while its store is copied; then it
takes nothing on for a moment, and goes on over the database. Every id stays: what waits for people is answered as
before. The directory says from then on where its store is, and is served by nobody. Until the moment of the switch
it is in charge, whatever happens; after it the database is. Cut off in between, the same command again goes on, or
begins anew. Start servers with --store or HOLDPOINT_STORE afterwards.")]
    Move {
        /// The address of the database, which is empty, or left by a move that was cut off (`HOLDPOINT_MOVE_TO`)
        #[arg(long, value_name = "URL")]
        to: Option<String>,
    },
}

/// Does it.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    match args.command {
        Command::Migrate => migrate(ctx).await,
        Command::Move { to } => carry(to, ctx).await,
    }
}

/// Moves the store.
async fn carry(to: Option<String>, ctx: &Ctx) -> Result<Exit, Trouble> {
    // What has a password in it is better not in a list of processes.
    let name = if to.is_some() { "to" } else { "HOLDPOINT_MOVE_TO" };
    let Some(to) = to.or_else(|| std::env::var("HOLDPOINT_MOVE_TO").ok()) else {
        let hint = "name it with --to or HOLDPOINT_MOVE_TO: postgres://USER:PASSWORD@HOST/DATABASE";
        return Err(Trouble::new(Exit::Usage, "to: no database is named").hint(hint));
    };
    let term = ctx.term;
    let progress = |stage: &Stage| match stage {
        Stage::Copying { runs } if runs.is_multiple_of(PROGRESS_RUNS) && *runs > 0 => {
            term.note(&term.paint_error.dim(&counted(*runs, "run")));
        }
        Stage::Switching => term.note(&term.paint_error.dim("switching")),
        Stage::Asked | Stage::Copying { .. } | Stage::Done { .. } | Stage::Failed { .. } => {}
    };
    let done = moving::carry(&ctx.config, &to, &progress).await;
    let done = done.map_err(|error| named(name, error))?;
    let Stage::Done { place, runs, events, gap_ms, stranded } = &done else {
        return Ok(Exit::Failed);
    };
    let text = if ctx.json {
        let waits = json!({"count": stranded.count, "requests": stranded.requests});
        let told = json!({
            "store": place, "runs": runs, "events": events, "gap_ms": gap_ms, "waits_for_local": waits,
        });
        told.to_string()
    } else {
        let gap = gap_ms.map(|ms| format!("; callers waited for {ms} ms")).unwrap_or_default();
        // One that was there before is not counted again.
        let brought = match (runs, events) {
            (0, 0) => String::new(),
            (runs, events) => format!(": {}, {}", counted(*runs, "run"), counted(*events, "event")),
        };
        format!("the store is in the database at {place}{brought}{gap}")
    };
    ctx.term.line(&text)?;
    if !ctx.json {
        ctx.term.note("start servers with --store or HOLDPOINT_STORE from now on");
        if let Some(waits) = stranded.told() {
            ctx.term.note(&waits);
        }
    }
    Ok(Exit::Done)
}

/// What is wrong with the database that is moved into is said of what named that, and not of `store`, which names another.
#[cfg_attr(not(feature = "postgres"), expect(unused_variables, reason = "there is none"))]
fn named(name: &str, error: AppError) -> Trouble {
    #[cfg(feature = "postgres")]
    if let AppError::Postgres(why) = &error {
        let message = format!("{name}: {why}");
        return Trouble { message, ..Trouble::from(error) };
    }
    Trouble::from(error)
}

/// Makes the tables.
async fn migrate(ctx: &Ctx) -> Result<Exit, Trouble> {
    let done = app::store::migrate(&ctx.config).await?;
    let text = if ctx.json {
        let Tables { place, is_made, is_raised, mended, schema, reads_form } = &done;
        let told = json!({
            "store": place, "made": is_made, "raised": is_raised, "indexes_made": mended, "schema": schema,
            "reads_form": reads_form,
        });
        told.to_string()
    } else {
        words(&done)
    };
    ctx.term.line(&text)?;
    Ok(Exit::Done)
}

/// What was done, and which schema there is now: an upgrade speaks of that.
fn words(done: &Tables) -> String {
    let Tables { place, is_made, is_raised, mended, schema, .. } = done;
    if *is_made {
        format!("made a store in the database at {place}: schema {schema}")
    } else if *is_raised {
        format!("took the store in the database at {place} to schema {schema}")
    } else if mended.is_empty() {
        format!("the store in the database at {place} is as it should be: schema {schema}")
    } else {
        let indexes = mended.join(", ");
        format!(
            "made again what the store in the database at {place} lacked (indexes: {indexes}): schema {schema}"
        )
    }
}
