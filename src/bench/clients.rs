//! Clients: the other side of the wire. Each speaks over a connection of its own, unless it is told to
//! share a few, and reads every event of every stream.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;
use tonic::Streaming;
use tonic::transport::{Channel, Endpoint};

use crate::bench::BenchError;
use crate::bench::process::Server;
use crate::bench::workflows;
use crate::wire::json::Json;
use crate::wire::v1 as pb;
use pb::orchestrator_client::OrchestratorClient;
use pb::workflow_event::Event;

/// What a run is told where nothing else is asked for.
const SENTENCE: &str = "Tell Ada that her order has shipped.";
/// A long conversation's last words come in one message; the server's own bound is below this.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Connections where it is not calls that are measured but what is left of them in memory.
pub(super) const FEW: u16 = 4;

/// Speaks to a server.
pub(super) type Client = OrchestratorClient<Channel>;

/// Clients for `count` callers, each with a connection of its own.
pub(super) async fn dial(address: &str, count: u16) -> Result<Vec<Client>, BenchError> {
    dial_over(address, count, count).await
}

/// Clients for `count` callers who share at most so many connections.
pub(super) async fn dial_over(
    address: &str,
    count: u16,
    most: u16,
) -> Result<Vec<Client>, BenchError> {
    let mut connections = Vec::new();
    for _ in 0..count.min(most) {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))?.tcp_nodelay(true);
        let client = OrchestratorClient::new(endpoint.connect().await?)
            .max_decoding_message_size(MESSAGE_BYTES_MAX);
        connections.push(client);
    }
    Ok(connections.iter().cycle().take(count.into()).cloned().collect())
}

/// Clients for `count` callers of several servers, each of which has as many of them as any other; over at most so many
/// connections in all, and one to each at least.
pub(super) async fn dial_all(
    servers: &[Server],
    count: u16,
    most: u16,
) -> Result<Vec<Client>, BenchError> {
    let mut callers = Vec::new();
    let among = u16::try_from(servers.len()).unwrap_or(u16::MAX).max(1);
    for (server, number) in servers.iter().zip(0..) {
        let share = |all: u16| all / among + u16::from(number < all % among);
        callers.extend(dial_over(&server.address, share(count), share(most).max(1)).await?);
    }
    Ok(callers)
}

/// Starts a workflow, and reads on until it waits; the open request's id comes back.
pub(super) async fn start(client: &mut Client, workflow: &str) -> Result<String, BenchError> {
    start_with(client, workflow, SENTENCE.into()).await
}

/// The same, told something else.
pub(super) async fn start_with(
    client: &mut Client,
    workflow: &str,
    input: String,
) -> Result<String, BenchError> {
    let request = pb::RunWorkflowRequest {
        workflow_id: workflow.into(),
        input: Some(words(input)),
        ..pb::RunWorkflowRequest::default()
    };
    let stream = client.run_workflow(request).await?.into_inner();
    waiting(stream).await
}

/// Starts a workflow, and leaves once it has begun.
pub(super) async fn begin(client: &mut Client, workflow: &str) -> Result<(), BenchError> {
    let request = pb::RunWorkflowRequest {
        workflow_id: workflow.into(),
        input: Some(words(SENTENCE.into())),
        ..pb::RunWorkflowRequest::default()
    };
    let mut stream = client.run_workflow(request).await?.into_inner();
    stream.message().await?.map(drop).ok_or(BenchError::Unexpected("begin a run"))
}

/// Returns when no run moves any more; looks every `look`.
pub(super) async fn all_over(
    client: &mut Client,
    look: std::time::Duration,
) -> Result<(), BenchError> {
    let mut ticks = tokio::time::interval(look);
    loop {
        ticks.tick().await;
        let request = pb::ListRunsRequest {
            status: pb::RunStatus::Running.into(),
            page_size: 1,
            ..pb::ListRunsRequest::default()
        };
        if client.list_runs(request).await?.into_inner().runs.is_empty() {
            return Ok(());
        }
    }
}

/// Says something in a long conversation, and reads on until it waits again.
pub(super) async fn say(client: &mut Client, request: String) -> Result<String, BenchError> {
    let said = words(workflows::text(workflows::WORDS_BYTES));
    let stream = client.send_responses(response(request, said)).await?.into_inner();
    waiting(stream).await
}

/// Starts the wide workflow, and reads on until it waits; all open requests' ids come back.
pub(super) async fn spread(client: &mut Client, count: u32) -> Result<Vec<String>, BenchError> {
    let numbers: Value = (1..=count).collect();
    let request = pb::RunWorkflowRequest {
        workflow_id: workflows::WIDE.into(),
        input: Some(numbers.into()),
        ..pb::RunWorkflowRequest::default()
    };
    let mut stream = client.run_workflow(request).await?.into_inner();
    let mut open = Vec::new();
    while let Some(event) = stream.message().await? {
        if let Some(Event::RequestInfo(asked)) = event.event {
            open.push(asked.request_id);
        }
    }
    Ok(open)
}

/// Approves, and reads on until the run is completed.
pub(super) async fn approve(client: &mut Client, request: String) -> Result<(), BenchError> {
    if answer(client, request, "approve").await? {
        Ok(())
    } else {
        Err(BenchError::Unexpected("complete a run"))
    }
}

/// Answers, and reads on until the run rests; whether it is completed.
pub(super) async fn answer(
    client: &mut Client,
    request: String,
    text: &str,
) -> Result<bool, BenchError> {
    let request = response(request, words(text.into()));
    let mut stream = client.send_responses(request).await?.into_inner();
    let mut is_completed = false;
    while let Some(event) = stream.message().await? {
        is_completed |= matches!(event.event, Some(Event::Completed(_)));
    }
    Ok(is_completed)
}

/// One bare turn.
pub(super) async fn turn(client: &mut Client) -> Result<(), BenchError> {
    let request = pb::RunWorkflowRequest {
        workflow_id: workflows::CYCLE.into(),
        session_id: "ses_01k9zq3v7m8n4p5r6s7t8v9w0x".into(),
        ..pb::RunWorkflowRequest::default()
    };
    let mut stream = client.run_workflow(request).await?.into_inner();
    while stream.message().await?.is_some() {}
    Ok(())
}

/// How much work is left, for callers that share it.
#[derive(Debug, Clone)]
pub(super) struct Remaining(Arc<AtomicU32>);

impl Remaining {
    /// That much.
    pub(super) fn new(count: u32) -> Self {
        Self(Arc::new(AtomicU32::new(count)))
    }

    /// Takes one piece, if there is one.
    pub(super) fn take(&self) -> bool {
        let less = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// What is left.
    pub(super) fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

pub(super) fn words(text: String) -> Json {
    Value::String(text).into()
}

fn response(request: String, value: Json) -> pb::SendResponsesRequest {
    let responses = HashMap::from([(request, value)]);
    pb::SendResponsesRequest { responses, ..pb::SendResponsesRequest::default() }
}

async fn waiting(mut stream: Streaming<pb::WorkflowEvent>) -> Result<String, BenchError> {
    let mut open = None;
    while let Some(event) = stream.message().await? {
        if let Some(Event::Status(status)) = event.event {
            let requests = status.workflow_waiting.unwrap_or_default().requests;
            open = requests.into_iter().next().map(|request| request.request_id);
        }
    }
    open.ok_or(BenchError::Unexpected("pause for an answer"))
}
