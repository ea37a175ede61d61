//! Refusal: every way in which a command is declined, with field, remedy and a stable code (D3); it leaves no trace (K1).

use crate::kernel::evidence::leaf::Pruned;
use crate::kernel::naming::{Naming, unbound};
use crate::kernel::principal::{Assurance, Known};
use crate::kernel::question::{Closed, WhyNot};
use crate::kernel::schema::Mismatch;
use crate::kernel::time::Millis;

/// Why a command is declined. The caller's no, never the world's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No workflow of that name.
    #[error("there is no workflow `{0}`; ListWorkflows names the ones there are")]
    UnknownWorkflow(String),
    /// The file of that workflow cannot be used as it is, and no earlier version of it is in force.
    #[error("workflow `{workflow}` cannot be started until its file is mended: {why}")]
    BrokenWorkflow {
        /// The workflow.
        workflow: String,
        /// What is wrong with its file.
        why: String,
    },
    /// No such session, or not this caller's (D2).
    #[error("there is no session `{0}`")]
    UnknownSession(String),
    /// No such run, or not this caller's (D2).
    #[error("there is no run `{0}`")]
    UnknownRun(String),
    /// There was such a run, and it was forgotten.
    #[error("{0}")]
    PrunedRun(Pruned),
    /// No such request, or not this caller's (D2).
    #[error("there is no request `{0}`")]
    UnknownRequest(String),
    /// No such halt, or it stands no more.
    #[error("there is no halt `{0}`; `holdpoint halt` names those that stand")]
    UnknownHalt(String),
    /// No such checkpoint.
    #[error("there is no checkpoint `{0}`; ListCheckpoints names the ones there are")]
    UnknownCheckpoint(String),
    /// The request is of another run than the one that was named.
    #[error("request `{request}` does not belong to run `{run}`; leave run_id out or name its own")]
    ForeignRequest {
        /// The request.
        request: String,
        /// The run that was named.
        run: String,
    },
    /// The answer does not fit; the request stays open.
    #[error("the answer to `{request}` does not fit: expected {}{}", .mismatch.expected, at(&.mismatch.at))]
    WrongAnswer {
        /// The request.
        request: String,
        /// Where and what.
        mismatch: Mismatch,
    },
    /// Somebody has answered already (K2).
    #[error("request `{request}` was already answered by {by}")]
    AlreadyAnswered {
        /// The request.
        request: String,
        /// Who answered.
        by: String,
    },
    /// The same word of the same person, which stands already, where more of them are needed (K2).
    #[error(
        "your `{verb}` to `{request}` is counted already: {missing} more must say so; a no takes it back"
    )]
    AlreadyCounted {
        /// The request.
        request: String,
        /// What they said.
        verb: &'static str,
        /// How many more are needed.
        missing: u32,
    },
    /// A version that nobody would be left to agree to.
    #[error(
        "your version of `{request}` would be asked of {to} without those who took part, and {left} of the {need} who must agree are left: approve what is shown, or say no with a note"
    )]
    NobodyLeft {
        /// The request.
        request: String,
        /// Whom it would be asked of.
        to: String,
        /// How many must agree.
        need: u32,
        /// How many of them could.
        left: u32,
    },
    /// The request was closed without an answer.
    #[error("request `{request}` is closed: {how}")]
    RequestClosed {
        /// The request.
        request: String,
        /// How it ended.
        how: Closed,
    },
    /// What the person was shown is not what is asked (K3).
    #[error(
        "the digest for `{request}` is not that of what is asked; show it again and answer that"
    )]
    StaleDigest {
        /// The request.
        request: String,
    },
    /// An answer without the digest, where the file wants it (K9).
    #[error(
        "request `{request}` is answered only with the digest of what was shown (`binding: digest`); look at \
         it, and send its digest with the answer"
    )]
    DigestNeeded {
        /// The request.
        request: String,
    },
    /// What was answered has been asked anew since: the store was put back from a backup or moved, or the
    /// same was refused in another run of the family (K11).
    #[error(
        "request `{request}` was asked anew since: the same was refused in a fork of its run or in the run \
         that was forked, or the store was put back from a backup or a copy; look at what is asked now, and \
         answer that"
    )]
    AskedAnew {
        /// The request.
        request: String,
    },
    /// The store was put back from a backup, or made from an export, and nobody has looked yet.
    #[error(
        "the store was put back from a backup, or imported, and does nothing yet: an operator looks at \
         what is open and says `holdpoint release`"
    )]
    Held,
    /// The store lacks what it had acknowledged, and nobody has looked yet.
    #[error(
        "the store has gone back in time, or two with one history took writes (`/readyz` says which), and does nothing yet: an \
         operator looks at what is missing (`holdpoint audit --store`) and says `holdpoint release`"
    )]
    Rewound,
    /// Somebody has stopped it.
    #[error(
        "{what} is halted by {by}: {reason}; nothing is done and nothing is decided until that is taken back (`holdpoint halt` lists what is)"
    )]
    Halted {
        /// What, in words.
        what: String,
        /// Who stopped it.
        by: String,
        /// Why.
        reason: String,
    },
    /// Words alone, where a decision is open (K9).
    #[error("{}", unbound(.open))]
    Unbound {
        /// What is open, each with how it can be named.
        open: Vec<Naming>,
    },
    /// Words alone again and again, where a decision is open: whoever says them does not read (K9).
    #[error("{}; this was said several times in this pause, and is not asked again here", unbound(.open))]
    StillUnbound {
        /// What is open, each with how it can be named.
        open: Vec<Naming>,
    },
    /// Words to a pause that is over (K9).
    #[error(
        "what was asked there is no longer open; look at what is asked now, and answer that by its id"
    )]
    StalePause,
    /// A checkpoint at which something is allowed and not done yet (K11).
    #[error(
        "what `{request}` allowed is not done yet at that checkpoint, and a fork would do it once more; fork from {from}"
    )]
    Unspent {
        /// The request.
        request: String,
        /// Where to fork instead.
        from: String,
    },
    /// A code that names none of the open questions.
    #[error(
        "no open request of this conversation has the code `{code}`; look at what is open and answer that"
    )]
    UnknownCode {
        /// The code.
        code: String,
    },
    /// Somebody whom the question does not admit (K8).
    #[error("request `{request}` waits for {waits_for}; {who} {why}{}", if_stranded(.waits_for, *.why))]
    NotAdmitted {
        /// The request.
        request: String,
        /// Whom it waits for.
        waits_for: String,
        /// Who tried.
        who: String,
        /// Why not they.
        why: WhyNot,
    },
    /// It is not known well enough that a person decides (K8).
    #[error("{}", unassured(.request, .who, .known, *.wants))]
    NotAssured {
        /// The request.
        request: String,
        /// Who tried.
        who: String,
        /// How they are known.
        known: Box<Known>,
        /// How well they would have to be.
        wants: Assurance,
    },
    /// Somebody whom the file does not have send that signal (K9).
    #[error("the signal `{name}` comes from {from}, or from an operator; {who} is not among them")]
    NotSender {
        /// The signal.
        name: String,
        /// Who sends it.
        from: String,
        /// Who tried.
        who: String,
    },
    /// Somebody who has handed their place in it to another.
    #[error(
        "request `{request}`: your place is with {to} until {}; take it back before you speak in it", .until.date()
    )]
    HandedOver {
        /// The request.
        request: String,
        /// Who holds it.
        to: String,
        /// Until when.
        until: Millis,
    },
    /// A place that cannot be handed to that person.
    #[error("request `{request}`: {why}")]
    NotDelegable {
        /// The request.
        request: String,
        /// What stands against it, and what to do.
        why: String,
    },
    /// Nothing was handed over that could be taken back.
    #[error(
        "request `{request}`: you have handed no place over there; there is nothing to take back"
    )]
    NotDelegated {
        /// The request.
        request: String,
    },
    /// Nothing was claimed that could be let go.
    #[error("request `{request}`: no claim of yours stands there; there is nothing to let go")]
    NotClaimed {
        /// The request.
        request: String,
    },
    /// The same idempotency key with another content.
    #[error("idempotency key `{0}` was used before with another content; take a new key")]
    KeyReused(String),
    /// The run is over.
    #[error("run `{run}` is {status}; nothing more can be done with it")]
    RunOver {
        /// The run.
        run: String,
        /// How it ended.
        status: &'static str,
    },
    /// The run does not wait for that event.
    #[error("run `{run}` does not wait for a signal `{name}`")]
    NotListening {
        /// The run.
        run: String,
        /// The signal.
        name: String,
    },
    /// Nothing of the kind was allowed.
    #[error("tool `{tool}` is not allowed for the rest of run `{run}`; GetRun lists what is")]
    NotGranted {
        /// The run.
        run: String,
        /// The tool.
        tool: String,
    },
    /// Several requests are open, and the caller did not say which it answers.
    #[error("session `{session}` has several open requests ({}); answer them by id with SendResponses", .requests.join(", "))]
    AmbiguousAnswer {
        /// The session.
        session: String,
        /// The open requests.
        requests: Vec<String>,
    },
    /// A run cannot begin after all that was said in its session.
    #[error("the session is full: {why}; {remedy}")]
    SessionFull {
        /// The bound.
        why: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A field is missing or wrong.
    #[error("{field}: {remedy}")]
    Invalid {
        /// The field.
        field: String,
        /// What is wrong and what to do.
        remedy: String,
    },
    /// A gate that a start brings is none, or contradicts the file's.
    #[error("{field}: {remedy}")]
    BadGate {
        /// The field.
        field: String,
        /// `gate.invalid` or `gate.contradiction`.
        code: &'static str,
        /// What is wrong and what to do.
        remedy: String,
    },
    /// A bound was passed.
    #[error("{field} is too large: {remedy}")]
    TooLarge {
        /// The field.
        field: String,
        /// The bound.
        remedy: String,
    },
    /// No key, or one that is good no more.
    #[error("this server wants an API key: send `authorization: Bearer <key>`")]
    Unauthenticated,
    /// An unknown key.
    #[error(
        "the key that was shown is unknown here: it is of another server, mistyped, or was removed; `holdpoint keys list` names the ones there are"
    )]
    UnknownKey,
    /// The key is good, but not for this.
    #[error(
        "{who} may not {act}: that takes a key with one of the roles `{wanted}`; `holdpoint keys add` makes one"
    )]
    Role {
        /// Who tried, and by what they are known.
        who: String,
        /// What they tried.
        act: &'static str,
        /// The roles that may.
        wanted: String,
    },
    /// The key was good, and is so no more.
    #[error(
        "the key `{0}` has expired; `holdpoint keys remove {0}`, then `holdpoint keys add {0} --again` makes another"
    )]
    KeyExpired(String),
    /// A service speaks for somebody whom nobody knows.
    #[error(
        "x-holdpoint-on-behalf-of: `{0}` is nobody here; name a person who has a key, or whom `[people]` in holdpoint.toml names"
    )]
    UnknownPerson(String),
    /// The key is good, but this is not for its holder to do.
    #[error("{0}")]
    Forbidden(&'static str),
    /// A report about work that is no longer wanted; the engine drops it.
    #[error("this work is no longer wanted")]
    Stale,
}

