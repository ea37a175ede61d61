//! Convert: kernel and engine → wire. Handlers never build either by hand.

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::api::times::time;
use crate::api::{form, people};
use crate::engine::{AuditEntry, InboxChange, OpenRequest, Published, Waiting};
use crate::kernel::graph::{Opening, Outcome};
use crate::kernel::policy;
use crate::kernel::{
    Audience, Closing, Event, Failure, InForce, Kind, Known, Message, Question, Run, RunId,
    SessionId, ToolCall, Usage, house_schemas, secret,
};
use crate::ports::Logged;
use crate::wire::json::Json;
use crate::wire::v1 as pb;
use pb::workflow_event::Event as Wire;

pub(super) fn audit_entry(entry: &AuditEntry) -> pb::AuditEntry {
    let asked = |question| request(&entry.run, &entry.session, &entry.workflow, question);
    pb::AuditEntry {
        time: Some(time(entry.at)),
        run_id: entry.run.to_string(),
        session_id: entry.session.to_string(),
        workflow_id: entry.workflow.clone(),
        sequence: entry.sequence,
        action: entry.action.into(),
        principal: entry.principal.clone(),
        door: entry.door.clone(),
        request: entry.question.as_ref().map(asked),
        value: entry.value.as_ref().map(Json::from),
        note: entry.note.clone(),
        assurance: assurance(entry.known.as_ref()),
        known_by: known_by(entry.known.as_ref()),
        count: entry.count,
        last_time: Some(time(entry.last)),
        shown: entry.known.as_ref().and_then(|known| known.seen).map(people::shown),
    }
}

/// An entry of the store's own log.
pub(super) fn logged(entry: &Logged) -> pb::AuditEntry {
    let (who, door) = entry.note.who();
    // What it says, field by field, for programs.
    let value = serde_json::to_value(&entry.note).unwrap_or_default();
    pb::AuditEntry {
        time: Some(time(entry.first)),
        sequence: entry.sequence,
        action: entry.note.action().into(),
        principal: who.into(),
        door: door.into(),
        assurance: assurance(entry.note.known()),
        known_by: known_by(entry.note.known()),
        value: Some(Json::from(&value)),
        note: entry.note.words(),
        count: entry.count,
        last_time: Some(time(entry.last)),
        ..pb::AuditEntry::default()
    }
}

fn assurance(known: Option<&Known>) -> String {
    known.map(|known| known.assurance.word().to_owned()).unwrap_or_default()
}

fn known_by(known: Option<&Known>) -> String {
    known.map(|known| known.credential.to_string()).unwrap_or_default()
}

pub(super) fn event(run: &RunId, session: &SessionId, published: &Published) -> pb::WorkflowEvent {
    pb::WorkflowEvent {
        session_id: session.to_string(),
        run_id: run.to_string(),
        sequence: published.sequence,
        time: Some(time(published.at)),
        event: Some(body(run, session, published)),
    }
}

/// That the operator's policy has changed, in words.
fn ruled(force: &InForce) -> Failure {
    let what = format!("the operator's policy has changed: {}", policy::told(force));
    Failure::new("policy.changed", what)
}

/// What listeners are told of a store that is another.
fn renewed(only: &[u32]) -> Failure {
    if !only.is_empty() {
        let what = "the same was refused in another run of the family: what is open was asked anew";
        return Failure::new("request.refused_elsewhere", what);
    }
    let what = "the store was put back from a backup or a copy: what is open was asked anew";
    Failure::new("store.renewed", what)
}

/// What listeners are told when a halt has ended.
fn held(is_over: bool) -> Failure {
    let what = if is_over {
        "a call that a halt had stopped is made now"
    } else {
        "a halt stands: the call is not made before it is taken back"
    };
    Failure::new("call.held", what)
}

fn stood() -> Failure {
    Failure::new(
        "run.stood",
        "a halt has ended: what would have been due meanwhile is due as much later",
    )
}

