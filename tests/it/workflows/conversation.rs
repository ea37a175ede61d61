//! The conversation's bound on the real binary: a summary is asked for once more if it was cut off,
//! and never again once it is in the journal.

use std::fs;
use std::sync::Mutex;

use holdpoint::wire::v1::GetRunRequest;
use holdpoint::wire::v1::workflow_event::Event;
use serde_json::json;
use tempfile::TempDir;

use crate::models::chat::saying;
use crate::models::fixture::{Answer, Fixture, Seen};
use crate::support::server::{Setup, journal, names, start_of};

/// Who was asked: by the instructions, which come first.
fn asked(seen: &Seen) -> &str {
    seen.body["messages"][0]["content"].as_str().unwrap()
}

fn times(model: &Fixture, who: &str) -> usize {
    model.seen().iter().filter(|seen| asked(seen) == who).count()
}

#[tokio::test]
async fn a_summary_survives_a_kill_and_is_not_written_twice() {
    let long = "x".repeat(3_000);
    let spoken: Mutex<Vec<String>> = Mutex::default();
    let words = long.clone();
    let model = Fixture::start(move |_, seen| {
        let who = asked(seen).to_owned();
        let mut spoken = spoken.lock().unwrap();
        spoken.push(who.clone());
        let is_first = spoken.iter().filter(|one| **one == who).count() == 1;
        match (who.as_str(), is_first) {
            ("You are a.", _) => Answer::stream(saying(&[&words])),
            ("You sum up.", false) => Answer::stream(saying(&["A lot of x."])),
            ("You are b.", false) => Answer::stream(saying(&["Done."])),
            // The first time, the server under test is killed while it waits for this.
            _ => Answer::never(),
        }
    })
    .await;
    let root = TempDir::new().unwrap();
    let flows = root.path().join("flows");
    fs::create_dir_all(&flows).unwrap();
    let file = json!({
        "name": "long",
        "conversation": {"max_bytes": 2_000, "when_full": {"summarise": "scribe"}},
        "models": {"m": {"provider": "openai_chat", "model": "small", "base_url": model.base_url,
            "key_env": "none"}},
        "agents": {"a": {"instructions": "You are a."}, "b": {"instructions": "You are b."},
            "scribe": {"instructions": "You sum up."}},
        "pattern": "sequential",
        "steps": [{"agent": "a"}, {"agent": "b"}],
    });
    fs::write(flows.join("long.yaml"), file.to_string()).unwrap();
    let setup = Setup::new(root.path());
    let mut server = setup.start();
    let request = start_of("long", "", "What we want.", "k");
    let mut stream = server.client().await.run_workflow(request).await.unwrap().into_inner();
    let run_id = stream.message().await.unwrap().unwrap().run_id;
    model.asked().await;
    model.asked().await;
    assert_eq!(times(&model, "You sum up."), 1);
    server.kill();
    let mut server = setup.start();
    model.asked().await;
    model.asked().await;
    assert_eq!((times(&model, "You sum up."), times(&model, "You are b.")), (2, 1));
    server.kill();
    let server = setup.start();
    let mut client = server.client().await;
    let told = journal(&mut client, &run_id).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    let warned = told.iter().any(|event| match event.event.as_ref() {
        Some(Event::Warning(warning)) => warning.code == "conversation.summarised",
        Some(_) | None => false,
    });
    assert!(warned, "{:?}", names(&told));
    assert_eq!((times(&model, "You sum up."), times(&model, "You are b.")), (2, 2));
    let seen = model.seen();
    let given = seen.last().unwrap().body["messages"].to_string();
    assert!(given.contains("What we want.") && given.contains("A lot of x."), "{given}");
    assert!(!given.contains("xxx"), "{given}");
    let request = GetRunRequest { run_id, omit_conversation: false };
    let whole = client.get_run(request).await.unwrap().into_inner().conversation;
    assert!(whole.iter().any(|message| message.text == long), "every word is kept");
}
