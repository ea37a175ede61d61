//! Faults: what the database's no means to us. A server comes back as a disk does not: being away, restarting, being
//! full or crowded is told as something to try again. Only what a person must mend is permanent.

use tokio_postgres::Error;
use tokio_postgres::error::{DbError, SqlState};

use crate::ports::Fault;
use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::rights::{of_password, remedy};

/// Nobody is let in any more.
pub(super) fn closed() -> Fault {
    Fault::Retriable("the store is closed".into())
}

/// Whether nobody knows if what was asked was done: the connection went, or the server was going.
pub(super) fn is_unknown(error: &Error) -> bool {
    match error.as_db_error() {
        None => true,
        Some(told) => {
            let code = told.code().code();
            code.starts_with("08") || code.starts_with("57P") || code == "40003"
        }
    }
}

/// Whether there is no room for what was to be written, though what is there can be read.
pub(super) fn is_full(error: &Error) -> bool {
    error.code() == Some(&SqlState::DISK_FULL)
}

/// Whether something of ours was not there.
pub(super) fn is_unmade(error: &Error) -> bool {
    let unmade = [
        SqlState::UNDEFINED_TABLE,
        SqlState::UNDEFINED_COLUMN,
        SqlState::UNDEFINED_FUNCTION,
        SqlState::INVALID_SCHEMA_NAME,
    ];
    error.code().is_some_and(|code| unmade.contains(code))
}

/// What a no means where nothing was written, or it does not matter whether it was.
pub(super) fn fault(error: &Error) -> Fault {
    let Some(told) = error.as_db_error() else {
        let why = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
        return Fault::Retriable(format!("the database is away: {error}: {why}"));
    };
    let code = told.code();
    let why = format!("the database says: {}", words(told));
    if *code == SqlState::DATA_CORRUPTED || *code == SqlState::INDEX_CORRUPTED {
        return Fault::Corrupt(why);
    }
    // A right that was taken away is given back as a password is.
    if *code == SqlState::INSUFFICIENT_PRIVILEGE {
        return Fault::Retriable(why);
    }
    let class = code.code().get(..2).unwrap_or_default();
    match class {
        // Connections, resources, an operator, transactions that met, locks, a password that is changed: it passes.
        // And a standby, or a transaction that took too long between its steps.
        "08" | "25" | "28" | "53" | "57" | "40" | "55" | "58" => Fault::Retriable(why),
        _ => Fault::Permanent(why),
    }
}

/// What the database says, and what somebody may have set that makes it say so: a role, or a database, has settings of its
/// own, and nobody who looks at the server's sees them.
fn words(told: &DbError) -> String {
    let setting = match told.code().code() {
        "57014" => "statement_timeout",
        "25006" => "default_transaction_read_only",
        "55P03" => {
            return format!(
                "another transaction holds what is to be written, as one does that waits for a synchronous standby: {} (55P03)",
                told.message()
            );
        }
        _ => return format!("{} ({})", told.message(), told.code().code()),
    };
    format!(
        "{} ({}); `{setting}` may be set on the role or the database: `alter role … reset {setting}`, or `alter database … reset \
         {setting}`",
        told.message(),
        told.code().code()
    )
}

/// A row that cannot be read as what it must be: somebody has changed it, or the table.
pub(super) fn unread(error: &Error) -> Fault {
    Fault::Corrupt(format!("a row of the database cannot be read: {error}"))
}

/// What a no of the database itself means to whoever is not in yet.
fn said(place: String, told: &DbError) -> PostgresError {
    let (code, why) = (told.code().code(), told.message().to_owned());
    if *told.code() == SqlState::TOO_MANY_CONNECTIONS {
        return PostgresError::Crowded { place, why };
    }
    if code.starts_with("28") || code == "3D000" || code == "42501" {
        return PostgresError::Denied { place, why, remedy: remedy(code).into() };
    }
    PostgresError::Says { place, why: words(told), passes: true }
}

/// Why a connection was not made.
pub(super) fn refused(place: String, error: &Error) -> PostgresError {
    let why = std::error::Error::source(error);
    let why = why.map_or_else(|| error.to_string(), |why| format!("{error}: {why}"));
    if let Some(told) = error.as_db_error() {
        return said(place, told);
    }
    if why.contains("does not allow writes") {
        return PostgresError::Standby { place };
    }
    if why.contains("certificate") || why.contains("TLS") {
        return PostgresError::Untrusted { place, why };
    }
    if why.contains("password missing") {
        let (why, remedy) = ("it wants a password".into(), remedy("28P01").into());
        return PostgresError::Denied { place, why, remedy };
    }
    PostgresError::Away { place, why }
}

/// The same of whoever asks to be let in with what an address says.
pub(super) fn not_let_in(config: &PostgresConfig, error: &Error) -> PostgresError {
    let mut told = refused(config.place(), error);
    if let PostgresError::Denied { remedy, .. } = &mut told
        && error.code() == Some(&SqlState::INVALID_PASSWORD)
    {
        *remedy = of_password(config.has_percent);
    }
    told
}
