//! Request: one question, what it is about, and the form that answers it.
//!
//! What is shown is what is stored, and the form carries its digest (K3). A question that has ended
//! says how, and by whom.

mod ask;
mod form;
mod places;
mod reading;
mod review;
mod show;
mod verbs;

use std::sync::Arc;

use axum::body::Body;
use axum::http::{Response, StatusCode};
use serde_json::Value;

use crate::api::console::form::Complaints;
use crate::api::console::page::{self, Trouble, View};
use crate::api::console::visit::Visit;
use crate::api::console::{audit, flow, text};
use crate::engine::{AnswerRequest, EngineError};
use crate::kernel::{
    Closing, Event, Millis, Question, Recorded, Refusal, RequestId, Run, Verb, Version,
    duration_ms, replay,
};
pub(super) use ask::hides;
use ask::{Ask, Filled};
pub(super) use places::{claim, delegate};

/// How long a question can be put off in a browser: it is asked all the while.
const LATER_MS_MAX: u64 = 7 * 86_400_000;
/// Events of a run that a page looks back on.
const JOURNAL_MAX: u32 = 5_000;

/// A question and its run.
pub(super) struct Case {
    pub(super) id: RequestId,
    pub(super) run: Run,
    pub(super) question: Arc<Question>,
    pub(super) journal: Vec<Recorded>,
    pub(super) ended: Option<Ended>,
}

/// How a question ended.
pub(super) enum Ended {
    Answered {
        by: String,
        door: String,
        value: Value,
        at: Millis,
        /// Its place in the journal, and the digest of what they had been shown.
        sequence: Version,
        shown: String,
    },
    Closed {
        closing: Closing,
        by: String,
        at: Millis,
    },
    /// Its run was over.
    RunOver,
}

/// What is filled in, and what is wrong with it.
#[derive(Default)]
pub(super) struct Draft {
    pub(super) value: Option<Value>,
    pub(super) complaints: Complaints,
    pub(super) notice: Option<String>,
    /// What was answered right before.
    pub(super) done: Option<Done>,
    /// The list that is to have one more place.
    pub(super) grown: Option<String>,
    /// The decision whose arguments are being edited.
    pub(super) editing: Option<String>,
    /// Whether an edit is shown for review before it is sent.
    pub(super) is_review: bool,
}

/// What was answered right before, in words, with the way back to it: the receipt is there.
pub(super) struct Done {
    /// What became of it, up to what was asked.
    pub(super) how: &'static str,
    /// The first words of what was asked.
    pub(super) asked: String,
    /// What was said; empty of a word that others are needed with.
    pub(super) said: String,
    /// Where it is shown.
    pub(super) address: String,
}

/// The page of a request.
pub(super) async fn page(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let case = load(visit, id).await?;
    let offers = |word: &&str| Ask::of(&case.question).offers(word);
    let editing = visit.query.given("edit").filter(offers).map(str::to_owned);
    let draft = Draft { editing, done: done(visit).await, ..Draft::default() };
    let response = shown(visit, &case, &draft, StatusCode::OK).await;
    Ok(visit.memory.open(&case.id, &case.question, response))
}

/// What was answered right before, where this page came next.
async fn done(visit: &Visit) -> Option<Done> {
    let before = load(visit, visit.query.given("done")?).await.ok()?;
    let asked = text::first_words(&before.question.prompt, 60);
    let address = flow::address(&before.id, flow::list(visit).as_deref());
    match before.ended {
        Some(Ended::Answered { by, value, .. }) if by == visit.who.id => {
            let word = Verb::of(&value).map(|verb| text::words(verb.word()));
            let said = format!(" ({})", word.unwrap_or_else(|| "sent".into()));
            Some(Done { how: "Answered: ", asked, said, address })
        }
        Some(_) => None,
        None => {
            let how = "Your word is taken; others are asked, too: ";
            Some(Done { how, asked, said: String::new(), address })
        }
    }
}

