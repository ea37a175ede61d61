//! Http: one attempt of a reply over the network: connect, ask, listen, and try again while
//! nothing has been said. Each try is a request of its own with the whole conversation: none is begun
//! where a halt stands.
//!
//! Dropping the future closes the connection, which stops the model. All time is the clock's, but
//! for the dial, which the connector times.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Once, PoisonError};
use std::time::Duration;

use http::{HeaderMap, StatusCode, header};
use reqwest::{Body, Client, Response};

use crate::agents::last_look::{Guarded, LastLook};
use crate::agents::models::backoff;
use crate::agents::models::body::{self, ERROR_BYTES_MAX, WHOLE_BYTES_MAX};
use crate::agents::models::breaker::Breakers;
use crate::agents::models::dialect::Dialect;
use crate::agents::models::errors;
use crate::agents::models::fault::{Code, ModelFault};
use crate::agents::models::reader::Piece;
use crate::agents::models::reply_stream::{Ear, silent};
use crate::agents::models::secret::Secret;
use crate::agents::models::settings::Settings;
use crate::agents::trace;
use crate::kernel::{AgentInput, Reply};
use crate::ports::{Clock, leave};

/// Clients differ by their dial only; a server's workflows have one or two kinds.
const CLIENTS_MAX: usize = 64;

/// What is asked, and of whom.
pub(super) struct Asking<'a> {
    pub(super) dialect: Dialect,
    pub(super) settings: &'a Settings,
    pub(super) key: Option<&'a Secret>,
    pub(super) input: &'a AgentInput,
    /// The request, as JSON.
    pub(super) request: bytes::Bytes,
}

/// Connections to all servers.
#[derive(Debug)]
pub(super) struct Http {
    clock: Arc<dyn Clock>,
    clients: Mutex<HashMap<(u64, bool), Client>>,
    breakers: Breakers,
}

impl Http {
    /// No connections yet.
    pub(super) fn new(clock: Arc<dyn Clock>) -> Self {
        install_tls();
        Self { clock, clients: Mutex::default(), breakers: Breakers::default() }
    }

    /// One attempt of a reply.
    pub(super) async fn reply(
        &self,
        asking: &Asking<'_>,
        ear: &mut Ear<'_>,
    ) -> Result<Reply, ModelFault> {
        let total = self.after(asking.settings.total_ms);
        tokio::select! {
            outcome = Box::pin(self.tries(asking, ear)) => outcome,
            () = total => {
                let slow = "not done within `timeouts.total`";
                self.breakers.ill(asking.settings.base_url.as_str(), self.clock.now(), slow);
                Err(ModelFault::new(Code::TimeoutTotal, slow))
            }
        }
    }

    async fn tries(&self, asking: &Asking<'_>, ear: &mut Ear<'_>) -> Result<Reply, ModelFault> {
        let mut tried = 0;
        loop {
            let fault = match self.try_once(asking, ear).await {
                Ok(reply) => return Ok(reply),
                Err(fault) => fault,
            };
            let may_retry = fault.retriable
                && !matches!(fault.code, Code::CircuitOpen | Code::NotBegun)
                && !ear.has_spoken()
                && tried < asking.settings.retries;
            let chance = backoff::chance(&*self.clock);
            let pause = backoff::pause_ms(tried, fault.retry_after_ms, chance);
            let Some(pause) = pause.filter(|_| may_retry) else { return Err(fault) };
            // Where a halt stands there is nothing to wait for.
            may_ask().await?;
            tracing::debug!(code = fault.code.word(), pause, "model is asked again");
            self.after(pause).await;
            tried += 1;
            ear.begin_again();
        }
    }

    async fn try_once(&self, asking: &Asking<'_>, ear: &mut Ear<'_>) -> Result<Reply, ModelFault> {
        may_ask().await?;
        let address = asking.settings.base_url.as_str();
        let passage = self.breakers.enter(address, self.clock.now()).map_err(|(left_ms, why)| {
            let seconds = left_ms.div_ceil(1_000);
            let message = format!(
                "its server failed too often and is left alone for {seconds} s more; last: {why}"
            );
            ModelFault::new(Code::CircuitOpen, message)
        })?;
        // Masked before anybody keeps it: the circuit tells it to others.
        let outcome = self.ask(asking, ear).await.map_err(|mut fault| {
            if let Some(key) = asking.key {
                fault.message = key.masked(&fault.message);
            }
            fault
        });
        match &outcome {
            Err(fault) if fault.code.is_illness() => {
                passage.ill(self.clock.now(), &fault.message);
            }
            // Nobody was asked, and nothing learnt.
            Err(ModelFault { code: Code::NotBegun, .. }) => drop(passage),
            Ok(_) | Err(_) => passage.well(),
        }
        outcome
    }

