//! Audit: who was asked what, who decided what, when, and through which door. Read from the journals
//! themselves, run by run, newest run first; nothing here is a copy that could differ.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text, value};
use crate::kernel::{
    Claimed, Closing, Delegated, Event, Millis, Question, Recorded, RequestId, RunId, Started,
};
use crate::ports::{Head, RunFilter};

/// Runs whose journals one page reads.
const RUNS: i32 = 25;
/// Events read of each.
const JOURNAL_MAX: u32 = 5_000;

/// Something that somebody decided.
struct Deed {
    at: Millis,
    run: RunId,
    workflow: String,
    /// The question, where it is known.
    asked: Option<(RequestId, Question)>,
    by: String,
    door: String,
    /// How they were known, where that is kept.
    known: String,
    what: What,
}

enum What {
    Answered(Value),
    Voted(Value),
    /// Looks at it, or no longer.
    Claimed(bool),
    /// Handed a place to somebody, or took it back.
    Delegated(Option<String>),
    Closed(Closing),
    Revoked(String),
    Cancelled(String),
}

/// The page: decisions of all runs, or of one.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let query = &visit.query;
    let (heads, next) = if let Some(run) = query.given("run") {
        (vec![visit.engine().head(run, &visit.who).await?], None)
    } else {
        let after = query.given("after").unwrap_or_default();
        let page = visit.engine().runs(RunFilter::default(), after, RUNS, &visit.who).await?;
        (page.rows, page.next)
    };
    let by = query.given("by");
    let mut deeds = Vec::new();
    for head in &heads {
        let journal = visit.engine().journal(head.run.as_str(), JOURNAL_MAX, &visit.who).await?;
        deeds.extend(of_run(head, &journal));
    }
    deeds.retain(|deed| by.is_none_or(|by| deed.by == by));
    deeds.sort_by_key(|deed| std::cmp::Reverse(deed.at));
    let kept = [("by", by)];
    let body = html! {
        div.head { h1 { "Audit" } p.quiet {
            "Who decided what. Read from the journals, the newest runs first."
            @if visit.who.sees_store() { " " a href="/console/audit/store" { "The store's own log" } }
        } }
        (filters(visit))
        div #audit data-swap {
            @if deeds.is_empty() {
                (listing::nothing("No decisions here.", "Answers, votes, claims, withdrawals, cancels and deadlines appear here."))
            } @else { (table(&deeds)) }
            (listing::more("/console/audit", &kept, next.as_ref()))
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

fn of_run(head: &Head, journal: &[Recorded]) -> Vec<Deed> {
    let mut asked: BTreeMap<u32, Question> = BTreeMap::new();
    let mut founded: Option<Box<Started>> = None;
    let mut deeds = Vec::new();
    for recorded in journal {
        if let Some(started) = &mut founded {
            started.renew(&recorded.event);
        }
        match (&recorded.event, &founded) {
            (Event::Started(started), _) => founded = Some(started.clone()),
            (Event::Asked(question), Some(started)) => {
                let sealed = started.sealed(&head.run, question, recorded.at);
                asked.insert(question.ordinal, sealed);
            }
            (_, _) => {}
        }
        let Some((ordinal, by, door, what)) = decided(&recorded.event) else { continue };
        let question = ordinal.and_then(|ordinal| Some((ordinal, asked.get(&ordinal)?)));
        deeds.push(Deed {
            at: recorded.at,
            run: head.run.clone(),
            workflow: head.workflow.clone(),
            asked: question.map(|(_, question)| (question.id(&head.run), question.clone())),
            by: by.to_owned(),
            door: door.to_owned(),
            known: known_of(&recorded.event),
            what,
        });
    }
    deeds
}

/// How whoever answered was known, in words.
fn known_of(event: &Event) -> String {
    if let Event::Answered { known: Some(known), .. } | Event::Voted { known: Some(known), .. } =
        event
    {
        let seen = known.seen.map(|seen| format!("; {seen}")).unwrap_or_default();
        return format!("{}, {}{seen}", known.assurance.word(), known.credential);
    }
    String::new()
}

fn decided(event: &Event) -> Option<(Option<u32>, &str, &str, What)> {
    if let Event::Answered { ordinal, value, by, door, .. } = event {
        return Some((Some(*ordinal), by, door, What::Answered(value.clone())));
    }
    if let Event::Voted { ordinal, value, by, door, .. } = event {
        return Some((Some(*ordinal), by, door, What::Voted(value.clone())));
    }
    if let Event::Claimed(Claimed { ordinal, by, door, span, .. }) = event {
        return Some((Some(*ordinal), by, door, What::Claimed(span.is_some())));
    }
    if let Event::Delegated(Delegated { ordinal, by, door, to, .. }) = event {
        let to = to.as_ref().map(|to| to.who.clone());
        return Some((Some(*ordinal), by, door, What::Delegated(to)));
    }
    if let Event::Closed { ordinal, closing, by, .. } = event {
        return Some((Some(*ordinal), by, "", What::Closed(*closing)));
    }
    if let Event::Revoked { tool, by, .. } = event {
        return Some((None, by, "", What::Revoked(tool.clone())));
    }
    if let Event::Cancelled { by, reason, .. } = event {
        return Some((None, by, "", What::Cancelled(reason.clone())));
    }
    None
}

fn table(deeds: &[Deed]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Decisions" { table.audit {
            thead { tr {
                th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What was asked" }
                th scope="col" { "What was decided" } th scope="col" { "Run" }
            } }
            tbody { @for deed in deeds {
                tr {
                    td { (text::time(deed.at)) }
                    td { (text::shown(&deed.by)) @if !deed.door.is_empty() { div.quiet { "by " (deed.door) } } @if !deed.known.is_empty() { div.quiet { (text::shown(&deed.known)) } } }
                    td.wide { @match &deed.asked {
                        Some((id, question)) => { a href={ "/console/requests/" (id) } { (text::shown(&text::first_words(&question.prompt, 140))) } }
                        None => { span.quiet { "no question" } }
                    } }
                    td.wide { (decision(&deed.what)) }
                    td { a href={ "/console/runs/" (deed.run) } title=(deed.run) { (deed.workflow) } }
                }
            } }
        } }
    }
}

fn decision(what: &What) -> Markup {
    match what {
        What::Answered(value) => value::answer(value),
        What::Voted(value) => {
            html! { (value::answer(value)) div.quiet { "a vote; others were needed as well" } }
        }
        What::Claimed(true) => html! { "looks at it" },
        What::Claimed(false) => html! { "no longer looks at it" },
        What::Delegated(Some(to)) => html! { "handed their place to " (text::shown(to)) },
        What::Delegated(None) => html! { "took their place back" },
        What::Closed(Closing::Rejected) => html! { "nobody answered in time: no" },
        What::Closed(Closing::Passed) => html! { "nobody answered in time: the run went on" },
        What::Closed(Closing::Withdrawn) => html! { "the question was taken back" },
        What::Closed(Closing::Moot) => html! { "the step that asked was stopped" },
        What::Revoked(tool) => html! { "no longer allowed: " code { (text::shown(tool)) } },
        What::Cancelled(reason) => {
            html! { "the run was cancelled" @if !reason.is_empty() { ": " (text::shown(reason)) } }
        }
    }
}
