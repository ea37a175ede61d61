//! Run: one execution, looked at whole: why it stands where it stands, the drawing, the time, what
//! was said, and what can be done about it.

use axum::body::Body;
use axum::http::Response;
use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::page::{self, Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{conversation, forks, graph, listing, text, timeline, tree, value};
use crate::kernel::{Event, Halt, Halts, Millis, Recorded, Run, Status, halt};
use crate::ports::Head;

/// Events that a page looks back on; the rest is in the journal.
const JOURNAL_MAX: u32 = 5_000;

/// The page of a run.
pub(super) async fn page(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let view = visit.engine().run(id, &visit.who).await?;
    let (run, head) = (&view.run, &view.head);
    let journal = visit.engine().journal(id, JOURNAL_MAX, &visit.who).await?;
    let checkpoints = visit.engine().checkpoints(id, &visit.who).await?;
    let driver = visit.engine().driver(id, &visit.who).await?;
    let is_cut = u64::from(JOURNAL_MAX) < run.version;
    let body = html! {
        nav.trail aria-label="Trail" { a href="/console/runs" { "Runs" } " / " span.mono { (run.id) } }
        div #run data-swap {
            div.summary {
                div.head { h1 { (run.workflow.name) " " (listing::status(&head.status)) } a.button.jump href="#now" { "Jump to now" } }
                p.why { (why(run, &visit.engine().halts(), visit.now)) @if let Some(driver) = &driver { " Driven by " strong { (text::shown(driver)) } "." } }
            }
            @if is_cut { p.notice { "Only the last " (JOURNAL_MAX) " events are shown." } }
            div.split.wide {
                div {
                    section.panel aria-label="Conversation" { h2 { "Conversation" } (conversation::feed(run, &journal)) (ending(run, &journal)) }
                    (events(run, visit))
                }
                div {
                    section.panel aria-label="Drawing" { h2 { "Where it is" } (graph::marked(run, &journal)) (legend()) }
                    section.panel aria-label="Timeline" { h2 { "Where the time went" } (timeline::waterfall(run, &journal, visit.now)) }
                    (facts(run, head, visit.now))
                    (grants(run, visit))
                    (rules(run))
                    (forks::panel(run, &journal, &checkpoints, visit))
                    (stop(run, visit))
                }
            }
        }
    };
    let live = format!("/console/runs/{}/live?after={}", run.id, run.version);
    Ok(View::new(run.workflow.name.clone(), "runs", body).live(live).respond(visit).await)
}

/// One sentence that says why it is not moving, or that it is.
fn why(run: &Run, halts: &Halts, now: Millis) -> Markup {
    let stops = halt::standing(halts, run).into_iter().next();
    match &run.status {
        Status::Waiting { since } if run.questions.is_empty() => html! {
            (awaiting(run, *since, now))
            @if let Some(halt) = stops { " " (stands(halt, now)) }
        },
        Status::Waiting { since } => {
            let count = run.questions.len();
            let first = run.questions.values().next();
            html! {
                "It waits for a person, asked " (text::ago(*since, now)) ": "
                @if let Some(first) = first {
                    a href={ "/console/requests/" (run.request(first.ordinal)) } {
                        (text::ticked(&text::first_words(&first.prompt, 120)))
                    }
                }
                @if count > 1 { " and " (count - 1) " more" }
                @if let Some(halt) = stops { ". " (stands(halt, now)) }
            }
        }
        Status::Running => stops.map_or_else(|| running(run, now), |halt| stands(halt, now)),
        Status::Completed => html! { "It was completed " (text::ago(run.updated_at, now)) "." },
        Status::Failed(failure) => {
            html! { "It failed " (text::ago(run.updated_at, now)) ": " (text::shown(&failure.message)) " " code { (failure.code) } }
        }
        Status::Cancelled { by } => {
            html! { (by) " cancelled it " (text::ago(run.updated_at, now)) "." }
        }
    }
}

