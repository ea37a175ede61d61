//! Reading: what the body of a call wants: new work with an input, or answers to what was asked.
//!
//! Callers that keep the conversation themselves send all of it every time. What counts then is what
//! comes after the last thing that we said: everything before it is known here already.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use serde_json::{Value, json};

use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::{apology, item};
use crate::api::is_like_digest;
use crate::kernel::strict::{self, Misread};
use crate::kernel::{RunId, Verb};

/// Items of one input: a conversation sent whole, not a file system.
const ITEMS_MAX: usize = 10_000;

/// What stands between two messages that are said in one.
pub(super) const BETWEEN: &str = "\n\n";

/// Answers by request id, each with the digest of what was shown, if it came along.
pub(super) type Answers = Vec<(String, Value, Option<String>)>;

/// What a call says.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Said {
    /// Something for a workflow to begin with, or the answer to the one thing it asks.
    Input(Value),
    /// Answers by request id.
    Answers(Answers),
}

impl Said {
    /// What it says, to tell one call from another.
    pub(super) fn told(&self) -> Value {
        match self {
            Self::Input(input) => input.clone(),
            Self::Answers(answers) => {
                answers.iter().map(|(id, value, _)| json!([id, value])).collect()
            }
        }
    }
}

/// A text of the body, if it is there. Something else in its place was meant for something: it is not passed over (K7).
pub(super) fn text<'a>(body: &'a Value, name: &str) -> Outcome<Option<&'a str>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(Problem::invalid(name, "expected a text")),
    }
}

/// The workflow that a body names: DevUI's clients as an entity, others as the model.
pub(super) fn workflow(body: &Value) -> Outcome<&str> {
    let name = entity(body).or_else(|| body.get("model").and_then(Value::as_str));
    name.filter(|name| !name.is_empty()).ok_or_else(|| {
        Problem::invalid("model", "expected a workflow's name; `GET /v1/models` lists them")
    })
}

/// The entity that a body of DevUI's names.
pub(super) fn entity(body: &Value) -> Option<&str> {
    let named =
        body.pointer("/metadata/entity_id").or_else(|| body.pointer("/extra_body/entity_id"));
    named.and_then(Value::as_str)
}

/// What some of OpenAI's clients want before the id of a conversation: they take no other. Ids that callers
/// chose themselves are left as they are.
pub(super) const CONVERSATION: &str = "conv_";
const OURS: &str = "ses_";

/// The session that a caller means: `conv_ses_…` is `ses_…`.
pub(super) fn session(named: &str) -> String {
    let bare = named.strip_prefix(CONVERSATION).filter(|bare| bare.starts_with(OURS));
    bare.unwrap_or(named).to_owned()
}

/// A session's id as OpenAI's clients take it.
pub(super) fn conversation_id(session: &str) -> String {
    let prefix = if session.starts_with(OURS) { CONVERSATION } else { "" };
    format!("{prefix}{session}")
}

/// The id of the session that a body names: by its id, or as an object with one.
pub(super) fn conversation(body: &Value) -> Outcome<Option<String>> {
    let named = match body.get("conversation") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(id)) => Some(id.as_str()),
        Some(other) => other.get("id").and_then(Value::as_str),
    };
    let remedy = "expected a conversation's id, or an object with its `id`";
    let named = named.ok_or_else(|| Problem::invalid("conversation", remedy))?;
    Ok(Some(session(named)))
}

/// What a caller asks for that a workflow does not take from it: refused by name, not passed over.
pub(super) fn refuse_unheard(body: &Value) -> Outcome<()> {
    let is_there = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::Object(_) => true,
    };
    for (field, remedy) in [
        (
            "instructions",
            "a workflow's agents have their own; put it into the file, or say it in `input`",
        ),
        ("prompt", "a workflow has its own prompts; put it into the file, or say it in `input`"),
    ] {
        if body.get(field).is_some_and(is_there) {
            return Err(Problem::invalid(field, remedy));
        }
    }
    let tools = body.get("tools").unwrap_or(&Value::Null);
    if is_there(tools) && !is_our_function(tools) {
        let remedy = "a workflow has its own tools; name them in the file. Only the function \
                      `request_info` may be declared, by clients that take no call of anything else";
        return Err(Problem::invalid("tools", remedy));
    }
    let format = body.pointer("/text/format/type").and_then(Value::as_str).unwrap_or("text");
    if format != "text" {
        let remedy = "the shape of a result is the file's (`output:` of an agent); leave this out";
        return Err(Problem::invalid("text.format", remedy));
    }
    Ok(())
}

