//! Workflow files on the real server: one that is broken breaks itself only, one that changes is live for new runs
//! within a second, and none is taken half.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use holdpoint::wire::v1::GetWorkflowRequest;
use tempfile::TempDir;
use tokio::time::Instant;

use crate::support::server::{Client, Server, Setup, answer_to, asked, run, send, start_of};
use crate::terminal::cli::holdpoint;

/// Longer than any machine takes; what is waited for comes within a second.
const PATIENCE: Duration = Duration::from_secs(30);

/// A workflow that asks, and then comes to these words.
fn flow(name: &str, words: &str) -> String {
    format!(
        "name: {name}
description: {words}
pattern: graph
graph:
  steps:
    - id: ok
      human: {{kind: approval, prompt: Go on?}}
    - id: end
      extract: {{words: '${{\"{words}\"}}'}}
  output: '${{steps.end.words}}'
"
    )
}

fn folder(files: &[(&str, &str)]) -> TempDir {
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("flows")).unwrap();
    for (name, text) in files {
        put(root.path(), name, text);
    }
    root
}

fn put(root: &Path, name: &str, text: &str) {
    fs::write(root.join("flows").join(name), text).unwrap();
}

/// An open page of the workflows, which is told when it should look again.
struct Page(BufReader<TcpStream>);

impl Page {
    fn open(server: &Server) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let host = server.address();
        let ask = format!("GET /console/live/workflows HTTP/1.1\r\nHost: {host}\r\n\r\n");
        stream.write_all(ask.as_bytes()).unwrap();
        let mut page = Self(BufReader::new(stream));
        page.hears("hello");
        page
    }

    fn hears(&mut self, event: &str) {
        let mut line = String::new();
        while line.trim_end() != format!("event: {event}") {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream ended");
        }
    }
}

async fn described(client: &mut Client, name: &str) -> String {
    let asked = GetWorkflowRequest { workflow_id: name.into() };
    let found = client.get_workflow(asked).await.unwrap().into_inner();
    found.workflow.unwrap().description
}

