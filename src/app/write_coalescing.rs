//! Write coalescing: what an HTTP/2 connection sends in one turn leaves in one write. The last message of a
//! stream and the words that end it come one after the other; written so, each would cost a system
//! call here and a wake-up there. Not for HTTP/1, where nobody reads while an answer is written.

use std::io::{ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What is held back at most; more is worth a write of its own.
const HELD_BYTES_MAX: usize = 16 << 10;

/// How every HTTP/2 connection begins, and no request of HTTP/1 does.
const PREFACE: &[u8] = b"PRI";

/// A stream that holds back what is written until whoever writes is done: its next turn, which it is
/// woken for at once, begins with reading, and that is when all of it leaves.
#[derive(Debug)]
pub(super) struct Together<S> {
    stream: S,
    speaks: Speaks,
    held: BytesMut,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaks {
    Unknown,
    Http2,
    Other,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody was promised anything about what is held.
    Idle,
    /// The next turn is on its way.
    Due,
    /// The peer does not take it.
    Blocked,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Together<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, speaks: Speaks::Unknown, held: BytesMut::new(), state: State::Idle }
    }

    /// Writes what is held.
    fn let_go(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.state = State::Blocked;
        while !self.held.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(cx, &self.held))?;
            if written == 0 {
                return Poll::Ready(Err(ErrorKind::WriteZero.into()));
            }
            self.held.advance(written);
        }
        self.state = State::Idle;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Whether so much more is held back; if not, nothing is held any more.
    fn has_room(&mut self, more: usize, cx: &mut Context<'_>) -> Poll<Result<bool>> {
        if self.speaks == Speaks::Http2 && self.held.len() + more <= HELD_BYTES_MAX {
            return Poll::Ready(Ok(true));
        }
        if !self.held.is_empty() {
            ready!(self.let_go(cx))?;
        }
        Poll::Ready(Ok(false))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Together<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<Result<()>> {
        if !self.held.is_empty()
            && let Poll::Ready(outcome) = self.let_go(cx)
        {
            outcome?;
        }
        let begin = buffer.filled().len();
        let outcome = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let read = &buffer.filled()[begin..];
        if self.speaks == Speaks::Unknown && !read.is_empty() {
            let is_http2 = read.starts_with(PREFACE);
            self.speaks = if is_http2 { Speaks::Http2 } else { Speaks::Other };
        }
        outcome
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Together<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<Result<usize>> {
        if ready!(self.has_room(bytes.len(), cx))? {
            self.held.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        let length = slices.iter().map(|slice| slice.len()).sum();
        if ready!(self.has_room(length, cx))? {
            for slice in slices {
                self.held.extend_from_slice(slice);
            }
            return Poll::Ready(Ok(length));
        }
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if self.held.is_empty() {
            return Pin::new(&mut self.stream).poll_flush(cx);
        }
        match self.state {
            State::Idle => {
                self.state = State::Due;
                cx.waker().wake_by_ref();
                Poll::Ready(Ok(()))
            }
            State::Due => Poll::Ready(Ok(())),
            State::Blocked => self.let_go(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        if !self.held.is_empty() {
            ready!(self.let_go(cx))?;
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    /// Both ends of a connection that has begun, with so much room between them.
    async fn begun(preface: &[u8], room: usize) -> (Together<DuplexStream>, DuplexStream) {
        let (near, mut far) = duplex(room);
        far.write_all(preface).await.unwrap();
        let mut near = Together::new(near);
        near.read_exact(&mut vec![0; preface.len()]).await.unwrap();
        (near, far)
    }

    /// What has arrived.
    fn arrived(far: &mut DuplexStream) -> Vec<u8> {
        let mut bytes = vec![0; 64 << 10];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(Waker::noop());
        match Pin::new(far).poll_read(&mut cx, &mut buffer) {
            Poll::Ready(outcome) => outcome.unwrap(),
            Poll::Pending => {}
        }
        buffer.filled().to_vec()
    }

    /// The next turn of whoever holds it, in which there is nothing to be read.
    fn turn(near: &mut Together<DuplexStream>) {
        let mut cx = Context::from_waker(Waker::noop());
        let read = Pin::new(near).poll_read(&mut cx, &mut ReadBuf::new(&mut [0; 8]));
        assert!(read.is_pending());
    }

    #[tokio::test]
    async fn what_is_written_in_one_turn_leaves_when_the_next_begins() {
        let (mut near, mut far) = begun(b"PRI * HTTP/2.0", 1 << 10).await;
        for word in ["message", " and", " end"] {
            near.write_all(word.as_bytes()).await.unwrap();
            near.flush().await.unwrap();
        }
        assert_eq!(arrived(&mut far), b"");
        turn(&mut near);
        assert_eq!(arrived(&mut far), b"message and end");
        near.write_all(b"more").await.unwrap();
        near.shutdown().await.unwrap();
        assert_eq!(arrived(&mut far), b"more", "nothing is left behind");
    }

    #[tokio::test]
    async fn whoever_flushes_is_woken_to_have_it_leave() {
        let (near, mut far) = begun(b"PRI * HTTP/2.0", 1 << 10).await;
        let told = tokio::spawn(async move {
            let mut near = near;
            near.write_all(b"word").await.unwrap();
            near.flush().await.unwrap();
            near.read_u8().await.unwrap()
        });
        let mut word = [0; 4];
        far.read_exact(&mut word).await.unwrap();
        far.write_u8(7).await.unwrap();
        assert_eq!((&word, told.await.unwrap()), (b"word", 7));
    }

    #[tokio::test]
    async fn an_older_protocol_is_written_as_it_comes() {
        let (mut near, mut far) = begun(b"POST / HTTP/1.1", 1 << 10).await;
        near.write_all(b"answer").await.unwrap();
        assert_eq!(arrived(&mut far), b"answer");
    }

    #[tokio::test]
    async fn much_is_neither_held_nor_mixed_up() {
        let (mut near, mut far) = begun(b"PRI * HTTP/2.0", 1 << 20).await;
        let large = vec![b'x'; HELD_BYTES_MAX + 1];
        near.write_all(b"small").await.unwrap();
        near.write_all(&large).await.unwrap();
        assert_eq!(arrived(&mut far), [b"small".as_slice(), &large].concat());
    }

    #[tokio::test]
    async fn a_peer_that_takes_nothing_holds_up_whoever_writes_on() {
        let (mut near, mut far) = begun(b"PRI * HTTP/2.0", 16).await;
        near.write_all(&[b'x'; 40]).await.unwrap();
        near.flush().await.unwrap();
        turn(&mut near);
        let mut cx = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut near).poll_flush(&mut cx).is_pending(), "it is told of the jam");
        let mut all = arrived(&mut far);
        while all.len() < 40 {
            turn(&mut near);
            all.extend(arrived(&mut far));
        }
        assert_eq!(all, [b'x'; 40]);
        near.flush().await.unwrap();
    }
}
