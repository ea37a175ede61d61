//! Settings: how a workflow file points at a remote agent, read and checked. No key is in here,
//! only the name of the variable that holds it.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use crate::agents::a2a::fault::{Code, RemoteFault};
use crate::agents::settings;
use crate::agents::tools::guard::AllowPrivate;

/// Where a server keeps the card of its agent, where the file names only the server.
const CARD_PATH: &str = "/.well-known/agent-card.json";
/// An agent that works this long without a word of rest hangs; while it asks, no clock runs.
const TOTAL_MS_DEFAULT: u64 = 3_600_000;
/// A server that is being moved is back by then.
const CONTACT_MS_DEFAULT: u64 = 300_000;
/// Longer than a week is no bound.
const TIMEOUT_MAX: (u64, &str) = (604_800_000, "a week");
/// Headers that belong to the protocol.
const HEADERS_OURS: [&str; 4] = ["accept", "a2a-version", "a2a-extensions", "idempotency-key"];

pub(super) use crate::agents::settings::Wrong;

/// How a remote agent is found and waited for.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// Its card.
    pub(super) card: Url,
    /// The variable that holds the key; none if the agent wants none.
    pub(super) key_env: Option<String>,
    /// Addresses beyond the public internet that are allowed.
    pub(super) allow: AllowPrivate,
    /// How long it may work without coming to rest.
    pub(super) total_ms: u64,
    /// How long it may be out of reach.
    pub(super) contact_ms: u64,
    /// Headers of one's own.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default)]
    card: String,
    key_env: Option<String>,
    #[serde(default)]
    allow_private: AllowPrivate,
    #[serde(default)]
    timeouts: GivenTimeouts,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenTimeouts {
    total: Option<String>,
    contact: Option<String>,
}

impl Settings {
    /// Reads the settings of a model with `provider: a2a`.
    pub(super) fn read(written: &Value) -> Result<Self, Wrong> {
        let given = Given::deserialize(written)
            .map_err(|error| (String::new(), format!("the settings of `a2a`: {error}")))?;
        let ms = |name: &str, text: Option<&str>, default| {
            settings::timeout(name, text, default, TIMEOUT_MAX)
        };
        Ok(Self {
            card: card(&given.card)?,
            key_env: given.key_env.as_deref().map_or(Ok(None), settings::key_env)?,
            allow: given.allow_private,
            total_ms: ms("total", given.timeouts.total.as_deref(), TOTAL_MS_DEFAULT)?,
            contact_ms: ms("contact", given.timeouts.contact.as_deref(), CONTACT_MS_DEFAULT)?,
            headers: settings::headers(&given.headers, &HEADERS_OURS)?,
        })
    }

    /// The same, for a run whose definition may be older than this server.
    pub(super) fn of(settings: &Value) -> Result<Self, RemoteFault> {
        Self::read(settings).map_err(|(at, remedy)| {
            RemoteFault::new(Code::Settings, format!("its settings at `{at}`: {remedy}"))
        })
    }
}

fn card(text: &str) -> Result<Url, Wrong> {
    let wrong = |remedy: &str| ("/card".to_owned(), remedy.to_owned());
    if text.trim().is_empty() {
        return Err((String::new(), "an a2a agent needs `card`: where its card is".into()));
    }
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let mut url = url
        .filter(Url::has_host)
        .ok_or_else(|| wrong("expected the address of a card: `https://host/agent-card.json`"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong("an address has no key in it; name its variable in `key_env`"));
    }
    let is_card = url.path().rsplit('/').next().is_some_and(|last| last.contains(".json"));
    if !is_card {
        let path = format!("{}{CARD_PATH}", url.path().trim_end_matches('/'));
        url.set_path(&path);
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_server_or_a_card_is_all_that_is_needed() {
        for (given, card) in [
            ("http://host:1", "http://host:1/.well-known/agent-card.json"),
            ("https://host/a2a/desk/", "https://host/a2a/desk/.well-known/agent-card.json"),
            ("https://host/cards/desk.json", "https://host/cards/desk.json"),
        ] {
            let settings = Settings::read(&json!({"card": given})).unwrap();
            assert_eq!(settings.card.as_str(), card);
            assert_eq!(settings.total_ms, TOTAL_MS_DEFAULT);
        }
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_place() {
        for (field, value, at) in [
            ("card", json!(""), ""),
            ("card", json!("host"), "/card"),
            ("card", json!("ftp://host"), "/card"),
            ("card", json!("https://me:secret@host"), "/card"),
            ("key_env", json!("sk-1234"), "/key_env"),
            ("timeouts", json!({"total": "0s"}), "/timeouts/total"),
            ("timeouts", json!({"contact": "for ever"}), "/timeouts/contact"),
            ("headers", json!({"A2A-Version": "9"}), "/headers/A2A-Version"),
            ("shout", json!(1), ""),
        ] {
            let mut settings = json!({"card": "https://host"});
            settings[field] = value;
            let (place, remedy) = Settings::read(&settings).unwrap_err();
            assert_eq!(place, at, "{field}: {remedy}");
            assert!(!remedy.contains("secret") && !remedy.contains("sk-1234"), "{remedy}");
        }
    }
}
