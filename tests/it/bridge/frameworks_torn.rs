//! A model that is cut off and then says something else: clients that put every piece of text that they are told
//! one after the other show what was said in the end, once.

use std::sync::Arc;

use bytes::Bytes;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{ListRunsRequest, WatchRunRequest};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::Semaphore;

use crate::bridge::calls::{Caller, Sse, kinds};
use crate::bridge::frameworks::{Framework, User};
use crate::models::chat::{chunk, saying};
use crate::models::desk::data;
use crate::models::fixture::{Answer, Bit, Fixture};
use crate::support::server::Server;

const TORN: &str = "I can not ";
const WHOLE: &str = "Yes, gladly.";

fn torn(then: Bit) -> Answer {
    let words = data(&[chunk(&json!({"content": TORN}), &Value::Null)]);
    Answer::bits(vec![Bit::Bytes(Bytes::from(words)), then])
}

/// A server with a workflow that this model speaks in.
fn served(model: &Fixture) -> (TempDir, Server) {
    let here = TempDir::new().unwrap();
    let flows = here.path().join("flows");
    std::fs::create_dir_all(&flows).unwrap();
    let file = json!({
        "name": "talk",
        "models": {"m": {"provider": "openai_chat", "model": "small",
            "base_url": model.base_url, "key_env": "none"}},
        "agents": {"host": {"instructions": "Talk.", "human_input": false,
            "retry": {"attempts": 3, "backoff": "10ms"}}},
        "pattern": "sequential",
        "steps": [{"agent": "host"}],
    });
    std::fs::write(flows.join("talk.yaml"), file.to_string()).unwrap();
    let server = Server::start(here.path());
    (here, server)
}

/// A model whose every second reply is cut off, and whose others are whole.
async fn cut() -> Fixture {
    Fixture::start(|number, _| match number % 2 {
        0 => torn(Bit::Cut),
        _ => Answer::stream(saying(&["Yes, ", "gladly."])),
    })
    .await
}

/// What a client that knows nothing but pieces has put together.
fn pieces(told: &[Sse]) -> String {
    told.iter().filter_map(|sse| sse.data["delta"].as_str()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_was_cut_off_and_came_otherwise_is_shown_once() {
    let model = cut().await;
    let (_here, server) = served(&model);
    for framework in [Framework::LangChain, Framework::Vercel] {
        let told = User::new(framework, "talk", &[]).says(&server, "Will you?");
        assert_eq!(
            (&told["text"], &told["pieces"]),
            (&json!(WHOLE), &json!(WHOLE)),
            "{framework:?}"
        );
    }
    let body = json!({"model": "talk", "input": "Will you?", "stream": true});
    let told = Caller::new(server.address()).events("POST", "/v1/responses", &body);
    assert_eq!(pieces(&told), WHOLE);
    let output = &told.last().unwrap().data["response"]["output"];
    assert_eq!(output.as_array().unwrap().len(), 1, "{output}");
    assert_eq!(model.seen().len(), 6, "each was asked twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_asks_for_pieces_is_told_them_as_they_are_spoken_and_which_are_void() {
    let model = cut().await;
    let (_here, mut server) = served(&model);
    let body = json!({"model": "talk", "input": "Will you?", "stream": true});
    let told = Caller::new(server.address()).events("POST", "/v1/responses?dialect=live", &body);
    assert_eq!(pieces(&told), format!("{TORN}{WHOLE}"));
    let done = |sse: &&Sse| sse.kind() == "response.output_item.done";
    let items: Vec<_> = told.iter().filter(done).map(|sse| &sse.data["item"]).collect();
    let fates: Vec<_> = items.iter().map(|item| (&item["status"], &item["void"])).collect();
    let (incomplete, completed) = (json!("incomplete"), json!("completed"));
    assert_eq!(fates, [(&incomplete, &json!(true)), (&completed, &Value::Null)], "{items:?}");
    let whole = &told.last().unwrap().data["response"];
    assert_eq!(whole["output"].as_array().unwrap().as_slice(), [items[1].clone()]);
    // Told again after a kill it is the same, piece by piece.
    server.restart();
    let path = format!("/v1/responses/{}?stream=true", whole["id"].as_str().unwrap());
    let again = Caller::new(server.address()).events("GET", &path, &Value::Null);
    assert_eq!(kinds(&again), kinds(&told));
    assert_eq!(pieces(&again), pieces(&told));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_message_that_a_kill_cut_off_is_shown_once_to_who_calls_again_with_the_same_key() {
    for framework in [Framework::LangChain, Framework::Vercel] {
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let model = Fixture::start(move |number, _| match number {
            0 => torn(Bit::Gate(Arc::clone(&held))),
            _ => Answer::stream(saying(&["Yes, ", "gladly."])),
        })
        .await;
        let (_here, mut server) = served(&model);
        let user = User::new(framework, "talk", &["key=k1"]);
        let cut_off = user.begin(&server, "say", "Will you?");
        model.asked().await;
        spoken(&server).await;
        server.restart_here();
        let ended = cut_off.wait_with_output().unwrap();
        let shown = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(!shown.contains(TORN), "{framework:?}: {shown}");
        let told = user.says(&server, "Will you?");
        assert_eq!(
            (&told["text"], &told["pieces"]),
            (&json!(WHOLE), &json!(WHOLE)),
            "{framework:?}"
        );
        let runs = Caller::new(server.address()).get("/v1/workflows/talk/runs").ok();
        assert_eq!(runs["data"].as_array().unwrap().len(), 1, "one call, one run: {runs}");
    }
}

/// Returns when the first words of the only run are durable.
async fn spoken(server: &Server) {
    let mut client = server.client().await;
    let runs = client.list_runs(ListRunsRequest::default()).await.unwrap().into_inner().runs;
    let run_id = runs[0].run_id.clone();
    let watch = WatchRunRequest { run_id, ..Default::default() };
    let mut events = client.watch_run(watch).await.unwrap().into_inner();
    while let Some(event) = events.message().await.unwrap() {
        if matches!(event.event, Some(Event::Delta(_))) {
            return;
        }
    }
    panic!("nothing was spoken");
}
