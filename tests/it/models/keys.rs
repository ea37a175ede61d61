//! Keys come from the environment by name, and are nowhere else: not in errors, logs, journals or
//! recordings.

use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};

use holdpoint::agents::Registry;
use holdpoint::engine::{Engine, Entry, Library, StartRequest};
use holdpoint::kernel::{Event, digest};
use holdpoint::ports::Agents as _;
use holdpoint::store::StoreConfig;
use serde_json::json;

use crate::models::desk::{Desk, Hasty, KEY, hello};
use crate::models::fixture::{Answer, Fixture};
use crate::models::plays::{served, shipped};
use crate::support::{all, someone};

/// Where log lines go.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Every byte of every file in a folder.
fn bytes_in(folder: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        bytes.extend(if path.is_dir() { bytes_in(&path) } else { std::fs::read(&path).unwrap() });
    }
    bytes
}

fn has(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn a_key_is_in_no_journal_no_log_and_no_error() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);

    // The server repeats the key, as servers do.
    let echo = format!("Incorrect API key provided: {KEY}. You can find yours elsewhere.");
    let server = Fixture::always(Answer::json(401, &json!({"error": {"message": echo}}))).await;
    let mut workflow = served(&shipped("approve_and_send"), "openai_chat", &server.base_url);
    let model = workflow.models.get_mut("default").unwrap();
    model.settings["key_env"] = "TEST_KEY".into();
    let folder = tempfile::tempdir().unwrap();
    let store = holdpoint::store::open(&StoreConfig::new(folder.path())).await.unwrap();
    let clock = Arc::new(Hasty::default());
    let registry = Registry::new(clock.clone()).with_environment(|_| Some(KEY.to_owned()));
    let registry = Arc::new(registry);
    assert_eq!(registry.check(&workflow), Ok(()));
    let library = Library::default();
    let digest = digest::of(&serde_json::to_value(&workflow).unwrap());
    let entry = Entry { workflow: Arc::new(workflow), digest };
    library.add(&*store.journal(), entry).await.unwrap();
    let engine = Engine::new(store.journal(), clock, registry.clone(), registry, library);
    let request = StartRequest {
        workflow: "approve_and_send".into(),
        input: json!("Tell Ada that it ships."),
        ..StartRequest::default()
    };
    let told = all(engine.start(request, &someone()).await.unwrap().watch).await;

    let Event::Failed(failure) = &*told.last().unwrap().event else { panic!("{told:?}") };
    assert!(failure.message.contains("********"), "{}", failure.message);
    assert_eq!(server.seen()[0].headers["authorization"], format!("Bearer {KEY}"));
    engine.shut_down(std::time::Duration::ZERO).await;
    drop(guard);
    let stored = bytes_in(folder.path());
    assert!(has(&stored, "Tell Ada that it ships."), "the journal is read where it lies");
    assert!(has(&stored, "TEST_KEY"), "the name of the variable is no secret");
    assert!(!has(&stored, KEY) && !format!("{told:?}{engine:?}").contains(KEY));
    let logged = log.0.lock().unwrap().clone();
    assert!(!logged.is_empty() && !has(&logged, KEY));
}

#[tokio::test]
async fn a_key_that_is_missing_is_told_by_name_before_anything_runs() {
    let desk = |key_env: &str| {
        let settings =
            json!({"model": "small", "base_url": "http://localhost:1", "key_env": key_env});
        Desk::with(Arc::new(Hasty::default()), "anthropic", settings)
    };
    let missing = desk("NO_SUCH_KEY");
    let (at, remedy) = missing.registry.check(&missing.workflow).unwrap_err();
    assert_eq!(at, "/models/m/key_env");
    assert!(remedy.contains("`NO_SUCH_KEY` is not set"), "{remedy}");
    let fault = missing.ask(&hello()).await.0.unwrap_err();
    assert_eq!((fault.failure.code.as_str(), fault.retriable), ("model.key_missing", false));
    assert_eq!(missing.registry.without_keys().check(&missing.workflow), Ok(()));
    for key_env in ["TEST_KEY", "none"] {
        let desk = desk(key_env);
        assert_eq!(desk.registry.check(&desk.workflow), Ok(()));
    }
}

#[tokio::test]
async fn a_server_without_keys_is_sent_none() {
    let server = Fixture::always(Answer::json(500, &json!({}))).await;
    for provider in ["openai_chat", "openai_responses", "anthropic"] {
        let more = json!({"key_env": "none", "retries": 0});
        let desk = Desk::new(Arc::new(Hasty::default()), provider, &server.base_url, &more);
        assert!(desk.ask(&hello()).await.0.is_err());
    }
    for seen in server.seen() {
        assert!(!seen.headers.contains_key("authorization"));
        assert!(!seen.headers.contains_key("x-api-key"));
    }
}

#[test]
fn nothing_here_needs_cmake() {
    let lock = include_str!("../../../Cargo.lock");
    assert!(lock.contains("name = \"ring\""));
    for heavy in ["aws-lc-sys", "aws-lc-rs", "cmake", "openssl-sys"] {
        assert!(!lock.contains(&format!("name = \"{heavy}\"")), "{heavy} has crept in");
    }
}
