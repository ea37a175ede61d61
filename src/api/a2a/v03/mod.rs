//! 0.3: the protocol's earlier version on all three bindings, behind a switch. A translation at the
//! edge: what comes is turned into 1.0's shapes and back, and the core knows nothing of it.
//!
//! JSON-RPC has shapes of its own (`shape`); HTTP+JSON is the JSON of the messages of gRPC (`proto`).

pub(super) mod card;
mod grpc;
mod proto;
mod rest;
mod shape;

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::api::a2a::A2a;
use crate::api::a2a::answer::{Answer, stream};
use crate::api::a2a::call::Call;
use crate::api::a2a::core::{Caller, Core, TaskStream};
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::v03::shape::{
    message_out, push_in, push_named, push_out, send_message, task_out,
};
use crate::wire::a2a::{
    CancelTask, GetTask, ListPushConfigs, SendMessageResponse, SubscribeToTask, TaskState,
};

pub use grpc::OlderService;
pub(super) use rest::answer as answer_rest;
pub(super) use shape::event;

/// The version as its cards say it.
const PROTOCOL: &str = "0.3.0";
/// The version as interfaces say it.
const VERSION: &str = "0.3";
/// What the paths of HTTP+JSON begin with in this version.
pub(super) const PREFIX: &str = "v1";
/// The webhook that is meant where a call names none; this version knows such a one.
const DEFAULT_PUSH: &str = "default";

/// Whether a method is of this version: its names have a slash.
pub(super) fn is_method(method: &str) -> bool {
    method.contains('/')
}

/// Whether a method is answered by a stream.
pub(super) fn streams(method: &str) -> bool {
    matches!(method, "message/stream" | "tasks/resubscribe")
}

/// Whether a stream of this method stays open while the task waits.
pub(super) fn stays(method: &str) -> bool {
    method == "tasks/resubscribe"
}

/// Answers one call of this version.
pub(super) async fn perform(
    a2a: &A2a,
    call: &Call,
    method: &str,
    params: Value,
) -> Outcome<Answer> {
    let caller = older(call.caller(a2a, "")?);
    check_version(call.version())?;
    let core = &a2a.core;
    match method {
        "message/send" => {
            let sent = core.send(&caller, &send_message(params)?).await?;
            Ok(Answer::Value(match sent {
                SendMessageResponse::Task(task) => task_out(*task),
                SendMessageResponse::Message(message) => message_out(*message),
            }))
        }
        "message/stream" => core.send_streaming(&caller, &send_message(params)?).await.map(stream),
        "tasks/get" => {
            let call: GetTask = typed(params)?;
            Ok(Answer::Value(task_out(core.get(&caller, &call).await?)))
        }
        "tasks/cancel" => {
            let call: CancelTask = typed(params)?;
            Ok(Answer::Value(task_out(core.cancel(&caller, &call).await?)))
        }
        "tasks/resubscribe" => {
            let last = call.last_event();
            resubscribe(core, &caller, typed(params)?, last).await.map(stream)
        }
        "tasks/pushNotificationConfig/set" => {
            Ok(Answer::Value(push_out(core.create_push(&caller, &push_in(&params)?).await?)))
        }
        "tasks/pushNotificationConfig/get" => {
            Ok(Answer::Value(push_out(core.get_push(&caller, &push_named(&params)).await?)))
        }
        "tasks/pushNotificationConfig/list" => {
            let task_id = push_named(&params).task_id;
            let list = ListPushConfigs { task_id, ..ListPushConfigs::default() };
            let listed = core.list_pushes(&caller, &list).await?.configs;
            Ok(Answer::Value(listed.into_iter().map(push_out).collect()))
        }
        "tasks/pushNotificationConfig/delete" => {
            core.delete_push(&caller, &push_named(&params)).await?;
            Ok(Answer::Value(Value::Null))
        }
        "agent/getAuthenticatedExtendedCard" => {
            let card = call.extended_card(a2a, &caller).map_err(not_configured)?;
            Ok(Answer::Value(card))
        }
        _ => {
            let method: String = method.chars().take(80).collect();
            let message = format!("there is no method `{method}`");
            Err(Problem::new(Kind::MethodNotFound, "method.unknown", message))
        }
    }
}

/// Who calls, in this version.
fn older(caller: Caller) -> Caller {
    Caller { is_older: true, ..caller }
}

/// Refuses a version that is another; clients of this one mostly say nothing.
fn check_version(given: Option<&str>) -> Outcome<()> {
    let given = given.map(str::trim).unwrap_or_default();
    let mut numbers = given.split('.');
    if given.is_empty() || (numbers.next(), numbers.next()) == (Some("0"), Some("3")) {
        return Ok(());
    }
    Err(Problem::version(given, VERSION))
}

/// This version has a name of its own for a card that is not there.
fn not_configured(mut problem: Problem) -> Problem {
    if problem.kind == Kind::UnsupportedOperation {
        problem.kind = Kind::ExtendedCardNotConfigured;
    }
    problem
}

/// A task that is over is told once more, where 1.0 refuses.
async fn resubscribe(
    core: &Core,
    caller: &Caller,
    wanted: SubscribeToTask,
    last: Option<u64>,
) -> Outcome<TaskStream> {
    match core.subscribe(caller, &wanted, last).await {
        Err(problem) if problem.kind == Kind::UnsupportedOperation => {
            let get = GetTask { id: wanted.id, ..GetTask::default() };
            let task = core.get(caller, &get).await?;
            core.told_once(caller, task).await
        }
        subscribed => subscribed,
    }
}

/// Whether a status is the last of its stream. `stays` if the stream does not end with a pause.
fn is_last(state: TaskState, stays: bool) -> bool {
    match state {
        TaskState::Completed | TaskState::Failed | TaskState::Canceled | TaskState::Rejected => {
            true
        }
        TaskState::InputRequired => !stays,
        TaskState::Unspecified
        | TaskState::Submitted
        | TaskState::Working
        | TaskState::AuthRequired => false,
    }
}

fn typed<T: DeserializeOwned>(params: Value) -> Outcome<T> {
    serde_json::from_value(params).map_err(|error| Problem::invalid("params", error))
}
