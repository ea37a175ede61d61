//! Exit: how a command ends, as a number for scripts and as an error with its remedy for people.

use std::{error::Error, fmt, io, process::ExitCode};

use serde_json::{Value, json};
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::app::AppError;
use crate::app::config::ConfigError;
use crate::app::keys::KeysError;
#[cfg(feature = "bench")]
use crate::bench::BenchError;

/// How a command ends. The numbers are firm: scripts rely on them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Done,
    /// It could not, for a reason that none of the others names.
    Failed,
    /// The arguments or the settings make no sense.
    Usage,
    /// The run failed or was cancelled.
    RunFailed,
    /// The run waits for an answer, or stands at a halt.
    Waiting,
    /// There is no such thing, or it is not the caller's.
    NotFound,
    /// It is there, and the answer is no.
    Refused,
    /// The server does not answer.
    Unreachable,
    /// Somebody pressed Ctrl-C.
    Interrupted,
}

impl Exit {
    /// Every way to end, in the order of the table in `holdpoint exit-codes`.
    pub const ALL: [Self; 9] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::RunFailed,
        Self::Waiting,
        Self::NotFound,
        Self::Refused,
        Self::Unreachable,
        Self::Interrupted,
    ];

    /// The number the process ends with.
    pub fn number(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::RunFailed => 3,
            Self::Waiting => 4,
            Self::NotFound => 5,
            Self::Refused => 6,
            Self::Unreachable => 7,
            Self::Interrupted => 130,
        }
    }

    /// What the number means.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Done => "it did what was asked; for a run: it completed",
            Self::Failed => "it could not",
            Self::Usage => "the arguments or the settings make no sense",
            Self::RunFailed => "the run failed or was cancelled",
            Self::Waiting => "the run waits for an answer, or stands at a halt",
            Self::NotFound => "there is no such thing, or it is not yours",
            Self::Refused => {
                "refused: an answer that does not fit, a run that is over, no right to it"
            }
            Self::Unreachable => "the server does not answer",
            Self::Interrupted => "interrupted with Ctrl-C; a run that was under way goes on",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.number())
    }
}

/// Why a command did not do what was asked: for people on stderr, for scripts as JSON.
#[derive(Debug)]
pub(super) struct Trouble {
    /// How the process ends.
    pub exit: Exit,
    /// What went wrong.
    pub message: String,
    /// What to do about it.
    pub hint: Option<String>,
    /// The stable code of a refusal.
    pub code: Option<String>,
    /// Nobody reads what is written: end without a word.
    pub is_silent: bool,
}

