//! Holdpoints that delegate to one another over A2A: a question travels up the chain and its answer
//! down, whoever dies on the way.

use std::fs;
use std::path::Path;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    CancelRunRequest, ListRequestsRequest, ListRunsRequest, WatchRunRequest, WorkflowEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::listener::{Heard, Listener};
use crate::support::server::{Server, Setup, answer_to, asked, drained, names, send, start_of};

/// The last of the chain: thinks for a moment, asks a person, and books.
const DESK: &str = "
name: desk
models:
  default:
    provider: scripted
    script:
      - {agent: thinker, delay: 300ms, say: 'Let me see: {{first_user}}'}
      - {agent: booker, say: 'Booked: {{last_user}}'}
agents:
  thinker: {human_input: false}
  booker: {human_input: false}
pattern: sequential
steps:
  - {agent: thinker}
  - id: where
    human: {kind: selection, prompt: Where to?, options: [sea, hills]}
  - {agent: booker}
";

/// A workflow whose one agent is the workflow of another server.
fn relay(name: &str, remote: &str) -> String {
    format!(
        "
name: {name}
models:
  remote: {{provider: a2a, card: '{remote}', allow_private: true}}
agents:
  clerk: {{model: remote}}
pattern: sequential
steps:
  - {{agent: clerk}}
"
    )
}

fn server(root: &Path, name: &str, file: &str) -> Server {
    let home = root.join(name);
    let flows = home.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join(format!("{name}.yaml")), file).unwrap();
    Setup::new(&home).flows(&flows).start()
}

/// Front, relay and desk, each the client of the next.
fn chain(root: &Path) -> [Server; 3] {
    let desk = server(root, "desk", DESK);
    let middle = server(root, "middle", &relay("middle", &format!("{}/a2a/desk", desk.url())));
    let front = server(root, "front", &relay("front", &format!("{}/a2a/middle", middle.url())));
    [front, middle, desk]
}

/// Begins a run, and does not wait for it.
async fn begin(server: &Server, workflow: &str, input: &str) -> String {
    let mut client = server.client().await;
    let mut stream =
        client.run_workflow(start_of(workflow, "", input, input)).await.unwrap().into_inner();
    stream.message().await.unwrap().unwrap().run_id
}

/// The events of a run until one that is wanted.
async fn until(
    server: &Server,
    run_id: &str,
    wanted: impl Fn(&Event) -> bool,
) -> Vec<WorkflowEvent> {
    let request = WatchRunRequest {
        run_id: run_id.into(),
        through_pauses: true,
        ..WatchRunRequest::default()
    };
    let mut stream = server.client().await.watch_run(request).await.unwrap().into_inner();
    let mut told = Vec::new();
    while let Some(event) = stream.message().await.unwrap() {
        let is_it = wanted(event.event.as_ref().unwrap());
        told.push(event);
        if is_it {
            return told;
        }
    }
    panic!("it ended first: {:?}", names(&told));
}

/// The runs of a server, newest first.
async fn runs_of(server: &Server) -> Vec<String> {
    let request = ListRunsRequest::default();
    let listed = server.client().await.list_runs(request).await.unwrap().into_inner();
    listed.runs.into_iter().map(|run| run.run_id).collect()
}

#[tokio::test]
async fn a_question_travels_up_a_chain_and_its_answer_down_and_each_is_killed_on_the_way() {
    let root = TempDir::new().unwrap();
    let [mut front, mut middle, mut desk] = chain(root.path());
    let run_id = begin(&front, "front", "Book two nights.").await;
    // The last is killed while it thinks; those above it wait, and find it again.
    until(&front, &run_id, |event| matches!(event, Event::Noted(_))).await;
    let second = runs_of(&middle).await.remove(0);
    until(&middle, &second, |event| matches!(event, Event::Noted(_))).await;
    desk.restart_here();
    // The middle is killed while it follows; the front finds it again, and it the desk.
    middle.restart_here();
    let told = until(&front, &run_id, |event| matches!(event, Event::Status(_))).await;
    let request = asked(&told).unwrap();
    assert_eq!(request.prompt, "Where to?");
    assert_eq!(
        request.options.iter().map(|one| one.id.as_str()).collect::<Vec<_>>(),
        ["sea", "hills"]
    );
    // The front is killed while it waits; its inbox shows the question all the same.
    front.restart_here();
    let mut client = front.client().await;
    let inbox = client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner();
    assert_eq!(inbox.requests.len(), 1, "one question, asked by the last of three");
    assert_eq!(inbox.requests[0].prompt, "Where to?");
    let wrong = client.send_responses(answer_to(&request.request_id, "the moon", "key-1")).await;
    assert!(wrong.is_err(), "the first of three knows what the last would refuse");
    let events = send(&mut client, answer_to(&request.request_id, "hills", "key-2")).await;
    let output = events.iter().rev().find_map(|event| {
        let Some(Event::Output(output)) = &event.event else { return None };
        Some(format!("{:?}", output.value))
    });
    assert!(output.unwrap().contains("Booked: hills"), "{:?}", names(&events));
    assert_eq!(runs_of(&middle).await.len(), 1, "nothing was begun twice");
    let lowest = runs_of(&desk).await;
    assert_eq!(lowest.len(), 1, "nothing was begun twice");
    let request = WatchRunRequest { run_id: lowest[0].clone(), ..WatchRunRequest::default() };
    let last = desk.client().await.watch_run(request).await.unwrap().into_inner();
    let last = names(&drained(last).await.unwrap());
    assert_eq!(last.iter().filter(|name| **name == "response_received").count(), 1);
    assert_eq!(last.last(), Some(&"completed"));
}