#[expect(clippy::too_many_lines, reason = "one arm for each event, and no logic")]
fn body(run: &RunId, session: &SessionId, published: &Published) -> Wire {
    let executor_id = published.step.clone().unwrap_or_default();
    let sequence = published.sequence;
    let named = published.request.as_ref().map(ToString::to_string).unwrap_or_default();
    let request_id = |_: u32| named.clone();
    match &*published.event {
        Event::Started(started) => Wire::Started(pb::Started {
            workflow_id: started.workflow.clone(),
            workflow_version: started.definition.clone(),
            input: Some(Json::from(&started.input)),
            forked_from_checkpoint_id: forked(started.forked_from.as_ref()),
        }),
        Event::StepStarted { turn, step, agent, attempt, .. } => {
            Wire::ExecutorInvoked(pb::ExecutorInvoked {
                executor_id: step.clone(),
                agent: agent.clone(),
                turn: *turn,
                attempt: *attempt,
            })
        }
        Event::Delta { turn, attempt, text } => {
            let (turn, attempt, text) = (*turn, *attempt, text.clone());
            Wire::Delta(pb::Delta { executor_id, turn, attempt, text })
        }
        Event::MessageAdded { message: said, usage: cost, .. } => Wire::Message(pb::Message {
            usage: (!cost.is_nothing()).then(|| usage(*cost)),
            ..message(run, published.message_ordinal, said)
        }),
        Event::ToolCalled { call, .. } => {
            let call = pb::ToolCall { secrets: published.secrets.clone(), ..tool_call(call) };
            Wire::ToolCall(pb::ToolCalled { executor_id, call: Some(call) })
        }
        Event::ToolReturned { call_id, value, failed, .. } => Wire::ToolResult(pb::ToolResult {
            executor_id,
            call_id: call_id.clone(),
            value: Some(Json::from(value)),
            failed: *failed,
        }),
        Event::HandedOff { from, to, .. } => {
            Wire::Handoff(pb::Handoff { source: from.clone(), target: to.clone() })
        }
        Event::StepCompleted { turn, output } => Wire::ExecutorCompleted(pb::ExecutorCompleted {
            executor_id,
            turn: *turn,
            output: (!output.is_null()).then(|| Json::from(output)),
        }),
        Event::StepFailed { turn, attempt, failure: why, retry_at, .. } => {
            Wire::ExecutorFailed(pb::ExecutorFailed {
                executor_id,
                turn: *turn,
                attempt: *attempt,
                failure: Some(failure(why)),
                retry_at: retry_at.map(time),
            })
        }
        Event::Asked(bare) => {
            let Some(asked) = &published.asked else {
                return Wire::RequestInfo(Box::new(request(run, session, "", bare)));
            };
            let first = asked.question.messages.saturating_sub(asked.recent.len());
            let mut told = Box::new(request(run, session, &asked.workflow, &asked.question));
            told.conversation = messages(run, first, &asked.recent);
            Wire::RequestInfo(told)
        }
        Event::Answered { ordinal, value, by, door, known, instead_of, .. } => {
            Wire::ResponseReceived(pb::ResponseReceived {
                request_id: request_id(*ordinal),
                value: Some(Json::from(value)),
                principal: by.clone(),
                door: door.clone(),
                assurance: assurance(known.as_deref()),
                known_by: known_by(known.as_deref()),
                instead_of: instead_of.clone().unwrap_or_default(),
            })
        }
        Event::Voted { ordinal, value, by, door, known, instead_of, void, .. } => {
            Wire::VoteReceived(pb::VoteReceived {
                request_id: request_id(*ordinal),
                value: Some(Json::from(value)),
                principal: by.clone(),
                door: door.clone(),
                assurance: assurance(known.as_deref()),
                known_by: known_by(known.as_deref()),
                instead_of: instead_of.clone().unwrap_or_default(),
                void: void.iter().map(|(_, who)| who.clone()).collect(),
            })
        }
        Event::Claimed(claimed) => {
            Wire::RequestClaimed(people::claimed(named.clone(), claimed, published.at))
        }
        Event::Delegated(delegated) => {
            Wire::RequestDelegated(people::delegated(named.clone(), delegated, published.at))
        }
        Event::Closed { ordinal, closing, by, .. } => Wire::RequestClosed(pb::RequestClosed {
            request_id: request_id(*ordinal),
            how: match closing {
                Closing::Rejected => "rejected",
                Closing::Passed => "passed",
                Closing::Withdrawn => "withdrawn",
                Closing::Moot => "moot",
            }
            .into(),
            principal: by.clone(),
        }),
        Event::Noted { turn, attempt, memo } => {
            let (turn, attempt) = (*turn, *attempt);
            Wire::Noted(pb::Noted { executor_id, turn, attempt, memo: Some(Json::from(memo)) })
        }
        Event::Reminded { ordinal, next } => Wire::RequestReminded(pb::RequestReminded {
            request_id: request_id(*ordinal),
            next: next.map(time),
        }),
        Event::Escalated { ordinal, to, deadline } => {
            Wire::RequestEscalated(pb::RequestEscalated {
                request_id: request_id(*ordinal),
                to: to.clone(),
                deadline: deadline.map(time),
            })
        }
        Event::Renewed { only, .. } => Wire::Warning(failure(&renewed(only))),
        Event::Ruled(force) => Wire::Warning(failure(&ruled(force))),
        Event::Stood { .. } => Wire::Warning(failure(&stood())),
        Event::Held { is_over, .. } => Wire::Warning(failure(&held(*is_over))),
        Event::Revoked { tool, by, .. } => {
            Wire::GrantRevoked(pb::GrantRevoked { tool: tool.clone(), principal: by.clone() })
        }
        Event::StepOpened { path, opening } => {
            let executor_id = path.clone();
            Wire::StepOpened(pb::StepOpened { executor_id, r#as: opened(opening).into() })
        }
        Event::StepOutcome { path, outcome } => Wire::StepWorked(worked(path.clone(), outcome)),
        Event::StepClosed { path, outcome } => Wire::StepSettled(settled(path.clone(), outcome)),
        Event::Signalled { name, value, by, .. } => {
            let payload = (!value.is_null()).then(|| Json::from(value));
            let (name, principal) = (name.clone(), by.clone());
            Wire::SignalReceived(pb::SignalReceived { name, payload, principal })
        }
        Event::CheckpointSaved => {
            Wire::CheckpointSaved(pb::CheckpointSaved { checkpoint_id: run.checkpoint(sequence) })
        }
        Event::Parked => Wire::Status(pb::StatusChanged {
            status: pb::RunStatus::Waiting.into(),
            workflow_waiting: published.waiting.as_deref().map(waiting),
        }),
        Event::Output { value } => Wire::Output(pb::Output { value: Some(Json::from(value)) }),
        Event::Warned(why) => Wire::Warning(failure(why)),
        Event::Completed => Wire::Completed(pb::Completed {}),
        Event::Failed(why) => Wire::Failed(failure(why)),
        Event::Cancelled { by, reason, .. } => {
            Wire::Cancelled(pb::Cancelled { principal: by.clone(), reason: reason.clone() })
        }
    }
}

fn opened(opening: &Opening) -> &'static str {
    match opening {
        Opening::Step => "step",
        Opening::Branch => "branch",
        Opening::Item => "item",
        Opening::Round => "round",
        Opening::Scope(_) => "scope",
        Opening::Items(_) => "items",
        Opening::Wait { .. } => "wait",
    }
}

fn settled(executor_id: String, outcome: &Outcome) -> pb::StepSettled {
    let plain = pb::StepSettled { executor_id, ..pb::StepSettled::default() };
    let of = |word: &str| pb::StepSettled { outcome: word.into(), ..plain.clone() };
    match outcome {
        Outcome::Done(value) => {
            let output = (!value.is_null()).then(|| Json::from(value));
            pb::StepSettled { output, ..of("done") }
        }
        Outcome::Skipped(reason) => pb::StepSettled { reason: reason.clone(), ..of("skipped") },
        Outcome::Returned(reason) => pb::StepSettled { reason: reason.clone(), ..of("returned") },
        Outcome::Failed(why) => pb::StepSettled { failure: Some(failure(why)), ..of("failed") },
        Outcome::Tolerated(why) => {
            pb::StepSettled { failure: Some(failure(why)), ..of("tolerated") }
        }
    }
}

fn worked(executor_id: String, outcome: &Outcome) -> pb::StepWorked {
    let pb::StepSettled { executor_id, output, failure, .. } = settled(executor_id, outcome);
    pb::StepWorked { executor_id, output, failure }
}

pub(super) fn failure(why: &Failure) -> pb::Failure {
    pb::Failure { code: why.code.clone(), message: why.message.clone() }
}

pub(super) fn forked(from: Option<&(RunId, u64)>) -> String {
    from.map(|(run, version)| run.checkpoint(*version)).unwrap_or_default()
}

fn tool_call(call: &ToolCall) -> pb::ToolCall {
    pb::ToolCall {
        call_id: call.id.clone(),
        tool: call.tool.clone(),
        arguments: Some(Json::from(&call.arguments)),
        secrets: Vec::new(),
    }
}

pub(super) fn message(run: &RunId, ordinal: usize, message: &Message) -> pb::Message {
    pb::Message {
        message_id: run.message(ordinal),
        role: message.role.word().into(),
        author_name: message.author.clone(),
        text: message.text.clone(),
        data: message.data.as_ref().map(Json::from),
        tool_calls: message.calls.iter().map(tool_call).collect(),
        tool_call_id: message.call_id.clone().unwrap_or_default(),
        usage: None,
        only_for: match &message.audience {
            Audience::Only(agent) => agent.clone(),
            Audience::All | Audience::Except(_) => String::new(),
        },
        cut: message.cut,
    }
}

pub(super) fn usage(usage: Usage) -> pb::Usage {
    pb::Usage { input_tokens: usage.input_tokens, output_tokens: usage.output_tokens }
}

/// Everything that was said in a run, with the places of secrets in its calls.
pub(super) fn conversation(run: &Run) -> Vec<pb::Message> {
    let mut told = messages(&run.id, 0, &run.conversation);
    for (told, said) in told.iter_mut().zip(&run.conversation) {
        for (told, call) in told.tool_calls.iter_mut().zip(&said.calls) {
            told.secrets = secret::of_call(&run.workflow, &call.tool, &call.arguments);
        }
    }
    told
}

/// Messages of a conversation, the first of which is its `skipped + 1`-th.
pub(super) fn messages(run: &RunId, skipped: usize, list: &[Arc<Message>]) -> Vec<pb::Message> {
    list.iter().enumerate().map(|(index, said)| message(run, skipped + index + 1, said)).collect()
}

pub(super) fn kind(kind: Kind) -> pb::RequestKind {
    match kind {
        Kind::Clarification => pb::RequestKind::Clarification,
        Kind::Selection => pb::RequestKind::Selection,
        Kind::Approval => pb::RequestKind::Approval,
        Kind::PlanReview => pb::RequestKind::PlanReview,
        Kind::ToolApproval => pb::RequestKind::ToolApproval,
        Kind::OutcomeCheck => pb::RequestKind::OutcomeCheck,
    }
}

/// A schema as the wire has it, and the order of its fields.
type Written = (Json, Vec<String>);

/// The house's own schemas.
static HOUSE: LazyLock<[(Arc<Value>, Written); 4]> = LazyLock::new(|| {
    house_schemas().map(|schema| {
        let order = form::order(&schema);
        (Arc::clone(&schema), (schema.into(), order))
    })
});

fn schema(question: &Question) -> Written {
    let schema = question.response_schema();
    let known = HOUSE.iter().find(|(house, _)| Arc::ptr_eq(house, &schema));
    if let Some((_, written)) = known {
        return written.clone();
    }
    let order = form::order(&schema);
    (schema.into(), order)
}

fn request(run: &RunId, session: &SessionId, workflow: &str, question: &Question) -> pb::Request {
    let (response_schema, field_order) = schema(question);
    pb::Request {
        request_id: question.id(run).to_string(),
        run_id: run.to_string(),
        session_id: session.to_string(),
        workflow_id: workflow.to_owned(),
        source_step: question.step.clone(),
        awaiting_agent: question.agent.clone().unwrap_or_default(),
        kind: kind(question.kind).into(),
        r#type: question.named.as_deref().map(|named| pb::NamedType {
            name: named.name.clone(),
            title: named.title.clone(),
            show: named.show.clone(),
        }),
        prompt: question.prompt.clone(),
        context: (!question.context.is_null()).then(|| Json::from(&question.context)),
        options: question
            .options
            .iter()
            .map(|option| pb::Option {
                id: option.id.clone(),
                label: option.label().to_owned(),
                description: option.description.clone(),
            })
            .collect(),
        response_schema: Some(response_schema),
        field_order,
        deadline: question.deadline.map(time),
        stands_with_ms_left: question.still.as_ref().and_then(|still| still.left_ms),
        halted: question.still.is_some(),
        on_timeout: question.silence().into(),
        digest: question.digest.clone(),
        decides: question.decides(),
        subject: Some(question.shown()).filter(|shown| !shown.is_null()).map(|it| Json::from(&it)),
        code: question.code(),
        verbs: question.verbs().into_iter().map(|verb| verb.word().to_owned()).collect(),
        stages: people::stages(question),
        stage: question.stage,
        votes: question.standing_votes().map(people::vote).collect(),
        to: question.to.clone(),
        asked_before: question.asked_before.clone(),
        remind_at: question.remind_at.map(time),
        claimed_by: question.claim.as_ref().map(|claim| claim.by.clone()).unwrap_or_default(),
        claimed_until: question.claim.as_ref().map(|claim| time(claim.until)),
        delegations: question.delegations.iter().map(people::delegation).collect(),
        admits_you: None,
        binding: question.binding().into(),
        veiled: question.is_masked(),
        asked_at: Some(time(question.asked_at)),
        conversation: Vec::new(),
        conversation_length: u32::try_from(question.messages).unwrap_or(u32::MAX),
    }
}

