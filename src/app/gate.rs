//! Gate: where requests find the doors that are in force. A server that takes its store elsewhere changes its doors while
//! connections stay: whoever comes in between waits here, for a while, and finds the new ones. What a request means is
//! the doors' business.

use std::convert::Infallible;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::Service;
use tokio::sync::watch;

use crate::app::crowd::Seat;
use crate::app::dispatch::{Answering, Front};

/// How long a request waits for doors: longer than they take to be changed, and shorter than most callers wait.
const PATIENCE: Duration = Duration::from_secs(25);
/// When to come again, for whoever waited in vain.
const AGAIN: &str = "2";

/// The doors in force, if there are any.
#[derive(Debug)]
pub(super) struct Gate {
    /// Another one with every change, so that a connection sees with one look that its doors are still the ones.
    number: AtomicU64,
    doors: watch::Sender<Option<Arc<Front>>>,
}

impl Gate {
    /// Open, with these doors behind it.
    pub(super) fn new(front: Front) -> Arc<Self> {
        let doors = watch::Sender::new(Some(Arc::new(front)));
        Arc::new(Self { number: AtomicU64::new(0), doors })
    }

    /// Whoever comes from now on waits.
    #[cfg(feature = "postgres")]
    pub(super) fn close(&self) {
        self.doors.send_replace(None);
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// Whoever waits, and comes from now on, finds these.
    #[cfg(feature = "postgres")]
    pub(super) fn open(&self, front: Front) {
        self.doors.send_replace(Some(Arc::new(front)));
        self.number.fetch_add(1, Ordering::SeqCst);
    }

    /// What one connection goes through.
    pub(super) fn door(self: &Arc<Self>, seat: Arc<Seat>, peer: IpAddr) -> Door {
        // In this order: doors that are changed in between are taken for old ones.
        let number = self.number.load(Ordering::SeqCst);
        let known = self.doors.borrow().as_ref().map(|front| front.at(&seat, peer));
        Door { gate: Arc::clone(self), number, known, seat, peer }
    }
}

/// One connection's way to the doors.
#[derive(Debug)]
pub(super) struct Door {
    gate: Arc<Gate>,
    /// When the doors that are known here were in force.
    number: u64,
    known: Option<Front>,
    seat: Arc<Seat>,
    peer: IpAddr,
}

/// A response that is under way, or waits for doors.
#[expect(
    clippy::large_enum_variant,
    reason = "nearly all are under way: a box for each would cost more"
)]
pub(super) enum Passing {
    /// Under way.
    Now(Answering),
    /// Waits.
    Later(Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>),
}

impl Future for Passing {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        match self.get_mut() {
            Self::Now(answering) => Pin::new(answering).poll(context),
            Self::Later(later) => later.as_mut().poll(context),
        }
    }
}

impl Service<Request<Incoming>> for Door {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Passing;

    fn call(&self, request: Request<Incoming>) -> Passing {
        if self.gate.number.load(Ordering::SeqCst) == self.number
            && let Some(front) = &self.known
        {
            return Passing::Now(front.call(request));
        }
        let mut doors = self.gate.doors.subscribe();
        if doors.borrow().is_none()
            && let Some(told) = probed(request.uri().path())
        {
            return Passing::Later(Box::pin(std::future::ready(Ok(told))));
        }
        let (seat, peer) = (Arc::clone(&self.seat), self.peer);
        Passing::Later(Box::pin(async move {
            let front = {
                let waited = tokio::time::timeout(PATIENCE, doors.wait_for(Option::is_some)).await;
                let found = waited.ok().and_then(Result::ok);
                found.and_then(|front| front.as_ref().map(|front| front.at(&seat, peer)))
            };
            match front {
                Some(front) => front.call(request).await,
                None => Ok(come_again(request.headers())),
            }
        }))
    }
}

/// What a probe is told at once while there are no doors: one that waits takes a server for dead that is well.
fn probed(path: &str) -> Option<Response<Body>> {
    match path {
        "/healthz" => Some(Response::new(Body::from("ok\n"))),
        "/readyz" | "/metrics" => Some(come_again(&HeaderMap::new())),
        _ => None,
    }
}

/// What whoever has waited in vain is told: it was not taken, and may be sent again.
fn come_again(headers: &HeaderMap) -> Response<Body> {
    let why = "the server is moving its store; try again in a moment";
    let is_grpc = headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    if is_grpc {
        return tonic::Status::unavailable(why).into_http();
    }
    let mut response = Response::new(Body::from(format!("{why}\n")));
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static(AGAIN));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_is_answered_while_there_are_no_doors() {
        let status = |path| probed(path).map(|told| told.status());
        assert_eq!(status("/healthz"), Some(StatusCode::OK));
        assert_eq!(status("/readyz"), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status("/metrics"), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert_eq!(status("/v1/responses"), None, "whatever else comes waits");
    }

    #[test]
    fn whoever_waited_in_vain_is_told_to_come_again() {
        let told = come_again(&HeaderMap::new());
        assert_eq!(told.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert!(told.headers().contains_key(RETRY_AFTER));
        let grpc =
            HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/grpc"))]);
        let told = come_again(&grpc);
        assert_eq!(told.headers().get("grpc-status").map(HeaderValue::as_bytes), Some(&b"14"[..]));
    }
}
