//! Dispatch: where a request goes first: past the guard of all doors, then to the orchestrator at once, or to
//! the routes of the other doors; either way within the trace that its headers name, so that a run that it starts, and an answer that
//! it brings, know where they came from.
//!
//! Most calls are the orchestrator's: routing each through the table of all doors took a twentieth of
//! what a pause and resume costs.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use tower::Service as _;

use crate::api::envelope::Envelope;
use crate::api::grpc::Service;
use crate::api::host::Guard;
use crate::app::crowd::Seat;
use crate::app::leave::Leave;
use crate::app::slow_reader::Awaited;
use crate::app::watchman::PEER;
use crate::engine::Engine;
use crate::kernel::Trace;
use crate::ports::trace;
use crate::wire::v1::orchestrator_server::{OrchestratorServer, SERVICE_NAME};

/// Every door.
#[derive(Debug, Clone)]
pub(super) struct Front {
    pub(super) guard: Guard,
    pub(super) orchestrator: Envelope<OrchestratorServer<Service>>,
    pub(super) doors: Router,
    /// How long the rest of a body may be waited for.
    pub(super) silence: Duration,
    /// Has what was noticed on the way, and writes it down before the response goes out.
    pub(super) engine: Engine,
    /// The place of the connection that this stands for, where places are counted.
    pub(super) seat: Option<Arc<Seat>>,
    /// Whom that connection is with.
    pub(super) peer: Option<IpAddr>,
}

impl Front {
    /// The same, with the routes of one more door.
    pub(super) fn and(self, door: Router) -> Self {
        Self { doors: self.doors.merge(door), ..self }
    }

    /// The same for one connection.
    pub(super) fn at(&self, seat: &Arc<Seat>, peer: IpAddr) -> Self {
        Self { seat: Some(Arc::clone(seat)), peer: Some(peer), ..self.clone() }
    }

    fn answering(&self, call: Call) -> Answering {
        Answering { call, peer: self.peer, engine: self.engine.clone(), held: None }
    }
}

/// A response that is under way.
pub(super) struct Answering {
    call: Call,
    peer: Option<IpAddr>,
    engine: Engine,
    /// The response that waits until what was noticed is written.
    held: Option<(Writing, Response<Body>)>,
}

/// Who answers.
enum Call {
    /// Turned away: at hand at once, and taken once.
    No(Option<Response<Body>>),
    Orchestrator(Under<tonic::body::Body>, Option<Leave>),
    Door(Under<Body>, Option<Leave>),
}

type Writing = Pin<Box<dyn Future<Output = ()> + Send>>;
type Under<B> = Pin<Box<dyn Future<Output = Result<Response<B>, Infallible>> + Send>>;

impl Future for Answering {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        if this.held.is_none() {
            let call = &mut this.call;
            let polled = match this.peer {
                Some(peer) => PEER.sync_scope(peer, || call.poll(context)),
                None => call.poll(context),
            };
            let response = ready!(polled)?;
            // Next to nobody: whoever shows a key that is none.
            if !this.engine.has_unwritten() {
                return Poll::Ready(Ok(response));
            }
            let engine = this.engine.clone();
            this.held = Some((Box::pin(async move { engine.write_down().await }), response));
        }
        if let Some((writing, _)) = &mut this.held {
            ready!(writing.as_mut().poll(context));
        }
        let response = this.held.take().map(|(_, response)| response);
        Poll::Ready(Ok(response.unwrap_or_default()))
    }
}

impl Call {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Response<Body>, Infallible>> {
        match self {
            Self::No(no) => Poll::Ready(Ok(no.take().unwrap_or_default())),
            Self::Orchestrator(call, leave) => {
                call.as_mut().poll(context).map_ok(|response| bounded(response, leave.take()))
            }
            Self::Door(call, leave) => {
                call.as_mut().poll(context).map_ok(|response| bounded(response, leave.take()))
            }
        }
    }
}

/// A response that lasts as long as its caller's leave, where that can end.
fn bounded<B>(response: Response<B>, leave: Option<Leave>) -> Response<Body>
where
    B: hyper::body::Body<Data = axum::body::Bytes> + Send + Unpin + 'static,
    B::Error: Into<axum::BoxError>,
{
    match leave {
        Some(leave) => leave.while_admitted(response),
        None => response.map(Body::new),
    }
}

impl hyper::service::Service<Request<Incoming>> for Front {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering;

    fn call(&self, request: Request<Incoming>) -> Answering {
        if let Some(seat) = &self.seat {
            seat.speaks();
        }
        if let Some(no) = self.guard.turned_away(&request) {
            return self.answering(Call::No(Some(no)));
        }
        let request = request.map(|body| Awaited::new(body, self.silence));
        let leave = self.guard.leave().map(|doorkeeper| Leave::of(doorkeeper, &request));
        let trace = named(request.headers());
        if is_orchestrators(request.uri().path()) {
            // Always ready: neither it nor its envelope ever holds anybody up.
            let call = self.orchestrator.clone().call(request);
            let call = match trace {
                Some(trace) => Box::pin(trace::scoped(trace, call)),
                None => call,
            };
            return self.answering(Call::Orchestrator(call, leave));
        }
        let call = trace::within(trace, self.doors.clone().call(request));
        self.answering(Call::Door(Box::pin(call), leave))
    }
}

/// Whether a path is `/holdpoint.v1.Orchestrator/…`.
fn is_orchestrators(path: &str) -> bool {
    let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(SERVICE_NAME));
    rest.is_some_and(|rest| rest.starts_with('/'))
}

/// The trace that headers name. Two parents are none: nobody could say which it is.
fn named(headers: &HeaderMap) -> Option<Trace> {
    let mut parents = headers.get_all(trace::PARENT).iter();
    let parent = parents.next()?.to_str().ok()?;
    if parents.next().is_some() {
        return None;
    }
    let states = headers.get_all(trace::STATE).iter().filter_map(|state| state.to_str().ok());
    Trace::read(parent, &states.collect::<Vec<_>>().join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_orchestrators_own_methods_go_past_the_doors() {
        assert!(is_orchestrators("/holdpoint.v1.Orchestrator/RunWorkflow"));
        let others =
            ["/", "", "/holdpoint.v1.Orchestrator", "/holdpoint.v1.Orchestrators/X", "/console"];
        assert_eq!(others.map(is_orchestrators), [false; 5]);
    }
}
