//! DevUI's pages: what is here, and what each workflow is made of.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde_json::{Map, Value, json};

use crate::api::bridge::Bridge;
use crate::api::bridge::errors::{Outcome, Problem};
use crate::api::bridge::http::{Call, Reply};
use crate::api::bridge::workflows::summary;
use crate::definition::draw;
use crate::engine::Entry;
use crate::kernel::Workflow;

/// What a workflow without a schema of its own is given: a text.
fn input_schema(entry: &Entry) -> Value {
    entry.workflow.input.clone().unwrap_or_else(|| json!({"type": "string"}))
}

/// `GET /health`
pub(super) async fn health(State(bridge): State<Bridge>) -> Outcome<Reply> {
    if !bridge.engine.is_healthy() {
        let why = "the store takes no writes; the server's log says why";
        let status = StatusCode::SERVICE_UNAVAILABLE;
        return Err(Problem::new(status, "store.failed", why));
    }
    let entities = bridge.engine.library().all().len();
    Ok(Reply::Json(json!({
        "status": "healthy", "entities_count": entities, "framework": "agent_framework",
    })))
}

/// `GET /meta`
pub(super) async fn meta(State(bridge): State<Bridge>) -> Reply {
    Reply::Json(json!({
        "ui_mode": "user",
        "version": env!("CARGO_PKG_VERSION"),
        "framework": "holdpoint",
        "runtime": "rust",
        "capabilities": {"instrumentation": false, "deployment": false, "openai_proxy": false},
        "auth_required": bridge.doorkeeper.wants_key(),
    }))
}

/// `GET /v1/entities`
pub(super) async fn all(State(bridge): State<Bridge>, call: Call) -> Reply {
    let entities: Vec<_> = bridge.engine.workflows(&call.who).iter().map(entity).collect();
    Reply::Json(json!({"entities": entities}))
}

/// `GET /v1/entities/{id}/info`
pub(super) async fn info(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    let entry = bridge.entry(&id, &call.who)?;
    let workflow = &entry.workflow;
    let mut info = entity(&entry);
    info["input_schema"] = input_schema(&entry);
    info["input_type_name"] = json!("input");
    info["executors"] = json!(workflow.agents.keys().collect::<Vec<_>>());
    info["workflow_dump"] = dump(workflow);
    info["mermaid"] = json!((bridge.draw)(workflow));
    Ok(Reply::Json(info))
}

/// A workflow as DevUI's page draws it, with the definition itself beside that.
fn dump(workflow: &Workflow) -> Value {
    let outline = draw::outline(workflow);
    let executors: Map<String, Value> = outline
        .parts
        .iter()
        .map(|(name, is_person)| {
            let kind = if *is_person { "person" } else { "agent" };
            (name.clone(), json!({"id": name, "name": name, "type": kind}))
        })
        .collect();
    let edges: Vec<_> = outline
        .arrows
        .iter()
        .map(|(from, to, when)| json!({"source_id": from, "target_id": to, "condition_name": when}))
        .collect();
    json!({
        "id": workflow.name,
        "name": workflow.name,
        "start_executor_id": outline.first.unwrap_or_default(),
        "max_iterations": workflow.limits.steps,
        "executors": executors,
        "edge_groups": [{"id": "all", "type": "edges", "edges": edges}],
        "definition": workflow,
    })
}

/// `GET /v1/models`
pub(super) async fn models(State(bridge): State<Bridge>, call: Call) -> Reply {
    let models: Vec<_> = bridge.engine.workflows(&call.who).iter().map(model_of).collect();
    Reply::Json(json!({"object": "list", "data": models}))
}

/// `GET /v1/models/{id}`
pub(super) async fn model(
    State(bridge): State<Bridge>,
    Path(id): Path<String>,
    call: Call,
) -> Outcome<Reply> {
    Ok(Reply::Json(model_of(&bridge.entry(&id, &call.who)?)))
}

fn model_of(entry: &Entry) -> Value {
    json!({"id": entry.workflow.name, "object": "model", "created": 0, "owned_by": "holdpoint"})
}

fn entity(entry: &Entry) -> Value {
    let mut entity = summary(entry);
    entity["type"] = json!("workflow");
    entity["framework"] = json!("holdpoint");
    entity["tools"] = json!([]);
    entity["executors"] = entity["agents"].clone();
    entity["source"] = json!("directory");
    entity["metadata"] = json!({});
    entity
}
