//! Errors: what a server's no means: its status, or an error in its body.
//!
//! The three formats are near enough to one another to be read by one table.

use http::StatusCode;
use serde_json::Value;

use crate::agents::models::fault::{Code, ModelFault, words};
use crate::agents::models::reply_accumulator::text;

/// The fault that a status means; `body` is what came with it.
pub(super) fn of_status(status: StatusCode, body: &str) -> ModelFault {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|_| Value::String(body.to_owned()));
    let error = Error::read(&body);
    let said = error.said(&body);
    let number = status.as_u16();
    let code = match number {
        _ if error.is_context() => Code::ContextTooLong,
        401 | 403 => Code::Unauthorized,
        402 => Code::QuotaUsedUp,
        404 => Code::NotFound,
        429 if error.is_quota() => Code::QuotaUsedUp,
        429 => Code::RateLimited,
        413 => Code::ContextTooLong,
        408 | 425 | 500..=599 => Code::Unavailable,
        _ => Code::Refused,
    };
    let advice = if code == Code::Unauthorized {
        "; is the key in `key_env` the one for this server?"
    } else if code == Code::NotFound {
        "; are `model` and `base_url` right?"
    } else {
        ""
    };
    ModelFault::new(code, format!("the server says {number}{said}{advice}"))
}

/// The fault in a body or an event, if it is an error and no reply.
pub(super) fn in_body(body: &Value) -> Option<ModelFault> {
    let has_error = body.get("error").is_some_and(|error| !error.is_null());
    let is_error = body.get("type").and_then(Value::as_str) == Some("error");
    if !has_error && !is_error {
        return None;
    }
    let error = Error::read(body);
    let message = format!("the server sent an error instead of a reply{}", error.said(body));
    Some(match () {
        () if error.is_context() => ModelFault::new(Code::ContextTooLong, message),
        () if error.is_quota() => ModelFault::new(Code::QuotaUsedUp, message),
        () if error.is_rate() => ModelFault::new(Code::RateLimited, message),
        () if error.is_ours() => ModelFault::new(Code::ErrorBody, message).for_good(),
        () => ModelFault::new(Code::ErrorBody, message),
    })
}

/// The stream ended, and the reply had not.
pub(super) fn cut_stream() -> ModelFault {
    ModelFault::new(Code::CutStream, "the reply broke off before its end")
}

/// The provider stopped it.
pub(super) fn filtered() -> ModelFault {
    ModelFault::new(Code::Filtered, "the provider's content filter stopped the reply")
}

/// The model would not.
pub(super) fn declined(refusal: &str) -> ModelFault {
    ModelFault::new(Code::Declined, format!("it declined: {}", words(refusal)))
}

/// An error as the formats have it: `{error: {type, code, message}}`, or the same fields flat, or
/// a text.
struct Error<'a> {
    kind: &'a str,
    code: &'a str,
    message: &'a str,
}

impl<'a> Error<'a> {
    fn read(body: &'a Value) -> Self {
        let error = body.get("error").filter(|error| error.is_object()).unwrap_or(body);
        let message = match (text(error, "/message"), &body["error"]) {
            ("", Value::String(message)) => message,
            ("", _) => text(body, "/detail"),
            (message, _) => message,
        };
        Self { kind: text(error, "/type"), code: text(error, "/code"), message }
    }

    fn said(&self, body: &Value) -> String {
        let plain = body.as_str().unwrap_or_default();
        let message = if self.message.is_empty() { plain } else { self.message };
        let code = if self.code.is_empty() { self.kind } else { self.code };
        match (words(code).as_str(), words(message).as_str()) {
            ("" | "error", "") => String::new(),
            ("" | "error", message) => format!(": {message}"),
            (code, "") => format!(" (`{code}`)"),
            (code, message) => format!(" (`{code}`): {message}"),
        }
    }

    fn is_any(&self, known: &[&str]) -> bool {
        known.contains(&self.code) || known.contains(&self.kind)
    }

    fn is_context(&self) -> bool {
        self.is_any(&["context_length_exceeded", "request_too_large"])
    }

    fn is_quota(&self) -> bool {
        self.is_any(&["insufficient_quota", "billing_error"])
    }

    fn is_rate(&self) -> bool {
        self.is_any(&["rate_limit_exceeded", "rate_limit_error", "429"])
    }

    /// Whether it is the request that is wrong, so that the next one would be too.
    fn is_ours(&self) -> bool {
        self.is_any(&[
            "invalid_request_error",
            "authentication_error",
            "permission_error",
            "not_found_error",
            "invalid_api_key",
            "invalid_prompt",
            "400",
            "401",
            "403",
            "404",
        ])
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_status_and_its_body_have_one_meaning() {
        for (status, body, code, retriable) in [
            (401, r#"{"error":{"message":"bad key"}}"#, "model.unauthorized", false),
            (429, r#"{"error":{"type":"rate_limit_error"}}"#, "model.rate_limited", true),
            (429, r#"{"error":{"code":"insufficient_quota"}}"#, "model.quota_used_up", false),
            (404, "", "model.not_found", false),
            (
                400,
                r#"{"error":{"code":"context_length_exceeded"}}"#,
                "model.context_too_long",
                false,
            ),
            (400, r#"{"detail":"no"}"#, "model.refused", false),
            (301, "", "model.refused", false),
            (500, "<html>", "model.unavailable", true),
            (
                529,
                r#"{"type":"error","error":{"type":"overloaded_error"}}"#,
                "model.unavailable",
                true,
            ),
        ] {
            let fault = of_status(StatusCode::from_u16(status).unwrap(), body);
            assert_eq!((fault.code.word(), fault.retriable), (code, retriable), "{status} {body}");
        }
        let fault = of_status(StatusCode::BAD_REQUEST, r#"{"error":"too odd"}"#);
        assert_eq!(fault.message, "the server says 400: too odd");
    }

    #[test]
    fn an_error_is_known_nested_and_flat() {
        for (body, code, retriable) in [
            (json!({"error": {"message": "x", "type": "server_error"}}), "model.error_body", true),
            (
                json!({"type": "error", "code": "server_error", "message": "x"}),
                "model.error_body",
                true,
            ),
            (
                json!({"type": "error", "error": {"type": "overloaded_error"}}),
                "model.error_body",
                true,
            ),
            (json!({"error": {"type": "invalid_request_error"}}), "model.error_body", false),
            (json!({"error": {"code": "rate_limit_exceeded"}}), "model.rate_limited", true),
            (json!({"error": "a text"}), "model.error_body", true),
        ] {
            let fault = in_body(&body).expect("an error");
            assert_eq!((fault.code.word(), fault.retriable), (code, retriable), "{body}");
        }
        assert_eq!(in_body(&json!({"error": null, "choices": []})), None);
    }

    #[test]
    fn long_words_are_shortened() {
        let body = json!({"error": {"message": "é".repeat(10_000)}}).to_string();
        assert!(of_status(StatusCode::BAD_REQUEST, &body).message.chars().count() < 500);
    }
}
