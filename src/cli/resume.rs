//! `holdpoint resume`: takes a run up again where it stands.

use crate::app::{Client, Connection};
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::follow::{Follow, Telling};
use crate::cli::render::{Audience, utterance};
use crate::cli::respond;
use crate::cli::suggest;
use crate::cli::talk::{Interaction, Talk};
use crate::cli::{halt, handles};
use crate::kernel::RequestId;
use crate::wire::v1::{
    GetRunRequest, GetSessionRequest, ListRunsRequest, Request, Run, RunStatus, WorkflowWaiting,
};

/// Enough of the conversation to know what the question is about.
const RECAP_MESSAGES_MAX: usize = 6;

/// Take up a run that waits, after a restart too
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint resume                # the run that began to wait last
  holdpoint resume run_01k9zq…    # this one
  holdpoint resume req_01k9zq…-2  # the run that asks this, at this question
  holdpoint resume 1              # the same, by its number in the last inbox
  holdpoint resume party          # the newest run of a session")]
pub(super) struct Args {
    /// A run, a question or a session; the newest waiting run if left out
    #[arg(value_name = "RUN|REQUEST|SESSION")]
    pub id: Option<String>,
    #[command(flatten)]
    pub interaction: Interaction,
}

/// Takes the run up.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut args = args;
    if let Some(id) = &args.id {
        args.id = Some(handles::request(&ctx.config, id)?);
    }
    let mut connection = ctx.connect_to_existing().await?;
    let ended = take_up(args, ctx, &mut connection).await;
    connection.close().await;
    ended
}

async fn take_up(args: Args, ctx: &Ctx, connection: &mut Connection) -> Result<Exit, Trouble> {
    let mut run = match find(args.id.as_deref(), &mut connection.client).await {
        Ok(run) => run,
        Err(trouble) => {
            let id = args.id.unwrap_or_default();
            return Err(suggest::run(trouble, &id, &mut connection.client).await);
        }
    };
    if connection.embedded {
        connection.hands().take_up(&run.run_id).await?;
        run = find(Some(&run.run_id), &mut connection.client).await?;
    }
    let client = &mut connection.client;
    match RunStatus::try_from(run.status).unwrap_or_default() {
        RunStatus::Waiting => {
            let Some(waiting) = &mut run.workflow_waiting else {
                return Err(Trouble::new(
                    Exit::Failed,
                    "the run waits, but the server does not say for what",
                ));
            };
            if let Some(wanted) = args.id.as_deref().filter(|id| id.starts_with("req_")) {
                // The question that was named comes first; one that is not open is not answered by another.
                let is_it = |request: &Request| request.request_id == wanted;
                if !waiting.requests.iter().any(is_it) {
                    return Err(respond::not_open(wanted));
                }
                waiting.requests.sort_by_key(|request| !is_it(request));
            }
            recap(ctx, waiting)?;
            halt::tell_of_run(ctx, client, &run.run_id).await;
            Talk::new(ctx, client, args.interaction).take_up(waiting, run.sequence).await
        }
        RunStatus::Running => {
            ctx.term.note(&format!("run {} is under way", run.run_id));
            Talk::new(ctx, client, args.interaction).join(&run.run_id, run.sequence).await
        }
        RunStatus::Completed
        | RunStatus::Failed
        | RunStatus::Cancelled
        | RunStatus::Unspecified => {
            ctx.term.note(&format!("run {} is over; this is what happened", run.run_id));
            let mut follow = Follow::new(Telling::story(ctx, Audience::Onlooker));
            follow.run_id = run.run_id;
            follow.until = Some(run.sequence);
            follow.through_pauses = true;
            let stream = follow.watch(client).await?;
            Ok(follow.read(ctx, client, stream).await?.exit())
        }
    }
}

async fn find(id: Option<&str>, client: &mut Client) -> Result<Run, Trouble> {
    let run = match id {
        Some(id) if id.starts_with("run_") => {
            let request = GetRunRequest { run_id: id.into(), omit_conversation: true };
            client.get_run(request).await?.into_inner().run
        }
        Some(id) if id.starts_with("req_") => {
            let parsed = RequestId::parse(id).map_err(|error| {
                let hint = "`holdpoint inbox` shows what is open";
                Trouble::new(Exit::Usage, error.to_string()).hint(hint)
            })?;
            let run_id = parsed.run.as_str().into();
            let request = GetRunRequest { run_id, omit_conversation: true };
            client.get_run(request).await?.into_inner().run
        }
        Some(id) => {
            let request = GetSessionRequest { session_id: id.into() };
            let runs = client.get_session(request).await?.into_inner().runs;
            let waits = |run: &&Run| run.status() == RunStatus::Waiting;
            runs.iter().find(waits).or(runs.first()).cloned()
        }
        None => {
            let status = RunStatus::Waiting.into();
            let request = ListRunsRequest { status, page_size: 1, ..Default::default() };
            client.list_runs(request).await?.into_inner().runs.into_iter().next()
        }
    };
    run.ok_or_else(|| {
        Trouble::new(Exit::NotFound, "there is no run that waits")
            .hint("`holdpoint runs` shows all; `holdpoint run WORKFLOW \"…\"` begins one")
    })
}

/// What was said last, so that a person who comes back knows where they are.
fn recap(ctx: &Ctx, waiting: &WorkflowWaiting) -> Result<(), Trouble> {
    let Some(request) = waiting.requests.first().filter(|_| !ctx.json) else {
        return if ctx.json {
            ctx.term.line(&crate::cli::json::of(waiting).to_string())
        } else {
            Ok(())
        };
    };
    let said: Vec<_> = request.conversation.iter().filter(|it| !it.text.is_empty()).collect();
    let skipped = said.len().saturating_sub(RECAP_MESSAGES_MAX);
    for message in said.into_iter().skip(skipped) {
        ctx.term.line(&utterance(ctx.term.paint, message))?;
    }
    Ok(())
}
