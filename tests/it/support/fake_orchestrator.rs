//! A server that follows a script: one run of one workflow, told as a test wants it. No engine is behind it.

use std::sync::{Arc, Mutex};

use futures::{StreamExt as _, stream};
use holdpoint::wire::json::Json;
use holdpoint::wire::v1::orchestrator_server::Orchestrator;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::*;
use serde_json::json;
use tonic::{Code, Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub(crate) const RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";
pub(crate) const ASKED: &str = "req_01k9zq3v7m8n4p5r6s7t8v9w0x-1";
pub(crate) const DIGEST: &str = "d1g3st";

pub(crate) type Events = stream::BoxStream<'static, Result<WorkflowEvent, Status>>;
pub(crate) type Changes = stream::Empty<Result<WatchRequestsResponse, Status>>;

/// A server with one run of one workflow: a draft, an approval, the end.
#[derive(Debug, Default, Clone)]
pub(crate) struct Fake {
    pub(crate) sent: Arc<Mutex<Vec<SendResponsesRequest>>>,
    pub(crate) keys: Arc<Mutex<Vec<String>>>,
    pub(crate) answered: bool,
}

pub(crate) fn decision_schema() -> Json {
    json!({"properties": {"decision": {"enum": ["approve", "reject"]}}}).into()
}

pub(crate) fn request() -> Request {
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

pub(crate) fn waiting() -> WorkflowWaiting {
    let (run_id, workflow_id) = (RUN.into(), "letter".into());
    let requests = vec![request()];
    WorkflowWaiting { run_id, workflow_id, requests, ..WorkflowWaiting::default() }
}

pub(crate) fn run(status: RunStatus) -> Run {
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
pub(crate) fn journal() -> Vec<WorkflowEvent> {
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
        Event::RequestInfo(Box::new(request())),
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

pub(crate) fn events(after: usize, until: usize) -> Vec<Result<WorkflowEvent, Status>> {
    journal().into_iter().take(until).skip(after).map(Ok).collect()
}

pub(crate) fn reply(events: Vec<Result<WorkflowEvent, Status>>) -> Response<Events> {
    Response::new(stream::iter(events).boxed())
}

pub(crate) fn refusal(code: Code, reason: &str, message: &str) -> Status {
    let details = ErrorDetails::with_error_info(reason, "holdpoint", []);
    Status::with_error_details(code, message, details)
}

pub(crate) fn nothing<T>() -> Result<Response<T>, Status> {
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
        // Whoever only listens at a pause hears nothing: what comes next is for the test to say.
        if request.through_pauses && request.after_sequence >= 6 {
            return Ok(Response::new(stream::pending().boxed()));
        }
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

    async fn get_request(
        &self,
        _: tonic::Request<GetRequestRequest>,
    ) -> Result<Response<GetRequestResponse>, Status> {
        Err(Status::unimplemented("not here"))
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

    async fn halt(&self, _: tonic::Request<HaltRequest>) -> Result<Response<HaltResponse>, Status> {
        nothing()
    }

    async fn release_halt(
        &self,
        _: tonic::Request<ReleaseHaltRequest>,
    ) -> Result<Response<ReleaseHaltResponse>, Status> {
        nothing()
    }

    async fn list_halts(
        &self,
        _: tonic::Request<ListHaltsRequest>,
    ) -> Result<Response<ListHaltsResponse>, Status> {
        nothing()
    }

    async fn list_replicas(
        &self,
        _: tonic::Request<ListReplicasRequest>,
    ) -> Result<Response<ListReplicasResponse>, Status> {
        nothing()
    }

    async fn release_store(
        &self,
        _: tonic::Request<ReleaseStoreRequest>,
    ) -> Result<Response<ReleaseStoreResponse>, Status> {
        nothing()
    }

    async fn get_receipt(
        &self,
        _: tonic::Request<GetReceiptRequest>,
    ) -> Result<Response<GetReceiptResponse>, Status> {
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
