//! `holdpoint run`: starts a workflow, and talks with it.

use std::collections::HashMap;

use serde_json::Value;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::suggest;
use crate::cli::talk::{Interaction, Talk};
use crate::cli::term;
use crate::wire::v1::RunWorkflowRequest;

/// Start a workflow, follow it, and answer what it asks
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint run approve_and_send \"Invite the team to lunch on Friday\"
  holdpoint run event_planning \"Plan a party for 30 people\" --session party
  holdpoint run intake --input-json '{\"customer\": 42}' --json
  cat letter.txt | holdpoint run summarise -

`exit`, Ctrl-D or Ctrl-C leave it waiting; `holdpoint resume` takes it up again. Where there is no
terminal, the question, or the halt that it stands at, is printed and the command ends with exit code 4.")]
pub(super) struct Args {
    /// The workflow's name; `holdpoint workflows` lists them
    pub workflow: String,
    /// What it is given; `-` reads it from stdin
    #[arg(conflicts_with = "input_json")]
    pub text: Option<String>,
    /// What it is given, as JSON
    #[arg(long, value_name = "JSON")]
    pub input_json: Option<String>,
    /// The session to run it in; a new one if left out
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,
    /// An idempotency key: the same command with the same key again shows the same run
    #[arg(long, value_name = "KEY")]
    pub key: Option<String>,
    /// Something to find the run by, as NAME=VALUE; may be repeated
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub meta: Vec<(String, String)>,
    /// A gate that the run brings beside its file's, as JSON; may be repeated. It can only add: docs/policy.md
    #[arg(long, value_name = "JSON")]
    pub gate: Vec<String>,
    #[command(flatten)]
    pub interaction: Interaction,
}

/// Runs the workflow.
pub(super) async fn perform(args: Args, ctx: &Ctx) -> Result<Exit, Trouble> {
    let input = input(&args)?;
    let gates = args.gate.iter().map(|text| parse_json("--gate", text).map(Into::into));
    let gates = gates.collect::<Result<Vec<_>, Trouble>>()?;
    let mut connection = ctx.connect().await?;
    let request = RunWorkflowRequest {
        workflow_id: args.workflow.clone(),
        session_id: args.session.unwrap_or_default(),
        input: Some(input.into()),
        idempotency_key: args.key.clone().unwrap_or_default(),
        metadata: args.meta.into_iter().collect::<HashMap<_, _>>(),
        gates,
    };
    let talk = async {
        let begun = connection.client.run_workflow(request).await;
        let unheard = |status| Trouble::from(status).may_have_begun(args.key.is_some());
        let stream = begun.map_err(unheard)?.into_inner();
        Talk::new(ctx, &mut connection.client, args.interaction).follow(stream).await
    };
    let ended = match talk.await {
        Err(trouble) => {
            Err(suggest::workflow(trouble, &args.workflow, &mut connection.client).await)
        }
        ended => ended,
    };
    connection.close().await;
    ended
}

fn input(args: &Args) -> Result<Value, Trouble> {
    match (&args.input_json, args.text.as_deref()) {
        (Some(text), _) => parse_json("--input-json", text),
        (None, Some("-")) => Ok(Value::String(term::read_all()?.trim_end().to_owned())),
        (None, Some(text)) => Ok(Value::String(text.to_owned())),
        (None, None) => Err(Trouble::new(Exit::Usage, "there is nothing to give the workflow")
            .hint(format!("holdpoint run {} \"what you want\"", args.workflow))),
    }
}

/// JSON from a flag, or why it is none.
pub(super) fn parse_json(flag: &str, text: &str) -> Result<Value, Trouble> {
    serde_json::from_str(text)
        .map_err(|error| Trouble::new(Exit::Usage, format!("{flag}: this is not JSON: {error}")))
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".into()),
    }
}
