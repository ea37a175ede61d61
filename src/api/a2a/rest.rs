//! HTTP+JSON: A2A's binding by paths and verbs.

use axum::body::Body;
use axum::http::{Method, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::a2a::A2a;
use crate::api::a2a::answer::{self, Answer, sse, stream, value};
use crate::api::a2a::call::Call;
use crate::api::a2a::core::Caller;
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::wire::a2a::{
    CancelTask, GetPushConfig, GetTask, ListPushConfigs, ListTasks, PushConfig, SendMessage,
    StreamResponse, SubscribeToTask,
};

/// What a success is sent as, mostly; errors are plain JSON, which every client reads.
const A2A_JSON: &str = "application/a2a+json";
const JSON: &str = "application/json";

/// Answers one call.
pub(super) async fn answer(a2a: &A2a, call: Call) -> Response<Body> {
    // In the media type that the caller speaks; A2A's own where it does not say.
    let accepts = call.header("accept").unwrap_or_default();
    let is_plain =
        call.media_type() == JSON || (accepts.contains(JSON) && !accepts.contains(A2A_JSON));
    let media_type = if is_plain { JSON } else { A2A_JSON };
    match Box::pin(perform(a2a, &call)).await {
        Ok(Answer::Value(body)) => answer::json(200, media_type, &body),
        Ok(Answer::Stream(stream)) => sse(stream, bare),
        Err(problem) => refused(&problem),
    }
}

/// A no.
pub(super) fn refused(problem: &Problem) -> Response<Body> {
    answer::json(problem.http(), JSON, &problem.to_rest())
}

fn bare(told: Outcome<StreamResponse>) -> Value {
    match told {
        Ok(told) => json!(told),
        Err(problem) => problem.to_rest(),
    }
}

async fn perform(a2a: &A2a, call: &Call) -> Outcome<Answer> {
    let caller = call.caller(a2a, "")?;
    call.check_version()?;
    let path: Vec<_> = call.path.iter().map(String::as_str).collect();
    match (&call.method, path.as_slice()) {
        (&Method::POST, ["message:send"]) => {
            let message = message(call)?;
            let caller = call.caller(a2a, &message.tenant)?;
            value(a2a.core.send(&caller, &message).await?)
        }
        (&Method::POST, ["message:stream"]) => {
            let message = message(call)?;
            let caller = call.caller(a2a, &message.tenant)?;
            a2a.core.send_streaming(&caller, &message).await.map(stream)
        }
        (&Method::GET, ["tasks"]) => value(a2a.core.list(&caller, &listing(call)?).await?),
        (method, ["tasks", task]) => one(a2a, call, &caller, (method, task)).await,
        (method, ["tasks", task, "pushNotificationConfigs", rest @ ..]) => {
            push(a2a, call, &caller, (method, task, rest)).await
        }
        (&Method::GET, ["extendedAgentCard"]) => {
            call.extended_card(a2a, &caller).map(Answer::Value)
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
) -> Outcome<Answer> {
    let (id, verb) = task.rsplit_once(':').unwrap_or((task, ""));
    let id = id.to_owned();
    match (method, verb) {
        (&Method::GET, "") => {
            let history_length = number(call, "historyLength")?;
            let get = GetTask { id, history_length, ..GetTask::default() };
            value(a2a.core.get(caller, &get).await?)
        }
        (&Method::POST, "cancel") => {
            let cancel = CancelTask { id, ..CancelTask::default() };
            value(a2a.core.cancel(caller, &cancel).await?)
        }
        // The protocol's table says GET, its text says POST, and clients do either.
        (&Method::GET | &Method::POST, "subscribe") => {
            let subscribe = SubscribeToTask { id, ..SubscribeToTask::default() };
            a2a.core.subscribe(caller, &subscribe, call.last_event()).await.map(stream)
        }
        _ => Err(no_page(call)),
    }
}

/// A call about the webhooks of a task.
async fn push(
    a2a: &A2a,
    call: &Call,
    caller: &Caller,
    (method, task, rest): (&Method, &str, &[&str]),
) -> Outcome<Answer> {
    let task_id = task.to_owned();
    let one = |id: &str| GetPushConfig {
        task_id: task_id.clone(),
        id: id.to_owned(),
        ..GetPushConfig::default()
    };
    match (method, rest) {
        (&Method::POST, []) => {
            let config = PushConfig { task_id, ..typed(call)? };
            value(a2a.core.create_push(caller, &config).await?)
        }
        (&Method::GET, []) => {
            let page_size = number(call, "pageSize")?.unwrap_or_default();
            let page_token = call.asked("pageToken").unwrap_or_default().to_owned();
            let tenant = String::new();
            let list = ListPushConfigs { tenant, task_id, page_size, page_token };
            value(a2a.core.list_pushes(caller, &list).await?)
        }
        (&Method::GET, [id]) => value(a2a.core.get_push(caller, &one(id)).await?),
        (&Method::DELETE, [id]) => {
            a2a.core.delete_push(caller, &one(id)).await?;
            Ok(Answer::Value(json!({})))
        }
        _ => Err(no_page(call)),
    }
}

pub(super) fn no_page(call: &Call) -> Problem {
    let path: String = call.path.join("/").chars().take(80).collect();
    let message = format!("there is no `{} {path}`", call.method);
    Problem::new(Kind::NotFound, "path.unknown", message)
}

fn message(call: &Call) -> Outcome<SendMessage> {
    if ![JSON, A2A_JSON].contains(&call.media_type()) {
        return Err(Problem::content_type(format!(
            "content-type: expected `{A2A_JSON}` or `{JSON}`"
        )));
    }
    typed(call)
}

fn listing(call: &Call) -> Outcome<ListTasks> {
    let text = |name| call.asked(name).unwrap_or_default().to_owned();
    let status = match call.asked("status") {
        None | Some("") => crate::wire::a2a::TaskState::default(),
        Some(word) => serde_json::from_value(json!(word)).map_err(|_| {
            Problem::invalid("status", "expected a state such as `TASK_STATE_INPUT_REQUIRED`")
        })?,
    };
    let include_artifacts = match call.asked("includeArtifacts") {
        None | Some("") => None,
        Some(word) => Some(
            word.parse()
                .map_err(|_| Problem::invalid("includeArtifacts", "expected `true` or `false`"))?,
        ),
    };
    Ok(ListTasks {
        tenant: String::new(),
        context_id: text("contextId"),
        status,
        page_size: number(call, "pageSize")?,
        page_token: text("pageToken"),
        history_length: number(call, "historyLength")?,
        status_timestamp_after: call.asked("statusTimestampAfter").map(str::to_owned),
        include_artifacts,
    })
}

pub(super) fn number(call: &Call, name: &str) -> Outcome<Option<i32>> {
    match call.asked(name) {
        None | Some("") => Ok(None),
        Some(text) => {
            text.parse().map(Some).map_err(|_| Problem::invalid(name, "expected a whole number"))
        }
    }
}

fn typed<T: DeserializeOwned>(call: &Call) -> Outcome<T> {
    serde_json::from_value(call.json()?).map_err(|error| Problem::invalid("body", error))
}
