//! Bad inputs: every one that a caller can send, and the code, the reason and the field it must get.

use holdpoint::kernel::SessionId;
use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{
    CancelRequestRequest, CancelRunRequest, ForkRunRequest, GetRunRequest, GetSessionRequest,
    GetWorkflowRequest, HaltRequest, ListCheckpointsRequest, ListRequestsRequest, ListRunsRequest,
    ListSessionsRequest, ReleaseHaltRequest, RevokeGrantRequest, RunWorkflowRequest,
    SendResponsesRequest, SignalRunRequest, WatchRunRequest,
};
use serde_json::json;
use tonic::Code;

use crate::grpc::refusals_stage::{Stage, Who};
use crate::support::server::{answer_to, start_of};

/// One bad input and what must come of it.
pub(crate) struct Case {
    pub(crate) what: &'static str,
    pub(crate) who: Who,
    pub(crate) method: &'static str,
    pub(crate) message: Vec<u8>,
    pub(crate) code: Code,
    pub(crate) reason: &'static str,
    /// The field that `BadRequest` must name; none where no field is to blame.
    pub(crate) field: Option<String>,
}

/// Ada asks; the builder of most cases.
fn case(what: &'static str, method: &'static str, message: &impl prost::Message) -> Case {
    raw_case(what, method, message.encode_to_vec())
}

fn raw_case(what: &'static str, method: &'static str, message: Vec<u8>) -> Case {
    let (code, reason) = (Code::Ok, "");
    Case { what, who: Who::Ada, method, message, code, reason, field: None }
}

impl Case {
    fn by(self, who: Who) -> Self {
        Self { who, ..self }
    }

    fn is(self, code: Code, reason: &'static str, field: impl Into<String>) -> Self {
        let field = Some(field.into()).filter(|field| !field.is_empty());
        Self { code, reason, field, ..self }
    }

    fn invalid(self, field: impl Into<String>) -> Self {
        self.is(Code::InvalidArgument, "field.invalid", field)
    }

    fn too_large(self, field: impl Into<String>) -> Self {
        self.is(Code::InvalidArgument, "field.too_large", field)
    }

    fn malformed(self) -> Self {
        self.is(Code::InvalidArgument, "message.malformed", "")
    }
}

pub(crate) const UNKNOWN_RUN: &str = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";
pub(crate) const UNKNOWN_REQUEST: &str = "req_01k9zq3v7m8n4p5r6s7t8v9w0x-0001";

/// What is wrong with a message as such.
pub(crate) fn malformed() -> Vec<Case> {
    let deep = (0..1_000).fold(json!("bottom"), |inner, _| json!([inner]));
    let nested = RunWorkflowRequest { input: Some(deep.into()), ..start_of("chat", "", "", "") };
    let million = (0..1_000_000).map(|number| (format!("{number}"), String::new())).collect();
    let metadata = RunWorkflowRequest { metadata: million, ..start_of("chat", "", "x", "") };
    let answers = (0..1_000_000).map(|number| (format!("{number}"), "x".into())).collect();
    let answers = SendResponsesRequest { responses: answers, ..Default::default() };
    let too_large = |case: Case| case.is(Code::InvalidArgument, "message.too_large", "");
    let empty_entries = [0x1a, 0x00].repeat(1_000_000);
    vec![
        raw_case("a string that is no UTF-8", "RunWorkflow", vec![0x0a, 2, 0xff, 0xfe]).malformed(),
        raw_case("bytes that are no protobuf", "RunWorkflow", vec![0xff; 64]).malformed(),
        raw_case("a field of another type", "GetRun", vec![0x08, 1]).malformed(),
        raw_case("a length beyond the end", "GetRun", vec![0x0a, 0x7f, b'x']).malformed(),
        case("JSON nested 1,000 deep", "RunWorkflow", &nested).malformed(),
        too_large(raw_case("a message of 100 MB", "RunWorkflow", vec![0; 100_000_000])),
        too_large(case("a million metadata entries", "RunWorkflow", &metadata)),
        too_large(case("a million answers", "SendResponses", &answers)),
        raw_case("a million empty entries", "SendResponses", empty_entries).invalid("responses[]"),
        raw_case("a method that is not there", "Explode", Vec::new()).is(
            Code::Unimplemented,
            "method.unknown",
            "",
        ),
        case("no key", "ListRuns", &ListRunsRequest::default()).by(Who::Nobody).is(
            Code::Unauthenticated,
            "auth.missing",
            "authorization",
        ),
        case("an unknown key", "RunWorkflow", &start_of("chat", "", "x", "")).by(Who::Stranger).is(
            Code::Unauthenticated,
            "auth.missing",
            "authorization",
        ),
    ]
}

