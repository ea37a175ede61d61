//! The command line in conversation: a server that follows a script stands in for the real one, so
//! that refusals, broken streams and hostile text come exactly when a test wants them.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
};

use holdpoint::wire::v1::orchestrator_server::OrchestratorServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_stream::wrappers::TcpListenerStream;

use crate::support::fake_orchestrator::{ASKED, DIGEST, Fake, RUN};
use crate::terminal::cli::{Ended, holdpoint};

/// Serves the fake until the handle is aborted.
async fn serve(fake: &Fake) -> (String, tokio::task::AbortHandle) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let service = OrchestratorServer::new(fake.clone());
    let server = tonic::transport::Server::builder().add_service(service);
    let serving = tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    (address, serving.abort_handle())
}

/// Runs one command against the fake.
async fn talk(fake: &Fake, arguments: &[&str], stdin: &str) -> Ended {
    let (address, serving) = serve(fake).await;
    let mut arguments: Vec<String> = arguments.iter().map(|&it| it.into()).collect();
    arguments.extend(["--server".into(), address]);
    let stdin = stdin.to_owned();
    let ended = tokio::task::spawn_blocking(move || {
        let folder = tempfile::tempdir().unwrap();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        holdpoint(folder.path(), &arguments, &stdin)
    });
    let ended = ended.await.unwrap();
    serving.abort();
    ended
}

