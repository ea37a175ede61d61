//! Forks: where a run can be taken up anew, with what may run again, and the taking up.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};

use crate::api::console::page::{self, Trouble};
use crate::api::console::text;
use crate::api::console::visit::Visit;
use crate::engine::{CheckpointView, ForkRequest};
use crate::kernel::{Event, Recorded, Run};

/// Checkpoints that a page offers; older ones can be forked from the command line.
const CHECKPOINTS_MAX: usize = 20;

/// Where the run can be taken up anew, and what would run again.
pub(super) fn panel(
    run: &Run,
    journal: &[Recorded],
    all: &[CheckpointView],
    visit: &Visit,
) -> Markup {
    if all.is_empty() {
        return html! {};
    }
    html! {
        details.panel #forks {
            summary { "Fork from a checkpoint" }
            p.quiet { "A fork is a new run. It begins with everything up to the checkpoint as it was, repeats none of it, and asks its questions again." }
            ol.forks {
                @for one in all.iter().rev().take(CHECKPOINTS_MAX) {
                    li {
                        p { strong { (asked_then(one)) } " " span.quiet { (text::ago(one.at, visit.now)) } }
                        (preview(journal, one))
                        form.inline method="post" action={ "/console/runs/" (run.id) "/fork" } {
                            input type="hidden" name="checkpoint" value=(run.id.checkpoint(one.version));
                            input type="hidden" name="key" value=(visit.engine().fresh_key());
                            button type="submit" { "Fork from here" }
                        }
                    }
                }
            }
        }
    }
}

fn asked_then(one: &CheckpointView) -> Markup {
    let first = one.waiting.as_ref().and_then(|waiting| waiting.questions.first());
    html! {
        @match first {
            Some(question) => { (text::shown(&text::first_words(&question.prompt, 80))) }
            None if one.waiting.is_none() => { "Where it failed, to try that step again" }
            None => { "Version " (one.version) }
        }
    }
}

/// What came after a checkpoint, which a fork would come to again.
fn preview(journal: &[Recorded], one: &CheckpointView) -> Markup {
    if one.waiting.is_none() {
        return html! { p.quiet { "The step that failed is tried again. About what it had called, somebody is asked first." } };
    }
    let after = journal.iter().filter(|recorded| recorded.version > one.version);
    let again: Vec<_> = after
        .filter_map(|recorded| {
            if let Event::StepStarted { step, agent, attempt: 1, .. } = &recorded.event {
                return Some(format!("{agent} at {step}"));
            }
            let Event::ToolCalled { call, .. } = &recorded.event else { return None };
            Some(format!("tool {}", call.tool))
        })
        .collect();
    html! {
        @if again.is_empty() { p.quiet { "Nothing has run since." } }
        @else { p.quiet { "May run again, by what is answered: " (text::shown(&text::first_words(&again.join(", "), 300))) } }
    }
}

/// Forks a run; the fork's page comes next.
pub(super) async fn fork(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let request = ForkRequest {
        run: id.to_owned(),
        checkpoint: visit.fields.get("checkpoint").unwrap_or_default().to_owned(),
        session: String::new(),
        key: visit.fields.get("key").unwrap_or_default().to_owned(),
    };
    let begun = visit.engine().fork(request, &visit.who).await?;
    Ok(page::redirect(&format!("/console/runs/{}", begun.run)))
}
