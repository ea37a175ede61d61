//! The command line in conversation: a server that follows a script stands in for the real one, so
//! that refusals, broken streams and hostile text come exactly when a test wants them.

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Command, Stdio},
    sync::{Arc, Mutex},
};

use futures::{StreamExt as _, stream};
use holdpoint::wire::json::Json;
use holdpoint::wire::v1::orchestrator_server::{Orchestrator, OrchestratorServer};
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::*;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::cli::{Ended, holdpoint};

const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";
const ASKED: &str = "req_01k9zq3v7m8n4p5r6s7t8v9w0x-1";
const DIGEST: &str = "d1g3st";

type Events = stream::BoxStream<'static, Result<WorkflowEvent, Status>>;
type Changes = stream::Empty<Result<WatchRequestsResponse, Status>>;

/// A server with one run of one workflow: a draft, an approval, the end.
#[derive(Debug, Default, Clone)]
struct Fake {
    sent: Arc<Mutex<Vec<SendResponsesRequest>>>,
    keys: Arc<Mutex<Vec<String>>>,
    answered: bool,
}

fn decision_schema() -> Json {
    json!({"properties": {"decision": {"enum": ["approve", "reject"]}}}).into()
}

fn request() -> Request {
    Request {
        request_id: ASKED.into(),
        run_id: RUN.into(),
        session_id: "ses_1".into(),
        workflow_id: "letter".into(),
        source_step: "approve".into(),
        kind: RequestKind::Approval.into(),
        prompt: "Send it?\u{1b}[2J".into(),
        response_schema: Some(decision_schema()),
        digest: DIGEST.into(),
        ..Default::default()
    }
}

fn waiting() -> WorkflowWaiting {
    let (run_id, workflow_id) = (RUN.into(), "letter".into());
    let requests = vec![request()];
    WorkflowWaiting { run_id, workflow_id, requests, ..WorkflowWaiting::default() }
}

fn run(status: RunStatus) -> Run {
    Run {
        run_id: RUN.into(),
        session_id: "ses_1".into(),
        workflow_id: "letter".into(),
        status: status.into(),
        sequence: 6,
        workflow_waiting: (status == RunStatus::Waiting).then(waiting),
        ..Default::default()
    }
}

/// The whole journal: six events until the pause, three after it.
fn journal() -> Vec<WorkflowEvent> {
    let delta = |piece: &str| Delta {
        executor_id: "draft".into(),
        turn: 1,
        attempt: 1,
        text: piece.into(),
    };
    let invoked = ExecutorInvoked {
        executor_id: "draft".into(),
        agent: "writer".into(),
        turn: 1,
        attempt: 1,
    };
    let paused =
        StatusChanged { status: RunStatus::Waiting.into(), workflow_waiting: Some(waiting()) };
    let answered = ResponseReceived { request_id: ASKED.into(), ..Default::default() };
    let bodies = vec![
        Event::Started(Started { workflow_id: "letter".into(), ..Default::default() }),
        Event::ExecutorInvoked(invoked),
        Event::Delta(delta("Dear \u{1b}]0;evil\u{7}")),
        Event::Delta(delta("Ada")),
        Event::RequestInfo(request()),
        Event::Status(paused),
        Event::ResponseReceived(answered),
        Event::Output(Output { value: Some("sent".into()) }),
        Event::Completed(Completed {}),
    ];
    let event = |(sequence, body)| WorkflowEvent {
        session_id: "ses_1".into(),
        run_id: RUN.into(),
        sequence,
        time: None,
        event: Some(body),
    };
    (1..).zip(bodies).map(event).collect()
}

fn events(after: usize, until: usize) -> Vec<Result<WorkflowEvent, Status>> {
    journal().into_iter().take(until).skip(after).map(Ok).collect()
}

fn reply(events: Vec<Result<WorkflowEvent, Status>>) -> Response<Events> {
    Response::new(stream::iter(events).boxed())
}

fn refusal(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "holdpoint", []);
    Status::with_error_details(code, message, details)
}

fn nothing<T>() -> Result<Response<T>, Status> {
    Err(Status::unimplemented("not in the script"))
}

#[tonic::async_trait]
impl Orchestrator for Fake {
    type RunWorkflowStream = Events;
    type SendResponsesStream = Events;
    type WatchRunStream = Events;
    type WatchRequestsStream = Changes;
    type ForkRunStream = Events;

    async fn run_workflow(
        &self,
        request: tonic::Request<RunWorkflowRequest>,
    ) -> Result<Response<Events>, Status> {
        if let Some(key) = request.metadata().get("authorization") {
            self.keys.lock().unwrap().push(key.to_str().unwrap().to_owned());
        }
        match request.get_ref().workflow_id.as_str() {
            "letter" => Ok(reply(events(0, 6))),
            "hangs" => {
                Ok(Response::new(stream::iter(events(0, 2)).chain(stream::pending()).boxed()))
            }
            "breaks" => {
                let mut broken = events(0, 3);
                broken.push(Err(Status::unavailable("the server goes away")));
                Ok(reply(broken))
            }
            "fails" => {
                let mut failing = events(0, 2);
                let failure = Failure { code: "agent.failed".into(), message: "no luck".into() };
                let mut last = journal().remove(2);
                last.event = Some(Event::Failed(failure));
                failing.push(Ok(last));
                Ok(reply(failing))
            }
            _ => Err(refusal(Code::NotFound, "workflow.unknown", "there is no workflow `x`")),
        }
    }

