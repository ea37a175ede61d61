//! Json: the wire's shapes as JSON, for `--json`. The names are the proto's own, statuses and kinds
//! are words, times are RFC 3339, and what is absent is null.
//!
//! Every shape is taken apart in full, so that a field added to the proto is noticed here.

use prost_types::Timestamp;
use serde_json::{Value, json};

use crate::cli::{cost, people};
use crate::wire::json::Json;
use crate::wire::v1::workflow_event::Event;
use crate::wire::v1::{
    AuditEntry, Cancelled, Checkpoint, CheckpointSaved, Completed, Delta, ExecutorCompleted,
    ExecutorFailed, ExecutorInvoked, Failure, Grant, GrantRevoked, Handoff, Message, Noted,
    Option as Choice, Output, Request, RequestClosed, RequestKind, ResponseReceived, Run,
    RunStatus, Session, Started, StatusChanged, ToolCall, ToolCalled, ToolResult, Workflow,
    WorkflowEvent, WorkflowWaiting,
};

/// A value that may be absent.
pub(super) fn optional(wire: Option<&Json>) -> Value {
    wire.map_or(Value::Null, |it| Value::clone(it))
}

/// A point in time, as RFC 3339.
pub(super) fn time(wire: Option<&Timestamp>) -> Value {
    wire.and_then(timestamp).map_or(Value::Null, |at| Value::String(at.to_string()))
}

/// A point in time that can be shown.
pub(super) fn timestamp(wire: &Timestamp) -> Option<jiff::Timestamp> {
    jiff::Timestamp::new(wire.seconds, wire.nanos).ok()
}

/// A status's word: `WAITING`.
pub(super) fn status(status: i32) -> &'static str {
    match RunStatus::try_from(status).unwrap_or_default() {
        RunStatus::Unspecified => "UNKNOWN",
        RunStatus::Running => "RUNNING",
        RunStatus::Waiting => "WAITING",
        RunStatus::Completed => "COMPLETED",
        RunStatus::Failed => "FAILED",
        RunStatus::Cancelled => "CANCELLED",
    }
}

/// A kind's word: `tool_approval`.
pub(super) fn kind(kind: i32) -> &'static str {
    match RequestKind::try_from(kind).unwrap_or_default() {
        RequestKind::Unspecified => "unknown",
        RequestKind::Clarification => "clarification",
        RequestKind::Selection => "selection",
        RequestKind::Approval => "approval",
        RequestKind::PlanReview => "plan_review",
        RequestKind::ToolApproval => "tool_approval",
        RequestKind::OutcomeCheck => "outcome_check",
    }
}

/// A session.
pub(super) fn session(session: &Session) -> Value {
    let Session { session_id, owner, started_at, workflow_waiting, waiting_run_ids } = session;
    json!({
        "session_id": session_id,
        "owner": owner,
        "started_at": time(started_at.as_ref()),
        "workflow_waiting": workflow_waiting.as_ref().map(waiting),
        "waiting_run_ids": waiting_run_ids,
    })
}

/// A run.
pub(super) fn run(run: &Run) -> Value {
    let Run {
        run_id,
        session_id,
        workflow_id,
        workflow_version,
        status,
        sequence,
        started_at,
        updated_at,
        workflow_waiting,
        failure,
        owner,
        metadata,
        steps,
        forked_from_checkpoint_id,
        spent,
        usage,
    } = run;
    json!({
        "run_id": run_id,
        "session_id": session_id,
        "workflow_id": workflow_id,
        "workflow_version": workflow_version,
        "status": self::status(*status),
        "sequence": sequence,
        "started_at": time(started_at.as_ref()),
        "updated_at": time(updated_at.as_ref()),
        "workflow_waiting": workflow_waiting.as_ref().map(waiting),
        "failure": failure.as_ref().map(self::failure),
        "owner": owner,
        "metadata": metadata,
        "steps": steps,
        "forked_from_checkpoint_id": forked_from_checkpoint_id,
        "spent": spent.as_ref().map(cost::spent),
        "usage": usage.as_ref().map(cost::usage),
    })
}

/// What a run waits for.
pub(super) fn waiting(waiting: &WorkflowWaiting) -> Value {
    let WorkflowWaiting { run_id, workflow_id, since, requests, open_requests } = waiting;
    json!({
        "run_id": run_id,
        "workflow_id": workflow_id,
        "since": time(since.as_ref()),
        "requests": requests.iter().map(request).collect::<Vec<_>>(),
        "open_requests": open_requests,
    })
}