/// What is wrong with a start.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn starts(stage: &Stage) -> Vec<Case> {
    let start = |workflow: &str, session: &str| start_of(workflow, session, "x", "");
    let labelled = |count: usize, bytes: usize| RunWorkflowRequest {
        metadata: (0..count).map(|number| (number.to_string(), "x".repeat(bytes))).collect(),
        ..start("chat", "")
    };
    let unnamed = RunWorkflowRequest { input: None, ..start("chat", "") };
    let heavy = start_of("chat", "", &"x".repeat(1_500_000), "");
    let fork = |run_id: &str, checkpoint_id: &str| ForkRunRequest {
        run_id: run_id.into(),
        checkpoint_id: checkpoint_id.into(),
        ..Default::default()
    };
    let reused = start_of("chat", "", "something else", "stage-key");
    let bobs = SessionId::of(&SessionId::parse("bob-chat").unwrap(), "bob").to_string();
    vec![
        case("no workflow", "RunWorkflow", &start("", "")).invalid("workflow_id"),
        case("an unknown workflow", "RunWorkflow", &start("nonsense", "")).is(
            Code::NotFound,
            "workflow.unknown",
            "workflow_id",
        ),
        case("an endless workflow name", "RunWorkflow", &start(&"n".repeat(100_000), "")).is(
            Code::NotFound,
            "workflow.unknown",
            "workflow_id",
        ),
        case(
            "an unknown workflow to look at",
            "GetWorkflow",
            &GetWorkflowRequest { workflow_id: "n".repeat(100_000) },
        )
        .is(Code::NotFound, "workflow.unknown", "workflow_id"),
        case("no workflow to look at", "GetWorkflow", &GetWorkflowRequest::default())
            .invalid("workflow_id"),
        case("a session id with a space", "RunWorkflow", &start("chat", "two words"))
            .invalid("session_id"),
        case("a session id that is too long", "RunWorkflow", &start("chat", &"s".repeat(129)))
            .invalid("session_id"),
        case(
            "a session that nobody opened",
            "RunWorkflow",
            &start("chat", "ses_01k9zq3v7m8n4p5r6s7t8v9w0x"),
        )
        .is(Code::NotFound, "session.unknown", "session_id"),
        case("another's session, for an admin", "RunWorkflow", &start("hurried", &bobs))
            .by(Who::Ops)
            .is(Code::PermissionDenied, "auth.forbidden", "authorization"),
        case("no input", "RunWorkflow", &unnamed).invalid("input"),
        case("an input of 1.5 MB", "RunWorkflow", &heavy).too_large("input"),
        case("65 metadata entries", "RunWorkflow", &labelled(65, 1)).too_large("metadata"),
        case("a long metadata entry", "RunWorkflow", &labelled(1, 1_025)).too_large("metadata"),
        case("a long key", "RunWorkflow", &start_of("chat", "", "x", &"k".repeat(257)))
            .too_large("idempotency_key"),
        case("a key with another content", "RunWorkflow", &reused).is(
            Code::AlreadyExists,
            "idempotency_key.reused",
            "idempotency_key",
        ),
        case("plain input where several wait", "RunWorkflow", &start("", "ada-two")).is(
            Code::FailedPrecondition,
            "session.ambiguous",
            "session_id",
        ),
        case("a wrong answer as plain input", "RunWorkflow", &start("choice", "ada-choice")).is(
            Code::InvalidArgument,
            "answer.invalid",
            "input",
        ),
        case("a fork of nothing", "ForkRun", &fork("", "")).invalid("run_id"),
        case("a fork of an unknown run", "ForkRun", &fork(UNKNOWN_RUN, "")).is(
            Code::NotFound,
            "run.unknown",
            "run_id",
        ),
        case("a fork of an unknown checkpoint", "ForkRun", &fork(&stage.run, "chk_1")).is(
            Code::NotFound,
            "checkpoint.unknown",
            "checkpoint_id",
        ),
    ]
}

