//! OpenAI Responses: start, answer, look, take up again.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::http::{Call, Reply};
use crate::api::bridge::id::{Dialect, ResponseId};
use crate::api::bridge::reading::{self, Said};
use crate::api::bridge::response_stream::Teller;
use crate::api::bridge::stream::Lines;
use crate::api::bridge::word;
use crate::api::brought;
use crate::api::receipts;
use crate::engine::{
    AnswerRequest, Begun, EngineError, ForkRequest, Onlooker, Published, RunView, StartRequest,
    Until, Watch,
};
use crate::failpoint;
use crate::kernel::schema::Compiled;
use crate::kernel::{Event, Principal, Refusal, RequestId, digest, readable};
use crate::ports::{HeadStatus, SessionRow};

/// A caller that waits for a run to rest is told how it stands after this long; it goes on (E5).
const BLOCKING_MAX: Duration = Duration::from_mins(10);

/// How a caller wants to be told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// Event by event.
    Stream,
    /// When the run rests.
    Wait,
    /// At once, however it stands.
    Now,
}

/// `POST /v1/responses`
pub(super) async fn create(State(bridge): State<Bridge>, mut call: Call) -> Outcome<Reply> {
    let body = call.json()?;
    // Whether there is such a response is seen when its session is looked for.
    let previous = reading::text(&body, "previous_response_id")?;
    call.who.from = previous.filter(|id| ResponseId::parse(id).is_some()).map(str::to_owned);
    let dialect = call.dialect(reading::entity(&body).is_some())?;
    let is_background = reading::flag(&body, "background")?.unwrap_or(false);
    let manner = match (reading::flag(&body, "stream")?, is_background) {
        (Some(true), _) => Manner::Stream,
        (_, true) => Manner::Now,
        (_, false) => Manner::Wait,
    };
    failpoint::hit("api.before_command");
    let begun = bridge.take(&call, &body, dialect).await?;
    bridge.tell(begun, dialect, manner, &call.who).await
}

/// `GET /v1/responses/{id}`
pub(super) async fn retrieve(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let leg = match bridge.leg(&id, &call.who).await {
        Ok(leg) => leg,
        Err(unknown) => return bridge.own_word(&id, &call.who).await.ok_or(unknown),
    };
    match call.asked("stream") {
        Some("true" | "1") => {}
        None | Some("false" | "0" | "") => {
            return Ok(Reply::Json(bridge.standing(leg, &call.who).await?));
        }
        Some(_) => return Err(Problem::invalid("stream", "expected `true` or `false`")),
    }
    let last = call.header("last-event-id").and_then(|id| id.trim().parse().ok());
    let seen = call.number("starting_after")?.or(last);
    let teller = bridge.teller(leg.id, &leg.view, &call.who).await?;
    let mut lines = Lines::new(leg.watch, teller, seen);
    lines.tell(&leg.first);
    Ok(Reply::Events(Box::new(lines)))
}

/// `DELETE /v1/responses/{id}`: it is shown no more; what happened stays in the journal.
pub(super) async fn delete(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let leg = bridge.leg(&id, &call.who).await?;
    let (session, hidden) = (leg.view.head.session.to_string(), leg.id.to_string());
    let change = |row: &mut SessionRow| row.hidden.extend([hidden.clone()]);
    bridge.engine.change_session(&session, &call.who, change).await?;
    Ok(Reply::Json(json!({"id": id, "object": "response.deleted", "deleted": true})))
}

/// `GET /v1/responses/{id}/input_items`
pub(super) async fn input_items(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let mut leg = bridge.leg(&id, &call.who).await?;
    let mut items = Vec::new();
    let mut next = Some(leg.first.clone());
    while let Some(published) = next {
        let Some(item) = input_item(&leg.id, items.len(), &published) else { break };
        items.push(item);
        if published.sequence >= leg.view.head.version {
            break;
        }
        next = leg.watch.next().await?;
    }
    Ok(Reply::Json(list(&items)))
}

/// A page that is the whole list.
pub(super) fn list(items: &[Value]) -> Value {
    let id = |item: Option<&Value>| item.map_or(Value::Null, |item| item["id"].clone());
    let (first, last) = (id(items.first()), id(items.last()));
    json!({
        "object": "list", "data": items, "first_id": first, "last_id": last, "has_more": false,
    })
}