/// A question.
pub(super) fn request(request: &Request) -> Value {
    let Request {
        request_id,
        run_id,
        session_id,
        workflow_id,
        source_step,
        awaiting_agent,
        kind,
        prompt,
        context,
        options,
        response_schema,
        deadline,
        on_timeout,
        digest,
        asked_at,
        conversation,
        conversation_length,
        to,
        remind_at,
        decides,
        subject,
        code,
        verbs,
        stages,
        stage,
        votes,
        claimed_by,
        claimed_until,
        delegations,
        admits_you,
        binding,
    } = request;
    json!({
        "request_id": request_id,
        "run_id": run_id,
        "session_id": session_id,
        "workflow_id": workflow_id,
        "source_step": source_step,
        "awaiting_agent": awaiting_agent,
        "kind": self::kind(*kind),
        "prompt": prompt,
        "context": optional(context.as_ref()),
        "options": options.iter().map(choice).collect::<Vec<_>>(),
        "response_schema": optional(response_schema.as_ref()),
        "deadline": time(deadline.as_ref()),
        "on_timeout": on_timeout,
        "digest": digest,
        "asked_at": time(asked_at.as_ref()),
        "conversation": conversation.iter().map(message).collect::<Vec<_>>(),
        "conversation_length": conversation_length,
        "to": to,
        "remind_at": time(remind_at.as_ref()),
        "decides": decides,
        "subject": optional(subject.as_ref()),
        "code": code,
        "verbs": verbs,
        "stages": stages.iter().map(people::stage).collect::<Vec<_>>(),
        "stage": stage,
        "votes": votes.iter().map(people::vote).collect::<Vec<_>>(),
        "claimed_by": claimed_by,
        "claimed_until": time(claimed_until.as_ref()),
        "delegations": delegations.iter().map(people::delegation).collect::<Vec<_>>(),
        "admits_you": admits_you,
        "binding": binding,
    })
}

/// An entry of the audit trail.
pub(super) fn audit_entry(entry: &AuditEntry) -> Value {
    let AuditEntry {
        time: at,
        run_id,
        session_id,
        workflow_id,
        sequence,
        action,
        principal,
        door,
        request: asked,
        value,
        note,
        assurance,
        known_by,
        count,
        last_time,
        shown,
    } = entry;
    json!({
        "time": time(at.as_ref()),
        "run_id": run_id,
        "session_id": session_id,
        "workflow_id": workflow_id,
        "sequence": sequence,
        "action": action,
        "principal": principal,
        "door": door,
        "request": asked.as_ref().map(request),
        "value": optional(value.as_ref()),
        "note": note,
        "assurance": assurance,
        "known_by": known_by,
        "count": count,
        "last_time": time(last_time.as_ref()),
        "shown": shown.as_ref().map(people::shown),
    })
}

/// An utterance.
pub(super) fn message(message: &Message) -> Value {
    let Message { message_id, role, author_name, text, data, tool_calls, tool_call_id, usage } =
        message;
    json!({
        "message_id": message_id,
        "role": role,
        "author_name": author_name,
        "text": text,
        "data": optional(data.as_ref()),
        "tool_calls": tool_calls.iter().map(tool_call).collect::<Vec<_>>(),
        "tool_call_id": tool_call_id,
        "usage": usage.as_ref().map(cost::usage),
    })
}

/// A workflow.
pub(super) fn workflow(workflow: &Workflow) -> Value {
    let Workflow { workflow_id, description, version, pattern, agents, input_schema } = workflow;
    json!({
        "workflow_id": workflow_id,
        "description": description,
        "version": version,
        "pattern": pattern,
        "agents": agents,
        "input_schema": optional(input_schema.as_ref()),
    })
}

/// A checkpoint.
pub(super) fn checkpoint(checkpoint: &Checkpoint) -> Value {
    let Checkpoint { checkpoint_id, run_id, sequence, time, workflow_waiting, conversation_length } =
        checkpoint;
    json!({
        "checkpoint_id": checkpoint_id,
        "run_id": run_id,
        "sequence": sequence,
        "time": self::time(time.as_ref()),
        "workflow_waiting": workflow_waiting.as_ref().map(waiting),
        "conversation_length": conversation_length,
    })
}