/// Where somebody goes once they have answered: on to the next of the list they came from, if there is one.
async fn onward(visit: &Visit, id: &RequestId) -> Response<Body> {
    let list = flow::list(visit);
    let next = match &list {
        Some(list) => flow::next(visit, list, id).await,
        None => None,
    };
    match next {
        Some(next) => {
            page::redirect(&format!("{}&done={id}", flow::address(&next, list.as_deref())))
        }
        None => page::redirect(&flow::address(id, list.as_deref())),
    }
}

/// Puts a question off: it leaves the list for a while, in this browser alone.
pub(super) async fn later(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let case = load(visit, id).await?;
    let ms = visit.fields.given("for").and_then(duration_ms);
    let until = ms.map(|ms| visit.now.plus(ms.min(LATER_MS_MAX)));
    let list = flow::list(visit).unwrap_or_default();
    let next = flow::next(visit, &list, &case.id).await;
    let onward = match next.filter(|_| until.is_some()) {
        Some(next) => page::redirect(&flow::address(&next, Some(&list))),
        None => page::redirect(&format!("/console/inbox?{list}")),
    };
    Ok(visit.memory.put_off(&case.id, (until, visit.now), onward))
}

/// Takes an answer.
pub(super) async fn answer(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let case = match load(visit, id).await {
        Ok(case) => case,
        Err(trouble) => {
            visit.engine().note_refused_as(id, None, "request.unknown", &visit.who).await;
            return Err(trouble);
        }
    };
    if case.ended.is_some() {
        visit.engine().note_refused_as(id, None, "request.closed", &visit.who).await;
        let notice = Some("What you sent came too late and was not taken.".to_owned());
        let draft = Draft { notice, ..Draft::default() };
        return Ok(shown(visit, &case, &draft, StatusCode::CONFLICT).await);
    }
    let value = match ask::filled(&case.question, &Ask::of(&case.question), &visit.fields) {
        Filled::Value(value) => value,
        Filled::Again(draft, status) => return Ok(shown(visit, &case, &draft, status).await),
    };
    if let Some(notice) = reading::refuses(visit, &case.question, &value) {
        let draft = Draft { notice: Some(notice), value: Some(value), ..Draft::default() };
        return Ok(shown(visit, &case, &draft, StatusCode::UNPROCESSABLE_ENTITY).await);
    }
    let mut who = visit.who.clone();
    who.known.seen = Some(reading::seen(visit, &case.question));
    // A form of ours always says what it showed; one that does not is refused as out of date.
    let digest = visit.fields.get("digest").unwrap_or_default().to_owned();
    let key = visit.fields.get("key").unwrap_or_default().to_owned();
    let answers = vec![(case.id.to_string(), value.clone(), Some(digest))];
    let request = AnswerRequest { answers, key, ..AnswerRequest::default() };
    match visit.engine().answer(request, &who).await {
        Ok(_) => Ok(onward(visit, &case.id).await),
        Err(error) => refused(visit, id, value, error).await,
    }
}

/// The form again, with the reason; or how the question ended meanwhile.
async fn refused(
    visit: &Visit,
    id: &str,
    value: Value,
    error: EngineError,
) -> Result<Response<Body>, Trouble> {
    let mut draft = Draft::default();
    let mut status = StatusCode::CONFLICT;
    match &error {
        EngineError::Refused(Refusal::WrongAnswer { mismatch, .. }) => {
            let why = page::sentence(&mismatch.to_string());
            draft.complaints.insert(mismatch.at.clone(), why);
            draft.value = Some(value);
            status = StatusCode::UNPROCESSABLE_ENTITY;
        }
        EngineError::Refused(Refusal::StaleDigest { .. }) => {
            let words = "What is asked is not what you were shown. Look again before you answer.";
            draft.notice = Some(words.into());
        }
        EngineError::Refused(
            Refusal::AlreadyAnswered { .. }
            | Refusal::RequestClosed { .. }
            | Refusal::RunOver { .. },
        ) => {
            draft.notice = Some("What you sent came too late and was not taken.".into());
        }
        EngineError::Refused(_)
        | EngineError::Fault(_)
        | EngineError::Moved
        | EngineError::Superseded
        | EngineError::Rewound
        | EngineError::Draining => {
            let (told, _, words) = page::told(&Trouble::Engine(error.clone()));
            (status, draft.notice, draft.value) = (told, Some(words), Some(value));
        }
        EngineError::Corrupt(_) => return Err(error.into()),
    }
    let case = load(visit, id).await?;
    Ok(shown(visit, &case, &draft, status).await)
}

