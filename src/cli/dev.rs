//! `holdpoint dev`: a server for whoever writes workflows: the console opened, files taken as they change, models
//! played from scripts, and everything that happens told line by line. What it serves is what `serve` serves.

use std::collections::HashSet;
use std::env;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio_util::task::AbortOnDropHandle;

use crate::app::Client;
use crate::app::client;
use crate::app::config::Origin;
use crate::app::offline;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::render::journal_line;
use crate::cli::serve;
use crate::cli::term::{Term, line};
use crate::wire::v1::{ListRunsRequest, Run, WatchRunRequest};

/// How often new runs are looked for: the eye follows no faster.
const EVERY: Duration = Duration::from_millis(400);
/// Runs that are looked through each time: more begin at once in no hand-made test.
const RUNS: i32 = 50;
/// Of a run's id, what tells it from the others on a screen.
const TAIL: usize = 6;

/// Serve while you write: console, files as they change, events
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint new invoice && holdpoint dev
  holdpoint dev --no-open --listen 127.0.0.1:4700

Opens the console, takes workflow files as they change, and tells what happens in every run. Where
NAME.script.yaml lies beside NAME.yaml, its models are played from that script: no key, no cost.
--real-models has the providers that the files name. It serves a data directory, and no database.")]
pub(super) struct Args {
    /// Do not open the console in a browser
    #[arg(long)]
    pub no_open: bool,
    /// Ask the models that the files name, also where a script lies beside
    #[arg(long)]
    pub real_models: bool,
}

/// Serves, and tells.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    refuse_shared(ctx)?;
    let mut config = ctx.config.clone();
    config.scripted = !args.real_models;
    // What happens is told as events; between them the log says what is wrong, unless somebody asked for more.
    if config.origin("log") == Origin::Default {
        "warn".clone_into(&mut config.log);
    }
    let mut told = None;
    let ready = |address: SocketAddr| {
        let console = format!("http://{address}/console");
        serve::ready(ctx, address);
        if !ctx.json {
            let files = config.workflows.display();
            ctx.term.note(&format!("workflows in `{files}` are taken as they change"));
        }
        if !args.no_open {
            open(&console, ctx.term);
        }
        told = Some(AbortOnDropHandle::new(tokio::spawn(tell(
            address,
            ctx.config.api_key.clone(),
            (ctx.term, ctx.json),
        ))));
    };
    let ended = serve::serve(config.clone(), ctx, ready).await;
    drop(told);
    ended
}

/// What others wait for is not played from scripts: over a database this would be one more of its servers.
fn refuse_shared(ctx: &Ctx) -> Result<(), Trouble> {
    let (named, remedy) = match (&ctx.config.store, ctx.config.origin("store")) {
        (None, _) => return Ok(()),
        (Some(_), Origin::Env) => {
            ("HOLDPOINT_STORE", "run it as `env -u HOLDPOINT_STORE holdpoint dev`")
        }
        (Some(_), Origin::File) => {
            ("`store` in the settings file", "name another file with --config")
        }
        (Some(_), Origin::Flag | Origin::Default) => ("--store", "leave it out"),
    };
    let place = line(&offline::place(&ctx.config), 400);
    let text = format!(
        "{named}: `dev` is for whoever writes workflows, serves a data directory, and joins no servers over {place}"
    );
    let hint = format!("{remedy}; `holdpoint serve` serves the database");
    Err(Trouble::new(Exit::Usage, text).hint(hint))
}

/// Opens a page in the browser of whoever sits here; where there is none, the address was told.
fn open(page: &str, term: Term) {
    let named = env::var("BROWSER").ok().filter(|name| !name.trim().is_empty());
    let has_screen = ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| env::var_os(name).is_some());
    let opener = match named {
        Some(named) => named,
        None if cfg!(target_os = "macos") => "open".into(),
        None if has_screen => "xdg-open".into(),
        None => return,
    };
    let mut command = tokio::process::Command::new(&opener);
    command.arg(page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Err(error) = command.spawn() {
        term.note(&format!("`{}` could not be started: {error}", line(&opener, 80)));
    }
}

/// Tells every event of every run that begins or goes on from now on.
async fn tell(address: SocketAddr, api_key: Option<String>, (term, json): (Term, bool)) {
    let Ok(bearer) = client::Bearer::new(api_key.as_deref()) else { return };
    let Ok(mut client) = client::dial(&format!("http://{address}"), bearer).await else { return };
    let mut followed = HashSet::new();
    let mut every = tokio::time::interval(EVERY);
    let mut is_first = true;
    let mut tasks = Vec::new();
    loop {
        every.tick().await;
        let wanted = ListRunsRequest { page_size: RUNS, ..Default::default() };
        let Ok(listed) = client.list_runs(wanted).await else { continue };
        for run in listed.into_inner().runs {
            if !followed.insert(run.run_id.clone()) {
                continue;
            }
            // What happened before this was begun is in the journals, and is not told again.
            let after = if is_first { run.sequence } else { 0 };
            let following = follow(client.clone(), run, after, (term, json));
            tasks.push(AbortOnDropHandle::new(tokio::spawn(following)));
        }
        is_first = false;
        tasks.retain(|task| !task.is_finished());
    }
}

async fn follow(mut client: Client, run: Run, after: u64, (term, json): (Term, bool)) {
    let watch =
        WatchRunRequest { run_id: run.run_id.clone(), after_sequence: after, through_pauses: true };
    let Ok(stream) = client.watch_run(watch).await else { return };
    let mut stream = stream.into_inner();
    let tail = run.run_id.len().saturating_sub(TAIL);
    let tail = run.run_id.get(tail..).unwrap_or_default();
    let whose = line(&format!("{} …{tail}", run.workflow_id), 40);
    while let Ok(Some(event)) = stream.message().await {
        // A nobody who no longer reads ends nothing here.
        let told = if json {
            crate::cli::json::event(&event).to_string()
        } else {
            format!("{}  {}", term.paint.agent(&whose), journal_line(term.paint, &event))
        };
        if term.line(&told).is_err() {
            return;
        }
    }
}