fn unassured(request: &str, who: &str, known: &Known, wants: Assurance) -> String {
    let credential = &known.credential;
    let is = match known.assurance {
        Assurance::Model => format!("{who} ({credential}) is no person"),
        Assurance::Vouched | Assurance::Proven => {
            format!("{who} is only vouched for ({credential})")
        }
    };
    let remedy = match wants {
        Assurance::Vouched | Assurance::Model => {
            "name the person with `x-holdpoint-on-behalf-of`, or have them answer with a key of their own"
        }
        Assurance::Proven => {
            "have a person answer with a key of their own, or at the console; `assurance: vouched` in the workflow or in holdpoint.toml would take a service's word for them"
        }
    };
    format!("request `{request}` is a decision, and {is}: {remedy}")
}

/// What to do where nobody is asked: whoever else is refused has a key, and where there are keys nobody is `local`.
fn if_stranded(waits_for: &str, why: WhyNot) -> &'static str {
    if waits_for == "local" && why == WhyNot::NotAsked {
        ". Where a server asks for keys nobody is `local`: an operator takes it back with `holdpoint cancel`"
    } else {
        ""
    }
}

fn at(pointer: &str) -> String {
    if pointer.is_empty() { String::new() } else { format!(" at `{pointer}`") }
}

impl Refusal {
    /// A field is missing or wrong.
    pub fn invalid(field: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::Invalid { field: field.into(), remedy: remedy.into() }
    }

