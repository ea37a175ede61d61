//! Settings: how a workflow file points at a model server, read and checked.
//!
//! Shared by all providers that speak HTTP. No key is ever in here, only the name of the variable
//! that holds it.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};
use reqwest::Url;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::agents::models::dialect::Dialect;
use crate::agents::settings;
use crate::kernel::{Reply, WhenCut};

/// A server that does not take a connection in this time is not there.
const CONNECT_MS_DEFAULT: u64 = 10_000;
/// Models that think before they speak are silent for minutes.
const FIRST_TOKEN_MS_DEFAULT: u64 = 120_000;
/// The longest replies of today's models, at their slowest.
const TOTAL_MS_DEFAULT: u64 = 600_000;
/// Longer than a day is no timeout.
const TIMEOUT_MAX: (u64, &str) = (86_400_000, "a day");
/// Further tries within one attempt; the step's own policy comes on top.
const RETRIES_DEFAULT: u32 = 2;
/// More tries than these only make a bad hour worse.
const RETRIES_MAX: u32 = 10;
/// More than any model writes in one reply.
const MAX_TOKENS_MAX: u32 = 1_000_000;
/// Texts to stop at: what the formats take.
const STOP_MAX: usize = 4;
/// The widest range that a provider takes.
const TEMPERATURE_MAX: f64 = 2.0;
pub(super) use crate::agents::settings::Wrong;

/// How a server is spoken to.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    /// What the server calls the model.
    pub(super) model: String,
    /// Where the server is, without the last part of the path.
    pub(super) base_url: Url,
    /// The variable that holds the key; none if the server wants none.
    pub(super) key_env: Option<String>,
    /// For the connection.
    pub(super) connect_ms: u64,
    /// Until the model begins to speak.
    pub(super) first_token_ms: u64,
    /// For everything, retries included.
    pub(super) total_ms: u64,
    /// Further tries within one attempt.
    pub(super) retries: u32,
    /// How much the model may write.
    pub(super) max_tokens: Option<u32>,
    /// How freely it chooses its words.
    pub(super) temperature: Option<f64>,
    /// What the model stops at.
    pub(super) stop: Vec<String>,
    /// Of how much of what is likely it chooses.
    pub(super) top_p: Option<f64>,
    /// Where its chance begins.
    pub(super) seed: Option<i64>,
    /// How long it thinks.
    pub(super) reasoning_effort: Option<String>,
    /// What the server is told beside what is ours.
    pub(super) extra: Map<String, Value>,
    /// What becomes of a reply that was cut short.
    when_cut: WhenCut,
    /// Headers of one's own.
    pub(super) headers: Vec<(HeaderName, HeaderValue)>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    #[serde(default)]
    model: String,
    base_url: Option<String>,
    key_env: Option<String>,
    #[serde(default)]
    timeouts: GivenTimeouts,
    retries: Option<u32>,
    max_tokens: Option<u32>,
    temperature: Option<f64>,
    #[serde(default)]
    stop: GivenStop,
    top_p: Option<f64>,
    seed: Option<i64>,
    reasoning_effort: Option<String>,
    #[serde(default)]
    extra: Map<String, Value>,
    #[serde(default)]
    when_cut: WhenCut,
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// One text to stop at, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum GivenStop {
    One(String),
    Many(Vec<String>),
}

impl Default for GivenStop {
    fn default() -> Self {
        Self::Many(Vec::new())
    }
}

impl Given {
    /// What is wrong with how the model is to speak.
    fn out_of_bounds(&self, dialect: Dialect) -> Vec<Wrong> {
        let mut all = Vec::new();
        heed(&mut all, bound("retries", self.retries, (0, RETRIES_MAX)));
        heed(&mut all, bound("max_tokens", self.max_tokens, (1, MAX_TOKENS_MAX)));
        if self.temperature.is_some_and(|value| !(0.0..=TEMPERATURE_MAX).contains(&value)) {
            all.push(wrong("/temperature", format!("expected 0 to {TEMPERATURE_MAX}")));
        }
        if self.top_p.is_some_and(|value| !(value > 0.0 && value <= 1.0)) {
            all.push(wrong("/top_p", "expected more than 0, and at most 1"));
        }
        let stop = self.stop.all();
        heed(&mut all, check_stop(&stop));
        let named = [
            ("stop", !stop.is_empty()),
            ("top_p", self.top_p.is_some()),
            ("seed", self.seed.is_some()),
            ("reasoning_effort", self.reasoning_effort.is_some()),
        ];
        for (field, _) in named.iter().filter(|(_, is_given)| *is_given) {
            all.extend(dialect.lacks(field).map(|remedy| wrong(&format!("/{field}"), remedy)));
        }
        heed(&mut all, check_extra(dialect, &self.extra));
        all
    }
}