/// An event: who, when, its `type`, and under that name what happened.
pub(super) fn event(event: &WorkflowEvent) -> Value {
    let WorkflowEvent { session_id, run_id, sequence, time, event } = event;
    let (name, body) = event.as_ref().map_or(("unknown", Value::Null), body);
    let mut json = json!({
        "session_id": session_id,
        "run_id": run_id,
        "sequence": sequence,
        "time": self::time(time.as_ref()),
        "type": name,
    });
    json[name] = body;
    json
}

/// The name of an event, and what it says.
pub(super) fn body(event: &Event) -> (&'static str, Value) {
    match event {
        Event::Started(it) => ("started", started(it)),
        Event::Status(it) => ("status", status_changed(it)),
        Event::ExecutorInvoked(it) => ("executor_invoked", invoked(it)),
        Event::ExecutorCompleted(it) => ("executor_completed", executor_completed(it)),
        Event::ExecutorFailed(it) => ("executor_failed", executor_failed(it)),
        Event::Delta(it) => ("delta", delta(it)),
        Event::Message(it) => ("message", message(it)),
        Event::ToolCall(it) => ("tool_call", tool_called(it)),
        Event::ToolResult(it) => ("tool_result", tool_result(it)),
        Event::Handoff(it) => ("handoff", handoff(it)),
        Event::RequestInfo(it) => ("request_info", request(it)),
        Event::ResponseReceived(it) => ("response_received", response_received(it)),
        Event::VoteReceived(it) => ("vote_received", people::vote_received(it)),
        Event::RequestClaimed(it) => ("request_claimed", people::claimed(it)),
        Event::RequestDelegated(it) => ("request_delegated", people::delegated(it)),
        Event::RequestClosed(it) => ("request_closed", request_closed(it)),
        Event::GrantRevoked(GrantRevoked { tool, principal }) => {
            ("grant_revoked", json!({"tool": tool, "principal": principal}))
        }
        Event::Noted(it) => ("noted", noted(it)),
        Event::RequestReminded(it) => {
            let next = time(it.next.as_ref());
            ("request_reminded", json!({"request_id": it.request_id, "next": next}))
        }
        Event::RequestEscalated(it) => {
            let deadline = time(it.deadline.as_ref());
            let body = json!({"request_id": it.request_id, "to": it.to, "deadline": deadline});
            ("request_escalated", body)
        }
        Event::StepOpened(it) => {
            ("step_opened", json!({"executor_id": it.executor_id, "as": it.r#as}))
        }
        Event::StepWorked(it) => (
            "step_worked",
            json!({
                "executor_id": it.executor_id,
                "output": optional(it.output.as_ref()),
                "failure": it.failure.as_ref().map(failure),
            }),
        ),
        Event::StepSettled(it) => (
            "step_settled",
            json!({
                "executor_id": it.executor_id,
                "outcome": it.outcome,
                "output": optional(it.output.as_ref()),
                "failure": it.failure.as_ref().map(failure),
                "reason": it.reason,
            }),
        ),
        Event::SignalReceived(it) => (
            "signal_received",
            json!({
                "name": it.name,
                "payload": optional(it.payload.as_ref()),
                "principal": it.principal,
            }),
        ),
        Event::CheckpointSaved(CheckpointSaved { checkpoint_id }) => {
            ("checkpoint_saved", json!({"checkpoint_id": checkpoint_id}))
        }
        Event::Output(Output { value }) => ("output", json!({"value": optional(value.as_ref())})),
        Event::Warning(it) => ("warning", failure(it)),
        Event::Completed(Completed {}) => ("completed", json!({})),
        Event::Failed(it) => ("failed", failure(it)),
        Event::Cancelled(Cancelled { principal, reason }) => {
            ("cancelled", json!({"principal": principal, "reason": reason}))
        }
    }
}

/// The end of a question without an answer.
pub(super) fn request_closed(closed: &RequestClosed) -> Value {
    let RequestClosed { request_id, how, principal } = closed;
    json!({"request_id": request_id, "how": how, "principal": principal})
}

/// A tool that is allowed for the rest of a run.
pub(super) fn grant(grant: &Grant) -> Value {
    let Grant { tool, principal, time: at, until } = grant;
    json!({
        "tool": tool,
        "principal": principal,
        "time": time(at.as_ref()),
        "until": time(until.as_ref()),
    })
}

fn started(started: &Started) -> Value {
    let Started { workflow_id, workflow_version, input, forked_from_checkpoint_id } = started;
    json!({
        "workflow_id": workflow_id,
        "workflow_version": workflow_version,
        "input": optional(input.as_ref()),
        "forked_from_checkpoint_id": forked_from_checkpoint_id,
    })
}

fn status_changed(changed: &StatusChanged) -> Value {
    let StatusChanged { status, workflow_waiting } = changed;
    let waiting = workflow_waiting.as_ref().map(waiting);
    json!({"status": self::status(*status), "workflow_waiting": waiting})
}

fn invoked(invoked: &ExecutorInvoked) -> Value {
    let ExecutorInvoked { executor_id, agent, turn, attempt } = invoked;
    json!({"executor_id": executor_id, "agent": agent, "turn": turn, "attempt": attempt})
}

fn executor_completed(completed: &ExecutorCompleted) -> Value {
    let ExecutorCompleted { executor_id, turn, output } = completed;
    json!({"executor_id": executor_id, "turn": turn, "output": optional(output.as_ref())})
}

fn executor_failed(failed: &ExecutorFailed) -> Value {
    let ExecutorFailed { executor_id, turn, attempt, failure, retry_at } = failed;
    json!({
        "executor_id": executor_id,
        "turn": turn,
        "attempt": attempt,
        "failure": failure.as_ref().map(self::failure),
        "retry_at": time(retry_at.as_ref()),
    })
}

fn delta(delta: &Delta) -> Value {
    let Delta { executor_id, turn, attempt, text } = delta;
    json!({"executor_id": executor_id, "turn": turn, "attempt": attempt, "text": text})
}

fn noted(noted: &Noted) -> Value {
    let Noted { executor_id, turn, attempt, memo } = noted;
    let memo = optional(memo.as_ref());
    json!({"executor_id": executor_id, "turn": turn, "attempt": attempt, "memo": memo})
}

fn tool_called(called: &ToolCalled) -> Value {
    let ToolCalled { executor_id, call } = called;
    json!({"executor_id": executor_id, "call": call.as_ref().map(tool_call)})
}

fn tool_result(result: &ToolResult) -> Value {
    let ToolResult { executor_id, call_id, value, failed } = result;
    let value = optional(value.as_ref());
    json!({"executor_id": executor_id, "call_id": call_id, "value": value, "failed": failed})
}

fn handoff(handoff: &Handoff) -> Value {
    let Handoff { source, target } = handoff;
    json!({"source": source, "target": target})
}

fn response_received(received: &ResponseReceived) -> Value {
    let ResponseReceived { request_id, value, principal, door, assurance, known_by, instead_of } =
        received;
    json!({
        "request_id": request_id,
        "value": optional(value.as_ref()),
        "principal": principal,
        "door": door,
        "assurance": assurance,
        "known_by": known_by,
        "instead_of": instead_of,
    })
}

fn failure(failure: &Failure) -> Value {
    let Failure { code, message } = failure;
    json!({"code": code, "message": message})
}

fn choice(option: &Choice) -> Value {
    let Choice { id, label, description } = option;
    json!({"id": id, "label": label, "description": description})
}

fn tool_call(call: &ToolCall) -> Value {
    let ToolCall { call_id, tool, arguments } = call;
    json!({"call_id": call_id, "tool": tool, "arguments": optional(arguments.as_ref())})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_names_its_type_and_what_is_absent_is_null() {
        let mut told = WorkflowEvent { run_id: "run_1".into(), sequence: 7, ..Default::default() };
        told.event = Some(Event::Completed(Completed {}));
        let written = event(&told);
        assert_eq!(written["type"], "completed");
        assert_eq!(written["completed"], json!({}));
        assert_eq!((&written["sequence"], &written["time"]), (&json!(7), &Value::Null));
        told.event = Some(Event::Delta(Delta { text: "hi".into(), ..Default::default() }));
        assert_eq!(event(&told)["delta"]["text"], "hi");
        assert_eq!(run(&Run::default())["workflow_waiting"], Value::Null);
    }
}
