//! `holdpoint runs`: the runs there are, or one of them with its conversation.

use serde_json::json as literal;

use crate::app::{Client, Connection};
use crate::cli::Ctx;
use crate::cli::cost;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::inbox::{LIMIT, page_size};
use crate::cli::numbers::at_least_one;
use crate::cli::render::{date, moment, question, utterance, whole};
use crate::cli::suggest;
use crate::cli::term::{Term, line, plain};
use crate::cli::{halt, json};
use crate::wire::v1::{GetRunRequest, GetRunResponse, ListRunsRequest, Run, RunStatus};

/// List runs, or show one with its conversation
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint runs --status waiting
  holdpoint runs --workflow event_planning --limit 200
  holdpoint runs run_01k9zq…")]
pub(super) struct Args {
    /// The run to show
    pub run: Option<String>,
    /// Only with this status: running, waiting, completed, failed, cancelled
    #[arg(long, value_name = "STATUS", value_parser = status)]
    pub status: Option<RunStatus>,
    /// Only of this workflow
    #[arg(long, value_name = "NAME")]
    pub workflow: Option<String>,
    /// Only of this session
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = LIMIT, value_parser = at_least_one)]
    pub limit: usize,
}

/// Lists or shows.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = match &args.run {
        Some(run_id) => match show(run_id, ctx, &mut connection.client).await {
            Err(trouble) => Err(suggest::run(trouble, run_id, &mut connection.client).await),
            shown => shown,
        },
        None => list(&args, ctx, &mut connection).await,
    };
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn show(run_id: &str, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let request = GetRunRequest { run_id: run_id.into(), omit_conversation: false };
    let found = client.get_run(request).await?.into_inner();
    let waits = waits_for(&found);
    let GetRunResponse { run, conversation, output, grants, rules, halts, .. } = found;
    let (signals, wakes_at) = (found.signals_awaited, found.wakes_at.as_ref());
    let Some(run) = run else {
        return Err(Trouble::new(Exit::Failed, "the server answered without a run"));
    };
    if ctx.json {
        let said = json::all(&conversation);
        let output = json::optional(output.as_ref());
        let shown = literal!({
            "run": json::of(&run),
            "conversation": said,
            "output": output,
            "grants": json::all(&grants),
            "rules": json::all(&rules),
            "halts": json::all(&halts),
            "signals_awaited": signals,
            "wakes_at": wakes_at.and_then(json::timestamp).map(|at| at.to_string()),
        });
        return ctx.term.line(&shown.to_string());
    }
    let paint = ctx.term.paint;
    ctx.term.write(&rows(ctx.term, std::slice::from_ref(&run)))?;
    if let Some(failure) = &run.failure {
        ctx.term
            .line(&paint.bad(&line(&format!("{} [{}]", failure.message, failure.code), 400)))?;
    }
    ctx.term.line("")?;
    for message in &conversation {
        ctx.term.line(&utterance(paint, message))?;
    }
    if let Some(text) = cost::words(&run) {
        ctx.term.line(&paint.dim(&text))?;
    }
    for grant in &grants {
        let until = grant.until.as_ref().and_then(json::timestamp).map(date);
        let until = until.map_or_else(|| "to its end".to_owned(), |at| format!("until {at}"));
        let covers = if grant.covers.is_empty() { &grant.tool } else { &grant.covers };
        let text = format!("{covers} is allowed for this run {until}, by {}", grant.principal);
        ctx.term.line(&paint.warn(&line(&text, 200)))?;
    }
    for rule in &rules {
        let state = if rule.lifted { "lifted by" } else { "from" };
        let text = format!("gate {} {state} {}: {}", rule.gate, rule.from, rule.means);
        ctx.term.line(&paint.dim(&line(&text, 400)))?;
    }
    for halt in &halts {
        ctx.term.line(&paint.warn(&halt::stands(halt)))?;
    }
    if let Some(waits) = waits {
        ctx.term.line(&paint.ask(&line(&waits, 400)))?;
    }
    for request in run.workflow_waiting.iter().flat_map(|waiting| &waiting.requests) {
        ctx.term.write(&format!("\n{}", question(paint, request)))?;
    }
    if let Some(output) = output.as_deref().filter(|output| !output.is_array()) {
        ctx.term.line(&format!("\n{}\n{}", paint.bold("output"), plain(&whole(output))))?;
    }
    Ok(())
}

/// What it waits for beside people, in words.
fn waits_for(found: &GetRunResponse) -> Option<String> {
    let signals: Vec<_> = found.signals_awaited.iter().map(|name| format!("`{name}`")).collect();
    let goes_on = found.wakes_at.as_ref().and_then(json::timestamp).map(date);
    let goes_on = goes_on.map(|at| format!("goes on by itself {at}"));
    let waits =
        (!signals.is_empty()).then(|| format!("waits for the signal {}", signals.join(" or ")));
    let told: Vec<_> = [waits, goes_on].into_iter().flatten().collect();
    (!told.is_empty()).then(|| format!("it {}", told.join("; ")))
}

async fn list(args: &Args, ctx: &Ctx, connection: &mut Connection) -> Result<(), Trouble> {
    let mut runs: Vec<Run> = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = ListRunsRequest {
            session_id: args.session.clone().unwrap_or_default(),
            workflow_id: args.workflow.clone().unwrap_or_default(),
            status: args.status.unwrap_or_default().into(),
            page_size: page_size(args.limit - runs.len().min(args.limit)),
            page_token,
        };
        let page = connection.client.list_runs(request).await?.into_inner();
        runs.extend(page.runs);
        page_token = page.next_page_token;
        if page_token.is_empty() || runs.len() >= args.limit {
            break;
        }
    }
    runs.truncate(args.limit);
    if ctx.json {
        let all = json::all(&runs);
        return ctx.term.line(&literal!({"runs": all, "more": !page_token.is_empty()}).to_string());
    }
    if runs.is_empty() {
        let place = line(&connection.place, 400);
        ctx.term.line(&format!("there are no such runs in {place}"))?;
        if let Some(name) = &args.workflow
            && let Some(hint) = suggest::listed_workflow(name, &mut connection.client).await
        {
            ctx.term.note(&hint);
        }
        halt::tell_standing(ctx, &mut connection.client).await;
        return Ok(());
    }
    ctx.term.write(&rows(ctx.term, &runs))?;
    halt::tell_standing(ctx, &mut connection.client).await;
    if !page_token.is_empty() {
        ctx.term.note("there are more; --limit shows them");
    }
    Ok(())
}

/// Runs as a table.
pub(super) fn rows(term: Term, runs: &[Run]) -> String {
    let heading = ["RUN", "STATUS", "WORKFLOW", "SESSION", "UPDATED", "EVENTS"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(runs.iter().map(|run| {
        vec![
            line(&run.run_id, 64),
            json::status(run.status),
            line(&run.workflow_id, 64),
            line(&run.session_id, 128),
            run.updated_at.as_ref().and_then(json::timestamp).map(moment).unwrap_or_default(),
            run.sequence.to_string(),
        ]
    }));
    // The session stands in a run that is shown whole.
    term.table(&rows, &[5, 3])
}

fn status(word: &str) -> Result<RunStatus, String> {
    RunStatus::from_str_name(&format!("RUN_STATUS_{}", word.to_uppercase()))
        .filter(|status| *status != RunStatus::Unspecified)
        .ok_or_else(|| "running, waiting, completed, failed or cancelled".into())
}