/// What is wrong with an answer.
#[expect(clippy::too_many_lines, reason = "a table")]
pub(crate) fn answers(stage: &Stage) -> Vec<Case> {
    let send = |what, request: &str, value: &str| {
        case(what, "SendResponses", &answer_to(request, value, ""))
    };
    let of = |request: &str| format!("responses[{request}]");
    let numbered = SendResponsesRequest {
        responses: [(stage.chat.clone(), json!(7).into())].into(),
        ..Default::default()
    };
    let named = |run: &str, session: &str| SendResponsesRequest {
        run_id: run.into(),
        session_id: session.into(),
        ..answer_to(&stage.chat, "x", "")
    };
    let stale = SendResponsesRequest {
        digests: [(stage.chat.clone(), "0".repeat(64))].into(),
        ..answer_to(&stage.chat, "x", "")
    };
    let many = (1..=1_001).map(|number| (format!("{UNKNOWN_REQUEST}{number}"), "x".into()));
    let many = SendResponsesRequest { responses: many.collect(), ..Default::default() };
    let both = [(stage.chat.clone(), "x".into()), (stage.choice.clone(), "sea".into())].into();
    let both = SendResponsesRequest { responses: both, ..Default::default() };
    let reused = answer_to(&stage.answered, "reject", "answer-key");
    vec![
        send("nobody's request", UNKNOWN_REQUEST, "x").is(
            Code::NotFound,
            "request.unknown",
            of(UNKNOWN_REQUEST),
        ),
        send("a request that is no id", "nonsense", "x").is(
            Code::NotFound,
            "request.unknown",
            of("nonsense"),
        ),
        send("a request that the run never made", &stage.never, "x").is(
            Code::NotFound,
            "request.unknown",
            of(&stage.never),
        ),
        send("an empty request id", "", "x").invalid("responses[]"),
        case("no answers", "SendResponses", &SendResponsesRequest::default()).invalid("responses"),
        case("1,001 answers", "SendResponses", &many).too_large("responses"),
        case("answers to two runs", "SendResponses", &both).invalid("responses"),
        send("no option", &stage.choice, "the moon").is(
            Code::InvalidArgument,
            "answer.invalid",
            of(&stage.choice),
        ),
        case("a number for a text", "SendResponses", &numbered).is(
            Code::InvalidArgument,
            "answer.invalid",
            of(&stage.chat),
        ),
        send("an empty text", &stage.chat, "").is(
            Code::InvalidArgument,
            "answer.invalid",
            of(&stage.chat),
        ),
        send("twice", &stage.answered, "approve").is(
            Code::AlreadyExists,
            "request.already_answered",
            of(&stage.answered),
        ),
        case("with a key of another answer", "SendResponses", &reused).is(
            Code::AlreadyExists,
            "idempotency_key.reused",
            "idempotency_key",
        ),
        send("too late", &stage.expired, "approve").is(
            Code::FailedPrecondition,
            "request.closed",
            of(&stage.expired),
        ),
        case("to what was never shown", "SendResponses", &stale).is(
            Code::FailedPrecondition,
            "answer.stale_digest",
            format!("digests[{}]", stage.chat),
        ),
        case("to another run", "SendResponses", &named(&stage.over, "")).is(
            Code::InvalidArgument,
            "request.foreign",
            of(&stage.chat),
        ),
        case("to another session", "SendResponses", &named("", "ada-two")).is(
            Code::NotFound,
            "request.unknown",
            of(&stage.chat),
        ),
        send("an answer of 1.5 MB", &stage.chat, &"x".repeat(1_500_000)).too_large(of(&stage.chat)),
        case("a long key", "SendResponses", &answer_to(&stage.chat, "x", &"k".repeat(257)))
            .too_large("idempotency_key"),
    ]
}

