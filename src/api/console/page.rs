//! Page: the frame that every view stands in, the headers that guard it, and what a no looks like.

use std::sync::LazyLock;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use crate::api::console::text;
use crate::api::console::visit::Visit;
use crate::engine::{EngineError, InboxFilter};
use crate::kernel::{Refusal, digest};
use crate::ports::Fault;

const STYLE: &str = include_str!("assets/console.css");
const SCRIPT: &str = include_str!("assets/console.js");
const ICON: &str = include_str!("assets/icon.svg");

/// Nothing from anywhere else, nothing inline, nobody's frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";
/// Requests counted for the badge; beyond it nobody counts.
const BADGE_MAX: usize = 99;

/// The version of the assets: pages name it, so that browsers may keep them for good.
static ASSETS: LazyLock<String> = LazyLock::new(|| {
    let mut version = digest::of_bytes(format!("{STYLE}{SCRIPT}{ICON}").as_bytes());
    version.truncate(12);
    version
});

/// Why a page cannot be shown.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The engine's no.
    Engine(EngineError),
    /// Nothing is here.
    Nothing,
}

impl<E: Into<EngineError>> From<E> for Trouble {
    fn from(error: E) -> Self {
        Self::Engine(error.into())
    }
}

/// A view: what it shows, and where it belongs.
#[derive(Debug)]
pub(super) struct View {
    pub(super) title: String,
    /// The entry of the menu that it stands under.
    pub(super) tab: &'static str,
    /// The stream that tells when to ask again.
    pub(super) live: String,
    pub(super) status: StatusCode,
    pub(super) body: Markup,
}

impl View {
    /// A view that is brought up to date when the inbox changes.
    pub(super) fn new(title: impl Into<String>, tab: &'static str, body: Markup) -> Self {
        let live = "/console/live".into();
        Self { title: title.into(), tab, live, status: StatusCode::OK, body }
    }

    /// The same, brought up to date by another stream.
    pub(super) fn live(mut self, stream: String) -> Self {
        self.live = stream;
        self
    }

    pub(super) fn status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// The view in its frame.
    pub(super) async fn respond(self, visit: &Visit) -> Response<Body> {
        let (known, newest) = waiting(visit).await;
        let count = known.filter(|open| *open > 0).map(|open| format!("({}) ", badge(open)));
        let count = count.unwrap_or_default();
        let title = format!("{count}{} · Holdpoint", self.title);
        let body = html! {
            a.skip href="#main" { "Skip to the content" }
            header.top { div.bar {
                a.brand href="/console/inbox" { (brand()) }
                (menu(self.tab, known))
                (account(visit))
            } }
            (newest)
            (keys())
            p #announce .unseen role="status" data-swap { (announced(known)) }
            p #link .offline role="status" hidden { "The server does not answer. This page comes back by itself." }
            (halted(visit))
            main #main tabindex="-1" data-live=(self.live) { (self.body) }
        };
        html_response(self.status, &frame(&title, &body))
    }
}

/// What is stopped, on every page: whoever waits for something knows why.
fn halted(visit: &Visit) -> Markup {
    let halts = visit.engine().halts();
    html! {
        div #halted data-swap role="status" {
            @if let Some(why) = visit.engine().why_held() { p.halted { strong { "Held. " } (text::escaped(&why)) } }
            @for halt in &halts.0 {
            p.halted {
                strong { "Halted: " (halt.scope.words()) ". " }
                "By " (text::escaped(&halt.by_whom())) " since " (text::time(halt.at)) ": " (text::escaped(&halt.reason))
            }
        } }
    }
}

/// The menu; how many requests wait stands in it where somebody knows.
fn menu(here: &str, open: Option<usize>) -> Markup {
    const ENTRIES: [(&str, &str); 5] = [
        ("inbox", "Inbox"),
        ("runs", "Runs"),
        ("sessions", "Sessions"),
        ("workflows", "Workflows"),
        ("audit", "Audit"),
    ];
    html! {
        nav aria-label="Main" { ul {
            @for (path, name) in ENTRIES {
                li { a href={ "/console/" (path) } aria-current=[(path == here).then_some("page")] {
                    (name)
                    @if path == "inbox" {
                        span #badge .badge data-swap hidden[open.is_none_or(|open| open == 0)] {
                            @if let Some(open) = open { (badge(open)) span.unseen { " open" } }
                        }
                    }
                } }
            }
        } }
    }
}

fn account(visit: &Visit) -> Markup {
    html! {
        div.account {
            // Where there are no keys, `local` may do everything, and a list of that says nothing.
            span.quiet { (visit.who.id) @if visit.is_keyed() && visit.who.sees_all() { " · " (visit.who.roles.words().replace(',', ", ")) } }
            @if visit.is_keyed() {
                form method="post" action="/console/sign-out" {
                    button.link type="submit" { "Sign out" }
                }
            }
        }
    }
}

