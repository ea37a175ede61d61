//! Leave: a stream that is open ends when whoever opened it is admitted no more: its key was removed or is over, its
//! person has signed out, or keys have come to a server that had none. Calls that are answered at once
//! are over before they could notice, and pay next to nothing.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::{Body, Bytes};
use http::{HeaderMap, HeaderName, Request, Response, header};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::sync::watch;

use crate::api::{Doorkeeper, ON_BEHALF_OF, RUN_ID, Shown, console, envelope};
use crate::kernel::Refusal;

/// What a caller showed, to be shown again.
#[derive(Debug, Clone)]
enum Given {
    /// A key, and the person it speaks for.
    Headers(HeaderMap),
    Pass(String),
}

/// What one call was admitted by.
#[derive(Debug, Clone)]
pub(super) struct Leave {
    doorkeeper: Arc<dyn Doorkeeper>,
    shown: Given,
}

impl Leave {
    /// That of a request.
    pub(super) fn of<B>(doorkeeper: &Arc<dyn Doorkeeper>, request: &Request<B>) -> Self {
        let headers = request.headers();
        let pass = if request.uri().path().starts_with("/console") {
            console::pass(headers)
        } else {
            None
        };
        let shown = match pass {
            Some(pass) => Given::Pass(pass.to_owned()),
            None => Given::Headers(credentials(headers)),
        };
        Self { doorkeeper: Arc::clone(doorkeeper), shown }
    }

    /// The response, for as long as its caller is admitted. One that is whole already goes as it is.
    pub(super) fn while_admitted<B>(self, response: Response<B>) -> Response<Body>
    where
        B: HttpBody<Data = Bytes> + Send + Unpin + 'static,
        B::Error: Into<axum::BoxError>,
    {
        if response.body().is_end_stream() || response.body().size_hint().exact().is_some() {
            return response.map(Body::new);
        }
        let is_grpc = response
            .headers()
            .get(header::CONTENT_TYPE)
            .is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
        let owes = response.headers().contains_key(RUN_ID);
        response.map(|body| {
            Body::new(Leaving { body, leave: self, is_grpc, owes, changed: None, is_over: false })
        })
    }

    /// Why the caller is admitted no more, as a fresh call would be told; nothing where it is.
    fn refusal(&self) -> Option<Refusal> {
        match &self.shown {
            Given::Headers(headers) => self.doorkeeper.admit(Shown::of(headers), "open").err(),
            Given::Pass(pass) => {
                (!self.doorkeeper.still_admits_pass(pass)).then_some(Refusal::Unauthenticated)
            }
        }
    }
}

/// The headers that say who calls, and no others: they are kept for as long as the stream.
fn credentials(headers: &HeaderMap) -> HeaderMap {
    let mut kept = HeaderMap::new();
    for name in [header::AUTHORIZATION, HeaderName::from_static(ON_BEHALF_OF)] {
        for value in headers.get_all(&name) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

type Changed = Pin<Box<dyn Future<Output = Option<watch::Receiver<()>>> + Send>>;

/// A body that ends with its caller's leave.
struct Leaving<B> {
    body: B,
    leave: Leave,
    is_grpc: bool,
    /// Whether the call has done something that its caller has not been told: with nothing but a no they would take it for
    /// not done. What is told first is their own deed, which is there already.
    owes: bool,
    /// The next change of who is admitted; made when the body first has nothing to say.
    changed: Option<Changed>,
    is_over: bool,
}

impl<B> Leaving<B> {
    /// Why the caller's leave has ended, if it has; wakes whoever polls when that may be.
    fn has_to_go(&mut self, cx: &mut Context<'_>) -> Option<Refusal> {
        if self.changed.is_none() {
            let changes = self.leave.doorkeeper.changes()?;
            self.changed = Some(next(changes));
            // It may have changed before it was listened to.
            if let Some(why) = self.leave.refusal() {
                return Some(why);
            }
        }
        while let Some(changed) = &mut self.changed {
            match changed.as_mut().poll(cx) {
                Poll::Pending | Poll::Ready(None) => return None,
                Poll::Ready(Some(changes)) => {
                    self.changed = Some(next(changes));
                    if let Some(why) = self.leave.refusal() {
                        return Some(why);
                    }
                }
            }
        }
        None
    }
}

/// The next change; none, when there will be no more.
fn next(mut changes: watch::Receiver<()>) -> Changed {
    Box::pin(async move { changes.changed().await.is_ok().then_some(changes) })
}

impl<B> HttpBody for Leaving<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
{
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        if self.is_over {
            return Poll::Ready(None);
        }
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        if self.owes || polled.is_ready() && self.changed.is_none() {
            self.owes &= polled.is_pending();
            return polled;
        }
        let Some(why) = self.has_to_go(cx) else { return polled };
        self.is_over = true;
        if !self.is_grpc {
            return Poll::Ready(None);
        }
        let trailers: HeaderMap = envelope::refused(&why);
        Poll::Ready(Some(Ok(Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.is_over || self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures::StreamExt as _;

    use super::*;
    use crate::kernel::{Millis, Principal};

    /// Has just begun to ask for keys.
    #[derive(Debug, Default)]
    struct Shut(watch::Sender<()>);

    impl Doorkeeper for Shut {
        fn admit(&self, _shown: Shown<'_>, _door: &'static str) -> Result<Principal, Refusal> {
            Err(Refusal::Unauthenticated)
        }

        fn wants_key(&self) -> bool {
            true
        }

        fn pass(&self, _bearer: &str, _until: Millis) -> Result<String, Refusal> {
            Err(Refusal::Unauthenticated)
        }

        fn admit_pass(
            &self,
            _pass: &str,
            _now: Millis,
            _door: &'static str,
        ) -> Result<Principal, Refusal> {
            Err(Refusal::Unauthenticated)
        }

        fn is_constant(&self) -> bool {
            false
        }

        fn changes(&self) -> Option<watch::Receiver<()>> {
            Some(self.0.subscribe())
        }
    }

    /// What a stream that begins slowly tells, and the status that it ends with.
    async fn told(has_done: bool) -> (Vec<Bytes>, Option<String>) {
        let doorkeeper: Arc<dyn Doorkeeper> = Arc::new(Shut::default());
        let first = futures::stream::once(async {
            tokio::task::yield_now().await;
            Ok::<_, axum::Error>(Bytes::from_static(b"answered"))
        });
        let mut response =
            Response::new(Body::from_stream(first.chain(futures::stream::pending())));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, "application/grpc".parse().unwrap());
        if has_done {
            headers.insert(RUN_ID, "run_1".parse().unwrap());
        }
        let leave = Leave::of(&doorkeeper, &Request::new(()));
        let mut body = leave.while_admitted(response).into_body();
        let mut frames = Vec::new();
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            let frame = frame.unwrap();
            if let Some(trailers) = frame.trailers_ref() {
                let status = trailers.get("grpc-status").and_then(|status| status.to_str().ok());
                return (frames, status.map(ToOwned::to_owned));
            }
            frames.extend(frame.into_data().ok());
        }
        (frames, None)
    }

    #[tokio::test]
    async fn whoever_has_done_something_hears_of_it_before_they_are_told_to_go() {
        let refused = Some("16".to_owned());
        assert_eq!(told(true).await, (vec![Bytes::from_static(b"answered")], refused.clone()));
        assert_eq!(told(false).await, (vec![], refused), "whoever only looks sees nothing more");
    }
}
