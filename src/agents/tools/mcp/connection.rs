//! Connection: one MCP server that is being talked to. Kept between calls, checked before each, and
//! made anew when it is gone.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use http::{HeaderName, HeaderValue};
use rmcp::handler::client::ClientHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ClientConfig, Implementation,
    MetaObject, RequestMetaObject,
};
use rmcp::service::{NotificationContext, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::{
    StreamableHttpClientTransportConfig, StreamableHttpError,
};
use rmcp::{RoleClient, ServiceExt as _};
use serde_json::{Value, json};

use crate::agents::tools::mcp::Server;
use crate::agents::tools::mcp::oversize::Oversize;
use crate::agents::tools::mcp::post::Post;
use crate::agents::tools::mcp::stdio::{self, Bounded, LastWords};
use crate::agents::tools::web::Web;
use crate::agents::tools::{secret, timeout_ms};
use crate::kernel::{REPLY_BYTES_MAX, digest};
use crate::ports::{Clock, leave, trace};

/// A message is larger than the outcome in it: escapes, and the same again as structure.
const MESSAGE_BYTES_MAX: usize = 4 * REPLY_BYTES_MAX;
/// By this a server knows a call that it has seen before.
const KEY_META: &str = "holdpoint/idempotency-key";

/// Why a server gave nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Lost {
    #[error("the MCP server `{0}` cannot be reached: {1}")]
    Unreachable(String, String),
    #[error("the connection to the MCP server `{0}` was lost: {1}")]
    Died(String, String),
    #[error("the MCP server `{0}` gave no answer within {1} ms")]
    Timeout(String, u64),
    #[error("an answer of the MCP server `{server}` has more than {MESSAGE_BYTES_MAX} bytes")]
    TooLarge {
        server: String,
        /// Whether other calls were under way, so that it may have been the answer to them.
        is_shared: bool,
    },
    #[error("the MCP server `{0}` declined: {1}")]
    Declined(String, String),
    /// It knows nothing of the session: whatever was asked in it was not done.
    #[error("the MCP server `{0}` has ended the session")]
    Ended(String),
}

impl Lost {
    pub(super) fn code(&self) -> &'static str {
        match self {
            Self::Unreachable(..) | Self::Ended(_) => "tool.unreachable",
            Self::Died(..) => "tool.lost",
            Self::Timeout(..) => "tool.timeout",
            Self::TooLarge { .. } => "tool.too_large",
            Self::Declined(..) => "tool.declined",
        }
    }

    pub(super) fn may_have_happened(&self) -> bool {
        match self {
            Self::Unreachable(..) | Self::Declined(..) | Self::Ended(_) => false,
            Self::Died(..) | Self::Timeout(..) => true,
            Self::TooLarge { is_shared, .. } => *is_shared,
        }
    }
}

/// What a server says of a tool.
#[derive(Debug, Clone)]
pub(super) struct Known {
    pub(super) description: String,
    pub(super) input: Value,
    pub(super) output: Option<Value>,
    /// Of both schemas: by this a change is noticed.
    pub(super) digest: String,
}

/// All servers that were ever called, by the digest of where they are.
#[derive(Debug)]
pub(in crate::agents::tools) struct Servers {
    clock: Arc<dyn Clock>,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
}

type Slot = tokio::sync::Mutex<Option<Arc<Connection>>>;

impl Servers {
    pub(in crate::agents::tools) fn new(clock: Arc<dyn Clock>) -> Self {
        Self { clock, slots: Mutex::default() }
    }

    /// A connection that works, and knows its tools.
    pub(super) async fn ready(
        &self,
        place: &Value,
        server: &Server,
        web: &Web,
    ) -> Result<Arc<Connection>, Lost> {
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(digest::of(place)).or_default())
        };
        let mut kept = slot.lock().await;
        if let Some(connection) = kept.as_ref().filter(|connection| connection.is_open())
            && connection.refresh().await.is_ok()
        {
            return Ok(Arc::clone(connection));
        }
        *kept = None;
        let fresh = Arc::new(Connection::open(Arc::clone(&self.clock), server, web).await?);
        fresh.refresh().await?;
        *kept = Some(Arc::clone(&fresh));
        Ok(fresh)
    }

    /// The tools of a server, by name.
    pub(super) async fn known(
        &self,
        place: &Value,
        server: &Server,
        web: &Web,
    ) -> Result<BTreeMap<String, Known>, Lost> {
        let connection = self.ready(place, server, web).await?;
        let known = connection.known.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(known.clone())
    }
}

