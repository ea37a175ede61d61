//! Slow reader: a connection whose peer does not read what it asked for is cut, not waited for; and so is one
//! whose peer does not say what it wants, or stops in the middle of it.
//!
//! Whatever is sent is made as it is read, so such a peer costs a connection and its buffers; this is
//! what bounds for how long. Between requests HTTP/1 and HTTP/2 have bounds of their own: the server's.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use hyper::body::{Body, Frame, SizeHint};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A stream that fails when a write makes no headway for so long.
#[derive(Debug)]
pub(super) struct Patient<S> {
    stream: S,
    patience: Duration,
    /// Runs while a write waits.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Runs until the peer has said which protocol it speaks.
    opening: Option<Opening>,
}

/// What has been heard of the first words of a connection.
#[derive(Debug)]
struct Opening {
    until: Pin<Box<Sleep>>,
    /// How much of HTTP/2's preface has come.
    heard: usize,
}

/// What HTTP/2 begins with; whatever begins otherwise is HTTP/1.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl<S> Patient<S> {
    pub(super) fn new(stream: S, patience: Duration) -> Self {
        Self { stream, patience, waiting: None, opening: None }
    }

    /// The same for a peer that has yet to speak, and has so long for it. Made within a runtime.
    pub(super) fn opened(stream: S, patience: Duration, silence: Duration) -> Self {
        let opening = Opening { until: Box::pin(tokio::time::sleep(silence)), heard: 0 };
        Self { opening: Some(opening), ..Self::new(stream, patience) }
    }

    /// Takes note of first words; whether the time for them is over.
    fn is_too_late(&mut self, words: &[u8], cx: &mut Context<'_>) -> bool {
        let Some(opening) = &mut self.opening else { return false };
        let rest = PREFACE.get(opening.heard..).unwrap_or_default();
        let same = rest.iter().zip(words).take_while(|(one, other)| one == other).count();
        opening.heard += same;
        if same < words.len() || opening.heard == PREFACE.len() {
            self.opening = None;
            return false;
        }
        opening.until.as_mut().poll(cx).is_ready()
    }

    /// What a write came to; one that waits for too long has failed.
    fn bounded<T>(&mut self, outcome: Poll<Result<T>>, cx: &mut Context<'_>) -> Poll<Result<T>> {
        if outcome.is_ready() {
            self.waiting = None;
            return outcome;
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => {
                Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer does not read")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if self.opening.is_some() {
            let words = buffer.filled().get(before..).unwrap_or_default();
            if self.is_too_late(words, cx) {
                return Poll::Ready(Err(Error::new(ErrorKind::TimedOut, "the peer says nothing")));
            }
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(outcome, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let outcome = Pin::new(&mut self.stream).poll_flush(cx);
        self.bounded(outcome, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bounded(outcome, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

/// A request's body that fails when nothing more of it comes for so long.
#[derive(Debug)]
pub(super) struct Awaited<B> {
    body: B,
    patience: Duration,
    /// Runs while a piece is waited for.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<B> Awaited<B> {
    pub(super) fn new(body: B, patience: Duration) -> Self {
        Self { body, patience, waiting: None }
    }
}

impl<B> Body for Awaited<B>
where
    B: Body + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<B::Data>, BoxError>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.waiting = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let patience = self.patience;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(tokio::time::sleep(patience)));
        match waiting.as_mut().poll(cx) {
            Poll::Ready(()) => {
                let late = Error::new(ErrorKind::TimedOut, "the rest of the body did not come");
                Poll::Ready(Some(Err(late.into())))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn a_peer_that_does_not_read_is_cut_and_one_that_does_is_not() {
        let (near, mut far) = tokio::io::duplex(8);
        let mut patient = Patient::new(near, Duration::from_millis(20));
        patient.write_all(b"12345678").await.unwrap();
        let refused = patient.write_all(b"9").await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut);
        let mut read = [0; 8];
        far.read_exact(&mut read).await.unwrap();
        patient.write_all(b"9").await.unwrap();
    }

    #[tokio::test]
    async fn a_peer_has_to_say_what_it_speaks() {
        let (wait, silence) = (Duration::from_mins(1), Duration::from_millis(20));
        for said in [&b""[..], b"P", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r"] {
            let (near, mut far) = tokio::io::duplex(64);
            let mut patient = Patient::opened(near, wait, silence);
            far.write_all(said).await.unwrap();
            let refused = patient.read_to_end(&mut Vec::new()).await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::TimedOut);
        }
        for said in [PREFACE, b"POST", b"PRIVATE"] {
            let (near, mut far) = tokio::io::duplex(64);
            let mut patient = Patient::opened(near, wait, silence);
            far.write_all(said).await.unwrap();
            patient.read_exact(&mut vec![0; said.len()]).await.unwrap();
            assert!(patient.opening.is_none(), "from here on others have their bounds");
        }
    }
}
