//! `holdpoint halt`: a hand on the brake: stops something, lists what is stopped, lets it go on.

use serde_json::{Value, json as literal};

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::suggest;
use crate::cli::term::line;
use crate::wire::v1::halt::Scope as Told;
use crate::wire::v1::halt_request::Scope;
use crate::wire::v1::{
    GetRunRequest, Halt, HaltRequest, ListHaltsRequest, ListHaltsResponse, ReleaseHaltRequest,
    ReleaseHaltResponse,
};

/// The halt that the file in the data directory is.
const FILE_ID: &str = "halt_file";
/// Every halt that stands, where one is named to be taken back.
const EVERY: &str = "all";
/// What is said of one that was.
const RELEASED: &str = "goes on";

/// Stop everything, a workflow, a tool or an agent; let it go on
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint halt                                            # what is stopped
  holdpoint halt --all --reason \"payments look wrong\"
  holdpoint halt --tool send_message --reason \"wrong address\"
  holdpoint halt --release halt_01k9zq… --reason \"the bank says all is well\"
  holdpoint halt --release all                              # each that stands, one after the other

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
    /// Take this halt back; `all` takes back each that stands
    #[arg(long, value_name = "HALT", group = "what", conflicts_with = "key")]
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
        let mut connection = ctx.connect_to_stop().await?;
        let request = HaltRequest {
            scope: Some(scope),
            reason: args.reason.unwrap_or_default(),
            idempotency_key: args.key.unwrap_or_default(),
        };
        let answered = connection.client.halt(request).await;
        let own = (!connection.is_served()).then(|| connection.place.clone());
        let answered = match (answered, &args.workflow) {
            (Err(status), Some(name)) => {
                Err(suggest::workflow(status.into(), name, &mut connection.client).await)
            }
            (answered, _) => answered.map_err(Trouble::from),
        };
        connection.close().await;
        if let Some(place) = own.filter(|_| answered.is_ok() && !ctx.json) {
            ctx.term.note(&format!(
                "what works on `{}` is stopped by this, and nothing else; a server is named with --server or HOLDPOINT_SERVER",
                line(&place, 400)
            ));
        }
        return told(ctx, "halted", &answered?.into_inner().halt.unwrap_or_default());
    }
    if let Some(halt_id) = args.release {
        let reason = args.reason.unwrap_or_default();
        let mut connection = ctx.connect_to_existing().await?;
        let wish = ReleaseHaltRequest { halt_id, reason };
        let done = if wish.halt_id == EVERY {
            release_every(ctx, &mut connection.client, &wish).await
        } else {
            let answered = connection.client.release_halt(wish).await;
            answered.map_err(Trouble::from).and_then(|halt| told(ctx, RELEASED, &of(halt)))
        };
        connection.close().await;
        return done;
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

fn of(released: tonic::Response<ReleaseHaltResponse>) -> Halt {
    released.into_inner().halt.unwrap_or_default()
}

/// Takes back each that stands, one after the other. One that is refused keeps no other, and is what this ends with.
async fn release_every(
    ctx: &Ctx,
    client: &mut Client,
    wish: &ReleaseHaltRequest,
) -> Result<Exit, Trouble> {
    let halts = client.list_halts(ListHaltsRequest {}).await?.into_inner().halts;
    let (all, mut released, mut refused) = (halts.len(), Vec::new(), None);
    for Halt { halt_id, .. } in halts {
        let one = ReleaseHaltRequest { halt_id: halt_id.clone(), ..wish.clone() };
        match client.release_halt(one).await.map(of) {
            Ok(halt) if ctx.json => released.push(json::of(&halt)),
            Ok(halt) => {
                told(ctx, RELEASED, &halt)?;
                released.push(Value::Null);
            }
            Err(status) => {
                let trouble = Trouble::from(status);
                let why = line(&format!("{halt_id} stands: {}", trouble.message), 1_000);
                ctx.term.note(&ctx.term.paint_error.warn(&why));
                refused.get_or_insert(trouble);
            }
        }
    }
    if ctx.json {
        ctx.term.line(&literal!({"halts": released}).to_string())?;
    } else if released.is_empty() && refused.is_none() {
        ctx.term.line("nothing is halted")?;
    }
    let Some(mut trouble) = refused else { return Ok(Exit::Done) };
    trouble.message = format!("still stopped: {} of {all}", all - released.len());
    Err(trouble)
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
async fn listed(client: &mut Client) -> ListHaltsResponse {
    let listed = client.list_halts(ListHaltsRequest {}).await;
    listed.map(tonic::Response::into_inner).unwrap_or_default()
}

/// What is halted, and why the store is held, for `--json`.
pub(super) async fn standing(client: &mut Client) -> (Value, Value) {
    let listed = listed(client).await;
    let held = Some(listed.store_held).filter(|why| !why.is_empty());
    (json::all(&listed.halts).into(), held.into())
}

/// Tells of what is halted, or of a store that is held: what is shown beside it may stand.
pub(super) async fn tell_standing(ctx: &Ctx, client: &mut Client) {
    let listed = listed(client).await;
    if !listed.store_held.is_empty() {
        ctx.term.note(&ctx.term.paint_error.warn(&format!("held: {}", listed.store_held)));
    }
    tell(ctx, &listed.halts);
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

/// What is said of a run that is left standing: a server goes on with it by itself.
pub(super) fn left(run: &str, is_served: bool, again: &str) -> String {
    if is_served {
        format!(
            "left standing; it goes on when the halt is taken back, and holdpoint watch {run}{again} shows it"
        )
    } else {
        format!(
            "left standing; once the halt is taken back, take it up again with: holdpoint resume {run}{again}"
        )
    }
}

fn words(halt: &Halt) -> String {
    let what = match &halt.scope {
        Some(Told::WorkflowId(name)) => format!("workflow {name}"),
        Some(Told::Tool(name)) => format!("tool {name}"),
        Some(Told::Agent(name)) => format!("agent {name}"),
        Some(Told::All(_)) | None => "everything".into(),
    };
    let end = if halt.halt_id == FILE_ID { ends_with_file(halt) } else { String::new() };
    line(&format!("{}  {what}, by {}: {}{end}", halt.halt_id, halt.principal, halt.reason), 1_000)
}

/// How a halt by the file ends: where servers share a store, the machine that it lies on may be gone.
fn ends_with_file(halt: &Halt) -> String {
    if halt.host.is_empty() {
        return "; it ends when the file HALT is removed".into();
    }
    let path = if halt.path.is_empty() { String::new() } else { format!(" ({})", halt.path) };
    format!(
        "; it ends when the file HALT on {}{path} is removed and a server over that directory runs; where that machine is gone, \
         an admin ends it: `holdpoint halt --release {FILE_ID}`",
        halt.host
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_leaves_a_run_standing_takes_it_up_again_only_where_no_server_does() {
        let served = left("run_1", true, " --server http://c:4653");
        assert!(served.contains("it goes on when the halt is taken back"), "{served}");
        assert!(served.contains("holdpoint watch run_1 --server http://c:4653"), "{served}");
        assert!(!served.contains("resume"), "{served}");
        let alone = left("run_1", false, "");
        assert!(alone.ends_with("take it up again with: holdpoint resume run_1"), "{alone}");
    }

    #[test]
    fn a_halt_by_a_file_says_where_that_lies_and_how_it_ends_without_that_machine() {
        let alone = Halt { halt_id: FILE_ID.into(), principal: "file".into(), ..Halt::default() };
        let told = words(&alone);
        assert!(told.ends_with("it ends when the file HALT is removed"), "{told}");
        let path = "/var/lib/holdpoint/HALT".to_owned();
        let shared = Halt { host: "vm-c".into(), path, ..alone };
        let told = words(&shared);
        for word in ["vm-c (/var/lib/holdpoint/HALT)", "`holdpoint halt --release halt_file`"] {
            assert!(told.contains(word), "{told}");
        }
        let told = words(&Halt { path: String::new(), ..shared });
        assert!(told.contains("the file HALT on vm-c is removed"), "{told}");
    }
}
