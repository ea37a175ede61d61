//! Reading: what a message of a caller says: its text or its data, and the answers in it.

use serde_json::{Value, json};

use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::is_like_digest;
use crate::engine::Words;
use crate::kernel::{Kind, Question, RequestId, Workflow, digest};
use crate::wire::a2a::{Content, Message, Part, Role, SendMessage};

/// Media types that are read; anything else has nobody who would look at it.
pub(super) const INPUT_MODES: [&str; 2] = ["text/plain", "application/json"];
/// Parts of one message; each is a piece of one utterance, not a file system.
const PARTS_MAX: usize = 256;

/// Answers by request id, each with the digest of what was shown, if it came along.
pub(super) type Answers = Vec<(String, Value, Option<String>)>;

/// Refuses what no agent could take.
pub(super) fn check(request: &SendMessage) -> Outcome<()> {
    let message = &request.message;
    if message.message_id.is_empty() {
        return Err(Problem::invalid("message.messageId", "expected an id of the caller's choice"));
    }
    if message.role != Role::User {
        return Err(Problem::invalid("message.role", "expected `ROLE_USER`"));
    }
    if message.parts.is_empty() || message.parts.len() > PARTS_MAX {
        return Err(Problem::invalid("message.parts", format!("expected 1 to {PARTS_MAX} parts")));
    }
    history_length(request.configuration.history_length)?;
    message.parts.iter().try_for_each(check_part)
}

/// How much of the history a caller wants.
pub(super) fn history_length(given: Option<i32>) -> Outcome<Option<usize>> {
    let length = given.map(usize::try_from).transpose();
    length.map_err(|_| Problem::invalid("historyLength", "expected 0 or more"))
}

fn check_part(part: &Part) -> Outcome<()> {
    let essence = part.media_type.split(';').next().unwrap_or_default().trim();
    if !essence.is_empty() && !INPUT_MODES.contains(&essence) {
        let modes = INPUT_MODES.join(", ");
        return Err(Problem::content_type(format!(
            "message.parts: `{essence}` is not read here; send one of: {modes}"
        )));
    }
    match &part.content {
        Content::Text(_) | Content::Data(_) => Ok(()),
        Content::Raw(_) | Content::Url(_) => Err(Problem::content_type(
            "message.parts: files are not read here; send their text or their data",
        )),
    }
}

/// Whether whoever expects `schema` wants messages whole, with their ids and metadata: it names
/// `messageId` among the properties.
fn wants_whole(schema: Option<&Value>) -> bool {
    schema.is_some_and(|schema| schema.pointer("/properties/messageId").is_some())
}

/// What a message says, for a reader that expects `schema`: its text, its data, both, or all of it.
pub(super) fn body(message: &Message, schema: Option<&Value>) -> Value {
    if wants_whole(schema) {
        return serde_json::to_value(message).unwrap_or_default();
    }
    let mut texts = Vec::new();
    let mut data = Vec::new();
    for part in &message.parts {
        match &part.content {
            Content::Text(text) => texts.push(text.as_str()),
            Content::Data(value) => data.push(value.clone()),
            Content::Raw(_) | Content::Url(_) => {}
        }
    }
    match (texts.is_empty(), data.as_slice()) {
        (true, [one]) => one.clone(),
        (true, _) => Value::Array(data),
        (false, []) => Value::String(texts.join("\n")),
        (false, _) => json!({"text": texts.join("\n"), "data": data}),
    }
}

/// The answers that a message gives by request id, of all its parts; none if it gives no such. What stands
/// beside them and says something else is not passed over (K7).
pub(super) fn answers_by_id(message: &Message) -> Outcome<Answers> {
    let invalid = |remedy: &str| Problem::invalid("message.parts", remedy);
    let mut answers = Answers::new();
    let mut digests = Vec::new();
    let mut others = 0;
    for part in &message.parts {
        let Some(data) = answering(part) else {
            others += 1;
            continue;
        };
        let members = |name: &str| data.get(name).and_then(Value::as_object).into_iter().flatten();
        // K7: what says what was shown, and cannot be read, is not passed over.
        for (name, value) in data.as_object().into_iter().flatten() {
            let is_read = name == "digests" && value.is_object();
            if is_like_digest(name) && !is_read && !value.is_null() {
                return Err(invalid("expected `digests`, an object of digests by request id"));
            }
        }
        for (id, value) in members("responses") {
            if answers.iter().any(|(known, ..)| known == id) {
                return Err(invalid("the same request is answered twice; answer it once"));
            }
            answers.push((id.clone(), value.clone(), None));
        }
        digests.extend(members("digests"));
    }
    if !answers.is_empty() && others > 0 {
        return Err(invalid("answers by id and something else in one message; send them apart"));
    }
    for (id, shown) in digests {
        let Some(shown) = shown.as_str() else {
            return Err(invalid("each of `digests` is a text: the digest of what was shown"));
        };
        let Some((_, _, digest)) = answers.iter_mut().find(|(known, ..)| known == id) else {
            return Err(invalid("`digests` are keyed as the answers are that they belong to"));
        };
        if digest.as_deref().is_some_and(|other| other != shown) {
            return Err(invalid("two digests for one answer"));
        }
        *digest = Some(shown.to_owned());
    }
    Ok(answers)
}

/// The data of a part that answers by request id, or says what was shown. A form of the workflow's own may have
/// fields of those names: ours are keyed by request ids.
fn answering(part: &Part) -> Option<&Value> {
    let Content::Data(data) = &part.content else { return None };
    let is_ours = |name: &str| {
        let members = data.get(name).and_then(Value::as_object).filter(|it| !it.is_empty());
        members.is_some_and(|members| members.keys().all(|id| RequestId::parse(id).is_ok()))
    };
    (is_ours("responses") || is_ours("digests")).then_some(data)
}

/// A message, as whoever it is for reads it.
#[derive(Debug, Clone)]
pub(super) struct Spoken(pub(super) Message);

impl Words for Spoken {
    fn to(&self, asked: Option<(&Question, &Workflow)>) -> Value {
        let Some((question, workflow)) = asked else { return body(&self.0, None) };
        let is_text = question.schema.is_none() && question.kind == Kind::Clarification;
        if is_text && wants_whole(workflow.input.as_ref()) {
            // A text is asked for, and this workflow wants whole messages: so it is its text.
            Value::String(serde_json::to_string(&self.0).unwrap_or_default())
        } else {
            body(&self.0, question.schema.as_ref())
        }
    }
}

/// The key under which the same message again is the same answer: its id and everything it says.
pub(super) fn key(message: &Message) -> String {
    let body = json!([message.message_id, message.parts]);
    format!("a2a:{}", digest::of(&body))
}
