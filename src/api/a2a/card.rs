//! Card: what a workflow says of itself as an agent, and how caches may keep it.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode, header};
use jiff::Timestamp;

use crate::api::a2a::mapping::REQUESTS_EXTENSION;
use crate::api::a2a::reading::INPUT_MODES;
use crate::api::a2a::{A2a, v03};
use crate::engine::Entry;
use crate::kernel::{Millis, digest};
use crate::wire::a2a::{
    AgentCard, Capabilities, Extension, HttpAuthScheme, Interface, SecurityRequirement,
    SecurityScheme, Skill, StringList,
};

/// The version of the protocol that is spoken.
pub(super) const PROTOCOL: &str = "1.0";
/// A card changes when the server starts anew; a client may look once an hour.
const CACHE: &str = "public, max-age=3600";
const BEARER: &str = "bearer";

/// The card of one agent. `path` is the workflow it is reached by; none at the root.
pub(super) fn card(a2a: &A2a, agent: &Entry, path: Option<&str>, base: &str) -> AgentCard {
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
        supported_interfaces: vec![
            interface(&url, "JSONRPC", None),
            interface(&url, "HTTP+JSON", None),
            // A gRPC address has no path: there the tenant names the agent.
            interface(authority, "GRPC", path),
        ],
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
            extended_agent_card: false,
        },
        security_schemes,
        security_requirements,
        default_input_modes: INPUT_MODES.to_vec(),
        default_output_modes: INPUT_MODES.to_vec(),
        skills: vec![skill],
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

/// The card as a page, or that the one the caller has is still good.
pub(super) fn page(a2a: &A2a, card: &AgentCard, asked: &HeaderMap) -> Response<Body> {
    let mut card_json = serde_json::to_value(card).unwrap_or_default();
    if a2a.settings.v03 {
        let url = card.supported_interfaces.first().map(|first| first.url.as_str());
        card_json = v03::merged(card_json, url.unwrap_or_default());
    }
    let body = card_json.to_string().into_bytes();
    let etag = format!("\"{}\"", digest::of_bytes(&body));
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
        // Its URLs are built on the name that the server was called by.
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
