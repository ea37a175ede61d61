//! OpenAI Responses: items in, named events out.
//!
//! Nothing is stored at the provider and no earlier response is referred to: the conversation is
//! ours, and it is sent whole (K5).

use serde_json::{Map, Value, json};

use crate::agents::models::errors;
use crate::agents::models::fault::{Code, ModelFault};
use crate::agents::models::names;
use crate::agents::models::prompt::{Item, prompt};
use crate::agents::models::reader::{Heard, Piece, Reader};
use crate::agents::models::reply_accumulator::{self, Gathered, number, text};
use crate::agents::models::reply_schema::{is_strict, named_schema};
use crate::agents::models::settings::Settings;
use crate::kernel::{AgentInput, Reply, ToolCall, ToolOffer, Usage};

/// The request for `input`.
pub(super) fn request(settings: &Settings, input: &AgentInput) -> Value {
    let prompt = prompt(input);
    let mut request = Map::new();
    request.insert("model".into(), settings.model.clone().into());
    if !prompt.system.is_empty() {
        request.insert("instructions".into(), prompt.system.into());
    }
    request.insert("input".into(), prompt.items.iter().flat_map(items).collect());
    request.insert("stream".into(), true.into());
    request.insert("store".into(), false.into());
    if !input.tools.is_empty() {
        let tool = |offer: &ToolOffer| {
            json!({
                "type": "function",
                "name": names::on_wire(&offer.name),
                "description": offer.description,
                "parameters": offer.parameters,
                "strict": is_strict(&offer.parameters),
            })
        };
        request.insert("tools".into(), input.tools.iter().map(tool).collect());
    }
    if let Some(schema) = &input.output {
        let mut format = named_schema(schema);
        format["type"] = "json_schema".into();
        request.insert("text".into(), json!({"format": format}));
    }
    if let Some(most) = settings.max_tokens {
        request.insert("max_output_tokens".into(), most.into());
    }
    if let Some(temperature) = settings.temperature {
        request.insert("temperature".into(), temperature.into());
    }
    if let Some(top_p) = settings.top_p {
        request.insert("top_p".into(), top_p.into());
    }
    if let Some(effort) = &settings.reasoning_effort {
        request.insert("reasoning".into(), json!({"effort": effort}));
    }
    settings.pass_through(&mut request);
    Value::Object(request)
}

/// The items that say `item`: words and calls are separate here.
fn items(item: &Item<'_>) -> Vec<Value> {
    let message = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    match item {
        Item::Told(text) => vec![message("system", "input_text", text)],
        Item::Heard(text) => vec![message("user", "input_text", text)],
        Item::Said { text, calls } => {
            let words = (!text.is_empty()).then(|| message("assistant", "output_text", text));
            let call = |call: &ToolCall| {
                json!({
                    "type": "function_call",
                    "call_id": call.id,
                    "name": names::on_wire(&call.tool),
                    "arguments": call.arguments.to_string(),
                })
            };
            words.into_iter().chain(calls.iter().map(call)).collect()
        }
        Item::Returned { call, text } => {
            vec![json!({"type": "function_call_output", "call_id": call.id, "output": text})]
        }
    }
}

/// Reads a stream of events, or a whole response.
#[derive(Debug)]
pub(super) struct ResponsesReader {
    gathered: Gathered,
    refusal: String,
    is_done: bool,
    is_cut: bool,
}

impl ResponsesReader {
    pub(super) fn new(input: &AgentInput) -> Self {
        let gathered = Gathered::new(input);
        Self { gathered, refusal: String::new(), is_done: false, is_cut: false }
    }

