//! Routes: every path of the bridge, once; the description of it is held to this table by a test.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{any, get, post};

use crate::api::bridge::errors::Problem;
use crate::api::bridge::{Bridge, conversations, entities, live, openapi, responses, workflows};

/// Each path, and what may be done there.
#[cfg(test)]
const PATHS: &[(&str, &[&str])] = &[
    ("/v1/responses", &["post"]),
    ("/v1/responses/{response_id}", &["get", "delete"]),
    ("/v1/responses/{response_id}/cancel", &["post"]),
    ("/v1/responses/{response_id}/input_items", &["get"]),
    ("/v1/conversations", &["get", "post"]),
    ("/v1/conversations/{conversation_id}", &["get", "post", "delete"]),
    ("/v1/conversations/{conversation_id}/items", &["get"]),
    ("/v1/conversations/{conversation_id}/items/{item_id}", &["get"]),
    ("/v1/models", &["get"]),
    ("/v1/models/{workflow_id}", &["get"]),
    ("/health", &["get"]),
    ("/meta", &["get"]),
    ("/v1/entities", &["get"]),
    ("/v1/entities/{workflow_id}/info", &["get"]),
    ("/v1/agents", &["get"]),
    ("/v1/workflows", &["get"]),
    ("/v1/workflows/{workflow_id}", &["get"]),
    ("/v1/workflows/{workflow_id}/runs", &["get"]),
    ("/v1/workflows/{workflow_id}/send_responses", &["post"]),
    ("/v1/workflows/{workflow_id}/requests/{request_id}/responses", &["post"]),
    ("/v1/runs/{run_id}/status", &["get"]),
    ("/v1/runs/{run_id}/audit", &["get"]),
    ("/v1/ws", &["get"]),
    ("/openapi.json", &["get"]),
];

pub(super) fn router(bridge: Bridge) -> Router {
    Router::new()
        .route("/v1/responses", post(responses::create))
        .route("/v1/responses/{response_id}", get(responses::retrieve).delete(responses::delete))
        .route("/v1/responses/{response_id}/cancel", post(responses::cancel))
        .route("/v1/responses/{response_id}/input_items", get(responses::input_items))
        .route("/v1/conversations", get(conversations::list).post(conversations::create))
        .route(
            "/v1/conversations/{conversation_id}",
            get(conversations::retrieve).post(conversations::update).delete(conversations::delete),
        )
        .route("/v1/conversations/{conversation_id}/items", get(conversations::items))
        .route("/v1/conversations/{conversation_id}/items/{item_id}", get(conversations::item))
        .route("/v1/models", get(entities::models))
        .route("/v1/models/{workflow_id}", get(entities::model))
        .route("/health", get(entities::health))
        .route("/meta", get(entities::meta))
        .route("/v1/entities", get(entities::all))
        .route("/v1/entities/{workflow_id}/info", get(entities::info))
        .route("/v1/agents", get(workflows::agents))
        .route("/v1/workflows", get(workflows::all))
        .route("/v1/workflows/{workflow_id}", get(workflows::one))
        .route("/v1/workflows/{workflow_id}/runs", get(workflows::runs))
        .route("/v1/workflows/{workflow_id}/send_responses", post(workflows::send_responses))
        .route(
            "/v1/workflows/{workflow_id}/requests/{request_id}/responses",
            post(workflows::respond),
        )
        .route("/v1/runs/{run_id}/status", get(workflows::status))
        .route("/v1/runs/{run_id}/audit", get(workflows::audit))
        .route("/v1/ws", get(live::open))
        .route("/openapi.json", get(openapi::page))
        .route("/v1/{*rest}", any(nothing))
        .method_not_allowed_fallback(not_so)
        .with_state(bridge)
}

async fn nothing(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(80).collect();
    let message = format!("there is no `{path}`; `GET /openapi.json` describes what is");
    Problem::new(StatusCode::NOT_FOUND, "path.unknown", message)
}

async fn not_so(request: Request) -> Problem {
    let path: String = request.uri().path().chars().take(80).collect();
    let message = format!(
        "`{path}` does not take {}; `GET /openapi.json` says what it does",
        request.method()
    );
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method.unknown", message)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn the_description_names_every_path_and_no_other() {
        let description: Value = serde_json::from_str(openapi::TEXT).unwrap();
        let described = description["paths"].as_object().unwrap();
        let mut told: Vec<_> = described
            .iter()
            .flat_map(|(path, item)| {
                let methods = item.as_object().unwrap().keys().filter(|key| *key != "parameters");
                methods.map(move |method| format!("{method} {path}"))
            })
            .collect();
        let mut routed: Vec<_> = PATHS
            .iter()
            .flat_map(|(path, methods)| {
                methods.iter().map(move |method| format!("{method} {path}"))
            })
            .collect();
        told.sort();
        routed.sort();
        assert_eq!(told, routed);
    }
}
