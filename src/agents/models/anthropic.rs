//! Anthropic Messages: turns of content blocks.
//!
//! The format has no instruction in the course of a conversation: it is said as the user's. A
//! structured reply is asked for as a call of a tool that is ours, because a call is what every
//! server of this format can be held to; if there are other tools, the model chooses among all.

use serde_json::{Map, Value, json};

use crate::agents::models::errors;
use crate::agents::models::fault::ModelFault;
use crate::agents::models::names;
use crate::agents::models::prompt::{Item, prompt};
use crate::agents::models::reader::{Heard, Piece, Reader};
use crate::agents::models::reply_accumulator::{self, Gathered, number, text};
use crate::agents::models::settings::Settings;
use crate::kernel::{AgentInput, Reply, ToolCall, ToolOffer};

/// The format wants a bound; this one every model of it allows.
const MAX_TOKENS_DEFAULT: u32 = 4_096;
/// The tool by which a structured reply is given.
const REPLY_TOOL: &str = "structured_reply";
const REPLY_TOOL_MEANS: &str = "Give your final reply. Call this once you need no other tool.";

/// The request for `input`.
pub(super) fn request(settings: &Settings, input: &AgentInput) -> Value {
    let prompt = prompt(input);
    let mut request = Map::new();
    request.insert("model".into(), settings.model.clone().into());
    let most = settings.max_tokens.unwrap_or(MAX_TOKENS_DEFAULT);
    request.insert("max_tokens".into(), most.into());
    if !prompt.system.is_empty() {
        request.insert("system".into(), prompt.system.into());
    }
    request.insert("messages".into(), turns(&prompt.items));
    request.insert("stream".into(), true.into());
    let tool = |offer: &ToolOffer| {
        json!({
            "name": names::on_wire(&offer.name),
            "description": offer.description,
            "input_schema": offer.parameters,
        })
    };
    let mut tools: Vec<Value> = input.tools.iter().map(tool).collect();
    if let Some(schema) = &input.output {
        let name = reply_tool(input);
        let choice = if tools.is_empty() {
            json!({"type": "tool", "name": name})
        } else {
            json!({"type": "any"})
        };
        tools.push(json!({"name": name, "description": REPLY_TOOL_MEANS, "input_schema": schema}));
        request.insert("tool_choice".into(), choice);
    }
    if !tools.is_empty() {
        request.insert("tools".into(), tools.into());
    }
    if let Some(temperature) = settings.temperature {
        request.insert("temperature".into(), temperature.into());
    }
    if !settings.stop.is_empty() {
        request.insert("stop_sequences".into(), settings.stop.clone().into());
    }
    if let Some(top_p) = settings.top_p {
        request.insert("top_p".into(), top_p.into());
    }
    settings.pass_through(&mut request);
    Value::Object(request)
}

/// The name of our tool: one that no other tool has.
fn reply_tool(input: &AgentInput) -> String {
    let mut name = REPLY_TOOL.to_owned();
    while input.tools.iter().any(|offer| offer.name == name) {
        name.push('_');
    }
    name
}

