//! `holdpoint halt`: a hand on the brake: stops something, lists what is stopped, lets it go on.

use serde_json::{Value, json as literal};

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::term::line;
use crate::wire::v1::halt::Scope as Told;
use crate::wire::v1::halt_request::Scope;
use crate::wire::v1::{GetRunRequest, Halt, HaltRequest, ListHaltsRequest, ReleaseHaltRequest};

/// The halt that the file in the data directory is.
const FILE_ID: &str = "halt_file";

/// Stop everything, a workflow, a tool or an agent; let it go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint halt                                              what is stopped
  holdpoint halt --all --reason \"payments look wrong\"
  holdpoint halt --tool send_message --reason \"wrong address\"
  holdpoint halt --release halt_01k9zq…

What is under way comes home; nothing else is begun. Questions stay open and take no decision, deadlines stand
still, and all of it goes on when an admin takes the halt back. A file called HALT in the data directory stops
everything, too, without a key and without a server's consent; removing it lets everything go on.")]
pub(super) struct Args {
    /// Stop everything
    #[arg(long, group = "what")]
    pub all: bool,
    /// Stop all runs of this workflow
    #[arg(long, value_name = "WORKFLOW", group = "what")]
    pub workflow: Option<String>,
    /// Stop all calls of this tool
    #[arg(long, value_name = "TOOL", group = "what")]
    pub tool: Option<String>,
    /// Stop all work of this agent
    #[arg(long, value_name = "AGENT", group = "what")]
    pub agent: Option<String>,
    /// Let this halt go on
    #[arg(long, value_name = "HALT", group = "what", conflicts_with_all = ["reason", "key"])]
    pub release: Option<String>,
    /// Why; needed to stop something: whoever waits for it reads that, and so does the audit
    #[arg(long, value_name = "TEXT", requires = "what")]
    pub reason: Option<String>,
    /// An idempotency key: the same command with the same key again stops nothing more, and is refused after a release
    #[arg(long, value_name = "KEY", requires = "what")]
    pub key: Option<String>,
}

impl Args {
    /// What it names.
    fn scope(&self) -> Option<Scope> {
        let all = self.all.then_some(Scope::All(true));
        let workflow = self.workflow.clone().map(Scope::WorkflowId);
        let tool = self.tool.clone().map(Scope::Tool);
        all.or(workflow).or(tool).or_else(|| self.agent.clone().map(Scope::Agent))
    }
}

/// Stops, lets go on, or lists.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    if let Some(scope) = args.scope() {
        let mut connection = ctx.connect().await?;
        let request = HaltRequest {
            scope: Some(scope),
            reason: args.reason.unwrap_or_default(),
            idempotency_key: args.key.unwrap_or_default(),
        };
        let answered = connection.client.halt(request).await;
        connection.close().await;
        return told(ctx, "halted", &answered?.into_inner().halt.unwrap_or_default());
    }
    if let Some(halt_id) = args.release {
        let mut connection = ctx.connect().await?;
        let answered = connection.client.release_halt(ReleaseHaltRequest { halt_id }).await;
        connection.close().await;
        return told(ctx, "goes on", &answered?.into_inner().halt.unwrap_or_default());
    }
    let mut connection = ctx.look().await?;
    let answered = connection.client.list_halts(ListHaltsRequest {}).await;
    connection.close().await;
    let halts = answered?.into_inner().halts;
    if ctx.json {
        let halts: Vec<_> = halts.iter().map(json::of).collect();
        ctx.term.line(&literal!({"halts": halts}).to_string())?;
    } else if halts.is_empty() {
        ctx.term.line("nothing is halted")?;
    } else {
        for halt in &halts {
            ctx.term.line(&words(halt))?;
        }
    }
    Ok(Exit::Done)
}

fn told(ctx: &Ctx, what: &str, halt: &Halt) -> Result<Exit, Trouble> {
    if ctx.json {
        ctx.term.line(&literal!({"halt": json::of(halt)}).to_string())?;
    } else {
        ctx.term.line(&format!("{what}: {}", words(halt)))?;
    }
    Ok(Exit::Done)
}

/// That something stands at it.
pub(super) fn stands(halt: &Halt) -> String {
    format!("a halt stands: {}", words(halt))
}

/// What is halted. Whoever cannot be told of it is shown the rest all the same.
async fn listed(client: &mut Client) -> Vec<Halt> {
    let listed = client.list_halts(ListHaltsRequest {}).await;
    listed.map(|listed| listed.into_inner().halts).unwrap_or_default()
}

/// What is halted, for `--json`.
pub(super) async fn standing(client: &mut Client) -> Vec<Value> {
    json::all(&listed(client).await)
}

/// Tells of what is halted, where anything is: what is shown beside it may stand.
pub(super) async fn tell_standing(ctx: &Ctx, client: &mut Client) {
    tell(ctx, &listed(client).await);
}

/// Tells of these.
pub(super) fn tell(ctx: &Ctx, halts: &[Halt]) {
    for halt in halts {
        ctx.term.note(&ctx.term.paint_error.warn(&stands(halt)));
    }
}

/// The halts that a run stands at. Whoever cannot be told of them is shown the rest all the same.
pub(super) async fn of_run(client: &mut Client, run: &str) -> Vec<Halt> {
    let request = GetRunRequest { run_id: run.to_owned(), omit_conversation: true };
    client.get_run(request).await.map(|found| found.into_inner().halts).unwrap_or_default()
}

/// Tells of the halts that a run stands at, beside what it asks: no answer is taken as long as they stand.
pub(super) async fn tell_of_run(ctx: &Ctx, client: &mut Client, run: &str) {
    tell(ctx, &of_run(client, run).await);
}

fn words(halt: &Halt) -> String {
    let what = match &halt.scope {
        Some(Told::WorkflowId(name)) => format!("workflow {name}"),
        Some(Told::Tool(name)) => format!("tool {name}"),
        Some(Told::Agent(name)) => format!("agent {name}"),
        Some(Told::All(_)) | None => "everything".into(),
    };
    let end = if halt.halt_id == FILE_ID { "; it ends when the file HALT is removed" } else { "" };
    line(&format!("{}  {what}, by {}: {}{end}", halt.halt_id, halt.principal, halt.reason), 700)
}
