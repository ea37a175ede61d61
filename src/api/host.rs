//! Host: the name that a caller called this server by, the page that it speaks for, and whether it may.
//! One rule for all doors, asked before any of them; what a door lets its callers do is the door's own.
//!
//! Without keys the server listens on loopback and believes whoever reaches it. A page in a browser
//! on the same machine reaches it too: under a name of its own that it lets point here, or with a
//! request that a browser sends without asking. Such names are turned away, and so is whatever a browser
//! sends for another site's page. Other clients send no `Origin`, and call the server by its address or by
//! the name that it was given. With keys or without, gRPC is HTTP/2 and `application/grpc`: what no page can
//! send unasked.

use std::sync::Arc;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, Version, header};
use serde_json::json;
use tonic::Code;

use crate::api::{Doorkeeper, status};

/// What probes ask: they call by address, and are told one word.
const PROBES: [&str; 2] = ["/healthz", "/readyz"];

/// Who stands before all doors.
#[derive(Debug, Clone)]
pub struct Guard {
    doorkeeper: Arc<dyn Doorkeeper>,
    /// The name it was given, as `host[:port]`.
    public: Option<Arc<str>>,
}

/// Why a request goes no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum No {
    NotGrpc,
    Host,
    Origin,
}

impl Guard {
    /// Answers to every name where the doorkeeper wants keys; else to those of this machine, and that
    /// of `public_url`.
    pub fn new(doorkeeper: Arc<dyn Doorkeeper>, public_url: Option<&str>) -> Self {
        let authority = public_url.and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let authority = authority.and_then(|rest| rest.split('/').next());
        Self { doorkeeper, public: authority.map(Arc::from) }
    }

    /// Who admits callers here, where those who are admitted may be sent away later.
    pub fn leave(&self) -> Option<&Arc<dyn Doorkeeper>> {
        (!self.doorkeeper.is_constant()).then_some(&self.doorkeeper)
    }

    /// The answer to a request that goes no further. Nothing is made for one that does.
    pub fn turned_away<B>(&self, request: &http::Request<B>) -> Option<Response<Body>> {
        let (uri, headers) = (request.uri(), request.headers());
        let is_grpc = is_grpc(uri.path());
        if is_grpc && !(request.version() == Version::HTTP_2 && has_grpc_type(headers)) {
            return Some(No::NotGrpc.told(false, headers));
        }
        if self.doorkeeper.wants_key() {
            return None;
        }
        let no = self.foreign(request.method(), uri, headers)?;
        Some(no.told(is_grpc, headers))
    }

    fn foreign(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Option<No> {
        let is_ours = |name: &str| is_loopback(name) || self.is_public(name);
        // A request may name its host twice: neither may be a stranger's.
        let given = || headers.get_all(header::HOST).iter().map(text);
        let authority = || uri.authority().map(http::uri::Authority::as_str);
        let is_named = authority().is_some() || given().next().is_some();
        let is_ours = is_named && given().chain(authority()).all(is_ours);
        if !is_ours && !PROBES.contains(&uri.path()) {
            return Some(No::Host);
        }
        let host = called(uri, headers);
        let is_of_ours = |origin: &str| {
            let name = origin.split_once("://").map(|(_, name)| name);
            name.is_some_and(|name| name.eq_ignore_ascii_case(host) || self.is_public(name))
        };
        let origins = headers.get_all(header::ORIGIN).iter();
        let is_from_here = origins.map(text).all(is_of_ours);
        if is_from_here && is_site_here(method, headers) { None } else { Some(No::Origin) }
    }

    fn is_public(&self, name: &str) -> bool {
        self.public.as_deref().is_some_and(|public| public.eq_ignore_ascii_case(name))
    }
}

impl No {
    fn code(self) -> &'static str {
        match self {
            Self::NotGrpc => "call.not_grpc",
            Self::Host => "host.foreign",
            Self::Origin => "origin.foreign",
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::NotGrpc => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Host => StatusCode::MISDIRECTED_REQUEST,
            Self::Origin => StatusCode::FORBIDDEN,
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::NotGrpc => {
                "gRPC is spoken over HTTP/2 with content-type `application/grpc`; for plain HTTP there \
                 are /v1 and /a2a"
            }
            Self::Host => {
                "without API keys this server answers only to this machine's own name: call it by \
                 127.0.0.1 or localhost, name it with `--public-url`, or make a key with `holdpoint \
                 keys add`"
            }
            Self::Origin => {
                "without API keys this server does nothing for the pages of other sites; make a key \
                 with `holdpoint keys add`"
            }
        }
    }

    /// Each kind of caller is told in its own way.
    fn told(self, is_grpc: bool, headers: &HeaderMap) -> Response<Body> {
        if is_grpc {
            let refused = status::plain(Code::PermissionDenied, self.code(), self.message());
            return refused.into_http();
        }
        let wants_page =
            headers.get(header::ACCEPT).is_some_and(|kind| text(kind).contains("text/html"));
        let (kind, body) = if wants_page {
            ("text/plain; charset=utf-8", format!("{} ({})\n", self.message(), self.code()))
        } else {
            let error = json!({"error": {"code": self.code(), "message": self.message()}});
            ("application/json", error.to_string())
        };
        let response = Response::builder().status(self.status()).header(header::CONTENT_TYPE, kind);
        response.body(Body::from(body)).unwrap_or_default()
    }
}