/// What is wrong with everything else.
pub(crate) fn others(stage: &Stage) -> Vec<Case> {
    let cancel = |id: &str| CancelRequestRequest { request_id: id.into(), ..Default::default() };
    let revoke = |run: &str, tool: &str| {
        let (run_id, tool) = (run.into(), tool.into());
        RevokeGrantRequest { run_id, tool, ..Default::default() }
    };
    let signal = |run: &str, name: &str| {
        let (run_id, name) = (run.into(), name.into());
        SignalRunRequest { run_id, name, ..Default::default() }
    };
    let (run_id, reason) = (stage.run.clone(), "r".repeat(1_025));
    let reason = CancelRunRequest { run_id, reason, ..Default::default() };
    let runs = |page_size, page_token: &str| ListRunsRequest {
        page_size,
        page_token: page_token.into(),
        ..Default::default()
    };
    let status = ListRunsRequest { status: 99, ..Default::default() };
    let kind = ListRequestsRequest { kind: 99, ..Default::default() };
    let sessions = ListSessionsRequest { page_size: 1_001, ..Default::default() };
    let inbox = ListRequestsRequest { page_size: -1, ..Default::default() };
    vec![
        case("an empty run id", "GetRun", &GetRunRequest::default()).invalid("run_id"),
        case("an empty run id", "WatchRun", &WatchRunRequest::default()).invalid("run_id"),
        case("an empty run id", "CancelRun", &CancelRunRequest::default()).invalid("run_id"),
        case("an empty run id", "ListCheckpoints", &ListCheckpointsRequest::default())
            .invalid("run_id"),
        case("an empty session id", "GetSession", &GetSessionRequest::default())
            .invalid("session_id"),
        case("an empty request id", "CancelRequest", &cancel("")).invalid("request_id"),
        case("an unknown request to take back", "CancelRequest", &cancel(UNKNOWN_REQUEST)).is(
            Code::NotFound,
            "request.unknown",
            "request_id",
        ),
        case("an answered request to take back", "CancelRequest", &cancel(&stage.answered)).is(
            Code::AlreadyExists,
            "request.already_answered",
            "request_id",
        ),
        case("a closed request to take back", "CancelRequest", &cancel(&stage.expired)).is(
            Code::FailedPrecondition,
            "request.closed",
            "request_id",
        ),
        case("an endless reason", "CancelRun", &reason).too_large("reason"),
        case("a grant that there is not", "RevokeGrant", &revoke(&stage.run, "pay")).is(
            Code::NotFound,
            "grant.unknown",
            "tool",
        ),
        case("a grant of nothing", "RevokeGrant", &revoke(&stage.run, "")).invalid("tool"),
        case("a signal without a name", "SignalRun", &signal(&stage.run, "")).invalid("name"),
        case("a signal to a run that waits for none", "SignalRun", &signal(&stage.run, "go")).is(
            Code::FailedPrecondition,
            "run.not_listening",
            "name",
        ),
        case("a signal to a run that is over", "SignalRun", &signal(&stage.over, "go")).is(
            Code::FailedPrecondition,
            "run.over",
            "run_id",
        ),
        case("a page of less than nothing", "ListRuns", &runs(-1, "")).invalid("page_size"),
        case("a page of 1,001", "ListRuns", &runs(1_001, "")).invalid("page_size"),
        case("a page token of nobody's", "ListRuns", &runs(0, "nonsense")).invalid("page_token"),
        case("a page of 1,001 sessions", "ListSessions", &sessions).invalid("page_size"),
        case("a page of less than no requests", "ListRequests", &inbox).invalid("page_size"),
        case("a status that there is not", "ListRuns", &status).invalid("status"),
        case("a kind that there is not", "ListRequests", &kind).invalid("kind"),
    ]
}

/// What is wrong with a wish to halt, or to let go on.
pub(crate) fn halts() -> Vec<Case> {
    let halt = |scope| HaltRequest {
        scope: Some(scope),
        reason: "too many".into(),
        ..HaltRequest::default()
    };
    let release = ReleaseHaltRequest { halt_id: "halt_none".into(), ..Default::default() };
    vec![
        case("a halt that does not stand", "ReleaseHalt", &release).by(Who::Ops).is(
            Code::NotFound,
            "halt.unknown",
            "halt_id",
        ),
        case("a workflow to stop that there is not", "Halt", &halt(Scope::WorkflowId("no".into())))
            .by(Who::Ops)
            .is(Code::NotFound, "workflow.unknown", "workflow_id"),
        case("a tool to stop that there is not", "Halt", &halt(Scope::Tool("no".into())))
            .by(Who::Ops)
            .invalid("tool"),
    ]
}
