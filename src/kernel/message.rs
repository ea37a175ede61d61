//! Messages: the conversation of a run, and what each agent sees of it.
//!
//! Append-only. Nothing here shortens a conversation: whoever is asked to act receives the whole
//! of it (K5), with the tool traffic of others reduced to what they said; where that is more than a
//! file allows, `context_window` says what happens.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::deed::Deed;

/// Who a message speaks as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speaker {
    /// A person, or the caller.
    User,
    /// An agent.
    Assistant,
    /// The outcome of a tool call, told to the agent that made it.
    Tool,
    /// Holdpoint itself: an instruction of the workflow, or what was wrong with a reply.
    System,
}

impl Speaker {
    /// The word used on the wire.
    pub fn word(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
            Self::System => "system",
        }
    }
}

/// A tool call as the agent made it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The call's id, unique in its run.
    pub id: String,
    /// The tool's name.
    pub tool: String,
    /// The arguments, as given.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// What a gate has looked at, where one has: nothing else is sent (K3).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deed: Option<Box<Deed>>,
}

impl ToolCall {
    /// A call that no gate has looked at yet.
    pub fn new(id: impl Into<String>, tool: impl Into<String>, arguments: Value) -> Self {
        Self { id: id.into(), tool: tool.into(), arguments, deed: None }
    }
}

/// Who gets to see a message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Audience {
    /// Everybody.
    #[default]
    All,
    /// One agent: its own tool traffic, and what it alone was told.
    Only(String),
    /// Everybody but the one agent that has it as the outcome of its own tool call.
    Except(String),
}

impl Audience {
    /// Whether this is the default, and need not be stored.
    pub fn is_all(&self) -> bool {
        matches!(self, Self::All)
    }

    fn includes(&self, agent: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(one) => one == agent,
            Self::Except(one) => one != agent,
        }
    }
}

/// One utterance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who it speaks as.
    pub role: Speaker,
    /// Who said it: an agent's name, or a principal's.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author: String,
    /// What was said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Structured content beside the text: a caller's input or answer that is not plain text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// The tool calls made with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub calls: Vec<ToolCall>,
    /// For a tool's outcome: the call it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// Who gets to see it.
    #[serde(default, skip_serializing_if = "Audience::is_all")]
    pub audience: Audience,
    /// For a summary: whoever sees it sees it in place of everything before this place of what was
    /// said, before the run and in it, but for the run's first message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<usize>,
    /// A piece of a reply that was cut short, or what its agent was told then.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

impl Message {
    /// A plain utterance to everybody.
    pub fn text(role: Speaker, author: impl Into<String>, text: impl Into<String>) -> Self {
        Self {
            role,
            author: author.into(),
            text: text.into(),
            data: None,
            calls: Vec::new(),
            call_id: None,
            audience: Audience::All,
            replaces: None,
            cut: false,
        }
    }

    /// Who says it in their own words, where that is a person.
    pub(super) fn speaks(&self) -> Option<&str> {
        let is_person = self.role == Speaker::User && self.calls.is_empty();
        (is_person && !self.author.is_empty()).then_some(self.author.as_str())
    }

    /// What a person or caller said: plain text as text, anything else as data with its JSON as text.
    pub fn said(author: impl Into<String>, value: &Value) -> Self {
        let mut message = Self::text(Speaker::User, author, readable(value));
        if !value.is_string() {
            message.data = Some(value.clone());
        }
        message
    }

    /// The same message, for fewer eyes.
    #[must_use]
    pub fn to(mut self, audience: Audience) -> Self {
        self.audience = audience;
        self
    }

    /// Its weight, for the bound on a conversation.
    pub fn bytes(&self) -> usize {
        let weigh =
            |call: &ToolCall| call.id.len() + call.tool.len() + call.arguments.to_string().len();
        let calls: usize = self.calls.iter().map(weigh).sum();
        self.author.len() + self.text.len() + calls
    }

    /// This message as `agent` sees it, if it does. Others' tool calls are reduced to their text.
    pub fn seen_by(&self, agent: &str) -> Option<Self> {
        if !self.audience.includes(agent) {
            return None;
        }
        if self.author == agent || self.calls.is_empty() {
            return Some(self.clone());
        }
        if self.text.is_empty() {
            return None;
        }
        Some(Self { calls: Vec::new(), ..self.clone() })
    }

    /// This message without any tool traffic: what a final output or a person is shown.
    pub fn cleaned(&self) -> Option<Self> {
        let private = matches!(self.audience, Audience::Only(_));
        if private || self.role == Speaker::Tool || self.text.is_empty() {
            return None;
        }
        Some(Self { calls: Vec::new(), audience: Audience::All, ..self.clone() })
    }
}

/// A value as a person would read it: a string as it is, anything else as compact JSON.
pub fn readable(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k5_others_see_the_words_but_not_the_tool_traffic() {
        let mut message = Message::text(Speaker::Assistant, "venue", "Let me look.");
        message.calls.push(ToolCall::new("c1", "search", Value::Null));
        assert_eq!(message.seen_by("venue"), Some(message.clone()));
        let seen = message.seen_by("budget").expect("the words are for everybody");
        assert_eq!((seen.text.as_str(), seen.calls.len()), ("Let me look.", 0));
        message.text.clear();
        assert_eq!(message.seen_by("budget"), None);
    }
}
