//! Live: streams that say when a page should ask for itself again. They carry no content, so one that
//! is missed, cut or forged costs nothing; what changed is in the page.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::Response;
use axum::response::IntoResponse as _;
use axum::response::sse::{Event, KeepAlive, Sse};
use futures::Stream;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::api::console::page::Trouble;
use crate::api::console::visit::Visit;
use crate::engine::{EngineError, InboxHints, Until, Watch};

/// Changes within this time are one: a page need not be drawn more often than eyes follow.
const GATHER: Duration = Duration::from_millis(150);
/// A comment that keeps proxies from cutting a silent stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The end of a stream; browsers come back by themselves, and one that no longer reads is cut.
const LIFETIME: Duration = Duration::from_mins(10);
/// How soon a browser comes back.
const RETRY: Duration = Duration::from_secs(1);

/// What is listened to.
enum Source {
    Inbox(InboxHints),
    Run(Box<Watch>),
    Workflows(watch::Receiver<()>),
}

impl Source {
    /// Whether something changed; not, where nothing ever will again.
    async fn next(&mut self) -> Result<bool, EngineError> {
        match self {
            Self::Inbox(hints) => hints.next().await.map(|()| true),
            Self::Run(watch) => watch.next().await.map(|event| event.is_some()),
            Self::Workflows(changes) => Ok(changes.changed().await.is_ok()),
        }
    }
}

/// Changes of the inbox.
pub(super) fn inbox(visit: &Visit) -> Response<Body> {
    told(Source::Inbox(visit.engine().inbox_hints(visit.who.clone())))
}

/// Changes of what can be started.
pub(super) fn workflows(visit: &Visit) -> Response<Body> {
    told(Source::Workflows(visit.engine().library().changes()))
}

/// Changes of one run, from what the page shows on.
pub(super) async fn run(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let after = visit.query.get("after").and_then(|after| after.parse().ok()).unwrap_or(0);
    let watch = visit.engine().watch(id, after, Until::Over, &visit.who).await?;
    Ok(told(Source::Run(Box::new(watch))))
}

fn told(source: Source) -> Response<Body> {
    let until = Instant::now() + LIFETIME;
    Sse::new(events(source, until))
        .keep_alive(KeepAlive::new().interval(KEEP_ALIVE))
        .into_response()
}

/// What a stream has come to.
enum Phase {
    Listening(Source),
    /// What was listened to has come to its end.
    Over,
    /// Everything has been told.
    Silent,
}

/// Waits for what follows at once: it is part of the same change.
async fn gathered(mut source: Source) -> Phase {
    let until = Instant::now() + GATHER;
    loop {
        match tokio::time::timeout_at(until, source.next()).await {
            Ok(Ok(true)) => {}
            Ok(Ok(false)) => return Phase::Over,
            Ok(Err(_)) => return Phase::Silent,
            Err(_) => return Phase::Listening(source),
        }
    }
}

fn events(source: Source, until: Instant) -> impl Stream<Item = Result<Event, Infallible>> {
    let hello = futures::stream::iter([Ok(Event::default().event("hello").retry(RETRY).data("-"))]);
    let changes = futures::stream::unfold(Phase::Listening(source), move |phase| async move {
        let mut source = match phase {
            Phase::Listening(source) => source,
            // The browser is told not to come back: nothing will ever change again.
            Phase::Over => {
                return Some((Ok(Event::default().event("over").data("-")), Phase::Silent));
            }
            Phase::Silent => return None,
        };
        // It also ends with its time, with the server, or when it cannot keep up.
        let is_more = tokio::time::timeout_at(until, source.next()).await.ok()?.ok()?;
        let changed = Event::default().event("changed").data("-");
        let phase = if is_more { gathered(source).await } else { Phase::Over };
        Some((Ok(changed), phase))
    });
    futures::StreamExt::chain(hello, changes)
}