/// An open request, for somebody whom it admits or not.
pub(super) fn open_request(open: &OpenRequest, admits: bool) -> pb::Request {
    let asked = request(&open.run, &open.session, &open.workflow, &open.question);
    pb::Request { admits_you: Some(admits), ..asked }
}

pub(super) fn waiting(waiting: &Waiting) -> pb::WorkflowWaiting {
    let one = |question: &Arc<Question>| {
        request(&waiting.run, &waiting.session, &waiting.workflow, question)
    };
    pb::WorkflowWaiting {
        run_id: waiting.run.to_string(),
        workflow_id: waiting.workflow.clone(),
        since: Some(time(waiting.since)),
        requests: waiting.questions.iter().map(one).collect(),
        open_requests: u32::try_from(waiting.open).unwrap_or(u32::MAX),
    }
}

pub(super) fn inbox_change(
    change: InboxChange,
    admits: impl Fn(&OpenRequest) -> bool,
) -> pb::WatchRequestsResponse {
    use pb::watch_requests_response::Change;
    let change = match change {
        InboxChange::Opened(open) => Change::Opened(open_request(&open, admits(&open))),
        InboxChange::Closed { request, how, by, owner: _ } => Change::Closed(pb::RequestClosed {
            request_id: request.to_string(),
            how: how.into(),
            principal: by,
        }),
        InboxChange::CaughtUp => Change::CaughtUp(pb::CaughtUp {}),
    };
    pb::WatchRequestsResponse { change: Some(change) }
}
