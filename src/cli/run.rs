//! `holdpoint run`: starts a workflow, and talks with it.

use std::collections::HashMap;

use serde_json::Value;

use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::suggest;
use crate::cli::talk::{Interaction, Talk};
use crate::cli::term;
use crate::kernel::strict::{self, Misread};
use crate::wire::v1::RunWorkflowRequest;

/// Start a workflow, follow it, and answer what it asks
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  holdpoint run approve_and_send \"Invite the team to lunch on Friday\"
  holdpoint run event_planning \"Plan a party for 30 people\" --session party
  cat letter.txt | holdpoint run approve_and_send -
  holdpoint run YOURS --input-json '{\"customer\": 42}' --json  # a workflow of your own
  holdpoint run YOURS --input-json - < payout.json            # what is secret stands in no list of processes

`exit`, Ctrl-D or Ctrl-C leave it waiting; `holdpoint resume` takes it up again. Where there is no
terminal, the question, or the halt that it stands at, is printed and the command ends with exit code 4.")]
pub(super) struct Args {
    /// The workflow's name; `holdpoint workflows` lists them
    pub workflow: String,
    /// What it is given; `-` reads it from stdin
    #[arg(conflicts_with = "input_json")]
    pub text: Option<String>,
    /// What it is given, as JSON; `-` reads it from stdin, so that no secret stands in `ps` or in the shell's history
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
    let given = input.clone();
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
            let trouble = with_json(trouble, &given);
            Err(suggest::workflow(trouble, &args.workflow, &mut connection.client).await)
        }
        ended => ended,
    };
    connection.close().await;
    ended
}

fn input(args: &Args) -> Result<Value, Trouble> {
    match (&args.input_json, args.text.as_deref()) {
        (Some(text), _) if text == "-" => {
            parse_json("--input-json", &term::read_all("--input-json")?)
        }
        (Some(text), _) => parse_json("--input-json", text),
        (None, Some("-")) => Ok(Value::String(term::read_all("input")?.trim_end().to_owned())),
        (None, Some(text)) => Ok(Value::String(text.to_owned())),
        (None, None) => Err(Trouble::new(Exit::Usage, "there is nothing to give the workflow")
            .hint(format!("holdpoint run {} \"what you want\"", args.workflow))),
    }
}

/// A no to a text where the workflow takes something else, with how JSON is given if that text is some. What it says is not
/// said again: it may be secret.
fn with_json(trouble: Trouble, given: &Value) -> Trouble {
    let expected = trouble.message.strip_prefix("input: expected a value ");
    let takes_other = expected.is_some_and(|what| !what.starts_with("of type string "));
    let is_refused = trouble.code.as_deref() == Some("field.invalid") && takes_other;
    if !is_refused || !given.as_str().is_some_and(looks_like_json) {
        return trouble;
    }
    trouble.hint(
        "this was given as a text: `--input-json JSON` gives it as JSON, and `--input-json -` reads it from stdin",
    )
}

/// Whether a text was meant as JSON: it is some, or begins as an object or a list does.
fn looks_like_json(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['{', '[']) || serde_json::from_str::<Value>(text).is_ok()
}

/// JSON from a flag, or why it is none.
pub(super) fn parse_json(flag: &str, text: &str) -> Result<Value, Trouble> {
    strict::read(text.as_bytes()).map_err(|why| {
        let what = match why {
            Misread::NoJson(error) => format!("{flag}: this is not JSON: {error}"),
            Misread::Twice(place) => format!("{flag}: `{place}` is given twice; give it once"),
        };
        Trouble::new(Exit::Usage, what)
    })
}

fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        Some(_) | None => Err("write it as NAME=VALUE".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: &str, code: &str) -> Trouble {
        Trouble { code: Some(code.into()), ..Trouble::new(Exit::Refused, message) }
    }

    #[test]
    fn json_that_was_given_as_a_text_is_told_how_it_is_given_where_something_else_is_taken() {
        let object = "input: expected a value of type object that fits the input schema (no)";
        for text in ["{\"iban\": \"DE1\"}", " {iban: DE1", "[1]", "42"] {
            let hint = with_json(refused(object, "field.invalid"), &text.into()).hint.unwrap();
            assert!(hint.contains("--input-json") && !hint.contains("DE1"), "{text}: {hint}");
        }
        let hint = |message: &str, code: &str, given: Value| {
            with_json(refused(message, code), &given).hint
        };
        assert_eq!(hint(object, "field.invalid", "Pay Ada.".into()), None);
        assert_eq!(hint(object, "field.invalid", serde_json::json!({"iban": 1})), None);
        let text = "input: expected a value of type string that fits the input schema (no)";
        assert_eq!(hint(text, "field.invalid", "{}".into()), None, "a text is what it takes");
        let member = "input/iban: expected a value of type object that fits the input schema (no)";
        assert_eq!(hint(member, "field.invalid", "{}".into()), None);
        assert_eq!(hint(object, "workflow.broken", "{}".into()), None);
    }
}
