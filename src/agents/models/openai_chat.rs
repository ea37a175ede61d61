//! OpenAI Chat Completions: what vLLM, Ollama, llama.cpp, LiteLLM and most gateways speak.
//!
//! Writes requests and reads replies; how they travel is not known here.

use serde_json::{Map, Value, json};

use crate::agents::models::errors;
use crate::agents::models::fault::ModelFault;
use crate::agents::models::names;
use crate::agents::models::prompt::{Item, prompt};
use crate::agents::models::reader::{Heard, Piece, Reader};
use crate::agents::models::reply_accumulator::{self, Gathered, number, text};
use crate::agents::models::reply_schema::named_schema;
use crate::agents::models::settings::Settings;
use crate::kernel::{AgentInput, Reply, ToolCall, ToolOffer, Usage, readable};

/// The last event of a stream.
const DONE: &str = "[DONE]";
/// OpenAI's own newer models refuse the older name of this field; most other servers know no other.
const OPENAI_HOST: &str = "api.openai.com";

/// The request for `input`.
pub(super) fn request(settings: &Settings, input: &AgentInput) -> Value {
    let prompt = prompt(input);
    let mut messages = Vec::with_capacity(prompt.items.len() + 1);
    if !prompt.system.is_empty() {
        messages.push(json!({"role": "system", "content": prompt.system}));
    }
    messages.extend(prompt.items.iter().map(message));
    let mut request = Map::new();
    request.insert("model".into(), settings.model.clone().into());
    request.insert("messages".into(), messages.into());
    request.insert("stream".into(), true.into());
    request.insert("stream_options".into(), json!({"include_usage": true}));
    if !input.tools.is_empty() {
        let tool = |offer: &ToolOffer| {
            json!({"type": "function", "function": {
                "name": names::on_wire(&offer.name),
                "description": offer.description,
                "parameters": offer.parameters,
            }})
        };
        request.insert("tools".into(), input.tools.iter().map(tool).collect());
    }
    if let Some(schema) = &input.output {
        let format = json!({"type": "json_schema", "json_schema": named_schema(schema)});
        request.insert("response_format".into(), format);
    }
    if let Some(most) = settings.max_tokens {
        let is_openai = settings.base_url.host_str() == Some(OPENAI_HOST);
        let field = if is_openai { "max_completion_tokens" } else { "max_tokens" };
        request.insert(field.into(), most.into());
    }
    if let Some(temperature) = settings.temperature {
        request.insert("temperature".into(), temperature.into());
    }
    if !settings.stop.is_empty() {
        request.insert("stop".into(), settings.stop.clone().into());
    }
    if let Some(top_p) = settings.top_p {
        request.insert("top_p".into(), top_p.into());
    }
    if let Some(seed) = settings.seed {
        request.insert("seed".into(), seed.into());
    }
    if let Some(effort) = &settings.reasoning_effort {
        request.insert("reasoning_effort".into(), effort.clone().into());
    }
    settings.pass_through(&mut request);
    Value::Object(request)
}

fn message(item: &Item<'_>) -> Value {
    match item {
        Item::Told(text) => json!({"role": "system", "content": text}),
        Item::Heard(text) => json!({"role": "user", "content": text}),
        Item::Said { text, calls: [] } => json!({"role": "assistant", "content": text}),
        Item::Said { text, calls } => {
            let call = |call: &ToolCall| {
                json!({"id": call.id, "type": "function", "function": {
                    "name": names::on_wire(&call.tool),
                    "arguments": call.arguments.to_string(),
                }})
            };
            let calls: Vec<Value> = calls.iter().map(call).collect();
            let content = if text.is_empty() { Value::Null } else { json!(text) };
            json!({"role": "assistant", "content": content, "tool_calls": calls})
        }
        Item::Returned { call, text } => {
            json!({"role": "tool", "tool_call_id": call.id, "content": text})
        }
    }
}

/// Reads a stream of chunks, or a whole completion.
#[derive(Debug)]
pub(super) struct ChatReader {
    gathered: Gathered,
    refusal: String,
    /// Why the model stopped.
    reason: Option<String>,
    is_done: bool,
}

impl ChatReader {
    pub(super) fn new(input: &AgentInput) -> Self {
        let gathered = Gathered::new(input);
        Self { gathered, refusal: String::new(), reason: None, is_done: false }
    }

    /// What is in a chunk's `delta`, or in a completion's `message`: the two are alike.
    fn spoken(&mut self, delta: &Value) -> Result<Heard, ModelFault> {
        let mut heard = Heard::Nothing;
        for (place, call) in (0..).zip(delta["tool_calls"].as_array().into_iter().flatten()) {
            let place = call["index"].as_u64().unwrap_or(place);
            let named = (text(call, "/id"), text(call, "/function/name"));
            // Some servers send the arguments as a value instead of its text.
            let arguments = readable(&call["function"]["arguments"]);
            self.gathered.call(place, named, &arguments)?;
            heard = Heard::Life;
        }
        let refusal = text(delta, "/refusal");
        let thought = ["/reasoning_content", "/reasoning"].map(|field| text(delta, field));
        if !refusal.is_empty() || thought.iter().any(|text| !text.is_empty()) {
            self.refusal.push_str(refusal);
            heard = Heard::Life;
        }
        let said = text(delta, "/content");
        if !said.is_empty() {
            self.gathered.say(said)?;
            heard = Heard::Text(said.to_owned());
        }
        Ok(heard)
    }

    fn chunk(&mut self, chunk: &Value, part: &str) -> Result<Heard, ModelFault> {
        if let Some(fault) = errors::in_body(chunk) {
            return Err(fault);
        }
        if chunk["usage"].is_object() {
            self.gathered.usage = Usage {
                input_tokens: number(chunk, "/usage/prompt_tokens"),
                output_tokens: number(chunk, "/usage/completion_tokens"),
            };
        }
        let Some(choice) = chunk["choices"].get(0) else { return Ok(Heard::Nothing) };
        if let Some(reason) = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty()) {
            self.reason = Some(reason.to_owned());
        }
        self.spoken(&choice[part])
    }
}

impl Reader for ChatReader {
    fn take(&mut self, piece: &Piece) -> Result<Heard, ModelFault> {
        match piece {
            Piece::Event { data, .. } if data.trim() == DONE => {
                self.is_done = true;
                Ok(Heard::Nothing)
            }
            Piece::Event { data, .. } => self.chunk(&reply_accumulator::json(data)?, "delta"),
            Piece::Whole(body) => {
                let body = reply_accumulator::json(body)?;
                self.is_done = true;
                self.chunk(&body, "message")
            }
        }
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(self: Box<Self>) -> Result<Reply, ModelFault> {
        if self.reason.is_none() && !self.is_done {
            return Err(errors::cut_stream());
        }
        match self.reason.as_deref() {
            Some("length") => return Ok(self.gathered.into_cut()),
            Some("content_filter") => return Err(errors::filtered()),
            Some(_) | None => {}
        }
        if self.gathered.is_empty() && !self.refusal.is_empty() {
            return Err(errors::declined(&self.refusal));
        }
        self.gathered.into_reply(None)
    }
}