#[tokio::test(flavor = "multi_thread")]
async fn one_broken_file_breaks_itself_only_and_is_named_everywhere() {
    let root = folder(&[
        ("good.yaml", &flow("good", "Fine.")),
        ("bad.yaml", "name: bad\npattern: grahp\n"),
        ("one.yaml", &flow("pair", "One.")),
        ("two.yaml", &flow("pair", "Two.")),
        ("worse.yaml", "name: [\n"),
    ]);
    let server = Setup::new(root.path()).start();
    let (code, ready) = server.page("/readyz");
    assert_eq!(code, 200, "{ready}");
    assert!(ready.contains("bad.yaml, one.yaml, two.yaml, worse.yaml"), "{ready}");
    let mut client = server.client().await;
    assert!(asked(&run(&mut client, start_of("good", "", "x", "k")).await).is_some());
    for name in ["bad", "worse"] {
        let refused = client.run_workflow(start_of(name, "", "x", name)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused}");
        assert!(refused.message().contains(&format!("{name}.yaml:")), "{refused}");
        let place = root.path().display().to_string();
        assert!(
            !refused.message().contains(&place),
            "where it lies is nobody's business: {refused}"
        );
    }
    let told = holdpoint(root.path(), &["workflows", "--server", &server.url()], "");
    assert_eq!(told.code, 0, "{told:?}");
    for part in ["good ", "bad.yaml is broken; `bad` cannot", "two.yaml is broken; `pair` cannot"] {
        assert!(told.out.contains(part), "{part}: {}", told.out);
    }
    let ended = holdpoint(root.path(), &["run", "bad", "x", "--server", &server.url()], "");
    assert_eq!(ended.code, 6, "{ended:?}");
    let (_, page) = server.page("/console/workflows");
    assert!(page.contains("4 files cannot be used") && page.contains("bad.yaml"), "{page}");
    // Without a server it is the same.
    drop(server);
    let place = ["--workflows", "flows", "--data", "other"];
    let told = holdpoint(root.path(), &[&["workflows", "--json"][..], &place].concat(), "").json();
    assert_eq!(told["broken"].as_array().unwrap().len(), 4, "{told}");
    let ended = holdpoint(root.path(), &[&["run", "good", "x"][..], &place].concat(), "");
    assert_eq!(ended.code, 4, "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_broken_file_does_not_let_the_example_of_its_name_take_its_place() {
    let root = folder(&[("approve_and_send.yaml", "name: approve_and_send\nsteps: [\n")]);
    let server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    let refused = client.run_workflow(start_of("approve_and_send", "", "x", "k")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_what_is_no_file_any_more_leaves_its_name_to_nobody() {
    let root = folder(&[("mine.yaml", &flow("approve_and_send", "Mine.")), ("a.yaml", "x: 1")]);
    let (mine, there) = (root.path().join("flows/mine.yaml"), root.path().join("elsewhere.yaml"));
    fs::remove_file(root.path().join("flows/a.yaml")).unwrap();
    fs::rename(&mine, &there).unwrap();
    symlink(&there, &mine).unwrap();
    let mut server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    assert_eq!(described(&mut client, "approve_and_send").await, "Mine.");
    // As a mount looks that is not there just now.
    let mut page = Page::open(&server);
    fs::remove_file(&there).unwrap();
    page.hears("changed");
    assert!(server.page("/readyz").1.contains("mine.yaml"), "{}", server.page("/readyz").1);
    assert_eq!(described(&mut client, "approve_and_send").await, "Mine.");
    // Taken away and put back, as a slow editor saves: no example takes its place between.
    fs::remove_file(&mine).unwrap();
    page.hears("changed");
    let refused = client.run_workflow(start_of("approve_and_send", "", "x", "gap")).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::NotFound);
    put(root.path(), "mine.yaml", &flow("approve_and_send", "Mine."));
    page.hears("changed");
    assert_eq!(described(&mut client, "approve_and_send").await, "Mine.");
    fs::remove_file(&mine).unwrap();
    symlink(&there, &mine).unwrap();
    page.hears("changed");
    // A later change elsewhere, and a restart: nobody knows whose name it had, and no example takes it.
    put(root.path(), "other.yaml", &flow("other", "Three."));
    page.hears("changed");
    assert_eq!(described(&mut client, "approve_and_send").await, "Mine.");
    server.restart();
    let mut client = server.client().await;
    let refused = client.run_workflow(start_of("approve_and_send", "", "x", "k")).await;
    assert!(refused.is_err(), "{refused:?}");
    assert!(server.page("/readyz").1.contains("mine.yaml"), "{}", server.page("/readyz").1);
    assert!(asked(&run(&mut client, start_of("other", "", "x", "o")).await).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_file_that_breaks_does_not_hand_its_name_to_another() {
    let gated = flow("pay", "Asked.");
    let root = folder(&[("pay.yaml", &gated)]);
    let server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    let mut page = Page::open(&server);
    // Another file of that name: neither is anybody's choice but the operator's, and what was in force stays so.
    put(root.path(), "pay-old.yaml", &flow("pay", "Unasked."));
    page.hears("changed");
    assert_eq!(described(&mut client, "pay").await, "Asked.");
    put(root.path(), "pay.yaml", "name: pay\npattern: [\n");
    page.hears("changed");
    assert_eq!(described(&mut client, "pay").await, "Asked.");
    let ready = server.page("/readyz").1;
    assert!(ready.contains("pay.yaml") && ready.contains("pay-old.yaml"), "{ready}");
    fs::remove_file(root.path().join("flows/pay.yaml")).unwrap();
    page.hears("changed");
    assert_eq!(
        described(&mut client, "pay").await,
        "Unasked.",
        "whoever takes one away has chosen"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_file_is_live_for_new_runs_and_a_run_keeps_what_it_began_with() {
    let root = folder(&[("letter.yaml", &flow("letter", "One."))]);
    let server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    let begun = asked(&run(&mut client, start_of("letter", "", "x", "k1")).await).unwrap();
    let mut page = Page::open(&server);
    let since = Instant::now();
    put(root.path(), "letter.yaml", &flow("letter", "Two."));
    page.hears("changed");
    assert_eq!(described(&mut client, "letter").await, "Two.");
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    assert!(server.page("/console/workflows").1.contains("changed "), "the page says so");
    assert!(server.page("/console/workflows/letter").1.contains("Two."), "the file is the new one");
    let ended = send(&mut client, answer_to(&begun.request_id, "approve", "a")).await;
    assert!(format!("{ended:?}").contains("One."), "the definition is pinned");

    // A new one, one that breaks, and one that goes.
    put(root.path(), "other.yaml", &flow("other", "Three."));
    page.hears("changed");
    assert_eq!(described(&mut client, "other").await, "Three.");
    put(root.path(), "letter.yaml", "name: letter\npattern: [\n");
    page.hears("changed");
    assert!(server.page("/readyz").1.contains("letter.yaml"), "{}", server.page("/readyz").1);
    assert!(server.page("/console/workflows").1.contains("earlier version is in force"));
    let again = asked(&run(&mut client, start_of("letter", "", "x", "k2")).await).unwrap();
    let ended = send(&mut client, answer_to(&again.request_id, "approve", "b")).await;
    assert!(format!("{ended:?}").contains("Two."), "the earlier version is in force");
    put(root.path(), "letter.yaml", &flow("letter", "Four."));
    page.hears("changed");
    assert_eq!(server.page("/readyz").1, "ready\n");
    fs::remove_file(root.path().join("flows/other.yaml")).unwrap();
    page.hears("changed");
    let refused = client.run_workflow(start_of("other", "", "x", "k3")).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::NotFound, "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_being_written_is_not_taken_half() {
    let root = folder(&[("letter.yaml", &flow("letter", "One."))]);
    let server = Setup::new(root.path()).start();
    let mut client = server.client().await;
    let mut page = Page::open(&server);
    // Right by itself, and without the question that the whole file asks.
    let whole = flow("letter", "Two.");
    let half = "name: letter\ndescription: Half.\npattern: graph\ngraph:\n  steps:\n    - id: end\n      extract: {words: 'x'}\n";
    let until = Instant::now() + Duration::from_millis(1_500);
    while Instant::now() < until {
        put(root.path(), "letter.yaml", half);
        assert_eq!(described(&mut client, "letter").await, "One.", "it is still being written");
    }
    put(root.path(), "letter.yaml", &whole);
    page.hears("changed");
    assert_eq!(described(&mut client, "letter").await, "Two.");
}
