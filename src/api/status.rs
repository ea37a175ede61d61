//! Status: the one table of what a no looks like at a door. Exhaustive, so that a new one is noticed.

use std::collections::HashMap;

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt as _};

use crate::api::a2a::kind::Kind;
use crate::engine::EngineError;
use crate::kernel::Refusal;
use crate::ports::Fault;

/// The domain of every `ErrorInfo`.
pub(super) const DOMAIN: &str = "holdpoint";

pub(super) fn of(error: EngineError) -> Status {
    of_field(error, "responses")
}

/// The same, for a call that has no `responses`: what was said or meant is in `field` there.
pub(super) fn of_field(error: EngineError, field: &str) -> Status {
    match error {
        EngineError::Refused(refusal) => refused_at(&refusal, named(&refusal, field)),
        error @ (EngineError::Moved | EngineError::Superseded) => {
            plain(Code::Unavailable, "server.busy", &error.to_string())
        }
        error @ EngineError::Rewound => plain(Code::DataLoss, "store.rewound", &error.to_string()),
        EngineError::Draining => plain(
            Code::Unavailable,
            "server.draining",
            "the server is shutting down; try again in a moment",
        ),
        EngineError::Corrupt(corruption) => {
            tracing::error!(run.id = %corruption.run, version = corruption.version, why = corruption.why, "journal does not fold");
            plain(
                Code::DataLoss,
                "run.damaged",
                "the run's journal does not check out; run `holdpoint doctor`",
            )
        }
        EngineError::Fault(fault) => faulted(&fault),
    }
}

fn faulted(fault: &Fault) -> Status {
    match fault {
        Fault::Retriable(why) => plain(Code::Unavailable, "server.busy", why),
        Fault::Rewound => plain(Code::DataLoss, "store.rewound", &fault.to_string()),
        Fault::Permanent(why) => {
            tracing::error!(why, "the store has failed");
            plain(
                Code::Unavailable,
                "store.failed",
                "the store takes no writes; the server's log says why",
            )
        }
        Fault::Corrupt(why) => {
            tracing::error!(why, "stored data is damaged");
            plain(
                Code::DataLoss,
                "store.damaged",
                "stored data does not check out; run `holdpoint doctor`",
            )
        }
    }
}

/// The caller's no, with its code, its field and its remedy.
pub(super) fn refused(refusal: &Refusal) -> Status {
    refused_at(refusal, refusal.field())
}

/// The field at fault, by its name in this call.
fn named(refusal: &Refusal, field: &str) -> Option<String> {
    let own = refusal.field()?;
    match own.split_once(']') {
        Some((head, rest)) if field != "responses" && head.starts_with("responses[") => {
            Some(format!("{field}{rest}"))
        }
        Some(_) | None => Some(own),
    }
}

fn refused_at(refusal: &Refusal, field: Option<String>) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(refusal.code(), DOMAIN, metadata_of(refusal));
    if let Some(field) = field {
        details.add_bad_request_violation(field, refusal.to_string());
    }
    Status::with_error_details(code_of(refusal), refusal.to_string(), details)
}

/// Nobody answers to that name.
pub(super) fn no_such_method() -> Status {
    let message = "no such method; reflection lists the ones there are";
    plain(Code::Unimplemented, "method.unknown", message)
}

/// A no that no field is to blame for.
pub(super) fn plain(code: Code, reason: &str, message: &str) -> Status {
    let mut details = ErrorDetails::new();
    details.set_error_info(reason, DOMAIN, HashMap::new());
    Status::with_error_details(code, message, details)
}

fn code_of(refusal: &Refusal) -> Code {
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
        | Refusal::NotGranted { .. } => Code::NotFound,
        Refusal::ForeignRequest { .. }
        | Refusal::WrongAnswer { .. }
        | Refusal::Invalid { .. }
        | Refusal::BadGate { .. }
        | Refusal::TooLarge { .. } => Code::InvalidArgument,
        Refusal::AlreadyAnswered { .. }
        | Refusal::AlreadyCounted { .. }
        | Refusal::KeyReused(_) => Code::AlreadyExists,
        Refusal::RequestClosed { .. }
        | Refusal::NobodyLeft { .. }
        | Refusal::StaleDigest { .. }
        | Refusal::DigestNeeded { .. }
        | Refusal::AskedAnew { .. }
        | Refusal::Held
        | Refusal::Rewound
        | Refusal::BrokenWorkflow { .. }
        | Refusal::Halted { .. }
        | Refusal::RunOver { .. }
        | Refusal::NotListening { .. }
        | Refusal::AmbiguousAnswer { .. }
        | Refusal::Unbound { .. }
        | Refusal::StillUnbound { .. }
        | Refusal::StalePause
        | Refusal::Unspent { .. }
        | Refusal::HandedOver { .. }
        | Refusal::NotDelegable { .. }
        | Refusal::SessionFull { .. } => Code::FailedPrecondition,
        Refusal::Unauthenticated | Refusal::UnknownKey | Refusal::KeyExpired(_) => {
            Code::Unauthenticated
        }
        Refusal::Forbidden(_)
        | Refusal::Role { .. }
        | Refusal::UnknownPerson(_)
        | Refusal::NotSender { .. }
        | Refusal::NotAssured { .. }
        | Refusal::NotAdmitted { .. } => Code::PermissionDenied,
        Refusal::Stale => Code::Aborted,
    }
}