fn input_item(id: &ResponseId, index: usize, published: &Published) -> Option<Value> {
    if let Event::Started(started) = &*published.event {
        return Some(json!({
            "type": "message",
            "id": id.item("in", index),
            "role": "user",
            "status": "completed",
            "content": [{"type": "input_text", "text": readable(&started.input)}],
        }));
    }
    let Event::Answered { value, .. } = &*published.event else { return None };
    Some(json!({
        "type": "function_call_output",
        "id": id.item("in", index),
        "call_id": published.request.as_ref().map(ToString::to_string),
        "output": readable(value),
        "status": "completed",
    }))
}

/// A leg of a run that the caller may see.
#[derive(Debug)]
pub(super) struct Leg {
    pub(super) id: ResponseId,
    pub(super) view: RunView,
    /// Its first event.
    first: Arc<Published>,
    /// What follows that.
    watch: Watch,
}

impl Bridge {
    /// Takes what a body says: answers, or an input.
    async fn take(&self, call: &Call, body: &Value, dialect: Dialect) -> Outcome<Begun> {
        reading::refuse_unheard(body)?;
        let said = reading::said(body)?;
        if let Some(checkpoint) = reading::checkpoint(body)? {
            return self.resume(call, checkpoint, said).await;
        }
        let (session, previous) = self.session_of(body, &call.who).await?;
        let input = match said {
            Said::Answers(answers) => {
                let request =
                    AnswerRequest { session, run: String::new(), answers, key: call.key() };
                return Ok(self.engine.answer(request, &call.who).await?);
            }
            Said::Input(input) => input,
        };
        let session = match previous {
            None if session.is_empty() => self.remembered(body, &call.who).await?,
            Some(_) | None => session,
        };
        let key = match (call.key(), &previous) {
            // The same words to the same response are the same call again: clients repeat by
            // themselves what they had no answer to.
            (none, Some(previous)) if none.is_empty() => {
                format!("resp:{}", digest::of(&json!([previous.to_string(), input])))
            }
            (given, _) => given,
        };
        let workflow = reading::workflow(body)?;
        if session.is_empty() && self.settings.sticky && dialect == Dialect::Qlaw {
            let open = self.open_requests(workflow, &call.who).await?;
            if let [one] = open.as_slice() {
                let begun = self.answer_one(one, input, call).await;
                return self.or_asked_again(begun, &call.who).await;
            }
        }
        let mut metadata = reading::metadata(body)?;
        let of = (workflow, &call.who);
        let gates = brought::gates(&self.engine, of, brought::field(body)?, &mut metadata)?;
        let request = StartRequest {
            gates,
            workflow: workflow.to_owned(),
            session,
            input: self.fitted(workflow, unwrapped(input, dialect)),
            key,
            metadata,
            goes_on_from: previous.map(|previous| (previous.run, previous.after)),
            is_retry: call.is_retry(),
            ..StartRequest::default()
        };
        let begun = self.engine.start(request, &call.who).await;
        self.or_asked_again(begun, &call.who).await
    }

    /// Words alone decided nothing: the leg that ended in the question is told again, with the code
    /// that an answer names it by. What was refused otherwise is refused.
    async fn or_asked_again(
        &self,
        begun: Result<Begun, EngineError>,
        who: &Principal,
    ) -> Outcome<Begun> {
        let refusal = match begun {
            Ok(begun) => return Ok(begun),
            Err(EngineError::Refused(refusal)) => self.engine.once_more(refusal, who),
            Err(error) => return Err(Problem::from(error).for_input()),
        };
        let refused = |refusal| Problem::from(EngineError::from(refusal)).for_input();
        let open = if let Refusal::Unbound { open } = &refusal { open.as_slice() } else { &[] };
        let id = open.iter().find_map(|one| RequestId::parse(&one.request).ok());
        let Some(id) = id else { return Err(refused(refusal)) };
        let view = self.engine.run(id.run.as_str(), who).await?;
        let after = view.run.last_leg();
        let watch = self.engine.watch(id.run.as_str(), after, Until::CurrentRest, who).await?;
        Ok(Begun { run: id.run, after, decided: None, watch })
    }

