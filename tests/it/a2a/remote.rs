//! Remote agents that lie, hang, forget or end twice: each is a clear fault of the step, never a wait
//! without end. And those that are merely old, or answer at once.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{HaltRequest, ReleaseHaltRequest, WorkflowEvent};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::listener::{FOR_EVER, Heard, Listener};
use crate::support::server::{Setup, answer_to, asked, names, run, send, start_of};

/// A remote agent without streams, whose answers a test gives by method.
fn remote(older: bool, answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static) -> Listener {
    remote_with(older, false, move |method, params| Some(answer(method, params)), "")
}

/// A remote agent with streams: it tells `told` where one is wanted, and answers else.
fn streaming(
    told: &str,
    answer: impl Fn(&str, &Value) -> Value + Send + Sync + 'static,
) -> Listener {
    let is_stream = |method: &str| matches!(method, "SendStreamingMessage" | "SubscribeToTask");
    let answer =
        move |method: &str, params: &Value| (!is_stream(method)).then(|| answer(method, params));
    remote_with(false, true, answer, told)
}

fn remote_with(
    older: bool,
    streams: bool,
    answer: impl Fn(&str, &Value) -> Option<Value> + Send + Sync + 'static,
    stream: &str,
) -> Listener {
    let stream = stream.to_owned();
    let home: Arc<std::sync::OnceLock<String>> = Arc::default();
    let known = Arc::clone(&home);
    let listener = Listener::start(move |call: &Heard| {
        let url = home.get().cloned().unwrap_or_default();
        if call.path.contains("agent-card") {
            let card = if older {
                json!({"name": "other", "url": url, "protocolVersion": "0.3.0", "capabilities": {}})
            } else {
                json!({"name": "other", "capabilities": {"streaming": streams}, "supportedInterfaces": [
                    {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]})
            };
            return (200, card.to_string());
        }
        let asked = call.json();
        let told = answer(asked["method"].as_str().unwrap_or_default(), &asked["params"]);
        let Some(mut told) = told else { return (200, stream.clone()) };
        told["jsonrpc"] = json!("2.0");
        told["id"] = asked["id"].clone();
        (200, told.to_string())
    });
    known.set(listener.url()).unwrap();
    listener
}

fn task(state: &str, said: &str) -> Value {
    json!({"id": "t1", "contextId": "c1", "status": {"state": state, "message":
        {"messageId": "q", "role": "ROLE_AGENT", "parts": [{"text": said}]}},
        "artifacts": [{"artifactId": "a", "parts": [{"text": "It is done."}]}]})
}

/// A server whose one agent is that remote.
fn served(root: &TempDir, remote: &Listener) -> crate::support::server::Server {
    served_from(root, &remote.url(), "true")
}

fn served_from(root: &TempDir, card: &str, allow: &str) -> crate::support::server::Server {
    let flows = root.path().join("flows");
    fs::create_dir_all(&flows).unwrap();
    let file = format!(
        "
name: front
models:
  other: {{provider: a2a, card: '{card}', allow_private: {allow}, timeouts: {{total: 2s, contact: 1s}}}}
agents:
  clerk: {{model: other, retry: {{attempts: 1}}}}
pattern: sequential
steps:
  - {{agent: clerk}}
"
    );
    fs::write(flows.join("front.yaml"), file).unwrap();
    Setup::new(root.path()).flows(&flows).start()
}

async fn played(remote: &Listener) -> Vec<WorkflowEvent> {
    let root = TempDir::new().unwrap();
    let server = served(&root, remote);
    run(&mut server.client().await, start_of("front", "", "Do it.", "k")).await
}

/// The code of the attempt that failed, and its words.
fn fault(events: &[WorkflowEvent]) -> (String, String) {
    let failed = events.iter().find_map(|event| match event.event.as_ref() {
        Some(Event::ExecutorFailed(failed)) => failed.failure.clone(),
        Some(_) | None => None,
    });
    let failed = failed.unwrap_or_else(|| panic!("nothing failed: {:?}", names(events)));
    assert_eq!(names(events).last(), Some(&"failed"));
    (failed.code, failed.message)
}

/// What a remote says of a task by the method that asks.
type Says = fn(&str) -> Value;

#[tokio::test]
async fn a_remote_that_lies_hangs_or_forgets_is_a_clear_fault() {
    let begun = || json!({"result": {"task": task("TASK_STATE_WORKING", "")}});
    let cases: [(&str, Says); 7] = [
        ("a2a.timeout", |_| json!({"result": task("TASK_STATE_WORKING", "")})),
        ("a2a.task_lost", |_| json!({"error": {"code": -32001, "message": "who?"}})),
        ("a2a.bad_reply", |_| json!({"result": task("TASK_STATE_DREAMING", "")})),
        ("a2a.bad_reply", |_| {
            json!({"result": {"id": "another", "status":
            {"state": "TASK_STATE_COMPLETED"}}})
        }),
        ("a2a.failed", |_| json!({"result": task("TASK_STATE_FAILED", "no money")})),
        ("a2a.rejected", |_| json!({"result": task("TASK_STATE_REJECTED", "not me")})),
        ("a2a.unauthorized", |_| json!({"error": {"code": -32000, "message": "key?"}})),
    ];
    for (code, says) in cases {
        let remote = remote(
            false,
            move |method, _| {
                if method == "SendMessage" { begun() } else { says(method) }
            },
        );
        let (told, message) = fault(&played(&remote).await);
        let expected = if code == "a2a.unauthorized" { "a2a.refused" } else { code };
        assert_eq!(told, expected, "{message}");
        assert!(message.starts_with("agent `other`: "), "{message}");
    }
    let gone = remote(false, |_, _| json!({"error": {"code": -32603, "message": "ill"}}));
    assert_eq!(fault(&played(&gone).await).0, "a2a.unreachable");
    let silent = remote(false, |_, _| json!({}));
    assert_eq!(fault(&played(&silent).await).0, "a2a.bad_reply");
}

/// An event of a stream by JSON-RPC.
fn event(told: &Value) -> String {
    format!("data: {}\n\n", json!({"jsonrpc": "2.0", "id": 1, "result": told}))
}

fn status(state: &str) -> Value {
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": state}}})
}

#[tokio::test]
async fn a_stream_that_ends_twice_breaks_off_lies_or_never_ends_is_no_wait_without_end() {
    let begun = event(&json!({"task": task("TASK_STATE_WORKING", "")}));
    let (done, failed) = (status("TASK_STATE_COMPLETED"), status("TASK_STATE_FAILED"));
    let twice = format!("{begun}{}{}", event(&done), event(&failed));
    let standing =
        |state: &'static str| move |_: &str, _: &Value| json!({"result": task(state, "")});
    let heard = played(&streaming(&twice, standing("TASK_STATE_COMPLETED"))).await;
    assert_eq!(names(&heard).last(), Some(&"completed"), "the first end counts");
    // What it says of its end is not how the task stands: how it stands is what counts.
    let ends = format!("{begun}{}", event(&done));
    let heard = played(&streaming(&ends, standing("TASK_STATE_FAILED"))).await;
    assert_eq!(fault(&heard).0, "a2a.failed");
    let works = event(&status("TASK_STATE_WORKING"));
    let working = || standing("TASK_STATE_WORKING");
    let another = event(&json!({"task": {"id": "t2", "status": {"state": "TASK_STATE_WORKING"}}}));
    for (code, told) in [
        ("a2a.bad_reply", "data:\n\n".to_owned()),
        ("a2a.bad_reply", "data: ?\n\n".to_owned()),
        ("a2a.bad_reply", event(&json!({"rumour": 1}))),
        ("a2a.bad_reply", format!("{begun}{another}")),
        ("a2a.bad_reply", format!("{begun}{}", event(&status("TASK_STATE_DREAMING")))),
        ("a2a.timeout", begun.clone()),
        ("a2a.timeout", format!("{begun}{works}{FOR_EVER}")),
    ] {
        let (told, message) = fault(&played(&streaming(&told, working())).await);
        assert_eq!(told, code, "{message}");
    }
}

#[tokio::test]
async fn a_remote_that_never_answers_is_out_of_reach() {
    for streams in [false, true] {
        let mute = |_: &str, _: &Value| -> Option<Value> {
            loop {
                std::thread::park();
            }
        };
        let remote = remote_with(false, streams, mute, "");
        assert_eq!(fault(&played(&remote).await).0, "a2a.unreachable");
    }
}

/// A card with one interface, of gRPC.
fn by_grpc(address: &str) -> Listener {
    let interface = json!({"url": address, "protocolBinding": "GRPC", "protocolVersion": "1.0"});
    let card = json!({"name": "other", "capabilities": {}, "supportedInterfaces": [interface]});
    Listener::start(move |_: &Heard| (200, card.to_string()))
}

#[tokio::test]
async fn a_remote_that_does_not_speak_the_grpc_of_its_card_is_out_of_reach() {
    let other = Listener::start(|_: &Heard| (200, "{}".into()));
    let address = other.url().replace("http://", "");
    assert_eq!(fault(&played(&by_grpc(&address)).await).0, "a2a.unreachable");
    // The card may be read from this machine; its interface is not where the file allows.
    let root = TempDir::new().unwrap();
    let card = by_grpc(&address);
    let card = card.url().replace("127.0.0.1", "localhost");
    let server = served_from(&root, &card, "[localhost]");
    let events = run(&mut server.client().await, start_of("front", "", "Do it.", "k")).await;
    assert_eq!(fault(&events).0, "a2a.private_address");
}

#[tokio::test]
async fn a_remote_that_ends_twice_or_answers_at_once_is_heard_once() {
    let looks = AtomicUsize::new(0);
    let twice = remote(false, move |method, _| {
        if method == "SendMessage" {
            return json!({"result": {"task": task("TASK_STATE_COMPLETED", "")}});
        }
        // Whoever asks again is told otherwise.
        looks.fetch_add(1, Ordering::SeqCst);
        json!({"result": task("TASK_STATE_FAILED", "after all not")})
    });
    let events = played(&twice).await;
    assert_eq!(names(&events).last(), Some(&"completed"), "{:?}", names(&events));
    let message = json!({"message": {"messageId": "m", "parts": [{"text": "Here."}]}});
    let quick = remote(false, move |_, _| json!({"result": message}));
    assert_eq!(names(&played(&quick).await).last(), Some(&"completed"));
}

#[tokio::test]
async fn a_remote_is_told_its_place_in_the_callers_trace() {
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let quick = remote(false, |_, _| json!({"result": {"task": task("TASK_STATE_COMPLETED", "")}}));
    let root = TempDir::new().unwrap();
    let server = served(&root, &quick);
    let mut request = tonic::Request::new(start_of("front", "", "Do it.", "k"));
    let value = tonic::metadata::MetadataValue::from_static(parent);
    request.metadata_mut().insert("traceparent", value);
    let stream = server.client().await.run_workflow(request).await.unwrap().into_inner();
    let told = crate::support::server::drained(stream).await.unwrap();
    assert_eq!(names(&told).last(), Some(&"completed"));
    let mut heard = std::iter::from_fn(|| quick.heard());
    let sent = heard.find(|call| !call.path.contains("agent-card")).expect("a message");
    assert_eq!(sent.headers["traceparent"], parent);
}

#[tokio::test]
async fn a_remote_of_the_older_protocol_asks_and_is_answered() {
    let remote = remote(true, |method, params| match method {
        "message/send" if params["message"]["taskId"] == "t1" => {
            assert_eq!(params["message"]["parts"][0]["text"], "Tuesday");
            assert_eq!(params["message"]["parts"][0]["kind"], "text");
            let mut done = task("completed", "");
            done["kind"] = json!("task");
            json!({"result": done})
        }
        "message/send" => {
            let mut asks = task("input-required", "Which day?");
            asks["kind"] = json!("task");
            json!({"result": asks})
        }
        _ => json!({"result": task("completed", "")}),
    });
    let root = TempDir::new().unwrap();
    let mut server = served(&root, &remote);
    let events = run(&mut server.client().await, start_of("front", "", "Do it.", "k")).await;
    let request = asked(&events).unwrap();
    assert_eq!(request.prompt, "Which day?");
    server.restart();
    let answer = answer_to(&request.request_id, "Tuesday", "k1");
    let events = send(&mut server.client().await, answer).await;
    assert_eq!(names(&events).last(), Some(&"completed"), "{:?}", names(&events));
    let calls: Vec<_> = std::iter::from_fn(|| remote.heard()).collect();
    let versions = calls.iter().filter_map(|call| call.headers.get("a2a-version"));
    assert!(versions.into_iter().all(|version| version == "0.3"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k4_nothing_is_handed_to_a_remote_that_was_halted_while_its_card_was_read() {
    let (tell, told) = std::sync::mpsc::channel::<()>();
    let (told, sent) = (std::sync::Mutex::new(told), Arc::new(AtomicUsize::new(0)));
    let (asked, was_asked) = (Arc::new(AtomicUsize::new(0)), Arc::clone(&sent));
    let (home, cards) = (Arc::<std::sync::OnceLock<String>>::default(), Arc::clone(&asked));
    let known = Arc::clone(&home);
    let remote = Listener::start(move |call: &Heard| {
        if call.path.contains("agent-card") {
            if cards.fetch_add(1, Ordering::SeqCst) == 0 {
                told.lock().unwrap().recv().unwrap();
            }
            let url = home.get().cloned().unwrap_or_default();
            let card = json!({"name": "other", "capabilities": {}, "supportedInterfaces": [
                {"url": url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}]});
            return (200, card.to_string());
        }
        let asked = call.json();
        was_asked.fetch_add(1, Ordering::SeqCst);
        let task = task("TASK_STATE_COMPLETED", "Done.");
        let result = json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"task": task}});
        (200, result.to_string())
    });
    known.set(remote.url()).unwrap();
    let root = TempDir::new().unwrap();
    let server = served(&root, &remote);
    let (mut client, mut other) = (server.client().await, server.client().await);
    let running =
        tokio::spawn(async move { run(&mut client, start_of("front", "", "Do it.", "k")).await });
    while asked.load(Ordering::SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    let scope = Some(Scope::All(true));
    let wish = HaltRequest { scope, reason: "odd".into(), ..Default::default() };
    let halt = other.halt(wish).await.unwrap().into_inner().halt.unwrap();
    tell.send(()).unwrap();
    while !server.page("/metrics").1.contains("holdpoint_deeds_under_way 0") {
        tokio::task::yield_now().await;
    }
    assert_eq!(sent.load(Ordering::SeqCst), 0, "it is stopped");
    let release = ReleaseHaltRequest { halt_id: halt.halt_id, reason: String::new() };
    other.release_halt(release).await.unwrap();
    let events = running.await.unwrap();
    assert_eq!(names(&events).last(), Some(&"completed"));
}
