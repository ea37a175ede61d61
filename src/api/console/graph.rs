//! Graph: the workflow's drawing, put into a page, with marks for where a run is.
//!
//! The drawing is the one that `holdpoint graph` makes. Its style goes (the page has its own, for
//! pages carry no inline style), and the boxes that a run has been at, or is at, get a class.

use std::collections::BTreeSet;

use maud::{Markup, PreEscaped, html};

use crate::definition::draw;
use crate::kernel::{Event, Recorded, Run, Workflow};

/// The drawing of a workflow.
pub(super) fn plain(workflow: &Workflow) -> Markup {
    framed(&stripped(&draw::svg(workflow)))
}

/// The drawing of a run's workflow, with where it has been and where it is.
pub(super) fn marked(run: &Run, journal: &[Recorded]) -> Markup {
    let been: BTreeSet<&str> =
        journal.iter().filter_map(|recorded| been(&recorded.event)).collect();
    let now: BTreeSet<&str> = run.turns.values().map(|turn| turn.step.as_str()).collect();
    let asking: BTreeSet<&str> =
        run.questions.values().map(|question| question.step.as_str()).collect();
    let drawing = stripped(&draw::svg(&run.workflow));
    let lines = drawing.lines().map(|line| {
        let is_in = |names: &BTreeSet<&str>| names.iter().any(|name| is_box_of(line, name));
        let class = match (is_in(&asking), is_in(&now), is_in(&been)) {
            (true, ..) => " asks-now",
            (_, true, _) => " works-now",
            (.., true) => " been",
            (false, false, false) => return line.to_owned(),
        };
        let first = ["class=\"agent", "class=\"person", "class=\"terminal"];
        first.iter().fold(line.to_owned(), |line, box_class| {
            line.replacen(box_class, &format!("{box_class}{class}"), 1)
        })
    });
    framed(&lines.collect::<Vec<_>>().join("\n"))
}

fn framed(drawing: &str) -> Markup {
    // Made by our own room, which escapes what it writes.
    html! { div.graph tabindex="0" role="region" aria-label="Drawing of the workflow" { (PreEscaped(drawing)) } }
}

fn been(event: &Event) -> Option<&str> {
    if let Event::StepStarted { step, .. } = event {
        return Some(step);
    }
    if let Event::Asked(question) = event {
        return Some(&question.step);
    }
    None
}

/// Whether a line of the drawing is the box of that name.
fn is_box_of(line: &str, name: &str) -> bool {
    let is_box = line.starts_with("<rect class=") || line.starts_with("<path class=\"person");
    is_box && line.contains(&format!(">{name}</text>"))
}

/// Without the style and the background, which are the page's.
fn stripped(drawing: &str) -> String {
    let before = drawing.split("<style>").next().unwrap_or_default();
    let after = drawing.split_once("</style>").map_or("", |(_, after)| after);
    let whole = if after.is_empty() { drawing.to_owned() } else { format!("{before}{after}") };
    whole.replace("<rect class=\"back\" width=\"100%\" height=\"100%\"/>", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::shipped;

    #[test]
    fn a_drawing_in_a_page_has_no_style_of_its_own_and_all_its_boxes() {
        for loaded in shipped() {
            let drawing = plain(&loaded.workflow).into_string();
            assert!(!drawing.contains("<style") && !drawing.contains("style=\""), "{drawing}");
            assert!(!drawing.contains("class=\"back\""), "{drawing}");
            let lines = stripped(&draw::svg(&loaded.workflow));
            for (step, _) in loaded.workflow.step_ids() {
                assert!(lines.lines().any(|line| is_box_of(line, &step)), "{step}: {lines}");
            }
        }
    }
}
