//! To a2a: what is said to a remote agent and what it says, in the terms of our own agents: the
//! conversation becomes a message, its question becomes ours, our answer its own.

use serde_json::{Map, Value, json};

use crate::agents::a2a::fault::{Code, RemoteFault};
use crate::agents::a2a::from_a2a::{Parts, State, Task};
use crate::kernel::{ASK_TOOL, AgentInput, Message, Reply, Speaker, ToolCall, UNANSWERED};

/// Questions of one pause; each becomes one of ours.
const REQUESTS_MAX: usize = 32;

/// What became of the questions that were asked for the remote.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// Nothing was asked, or nothing since.
    None,
    /// These parts answer it; known by the call that asked.
    Given { call: String, parts: Vec<Value> },
    /// Somebody let it lie: the remote must not go on.
    Refused { call: String, why: String },
}

/// The message that hands work over: the one thing that was said, or the whole conversation as it
/// would be read aloud (K5).
pub(super) fn opening(input: &AgentInput) -> Vec<Value> {
    let heard: Vec<&Message> = input.messages.iter().map(AsRef::as_ref).collect();
    if let ([one], true) = (heard.as_slice(), input.instructions.is_empty()) {
        return vec![match &one.data {
            Some(data) => json!({"data": data, "mediaType": "application/json"}),
            None => json!({"text": one.text}),
        }];
    }
    let mut lines = Vec::new();
    if !input.instructions.is_empty() {
        lines.push(input.instructions.clone());
    }
    for message in heard {
        match message.role {
            Speaker::System => lines.push(message.text.clone()),
            Speaker::User | Speaker::Assistant if !message.text.is_empty() => {
                let author =
                    if message.author.is_empty() { message.role.word() } else { &message.author };
                lines.push(format!("{author}: {}", message.text));
            }
            Speaker::User | Speaker::Assistant | Speaker::Tool => {}
        }
    }
    vec![json!({"text": lines.join("\n\n")})]
}

/// A message as the protocol writes it.
pub(super) fn message(key: &str, task: Option<(&str, &str)>, parts: &[Value]) -> Value {
    let mut message = json!({"messageId": key, "role": "ROLE_USER", "parts": parts});
    if let Some((task, context)) = task {
        message["taskId"] = json!(task);
        if !context.is_empty() {
            message["contextId"] = json!(context);
        }
    }
    message
}

/// What was answered since the agent last asked.
pub(super) fn answer(input: &AgentInput) -> Answer {
    let asks = |message: &Message| {
        message.author == input.agent && message.calls.iter().any(|call| call.tool == ASK_TOOL)
    };
    let Some(place) = input.messages.iter().rposition(|message| asks(message)) else {
        return Answer::None;
    };
    let asked = &input.messages[place].calls;
    let outcome = |call: &ToolCall| {
        let rest = input.messages.iter().skip(place + 1);
        rest.into_iter().find(|message| message.call_id.as_deref() == Some(call.id.as_str()))
    };
    let Some(first) = asked.first().map(|call| call.id.clone()) else { return Answer::None };
    let mut texts = Vec::new();
    let (mut responses, mut digests) = (Map::new(), Map::new());
    for call in asked {
        let Some(told) = outcome(call) else { return Answer::None };
        let value = match &told.data {
            Some(value) => value.clone(),
            None if told.text == UNANSWERED => Value::String(told.text.clone()),
            None => return Answer::Refused { call: first, why: told.text.clone() },
        };
        let context = |field: &str| call.arguments.get("context")?.get(field)?.as_str();
        if let Some(request) = context("request_id") {
            responses.insert(request.to_owned(), value);
            if let Some(digest) = context("digest") {
                digests.insert(request.to_owned(), json!(digest));
            }
        } else {
            texts.push(told.text.clone());
        }
    }
    let mut parts: Vec<Value> = texts.into_iter().map(|text| json!({"text": text})).collect();
    if !responses.is_empty() {
        let data = json!({"responses": responses, "digests": digests});
        parts.push(json!({"data": data, "mediaType": "application/json"}));
    }
    Answer::Given { call: first, parts }
}

