//! gRPC: `holdpoint.v1.Orchestrator`, a thin translation: who speaks, what is asked, what came of it.

use std::pin::Pin;
use std::sync::Arc;

use futures::Stream;
use tonic::metadata::AsciiMetadataValue;
use tonic::{Request, Response, Status};

use crate::api::{
    Doorkeeper, RUN_ID, Shown, audit, brought, convert, given, halts, listings, people, receipts,
    replicas, resources, status,
};
use crate::engine::{
    AnswerRequest, Begun, Engine, ForkRequest, InboxFilter, OpenRequest, StartRequest, Until, Watch,
};
use crate::failpoint;
use crate::kernel::{Principal, Refusal, Seen};
use crate::wire::json::Json;
use crate::wire::v1 as pb;
use pb::orchestrator_server::Orchestrator;

/// Draws a workflow, for `GetWorkflow`: the drawing lives in a room that the app wires in.
pub type Draw = fn(&crate::kernel::Workflow) -> String;

/// The service over an engine.
#[derive(Debug, Clone)]
pub struct Service {
    engine: Engine,
    doorkeeper: Arc<dyn Doorkeeper>,
    draw: Draw,
}

impl Service {
    /// The service over an engine, for the callers that the doorkeeper admits.
    pub fn new(engine: Engine, doorkeeper: Arc<dyn Doorkeeper>, draw: Draw) -> Self {
        Self { engine, doorkeeper, draw }
    }

    fn who<T>(&self, request: &Request<T>) -> Result<Principal, Status> {
        let shown = Shown::of(request.metadata().as_ref());
        self.doorkeeper.admit(shown, "grpc").map_err(|refusal| status::refused(&refusal))
    }

    /// The run of a change that is done, as it stands.
    fn opened(&self, open: &OpenRequest, who: &Principal) -> pb::Request {
        convert::open_request(open, self.engine.admits(open, who))
    }

    async fn run_of(&self, id: &str, who: &Principal) -> Result<pb::Run, Status> {
        self.engine.head(id, who).await.map(|head| resources::run(&head)).map_err(status::of)
    }
}

type Events = Pin<Box<dyn Stream<Item = Result<pb::WorkflowEvent, Status>> + Send>>;
type Changes = Pin<Box<dyn Stream<Item = Result<pb::WatchRequestsResponse, Status>> + Send>>;
type Reply<T> = Result<Response<T>, Status>;

/// A run's events as a stream. A fault ends it with a status that says where to take it up again.
fn events(watch: Watch) -> Events {
    // Boxed: it goes from hand to hand with every event.
    Box::pin(futures::stream::unfold(Some(Box::new(watch)), |watch| async {
        let mut watch = watch?;
        match watch.next().await {
            Ok(Some(published)) => {
                failpoint::hit("api.before_event");
                let told = convert::event(watch.run_id(), watch.session_id(), &published);
                Some((Ok(told), Some(watch)))
            }
            Ok(None) => {
                failpoint::hit("api.after_events");
                None
            }
            Err(error) => Some((Err(status::of(error)), None)),
        }
    }))
}

fn begun(begun: Begun) -> Response<Events> {
    let run = begun.run.as_str().parse::<AsciiMetadataValue>();
    let mut response = Response::new(events(begun.watch));
    if let Ok(mut run) = run {
        // No two calls tell the same one: neither side is to put it into its table of headers.
        run.set_sensitive(true);
        response.metadata_mut().insert(RUN_ID, run);
    }
    failpoint::hit("api.before_ack");
    response
}

#[tonic::async_trait]
impl Orchestrator for Service {
    type RunWorkflowStream = Events;
    type SendResponsesStream = Events;
    type WatchRunStream = Events;
    type ForkRunStream = Events;
    type WatchRequestsStream = Changes;

