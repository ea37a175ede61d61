//! Exchanges that were recorded are played back without a server, word for word.

use std::path::Path;
use std::sync::Arc;

use holdpoint::definition;
use holdpoint::kernel::{Message, Speaker};
use holdpoint::ports::Agents as _;
use serde_json::{Value, json};

use crate::models::desk::{Desk, Hasty, KEY, everything, hello};
use crate::models::fixture::{Answer, Fixture};
use crate::models::{anthropic, chat, responses};

fn desk(file: &Path, mode: &str, provider: &str, base_url: &str) -> Desk {
    let of = json!({"provider": provider, "model": "small", "base_url": base_url,
        "key_env": if mode == "record" { "TEST_KEY" } else { "NO_SUCH_KEY" }, "retries": 0});
    let settings = json!({"file": file, "mode": mode, "of": of});
    Desk::with(Arc::new(Hasty::default()), "recorded", settings)
}

#[tokio::test]
async fn a_recording_is_played_back_without_a_server_and_without_a_key() {
    for (provider, stream) in [
        ("openai_chat", chat::saying(&["Grüße ", "aus ", "Zürich"])),
        ("openai_responses", responses::saying(&["Grüße ", "aus ", "Zürich"])),
        ("anthropic", anthropic::saying(&["Grüße ", "aus ", "Zürich"])),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("play.jsonl");
        let server = Fixture::always(Answer::stream(stream)).await;
        let base_url = server.base_url.clone();
        let recording = desk(&file, "record", provider, &base_url);
        assert_eq!(recording.registry.check(&recording.workflow), Ok(()));
        let (first, heard) = recording.ask(&hello()).await;
        let first = first.unwrap();
        assert_eq!(heard.concat(), first.text);
        drop(server);

        let replay = desk(&file, "replay", provider, &base_url);
        assert_eq!(replay.registry.check(&replay.workflow), Ok(()));
        let (again, heard) = replay.ask(&hello()).await;
        assert_eq!(again.unwrap(), first);
        assert_eq!(heard, ["Grüße ", "aus ", "Zürich"], "{provider}: piece by piece");

        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(KEY));
        let line: Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!((&line["format"], &line["provider"]), (&json!(1), &json!(provider)));
        assert_eq!(line["usage"]["output_tokens"], first.usage.output_tokens);
    }
}

#[tokio::test]
async fn what_was_not_recorded_is_not_made_up() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("play.jsonl");
    let server = Fixture::always(Answer::stream(chat::saying(&["Fine."]))).await;
    desk(&file, "record", "openai_chat", &server.base_url).ask(&hello()).await.0.unwrap();
    let replay = desk(&file, "replay", "openai_chat", &server.base_url);
    let mut longer = hello();
    longer.messages.push(Arc::new(Message::text(Speaker::User, "ada", "More?")));
    for input in [everything(), longer] {
        let fault = Desk::fault(replay.ask(&input).await.0);
        assert_eq!(fault, ("model.not_recorded".to_owned(), false));
    }
    assert_eq!(server.seen().len(), 1, "a replay asks nobody");
}

#[tokio::test]
async fn a_reply_that_failed_is_not_recorded_and_a_later_one_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("play.jsonl");
    let server = Fixture::start(|number, _| match number {
        0 => Answer::json(500, &json!({})),
        1 => Answer::stream(chat::saying(&["One."])),
        _ => Answer::stream(chat::saying(&["Two."])),
    })
    .await;
    let recording = desk(&file, "record", "openai_chat", &server.base_url);
    assert!(recording.ask(&hello()).await.0.is_err());
    assert!(!file.exists());
    let replay = desk(&file, "replay", "openai_chat", &server.base_url);
    for text in ["One.", "Two."] {
        recording.ask(&hello()).await.0.unwrap();
        assert_eq!(replay.ask(&hello()).await.0.unwrap().text, text);
    }
}

#[tokio::test]
async fn a_recording_that_cannot_be_used_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("play.jsonl");
    let replay = desk(&file, "replay", "openai_chat", "http://localhost:1");
    let complaint = || replay.registry.check(&replay.workflow).unwrap_err();
    assert_eq!(complaint().0, "/models/m/file");
    for (text, wrong) in [
        ("nonsense\n", "line 1"),
        (
            "{\"format\":9,\"request\":\"\",\"provider\":\"\",\"agent\":\"\",\"reply\":[]}\n",
            "format 9",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let (at, remedy) = complaint();
        assert!(at == "/models/m/file" && remedy.contains(wrong), "{remedy}");
    }
    let nested = desk(&file, "record", "recorded", "http://localhost:1");
    assert_eq!(nested.registry.check(&nested.workflow).unwrap_err().0, "/models/m/of/provider");
}

#[tokio::test]
async fn a_workflow_file_names_a_server_or_a_recording_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.yaml");
    let write = |models: &str| {
        let rest = "agents: {a: {human_input: false}}\npattern: sequential\nsteps: [{agent: a}]\n";
        std::fs::write(&path, format!("name: w\nmodels:\n  m:\n{models}{rest}")).unwrap();
        definition::load_file(&path)
    };
    let server = "    provider: openai_chat\n    model: small\n    base_url: http://localhost:1/v1\n    key_env: none\n    timeouts: {connect: 2s}\n";
    let loaded = write(server).unwrap();
    let settings = &loaded.workflow.models["m"].settings;
    let expected = json!({"model": "small", "base_url": "http://localhost:1/v1", "key_env": "none",
        "timeouts": {"connect": "2s"}});
    assert_eq!(*settings, expected);

    let recorded = "    provider: recorded\n    file: takes/w.jsonl\n    mode: record\n    of: {provider: anthropic, model: small}\n";
    let loaded = write(recorded).unwrap();
    let file = loaded.workflow.models["m"].settings["file"].clone();
    assert_eq!(file, folder.path().join("takes/w.jsonl").to_str().unwrap());

    for (models, line, code) in [
        (server.replace("model:", "modle:"), 5, "field.unknown"),
        (server.replace("2s", "soon"), 8, "field.value"),
        (server.replace("none", "[x]"), 7, "field.type"),
        (recorded.replace("takes", ".."), 5, "file.elsewhere"),
        (recorded.replace("record\n", "forget\n"), 6, "field.value"),
    ] {
        let problems = write(&models).unwrap_err();
        let found: Vec<_> = problems.iter().map(|one| (one.line, one.code)).collect();
        assert_eq!(found, [(line, code)], "{models}\n{problems:?}");
    }
}
