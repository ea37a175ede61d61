//! Inbox: everything that waits for somebody, across all sessions, what is due soonest first.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{flow, listing, text, together, welcome};
use crate::engine::{InboxFilter, OpenRequest};
use crate::kernel::{Kind, Millis, Question, readable};
use crate::ports::Page;

/// Rows of one page.
const ROWS: usize = 50;
/// Pages that a search reads before it hands over what it found and a way to go on.
const SEARCHED_PAGES_MAX: usize = 8;
/// Rows of each of those.
const SEARCHED_ROWS: usize = 500;

/// The inbox.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let query = &visit.query;
    let filter = flow::filter(query);
    let wanted = query.given("q");
    let mut found = found(visit, &filter, wanted).await?;
    // What was put off is passed over until its time, unless somebody asks for it.
    let shows_later = query.given("later").is_some();
    let is_later = |row: &OpenRequest| visit.memory.later(&row.id(), visit.now).is_some();
    let later = found.rows.iter().filter(|row| is_later(row)).count();
    if !shows_later {
        found.rows.retain(|row| !is_later(row));
    }
    let list = flow::spelled(query);
    let chosen = found.rows.iter().filter(|row| together::can_be_chosen(visit, row)).count();
    let is_filtered = wanted.is_some()
        || filter.session.is_some()
        || filter.workflow.is_some()
        || filter.kind.is_some();
    let kept = [
        ("q", wanted),
        ("workflow", query.given("workflow")),
        ("kind", query.given("kind")),
        ("session", query.given("session")),
    ];
    let body = html! {
        div.head { h1 { "Inbox" } p.quiet { "What waits for a person, the soonest deadline first." }
            button #bell .link type="button" hidden { "Tell me on this desktop" } }
        (filters(visit))
        div #inbox data-swap {
            @if found.rows.is_empty() {
                @if is_filtered {
                    (listing::nothing("Nothing matches.", "Take a filter away to see more."))
                } @else if later > 0 {
                    (listing::nothing("Nothing else waits for you.", "What you put off comes back by itself."))
                } @else {
                    (welcome::nothing_yet(visit, "Nothing waits for you.", "New requests appear here by themselves."))
                }
            } @else {
                form method="post" action="/console/inbox/together" {
                    ul.cards data-arrows { @for row in &found.rows { (listed(visit, row, &list)) } }
                    @if chosen > 1 {
                        div.together { p.quiet { "What you have opened can be answered together, one kind at a time." }
                            button type="submit" { "Answer the chosen ones together" } }
                    }
                }
            }
            @if later > 0 && !shows_later {
                p.quiet { (text::counted(later, "request")) " put off. " a href={ "/console/inbox?later=show&" (list) } { "Show" } }
            }
            (listing::more("/console/inbox", &kept, found.next.as_ref()))
        }
    };
    Ok(View::new("Inbox", "inbox", body).respond(visit).await)
}

/// A page of requests; a search looks through a few pages to fill one.
async fn found(
    visit: &Visit,
    filter: &InboxFilter,
    wanted: Option<&str>,
) -> Result<Page<OpenRequest>, Trouble> {
    let engine = visit.engine();
    let cursor = visit.query.given("after");
    let Some(wanted) = wanted else {
        return Ok(engine.inbox(&visit.who, filter, cursor, ROWS).await?);
    };
    let wanted = wanted.to_lowercase();
    let mut rows = Vec::new();
    let mut cursor = cursor.map(str::to_owned);
    for _ in 0..SEARCHED_PAGES_MAX {
        let page = engine.inbox(&visit.who, filter, cursor.as_deref(), SEARCHED_ROWS).await?;
        rows.extend(page.rows.into_iter().filter(|row| flow::speaks_of(row, &wanted)));
        cursor = page.next;
        if cursor.is_none() || rows.len() >= ROWS {
            break;
        }
    }
    Ok(Page { rows, next: cursor })
}

fn filters(visit: &Visit) -> Markup {
    let query = &visit.query;
    let workflows: Vec<_> = visit.engine().workflows(&visit.who);
    let workflows: Vec<_> = workflows
        .iter()
        .map(|one| (one.workflow.name.clone(), one.workflow.name.clone()))
        .collect();
    let kinds: Vec<_> =
        Kind::ALL.iter().map(|kind| (kind.word().to_owned(), text::words(kind.word()))).collect();
    html! {
        form.filters role="search" method="get" action="/console/inbox" {
            div.filter.grow {
                label for="q" { "Search" }
                input #q type="search" name="q" value=[query.given("q")]
                    placeholder="Words, a workflow, a session, an id";
            }
            (listing::choice("workflow", "Workflow", "All workflows", &workflows, query.given("workflow")))
            (listing::choice("kind", "Kind", "All kinds", &kinds, query.given("kind")))
            @if let Some(session) = query.given("session") {
                input type="hidden" name="session" value=(session);
            }
            button type="submit" { "Filter" }
        }
    }
}

/// One request in the inbox: opened from here, it leads on to the next.
fn listed(visit: &Visit, row: &OpenRequest, list: &str) -> Markup {
    let choice = together::can_be_chosen(visit, row).then(|| html! {
        label.choose { input type="checkbox" name="request" value=(row.id()); span.unseen { "Choose " (text::first_words(&row.question.prompt, 60)) } }
    });
    drawn(row, visit.now, &flow::address(&row.id(), Some(list)), choice.as_ref())
}

/// One request in another list.
pub(super) fn card(row: &OpenRequest, now: Millis) -> Markup {
    drawn(row, now, &flow::address(&row.id(), None), None)
}

fn drawn(row: &OpenRequest, now: Millis, address: &str, choice: Option<&Markup>) -> Markup {
    let question = &row.question;
    html! {
        li.card {
            @if let Some(choice) = choice { (choice) }
            a.title href=(address) {
                (text::ticked(&text::first_words(&question.prompt, 160)))
            }
            @let excerpt = excerpt(question);
            @if !excerpt.is_empty() { p.excerpt { (text::shown(&excerpt)) } }
            @if !question.refused.is_empty() { p.excerpt { "refused before, in another run of its family" } }
            p.meta {
                (listing::kind(question.kind))
                @if let Some(named) = &question.named { span.type { (text::shown(&named.title)) } }
                span { (row.workflow) " · " (text::shown(&question.step)) }
                span { "asked " (text::ago(question.asked_at, now)) }
                (text::due(question, now))
                @if let Some(claim) = question.claimed(now) { span.claimed { "claimed by " (claim.by) " until " (text::time(claim.until)) } }
            }
        }
    }
}

/// What is decided, in a line: enough to tell it from its neighbours, never enough to decide on.
fn excerpt(question: &Question) -> String {
    let shown = question.shown();
    let said = match (shown.get("arguments").unwrap_or(&shown), question.decides()) {
        (Value::Null, _) | (_, false) => String::new(),
        (Value::Object(members), true) => {
            let facts = members.iter().map(|(name, value)| format!("{name}: {}", readable(value)));
            facts.collect::<Vec<_>>().join(" · ")
        }
        (other, true) => readable(other),
    };
    text::first_words(&said, 160)
}
