//! Envelope: what surrounds every gRPC call: the caller's deadline, and details on refusals that
//! never reach a handler (a message that is too large, no protobuf, or for an unknown method).

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderValue, Request, Response};
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Code, Status};
use tower::{Layer, Service};

use crate::api::{host, status};
use crate::kernel::Refusal;

/// A deadline further away than this is no deadline; hours are for `WatchRun` to be taken up again.
const DEADLINE_MAX: Duration = Duration::from_hours(24);

/// The name that a caller called this server by, for handlers that must tell it.
#[derive(Debug, Clone)]
pub(super) struct Authority(pub(super) String);

/// Wraps a gRPC service.
#[derive(Debug, Clone, Copy, Default)]
pub struct EnvelopeLayer;

impl<S> Layer<S> for EnvelopeLayer {
    type Service = Envelope<S>;

    fn layer(&self, inner: S) -> Envelope<S> {
        Envelope { inner }
    }
}

/// A gRPC service in its envelope.
#[derive(Debug, Clone)]
pub struct Envelope<S> {
    inner: S,
}

impl<S: NamedService> NamedService for Envelope<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<B>> for Envelope<S>
where
    S: Service<Request<B>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    B: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let authority = host::called(request.uri(), request.headers()).to_owned();
        request.extensions_mut().insert(Authority(authority));
        let deadline = request.headers().get("grpc-timeout").and_then(timeout_of);
        let call = self.inner.call(request);
        Box::pin(async move {
            let response = match deadline {
                None => call.await?,
                Some(deadline) => match tokio::time::timeout(deadline, call).await {
                    Ok(response) => response?,
                    Err(_) => too_late(),
                },
            };
            Ok(detailed(response))
        })
    }
}

/// How a stream ends whose caller is admitted no more: with what a fresh call would be told.
pub fn refused(why: &Refusal) -> http::HeaderMap {
    let refused: Response<Body> = status::refused(why).into_http();
    let mut trailers = refused.into_parts().0.headers;
    // The head of the stream has said it.
    trailers.remove(http::header::CONTENT_TYPE);
    trailers
}

fn too_late() -> Response<Body> {
    let message = "the deadline passed before the call was answered; the run goes on";
    status::plain(Code::DeadlineExceeded, "call.deadline", message).into_http()
}

/// `grpc-timeout`: a number of at most eight digits and a unit.
fn timeout_of(value: &HeaderValue) -> Option<Duration> {
    let text = value.to_str().ok()?;
    let unit = text.chars().last()?;
    let digits = text.strip_suffix(unit)?;
    let number: u64 = if digits.len() <= 8 { digits.parse().ok()? } else { return None };
    let timeout = match unit {
        'H' => Duration::from_secs(number * 3600),
        'M' => Duration::from_secs(number * 60),
        'S' => Duration::from_secs(number),
        'm' => Duration::from_millis(number),
        'u' => Duration::from_micros(number),
        'n' => Duration::from_nanos(number),
        _ => return None,
    };
    Some(timeout.min(DEADLINE_MAX))
}

/// Adds `ErrorInfo` to a refusal that has no details: those of the framework itself.
fn detailed(response: Response<Body>) -> Response<Body> {
    let headers = response.headers();
    if headers.contains_key("grpc-status-details-bin") {
        return response;
    }
    let Some(bare) = Status::from_header_map(headers).filter(|bare| bare.code() != Code::Ok) else {
        return response;
    };
    let (code, reason, message) = match bare.code() {
        Code::OutOfRange => (
            Code::InvalidArgument,
            "message.too_large",
            format!("a message has at most {} bytes", crate::api::MESSAGE_BYTES_MAX),
        ),
        Code::Internal => (
            Code::InvalidArgument,
            "message.malformed",
            "the message cannot be read: expected valid UTF-8, values nested at most 49 deep, and \
             this method's protobuf message"
                .to_owned(),
        ),
        Code::Unimplemented => return status::no_such_method().into_http(),
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::InvalidArgument
        | Code::DeadlineExceeded
        | Code::NotFound
        | Code::AlreadyExists
        | Code::PermissionDenied
        | Code::ResourceExhausted
        | Code::FailedPrecondition
        | Code::Aborted
        | Code::Unavailable
        | Code::DataLoss
        | Code::Unauthenticated => (bare.code(), "call.refused", bare.message().to_owned()),
    };
    status::plain(code, reason, &message).into_http()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_a_unit_and_a_bound() {
        let read = |text: &'static str| timeout_of(&HeaderValue::from_static(text));
        assert_eq!(read("5S"), Some(Duration::from_secs(5)));
        assert_eq!(read("250m"), Some(Duration::from_millis(250)));
        assert_eq!(read("99999999H"), Some(DEADLINE_MAX));
        for text in ["", "S", "5", "5x", "123456789S", "-1S"] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
