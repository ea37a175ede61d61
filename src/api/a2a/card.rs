//! Card: what a workflow says of itself as an agent, where it is reached, and how caches may keep it.
//!
//! There are two. A gRPC address is dialled as it stands, `host:port`, and some clients refuse a card of
//! which any address is no URL of the card's own origin; so one card names what goes by HTTP, which every
//! client takes, and the one for whoever speaks gRPC names everything.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use jiff::Timestamp;
use serde_json::Value;

use crate::api::a2a::A2a;
use crate::api::a2a::errors::{Outcome, Problem};
use crate::api::a2a::mapping::REQUESTS_EXTENSION;
use crate::api::a2a::reading::INPUT_MODES;
use crate::api::a2a::v03::card as older;
use crate::api::a2a::version::PROTOCOL;
use crate::api::host;
use crate::engine::Entry;
use crate::kernel::{Millis, digest};
use crate::wire::a2a::{
    AgentCard, Capabilities, Extension, Fields, HttpAuthScheme, Interface, SecurityRequirement,
    SecurityScheme, Skill, StringList,
};

/// A card changes when the server starts anew; a client may look once an hour.
const CACHE: &str = "public, max-age=3600";
const BEARER: &str = "bearer";
/// Where the keys are that cards are signed with, below `/a2a`.
pub(super) const KEYS_PATH: &str = ".well-known/jwks.json";

/// The extension under which callers with a key are told what a workflow reads and who works in it.
const WORKFLOW_EXTENSION: &str = "urn:holdpoint:a2a:workflow:v1";

/// Which interfaces a card names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Those that go by HTTP.
    Http,
    /// gRPC as well.
    All,
}

/// The card of one agent. `path` is the workflow it is reached by; none at the root.
pub(super) fn card(
    a2a: &A2a,
    agent: &Entry,
    path: Option<&str>,
    base: &str,
    names: Names,
) -> AgentCard {
    signed(a2a, plain(a2a, agent, path, base, names), base)
}

/// The card that only callers with a key get: with what the workflow reads, and who works in it.
pub(super) fn extended(
    a2a: &A2a,
    agent: &Entry,
    path: Option<&str>,
    base: &str,
    names: Names,
) -> Outcome<AgentCard> {
    if !a2a.core.doorkeeper.wants_key() {
        let message = "there is no extended card; everybody gets the same";
        return Err(Problem::unsupported(message));
    }
    let workflow = &agent.workflow;
    let mut told = Fields::new();
    if let Some(input) = &workflow.input {
        told.insert("input".into(), input.clone());
    }
    told.insert("agents".into(), workflow.agents.keys().cloned().collect());
    told.insert("tools".into(), workflow.tools.keys().cloned().collect());
    let mut card = plain(a2a, agent, path, base, names);
    card.capabilities.extensions.push(Extension {
        uri: WORKFLOW_EXTENSION,
        description: "What the workflow reads, as a JSON Schema, and who and what works in it.",
        required: false,
        params: Some(told),
    });
    Ok(signed(a2a, card, base))
}

fn signed(a2a: &A2a, mut card: AgentCard, base: &str) -> AgentCard {
    if let Some(signer) = &a2a.settings.signer {
        let whole = serde_json::to_value(&card).unwrap_or_default();
        let keys = format!("{base}/a2a/{KEYS_PATH}");
        card.signatures = signer.sign(&whole, &keys).into_iter().collect();
    }
    card
}

fn plain(a2a: &A2a, agent: &Entry, path: Option<&str>, base: &str, names: Names) -> AgentCard {
    let workflow = &agent.workflow;
    let name = &workflow.name;
    let description = if workflow.description.is_empty() {
        format!("The workflow `{name}`.")
    } else {
        workflow.description.clone()
    };
    let url = match path {
        Some(path) => format!("{base}/a2a/{path}"),
        None => format!("{base}/a2a"),
    };
    let interface = |url: &str, binding, tenant: Option<&str>| Interface {
        url: url.to_owned(),
        protocol_binding: binding,
        tenant: tenant.unwrap_or_default().to_owned(),
        protocol_version: PROTOCOL,
    };
    let authority = base.split_once("://").map_or(base, |(_, authority)| authority);
    let mut supported_interfaces =
        vec![interface(&url, "JSONRPC", None), interface(&url, "HTTP+JSON", None)];
    if names == Names::All {
        // A gRPC address has no path: there the tenant names the agent.
        supported_interfaces.push(interface(authority, "GRPC", path));
    }
    if a2a.settings.v03 {
        let by_grpc = (names == Names::All && path.is_none()).then_some(authority);
        supported_interfaces.extend(older::interfaces(&url, by_grpc));
    }
    let skill = Skill {
        id: name.clone(),
        name: name.clone(),
        description: description.clone(),
        tags: vec!["workflow".into(), "human-in-the-loop".into()],
    };
    let (security_schemes, security_requirements) = security(a2a.core.doorkeeper.wants_key());
    AgentCard {
        name: name.clone(),
        description,
        supported_interfaces,
        provider: None,
        version: agent.digest.clone(),
        capabilities: Capabilities {
            streaming: true,
            push_notifications: a2a.settings.push,
            extensions: vec![Extension {
                uri: REQUESTS_EXTENSION,
                description: "A pause also says in data what it asks, and takes answers by request id.",
                required: false,
                params: None,
            }],
            extended_agent_card: a2a.core.doorkeeper.wants_key(),
        },
        security_schemes,
        security_requirements,
        default_input_modes: INPUT_MODES.to_vec(),
        default_output_modes: INPUT_MODES.to_vec(),
        skills: vec![skill],
        signatures: Vec::new(),
    }
}

