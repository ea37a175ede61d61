//! Formats: which file writes the request in a dialect, and which reads the reply to it. The formats themselves are
//! not known here.

use serde_json::Value;

use crate::agents::models::dialect::Dialect;
use crate::agents::models::reader::Reader;
use crate::agents::models::settings::Settings;
use crate::agents::models::{anthropic, openai_chat, openai_responses};
use crate::kernel::AgentInput;

impl Dialect {
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