/// Whether the tools that a client declares are the one function that a pause calls.
fn is_our_function(tools: &Value) -> bool {
    let is_it = |tool: &Value| {
        let name = tool.get("name").or_else(|| tool.pointer("/function/name"));
        tool["type"] == "function" && name.is_some_and(|name| name == item::REQUEST_INFO)
    };
    tools.as_array().is_some_and(|tools| tools.iter().all(is_it))
}

/// The checkpoint that a call goes on from.
pub(super) fn checkpoint(body: &Value) -> Outcome<Option<&str>> {
    let aside = body.get("extra_body").filter(|aside| aside.get("checkpoint_id").is_some());
    Ok(text(aside.unwrap_or(body), "checkpoint_id")?.filter(|id| !id.is_empty()))
}

/// What the items that a caller sends of a conversation tell of where it was had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum History {
    /// Nothing in it is ours.
    None,
    /// The newest thing of ours is of this run.
    Of(RunId),
    /// Something was said by an assistant, and nothing tells where.
    Unknown,
}

/// Where the conversation was had of which a caller sends everything.
pub(super) fn history(body: &Value) -> History {
    let items = body.get("input").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let named = |item: &Value| {
        let ids = ["id", "call_id", "approval_request_id"].map(|field| item[field].as_str());
        ids.into_iter().flatten().find_map(run_in)
    };
    if let Some(run) = items.iter().rev().find_map(named) {
        return History::Of(run);
    }
    let is_ours = |item: &Value| item["role"] == "assistant" || kind(item) == "function_call";
    if items.iter().any(is_ours) { History::Unknown } else { History::None }
}

/// What the caller's own messages say, oldest first.
pub(super) fn spoken(body: &Value) -> Vec<String> {
    let items = body.get("input").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let own = items.iter().filter(|item| item["role"] == "user");
    own.filter_map(|item| content(&item["content"], "input").ok()?.1).collect()
}

/// The run in an id of ours: `msg_…-0001`, `fc_…-000007-1`, `req_…-0001-80x5jdy6`.
fn run_in(id: &str) -> Option<RunId> {
    let (_, rest) = id.split_once('_')?;
    let stem = rest.split('-').next()?;
    RunId::parse(&format!("run_{stem}")).ok()
}

/// What the caller wants to find again. Values that are no texts are kept as JSON.
pub(super) fn metadata(body: &Value) -> Outcome<BTreeMap<String, String>> {
    let given = match body.get("metadata") {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(Value::Object(given)) => given,
        Some(_) => return Err(Problem::invalid("metadata", "expected an object of texts")),
    };
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(given.iter().map(|(name, value)| (name.clone(), text(value))).collect())
}

/// A yes or no of the body; no where it does not say.
pub(super) fn flag(body: &Value, name: &str) -> Outcome<Option<bool>> {
    match body.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(_) => Err(Problem::invalid(name, "expected `true` or `false`")),
    }
}

/// What a body says, with the digests of what was shown that it gives beside its answers.
pub(super) fn said(body: &Value) -> Outcome<Said> {
    let mut said = bare_said(body)?;
    match &mut said {
        Said::Answers(answers) => with_digests(answers, body)?,
        // Words are told by their code, and name no digest.
        Said::Input(_) => with_digests(&mut Vec::new(), body)?,
    }
    Ok(said)
}

/// Adds the digests of what was shown, by request id, where each answer has none of its own.
pub(super) fn with_digests(answers: &mut Answers, body: &Value) -> Outcome<()> {
    let fields = body.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "digests" && is_like_digest(name)) {
        if !value.is_null() {
            let remedy = "expected `digests`, an object of digests by request id";
            return Err(Problem::invalid(name, remedy));
        }
    }
    add_digests(answers, body)
}

/// The same, where an answer may have its own. One that belongs to no answer, or is not the one beside it, was meant
/// for something: it is never passed over (K7).
pub(super) fn add_digests(answers: &mut Answers, body: &Value) -> Outcome<()> {
    let given = match body.pointer("/extra_body/digests").or_else(|| body.get("digests")) {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(given)) => given,
        Some(_) => {
            let remedy = "expected an object of digests by request id";
            return Err(Problem::invalid("digests", remedy));
        }
    };
    for (id, shown) in given {
        let place = format!("digests.{}", id.chars().take(80).collect::<String>());
        let Some(shown) = shown.as_str() else {
            return Err(Problem::invalid(&place, "expected the digest of what was shown"));
        };
        let Some((_, _, digest)) = answers.iter_mut().find(|(answered, ..)| answered == id) else {
            let remedy = "no answer in this call is to that request; answer it by its id";
            return Err(Problem::invalid(&place, remedy));
        };
        if digest.as_deref().is_some_and(|other| other != shown) {
            return Err(Problem::invalid(&place, "another digest stands beside the answer itself"));
        }
        *digest = Some(shown.to_owned());
    }
    Ok(())
}

