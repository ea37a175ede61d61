//! Last look: a process that may be taken for dead by now connects to nobody and writes nothing. Asked when a connection
//! stands and when a request's body is about to be written: what was frozen in between wakes up to a no.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame, SizeHint};
use tower::{BoxError, Layer, Service};

use crate::ports::leave::{self, LATE, Leave};

/// A request's body that is written only while there is leave to.
#[derive(Debug)]
pub(in crate::agents) struct Guarded {
    bytes: Option<Bytes>,
    leave: Option<Leave>,
}

impl Guarded {
    /// With the leave of the work that it is sent for.
    pub(in crate::agents) fn new(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: Some(bytes.into()), leave: leave::current() }
    }

    /// The same, of what is begun with it: a halt that came meanwhile ends it.
    pub(in crate::agents) fn to_begin(bytes: impl Into<Bytes>) -> Self {
        Self { bytes: Some(bytes.into()), leave: leave::to_begin() }
    }
}

impl Body for Guarded {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if self.leave.as_ref().is_some_and(|leave| !leave.holds()) {
            return Poll::Ready(Some(Err(LATE.into())));
        }
        Poll::Ready(self.bytes.take().map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64))
    }
}

/// Connections that are used only while there is leave to.
#[derive(Debug, Clone, Copy)]
pub(in crate::agents) struct LastLook;

/// One who connects so.
#[derive(Debug, Clone)]
pub(in crate::agents) struct Looking<S>(S);

impl<S> Layer<S> for LastLook {
    type Service = Looking<S>;

    fn layer(&self, inner: S) -> Looking<S> {
        Looking(inner)
    }
}

impl<S, Target> Service<Target> for Looking<S>
where
    S: Service<Target, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, target: Target) -> Self::Future {
        let (connecting, leave) = (self.0.call(target), leave::current());
        Box::pin(async move {
            if leave.as_ref().is_some_and(|leave| !leave.holds()) {
                return Err(LATE.into());
            }
            let connected = connecting.await?;
            // A name that is looked up, and a handshake, take their time: what may be sent is asked anew after them.
            match &leave {
                Some(leave) if !leave.still_holds().await => Err(LATE.into()),
                Some(_) | None => Ok(connected),
            }
        })
    }
}
