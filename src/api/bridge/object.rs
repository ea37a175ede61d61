//! The Response object: what a leg of a run has come to, the same from a stream as from a `GET`.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::bridge::id::{Dialect, ResponseId};
use crate::api::bridge::{question_json, reading};
use crate::kernel::{Failure, Millis, SessionId, Usage};

/// Where a leg stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    InProgress,
    /// The run is over, or it waits: then the output's last items are what it asks.
    Completed,
    Failed,
    Cancelled,
}

impl Standing {
    fn word(self) -> &'static str {
        match self {
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

/// A leg of a run, as far as it has come.
#[derive(Debug)]
pub(super) struct Response {
    pub(super) id: ResponseId,
    pub(super) model: String,
    pub(super) session: SessionId,
    /// The response that the caller went on from, as it said so.
    pub(super) previous: Option<String>,
    pub(super) metadata: BTreeMap<String, String>,
    pub(super) created_at: Millis,
    pub(super) standing: Standing,
    pub(super) output: Vec<Value>,
    pub(super) failure: Option<Failure>,
    pub(super) usage: Usage,
    pub(super) waiting: Value,
    /// What the decision that it begins with can be proven by; null where it begins with none.
    pub(super) receipt: Value,
}

impl Response {
    /// The session by the name that the caller's client knows such things by: some of OpenAI's take none
    /// that does not begin so. Both names are taken.
    fn conversation(&self) -> String {
        match self.id.dialect {
            Dialect::OpenAi | Dialect::Live => reading::conversation_id(self.session.as_str()),
            Dialect::DevUi | Dialect::Qlaw => self.session.to_string(),
        }
    }

    /// The whole object.
    pub(super) fn to_json(&self) -> Value {
        let total = self.usage.input_tokens.saturating_add(self.usage.output_tokens);
        let error =
            self.failure.as_ref().map(|why| json!({"code": why.code, "message": why.message}));
        let mut told = json!({
            "id": self.id.to_string(),
            "object": "response",
            "created_at": question_json::seconds(self.created_at),
            "status": self.standing.word(),
            "background": false,
            "error": error,
            "incomplete_details": null,
            "instructions": null,
            "max_output_tokens": null,
            "model": self.model,
            "output": self.output.iter().filter(|item| item["void"] != true).collect::<Vec<_>>(),
            "parallel_tool_calls": true,
            "previous_response_id": self.previous,
            "reasoning": {"effort": null, "summary": null},
            "store": true,
            "temperature": null,
            "text": {"format": {"type": "text"}},
            "tool_choice": "auto",
            "tools": [],
            "top_p": null,
            "truncation": "disabled",
            "usage": {
                "input_tokens": self.usage.input_tokens,
                "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": self.usage.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": total,
            },
            "user": null,
            "metadata": self.metadata,
            "conversation": {"id": self.conversation()},
            "run_id": self.id.run.to_string(),
            "workflow_waiting": self.waiting,
        });
        if !self.receipt.is_null() {
            told["receipt"] = self.receipt.clone();
        }
        told
    }
}
