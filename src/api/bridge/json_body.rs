//! JSON body: a response that is JSON, whoever gives it and whatever it says.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use serde_json::Value;

/// Nothing here may be kept by a cache on the way.
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

/// A response with a JSON body.
pub(super) fn json(status: StatusCode, body: &Value) -> Response<Body> {
    let mut response = Response::new(Body::from(body.to_string()));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CACHE_CONTROL, NO_STORE);
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}
