//! Together: several requests of one kind, answered with one word. Only what somebody has opened, and what is short enough to
//! have been seen whole, can be chosen; each is shown once more, each is answered by itself against the digest of what was shown,
//! and each that is not taken says why.

use axum::body::Body;
use axum::http::{Response, StatusCode};
use maud::html;
use serde_json::json;

use crate::api::console::page::{self, Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{text, value};
use crate::engine::{AnswerRequest, OpenRequest};
use crate::kernel::oversight::chars;
use crate::kernel::{Kind, Question, RequestId, Run, Seen, Verb};

/// Requests that are answered at once: what can be looked through.
const TOGETHER_MAX: usize = 50;
/// More characters than this are opened and read to their end one by one.
const SHORT_CHARS: u64 = 1_500;
/// Words that need nothing beside them.
const WORDS: [Verb; 4] = [Verb::Approve, Verb::AllowOnce, Verb::Reject, Verb::Deny];

/// Whether a request can be chosen together with others: it was opened, is theirs to decide by a word alone, and short.
pub(super) fn can_be_chosen(visit: &Visit, row: &OpenRequest) -> bool {
    let question = &row.question;
    question.decides()
        && !words(question).is_empty()
        && chars(question) <= SHORT_CHARS
        && visit.memory.has_opened(&row.id(), question)
        && visit.engine().admits(row, &visit.who)
}

fn words(question: &Question) -> Vec<Verb> {
    let offered = question.verbs();
    WORDS.into_iter().filter(|word| offered.contains(word)).collect()
}

/// What makes requests one kind: the same step of the same workflow asks the same sort of thing.
fn likeness(run: &Run, question: &Question) -> (String, String, Kind, Vec<Verb>) {
    let own = question.step.rsplit('/').next().unwrap_or_default();
    let own = own.split('[').next().unwrap_or_default().to_owned();
    (run.workflow.name.clone(), own, question.kind, question.verbs())
}

/// One of those that were chosen.
struct Chosen {
    id: RequestId,
    run: Run,
    question: std::sync::Arc<Question>,
}

/// Looks through what was chosen once more; and answers it, where a word was said.
pub(super) async fn answer(visit: &Visit) -> Result<Response<Body>, Trouble> {
    let mut chosen = Vec::new();
    let mut gone = Vec::new();
    for id in visit.fields.all("request").take(TOGETHER_MAX) {
        let Ok(id) = RequestId::parse(id) else { continue };
        match visit.engine().case(&id, 1, &visit.who).await {
            Ok((run, _)) => match run.questions.get(&id.ordinal).cloned() {
                Some(question) if question.id(&run.id) == id => {
                    chosen.push(Chosen { id, run, question });
                }
                Some(_) | None => gone.push(id),
            },
            Err(_) => gone.push(id),
        }
    }
    let word = visit.fields.only("decision").and_then(Verb::parse);
    if let Some(why) = objection(visit, &chosen) {
        return Ok(shown(visit, &chosen, &gone, Some(why), StatusCode::UNPROCESSABLE_ENTITY).await);
    }
    match word.filter(|word| chosen.iter().all(|one| words(&one.question).contains(word))) {
        Some(word) => Ok(answered(visit, &chosen, word).await),
        None => Ok(shown(visit, &chosen, &gone, None, StatusCode::OK).await),
    }
}

/// Why they cannot be answered together.
fn objection(visit: &Visit, chosen: &[Chosen]) -> Option<&'static str> {
    let mut kinds = chosen.iter().map(|one| likeness(&one.run, &one.question));
    let first = kinds.next();
    if first.is_none() {
        return Some("Nothing that is still open was chosen.");
    }
    if kinds.any(|other| Some(&other) != first.as_ref()) {
        return Some(
            "These are not of one kind: only what one step of one workflow asks is answered together.",
        );
    }
    let is_seen = |one: &Chosen| visit.memory.has_opened(&one.id, &one.question);
    if !chosen.iter().all(is_seen) {
        return Some(
            "Open each of them first: what you have not seen is not answered together with others.",
        );
    }
    let is_long = |one: &Chosen| chars(&one.question) > SHORT_CHARS;
    chosen.iter().any(is_long).then_some("One of them is long: open it, and read it to its end.")
}

