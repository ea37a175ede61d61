//! `holdpoint respond`: answers one question, from a script or from another machine.

use std::collections::HashMap;

use serde_json::Value;

use crate::app::Client;
use crate::cli::Ctx;
use crate::cli::answer::{self, Meaning};
use crate::cli::exit::{Exit, Trouble};
use crate::cli::run::parse_json;
use crate::cli::talk::{Interaction, Talk};
use crate::kernel::RequestId;
use crate::wire::v1::{GetRunRequest, Request, SendResponsesRequest};

/// Answer a question, and follow what comes of it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint respond req_01k9zq…-1 \"Pier 66\"
  holdpoint respond req_01k9zq…-2 yes
  holdpoint respond req_01k9zq…-2 no --note \"too expensive\"
  holdpoint respond req_01k9zq…-3 --json-value '{\"guests\": 30}' --json

An option may be given by number, an approval as yes or no. Whatever is not clearly a yes is refused.")]
pub(super) struct Args {
    /// The question; `holdpoint inbox` lists the open ones
    pub request_id: String,
    /// What you say
    #[arg(required_unless_present = "json_value", conflicts_with = "json_value")]
    pub answer: Option<String>,
    /// What you say, as JSON
    #[arg(long, value_name = "JSON")]
    pub json_value: Option<String>,
    /// Why, with a yes or a no
    #[arg(long, value_name = "TEXT", conflicts_with = "json_value")]
    pub note: Option<String>,
    /// The digest of what you were shown: refused if something else is asked by now
    #[arg(long, value_name = "DIGEST")]
    pub digest: Option<String>,
    /// An idempotency key: the same answer with the same key again changes nothing
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
}

/// Answers.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let id = RequestId::parse(&args.request_id).map_err(|error| {
        Trouble::new(Exit::Usage, error.to_string()).hint("`holdpoint inbox` shows what is open")
    })?;
    let mut connection = ctx.connect().await?;
    let ended = answer(args, id, ctx, &mut connection.client).await;
    connection.close().await;
    ended
}

async fn answer(
    args: Args,
    id: RequestId,
    ctx: &Ctx,
    client: &mut Client,
) -> Result<Exit, Trouble> {
    let value = if let Some(text) = &args.json_value {
        parse_json("--json-value", text)?
    } else {
        let asked = asked(&id, &args.request_id, client).await?;
        meant(&args, asked.as_ref())?
    };
    let digests = args.digest.map(|digest| (args.request_id.clone(), digest));
    let request = SendResponsesRequest {
        session_id: String::new(),
        run_id: String::new(),
        responses: HashMap::from([(args.request_id, value.into())]),
        idempotency_key: args.key.unwrap_or_default(),
        digests: digests.into_iter().collect(),
    };
    let stream = client.send_responses(request).await?.into_inner();
    let quiet = Interaction { interactive: false, no_input: true };
    Talk::new(ctx, client, quiet).follow(stream).await
}

/// The question as it is open now; nothing if it is not, which the server knows how to say best.
async fn asked(
    id: &RequestId,
    name: &str,
    client: &mut Client,
) -> Result<Option<Request>, Trouble> {
    let request = GetRunRequest { run_id: id.run.as_str().into(), omit_conversation: true };
    let waiting = match client.get_run(request).await {
        Ok(found) => found.into_inner().run.and_then(|run| run.workflow_waiting),
        Err(status) if status.code() == tonic::Code::NotFound => None,
        Err(status) => return Err(status.into()),
    };
    let open = waiting.into_iter().flat_map(|waiting| waiting.requests);
    Ok(open.into_iter().find(|request| request.request_id == name))
}

fn meant(args: &Args, asked: Option<&Request>) -> Result<Value, Trouble> {
    let text = args.answer.as_deref().unwrap_or_default();
    let note = args.note.as_deref().unwrap_or_default();
    let Some(request) = asked else { return Ok(Value::String(text.into())) };
    match answer::read(request, text) {
        Meaning::Value(value) if value == answer::approve("") => Ok(answer::approve(note)),
        Meaning::Reasoned(word) if !note.is_empty() => Ok(answer::decided(&word, note)),
        Meaning::Reasoned(word) => {
            Err(Trouble::new(Exit::Usage, format!("`{word}` needs what should be different"))
                .hint("--note TEXT says so"))
        }
        Meaning::Reject => Ok(answer::reject(note)),
        Meaning::Deny => Ok(answer::deny(note)),
        Meaning::Value(_) | Meaning::Happened if !note.is_empty() => {
            Err(Trouble::new(Exit::Usage, "--note goes with a yes or a no"))
        }
        Meaning::Value(value) => Ok(value),
        Meaning::Happened => Err(Trouble::new(Exit::Usage, "`happened` needs what came of it")
            .hint("--json-value '{\"verb\": \"happened\", \"result\": …}'")),
        Meaning::Unclear(why) => Err(Trouble::new(Exit::Refused, why)),
    }
}
