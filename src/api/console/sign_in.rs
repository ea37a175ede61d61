//! Sign-in: an API key, shown once, becomes a pass in a cookie that no script can read and no other
//! site can send. The key itself is kept nowhere.

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Response, StatusCode, header};
use maud::{Markup, html};

use crate::api::console::fields::Fields;
use crate::api::console::visit::Visit;
use crate::api::console::{Inner, page};
use crate::kernel::Refusal;

/// The cookie's name.
const COOKIE: &str = "holdpoint_console";
/// A working day: a browser that is left open overnight asks again in the morning.
pub const PASS_SECONDS: u64 = 12 * 3_600;

/// The pass that a browser shows.
pub fn pass(headers: &HeaderMap) -> Option<&str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    cookies
        .flat_map(|line| line.split(';'))
        .find_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='))
}

/// The page that asks for a key; and what comes of one.
pub(super) fn page(
    inner: &Inner,
    parts: &Parts,
    query: &Fields,
    fields: &Fields,
) -> Response<Body> {
    if !inner.doorkeeper.wants_key() {
        return page::redirect("/console/inbox");
    }
    let next = fields.get("next").or_else(|| query.get("next")).map(own_path).unwrap_or_default();
    let Some(key) = fields.given("key") else {
        return asked(&next, None, StatusCode::OK);
    };
    let until = inner.engine.now().plus(PASS_SECONDS * 1_000);
    let pass = match inner.doorkeeper.pass(key, until) {
        Ok(pass) => pass,
        // Whoever shows a key that is one may know why it does not do here.
        Err(why @ (Refusal::Forbidden(_) | Refusal::KeyExpired(_))) => {
            return asked(&next, Some(&why.to_string()), StatusCode::UNAUTHORIZED);
        }
        Err(_) => return asked(&next, Some("No key is like this one."), StatusCode::UNAUTHORIZED),
    };
    let is_tls = parts.headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https");
    let secure = if is_tls { "; Secure" } else { "" };
    let cookie = format!(
        "{COOKIE}={pass}; Path=/console; Max-Age={PASS_SECONDS}; HttpOnly; SameSite=Strict{secure}"
    );
    with_cookie(page::redirect(&next), &cookie)
}

/// Makes the pass void, and takes it away from the browser.
pub(super) fn sign_out(visit: &Visit) -> Response<Body> {
    if let Some(pass) = &visit.pass {
        visit.console.inner.doorkeeper.void_pass(pass, visit.now);
    }
    let gone = format!("{COOKIE}=; Path=/console; Max-Age=0; HttpOnly; SameSite=Strict");
    with_cookie(page::redirect("/console/sign-in"), &gone)
}

/// What somebody without a pass gets.
pub(super) fn wanted(parts: &Parts, uri: &str) -> Response<Body> {
    let site = parts.headers.get("sec-fetch-site").and_then(|site| site.to_str().ok());
    let accepts = parts.headers.get(header::ACCEPT).and_then(|kind| kind.to_str().ok());
    if accepts.is_some_and(|kind| kind.starts_with("text/event-stream")) {
        return page::plain(StatusCode::UNAUTHORIZED, "Sign in", "Sign in first.");
    }
    if site == Some("cross-site") {
        // A link on another site brings no cookie along; a page of our own that asks again does.
        let body = html! {
            meta http-equiv="refresh" content="0";
            p { a href=(uri) { "Continue to the console" } }
        };
        return page::bare(StatusCode::OK, "One moment", &body);
    }
    let next = own_path(uri);
    asked(&next, None, StatusCode::UNAUTHORIZED)
}

fn asked(next: &str, error: Option<&str>, status: StatusCode) -> Response<Body> {
    page::bare(status, "Sign in", &form(next, error))
}

fn form(next: &str, error: Option<&str>) -> Markup {
    html! {
        main.sign-in #main {
            h1 { "Sign in to Holdpoint" }
            p { "Show an API key of this server. It is not kept in the browser: a pass stands in its \
                 place for twelve hours." }
            form method="post" action="/console/sign-in" {
                input type="hidden" name="next" value=(next);
                div.field {
                    label for="key" { "API key" }
                    input #key name="key" type="password" autocomplete="current-password"
                        spellcheck="false" autofocus aria-invalid=[error.map(|_| "true")]
                        aria-describedby=[error.map(|_| "key-error")];
                    @if let Some(error) = error { p.error #key-error role="alert" { (error) } }
                }
                button.primary type="submit" { "Sign in" }
            }
            p.quiet { "An operator makes one with " code { "holdpoint keys add NAME" } "." }
        }
    }
}

/// A path of the console's own, whatever was asked for.
fn own_path(path: &str) -> String {
    let is_own = path.starts_with("/console/")
        && !path.starts_with("/console/sign-")
        && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_own { path.to_owned() } else { "/console/inbox".into() }
}

fn with_cookie(mut response: Response<Body>, cookie: &str) -> Response<Body> {
    if let Ok(cookie) = cookie.parse() {
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_sent_elsewhere_after_signing_in() {
        for foreign in [
            "https://evil.example",
            "//evil.example",
            "/console/\\evil",
            "/x",
            "",
            "/console/a\r\nb",
        ] {
            assert_eq!(own_path(foreign), "/console/inbox", "{foreign}");
        }
        assert_eq!(own_path("/console/runs?status=FAILED"), "/console/runs?status=FAILED");
    }

    #[test]
    fn the_pass_is_found_among_other_cookies() {
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, "a=b; holdpoint_console=ada.1.ff; c=d".parse().unwrap());
        assert_eq!(pass(&headers), Some("ada.1.ff"));
        assert_eq!(pass(&HeaderMap::new()), None);
    }
}
