//! Errors: every no of the A2A door, and what it looks like on each binding.
//!
//! One table, from the protocol's own (its 1.0.1 column). A no that the protocol has a name for
//! carries that name as the reason of its `ErrorInfo`; ours carry our own codes.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

pub(in crate::api) use crate::api::a2a::kind::Kind;
use crate::api::status;
use crate::engine::EngineError;
use crate::kernel::Refusal;

const A2A_DOMAIN: &str = "a2a-protocol.org";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const BAD_REQUEST: &str = "type.googleapis.com/google.rpc.BadRequest";

/// A no, on its way to a caller.
#[derive(Debug, Clone)]
pub(in crate::api) struct Problem {
    pub(in crate::api) kind: Kind,
    message: String,
    /// Our stable code; the reason where the protocol has no name of its own.
    code: String,
    field: Option<String>,
    metadata: BTreeMap<String, String>,
}

pub(super) type Outcome<T> = Result<T, Problem>;

impl Problem {
    pub(super) fn new(kind: Kind, code: &str, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { kind, message, code: code.into(), field: None, metadata: BTreeMap::new() }
    }

    /// The same, in other words.
    pub(super) fn saying(self, message: String) -> Self {
        Self { message, ..self }
    }

    /// A field is missing or wrong.
    pub(super) fn invalid(field: &str, remedy: impl std::fmt::Display) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::new(Kind::InvalidParams, "field.invalid", format!("{field}: {remedy}"))
        }
    }

    /// No such task, or not this caller's, or not of this agent (D2).
    pub(super) fn no_task(id: &str) -> Self {
        let id: String = id.chars().take(80).collect();
        Self::new(Kind::TaskNotFound, "run.unknown", format!("task `{id}` not found"))
    }

    pub(super) fn unsupported(message: impl Into<String>) -> Self {
        Self::new(Kind::UnsupportedOperation, "operation.unsupported", message)
    }

    pub(super) fn content_type(message: impl Into<String>) -> Self {
        Self::new(Kind::ContentTypeNotSupported, "content_type.unsupported", message)
    }

    /// A version that is not spoken here.
    pub(super) fn version(given: &str, spoken: &str) -> Self {
        let given: String = given.chars().take(20).collect();
        let remedy = format!("send `A2A-Version: {spoken}`");
        let message = format!("protocol version `{given}` is not spoken here; {remedy}");
        Self::new(Kind::VersionNotSupported, "version.unsupported", message)
    }

    /// For people.
    pub(super) fn message(&self) -> &str {
        &self.message
    }

    /// Our stable code.
    pub(super) fn code(&self) -> &str {
        &self.code
    }

    /// The HTTP status, for the bindings that speak HTTP of their own.
    pub(super) fn http(&self) -> u16 {
        self.kind.row().http
    }

    fn reason_and_domain(&self) -> (&str, &'static str) {
        match self.kind.row().reason {
            Some(reason) => (reason, A2A_DOMAIN),
            None => (&self.code, status::DOMAIN),
        }
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let mut facts = self.metadata.clone();
        if self.kind.row().reason.is_some() {
            facts.insert("code".into(), self.code.clone());
        }
        facts
    }

    fn details(&self) -> Vec<Value> {
        let (reason, domain) = self.reason_and_domain();
        let mut details = vec![json!({
            "@type": ERROR_INFO, "reason": reason, "domain": domain, "metadata": self.facts(),
        })];
        if let Some(field) = &self.field {
            let violation = json!({"field": field, "description": self.message});
            details.push(json!({"@type": BAD_REQUEST, "fieldViolations": [violation]}));
        }
        details
    }

    /// The `error` of a JSON-RPC response.
    pub(super) fn to_jsonrpc(&self) -> Value {
        let code = self.kind.row().rpc;
        json!({"code": code, "message": self.message, "data": self.details()})
    }

    /// The body of an HTTP+JSON response.
    pub(super) fn to_rest(&self) -> Value {
        let row = self.kind.row();
        let status = canonical(row.grpc);
        json!({"error": {
            "code": row.http, "status": status, "message": self.message, "details": self.details(),
        }})
    }

    /// The status of a gRPC call.
    pub(super) fn to_status(&self) -> Status {
        let (reason, domain) = self.reason_and_domain();
        let facts: HashMap<_, _> = self.facts().into_iter().collect();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, domain, facts);
        if let Some(field) = &self.field {
            details.add_bad_request_violation(field, &self.message);
        }
        Status::with_error_details(self.kind.row().grpc, &self.message, details)
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        Self {
            kind: status::a2a_kind_of(&refusal),
            message: refusal.to_string(),
            code: refusal.code().into(),
            field: refusal.field(),
            metadata: status::metadata_of(&refusal).into_iter().collect(),
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        if let EngineError::Refused(refusal) = error {
            return refusal.into();
        }
        let status = status::of(error);
        let kind =
            if status.code() == Code::Unavailable { Kind::Unavailable } else { Kind::Internal };
        let reason = status.get_details_error_info().map(|info| info.reason).unwrap_or_default();
        Self::new(kind, &reason, status.message())
    }
}

/// A gRPC code as its own protocol writes it; only those of the table.
fn canonical(code: Code) -> &'static str {
    match code {
        Code::NotFound => "NOT_FOUND",
        Code::FailedPrecondition => "FAILED_PRECONDITION",
        Code::InvalidArgument => "INVALID_ARGUMENT",
        Code::Unimplemented => "UNIMPLEMENTED",
        Code::Unauthenticated => "UNAUTHENTICATED",
        Code::PermissionDenied => "PERMISSION_DENIED",
        Code::Unavailable => "UNAVAILABLE",
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::AlreadyExists
        | Code::ResourceExhausted
        | Code::Aborted
        | Code::OutOfRange
        | Code::Internal
        | Code::DataLoss => "INTERNAL",
    }
}
