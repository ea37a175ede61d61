//! Oversight: how decisions are made, in figures, and those that were quicker than their text could be read. For
//! whoever sees everything. It judges nobody: what the figures mean is for people to say.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text};
use crate::engine::{Ages, CHARS_PER_SECOND, Oversight, OversightSpan, Quick, Tally};
use crate::kernel::Millis;

/// Days that are looked at where nobody says.
const DAYS: u64 = 30;
/// Days that one look takes in at most.
const DAYS_MAX: u64 = 3_650;
/// What nobody reads faster than.
const SPEED_MAX: u64 = 10_000;
const DAY_MS: u64 = 86_400_000;

/// The page.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let days = number(visit, "days", DAYS, DAYS_MAX);
    let speed = number(visit, "speed", CHARS_PER_SECOND, SPEED_MAX);
    let since = Millis(visit.engine().now().0.saturating_sub(days.saturating_mul(DAY_MS)));
    let span = OversightSpan { since, chars_per_second: speed };
    let seen = visit.engine().oversight(span, &visit.who).await?;
    let body = html! {
        div.head { h1 { "Oversight" } p.quiet {
            "How decisions were made in the last " (days) " days. Figures, and no judgement of anybody. "
            a href="/console/audit" { "Who decided what" }
        } }
        (filters(days, speed))
        div #oversight data-swap {
            @if seen.is_cut { p.note { "There is more than one look takes in: these are the newest." } }
            (summary(&seen))
            (open(&seen.open))
            (tallies("By person", "Person", &seen.people))
            (tallies("By what asked", "Workflow, step, tool", &seen.rules))
            (quick(&seen.quick, speed))
            (refusals(&seen.refusals))
        }
    };
    Ok(View::new("Oversight", "audit", body).respond(visit).await)
}

fn number(visit: &Visit, name: &str, plain: u64, most: u64) -> u64 {
    let given = visit.query.given(name).and_then(|text| text.parse::<u64>().ok());
    given.filter(|number| (1..=most).contains(number)).unwrap_or(plain)
}

fn filters(days: u64, speed: u64) -> Markup {
    html! {
        form.filters role="search" method="get" action="/console/audit/oversight" {
            div.filter { label for="days" { "Days" } input #days name="days" type="number" min="1" max=(DAYS_MAX) value=(days); }
            div.filter { label for="speed" { "Characters read in a second" } input #speed name="speed" type="number" min="1" max=(SPEED_MAX) value=(speed); }
            button type="submit" { "Show" }
        }
    }
}

fn summary(seen: &Oversight) -> Markup {
    let waiting: u64 =
        seen.open.values().map(|ages| ages.hour + ages.day + ages.week + ages.older).sum();
    html! {
        dl.meanings {
            div { dt { "Decisions" } dd { (seen.all.decisions) } }
            div { dt { "Let pass as asked" } dd { (share(seen.all.passed, seen.all.decisions)) } }
            div { dt { "Let pass after an edit" } dd { (share(seen.all.edited, seen.all.decisions)) } }
            div { dt { "Refused" } dd { (share(seen.all.refused, seen.all.decisions)) } }
            div { dt { "Quicker than the text can be read" } dd { (share(seen.all.quick, seen.all.decisions)) } }
            div { dt { "From the asking to the decision, half of them" } dd { (text::length(seen.all.median_ms())) " or less" } }
            div { dt { "Nobody answered in time" } dd { (seen.expired) } }
            div { dt { "Asked and open" } dd { (waiting) } }
        }
    }
}

fn share(part: u64, of: u64) -> String {
    if of == 0 { "0".into() } else { format!("{part} ({} %)", part.saturating_mul(100) / of) }
}

fn open(open: &BTreeMap<String, Ages>) -> Markup {
    html! {
        h2 { "What is open, by age" }
        @if open.is_empty() { (listing::nothing("Nothing is open.", "What waits for somebody appears here.")) } @else {
            div.scroll tabindex="0" role="region" aria-label="What is open, by age" { table.audit {
                thead { tr { th scope="col" { "Asked of" } th scope="col" { "Within an hour" } th scope="col" { "A day" } th scope="col" { "A week" } th scope="col" { "Older" } } }
                tbody { @for (name, ages) in open {
                    tr { td { (text::shown(name)) } td { (ages.hour) } td { (ages.day) } td { (ages.week) } td { (ages.older) } }
                } }
            } }
        }
    }
}

fn tallies(title: &str, what: &str, tallies: &BTreeMap<String, Tally>) -> Markup {
    html! {
        h2 { (title) }
        @if tallies.is_empty() { (listing::nothing("No decisions here.", "Answers and votes appear here.")) } @else {
            div.scroll tabindex="0" role="region" aria-label=(title) { table.audit {
                thead { tr {
                    th scope="col" { (what) } th scope="col" { "Decisions" } th scope="col" { "As asked" } th scope="col" { "After an edit" }
                    th scope="col" { "Refused" } th scope="col" { "Quicker than reading" } th scope="col" { "Half took at most" }
                } }
                tbody { @for (name, tally) in tallies {
                    tr {
                        td.wide { (text::shown(name)) } td { (tally.decisions) } td { (share(tally.passed, tally.decisions)) }
                        td { (share(tally.edited, tally.decisions)) } td { (share(tally.refused, tally.decisions)) }
                        td { (share(tally.quick, tally.decisions)) } td { (text::length(tally.median_ms())) }
                    }
                } }
            } }
        }
    }
}

fn quick(quick: &[Quick], speed: u64) -> Markup {
    html! {
        h2 { "Quicker than the text can be read" }
        p.quiet { "At " (speed) " characters a second, of the decisions whose time on a screen is known." }
        @if quick.is_empty() { (listing::nothing("None.", "Decisions at the console, in the chat and at the terminal are timed.")) } @else {
            div.scroll tabindex="0" role="region" aria-label="Quicker than the text can be read" { table.audit {
                thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What was asked" } th scope="col" { "Shown" } } }
                tbody { @for Quick { entry, seen } in quick {
                    tr {
                        td { (text::time(entry.at)) } td { (text::shown(&entry.principal)) }
                        td.wide { @if let Some(question) = &entry.question {
                            a href={ "/console/requests/" (question.id(&entry.run)) } { (text::shown(&text::first_words(&question.prompt, 140))) }
                        } }
                        td { (seen.to_string()) }
                    }
                } }
            } }
        }
    }
}

fn refusals(refusals: &BTreeMap<String, u64>) -> Markup {
    html! {
        h2 { "Answers that were refused" }
        @if refusals.is_empty() { (listing::nothing("None.", "Answers by somebody who was not asked, to something else, too late: by code.")) } @else {
            div.scroll tabindex="0" role="region" aria-label="Answers that were refused" { table.audit {
                thead { tr { th scope="col" { "Why" } th scope="col" { "How often" } } }
                tbody { @for (code, count) in refusals { tr { td { code { (text::shown(code)) } } td { (count) } } } }
            } }
        }
    }
}