impl Trouble {
    /// A trouble of that kind.
    pub(super) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None, code: None, is_silent: false }
    }

    /// The same, with what to do about it.
    #[must_use]
    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// The same, with the flags that a command in the hint must repeat to reach the same place.
    #[must_use]
    pub(super) fn at(mut self, again: &str) -> Self {
        for command in REACHING {
            let (plain, whole) = (format!("`{command}`"), format!("`{command}{again}`"));
            self.hint = self.hint.map(|hint| hint.replace(&plain, &whole));
        }
        self
    }

    /// The same, of a call that begins something under an idempotency key, or under none: one that was not answered may have
    /// been heard, and once more without a key begins another.
    #[must_use]
    pub(super) fn may_have_begun(self, has_key: bool) -> Self {
        if self.exit != Exit::Unreachable {
            return self;
        }
        self.hint(if has_key {
            "it may have begun all the same: try again in a moment, with the same --key, which shows the same run"
        } else {
            "it may have begun all the same, and this command again would begin another: `holdpoint runs` shows what there \
             is; with --key KEY, the same command again shows the same run"
        })
    }

    /// The same, where a server was named: which of them did not answer.
    #[must_use]
    pub(super) fn of_server(mut self, server: &str) -> Self {
        self.message =
            self.message.replacen(UNANSWERED, &format!("the server at {server} did not answer"), 1);
        self
    }

    /// The same, where a key was shown: that it is missing would be no help.
    #[must_use]
    pub(super) fn with_key(mut self) -> Self {
        if self.code.as_deref() == Some("auth.missing") {
            self.message =
                "the key that was shown is unknown here: it is of another server, mistyped, \
                            or was removed"
                    .into();
            self.hint = Some(
                "HOLDPOINT_API_KEY, --api-key or `api_key` in the settings has it; `holdpoint keys \
                 list` names the ones there are"
                    .into(),
            );
        }
        self
    }

    /// Whether the server refused because of what the answer is, so that another one may pass.
    pub(super) fn is_wrong_answer(&self) -> bool {
        self.code.as_deref() == Some("answer.invalid")
    }

    /// Whether the question is no longer open, so that no answer will pass.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.code.as_deref(), Some("request.already_answered" | "request.closed"))
    }

    /// For scripts.
    pub(super) fn to_json(&self) -> Value {
        json!({"error": {
            "exit_code": self.exit.number(),
            "code": self.code,
            "message": self.message,
            "hint": self.hint,
        }})
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Status> for Trouble {
    fn from(status: Status) -> Self {
        // What a server says has no cause; where there is one, the connection to it failed.
        if Error::source(&status).is_some() {
            return Self::unanswered(&status);
        }
        let exit = match status.code() {
            Code::Ok => Exit::Done,
            Code::NotFound => Exit::NotFound,
            Code::Unavailable | Code::DeadlineExceeded => Exit::Unreachable,
            Code::InvalidArgument
            | Code::AlreadyExists
            | Code::PermissionDenied
            | Code::Unauthenticated
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::ResourceExhausted
            | Code::Aborted => Exit::Refused,
            Code::Unimplemented
            | Code::Cancelled
            | Code::Unknown
            | Code::Internal
            | Code::DataLoss => Exit::Failed,
        };
        let code = status.get_details_error_info().map(|info| info.reason);
        let message = match status.message() {
            "" => format!("the server answered {:?} without a word", status.code()),
            message => message.to_owned(),
        };
        let message = in_our_words(&message);
        // A message that names the command already needs no hint that names it again.
        let is_said = |hint: &&str| hint.split('`').nth(1).is_some_and(|it| message.contains(it));
        let hint = hint_for(status.code(), code.as_deref()).filter(|hint| !is_said(hint));
        let hint = hint.map(str::to_owned);
        Self { exit, message, hint, code, is_silent: false }
    }
}

impl Trouble {
    /// The server said nothing: it is frozen, cut off, gone, or none of ours.
    fn unanswered(status: &Status) -> Self {
        let message = format!("{UNANSWERED}: {}", chain(status.source().unwrap_or(status)));
        Self::new(Exit::Unreachable, message).hint(
            "`holdpoint health` asks how it is, and `holdpoint doctor` where commands reach it; whether it took this is not \
             known, and an answer that is given again is never applied twice",
        )
    }
}

/// What is said of a server that says nothing.
const UNANSWERED: &str = "the server did not answer";

/// The server's calls, and what whoever typed a command types instead.
const COMMANDS: [(&str, &str); 16] = [
    ("ListWorkflows", "`holdpoint workflows`"),
    ("ListSessions", "`holdpoint sessions`"),
    ("ListRuns", "`holdpoint runs`"),
    ("ListRequests", "`holdpoint inbox`"),
    ("ListCheckpoints", "`holdpoint checkpoint RUN`"),
    ("SendResponses", "`holdpoint respond`"),
    ("GetRun", "`holdpoint runs RUN`"),
    ("RunWorkflow", "`holdpoint run`"),
    ("WatchRun", "`holdpoint watch`"),
    ("WatchRequests", "`holdpoint inbox --watch`"),
    ("GetSession", "`holdpoint sessions SESSION`"),
    ("GetWorkflow", "`holdpoint workflows NAME`"),
    ("CancelRun", "`holdpoint cancel`"),
    ("CancelRequest", "`holdpoint cancel`"),
    ("SignalRun", "`holdpoint signal`"),
    ("ForkRun", "`holdpoint fork`"),
];

/// A refusal in the words of the command line. What stands in backticks is the caller's own, and stays.
pub(super) fn in_our_words(message: &str) -> String {
    let mut words = Vec::new();
    for (index, part) in message.split('`').enumerate() {
        let mut part = part.to_owned();
        if index % 2 == 0 {
            for (call, command) in COMMANDS {
                part = part.replace(call, command);
            }
        }
        words.push(part);
    }
    words.join("`")
}

/// Commands that hints name, and that look somewhere.
const REACHING: [&str; 4] =
    ["holdpoint workflows", "holdpoint runs", "holdpoint sessions", "holdpoint inbox"];

fn hint_for(code: Code, reason: Option<&str>) -> Option<&'static str> {
    match reason {
        Some("workflow.unknown") => Some("`holdpoint workflows` names the ones there are"),
        Some("workflow.broken") => {
            Some("`holdpoint check` shows the same, before anything is started")
        }
        Some("run.unknown") => Some("`holdpoint runs` names the ones there are"),
        Some("session.unknown") => Some("`holdpoint sessions` names the ones there are"),
        Some("request.unknown" | "request.already_answered" | "request.closed") => {
            Some("`holdpoint inbox` shows what is open")
        }
        Some("auth.missing") => {
            Some("set HOLDPOINT_API_KEY; `holdpoint keys add NAME` makes a key")
        }
        Some(_) | None if code == Code::Unavailable => {
            Some("what was acknowledged is safe in its journal; try again in a moment")
        }
        Some(_) | None => None,
    }
}

impl From<AppError> for Trouble {
    fn from(error: AppError) -> Self {
        if let AppError::Keys(error) = error {
            return error.into();
        }
        let exit = if matches!(error, AppError::UnknownWorkflow(_) | AppError::UnknownRun(_)) {
            Exit::NotFound
        } else if error.is_unreachable() {
            Exit::Unreachable
        } else if error.is_of_settings() {
            Exit::Usage
        } else {
            Exit::Failed
        };
        Self { hint: error.hint(), ..Self::new(exit, chain(&error)) }
    }
}