/// Whether a path is `/package.Service/Method`, as every gRPC service has it and no other door.
fn is_grpc(path: &str) -> bool {
    let segments = path.strip_prefix('/').and_then(|path| path.split_once('/'));
    segments.is_some_and(|(service, _)| service.find('.').is_some_and(|dot| dot > 0))
}

/// Whether the content is gRPC's own: neither a browser's dialect of it nor anything else.
fn has_grpc_type(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let rest = kind.and_then(|kind| kind.strip_prefix(b"application/grpc"));
    rest.is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
}

/// Whether a browser says that the request is ours or a person's. A link from anywhere opens a page
/// that the page with the link cannot read; nothing else of another site's comes in.
fn is_site_here(method: &Method, headers: &HeaderMap) -> bool {
    let is = |name: &str, wanted: &str| headers.get(name).is_some_and(|value| value == wanted);
    let is_followed =
        method.is_safe() && is("sec-fetch-mode", "navigate") && is("sec-fetch-dest", "document");
    let mut sites = headers.get_all("sec-fetch-site").iter().map(text);
    sites.all(|site| match site {
        "same-origin" => true,
        "none" => method.is_safe(),
        _ => is_followed,
    })
}

/// A header's text; what is none equals nothing.
fn text(value: &HeaderValue) -> &str {
    value.to_str().unwrap_or("?")
}

/// The name that a caller called this server by.
pub(super) fn called<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let given = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    given.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or("")
}

/// Whether a name is one that every machine has for itself.
pub(super) fn is_loopback(host: &str) -> bool {
    let (name, rest) = match host.strip_prefix('[') {
        Some(rest) => rest.split_once(']').unwrap_or_default(),
        None => host.find(':').map_or((host, ""), |colon| host.split_at(colon)),
    };
    let is_port = |rest: &str| {
        rest.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let address: Option<std::net::IpAddr> = name.parse().ok();
    (rest.is_empty() || is_port(rest))
        && (name.eq_ignore_ascii_case("localhost")
            || address.is_some_and(|address| address.is_loopback()))
}

/// Whether the browser says that one of our own pages sent this. All of them say so with a form, in one
/// way or the other; where neither is said, something took it out on the way, and nobody knows (K7).
pub(super) fn is_from_here(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
    let is_said = site.is_some() || headers.contains_key(header::ORIGIN);
    is_said && site.is_none_or(|site| site == "same-origin") && is_origin_here(headers, host)
}

fn is_origin_here(headers: &HeaderMap, host: &str) -> bool {
    let origin = headers.get(header::ORIGIN).map(|value| value.to_str().unwrap_or("?"));
    origin.is_none_or(|origin| {
        origin.split_once("://").is_some_and(|(_, name)| name.eq_ignore_ascii_case(host))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pairs = pairs
            .iter()
            .map(|(name, value)| (header::HeaderName::from_static(name), value.parse().unwrap()));
        pairs.collect()
    }

    #[test]
    fn only_our_own_pages_send_forms() {
        let from = |pairs: &[(&'static str, &str)]| is_from_here(&headers(pairs), "127.0.0.1:4653");
        assert!(from(&[("origin", "http://127.0.0.1:4653"), ("sec-fetch-site", "same-origin")]));
        assert!(from(&[("sec-fetch-site", "same-origin")]));
        assert!(from(&[("origin", "http://127.0.0.1:4653")]), "a browser of before");
        assert!(!from(&[]), "nobody says whose it is");
        for foreign in [
            ("origin", "http://evil.example"),
            ("origin", "null"),
            ("origin", "http://127.0.0.1:9999"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-site", "same-site"),
            ("sec-fetch-site", "none"),
        ] {
            assert!(!from(&[foreign]), "{foreign:?}");
        }
    }

    #[test]
    fn without_keys_only_this_machines_own_names_are_answered() {
        for host in ["localhost:4653", "127.0.0.1", "[::1]:4653", "127.9.9.9:1"] {
            assert!(is_loopback(host), "{host}");
        }
        for host in [
            "",
            "evil.example:4653",
            "10.0.0.1",
            "localhost.evil.example",
            "[::2]",
            "[::1]x",
            "localhost:1.x",
        ] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn a_grpc_method_is_known_by_its_path_and_its_content() {
        for path in ["/holdpoint.v1.Orchestrator/X", "/grpc.health.v1.Health/Check", "/a.b/"] {
            assert!(is_grpc(path), "{path}");
        }
        for path in ["/", "", "/console/a.b/c", "/.well-known/agent-card.json", "/openapi.json"] {
            assert!(!is_grpc(path), "{path}");
        }
        let has = |kind: &str| has_grpc_type(&headers(&[("content-type", kind)]));
        assert!(["application/grpc", "application/grpc+proto"].into_iter().all(has));
        for kind in ["application/grpc-web", "application/grpc-web-text", "text/plain", ""] {
            assert!(!has(kind), "{kind}");
        }
        assert!(!has_grpc_type(&HeaderMap::new()));
    }
}
