//! Server: connections on one port, gRPC and HTTP alike, and how they end.
//!
//! Knows bytes and connections, nothing of runs. Our own accept loop rather than a framework's,
//! because keep-alive, stream limits and the drain must be ours to set.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tonic::server::NamedService;
use tonic::service::Routes;

use crate::api::a2a::{self, A2a, A2aService};
use crate::api::bridge::{self, Bridge};
use crate::api::envelope::EnvelopeLayer;
use crate::api::grpc::{self, Draw};
use crate::api::{Doorkeeper, MESSAGE_BYTES_MAX, host, pages};
use crate::app::AppError;
use crate::app::crowd::Crowd;
use crate::app::dispatch::Front;
use crate::app::gate::Gate;
use crate::app::slow_reader::Patient;
use crate::app::write_coalescing::Together;
use crate::engine::Engine;
use crate::wire::DESCRIPTORS;
use crate::wire::lf::a2a_service_server::A2aServiceServer;
use crate::wire::v1::orchestrator_server::OrchestratorServer;

/// Streams of one connection; a client with more work opens another.
const STREAMS_MAX: u32 = 1_024;
/// What a caller may send on one stream before it is read: nearly every request, whole. Fixed,
/// because a window that adapts costs a ping for every few calls.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
/// The same for all streams of a connection: one large request leaves room for others.
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// How long a peer may leave unread what it asked for; one that comes back says where it was.
const WRITE_PATIENCE: Duration = Duration::from_mins(1);
/// Connections at once: each costs a task and its buffers.
pub(super) const CONNECTIONS_MAX: usize = 10_000;

/// What peers are held to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    /// How long a peer may be silent that owes something: its first words, the rest of a head or of a body,
    /// the answer to a ping.
    pub(super) silence: Duration,
    /// Connections of one address.
    pub(super) share: usize,
}

fn name_of<T: NamedService>(_: &T) -> &'static str {
    T::NAME
}

/// All doors to an engine.
pub(super) async fn doors(
    engine: &Engine,
    doorkeeper: Arc<dyn Doorkeeper>,
    draw: Draw,
    render: pages::Render,
    (a2a, bridge): (a2a::Settings, bridge::Settings),
) -> Result<Front, AppError> {
    let silence = bridge.silence;
    let guard = host::Guard::new(Arc::clone(&doorkeeper), a2a.public_url.as_deref());
    let a2a = A2a::new(engine.clone(), Arc::clone(&doorkeeper), a2a);
    let bridge = Bridge::new(engine.clone(), Arc::clone(&doorkeeper), draw, bridge);
    let agent = a2a.service().max_decoding_message_size(MESSAGE_BYTES_MAX);
    let older = a2a.older_service();
    let older = older.map(|older| older.max_decoding_message_size(MESSAGE_BYTES_MAX));
    let pages_keeper = Arc::clone(&doorkeeper);
    let service = grpc::Service::new(engine.clone(), doorkeeper, draw);
    let orchestrator = OrchestratorServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(usize::MAX);
    let (health_reporter, health) = tonic_health::server::health_reporter();
    health_reporter.set_serving::<OrchestratorServer<grpc::Service>>().await;
    health_reporter.set_serving::<A2aServiceServer<A2aService>>().await;
    let mut served = vec![
        OrchestratorServer::<grpc::Service>::NAME,
        A2aServiceServer::<A2aService>::NAME,
        tonic_health::pb::health_server::SERVICE_NAME,
    ];
    served.extend(older.as_ref().map(name_of));
    let reflection = || {
        let builder = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET);
        // What is not served is not listed.
        served.iter().fold(builder, |builder, name| builder.with_service_name(*name))
    };
    let v1 = reflection().build_v1().map_err(|error| AppError::Internal(error.to_string()))?;
    let v1alpha =
        reflection().build_v1alpha().map_err(|error| AppError::Internal(error.to_string()))?;
    let orchestrator = tower::Layer::layer(&EnvelopeLayer, orchestrator);
    let mut routes = Routes::new(tower::Layer::layer(&EnvelopeLayer, agent))
        .add_service(health)
        .add_service(v1)
        .add_service(v1alpha);
    if let Some(older) = older {
        routes = routes.add_service(tower::Layer::layer(&EnvelopeLayer, older));
    }
    let pages = pages::router(engine.clone(), pages_keeper, render);
    let doors = routes
        .into_axum_router()
        .merge(pages)
        .merge(a2a.router())
        .merge(bridge.router())
        .fallback(pages::nothing);
    let engine = engine.clone();
    Ok(Front { guard, orchestrator, doors, silence, engine, seat: None, peer: None })
}

/// Takes connections until `shutdown`, then lets those that are open finish.
pub(super) async fn serve(
    listener: TcpListener,
    gate: &Arc<Gate>,
    shutdown: impl Future<Output = ()> + Send,
    drain: impl Future<Output = ()> + Send,
    (patience, bounds): (Duration, Bounds),
) {
    let connections = Connections::default();
    let crowd = Crowd::new(CONNECTIONS_MAX, bounds.share);
    let mut shutdown = std::pin::pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, from)) = accepted else {
            // Out of file descriptors, most likely: give others a moment to close theirs.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let Some(place) = crowd.place(from.ip()) else {
            let share = bounds.share;
            tracing::warn!(most = CONNECTIONS_MAX, share, %from, "too many connections; one was closed");
            continue;
        };
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "connection without TCP_NODELAY");
        }
        let stream = Patient::opened(stream, WRITE_PATIENCE, bounds.silence);
        let door = gate.door(Arc::clone(&place.seat), from.ip());
        let connection = connections.connection(Together::new(stream), door, bounds.silence);
        tokio::spawn(async move {
            tokio::select! {
                () = connection => {}
                () = place.seat.has_to_go() => {}
            }
        });
    }
    drop(listener);
    drain.await;
    if tokio::time::timeout(patience, connections.graceful.shutdown()).await.is_err() {
        tracing::warn!("connections were still open at the end of the drain");
    }
}

/// The open connections.
#[derive(Default)]
pub(super) struct Connections {
    graceful: GracefulShutdown,
}

impl std::fmt::Debug for Connections {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connections").finish_non_exhaustive()
    }
}

impl Connections {
    /// Serves one connection, whatever carries it.
    pub(super) fn connection<S, D>(
        &self,
        stream: S,
        door: D,
        silence: Duration,
    ) -> impl Future<Output = ()> + Send + use<S, D>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
        D: Service<Request<Incoming>, Response = Response<Body>, Error = Infallible>,
        D: Send + 'static,
        D::Future: Send + 'static,
    {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(silence);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            // Half of it until a ping, half of it for the answer.
            .keep_alive_interval(silence / 2)
            .keep_alive_timeout(silence / 2)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
        let watcher = self.graceful.watcher();
        async move {
            let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), door);
            if let Err(error) = watcher.watch(connection.into_owned()).await {
                tracing::debug!(error, "connection ended");
            }
        }
    }
}