impl GivenStop {
    fn all(&self) -> Vec<String> {
        match self {
            Self::One(text) => vec![text.clone()],
            Self::Many(texts) => texts.clone(),
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct GivenTimeouts {
    connect: Option<String>,
    first_token: Option<String>,
    total: Option<String>,
}

impl Settings {
    /// Reads the settings of a model that speaks `dialect`.
    pub(super) fn read(dialect: Dialect, written: &Value) -> Result<Self, Wrong> {
        Self::look(dialect, written).map_err(|mut all| all.swap_remove(0))
    }

    /// The same; where something is wrong, all of it, and never nothing.
    pub(super) fn look(dialect: Dialect, written: &Value) -> Result<Self, Vec<Wrong>> {
        let given = Given::deserialize(written).map_err(|error| {
            vec![wrong("", format!("the settings of `{}`: {error}", dialect.word()))]
        })?;
        let mut all = Vec::new();
        if given.model.trim().is_empty() {
            all.push(wrong("", "the model needs the field `model`: its name at the server"));
        }
        let base_url = heed(&mut all, base_url(dialect, given.base_url.as_deref()));
        let is_elsewhere = given.base_url.is_some();
        let key_env = heed(&mut all, key_env(dialect, is_elsewhere, given.key_env.as_deref()));
        all.extend(given.out_of_bounds(dialect));
        let times = &given.timeouts;
        let mut ms = |name: &str, text: &Option<String>, default| {
            heed(&mut all, settings::timeout(name, text.as_deref(), default, TIMEOUT_MAX))
        };
        let connect_ms = ms("connect", &times.connect, CONNECT_MS_DEFAULT);
        let first_token_ms = ms("first_token", &times.first_token, FIRST_TOKEN_MS_DEFAULT);
        let total_ms = ms("total", &times.total, TOTAL_MS_DEFAULT);
        let headers = heed(&mut all, settings::headers(&given.headers, &[]));
        let whole = (base_url, key_env, connect_ms, first_token_ms, total_ms, headers);
        let (
            true,
            (
                Some(base_url),
                Some(key_env),
                Some(connect_ms),
                Some(first_token_ms),
                Some(total_ms),
                Some(headers),
            ),
        ) = (all.is_empty(), whole)
        else {
            return Err(all);
        };
        Ok(Self {
            stop: given.stop.all(),
            top_p: given.top_p,
            seed: given.seed,
            reasoning_effort: given.reasoning_effort,
            extra: given.extra,
            when_cut: given.when_cut,
            model: given.model,
            base_url,
            key_env,
            connect_ms,
            first_token_ms,
            total_ms,
            retries: given.retries.unwrap_or(RETRIES_DEFAULT),
            max_tokens: given.max_tokens,
            temperature: given.temperature,
            headers,
        })
    }

    /// A reply, with what becomes of it where it was cut short.
    pub(super) fn when_cut(&self, reply: Reply) -> Reply {
        Reply { cut: reply.cut.map(|_| self.when_cut), ..reply }
    }

    /// Adds to a request what is passed through.
    pub(super) fn pass_through(&self, request: &mut Map<String, Value>) {
        request.extend(self.extra.clone());
    }

    /// The address of `path` at this server.
    pub(super) fn url(&self, path: &str) -> Url {
        let mut url = self.base_url.clone();
        let joined = format!("{}/{path}", url.path().trim_end_matches('/'));
        url.set_path(&joined);
        url
    }
}

fn wrong(at: &str, remedy: impl Into<String>) -> Wrong {
    (at.to_owned(), remedy.into())
}

/// What a check came to; what is wrong goes to the rest that is.
fn heed<T>(all: &mut Vec<Wrong>, outcome: Result<T, Wrong>) -> Option<T> {
    outcome.map_err(|wrong| all.push(wrong)).ok()
}

/// A text to stop at must be one, and formats take a few.
fn check_stop(stop: &[String]) -> Result<(), Wrong> {
    if stop.len() > STOP_MAX || stop.iter().any(String::is_empty) {
        return Err(wrong(
            "/stop",
            format!("expected at most {STOP_MAX} texts, none of them empty"),
        ));
    }
    Ok(())
}

/// What is passed through takes the place of nothing that has a setting of its own, or is ours.
fn check_extra(dialect: Dialect, extra: &Map<String, Value>) -> Result<(), Wrong> {
    let own = |name: &&String| dialect.owns(name);
    match extra.keys().find(own) {
        Some(name) => {
            let remedy = format!(
                "`{name}` is not passed through: it has a setting of its own, or \
                                  is written by Holdpoint"
            );
            Err(wrong(&format!("/extra/{name}"), remedy))
        }
        None => Ok(()),
    }
}

fn base_url(dialect: Dialect, given: Option<&str>) -> Result<Url, Wrong> {
    let text = given.unwrap_or_else(|| dialect.base_url_default());
    let url = Url::parse(text).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
    let url = url.filter(Url::has_host);
    let expected = "expected the address of a server: `https://host/v1`";
    let url = url.ok_or_else(|| wrong("/base_url", expected))?;
    if !url.username().is_empty() || url.password().is_some() {
        let remedy = "an address has no key in it; name the variable that holds it in `key_env`";
        return Err(wrong("/base_url", remedy));
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("/base_url", "an address ends with its path: no `?` and no `#`"));
    }
    Ok(url)
}

fn key_env(
    dialect: Dialect,
    elsewhere: bool,
    given: Option<&str>,
) -> Result<Option<String>, Wrong> {
    match given {
        Some(name) => settings::key_env(name),
        // A key is not sent to a server that it was not made for.
        None if elsewhere => {
            let remedy = "a model with a `base_url` needs `key_env`: the name of the environment \
                          variable that holds this server's key, or `none`";
            Err(wrong("", remedy))
        }
        None => Ok(Some(dialect.key_env_default().to_owned())),
    }
}

fn bound(name: &str, value: Option<u32>, (least, most): (u32, u32)) -> Result<(), Wrong> {
    if value.is_none_or(|value| (least..=most).contains(&value)) {
        return Ok(());
    }
    Err((format!("/{name}"), format!("expected {least} to {most}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(settings: &Value) -> Result<Settings, Wrong> {
        Settings::read(Dialect::Chat, settings)
    }

    #[test]
    fn a_model_needs_little_to_be_spoken_to() {
        let settings = read(&json!({"model": "gpt"})).unwrap();
        assert_eq!(
            settings.url("chat/completions").as_str(),
            "https://api.openai.com/v1/chat/completions"
        );
        assert_eq!(settings.key_env.as_deref(), Some("OPENAI_API_KEY"));
        let local = json!({
            "model": "qwen", "base_url": "http://localhost:11434/v1/", "key_env": "none",
            "timeouts": {"first_token": "1m"}, "retries": 0, "headers": {"x-team": "support"},
        });
        let settings = read(&local).unwrap();
        assert_eq!(settings.url("responses").as_str(), "http://localhost:11434/v1/responses");
        assert_eq!(
            (settings.key_env, settings.first_token_ms, settings.retries),
            (None, 60_000, 0)
        );
        assert_eq!(settings.connect_ms, CONNECT_MS_DEFAULT);
    }

    #[test]
    fn what_cannot_be_used_is_told_with_its_place() {
        for (field, value, at) in [
            ("model", json!(" "), ""),
            ("shout", json!(true), ""),
            ("base_url", json!("localhost:11434"), "/base_url"),
            ("base_url", json!("https://user:pass@host/v1"), "/base_url"),
            ("base_url", json!("https://host/v1?key=1"), "/base_url"),
            ("base_url", json!("https://host/v1"), ""),
            ("key_env", json!("sk-1234"), "/key_env"),
            ("timeouts", json!({"total": "soon"}), "/timeouts/total"),
            ("timeouts", json!({"connect": "0s"}), "/timeouts/connect"),
            ("retries", json!(11), "/retries"),
            ("max_tokens", json!(0), "/max_tokens"),
            ("temperature", json!(3), "/temperature"),
            ("top_p", json!(0), "/top_p"),
            ("stop", json!(["a", "b", "c", "d", "e"]), "/stop"),
            ("stop", json!(""), "/stop"),
            ("when_cut", json!("guess"), ""),
            ("extra", json!({"messages": []}), "/extra/messages"),
            ("extra", json!({"temperature": 1}), "/extra/temperature"),
            ("headers", json!({"Authorization": "Bearer x"}), "/headers/Authorization"),
            ("headers", json!({"a b": "x"}), "/headers/a b"),
            ("headers", json!({"x-a": "x\ny"}), "/headers/x-a"),
        ] {
            let mut settings = json!({"model": "gpt"});
            settings[field] = value.clone();
            let (place, remedy) = read(&settings).unwrap_err();
            assert_eq!(place, at, "{field}: {value}: {remedy}");
            assert!(!remedy.contains("sk-1234"));
        }
    }

    #[test]
    fn what_a_format_has_no_word_for_is_told_and_not_left_out() {
        for (dialect, field, value) in [
            (Dialect::Responses, "stop", json!("END")),
            (Dialect::Responses, "seed", json!(7)),
            (Dialect::Anthropic, "seed", json!(7)),
            (Dialect::Anthropic, "reasoning_effort", json!("low")),
        ] {
            let mut settings = json!({"model": "m"});
            settings[field] = value;
            let (place, _) = Settings::read(dialect, &settings).unwrap_err();
            assert_eq!(place, format!("/{field}"), "{dialect:?}");
        }
    }
}
