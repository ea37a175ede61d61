//! Listing: what the lists share: the mark of a status, the way to a session, a page's end, a filter's fields.

use maud::{Markup, html};

use crate::api::console::text;
use crate::kernel::{Kind, Millis};
use crate::ports::{Head, HeadStatus};

/// Rows of one page: what fits on a screen or two.
pub(super) const ROWS: i32 = 50;

/// A status as a mark: a word and a shape, never a colour alone.
pub(super) fn status(status: &HeadStatus) -> Markup {
    let (class, word) = match status {
        HeadStatus::Running => ("running", "Running"),
        HeadStatus::Waiting(_) => ("waiting", "Waiting"),
        HeadStatus::Completed => ("completed", "Completed"),
        HeadStatus::Failed(_) => ("failed", "Failed"),
        HeadStatus::Cancelled(_) => ("cancelled", "Cancelled"),
    };
    html! { span class={ "pill " (class) } { (word) } }
}

/// A kind of request as a mark.
pub(super) fn kind(kind: Kind) -> Markup {
    html! { span.kind { (text::words(kind.word())) } }
}

/// One row of a list of runs.
pub(super) fn run_row(head: &Head, now: Millis) -> Markup {
    html! {
        tr {
            td { (status(&head.status)) }
            td.wide {
                a href={ "/console/runs/" (head.run) } { (head.workflow) }
                @if let HeadStatus::Failed(failure) = &head.status {
                    div.quiet.cut { (text::shown(&text::first_words(&failure.message, 100))) }
                }
                @if let Some(question) = head.questions.first() {
                    div.quiet.cut { (text::ticked(&text::first_words(&question.prompt, 100))) }
                }
            }
            td { a.mono href={ "/console/runs/" (head.run) } title=(head.run) { (text::short(head.run.as_str())) } }
            td { a.mono href={ "/console/sessions/" (encoded(head.session.as_str())) } title=(head.session) { (text::shown(&text::short(head.session.as_str()))) } }
            td { (head.owner) }
            td { (text::ago(head.updated_at, now)) }
        }
    }
}

/// A session's id as a part of a path: a caller may have brought any visible character.
pub(super) fn encoded(id: &str) -> String {
    percent_encoding::utf8_percent_encode(id, percent_encoding::NON_ALPHANUMERIC).to_string()
}

/// A table of runs.
pub(super) fn runs(heads: &[Head], now: Millis) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Runs" {
            table {
                thead { tr {
                    th scope="col" { "Status" } th scope="col" { "Workflow" } th scope="col" { "Run" }
                    th scope="col" { "Session" } th scope="col" { "Owner" } th scope="col" { "Changed" }
                } }
                tbody { @for head in heads { (run_row(head, now)) } }
            }
        }
    }
}

/// The way to the next page, if there is one.
pub(super) fn more(path: &str, kept: &[(&str, Option<&str>)], next: Option<&String>) -> Markup {
    let Some(next) = next else { return html! {} };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for (name, value) in kept {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    query.append_pair("after", next);
    html! { p.more { a.button href={ (path) "?" (query.finish()) } rel="next" { "Show more" } } }
}

/// A choice among a filter's fields.
pub(super) fn choice(
    name: &str,
    label: &str,
    all: &str,
    options: &[(String, String)],
    chosen: Option<&str>,
) -> Markup {
    html! {
        div.filter {
            label for={ "filter-" (name) } { (label) }
            select id={ "filter-" (name) } name=(name) {
                option value="" { (all) }
                @for (value, word) in options {
                    option value=(value) selected[chosen == Some(value)] { (word) }
                }
            }
        }
    }
}

/// A list without rows.
pub(super) fn nothing(title: &str, words: &str) -> Markup {
    html! { div.nothing { p.lead { (title) } p.quiet { (words) } } }
}
