//! A model server that plays a shipped script: it reads what came over the wire back into a
//! conversation, asks the script, and says the reply in the wire format.
//!
//! So a workflow runs against a real protocol, and says what it says on scripts.

use std::sync::Arc;

use holdpoint::agents::Registry;
use holdpoint::kernel::workflow::Pattern;
use holdpoint::kernel::{AgentInput, Message, Reply, Speaker, ToolCall, Workflow};
use holdpoint::ports::Agents as _;
use serde_json::{Value, json};

use crate::models::desk::data;
use crate::models::fixture::{Answer, Fixture, Seen};
use crate::models::{anthropic, chat, responses};
use crate::support::SimClock;

/// A server that plays the script of `workflow`.
pub(crate) async fn server(workflow: &Arc<Workflow>) -> Fixture {
    let workflow = Arc::clone(workflow);
    let registry = Registry::new(Arc::new(SimClock::default()));
    Fixture::start(move |_, seen| {
        let input = read(&workflow, seen);
        let reply = registry.reply_at_once(&workflow, &input).expect("scripts reply at once");
        let reply = reply.unwrap_or_else(|fault| panic!("{fault:?}"));
        match seen.path.as_str() {
            "/v1/chat/completions" => Answer::dripping(&chat_stream(&reply), 100),
            "/v1/responses" => Answer::dripping(&responses_stream(&reply), 100),
            "/v1/messages" => Answer::dripping(&anthropic_stream(&reply), 100),
            other => panic!("nobody serves {other}"),
        }
    })
    .await
}

/// What an agent was given, as far as the wire tells it.
pub(crate) fn read(workflow: &Workflow, seen: &Seen) -> AgentInput {
    let blocks;
    let (instructions, items) = if let Some(items) = seen.body["input"].as_array() {
        (seen.body["instructions"].clone(), items.as_slice())
    } else if seen.body["system"].is_string() {
        blocks = apart(workflow, &seen.body);
        (seen.body["system"].clone(), blocks.as_slice())
    } else {
        let messages = seen.body["messages"].as_array().unwrap();
        (messages[0]["content"].clone(), &messages[1..])
    };
    let instructions = instructions.as_str().unwrap();
    let (agent, _) =
        workflow.agents.iter().find(|(_, agent)| agent.instructions == instructions).unwrap();
    let mut messages: Vec<Message> = Vec::new();
    for item in items {
        add(workflow, agent, &mut messages, item);
    }
    AgentInput {
        agent: agent.clone(),
        model: "default".into(),
        instructions: instructions.to_owned(),
        messages: messages.into_iter().map(Arc::new).collect(),
        begins: 0,
        tools: Vec::new(),
        output: None,
        failures: 0,
        key: String::new(),
        memo: None,
        summarises: None,
    }
}

/// Turns of blocks, block by block, in the words of the other formats. This one has no instruction in
/// the course of a conversation: what a coordinator is told at the end is known by its words.
fn apart(workflow: &Workflow, body: &Value) -> Vec<Value> {
    let told = match &workflow.pattern {
        Pattern::Coordinator { synthesis, .. } => synthesis.as_str(),
        Pattern::Sequential { .. } | Pattern::Handoff(_) | Pattern::Graph(_) => "",
    };
    let mut items = Vec::new();
    for turn in body["messages"].as_array().unwrap() {
        for block in turn["content"].as_array().unwrap() {
            items.push(match block["type"].as_str().unwrap() {
                "text" if block["text"] == told => json!({"role": "system", "content": told}),
                "text" => json!({"role": turn["role"], "content": block["text"]}),
                "tool_use" => json!({"type": "function_call", "call_id": block["id"],
                    "name": block["name"], "arguments": block["input"].to_string()}),
                "tool_result" => json!({"type": "function_call_output",
                    "call_id": block["tool_use_id"], "output": block["content"]}),
                other => panic!("nobody sends {other}"),
            });
        }
    }
    items
}