    /// Takes up a run from one of its checkpoints: where it still stands there, answers are taken; else
    /// a run of its own begins there, and asks.
    async fn resume(&self, call: &Call, checkpoint: &str, said: Said) -> Outcome<Begun> {
        let bare = checkpoint.strip_prefix("checkpoint_").unwrap_or(checkpoint);
        let unknown =
            || Problem::unknown("checkpoint.unknown", "checkpoint", checkpoint, "checkpoint_id");
        let (run, version) = crate::kernel::parse_checkpoint(bare).map_err(|_| unknown())?;
        // The same again is the same answer, or the same fork.
        let key = match call.key() {
            none if none.is_empty() => format!("chk:{}", digest::of(&json!([bare, said.told()]))),
            given => given,
        };
        if let Said::Answers(answers) = &said {
            // A pause that is still open is answered where it is.
            let view = self.engine.run(run.as_str(), &call.who).await;
            let view = view.map_err(|error| Problem::or_unknown(error, unknown))?;
            let is_repeat = view.run.said_by(&call.who.id).any(|said| said.key == key);
            if is_repeat || view.run.is_at(version) {
                let answers = answers.clone();
                let request = AnswerRequest { answers, key, ..AnswerRequest::default() };
                return Ok(self.engine.answer(request, &call.who).await?);
            }
        }
        let fork = ForkRequest {
            run: run.to_string(),
            checkpoint: bare.to_owned(),
            session: String::new(),
            key,
        };
        // Whatever was said was said to another question: a fork carries no answer.
        self.engine.fork(fork, &call.who).await.map_err(|error| Problem::or_unknown(error, unknown))
    }

    /// The session that a body names, by its id or by a response of it; empty for a new one.
    async fn session_of(
        &self,
        body: &Value,
        who: &Principal,
    ) -> Outcome<(String, Option<ResponseId>)> {
        let named = match reading::conversation(body)? {
            Some(named) => Some(self.meant(&named, who).await),
            None => None,
        };
        let Some(previous) = reading::text(body, "previous_response_id")? else {
            let named = named.unwrap_or_default();
            if !named.is_empty() {
                self.refuse_hidden(&named, who).await?;
            }
            return Ok((named, None));
        };
        let unknown =
            || Problem::unknown("response.unknown", "response", previous, "previous_response_id");
        let Some(id) = ResponseId::parse(previous) else {
            // Agent Framework's client sends every id of a conversation so that does not begin with `conv_`.
            let session = self.meant(&reading::session(previous), who).await;
            let is_known = self.engine.session_row(&session, who).await.is_ok();
            if !is_known || named.is_some_and(|named| named != session) {
                return Err(unknown());
            }
            self.refuse_hidden(&session, who).await?;
            return Ok((session, None));
        };
        let head = self
            .engine
            .head(id.run.as_str(), who)
            .await
            .map_err(|error| Problem::or_unknown(error, unknown))?;
        if named.as_deref().is_some_and(|named| named != head.session.as_str()) {
            let remedy = "the previous response is of another conversation; name one of them";
            return Err(Problem::invalid("conversation", remedy));
        }
        Ok((head.session.to_string(), Some(id)))
    }

    /// A text, where the workflow wants something else that the text can be read as.
    fn fitted(&self, workflow: &str, input: Value) -> Value {
        let entry = self.engine.library().get(workflow);
        let schema = entry.as_ref().and_then(|entry| entry.workflow.input.as_ref());
        match (schema, &input) {
            (Some(schema), Value::String(text)) => {
                let schema = Compiled::of(schema);
                let read = if schema.fits(&input) { None } else { schema.read_plain(text) };
                read.unwrap_or(input)
            }
            (Some(_) | None, _) => input,
        }
    }

    async fn teller(&self, id: ResponseId, view: &RunView, who: &Principal) -> Outcome<Teller> {
        let receipt = self.receipt_of(&id).await?;
        let mut teller = Teller::new(id, view, Onlooker::new(&self.engine, &view.head, who));
        teller.response.receipt = receipt;
        Ok(teller)
    }

    /// What the decision that a leg begins with can be proven by; null where it begins with none.
    async fn receipt_of(&self, id: &ResponseId) -> Outcome<Value> {
        // A leg that begins a run decides nothing.
        if id.after == 0 {
            return Ok(Value::Null);
        }
        let receipt = self.engine.receipt_after(&id.run, id.after).await?;
        Ok(receipt.as_ref().map(receipts::brief).unwrap_or_default())
    }

    /// A word of somebody who does not know the run, with what it can be proven by.
    async fn with_receipt(&self, id: &ResponseId, word: Option<&Published>) -> Outcome<Value> {
        let (mut told, receipt) = (word::response(id, word), self.receipt_of(id).await?);
        if !receipt.is_null() {
            told["receipt"] = receipt;
        }
        Ok(told)
    }

