//! Timeline: where the time of a run went, turn by turn, with the time spent waiting for people.
//!
//! A run works for milliseconds and waits for days, so widths are compressed, stretch by stretch; the
//! figures are exact.

use std::collections::BTreeMap;

use maud::{Markup, html};

use crate::api::console::text;
use crate::kernel::graph::Opening;
use crate::kernel::{Event, Millis, Recorded, Run};

/// Rows that are drawn; a longer run shows its last ones.
const ROWS_MAX: usize = 60;
/// The drawing's width in its own units.
const WIDTH: f64 = 1_000.0;

/// One stretch of work or waiting.
#[derive(Debug, Clone, PartialEq)]
struct Bar {
    label: String,
    class: &'static str,
    from: Millis,
    /// The end; now, where there is none yet.
    to: Millis,
    is_open: bool,
}

/// The waterfall.
pub(super) fn waterfall(run: &Run, journal: &[Recorded], now: Millis) -> Markup {
    let bars = bars(journal, if run.status.is_over() { run.updated_at } else { now });
    let waited = waited(&bars);
    let skipped = bars.len().saturating_sub(ROWS_MAX);
    let shown = bars.get(skipped..).unwrap_or_default();
    let scale = Scale::of(shown);
    html! {
        p.quiet { "Waited for people for " strong { (text::length(waited)) }
            ", worked for " strong { (text::length(run.spent.wall_ms)) } "." }
        @if skipped > 0 { p.quiet { (skipped) " earlier rows are not shown." } }
        ol.waterfall {
            @for bar in shown {
                li class=(bar.class) {
                    span.label title=(bar.label) { (text::shown(&bar.label)) }
                    (drawn(bar, &scale))
                    span.figure { (text::length(bar.to.since(bar.from))) @if bar.is_open { " so far" } }
                }
            }
        }
        p.quiet.hint { "Widths are compressed; the figures are exact." }
    }
}

fn drawn(bar: &Bar, scale: &Scale) -> Markup {
    let (from, to) = (scale.at(bar.from), scale.at(bar.to));
    let width = (to - from).max(6.0);
    let from = from.min(WIDTH - width);
    html! {
        svg viewBox="0 0 1000 14" preserveAspectRatio="none" aria-hidden="true" focusable="false" {
            rect.track x="0" y="0" width="1000" height="14" {}
            rect.bar x=(format!("{from:.1}")) y="0" width=(format!("{width:.1}")) height="14" {}
        }
    }
}

fn bars(journal: &[Recorded], end: Millis) -> Vec<Bar> {
    let mut bars: Vec<Bar> = Vec::new();
    let mut open: BTreeMap<String, usize> = BTreeMap::new();
    // Turns that rest until somebody answers: nobody works meanwhile.
    let mut resting: Vec<(String, String)> = Vec::new();
    for recorded in journal {
        let at = recorded.at;
        if recorded.event == Event::Parked {
            for (key, index) in open.extract_if(.., |key, _| key.starts_with("turn")) {
                if let Some(bar) = bars.get_mut(index) {
                    (bar.to, bar.is_open) = (at, false);
                    resting.push((key, bar.label.clone()));
                }
            }
            continue;
        }
        if is_heard(&recorded.event) {
            for (key, label) in resting.drain(..) {
                open.insert(key, bars.len());
                bars.push(Bar { label, class: "work", from: at, to: end, is_open: true });
            }
        }
        if let Some((key, label, class)) = begins(&recorded.event) {
            open.insert(key, bars.len());
            bars.push(Bar { label, class, from: at, to: end, is_open: true });
        } else if let Some(key) = ends(&recorded.event)
            && let Some(bar) = open.remove(&key).and_then(|index| bars.get_mut(index))
        {
            (bar.to, bar.is_open) = (at, false);
            if is_failure(&recorded.event) {
                bar.class = "failed";
            }
        } else if is_over(&recorded.event) {
            for index in std::mem::take(&mut open).into_values() {
                if let Some(bar) = bars.get_mut(index) {
                    (bar.to, bar.is_open) = (at, false);
                }
            }
        }
    }
    bars
}

fn begins(event: &Event) -> Option<(String, String, &'static str)> {
    if let Event::StepStarted { turn, step, agent, attempt, .. } = event {
        let is_named = agent.is_empty() || step.ends_with(agent.as_str());
        let by = if is_named { String::new() } else { format!(" · {agent}") };
        let again = if *attempt > 1 { format!(" · attempt {attempt}") } else { String::new() };
        return Some((format!("turn {turn}"), format!("{}{by}{again}", tail(step)), "work"));
    }
    if let Event::ToolCalled { call, .. } = event {
        return Some((format!("call {}", call.id), format!("tool {}", call.tool), "call"));
    }
    if let Event::Asked(question) = event {
        let label = format!("waiting · {}", tail(&question.step));
        return Some((format!("question {}", question.ordinal), label, "wait"));
    }
    if let Event::StepOpened { path, opening: Opening::Wait { signal, .. } } = event {
        let what = signal.as_deref().unwrap_or("the clock");
        return Some((format!("wait {path}"), format!("waiting for {what}"), "rest"));
    }
    None
}

