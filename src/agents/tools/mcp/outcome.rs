//! Outcome: what an MCP tool's result means: a value, or a fault.

use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::agents::tools::fault;
use crate::kernel::{ToolFault, schema, shortened};

/// How much of an error is told.
const SHOWN_CHARS_MAX: usize = 500;

/// The outcome of a call; `output` is the schema that the server promised.
pub(super) fn read(result: &CallToolResult, output: Option<&Value>) -> Result<Value, ToolFault> {
    let said = spoken(&result.content);
    if result.is_error == Some(true) {
        let said = said.as_str().map_or_else(|| said.to_string(), str::to_owned);
        return Err(fault("tool.failed", shortened(&said, SHOWN_CHARS_MAX), false));
    }
    match (&result.structured_content, output) {
        (Some(value), Some(output)) => match schema::check(output, value) {
            Ok(()) => Ok(value.clone()),
            Err(mismatch) => {
                let message = format!("the result is not what the tool promises: {mismatch}");
                Err(fault("tool.invalid_result", message, false))
            }
        },
        (Some(value), None) => Ok(value.clone()),
        (None, Some(_)) => {
            let message = "the tool promises a structured result and gave none";
            Err(fault("tool.invalid_result", message, false))
        }
        (None, None) => Ok(said),
    }
}

/// Text as text; of what cannot be read, only what it is.
fn spoken(content: &[ContentBlock]) -> Value {
    let texts: Option<Vec<&str>> =
        content.iter().map(|block| block.as_text().map(|text| text.text.as_str())).collect();
    match texts {
        Some(texts) => Value::String(texts.join("\n")),
        None => content.iter().map(described).collect(),
    }
}

fn described(block: &ContentBlock) -> Value {
    let mut told = serde_json::to_value(block).unwrap_or_default();
    // A picture's bytes would fill the conversation, and nobody reads them there.
    if let Some(data) = told.get_mut("data") {
        *data =
            json!(format!("[{} characters of base64]", data.as_str().unwrap_or_default().len()));
    }
    told
}