/// The reply by which the remote's questions become ours.
pub(super) fn question(agent: &str, task: &Task) -> Result<Reply, RemoteFault> {
    let listed = task.said.data.iter().find_map(|data| data.get("requests")?.as_array());
    let requests = listed.map(Vec::as_slice).unwrap_or_default();
    if requests.len() > REQUESTS_MAX {
        let message = format!("it asks {} things at once; at most {REQUESTS_MAX}", requests.len());
        return Err(RemoteFault::new(Code::BadReply, message));
    }
    let objection =
        task.said.data.iter().find_map(|data| data.pointer("/problem/message")?.as_str());
    let mut calls: Vec<_> =
        requests.iter().filter_map(|request| asked(agent, task, request, objection)).collect();
    if calls.is_empty() {
        let words = task.said.text();
        let prompt = match (words.is_empty(), task.state) {
            (false, _) => words,
            (true, State::AuthRequired) => {
                format!("The agent `{agent}` wants to be authorized, and does not say how.")
            }
            (true, _) => format!("The agent `{agent}` needs something, and does not say what."),
        };
        let context = json!({"agent": agent, "task": task.id});
        calls.push(json!({"prompt": prompt, "context": context}));
    }
    let call = |arguments| ToolCall::new(format!("{}-ask", task.id), ASK_TOOL, arguments);
    let calls = calls.into_iter().map(call);
    Ok(Reply { calls: calls.collect(), ..Reply::default() })
}

/// One request of the extension that Holdpoint declares, as the arguments of a question of ours.
fn asked(agent: &str, task: &Task, request: &Value, objection: Option<&str>) -> Option<Value> {
    let text = |field: &str| request.get(field).and_then(Value::as_str);
    let id = text("requestId")?;
    let prompt =
        text("prompt").filter(|prompt| !prompt.is_empty()).unwrap_or("What shall be done?");
    let prompt = objection.map_or_else(|| prompt.to_owned(), |no| format!("{no}\n\n{prompt}"));
    let mut context = json!({"agent": agent, "task": task.id, "request_id": id});
    for (name, field) in [("digest", "digest"), ("deadline", "deadline"), ("details", "context")] {
        if let Some(value) = request.get(field) {
            context[name] = value.clone();
        }
    }
    let mut arguments = json!({"prompt": prompt, "context": context});
    let options =
        request.get("options").filter(|list| list.as_array().is_some_and(|l| !l.is_empty()));
    let (kind, is_house) = match text("kind").unwrap_or_default() {
        "selection" if options.is_some() => ("selection", true),
        "approval" => ("approval", true),
        "plan_review" | "tool_approval" | "outcome_check" => ("approval", false),
        _ => ("clarification", false),
    };
    arguments["request_type"] = json!(kind);
    if let Some(options) = options {
        arguments["options"] = options.clone();
    }
    let plain = json!({"type": "string", "minLength": 1});
    let schema = request.get("responseSchema").filter(|schema| schema.is_object());
    if let Some(schema) = schema.filter(|schema| !is_house && **schema != plain) {
        arguments["response_schema"] = schema.clone();
    }
    Some(arguments)
}

/// What a task came to, as a reply.
pub(super) fn result(
    parts: &Parts,
    spare: &Parts,
    input: &AgentInput,
) -> Result<Reply, RemoteFault> {
    let is_empty = parts.texts.is_empty() && parts.data.is_empty();
    let said = if is_empty { spare } else { parts };
    let data = match said.data.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(Value::Array(several.to_vec())),
    };
    let mut text = said.text();
    let output = data.clone().filter(|_| input.output.is_some());
    if text.is_empty() {
        text = data.map(|data| data.to_string()).unwrap_or_default();
    }
    if text.is_empty() && output.is_none() {
        return Err(RemoteFault::new(Code::Empty, "it is done, and has nothing to say"));
    }
    Ok(Reply { text, output, ..Reply::default() })
}
