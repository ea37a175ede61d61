//! Question json: a question in JSON, as `workflow_waiting` says it, and in each dialect's words.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::engine::{Onlooker, Waiting};
use crate::kernel::{Kind, Message, Millis, Origin, Question, RunId, Verb};

/// A time as JSON writes it; null where there is none.
pub(super) fn time(at: Option<Millis>) -> Value {
    let ms = at.and_then(|at| i64::try_from(at.0).ok());
    let time = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map_or(Value::Null, |time| json!(time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()))
}

/// A time in seconds, as OpenAI counts.
pub(super) fn seconds(at: Millis) -> u64 {
    at.0 / 1000
}

/// A question, as every view of a waiting run says it.
pub(super) fn request(run: &RunId, question: &Question) -> Value {
    let options = question.options.iter().map(|option| {
        json!({"id": option.id, "label": option.label(), "description": option.description})
    });
    let mut request = json!({
        "request_id": question.id(run).to_string(),
        "source_step": question.step,
        "awaiting_agent": question.agent,
        "kind": question.kind.word(),
        "prompt": question.prompt,
        "context": question.context,
        "options": options.collect::<Vec<_>>(),
        "response_schema": question.response_schema(),
        "deadline": time(question.deadline),
        "on_timeout": question.silence(),
        "digest": question.digest,
        "decides": question.decides(),
        "verbs": question.verbs().into_iter().map(Verb::word).collect::<Vec<_>>(),
        "subject": question.shown(),
        "to": question.to,
        "asked_before": question.asked_before,
        "votes": question.standing_votes().collect::<Vec<_>>(),
        "code": question.code(),
        "binding": question.binding(),
    });
    if question.still.is_some() {
        request["halted"] = json!(true);
    }
    if let Some(left) = question.still.as_ref().and_then(|still| still.left_ms) {
        request["stands_with_ms_left"] = json!(left);
    }
    if question.is_masked() {
        request["veiled"] = json!(true);
    }
    if let Some(named) = &question.named {
        request["type"] = json!({"name": named.name, "title": named.title, "show": named.show});
    }
    if let Some(claim) = &question.claim {
        request["claimed_by"] = json!(claim.by);
        request["claimed_until"] = time(Some(claim.until));
    }
    let handed = question.delegations.iter().map(
        |handed| json!({"principal": handed.by, "to": handed.to, "until": time(Some(handed.until))}),
    );
    if !question.delegations.is_empty() {
        request["delegations"] = handed.collect();
    }
    // What will be done, exactly, where a tool call waits for its yes.
    if let Some((tool, arguments)) = gated(question) {
        request["action"] = json!({"tool": tool, "arguments": arguments});
    }
    request
}

/// A question, for somebody who can answer it or not; where they cannot, with why, and nothing that an
/// answer could name it by in words.
pub(super) fn request_for(run: &RunId, question: &Arc<Question>, onlooker: &Onlooker) -> Value {
    let barred = onlooker.barred(question);
    let mut request = request(run, &onlooker.sees(question));
    request["admits_you"] = json!(barred.is_none());
    if let Some(why) = barred {
        request["code"] = json!("");
        request["problem"] = json!({"code": why.code(), "message": why.to_string()});
    }
    request
}

/// What a run waits for; for somebody who looks at it now, with what of it is theirs to answer.
pub(super) fn waiting(waiting: &Waiting, onlooker: Option<&Onlooker>) -> Value {
    let requests = waiting.questions.iter().map(|question| match onlooker {
        None => request(&waiting.run, question),
        Some(onlooker) => request_for(&waiting.run, question, onlooker),
    });
    let mut told = json!({
        "run_id": waiting.run.to_string(),
        "workflow_id": waiting.workflow,
        "since": time(Some(waiting.since)),
        "requests": requests.collect::<Vec<_>>(),
    });
    if waiting.unlisted() > 0 {
        told["open_requests"] = waiting.open.into();
    }
    told
}

/// What was said last before a question: nobody's tool traffic.
pub(super) fn conversation(recent: &[Arc<Message>]) -> Value {
    let said = recent.iter().filter_map(|message| message.cleaned()).map(|message| {
        json!({
            "role": message.role.word(),
            "author_name": message.author,
            "text": message.text,
        })
    });
    said.collect()
}

/// A question as Agent Framework's handoff asks it.
pub(super) fn handoff(question: &Question, recent: &[Arc<Message>]) -> Value {
    json!({
        "conversation": conversation(recent),
        "awaiting_agent_id": question.agent.as_deref().unwrap_or(&question.step),
        "prompt": question.prompt,
        "source_executor_id": question.step,
    })
}

/// The name of a question's type, where a client expects a class.
pub(super) fn type_of(question: &Question) -> &'static str {
    if question.origin == Origin::UserTurn {
        return "HandoffUserInputRequest";
    }
    match question.kind {
        Kind::Clarification => "ClarificationRequest",
        Kind::Selection => "SelectionRequest",
        Kind::Approval => "ApprovalRequest",
        Kind::PlanReview => "PlanReviewRequest",
        Kind::ToolApproval => "ToolApprovalRequest",
        Kind::OutcomeCheck => "OutcomeCheckRequest",
    }
}

/// The call that waits at a gate, if the question is about one: exactly what would be done, as people are
/// shown it.
pub(super) fn gated(question: &Question) -> Option<(&str, Value)> {
    match &question.origin {
        Origin::Gate(call) => Some((&call.tool, question.shown()["arguments"].take())),
        Origin::UserTurn
        | Origin::Directive
        | Origin::ToolCall(_)
        | Origin::HumanStep
        | Origin::LostOutcome(_)
        | Origin::Phase(_)
        | Origin::Budget(_) => None,
    }
}
