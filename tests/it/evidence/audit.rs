//! Audit and inbox on the real server: who was asked what and who answered what, word for word, after
//! a kill; what is open, by person, deadline and how long it has waited.

use std::fs;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{ListAuditRequest, ListRequestsRequest, WatchRunRequest};
use prost_types::Timestamp;
use tempfile::TempDir;
use tonic::Code;

use crate::consent::stage::{LOCAL, Stage, question};
use crate::support::server::{Setup, answer_to, asked, run, send, start_of};
use crate::terminal::cli::holdpoint;

/// Asks one person for a decision, and the boss as well when they do not answer.
const SIGNED: &str = "
name: signed
models:
  default: {provider: scripted, script: [{say: 'Done: {{last_user}}'}]}
agents:
  clerk: {human_input: false}
pattern: sequential
steps:
  - id: sign
    human:
      kind: approval
      prompt: Sign it?
      to: [local]
      remind: 1s
      deadline: 3s
      on_timeout: {escalate_to: {to: [boss], within: 1h}}
  - {agent: clerk}
";

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one story, told in order")]
async fn the_trail_says_who_was_asked_and_who_answered_word_for_word() {
    let root = TempDir::new().unwrap();
    let flows = root.path().join("flows");
    fs::create_dir_all(&flows).unwrap();
    fs::write(flows.join("signed.yaml"), SIGNED).unwrap();
    let mut server = Setup::new(root.path()).flows(&flows).start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("signed", "", "The contract.", "k0")).await;
    let (run_id, request) = (events[0].run_id.clone(), asked(&events).unwrap());
    assert_eq!(request.to, ["local"]);
    server.restart();
    // Reminders and the escalation come after a restart, too.
    let mut client = server.client().await;
    let watch = WatchRunRequest { run_id: run_id.clone(), through_pauses: true, after_sequence: 0 };
    let mut stream = client.watch_run(watch).await.unwrap().into_inner();
    let mut reminders = 0;
    loop {
        let told = stream.message().await.unwrap().unwrap().event.unwrap();
        if let Event::RequestReminded(it) = &told {
            assert_eq!(it.request_id, request.request_id);
            reminders += 1;
        }
        if let Event::RequestEscalated(it) = &told {
            assert_eq!(it.to, ["local", "boss"]);
            break;
        }
    }
    assert!(reminders >= 1, "she was reminded before somebody else was asked");
    let open = |principal: &str| ListRequestsRequest {
        principal: principal.into(),
        ..ListRequestsRequest::default()
    };
    let count = async |request: ListRequestsRequest| {
        server.client().await.list_requests(request).await.unwrap().into_inner().requests.len()
    };
    assert_eq!((count(open("boss")).await, count(open("local")).await), (1, 1));
    let epoch = Some(Timestamp { seconds: 0, nanos: 0 });
    let never = Some(Timestamp { seconds: 4_000_000_000, nanos: 0 });
    let by_time = |deadline_before, asked_before| ListRequestsRequest {
        deadline_before,
        asked_before,
        ..ListRequestsRequest::default()
    };
    assert_eq!(count(by_time(epoch, None)).await, 0);
    assert_eq!(count(by_time(never, never)).await, 1);
    assert_eq!(count(by_time(None, epoch)).await, 0);
    for page_token in ["x", "0123", &"z".repeat(58)] {
        let request = ListRequestsRequest { page_token: page_token.into(), ..Default::default() };
        let refused = server.client().await.list_requests(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{page_token}");
    }
    let answer = answer_to(&request.request_id, "approve", "k1");
    send(&mut server.client().await, answer).await;

    let request = ListAuditRequest { run_id: run_id.clone(), ..Default::default() };
    let trail = server.client().await.list_audit(request).await.unwrap().into_inner().entries;
    let mut actions: Vec<_> = trail.iter().map(|entry| entry.action.as_str()).collect();
    // How often she was reminded is the clock's.
    actions.retain(|action| *action != "reminded");
    assert_eq!(actions, ["started", "asked", "escalated", "answered", "completed"]);
    let answered = trail.iter().find(|entry| entry.action == "answered").unwrap();
    assert_eq!((answered.principal.as_str(), answered.door.as_str()), ("local", "grpc"));
    let shown = answered.request.as_ref().unwrap();
    assert_eq!(
        (shown.prompt.as_str(), shown.to.as_slice()),
        ("Sign it?", &["local".to_owned(), "boss".to_owned()][..])
    );
    assert!(answered.value.is_some());
    let told =
        holdpoint(root.path(), &["audit", "--principal", "boss", "--server", &server.url()], "");
    assert!(told.out.contains("escalated req_"), "{told:?}");
    assert!(!told.out.contains("asked req_"), "the boss was asked later: {told:?}");
    let lines = holdpoint(root.path(), &["audit", "--json", "--server", &server.url()], "").out;
    let last: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    assert_eq!((&last["action"], &last["run_id"]), (&"completed".into(), &run_id.as_str().into()));
    let nobody = ListAuditRequest { page_token: "x".into(), ..Default::default() };
    let refused = server.client().await.list_audit(nobody).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

const WORDS: &str = "
name: venue
models: {default: {provider: scripted, script: [{say: Thank you.}]}}
agents: {clerk: {human_input: false}}
pattern: sequential
steps:
  - {id: where, human: {kind: clarification, prompt: Which venue do you prefer?}}
  - {agent: clerk}
";

#[tokio::test(flavor = "multi_thread")]
async fn j13_an_answer_in_words_has_its_receipt_in_the_consoles_audit_as_a_decision_has() {
    let stage = Stage::open(WORDS).await;
    let asked = question(&stage.start(LOCAL, "s", "Go.").await);
    let told = stage.answer(LOCAL, &asked, "The old mill.".into()).await.unwrap();
    let received = told.iter().find(|it| matches!(it.event, Some(Event::ResponseReceived(_))));
    let path = format!("/console/runs/{}/receipts/{}", asked.run_id, received.unwrap().sequence);
    let (_, page) = stage.server.page("/console/audit");
    assert!(page.contains("The old mill.") && page.contains(&path), "{path}: {page}");
    assert_eq!(stage.server.page(&path).0, 200);
}
