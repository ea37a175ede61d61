//! Cli: arguments become one call and an exit code. One subcommand a file.
//!
//! Every command that touches runs speaks gRPC, also where the orchestrator is in this process. What
//! is written and read goes through `term`; how a command ends is in `exit`.

mod addresses;
mod answer;
mod args;
mod decided;
mod editor;
mod elsewhere;
mod exit;
mod fill;
mod filling;
mod follow;
mod form;
mod handles;
mod help;
mod json;
mod people;
mod plainly;
mod render;
mod suggest;
mod talk;
mod term;

mod audit;
#[cfg(feature = "bench")]
mod bench;
#[cfg(feature = "bench")]
mod bench_echo;
mod cancel;
#[cfg(feature = "chat")]
mod chat;
mod check;
mod checkpoint;
mod claim;
mod completions;
mod cost;
mod delegate;
mod dev;
mod doctor;
mod exit_codes;
mod export;
mod fork;
mod graph;
mod halt;
mod health;
mod import;
mod inbox;
mod journal;
mod keys;
mod man;
mod new;
mod numbers;
mod prune;
mod receipt;
mod release;
mod respond;
mod restored;
mod resume;
mod revoke;
mod run;
mod runs;
mod schema;
mod serve;
mod sessions;
mod signal;
mod store;
mod verify;
mod watch;
mod workflows;

use std::sync::atomic::{AtomicBool, Ordering};
use std::{env, ffi::OsString, process::ExitCode};

use clap::FromArgMatches as _;
use clap::error::{ContextKind, ContextValue};

use crate::app::config::{Origin, masked, refuse_misspelt};
use crate::app::{self, Config, Connection, Followed, Reach};

use addresses::Addresses;
use args::{Acts, Cli};
use exit::{Exit, Trouble};
use term::{Term, line};

/// What every command is given.
#[derive(Debug)]
struct Ctx {
    config: Config,
    term: Term,
    json: bool,
    /// The run that is followed here, for whoever has the data directory next.
    followed: Followed,
    /// Whether what is shown is read in a database, by this process.
    reads_database: AtomicBool,
    /// Whether a server is spoken to, which drives its runs by itself.
    is_served: AtomicBool,
}

/// What whoever reads a database is told: with a key they may take themselves for somebody else.
const READ_AS_LOCAL: &str = "this is read in the database, as `local`; whoever is asked answers at a server over it, with their key: \
                             --server or HOLDPOINT_SERVER names one";

impl Ctx {
    /// The orchestrator, to work on a run: without a server, on that run alone.
    async fn connect(&self) -> Result<Connection, Trouble> {
        self.reach(&self.config, Reach::Own).await
    }

    /// The same, to stop something and for nothing else: a policy that is missing is no reason not to.
    async fn connect_to_stop(&self) -> Result<Connection, Trouble> {
        self.refuse_without_data()?;
        let mut config = self.config.clone();
        config.only_stops = true;
        self.reach(&config, Reach::Own).await
    }

    fn refuse_without_data(&self) -> Result<(), Trouble> {
        if self.config.server.is_none() && !app::offline::has_data(&self.config) {
            return Err(app::AppError::NoData(self.config.data.clone()).into());
        }
        Ok(())
    }

    /// The same, to work on what is there: where nothing is, what is meant lies somewhere else, and nothing is made here.
    async fn connect_to_existing(&self) -> Result<Connection, Trouble> {
        self.refuse_without_data()?;
        self.connect().await
    }

    /// The orchestrator, to look: without a server nothing moves (E8).
    async fn look(&self) -> Result<Connection, Trouble> {
        let connection = self.reach(&self.config, Reach::Nothing).await?;
        if connection.embedded && !self.json {
            let place = line(&connection.place, 400);
            if !app::offline::has_data(&self.config) {
                let text = format!("there is no data in `{place}` yet; the first run makes it");
                self.term.note(&text);
            } else if self.term.is_interactive {
                self.term.note(&self.term.paint_error.dim(&format!("in `{place}`:")));
            }
            if self.looks_at_database() && self.config.api_key.is_some() {
                self.term.note(READ_AS_LOCAL);
            }
        }
        Ok(connection)
    }

