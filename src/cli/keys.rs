//! `holdpoint keys`: who may speak to a server, as whom, and for what.

use serde_json::{Value, json};

use crate::app::keyring;
use crate::app::keys::{Key, KeyKind, Keys, NewKey};
use crate::app::moving::Stranded;
use crate::app::offline::unknown_workflows;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::term::line;
use crate::kernel::{Role, Roles, duration_ms};

/// Make, list and remove the API keys of a server
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint keys add ada
  holdpoint keys add adas-phone --person ada --role approver
  holdpoint keys list
  holdpoint keys remove ada

Only hashes are kept: in the file that --keys names; else in the database, where --store names one, for all servers
over it; else in keys.toml in the data directory.
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
    #[command(after_help = "Examples:
  holdpoint keys add ada                                     # Ada's own: starts, answers, sees what is hers
  holdpoint keys add adas-phone --person ada --role approver # the same Ada, with one vote in all
  holdpoint keys add helpdesk --kind service --workflow tickets --expires 90d
  holdpoint keys add ops --role operator --json | jq -r .secret
  holdpoint keys add checker --role auditor --expires 2027-01-01

Roles: user      looks at, starts, cancels, forks and signals what is its own; answers what it is asked
       viewer    reads what it may see
       starter   starts runs, and goes on with its own sessions
       approver  answers what it is asked
       operator  cancels, forks, signals and revokes; sees everything
       auditor   sees everything, and changes nothing
       admin     keys and policy; sees everything, and may decide nothing by that

A service's key says for whom it speaks with `x-holdpoint-on-behalf-of: ada`. Alone it decides nothing.")]
    Add(Add),
    /// List the keys, without their secrets
    #[command(after_help = "Examples:
  holdpoint keys list
  holdpoint keys list --json | jq -r .name")]
    List,
    /// Remove a key; whose it was is remembered
    #[command(after_help = "Examples:
  holdpoint keys remove adas-phone

A running server refuses it within two seconds. Once keys were asked for, they always are: where the last one is gone
nobody is let in, and `holdpoint serve` does not start before there is another (`holdpoint keys add`).")]
    Remove {
        /// What it is called
        name: String,
    },
}

/// The terms of a new key.
#[derive(Debug, clap::Args)]
pub(super) struct Add {
    /// What it is called; without --person also whose it is
    pub name: String,
    /// Whose it is: the name under which sessions are owned and answers are kept
    #[arg(long, value_name = "WHO")]
    pub person: Option<String>,
    /// In whose hand it is: `person` or `service`
    #[arg(long, value_name = "KIND", default_value = "person", value_parser = kind)]
    pub kind: KeyKind,
    /// What it is good for; may be given several times (default: user)
    #[arg(long = "role", value_name = "ROLE", value_parser = role)]
    pub roles: Vec<Role>,
    /// Confine it to this workflow; may be given several times (default: all)
    #[arg(long = "workflow", value_name = "NAME")]
    pub confined_to: Vec<String>,
    /// When it is good no more: `90d`, `2027-01-01` (UTC) or `2027-01-01T12:00:00Z` (default: never)
    #[arg(long, value_name = "WHEN")]
    pub expires: Option<String>,
    /// It is the same person who had a key before
    #[arg(long)]
    pub again: bool,
}

/// Does it.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let now = keyring::time(&ctx.config).await?;
    let now = jiff::Timestamp::from_millisecond(i64::try_from(now.0).unwrap_or(i64::MAX))
        // To the moment: what somebody said with a key that is gone is known from what they say with the next one.
        .and_then(|now| now.round(jiff::Unit::Millisecond))
        .unwrap_or_default();
    match args.action {
        Action::Add(wish) => {
            let roles: Roles = wish.roles.iter().copied().collect();
            let expires = wish.expires.as_deref().map(|text| when(text, now)).transpose()?;
            let key = NewKey {
                name: wish.name,
                person: wish.person,
                kind: wish.kind,
                roles: if roles.is_empty() { Role::User.into() } else { roles },
                workflows: wish.confined_to,
                expires: expires.map(|at| at.to_string()),
                again: wish.again,
            };
            let people = ctx.config.people.keys().cloned().collect();
            let now = now.to_string();
            let (secret, stranded) = keyring::add(&ctx.config, &key, &people, &now).await?;
            added(ctx, &key, &secret, stranded.as_ref())?;
        }
        Action::List => {
            list(ctx, &keyring::list(&ctx.config).await?, now)?;
            if let Some(place) = keyring::left_for(&ctx.config) {
                ctx.term.note(&format!(
                    "these count no more: the store is in the database at {}, and its keys with it; --store or \
                     HOLDPOINT_STORE has them",
                    line(&place, 400)
                ));
            }
        }
        Action::Remove { name } => {
            keyring::remove(&ctx.config, &name, &now.to_string()).await?;
            let text = if ctx.json {
                json!({"removed": name, "store": keyring::bare_place(&ctx.config)}).to_string()
            } else {
                format!(
                    "the key `{name}` is removed from {}; a running server refuses it within two seconds",
                    keyring::place(&ctx.config)
                )
            };
            ctx.term.line(&text)?;
        }
    }
    Ok(Exit::Done)
}

