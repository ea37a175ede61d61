//! Apology: what a client's framework says by itself where it was asked something and has nobody to ask.
//!
//! A pause is a call of `request_info`. A framework that was not given a tool of that name does not stop: it
//! sends an output of its own making, that there is no such tool, or that it broke. Nobody has said that, so
//! it is no answer, whatever the question would take (K7). Not a judgement of what people write: only what
//! these frameworks are known to write is known here.

use serde_json::Value;

use crate::api::bridge::item::REQUEST_INFO;

/// How such an output begins, where it does not name the function.
const KNOWN: [&str; 8] = [
    // OpenAI's Agents SDK, where a tool raised something or its use was refused.
    "An error occurred while running the tool",
    "Tool execution was not approved.",
    // Vercel's AI SDK and pydantic-ai, where its use was refused.
    "Tool call execution denied.",
    "The tool call was denied.",
    // Microsoft's Agent Framework.
    "Error: Function failed.",
    "Error: Argument parsing failed.",
    "Error: Tool call invocation was rejected by user.",
    "Error: Tool execution was aborted",
];

/// Whether the output of a call was made by the client's framework.
pub(super) fn is_one(output: &Value) -> bool {
    match output {
        // pydantic-ai's "Unknown tool name: 'request_info'", Vercel's "unavailable tool 'request_info'",
        // Agent Framework's "Requested function \"request_info\" not found": people do not know the word.
        Value::String(text) => {
            text.contains(REQUEST_INFO) || KNOWN.iter().any(|known| text.starts_with(known))
        }
        Value::Array(parts) => parts.iter().any(|part| is_one(&part["text"])),
        Value::Object(fields) => fields.get("error").is_some_and(is_one),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn k7_what_a_framework_says_of_itself_is_no_answer() {
        for output in [
            json!("{\"error\":\"Unknown tool name: 'request_info'. No tools available.\"}"),
            json!({"error": "Unknown tool name: 'request_info'. No tools available."}),
            json!("Model tried to call unavailable tool 'request_info'. No tools are available."),
            json!("Error: Requested function \"request_info\" not found."),
            json!("An error occurred while running the tool. Please try again. Error: x"),
            json!([{"type": "input_text", "text": "Error: Function failed."}]),
        ] {
            assert!(is_one(&output), "{output}");
        }
        for output in [
            json!("approve"),
            json!("Error: the invoice is wrong"),
            json!({"decision": "reject", "note": "An error occurred while running the tool"}),
            json!({"error": "the invoice is wrong"}),
            json!(true),
            json!(7),
        ] {
            assert!(!is_one(&output), "{output}");
        }
    }
}
