//! `holdpoint workflows`: what can be run.

use serde_json::{Value, json as literal};

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::suggest;
use crate::cli::term::{line, plain};
use crate::wire::v1::{GetWorkflowRequest, ListWorkflowsRequest};

/// List the workflows that can be run, or show one
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint workflows
  holdpoint workflows event_planning
  holdpoint workflows event_planning --json | jq .definition")]
pub(super) struct Args {
    /// The workflow to show
    pub name: Option<String>,
}

/// Lists or shows.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let mut connection = ctx.look().await?;
    let ended = match args.name {
        Some(name) => match show(name.clone(), ctx, &mut connection.client).await {
            Err(trouble) => Err(suggest::workflow(trouble, &name, &mut connection.client).await),
            shown => shown,
        },
        None => list(ctx, &mut connection.client).await,
    };
    connection.close().await;
    ended.map(|()| Exit::Done)
}

async fn show(workflow_id: String, ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let found = client.get_workflow(GetWorkflowRequest { workflow_id }).await?.into_inner();
    let workflow = found.workflow.unwrap_or_default();
    if ctx.json {
        let definition: Value = serde_json::from_str(&found.definition_json).unwrap_or_default();
        let shown = literal!({
            "workflow": json::of(&workflow),
            "definition": definition,
            "mermaid": found.mermaid,
        });
        return ctx.term.line(&shown.to_string());
    }
    let paint = ctx.term.paint;
    let name = paint.bold(&line(&workflow.workflow_id, 64));
    let pattern = line(&workflow.pattern, 64);
    ctx.term.line(&format!("{name}  {pattern}  {}", paint.dim(&line(&workflow.version, 16))))?;
    ctx.term.line(&plain(&workflow.description))?;
    ctx.term.line(&format!("\nagents: {}", line(&workflow.agents.join(", "), 400)))?;
    if !workflow.tools.is_empty() {
        ctx.term.line(&format!("tools:  {}", line(&workflow.tools.join(", "), 400)))?;
    }
    if !workflow.request_types.is_empty() {
        ctx.term.line(&format!("types:  {}", line(&workflow.request_types.join(", "), 400)))?;
    }
    if let Some(schema) = &workflow.input_schema {
        ctx.term.line(&format!("input:  {}", plain(&schema.to_string())))?;
    }
    if !found.mermaid.is_empty() {
        ctx.term.line(&format!("\n{}", plain(found.mermaid.trim_end())))?;
    }
    Ok(())
}

async fn list(ctx: &Ctx, client: &mut Client) -> Result<(), Trouble> {
    let listed = client.list_workflows(ListWorkflowsRequest {}).await?.into_inner();
    let (workflows, broken) = (listed.workflows, listed.broken);
    if ctx.json {
        let (all, broken) = (json::all(&workflows), json::all(&broken));
        return ctx.term.line(&literal!({"workflows": all, "broken": broken}).to_string());
    }
    if workflows.is_empty() && broken.is_empty() {
        return ctx.term.line("there are no workflows; `--workflows DIR` says where they are");
    }
    let mut rows = vec![["WORKFLOW", "PATTERN", "AGENTS", "ABOUT"].map(str::to_owned).to_vec()];
    rows.extend(workflows.iter().map(|workflow| {
        vec![
            line(&workflow.workflow_id, 64),
            line(&workflow.pattern, 32),
            workflow.agents.len().to_string(),
            line(&workflow.description, 72),
        ]
    }));
    ctx.term.write(&ctx.term.table(&rows, &[2]))?;
    for one in broken {
        let what = match (one.has_earlier, one.workflow_id.as_str()) {
            (true, name) => format!("{} is broken; `{name}` runs as it was before", one.file),
            (false, "") => format!("{} is broken, and is left out", one.file),
            (false, name) => format!("{} is broken; `{name}` cannot be started", one.file),
        };
        let paint = ctx.term.paint;
        ctx.term.line(&format!("\n{}\n{}", paint.bad(&line(&what, 400)), plain(&one.why)))?;
    }
    Ok(())
}
