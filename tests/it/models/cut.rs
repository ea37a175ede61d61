//! Replies that are cut short, and the settings that tell a model where to stop, as they are sent.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use holdpoint::kernel::WhenCut;
use holdpoint::wire::v1::GetRunRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::bridge::calls::Caller;
use crate::models::desk::{Desk, Hasty, data, hello, named};
use crate::models::fixture::{Answer, Fixture};
use crate::models::{anthropic, chat};
use crate::support::server::{Setup, names, run, start_of};

/// A text that ends at the most tokens it may have, and what it cost.
fn cut(text: &str) -> String {
    let usage = json!({"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}});
    let chunks = [
        chat::chunk(&json!({"content": text}), &Value::Null),
        chat::chunk(&json!({}), &json!("length")),
        usage,
    ];
    data(&chunks) + "data: [DONE]\n\n"
}

#[tokio::test]
async fn a_reply_that_was_cut_short_keeps_its_words_and_its_figures() {
    let cost = json!({"input_tokens": 7, "output_tokens": 3});
    let part = json!({"type": "response.output_text.delta", "output_index": 0, "delta": "So"});
    let end = json!({"type": "response.incomplete", "response": {
        "incomplete_details": {"reason": "max_output_tokens"}, "usage": cost}});
    let message = anthropic::message(&[anthropic::text(&["So"])], "max_tokens");
    for (provider, stream, tokens) in [
        ("openai_chat", cut("So"), Some(3)),
        ("openai_responses", named(&[part, end]), Some(3)),
        ("anthropic", message, None),
    ] {
        for (word, when) in
            [("fail", WhenCut::Fail), ("continue", WhenCut::Continue), ("keep", WhenCut::Keep)]
        {
            let server = Fixture::always(Answer::stream(&stream)).await;
            let more = json!({"when_cut": word});
            let clock = Arc::new(Hasty::default());
            let desk = Desk::new(clock, provider, &server.base_url, &more);
            let (reply, heard) = desk.ask(&hello()).await;
            let reply = reply.unwrap();
            assert_eq!((reply.text.as_str(), reply.cut), ("So", Some(when)), "{provider}");
            assert_eq!(heard.concat(), "So");
            assert!(tokens.is_none_or(|most| reply.usage.output_tokens == most), "{provider}");
        }
    }
}

#[tokio::test]
async fn every_setting_is_sent_in_the_provider_s_own_words() {
    let shared = json!({"top_p": 0.5, "extra": {"min_p": 0.05}});
    for (provider, more, expected) in [
        (
            "openai_chat",
            json!({"stop": "END", "seed": 7, "reasoning_effort": "low"}),
            json!({"stop": ["END"], "seed": 7, "reasoning_effort": "low"}),
        ),
        (
            "openai_responses",
            json!({"reasoning_effort": "low"}),
            json!({"reasoning": {"effort": "low"}}),
        ),
        ("anthropic", json!({"stop": ["END"]}), json!({"stop_sequences": ["END"]})),
    ] {
        let server = Fixture::always(Answer::json(503, &json!({}))).await;
        let mut settings = shared.clone();
        settings.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let desk = Desk::new(Arc::new(Hasty::default()), provider, &server.base_url, &settings);
        desk.ask(&hello()).await.0.unwrap_err();
        let sent = server.seen()[0].body.clone();
        for (field, value) in expected.as_object().unwrap() {
            assert_eq!(sent[field], *value, "{provider}: {field}");
        }
        assert_eq!((&sent["top_p"], &sent["min_p"]), (&json!(0.5), &json!(0.05)), "{provider}");
    }
}

/// A writer whose model is cut short, and what its file says of that.
fn flow(root: &Path, model: &Fixture, when_cut: &str) {
    let file = json!({
        "name": format!("write_{when_cut}"),
        "models": {"m": {"provider": "openai_chat", "model": "small", "base_url": model.base_url,
            "key_env": "none", "when_cut": when_cut, "stop": ["END"]}},
        "agents": {"writer": {"instructions": "You write."}},
        "pattern": "sequential",
        "steps": [{"agent": "writer"}],
    });
    let flows = root.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join(format!("{when_cut}.yaml")), file.to_string()).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cut_reply_fails_goes_on_or_is_kept_as_its_file_says() {
    let root = TempDir::new().unwrap();
    let model = Fixture::start(|_, seen| {
        let asked = seen.body.clone();
        let has_begun = asked["messages"].to_string().contains("Go on exactly where it stops");
        Answer::stream(if has_begun { chat::saying(&["upon a time."]) } else { cut("Once ") })
    })
    .await;
    for when in ["fail", "continue", "keep"] {
        flow(root.path(), &model, when);
    }
    let server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    for (when, last, said) in [
        ("fail", "failed", "Once "),
        ("continue", "completed", "Once upon a time."),
        ("keep", "completed", "Once "),
    ] {
        let told = run(&mut client, start_of(&format!("write_{when}"), "", "Write.", "")).await;
        assert_eq!(names(&told).last(), Some(&last), "{when}");
        assert_eq!(names(&told).contains(&"warning"), when == "keep", "{when}");
        let request = GetRunRequest { run_id: told[0].run_id.clone(), omit_conversation: false };
        let seen = client.get_run(request).await.unwrap().into_inner();
        let words: Vec<_> = seen.conversation.iter().map(|message| message.text.as_str()).collect();
        assert!(words.contains(&said), "{when}: {words:?}");
        let usage = seen.run.unwrap().usage.unwrap();
        assert!(usage.output_tokens >= 3, "{when}: what it cost is counted");
    }
    // The same through another door.
    let response = Caller::new(server.address()).start("write_continue", "Write.");
    assert!(response["output"].to_string().contains("Once upon a time."), "{response}");
}
