//! Mapping: kernel and engine → A2A. A session is a context, a run is a task, open requests are
//! `INPUT_REQUIRED`, the output is an artifact, the conversation is the history.

use std::sync::Arc;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::asked;
use crate::kernel::{Failure, Message as Said, Millis, Question, Refusal, RunId, Speaker, Verb};
use crate::ports::{Head, HeadStatus};
use crate::wire::a2a::{
    Artifact, Content, Fields, Message, Part, Role, Task, TaskState, TaskStatus,
};

/// The extension under which a pause says in data what it says in words.
pub(super) const REQUESTS_EXTENSION: &str = "urn:holdpoint:a2a:requests:v1";
/// A run has one output, and so one artifact.
pub(super) const OUTPUT: &str = "output";
/// Messages of a history where the caller does not say; a conversation may be long.
pub(super) const HISTORY_DEFAULT: usize = 100;
const JSON: &str = "application/json";

/// A time as the protocol writes it.
pub(super) fn time(at: Millis) -> Option<String> {
    let ms = i64::try_from(at.0).ok()?;
    let time = Timestamp::from_millisecond(ms).ok()?;
    Some(time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string())
}

/// The words of a failure, with its code where programs find it.
#[derive(Debug, Clone)]
pub(super) struct Objection {
    pub(super) code: String,
    pub(super) message: String,
}

/// Why whoever is told of a question cannot answer it; nothing where they can.
pub(super) type Barred<'a> = &'a dyn Fn(&Question) -> Option<Refusal>;

/// Whether nothing of what is open is theirs to answer: somebody else must.
fn is_others(questions: &[Arc<Question>], barred: Barred<'_>) -> bool {
    questions.iter().all(|one| barred(one).is_some())
}

/// How a run that asks this stands for whoever is told of it.
pub(super) fn asking(questions: &[Arc<Question>], barred: Barred<'_>) -> TaskState {
    if is_others(questions, barred) { TaskState::AuthRequired } else { TaskState::InputRequired }
}

/// A state of a run, for whoever is told of it.
pub(super) fn state(head: &Head, barred: Barred<'_>) -> TaskState {
    match &head.status {
        HeadStatus::Running => TaskState::Working,
        // Nobody is asked: it waits for the clock or an external event.
        HeadStatus::Waiting(_) if head.questions.is_empty() => TaskState::Working,
        HeadStatus::Waiting(_) => asking(&head.questions, barred),
        HeadStatus::Completed => TaskState::Completed,
        HeadStatus::Failed(_) => TaskState::Failed,
        HeadStatus::Cancelled(_) => TaskState::Canceled,
    }
}

/// Since when a run stands where it stands.
pub(super) fn since(head: &Head) -> Millis {
    match head.status {
        HeadStatus::Waiting(since) => since,
        HeadStatus::Running
        | HeadStatus::Completed
        | HeadStatus::Failed(_)
        | HeadStatus::Cancelled(_) => head.updated_at,
    }
}

/// Where a run stands.
pub(super) fn status(head: &Head, objection: Option<&Objection>, barred: Barred<'_>) -> TaskStatus {
    let (run, context) = (&head.run, head.session.as_str());
    let message = match &head.status {
        HeadStatus::Running | HeadStatus::Completed => None,
        HeadStatus::Waiting(_) if head.questions.is_empty() => None,
        HeadStatus::Waiting(_) => {
            let questions = (head.questions.as_slice(), head.questions.len());
            Some(pause((run, context), questions, objection, barred))
        }
        HeadStatus::Failed(failure) => Some(failed(run, context, failure)),
        HeadStatus::Cancelled(by) => Some(cancelled(run, context, by, "")),
    };
    TaskStatus { state: state(head, barred), message, timestamp: time(since(head)) }
}

/// A run as a task, without its history and its result.
pub(super) fn task(head: &Head, barred: Barred<'_>) -> Task {
    let metadata = head.metadata.iter().map(|(name, value)| (name.clone(), json!(value)));
    let metadata: Fields = metadata.collect();
    Task {
        id: head.run.to_string(),
        context_id: head.session.to_string(),
        status: status(head, None, barred),
        artifacts: Vec::new(),
        history: Vec::new(),
        metadata: (!metadata.is_empty()).then_some(metadata),
    }
}

