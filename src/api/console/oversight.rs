//! Oversight: how people decide, in figures: what waits and since when, how long it took, who said yes how often, and
//! what was decided quicker than it could be read. For whoever sees everything; it judges nobody.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{listing, text};
use crate::engine::{AuditEntry, Overseen};
use crate::kernel::oversight::{Figures, READ_CHARS_PER_SECOND, Share, since_asked};

/// A reader this quick reads nothing.
const CHARS_PER_SECOND_MAX: u64 = 10_000;

/// The page.
pub(super) async fn page(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let given = visit.query.given("chars_per_second").and_then(|text| text.parse().ok());
    let speed = given.filter(|speed| (1..=CHARS_PER_SECOND_MAX).contains(speed));
    let speed = speed.unwrap_or(READ_CHARS_PER_SECOND);
    let Overseen { figures, quick, refused, since } =
        visit.engine().oversee(speed, &visit.who).await?;
    let body = html! {
        div.head { h1 { "Oversight" } p.quiet {
            "How people decide: figures, and no judgement. "
            @match since {
                Some(since) => { "Of the newest runs, decisions since " (text::time(since)) ". " }
                None => { "Nobody has decided anything yet. " }
            }
            a href="/console/audit" { "Who decided what" }
        } }
        div #oversight data-swap {
            h2 { "Open" }
            (open(&figures))
            h2 { "Decided" }
            p { (took(&figures)) " Refused attempts: " (refused) "." }
            (shares("Person", &figures.people))
            (shares("Gate", &figures.gates))
            h2 { "Quicker than it could be read" }
            p.quiet {
                "At " (speed) " characters a second. What was decided sooner after the asking than it can be read is quick at any door; "
                "with more time than that, decisions at doors that do not tell what they showed are not known."
            }
            @if quick.is_empty() { (listing::nothing("None.", "Decisions made faster than their text can be read appear here.")) }
            @else { (listed(&quick)) }
        }
    };
    Ok(View::new("Oversight", "audit", body).respond(visit).await)
}

fn open(figures: &Figures) -> Markup {
    html! {
        @if figures.open.is_empty() { (listing::nothing("Nothing waits.", "What waits for people is counted here, by age.")) }
        @else { div.scroll tabindex="0" role="region" aria-label="Open" { table.audit {
            thead { tr {
                th scope="col" { "Waits for" } th scope="col" { "Within an hour" } th scope="col" { "Within a day" }
                th scope="col" { "Within a week" } th scope="col" { "Older" } th scope="col" { "Overdue" }
            } }
            tbody { @for (whom, open) in &figures.open { tr {
                td { (text::shown(whom)) }
                @for count in open.ages { td { (count) } }
                td { (open.overdue) }
            } } }
        } } }
    }
}

fn took(figures: &Figures) -> String {
    match (figures.took(50), figures.took(90)) {
        (Some(middle), Some(most)) => {
            let count = text::counted(figures.took_ms.len(), "decision");
            format!("{count}; half within {}, nine of ten within {}.", span(middle), span(most))
        }
        (_, _) => "No decisions.".into(),
    }
}

/// A time in the unit that says it best, rounded up: what took 14.2 s was not there within 14.
fn span(ms: u64) -> String {
    match ms.div_ceil(1_000) {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7_200 => format!("{} min", seconds.div_ceil(60)),
        seconds @ 7_200..172_800 => format!("{} h", seconds.div_ceil(3_600)),
        seconds => format!("{} days", seconds.div_ceil(86_400)),
    }
}

fn shares(what: &str, all: &std::collections::BTreeMap<String, Share>) -> Markup {
    html! {
        @if !all.is_empty() { div.scroll tabindex="0" role="region" aria-label=(what) { table.audit {
            thead { tr {
                th scope="col" { (what) } th scope="col" { "Yes" } th scope="col" { "No" } th scope="col" { "Share of yes" }
                th scope="col" { "Quick" } th scope="col" { "Not known" } th scope="col" { "After an edit" }
            } }
            tbody { @for (name, share) in all { tr {
                td { (text::shown(name)) }
                td { (share.yes) } td { (share.no) }
                td { (share.yes * 100 / (share.yes + share.no).max(1)) " %" }
                td { (share.quick) } td { (share.unknown) } td { (share.edited) }
            } } }
        } } }
    }
}

/// What somebody was shown, and for how long; where their door does not tell, how soon they decided what there was.
fn shown(deed: &AuditEntry) -> String {
    match (deed.known.as_ref().and_then(|known| known.seen), &deed.question) {
        (Some(seen), _) => seen.to_string(),
        (None, Some(question)) => {
            let most = since_asked(question, deed.at);
            let (seconds, tenths) = (most.ms / 1_000, most.ms % 1_000 / 100);
            format!("{} characters, {seconds}.{tenths} s after the asking", most.chars)
        }
        (None, None) => String::new(),
    }
}

fn listed(quick: &[AuditEntry]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Quick decisions" { table.audit {
            thead { tr { th scope="col" { "When" } th scope="col" { "Who" } th scope="col" { "What was asked" } th scope="col" { "Shown" } } }
            tbody { @for deed in quick { tr {
                td { (text::time(deed.at)) }
                td { (text::shown(&deed.principal)) }
                td.wide { @if let Some(question) = &deed.question {
                    a href={ "/console/requests/" (question.id(&deed.run)) } { (text::shown(&text::first_words(&question.prompt, 140))) }
                } }
                td { (shown(deed)) }
            } } }
        } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_were_made_within_no_less_than_they_took() {
        let took_ms = vec![220, 14_280, 14_890, 29_180];
        let figures = Figures { took_ms, ..Figures::default() };
        assert_eq!(took(&figures), "4 decisions; half within 15 s, nine of ten within 30 s.");
        let one = Figures { took_ms: vec![1_000], ..Figures::default() };
        assert!(took(&one).starts_with("1 decision; "), "{}", took(&one));
        assert_eq!([0, 119_000, 120_001].map(span), ["0 s", "119 s", "3 min"]);
        assert_eq!([7_200_001, 172_800_001].map(span), ["3 h", "3 days"]);
    }
}
