//! JSON-RPC: A2A's first binding. One call, one answer or one stream; no batches, as the protocol has none.

use axum::body::Body;
use axum::http::{Method, Response};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::api::a2a::answer::{Answer, json, once, sse, stream, value};
use crate::api::a2a::call::Call;
use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::{A2a, v03};
use crate::wire::a2a::StreamResponse;

const JSON: &str = "application/json";

/// Answers one call.
pub(super) async fn answer(a2a: &A2a, call: Call) -> Response<Body> {
    let mut id = Value::Null;
    let mut dialect = Dialect::Current;
    let mut tells_in_stream = false;
    let outcome = match read(&call, &mut id) {
        Ok((method, params)) if a2a.settings.v03 && v03::is_method(&method) => {
            dialect = Dialect::Older { stays: v03::stays(&method) };
            tells_in_stream = v03::streams(&method);
            Box::pin(v03::perform(a2a, &call, &method, params)).await
        }
        Ok((method, params)) => Box::pin(perform(a2a, &call, &method, params)).await,
        Err(problem) => Err(problem),
    };
    match outcome {
        Ok(Answer::Value(result)) => {
            json(200, JSON, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
        }
        Ok(Answer::Stream(stream)) => sse(stream, move |told| wrapped(&id, dialect, told)),
        // There whoever asks for a stream is answered by one, whatever it says.
        Err(problem) if tells_in_stream && status(&problem) == 200 => once(&no(&id, &problem)),
        Err(problem) => refused(&id, &problem),
    }
}

/// A no. The binding says it in the body; only who calls is told by HTTP as well.
pub(super) fn refused(id: &Value, problem: &Problem) -> Response<Body> {
    json(status(problem), JSON, &no(id, problem))
}

fn no(id: &Value, problem: &Problem) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": problem.to_jsonrpc()})
}

fn status(problem: &Problem) -> u16 {
    match problem.kind {
        Kind::Unauthenticated | Kind::Forbidden => problem.http(),
        Kind::TaskNotFound
        | Kind::TaskNotCancelable
        | Kind::PushNotificationNotSupported
        | Kind::UnsupportedOperation
        | Kind::ContentTypeNotSupported
        | Kind::ExtendedCardNotConfigured
        | Kind::VersionNotSupported
        | Kind::Parse
        | Kind::InvalidRequest
        | Kind::MethodNotFound
        | Kind::InvalidParams
        | Kind::NotFound
        | Kind::Unavailable
        | Kind::Internal => 200,
    }
}

/// Which version of the protocol a call is written in.
#[derive(Debug, Clone, Copy)]
enum Dialect {
    Current,
    /// 0.3; and whether its stream stays open while the task waits.
    Older {
        stays: bool,
    },
}

fn wrapped(id: &Value, dialect: Dialect, told: Outcome<StreamResponse>) -> Value {
    match told {
        Ok(told) => {
            let told = match dialect {
                Dialect::Current => json!(told),
                Dialect::Older { stays } => v03::event(told, stays),
            };
            json!({"jsonrpc": "2.0", "id": id, "result": told})
        }
        Err(problem) => no(id, &problem),
    }
}

/// The method and its parameters; `id` is told as soon as it is known.
fn read(call: &Call, id: &mut Value) -> Outcome<(String, Value)> {
    let no_call = |message: &str| Problem::new(Kind::InvalidRequest, "call.invalid", message);
    if call.method != Method::POST {
        return Err(no_call("JSON-RPC calls are sent by POST"));
    }
    if call.media_type() != JSON {
        return Err(Problem::content_type(format!("content-type: expected `{JSON}`")));
    }
    let mut given = call.json()?;
    let Some(fields) = given.as_object_mut() else {
        return Err(no_call("expected one JSON-RPC call, as an object"));
    };
    match fields.remove("id") {
        Some(given @ (Value::String(_) | Value::Number(_) | Value::Null)) => *id = given,
        None => {}
        Some(_) => return Err(no_call("id: expected a string or a number")),
    }
    if fields.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(no_call("jsonrpc: expected `2.0`"));
    }
    let Some(Value::String(method)) = fields.remove("method") else {
        return Err(no_call("method: expected a method's name"));
    };
    let params = fields.remove("params").filter(|params| !params.is_null());
    Ok((method, params.unwrap_or_else(|| json!({}))))
}

async fn perform(a2a: &A2a, call: &Call, method: &str, params: Value) -> Outcome<Answer> {
    let tenant = params.get("tenant").and_then(Value::as_str).unwrap_or_default().to_owned();
    let caller = call.caller(a2a, &tenant)?;
    call.check_version()?;
    let core = &a2a.core;
    match method {
        "SendMessage" => value(core.send(&caller, &typed(params)?).await?),
        "SendStreamingMessage" => core.send_streaming(&caller, &typed(params)?).await.map(stream),
        "GetTask" => value(core.get(&caller, &typed(params)?).await?),
        "ListTasks" => value(core.list(&caller, &typed(params)?).await?),
        "CancelTask" => value(core.cancel(&caller, &typed(params)?).await?),
        "SubscribeToTask" => {
            let last = call.last_event();
            core.subscribe(&caller, &typed(params)?, last).await.map(stream)
        }
        "CreateTaskPushNotificationConfig" => {
            value(core.create_push(&caller, &typed(params)?).await?)
        }
        "GetTaskPushNotificationConfig" => value(core.get_push(&caller, &typed(params)?).await?),
        "ListTaskPushNotificationConfigs" => {
            value(core.list_pushes(&caller, &typed(params)?).await?)
        }
        "DeleteTaskPushNotificationConfig" => {
            core.delete_push(&caller, &typed(params)?).await?;
            Ok(Answer::Value(json!({})))
        }
        "GetExtendedAgentCard" => call.extended_card(a2a, &caller).map(Answer::Value),
        _ => {
            let method: String = method.chars().take(80).collect();
            let message = format!("there is no method `{method}`");
            Err(Problem::new(Kind::MethodNotFound, "method.unknown", message))
        }
    }
}

fn typed<T: DeserializeOwned>(params: Value) -> Outcome<T> {
    serde_json::from_value(params).map_err(|error| Problem::invalid("params", error))
}