/// Hears when the tools of a server change.
#[derive(Debug, Clone)]
struct Listener {
    is_stale: Arc<AtomicBool>,
}

impl ClientHandler for Listener {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("holdpoint", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(rmcp::model::ClientCapabilities::default(), us)
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.is_stale.store(true, Ordering::Release);
    }
}

/// One server that is being talked to.
#[derive(Debug)]
pub(super) struct Connection {
    server: String,
    clock: Arc<dyn Clock>,
    timeout_ms: u64,
    service: RunningService<RoleClient, Listener>,
    /// Whether the tools must be asked for again before the next call.
    is_stale: Arc<AtomicBool>,
    known: Mutex<BTreeMap<String, Known>>,
    oversize: Arc<Oversize>,
    under_way: AtomicUsize,
    /// Whether the server knows nothing of it any more.
    has_ended: AtomicBool,
    last_words: LastWords,
    /// Killed when the connection goes.
    _child: Option<tokio::process::Child>,
}

impl Connection {
    async fn open(clock: Arc<dyn Clock>, server: &Server, web: &Web) -> Result<Self, Lost> {
        let unreachable = |why: String| Lost::Unreachable(server.name.clone(), why);
        let timeout_ms = timeout_ms(server.timeout.as_deref()).map_err(unreachable)?;
        let is_stale = Arc::new(AtomicBool::new(true));
        let oversize = Arc::new(Oversize::new(MESSAGE_BYTES_MAX));
        let listener = Listener { is_stale: Arc::clone(&is_stale) };
        let mut last_words = LastWords::default();
        let mut child = None;
        let opening = async {
            let Some(url) = &server.url else {
                let started = stdio::start(server)?;
                last_words = started.last_words;
                child = Some(started.child);
                let stdout = Bounded::new(started.stdout, Arc::clone(&oversize));
                let served = listener.serve((stdout, started.stdin)).await;
                return served.map_err(|error| error.to_string());
            };
            let transport = transport(server, url, web, &oversize)?;
            listener.serve(transport).await.map_err(|error| error.to_string())
        };
        let opened = tokio::select! {
            opened = opening => opened,
            () = clock.pause(timeout_ms) => {
                Err(format!("there was no answer within {timeout_ms} ms"))
            }
        };
        let service = opened.map_err(|why| unreachable(with_last_words(&why, &last_words)))?;
        let info = service.peer().peer_info();
        let said = info.as_ref().and_then(|info| info.server_info.as_ref());
        tracing::info!(
            server = server.name,
            name = said.map(|peer| peer.name.as_str()),
            version = said.map(|peer| peer.version.as_str()),
            "an MCP server is connected"
        );
        Ok(Self {
            server: server.name.clone(),
            clock,
            timeout_ms,
            service,
            is_stale,
            known: Mutex::default(),
            oversize,
            under_way: AtomicUsize::new(0),
            has_ended: AtomicBool::new(false),
            last_words,
            _child: child,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.oversize.is_raised()
            && !self.has_ended.load(Ordering::Acquire)
            && !self.service.is_closed()
            && !self.service.peer().is_transport_closed()
    }

    /// What the server says of a tool, as far as it is known.
    pub(super) fn said(&self, tool: &str) -> Option<Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).get(tool).cloned()
    }

    /// Asks for the tools, if they may have changed; also the proof that the server is alive.
    async fn refresh(&self) -> Result<(), Lost> {
        if !self.is_stale.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let listed = self.within(self.service.peer().list_all_tools()).await;
        let tools = listed.inspect_err(|_| self.is_stale.store(true, Ordering::Release));
        let tools = tools.map_err(|lost| match lost {
            // Nothing was called yet, whatever became of the list.
            Lost::Died(server, why) => Lost::Unreachable(server, why),
            Lost::Timeout(server, ms) => {
                Lost::Unreachable(server, format!("it did not list its tools within {ms} ms"))
            }
            known @ (Lost::Unreachable(..)
            | Lost::TooLarge { .. }
            | Lost::Declined(..)
            | Lost::Ended(_)) => known,
        })?;
        let known = tools.into_iter().map(|tool| {
            let input = Value::Object((*tool.input_schema).clone());
            let output = tool.output_schema.map(|schema| Value::Object((*schema).clone()));
            let digest = digest::of(&json!([input, output]));
            let description = tool.description.unwrap_or_default().into_owned();
            (tool.name.into_owned(), Known { description, input, output, digest })
        });
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known.collect();
        Ok(())
    }

