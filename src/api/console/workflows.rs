//! Workflows: what can be started, how it goes, and the form that starts it.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use maud::{Markup, html};
use serde_json::{Value, json};

use crate::api::console::form::{self, Complaints, ROOT, Sheet};
use crate::api::console::page::{self, Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{graph, text};
use crate::engine::{EngineError, Entry, StartRequest};
use crate::kernel::Refusal;

/// The list of workflows.
pub(super) async fn list(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let all = visit.engine().workflows(&visit.who);
    let body = html! {
        div.head { h1 { "Workflows" } p.quiet { "What can be started here." } }
        (broken(visit))
        ul.cards data-arrows { @for entry in &all {
            li.card {
                a.title href={ "/console/workflows/" (entry.workflow.name) } { (entry.workflow.name) }
                p { (text::shown(&entry.workflow.description)) }
                p.meta {
                    span { (text::counted(entry.workflow.agents.len(), "agent")) }
                    @if !entry.workflow.tools.is_empty() { span { (text::counted(entry.workflow.tools.len(), "tool")) } }
                    @if !entry.workflow.gates.is_empty() { span { (text::counted(entry.workflow.gates.len(), "gate")) } }
                    span.mono { (text::short(&entry.digest)) }
                    (since(visit, &entry.workflow.name))
                }
            }
        } }
    };
    let live = "/console/live/workflows".into();
    Ok(View::new("Workflows", "workflows", body).live(live).respond(visit).await)
}

/// Files that cannot be used as they are, with what is wrong with them.
fn broken(visit: &Visit) -> Markup {
    let broken = visit.engine().library().broken();
    let mine: Vec<_> = broken.iter().filter(|one| visit.who.covers(&one.workflow)).collect();
    html! {
        @if !mine.is_empty() {
            section.panel.broken role="alert" aria-label="Broken files" {
                h2 { (text::counted(mine.len(), "file")) " cannot be used" }
                @for one in mine {
                    h3 { code { (text::shown(&one.file)) } }
                    p {
                        @if one.has_earlier {
                            "Its earlier version is in force: runs begin with it until the file is mended."
                        } @else {
                            "It cannot be started until the file is mended."
                        }
                    }
                    pre.code tabindex="0" { (text::shown(&one.why)) }
                }
            }
        }
    }
}

/// Since when the file is the one in force, where it changed while the server ran.
fn since(visit: &Visit, name: &str) -> Markup {
    let since = visit.engine().library().edition(name).since;
    html! { @if let Some(since) = since { span { "changed " (text::time(since)) } } }
}

/// What is filled in, and what is wrong with it.
#[derive(Default)]
struct Draft {
    value: Option<Value>,
    session: String,
    complaints: Complaints,
    grown: Option<String>,
    notice: Option<String>,
}

/// The page of a workflow.
pub(super) async fn one(visit: &Visit, name: &str) -> Result<Response<Body>, Trouble> {
    let entry = known(visit, name)?;
    let session = visit.query.given("session").unwrap_or_default().to_owned();
    let draft = Draft { session, ..Draft::default() };
    Ok(shown(visit, &entry, &draft, StatusCode::OK).await)
}

async fn shown(visit: &Visit, entry: &Entry, draft: &Draft, status: StatusCode) -> Response<Body> {
    let workflow = &entry.workflow;
    let body = html! {
        nav.trail aria-label="Trail" { a href="/console/workflows" { "Workflows" } " / " (workflow.name) }
        div.head {
            h1 { (workflow.name) }
            p.lead { (text::shown(&workflow.description)) }
            p.meta { span.mono { (text::short(&entry.digest)) } (since(visit, &workflow.name)) }
        }
        div.split.wide {
            div {
                section.panel.form aria-label="Start a run" { h2 { "Start a run" } (start_form(visit, entry, draft)) }
                @let source = visit.engine().library().edition(&workflow.name).source;
                @if !source.is_empty() {
                    details.panel #source open { summary { "The file" } pre.code tabindex="0" { (text::shown(&source)) } }
                }
            }
            div { section.panel aria-label="Drawing" { h2 { "How it goes" } (graph::plain(workflow)) } (runs_link(&workflow.name)) }
        }
    };
    View::new(workflow.name.clone(), "workflows", body).status(status).respond(visit).await
}

fn runs_link(name: &str) -> Markup {
    html! { p { a href={ "/console/runs?workflow=" (name) } { "Its runs" } } }
}

/// The schema of the input: a text, where the file names none.
fn schema(entry: &Entry) -> Value {
    let plain = || json!({"type": "string", "minLength": 1});
    entry.workflow.input.clone().unwrap_or_else(plain)
}

fn start_form(visit: &Visit, entry: &Entry, draft: &Draft) -> Markup {
    let schema = schema(entry);
    let sheet = Sheet {
        root: &schema,
        complaints: &draft.complaints,
        original: None,
        grown: draft.grown.as_deref(),
    };
    let is_object = schema.get("properties").is_some();
    let label = if is_object { "" } else { "What is it about?" };
    html! {
        form method="post" action={ "/console/workflows/" (entry.workflow.name) } novalidate {
            input type="hidden" name="key" value=(visit.engine().fresh_key());
            @if let Some(notice) = &draft.notice { p.error role="alert" { (text::shown(notice)) } }
            (sheet.field(&schema, draft.value.as_ref(), "", (label, true)))
            details #session-field open[!draft.session.is_empty()] {
                summary { "In a session of your own" }
                div.field {
                    label for="session" { "Session" span.optional { " optional" } }
                    input #session name="session" type="text" value=(draft.session) autocomplete="off";
                    p.hint { "A new one, if this is empty. In a session that waits for one answer, what you say is that answer." }
                }
            }
            div.buttons { button.primary type="submit" { "Start" } }
        }
    }
}

