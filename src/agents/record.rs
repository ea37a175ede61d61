//! Record: every input that an agent is given, as one line of JSON, so that people and tests can
//! read exactly what a model saw. A diagnosis, not a journal: nothing is read back from it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write as _},
    path::Path,
    sync::Mutex,
};

use serde_json::{Value, json};

use crate::kernel::{AgentInput, Message};

/// An open file that inputs are written to.
#[derive(Debug)]
pub(super) struct Record {
    file: Mutex<File>,
}

impl Record {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        Ok(Self { file: Mutex::new(file) })
    }

    /// Writes one line. A line that cannot be written is told in the log; the run goes on.
    pub(super) fn write(&self, input: &AgentInput) {
        let line = format!("{}\n", line_of(input));
        let Ok(mut file) = self.file.lock() else { return };
        if let Err(error) = file.write_all(line.as_bytes()) {
            tracing::warn!(%error, "a model input could not be recorded");
        }
    }
}

fn line_of(input: &AgentInput) -> Value {
    json!({
        "agent": input.agent,
        "model": input.model,
        "instructions": input.instructions,
        "messages": input.messages.iter().map(|message| seen(message)).collect::<Vec<_>>(),
        "tools": input.tools.iter().map(|tool| &tool.name).collect::<Vec<_>>(),
        "output": input.output,
    })
}

/// A message as the model gets it.
fn seen(message: &Message) -> Value {
    let mut seen =
        json!({"role": message.role.word(), "author": message.author, "text": message.text});
    if let Some(data) = &message.data {
        seen["data"] = data.clone();
    }
    if !message.calls.is_empty() {
        let calls = message.calls.iter();
        let call = |call: &crate::kernel::ToolCall| json!({"id": call.id, "tool": call.tool, "arguments": call.arguments});
        seen["calls"] = calls.map(call).collect();
    }
    if let Some(call_id) = &message.call_id {
        seen["call_id"] = call_id.clone().into();
    }
    seen
}
