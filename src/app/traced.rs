//! Traced: every request is served within the trace that its headers name. Whichever door it comes
//! through, a run that it starts, and an answer that it brings, know where they came from.

use std::task::{Context, Poll};

use axum::Router;
use futures::future::Either;
use http::{HeaderMap, Request};
use tower::Service;

use crate::kernel::Trace;
use crate::ports::trace::{self, Scoped};

/// A router that serves within its callers' traces.
#[derive(Debug, Clone)]
pub(super) struct Traced(pub(super) Router);

impl<B> Service<Request<B>> for Traced
where
    Router: Service<Request<B>>,
{
    type Response = <Router as Service<Request<B>>>::Response;
    type Error = <Router as Service<Request<B>>>::Error;
    type Future = Either<
        Scoped<<Router as Service<Request<B>>>::Future>,
        <Router as Service<Request<B>>>::Future,
    >;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Service::<Request<B>>::poll_ready(&mut self.0, cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let trace = named(request.headers());
        let served = self.0.call(request);
        trace::within(trace, served)
    }
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
