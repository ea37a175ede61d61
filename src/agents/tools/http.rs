//! HTTP tools: a call becomes one HTTP exchange, and its answer the outcome.
//!
//! ```yaml
//! settings:
//!   method: POST
//!   url: https://shop.example/orders/{{order}}/refunds
//!   headers: {authorization: "Bearer ${ENV:SHOP_KEY}"}
//!   body: {amount: "{{amount}}"}
//!   result: /refund/id
//! ```
//!
//! Every try of a call carries the same `Idempotency-Key`. Arguments that the URL does not name go
//! into the body, or, without one, into the query.

use std::collections::{BTreeMap, BTreeSet};

use reqwest::Method;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Map, Value};
use url::Url;

use crate::agents::tools::guard::{AllowPrivate, Place};
use crate::agents::tools::released::Released;
use crate::agents::tools::web::{Incoming, Outgoing, Trouble, Web};
use crate::agents::tools::{Wrong, fault, secret};
use crate::agents::trace;
use crate::kernel::{
    REPLY_BYTES_MAX, ToolFault, deed, placeholder, shortened,
    workflow::{Safety, Tool},
};

/// The header by which a server knows a call that it has seen before.
const KEY_HEADER: &str = "idempotency-key";
/// How much of an error's body is told; the rest is rarely the reason.
const SHOWN_CHARS_MAX: usize = 500;
/// JSON is larger on the wire than what is kept of it.
const ANSWER_BYTES_MAX: usize = 2 * REPLY_BYTES_MAX;

/// The settings of an HTTP tool.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    #[serde(default = "get")]
    method: String,
    url: String,
    #[serde(default)]
    query: BTreeMap<String, Value>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: Option<Value>,
    /// A JSON pointer to the part of the answer that is the outcome.
    #[serde(default)]
    result: Option<String>,
    #[serde(default)]
    pub(super) timeout: Option<String>,
    #[serde(default)]
    allow_private: AllowPrivate,
}

fn get() -> String {
    "GET".into()
}

/// What is wrong with a tool's settings: where in them, and what.
pub(super) fn check(tool: &Tool) -> Result<(), Wrong> {
    let settings = read(tool)?;
    method(&settings).map_err(|wrong| ("/method".into(), wrong))?;
    check_url(&settings.url).map_err(|wrong| ("/url".into(), wrong))?;
    super::timeout_ms(settings.timeout.as_deref()).map_err(|wrong| ("/timeout".into(), wrong))?;
    for (name, value) in &settings.headers {
        let at = format!("/headers/{name}");
        let known = HeaderName::try_from(name.as_str());
        if known.map_or(true, |name| name.as_str() == KEY_HEADER) {
            return Err((at, format!("`{name}` is no header that can be set")));
        }
        secret::check(value).map_err(|wrong| (at, wrong))?;
    }
    if settings.result.as_ref().is_some_and(|at| !at.is_empty() && !at.starts_with('/')) {
        return Err(("/result".into(), "expected a JSON pointer such as `/data/id`".into()));
    }
    check_names(&settings, tool)
}

/// Where its calls go. The host is written out, whatever stands for the rest.
pub(super) fn place(name: &str, tool: &Tool) -> Option<Place> {
    let settings = read(tool).ok()?;
    check_url(&settings.url).ok()?;
    let url = Url::parse(&settings.url).ok()?;
    Some(Place { at: format!("/tools/{name}/settings/url"), url, allow: settings.allow_private })
}

/// Names that no argument can have are slips of the pen.
fn check_names(settings: &Settings, tool: &Tool) -> Result<(), Wrong> {
    let properties = tool.parameters.as_ref().and_then(|schema| schema.get("properties"));
    let Some(Value::Object(properties)) = properties else { return Ok(()) };
    let mut used: Vec<(String, &str)> = Vec::new();
    used.extend(placeholder::names(&settings.url).into_iter().map(|name| ("/url".into(), name)));
    for (field, value) in &settings.query {
        let names = placeholder::names_in(value).into_iter();
        used.extend(names.map(|name| (format!("/query/{field}"), name)));
    }
    for (field, value) in &settings.headers {
        let names = placeholder::names(value).into_iter();
        used.extend(names.map(|name| (format!("/headers/{field}"), name)));
    }
    let body = settings.body.iter().flat_map(placeholder::names_in);
    used.extend(body.map(|name| ("/body".into(), name)));
    match used.into_iter().find(|(_, name)| !properties.contains_key(*name)) {
        Some((at, name)) => Err((at, format!("`{name}` is not among the tool's `parameters`"))),
        None => Ok(()),
    }
}

fn read(tool: &Tool) -> Result<Settings, Wrong> {
    Settings::deserialize(&tool.settings).map_err(|error| (String::new(), error.to_string()))
}

fn method(settings: &Settings) -> Result<Method, String> {
    match settings.method.to_uppercase().as_str() {
        "GET" => Ok(Method::GET),
        "POST" => Ok(Method::POST),
        "PUT" => Ok(Method::PUT),
        "PATCH" => Ok(Method::PATCH),
        "DELETE" => Ok(Method::DELETE),
        _ => Err("expected GET, POST, PUT, PATCH or DELETE".into()),
    }
}

/// The place is the file's; arguments may only name what lies there.
fn check_url(template: &str) -> Result<(), String> {
    let rest = template.strip_prefix("https://").or_else(|| template.strip_prefix("http://"));
    let rest = rest.ok_or("expected a URL that begins with `https://` or `http://`")?;
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if host.contains("{{") {
        return Err("an argument cannot choose the host; write it out".into());
    }
    let url = Url::parse(template).map_err(|error| error.to_string())?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("no names and passwords here; send a header with `${ENV:NAME}`".into());
    }
    Ok(())
}

