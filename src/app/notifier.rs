//! Notifier: carries what happens in runs to webhooks: the operator's, signed, and those that A2A's
//! callers set up for their tasks.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use crate::agents::HttpPoster;
use crate::api::{a2a, webhook};
use crate::app::{AppError, Config, SystemClock};
use crate::kernel::{Event, Millis};
use crate::ports::{Clock, Delivery, Notifier, Undelivered};

/// The lane of the operator's webhook.
const WEBHOOK: &str = "webhook";

/// Carries events by HTTP.
#[derive(Debug)]
pub(super) struct Post {
    postman: HttpPoster,
    webhook: Option<Webhook>,
    lanes: Vec<String>,
    /// By which deliveries are signed; said once it is known.
    clock: OnceLock<Arc<dyn Clock>>,
}

/// The operator's own listener.
struct Webhook {
    url: String,
    secret: Vec<u8>,
}

impl std::fmt::Debug for Webhook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Neither its address nor its secret belongs into a log.
        f.write_str("Webhook(…)")
    }
}

impl Post {
    /// A notifier for what the operator has set up. A webhook must have a secret: whoever guesses the
    /// address of a listener that checks no signature can tell it anything (M8).
    pub(super) fn new(config: &Config) -> Result<Self, AppError> {
        let secret = config.webhook_secret.as_deref().filter(|secret| !secret.trim().is_empty());
        let webhook = match (&config.webhook_url, secret) {
            (None, _) => None,
            (Some(_), None) => return Err(AppError::NoWebhookSecret),
            (Some(url), Some(secret)) => {
                Some(Webhook { url: url.clone(), secret: secret.as_bytes().to_vec() })
            }
        };
        let lanes = webhook.iter().map(|_| WEBHOOK.to_owned()).collect();
        let clock = OnceLock::new();
        Ok(Self { postman: HttpPoster::new(&config.push_allow), webhook, lanes, clock })
    }

    /// Signs by this clock; to be said before anything is carried.
    pub(super) fn goes_by(&self, clock: &Arc<dyn Clock>) {
        self.clock.get_or_init(|| Arc::clone(clock));
    }

    fn now(&self) -> Millis {
        self.clock.get().map_or_else(|| SystemClock.now(), |clock| clock.now())
    }
}

#[async_trait]
impl Notifier for Post {
    fn carries(&self, lane: &str, _workflow: &str, event: &Event) -> bool {
        if lane == WEBHOOK { webhook::carries(event) } else { a2a::notify::carries(event) }
    }

    fn lanes(&self) -> &[String] {
        &self.lanes
    }

    fn check(&self, url: &str) -> Result<(), String> {
        self.postman.check(url).map_err(|why| format!("{why}; `push_allow` names what is allowed"))
    }

    async fn carry(&self, one: Delivery<'_>) -> Result<(), Undelivered> {
        if let Some(row) = one.hook {
            let body = a2a::notify::body(&row.hook, one.run, one.event).to_string().into_bytes();
            let headers = a2a::notify::headers(&row.hook);
            return self.postman.post(&row.hook.url, &headers, body, false).await;
        }
        // A webhook that is no longer set up is owed nothing.
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let body = webhook::body(one.run, one.version, one.at, one.event).to_string().into_bytes();
        let id = one.run.id.event(one.version);
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(webhook::signed(&webhook.secret, &id, self.now(), &body));
        self.postman.post(&webhook.url, &headers, body, true).await
    }

    async fn publish(&self, note: &str, leaves: u64, at: Millis) -> Result<(), Undelivered> {
        let Some(webhook) = &self.webhook else { return Ok(()) };
        let (id, body) = webhook::head(note, leaves, at);
        let body = body.to_string().into_bytes();
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(webhook::signed(&webhook.secret, &id, self.now(), &body));
        self.postman.post(&webhook.url, &headers, body, true).await
    }
}