/// What a body says. DevUI's page sends its list of items as a text.
fn bare_said(body: &Value) -> Outcome<Said> {
    let missing = || Problem::invalid("input", "expected a text, or a list of input items");
    match body.get("input").ok_or_else(missing)? {
        Value::String(text) if entity(body).is_some() => match unpacked(text)? {
            Some(items) => of_items(&items),
            None => Ok(Said::Input(json!(text))),
        },
        Value::String(text) => Ok(Said::Input(json!(text))),
        Value::Array(items) => of_items(items),
        // A workflow with an input schema of its own is given what it wants.
        Value::Object(fields) => Ok(Said::Input(Value::Object(fields.clone()))),
        Value::Null | Value::Bool(_) | Value::Number(_) => Err(missing()),
    }
}

fn unpacked(text: &str) -> Outcome<Option<Vec<Value>>> {
    if !text.trim_start().starts_with('[') {
        return Ok(None);
    }
    let items = match strict::read(text.as_bytes()) {
        Ok(Value::Array(items)) => items,
        Err(Misread::Twice(place)) => {
            return Err(Problem::misread("input", Misread::Twice(format!("input.{place}"))));
        }
        Ok(_) | Err(Misread::NoJson(_)) => return Ok(None),
    };
    let is_item = |item: &Value| item.get("type").is_some_and(Value::is_string);
    Ok(items.iter().all(is_item).then_some(items))
}

fn of_items(items: &[Value]) -> Outcome<Said> {
    if items.is_empty() || items.len() > ITEMS_MAX {
        return Err(Problem::invalid("input", format!("expected 1 to {ITEMS_MAX} items")));
    }
    let is_ours = |item: &Value| match kind(item) {
        "message" => item["role"] == "assistant",
        "function_call_output" | "mcp_approval_response" => false,
        _ => true,
    };
    let first = items.iter().rposition(is_ours).map_or(0, |last| last + 1);
    let mut answers = Vec::new();
    let mut texts = Vec::new();
    let mut apology = None;
    for (index, item) in items.iter().enumerate().skip(first) {
        let place = format!("input[{index}]");
        match kind(item) {
            "function_call_output" if apology::is_one(&item["output"]) => apology = Some(place),
            "function_call_output" => answers.push(output(item, &place)?),
            "mcp_approval_response" => answers.push(approval(item, &place)?),
            // DevUI's page leaves out whose words they are.
            _ if item["role"] == "user" || item["role"].is_null() => {
                if !item["digest"].is_null() {
                    let remedy = "a digest goes with an answer by id, not with words";
                    return Err(Problem::invalid(&format!("{place}.digest"), remedy));
                }
                let (found, text) = content(&item["content"], &place)?;
                answers.extend(found);
                texts.extend(text);
            }
            "message" => {
                let remedy = "a workflow's agents have their own instructions; put it into the file, or \
                              say it as `user`";
                return Err(Problem::invalid(&format!("{place}.role"), remedy));
            }
            _ => {}
        }
    }
    match (answers.is_empty(), texts.as_slice()) {
        (false, []) => Ok(Said::Answers(answers)),
        // K7: what somebody means who answers and says something else beside it is not for us to choose.
        (false, _) => {
            let remedy = "answers and words in one call; send them one after the other";
            Err(Problem::invalid("input", remedy))
        }
        (true, []) => {
            let nothing =
                || Problem::invalid("input", "expected a message of the user's, or an answer");
            Err(apology.map_or_else(nothing, |place| not_given(&place)))
        }
        (true, texts) => Ok(Said::Input(json!(texts.join(BETWEEN)))),
    }
}

/// Nobody has said that.
fn not_given(place: &str) -> Problem {
    let remedy = "this is what the client says where it knows no tool `request_info`, and no answer of \
                  anybody's; declare a tool of that name and answer with what a person says";
    let message = format!("{place}.output: {remedy}");
    Problem::new(StatusCode::BAD_REQUEST, "answer.not_given", message)
        .at(&format!("{place}.output"))
}

/// An item's type; one with a role and none is a message.
fn kind(item: &Value) -> &str {
    item.get("type").and_then(Value::as_str).unwrap_or("message")
}