    async fn ask(&self, asking: &Asking<'_>, ear: &mut Ear<'_>) -> Result<Reply, ModelFault> {
        let mut patience = std::pin::pin!(self.after(asking.settings.first_token_ms));
        let sending = self.send(asking);
        let response = tokio::select! {
            response = sending => response?,
            () = &mut patience => return Err(silent()),
        };
        if response.status() != StatusCode::OK {
            return Err(self.no(response, patience).await);
        }
        let reader = asking.dialect.reader(asking.input);
        if !is_stream(response.headers())? {
            let whole = async { body::whole(response, WHOLE_BYTES_MAX).await.map(Piece::Whole) };
            return ear.listen(reader, futures::stream::once(whole), patience).await;
        }
        ear.listen(reader, body::pieces(response), patience).await
    }

    async fn send(&self, asking: &Asking<'_>) -> Result<Response, ModelFault> {
        let settings = asking.settings;
        let headers = asking.dialect.headers(asking.key).ok_or_else(|| {
            let message = "the key in the environment has characters that no header can carry";
            ModelFault::new(Code::KeyMissing, message)
        })?;
        let request = self
            .client(settings)?
            .post(settings.url(asking.dialect.path()))
            .headers(settings.headers.iter().cloned().collect())
            .headers(headers)
            .headers(trace::headers())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, "text/event-stream, application/json")
            .body(Body::wrap(Guarded::to_begin(asking.request.clone())));
        // A name that is looked up, and a handshake, take their time: leave is asked once more after them.
        leave::within(leave::to_begin(), request.send()).await.map_err(|error| {
            if error.is_connect() && error.is_timeout() {
                let message = "no connection within `timeouts.connect`";
                return ModelFault::new(Code::TimeoutConnect, message);
            }
            let cause = body::cause(&error);
            if cause == leave::LATE {
                return ModelFault::new(Code::NotBegun, leave::LATE);
            }
            let message = format!("its server at `base_url` does not answer: {cause}");
            ModelFault::new(Code::Unreachable, message)
        })
    }

    /// What a server's no means.
    async fn no(&self, response: Response, patience: impl Future<Output = ()>) -> ModelFault {
        let status = response.status();
        let wish_ms = backoff::wish_ms(response.headers(), self.clock.now());
        let body = tokio::select! {
            body = body::whole(response, ERROR_BYTES_MAX) => body.unwrap_or_default(),
            () = patience => String::new(),
        };
        let mut fault = errors::of_status(status, &body);
        fault.retry_after_ms = wish_ms.filter(|_| fault.retriable);
        fault
    }

    /// The client for these settings: one for every length of dial, for connections are pooled.
    fn client(&self, settings: &Settings) -> Result<Client, ModelFault> {
        let is_tls = settings.base_url.scheme() == "https";
        let kind = (settings.connect_ms, is_tls);
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get(&kind) {
            return Ok(client.clone());
        }
        let mut builder = Client::builder()
            .user_agent(concat!("holdpoint/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(Duration::from_millis(settings.connect_ms))
            // A redirect would carry the key to wherever the server points.
            .redirect(reqwest::redirect::Policy::none())
            .connector_layer(LastLook)
            .tcp_nodelay(true);
        if !is_tls {
            // A machine without certificates can still speak to the server beside it.
            builder = builder.tls_certs_only([]);
        }
        let client = builder.build().map_err(|error| {
            let message = format!("TLS cannot be set up: {}", body::cause(&error));
            ModelFault::new(Code::Settings, message)
        })?;
        if clients.len() < CLIENTS_MAX {
            clients.insert(kind, client.clone());
        }
        Ok(client)
    }

    /// Returns after `ms`.
    async fn after(&self, ms: u64) {
        self.clock.pause(ms).await;
    }
}

/// Whether the model may be asked now: somebody may have halted it since it was asked last.
async fn may_ask() -> Result<(), ModelFault> {
    if leave::may_begin().await {
        return Ok(());
    }
    Err(ModelFault::new(Code::NotBegun, leave::LATE))
}

/// Whether the reply comes as a stream of events; whatever else it is must be JSON.
fn is_stream(headers: &HeaderMap) -> Result<bool, ModelFault> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or("text/event-stream").to_ascii_lowercase();
    if kind.contains("html") {
        let message = "the server sent a web page; does `base_url` point at the API?";
        return Err(ModelFault::new(Code::BadJson, message).for_good());
    }
    Ok(!kind.contains("json"))
}

/// TLS by ring, for the whole process; whoever else asks for it gets the same.
fn install_tls() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if rustls::crypto::ring::default_provider().install_default().is_err() {
            tracing::debug!("TLS was set up before");
        }
    });
}