    async fn reach(&self, config: &Config, reach: Reach) -> Result<Connection, Trouble> {
        // In a conversation log lines are noise, unless somebody asked for them.
        if self.config.origin("log") != Origin::Default {
            app::telemetry::begin(&self.config)?;
        }
        let was_older = self.config.server.is_none() && app::offline::is_older(&self.config);
        let connection = app::connect(config, reach, self.followed.clone()).await?;
        let reads_database = connection.embedded && self.config.store.is_some();
        self.reads_database.store(reads_database, Ordering::Relaxed);
        self.is_served.store(connection.is_served(), Ordering::Relaxed);
        if was_older && !app::offline::is_older(&self.config) {
            let place = line(&self.config.data.display().to_string(), 400);
            let text = format!(
                "the store in `{place}` was of the format before, and was taken over now: its journals are chained. \
                 A build before this one does not open it any more"
            );
            let told =
                if self.json { serde_json::json!({"notice": text}).to_string() } else { text };
            self.term.note(&told);
        }
        Ok(connection)
    }

    /// Whether what is shown is read in a database, and at no server that it could be answered at.
    fn looks_at_database(&self) -> bool {
        self.reads_database.load(Ordering::Relaxed)
    }

    /// Whether a server has what this command works on: it goes on with it when nobody looks.
    fn is_served(&self) -> bool {
        self.is_served.load(Ordering::Relaxed)
    }

    /// The flags that a command printed for the reader must repeat to reach the same place.
    fn again(&self) -> String {
        let data = self.config.data.display().to_string();
        let server = self.config.server.clone().unwrap_or_default();
        let given = [("server", server), ("data", data)]
            .into_iter()
            .filter(|(name, _)| self.config.origin(name) == Origin::Flag)
            .map(|(name, value)| format!(" --{name} {}", quoted(&value)));
        given.collect::<Vec<_>>().concat()
    }
}

/// Parses, calls, and says how it ended.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<_> = arguments.into_iter().collect();
    let addresses = Addresses::of(&arguments);
    // What was not understood cannot say how it is to be told.
    let wants_json = arguments.iter().take_while(|word| *word != "--").any(|word| word == "--json");
    let parsed = help::command().try_get_matches_from(arguments);
    let cli = match parsed.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(refusal) => {
            if wants_json && refusal.exit_code() != 0 {
                let said = refusal.render().to_string();
                let said = said.trim_end().strip_prefix("error: ").unwrap_or(&said).to_owned();
                let trouble = addresses.hide_in(Trouble::new(Exit::Usage, said));
                Term::new(term::ColorChoice::Auto).tell(&trouble, true);
                return trouble.exit.into();
            }
            tell_refusal(&refusal, &addresses);
            if let Some(ContextValue::String(word)) = refusal.get(ContextKind::InvalidSubcommand)
                && let Some(ours) = suggest::command(word)
            {
                Term::new(term::ColorChoice::Auto)
                    .note(&format!("\nhere that is: holdpoint {ours}"));
            }
            let is_help = refusal.exit_code() == 0;
            return if is_help { Exit::Done } else { Exit::Usage }.into();
        }
    };
    let term = Term::new(cli.color);
    let json = cli.json;
    match run(cli, term) {
        Ok(exit) => exit.into(),
        Err(trouble) => {
            let trouble = addresses.hide_in(trouble);
            term.tell(&trouble, json);
            trouble.exit.into()
        }
    }
}

/// Says why nothing was understood, which repeats what was typed.
fn tell_refusal(refusal: &clap::Error, addresses: &Addresses) {
    if addresses.is_empty() {
        drop(refusal.print());
        return;
    }
    let said = addresses.hide(&refusal.render().to_string());
    Term::new(term::ColorChoice::Auto).note(said.trim_end());
}

fn run(cli: Cli, term: Term) -> Result<Exit, Trouble> {
    check_environment()?;
    app::private::mask();
    let config =
        Config::resolve(&cli.settings, &|name| env::var(name).ok(), cli.config.as_deref())?;
    if cli.dump_config {
        term.write(&config.dump())?;
        return Ok(Exit::Done);
    }
    let ctx = Ctx {
        config,
        term,
        json: cli.json,
        followed: Followed::default(),
        reads_database: AtomicBool::new(false),
        is_served: AtomicBool::new(false),
    };
    let Some(command) = cli.command else {
        term.write(&args::welcome(term.paint))?;
        return Ok(Exit::Done);
    };
    check_reach(&command, &ctx.config)?;
    check_place(&command, &ctx.config)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let ended = runtime.block_on(command.perform(&ctx));
    // Whatever still runs is safe to drop: what counts is in the journal.
    runtime.shutdown_background();
    let ended = ended.map_err(|trouble| trouble.at(&ctx.again()));
    let server = ctx.config.server.as_deref().map(masked);
    let ended = ended.map_err(|trouble| match &server {
        Some(server) => trouble.of_server(server),
        None => trouble,
    });
    ended.map_err(|trouble| if ctx.config.api_key.is_some() { trouble.with_key() } else { trouble })
}

