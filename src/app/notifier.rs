//! Notifier: carries what happens in runs to webhooks: the operator's, signed, and those that A2A's
//! callers set up for their tasks.

use std::sync::{Arc, OnceLock};

use async_trait::async_trait;

use crate::agents::HttpPoster;
use crate::api::{a2a, webhook};
use crate::app::{AppError, Config, SystemClock};
use crate::engine::Reach;
use crate::kernel::{Event, Millis};
use crate::ports::{Clock, Delivery, Notifier, Undelivered};

/// The channel of the operator's webhook.
const WEBHOOK: &str = "webhook";

/// Carries events by HTTP.
#[derive(Debug)]
pub(super) struct Post {
    postman: HttpPoster,
    operator: Operator,
    channels: Vec<String>,
    /// By which deliveries are signed; said once it is known.
    clock: OnceLock<Arc<dyn Clock>>,
}

/// Who listens for the operator, as far as this process can speak to them.
#[derive(Debug)]
enum Operator {
    /// Nobody.
    Nobody,
    /// Somebody, and there is nothing here to sign with: what they are owed is kept for a server to carry.
    Owed,
    /// Somebody who is told here.
    Told(Webhook),
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
    /// address of a listener that checks no signature can tell it anything (M8). A server does not start without it. A
    /// command has the server's settings and need not have its secrets, and nobody is kept from the brake by one: it carries
    /// nothing, and what it owes waits in the outbox.
    pub(super) fn new(config: &Config, reach: Reach) -> Result<Self, AppError> {
        let secret = config.webhook_secret.as_deref().filter(|secret| !secret.trim().is_empty());
        let operator = match (&config.webhook_url, secret, reach) {
            (None, _, _) => Operator::Nobody,
            (Some(_), None, Reach::Everything) => return Err(AppError::NoWebhookSecret),
            (Some(_), None, Reach::Own | Reach::Nothing) => Operator::Owed,
            (Some(url), Some(secret), _) => {
                Operator::Told(Webhook { url: url.clone(), secret: secret.as_bytes().to_vec() })
            }
        };
        let channels = match operator {
            Operator::Nobody => Vec::new(),
            Operator::Owed | Operator::Told(_) => vec![WEBHOOK.to_owned()],
        };
        let clock = OnceLock::new();
        Ok(Self { postman: HttpPoster::new(&config.push_allow), operator, channels, clock })
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
    fn carries(&self, channel: &str, _workflow: &str, event: &Event) -> bool {
        if channel == WEBHOOK { webhook::carries(event) } else { a2a::notify::carries(event) }
    }

    fn channels(&self) -> &[String] {
        &self.channels
    }

    fn reaches(&self, channel: &str) -> bool {
        channel != WEBHOOK || !matches!(self.operator, Operator::Owed)
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
        let webhook = match &self.operator {
            Operator::Told(webhook) => webhook,
            // A webhook that is no longer set up is owed nothing.
            Operator::Nobody => return Ok(()),
            // Never without a signature, and never as if it had been told.
            Operator::Owed => {
                let problem = "there is nothing here to sign it with".to_owned();
                return Err(Undelivered { problem, is_final: false });
            }
        };
        let body = webhook::body(one.run, one.version, one.at, one.event).to_string().into_bytes();
        let id = one.run.id.event(one.version);
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(webhook::signed(&webhook.secret, &id, self.now(), &body));
        self.postman.post(&webhook.url, &headers, body, true).await
    }

    async fn publish(&self, note: &str, leaves: u64, at: Millis) -> Result<(), Undelivered> {
        // Where there is nothing to sign it with, a server hands over the next one.
        let Operator::Told(webhook) = &self.operator else { return Ok(()) };
        let (id, body) = webhook::head(note, leaves, at);
        let body = body.to_string().into_bytes();
        let mut headers = vec![("content-type", "application/json".to_owned())];
        headers.extend(webhook::signed(&webhook.secret, &id, self.now(), &body));
        self.postman.post(&webhook.url, &headers, body, true).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::config::Settings;

    fn post(secret: Option<&str>, reach: Reach) -> Result<Post, AppError> {
        let flags = Settings {
            webhook_url: Some("http://127.0.0.1:9/hook".into()),
            webhook_secret: secret.map(str::to_owned),
            ..Settings::default()
        };
        Post::new(&Config::resolve(&flags, &|_| None, None).unwrap(), reach)
    }

    #[test]
    fn only_a_server_needs_the_secret_of_a_webhook_and_without_it_nothing_is_carried() {
        for secret in [None, Some("  ")] {
            let refused = post(secret, Reach::Everything);
            assert!(matches!(refused, Err(AppError::NoWebhookSecret)), "{refused:?}");
            for reach in [Reach::Own, Reach::Nothing] {
                let owing = post(secret, reach).unwrap();
                assert_eq!(owing.channels(), [WEBHOOK], "what is owed is written down");
                assert!(!owing.reaches(WEBHOOK) && owing.reaches("push:a"), "{reach:?}");
            }
        }
        for reach in [Reach::Everything, Reach::Own, Reach::Nothing] {
            let telling = post(Some("s3cret"), reach).unwrap();
            assert!(telling.reaches(WEBHOOK), "{reach:?}");
        }
    }
}
