//! Every nonsense of a provider is a fault with a name, bounded, and retried only while nothing
//! has been said.

use std::sync::Arc;

use holdpoint::ports::Agents as _;
use serde_json::{Value, json};

use crate::models::desk::{Desk, Hasty, Heard, data, desk, everything, hello, named};
use crate::models::fixture::{Answer, Bit, Fixture};
use crate::models::{anthropic, chat, responses};
use crate::support::SimClock;

const PROVIDERS: [&str; 3] = ["openai_chat", "openai_responses", "anthropic"];

/// A good reply in the format of a provider.
fn fine(provider: &str) -> Answer {
    Answer::stream(match provider {
        "openai_chat" => chat::saying(&["Fine."]),
        "openai_responses" => responses::saying(&["Fine."]),
        _ => anthropic::saying(&["Fine."]),
    })
}

/// The first event that says something, in the format of a provider.
fn first_words(provider: &str) -> String {
    match provider {
        "openai_chat" => data(&[chat::chunk(&json!({"content": "So"}), &Value::Null)]),
        "openai_responses" => named(&[
            json!({"type": "response.output_text.delta", "output_index": 0, "delta": "So"}),
        ]),
        _ => named(&[json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "So"}})]),
    }
}

/// Asks a server that always answers the same; the fault, and how often it was asked.
async fn fault(provider: &str, answer: Answer) -> (String, bool, usize) {
    let server = Fixture::always(answer).await;
    let (code, retriable) = Desk::fault(desk(provider, &server.base_url).ask(&hello()).await.0);
    (code, retriable, server.seen().len())
}

