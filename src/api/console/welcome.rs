//! Welcome: a list without rows, for somebody who may be here for the first time: with something to begin with.

use maud::{Markup, html};

use crate::api::console::text;
use crate::api::console::visit::Visit;
use crate::kernel::Act;

/// The smallest of the examples: it asks one question.
const FIRST: &str = "approve_and_send";

/// A list without rows, with a workflow to start, if there is one that they may start.
pub(super) fn nothing_yet(visit: &Visit, title: &str, words: &str) -> Markup {
    let may = visit.who.may(Act::Start, &visit.who.id).is_ok();
    let all = if may { visit.engine().workflows(&visit.who) } else { Vec::new() };
    // The smallest of the examples, where it is there.
    let example = all.iter().find(|entry| entry.workflow.name == FIRST).or_else(|| all.first());
    html! {
        div.nothing {
            p.lead { (title) }
            p.quiet { (words) }
            @if let Some(entry) = example {
                p { a.button href={ "/console/workflows/" (entry.workflow.name) } { "Start " (entry.workflow.name) } }
                p.quiet { (text::shown(&entry.workflow.description)) " " a href="/console/workflows" { "All workflows" } }
            }
        }
    }
}
