//! Args: the shape of the command line, and which file performs which command.

use std::path::PathBuf;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::app::config::Settings;
#[cfg(feature = "chat")]
use crate::cli::chat;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::{ColorChoice, Paint};
use crate::cli::{
    Ctx, audit, cancel, check, checkpoint, claim, completions, delegate, dev, doctor, exit_codes,
    export, fork, graph, halt, health, import, inbox, journal, keys, man, new, prune, receipt,
    release, respond, restored, resume, revoke, run, runs, schema, serve, sessions, signal, store,
    verify, watch, workflows,
};
#[cfg(feature = "bench")]
use crate::cli::{bench, bench_echo};

/// The version, the commit and the profile: what somebody is asked for who tells of a fault.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("HOLDPOINT_BUILT"), ")");

/// Runs agent workflows that wait for people, and survives whatever happens to the machine.
#[derive(Debug, Parser)]
#[command(name = "holdpoint", version = VERSION, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Try `holdpoint` alone for first steps, `holdpoint help COMMAND` for examples, \
    `holdpoint exit-codes` for what scripts rely on."
)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub settings: Settings,
    /// Read settings from this file (`HOLDPOINT_CONFIG`; default: holdpoint.toml, if it is there)
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        help_heading = "Settings",
        hide_short_help = true
    )]
    pub config: Option<PathBuf>,
    /// Print what was understood of flags, environment and file, and where it came from
    #[arg(long, global = true, help_heading = "Settings", hide_short_help = true)]
    pub dump_config: bool,
    /// Write JSON: one document, or one a line for streams; errors too
    #[arg(long, global = true, help_heading = "Output")]
    pub json: bool,
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_name = "WHEN",
        help_heading = "Output",
        default_value = "auto",
        hide_short_help = true
    )]
    pub color: ColorChoice,
}

/// What can be asked for.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    New(new::Args),
    Dev(dev::Args),
    Serve(serve::Args),
    Run(run::Args),
    #[cfg(feature = "chat")]
    Chat(chat::Args),
    Resume(resume::Args),
    Respond(respond::Args),
    Inbox(inbox::Args),
    Watch(watch::Args),
    Sessions(sessions::Args),
    Runs(runs::Args),
    Journal(journal::Args),
    Audit(audit::Args),
    Receipt(receipt::Args),
    Checkpoint(checkpoint::Args),
    Claim(claim::Args),
    Delegate(delegate::Args),
    Cancel(cancel::Args),
    Revoke(revoke::Args),
    Signal(signal::Args),
    Fork(fork::Args),
    Workflows(workflows::Args),
    Check(check::Args),
    Graph(graph::Args),
    Schema(schema::Args),
    Export(export::Args),
    Import(import::Args),
    Prune(prune::Args),
    Restored(restored::Args),
    Release(release::Args),
    Halt(halt::Args),
    Health(health::Args),
    Doctor(doctor::Args),
    Verify(verify::Args),
    Keys(keys::Args),
    Store(store::Args),
    #[cfg(feature = "bench")]
    Bench(bench::Args),
    #[cfg(feature = "bench")]
    #[command(hide = true)]
    BenchEcho(bench_echo::Args),
    Completions(completions::Args),
    Man(man::Args),
    ExitCodes(exit_codes::Args),
}

/// What a command acts on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Acts {
    /// The server that is named, or the orchestrator in this process.
    Server,
    /// The store: the database that is named, else the data directory of this machine.
    Store,
    /// The data directory of this machine.
    Data,
    /// Files and settings of this machine; it does nothing to what is stored.
    Here,
}

