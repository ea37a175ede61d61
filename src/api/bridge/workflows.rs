//! qlaw-cli's pages: what can be run, what runs, and the answers that it sends by workflow.

use axum::extract::{Path, State};
use serde_json::{Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::http::{Call, Reply};
use crate::api::bridge::id::Dialect;
use crate::api::bridge::question_json;
use crate::api::bridge::reading::{self, Answers};
use crate::api::bridge::responses::Manner;
use crate::api::receipts;
use crate::engine::{
    AnswerRequest, Begun, EngineError, Entry, InboxFilter, Onlooker, OpenRequest, Until, Waiting,
};
use crate::failpoint;
use crate::kernel::binding::{self, Open};
use crate::kernel::{Event, Principal, RequestId};
use crate::ports::{Head, HeadStatus, RunFilter};

/// Open requests of a caller that are looked through for the one that it means.
const OPEN_MAX: usize = 100;
/// Runs of one listing.
const RUNS_MAX: i32 = 1_000;
/// Events of one audit page; `after` takes it up again.
const AUDIT_MAX: usize = 10_000;

/// `POST /v1/workflows/{id}/send_responses`
pub(super) async fn send_responses(
    State(bridge): State<Bridge>,
    Path(workflow): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let body = call.json()?;
    let session = reading::conversation(&body)?.unwrap_or_default();
    bridge.entry(&workflow, &call.who)?;
    failpoint::hit("api.before_command");
    if body.get("responses").is_some() && !body["input"].is_null() {
        let remedy = "answers and words in one call; send them one after the other";
        return Err(Problem::invalid("input", remedy));
    }
    let begun = if body.get("responses").is_some() {
        let mut answers = reading::responses(&body["responses"], "body")?;
        reading::with_digests(&mut answers, &body)?;
        bridge.answer_of(&workflow, session, answers, &call).await?
    } else if let Some(input) = body.get("input") {
        let open = bridge.open_requests(&workflow, &call.who).await?;
        match open.as_slice() {
            [one] => {
                let begun = bridge.answer_one(one, input.clone(), &call).await;
                begun.map_err(|error| Problem::from(error).for_input())?
            }
            several => {
                let ids: Vec<_> = several.iter().map(|one| one.id().to_string()).collect();
                return Err(Problem::not_one(&workflow, &ids));
            }
        }
    } else {
        return Err(Problem::invalid("responses", "expected an object of answers by request id"));
    };
    bridge.tell_qlaw(begun, &body, &call).await
}

/// `POST /v1/workflows/{id}/requests/{request_id}/responses`
pub(super) async fn respond(
    State(bridge): State<Bridge>,
    Path((workflow, request)): Path<(String, String)>,
    call: Call,
) -> Outcome<Reply> {
    let body = call.json()?;
    let session = reading::conversation(&body)?.unwrap_or_default();
    let mut given = ["response", "value", "input", "text"].iter().filter_map(|name| body.get(name));
    let (Some(value), None) = (given.next().cloned(), given.next()) else {
        return Err(Problem::invalid("response", "expected the answer, once"));
    };
    bridge.entry(&workflow, &call.who)?;
    let mut answers = vec![(request, value, reading::text(&body, "digest")?.map(str::to_owned))];
    reading::add_digests(&mut answers, &body)?;
    let begun = bridge.answer_of(&workflow, session, answers, &call).await?;
    bridge.tell_qlaw(begun, &body, &call).await
}

/// `GET /v1/agents`
pub(super) async fn agents(State(bridge): State<Bridge>, call: Call) -> Reply {
    let agents = bridge.engine.workflows(&call.who).into_iter().map(|entry| {
        let workflow = &entry.workflow;
        json!({
            "id": workflow.name,
            "name": workflow.name,
            "instructions": workflow.description,
            "model": workflow.name,
        })
    });
    Reply::Json(agents.collect())
}

/// `GET /v1/workflows`
pub(super) async fn all(State(bridge): State<Bridge>, call: Call) -> Reply {
    Reply::Json(bridge.engine.workflows(&call.who).iter().map(summary).collect())
}

/// `GET /v1/workflows/{id}`
pub(super) async fn one(
    State(bridge): State<Bridge>,
    Path(workflow): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let entry = bridge.entry(&workflow, &call.who)?;
    let mut page = summary(&entry);
    page["mermaid"] = json!((bridge.draw)(&entry.workflow));
    Ok(Reply::Json(page))
}

/// `GET /v1/workflows/{id}/runs`
pub(super) async fn runs(
    State(bridge): State<Bridge>,
    Path(workflow): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let filter = RunFilter { workflow: Some(workflow), ..RunFilter::default() };
    let cursor = call.asked("after").unwrap_or_default();
    let limit = call.number("limit")?.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(0);
    let page = bridge.engine.runs(filter, cursor, limit.min(RUNS_MAX), &call.who).await?;
    let runs: Vec<_> = page.rows.iter().map(|head| bridge.run(head, &call.who)).collect();
    Ok(Reply::Json(json!({"object": "list", "data": runs, "next": page.next})))
}

/// `GET /v1/runs/{id}/status`
pub(super) async fn status(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let head = bridge.engine.head(&id, &call.who).await?;
    Ok(Reply::Json(bridge.run(&head, &call.who)))
}

/// `GET /v1/runs/{id}/audit`
pub(super) async fn audit(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let after = call.number("after")?.unwrap_or(0);
    let version = bridge.engine.head(&id, &call.who).await?.version;
    let mut watch = bridge.engine.watch(&id, after, Until::CurrentRest, &call.who).await?;
    let mut events = Vec::new();
    while watch.after() < version && events.len() < AUDIT_MAX {
        let Some(published) = watch.next().await? else { break };
        let is_piece = matches!(&*published.event, Event::Delta { .. });
        if !is_piece {
            events.push(json!({
                "sequence": published.sequence,
                "time": question_json::time(Some(published.at)),
                "step": published.step,
                "event": published.event,
            }));
        }
    }
    let next = (watch.after() < version).then(|| watch.after());
    Ok(Reply::Json(json!({"run_id": id, "events": events, "next": next})))
}

/// `GET /v1/runs/{id}/receipts/{sequence}`
pub(super) async fn receipt(
    State(bridge): State<Bridge>,
    Path((id, sequence)): Path<(String, String)>,
    call: Call,
) -> Outcome<Reply> {
    let Ok(sequence) = sequence.parse() else {
        let remedy = "expected the sequence of an answer, a vote or an end";
        return Err(Problem::invalid("sequence", remedy));
    };
    let leaf = call.asked("leaf_hash").unwrap_or_default();
    let receipt = bridge.engine.receipt(&id, sequence, leaf, &call.who).await?;
    Ok(Reply::Json(receipts::json(&receipt)))
}

/// A workflow, in short.
pub(super) fn summary(entry: &Entry) -> Value {
    let workflow = &entry.workflow;
    json!({
        "id": workflow.name,
        "name": workflow.name,
        "description": workflow.description,
        "version": entry.digest,
        "agents": workflow.agents.keys().collect::<Vec<_>>(),
        "input_schema": workflow.input,
    })
}

impl Bridge {
    /// A run, in short.
    fn run(&self, head: &Head, who: &Principal) -> Value {
        let onlooker = Onlooker::new(&self.engine, head, who);
        let waiting = Waiting::of_head(head);
        let error = match &head.status {
            HeadStatus::Failed(why) => json!({"code": why.code, "message": why.message}),
            HeadStatus::Running
            | HeadStatus::Waiting(_)
            | HeadStatus::Completed
            | HeadStatus::Cancelled(_) => Value::Null,
        };
        json!({
            "id": head.run.to_string(),
            "workflow_id": head.workflow,
            "conversation": head.session.to_string(),
            "status": head.status.word(),
            "sequence": head.version,
            "started_at": question_json::time(Some(head.started_at)),
            "updated_at": question_json::time(Some(head.updated_at)),
            "error": error,
            "workflow_waiting": waiting.as_ref().map(|waiting| question_json::waiting(waiting, Some(&onlooker))),
        })
    }

    /// The workflow of that name, for those whose credential is good for it.
    pub(super) fn entry(&self, name: &str, who: &Principal) -> Outcome<Entry> {
        let entry = self.engine.library().get(name).filter(|_| who.covers(name));
        entry.ok_or_else(|| Problem::unknown("workflow.unknown", "workflow", name, "workflow_id"))
    }

    /// The open requests of a workflow's runs that are the caller's own.
    pub(super) async fn open_requests(
        &self,
        workflow: &str,
        who: &Principal,
    ) -> Outcome<Vec<OpenRequest>> {
        let filter = InboxFilter { workflow: Some(workflow.to_owned()), ..InboxFilter::default() };
        let mut open = Vec::new();
        let mut cursor = None;
        loop {
            let page = self.engine.inbox(who, &filter, cursor.as_deref(), OPEN_MAX).await?;
            // An operator sees everybody's; but nobody answers for another by saying something.
            open.extend(page.rows.into_iter().filter(|row| row.owner == who.id));
            cursor = page.next;
            if cursor.is_none() || open.len() >= OPEN_MAX {
                return Ok(open);
            }
        }
    }

    /// Answers one request with an input, where that is an answer to it (K9).
    pub(super) async fn answer_one(
        &self,
        request: &OpenRequest,
        input: Value,
        call: &Call,
    ) -> Result<Begun, EngineError> {
        let open = [Open { run: &request.run, question: &request.question }];
        let said = binding::resolve(&input, &open, &call.who, request.session.as_str())?;
        let (id, value) = said.unwrap_or_else(|| (request.id(), input));
        let answers = vec![(id.to_string(), value, None)];
        let request = AnswerRequest { answers, key: call.key(), ..AnswerRequest::default() };
        self.engine.answer(request, &call.who).await
    }

    /// Answers requests of one workflow's; those of another are unknown here.
    async fn answer_of(
        &self,
        workflow: &str,
        session: String,
        answers: Answers,
        call: &Call,
    ) -> Outcome<Begun> {
        for (id, ..) in &answers {
            let field = format!("responses[{id}]");
            let unknown = || Problem::unknown("request.unknown", "request", id, &field);
            let request = RequestId::parse(id).map_err(|_| unknown())?;
            let head = self.engine.head(request.run.as_str(), &call.who).await;
            // Somebody who is asked need not know the run: whether they may answer is said below (K8).
            if head.is_ok_and(|head| head.workflow != workflow) {
                return Err(unknown());
            }
        }
        let request = AnswerRequest { session, run: String::new(), answers, key: call.key() };
        Ok(self.engine.answer(request, &call.who).await?)
    }

    /// Tells what an answer led to, as qlaw-cli reads it: events, unless it wants none.
    async fn tell_qlaw(&self, begun: Begun, body: &Value, call: &Call) -> Outcome<Reply> {
        let is_stream = reading::flag(body, "stream")?.unwrap_or(true);
        let manner = if is_stream { Manner::Stream } else { Manner::Wait };
        let dialect = match call.asked("dialect") {
            None => Dialect::Qlaw,
            Some(_) => call.dialect(false)?,
        };
        self.tell(begun, dialect, manner, &call.who).await
    }
}