/// One try of one call.
pub(super) async fn call(web: &Web, released: Released<'_>, key: &str) -> Result<Value, ToolFault> {
    let settings = read(released.tool).map_err(|(at, wrong)| {
        fault("tool.settings", format!("the tool's settings{at}: {wrong}"), false)
    })?;
    let (mut request, secrets) = outgoing(&settings, &released.call.arguments, key)
        .map_err(|wrong| fault("tool.arguments", wrong, false))?;
    released.check(&deed::http(request.method.as_str(), &request.url))?;
    // What changes something goes where the file says, and nowhere else; so does what somebody was shown.
    request.stays = released.is_bound() || released.tool.safety != Safety::Pure;
    let answer = web.exchange(request, &settings.allow_private, ANSWER_BYTES_MAX).await;
    let answer = answer.map_err(|(trouble, may_have_happened)| {
        fault(code_of(&trouble), trouble.to_string(), may_have_happened)
    })?;
    outcome(&settings, &answer, &secrets)
}

fn code_of(trouble: &Trouble) -> &'static str {
    match trouble {
        Trouble::Private(_) => "tool.private_address",
        Trouble::Unreachable(_) => "tool.unreachable",
        Trouble::Lost(_) => "tool.lost",
        Trouble::TooLarge(_) => "tool.too_large",
        Trouble::Redirect(_) => "tool.redirect",
    }
}

/// The request, and the secrets in it.
fn outgoing(
    settings: &Settings,
    arguments: &Value,
    key: &str,
) -> Result<(Outgoing, Vec<String>), String> {
    let nothing = Map::new();
    let arguments = arguments.as_object().unwrap_or(&nothing);
    let method = method(settings)?;
    let rest = unused(settings, arguments);
    let has_body = settings.body.is_some() || !matches!(method, Method::GET | Method::DELETE);
    let mut url = deed::located(&settings.url, arguments)?;
    {
        let mut query = url.query_pairs_mut();
        for (name, value) in &settings.query {
            if let Some(value) = placeholder::fill_value(value, arguments).filter(|v| !v.is_null())
            {
                query.append_pair(name, &placeholder::plain(&value));
            }
        }
        for (name, value) in rest.iter().filter(|_| !has_body) {
            query.append_pair(name, &placeholder::plain(value));
        }
    }
    if url.query() == Some("") {
        url.set_query(None);
    }
    let body = match &settings.body {
        Some(body) => placeholder::fill_value(body, arguments),
        None => has_body.then_some(Value::Object(rest)),
    };
    let mut travelling = HeaderMap::new();
    travelling.extend(trace::headers());
    travelling.insert(KEY_HEADER, header(key)?);
    if body.is_some() {
        travelling.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }
    let (headers, secrets) = headers(&settings.headers, arguments)?;
    let body = body.map(|body| body.to_string().into_bytes());
    Ok((Outgoing { method, url, headers, travelling, body, stays: false }, secrets))
}

/// Arguments that neither the URL nor the query names.
fn unused(settings: &Settings, arguments: &Map<String, Value>) -> Map<String, Value> {
    let mut used: BTreeSet<&str> = placeholder::names(&settings.url).into_iter().collect();
    used.extend(settings.query.values().flat_map(placeholder::names_in));
    used.extend(settings.headers.values().flat_map(|value| placeholder::names(value)));
    let rest = arguments.iter().filter(|(name, _)| !used.contains(name.as_str()));
    rest.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn headers(
    named: &BTreeMap<String, String>,
    arguments: &Map<String, Value>,
) -> Result<(HeaderMap, Vec<String>), String> {
    let mut headers = HeaderMap::new();
    let mut secrets = Vec::new();
    for (name, pattern) in named {
        let filled = secret::fill_with(pattern, |text| {
            placeholder::fill(text, arguments, str::to_owned)
                .map_err(|argument| format!("the header `{name}` needs the argument `{argument}`"))
        })?;
        let mut value = header(filled.reveal())?;
        value.set_sensitive(true);
        let name = HeaderName::try_from(name.as_str()).map_err(|error| error.to_string())?;
        headers.insert(name, value);
        secrets.extend(filled.into_values());
    }
    Ok((headers, secrets))
}

fn header(text: &str) -> Result<HeaderValue, String> {
    HeaderValue::from_str(text).map_err(|_| "a header has characters that no header has".into())
}

fn outcome(settings: &Settings, answer: &Incoming, secrets: &[String]) -> Result<Value, ToolFault> {
    let scrub = secret::Scrub::new(secrets);
    let text = String::from_utf8_lossy(&answer.body);
    if !answer.status.is_success() {
        let shown = shortened(&scrub.text(&text), SHOWN_CHARS_MAX);
        let status = answer.status.as_u16();
        // Somebody between gave up on the server behind, which may be at it still; or it was taken, and it is only what was to
        // be seen of it that is not there.
        let gave_up = matches!(status, 408 | 499 | 502 | 504 | 520 | 522 | 524 | 598 | 599);
        let may_have_happened = gave_up || answer.was_taken;
        let message = format!("the server answered with status {status}: {shown}");
        return Err(fault("tool.status", message, may_have_happened));
    }
    let value = if answer.is_json && !text.trim().is_empty() {
        let value = serde_json::from_str(&text).map_err(|error| {
            fault(
                "tool.bad_json",
                format!("the answer is not the JSON it claims to be: {error}"),
                false,
            )
        })?;
        // Only when it is read: JSON has more than one way to spell a text.
        scrub.value(value)
    } else {
        Value::String(scrub.text(&text))
    };
    let Some(pointer) = &settings.result else { return Ok(value) };
    value.pointer(pointer).cloned().ok_or_else(|| {
        fault("tool.no_result", format!("the answer has nothing at `{pointer}`"), false)
    })
}