fn add(workflow: &Workflow, agent: &str, messages: &mut Vec<Message>, item: &Value) {
    let words = item["content"].as_str().or(item["content"][0]["text"].as_str());
    let words = words.unwrap_or_default();
    match (item["type"].as_str(), item["role"].as_str()) {
        (Some("function_call"), _) => {
            // Words and calls are one message, wherever the format keeps them apart.
            if messages.last().is_none_or(|last| last.author != agent || last.call_id.is_some()) {
                messages.push(Message::text(Speaker::Assistant, agent, ""));
            }
            messages.last_mut().unwrap().calls.push(call(&item["call_id"], item));
        }
        (Some("function_call_output"), _) => {
            messages.push(returned(&item["call_id"], &item["output"]));
        }
        (_, Some("tool")) => messages.push(returned(&item["tool_call_id"], &item["content"])),
        (_, Some("system")) => messages.push(Message::text(Speaker::System, &workflow.name, words)),
        (_, Some("user")) => messages.push(heard(workflow, words)),
        (_, Some("assistant")) => {
            let mut own = Message::text(Speaker::Assistant, agent, words);
            let calls = item["tool_calls"].as_array().into_iter().flatten();
            own.calls = calls.map(|one| call(&one["id"], &one["function"])).collect();
            messages.push(own);
        }
        other => panic!("nobody says {other:?}"),
    }
}

/// What another agent said begins with its name; the rest is a person's.
fn heard(workflow: &Workflow, words: &str) -> Message {
    let other = words.split_once(": ").filter(|(name, _)| workflow.agents.contains_key(*name));
    match other {
        Some((name, text)) => Message::text(Speaker::Assistant, name, text),
        None => Message::text(Speaker::User, "local", words),
    }
}

fn returned(id: &Value, text: &Value) -> Message {
    let call_id = Some(id.as_str().unwrap().to_owned());
    Message { call_id, ..Message::text(Speaker::Tool, "", text.as_str().unwrap()) }
}

fn call(id: &Value, function: &Value) -> ToolCall {
    let arguments = serde_json::from_str(function["arguments"].as_str().unwrap()).unwrap();
    ToolCall::new(id.as_str().unwrap(), function["name"].as_str().unwrap(), arguments)
}

/// What is said: words, or the structured reply as the text that it is on the wire.
fn words(reply: &Reply) -> String {
    reply.output.as_ref().map_or_else(|| reply.text.clone(), Value::to_string)
}

fn chat_stream(reply: &Reply) -> String {
    if reply.calls.is_empty() {
        let words = words(reply);
        return chat::saying(&words.split_inclusive(' ').collect::<Vec<_>>());
    }
    let mut events = vec![chat::chunk(&json!({"content": words(reply)}), &Value::Null)];
    for (index, call) in reply.calls.iter().enumerate() {
        let arguments = call.arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        let function = json!({"name": call.tool, "arguments": head});
        for part in [
            json!({"index": index, "id": call.id, "type": "function", "function": function}),
            json!({"index": index, "function": {"arguments": tail}}),
        ] {
            events.push(chat::chunk(&json!({"tool_calls": [part]}), &Value::Null));
        }
    }
    events.push(chat::chunk(&json!({}), &json!("tool_calls")));
    data(&events) + "data: [DONE]\n\n"
}

fn responses_stream(reply: &Reply) -> String {
    let words = words(reply);
    if reply.calls.is_empty() {
        return responses::saying(&words.split_inclusive(' ').collect::<Vec<_>>());
    }
    let mut events = Vec::new();
    if !words.is_empty() {
        events.push(json!({"type": "response.output_text.delta", "item_id": "msg_1",
            "output_index": 0, "content_index": 0, "delta": words}));
    }
    for (place, call) in (1..).zip(&reply.calls) {
        let arguments = call.arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        events.extend(responses::calling(place, &call.id, &call.tool, &[head, tail]));
    }
    events.push(responses::completed());
    responses::numbered(events)
}

fn anthropic_stream(reply: &Reply) -> String {
    if let Some(output) = &reply.output {
        let whole = output.to_string();
        let (head, tail) = whole.split_at(whole.len() / 2);
        let given = anthropic::tool_use("toolu_reply", "structured_reply", &[head, tail]);
        return anthropic::message(&[given], "tool_use");
    }
    let mut blocks = Vec::new();
    if !reply.text.is_empty() {
        blocks.push(anthropic::text(&reply.text.split_inclusive(' ').collect::<Vec<_>>()));
    }
    for call in &reply.calls {
        let arguments = call.arguments.to_string();
        let (head, tail) = arguments.split_at(arguments.len() / 2);
        blocks.push(anthropic::tool_use(&call.id, &call.tool, &[head, tail]));
    }
    anthropic::message(&blocks, if reply.calls.is_empty() { "end_turn" } else { "tool_use" })
}
