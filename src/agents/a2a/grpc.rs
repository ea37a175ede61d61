//! gRPC: calls of a remote agent whose card names that binding. Our own connection, so that the guard
//! sees the addresses that are really dialled; JSON on our side, by the messages' own mapping.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::HeaderMap;
use hyper_util::rt::TokioIo;
use prost::Message;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use rustls_platform_verifier::ConfigVerifierExt as _;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code as GrpcCode, Request, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::agents::a2a::call::{BODY_BYTES_MAX, Call, CallError, Events, KEY, VERSION};
use crate::agents::a2a::card::{Binding, Interface};
use crate::agents::a2a::fault::{Code, RemoteFault, words};
use crate::agents::a2a::v03::{self, newer};
use crate::agents::tools::guard::{AllowPrivate, Private, is_public};
use crate::wire::lf::a2a_service_client::A2aServiceClient;
use crate::wire::older::a2a_service_client::A2aServiceClient as OlderClient;
use crate::wire::proto_json;

/// Time to reach a server at all, as for HTTP.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A stream of a server that is gone is noticed within two of these.
const KEEP_ALIVE: Duration = Duration::from_secs(20);

/// How a remote is reached by gRPC.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    interface: Interface,
    /// Whatever goes with every request, as over HTTP.
    headers: HeaderMap,
    /// Whether its address may be one beyond the public internet.
    is_open: bool,
}

/// What carries a connection.
trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

impl Wire {
    /// The way to an interface, if gRPC is its binding.
    pub(super) fn to(
        interface: &Interface,
        headers: &HeaderMap,
        allow: &AllowPrivate,
    ) -> Option<Self> {
        let is_open = allow.allows(interface.url.host_str().unwrap_or_default());
        let wire = || Self { interface: interface.clone(), headers: headers.clone(), is_open };
        (interface.binding == Binding::Grpc).then(wire)
    }

    /// A call that is answered whole.
    pub(super) async fn call(&self, call: Call<'_>, key: &str) -> Result<Value, CallError> {
        let channel = self.channel().await?;
        if self.interface.is_older {
            let mut client = OlderClient::new(channel).max_decoding_message_size(BODY_BYTES_MAX);
            let told = match call {
                Call::Send(_) | Call::Stream(_) => {
                    let request = self.asked(call, key, "a2a.v1.SendMessageRequest")?;
                    told("a2a.v1.SendMessageResponse", client.send_message(request).await)
                }
                Call::Get(_) | Call::Subscribe(_) => {
                    let request = self.asked(call, key, "a2a.v1.GetTaskRequest")?;
                    told("a2a.v1.Task", client.get_task(request).await)
                }
                Call::Cancel(_) => {
                    let request = self.asked(call, key, "a2a.v1.CancelTaskRequest")?;
                    told("a2a.v1.Task", client.cancel_task(request).await)
                }
            };
            return told.map(newer);
        }
        let mut client = A2aServiceClient::new(channel).max_decoding_message_size(BODY_BYTES_MAX);
        match call {
            Call::Send(_) | Call::Stream(_) => {
                let request = self.asked(call, key, "lf.a2a.v1.SendMessageRequest")?;
                told("lf.a2a.v1.SendMessageResponse", client.send_message(request).await)
            }
            Call::Get(_) | Call::Subscribe(_) => {
                let request = self.asked(call, key, "lf.a2a.v1.GetTaskRequest")?;
                told("lf.a2a.v1.Task", client.get_task(request).await)
            }
            Call::Cancel(_) => {
                let request = self.asked(call, key, "lf.a2a.v1.CancelTaskRequest")?;
                told("lf.a2a.v1.Task", client.cancel_task(request).await)
            }
        }
    }

    /// A call that is answered by a stream.
    pub(super) async fn open(&self, call: Call<'_>, key: &str) -> Result<Events, CallError> {
        let channel = self.channel().await?;
        let is_new = matches!(call, Call::Stream(_) | Call::Send(_));
        if self.interface.is_older {
            let mut client = OlderClient::new(channel).max_decoding_message_size(BODY_BYTES_MAX);
            let opened = if is_new {
                let request = self.asked(call, key, "a2a.v1.SendMessageRequest")?;
                client.send_streaming_message(request).await
            } else {
                let request = self.asked(call, key, "a2a.v1.TaskSubscriptionRequest")?;
                client.task_subscription(request).await
            };
            let stream = opened.map_err(|status| refused(&status))?.into_inner();
            return Ok(events("a2a.v1.StreamResponse", stream, newer));
        }
        let mut client = A2aServiceClient::new(channel).max_decoding_message_size(BODY_BYTES_MAX);
        let opened = if is_new {
            let request = self.asked(call, key, "lf.a2a.v1.SendMessageRequest")?;
            client.send_streaming_message(request).await
        } else {
            let request = self.asked(call, key, "lf.a2a.v1.SubscribeToTaskRequest")?;
            client.subscribe_to_task(request).await
        };
        let stream = opened.map_err(|status| refused(&status))?.into_inner();
        Ok(events("lf.a2a.v1.StreamResponse", stream, |value| value))
    }

