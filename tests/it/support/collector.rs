//! A collector: it takes traces as OTLP has them, over HTTP or gRPC, and keeps the spans.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::sync::Notify;

/// Longer than any test takes that is going well.
const PATIENCE: Duration = Duration::from_secs(30);

/// A collector; it lives as long as its runtime.
#[derive(Debug, Clone)]
pub(crate) struct Collector {
    pub(crate) url: String,
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    spans: Mutex<Vec<Told>>,
    raw: Mutex<Vec<u8>>,
    came: Notify,
}

/// A span as a test reads it.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) span: Span,
    pub(crate) service: String,
    pub(crate) about: BTreeMap<String, String>,
}

impl Told {
    pub(crate) fn id(&self) -> String {
        hex(&self.span.span_id)
    }

    pub(crate) fn parent(&self) -> String {
        hex(&self.span.parent_span_id)
    }

    pub(crate) fn trace(&self) -> String {
        hex(&self.span.trace_id)
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat()
}

impl Collector {
    pub(crate) async fn start() -> Self {
        let inner: Arc<Inner> = Arc::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().route("/v1/traces", post(take)).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { url, inner }
    }

    /// The same over gRPC.
    pub(crate) async fn start_grpc() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let collector = Self { url, inner: Arc::default() };
        let service = TraceServiceServer::new(collector.clone());
        let served = tonic::transport::Server::builder()
            .add_service(service)
            .serve_with_incoming(tonic::transport::server::TcpIncoming::from(listener));
        tokio::spawn(async move { served.await.unwrap() });
        collector
    }

    /// Everything that has come so far.
    pub(crate) fn spans(&self) -> Vec<Told> {
        self.inner.spans.lock().unwrap().clone()
    }

    /// All bytes that have come so far.
    pub(crate) fn raw(&self) -> Vec<u8> {
        self.inner.raw.lock().unwrap().clone()
    }

    /// The first span of that name, once it has come.
    pub(crate) async fn named(&self, name: &str) -> Told {
        let looking = async {
            loop {
                let came = self.inner.came.notified();
                if let Some(told) = self.spans().into_iter().find(|told| told.span.name == name) {
                    return told;
                }
                came.await;
            }
        };
        let found = tokio::time::timeout(PATIENCE, looking).await;
        found.unwrap_or_else(|_| panic!("no span `{name}` among {:?}", names(&self.spans())))
    }
}

pub(crate) fn names(spans: &[Told]) -> Vec<String> {
    spans.iter().map(|told| told.span.name.clone()).collect()
}

async fn take(State(inner): State<Arc<Inner>>, body: Bytes) {
    inner.keep(ExportTraceServiceRequest::decode(body.clone()).unwrap(), &body);
}

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: tonic::Request<ExportTraceServiceRequest>,
    ) -> Result<tonic::Response<ExportTraceServiceResponse>, tonic::Status> {
        let request = request.into_inner();
        let body = request.encode_to_vec();
        self.inner.keep(request, &body);
        Ok(tonic::Response::new(ExportTraceServiceResponse::default()))
    }
}

impl Inner {
    fn keep(&self, request: ExportTraceServiceRequest, body: &[u8]) {
        self.raw.lock().unwrap().extend_from_slice(body);
        self.spans.lock().unwrap().extend(read(request));
        self.came.notify_waiters();
    }
}

fn read(request: ExportTraceServiceRequest) -> Vec<Told> {
    let mut told = Vec::new();
    let text = |value: Option<Value>| match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    };
    for resource in request.resource_spans {
        let about = resource.resource.unwrap().attributes;
        let service = about.into_iter().find(|it| it.key == "service.name").unwrap();
        let service = text(service.value.unwrap().value);
        for span in resource.scope_spans.into_iter().flat_map(|scope| scope.spans) {
            let about = span.attributes.iter().cloned();
            let about = about.map(|it| (it.key, text(it.value.and_then(|value| value.value))));
            let about = about.collect();
            told.push(Told { service: service.clone(), about, span });
        }
    }
    told
}
