//! `holdpoint keys`: who may speak to a server.

use serde_json::json;

use crate::app::keys::Keys;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::{line, table};
use crate::kernel::Role;

/// Make, list and remove the API keys of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint keys add laptop
  holdpoint keys add ops --role admin --json | jq -r .secret
  holdpoint keys list
  holdpoint keys remove laptop

Only hashes are kept, in the file that --keys names, else in keys.toml in the data directory.
A key goes with each call as `authorization: Bearer <key>`; commands take it from HOLDPOINT_API_KEY.
A running server takes changes within two seconds, for streams that are open, too.")]
pub(super) struct Args {
    #[command(subcommand)]
    pub action: Action,
}

/// What to do with keys.
#[derive(Debug, clap::Subcommand)]
pub(super) enum Action {
    /// Make a key, and print its secret, once
    Add {
        /// Whose it is: the name under which sessions are owned and answers are kept
        name: String,
        /// What it may do: `user` sees its own sessions, `admin` sees all
        #[arg(long, value_name = "ROLE", default_value = "user", value_parser = role)]
        role: Role,
    },
    /// List the keys, without their secrets
    List,
    /// Remove a key
    Remove {
        /// Whose it is
        name: String,
    },
}

/// Does it.
pub(super) fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let path = ctx.config.keys_path();
    match args.action {
        Action::Add { name, role } => {
            let created = jiff::Timestamp::now().round(jiff::Unit::Second).unwrap_or_default();
            let secret = Keys::add(&path, &name, role, &created.to_string())?;
            added(ctx, &name, role, &secret)?;
        }
        Action::List => {
            let keys = if path.exists() { Keys::load(&path)? } else { Keys::default() };
            list(ctx, &keys)?;
        }
        Action::Remove { name } => {
            Keys::remove(&path, &name)?;
            let text = if ctx.json {
                json!({"removed": name}).to_string()
            } else {
                format!(
                    "the key `{name}` is removed; a running server refuses it within two seconds"
                )
            };
            ctx.term.line(&text)?;
        }
    }
    Ok(Exit::Done)
}

/// The secret alone goes to stdout, so that it can be piped; the rest is for eyes.
fn added(ctx: &Ctx, name: &str, role: Role, secret: &str) -> Result<(), Trouble> {
    if ctx.json {
        let shown = json!({"name": name, "role": word(role), "secret": secret});
        return ctx.term.line(&shown.to_string());
    }
    ctx.term.note(&format!("the key of `{name}` ({}), shown this once:", word(role)));
    ctx.term.line(secret)?;
    ctx.term.note("use it with: export HOLDPOINT_API_KEY=…");
    Ok(())
}

fn list(ctx: &Ctx, keys: &Keys) -> Result<(), Trouble> {
    if ctx.json {
        let all = keys
            .list()
            .iter()
            .map(|key| json!({"name": key.name, "role": word(key.role), "created": key.created}));
        return ctx.term.line(&json!({"keys": all.collect::<Vec<_>>()}).to_string());
    }
    if keys.list().is_empty() {
        return ctx.term.line("there are no keys; `holdpoint keys add NAME` makes one");
    }
    let mut rows = vec![["NAME", "ROLE", "CREATED"].map(str::to_owned).to_vec()];
    rows.extend(
        keys.list().iter().map(|key| {
            vec![line(&key.name, 64), word(key.role).to_owned(), line(&key.created, 32)]
        }),
    );
    ctx.term.write(&table(ctx.term.paint, &rows))
}

fn word(role: Role) -> &'static str {
    match role {
        Role::User => "user",
        Role::Admin => "admin",
    }
}

fn role(text: &str) -> Result<Role, String> {
    [Role::User, Role::Admin]
        .into_iter()
        .find(|role| word(*role) == text)
        .ok_or_else(|| "user or admin".into())
}