/// The conversation in turns: what one side says in a row is one message of several blocks.
fn turns(items: &[Item<'_>]) -> Value {
    let mut turns: Vec<(&str, Vec<Value>)> = Vec::new();
    for item in items {
        let (role, blocks) = blocks(item);
        match turns.last_mut() {
            Some((last, known)) if *last == role => known.extend(blocks),
            Some(_) | None => turns.push((role, blocks)),
        }
    }
    turns.into_iter().map(|(role, blocks)| json!({"role": role, "content": blocks})).collect()
}

fn blocks(item: &Item<'_>) -> (&'static str, Vec<Value>) {
    // The format refuses empty text.
    let words = |text: &str| (!text.is_empty()).then(|| json!({"type": "text", "text": text}));
    match item {
        Item::Told(text) => ("user", words(text).into_iter().collect()),
        Item::Heard(text) => ("user", words(text).into_iter().collect()),
        Item::Said { text, calls } => {
            let call = |call: &ToolCall| {
                let input = if call.arguments.is_object() { &call.arguments } else { &json!({}) };
                json!({
                    "type": "tool_use",
                    "id": call.id,
                    "name": names::on_wire(&call.tool),
                    "input": input,
                })
            };
            ("assistant", words(text).into_iter().chain(calls.iter().map(call)).collect())
        }
        Item::Returned { call, text } => {
            let block = json!({"type": "tool_result", "tool_use_id": call.id, "content": text});
            ("user", vec![block])
        }
    }
}

/// Reads a stream of events, or a whole message.
#[derive(Debug)]
pub(super) struct AnthropicReader {
    gathered: Gathered,
    /// The tool by which a structured reply is given, if one was asked for.
    reply_tool: Option<String>,
    reason: Option<String>,
    is_done: bool,
}

impl AnthropicReader {
    pub(super) fn new(input: &AgentInput) -> Self {
        let reply_tool = input.output.as_ref().map(|_| reply_tool(input));
        Self { gathered: Gathered::new(input), reply_tool, reason: None, is_done: false }
    }

    fn event(&mut self, event: &Value) -> Result<Heard, ModelFault> {
        if let Some(fault) = errors::in_body(event) {
            return Err(fault);
        }
        let place = number(event, "/index");
        match text(event, "/type") {
            "message_start" => self.count(&event["message"]["usage"]),
            "content_block_start" => return self.block(place, &event["content_block"], false),
            "content_block_delta" => return self.delta(place, &event["delta"]),
            "message_delta" => {
                self.stopped(&event["delta"]);
                self.count(&event["usage"]);
            }
            "message_stop" => self.is_done = true,
            _ => {}
        }
        Ok(Heard::Nothing)
    }

    fn delta(&mut self, place: u64, delta: &Value) -> Result<Heard, ModelFault> {
        match text(delta, "/type") {
            "text_delta" => self.said(text(delta, "/text")),
            "input_json_delta" => {
                self.gathered.call(place, ("", ""), text(delta, "/partial_json"))?;
                Ok(Heard::Life)
            }
            _ => Ok(Heard::Life),
        }
    }

    /// A block that begins, or one that is `whole`. The input of one that begins is still to come.
    fn block(&mut self, place: u64, block: &Value, whole: bool) -> Result<Heard, ModelFault> {
        match text(block, "/type") {
            "text" => self.said(text(block, "/text")),
            "tool_use" => {
                let named = (text(block, "/id"), text(block, "/name"));
                let input = if whole { block["input"].to_string() } else { String::new() };
                self.gathered.call(place, named, &input)?;
                Ok(Heard::Life)
            }
            _ => Ok(Heard::Life),
        }
    }

    fn said(&mut self, text: &str) -> Result<Heard, ModelFault> {
        if text.is_empty() {
            return Ok(Heard::Nothing);
        }
        self.gathered.say(text)?;
        Ok(Heard::Text(text.to_owned()))
    }

    fn stopped(&mut self, message: &Value) {
        if let Some(reason) = message["stop_reason"].as_str() {
            self.reason = Some(reason.to_owned());
        }
    }

    /// The figures so far. What was read from a cache was read, too.
    fn count(&mut self, usage: &Value) {
        let read = ["/input_tokens", "/cache_creation_input_tokens", "/cache_read_input_tokens"];
        let read: u64 = read.iter().map(|field| number(usage, field)).sum();
        let known = &mut self.gathered.usage;
        known.input_tokens = known.input_tokens.max(read);
        known.output_tokens = known.output_tokens.max(number(usage, "/output_tokens"));
    }

    fn whole(&mut self, message: &Value) -> Result<Heard, ModelFault> {
        if let Some(fault) = errors::in_body(message) {
            return Err(fault);
        }
        self.is_done = true;
        self.stopped(message);
        self.count(&message["usage"]);
        let mut all = String::new();
        for (place, block) in (0..).zip(message["content"].as_array().into_iter().flatten()) {
            if let Heard::Text(text) = self.block(place, block, true)? {
                all.push_str(&text);
            }
        }
        Ok(if all.is_empty() { Heard::Life } else { Heard::Text(all) })
    }
}

impl Reader for AnthropicReader {
    fn take(&mut self, piece: &Piece) -> Result<Heard, ModelFault> {
        match piece {
            Piece::Event { data, .. } => self.event(&reply_accumulator::json(data)?),
            Piece::Whole(body) => self.whole(&reply_accumulator::json(body)?),
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFault> {
        if !self.is_done {
            return Err(errors::cut_stream());
        }
        match self.reason.as_deref() {
            Some("max_tokens" | "model_context_window_exceeded") => {
                return Ok(self.gathered.into_cut());
            }
            Some("refusal") => return Err(errors::declined("it gave no reason")),
            Some(_) | None => {}
        }
        self.gathered.into_reply(self.reply_tool.as_deref())
    }
}