/// What was said, the last `limit` messages of it; nobody's tool traffic.
pub(super) fn history<'a>(
    run: &RunId,
    context: &str,
    conversation: impl IntoIterator<Item = &'a Said>,
    limit: usize,
) -> Vec<Message> {
    let said = (1..).zip(conversation).filter_map(|(n, said)| message(run, context, n, said));
    let mut history: Vec<_> = said.collect();
    history.drain(..history.len().saturating_sub(limit));
    history
}

/// One message of a conversation, unless it is tool traffic or for one agent alone.
pub(super) fn message(run: &RunId, context: &str, n: usize, said: &Said) -> Option<Message> {
    let said = said.cleaned()?;
    let role = match said.role {
        Speaker::User => Role::User,
        Speaker::Assistant => Role::Agent,
        Speaker::System | Speaker::Tool => return None,
    };
    if role == Role::User
        && let Some(whole) = as_message(&said)
    {
        let (task_id, context_id) = (run.to_string(), context.to_owned());
        return Some(Message { context_id, task_id, role, ..whole });
    }
    let part = match said.data {
        Some(data) => data_part(data, None),
        None => Part::of(Content::Text(said.text)),
    };
    let mut message = utterance(run, context, run.message(n), vec![part]);
    message.role = role;
    if role == Role::Agent && !said.author.is_empty() {
        message.metadata = Some([("author".to_owned(), json!(said.author))].into_iter().collect());
    }
    Some(message)
}

/// A message that was handed to the workflow whole, as data or, where a text was asked for, as text.
fn as_message(said: &Said) -> Option<Message> {
    match &said.data {
        Some(data) => Message::deserialize(data).ok(),
        None if said.text.starts_with("{\"messageId\":") => serde_json::from_str(&said.text).ok(),
        None => None,
    }
}

/// A message of ours about a task.
pub(super) fn utterance(run: &RunId, context: &str, id: String, parts: Vec<Part>) -> Message {
    Message {
        message_id: id,
        context_id: context.to_owned(),
        task_id: run.to_string(),
        role: Role::Agent,
        parts,
        metadata: None,
        extensions: Vec::new(),
        reference_task_ids: Vec::new(),
    }
}

pub(super) fn failed(run: &RunId, context: &str, failure: &Failure) -> Message {
    let part = Part::of(Content::Text(failure.message.clone()));
    let mut message = utterance(run, context, format!("{run}-failed"), vec![part]);
    message.metadata = Some([("code".to_owned(), json!(failure.code))].into_iter().collect());
    message
}

pub(super) fn cancelled(run: &RunId, context: &str, by: &str, reason: &str) -> Message {
    let because = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let part = Part::of(Content::Text(format!("Canceled by {by}{because}")));
    utterance(run, context, format!("{run}-canceled"), vec![part])
}

/// The result of a run. An output that holds `parts` of the protocol's own shape is taken at its
/// word, so that a workflow can hand out files; a text is a text, anything else is data.
pub(super) fn artifact(output: &Value) -> Artifact {
    let said = output.get("message").unwrap_or(output);
    let parts = own_parts(said).unwrap_or_else(|| match output.as_str() {
        Some(text) => vec![Part::of(Content::Text(text.to_owned()))],
        None => vec![data_part(output.clone(), None)],
    });
    chunk(parts)
}

fn own_parts(output: &Value) -> Option<Vec<Part>> {
    let parts: Vec<Part> = Deserialize::deserialize(output.get("parts")?).ok()?;
    (!parts.is_empty()).then_some(parts)
}

/// The message that a run answers with in place of a task: an output that is nothing but
/// `{"message": {"parts": …}}`.
pub(super) fn reply(head: &Head, output: &Value) -> Option<Message> {
    let said = output.as_object().filter(|fields| fields.len() == 1)?.get("message")?;
    let id = format!("{}-reply", head.run);
    Some(utterance(&head.run, head.session.as_str(), id, own_parts(said)?))
}

/// A piece of the result.
pub(super) fn chunk(parts: Vec<Part>) -> Artifact {
    Artifact {
        artifact_id: OUTPUT.into(),
        name: OUTPUT.into(),
        description: String::new(),
        parts,
        metadata: None,
        extensions: Vec::new(),
    }
}