impl From<ConfigError> for Trouble {
    fn from(error: ConfigError) -> Self {
        Self::new(Exit::Usage, chain(&error))
            .hint("`holdpoint serve --help` says what each setting takes")
    }
}

impl From<KeysError> for Trouble {
    fn from(error: KeysError) -> Self {
        let exit = match &error {
            KeysError::Unknown(_) => Exit::NotFound,
            KeysError::BadName { .. } | KeysError::ServiceOfPerson | KeysError::BadTerms(_) => {
                Exit::Usage
            }
            KeysError::Taken(_)
            | KeysError::LooksLike { .. }
            | KeysError::Belongs { .. }
            | KeysError::ServiceNamed(_)
            | KeysError::Retired { .. }
            | KeysError::Full
            | KeysError::Reserved(_) => Exit::Refused,
            KeysError::Io { .. } | KeysError::Unusable { .. } | KeysError::NoChance(_) => {
                Exit::Failed
            }
        };
        Self::new(exit, chain(&error))
    }
}

#[cfg(feature = "bench")]
impl From<BenchError> for Trouble {
    fn from(error: BenchError) -> Self {
        Self::new(Exit::Failed, chain(&error))
    }
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        let is_silent = error.kind() == io::ErrorKind::BrokenPipe;
        Self { is_silent, ..Self::new(Exit::Failed, chain(&error)) }
    }
}

/// An error and what caused it, each told once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {}", cause_text.trim_end());
        }
        next = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn every_exit_has_its_own_number() {
        let numbers: Vec<_> = Exit::ALL.iter().map(|exit| exit.number()).collect();
        assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6, 7, 130]);
    }

    #[test]
    fn a_status_ends_as_what_it_means_to_a_script() {
        for (code, exit) in [
            (Code::NotFound, Exit::NotFound),
            (Code::InvalidArgument, Exit::Refused),
            (Code::FailedPrecondition, Exit::Refused),
            (Code::Unauthenticated, Exit::Refused),
            (Code::Unavailable, Exit::Unreachable),
            (Code::DataLoss, Exit::Failed),
            (Code::Unimplemented, Exit::Failed),
        ] {
            assert_eq!(Trouble::from(Status::new(code, "x")).exit, exit, "{code:?}");
        }
    }

    #[test]
    fn a_refusal_keeps_its_stable_code_and_gets_a_hint() {
        let details = ErrorDetails::with_error_info("workflow.unknown", "holdpoint", []);
        let status =
            Status::with_error_details(Code::NotFound, "there is no workflow `x`", details);
        let trouble = Trouble::from(status);
        assert_eq!(trouble.code.as_deref(), Some("workflow.unknown"));
        assert_eq!(trouble.to_json()["error"]["exit_code"], 5);
        assert!(trouble.hint.unwrap().contains("holdpoint workflows"));
    }

    #[test]
    fn calls_become_commands_and_what_is_quoted_stays() {
        let told = "there is no workflow `ListRuns`; ListWorkflows names the ones there are";
        let ours =
            "there is no workflow `ListRuns`; `holdpoint workflows` names the ones there are";
        assert_eq!(in_our_words(told), ours);
        let details = ErrorDetails::with_error_info("workflow.unknown", "holdpoint", []);
        let trouble = Trouble::from(Status::with_error_details(Code::NotFound, told, details));
        assert_eq!((trouble.message.as_str(), trouble.hint), (ours, None), "said once");
    }

    #[test]
    fn a_command_in_a_hint_reaches_the_place_that_the_refusal_came_from() {
        let details = ErrorDetails::with_error_info("request.unknown", "holdpoint", []);
        let status = Status::with_error_details(Code::NotFound, "there is no such thing", details);
        let hint = Trouble::from(status).at(" --server http://c:4653").hint;
        let told = "`holdpoint inbox --server http://c:4653` shows what is open";
        assert_eq!(hint.as_deref(), Some(told));
        let other = Trouble::new(Exit::Failed, "no").hint("`holdpoint inbox 1` shows it");
        assert_eq!(other.at(" --data d").hint.as_deref(), Some("`holdpoint inbox 1` shows it"));
    }

    #[test]
    fn whoever_was_not_answered_is_told_that_it_may_have_begun_and_how_not_to_begin_another() {
        let unanswered = || Trouble::from(Status::new(Code::Unavailable, "it waits for a standby"));
        let hint = unanswered().may_have_begun(false).hint.unwrap();
        assert!(hint.contains("would begin another") && hint.contains("--key KEY"), "{hint}");
        assert!(hint.contains("`holdpoint runs`"), "{hint}");
        let hint = unanswered().may_have_begun(true).hint.unwrap();
        assert!(hint.contains("try again") && hint.contains("the same --key"), "{hint}");
        let refused = Trouble::from(Status::new(Code::FailedPrecondition, "no"));
        assert_eq!(refused.may_have_begun(false).hint, None, "a no is an answer");
    }

    #[test]
    fn a_closed_pipe_is_no_trouble_to_tell() {
        let trouble = Trouble::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(trouble.is_silent);
    }
}