fn is_harmless(ended: &Ended) -> bool {
    let steers = |char: char| char.is_control() && char != '\n';
    !ended.out.chars().any(steers) && !ended.err.chars().any(steers)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_without_a_terminal_prints_the_question_and_ends_with_4() {
    let ended = talk(&Fake::default(), &["run", "letter", "Dear Ada"], "").await;
    assert_eq!(ended.code, 4, "{}", ended.err);
    assert!(ended.out.contains("writer  Dear "), "{}", ended.out);
    assert!(ended.out.contains("Send it?"), "{}", ended.out);
    assert!(
        ended.err.contains(&format!("holdpoint respond {ASKED} \"…\" --server")),
        "{}",
        ended.err
    );
    assert!(is_harmless(&ended), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_asks_again_until_the_answer_is_clear_and_sends_the_digest() {
    let fake = Fake::default();
    let ended = talk(&fake, &["run", "letter", "Dear Ada", "-i"], "perhaps\n\nyes\n").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("type y to approve or n to reject"), "{}", ended.err);
    assert!(ended.out.contains("output  sent\ncompleted\n"), "{}", ended.out);
    let sent = fake.sent.lock().unwrap();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].digests.get(ASKED).map(String::as_str), Some(DIGEST));
    assert!(is_harmless(&ended), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_the_server_refuses_is_asked_for_again() {
    let fake = Fake::default();
    let ended = talk(&fake, &["run", "letter", "x", "-i"], "{\"verdict\": 1}\ny\n").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("expected a decision"), "{}", ended.err);
    assert_eq!(fake.sent.lock().unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn respond_takes_words_and_json_and_is_refused_what_does_not_fit() {
    let fake = Fake::default();
    let ended = talk(&fake, &["respond", ASKED, "--json-value", "\"maybe\""], "").await;
    assert_eq!(ended.code, 6);
    assert!(ended.err.contains("expected a decision"), "{}", ended.err);
    let ended = talk(&fake, &["respond", ASKED, "sure, why not"], "").await;
    assert_eq!((ended.code, fake.sent.lock().unwrap().len()), (6, 2), "K7: the server says no");
    let ended = talk(&fake, &["respond", ASKED, "no", "--note", "too dear"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    let sent = fake.sent.lock().unwrap();
    let said = &sent[2].responses[ASKED];
    assert_eq!(**said, json!({"decision": "reject", "note": "too dear"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn leaving_a_conversation_says_how_to_take_it_up_again() {
    for typed in ["exit\n", ""] {
        let ended = talk(&Fake::default(), &["run", "letter", "x", "-i"], typed).await;
        assert_eq!(ended.code, 4);
        assert!(ended.err.contains(&format!("holdpoint resume {RUN} --server")), "{}", ended.err);
    }
    let fake = Fake::default();
    let ended = talk(&fake, &["resume", "-i"], "n\nnot now\n").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert_eq!(fake.sent.lock().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_somebody_else_answered_is_told_and_the_run_followed() {
    let fake = Fake { answered: true, ..Fake::default() };
    let ended = talk(&fake, &["resume", RUN, "-i"], "y\n").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.err.contains("already answered by bob"), "{}", ended.err);
    assert!(ended.out.ends_with("completed\n"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn e1_a_broken_stream_is_taken_up_with_nothing_missing_and_nothing_twice() {
    let ended = talk(&Fake::default(), &["run", "breaks", "x", "--json"], "").await;
    assert_eq!(ended.code, 4, "{}", ended.err);
    let sequences: Vec<_> = ended.lines().iter().map(|line| line["sequence"].clone()).collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6]);
    assert_eq!(ended.lines()[5]["status"]["workflow_waiting"]["requests"][0]["kind"], "approval");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_ends_with_3_and_an_unknown_workflow_with_5() {
    let ended = talk(&Fake::default(), &["run", "fails", "x"], "").await;
    assert_eq!(ended.code, 3);
    assert!(ended.out.contains("failed: no luck [agent.failed]"), "{}", ended.out);
    let ended = talk(&Fake::default(), &["run", "unknown", "x", "--json"], "").await;
    let told: Value = serde_json::from_str(&ended.err).unwrap();
    assert_eq!((ended.code, &told["error"]["code"]), (5, &Value::from("workflow.unknown")));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_journal_is_the_whole_of_it_and_no_more() {
    let ended = talk(&Fake::default(), &["journal", RUN, "--json"], "").await;
    assert_eq!((ended.code, ended.lines().len()), (0, 6), "{}", ended.err);
    let ended = talk(&Fake::default(), &["journal", RUN], "").await;
    assert_eq!(ended.out.lines().count(), 6);
    assert!(ended.out.contains("executor_invoked") && is_harmless(&ended), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_tables_for_people_and_one_document_for_programs() {
    let ended = talk(&Fake::default(), &["inbox"], "").await;
    assert!(ended.out.starts_with("#  REQUEST") && ended.out.contains(ASKED), "{}", ended.out);
    assert!(is_harmless(&ended), "{ended:?}");
    let ended = talk(&Fake::default(), &["runs", "--json"], "").await;
    assert_eq!(ended.json()["runs"][0]["status"], "WAITING");
    let ended = talk(&Fake::default(), &["cancel", RUN], "").await;
    assert!(ended.out.contains("CANCELLED"), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_while_a_run_moves_ends_with_130_and_says_how_to_go_on() {
    let (address, serving) = serve(&Fake::default()).await;
    let ended = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_holdpoint"))
            .args(["run", "hangs", "x", "--server", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut first).unwrap();
        assert!(first.starts_with("letter"), "{first}");
        kill_process(Pid::from_child(&child), Signal::INT).unwrap();
        child.wait_with_output().unwrap()
    });
    let ended = ended.await.unwrap();
    serving.abort();
    let told = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(130), "{told}");
    assert!(told.contains(&format!("holdpoint resume {RUN} --server")), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_key_goes_with_the_call() {
    let fake = Fake::default();
    talk(&fake, &["run", "letter", "x", "--api-key", "hp_secret"], "").await;
    assert_eq!(*fake.keys.lock().unwrap(), ["Bearer hp_secret"]);
}

#[test]
fn a_server_url_with_tls_is_refused_with_the_remedy() {
    let ended = holdpoint(Path::new("."), &["runs", "--server", "https://localhost:1"], "");
    assert_eq!(ended.code, 2);
    assert!(ended.err.contains("hint: use `http://`"), "{}", ended.err);
}