/// What a pause says: in words that any client can show and answer in words, and in data.
pub(super) fn pause(
    (run, context): (&RunId, &str),
    (questions, open): (&[Arc<Question>], usize),
    objection: Option<&Objection>,
    barred: Barred<'_>,
) -> Message {
    let mut words = objection.map(|no| vec![no.message.clone()]).unwrap_or_default();
    let told = |one: &Question| match barred(one) {
        None => asked::words(one),
        Some(why) => asked::waits(one, &why),
    };
    match questions {
        [one] => words.push(told(one)),
        several => {
            words.push("Several answers are needed; give them by request id:".into());
            words.extend(several.iter().map(|one| format!("[{}] {}", one.id(run), told(one))));
        }
    }
    let left_out = open.saturating_sub(questions.len());
    if left_out > 0 {
        words.push(format!("And {left_out} more; the task itself has them all."));
    }
    let requests: Vec<_> = questions.iter().map(|one| request(run, one, barred(one))).collect();
    let mut data = json!({"requests": requests});
    if left_out > 0 {
        data["openRequests"] = open.into();
    }
    if let Some(no) = objection {
        data["problem"] = json!({"code": no.code, "message": no.message});
    }
    let parts = vec![
        Part::of(Content::Text(words.join("\n\n"))),
        data_part(data, Some(REQUESTS_EXTENSION)),
    ];
    let id = questions.first().map_or_else(|| run.to_string(), |one| one.id(run).to_string());
    Message { extensions: vec![REQUESTS_EXTENSION.into()], ..utterance(run, context, id, parts) }
}

/// Takes the codes out of what a pause says: whoever a webhook reaches is nobody who was asked (K9).
pub(super) fn withhold_codes(status: &mut TaskStatus, head: &Head) {
    for part in status.message.iter_mut().flat_map(|message| &mut message.parts) {
        match &mut part.content {
            Content::Text(text) => {
                let codes = head.questions.iter().map(|question| question.code());
                for code in codes.filter(|code| !code.is_empty()) {
                    // Behind its verb: `approve KWQFM`, `return KWQFM: why`.
                    for end in ["`", ":"] {
                        *text = text.replace(&format!(" {code}{end}"), &format!(" CODE{end}"));
                    }
                }
            }
            Content::Data(data) => {
                let requests = data.get_mut("requests").and_then(Value::as_array_mut);
                for request in requests.into_iter().flatten() {
                    if let Some(fields) = request.as_object_mut() {
                        fields.remove("code");
                    }
                }
            }
            Content::Raw(_) | Content::Url(_) => {}
        }
    }
}

/// A question in data: what `workflow_waiting` says of it; and where it is not theirs to answer who is told
/// of it, why.
fn request(run: &RunId, question: &Question, barred: Option<Refusal>) -> Value {
    let options = question.options.iter().map(|option| {
        json!({"id": option.id, "label": option.label(), "description": option.description})
    });
    let mut request = json!({
        "requestId": question.id(run).to_string(),
        "kind": question.kind.word(),
        "prompt": question.prompt,
        "sourceStep": question.step,
        "options": options.collect::<Vec<_>>(),
        "responseSchema": question.response_schema(),
        "onTimeout": question.on_timeout.word(),
        "digest": question.digest,
        "decides": question.decides(),
        "verbs": question.verbs().into_iter().map(Verb::word).collect::<Vec<_>>(),
        "to": question.to,
    });
    if let Some(named) = &question.named {
        request["type"] = json!({"name": named.name, "title": named.title, "show": named.show});
    }
    if question.needs_digest() {
        request["binding"] = json!(question.binding());
    }
    if question.is_masked() {
        request["veiled"] = json!(true);
    }
    let subject = question.shown();
    if !subject.is_null() {
        request["subject"] = subject;
    }
    let code = question.code();
    if !code.is_empty() && barred.is_none() {
        request["code"] = json!(code);
    }
    if let Some(why) = barred {
        request["admitsYou"] = json!(false);
        request["problem"] = json!({"code": why.code(), "message": why.to_string()});
    }
    if let Some(agent) = &question.agent {
        request["awaitingAgent"] = json!(agent);
    }
    if !question.context.is_null() {
        request["context"] = question.context.clone();
    }
    if let Some(deadline) = question.deadline.and_then(time) {
        request["deadline"] = json!(deadline);
    }
    if question.still.is_some() {
        request["halted"] = json!(true);
    }
    if let Some(left) = question.still.as_ref().and_then(|still| still.left_ms) {
        request["standsWithMsLeft"] = json!(left);
    }
    request
}

fn data_part(data: Value, extension: Option<&str>) -> Part {
    let metadata =
        extension.map(|uri| [("extension".to_owned(), json!(uri))].into_iter().collect::<Fields>());
    Part { metadata, media_type: JSON.into(), ..Part::of(Content::Data(data)) }
}