/// What the doorkeeper wants, as the card says it.
fn security(wants_key: bool) -> (BTreeMap<&'static str, SecurityScheme>, Vec<SecurityRequirement>) {
    if !wants_key {
        return (BTreeMap::new(), Vec::new());
    }
    let scheme = HttpAuthScheme {
        description: "An API key of this server: `Authorization: Bearer <key>`.",
        scheme: "Bearer",
    };
    let schemes = BTreeMap::from([(BEARER, SecurityScheme::HttpAuthSecurityScheme(scheme))]);
    let required =
        SecurityRequirement { schemes: BTreeMap::from([(BEARER, StringList::default())]) };
    (schemes, vec![required])
}

/// Where clients reach this server, as a URL without a path: as it was told, as this machine calls
/// itself, or where it listens. Never by a name of the caller's choice: a card may be signed, and whoever
/// has one that points at them could show it around (M7).
pub(super) fn base(a2a: &A2a, host: Option<&str>) -> Outcome<String> {
    if let Some(url) = &a2a.settings.public_url {
        return Ok(url.trim_end_matches('/').to_owned());
    }
    let host = nameable(host)?;
    if host::is_loopback(host) {
        return Ok(format!("http://{host}"));
    }
    match a2a.settings.listen.filter(|listen| !listen.ip().is_unspecified()) {
        Some(listen) => Ok(format!("http://{listen}")),
        None => Err(Problem::invalid(
            "host",
            "a card names this server as it was told to, not as its caller calls it; start it with \
             `--public-url`",
        )),
    }
}

/// A host's name, if it is one: it goes into cards.
fn nameable(host: Option<&str>) -> Outcome<&str> {
    let is_plain = |host: &&str| {
        !host.is_empty()
            && host.bytes().all(|c| c.is_ascii_alphanumeric() || b".-_:[]".contains(&c))
    };
    host.filter(is_plain)
        .ok_or_else(|| Problem::invalid("host", "expected a host's name, with or without a port"))
}

/// A card as clients read it: of both versions, where both are spoken.
pub(super) fn json(a2a: &A2a, card: &AgentCard) -> Value {
    let json = serde_json::to_value(card).unwrap_or_default();
    if a2a.settings.v03 { older::merged(card, json) } else { json }
}

/// The card as a page, or that the one the caller has is still good.
pub(super) fn page(a2a: &A2a, card: &AgentCard, asked: &HeaderMap) -> Response<Body> {
    let mut json = json(a2a, card);
    let body = json.to_string();
    // A signature is another every time; the card is the same.
    json["signatures"] = Value::Null;
    let etag = format!("\"{}\"", digest::of_bytes(json.to_string().as_bytes()));
    let modified = http_date(a2a.settings.changed);
    let given = |name| asked.get(name).and_then(|value| value.to_str().ok());
    let is_known = match given(header::IF_NONE_MATCH) {
        Some(tags) => tags.split(',').any(|tag| is_same(tag.trim(), &etag)),
        None => given(header::IF_MODIFIED_SINCE).is_some_and(|since| since == modified),
    };
    let builder = Response::builder()
        .header(header::ETAG, etag)
        .header(header::LAST_MODIFIED, modified)
        .header(header::CACHE_CONTROL, CACHE)
        // Its URLs are built on the name that the server was called by, where that is its own.
        .header(header::VARY, "Host");
    let response = if is_known {
        builder.status(StatusCode::NOT_MODIFIED).body(Body::empty())
    } else {
        builder.header(header::CONTENT_TYPE, "application/json").body(Body::from(body))
    };
    response.unwrap_or_default()
}

fn is_same(tag: &str, etag: &str) -> bool {
    tag == "*" || tag.trim_start_matches("W/") == etag
}

fn http_date(at: Millis) -> String {
    let ms = i64::try_from(at.0).unwrap_or_default();
    let time = Timestamp::from_millisecond(ms).unwrap_or_default();
    time.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string()
}
