//! Refusals: every bad input over raw gRPC has its code, its reason and its field, and leaves no
//! trace (K1, D2, D3). The table of codes is `docs/errors.md`: `HOLDPOINT_BLESS=1` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use holdpoint::wire::v1::{
    CancelRequestRequest, CancelRunRequest, ForkRunRequest, GetRunRequest, GetSessionRequest,
    ListCheckpointsRequest, ListRunsResponse, SignalRunRequest, WatchRunRequest,
};
use prost::Message as _;
use tonic::{Code, Status};
use tonic_types::{ErrorInfo, StatusExt as _};

use crate::grpc::bad_inputs::{
    Case, UNKNOWN_REQUEST, UNKNOWN_RUN, answers, halts, malformed, others, starts,
};
use crate::grpc::refusals_stage::{Stage, Who};
use crate::house::errors::{CODES, Row};
use crate::support::raw;
use crate::support::server::answer_to;

/// Makes the call, and says what is wrong with its refusal.
async fn complaint(case: &Case, stage: &Stage) -> Option<String> {
    let key = stage.key(case.who);
    let outcome = raw::call(stage.server.address(), key, case.method, case.message.clone()).await;
    let Err(status) = outcome else { return Some("it was accepted".into()) };
    let info = status.get_details_error_info();
    let info = info.unwrap_or_else(|| ErrorInfo::new("", "", []));
    let told = (status.code(), info.reason.as_str(), info.domain.as_str(), field_of(&status));
    let wanted = (case.code, case.reason, "holdpoint", case.field.clone());
    if told != wanted {
        return Some(format!("{told:?} instead of {wanted:?}: {}", status.message()));
    }
    let is_shown = |inside: &str| status.message().contains(inside);
    if is_shown("src/") || is_shown("sled") {
        return Some(format!("it shows internals: {}", status.message()));
    }
    (status.message().len() > 1_000).then(|| "the caller's flood comes back".into())
}