/// What the decision on a question can be proven by, as a file.
pub(super) async fn receipt(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let case = load(visit, id).await?;
    let Some(Ended::Answered { sequence, .. }) = case.ended else { return Err(Trouble::Nothing) };
    audit::handed_out(visit, case.run.id.as_str(), sequence).await
}

/// Takes a question back.
pub(super) async fn withdraw(visit: &Visit, id: &str) -> Result<Response<Body>, Trouble> {
    let key = visit.fields.get("key").unwrap_or_default();
    match visit.engine().withdraw(id, key, &visit.who).await {
        Ok(_) | Err(EngineError::Refused(Refusal::AlreadyAnswered { .. })) => {
            Ok(page::redirect(&format!("/console/requests/{id}")))
        }
        Err(error) => Err(error.into()),
    }
}

async fn shown(visit: &Visit, case: &Case, draft: &Draft, status: StatusCode) -> Response<Body> {
    let title = text::first_words(&case.question.prompt, 60);
    let body = show::body(visit, case, draft).await;
    let view = View::new(title, "inbox", body).status(status);
    // Whoever is asked, and may not see the run, is told when their inbox changes.
    let view = if show::sees_run(visit, case) {
        view.live(format!("/console/runs/{}/live?after={}", case.run.id, case.run.version))
    } else {
        view
    };
    view.respond(visit).await
}

/// The question, open or not, with what came of it.
async fn load(visit: &Visit, id: &str) -> Result<Case, Trouble> {
    let id = RequestId::parse(id).map_err(|_| Trouble::Nothing)?;
    let (run, journal) = visit.engine().case(&id, JOURNAL_MAX, &visit.who).await?;
    let open = run.questions.get(&id.ordinal).cloned();
    let is_open = open.is_some();
    let asked = open.or_else(|| asked(&run, &journal, id.ordinal));
    let mut question = asked.ok_or(Trouble::Nothing)?;
    let ended = if is_open { None } else { Some(ended(&journal, id.ordinal)) };
    // Of what is masked here the digest would be another one than was decided by.
    if let Some(Ended::Answered { shown, .. }) = ended.as_ref().filter(|_| !run.veil.is_nothing()) {
        Arc::make_mut(&mut question).digest.clone_from(shown);
    }
    Ok(Case { id, run, question, journal, ended })
}

/// The question as it was asked: from the run folded up to there, or else from its event alone.
fn asked(run: &Run, journal: &[Recorded], ordinal: u32) -> Option<Arc<Question>> {
    let index = journal.iter().position(|recorded| {
        let Event::Asked(question) = &recorded.event else { return false };
        question.ordinal == ordinal
    })?;
    let folded = replay(&run.id, Arc::clone(&run.workflow), journal.get(..=index)?).ok();
    let kept = folded.and_then(|mut folded| folded.questions.remove(&ordinal));
    let recorded = journal.get(index)?;
    let Event::Asked(question) = &recorded.event else { return None };
    let alone = || Question { asked_at: recorded.at, ..(**question).clone() };
    Some(kept.unwrap_or_else(|| Arc::new(alone())))
}

fn ended(journal: &[Recorded], ordinal: u32) -> Ended {
    let ending = journal.iter().find_map(|recorded| {
        let at = recorded.at;
        if let Event::Answered { ordinal: one, value, by, door, shown, .. } = &recorded.event
            && *one == ordinal
        {
            let (by, door, value) = (by.clone(), door.clone(), value.clone());
            let (sequence, shown) = (recorded.version, shown.clone());
            return Some(Ended::Answered { by, door, value, at, sequence, shown });
        }
        if let Event::Closed { ordinal: one, closing, by, .. } = &recorded.event
            && *one == ordinal
        {
            return Some(Ended::Closed { closing: *closing, by: by.clone(), at });
        }
        None
    });
    ending.unwrap_or(Ended::RunOver)
}
