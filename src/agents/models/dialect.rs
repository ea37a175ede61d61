//! Dialect: what differs between the wire formats before anything is said, as one table: addresses, headers, and
//! which settings there are. How a request is written and a reply is read is in a file for each (`formats`).

use http::{HeaderMap, HeaderValue};

use crate::agents::models::secret::Secret;

/// The version of Anthropic's format that is spoken here.
const ANTHROPIC_VERSION: (&str, HeaderValue) =
    ("anthropic-version", HeaderValue::from_static("2023-06-01"));

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
                headers.insert(ANTHROPIC_VERSION.0, ANTHROPIC_VERSION.1);
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
}