    async fn send_responses(
        &self,
        request: tonic::Request<SendResponsesRequest>,
    ) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        self.sent.lock().unwrap().push(request.clone());
        if self.answered {
            let message = "the request was already answered by bob";
            return Err(refusal(Code::FailedPrecondition, "request.already_answered", message));
        }
        if request.responses.get(ASKED).is_some_and(|said| said.get("decision").is_some()) {
            return Ok(reply(events(6, 9)));
        }
        Err(refusal(Code::InvalidArgument, "answer.invalid", "expected a decision"))
    }

    async fn watch_run(
        &self,
        request: tonic::Request<WatchRunRequest>,
    ) -> Result<Response<Events>, Status> {
        let request = request.into_inner();
        let until = if self.answered || request.through_pauses { 9 } else { 6 };
        Ok(reply(events(usize::try_from(request.after_sequence).unwrap(), until)))
    }

    async fn get_run(
        &self,
        request: tonic::Request<GetRunRequest>,
    ) -> Result<Response<GetRunResponse>, Status> {
        if request.get_ref().run_id != RUN {
            return Err(refusal(Code::NotFound, "run.unknown", "there is no such run"));
        }
        let run = Some(run(RunStatus::Waiting));
        Ok(Response::new(GetRunResponse { run, ..Default::default() }))
    }

    async fn list_runs(
        &self,
        _: tonic::Request<ListRunsRequest>,
    ) -> Result<Response<ListRunsResponse>, Status> {
        let runs = vec![run(RunStatus::Waiting)];
        Ok(Response::new(ListRunsResponse { runs, ..Default::default() }))
    }

    async fn list_requests(
        &self,
        _: tonic::Request<ListRequestsRequest>,
    ) -> Result<Response<ListRequestsResponse>, Status> {
        let requests = vec![request()];
        Ok(Response::new(ListRequestsResponse { requests, ..Default::default() }))
    }

    async fn get_session(
        &self,
        _: tonic::Request<GetSessionRequest>,
    ) -> Result<Response<GetSessionResponse>, Status> {
        nothing()
    }

    async fn list_sessions(
        &self,
        _: tonic::Request<ListSessionsRequest>,
    ) -> Result<Response<ListSessionsResponse>, Status> {
        nothing()
    }

    async fn cancel_run(
        &self,
        _: tonic::Request<CancelRunRequest>,
    ) -> Result<Response<CancelRunResponse>, Status> {
        Ok(Response::new(CancelRunResponse { run: Some(run(RunStatus::Cancelled)) }))
    }

    async fn watch_requests(
        &self,
        _: tonic::Request<WatchRequestsRequest>,
    ) -> Result<Response<Changes>, Status> {
        nothing()
    }

    async fn release_store(
        &self,
        _: tonic::Request<ReleaseStoreRequest>,
    ) -> Result<Response<ReleaseStoreResponse>, Status> {
        nothing()
    }

    async fn list_audit(
        &self,
        _: tonic::Request<ListAuditRequest>,
    ) -> Result<Response<ListAuditResponse>, Status> {
        nothing()
    }

    async fn cancel_request(
        &self,
        _: tonic::Request<CancelRequestRequest>,
    ) -> Result<Response<CancelRequestResponse>, Status> {
        nothing()
    }

    async fn claim_request(
        &self,
        _: tonic::Request<ClaimRequestRequest>,
    ) -> Result<Response<ClaimRequestResponse>, Status> {
        nothing()
    }

    async fn delegate_request(
        &self,
        _: tonic::Request<DelegateRequestRequest>,
    ) -> Result<Response<DelegateRequestResponse>, Status> {
        nothing()
    }

    async fn revoke_grant(
        &self,
        _: tonic::Request<RevokeGrantRequest>,
    ) -> Result<Response<RevokeGrantResponse>, Status> {
        nothing()
    }

    async fn signal_run(
        &self,
        _: tonic::Request<SignalRunRequest>,
    ) -> Result<Response<SignalRunResponse>, Status> {
        nothing()
    }

    async fn list_workflows(
        &self,
        _: tonic::Request<ListWorkflowsRequest>,
    ) -> Result<Response<ListWorkflowsResponse>, Status> {
        nothing()
    }

    async fn get_workflow(
        &self,
        _: tonic::Request<GetWorkflowRequest>,
    ) -> Result<Response<GetWorkflowResponse>, Status> {
        nothing()
    }

    async fn list_checkpoints(
        &self,
        _: tonic::Request<ListCheckpointsRequest>,
    ) -> Result<Response<ListCheckpointsResponse>, Status> {
        nothing()
    }

    async fn fork_run(
        &self,
        _: tonic::Request<ForkRunRequest>,
    ) -> Result<Response<Events>, Status> {
        Ok(reply(events(0, 6)))
    }
}

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
    assert_eq!((ended.code, fake.sent.lock().unwrap().len()), (6, 1), "K7: not clearly a yes");
    let ended = talk(&fake, &["respond", ASKED, "no", "--note", "too dear"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.err);
    let sent = fake.sent.lock().unwrap();
    let said = &sent[1].responses[ASKED];
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
    assert!(ended.out.starts_with("REQUEST") && ended.out.contains(ASKED), "{}", ended.out);
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
    assert_eq!(ended.code, 1);
    assert!(ended.err.contains("hint: use `http://`"), "{}", ended.err);
}