/// How many requests wait, where the store can tell, and which of them came last: by that a window that nobody looks at
/// knows what to tell.
async fn waiting(visit: &Visit) -> (Option<usize>, Markup) {
    let filter = InboxFilter::default();
    let page = visit.engine().inbox(&visit.who, &filter, None, BADGE_MAX + 1).await;
    let known = page.as_ref().ok().map(|page| page.rows.len());
    let rows = page.map(|page| page.rows).unwrap_or_default();
    let last = rows.iter().max_by_key(|row| row.question.asked_at);
    let words = last.map(|row| {
        let prompt = text::first_words(&row.question.prompt, 120);
        // What a desktop shows is text alone, and nothing hides in it.
        format!("{}: {}", row.workflow, text::escaped(&prompt))
    });
    let asked = last.map(|row| format!("{:020} {}", row.question.asked_at.0, row.id()));
    let address = last.map(|row| format!("/console/requests/{}", row.id()));
    let newest = html! {
        span #newest hidden data-swap data-open=[known] data-asked=[asked] data-address=[address] data-words=[words] {}
    };
    (known, newest)
}

/// What the keys do.
fn keys() -> Markup {
    const KEYS: [(&str, &str); 6] = [
        ("j, k", "the next and the previous request"),
        ("a", "to the yes; Enter takes it"),
        ("r", "to the no; Enter takes it"),
        ("e", "edit"),
        ("Ctrl+Enter", "send a message"),
        ("?", "this list"),
    ];
    html! {
        dialog #keys aria-labelledby="keys-title" {
            h2 #keys-title { "Keys" }
            dl.meanings { @for (key, words) in KEYS { div { dt { kbd { (key) } } dd { (words) } } } }
            form method="dialog" { button type="submit" { "Close" } }
        }
    }
}

fn badge(open: usize) -> String {
    if open > BADGE_MAX { format!("{BADGE_MAX}+") } else { open.to_string() }
}

/// What a reader of the screen is told of the inbox: nothing, while nobody knows what is in it.
fn announced(open: Option<usize>) -> String {
    match open {
        None => String::new(),
        Some(0) => "Nothing waits for you.".into(),
        Some(1) => "One request waits.".into(),
        Some(more) => format!("{} requests wait.", badge(more)),
    }
}

/// A page without the menu: for those who are not signed in.
pub(super) fn bare(status: StatusCode, title: &str, body: &Markup) -> Response<Body> {
    let body = html! {
        header.top { div.bar { span.brand { (brand()) } } }
        (body)
    };
    html_response(status, &frame(&format!("{title} · Holdpoint"), &body))
}

fn brand() -> Markup {
    html! { img src=(asset_path("icon.svg")) alt="" width="24" height="24"; "Holdpoint" }
}

/// A page with a sentence on it.
pub(super) fn plain(status: StatusCode, title: &str, words: &str) -> Response<Body> {
    let body = html! {
        main.sign-in #main { h1 { (title) } p { (words) } p { a href="/console/inbox" { "To the inbox" } } }
    };
    bare(status, title, &body)
}

fn frame(title: &str, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" type="image/svg+xml" href=(asset_path("icon.svg"));
                link rel="stylesheet" href=(asset_path("console.css"));
                script type="module" src=(asset_path("console.js")) {}
            }
            body { (body) }
        }
    }
}

/// What the engine's no looks like.
pub(super) async fn trouble(visit: &Visit, trouble: &Trouble) -> Response<Body> {
    let (status, title, words) = told(trouble);
    let body = html! {
        h1 { (title) }
        p.lead { (text::shown(&words)) }
        p { a href="/console/inbox" { "To the inbox" } }
    };
    View::new(title, "", body).status(status).respond(visit).await
}

/// A status, a title and a sentence.
pub(super) fn told(trouble: &Trouble) -> (StatusCode, &'static str, String) {
    let nothing = "There is nothing here, or nothing that you may see.";
    match trouble {
        Trouble::Nothing => (StatusCode::NOT_FOUND, "Nothing here", nothing.into()),
        Trouble::Engine(EngineError::Refused(refusal)) if is_unknown(refusal) => {
            (StatusCode::NOT_FOUND, "Nothing here", nothing.into())
        }
        Trouble::Engine(EngineError::Refused(
            refusal @ (Refusal::NotAdmitted { .. } | Refusal::NotAssured { .. }),
        )) => {
            (StatusCode::FORBIDDEN, "This is for others to decide", sentence(&refusal.to_string()))
        }
        Trouble::Engine(EngineError::Refused(
            refusal @ (Refusal::Role { .. } | Refusal::Forbidden(_) | Refusal::NotSender { .. }),
        )) => (StatusCode::FORBIDDEN, "This is for others to do", sentence(&refusal.to_string())),
        Trouble::Engine(EngineError::Refused(refusal)) => {
            (StatusCode::CONFLICT, "This cannot be done", sentence(&refusal.to_string()))
        }
        Trouble::Engine(EngineError::Draining) => {
            let words = "The server is shutting down. Try again in a moment.";
            (StatusCode::SERVICE_UNAVAILABLE, "One moment", words.into())
        }
        // As at every other door: a database that is away is not somebody who is busy.
        Trouble::Engine(EngineError::Fault(Fault::Retriable(why))) => {
            // Whether anything was written is not known of all of them.
            let more = if why.contains("try again") { "" } else { " Try again in a moment." };
            let words = format!("{}{more}", sentence(why));
            (StatusCode::SERVICE_UNAVAILABLE, "One moment", words)
        }
        Trouble::Engine(EngineError::Moved | EngineError::Superseded) => {
            let words = "The server is busy. Nothing was changed; try again in a moment.";
            (StatusCode::SERVICE_UNAVAILABLE, "One moment", words.into())
        }
        Trouble::Engine(EngineError::Rewound | EngineError::Fault(Fault::Rewound)) => {
            let words = "The store has gone back in time: it lacks what was seen here. Load the page again; an operator must look.";
            (StatusCode::SERVICE_UNAVAILABLE, "The store has gone back", words.into())
        }
        Trouble::Engine(EngineError::Fault(Fault::Permanent(why) | Fault::Corrupt(why))) => {
            tracing::error!(why, "a page could not be shown");
            let words = "The store does not answer as it should. An operator must look at the log.";
            (StatusCode::SERVICE_UNAVAILABLE, "The store has failed", words.into())
        }
        Trouble::Engine(EngineError::Corrupt(corruption)) => {
            tracing::error!(run.id = %corruption.run, why = corruption.why, "journal does not fold");
            let words = "The journal of this run does not check out. An operator must look at it.";
            (StatusCode::INTERNAL_SERVER_ERROR, "A damaged run", words.into())
        }
    }
}