/// The same no at the A2A door, which has names of its own.
pub(super) fn a2a_kind_of(refusal: &Refusal) -> Kind {
    match refusal {
        Refusal::UnknownRun(_) | Refusal::PrunedRun(_) => Kind::TaskNotFound,
        Refusal::RunOver { .. }
        | Refusal::AlreadyAnswered { .. }
        | Refusal::AlreadyCounted { .. }
        | Refusal::NobodyLeft { .. }
        | Refusal::RequestClosed { .. }
        | Refusal::NotListening { .. }
        | Refusal::BrokenWorkflow { .. }
        | Refusal::Held
        | Refusal::Rewound
        | Refusal::Halted { .. }
        | Refusal::HandedOver { .. }
        | Refusal::NotDelegable { .. }
        | Refusal::NotDelegated { .. }
        | Refusal::NotClaimed { .. }
        | Refusal::NotGranted { .. } => Kind::UnsupportedOperation,
        Refusal::UnknownWorkflow(_) => Kind::NotFound,
        Refusal::UnknownSession(_)
        | Refusal::UnknownRequest(_)
        | Refusal::UnknownHalt(_)
        | Refusal::UnknownCheckpoint(_)
        | Refusal::ForeignRequest { .. }
        | Refusal::WrongAnswer { .. }
        | Refusal::StaleDigest { .. }
        | Refusal::DigestNeeded { .. }
        | Refusal::AskedAnew { .. }
        | Refusal::KeyReused(_)
        | Refusal::AmbiguousAnswer { .. }
        | Refusal::Unbound { .. }
        | Refusal::StillUnbound { .. }
        | Refusal::UnknownCode { .. }
        | Refusal::StalePause
        | Refusal::Unspent { .. }
        | Refusal::SessionFull { .. }
        | Refusal::Invalid { .. }
        | Refusal::BadGate { .. }
        | Refusal::TooLarge { .. } => Kind::InvalidParams,
        Refusal::Unauthenticated | Refusal::UnknownKey | Refusal::KeyExpired(_) => {
            Kind::Unauthenticated
        }
        Refusal::Forbidden(_)
        | Refusal::Role { .. }
        | Refusal::UnknownPerson(_)
        | Refusal::NotSender { .. }
        | Refusal::NotAssured { .. }
        | Refusal::NotAdmitted { .. } => Kind::Forbidden,
        Refusal::Stale => Kind::Internal,
    }
}

/// Facts that a program may want without reading the message.
pub(super) fn metadata_of(refusal: &Refusal) -> HashMap<String, String> {
    let told = |facts: &[(&str, &str)]| {
        facts.iter().map(|(name, fact)| ((*name).to_owned(), (*fact).to_owned())).collect()
    };
    match refusal {
        Refusal::AlreadyAnswered { by, request } => {
            told(&[("answered_by", by), ("request_id", request)])
        }
        Refusal::AmbiguousAnswer { requests, .. } => told(&[("request_ids", &requests.join(","))]),
        Refusal::Unbound { open } | Refusal::StillUnbound { open } => {
            let ids: Vec<_> = open.iter().map(|one| one.request.as_str()).collect();
            let codes: Vec<_> = open.iter().map(|one| one.code.as_str()).collect();
            told(&[("request_ids", &ids.join(",")), ("codes", &codes.join(","))])
        }
        Refusal::NotAdmitted { request, waits_for, .. } => {
            told(&[("request_id", request), ("waits_for", waits_for)])
        }
        Refusal::NotAssured { request, known, wants, .. } => told(&[
            ("request_id", request),
            ("assurance", known.assurance.word()),
            ("wants", wants.word()),
        ]),
        Refusal::HandedOver { request, to, .. } => {
            told(&[("request_id", request), ("held_by", to)])
        }
        Refusal::WrongAnswer { request, mismatch } => {
            told(&[("request_id", request), ("expected", &mismatch.expected)])
        }
        Refusal::UnknownWorkflow(_)
        | Refusal::BrokenWorkflow { .. }
        | Refusal::UnknownSession(_)
        | Refusal::UnknownRun(_)
        | Refusal::PrunedRun(_)
        | Refusal::UnknownRequest(_)
        | Refusal::UnknownHalt(_)
        | Refusal::UnknownCheckpoint(_)
        | Refusal::AlreadyCounted { .. }
        | Refusal::NobodyLeft { .. }
        | Refusal::ForeignRequest { .. }
        | Refusal::RequestClosed { .. }
        | Refusal::StaleDigest { .. }
        | Refusal::DigestNeeded { .. }
        | Refusal::AskedAnew { .. }
        | Refusal::Held
        | Refusal::Rewound
        | Refusal::Halted { .. }
        | Refusal::UnknownCode { .. }
        | Refusal::StalePause
        | Refusal::Unspent { .. }
        | Refusal::KeyReused(_)
        | Refusal::RunOver { .. }
        | Refusal::NotListening { .. }
        | Refusal::NotDelegable { .. }
        | Refusal::NotDelegated { .. }
        | Refusal::NotClaimed { .. }
        | Refusal::NotGranted { .. }
        | Refusal::SessionFull { .. }
        | Refusal::Invalid { .. }
        | Refusal::BadGate { .. }
        | Refusal::TooLarge { .. }
        | Refusal::Unauthenticated
        | Refusal::UnknownKey
        | Refusal::KeyExpired(_)
        | Refusal::Forbidden(_)
        | Refusal::Role { .. }
        | Refusal::UnknownPerson(_)
        | Refusal::NotSender { .. }
        | Refusal::Stale => HashMap::new(),
    }
}
