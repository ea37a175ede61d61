//! Runs: the list, newest first, with counts by status.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text, welcome};
use crate::kernel::SessionId;
use crate::ports::{Head, RunFilter};

/// Runs that the counts are taken over: the newest.
const COUNTED: i32 = 500;
const STATUSES: [&str; 5] = ["RUNNING", "WAITING", "COMPLETED", "FAILED", "CANCELLED"];
/// Pages that a search reads.
const SEARCHED_PAGES_MAX: usize = 4;
/// Rows of each of those.
const SEARCHED_ROWS: i32 = 500;

/// The list of runs.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let query = &visit.query;
    let known = |status: &&str| STATUSES.contains(status);
    let filter = RunFilter {
        session: query.given("session").and_then(|id| SessionId::parse(id).ok()),
        owner: None,
        workflow: query.given("workflow").map(str::to_owned),
        status: query.given("status").filter(known).map(str::to_owned),
    };
    let (heads, next) = found(visit, &filter).await?;
    let newest = visit.engine().runs(RunFilter::default(), "", COUNTED, &visit.who).await?;
    let kept = [
        ("q", query.given("q")),
        ("workflow", query.given("workflow")),
        ("status", query.given("status")),
        ("session", query.given("session")),
    ];
    let body = html! {
        div.head { h1 { "Runs" } }
        (counts(&newest.rows, newest.next.is_some(), query.given("status")))
        (filters(visit))
        div #runs data-swap {
            @if heads.is_empty() {
                (welcome::nothing_yet(visit, "No runs.", "Start one from a workflow, or take a filter away."))
            } @else { (listing::runs(&heads, visit.now)) }
            (listing::more("/console/runs", &kept, next.as_ref()))
        }
    };
    Ok(View::new("Runs", "runs", body).respond(visit).await)
}

async fn found(visit: &Visit, filter: &RunFilter) -> Result<(Vec<Head>, Option<String>), Trouble> {
    let engine = visit.engine();
    let mut cursor = visit.query.given("after").map(str::to_owned);
    let wanted = visit.query.given("q").map(str::to_lowercase);
    let (pages, rows) =
        if wanted.is_some() { (SEARCHED_PAGES_MAX, SEARCHED_ROWS) } else { (1, listing::ROWS) };
    let mut heads = Vec::new();
    for _ in 0..pages {
        let at = cursor.unwrap_or_default();
        let page = engine.runs(filter.clone(), &at, rows, &visit.who).await?;
        heads.extend(page.rows.into_iter().filter(|head| speaks_of(head, wanted.as_deref())));
        cursor = page.next;
        if cursor.is_none() || heads.len() >= usize::try_from(listing::ROWS).unwrap_or(usize::MAX) {
            break;
        }
    }
    Ok((heads, cursor))
}

fn speaks_of(head: &Head, wanted: Option<&str>) -> bool {
    let Some(wanted) = wanted else { return true };
    let labels = head.metadata.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]);
    let prompts = head.questions.iter().map(|question| question.prompt.as_str());
    let own = [head.run.as_str(), head.session.as_str(), &head.workflow, &head.owner];
    own.into_iter().chain(labels).chain(prompts).any(|text| text.to_lowercase().contains(wanted))
}

fn counts(newest: &[Head], is_cut: bool, chosen: Option<&str>) -> Markup {
    let count = |status: &str| newest.iter().filter(|head| head.status.word() == status).count();
    html! {
        ul #counts .counts data-swap aria-label="Runs by status" {
            @for status in STATUSES {
                li { a class=(status.to_lowercase()) href={ "/console/runs?status=" (status) }
                    aria-current=[(chosen == Some(status)).then_some("true")] {
                    strong { (count(status)) } " " (text::words(&status.to_lowercase()))
                } }
            }
            @if is_cut { li.quiet { "of the newest " (COUNTED) } }
        }
    }
}

fn filters(visit: &Visit) -> Markup {
    let query = &visit.query;
    let workflows = visit.engine().workflows(&visit.who);
    let workflows: Vec<_> = workflows
        .iter()
        .map(|one| (one.workflow.name.clone(), one.workflow.name.clone()))
        .collect();
    let statuses: Vec<_> = STATUSES
        .iter()
        .map(|status| ((*status).to_owned(), text::words(&status.to_lowercase())))
        .collect();
    html! {
        form.filters role="search" method="get" action="/console/runs" {
            div.filter.grow {
                label for="q" { "Search" }
                input #q type="search" name="q" value=[query.given("q")] placeholder="An id, an owner, a label, words of a question";
            }
            (listing::choice("workflow", "Workflow", "All workflows", &workflows, query.given("workflow")))
            (listing::choice("status", "Status", "All", &statuses, query.given("status")))
            @if let Some(session) = query.given("session") { input type="hidden" name="session" value=(session); }
            button type="submit" { "Filter" }
        }
    }
}
