//! `holdpoint checkpoint`: the points a run was saved at, or one of them with what it knew.

use serde_json::json as literal;

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::render::{date, question, utterance};
use crate::cli::term::line;
use crate::wire::v1::{Checkpoint, GetRunRequest, ListCheckpointsRequest};

/// List a run's checkpoints, or show one
///
/// A checkpoint is shown with what the run waited for, and the conversation until then.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint checkpoint run_01k9zq…
  holdpoint checkpoint run_01k9zq… chk_01k9zq…-000006
  holdpoint checkpoint run_01k9zq… chk_01k9zq…-000006 --json | jq .checkpoint.workflow_waiting")]
pub(super) struct Args {
    /// The run
    pub run: String,
    /// The checkpoint to show
    #[arg(value_name = "CHECKPOINT")]
    pub checkpoint: Option<String>,
}

/// Lists or shows.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = look(args, ctx, &mut connection.client).await;
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn look(args: Args, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let request = ListCheckpointsRequest { run_id: args.run.clone() };
    let checkpoints = client.list_checkpoints(request).await?.into_inner().checkpoints;
    let Some(id) = args.checkpoint else { return list(&checkpoints, ctx) };
    match checkpoints.iter().find(|checkpoint| checkpoint.checkpoint_id == id) {
        Some(checkpoint) => show(checkpoint, args.run, ctx, client).await,
        None => Err(Trouble::new(Exit::NotFound, format!("there is no checkpoint `{id}`"))
            .hint(format!("`holdpoint checkpoint {}` names the ones there are", args.run))),
    }
}

fn list(checkpoints: &[Checkpoint], ctx: &Ctx) -> Result<(), Trouble> {
    if ctx.json {
        let all = json::all(checkpoints);
        return ctx.term.line(&literal!({"checkpoints": all}).to_string());
    }
    if checkpoints.is_empty() {
        return ctx.term.line("there are no checkpoints: the run has not paused, and nothing in it failed that could be tried again");
    }
    let heading = ["CHECKPOINT", "AT EVENT", "TIME", "MESSAGES", "WAITED FOR"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(checkpoints.iter().map(|checkpoint| {
        let waiting = checkpoint.workflow_waiting.iter().flat_map(|waiting| &waiting.requests);
        let prompt = waiting.map(|request| line(&request.prompt, 72)).next();
        vec![
            line(&checkpoint.checkpoint_id, 64),
            checkpoint.sequence.to_string(),
            checkpoint.time.as_ref().and_then(json::timestamp).map(date).unwrap_or_default(),
            checkpoint.conversation_length.to_string(),
            prompt.unwrap_or_else(|| where_it_failed(checkpoint).to_owned()),
        ]
    }));
    ctx.term.write(&ctx.term.table(&rows, &[3, 1]))
}

/// What is said of a checkpoint at which nobody was asked.
fn where_it_failed(checkpoint: &Checkpoint) -> &'static str {
    if checkpoint.workflow_waiting.is_none() { "(failed here: tries it again)" } else { "" }
}

/// A conversation only grows, so what it was at a checkpoint is its beginning now.
async fn show(
    checkpoint: &Checkpoint,
    run_id: String,
    ctx: &Ctx,
    client: &mut Client,
) -> Result<(), Trouble> {
    let request = GetRunRequest { run_id, omit_conversation: false };
    let mut conversation = client.get_run(request).await?.into_inner().conversation;
    conversation.truncate(usize::try_from(checkpoint.conversation_length).unwrap_or(usize::MAX));
    if ctx.json {
        let said = json::all(&conversation);
        let shown = literal!({"checkpoint": json::of(checkpoint), "conversation": said});
        return ctx.term.line(&shown.to_string());
    }
    let at = checkpoint.time.as_ref().and_then(json::timestamp).map(date).unwrap_or_default();
    let id = ctx.term.paint.bold(&line(&checkpoint.checkpoint_id, 64));
    ctx.term.line(&format!("{id}  at event {}, {at}\n", checkpoint.sequence))?;
    for message in &conversation {
        ctx.term.line(&utterance(ctx.term.paint, message))?;
    }
    for request in checkpoint.workflow_waiting.iter().flat_map(|waiting| &waiting.requests) {
        ctx.term.write(&format!("\n{}", question(ctx.term.paint, request)))?;
    }
    Ok(())
}
