//! `holdpoint signal`: brings an external event to a run that waits for it, or will.

use serde_json::{Value, json as literal};

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json;
use crate::cli::term::line;
use crate::wire::v1::SignalRunRequest;

/// Bring an external event to a run that waits for it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint signal run_01k9zq… onboarding_complete
  holdpoint signal run_01k9zq… payment '{\"amount\": 120}'

An event that comes before the run waits for it is kept. One that the workflow never waits for is
refused.")]
pub(super) struct Args {
    /// The run
    #[arg(value_name = "RUN")]
    pub run: String,
    /// The event's name
    #[arg(value_name = "NAME")]
    pub name: String,
    /// What comes with it: JSON, or else plain text, which begins with none of `{`, `[` and `"`
    #[arg(value_name = "PAYLOAD")]
    pub payload: Option<String>,
    /// An idempotency key: the same command with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Signals.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let payload = args.payload.as_deref().map(read).transpose()?.map(Into::into);
    let mut connection = ctx.connect_to_existing().await?;
    let request = SignalRunRequest {
        run_id: args.run.clone(),
        name: args.name.clone(),
        payload,
        idempotency_key: args.key.unwrap_or_default(),
    };
    let answered = connection.client.signal_run(request).await;
    connection.close().await;
    let run = answered?.into_inner().run.unwrap_or_default();
    if ctx.json {
        ctx.term.line(&literal!({"run": json::of(&run)}).to_string())?;
    } else {
        ctx.term.line(&line(&format!("{} was brought to {}", args.name, args.run), 200))?;
    }
    Ok(Exit::Done)
}

/// What comes with an event. A text that begins like JSON and is none was meant to be: an event cannot be taken back.
fn read(text: &str) -> Result<Value, Trouble> {
    match serde_json::from_str(text) {
        Ok(value) => Ok(value),
        Err(error) if text.trim_start().starts_with(['{', '[', '"']) => {
            let hint = "for a text that begins so, write it as JSON: '\"{like this}\"'";
            Err(Trouble::new(Exit::Usage, format!("PAYLOAD is no JSON: {error}")).hint(hint))
        }
        Err(_) => Ok(Value::String(text.to_owned())),
    }
}
