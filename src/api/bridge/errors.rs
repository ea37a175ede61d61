//! Errors: every no of the HTTP door, in the shape that OpenAI's clients read.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode};
use axum::response::{IntoResponse, Response as Answered};
use serde_json::{Value, json};
use tonic_types::StatusExt as _;

use crate::api::bridge::json_body::json as json_body;
use crate::api::status;
use crate::engine::EngineError;
use crate::kernel::Refusal;
use crate::kernel::strict::Misread;

/// A header's no.
const FALSE: HeaderValue = HeaderValue::from_static("false");

/// A no, on its way to a caller.
#[derive(Debug, Clone)]
pub(super) struct Problem {
    status: StatusCode,
    code: String,
    message: String,
    /// The field that is at fault, by its name in the call.
    param: Option<String>,
    /// Facts that a program may want without reading the message.
    facts: Vec<(String, Value)>,
}

pub(super) type Outcome<T> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(status: StatusCode, code: &str, message: impl Into<String>) -> Self {
        let (code, message) = (code.to_owned(), message.into());
        Self { status, code, message, param: None, facts: Vec::new() }
    }

    /// A field is missing or wrong.
    pub(super) fn invalid(field: &str, remedy: impl std::fmt::Display) -> Self {
        let message = format!("{field}: {remedy}");
        Self::new(StatusCode::BAD_REQUEST, "field.invalid", message).at(field)
    }

    /// What came as `field` is no JSON, or says one thing twice.
    pub(super) fn misread(field: &str, why: Misread) -> Self {
        match why {
            Misread::NoJson(error) => {
                let message = format!("the {field} is no JSON: {error}");
                Self::new(StatusCode::BAD_REQUEST, "call.no_json", message).at(field)
            }
            Misread::Twice(place) => {
                let message = format!("{place}: it is given twice; send it once");
                Self::new(StatusCode::BAD_REQUEST, "call.duplicate_key", message).at(&place)
            }
        }
    }

    /// No such thing, or not this caller's (D2).
    pub(super) fn unknown(code: &str, what: &str, id: &str, field: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        let message = format!("there is no {what} `{id}`");
        Self::new(StatusCode::NOT_FOUND, code, message).at(field)
    }

    /// Several requests are open, or none, and the caller did not say which it answers.
    pub(super) fn not_one(workflow: &str, open: &[String]) -> Self {
        let message = match open {
            [] => format!("workflow `{workflow}` has no open request of yours; start a run first"),
            several => {
                let ids = several.join(", ");
                format!("workflow `{workflow}` has several open requests ({ids}); answer by id")
            }
        };
        let mut problem = Self::new(StatusCode::CONFLICT, "session.ambiguous", message);
        problem.facts.push(("request_ids".into(), json!(open)));
        problem.at("responses")
    }

    /// What an error means for a call that named a run in some other way.
    pub(super) fn or_unknown(error: EngineError, unknown: impl FnOnce() -> Self) -> Self {
        let is_unknown = matches!(error, EngineError::Refused(Refusal::UnknownRun(_)));
        if is_unknown { unknown() } else { error.into() }
    }

    /// The same, with the field that is at fault.
    pub(super) fn at(mut self, field: &str) -> Self {
        self.param = Some(field.to_owned());
        self
    }

    /// The same, for a call whose input was taken for an answer.
    pub(super) fn for_input(mut self) -> Self {
        if let Some(param) = self.param.take_if(|param| param.starts_with("responses[")) {
            let below = param.split_once(']').map_or("", |(_, below)| below);
            self.param = Some(format!("input{below}"));
        }
        self
    }

    /// For people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Our stable code.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// OpenAI's word for the kind of error.
    fn kind(&self) -> &'static str {
        match self.status.as_u16() {
            401 => "authentication_error",
            403 => "permission_error",
            404 => "not_found_error",
            409 => "conflict_error",
            status if status < 500 => "invalid_request_error",
            _ => "server_error",
        }
    }

    /// What the body of a refusal says.
    pub(super) fn body(&self) -> Value {
        let mut error = json!({
            "message": self.message,
            "type": self.kind(),
            "param": self.param,
            "code": self.code,
        });
        if let Some(fields) = error.as_object_mut() {
            fields.extend(self.facts.clone());
        }
        json!({"error": error})
    }

    fn of_refusal(refusal: &Refusal) -> Self {
        let mut problem = Self::new(http_of(refusal), refusal.code(), refusal.to_string());
        problem.param = refusal.field().map(|field| named(&field));
        let facts = status::metadata_of(refusal);
        problem.facts = facts.into_iter().map(|(name, fact)| (name, Value::String(fact))).collect();
        problem
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::Refused(refusal) => Self::of_refusal(&refusal),
            // The other table has the words for what is not the caller's doing, and logs it.
            other @ (EngineError::Fault(_)
            | EngineError::Corrupt(_)
            | EngineError::Moved
            | EngineError::Superseded
            | EngineError::Rewound
            | EngineError::Draining) => {
                let told = status::of(other);
                let is_passing = told.code() == tonic::Code::Unavailable;
                let http = if is_passing {
                    StatusCode::SERVICE_UNAVAILABLE
                } else {
                    StatusCode::INTERNAL_SERVER_ERROR
                };
                let reason = told.get_details_error_info().map(|info| info.reason);
                Self::new(http, reason.as_deref().unwrap_or("server.fault"), told.message())
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self::of_refusal(&refusal)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Answered {
        let mut response: Response<Body> = json_body(self.status, &self.body());
        if self.status == StatusCode::CONFLICT {
            // OpenAI's SDKs take a conflict for a lock and try again; ours stays one.
            response.headers_mut().insert("x-should-retry", FALSE);
        }
        response
    }
}

/// A field by its name at this door.
fn named(field: &str) -> String {
    match field {
        "workflow_id" => "model".into(),
        "session_id" => "conversation".into(),
        "idempotency_key" => "idempotency-key".into(),
        other => other.to_owned(),
    }
}

fn http_of(refusal: &Refusal) -> StatusCode {
    match refusal {
        Refusal::UnknownWorkflow(_)
        | Refusal::UnknownSession(_)
        | Refusal::UnknownRun(_)
        | Refusal::PrunedRun(_)
        | Refusal::UnknownRequest(_)
        | Refusal::UnknownHalt(_)
        | Refusal::UnknownCheckpoint(_)
        | Refusal::UnknownCode { .. }
        | Refusal::NotDelegated { .. }
        | Refusal::NotClaimed { .. }
        | Refusal::NotGranted { .. } => StatusCode::NOT_FOUND,
        // The last of these are no conflict: OpenAI's clients send those again by themselves.
        Refusal::ForeignRequest { .. }
        | Refusal::WrongAnswer { .. }
        | Refusal::BadGate { .. }
        | Refusal::Invalid { .. }
        | Refusal::Unbound { .. }
        | Refusal::StillUnbound { .. }
        | Refusal::DigestNeeded { .. }
        | Refusal::StalePause
        | Refusal::NobodyLeft { .. }
        | Refusal::HandedOver { .. }
        | Refusal::NotDelegable { .. } => StatusCode::BAD_REQUEST,
        Refusal::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
        Refusal::AlreadyAnswered { .. }
        | Refusal::AlreadyCounted { .. }
        | Refusal::KeyReused(_)
        | Refusal::RequestClosed { .. }
        | Refusal::StaleDigest { .. }
        | Refusal::AskedAnew { .. }
        | Refusal::RunOver { .. }
        | Refusal::NotListening { .. }
        | Refusal::AmbiguousAnswer { .. }
        | Refusal::Unspent { .. }
        | Refusal::SessionFull { .. }
        | Refusal::Stale => StatusCode::CONFLICT,
        Refusal::Held
        | Refusal::Rewound
        | Refusal::Halted { .. }
        | Refusal::BrokenWorkflow { .. } => StatusCode::SERVICE_UNAVAILABLE,
        Refusal::Unauthenticated | Refusal::UnknownKey | Refusal::KeyExpired(_) => {
            StatusCode::UNAUTHORIZED
        }
        Refusal::Forbidden(_)
        | Refusal::Role { .. }
        | Refusal::UnknownPerson(_)
        | Refusal::NotSender { .. }
        | Refusal::NotAssured { .. }
        | Refusal::NotAdmitted { .. } => StatusCode::FORBIDDEN,
    }
}
