//! Body: what a server sends, in bounded pieces.

use std::error::Error as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use futures::{Stream, StreamExt as _};
use reqwest::Response;
use sse_stream::SseByteStream;

use crate::agents::models::fault::{Code, ModelFault, words};
use crate::agents::models::reader::Piece;

/// A stream in all. The longest reply of today's models, each token in an event of its own, is
/// half of it.
const STREAM_BYTES_MAX: usize = 64 << 20;
/// One event. The last one of some formats repeats the whole reply, which has its own bound.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// A whole reply at once.
pub(super) const WHOLE_BYTES_MAX: usize = 4 << 20;
/// An error; its beginning says enough.
pub(super) const ERROR_BYTES_MAX: usize = 64 << 10;

/// Why no more bytes come.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error("there are too many bytes")]
    TooLarge,
    #[error("the connection broke")]
    Connection,
}

/// The events of a stream.
pub(super) fn pieces(
    response: Response,
) -> impl Stream<Item = Result<Piece, ModelFault>> + Send + 'static {
    let (mut total, since) = (0, Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&since);
    let bytes = response.bytes_stream().map(move |chunk| {
        let chunk: Bytes = chunk.map_err(|_| Broken::Connection)?;
        total += chunk.len();
        let event = counted.fetch_add(chunk.len(), Ordering::Relaxed) + chunk.len();
        if total > STREAM_BYTES_MAX || event > EVENT_BYTES_MAX {
            return Err(Broken::TooLarge);
        }
        Ok(chunk)
    });
    SseByteStream::new(bytes).filter_map(move |event| {
        since.store(0, Ordering::Relaxed);
        let piece = match event {
            // Comments and other blocks without data only keep the connection alive.
            Ok(event) => event
                .data
                .map(|data| Ok(Piece::Event { name: event.event.unwrap_or_default(), data })),
            Err(error) => Some(Err(fault(&error))),
        };
        std::future::ready(piece)
    })
}

fn fault(error: &sse_stream::Error) -> ModelFault {
    match error.source().and_then(|source| source.downcast_ref::<Broken>()) {
        Some(Broken::TooLarge) => too_large(),
        Some(Broken::Connection) => {
            ModelFault::new(Code::CutStream, "the connection broke before the end of the reply")
        }
        None => ModelFault::new(Code::BadJson, "what the server sent is not UTF-8"),
    }
}

/// A whole body as text. One that breaks off is no reply.
pub(super) async fn whole(mut response: Response, most: usize) -> Result<String, ModelFault> {
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > most => return Err(too_large()),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => break,
            Err(_) => {
                let message = "the connection broke before the end of the reply";
                return Err(ModelFault::new(Code::CutStream, message));
            }
        }
    }
    String::from_utf8(body)
        .map_err(|_| ModelFault::new(Code::BadJson, "what the server sent is not UTF-8"))
}

fn too_large() -> ModelFault {
    ModelFault::new(Code::TooLarge, "the server sent more bytes than a reply may have")
}

/// The innermost reason of an error, without the address: it is the file's, not the caller's.
pub(super) fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    if std::ptr::addr_eq(cause, error) {
        return "the request could not be sent".into();
    }
    words(&cause.to_string())
}
