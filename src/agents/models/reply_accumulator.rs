//! Reply accumulator: a reply as it grows: words, calls whose arguments come in fragments, figures.
//!
//! Shared by the readers; knows no wire format.

use serde_json::{Map, Value};

use crate::agents::models::fault::{Code, ModelFault, words};
use crate::agents::models::names;
use crate::kernel::{AgentInput, REPLY_BYTES_MAX, Reply, ToolCall, ToolOffer, Usage, WhenCut};

/// Calls in one reply, told apart while they come; the kernel's own bound is lower.
const CALLS_MAX: usize = 256;

/// A reply as it grows.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    text: String,
    calls: Vec<Fragments>,
    /// What the reply cost.
    pub(super) usage: Usage,
    bytes: usize,
    offers: Vec<ToolOffer>,
}

/// A call whose arguments are still coming.
#[derive(Debug, Default)]
struct Fragments {
    place: u64,
    id: String,
    tool: String,
    arguments: String,
}

impl Gathered {
    /// Nothing yet.
    pub(super) fn new(input: &AgentInput) -> Self {
        Self { offers: input.tools.clone(), ..Self::default() }
    }

    /// Whether nothing was said and nothing called.
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty() && self.calls.is_empty()
    }

    /// More words.
    pub(super) fn say(&mut self, text: &str) -> Result<(), ModelFault> {
        self.weigh(text)?;
        self.text.push_str(text);
        Ok(())
    }

    /// More of the call at `place`. A second id at the same place is a second call: not every
    /// server numbers them.
    pub(super) fn call(
        &mut self,
        place: u64,
        (id, tool): (&str, &str),
        arguments: &str,
    ) -> Result<(), ModelFault> {
        self.weigh(id)?;
        self.weigh(tool)?;
        self.weigh(arguments)?;
        let same = |call: &Fragments| {
            call.place == place && (id.is_empty() || call.id.is_empty() || call.id == id)
        };
        let known = self.calls.iter().rposition(same);
        if known.is_none() {
            if self.calls.len() >= CALLS_MAX {
                return Err(too_large("calls"));
            }
            self.calls.push(Fragments { place, ..Fragments::default() });
        }
        let at = known.unwrap_or(self.calls.len() - 1);
        let call = &mut self.calls[at];
        if call.id.is_empty() {
            id.clone_into(&mut call.id);
        }
        if call.tool.is_empty() {
            tool.clone_into(&mut call.tool);
        }
        call.arguments.push_str(arguments);
        Ok(())
    }

    /// The whole arguments of the call at `place`, where a server repeats them at the end.
    pub(super) fn call_done(&mut self, place: u64, arguments: &str) -> Result<(), ModelFault> {
        self.weigh(arguments)?;
        if let Some(call) = self.calls.iter_mut().rev().find(|call| call.place == place) {
            arguments.clone_into(&mut call.arguments);
        }
        Ok(())
    }

    /// The reply. Calls to `apart` are structured output that was asked for in the form of a call.
    pub(super) fn into_reply(self, apart: Option<&str>) -> Result<Reply, ModelFault> {
        let mut output = None;
        let mut calls = Vec::with_capacity(self.calls.len());
        for call in &self.calls {
            let arguments = arguments(call)?;
            if apart == Some(call.tool.as_str()) {
                output = Some(arguments);
            } else {
                let tool = names::meant(&self.offers, &call.tool);
                calls.push(ToolCall::new(call.id.clone(), tool, arguments));
            }
        }
        if self.text.trim().is_empty() && calls.is_empty() && output.is_none() {
            return Err(ModelFault::new(Code::Empty, "it said nothing and called nothing"));
        }
        Ok(Reply { text: self.text, output, calls, usage: self.usage, cut: None })
    }

    /// The reply as far as it came: of its calls the names alone, for nobody knows whether they are whole.
    pub(super) fn into_cut(self) -> Reply {
        let call = |call: &Fragments| {
            ToolCall::new(call.id.clone(), names::meant(&self.offers, &call.tool), Value::Null)
        };
        let calls = self.calls.iter().map(call).collect();
        let cut = Some(WhenCut::default());
        Reply { text: self.text, output: None, calls, usage: self.usage, cut }
    }

    fn weigh(&mut self, more: &str) -> Result<(), ModelFault> {
        self.bytes += more.len();
        // Arguments may come twice, once in fragments and once whole.
        if self.bytes > 2 * REPLY_BYTES_MAX { Err(too_large("bytes")) } else { Ok(()) }
    }
}

fn too_large(what: &str) -> ModelFault {
    ModelFault::new(Code::TooLarge, format!("the reply has more {what} than a reply may have"))
}

/// Arguments as a value; none at all are an empty map.
fn arguments(call: &Fragments) -> Result<Value, ModelFault> {
    if call.arguments.trim().is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    let value = serde_json::from_str(&call.arguments).map_err(|error| {
        let tool = words(&call.tool);
        ModelFault::new(Code::BadJson, format!("the arguments of `{tool}` are no JSON: {error}"))
    })?;
    Ok(if value == Value::Null { Value::Object(Map::new()) } else { value })
}

/// The data of an event as a value.
pub(super) fn json(data: &str) -> Result<Value, ModelFault> {
    serde_json::from_str(data).map_err(|error| {
        ModelFault::new(Code::BadJson, format!("what the server sent is no JSON: {error}"))
    })
}

/// A text in a value; empty if there is none.
pub(super) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// A number in a value; zero if there is none.
pub(super) fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_default()
}
