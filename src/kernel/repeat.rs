//! Repeat: that the same signal, cancel, withdrawal, revocation, claim or delegation with the same idempotency key changes
//! nothing (K2). Which keys a run remembers is `keys`' to say; a repeated answer is known by how its question ended.

use crate::kernel::command::Command;
use crate::kernel::id::Version;
use crate::kernel::keys::Deed;
use crate::kernel::principal::Principal;
use crate::kernel::refusal::Refusal;
use crate::kernel::run::Run;
use crate::kernel::time::Millis;

/// The version before the first outcome, if exactly this was asked before by the same principal with
/// the same key; a refusal, if something else was.
pub(super) fn before(
    run: &Run,
    command: &Command,
    now: Millis,
) -> Result<Option<Version>, Refusal> {
    let (deed, principal, key) = match command {
        Command::Withdraw { request, principal, key } if request.run == run.id => {
            (Deed::Withdraw(request.ordinal), principal, key)
        }
        Command::Claim { request, span, principal, key } if request.run == run.id => {
            (Deed::Claim(request.ordinal, *span), principal, key)
        }
        // A place whose handing over counts no more is handed over anew by the same call.
        Command::Delegate { request, to: Some(_), principal, .. }
            if request.run == run.id && is_void(run, request.ordinal, principal, now) =>
        {
            return Ok(None);
        }
        Command::Delegate { request, to, principal, key } if request.run == run.id => {
            (Deed::Delegate(request.ordinal, to.as_ref()), principal, key)
        }
        Command::Revoke { tool, principal, key } => (Deed::Revoke(tool), principal, key),
        Command::Cancel { reason, principal, key } => (Deed::Cancel(reason), principal, key),
        Command::Signal { name, value, principal, key } => {
            (Deed::Signal(name, value), principal, key)
        }
        Command::Answer { key, principal, .. } => {
            let is_used = !key.is_empty() && run.keys.used(&principal.id, key).is_some();
            return if is_used { Err(Refusal::KeyReused(key.clone())) } else { Ok(None) };
        }
        Command::Withdraw { .. }
        | Command::Claim { .. }
        | Command::Delegate { .. }
        | Command::Delta { .. }
        | Command::Noted { .. }
        | Command::Replied { .. }
        | Command::AttemptFailed { .. }
        | Command::ToolReturned { .. }
        | Command::Recover
        | Command::Retry
        | Command::Renew { .. }
        | Command::Stand { .. }
        | Command::Hold { .. }
        | Command::Recall { .. }
        | Command::Rule
        | Command::Tick => return Ok(None),
    };
    if key.is_empty() {
        return Ok(None);
    }
    match run.keys.used(&principal.id, key) {
        Some(used) if used.content == deed.content() => Ok(Some(used.version - 1)),
        Some(_) => Err(Refusal::KeyReused(key.clone())),
        None if answered_with(run, principal, key) => Err(Refusal::KeyReused(key.clone())),
        None => Ok(None),
    }
}

/// Whether somebody has handed their place over with a credential that is gone.
fn is_void(run: &Run, ordinal: u32, principal: &Principal, now: Millis) -> bool {
    let Some(question) = run.questions.get(&ordinal) else { return false };
    let handed = question.handed(&principal.id, now);
    handed.is_some_and(|handed| !run.admission(now).is_theirs(question, handed))
}

/// Whether an answer was given with the key.
fn answered_with(run: &Run, principal: &Principal, key: &str) -> bool {
    run.said_by(&principal.id).any(|said| said.key == key)
}
