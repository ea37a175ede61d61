//! Errors: the table of every code that a caller can meet. `docs/errors.md` is made from it.

use tonic::Code;

/// One code.
pub(crate) struct Row {
    pub(crate) code: &'static str,
    pub(crate) status: Code,
    pub(crate) meaning: &'static str,
    pub(crate) remedy: &'static str,
    /// The test that shows it, where it is not the table of bad inputs.
    pub(crate) elsewhere: Option<&'static str>,
}

const fn row(code: &'static str, status: Code, meaning: &'static str, remedy: &'static str) -> Row {
    Row { code, status, meaning, remedy, elsewhere: None }
}

#[expect(clippy::needless_pass_by_value, reason = "a const cannot drop what it borrowed")]
const fn shown_in(test: &'static str, row: Row) -> Row {
    Row { elsewhere: Some(test), ..row }
}

/// Every code, by what it is about.
pub(crate) const CODES: &[Row] = &[
    row(
        "answer.invalid",
        Code::InvalidArgument,
        "The answer does not fit the request's response schema or options. The request stays open.",
        "Send what the message says was expected; `response_schema` and `options` of the request have it in full.",
    ),
    row(
        "answer.stale_digest",
        Code::FailedPrecondition,
        "The digest is not that of what is asked: the person was shown something else.",
        "Show the request again and answer that, with its digest.",
    ),
    shown_in(
        "consent_digest.rs",
        row(
            "answer.digest_needed",
            Code::FailedPrecondition,
            "The file says `binding: digest`: an id or a code alone does not answer this request. It stays open.",
            "Show the request, and send its digest with the answer: `digests` over gRPC, HTTP and A2A, `--digest` at the terminal.",
        ),
    ),
    shown_in(
        "consent_votes.rs",
        row(
            "answer.counted",
            Code::AlreadyExists,
            "You have said the same already, and it counts; the request needs more people. It stays open.",
            "Nothing is left for you to do. A no takes your yes back; the same word with a note takes its place.",
        ),
    ),
    shown_in(
        "editing.rs",
        row(
            "answer.nobody_left",
            Code::FailedPrecondition,
            "Whoever must agree to your version would have to be somebody who took no part (`not: [participant]`, `not: [editor]`), and fewer are left than are needed. The request stays open as it is.",
            "Approve what is shown, or say no with a note; or have the operator name more people.",
        ),
    ),
    shown_in(
        "consent_yours.rs",
        row(
            "answer.still_unbound",
            Code::FailedPrecondition,
            "Words alone, more than three times in one pause of a conversation: the question is not told again.",
            "Read the question: answer by its id, its digest, or `approve CODE`.",
        ),
    ),
    shown_in(
        "the tests of late and repeated words show it",
        row(
            "answer.unbound",
            Code::FailedPrecondition,
            "A decision is open, and words alone decide nothing. The metadata lists `request_ids` and `codes`.",
            "Answer by the request's id, its digest, or `approve CODE`.",
        ),
    ),
    shown_in(
        "the tests of late and repeated words show it",
        row(
            "answer.code_unknown",
            Code::NotFound,
            "No open request of this conversation has that code: it was answered, has expired, or is another conversation's.",
            "Look at what is open and answer that.",
        ),
    ),
    shown_in(
        "the tests of late and repeated words show it",
        row(
            "answer.stale",
            Code::FailedPrecondition,
            "The words were meant for a pause that is over.",
            "Look at what is asked now, and answer that by its id.",
        ),
    ),
    shown_in(
        "consent_forks.rs",
        row(
            "fork.unspent",
            Code::FailedPrecondition,
            "At that checkpoint something is allowed that is not done yet: a fork would do it once more.",
            "Fork from the checkpoint that the message names, where it is asked; or let the run go on first.",
        ),
    ),
    shown_in(
        "the tests of who may answer show it",
        row(
            "answer.not_admitted",
            Code::PermissionDenied,
            "The request waits for others: it is addressed to them, or its rule excludes you (`waits_for` in the metadata says whom).",
            "Have one of them answer.",
        ),
    ),
    shown_in(
        "consent_keys.rs",
        row(
            "answer.assurance",
            Code::PermissionDenied,
            "The request is a decision, and it is not known well enough that a person decides: a service spoke by itself, or for somebody (`assurance` and `wants` in the metadata).",
            "Have the person answer with a key of their own, or at the console. `assurance: vouched` in the workflow or in `holdpoint.toml` takes a service's word for a person; nothing takes a service's own.",
        ),
    ),
    shown_in(
        "consent_keys.rs",
        row(
            "auth.expired",
            Code::Unauthenticated,
            "The key was good until a time that has come.",
            "`holdpoint keys remove NAME`, then `holdpoint keys add NAME --again` makes another.",
        ),
    ),
    shown_in(
        "consent_crowd.rs",
        row(
            "answer.handed_over",
            Code::FailedPrecondition,
            "Your place in the request is with somebody else (`held_by` in the metadata says whom): what they say counts as yours.",
            "Take it back with `DelegateRequest`, or have them answer.",
        ),
    ),
    row(
        "auth.missing",
        Code::Unauthenticated,
        "The server wants an API key, and none, or an unknown one, was shown.",
        "Send `authorization: Bearer <key>`; `holdpoint keys add NAME` makes a key.",
    ),
    row(
        "auth.forbidden",
        Code::PermissionDenied,
        "The key is good, but this is not for its holder to do; the message says what is.",
        "Do what the message names, or use another key.",
    ),
    shown_in(
        "consent_keys.rs",
        row(
            "auth.person_unknown",
            Code::PermissionDenied,
            "A service speaks, by `x-holdpoint-on-behalf-of`, for somebody who is nobody here.",
            "Name a person who has a key, or whom `[people]` in `holdpoint.toml` names.",
        ),
    ),
    shown_in(
        "consent_keys.rs",
        row(
            "auth.role",
            Code::PermissionDenied,
            "The key is good, but has none of the roles that this takes; the message names them.",
            "Use a key that has one; `holdpoint keys add --role` makes one.",
        ),
    ),
    shown_in(
        "nothing answers late enough for a test",
        row(
            "call.deadline",
            Code::DeadlineExceeded,
            "The caller's deadline passed before the call was answered. The run goes on.",
            "Repeat the call with the same idempotency key, or watch the run.",
        ),
    ),
    shown_in(
        "web_pages.rs",
        row(
            "call.not_grpc",
            Code::Unknown,
            "A path of gRPC was called in another way: HTTP 415 and JSON, for there is no gRPC to answer in.",
            "Call it over HTTP/2 with content-type `application/grpc`; for plain HTTP there are `/v1` and `/a2a`.",
        ),
    ),
    shown_in(
        "the framework alone makes it",
        row(
            "call.refused",
            Code::Cancelled,
            "The call was refused before it reached a handler. The status is the one the framework gave.",
            "Read the message.",
        ),
    ),
    shown_in(
        "consent_crowd.rs",
        row(
            "claim.unknown",
            Code::NotFound,
            "No claim of yours stands at that request: there is nothing to let go.",
            "None is needed; a claim ends by itself, and when you answer.",
        ),
    ),
    shown_in(
        "consent_crowd.rs",
        row(
            "delegation.refused",
            Code::FailedPrecondition,
            "The place cannot go to that person: the request excludes them, asks them already, or nobody knows them; or the place is not yours to hand on.",
            "Choose somebody else, as the message says.",
        ),
    ),
    shown_in(
        "consent_crowd.rs",
        row(
            "delegation.unknown",
            Code::NotFound,
            "You have handed no place over in that request, or its time is up: there is nothing to take back.",
            "None is needed; answer it yourself.",
        ),
    ),
    row(
        "halt.unknown",
        Code::NotFound,
        "There is no such halt, or it stands no more.",
        "`holdpoint halt` and `ListHalts` name those that stand.",
    ),
    row(
        "checkpoint.unknown",
        Code::NotFound,
        "There is no such checkpoint of that run.",
        "`ListCheckpoints` names the ones there are.",
    ),
    row(
        "field.invalid",
        Code::InvalidArgument,
        "A field is missing or wrong; `BadRequest` names it.",
        "Send what the message says was expected.",
    ),
    row(
        "field.too_large",
        Code::InvalidArgument,
        "A field is beyond its bound; `BadRequest` names it.",
        "Stay below the bound that the message names.",
    ),
    row(
        "grant.unknown",
        Code::NotFound,
        "The tool is not allowed for the rest of that run.",
        "`GetRun` lists what is allowed.",
    ),
    shown_in(
        "web_pages.rs",
        row(
            "host.foreign",
            Code::PermissionDenied,
            "A server without API keys was called by a name that is not its own (HTTP 421).",
            "Call it by 127.0.0.1 or localhost, name it with `--public-url`, or make a key with `holdpoint keys add`.",
        ),
    ),
    row(
        "idempotency_key.reused",
        Code::AlreadyExists,
        "The key was used before for a call with another content.",
        "Take a new key for a new call; repeat a call with exactly its content.",
    ),
    row(
        "message.malformed",
        Code::InvalidArgument,
        "The bytes are no message of this method: not protobuf, not UTF-8, or nested too deep.",
        "Send the method's message, with values nested at most 49 deep.",
    ),
    row(
        "message.too_large",
        Code::InvalidArgument,
        "The message has more than 4 MiB.",
        "Send less; put large things elsewhere and send where.",
    ),
    row(
        "method.unknown",
        Code::Unimplemented,
        "There is no such method.",
        "Reflection lists the ones there are.",
    ),
    shown_in(
        "web_pages.rs",
        row(
            "origin.foreign",
            Code::PermissionDenied,
            "A browser sent this for the page of another site, to a server without API keys (HTTP 403).",
            "Make a key with `holdpoint keys add`, or have the page served from here.",
        ),
    ),
    row(
        "request.already_answered",
        Code::AlreadyExists,
        "Somebody has answered already; `answered_by` in the metadata says who. Their answer stands.",
        "Nothing is left to do. With the same key, a repeat of the first answer streams what came of it.",
    ),
    shown_in(
        "the tests of what is halted show it",
        row(
            "halted",
            Code::FailedPrecondition,
            "Somebody has stopped it: nothing is begun and nothing is decided until that is taken back; the message says what, by whom and why (HTTP 503).",
            "Wait, or ask an admin; `holdpoint halt` lists what is stopped, and `holdpoint halt --release HALT` lets it go on. Then send the same again.",
        ),
    ),
    shown_in(
        "the tests of what was restored show it",
        row(
            "request.asked_anew",
            Code::FailedPrecondition,
            "Since this was asked, the same was refused in another run of the family, or the store was put back from a backup or moved: it has been asked anew, under another id.",
            "Look at what is asked now, and answer that.",
        ),
    ),
    row(
        "request.closed",
        Code::FailedPrecondition,
        "The request ended without an answer: its deadline passed, it was withdrawn, or its run is over.",
        "Nothing can be answered any more; `GetRun` says how the run stands.",
    ),
    row(
        "request.foreign",
        Code::InvalidArgument,
        "The request belongs to another run than the one that was named.",
        "Leave `run_id` out, or name the request's own.",
    ),
    row(
        "request.unknown",
        Code::NotFound,
        "There is no such request, or it is not yours.",
        "`ListRequests` names what is open for you.",
    ),
    shown_in(
        "forged_questions.rs",
        row(
            "run.damaged",
            Code::DataLoss,
            "The run's journal does not fold, or its head asks what the journal does not: it stands still until a person has looked.",
            "Run `holdpoint doctor` on the server's data directory.",
        ),
    ),
    row(
        "run.not_listening",
        Code::FailedPrecondition,
        "The run does not wait for that signal.",
        "Send it when the run waits for it; `GetRun` says what it waits for.",
    ),
    row(
        "run.over",
        Code::FailedPrecondition,
        "The run is completed, failed or cancelled.",
        "Start another, or fork it from a checkpoint.",
    ),
    row(
        "run.unknown",
        Code::NotFound,
        "There is no such run, or it is not yours.",
        "`ListRuns` names yours.",
    ),
    shown_in(
        "the callers of kill.rs repeat on it",
        row(
            "server.busy",
            Code::Unavailable,
            "Something is in the way for a moment; the message says what.",
            "Repeat the call with the same idempotency key.",
        ),
    ),
    shown_in(
        "drain.rs",
        row(
            "server.draining",
            Code::Unavailable,
            "The server is shutting down.",
            "Repeat the call with the same idempotency key in a moment; take streams up again with `WatchRun`.",
        ),
    ),
    shown_in(
        "policy_served.rs",
        row(
            "gate.invalid",
            Code::InvalidArgument,
            "A gate that a start brings is none, or says what only a file may say. Nothing was begun.",
            "Write it as a file has it, without what the message names: a start can only add or tighten.",
        ),
    ),
    shown_in(
        "policy_served.rs",
        row(
            "gate.contradiction",
            Code::InvalidArgument,
            "A gate that a start brings says something else than the file's about the same thing. Nothing was begun.",
            "Give it another name, or leave its conditions out where the file always asks.",
        ),
    ),
    row(
        "session.ambiguous",
        Code::FailedPrecondition,
        "Several requests of the session are open, and plain input does not say which it answers; `request_ids` in the metadata lists them.",
        "Answer them by id with `SendResponses`.",
    ),
    shown_in(
        "memory.rs",
        row(
            "session.full",
            Code::FailedPrecondition,
            "A run would have to remember more of its session than a run may: 16 MiB of what was said, 100,000 messages, or 10,000 runs.",
            "Begin a new session, or say `remembers: run` in the workflow's file.",
        ),
    ),
    row(
        "session.unknown",
        Code::NotFound,
        "There is no such session, or it is not yours.",
        "`ListSessions` names yours; take another id for a new one.",
    ),
    shown_in(
        "consent_keys.rs",
        row(
            "signal.not_admitted",
            Code::PermissionDenied,
            "The workflow says who sends that signal (`wait.from`), and you are not among them.",
            "Have one of them send it, or an operator.",
        ),
    ),
    shown_in(
        "damage.rs",
        row(
            "store.damaged",
            Code::DataLoss,
            "Stored data does not check out.",
            "Run `holdpoint doctor` on the server's data directory.",
        ),
    ),
    shown_in(
        "replicas_served.rs",
        row(
            "store.rewound",
            Code::DataLoss,
            "The database has gone back in time and lacks what the caller has seen: a standby without everything was promoted, or a backup was put back.",
            "Watch the run from the beginning. An operator looks at the audit, and lets the store go on with `holdpoint release`; what was open is asked anew.",
        ),
    ),
    shown_in(
        "damage.rs",
        row(
            "store.failed",
            Code::Unavailable,
            "The store takes no writes any more; nothing acknowledged is lost.",
            "See to the disk and restart the server, then repeat the call with the same idempotency key.",
        ),
    ),
    shown_in(
        "the tests of what was restored show it",
        row(
            "store.held",
            Code::FailedPrecondition,
            "The store was put back from a backup, or imported, or a database has gone back in time under those who serve it, and it does nothing yet; the message says which (of two databases with one history that took writes it says the last, and `/readyz` says that there were two). Looking and cancelling are possible (HTTP 503).",
            "Have an operator look at what is open and say `holdpoint release`.",
        ),
    ),
    shown_in(
        "reloaded.rs",
        row(
            "workflow.broken",
            Code::FailedPrecondition,
            "The file of that workflow cannot be used as it is, or the servers of its tools cannot be asked (HTTP 503).",
            "The message says what is wrong, and where; mend the file, and it can be started within a second.",
        ),
    ),
    row(
        "workflow.unknown",
        Code::NotFound,
        "There is no workflow of that name.",
        "`ListWorkflows` names the ones there are.",
    ),
];
