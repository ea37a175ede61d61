//! OpenAI Responses, byte for byte: what is sent, and what comes of every kind of reply.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::models::desk::{Desk, FIND_VENUES, Hasty, KEY, desk, everything, hello, named, schema};
use crate::models::fixture::{Answer, Fixture};

const RESPONSES: &str = "openai_responses";

/// The response that begins and ends a stream.
fn response(status: &str, output: &Value) -> Value {
    json!({
        "id": "resp_67ccd3a9da748190baa7f1570fe91ac604becb25c45c1d41",
        "object": "response", "created_at": 1_741_476_777, "status": status, "error": null,
        "incomplete_details": null, "model": "small-2026", "output": output, "store": false,
        "usage": if status == "completed" {
            json!({"input_tokens": 36, "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": 87, "total_tokens": 123})
        } else {
            Value::Null
        },
    })
}

fn message(text: &str) -> Value {
    json!({"id": "msg_1", "type": "message", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

/// A text in pieces, as the format streams it.
pub(crate) fn saying(pieces: &[&str]) -> String {
    let item = |text: &str| message(text);
    let mut events = vec![
        json!({"type": "response.created", "response": response("in_progress", &json!([]))}),
        json!({"type": "response.in_progress", "response": response("in_progress", &json!([]))}),
        json!({"type": "response.output_item.added", "output_index": 0, "item": item("")}),
        json!({"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}}),
    ];
    for piece in pieces {
        events.push(json!({"type": "response.output_text.delta", "item_id": "msg_1",
            "output_index": 0, "content_index": 0, "delta": piece, "logprobs": []}));
    }
    let text = pieces.concat();
    events.extend([
        json!({"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
            "content_index": 0, "text": text}),
        json!({"type": "response.output_item.done", "output_index": 0, "item": item(&text)}),
        json!({"type": "response.completed",
            "response": response("completed", &json!([item(&text)]))}),
    ]);
    numbered(events)
}

/// The events with their sequence numbers, as they go over the wire.
pub(crate) fn numbered(mut events: Vec<Value>) -> String {
    for (number, event) in events.iter_mut().enumerate() {
        event["sequence_number"] = number.into();
    }
    named(&events)
}

/// A call in fragments.
pub(crate) fn calling(place: u64, id: &str, name: &str, arguments: &[&str]) -> Vec<Value> {
    let item = |arguments: &str| {
        json!({"type": "function_call", "id": format!("fc_{place}"), "call_id": id, "name": name,
            "status": "completed", "arguments": arguments})
    };
    let whole = arguments.concat();
    let mut events = vec![
        json!({"type": "response.output_item.added", "output_index": place, "item": item("")}),
    ];
    for delta in arguments {
        events.push(json!({"type": "response.function_call_arguments.delta",
            "item_id": format!("fc_{place}"), "output_index": place, "delta": delta}));
    }
    events.push(json!({"type": "response.function_call_arguments.done",
        "item_id": format!("fc_{place}"), "output_index": place, "arguments": whole}));
    events.push(
        json!({"type": "response.output_item.done", "output_index": place, "item": item(&whole)}),
    );
    events
}

/// The last event of a stream.
pub(crate) fn completed() -> Value {
    json!({"type": "response.completed", "response": response("completed", &json!([]))})
}

#[tokio::test]
async fn the_request_is_the_whole_conversation_word_for_word() {
    let server = Fixture::always(Answer::stream(saying(&["Fine."]))).await;
    let more = json!({"max_tokens": 500, "temperature": 0.0});
    let desk = Desk::new(Arc::new(Hasty::default()), RESPONSES, &server.base_url, &more);
    desk.ask(&everything()).await.0.unwrap();
    let seen = &server.seen()[0];
    assert_eq!(seen.path, "/v1/responses");
    assert_eq!(seen.headers["authorization"], format!("Bearer {KEY}"));
    let said = |role: &str, kind: &str, text: &str| json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]});
    let expected = json!({
        "model": "small",
        "instructions": "You find venues.",
        "input": [
            said("user", "input_text", "Plan a party in Bonn"),
            said("user", "input_text", "coordinator: The venue first."),
            said("assistant", "output_text", "I look."),
            {"type": "function_call", "call_id": "c1", "name": FIND_VENUES,
                "arguments": "{\"city\":\"Bonn\"}"},
            {"type": "function_call", "call_id": "c2", "name": "weather", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c1", "output": "[\"Pier 66\"]"},
            {"type": "function_call_output", "call_id": "c2", "output": "rain"},
            said("assistant", "output_text", "Pier 66, with a roof."),
            said("system", "input_text", "Sum up."),
        ],
        "stream": true,
        "store": false,
        "tools": [{
            "type": "function",
            "name": FIND_VENUES,
            "description": "Finds venues.",
            "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
            "strict": false,
        }],
        "text": {"format": {
            "type": "json_schema", "name": "reply", "schema": schema(), "strict": true,
        }},
        "max_output_tokens": 500,
        "temperature": 0.0,
    });
    assert_eq!(seen.body, expected);
}

#[tokio::test]
async fn a_reply_is_the_same_however_its_bytes_are_cut() {
    let transcript = saying(&["Grüße aus ", "Zürich 🎉"]);
    let crlf = transcript.replace('\n', "\r\n");
    // Gateways that translate from Chat Completions keep its last line, and lose the names.
    let translated = transcript.lines().filter(|line| !line.starts_with("event:"));
    let translated = translated.collect::<Vec<_>>().join("\n") + "\ndata: [DONE]\n\n";
    for (text, bytes) in [(&transcript, 1), (&crlf, 3), (&translated, 64)] {
        let server = Fixture::always(Answer::dripping(text, bytes)).await;
        let (reply, heard) = desk(RESPONSES, &server.base_url).ask(&hello()).await;
        let reply = reply.unwrap();
        assert_eq!(
            (reply.text.as_str(), heard.concat()),
            ("Grüße aus Zürich 🎉", reply.text.clone())
        );
        assert_eq!((reply.usage.input_tokens, reply.usage.output_tokens), (36, 87));
    }
}

#[tokio::test]
async fn calls_that_come_in_fragments_are_joined() {
    let mut events =
        vec![json!({"type": "response.created", "response": response("in_progress", &json!([]))})];
    events.push(json!({"type": "response.output_item.added", "output_index": 0,
        "item": {"type": "reasoning", "id": "rs_1", "summary": []}}));
    events.extend(calling(1, "call_1", FIND_VENUES, &["{\"ci", "ty\":\"Bonn\"}"]));
    events.extend(calling(2, "call_2", "weather", &[]));
    events.push(completed());
    let server = Fixture::always(Answer::stream(numbered(events))).await;
    let reply = desk(RESPONSES, &server.base_url).ask(&everything()).await.0.unwrap();
    let calls: Vec<_> =
        reply.calls.iter().map(|call| (&*call.id, &*call.tool, &call.arguments)).collect();
    assert_eq!(
        calls,
        [("call_1", "find.venues", &json!({"city": "Bonn"})), ("call_2", "weather", &json!({})),]
    );
}

#[tokio::test]
async fn a_server_that_streams_nothing_but_the_end_or_not_at_all_is_understood() {
    let output = json!([message("Fine."), {"type": "function_call", "call_id": "c", "name": "weather",
        "arguments": "{}"}]);
    let whole = response("completed", &output);
    let end = json!({"type": "response.completed", "response": whole});
    for answer in [Answer::json(200, &whole), Answer::stream(named(&[end]))] {
        let server = Fixture::always(answer).await;
        let (reply, heard) = desk(RESPONSES, &server.base_url).ask(&hello()).await;
        let reply = reply.unwrap();
        assert_eq!((reply.text.as_str(), heard.concat().as_str()), ("Fine.", "Fine."));
        assert_eq!((reply.calls.len(), reply.usage.output_tokens), (1, 87));
    }
}