/// The secret alone goes to stdout, so that it can be piped; the rest is for eyes.
fn added(
    ctx: &Ctx,
    key: &NewKey,
    secret: &str,
    stranded: Option<&Stranded>,
) -> Result<(), Trouble> {
    let person = key.person.as_deref().unwrap_or(&key.name);
    if ctx.json {
        let mut shown = json!({
            "name": key.name, "person": person, "kind": key.kind.word(), "roles": key.roles,
            "workflows": key.workflows, "expires": key.expires, "secret": secret,
            "store": keyring::bare_place(&ctx.config),
        });
        if let Some(waits) = stranded {
            shown["waits_for_local"] = json!({"count": waits.count, "requests": waits.requests});
        }
        return ctx.term.line(&shown.to_string());
    }
    let whose = match key.kind {
        KeyKind::Person if person == key.name => format!("the key of `{person}`"),
        KeyKind::Person => format!("the key `{}` of `{person}`", key.name),
        KeyKind::Service => format!("the key of the service `{person}`"),
    };
    let place = keyring::place(&ctx.config);
    ctx.term.note(&format!("{whose} ({}) in {place}, shown this once:", key.roles.words()));
    ctx.term.line(secret)?;
    ctx.term.note("use it with: export HOLDPOINT_API_KEY=…");
    for name in unknown_workflows(&ctx.config, &key.workflows) {
        ctx.term.note(&format!(
            "it is confined to `{}`, and no workflow here has that name",
            line(name, 64)
        ));
    }
    if let Some(waits) = stranded.and_then(Stranded::told) {
        ctx.term.note(&waits);
    }
    Ok(())
}

fn list(ctx: &Ctx, keys: &Keys, now: jiff::Timestamp) -> Result<(), Trouble> {
    if ctx.json {
        let all: Vec<Value> = keys.list().iter().map(in_json).collect();
        return ctx.term.line(&json!({"keys": all}).to_string());
    }
    if keys.list().is_empty() {
        return ctx.term.line("there are no keys; `holdpoint keys add NAME` makes one");
    }
    let head = ["NAME", "PERSON", "KIND", "ROLES", "WORKFLOWS", "EXPIRES", "CREATED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(keys.list().iter().map(|key| {
        let person = match key.kind {
            KeyKind::Person => line(key.identity(), 64),
            KeyKind::Service => "-".into(),
        };
        let workflows = match key.workflows.as_slice() {
            [] => "all".into(),
            some => line(&some.join(","), 64),
        };
        vec![
            line(&key.name, 64),
            person,
            key.kind.word().to_owned(),
            key.roles.words(),
            workflows,
            ends(key, now),
            line(&key.created, 32),
        ]
    }));
    ctx.term.write(&ctx.term.table(&rows, &[6, 5]))
}

fn in_json(key: &Key) -> Value {
    let person = (key.kind == KeyKind::Person).then(|| key.identity());
    json!({
        "name": key.name, "person": person, "kind": key.kind.word(), "roles": key.roles,
        "workflows": key.workflows, "expires": key.expires, "created": key.created,
    })
}

/// When a key is good no more, and whether it is so already.
fn ends(key: &Key, now: jiff::Timestamp) -> String {
    let Some(text) = &key.expires else { return "never".into() };
    let is_over = text.parse::<jiff::Timestamp>().is_ok_and(|at| at <= now);
    let text = line(text, 32);
    if is_over { format!("{text} (over)") } else { text }
}

fn kind(text: &str) -> Result<KeyKind, String> {
    KeyKind::parse(text).ok_or_else(|| "person or service".into())
}

fn role(text: &str) -> Result<Role, String> {
    Role::parse(text).ok_or_else(|| Role::ALL.map(Role::word).join(", "))
}

/// A point in time that has not come yet, as people write it.
fn when(text: &str, now: jiff::Timestamp) -> Result<jiff::Timestamp, Trouble> {
    let wrong = |why: &str| Trouble::new(Exit::Usage, format!("expires: `{text}` {why}"));
    let later = |ms: u64| {
        let ms = i64::try_from(ms).ok()?;
        now.checked_add(jiff::SignedDuration::from_millis(ms)).ok()
    };
    let day = || {
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
    };
    let at = match duration_ms(text) {
        Some(ms) => later(ms),
        None => text.parse().ok().or_else(day),
    };
    let remedy = "is no time: say `90d`, `2027-01-01` or `2027-01-01T12:00:00Z`";
    let at = at.ok_or_else(|| wrong(remedy))?;
    if at <= now { Err(wrong("is over; say a time that is to come")) } else { Ok(at) }
}
