//! Trace: the headers by which a model, a tool or another agent knows what its work is a part of.

use http::{HeaderMap, HeaderName, HeaderValue};

use crate::ports::trace;

/// What a call from here carries; nothing, where there is no trace.
pub(super) fn headers() -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in trace::carried() {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    headers
}