fn output(item: &Value, place: &str) -> Outcome<(String, Value, Option<String>)> {
    let id = id_of(item, "call_id", place)?;
    refuse_incomplete(item, place)?;
    let value = match &item["output"] {
        Value::Array(parts) if parts.iter().all(|part| part["text"].is_string()) => {
            let texts = parts.iter().filter_map(|part| part["text"].as_str());
            json!(texts.collect::<Vec<_>>().join("\n"))
        }
        Value::Null => {
            return Err(Problem::invalid(&format!("{place}.output"), "expected the answer"));
        }
        value @ (Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)
        | Value::Object(_)) => value.clone(),
    };
    Ok((id, value, digest_of(item, place)?))
}

/// What is not said to its end is not said (K7).
fn refuse_incomplete(item: &Value, place: &str) -> Outcome<()> {
    if item["status"].is_null() || item["status"] == "completed" {
        return Ok(());
    }
    let remedy = "an answer that is not complete decides nothing; send it when it is";
    Err(Problem::invalid(&format!("{place}.status"), remedy))
}

/// The digest of what was shown, where an answer has it beside it.
fn digest_of(item: &Value, place: &str) -> Outcome<Option<String>> {
    let fields = item.as_object().into_iter().flatten();
    for (name, value) in fields.filter(|(name, _)| *name != "digest" && is_like_digest(name)) {
        if !value.is_null() {
            let remedy =
                "an answer has one `digest` beside it; `digests` by request id stand in the body";
            return Err(Problem::invalid(&format!("{place}.{name}"), remedy));
        }
    }
    match &item["digest"] {
        Value::Null => Ok(None),
        Value::String(shown) => Ok(Some(shown.clone())),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            let remedy = "expected the digest of what was shown";
            Err(Problem::invalid(&format!("{place}.digest"), remedy))
        }
    }
}

fn approval(item: &Value, place: &str) -> Outcome<(String, Value, Option<String>)> {
    let id = id_of(item, "approval_request_id", place)?;
    refuse_incomplete(item, place)?;
    let Some(approve) = item["approve"].as_bool() else {
        // K7: what is not clearly said is not said.
        return Err(Problem::invalid(&format!("{place}.approve"), "expected `true` or `false`"));
    };
    let value = match item["reason"].as_str().filter(|reason| !reason.is_empty()) {
        None => json!(approve),
        Some(note) => {
            let verb = if approve { Verb::AllowOnce } else { Verb::Deny };
            json!({"decision": verb.word(), "note": note})
        }
    };
    Ok((id, value, digest_of(item, place)?))
}

fn id_of(item: &Value, field: &str, place: &str) -> Outcome<String> {
    let id = item.get(field).and_then(Value::as_str).filter(|id| !id.is_empty());
    let remedy = "expected the id of the request that this answers";
    id.map(str::to_owned).ok_or_else(|| Problem::invalid(&format!("{place}.{field}"), remedy))
}

/// What a message of the user's says: answers, as DevUI sends them, or text.
fn content(content: &Value, place: &str) -> Outcome<(Answers, Option<String>)> {
    let parts = match content {
        Value::String(text) => return Ok((Vec::new(), Some(text.clone()))),
        Value::Array(parts) => parts,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => {
            let remedy = "expected a text, or a list of parts";
            return Err(Problem::invalid(&format!("{place}.content"), remedy));
        }
    };
    let mut answers = Vec::new();
    let mut texts = Vec::new();
    for (index, part) in parts.iter().enumerate() {
        let place = format!("{place}.content[{index}]");
        match (kind(part), part["text"].as_str()) {
            ("workflow_hil_response", _) => {
                let mut said = responses(&part["responses"], &place)?;
                with_digests(&mut said, part)?;
                answers.extend(said);
            }
            ("input_text" | "text" | "output_text", Some(text)) => texts.push(text),
            (other, _) => {
                let other: String = other.chars().take(40).collect();
                let remedy = format!("parts of type `{other}` are not read here; send text");
                return Err(Problem::invalid(&place, remedy));
            }
        }
    }
    Ok((answers, (!texts.is_empty()).then(|| texts.join("\n"))))
}

/// Answers by request id; `{"response": v}` stands for `v`.
pub(super) fn responses(given: &Value, place: &str) -> Outcome<Answers> {
    let Some(given) = given.as_object().filter(|given| !given.is_empty()) else {
        let remedy = "expected an object of answers by request id";
        return Err(Problem::invalid(&format!("{place}.responses"), remedy));
    };
    let bare = |value: &Value| match value.as_object() {
        Some(fields) if fields.len() == 1 => fields.get("response").unwrap_or(value).clone(),
        Some(_) | None => value.clone(),
    };
    Ok(given.iter().map(|(id, value)| (id.clone(), bare(value), None)).collect())
}