/// Unknown and forbidden look the same (D2).
fn is_unknown(refusal: &Refusal) -> bool {
    matches!(
        refusal,
        Refusal::UnknownWorkflow(_)
            | Refusal::UnknownSession(_)
            | Refusal::UnknownRun(_)
            | Refusal::PrunedRun(_)
            | Refusal::UnknownRequest(_)
            | Refusal::UnknownHalt(_)
            | Refusal::UnknownCheckpoint(_)
    )
}

/// A message of ours, as a sentence.
pub(super) fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
    format!("{}{}.", first.unwrap_or_default(), letters.as_str())
}

/// Somewhere else, by GET.
pub(super) fn redirect(path: &str) -> Response<Body> {
    let response = Response::builder().status(StatusCode::SEE_OTHER).header(header::LOCATION, path);
    response.body(Body::empty()).unwrap_or_default()
}

fn html_response(status: StatusCode, page: &Markup) -> Response<Body> {
    let response = Response::builder()
        .status(status)
        .header(header::CONTENT_TYPE, "text/html; charset=utf-8")
        .header(header::CACHE_CONTROL, "no-store");
    response.body(Body::from(page.0.clone())).unwrap_or_default()
}

fn asset_path(name: &str) -> String {
    format!("/console/assets/{name}?v={}", *ASSETS)
}

/// A file that pages need.
pub(super) fn asset(name: &str) -> Response<Body> {
    let (kind, text) = match name {
        "console.css" => ("text/css; charset=utf-8", STYLE),
        "console.js" => ("text/javascript; charset=utf-8", SCRIPT),
        "icon.svg" => ("image/svg+xml", ICON),
        &_ => return plain(StatusCode::NOT_FOUND, "Nothing here", "There is no such file."),
    };
    let response = Response::builder()
        .header(header::CONTENT_TYPE, kind)
        .header(header::CACHE_CONTROL, "public, max-age=31536000, immutable");
    response.body(Body::from(text)).unwrap_or_default()
}

/// Every answer, guarded.
pub(super) fn guarded(mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    let guards = [
        ("content-security-policy", POLICY),
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        // Not `no-referrer`: browsers would then hide where a form comes from.
        ("referrer-policy", "same-origin"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    for (name, value) in guards {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_of_the_inbox_while_nobody_knows_what_is_in_it() {
        assert_eq!(announced(None), "");
        assert_eq!(announced(Some(0)), "Nothing waits for you.");
        let unknown = menu("inbox", None).0;
        assert!(!unknown.contains("open") && !unknown.contains(">0"), "{unknown}");
        assert!(menu("inbox", Some(2)).0.contains("2<span class=\"unseen\"> open"), "it is known");
    }

    #[test]
    fn a_role_that_is_not_enough_is_forbidden_and_no_conflict() {
        let refused = Trouble::from(Refusal::Forbidden("that is for admins"));
        let (status, _, words) = told(&refused);
        assert_eq!((status, words.contains("for admins")), (StatusCode::FORBIDDEN, true));
    }

    #[test]
    fn a_database_that_is_away_is_told_as_that_and_not_as_a_server_that_is_busy() {
        let why = "the database at db.internal/holdpoint cannot be reached: refused";
        let away = Trouble::from(EngineError::Fault(Fault::Retriable(why.into())));
        let (status, title, words) = told(&away);
        assert_eq!((status, title), (StatusCode::SERVICE_UNAVAILABLE, "One moment"));
        assert!(words.starts_with("The database at db.internal/holdpoint cannot be"), "{words}");
        assert!(words.contains("Try again") && !words.contains("busy"), "{words}");
    }
}