fn field_of(status: &Status) -> Option<String> {
    let details = status.get_details_bad_request()?;
    details.field_violations.first().map(|violation| violation.field.clone())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d3_every_bad_input_is_refused_with_its_field_and_code_and_leaves_no_trace() {
    let stage = Stage::set().await;
    let before = stage.footprint().await;
    let mut wrong = Vec::new();
    let mut complain = |case: &Case, why: &str| wrong.push(format!("{}: {why}", case.what));
    let tables = [malformed(), starts(&stage), answers(&stage), halts(), others(&stage)];
    let cases: Vec<_> = tables.into_iter().flatten().collect();
    for case in &cases {
        if let Some(why) = complaint(case, &stage).await {
            complain(case, &why);
        }
        if stage.footprint().await != before {
            complain(case, "K1: it left a trace");
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let shown: BTreeSet<_> = cases.iter().map(|case| case.reason).collect();
    for row in CODES {
        assert!(row.elsewhere.is_some() || shown.contains(row.code), "{} has no case", row.code);
    }
    for case in &cases {
        let row = CODES.iter().find(|row| row.code == case.reason);
        assert_eq!(row.map(|row| row.status), Some(case.code), "{} in the table", case.reason);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn d2_what_is_anothers_looks_like_what_is_not_there() {
    let stage = Stage::set().await;
    let (run, session, request) = (&stage.run, "ada-chat", &stage.chat);
    let mut pairs: Vec<(&str, Vec<u8>, Vec<u8>)> = Vec::new();
    let mut by_run = |method, message: &dyn Fn(String) -> Vec<u8>| {
        pairs.push((method, message(run.clone()), message(UNKNOWN_RUN.into())));
    };
    by_run("GetRun", &|run_id| GetRunRequest { run_id, ..Default::default() }.encode_to_vec());
    by_run("WatchRun", &|run_id| WatchRunRequest { run_id, ..Default::default() }.encode_to_vec());
    by_run("CancelRun", &|run_id| {
        CancelRunRequest { run_id, ..Default::default() }.encode_to_vec()
    });
    by_run("ForkRun", &|run_id| ForkRunRequest { run_id, ..Default::default() }.encode_to_vec());
    by_run("ListCheckpoints", &|run_id| ListCheckpointsRequest { run_id }.encode_to_vec());
    by_run("SignalRun", &|run_id| {
        SignalRunRequest { run_id, name: "go".into(), ..Default::default() }.encode_to_vec()
    });
    for (method, message) in [
        (
            "SendResponses",
            (|id: &str| answer_to(id, "x", "").encode_to_vec()) as fn(&str) -> Vec<u8>,
        ),
        ("CancelRequest", |id| {
            CancelRequestRequest { request_id: id.into(), ..Default::default() }.encode_to_vec()
        }),
    ] {
        pairs.push((method, message(request), message(UNKNOWN_REQUEST)));
    }
    let get =
        |session_id: &str| GetSessionRequest { session_id: session_id.into() }.encode_to_vec();
    pairs.push(("GetSession", get(session), get("ses_nobody")));
    let before = stage.footprint().await;
    for (method, foreign, absent) in pairs {
        let mut told = Vec::new();
        for message in [foreign, absent] {
            let key = stage.key(Who::Bob);
            let status = raw::call(stage.server.address(), key, method, message).await.unwrap_err();
            assert_eq!(status.code(), Code::NotFound, "{method}: {status:?}");
            let details = status.get_error_details();
            let mut shown = format!("{} {details:?}", status.message());
            for id in [request, UNKNOWN_REQUEST, run, UNKNOWN_RUN, session, "ses_nobody"] {
                shown = shown.replace(id, "ID");
            }
            told.push(shown);
        }
        assert_eq!(told[0], told[1], "{method}");
    }
    let listed = |events: Vec<Vec<u8>>| events.concat();
    let runs = raw::call(stage.server.address(), stage.key(Who::Bob), "ListRuns", Vec::new()).await;
    let runs = ListRunsResponse::decode(&listed(runs.unwrap())[..]).unwrap().runs;
    assert_eq!(runs.iter().map(|run| run.owner.as_str()).collect::<Vec<_>>(), ["bob"]);
    assert_eq!(stage.footprint().await, before);
}

#[test]
fn the_page_of_errors_is_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/errors.md");
    if std::env::var_os("HOLDPOINT_BLESS").is_some() {
        fs::write(path, page()).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(written == page(), "docs/errors.md is out of date: run again with HOLDPOINT_BLESS=1");
}

#[test]
fn every_code_in_the_source_is_in_the_table() {
    let mut found = BTreeSet::new();
    let files = ["kernel/refusal.rs", "api/status.rs", "api/envelope.rs", "api/host.rs"];
    for file in files.map(|file| format!("src/{file}")) {
        let source = fs::read_to_string(file).unwrap();
        let source = source.split("#[cfg(test)]").next().unwrap();
        for literal in source.split('"').skip(1).step_by(2) {
            let is_word = |word: &str| {
                !word.is_empty()
                    && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
            };
            if literal.split_once('.').is_some_and(|(left, right)| is_word(left) && is_word(right))
            {
                found.insert(literal.to_owned());
            }
        }
    }
    // The engine keeps this one to itself.
    found.remove("work.stale");
    // A start's gates are refused with the words that a file's are, and this one is a word alone.
    found.extend(["gate.invalid", "gate.contradiction", "halted"].map(str::to_owned));
    let table: BTreeSet<_> = CODES.iter().map(|row| row.code.to_owned()).collect();
    assert_eq!(found, table);
}

/// The page, as it is in `docs/errors.md`.
fn page() -> String {
    let mut page = String::from(
        "# Errors\n\n\
         Every refusal carries `google.rpc.ErrorInfo` with domain `holdpoint` and one of these codes as its `reason`; \
         where a field is to blame, `google.rpc.BadRequest` names it. A refused call changes nothing. Codes are stable; \
         messages are for people and may change.\n\n\
         What is not yours looks exactly like what is not there. A few codes are of HTTP alone, and stand in \
         [http.md](http.md#openai-responses); two are of A2A alone, `call.invalid` (no call could be read) and \
         `version.unsupported` ([a2a.md](a2a.md)); why a run failed stands in \
         [workflows.md](workflows.md#why-a-run-failed); the problems that `holdpoint check` finds in files have codes of their own. What \
         a command refuses by itself, such as a setting, has none: its exit code says of what kind it is.\n\n\
         <!-- Made from tests/it/house/errors.rs: HOLDPOINT_BLESS=1 cargo test the_page_of_errors -->\n\n\
         | code | gRPC status | meaning | remedy |\n|---|---|---|---|\n",
    );
    for Row { code, status, meaning, remedy, .. } in CODES {
        writeln!(page, "| `{code}` | `{}` | {meaning} | {remedy} |", screaming(*status)).unwrap();
    }
    page
}

/// `InvalidArgument` → `INVALID_ARGUMENT`, as the protocol writes it.
fn screaming(status: Code) -> String {
    let mut name = String::new();
    for letter in format!("{status:?}").chars() {
        if letter.is_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}
