//! Sessions: conversations and the runs in them.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{inbox, listing, text, welcome};
use crate::engine::{InboxFilter, SessionView};
use crate::kernel::{Millis, readable};

/// Characters by which a conversation is known again.
const FIRST_CHARS: usize = 90;

/// The list of sessions.
pub(super) async fn list(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let query = &visit.query;
    let wanted = query.given("q").map(str::to_lowercase);
    let after = query.given("after").unwrap_or_default();
    let rows = if wanted.is_some() { 500 } else { listing::ROWS };
    let page = visit.engine().sessions(after, rows, &visit.who).await?;
    let is_meant = |view: &&SessionView| {
        wanted.as_ref().is_none_or(|wanted| {
            let id = view.row.session.as_str().to_lowercase();
            id.contains(wanted)
                || view.row.owner.to_lowercase().contains(wanted)
                || view.runs.iter().any(|run| run.workflow.contains(wanted))
        })
    };
    let mut views = Vec::new();
    for view in page.rows.iter().filter(is_meant) {
        let opening = visit.engine().opening(view).await?;
        let words = opening.map(|input| text::first_words(&readable(&input), FIRST_CHARS));
        views.push((view, words.unwrap_or_default()));
    }
    let body = html! {
        div.head { h1 { "Sessions" } p.quiet { "Conversations, each with its runs." } }
        form.filters role="search" method="get" action="/console/sessions" {
            div.filter.grow {
                label for="q" { "Search" }
                input #q type="search" name="q" value=[query.given("q")] placeholder="An id, an owner, a workflow";
            }
            button type="submit" { "Filter" }
        }
        div #sessions data-swap {
            @if views.is_empty() {
                (welcome::nothing_yet(visit, "No sessions.", "A session comes to be with its first run."))
            } @else { (table(&views, visit.now)) }
            (listing::more("/console/sessions", &[("q", query.given("q"))], page.next.as_ref()))
        }
    };
    Ok(View::new("Sessions", "sessions", body).respond(visit).await)
}

fn table(views: &[(&SessionView, String)], now: Millis) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Sessions" { table {
            thead { tr {
                th scope="col" { "Session" } th scope="col" { "Owner" } th scope="col" { "Latest run" }
                th scope="col" { "Runs" } th scope="col" { "Waits for" } th scope="col" { "Began" }
            } }
            tbody { @for (view, words) in views {
                @let open: usize = view.runs.iter().map(|run| run.questions.len()).sum();
                tr {
                    td.wide {
                        a href={ "/console/sessions/" (listing::encoded(view.row.session.as_str())) } {
                            @if words.is_empty() { "A session" } @else { (text::shown(words)) }
                        }
                        div.mono.quiet.cut { (text::shown(view.row.session.as_str())) }
                    }
                    td { (view.row.owner) }
                    td { @if let Some(run) = view.runs.first() { (listing::status(&run.status)) " " (run.workflow) } }
                    td { (view.runs.len()) @if view.runs.len() == 100 { "+" } }
                    td { @if open > 0 { (open) @if open == 1 { " answer" } @else { " answers" } } @else { span.quiet { "nothing" } } }
                    td { (text::ago(view.row.started_at, now)) }
                }
            } }
        } }
    }
}

/// The page of a session.
pub(super) async fn one(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let view = visit.engine().session(id, &visit.who).await?;
    let filter = InboxFilter { session: Some(id.to_owned()), ..InboxFilter::default() };
    let is_waiting = view.runs.iter().any(|run| !run.questions.is_empty());
    let open = if is_waiting {
        visit.engine().inbox(&visit.who, &filter, None, 50).await?.rows
    } else {
        Vec::new()
    };
    let body = html! {
        nav.trail aria-label="Trail" { a href="/console/sessions" { "Sessions" } " / " span.mono { (text::shown(id)) } }
        div #session data-swap {
            div.head { h1 { "Session" } p.quiet { "Began " (text::ago(view.row.started_at, visit.now)) ", owned by " (view.row.owner) "." } }
            @if !open.is_empty() {
                h2 { "Waits for" }
                ul.cards data-arrows { @for row in &open { (inbox::card(row, visit.now)) } }
            }
            h2 { "Runs" }
            (listing::runs(&view.runs, visit.now))
        }
    };
    Ok(View::new(format!("Session {}", text::short(id)), "sessions", body).respond(visit).await)
}