/// What was chosen, each whole, and the words that can be said to all of it.
async fn shown(
    visit: &Visit,
    chosen: &[Chosen],
    gone: &[RequestId],
    why: Option<&str>,
    status: StatusCode,
) -> Response<Body> {
    let words = chosen.first().filter(|_| why.is_none()).map(|one| words(&one.question));
    let body = html! {
        nav.trail aria-label="Trail" { a href="/console/inbox" { "Inbox" } " / " "together" }
        h1 { (text::counted(chosen.len(), "request")) ", one answer" }
        @if let Some(why) = why { p.notice role="alert" { (why) } }
        @if !gone.is_empty() { p.notice { (text::counted(gone.len(), "request")) " that you chose is no longer open, and is left out." } }
        form method="post" action="/console/inbox/together" {
            @for one in chosen {
                section.panel.subject aria-label={ "Request " (one.id) } {
                    p.meta { span { (one.run.workflow.name) " · " (text::shown(&one.question.step)) } a href={ "/console/requests/" (one.id) } { "Open it" } }
                    p { strong { (text::ticked(&one.question.prompt)) } }
                    (value::exact(&one.question.shown()))
                    input type="hidden" name="request" value=(one.id);
                    input type="hidden" name={ "digest/" (one.id) } value=(one.question.digest);
                    input type="hidden" name={ "key/" (one.id) } value=(visit.engine().fresh_key());
                }
            }
            @if let Some(words) = words {
                section.panel.form aria-label="Your answer" {
                    div.field { label for="note" { "Note" span.optional { " optional; said to each of them" } } textarea #note name="note" rows="2" {} }
                    div.buttons {
                        @for word in words {
                            button class=(if word.is_no() { "danger" } else { "primary" }) type="submit" name="decision" value=(word.word()) {
                                (text::words(word.word())) " all " (chosen.len())
                            }
                        }
                        a.button href="/console/inbox" { "Back" }
                    }
                }
            }
        }
    };
    View::new("Together", "inbox", body).status(status).respond(visit).await
}

/// Answers each by itself: one that is not taken stops no other.
async fn answered(visit: &Visit, chosen: &[Chosen], word: Verb) -> Response<Body> {
    let note = visit.fields.given("note").map(str::to_owned);
    let mut told: Vec<(&Chosen, Result<(), String>)> = Vec::new();
    for one in chosen {
        let mut answer = json!({"decision": word.word()});
        if let Some(note) = &note {
            answer["note"] = note.as_str().into();
        }
        let field = |name: &str| visit.fields.get(&format!("{name}/{}", one.id)).map(str::to_owned);
        // A form of ours always says what it showed; one that does not is refused as out of date (K3).
        let digest = Some(field("digest").unwrap_or_default());
        let mut who = visit.who.clone();
        who.known.seen = Some(Seen { chars: chars(&one.question), ms: 0 });
        let request = AnswerRequest {
            answers: vec![(one.id.to_string(), answer, digest)],
            key: field("key").unwrap_or_default(),
            ..AnswerRequest::default()
        };
        let outcome = visit.engine().answer(request, &who).await;
        told.push((one, outcome.map(drop).map_err(|error| page::told(&Trouble::Engine(error)).2)));
    }
    let taken = told.iter().filter(|(_, outcome)| outcome.is_ok()).count();
    let body = html! {
        nav.trail aria-label="Trail" { a href="/console/inbox" { "Inbox" } " / " "together" }
        h1 { (taken) " of " (text::counted(told.len(), "request")) " answered: " (text::words(word.word())) }
        ul.cards { @for (one, outcome) in &told {
            li.card {
                a.title href={ "/console/requests/" (one.id) } { (text::ticked(&text::first_words(&one.question.prompt, 160))) }
                @match outcome {
                    Ok(()) => { p.excerpt { "Answered." } }
                    Err(why) => { p.error { "Not taken: " (text::shown(why)) } }
                }
            }
        } }
        p { a.button.primary href="/console/inbox" { "To the inbox" } }
    };
    View::new("Together", "inbox", body).respond(visit).await
}
