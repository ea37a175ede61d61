//! Audit: who was asked what, who decided what, when, and through which door. Read from the journals
//! themselves, run by run, newest run first; nothing here is a copy that could differ.

use std::collections::BTreeSet;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text, value};
use crate::api::receipts;
use crate::engine::{AuditEntry, AuditFilter};
use crate::kernel::{RunId, Version};

/// Entries on a page, about: a run's own stay together.
const ENTRIES: i32 = 100;

/// The page: decisions of all runs, or of one; to whoever is asked in others' runs, what they said there too.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let query = &visit.query;
    let by = query.given("by");
    let filter = AuditFilter { run: query.given("run").map(str::to_owned), ..Default::default() };
    let after = query.given("after").unwrap_or_default();
    let page = visit.engine().audit(&filter, after, ENTRIES, &visit.who).await?;
    let mut deeds = page.rows;
    deeds.retain(|deed| decision(deed).is_some() && by.is_none_or(|by| deed.principal == by));
    deeds.sort_by_key(|deed| std::cmp::Reverse(deed.at));
    let mut seen = BTreeSet::new();
    for run in deeds.iter().map(|deed| deed.run.clone()).collect::<BTreeSet<_>>() {
        if visit.engine().head(run.as_str(), &visit.who).await.is_ok() {
            seen.insert(run);
        }
    }
    let kept = [("by", by)];
    let body = html! {
        div.head { h1 { "Audit" } p.quiet {
            "Who decided what. Read from the journals, the newest runs first."
            @if visit.who.sees_store() { " " a href="/console/audit/store" { "The store's own log" } " · " a href="/console/oversight" { "Oversight" } " · " a href="/console/replicas" { "Replicas" } }
        } }
        (filters(visit))
        div #audit data-swap {
            @if deeds.is_empty() {
                (listing::nothing("No decisions here.", "Answers, votes, claims, withdrawals, cancels and deadlines appear here."))
            } @else { (table(&deeds, &seen)) }
            (listing::more("/console/audit", &kept, page.next.as_ref()))
        }
    };
    Ok(View::new("Audit", "audit", body).respond(visit).await)
}

fn filters(visit: &Visit) -> Markup {
    let query = &visit.query;
    html! {
        form.filters role="search" method="get" action="/console/audit" {
            div.filter { label for="by" { "Person" } input #by name="by" type="text" value=[query.given("by")] autocomplete="off"; }
            div.filter.grow { label for="run-id" { "Run" } input #run-id name="run" type="text" value=[query.given("run")] placeholder="run_…" autocomplete="off"; }
            button type="submit" { "Filter" }
        }
    }
}

fn table(deeds: &[AuditEntry], seen: &BTreeSet<RunId>) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Decisions" { table.audit {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What was asked" }
                th scope="col" { "What was decided" } th scope="col" { "Run" }
            } }
            tbody { @for deed in deeds {
                tr {
                    td { (text::time(deed.at)) }
                    td { (text::shown(&deed.principal)) @if !deed.door.is_empty() { div.quiet { "by " (deed.door) } } @if let Some(known) = known(deed) { div.quiet { (text::shown(&known)) } } }
                    td.wide { @match &deed.question {
                        Some(question) => { a href={ "/console/requests/" (question.id(&deed.run)) } { (text::shown(&text::first_words(&question.prompt, 140))) } }
                        None => { span.quiet { "no question" } }
                    } }
                    td.wide {
                        @if let Some(decision) = decision(deed) { (decision) }
                        @if is_proven(deed) && seen.contains(&deed.run) {
                            div { a.quiet href={ "/console/runs/" (deed.run) "/receipts/" (deed.sequence) } download={ "receipt-" (deed.run) "-" (deed.sequence) ".json" } { "receipt" } }
                        }
                    }
                    td {
                        @if seen.contains(&deed.run) { a href={ "/console/runs/" (deed.run) } title=(deed.run) { (deed.workflow) } }
                        @else { span title=(deed.run) { (deed.workflow) } }
                    }
                }
            } }
        } }
    }
}

/// Whether it has a leaf in the log of decisions. Every answer has one, in words or by a choice: `verify` counts them all.
fn is_proven(deed: &AuditEntry) -> bool {
    matches!(
        deed.action,
        "answered"
            | "voted"
            | "expired"
            | "passed"
            | "withdrawn"
            | "moot"
            | "grant_revoked"
            | "cancelled"
    )
}

/// What a decision can be proven by, as a file.
pub(super) async fn receipt(
    visit: &Visit,
    run: &str,
    sequence: &str,
) -> Result<Response<Body>, Trouble> {
    let sequence = sequence.parse().map_err(|_| Trouble::Nothing)?;
    handed_out(visit, run, sequence).await
}

/// The same of a place in a journal.
pub(super) async fn handed_out(
    visit: &Visit,
    run: &str,
    sequence: Version,
) -> Result<Response<Body>, Trouble> {
    let receipt = visit.engine().receipt(run, sequence, "", &visit.who).await?;
    let text = format!("{:#}\n", receipts::json(&receipt));
    let mut response = Response::new(Body::from(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// How whoever spoke was known, in words.
fn known(deed: &AuditEntry) -> Option<String> {
    let known = deed.known.as_ref()?;
    let seen = known.seen.map(|seen| format!("; {seen}")).unwrap_or_default();
    Some(format!("{}, {}{seen}", known.assurance.word(), known.credential))
}

/// What somebody decided, or what silence did; nothing, where an entry tells of something else.
fn decision(deed: &AuditEntry) -> Option<Markup> {
    let note = html! { @if !deed.note.is_empty() { div.quiet { (text::shown(&deed.note)) } } };
    let said = || html! { @if let Some(value) = &deed.value { (value::answer(value)) } };
    Some(match deed.action {
        "answered" => html! { (said()) (note) },
        "voted" => html! { (said()) div.quiet { "a vote; others were needed as well" } (note) },
        "claimed" => html! { "looks at it" },
        "released" => html! { "no longer looks at it" },
        "delegated" => html! { "handed their place over" (note) },
        "taken_back" => html! { "took their place back" },
        "expired" => html! { "nobody answered in time: no" },
        "passed" => html! { "nobody answered in time: the run went on" },
        "withdrawn" => html! { "the question was taken back" },
        "moot" => html! { "the step that asked was stopped" },
        "grant_revoked" => html! { "no longer allowed: " code { (text::shown(&deed.note)) } },
        "cancelled" => html! { "the run was cancelled" (note) },
        _ => return None,
    })
}