/// Starts a run; its page comes next.
pub(super) async fn start(visit: &Visit, name: &str) -> Result<Response<Body>, Trouble> {
    let entry = known(visit, name)?;
    let fields = &visit.fields;
    let schema = schema(&entry);
    let value = form::read(fields, &schema, ROOT);
    let session = fields.given("session").unwrap_or_default().to_owned();
    let mut draft = Draft { value, session, ..Draft::default() };
    if let Some(grown) = fields.get("grow") {
        draft.grown = Some(grown.to_owned());
        return Ok(shown(visit, &entry, &draft, StatusCode::OK).await);
    }
    let input = draft.value.clone().unwrap_or_default();
    draft.complaints = form::check(&schema, &input);
    if draft.value.is_none() {
        draft.complaints = Complaints::from([(String::new(), "This is needed.".to_owned())]);
    }
    if !draft.complaints.is_empty() {
        return Ok(shown(visit, &entry, &draft, StatusCode::UNPROCESSABLE_ENTITY).await);
    }
    let request = StartRequest {
        workflow: name.to_owned(),
        session: draft.session.clone(),
        input,
        key: fields.get("key").unwrap_or_default().to_owned(),
        ..StartRequest::default()
    };
    match visit.engine().start(request, &visit.who).await {
        Ok(begun) => Ok(page::redirect(&format!("/console/runs/{}", begun.run))),
        Err(EngineError::Refused(Refusal::UnknownWorkflow(_))) => Err(Trouble::Nothing),
        Err(EngineError::Refused(refusal)) => {
            draft.notice = Some(page::sentence(&refusal.to_string()));
            Ok(shown(visit, &entry, &draft, StatusCode::UNPROCESSABLE_ENTITY).await)
        }
        Err(error) => Err(error.into()),
    }
}

/// The workflow of that name, for those whose credential is good for it.
fn known(visit: &Visit, name: &str) -> Result<Entry, Trouble> {
    let entry = visit.engine().library().get(name);
    entry.filter(|_| visit.who.covers(name)).ok_or(Trouble::Nothing)
}