#[tokio::test]
async fn every_no_has_a_name_and_only_some_are_asked_again() {
    let error = |kind: &str| json!({"type": "error", "error": {"type": kind, "message": "no"}});
    for provider in PROVIDERS {
        for (answer, code, tries) in [
            (Answer::json(401, &error("authentication_error")), "model.unauthorized", 1),
            (Answer::json(403, &error("permission_error")), "model.unauthorized", 1),
            (Answer::json(404, &error("not_found_error")), "model.not_found", 1),
            (Answer::json(400, &error("invalid_request_error")), "model.refused", 1),
            (
                Answer::json(400, &json!({"error": {"code": "context_length_exceeded"}})),
                "model.context_too_long",
                1,
            ),
            (Answer::json(429, &error("rate_limit_error")), "model.rate_limited", 3),
            (Answer::body(500, "text/html", "<h1>oops</h1>"), "model.unavailable", 3),
            (Answer::json(529, &error("overloaded_error")), "model.unavailable", 3),
            (
                Answer::body(307, "text/plain", "").header("location", "http://127.0.0.1:1/"),
                "model.refused",
                1,
            ),
            // 200, and yet no reply
            (Answer::json(200, &error("server_error")), "model.error_body", 3),
            (Answer::json(200, &error("invalid_request_error")), "model.error_body", 1),
            (Answer::stream(data(&[error("api_error")])), "model.error_body", 3),
            (Answer::body(200, "text/html", "<h1>Welcome</h1>"), "model.bad_json", 1),
            (Answer::body(200, "application/json", "{"), "model.bad_json", 3),
            (Answer::stream("data: {\"cho\n\n"), "model.bad_json", 3),
            (Answer::stream(b"data: \xff\xfe\n\n"), "model.bad_json", 3),
            (Answer::stream(""), "model.cut_stream", 3),
            (Answer::bits(vec![Bit::Bytes(": hm\n\n".into()), Bit::Cut]), "model.cut_stream", 3),
            (Answer::stream(": no event ever ends\n\ndata: 1"), "model.cut_stream", 3),
        ] {
            let shown = format!("{provider} {answer:?}");
            let (found, retriable, asked) = fault(provider, answer).await;
            assert_eq!((found.as_str(), asked), (code, tries), "{shown}");
            assert_eq!(retriable, tries > 1, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_reply_that_ends_for_the_wrong_reason_is_no_reply() {
    let stopped = |reason: &str| data(&[chat::chunk(&json!({"content": "So"}), &json!(reason))]);
    let ended = |kind: &str, reason: &str| {
        let details = json!({"incomplete_details": {"reason": reason}, "error": {"code": reason, "message": "no"}});
        named(&[json!({"type": kind, "response": details})])
    };
    let refused = data(&[chat::chunk(&json!({"refusal": "I will not."}), &json!("stop"))]);
    let delta = |reason: &str| {
        named(&[
            json!({"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {}}),
            json!({"type": "message_stop"}),
        ])
    };
    for (provider, stream, code) in [
        ("openai_chat", stopped("content_filter"), "model.filtered"),
        ("openai_chat", refused, "model.declined"),
        (
            "openai_chat",
            data(&[chat::chunk(&json!({"content": " "}), &json!("stop"))]),
            "model.empty",
        ),
        ("openai_responses", ended("response.incomplete", "content_filter"), "model.filtered"),
        ("openai_responses", ended("response.failed", "server_error"), "model.error_body"),
        ("openai_responses", ended("response.failed", "rate_limit_exceeded"), "model.rate_limited"),
        ("openai_responses", named(&[responses::completed()]), "model.empty"),
        ("anthropic", delta("refusal"), "model.declined"),
        ("anthropic", delta("end_turn"), "model.empty"),
    ] {
        let (found, ..) = fault(provider, Answer::stream(&stream)).await;
        assert_eq!(found, code, "{provider}: {stream}");
    }
    // An error event may carry its fields nested or flat.
    for event in [
        json!({"type": "error", "code": "server_error", "message": "no", "param": null}),
        json!({"type": "error", "error": {"code": "server_error", "message": "no"}}),
    ] {
        let (found, ..) = fault("openai_responses", Answer::stream(named(&[event]))).await;
        assert_eq!(found, "model.error_body");
    }
}

#[tokio::test]
async fn arguments_that_are_no_json_are_not_guessed_at() {
    let call = json!({"tool_calls": [{"index": 0, "id": "c", "type": "function",
        "function": {"name": "weather", "arguments": "{\"day\": "}}]});
    let stream = data(&[chat::chunk(&call, &json!("tool_calls"))]);
    let (code, retriable, _) = fault("openai_chat", Answer::stream(stream)).await;
    assert_eq!((code.as_str(), retriable), ("model.bad_json", true));
}

#[tokio::test]
async fn a_reply_without_end_is_stopped() {
    // An event that never ends, a thousand events that each say much, and a body that is too large.
    let endless = format!("data: {}", "x".repeat(5 << 20));
    let much = chat::chunk(&json!({"content": "x".repeat(4_000)}), &Value::Null);
    let talkative = data(&vec![much; 1_000]);
    for answer in [
        Answer::stream(endless),
        Answer::dripping(&talkative, 60_000),
        Answer::body(200, "application/json", "x".repeat(5 << 20)),
    ] {
        let server = Fixture::always(answer).await;
        let (reply, _) = desk("openai_chat", &server.base_url).ask(&hello()).await;
        assert_eq!(Desk::fault(reply), ("model.too_large".to_owned(), false));
        assert_eq!(server.seen().len(), 1);
    }
}

#[tokio::test]
async fn a_try_that_failed_before_a_word_is_made_again_and_one_after_it_is_not() {
    for provider in PROVIDERS {
        let server = Fixture::start(move |number, _| match number {
            0 => Answer::bits(vec![Bit::Cut]),
            1 => Answer::json(503, &json!({})),
            _ => fine(provider),
        })
        .await;
        let clock = Arc::new(Hasty::default());
        let desk = Desk::new(clock.clone(), provider, &server.base_url, &json!({}));
        let (reply, heard) = desk.ask(&hello()).await;
        assert_eq!((reply.unwrap().text.as_str(), heard.concat().as_str()), ("Fine.", "Fine."));
        let pauses = clock.pauses.lock().unwrap().clone();
        assert!(matches!(pauses[..], [250..=500, 500..=1_000]), "{pauses:?}");

        let spoken = vec![Bit::Bytes(first_words(provider).into()), Bit::Cut];
        let server = Fixture::always(Answer::bits(spoken)).await;
        let mut heard = Heard::default();
        let desk = Desk::new(clock, provider, &server.base_url, &json!({}));
        let reply = desk.registry.reply(&desk.workflow, &hello(), &mut heard).await;
        assert_eq!(Desk::fault(reply), ("model.cut_stream".to_owned(), true));
        assert_eq!((heard.0.concat().as_str(), server.seen().len()), ("So", 1), "{provider}");
    }
}

#[tokio::test]
async fn a_server_that_wants_to_be_left_alone_is() {
    for (after, pauses, tries) in [("2", 2_000..=2_500, 2), ("3600", 0..=0, 1)] {
        let limited = Answer::json(429, &json!({"error": {"message": "slow down"}}));
        let server = Fixture::start(move |number, _| match number {
            0 => limited.clone().header("retry-after", after),
            _ => fine("openai_chat"),
        })
        .await;
        let clock = Arc::new(Hasty::default());
        let desk = Desk::new(clock.clone(), "openai_chat", &server.base_url, &json!({}));
        let (reply, _) = desk.ask(&hello()).await;
        assert_eq!(server.seen().len(), tries);
        let paused: u64 = clock.pauses.lock().unwrap().iter().sum();
        assert!(pauses.contains(&paused), "{paused}");
        if tries == 1 {
            assert_eq!(Desk::fault(reply), ("model.rate_limited".to_owned(), true));
        }
    }
}

#[tokio::test]
async fn a_server_that_is_not_there_is_told_from_one_that_is_slow() {
    let gone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = gone.local_addr().unwrap();
    drop(gone);
    let desk = desk("openai_chat", &format!("http://{address}/v1"));
    assert_eq!(Desk::fault(desk.ask(&hello()).await.0), ("model.unreachable".to_owned(), true));

    // It takes the connection and never says hello.
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base_url = format!("https://{}/v1", mute.local_addr().unwrap());
    let more = json!({"timeouts": {"connect": "50ms"}, "retries": 0});
    let desk = Desk::new(Arc::new(SimClock::default()), "openai_chat", &base_url, &more);
    assert_eq!(Desk::fault(desk.ask(&hello()).await.0), ("model.timeout_connect".to_owned(), true));
}

#[tokio::test]
async fn silence_and_slowness_have_an_end() {
    let spoken = Bit::Bytes(first_words("openai_chat").into());
    let begun =
        Bit::Bytes(data(&[chat::chunk(&json!({"role": "assistant"}), &Value::Null)]).into());
    for (answer, code, heard) in [
        (Answer::never(), "model.timeout_first_token", ""),
        (Answer::bits(vec![begun, Bit::Never]), "model.timeout_first_token", ""),
        (Answer::bits(vec![spoken, Bit::Never]), "model.timeout_total", "So"),
    ] {
        let server = Fixture::always(answer).await;
        let clock = Arc::new(SimClock::default());
        let more = json!({"timeouts": {"first_token": "5s", "total": "9s"}, "retries": 0});
        let desk = Desk::new(clock.clone(), "openai_chat", &server.base_url, &more);
        let (words, mut hears) = tokio::sync::mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let mut sink = Sink(words);
            desk.registry.reply(&desk.workflow, &hello(), &mut sink).await
        });
        server.asked().await;
        if heard.is_empty() {
            clock.advance(5_000);
        } else {
            assert_eq!(hears.recv().await.unwrap(), heard);
            clock.advance(9_000);
        }
        assert_eq!(Desk::fault(task.await.unwrap()), (code.to_owned(), true));
        server.left().await;
    }
}

/// Passes words on to a test.
struct Sink(tokio::sync::mpsc::UnboundedSender<String>);

#[async_trait::async_trait]
impl holdpoint::ports::DeltaSink for Sink {
    async fn push(&mut self, text: String) {
        self.0.send(text).unwrap();
    }

    async fn note(&mut self, _memo: Value) -> Result<(), holdpoint::kernel::AttemptFault> {
        Ok(())
    }
}

#[tokio::test]
async fn whoever_stops_listening_stops_the_model() {
    for answer in [Answer::never(), Answer::bits(vec![Bit::Never])] {
        let server = Fixture::always(answer).await;
        let desk =
            Desk::new(Arc::new(SimClock::default()), "openai_chat", &server.base_url, &json!({}));
        let task = tokio::spawn(async move { desk.ask(&everything()).await });
        server.asked().await;
        task.abort();
        server.left().await;
    }
}
