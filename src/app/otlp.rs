//! OTLP: where traces go: to a collector, as the standard `OTEL_*` variables say. Without them nothing
//! is gathered. A collector that is slow or gone costs traces, never a run.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use http::{Request, Response};
use opentelemetry::trace::{
    Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::WithHttpConfig as _;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    BatchSpanProcessor, SpanData, SpanEvents, SpanExporter, SpanLinks, SpanProcessor,
};

use crate::app::AppError;
use crate::kernel::{Millis, Trace};
use crate::ports::trace::{Attribute, Span, Tracer};

/// The variables by which sending is switched on; the first goes before the second.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];
const PROTOCOLS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"];
const TIMEOUTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT"];
/// What the specification says where nobody does.
const TIMEOUT_MS_DEFAULT: u64 = 10_000;
/// A collector answers with a word or two; more is nothing that we read.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// How long the end of a process may wait for a collector.
const CLOSE_PATIENCE: Duration = Duration::from_secs(2);

/// Sends what is traced, in batches, from a thread of its own.
#[derive(Debug)]
pub(super) struct Traces {
    processor: BatchSpanProcessor,
    scope: InstrumentationScope,
}

/// What the environment says of traces: nothing, unless it names a collector.
pub(super) fn from_environment() -> Result<Option<Traces>, AppError> {
    let is_off = set("OTEL_SDK_DISABLED").is_some_and(|it| it.eq_ignore_ascii_case("true"))
        || set("OTEL_TRACES_EXPORTER").is_some_and(|it| it == "none");
    let endpoint = ENDPOINTS.into_iter().find_map(|name| Some((name, set(name)?)));
    let Some((variable, endpoint)) = endpoint.filter(|_| !is_off) else { return Ok(None) };
    let wrong = |why: &str| AppError::Traces { variable, why: why.to_owned() };
    let url = url::Url::parse(&endpoint).ok().filter(url::Url::has_host);
    let url = url.ok_or_else(|| wrong("expected a collector's address: `http://host:4318`"))?;
    let protocol = PROTOCOLS.into_iter().find_map(|name| Some((name, set(name)?)));
    let processor = match protocol.as_ref().map(|(name, word)| (*name, word.as_str())) {
        None | Some((_, "http/protobuf")) => {
            let exporter = opentelemetry_otlp::SpanExporter::builder().with_http();
            let exporter = exporter.with_http_client(Posting::new(url.scheme() == "https")?);
            processor(exporter.build().map_err(|error| wrong(&error.to_string()))?)
        }
        #[cfg(feature = "otlp-grpc")]
        Some((_, "grpc")) if url.scheme() == "http" => {
            let exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic();
            processor(exporter.build().map_err(|error| wrong(&error.to_string()))?)
        }
        Some((variable, "grpc")) => {
            let why = if cfg!(feature = "otlp-grpc") {
                "`grpc` is spoken without TLS only; use `http/protobuf` for an `https` address"
            } else {
                "this build speaks `http/protobuf` alone; use that, or build with `--features otlp-grpc`"
            };
            return Err(AppError::Traces { variable, why: why.into() });
        }
        Some((variable, other)) => {
            let why = format!("there is no protocol `{other}`; there is: http/protobuf, grpc");
            return Err(AppError::Traces { variable, why });
        }
    };
    tracing::info!(collector = url.host_str().unwrap_or_default(), "traces are sent");
    let scope =
        InstrumentationScope::builder("holdpoint").with_version(env!("CARGO_PKG_VERSION")).build();
    Ok(Some(Traces { processor, scope }))
}

fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|it| !it.is_empty())
}