    async fn run_workflow(&self, request: Request<pb::RunWorkflowRequest>) -> Reply<Events> {
        let who = self.who(&request)?;
        failpoint::hit("api.before_command");
        let request = request.into_inner();
        let mut metadata = request.metadata.into_iter().collect();
        let given = request.gates.into_iter().map(Json::into_value).collect();
        let of = (request.workflow_id.as_str(), &who);
        let gates = brought::gates(&self.engine, of, given, &mut metadata).map_err(status::of)?;
        let start = StartRequest {
            workflow: request.workflow_id,
            session: request.session_id,
            input: request.input.unwrap_or_default().into_value(),
            key: request.idempotency_key,
            metadata,
            gates,
            ..StartRequest::default()
        };
        let started = self.engine.start(start, &who).await;
        started.map(begun).map_err(|error| status::of_field(error, "input"))
    }

    async fn send_responses(&self, request: Request<pb::SendResponsesRequest>) -> Reply<Events> {
        let mut who = self.who(&request)?;
        failpoint::hit("api.before_command");
        let request = request.into_inner();
        who.known.seen =
            request.shown.map(|shown| Seen { chars: shown.characters, ms: shown.milliseconds });
        let mut digests = request.digests;
        let answers = request.responses.into_iter().map(|(id, value)| {
            let digest = digests.remove(&id);
            (id, value.into_value(), digest)
        });
        let answers = answers.collect();
        // A digest that belongs to no answer was meant for something: it is never passed over (K7).
        if !digests.is_empty() {
            let remedy = "each is keyed as the answer is that it belongs to";
            return Err(status::of(Refusal::invalid("digests", remedy).into()));
        }
        let answer = AnswerRequest {
            session: request.session_id,
            run: request.run_id,
            answers,
            key: request.idempotency_key,
        };
        let answered = self.engine.answer(answer, &who).await.map_err(status::of)?;
        let receipt = self.engine.receipt_now(&answered).await;
        let mut response = begun(answered);
        // Beside the events, never in them: an event is told alike whenever it is told (E1).
        if let Some(Ok(mut hash)) = receipt.map(|receipt| receipt.hash.to_string().parse()) {
            AsciiMetadataValue::set_sensitive(&mut hash, true);
            response.metadata_mut().insert("x-holdpoint-receipt", hash);
        }
        Ok(response)
    }

