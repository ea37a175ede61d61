//! Notify: what a webhook of a task is told, in the version of the protocol that its caller spoke.

use serde_json::{Value, json};

use crate::api::a2a::{mapping, v03};
use crate::kernel::{Event, Principal, Question, Role, Run, bars};
use crate::ports::{Head, Hook};
use crate::wire::a2a::{ArtifactUpdate, StatusUpdate, StreamResponse};

/// The media type of a notification.
pub const MEDIA_TYPE: &str = "application/a2a+json";

/// Whether a webhook is told of such an event: where the task stands, and what came of it. Pieces of
/// a result are for streams.
pub fn carries(event: &Event) -> bool {
    match event {
        Event::Parked
        | Event::Answered { .. }
        | Event::Closed { .. }
        // Others are asked, and the task says whom.
        | Event::Escalated { .. }
        | Event::Output { .. }
        | Event::Completed
        | Event::Failed(_)
        | Event::Cancelled { .. } => true,
        Event::Started(_)
        | Event::StepStarted { .. }
        | Event::Delta { .. }
        | Event::Noted { .. }
        | Event::MessageAdded { .. }
        | Event::ToolCalled { .. }
        | Event::ToolReturned { .. }
        | Event::HandedOff { .. }
        | Event::StepCompleted { .. }
        | Event::StepFailed { .. }
        | Event::Asked(_)
        | Event::Voted { .. }
        | Event::Claimed(_)
        | Event::Delegated(_)
        | Event::Reminded { .. }
        | Event::Stood { .. }
        | Event::Held { .. }
        | Event::StepOpened { .. }
        | Event::Signalled { .. }
        | Event::StepClosed { .. }
        | Event::StepOutcome { .. }
        | Event::Revoked { .. }
        | Event::Renewed { .. }
        | Event::Ruled(_)
        | Event::CheckpointSaved
        | Event::Warned(_) => false,
    }
}

/// What a webhook is told of an event. `run` has it folded in, and nothing after it.
pub fn body(hook: &Hook, run: &Run, event: &Event) -> Value {
    let mut head = Head::of(run);
    // Its owner set the webhook up, and is told its own word for the context.
    head.session = head.session.told_to(&run.owner);
    // Nobody shows a credential here: it is told as to whoever began the task.
    let barred = |one: &Question| {
        let owner = Principal::new(run.owner.clone(), Role::User, "a2a");
        bars(&run.admission(run.updated_at), (&run.id, one), &owner)
    };
    if hook.is_older {
        // There a notification is the task as it stands.
        let mut task = mapping::task(&head, &barred);
        task.artifacts = run.output.as_ref().map(mapping::artifact).into_iter().collect();
        mapping::withhold_codes(&mut task.status, &head);
        return v03::event(StreamResponse::Task(Box::new(task)), true);
    }
    let (task_id, context_id) = (run.id.to_string(), head.session.to_string());
    let told = if let Event::Output { value } = event {
        StreamResponse::ArtifactUpdate(Box::new(ArtifactUpdate {
            task_id,
            context_id,
            artifact: mapping::artifact(value),
            append: false,
            last_chunk: true,
            metadata: None,
        }))
    } else {
        let mut status = mapping::status(&head, None, &barred);
        mapping::withhold_codes(&mut status, &head);
        let metadata = None;
        StreamResponse::StatusUpdate(Box::new(StatusUpdate {
            task_id,
            context_id,
            status,
            metadata,
        }))
    };
    json!(told)
}

/// The headers by which a webhook knows that we call.
pub fn headers(hook: &Hook) -> Vec<(&'static str, String)> {
    let mut headers = vec![("content-type", MEDIA_TYPE.to_owned())];
    if hook.is_older {
        headers = vec![("content-type", "application/json".to_owned())];
    }
    if !hook.token.is_empty() {
        headers.push(("x-a2a-notification-token", hook.token.clone()));
    }
    if !hook.scheme.is_empty() {
        let proof = format!("{} {}", hook.scheme, hook.credentials);
        headers.push(("authorization", proof.trim().to_owned()));
    }
    headers
}
