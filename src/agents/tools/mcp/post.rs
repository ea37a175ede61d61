//! Post: streamable HTTP for MCP, with a bound on what comes back. What the library reads without
//! one (a JSON body) is read here; the rest is left to it.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use prost::bytes::Bytes;
use reqwest::header::{ACCEPT, CONTENT_TYPE};
use reqwest::{Client, Response, StatusCode};
use rmcp::model::{ClientJsonRpcMessage, ServerJsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use sse_stream_mcp::{Sse, SseStream};

use crate::agents::tools::mcp::oversize::Oversize;
use crate::kernel::shortened;

/// The header that names a session.
const SESSION: &str = "mcp-session-id";
/// How much of an error's body is told.
const SHOWN_CHARS_MAX: usize = 300;

type Outcome<T> = Result<T, StreamableHttpError<reqwest::Error>>;

/// A client that takes no more than it can hold.
#[derive(Debug, Clone)]
pub(super) struct Post {
    pub(super) client: Client,
    pub(super) oversize: Arc<Oversize>,
}

impl StreamableHttpClient for Post {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<StreamableHttpPostResponse> {
        let mut request = self
            .client
            .post(uri.as_ref())
            .header(ACCEPT, "text/event-stream, application/json")
            .headers(custom_headers.into_iter().collect())
            .json(&message);
        if let Some(token) = auth_header {
            request = request.bearer_auth(token);
        }
        if let Some(session_id) = &session_id {
            request = request.header(SESSION, session_id.as_ref());
        }
        let response = request.send().await.map_err(StreamableHttpError::Client)?;
        match response.status() {
            StatusCode::ACCEPTED | StatusCode::NO_CONTENT => {
                Ok(StreamableHttpPostResponse::Accepted)
            }
            StatusCode::NOT_FOUND if session_id.is_some() => {
                Err(StreamableHttpError::SessionExpired)
            }
            status if status.is_success() => self.answered(response, &message).await,
            status => self.declined(status, response).await,
        }
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<()> {
        self.client.delete_session(uri, session_id, auth_header, custom_headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: HashMap<HeaderName, HeaderValue>,
    ) -> Outcome<BoxStream<'static, Result<Sse, SseError>>> {
        let most = self.oversize.bytes_max;
        let (id, auth) = (last_event_id, auth_header);
        let client = &self.client;
        client
            .get_stream_with_max_sse_event_size(uri, session_id, id, auth, custom_headers, most)
            .await
    }
}

impl Post {
    async fn answered(
        &self,
        response: Response,
        message: &ClientJsonRpcMessage,
    ) -> Outcome<StreamableHttpPostResponse> {
        let header = |name: &str| {
            let value = response.headers().get(name)?;
            Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let session_id = header(SESSION);
        let kind = header(CONTENT_TYPE.as_str()).unwrap_or_default();
        if kind.starts_with("text/event-stream") {
            let stream = SseStream::from_bytes_stream(self.bounded(response)).boxed();
            return Ok(StreamableHttpPostResponse::Sse(stream, session_id));
        }
        let wants_reply = matches!(message, ClientJsonRpcMessage::Request(_));
        let body = self.body(response).await?;
        match serde_json::from_slice::<ServerJsonRpcMessage>(&body) {
            Ok(reply) => Ok(StreamableHttpPostResponse::Json(reply, session_id)),
            Err(_) if !wants_reply => Ok(StreamableHttpPostResponse::Accepted),
            Err(_) if !kind.starts_with("application/json") => {
                Err(StreamableHttpError::UnexpectedContentType(Some(kind)))
            }
            Err(error) => Err(StreamableHttpError::Deserialize(error)),
        }
    }

    /// A server may decline with a message of its own, or just with a status.
    async fn declined(
        &self,
        status: StatusCode,
        response: Response,
    ) -> Outcome<StreamableHttpPostResponse> {
        let body = self.body(response).await?;
        if let Ok(error @ ServerJsonRpcMessage::Error(_)) = serde_json::from_slice(&body) {
            return Ok(StreamableHttpPostResponse::Json(error, None));
        }
        let shown = shortened(&String::from_utf8_lossy(&body), SHOWN_CHARS_MAX);
        let message = format!("status {}: {shown}", status.as_u16());
        Err(StreamableHttpError::UnexpectedServerResponse(message.into()))
    }

    async fn body(&self, response: Response) -> Outcome<Vec<u8>> {
        let mut chunks = self.bounded(response);
        let mut body = Vec::new();
        while let Some(chunk) = chunks.next().await {
            body.extend_from_slice(&chunk.map_err(StreamableHttpError::Io)?);
        }
        Ok(body)
    }

    /// The body in pieces, as long as they are not too many. A call has a response of its own, so
    /// the bound is on the whole of it.
    fn bounded(&self, response: Response) -> BoxStream<'static, std::io::Result<Bytes>> {
        let oversize = Arc::clone(&self.oversize);
        let mut left = oversize.bytes_max;
        let pieces = response.bytes_stream().map(move |piece| {
            let piece = piece.map_err(std::io::Error::other)?;
            let Some(rest) = left.checked_sub(piece.len()) else {
                oversize.raise();
                return Err(std::io::Error::other("the answer is too large"));
            };
            left = rest;
            Ok(piece)
        });
        pieces.boxed()
    }
}