    /// Calls a tool.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: &Value,
        key: &str,
    ) -> Result<CallToolResult, Lost> {
        let mut params = CallToolRequestParams::new(tool.to_owned());
        if let Value::Object(arguments) = arguments {
            params = params.with_arguments(arguments.clone());
        }
        let mut meta = MetaObject::default();
        meta.0.insert(KEY_META.into(), key.into());
        meta.0.extend(trace::carried().map(|(name, value)| (name.to_owned(), value.into())));
        params.meta = Some(RequestMetaObject(meta));
        let declined = |why: &str| Err(Lost::Declined(self.server.clone(), why.to_owned()));
        if !leave::still_holds().await {
            return declined(leave::LATE);
        }
        match self.within(self.service.peer().call_tool_once(params)).await? {
            CallToolResponse::Complete(result) => Ok(result),
            CallToolResponse::InputRequired(_) => declined("the tool asks for more input"),
            CallToolResponse::Task(_) => declined("the tool answers later, by a task"),
            _ => declined("the tool answers in a way that is not known here"),
        }
    }

    async fn within<T>(
        &self,
        asked: impl Future<Output = Result<T, ServiceError>> + Send,
    ) -> Result<T, Lost> {
        let oversized = self.oversize.raised();
        self.under_way.fetch_add(1, Ordering::AcqRel);
        let answered = tokio::select! {
            answered = asked => answered.map_err(|error| self.lost(&error)),
            () = oversized => Err(self.too_large()),
            () = self.clock.pause(self.timeout_ms) => {
                // It may hang for good: it is asked for its tools before it is called again.
                self.is_stale.store(true, Ordering::Release);
                Err(Lost::Timeout(self.server.clone(), self.timeout_ms))
            }
        };
        self.under_way.fetch_sub(1, Ordering::AcqRel);
        answered
    }

    fn too_large(&self) -> Lost {
        let is_shared = self.under_way.load(Ordering::Acquire) > 1;
        Lost::TooLarge { server: self.server.clone(), is_shared }
    }

    fn lost(&self, error: &ServiceError) -> Lost {
        let server = self.server.clone();
        if self.oversize.is_raised() {
            return self.too_large();
        }
        if let ServiceError::McpError(error) = error {
            return Lost::Declined(server, error.message.to_string());
        }
        self.is_stale.store(true, Ordering::Release);
        if let ServiceError::TransportSend(error) = error {
            if was_never_sent(&*error.error) {
                return Lost::Unreachable(server, deepest(&*error.error));
            }
            if has_ended(&*error.error) {
                self.has_ended.store(true, Ordering::Release);
                return Lost::Ended(server);
            }
        }
        Lost::Died(server, with_last_words(&error.to_string(), &self.last_words))
    }
}

/// Whether a server says that there is no such session.
fn has_ended(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let known = error.downcast_ref::<StreamableHttpError<reqwest::Error>>();
        if matches!(known, Some(StreamableHttpError::SessionExpired)) {
            return true;
        }
        next = error.source();
    }
    false
}

/// Whether a request did not even find a connection.
fn was_never_sent(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if error.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_connect) {
            return true;
        }
        next = error.source();
    }
    false
}

fn deepest(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
}

fn transport(
    server: &Server,
    url: &str,
    web: &Web,
    oversize: &Arc<Oversize>,
) -> Result<StreamableHttpClientTransport<Post>, String> {
    let parsed = url::Url::parse(url).map_err(|error| error.to_string())?;
    let client =
        web.client(&parsed, &server.allow_private).map_err(|trouble| trouble.to_string())?;
    let mut headers = HashMap::new();
    for (name, value) in &server.headers {
        let name = HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?;
        let filled = secret::fill(value)?;
        let mut value =
            HeaderValue::from_str(filled.reveal()).map_err(|error| error.to_string())?;
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    let config = StreamableHttpClientTransportConfig::with_uri(url)
        .custom_headers(headers)
        // It would call again by itself, on the word of a leave that may be no more.
        .reinit_on_expired_session(false)
        .max_sse_event_size(oversize.bytes_max);
    let post = Post { client: client.clone(), oversize: Arc::clone(oversize) };
    Ok(StreamableHttpClientTransport::with_client(post, config))
}

fn with_last_words(why: &str, last_words: &LastWords) -> String {
    let told = last_words.told();
    if told.is_empty() { why.to_owned() } else { format!("{why}; it said: {told}") }
}
