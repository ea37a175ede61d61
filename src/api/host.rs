//! Host: the name that a caller called this server by, and whether it may.
//!
//! Without keys the server listens on loopback and believes whoever reaches it. A page in a browser
//! on the same machine reaches it too, under a name of its own that it lets point here: such a name is
//! turned away, and so is whatever a browser sends for another site's page. Other clients send no
//! `Origin`, and call the server by its address or by the name that it was given.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn};
use serde_json::json;

/// The names that this server answers to.
#[derive(Debug, Clone)]
pub struct Names {
    is_keyed: bool,
    /// The name it was given, as `host[:port]`.
    public: Option<Arc<str>>,
}

impl Names {
    /// All of them where keys are wanted; else those of this machine, and that of `public_url`.
    pub fn new(is_keyed: bool, public_url: Option<&str>) -> Self {
        let authority = public_url.and_then(|url| url.split_once("://")).map(|(_, rest)| rest);
        let authority = authority.and_then(|rest| rest.split('/').next());
        Self { is_keyed, public: authority.map(Arc::from) }
    }

    /// Why a request goes no further, if it does not.
    fn turned_away(
        &self,
        method: &Method,
        uri: &Uri,
        headers: &HeaderMap,
    ) -> Option<Response<Body>> {
        if self.is_keyed {
            return None;
        }
        let host = called(uri, headers);
        let is_public = |name: &str| {
            self.public.as_deref().is_some_and(|public| public.eq_ignore_ascii_case(name))
        };
        if !is_loopback(host) && !is_public(host) {
            let message = "without API keys this server answers only to this machine's own name: call \
                           it by 127.0.0.1 or localhost, name it with `--public-url`, or make a key \
                           with `holdpoint keys add`";
            return Some(refused(StatusCode::MISDIRECTED_REQUEST, "host.foreign", message));
        }
        let origin = headers.get(header::ORIGIN).and_then(|value| value.to_str().ok());
        let is_of_public = origin
            .and_then(|origin| origin.split_once("://"))
            .is_some_and(|(_, name)| is_public(name));
        // Whoever types an address, or follows a link to it, may read what is there.
        let is_ours = if method.is_safe() { is_origin_here } else { is_from_here };
        if !is_of_public && !is_ours(headers, host) {
            let message = "without API keys this server does nothing for the pages of other sites; \
                           make a key with `holdpoint keys add`";
            return Some(refused(StatusCode::FORBIDDEN, "origin.foreign", message));
        }
        None
    }
}

/// The routes, for callers that use one of the names.
pub fn guarded(router: Router, names: Names) -> Router {
    router.layer(from_fn(move |request: Request, next: Next| {
        let no = names.turned_away(request.method(), request.uri(), request.headers());
        async move {
            match no {
                Some(no) => no,
                None => next.run(request).await,
            }
        }
    }))
}

fn refused(status: StatusCode, code: &str, message: &str) -> Response<Body> {
    let body = json!({"error": {"code": code, "message": message}}).to_string();
    let response =
        Response::builder().status(status).header(header::CONTENT_TYPE, "application/json");
    response.body(Body::from(body)).unwrap_or_default()
}

/// The name that a caller called this server by.
pub(super) fn called<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> &'a str {
    let given = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    given.or_else(|| uri.authority().map(http::uri::Authority::as_str)).unwrap_or("")
}

/// Whether a name is one that every machine has for itself.
pub(super) fn is_loopback(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    let address: Option<std::net::IpAddr> = name.parse().ok();
    name.eq_ignore_ascii_case("localhost") || address.is_some_and(|address| address.is_loopback())
}

/// Whether the browser says that one of our own pages sent this. All of them say so, in one of two
/// ways; a client that says nothing is no browser, and is no page's doing.
pub(super) fn is_from_here(headers: &HeaderMap, host: &str) -> bool {
    let site = headers.get("sec-fetch-site").map(|value| value.to_str().unwrap_or("?"));
    site.is_none_or(|site| site == "same-origin") && is_origin_here(headers, host)
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
        assert!(from(&[]), "a client that is no browser");
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
        for host in ["", "evil.example:4653", "10.0.0.1", "localhost.evil.example", "[::2]"] {
            assert!(!is_loopback(host), "{host}");
        }
    }

    #[test]
    fn the_name_that_the_server_was_given_is_its_own() {
        let uri = Uri::from_static("/a2a");
        let named = Names::new(false, Some("https://agents.example/below"));
        let status = |names: &Names, pairs: &[(&'static str, &str)]| {
            names.turned_away(&Method::POST, &uri, &headers(pairs)).map(|no| no.status().as_u16())
        };
        let own = ("host", "Agents.example");
        assert_eq!(status(&named, &[own, ("origin", "https://agents.example")]), None);
        assert_eq!(status(&named, &[own, ("origin", "https://evil.example")]), Some(403));
        assert_eq!(status(&named, &[("host", "evil.example")]), Some(421));
        let followed = headers(&[own, ("sec-fetch-site", "cross-site")]);
        assert!(named.turned_away(&Method::GET, &uri, &followed).is_none(), "a link to a card");
        assert!(named.turned_away(&Method::POST, &uri, &followed).is_some());
        let keyed = Names::new(true, None);
        assert_eq!(status(&keyed, &[("host", "evil.example")]), None, "its key speaks for it");
    }
}