/// The end of a path, which tells it from its neighbours: `tasks[1]/create`.
fn tail(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(at, _)| at);
    let own = slashes.next().and_then(|at| path.get(at + 1..)).unwrap_or(path);
    let pair = slashes.next().map_or(Some(path), |at| path.get(at + 1..));
    // The list that it belongs to says which of many it is; a step's own name says the rest.
    pair.filter(|pair| pair.contains('[')).unwrap_or(own)
}

fn ends(event: &Event) -> Option<String> {
    if let Event::StepCompleted { turn, .. } | Event::StepFailed { turn, .. } = event {
        return Some(format!("turn {turn}"));
    }
    if let Event::ToolReturned { call_id, .. } = event {
        return Some(format!("call {call_id}"));
    }
    if let Event::Answered { ordinal, .. } | Event::Closed { ordinal, .. } = event {
        return Some(format!("question {ordinal}"));
    }
    if let Event::StepOutcome { path, .. } | Event::StepClosed { path, .. } = event {
        return Some(format!("wait {path}"));
    }
    None
}

fn is_failure(event: &Event) -> bool {
    matches!(event, Event::StepFailed { .. } | Event::ToolReturned { failed: true, .. })
}

fn is_heard(event: &Event) -> bool {
    matches!(event, Event::Answered { .. } | Event::Closed { .. })
}

fn is_over(event: &Event) -> bool {
    matches!(event, Event::Completed | Event::Failed(_) | Event::Cancelled { .. })
}

/// Time in which at least one question was open.
fn waited(bars: &[Bar]) -> u64 {
    let mut waits: Vec<_> =
        bars.iter().filter(|bar| bar.class == "wait").map(|bar| (bar.from, bar.to)).collect();
    waits.sort_unstable();
    let (mut sum, mut until) = (0, Millis(0));
    for (from, to) in waits {
        sum += to.since(from.max(until));
        until = until.max(to);
    }
    sum
}

/// Where a point in time lies in the drawing.
struct Scale {
    points: BTreeMap<Millis, f64>,
}

impl Scale {
    fn of(bars: &[Bar]) -> Self {
        let mut times: Vec<_> = bars.iter().flat_map(|bar| [bar.from, bar.to]).collect();
        times.sort_unstable();
        times.dedup();
        let mut points = BTreeMap::new();
        let mut x = 0.0;
        for pair in times.windows(2) {
            points.insert(pair[0], x);
            x += weight(pair[1].since(pair[0]));
        }
        if let Some(last) = times.last() {
            points.insert(*last, x);
        }
        let whole = if x > 0.0 { x } else { 1.0 };
        for at in points.values_mut() {
            *at *= WIDTH / whole;
        }
        Self { points }
    }

    fn at(&self, time: Millis) -> f64 {
        self.points.get(&time).copied().unwrap_or_default()
    }
}

/// The width of a stretch: it grows with its length, and ever more slowly.
#[expect(clippy::cast_precision_loss, reason = "a drawing")]
fn weight(ms: u64) -> f64 {
    (1.0 + ms as f64 / 20.0).ln() + 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(class: &'static str, from: u64, to: u64) -> Bar {
        Bar { label: String::new(), class, from: Millis(from), to: Millis(to), is_open: false }
    }

    #[test]
    fn time_that_several_questions_waited_for_counts_once() {
        let bars =
            [bar("wait", 10, 20), bar("wait", 15, 30), bar("work", 0, 99), bar("wait", 50, 60)];
        assert_eq!(waited(&bars), 30);
    }

    #[test]
    fn a_label_says_which_of_many_it_is() {
        assert_eq!(tail("customer"), "customer");
        assert_eq!(tail("account/select_account"), "select_account");
        assert_eq!(tail("set_up/tasks/tasks[1]/create"), "tasks[1]/create");
    }

    #[test]
    fn a_day_of_waiting_leaves_room_for_a_second_of_work() {
        let bars = [bar("work", 0, 1_000), bar("wait", 1_000, 86_400_000)];
        let scale = Scale::of(&bars);
        let work = scale.at(Millis(1_000));
        assert!(work > WIDTH / 8.0 && work < WIDTH / 2.0, "{work}");
        assert!((scale.at(Millis(86_400_000)) - WIDTH).abs() < 0.01);
    }
}