    async fn watch_run(&self, request: Request<pb::WatchRunRequest>) -> Reply<Events> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let until = if request.through_pauses { Until::Over } else { Until::CurrentRest };
        let watch = self.engine.watch(&request.run_id, request.after_sequence, until, &who).await;
        watch.map(|watch| Response::new(events(watch))).map_err(status::of)
    }

    async fn fork_run(&self, request: Request<pb::ForkRunRequest>) -> Reply<Events> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let fork = ForkRequest {
            run: request.run_id,
            checkpoint: request.checkpoint_id,
            session: request.session_id,
            key: request.idempotency_key,
        };
        self.engine.fork(fork, &who).await.map(begun).map_err(status::of)
    }

    async fn get_session(
        &self,
        request: Request<pb::GetSessionRequest>,
    ) -> Reply<pb::GetSessionResponse> {
        let who = self.who(&request)?;
        let id = request.into_inner().session_id;
        let view = self.engine.session(&id, &who).await.map_err(status::of)?;
        Ok(Response::new(pb::GetSessionResponse {
            session: Some(resources::session(&view)),
            runs: view.runs.iter().map(resources::run).collect(),
        }))
    }

    async fn list_sessions(
        &self,
        request: Request<pb::ListSessionsRequest>,
    ) -> Reply<pb::ListSessionsResponse> {
        let who = self.who(&request)?;
        listings::sessions(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn get_run(&self, request: Request<pb::GetRunRequest>) -> Reply<pb::GetRunResponse> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let view = self.engine.run(&request.run_id, &who).await.map_err(status::of)?;
        let conversation =
            if request.omit_conversation { Vec::new() } else { convert::conversation(&view.run) };
        Ok(Response::new(pb::GetRunResponse {
            run: Some(pb::Run {
                usage: Some(convert::usage(view.run.usage)),
                ..resources::run(&view.head)
            }),
            conversation,
            output: view.output().map(Json::from),
            grants: view.run.grants.iter().map(resources::grant).collect(),
            rules: view.run.rules_in_force().into_iter().map(resources::rule).collect(),
            halts: halts::standing(&self.engine, &view.run, &who),
            signals_awaited: resources::signals_awaited(&view.run),
            wakes_at: resources::wakes_at(&view.run),
        }))
    }

    async fn list_runs(
        &self,
        request: Request<pb::ListRunsRequest>,
    ) -> Reply<pb::ListRunsResponse> {
        let who = self.who(&request)?;
        listings::runs(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn cancel_run(
        &self,
        request: Request<pb::CancelRunRequest>,
    ) -> Reply<pb::CancelRunResponse> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let key = &request.idempotency_key;
        let cancelled = self.engine.cancel(&request.run_id, &request.reason, key, &who).await;
        let id = cancelled.map_err(status::of)?;
        let run = Some(self.run_of(id.as_str(), &who).await?);
        Ok(Response::new(pb::CancelRunResponse { run }))
    }

    async fn list_requests(
        &self,
        request: Request<pb::ListRequestsRequest>,
    ) -> Reply<pb::ListRequestsResponse> {
        let who = self.who(&request)?;
        listings::requests(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn get_request(
        &self,
        request: Request<pb::GetRequestRequest>,
    ) -> Reply<pb::GetRequestResponse> {
        let who = self.who(&request)?;
        let open = self.engine.request(&request.into_inner().request_id, &who).await;
        let open = open.map_err(|error| status::of_field(error, "request_id"))?;
        let request = Some(self.opened(&open, &who));
        Ok(Response::new(pb::GetRequestResponse { request }))
    }

    async fn watch_requests(&self, request: Request<pb::WatchRequestsRequest>) -> Reply<Changes> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let filter = InboxFilter {
            session: given(request.session_id),
            workflow: given(request.workflow_id),
            kind: listings::kind_of(request.kind)?,
            named: given(request.r#type),
            principal: given(request.principal),
            ..InboxFilter::default()
        };
        let watch = self.engine.watch_inbox(who, filter);
        let changes = futures::stream::unfold(Some(watch), |watch| async {
            let mut watch = watch?;
            match watch.next().await {
                Ok(change) => {
                    let told = convert::inbox_change(change, |open| watch.admits(open));
                    Some((Ok(told), Some(watch)))
                }
                Err(error) => Some((Err(status::of(error)), None)),
            }
        });
        Ok(Response::new(Box::pin(changes)))
    }

    async fn get_receipt(
        &self,
        request: Request<pb::GetReceiptRequest>,
    ) -> Reply<pb::GetReceiptResponse> {
        let who = self.who(&request)?;
        receipts::get(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn list_audit(
        &self,
        request: Request<pb::ListAuditRequest>,
    ) -> Reply<pb::ListAuditResponse> {
        let who = self.who(&request)?;
        audit::list(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn release_store(
        &self,
        request: Request<pb::ReleaseStoreRequest>,
    ) -> Reply<pb::ReleaseStoreResponse> {
        let who = self.who(&request)?;
        halts::release_store(&self.engine, request.get_ref(), &who).await.map(Response::new)
    }

    async fn halt(&self, request: Request<pb::HaltRequest>) -> Reply<pb::HaltResponse> {
        let who = self.who(&request)?;
        halts::halt(&self.engine, request.into_inner(), &who).await.map(Response::new)
    }

    async fn release_halt(
        &self,
        request: Request<pb::ReleaseHaltRequest>,
    ) -> Reply<pb::ReleaseHaltResponse> {
        let who = self.who(&request)?;
        halts::release(&self.engine, &request.into_inner(), &who).await.map(Response::new)
    }

    async fn list_halts(
        &self,
        request: Request<pb::ListHaltsRequest>,
    ) -> Reply<pb::ListHaltsResponse> {
        let who = self.who(&request)?;
        Ok(Response::new(halts::list(&self.engine, &who)))
    }

    async fn list_replicas(
        &self,
        request: Request<pb::ListReplicasRequest>,
    ) -> Reply<pb::ListReplicasResponse> {
        let who = self.who(&request)?;
        replicas::list(&self.engine, &who).await.map(Response::new)
    }

    async fn cancel_request(
        &self,
        request: Request<pb::CancelRequestRequest>,
    ) -> Reply<pb::CancelRequestResponse> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let id = self
            .engine
            .withdraw(&request.request_id, &request.idempotency_key, &who)
            .await
            .map_err(|error| status::of_field(error, "request_id"))?;
        let run = Some(self.run_of(id.as_str(), &who).await?);
        Ok(Response::new(pb::CancelRequestResponse { run }))
    }

    async fn claim_request(
        &self,
        request: Request<pb::ClaimRequestRequest>,
    ) -> Reply<pb::ClaimRequestResponse> {
        let who = self.who(&request)?;
        failpoint::hit("api.before_command");
        let request = request.into_inner();
        let span = people::claim(&request).map_err(|refusal| status::refused(&refusal))?;
        let (id, key) = (&request.request_id, &request.idempotency_key);
        let claimed = self.engine.claim(id, span, key, &who).await;
        let open = claimed.map_err(|error| status::of_field(error, "request_id"))?;
        let request = open.as_ref().map(|open| self.opened(open, &who));
        Ok(Response::new(pb::ClaimRequestResponse { request }))
    }

    async fn delegate_request(
        &self,
        request: Request<pb::DelegateRequestRequest>,
    ) -> Reply<pb::DelegateRequestResponse> {
        let who = self.who(&request)?;
        failpoint::hit("api.before_command");
        let request = request.into_inner();
        let to = people::holder(&request).map_err(|refusal| status::refused(&refusal))?;
        let (id, key) = (&request.request_id, &request.idempotency_key);
        let delegated = self.engine.delegate(id, to, key, &who).await;
        let open = delegated.map_err(|error| status::of_field(error, "request_id"))?;
        let request = open.as_ref().map(|open| self.opened(open, &who));
        Ok(Response::new(pb::DelegateRequestResponse { request }))
    }

    async fn revoke_grant(
        &self,
        request: Request<pb::RevokeGrantRequest>,
    ) -> Reply<pb::RevokeGrantResponse> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let key = &request.idempotency_key;
        let revoked = self.engine.revoke(&request.run_id, &request.tool, key, &who).await;
        let id = revoked.map_err(status::of)?;
        let run = Some(self.run_of(id.as_str(), &who).await?);
        Ok(Response::new(pb::RevokeGrantResponse { run }))
    }

    async fn signal_run(
        &self,
        request: Request<pb::SignalRunRequest>,
    ) -> Reply<pb::SignalRunResponse> {
        let who = self.who(&request)?;
        let request = request.into_inner();
        let payload = request.payload.unwrap_or_default().into_value();
        let (run, key) = (&request.run_id, &request.idempotency_key);
        let signalled = self.engine.signal(run, (&request.name, payload), key, &who).await;
        let id = signalled.map_err(status::of)?;
        // Whoever only sends the signal sees nothing of the run.
        let run = self.run_of(id.as_str(), &who).await.ok();
        Ok(Response::new(pb::SignalRunResponse { run }))
    }

    async fn list_workflows(
        &self,
        request: Request<pb::ListWorkflowsRequest>,
    ) -> Reply<pb::ListWorkflowsResponse> {
        let who = self.who(&request)?;
        Ok(Response::new(resources::workflows(&self.engine, &who)))
    }

    async fn get_workflow(
        &self,
        request: Request<pb::GetWorkflowRequest>,
    ) -> Reply<pb::GetWorkflowResponse> {
        let who = self.who(&request)?;
        let name = request.into_inner().workflow_id;
        let entry = self.engine.workflow(&name, &who).map_err(status::of)?;
        Ok(Response::new(pb::GetWorkflowResponse {
            workflow: Some(resources::workflow(&entry)),
            definition_json: serde_json::to_string(&*entry.workflow).unwrap_or_default(),
            mermaid: (self.draw)(&entry.workflow),
        }))
    }

    async fn list_checkpoints(
        &self,
        request: Request<pb::ListCheckpointsRequest>,
    ) -> Reply<pb::ListCheckpointsResponse> {
        let who = self.who(&request)?;
        let run = request.into_inner().run_id;
        let views = self.engine.checkpoints(&run, &who).await.map_err(status::of)?;
        let checkpoints = views.iter().map(resources::checkpoint).collect();
        Ok(Response::new(pb::ListCheckpointsResponse { checkpoints }))
    }
}