/// A command that reaches no server must not do something else because one was named: whoever prunes over
/// there does not mean this directory. A setting that was meant for other commands stands in the way of no
/// command that leaves the data alone.
fn check_reach(command: &args::Command, config: &Config) -> Result<(), Trouble> {
    let origin = config.origin("server");
    let is_meant = match command.acts_on() {
        Acts::Server => return Ok(()),
        Acts::Store => config.server.is_some() && !names_database(config),
        Acts::Data => config.server.is_some(),
        Acts::Here => origin == Origin::Flag,
    };
    if !is_meant {
        return Ok(());
    }
    let named = match origin {
        Origin::Flag | Origin::Default => "--server",
        Origin::Env => "HOLDPOINT_SERVER",
        Origin::File => "`server` in the settings file",
    };
    let text =
        format!("{named}: this command works on this machine alone, and speaks to no server");
    let hint = if command.acts_on() == Acts::Store && config.store.is_some() {
        format!("it works on the database that `store` names; leave {named} out")
    } else {
        format!("run it where the server's data is, and name that with --data; leave {named} out")
    };
    Err(Trouble::new(Exit::Usage, text).hint(hint))
}

/// A directory that is named here and now is not passed over for a database that a variable or the settings file names: whoever
/// prunes the one does not mean the other. A directory without a store of its own only lies beside the database; but what is
/// imported is to make one there. A server takes both.
fn check_place(command: &args::Command, config: &Config) -> Result<(), Trouble> {
    let works_on_it = match command.acts_on() {
        Acts::Store => true,
        Acts::Server => config.server.is_none() && !matches!(command, args::Command::Health(_)),
        Acts::Data | Acts::Here => false,
    };
    let named = match config.origin("store") {
        Origin::Env => "HOLDPOINT_STORE",
        Origin::File => "`store` in the settings file",
        Origin::Flag | Origin::Default => return Ok(()),
    };
    if !works_on_it || config.store.is_none() || config.origin("data") != Origin::Flag {
        return Ok(());
    }
    let is_own = app::offline::has_own_store(config) && app::offline::server_here(config).is_none();
    let what = match (matches!(command, args::Command::Import(_)), is_own) {
        (true, _) => "",
        (false, true) => ", which has a store of its own",
        (false, false) => return Ok(()),
    };
    let (data, place) = (config.data.display(), app::offline::place(config));
    let text = format!(
        "--data names `{data}`{what}, and {named} names {place}: this command works on one of them"
    );
    let without = match config.origin("store") {
        Origin::Env => "run it as `env -u HOLDPOINT_STORE holdpoint …`",
        Origin::File | Origin::Flag | Origin::Default => {
            "take `store` out of the settings file, or name another with --config"
        }
    };
    let hint = format!(
        "for the directory, {without}; for the database, leave --data out, or name it with --store"
    );
    Err(Trouble::new(Exit::Usage, text).hint(hint))
}

/// Whether a database is named no less plainly than the server: a setting for other commands stands in its way no more than
/// it does in that of a flag. Both by flags is a mistake.
fn names_database(config: &Config) -> bool {
    let rank = |name| match config.origin(name) {
        Origin::Flag => 3,
        Origin::Env => 2,
        Origin::File => 1,
        Origin::Default => 0,
    };
    config.store.is_some()
        && config.origin("server") != Origin::Flag
        && rank("store") >= rank("server")
}

/// A variable that cannot be read, or is called nearly as it should be, must not silently count as unset: it may name the
/// data directory, or the keys.
fn check_environment() -> Result<(), Trouble> {
    for (name, value) in env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("HOLDPOINT_") && value.to_str().is_none() {
            return Err(Trouble::new(Exit::Usage, format!("{name}: the value is not UTF-8")));
        }
    }
    let names = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    Ok(refuse_misspelt(names)?)
}

fn quoted(text: &str) -> String {
    let safe = |char: char| char.is_ascii_alphanumeric() || "/._-:@".contains(char);
    if !text.is_empty() && text.chars().all(safe) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_printed_command_can_be_pasted() {
        assert_eq!(quoted("http://127.0.0.1:4653"), "http://127.0.0.1:4653");
        assert_eq!(quoted("my data"), "'my data'");
        assert_eq!(quoted("it's; rm"), "'it'\\''s; rm'");
    }
}