/// It waits, and asks nobody: for an event from outside, or for the clock.
fn awaiting(run: &Run, since: Millis, now: Millis) -> Markup {
    let awaited = run.graph.signals_awaited();
    html! {
        @if awaited.is_empty() { "It waits for the clock" } @else {
            "It asks nobody: it waits for " @for (index, (_, name)) in awaited.iter().enumerate() {
                @if index > 0 { ", " } "the event " code { (text::shown(name)) }
            }
        }
        ", since " (text::ago(since, now)) "."
        @if let Some(at) = run.wake_at() { " If nothing comes, it goes on: " (text::deadline(at, now)) "." }
    }
}

/// Events that the run waits for, to be sent from here.
fn events(run: &Run, visit: &Visit) -> Markup {
    let awaited = run.graph.signals_awaited();
    if awaited.is_empty() {
        return html! {};
    }
    html! {
        section.panel.outlook #events aria-label="Events" {
            h2 { "Events that it waits for" }
            @for (index, (path, name)) in awaited.iter().enumerate() {
                form method="post" action={ "/console/runs/" (run.id) "/signal" } {
                    input type="hidden" name="key" value=(visit.engine().fresh_key());
                    input type="hidden" name="name" value=(name);
                    div.field {
                        label for={ "payload-" (index) } { "What came with it" span.optional { " optional; text or JSON" } }
                        textarea.code id={ "payload-" (index) } name="payload" rows="1" spellcheck="false" {}
                        p.hint { "Step " (text::shown(path)) " goes on with it." }
                    }
                    button.primary type="submit" { span { "Send " code { (text::shown(name)) } } }
                }
            }
        }
    }
}

/// That a halt stands in its way.
fn stands(halt: &Halt, now: Millis) -> Markup {
    html! {
        "It stands: " (text::ticked(&halt.scope.words())) " is halted by " strong { (text::shown(&halt.by)) } ", " (text::ago(halt.at, now)) ": " (text::shown(&halt.reason)) "."
    }
}

fn running(run: &Run, now: Millis) -> Markup {
    let retry = run.turns.values().find_map(|turn| Some((turn, turn.retry_at?)));
    html! {
        @if let Some((turn, at)) = retry {
            "Step " strong { (turn.step) } " failed and is tried again " (text::deadline(at, now)) "."
        } @else if let Some(turn) = run.turns.values().next() {
            "It is working: " @if turn.is_tools() { "it" } @else { strong { (turn.agent) } } " is at step " strong { (turn.step) }
            @if let Some(open) = turn.calls.first() { ", calling " code { (text::shown(&open.call.tool)) } } "."
        } @else { "It is working." }
    }
}

fn legend() -> Markup {
    html! {
        p.legend aria-hidden="true" {
            span.key.asks-now { "waits for a person" } span.key.works-now { "working" } span.key.been { "has been there" } span.key.failed-there { "failed there" }
        }
    }
}

/// The result, at the foot of the conversation.
fn ending(run: &Run, journal: &[Recorded]) -> Markup {
    let cancelled = journal.iter().rev().find_map(|recorded| {
        let Event::Cancelled { by, reason, .. } = &recorded.event else { return None };
        Some((by, reason))
    });
    html! {
        @if let Some(output) = &run.output { div.output { h3 { "Result" }
            @if conversation::is_said(output) {
                details #result { summary { "The conversation above, without tool traffic" } (tree::tree(output)) }
            } @else { (value::value(output)) }
        } }
        @if let Status::Failed(failure) = &run.status {
            div.output.bad { h3 { "Failed" } p.prose { (text::shown(&failure.message)) } }
        }
        @if let Some((by, reason)) = cancelled {
            div.output.bad { h3 { "Cancelled by " (by) } @if !reason.is_empty() { p.prose { (text::shown(reason)) } } }
        }
    }
}

