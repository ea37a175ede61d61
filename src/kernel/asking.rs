//! Asking: the question that an agent asks by `request_user_input`, or what is wrong with its call. Whom and how
//! long to ask is not the asker's to choose.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kernel::choice::Choice;
use crate::kernel::draft::Draft;
use crate::kernel::message::ToolCall;
use crate::kernel::offer::ask_offer;
use crate::kernel::question::Origin;
use crate::kernel::run::Run;
use crate::kernel::schema;
use crate::kernel::secret;
use crate::kernel::terms::Kind;
use crate::kernel::turn::Turn;
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Patience;

/// The provider of agents elsewhere: what they call `request_user_input` with is a question of theirs,
/// with its own verbs.
const RELAY: &str = "a2a";

/// The ways to say no that a question of another agent may have.
const NOES: [(&str, &str); 4] = [
    ("decision", Verb::Reject.word()),
    ("decision", Verb::Deny.word()),
    ("decision", Verb::Abort.word()),
    ("verb", Verb::Abort.word()),
];

/// Whether a turn's agent passes on what somebody elsewhere asks.
fn relays(run: &Run, turn: &Turn) -> bool {
    let agent = run.workflow.agents.get(&turn.agent);
    let model = agent.and_then(|agent| run.workflow.models.get(&agent.model));
    model.is_some_and(|model| model.provider == RELAY)
}

/// What an asker may not choose about its own question: who is asked, how long, and what may be said
/// to an approval, to which a no must always be possible (K7).
fn refuse_steering(arguments: &Value, kind: Kind, relays: bool) -> Result<(), String> {
    let schema = arguments.get("response_schema");
    let has_options = arguments.get("options").is_some();
    match kind {
        Kind::Selection if schema.is_some() => {
            Err("`response_schema` goes with a clarification; a selection has its `options`".into())
        }
        Kind::Clarification | Kind::Selection => Ok(()),
        Kind::Approval | Kind::PlanReview | Kind::ToolApproval | Kind::OutcomeCheck if relays => {
            let says_no = |schema: &Value, (field, word): &(&str, &str)| {
                schema::check(schema, &serde_json::json!({ *field: word })).is_ok()
            };
            match schema {
                Some(schema) if !NOES.iter().any(|no| says_no(schema, no)) => {
                    Err("`response_schema`: an approval must take a plain no".into())
                }
                Some(_) | None => Ok(()),
            }
        }
        Kind::Approval | Kind::PlanReview | Kind::ToolApproval | Kind::OutcomeCheck => {
            if schema.is_some() {
                return Err(
                    "`response_schema` goes with a clarification; an approval is answered \
                            with yes or no, and a note"
                        .into(),
                );
            }
            if has_options {
                return Err("`options` go with a selection; an approval is answered with yes or \
                            no, and a note"
                    .into());
            }
            Ok(())
        }
    }
}

/// The question that a `request_user_input` call asks, or what is wrong with the call.
pub(super) fn by_call(
    run: &Run,
    turn: &Turn,
    call: &ToolCall,
    patience: Patience,
) -> Result<Draft, String> {
    let arguments = &call.arguments;
    let offered = ask_offer(&run.workflow).parameters;
    let unknown = |name: &&String| offered["properties"].get(name.as_str()).is_none();
    if let Some(name) = arguments.as_object().and_then(|given| given.keys().find(unknown)) {
        return Err(format!(
            "there is no argument `{name}`; whom and how long to ask is not yours"
        ));
    }
    schema::check(&offered, arguments)
        .map_err(|mismatch| format!("arguments at `{}`: {mismatch}", mismatch.at))?;
    let word = arguments.get("request_type").and_then(Value::as_str).unwrap_or("clarification");
    let of_file = run.workflow.request_types.get(word).map(|known| known.kind);
    let kind = of_file.or_else(|| Kind::parse(word)).ok_or("no such request_type")?;
    let (named, own) = run.workflow.named(Some(word));
    if own.is_some() && arguments.get("response_schema").is_some() {
        return Err(format!("`{word}` has a schema of its own; leave `response_schema` out"));
    }
    let options = match arguments.get("options").and_then(Value::as_array) {
        Some(options) => options.iter().map(choice).collect::<Vec<_>>(),
        None => Vec::new(),
    };
    if kind == Kind::Selection && options.is_empty() && own.is_none() {
        return Err("a selection needs `options`".into());
    }
    refuse_steering(arguments, kind, relays(run, turn))?;
    let ids: BTreeSet<_> = options.iter().map(|option| &option.id).collect();
    if ids.len() < options.len() {
        return Err("every one of the `options` needs an id of its own".into());
    }
    if let Some(schema) = arguments.get("response_schema")
        && let Err(wrong) = schema::check_schema(schema)
    {
        return Err(format!("`response_schema` is no JSON Schema: {wrong}"));
    }
    if let Some(wrong) = arguments.get("response_schema").and_then(secret::misspelled) {
        return Err(format!("`response_schema`: {wrong}"));
    }
    if let Some((_, wrong)) = arguments.get("response_schema").and_then(secret::unfollowed) {
        return Err(format!("`response_schema`: {wrong}"));
    }
    let text = |field: &str| arguments.get(field).and_then(Value::as_str).unwrap_or_default();
    Ok(Draft {
        step: turn.step.clone(),
        agent: Some(turn.agent.clone()),
        turn: Some(turn.number),
        origin: Origin::ToolCall(call.id.clone()),
        kind,
        prompt: text("prompt").to_owned(),
        context: arguments.get("context").cloned().unwrap_or_default(),
        options,
        schema: arguments.get("response_schema").cloned().or(own),
        patience,
        subject: None,
        decides: false,
        returns: false,
        editable: None,
        named,
    })
}

fn choice(option: &Value) -> Choice {
    let field =
        |name: &str| option.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    match option.as_str() {
        Some(id) => Choice { id: id.to_owned(), label: String::new(), description: String::new() },
        None => {
            Choice { id: field("id"), label: field("label"), description: field("description") }
        }
    }
}
