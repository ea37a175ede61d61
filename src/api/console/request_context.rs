//! Request context: a request to the console is read and vetted: who asks, for what, with which fields. What is
//! asked for is looked at by nobody here.
//!
//! A browser sends forms on behalf of any page that it shows, so a form that changes something is
//! taken only where the browser itself says that it comes from our own pages. Foreign names for this
//! machine have been turned away before (`host`).

use axum::body::{Body, Bytes};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, header};
use percent_encoding::percent_decode_str;

use crate::api::Shown;
use crate::api::console::fields::Fields;
use crate::api::console::memory::Memory;
use crate::api::console::visit::Visit;
use crate::api::console::{Console, page, sign_in};
use crate::api::{MESSAGE_BYTES_MAX, host};

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