    /// The stable code that programs, tests and docs use.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownWorkflow(_) => "workflow.unknown",
            Self::BrokenWorkflow { .. } => "workflow.broken",
            Self::UnknownSession(_) => "session.unknown",
            Self::UnknownRun(_) | Self::PrunedRun(_) => "run.unknown",
            Self::UnknownRequest(_) => "request.unknown",
            Self::UnknownHalt(_) => "halt.unknown",
            Self::UnknownCheckpoint(_) => "checkpoint.unknown",
            Self::ForeignRequest { .. } => "request.foreign",
            Self::WrongAnswer { .. } => "answer.invalid",
            Self::AlreadyAnswered { .. } => "request.already_answered",
            Self::AlreadyCounted { .. } => "answer.counted",
            Self::NobodyLeft { .. } => "answer.nobody_left",
            Self::RequestClosed { .. } => "request.closed",
            Self::StaleDigest { .. } => "answer.stale_digest",
            Self::DigestNeeded { .. } => "answer.digest_needed",
            Self::AskedAnew { .. } => "request.asked_anew",
            Self::Held | Self::Rewound => "store.held",
            Self::Halted { .. } => "halted",
            Self::Unbound { .. } => "answer.unbound",
            Self::StillUnbound { .. } => "answer.still_unbound",
            Self::UnknownCode { .. } => "answer.code_unknown",
            Self::StalePause => "answer.stale",
            Self::Unspent { .. } => "fork.unspent",
            Self::NotAdmitted { .. } => "answer.not_admitted",
            Self::NotAssured { .. } => "answer.assurance",
            Self::NotSender { .. } => "signal.not_admitted",
            Self::HandedOver { .. } => "answer.handed_over",
            Self::NotDelegable { .. } => "delegation.refused",
            Self::NotDelegated { .. } => "delegation.unknown",
            Self::NotClaimed { .. } => "claim.unknown",
            Self::KeyReused(_) => "idempotency_key.reused",
            Self::RunOver { .. } => "run.over",
            Self::NotListening { .. } => "run.not_listening",
            Self::NotGranted { .. } => "grant.unknown",
            Self::AmbiguousAnswer { .. } => "session.ambiguous",
            Self::SessionFull { .. } => "session.full",
            Self::Invalid { .. } => "field.invalid",
            Self::BadGate { code, .. } => code,
            Self::TooLarge { .. } => "field.too_large",
            Self::Unauthenticated | Self::UnknownKey => "auth.missing",
            Self::Role { .. } => "auth.role",
            Self::KeyExpired(_) => "auth.expired",
            Self::UnknownPerson(_) => "auth.person_unknown",
            Self::Forbidden(_) => "auth.forbidden",
            Self::Stale => "work.stale",
        }
    }

    /// The field of the request that is at fault.
    pub fn field(&self) -> Option<String> {
        let named = |field: &str| Some(field.to_owned());
        match self {
            Self::UnknownWorkflow(_) | Self::BrokenWorkflow { .. } => named("workflow_id"),
            Self::UnknownSession(_) | Self::AmbiguousAnswer { .. } | Self::SessionFull { .. } => {
                named("session_id")
            }
            Self::UnknownRun(_) | Self::PrunedRun(_) | Self::RunOver { .. } => named("run_id"),
            Self::UnknownHalt(_) => named("halt_id"),
            Self::UnknownCheckpoint(_) | Self::Unspent { .. } => named("checkpoint_id"),
            Self::UnknownRequest(id) => Some(format!("responses[{id}]")),
            Self::ForeignRequest { request, .. }
            | Self::AlreadyAnswered { request, .. }
            | Self::AlreadyCounted { request, .. }
            | Self::NobodyLeft { request, .. }
            | Self::RequestClosed { request, .. }
            | Self::AskedAnew { request }
            | Self::HandedOver { request, .. }
            | Self::NotAdmitted { request, .. }
            | Self::NotAssured { request, .. } => Some(format!("responses[{request}]")),
            Self::NotDelegable { .. } => named("to"),
            Self::NotDelegated { .. } | Self::NotClaimed { .. } => named("request_id"),
            Self::Unbound { .. }
            | Self::StillUnbound { .. }
            | Self::UnknownCode { .. }
            | Self::StalePause => named("input"),
            Self::WrongAnswer { request, mismatch } => {
                Some(format!("responses[{request}]{}", mismatch.at))
            }
            Self::StaleDigest { request } | Self::DigestNeeded { request } => {
                Some(format!("digests[{request}]"))
            }
            Self::KeyReused(_) => named("idempotency_key"),
            Self::NotListening { .. } | Self::NotSender { .. } => named("name"),
            Self::NotGranted { .. } => named("tool"),
            Self::Invalid { field, .. }
            | Self::BadGate { field, .. }
            | Self::TooLarge { field, .. } => Some(field.clone()),
            Self::Unauthenticated
            | Self::UnknownKey
            | Self::KeyExpired(_)
            | Self::Forbidden(_)
            | Self::Role { .. } => named("authorization"),
            Self::UnknownPerson(_) => named("x-holdpoint-on-behalf-of"),
            Self::Stale | Self::Held | Self::Rewound | Self::Halted { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_cannot_answer_for_local_is_told_how_such_a_question_ends() {
        let refused = |waits_for: &str, why: WhyNot| {
            let (request, who) = ("req_1".to_owned(), "ops".to_owned());
            Refusal::NotAdmitted { request, waits_for: waits_for.into(), who, why }.to_string()
        };
        let told = refused("local", WhyNot::NotAsked);
        assert!(
            told.contains("ops is not among them. ") && told.contains("holdpoint cancel"),
            "{told}"
        );
        assert!(!refused("ada", WhyNot::NotAsked).contains("cancel"));
        assert!(!refused("local", WhyNot::AskedForIt).contains("cancel"));
    }
}