/// Front and desk, of which the front knows only what the card says; both are killed on the way.
async fn a_question_travels_by(card: impl Fn(&Server) -> Value) {
    let root = TempDir::new().unwrap();
    let home = root.path().join("desk");
    let flows = home.join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("desk.yaml"), DESK).unwrap();
    let setup = Setup::new(&home).arg("--a2a-v03=true").arg("--a2a-root=desk");
    let mut desk = setup.start();
    let card = card(&desk);
    let cards = Listener::start(move |_: &Heard| (200, card.to_string()));
    let mut front =
        server(root.path(), "front", &relay("front", &format!("{}/card.json", cards.url())));
    let run_id = begin(&front, "front", "Book two nights.").await;
    until(&front, &run_id, |event| matches!(event, Event::Noted(_))).await;
    desk.restart_here();
    let told = until(&front, &run_id, |event| matches!(event, Event::Status(_))).await;
    let request = asked(&told).unwrap();
    assert_eq!(request.prompt, "Where to?");
    let options: Vec<_> = request.options.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(options, ["sea", "hills"]);
    front.restart_here();
    let answer = answer_to(&request.request_id, "hills", "key-2");
    let events = send(&mut front.client().await, answer).await;
    let output = events.iter().rev().find_map(|event| {
        let Some(Event::Output(output)) = &event.event else { return None };
        Some(format!("{:?}", output.value))
    });
    assert!(output.unwrap().contains("Booked: hills"), "{:?}", names(&events));
    assert_eq!(runs_of(&desk).await.len(), 1, "nothing was begun twice");
    // What is cancelled here is cancelled there.
    let run_id = begin(&front, "front", "Book three nights.").await;
    until(&front, &run_id, |event| matches!(event, Event::Status(_))).await;
    let cancel = CancelRunRequest { run_id, ..CancelRunRequest::default() };
    front.client().await.cancel_run(cancel).await.unwrap();
    let lowest = runs_of(&desk).await.remove(0);
    until(&desk, &lowest, |event| matches!(event, Event::Cancelled(_))).await;
}

/// A card of 0.3 with one interface.
fn older_card(url: &str, transport: &str) -> Value {
    json!({"name": "desk", "url": url, "preferredTransport": transport, "protocolVersion": "0.3.0",
        "capabilities": {"streaming": true}})
}

#[tokio::test]
async fn a_question_travels_by_grpc_alone() {
    a_question_travels_by(|desk| {
        let interface = json!({"url": desk.address(), "protocolBinding": "GRPC",
            "protocolVersion": "1.0", "tenant": "desk"});
        json!({"name": "desk", "capabilities": {"streaming": true},
            "supportedInterfaces": [interface]})
    })
    .await;
}

#[tokio::test]
async fn a_question_travels_by_the_older_json_rpc() {
    a_question_travels_by(|desk| older_card(&format!("{}/a2a/desk", desk.url()), "JSONRPC")).await;
}

#[tokio::test]
async fn a_question_travels_by_the_older_http() {
    a_question_travels_by(|desk| older_card(&format!("{}/a2a/desk", desk.url()), "HTTP+JSON"))
        .await;
}

#[tokio::test]
async fn a_question_travels_by_the_older_grpc() {
    a_question_travels_by(|desk| older_card(desk.address(), "GRPC")).await;
}

#[tokio::test]
async fn whoever_cancels_a_run_cancels_what_others_do_for_it_after_a_kill_too() {
    let root = TempDir::new().unwrap();
    let desk = server(root.path(), "desk", DESK);
    let mut front =
        server(root.path(), "front", &relay("front", &format!("{}/a2a/desk", desk.url())));
    let run_id = begin(&front, "front", "Book two nights.").await;
    until(&front, &run_id, |event| matches!(event, Event::Status(_))).await;
    front.restart_at("engine.after_append");
    let cancel = CancelRunRequest { run_id: run_id.clone(), ..CancelRunRequest::default() };
    let dead = front.client().await.cancel_run(cancel).await;
    assert!(dead.is_err(), "it died when it had written down that it is over");
    front.wait();
    front.restart();
    let lowest = runs_of(&desk).await.remove(0);
    let told = until(&desk, &lowest, |event| matches!(event, Event::Cancelled(_))).await;
    assert_eq!(names(&told).last(), Some(&"cancelled"));
}
