//! Echo: a bare gRPC server. A call streams a few constant events and ends: what tonic alone can
//! do on this machine, with the same client and the same shapes as the orchestrator.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures::future::{Ready, ready};
use futures::stream::{self, Stream};
use http::{Request, Response};
use tokio::net::TcpListener;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, ServerStreamingService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tower::Service;

use crate::bench::{BenchError, workflows};
use crate::wire::v1 as pb;

/// Events of a turn: about what either half of a pause and resume tells.
const EVENTS: u64 = 6;
/// The one event among them that carries words.
const WORDS_BYTES: usize = 200;

/// Serves until the process ends; `on_ready` is told the address.
pub async fn serve(on_ready: impl FnOnce(SocketAddr) + Send) -> Result<(), BenchError> {
    let fail = || BenchError::io("listen on the loopback");
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(fail())?;
    on_ready(listener.local_addr().map_err(fail())?);
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Ok(Server::builder().add_service(Echo).serve_with_incoming(incoming).await?)
}

#[derive(Debug, Clone, Copy)]
struct Echo;

impl NamedService for Echo {
    const NAME: &'static str = "holdpoint.v1.Orchestrator";
}

impl Service<Request<Body>> for Echo {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move {
            let mut grpc = Grpc::new(tonic_prost::ProstCodec::default());
            Ok(grpc.server_streaming(Turn, request).await)
        })
    }
}

#[derive(Debug, Clone, Copy)]
struct Turn;

type Events = Pin<Box<dyn Stream<Item = Result<pb::WorkflowEvent, tonic::Status>> + Send>>;

impl ServerStreamingService<pb::RunWorkflowRequest> for Turn {
    type Response = pb::WorkflowEvent;
    type ResponseStream = Events;
    type Future = Ready<Result<tonic::Response<Events>, tonic::Status>>;

    fn call(&mut self, request: tonic::Request<pb::RunWorkflowRequest>) -> Self::Future {
        let session_id = request.into_inner().session_id;
        let event = move |sequence| {
            let words = pb::Delta { text: workflows::text(WORDS_BYTES), ..pb::Delta::default() };
            let event = match sequence {
                2 => pb::workflow_event::Event::Delta(words),
                _ => pb::workflow_event::Event::Completed(pb::Completed {}),
            };
            Ok(pb::WorkflowEvent {
                session_id: session_id.clone(),
                sequence,
                event: Some(event),
                ..pb::WorkflowEvent::default()
            })
        };
        let events: Events = Box::pin(stream::iter((1..=EVENTS).map(event)));
        ready(Ok(tonic::Response::new(events)))
    }
}