impl Command {
    /// Performs the command. Those that are left with Ctrl-C on their own terms say so themselves.
    pub(super) async fn perform(self, ctx: &Ctx) -> Result<Exit, Trouble> {
        match self {
            Self::Serve(args) => Box::pin(serve::perform(args, ctx)).await,
            Self::Dev(args) => Box::pin(dev::perform(args, ctx)).await,
            Self::Run(args) => Box::pin(run::perform(args, ctx)).await,
            #[cfg(feature = "chat")]
            Self::Chat(args) => Box::pin(chat::perform(args, ctx)).await,
            Self::Resume(args) => Box::pin(resume::perform(args, ctx)).await,
            Self::Respond(args) => Box::pin(respond::perform(args, ctx)).await,
            Self::Watch(args) => Box::pin(watch::perform(args, ctx)).await,
            Self::Fork(args) => Box::pin(fork::perform(args, ctx)).await,
            Self::New(_)
            | Self::Inbox(_)
            | Self::Sessions(_)
            | Self::Runs(_)
            | Self::Journal(_)
            | Self::Audit(_)
            | Self::Receipt(_)
            | Self::Checkpoint(_)
            | Self::Claim(_)
            | Self::Delegate(_)
            | Self::Cancel(_)
            | Self::Revoke(_)
            | Self::Signal(_)
            | Self::Workflows(_)
            | Self::Check(_)
            | Self::Graph(_)
            | Self::Schema(_)
            | Self::Export(_)
            | Self::Import(_)
            | Self::Prune(_)
            | Self::Restored(_)
            | Self::Release(_)
            | Self::Halt(_)
            | Self::Health(_)
            | Self::Man(_)
            | Self::Doctor(_)
            | Self::Verify(_)
            | Self::Keys(_)
            | Self::Store(_)
            | Self::Completions(_)
            | Self::ExitCodes(_) => self.until_interrupted(ctx).await,
            #[cfg(feature = "bench")]
            Self::Bench(_) | Self::BenchEcho(_) => self.until_interrupted(ctx).await,
        }
    }

    /// Whether the command is about this machine: the data directory, or files alone. All others
    /// speak to the server that is named.
    pub(super) fn acts_on(&self) -> Acts {
        match self {
            Self::Export(_)
            | Self::Import(_)
            | Self::Prune(_)
            | Self::Restored(_)
            | Self::Doctor(_)
            | Self::Keys(_) => Acts::Store,
            Self::Store(args) => match args.command {
                store::Command::Migrate => Acts::Store,
                store::Command::Move { .. } => Acts::Data,
            },
            // What is named is on this machine, whichever server other commands mean.
            Self::Verify(args) if args.path.is_some() => Acts::Here,
            Self::Verify(_) => Acts::Store,
            Self::Serve(_)
            | Self::Dev(_)
            | Self::New(_)
            | Self::Check(_)
            | Self::Graph(_)
            | Self::Schema(_)
            | Self::Man(_)
            | Self::Completions(_)
            | Self::ExitCodes(_) => Acts::Here,
            #[cfg(feature = "bench")]
            Self::Bench(_) | Self::BenchEcho(_) => Acts::Here,
            #[cfg(feature = "chat")]
            Self::Chat(_) => Acts::Server,
            Self::Run(_)
            | Self::Resume(_)
            | Self::Respond(_)
            | Self::Inbox(_)
            | Self::Watch(_)
            | Self::Sessions(_)
            | Self::Runs(_)
            | Self::Journal(_)
            | Self::Audit(_)
            | Self::Receipt(_)
            | Self::Checkpoint(_)
            | Self::Claim(_)
            | Self::Delegate(_)
            | Self::Cancel(_)
            | Self::Revoke(_)
            | Self::Signal(_)
            | Self::Fork(_)
            | Self::Release(_)
            | Self::Halt(_)
            | Self::Health(_)
            | Self::Workflows(_) => Acts::Server,
        }
    }

    async fn until_interrupted(self, ctx: &Ctx) -> Result<Exit, Trouble> {
        tokio::select! {
            ended = Box::pin(self.perform_plainly(ctx)) => ended,
            _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
        }
    }

