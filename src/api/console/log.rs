//! Log: what the store has noted that belongs to no run: refused answers and keys, changes of keys and
//! policy, forks, exports, starts and stops. For whoever sees everything; newest first.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text};
use crate::engine::AuditFilter;
use crate::ports::Logged;

/// Entries on one page.
const ENTRIES: i32 = 100;

/// The page.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let by = visit.query.given("by");
    let filter = AuditFilter { principal: by.map(str::to_owned), ..AuditFilter::default() };
    let after = visit.query.given("after").unwrap_or_default();
    let page = visit.engine().log(&filter, after, ENTRIES, &visit.who).await?;
    let body = html! {
        div.head { h1 { "The store's own log" } p.quiet {
            "What belongs to no run, or changes none, newest first. "
            a href="/console/audit" { "Who decided what" }
        } }
        div #audit data-swap {
            @if page.rows.is_empty() {
                (listing::nothing("Nothing was noted.", "Refused answers and keys, changed keys, exports and starts appear here."))
            } @else { (table(&page.rows)) }
            (listing::more("/console/audit/store", &[("by", by)], page.next.as_ref()))
        }
    };
    Ok(View::new("Store log", "audit", body).respond(visit).await)
}

fn table(entries: &[Logged]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="The store's own log" { table.audit {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What" }
                th scope="col" { "More" } th scope="col" { "How often" }
            } }
            tbody { @for entry in entries {
                @let (who, door) = entry.note.who();
                tr {
                    td { (text::time(entry.last)) }
                    td {
                        (text::shown(who)) @if !door.is_empty() { div.quiet { "by " (door) } }
                        @if let Some(known) = entry.note.known() {
                            div.quiet { (text::shown(&format!("{}, {}", known.assurance.word(), known.credential))) }
                        }
                    }
                    td { (entry.note.action()) }
                    td.wide { (text::shown(&entry.note.words())) }
                    td { (entry.count) }
                }
            } }
        } }
    }
}
