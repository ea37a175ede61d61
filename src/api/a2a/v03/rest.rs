//! HTTP+JSON of 0.3: paths below `/v1`, and the JSON of the messages of its gRPC binding.

use axum::body::Body;
use axum::http::{Method, Response};
use prost::Message;
use serde_json::{Value, json};

use crate::api::a2a::A2a;
use crate::api::a2a::answer::{self, sse};
use crate::api::a2a::call::Call;
use crate::api::a2a::core::{Caller, TaskStream};
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::rest::{no_page, number, refused};
use crate::api::a2a::v03::{check_version, not_configured, older, proto, resubscribe};
use crate::wire::a2a::{CancelTask, GetPushConfig, GetTask, ListPushConfigs, SubscribeToTask};
use crate::wire::older as pb;
use crate::wire::proto_json;

const JSON: &str = "application/json";

/// What a call came to.
enum Told {
    Value(Value),
    /// With whether it stays open while the task waits.
    Stream(Box<TaskStream>, bool),
}

/// Answers one call.
pub(in crate::api::a2a) async fn answer(a2a: &A2a, call: Call) -> Response<Body> {
    match Box::pin(perform(a2a, &call)).await {
        Ok(Told::Value(body)) => answer::json(200, JSON, &body),
        Ok(Told::Stream(stream, stays)) => sse(stream, move |told| {
            let told =
                told.and_then(|told| written("a2a.v1.StreamResponse", &proto::event(told, stays)));
            told.unwrap_or_else(|problem| problem.to_rest())
        }),
        Err(problem) => refused(&problem),
    }
}

async fn perform(a2a: &A2a, call: &Call) -> Outcome<Told> {
    let caller = older(call.caller(a2a, "")?);
    check_version(call.version())?;
    let path: Vec<_> = call.path.iter().skip(1).map(String::as_str).collect();
    let core = &a2a.core;
    match (&call.method, path.as_slice()) {
        (&Method::POST, ["message:send"]) => {
            let message = proto::send_message(sent(call)?)?;
            let sent = proto::sent(core.send(&caller, &message).await?);
            written("a2a.v1.SendMessageResponse", &sent).map(Told::Value)
        }
        (&Method::POST, ["message:stream"]) => {
            let message = proto::send_message(sent(call)?)?;
            let stream = core.send_streaming(&caller, &message).await?;
            Ok(Told::Stream(Box::new(stream), false))
        }
        (method, ["tasks", task]) => one(a2a, call, &caller, (method, task)).await,
        (method, ["tasks", task, "pushNotificationConfigs", rest @ ..]) => {
            push(a2a, call, &caller, (method, task, rest)).await
        }
        (&Method::GET, ["card"]) => {
            call.extended_card(a2a, &caller).map_err(not_configured).map(Told::Value)
        }
        _ => Err(no_page(call)),
    }
}

/// A call about one task: `{id}`, `{id}:cancel`, `{id}:subscribe`.
async fn one(
    a2a: &A2a,
    call: &Call,
    caller: &Caller,
    (method, task): (&Method, &str),
) -> Outcome<Told> {
    let (id, verb) = task.rsplit_once(':').unwrap_or((task, ""));
    let id = id.to_owned();
    let found = match (method, verb) {
        (&Method::GET, "") => {
            // A field of a query may be written as the message has it, too.
            let history_length = match number(call, "historyLength")? {
                None => number(call, "history_length")?,
                given => given,
            };
            a2a.core.get(caller, &GetTask { id, history_length, ..GetTask::default() }).await?
        }
        (&Method::POST, "cancel") => {
            a2a.core.cancel(caller, &CancelTask { id, ..CancelTask::default() }).await?
        }
        (&Method::GET | &Method::POST, "subscribe") => {
            let wanted = SubscribeToTask { id, ..SubscribeToTask::default() };
            let stream = resubscribe(&a2a.core, caller, wanted, call.last_event()).await?;
            return Ok(Told::Stream(Box::new(stream), true));
        }
        _ => return Err(no_page(call)),
    };
    written("a2a.v1.Task", &proto::task(found)).map(Told::Value)
}

/// A call about the webhooks of a task.
async fn push(
    a2a: &A2a,
    call: &Call,
    caller: &Caller,
    (method, task, rest): (&Method, &str, &[&str]),
) -> Outcome<Told> {
    let task_id = task.to_owned();
    let named = |id: &str| GetPushConfig {
        tenant: String::new(),
        task_id: task_id.clone(),
        id: id.to_owned(),
    };
    let config = match (method, rest) {
        (&Method::POST, []) => {
            let created = proto::push_created(created(call, task)?)?;
            a2a.core.create_push(caller, &created).await?
        }
        (&Method::GET, [id]) => a2a.core.get_push(caller, &named(id)).await?,
        (&Method::DELETE, [id]) => {
            a2a.core.delete_push(caller, &named(id)).await?;
            return Ok(Told::Value(json!({})));
        }
        (&Method::GET, []) => {
            let list = ListPushConfigs { task_id, ..ListPushConfigs::default() };
            let configs = a2a.core.list_pushes(caller, &list).await?.configs;
            let configs = configs.into_iter().map(proto::push).collect();
            let next_page_token = String::new();
            let listed = pb::ListTaskPushNotificationConfigResponse { configs, next_page_token };
            return written("a2a.v1.ListTaskPushNotificationConfigResponse", &listed)
                .map(Told::Value);
        }
        _ => return Err(no_page(call)),
    };
    written("a2a.v1.TaskPushNotificationConfig", &proto::push(config)).map(Told::Value)
}

fn body(call: &Call) -> Outcome<Value> {
    if call.media_type() != JSON {
        return Err(Problem::content_type(format!("content-type: expected `{JSON}`")));
    }
    call.json()
}

fn sent(call: &Call) -> Outcome<pb::SendMessageRequest> {
    read("a2a.v1.SendMessageRequest", body(call)?)
}

/// The webhook in a body: the request whole, as clients send it, or its `config` alone, as the
/// protocol has it.
fn created(call: &Call, task: &str) -> Outcome<pb::CreateTaskPushNotificationConfigRequest> {
    let given = body(call)?;
    let given = if given.get("config").is_some() { given } else { json!({"config": given}) };
    let mut request: pb::CreateTaskPushNotificationConfigRequest =
        read("a2a.v1.CreateTaskPushNotificationConfigRequest", given)?;
    request.parent = format!("tasks/{task}");
    Ok(request)
}

fn read<M: Message + Default>(name: &str, json: Value) -> Outcome<M> {
    proto_json::read(name, json).map_err(|error| Problem::invalid("body", error))
}

fn written<M: Message>(name: &str, message: &M) -> Outcome<Value> {
    proto_json::write(name, message)
        .map_err(|error| Problem::new(Kind::Internal, "server.fault", error.to_string()))
}