    async fn perform_plainly(self, ctx: &Ctx) -> Result<Exit, Trouble> {
        match self {
            Self::Inbox(args) => inbox::perform(args, ctx).await,
            Self::Sessions(args) => sessions::perform(args, ctx).await,
            Self::Runs(args) => runs::perform(args, ctx).await,
            Self::Journal(args) => journal::perform(args, ctx).await,
            Self::Audit(args) => audit::perform(args, ctx).await,
            Self::Receipt(args) => receipt::perform(args, ctx).await,
            Self::Checkpoint(args) => checkpoint::perform(args, ctx).await,
            Self::Claim(args) => claim::perform(args, ctx).await,
            Self::Delegate(args) => delegate::perform(args, ctx).await,
            Self::Cancel(args) => cancel::perform(args, ctx).await,
            Self::Revoke(args) => revoke::perform(args, ctx).await,
            Self::Signal(args) => signal::perform(args, ctx).await,
            Self::Workflows(args) => workflows::perform(args, ctx).await,
            Self::Check(args) => check::perform(&args, ctx),
            Self::Graph(args) => graph::perform(&args, ctx),
            Self::Schema(args) => schema::perform(&args, ctx),
            Self::Export(args) => export::perform(args, ctx).await,
            Self::Import(args) => import::perform(args, ctx).await,
            Self::Prune(args) => prune::perform(args, ctx).await,
            Self::Restored(args) => restored::perform(args, ctx).await,
            Self::Release(args) => release::perform(args, ctx).await,
            Self::Halt(args) => halt::perform(args, ctx).await,
            Self::Health(args) => health::perform(args, ctx).await,
            Self::Man(args) => man::perform(&args, Cli::command(), ctx),
            Self::Doctor(args) => doctor::perform(args, ctx).await,
            Self::Verify(args) => verify::perform(args, ctx).await,
            Self::Keys(args) => keys::perform(args, ctx).await,
            Self::Store(args) => store::perform(args, ctx).await,
            #[cfg(feature = "bench")]
            Self::Bench(args) => bench::perform(args, ctx).await,
            #[cfg(feature = "bench")]
            Self::BenchEcho(args) => bench_echo::perform(args, ctx).await,
            Self::Completions(args) => completions::perform(&args, Cli::command(), ctx),
            Self::ExitCodes(args) => exit_codes::perform(&args, ctx),
            Self::New(args) => new::perform(args, ctx).await,
            Self::Dev(args) => dev::perform(args, ctx).await,
            Self::Serve(args) => serve::perform(args, ctx).await,
            Self::Run(args) => run::perform(args, ctx).await,
            Self::Resume(args) => resume::perform(args, ctx).await,
            Self::Respond(args) => respond::perform(args, ctx).await,
            Self::Watch(args) => watch::perform(args, ctx).await,
            Self::Fork(args) => fork::perform(args, ctx).await,
            #[cfg(feature = "chat")]
            Self::Chat(args) => chat::perform(args, ctx).await,
        }
    }
}

/// What to try first.
pub(super) fn welcome(paint: Paint) -> String {
    let steps = [
        ("holdpoint workflows", "what can be run; some come with Holdpoint"),
        (
            "holdpoint run approve_and_send \"Invite the team to lunch\"",
            "runs here, asks you, finishes",
        ),
        ("holdpoint resume", "takes up what waits, after a restart too"),
        ("holdpoint inbox", "everything that waits for somebody"),
        ("holdpoint new NAME", "writes a workflow of your own to begin with"),
        ("holdpoint dev", "the console, files taken as they change, events"),
        ("holdpoint serve", "the same for others: gRPC on 127.0.0.1:4653"),
        ("holdpoint help", "all commands"),
    ];
    let width = steps.iter().map(|(command, _)| command.len()).max().unwrap_or(0);
    let mut text = format!(
        "{} runs agent workflows that wait for people.\n\nTry this first:\n",
        paint.bold("Holdpoint")
    );
    for (command, about) in steps {
        let command = format!("{command:width$}");
        text.push_str("  ");
        text.push_str(&paint.good(&command));
        text.push_str("  ");
        text.push_str(&paint.dim(about));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        for command in Cli::command().get_subcommands() {
            let name = command.get_name().to_owned();
            let shown = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(shown.contains(&format!("holdpoint {name}")), "{name} has no example");
            assert!(command.get_about().is_some(), "{name} says nothing about itself");
        }
    }
}