    /// Tells what a command led to.
    pub(super) async fn tell(
        &self,
        begun: Begun,
        dialect: Dialect,
        manner: Manner,
        who: &Principal,
    ) -> Outcome<Reply> {
        let Begun { run, mut watch, .. } = begun;
        let view = match self.engine.run(run.as_str(), who).await {
            // Somebody who was asked, and does not know the run: their answer was taken, and that is
            // all that is theirs to see (K8).
            Err(EngineError::Refused(Refusal::UnknownRun(_))) => {
                let id = ResponseId { run, after: watch.after(), dialect };
                let word = watch.next().await?;
                return Ok(Reply::Json(self.with_receipt(&id, word.as_deref()).await?));
            }
            view => view?,
        };
        let id = ResponseId { run, after: watch.after(), dialect };
        let mut teller = self.teller(id, &view, who).await?;
        failpoint::hit("api.before_ack");
        match manner {
            Manner::Stream => return Ok(Reply::Events(Box::new(Lines::new(watch, teller, None)))),
            Manner::Now => fold(&mut watch, &mut teller, view.head.version).await?,
            Manner::Wait => {
                let rest = fold(&mut watch, &mut teller, u64::MAX);
                if let Ok(rested) = tokio::time::timeout(BLOCKING_MAX, rest).await {
                    rested?;
                }
            }
        }
        Ok(Reply::Json(teller.response.to_json()))
    }

    /// The leg of that id, if the caller may see its run (D2).
    pub(super) async fn leg(&self, id: &str, who: &Principal) -> Outcome<Leg> {
        let unknown = || Problem::unknown("response.unknown", "response", id, "response_id");
        let leg = ResponseId::parse(id).ok_or_else(unknown)?;
        let run = leg.run.to_string();
        let view = self
            .engine
            .run(&run, who)
            .await
            .map_err(|error| Problem::or_unknown(error, unknown))?;
        let session = self.engine.session_row(view.head.session.as_str(), who).await?;
        if leg.after >= view.head.version || session.hidden.contains(&leg.to_string()) {
            return Err(unknown());
        }
        let mut watch = self.engine.watch(&run, leg.after, Until::FirstRest, who).await?;
        let first = watch.next().await?.filter(|first| Teller::begins_with(&first.event));
        Ok(Leg { id: leg, view, first: first.ok_or_else(unknown)?, watch })
    }

    /// What somebody said who was asked, and does not know the run; nothing, where that id is no word of theirs.
    async fn own_word(&self, id: &str, who: &Principal) -> Option<Reply> {
        let id = ResponseId::parse(id)?;
        let word = self.engine.own_word(&id.run, id.after, who).await.ok().flatten()?;
        Some(Reply::Json(self.with_receipt(&id, Some(&word)).await.ok()?))
    }

    /// A leg as it stands: what its stream has told so far, whole.
    pub(super) async fn standing(&self, leg: Leg, who: &Principal) -> Outcome<Value> {
        let Leg { id, view, first, mut watch } = leg;
        let run = id.run.to_string();
        let mut teller = self.teller(id, &view, who).await?;
        teller.tell(&first);
        fold(&mut watch, &mut teller, view.head.version).await?;
        let rested_at = watch.after();
        if matches!(view.head.status, HeadStatus::Cancelled(_)) && rested_at < view.head.version {
            // It was cancelled while it waited: that is how it ended, not what it asked.
            let mut rest = self.engine.watch(&run, rested_at, Until::Over, who).await?;
            while let Some(published) = rest.next().await? {
                // Somebody answered, and it was cancelled later. Otherwise what it asked was taken back, and the run
                // ended with that.
                if matches!(&*published.event, Event::Answered { .. } | Event::Voted { .. }) {
                    break;
                }
                if matches!(&*published.event, Event::Cancelled { .. }) {
                    teller.tell(&published);
                    break;
                }
            }
        }
        Ok(teller.response.to_json())
    }
}

/// Tells a leg up to a version, or to where it rests.
async fn fold(watch: &mut Watch, teller: &mut Teller, version: u64) -> Result<(), EngineError> {
    while watch.after() < version {
        let Some(published) = watch.next().await? else { break };
        teller.tell(&published);
    }
    Ok(())
}

/// DevUI's page sends the only field of a form as an object with that field, as a text.
fn unwrapped(input: Value, dialect: Dialect) -> Value {
    let Some(text) = input.as_str().filter(|_| dialect == Dialect::DevUi) else { return input };
    let Ok(Value::Object(fields)) = serde_json::from_str(text) else { return input };
    match (fields.len(), fields.get("input")) {
        (1, Some(Value::String(only))) => Value::from(only.as_str()),
        (_, _) => input,
    }
}