fn processor(exporter: impl SpanExporter + 'static) -> BatchSpanProcessor {
    let watched = Watched { exporter, is_failing: AtomicBool::new(false) };
    let mut processor = BatchSpanProcessor::builder(watched).build();
    let is_named = set("OTEL_SERVICE_NAME").is_some()
        || set("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|it| it.contains("service.name="));
    let resource = Resource::builder();
    let resource = if is_named { resource } else { resource.with_service_name("holdpoint") };
    let resource = resource
        .with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")))
        .build();
    processor.set_resource(&resource);
    processor
}

impl Traces {
    /// Sends what is left, for a moment.
    pub(super) async fn close(self: std::sync::Arc<Self>) {
        let closing = tokio::task::spawn_blocking(move || {
            self.processor.shutdown_with_timeout(CLOSE_PATIENCE).is_ok()
        });
        if !closing.await.unwrap_or(false) {
            tracing::warn!("the last traces could not be sent");
        }
    }
}

impl Tracer for Traces {
    fn take(&self, span: Span) {
        self.processor.on_end(data(span, self.scope.clone()));
    }
}

fn data(span: Span, scope: InstrumentationScope) -> SpanData {
    let state = span.state.parse().unwrap_or(TraceState::NONE);
    let id = SpanId::from_bytes(span.id);
    let trace = TraceId::from_bytes(span.trace);
    let mut events = SpanEvents::default();
    events.events = span
        .events
        .into_iter()
        .map(|it| Event::new(it.name, time(it.at), attributes(it.attributes), 0))
        .collect();
    let mut links = SpanLinks::default();
    links.links = span.link.as_ref().and_then(linked).into_iter().collect();
    let mut known = attributes(span.attributes);
    if let Some(code) = &span.error {
        known.push(KeyValue::new("error.type", code.clone()));
    }
    SpanData {
        span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, state),
        parent_span_id: span.parent.map_or(SpanId::INVALID, SpanId::from_bytes),
        parent_span_is_remote: span.parent_is_remote,
        span_kind: if span.is_call { SpanKind::Client } else { SpanKind::Internal },
        name: span.name.into(),
        start_time: time(span.began),
        end_time: time(span.ended),
        attributes: known,
        dropped_attributes_count: 0,
        events,
        links,
        status: span.error.map_or(Status::Unset, Status::error),
        instrumentation_scope: scope,
    }
}

fn linked(trace: &Trace) -> Option<Link> {
    let flags = if trace.is_sampled() { TraceFlags::SAMPLED } else { TraceFlags::NOT_SAMPLED };
    let context = SpanContext::new(
        TraceId::from_hex(trace.trace_id()).ok()?,
        SpanId::from_hex(trace.span_id()).ok()?,
        flags,
        true,
        trace.state.parse().unwrap_or(TraceState::NONE),
    );
    Some(Link::new(context, Vec::new(), 0))
}

fn attributes(known: Vec<(&'static str, Attribute)>) -> Vec<KeyValue> {
    let of = |(name, value)| match value {
        Attribute::Text(text) => KeyValue::new(name, text),
        Attribute::Number(number) => KeyValue::new(name, i64::try_from(number).unwrap_or(i64::MAX)),
    };
    known.into_iter().map(of).collect()
}

fn time(at: Millis) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(at.0)
}

/// Says once that a collector is gone, and once that it is back.
#[derive(Debug)]
struct Watched<E> {
    exporter: E,
    is_failing: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let outcome = self.exporter.export(batch).await;
        let was_failing = self.is_failing.swap(outcome.is_err(), Ordering::AcqRel);
        match &outcome {
            Ok(()) if was_failing => tracing::info!("traces are sent again"),
            Ok(()) => {}
            Err(error) => {
                metrics::counter!("holdpoint_spans_lost_total").increment(spans);
                if !was_failing {
                    tracing::warn!(%error, "traces cannot be sent and are dropped");
                }
            }
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// Posts by our own client, on our own runtime: the thread that sends has none.
#[derive(Debug)]
struct Posting {
    client: reqwest::Client,
    runtime: tokio::runtime::Handle,
}

impl Posting {
    fn new(is_tls: bool) -> Result<Self, AppError> {
        // A client wants to know how TLS is done, also where it does none.
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("TLS was set up before");
        }
        let timeout = TIMEOUTS.into_iter().find_map(|name| set(name)?.parse().ok());
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
            .timeout(Duration::from_millis(timeout.unwrap_or(TIMEOUT_MS_DEFAULT)))
            // A redirect would carry the collector's key to wherever it points.
            .redirect(reqwest::redirect::Policy::none());
        if !is_tls {
            // A machine without certificates can still speak to the collector beside it.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| AppError::Traces {
            variable: ENDPOINTS[1],
            why: format!("TLS cannot be set up: {error}"),
        })?;
        Ok(Self { client, runtime: tokio::runtime::Handle::current() })
    }
}

#[async_trait]
impl HttpClient for Posting {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let request = reqwest::Request::try_from(request)?;
        let client = self.client.clone();
        let sent = self.runtime.spawn(async move {
            let mut response = client.execute(request).await?;
            let mut body = BytesMut::new();
            while let Some(chunk) = response.chunk().await? {
                if body.len() + chunk.len() > ANSWER_BYTES_MAX {
                    break;
                }
                body.extend_from_slice(&chunk);
            }
            let mut answer = Response::new(body.freeze());
            *answer.status_mut() = response.status();
            *answer.headers_mut() = response.headers().clone();
            Ok::<_, reqwest::Error>(answer)
        });
        Ok(sent.await??)
    }
}