fn facts(run: &Run, head: &Head, now: Millis) -> Markup {
    let spent = run.spent;
    html! {
        section.panel aria-label="Facts" {
            h2 { "Facts" }
            dl.facts {
                div { dt { "Started" } dd { (text::time(run.started_at)) } }
                div { dt { "Last change" } dd { (text::ago(run.updated_at, now)) } }
                div { dt { "Owner" } dd { (run.owner) } }
                div { dt { "Session" } dd.mono { a href={ "/console/sessions/" (listing::encoded(run.session.as_str())) } { (text::shown(run.session.as_str())) } } }
                div { dt { "Workflow" } dd { a href={ "/console/workflows/" (run.workflow.name) } { (run.workflow.name) } " " span.mono.quiet { (text::short(&run.definition)) } } }
                @if let Some((from, version)) = &run.forked_from {
                    div { dt { "Forked from" } dd.mono { a href={ "/console/runs/" (from) } { (text::short(from.as_str())) } " at " (version) } }
                }
                div { dt { "Steps" } dd { (spent.steps) } }
                div { dt { "Model calls" } dd { (spent.model_calls) } }
                div { dt { "Tool calls" } dd { (spent.tool_calls) } }
                div { dt { "Tokens" } dd { (run.usage.input_tokens) " read, " (run.usage.output_tokens) " written" } }
                div { dt { "Events" } dd { (head.version) } }
                @for (name, value) in &run.metadata { div { dt { (text::shown(name)) } dd { (text::shown(value)) } } }
            }
        }
    }
}

/// The gates that are in force, each with where it is from; those that were lifted are told of as well.
fn rules(run: &Run) -> Markup {
    let rules = run.rules_in_force();
    if rules.is_empty() {
        return html! {};
    }
    html! {
        section.panel aria-label="Gates in force" {
            h2 { "Gates in force" }
            ul.plain { @for rule in &rules {
                li {
                    code { (text::shown(&rule.gate)) } " "
                    @if rule.is_lifted { "lifted by " } @else { "from " }
                    (text::shown(&rule.from)) ": " (text::shown(&rule.means))
                }
            } }
        }
    }
}

fn grants(run: &Run, visit: &Visit) -> Markup {
    if run.grants.is_empty() {
        return html! {};
    }
    html! {
        section.panel aria-label="Allowed tools" {
            h2 { "Allowed for the rest of the run" }
            ul.plain { @for grant in &run.grants {
                li {
                    (text::ticked(&grant.words())) ", by " (grant.by) ", "
                    @match grant.until {
                        Some(until) if grant.stands(visit.now) => { "until " (text::time(until)) }
                        Some(until) => { "over since " (text::time(until)) }
                        None => { "until the run is over" }
                    } " "
                    @if !run.status.is_over() {
                        form.inline method="post" action={ "/console/runs/" (run.id) "/revoke" } {
                            input type="hidden" name="key" value=(visit.engine().fresh_key());
                            input type="hidden" name="tool" value=(grant.tool);
                            button type="submit" { "Take it back" }
                        }
                    }
                }
            } }
        }
    }
}

fn stop(run: &Run, visit: &Visit) -> Markup {
    if run.status.is_over() {
        return html! {};
    }
    html! {
        details.panel #stop {
            summary { "Cancel this run" }
            form method="post" action={ "/console/runs/" (run.id) "/cancel" } {
                input type="hidden" name="key" value=(visit.engine().fresh_key());
                div.field {
                    label for="reason" { "Why" span.optional { " optional" } }
                    input #reason name="reason" type="text" maxlength="1000";
                }
                p.quiet { "Its open questions close, and nothing more is done. What was done stays done." }
                button.danger type="submit" { "Cancel the run" }
            }
        }
    }
}

/// Stops a run.
pub(super) async fn cancel(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let reason = visit.fields.given("reason").unwrap_or_default();
    let key = visit.fields.get("key").unwrap_or_default();
    visit.engine().cancel(id, reason, key, &visit.who).await?;
    Ok(page::redirect(&format!("/console/runs/{id}")))
}

/// Brings an event that the run waits for.
pub(super) async fn signal(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let name = visit.fields.get("name").unwrap_or_default();
    let text = visit.fields.given("payload").unwrap_or("null");
    let payload = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
    let key = visit.fields.get("key").unwrap_or_default();
    visit.engine().signal(id, (name, payload), key, &visit.who).await?;
    Ok(page::redirect(&format!("/console/runs/{id}")))
}

/// Takes back that a tool was allowed.
pub(super) async fn revoke(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let tool = visit.fields.get("tool").unwrap_or_default();
    let key = visit.fields.get("key").unwrap_or_default();
    visit.engine().revoke(id, tool, key, &visit.who).await?;
    Ok(page::redirect(&format!("/console/runs/{id}")))
}
