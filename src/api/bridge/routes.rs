//! Routes: every path of the bridge, once; the description of it is held to these by a test.

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::routing::{any, delete, get, post};

use crate::api::bridge::errors::Problem;
use crate::api::bridge::{
    Bridge, cancel, conversations, entities, live, openapi, responses, workflows,
};

/// One list, of which the router is made, and which a test holds the description to: there is no other
/// way for a path to be served here.
macro_rules! routes {
    ($($method:ident $path:literal => $handler:path;)*) => {
        /// What may be done where.
        #[cfg(test)]
        const ROUTED: &[&str] = &[$(concat!(stringify!($method), " ", $path)),*];

        fn routed() -> Router<Bridge> {
            Router::new()$(.route($path, $method($handler)))*
        }
    };
}

routes! {
    post "/v1/responses" => responses::create;
    get "/v1/responses/{response_id}" => responses::retrieve;
    delete "/v1/responses/{response_id}" => responses::delete;
    get "/v1/responses/{response_id}/cancel" => cancel::said;
    post "/v1/responses/{response_id}/cancel" => cancel::done;
    get "/v1/responses/{response_id}/input_items" => responses::input_items;
    get "/v1/conversations" => conversations::list;
    post "/v1/conversations" => conversations::create;
    get "/v1/conversations/{conversation_id}" => conversations::retrieve;
    post "/v1/conversations/{conversation_id}" => conversations::update;
    delete "/v1/conversations/{conversation_id}" => conversations::delete;
    get "/v1/conversations/{conversation_id}/items" => conversations::items;
    post "/v1/conversations/{conversation_id}/items" => conversations::add_items;
    get "/v1/conversations/{conversation_id}/items/{item_id}" => conversations::item;
    get "/v1/models" => entities::models;
    get "/v1/models/{workflow_id}" => entities::model;
    get "/health" => entities::health;
    get "/meta" => entities::meta;
    get "/v1/entities" => entities::all;
    get "/v1/entities/{workflow_id}/info" => entities::info;
    get "/v1/agents" => workflows::agents;
    get "/v1/workflows" => workflows::all;
    get "/v1/workflows/{workflow_id}" => workflows::one;
    get "/v1/workflows/{workflow_id}/runs" => workflows::runs;
    post "/v1/workflows/{workflow_id}/send_responses" => workflows::send_responses;
    post "/v1/workflows/{workflow_id}/requests/{request_id}/responses" => workflows::respond;
    get "/v1/runs/{run_id}/status" => workflows::status;
    get "/v1/runs/{run_id}/audit" => workflows::audit;
    get "/v1/runs/{run_id}/receipts/{sequence}" => workflows::receipt;
    get "/v1/ws" => live::open;
    get "/openapi.json" => openapi::page;
}

pub(super) fn router(bridge: Bridge) -> Router {
    routed()
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
        let mut routed = ROUTED.to_vec();
        told.sort();
        routed.sort_unstable();
        assert_eq!(told, routed);
    }
}
