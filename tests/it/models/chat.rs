//! Chat Completions, byte for byte: what is sent, and what comes of every kind of reply.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::models::desk::{Desk, FIND_VENUES, Hasty, KEY, data, desk, everything, hello, schema};
use crate::models::fixture::{Answer, Fixture};

const CHAT: &str = "openai_chat";

/// A chunk with one choice.
pub(crate) fn chunk(delta: &Value, reason: &Value) -> Value {
    json!({
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion.chunk",
        "created": 1_741_569_952,
        "model": "small-2026",
        "system_fingerprint": "fp_44709d6fcb",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": reason}],
    })
}

fn usage() -> Value {
    json!({
        "id": "chatcmpl-B9MBs8CjcvOU2jLn4n570S5qMJKcT",
        "object": "chat.completion.chunk",
        "created": 1_741_569_952,
        "model": "small-2026",
        "choices": [],
        "usage": {"prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29},
    })
}

/// A text in pieces, as the format streams it.
pub(crate) fn saying(pieces: &[&str]) -> String {
    let mut events = vec![chunk(&json!({"role": "assistant", "content": ""}), &Value::Null)];
    events.extend(pieces.iter().map(|piece| chunk(&json!({"content": piece}), &Value::Null)));
    events.push(chunk(&json!({}), &json!("stop")));
    events.push(usage());
    format!("{}data: [DONE]\n\n", data(&events))
}

#[tokio::test]
async fn the_request_is_the_whole_conversation_word_for_word() {
    let server = Fixture::always(Answer::stream(saying(&["Fine."]))).await;
    let more = json!({"max_tokens": 500, "temperature": 0.5, "headers": {"x-team": "support"}});
    let desk = Desk::new(Arc::new(Hasty::default()), CHAT, &server.base_url, &more);
    desk.ask(&everything()).await.0.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/chat/completions");
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(seen.headers["content-type"], "application/json");
    assert_eq!(seen.headers["x-team"], "support");
    let call = |id: &str, name: &str, arguments: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}});
    let expected = json!({
        "model": "small",
        "messages": [
            {"role": "system", "content": "You find venues."},
            {"role": "user", "content": "Plan a party in Bonn"},
            {"role": "user", "content": "coordinator: The venue first."},
            {"role": "assistant", "content": "I look.", "tool_calls": [
                call("c1", FIND_VENUES, "{\"city\":\"Bonn\"}"),
                call("c2", "weather", "{}"),
            ]},
            {"role": "tool", "tool_call_id": "c1", "content": "[\"Pier 66\"]"},
            {"role": "tool", "tool_call_id": "c2", "content": "rain"},
            {"role": "assistant", "content": "Pier 66, with a roof."},
            {"role": "system", "content": "Sum up."},
        ],
        "stream": true,
        "stream_options": {"include_usage": true},
        "tools": [{"type": "function", "function": {
            "name": FIND_VENUES,
            "description": "Finds venues.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
        }}],
        "response_format": {"type": "json_schema", "json_schema": {
            "name": "reply", "schema": schema(), "strict": true,
        }},
        "max_tokens": 500,
        "temperature": 0.5,
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_reply_is_the_same_however_its_bytes_are_cut() {
    let transcript = saying(&["Grüße aus ", "Zürich 🎉", ", Ada."]);
    let crlf = transcript.replace('\n', "\r\n");
    let cr = transcript.replace('\n', "\r");
    let alive = format!(": OPENROUTER PROCESSING\n\n{transcript}");
    for (text, bytes) in
        [(&transcript, 1), (&transcript, 3), (&crlf, 1), (&crlf, 7), (&cr, 5), (&alive, 4_096)]
    {
        let server = Fixture::always(Answer::dripping(text, bytes)).await;
        let (reply, heard) = desk(CHAT, &server.base_url).ask(&hello()).await;
        let reply = reply.unwrap();
        assert_eq!(reply.text, "Grüße aus Zürich 🎉, Ada.");
        assert_eq!(heard.concat(), reply.text);
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (19, 10));
        assert_eq!((reply.output, reply.calls.len()), (None, 0));
    }
}

#[tokio::test]
async fn calls_that_come_in_fragments_are_joined() {
    let part = |index: u64, more: &Value| {
        let mut call = more.clone();
        call["index"] = index.into();
        chunk(&json!({"tool_calls": [call]}), &Value::Null)
    };
    let named = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": ""}});
    let more = |text: &str| json!({"function": {"arguments": text}});
    let events = [
        chunk(&json!({"role": "assistant", "content": null}), &Value::Null),
        chunk(&json!({"content": "I look."}), &Value::Null),
        part(0, &named("call_DdmO9pD3xa9XTPNJ32zg2hcA", FIND_VENUES)),
        part(0, &more("{\"ci")),
        part(1, &named("call_2", "weather")),
        part(0, &more("ty\":\"Bonn\"}")),
        chunk(&json!({}), &json!("tool_calls")),
    ];
    let server = Fixture::always(Answer::stream(data(&events) + "data: [DONE]\n\n")).await;
    let (reply, heard) = desk(CHAT, &server.base_url).ask(&everything()).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), heard.concat().as_str()), ("I look.", "I look."));
    let calls: Vec<_> =
        reply.calls.iter().map(|call| (&*call.id, &*call.tool, &call.arguments)).collect();
    assert_eq!(
        calls,
        [
            ("call_DdmO9pD3xa9XTPNJ32zg2hcA", "find.venues", &json!({"city": "Bonn"})),
            ("call_2", "weather", &json!({})),
        ]
    );
}

#[tokio::test]
async fn calls_of_a_server_that_does_not_number_them_are_told_apart() {
    let call = |id: &str| {
        let function = json!({"name": "weather", "arguments": format!("{{\"of\":\"{id}\"}}")});
        json!({"tool_calls": [{"index": 0, "id": id, "type": "function", "function": function}]})
    };
    let events = [
        chunk(&call("call_a"), &Value::Null),
        chunk(&call("call_b"), &Value::Null),
        chunk(&json!({"content": ""}), &json!("tool_calls")),
    ];
    // No `[DONE]` either: the reason to stop is enough.
    let server = Fixture::always(Answer::stream(data(&events))).await;
    let reply = desk(CHAT, &server.base_url).ask(&hello()).await.0.unwrap();
    let calls: Vec<_> = reply.calls.iter().map(|call| call.arguments["of"].clone()).collect();
    assert_eq!(calls, ["call_a", "call_b"]);
}

#[tokio::test]
async fn a_structured_reply_is_not_shown_while_it_is_written() {
    let server =
        Fixture::always(Answer::stream(saying(&["\n{\"sum", "mary\": \"Pier 66\"}"]))).await;
    let (reply, heard) = desk(CHAT, &server.base_url).ask(&everything()).await;
    assert_eq!(reply.unwrap().text, "\n{\"summary\": \"Pier 66\"}");
    assert_eq!(heard, Vec::<String>::new());
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({
        "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "small",
        "choices": [{"index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "I look.", "refusal": null,
            "tool_calls": [{"id": "c9", "type": "function",
                "function": {"name": "weather", "arguments": "{\"day\":1}"}}],
        }}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7},
    });
    let server = Fixture::always(Answer::json(200, &whole)).await;
    let (reply, heard) = desk(CHAT, &server.base_url).ask(&hello()).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), heard.concat().as_str()), ("I look.", "I look."));
    assert_eq!(reply.calls[0].arguments, json!({"day": 1}));
    assert_eq!(reply.usage.output_tokens, 4);
}
