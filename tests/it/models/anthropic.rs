//! Anthropic Messages, byte for byte: what is sent, and what comes of every kind of reply.

use serde_json::{Value, json};

use crate::models::desk::{FIND_VENUES, KEY, desk, everything, hello, named, schema};
use crate::models::fixture::{Answer, Fixture};

const ANTHROPIC: &str = "anthropic";

/// A message of these blocks, each in pieces, as the format streams it.
pub(crate) fn message(blocks: &[(Value, Vec<Value>)], reason: &str) -> String {
    let mut events = vec![
        json!({"type": "message_start", "message": {
            "id": "msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyY", "type": "message",
            "role": "assistant", "content": [], "model": "small-2026", "stop_reason": null,
            "stop_sequence": null,
            "usage": {"input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 1},
        }}),
        json!({"type": "ping"}),
    ];
    for (index, (block, deltas)) in blocks.iter().enumerate() {
        events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
        for delta in deltas {
            events.push(json!({"type": "content_block_delta", "index": index, "delta": delta}));
        }
        events.push(json!({"type": "content_block_stop", "index": index}));
    }
    events.push(json!({"type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 15}}));
    events.push(json!({"type": "message_stop"}));
    named(&events)
}

pub(crate) fn text(pieces: &[&str]) -> (Value, Vec<Value>) {
    let delta = |piece: &&str| json!({"type": "text_delta", "text": piece});
    (json!({"type": "text", "text": ""}), pieces.iter().map(delta).collect())
}

pub(crate) fn tool_use(id: &str, name: &str, pieces: &[&str]) -> (Value, Vec<Value>) {
    let delta = |piece: &&str| json!({"type": "input_json_delta", "partial_json": piece});
    let block = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    (block, pieces.iter().map(delta).collect())
}

/// A text in pieces, as the format streams it.
pub(crate) fn saying(pieces: &[&str]) -> String {
    message(&[text(pieces)], "end_turn")
}

#[tokio::test]
async fn the_request_is_the_whole_conversation_word_for_word() {
    let server = Fixture::always(Answer::stream(saying(&["Fine."]))).await;
    desk(ANTHROPIC, &server.base_url).ask(&everything()).await.0.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/messages");
    assert_eq!(seen.headers["x-api-key"], KEY);
    assert_eq!(seen.headers["anthropic-version"], "2023-06-01");
    assert!(!seen.headers.contains_key("authorization"));
    let said = |text: &str| json!({"type": "text", "text": text});
    let expected = json!({
        "model": "small",
        "max_tokens": 4096,
        "system": "You find venues.",
        "messages": [
            {"role": "user", "content": [
                said("Plan a party in Bonn"), said("coordinator: The venue first."),
            ]},
            {"role": "assistant", "content": [
                said("I look."),
                {"type": "tool_use", "id": "c1", "name": FIND_VENUES, "input": {"city": "Bonn"}},
                {"type": "tool_use", "id": "c2", "name": "weather", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "[\"Pier 66\"]"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "rain"},
            ]},
            {"role": "assistant", "content": [said("Pier 66, with a roof.")]},
            {"role": "user", "content": [said("Sum up.")]},
        ],
        "stream": true,
        "tool_choice": {"type": "any"},
        "tools": [
            {"name": FIND_VENUES, "description": "Finds venues.", "input_schema":
                {"type": "object", "properties": {"city": {"type": "string"}}}},
            {"name": "structured_reply",
                "description": "Give your final reply. Call this once you need no other tool.",
                "input_schema": schema()},
        ],
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_reply_is_the_same_however_its_bytes_are_cut() {
    let transcript = saying(&["Grüße aus ", "Zürich 🎉"]);
    let crlf = transcript.replace('\n', "\r\n");
    for (text, bytes) in [(&transcript, 1), (&crlf, 3), (&transcript, 64)] {
        let server = Fixture::always(Answer::dripping(text, bytes)).await;
        let (reply, heard) = desk(ANTHROPIC, &server.base_url).ask(&hello()).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.text.as_str(), heard.concat()),
            ("Grüße aus Zürich 🎉", reply.text.clone())
        );
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (25, 15));
    }
}

#[tokio::test]
async fn a_structured_reply_is_a_forced_call_and_comes_back_as_output() {
    let reply = tool_use("toolu_1", "structured_reply", &["{\"summary\"", ": \"Pier 66\"}"]);
    let server = Fixture::always(Answer::stream(message(&[reply], "tool_use"))).await;
    let mut input = everything();
    input.tools.clear();
    let reply = desk(ANTHROPIC, &server.base_url).ask(&input).await.0.unwrap();
    assert_eq!((reply.output, reply.calls.len()), (Some(json!({"summary": "Pier 66"})), 0));
    let choice = json!({"type": "tool", "name": "structured_reply"});
    assert_eq!(server.seen()[0].body["tool_choice"], choice);
}

#[tokio::test]
async fn calls_that_come_in_fragments_are_joined() {
    let blocks = [
        (
            json!({"type": "thinking", "thinking": ""}),
            vec![json!({"type": "thinking_delta", "thinking": "hm"})],
        ),
        text(&["I look."]),
        tool_use("toolu_1", FIND_VENUES, &["", "{\"ci", "ty\":\"Bonn\"}"]),
        tool_use("toolu_2", "weather", &[""]),
    ];
    let server = Fixture::always(Answer::stream(message(&blocks, "tool_use"))).await;
    let (reply, heard) = desk(ANTHROPIC, &server.base_url).ask(&everything()).await;
    let reply = reply.unwrap();
    assert_eq!((reply.text.as_str(), heard.concat().as_str()), ("I look.", "I look."));
    let calls: Vec<_> =
        reply.calls.iter().map(|call| (&*call.id, &*call.tool, &call.arguments)).collect();
    assert_eq!(
        calls,
        [("toolu_1", "find.venues", &json!({"city": "Bonn"})), ("toolu_2", "weather", &json!({})),]
    );
}

#[tokio::test]
async fn a_server_that_does_not_stream_is_understood() {
    let whole = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "small",
        "content": [{"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "t", "name": "weather", "input": {"day": 1}}],
        "stop_reason": "tool_use", "usage": {"input_tokens": 3, "output_tokens": 4},
    });
    let server = Fixture::always(Answer::json(200, &whole)).await;
    let (reply, heard) = desk(ANTHROPIC, &server.base_url).ask(&hello()).await;
    let reply = reply.unwrap();
    assert_eq!(heard.concat(), "I look.");
    assert_eq!(
        (reply.calls[0].arguments.clone(), reply.usage.output_tokens),
        (json!({"day": 1}), 4)
    );
}