    /// A call as a message, with what goes along with it.
    fn asked<M: Message + Default>(
        &self,
        call: Call<'_>,
        key: &str,
        name: &str,
    ) -> Result<Request<M>, CallError> {
        let is_older = self.interface.is_older;
        let json =
            if is_older { v03::message_of(call) } else { call.params(&self.interface.tenant) };
        let message = proto_json::read(name, json).map_err(|error| {
            CallError::Fault(RemoteFault::new(
                Code::Refused,
                format!("this cannot be said by gRPC: {error}"),
            ))
        })?;
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(self.headers.clone());
        let mut add = |name: &'static str, value: &str| {
            if let Ok(value) = value.parse() {
                request.metadata_mut().insert(name, value);
            }
        };
        add(VERSION, self.interface.version());
        if matches!(call, Call::Stream(_) | Call::Send(_)) {
            add(KEY, key);
        }
        Ok(request)
    }

    /// A connection for one call: a kept one may be dead by the next, and then nobody knows whether
    /// that call was heard.
    async fn channel(&self) -> Result<Channel, CallError> {
        let dialled = tokio::time::timeout(CONNECT_TIMEOUT, self.dial()).await;
        let pipe =
            dialled.unwrap_or_else(|_| Err(CallError::Ill("it cannot be reached".into())))?;
        let ill = |error: tonic::transport::Error| {
            CallError::Ill(format!("the connection cannot be used: {error}"))
        };
        // Tonic is handed a connection that is safe already, and must not ask for more.
        let authority = self.interface.url.authority();
        let origin = format!("{}://{authority}", self.interface.url.scheme());
        let origin = origin.parse().map_err(|_| CallError::Ill("its address is none".into()))?;
        let endpoint = Endpoint::from_shared(format!("http://{authority}")).map_err(ill)?;
        let endpoint = endpoint
            .origin(origin)
            .http2_keep_alive_interval(KEEP_ALIVE)
            .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
            .map_err(ill)?;
        let mut once = Some(TokioIo::new(pipe));
        let connector = tower::service_fn(move |_| {
            let pipe = once.take().ok_or_else(|| io::Error::other("the connection was lost"));
            std::future::ready(pipe)
        });
        endpoint.connect_with_connector(connector).await.map_err(ill)
    }

    async fn dial(&self) -> Result<Box<dyn Pipe>, CallError> {
        let host = self.interface.url.host_str().unwrap_or_default();
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let port = self.interface.url.port_or_known_default().unwrap_or(443);
        let lost = |error: io::Error| CallError::Ill(format!("it cannot be reached: {error}"));
        let found: Vec<SocketAddr> =
            tokio::net::lookup_host((bare, port)).await.map_err(lost)?.collect();
        let private = found.iter().find(|address| !is_public(address.ip()));
        if let (Some(private), false) = (private, self.is_open) {
            let private = Private { host: host.to_owned(), address: private.ip() };
            let message = format!("{private}; `allow_private` allows it");
            return Err(CallError::Fault(RemoteFault::new(Code::Private, message)));
        }
        let stream = TcpStream::connect(found.as_slice()).await.map_err(lost)?;
        stream.set_nodelay(true).map_err(lost)?;
        if self.interface.url.scheme() == "http" {
            return Ok(Box::new(stream));
        }
        let mut config = ClientConfig::with_platform_verifier()
            .map_err(|error| CallError::Ill(format!("TLS cannot be set up: {error}")))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from(bare.to_owned())
            .map_err(|_| CallError::Ill("its address is no name that a certificate has".into()))?;
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await;
        Ok(Box::new(stream.map_err(lost)?))
    }
}

fn told<M: Message>(
    name: &str,
    outcome: Result<tonic::Response<M>, Status>,
) -> Result<Value, CallError> {
    let message = outcome.map_err(|status| refused(&status))?.into_inner();
    written(name, &message)
}

fn written<M: Message>(name: &str, message: &M) -> Result<Value, CallError> {
    proto_json::write(name, message).map_err(|error| {
        CallError::Fault(RemoteFault::new(
            Code::BadReply,
            format!("what it sent cannot be read: {error}"),
        ))
    })
}

fn events<M: Message + Send + 'static>(
    name: &'static str,
    stream: Streaming<M>,
    shape: fn(Value) -> Value,
) -> Events {
    Box::pin(stream.map(move |event| match event {
        Ok(message) => written(name, &message).map(shape),
        Err(status) => Err(refused(&status)),
    }))
}

/// Which no a status is: by its reason, and only then by its code.
fn refused(status: &Status) -> CallError {
    let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
    let said = match words(status.message()) {
        said if said.is_empty() => format!("status {:?}", status.code()),
        said => said,
    };
    match (reason.as_str(), status.code()) {
        ("TASK_NOT_FOUND", _) | ("", GrpcCode::NotFound) => CallError::NotFound,
        ("UNSUPPORTED_OPERATION" | "TASK_NOT_CANCELABLE", _) => CallError::Unsupported(said),
        (_, GrpcCode::Unauthenticated | GrpcCode::PermissionDenied) => {
            CallError::Fault(RemoteFault::new(Code::Unauthorized, said))
        }
        (
            _,
            GrpcCode::Unavailable
            | GrpcCode::DeadlineExceeded
            | GrpcCode::ResourceExhausted
            | GrpcCode::Aborted
            | GrpcCode::Cancelled
            | GrpcCode::Internal
            | GrpcCode::Unknown,
        ) => CallError::Ill(said),
        (
            _,
            GrpcCode::Ok
            | GrpcCode::InvalidArgument
            | GrpcCode::NotFound
            | GrpcCode::AlreadyExists
            | GrpcCode::FailedPrecondition
            | GrpcCode::OutOfRange
            | GrpcCode::Unimplemented
            | GrpcCode::DataLoss,
        ) => CallError::Fault(RemoteFault::new(Code::Refused, said)),
    }
}
