//! Request context: one request to the console, read and vetted: who asks, for what, with which fields.
//!
//! A browser sends forms on behalf of any page that it shows, so a form that changes something is
//! taken only where the browser itself says that it comes from our own pages. Foreign names for this
//! machine have been turned away before (`host`).

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;

use crate::api::Shown;
use crate::api::console::memory::Memory;
use crate::api::console::{Console, page, sign_in};
use crate::api::{MESSAGE_BYTES_MAX, host};
use crate::engine::Engine;
use crate::kernel::{Millis, Principal};

/// Fields of a form at most: a plan of many steps, generously.
const FIELDS_MAX: usize = 10_000;

/// Fields of a form or a query, in order; a name may come more than once.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pairs: Vec<(String, String)>,
    index: BTreeMap<String, Vec<usize>>,
}

impl Fields {
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let mut fields = Self::default();
        for (name, value) in url::form_urlencoded::parse(bytes).take(FIELDS_MAX) {
            // Browsers send line ends as carriage return and line feed, whatever was there.
            let value = value.replace("\r\n", "\n");
            fields.index.entry(name.to_string()).or_default().push(fields.pairs.len());
            fields.pairs.push((name.into_owned(), value));
        }
        fields
    }

    /// The first value of that name.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// The first value of that name, trimmed; nothing where it is empty.
    pub(super) fn given(&self, name: &str) -> Option<&str> {
        self.get(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// The value of that name, where there is one: of two that differ none is meant (K7).
    pub(super) fn only(&self, name: &str) -> Option<&str> {
        let mut all = self.all(name);
        let first = all.next().map(str::trim).filter(|value| !value.is_empty())?;
        all.all(|other| other.trim() == first).then_some(first)
    }

    /// All values of that name.
    pub(super) fn all<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        let places = self.index.get(name).into_iter().flatten();
        places.map(|place| self.pairs[*place].1.as_str())
    }

    /// Names that begin with `prefix`, with what follows it.
    pub(super) fn below<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a str> {
        let from = self.index.range(prefix.to_owned()..);
        from.map_while(move |(name, _)| name.strip_prefix(prefix))
    }

    #[cfg(test)]
    pub(super) fn of(pairs: &[(&str, &str)]) -> Self {
        let text =
            url::form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        Self::parse(text.as_bytes())
    }
}

/// One request, vetted.
#[derive(Debug)]
pub(super) struct Visit {
    pub(super) console: Console,
    pub(super) who: Principal,
    /// What the browser showed in place of a key.
    pub(super) pass: Option<String>,
    pub(super) is_post: bool,
    /// The path below `/console`.
    pub(super) path: Vec<String>,
    pub(super) query: Fields,
    /// The form, where one was sent.
    pub(super) fields: Fields,
    pub(super) now: Millis,
    /// What the browser remembers of what was opened and put off.
    pub(super) memory: Memory,
}

impl Visit {
    pub(super) fn engine(&self) -> &Engine {
        &self.console.inner.engine
    }

    /// Whether people sign in here.
    pub(super) fn is_keyed(&self) -> bool {
        self.console.inner.doorkeeper.wants_key()
    }
}

/// Reads a request; or answers it at once, where it may go no further.
pub(super) async fn read(
    console: &Console,
    request: Request<Body>,
) -> Result<Visit, Box<Response<Body>>> {
    let (parts, body) = request.into_parts();
    let path = segments(parts.uri.path());
    if let ["assets", name] = path.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        return Err(Box::new(page::asset(name)));
    }
    let is_post = parts.method == Method::POST;
    if let Some(no) = turned_away(&parts, is_post) {
        return Err(Box::new(no));
    }
    let bytes = axum::body::to_bytes(body, if is_post { MESSAGE_BYTES_MAX } else { 0 }).await;
    let bytes = bytes.map_err(|_| {
        let words = "The form is too large: it may have 4 MiB in all.";
        Box::new(page::plain(StatusCode::PAYLOAD_TOO_LARGE, "Too large", words))
    })?;
    let fields = if is_post { form(&parts.headers, &bytes) } else { Fields::default() };
    let now = console.inner.engine.now();
    let uri = parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default();
    let query = Fields::parse(parts.uri.query().unwrap_or_default().as_bytes());
    if path.first().is_some_and(|first| first == "sign-in") {
        return Err(Box::new(sign_in::page(&console.inner, &parts, &query, &fields)));
    }
    let cookie = sign_in::pass(&parts.headers);
    let admitted = match cookie {
        Some(pass) => console.inner.doorkeeper.admit_pass(pass, now, "console"),
        None => console.inner.doorkeeper.admit(Shown::default(), "console"),
    };
    let Ok(who) = admitted else {
        return Err(Box::new(sign_in::wanted(&parts, &uri)));
    };
    let pass = cookie.map(str::to_owned);
    let memory = Memory::of(&parts.headers, &who.id);
    Ok(Visit { console: console.clone(), who, pass, is_post, path, query, fields, now, memory })
}

/// Why a request goes no further, if it does not.
fn turned_away(parts: &Parts, is_post: bool) -> Option<Response<Body>> {
    if !is_post && parts.method != Method::GET && parts.method != Method::HEAD {
        let words = "Pages are read with GET and forms are sent with POST.";
        return Some(page::plain(StatusCode::METHOD_NOT_ALLOWED, "Not this way", words));
    }
    let host = host::called(&parts.uri, &parts.headers);
    if is_post && !host::is_from_here(&parts.headers, host) {
        let words = "This form was not sent from the console's own pages, so nothing was done.";
        return Some(page::plain(StatusCode::FORBIDDEN, "Not from here", words));
    }
    None
}

fn form(headers: &HeaderMap, bytes: &Bytes) -> Fields {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is_form = kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"));
    if is_form { Fields::parse(bytes) } else { Fields::default() }
}

fn segments(path: &str) -> Vec<String> {
    let decoded = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
    let parts = path.split('/').filter(|part| !part.is_empty());
    parts.skip(1).map(decoded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_keep_their_order_and_their_repeats() {
        let fields = Fields::of(&[("b", "1"), ("a/0", "x\r\ny"), ("b", "2"), ("a/1", " ")]);
        assert_eq!(fields.all("b").collect::<Vec<_>>(), ["1", "2"]);
        assert_eq!(fields.below("a/").collect::<Vec<_>>(), ["0", "1"]);
        assert_eq!((fields.get("a/0"), fields.given("a/1")), (Some("x\ny"), None));
    }
}
