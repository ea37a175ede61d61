//! OpenAPI: what the bridge offers, described for programs. The text is written by hand, beside the
//! handlers; tests hold it to the routes and to what they really answer.

use axum::body::Body;
use axum::http::{HeaderValue, Response, header};

/// The description.
pub(super) const TEXT: &str = include_str!("openapi.json");

/// `GET /openapi.json`: for anybody, as a card is.
pub(super) async fn page() -> Response<Body> {
    let mut response = Response::new(Body::from(TEXT));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}
