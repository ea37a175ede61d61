//! No model is asked where a halt stands: not again after a failure, not after a pause, not once a connection stands.

use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use holdpoint::ports::leave::{self, Leave};
use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{HaltRequest, ReleaseHaltRequest};
use serde_json::json;
use tempfile::TempDir;

use crate::models::desk::{Desk, Hasty, hello};
use crate::models::fixture::{Answer, Fixture};
use crate::support::listener::{Heard, Listener};
use crate::support::server::{Setup, names, run, start_of};

const PROVIDERS: [&str; 3] = ["openai_chat", "openai_responses", "anthropic"];

/// A leave under which something may be begun only while that says so.
fn while_it(begins: impl Fn() -> bool + Send + Sync + 'static) -> Leave {
    Leave::new(|| true).begun_if(begins)
}

fn not_begun() -> (String, bool) {
    (leave::NOT_BEGUN.to_owned(), true)
}

#[tokio::test]
async fn k4_a_model_that_failed_is_not_asked_again_once_a_halt_stands() {
    for provider in PROVIDERS {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let server = Fixture::start(move |_, _| {
            count.fetch_add(1, Ordering::SeqCst);
            Answer::json(503, &json!({})).header("retry-after", "18")
        })
        .await;
        let clock = Arc::new(Hasty::default());
        let desk = Desk::new(clock.clone(), provider, &server.base_url, &json!({"retries": 4}));
        let leave = while_it(move || asked.load(Ordering::SeqCst) == 0);
        let (reply, _) = leave::within(Some(leave), desk.ask(&hello())).await;
        assert_eq!(Desk::fault(reply), not_begun(), "{provider}");
        assert_eq!(server.seen().len(), 1, "{provider}");
        assert_eq!(*clock.pauses.lock().unwrap(), [0; 0], "there is nothing to wait for");
    }
}

#[tokio::test]
async fn k4_a_model_is_not_asked_after_a_pause_in_which_it_was_halted() {
    for provider in PROVIDERS {
        let server = Fixture::always(Answer::json(503, &json!({}))).await;
        let clock = Arc::new(Hasty::default());
        let desk = Desk::new(clock.clone(), provider, &server.base_url, &json!({"retries": 4}));
        let paused = Arc::clone(&clock);
        let leave = while_it(move || paused.pauses.lock().unwrap().is_empty());
        let (reply, _) = leave::within(Some(leave), desk.ask(&hello())).await;
        assert_eq!(Desk::fault(reply), not_begun(), "{provider}");
        assert_eq!(server.seen().len(), 1, "{provider}");
        assert_eq!(clock.pauses.lock().unwrap().len(), 1);
    }
}

#[tokio::test]
async fn k4_a_model_that_was_halted_while_it_was_connected_to_is_not_asked_and_not_held_for_ill() {
    let server = Fixture::always(Answer::json(503, &json!({}))).await;
    let clock = Arc::new(Hasty::default());
    let desk = Desk::new(clock, "openai_chat", &server.base_url, &json!({"retries": 0}));
    for _ in 0..12 {
        let looks = AtomicUsize::new(0);
        // Before it is begun, and before a connection is made; no more once that stands.
        let leave = while_it(move || looks.fetch_add(1, Ordering::SeqCst) < 2);
        let (reply, _) = leave::within(Some(leave), desk.ask(&hello())).await;
        assert_eq!(Desk::fault(reply), not_begun());
    }
    assert_eq!(server.seen().len(), 0);
    assert_eq!(
        Desk::fault(desk.ask(&hello()).await.0).0,
        "model.unavailable",
        "no circuit is open"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k4_a_reply_that_was_halted_between_two_tries_is_owed_and_comes_after_the_halt() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (told, asked) = (Mutex::new(told), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&asked);
    let model = Listener::start(move |_: &Heard| {
        if count.fetch_add(1, Ordering::SeqCst) == 0 {
            told.lock().unwrap().recv().unwrap();
            return (503, "{}".to_owned());
        }
        let message = json!({"role": "assistant", "content": "Fine."});
        let choice = json!({"index": 0, "message": message, "finish_reason": "stop"});
        (200, json!({"choices": [choice]}).to_string())
    });
    let root = TempDir::new().unwrap();
    let flows = root.path().join("flows");
    fs::create_dir_all(&flows).unwrap();
    let file = format!(
        "
name: front
models:
  default: {{provider: openai_chat, model: m, base_url: '{}/v1', key_env: none, retries: 4}}
agents:
  clerk: {{human_input: false, retry: {{attempts: 1}}}}
pattern: sequential
steps:
  - {{agent: clerk}}
",
        model.url()
    );
    fs::write(flows.join("front.yaml"), file).unwrap();
    let server = Setup::new(root.path()).flows(&flows).start();
    let (mut client, mut other) = (server.client().await, server.client().await);
    let running =
        tokio::spawn(async move { run(&mut client, start_of("front", "", "Do it.", "k")).await });
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let scope = Some(Scope::Agent("clerk".into()));
    let wish = HaltRequest { scope, reason: "odd".into(), ..Default::default() };
    let halt = other.halt(wish).await.unwrap().into_inner().halt.unwrap();
    tell.send(()).unwrap();
    while !server.page("/metrics").1.contains("holdpoint_deeds_under_way 0") {
        tokio::task::yield_now().await;
    }
    assert_eq!(asked.load(Ordering::SeqCst), 1, "it is stopped");
    let release = ReleaseHaltRequest { halt_id: halt.halt_id, reason: String::new() };
    other.release_halt(release).await.unwrap();
    let events = running.await.unwrap();
    assert_eq!(names(&events).last(), Some(&"completed"), "its one attempt was not lost");
    assert_eq!(asked.load(Ordering::SeqCst), 2);
}
