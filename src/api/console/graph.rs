//! Graph: the workflow's drawing, put into a page, with marks for where a run is.
//!
//! The drawing is the one that `holdpoint graph` makes. Its style goes (the page has its own, for
//! pages carry no inline style), and the boxes that a run has been at, or is at, get a class.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, PreEscaped, html};

use crate::definition::draw;
use crate::kernel::graph::{Opening, Outcome, Point};
use crate::kernel::{Event, Origin, Question, Recorded, Run, Workflow};

/// The drawing of a workflow.
pub(super) fn plain(workflow: &Workflow) -> Markup {
    framed(&stripped(&draw::svg(workflow)))
}

/// The drawing of a run's workflow, with where it has been and where it is.
pub(super) fn marked(run: &Run, journal: &[Recorded]) -> Markup {
    let been: Vec<&str> =
        journal.iter().filter_map(|recorded| been(&recorded.event)).map(own_name).collect();
    let now: BTreeSet<&str> = run.turns.values().map(|turn| own_name(&turn.step)).collect();
    let awaited = run.graph.signals_awaited();
    let awaiting = awaited.iter().map(|(path, _)| own_name(path).to_owned());
    let asking: BTreeSet<String> =
        run.questions.values().map(|question| box_of(question)).chain(awaiting).collect();
    let asking: BTreeSet<&str> = asking.iter().map(String::as_str).collect();
    let gates: BTreeSet<String> = journal.iter().filter_map(gate).collect();
    let been: BTreeSet<&str> = been.into_iter().chain(gates.iter().map(String::as_str)).collect();
    let failed = failed(journal);
    let drawing = stripped(&draw::svg(&run.workflow));
    let lines = drawing.lines().map(|line| {
        let is_in = |names: &BTreeSet<&str>| names.iter().any(|name| is_box_of(line, name));
        let class = match (is_in(&asking), is_in(&now), is_in(&failed), is_in(&been)) {
            (true, ..) => " asks-now",
            (_, true, ..) => " works-now",
            (_, _, true, _) => " failed-there",
            (.., true) => " been",
            (false, false, false, false) => return line.to_owned(),
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
    if let Event::StepOpened { path, opening: Opening::Step | Opening::Wait { .. } } = event {
        return Some(path);
    }
    None
}

/// The steps whose last word was a failure.
fn failed(journal: &[Recorded]) -> BTreeSet<&str> {
    let mut steps: BTreeMap<u32, &str> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    for recorded in journal {
        if let Event::StepStarted { turn, step, .. } = &recorded.event {
            steps.insert(*turn, own_name(step));
        } else if let Event::StepFailed { turn, .. } = &recorded.event {
            failed.extend(steps.get(turn));
        } else if let Event::StepCompleted { turn, .. } = &recorded.event
            && let Some(step) = steps.get(turn)
        {
            failed.remove(step);
        } else if let Event::StepClosed {
            path,
            outcome: Outcome::Failed(_) | Outcome::Tolerated(_),
        } = &recorded.event
        {
            failed.insert(own_name(path));
        }
    }
    failed
}

/// The box that a question stands at: a step's own, or its gate's.
fn box_of(question: &Question) -> String {
    let name = own_name(&question.step);
    match &question.origin {
        Origin::Phase(Point::Before) => format!("before {name}"),
        Origin::Phase(Point::After) => format!("after {name}"),
        Origin::Phase(Point::Review) => format!("review {name}"),
        Origin::Phase(Point::Error) => format!("{name} failed"),
        Origin::HumanStep
        | Origin::ToolCall(_)
        | Origin::UserTurn
        | Origin::Directive
        | Origin::Gate(_)
        | Origin::LostOutcome(_)
        | Origin::Budget(_) => name.to_owned(),
    }
}

/// A gate that was come to.
fn gate(recorded: &Recorded) -> Option<String> {
    let Event::Asked(question) = &recorded.event else { return None };
    Some(box_of(question))
}

/// What a step is called in the drawing: `execute`, for `control[2]/execute`.
fn own_name(path: &str) -> &str {
    let last = path.rsplit('/').next().unwrap_or(path);
    last.split('[').next().unwrap_or(last)
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