    fn event(&mut self, name: &str, event: &Value) -> Result<Heard, ModelFault> {
        let place = number(event, "/output_index");
        match name {
            "response.output_text.delta" => {
                let delta = text(event, "/delta");
                self.gathered.say(delta)?;
                Ok(Heard::Text(delta.to_owned()))
            }
            "response.refusal.delta" => {
                self.refusal.push_str(text(event, "/delta"));
                Ok(Heard::Life)
            }
            "response.output_item.added" | "response.output_item.done"
                if text(event, "/item/type") == "function_call" =>
            {
                let item = &event["item"];
                self.gathered.call(place, (text(item, "/call_id"), text(item, "/name")), "")?;
                if name == "response.output_item.done" {
                    self.gathered.call_done(place, text(item, "/arguments"))?;
                }
                Ok(Heard::Life)
            }
            "response.function_call_arguments.delta" => {
                self.gathered.call(place, ("", ""), text(event, "/delta"))?;
                Ok(Heard::Life)
            }
            "response.completed" => self.ended(&event["response"]),
            "response.incomplete" => self.incomplete(&event["response"]),
            "response.failed" => Err(failed(&event["response"])),
            "error" => Err(errors::in_body(event).unwrap_or_else(|| failed(event))),
            // Others tell that the model thinks, or repeat what is known.
            other if other.contains(".delta") => Ok(Heard::Life),
            _ => match errors::in_body(event) {
                Some(fault) => Err(fault),
                None => Ok(Heard::Nothing),
            },
        }
    }

    /// A response that is complete. What is in it counts only if nothing of it was streamed.
    fn ended(&mut self, response: &Value) -> Result<Heard, ModelFault> {
        self.is_done = true;
        self.gathered.usage = Usage {
            input_tokens: number(response, "/usage/input_tokens"),
            output_tokens: number(response, "/usage/output_tokens"),
        };
        let mut said = String::new();
        if self.gathered.is_empty() {
            let output = response["output"].as_array();
            for (place, item) in (0..).zip(output.into_iter().flatten()) {
                self.item(place, item, &mut said)?;
            }
        }
        Ok(if said.is_empty() { Heard::Nothing } else { Heard::Text(said) })
    }

    fn item(&mut self, place: u64, item: &Value, said: &mut String) -> Result<(), ModelFault> {
        if text(item, "/type") == "function_call" {
            let named = (text(item, "/call_id"), text(item, "/name"));
            return self.gathered.call(place, named, text(item, "/arguments"));
        }
        for part in item["content"].as_array().into_iter().flatten() {
            match text(part, "/type") {
                "output_text" => {
                    self.gathered.say(text(part, "/text"))?;
                    said.push_str(text(part, "/text"));
                }
                "refusal" => self.refusal.push_str(text(part, "/refusal")),
                _ => {}
            }
        }
        Ok(())
    }

    /// A response that ended before its end. One that was cut short says what it cost.
    fn incomplete(&mut self, response: &Value) -> Result<Heard, ModelFault> {
        match text(response, "/incomplete_details/reason") {
            "max_output_tokens" => {
                self.is_cut = true;
                self.ended(response)
            }
            "content_filter" => Err(errors::filtered()),
            _ => Err(errors::cut_stream()),
        }
    }

    fn whole(&mut self, response: &Value) -> Result<Heard, ModelFault> {
        match text(response, "/status") {
            "incomplete" => self.incomplete(response),
            "failed" | "cancelled" => Err(failed(response)),
            _ => match errors::in_body(response) {
                Some(fault) => Err(fault),
                None => self.ended(response),
            },
        }
    }
}

fn failed(response: &Value) -> ModelFault {
    let unknown = || ModelFault::new(Code::ErrorBody, "the server says that the response failed");
    errors::in_body(response).unwrap_or_else(unknown)
}

impl Reader for ResponsesReader {
    fn take(&mut self, piece: &Piece) -> Result<Heard, ModelFault> {
        match piece {
            // Gateways that grew up with Chat Completions end this stream in its way, too.
            Piece::Event { data, .. } if data.trim() == "[DONE]" => Ok(Heard::Nothing),
            Piece::Event { name, data } => {
                let event = reply_accumulator::json(data)?;
                let kind = text(&event, "/type");
                let name = if kind.is_empty() { name.as_str() } else { kind };
                self.event(name, &event)
            }
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
        if self.is_cut {
            return Ok(self.gathered.into_cut());
        }
        if self.gathered.is_empty() && !self.refusal.is_empty() {
            return Err(errors::declined(&self.refusal));
        }
        self.gathered.into_reply(None)
    }
}
