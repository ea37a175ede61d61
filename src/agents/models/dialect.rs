//! Dialect: what differs between the wire formats, as one table: addresses, headers, how a request
//! is written and who reads the reply. The formats themselves have a file each.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::agents::models::fault::ModelFault;
use crate::agents::models::secret::Secret;
use crate::agents::models::settings::Settings;
use crate::agents::models::{anthropic, openai_chat, openai_responses};
use crate::kernel::{AgentInput, Reply};

/// The wire formats there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dialect {
    /// OpenAI Chat Completions: what most servers speak.
    Chat,
    /// OpenAI Responses.
    Responses,
    /// Anthropic Messages.
    Anthropic,
}

/// A piece of a reply, as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Piece {
    /// One event of a stream.
    Event {
        /// Its name; not every format has names.
        name: String,
        /// Its data.
        data: String,
    },
    /// A whole reply at once, from a server that does not stream.
    Whole(String),
}

/// What a piece meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Heard {
    /// Nothing yet: the server is there, the model has not begun.
    Nothing,
    /// The model is at work: it thinks, or writes a call.
    Life,
    /// The model says something.
    Text(String),
}

/// Reads a reply piece by piece.
pub(super) trait Reader: Send {
    /// Takes a piece.
    fn take(&mut self, piece: &Piece) -> Result<Heard, ModelFault>;

    /// Whether the server has said that the reply is complete.
    fn is_done(&self) -> bool;

    /// The reply, once nothing more comes.
    fn finish(self: Box<Self>) -> Result<Reply, ModelFault>;
}

impl Dialect {
    /// The dialect of a provider, as files name it.
    pub(super) fn of_provider(name: &str) -> Option<Self> {
        [Self::Chat, Self::Responses, Self::Anthropic].into_iter().find(|one| one.word() == name)
    }

    /// The provider's name in files.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Chat => "openai_chat",
            Self::Responses => "openai_responses",
            Self::Anthropic => "anthropic",
        }
    }

    /// Where its inventor serves it.
    pub(super) fn base_url_default(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "https://api.openai.com/v1",
            Self::Anthropic => "https://api.anthropic.com/v1",
        }
    }

    /// The variable that holds its inventor's key.
    pub(super) fn key_env_default(self) -> &'static str {
        match self {
            Self::Chat | Self::Responses => "OPENAI_API_KEY",
            Self::Anthropic => "ANTHROPIC_API_KEY",
        }
    }

    /// The last part of the address.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "chat/completions",
            Self::Responses => "responses",
            Self::Anthropic => "messages",
        }
    }

    /// The headers that it wants; none if a header cannot carry the key.
    pub(super) fn headers(self, key: Option<&Secret>) -> Option<HeaderMap> {
        let mut headers = HeaderMap::new();
        match self {
            Self::Chat | Self::Responses => {
                if let Some(key) = key {
                    headers.insert(http::header::AUTHORIZATION, key.header("Bearer ")?);
                }
            }
            Self::Anthropic => {
                headers.insert(anthropic::VERSION.0, anthropic::VERSION.1);
                if let Some(key) = key {
                    headers.insert("x-api-key", key.header("")?);
                }
            }
        }
        Some(headers)
    }

    /// Why a setting cannot be said in this format; nothing, where it can.
    pub(super) fn lacks(self, field: &str) -> Option<&'static str> {
        match (self, field) {
            (Self::Responses, "stop" | "seed") => {
                Some("the provider `openai_responses` has no such setting; `openai_chat` has it")
            }
            (Self::Anthropic, "seed") => Some("the provider `anthropic` has no such setting"),
            (Self::Anthropic, "reasoning_effort") => {
                Some("the provider `anthropic` has no such setting; say it in `extra`: `thinking`")
            }
            (Self::Chat | Self::Responses | Self::Anthropic, _) => None,
        }
    }

    /// Whether a field of a request is written here, or by a setting of its own.
    pub(super) fn owns(self, field: &str) -> bool {
        let shared = ["model", "stream", "tools", "temperature", "top_p"].contains(&field);
        let own: &[&str] = match self {
            Self::Chat => &[
                "messages",
                "stream_options",
                "response_format",
                "max_tokens",
                "n",
                "max_completion_tokens",
                "stop",
                "seed",
                "reasoning_effort",
                "functions",
            ],
            Self::Responses => &[
                "input",
                "instructions",
                "store",
                "text",
                "max_output_tokens",
                "reasoning",
                "previous_response_id",
                "conversation",
                "background",
            ],
            Self::Anthropic => {
                &["messages", "system", "max_tokens", "tool_choice", "stop_sequences"]
            }
        };
        shared || own.contains(&field)
    }

    /// The request for `input`.
    pub(super) fn request(self, settings: &Settings, input: &AgentInput) -> Value {
        match self {
            Self::Chat => openai_chat::request(settings, input),
            Self::Responses => openai_responses::request(settings, input),
            Self::Anthropic => anthropic::request(settings, input),
        }
    }

    /// Who reads the reply to `input`.
    pub(super) fn reader(self, input: &AgentInput) -> Box<dyn Reader> {
        match self {
            Self::Chat => Box::new(openai_chat::ChatReader::new(input)),
            Self::Responses => Box::new(openai_responses::ResponsesReader::new(input)),
            Self::Anthropic => Box::new(anthropic::AnthropicReader::new(input)),
        }
    }
}

/// The name that a schema has on the wire.
pub(super) const SCHEMA_NAME: &str = "reply";

/// A schema as both of OpenAI's formats take it.
pub(super) fn named_schema(schema: &Value) -> Value {
    json!({"name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)})
}

/// Whether a schema can be held to strictly: in every object all properties are required and no
/// others are allowed. A server refuses to be strict about any other.
pub(super) fn is_strict(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => {
            let properties = map.get("properties").and_then(Value::as_object);
            let required = map.get("required").and_then(Value::as_array);
            let is_required = |name: &String| {
                required.is_some_and(|all| all.iter().any(|one| one.as_str() == Some(name)))
            };
            let is_object = properties.is_some()
                || map.get("type").is_some_and(|kind| kind.as_str() == Some("object"));
            let is_closed = map.get("additionalProperties") == Some(&Value::Bool(false))
                && properties.is_some_and(|all| all.keys().all(is_required));
            (!is_object || is_closed) && map.values().all(is_strict)
        }
        Value::Array(items) => items.iter().all(is_strict),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_closed_schema_is_held_to_strictly() {
        let closed = json!({"type": "object", "properties": {"a": {"type": "string"}},
            "required": ["a"], "additionalProperties": false});
        assert!(is_strict(&closed));
        assert!(is_strict(&json!({"type": "array", "items": closed})));
        for (field, value) in [
            ("required", json!([])),
            ("additionalProperties", json!(true)),
            ("properties", json!({"a": {"type": "object"}})),
        ] {
            let mut open = closed.clone();
            open[field] = value;
            assert!(!is_strict(&open), "{open}");
        }
    }
}
