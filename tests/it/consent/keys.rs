//! Who speaks (K8): a person is one person with all their keys, a service decides nothing by itself, and
//! a key is good for its roles, its workflows and its time. Each through the doors of a real server.

use std::collections::BTreeSet;
use std::time::Duration;

use holdpoint::app::keys::{Keys, NewKey};
use holdpoint::kernel::Role;
use holdpoint::wire::v1::{
    CancelRequestRequest, CancelRunRequest, ForkRunRequest, GetRunRequest, ListSessionsRequest,
    ListWorkflowsRequest, Request, RevokeGrantRequest, SendResponsesRequest, SignalRunRequest,
    WatchRequestsRequest,
};
use serde_json::{Value, json};
use tokio::time::timeout;
use tonic::Code;

use crate::a2a::calls::text;
use crate::bridge::calls::{Caller, Reply, output};
use crate::consent::stage::{Stage, TOOL, form_of, question, refusal};
use crate::support::server::{drained, start_of};

/// How soon the end of a key is noticed, and what a loaded machine may add to it.
const SOON: Duration = Duration::from_secs(15);

/// A workflow whose steps are these, and then a payment.
fn flow(name: &str, steps: &str) -> String {
    format!(
        "
name: {name}
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{steps}, {{id: act, tool: pay}}, {{id: end, agent: idle}}]
"
    )
}

fn asks(terms: &str) -> String {
    flow("bills", &format!("{{id: ask, human: {{kind: approval, prompt: Pay it?, {terms}}}}}"))
}

fn denied(reason: &str) -> (Code, String) {
    (Code::PermissionDenied, reason.into())
}

fn unknown(reason: &str) -> (Code, String) {
    (Code::NotFound, reason.into())
}

fn fine() -> (Code, String) {
    (Code::Ok, String::new())
}

/// A call that says for whom it is made.
fn for_whom<T>(message: T, person: &str) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("x-holdpoint-on-behalf-of", person.parse().unwrap());
    request
}

fn yes(request: &Request) -> SendResponsesRequest {
    SendResponsesRequest {
        responses: [(request.request_id.clone(), "approve".into())].into(),
        ..Default::default()
    }
}

/// A yes of somebody's, for whom a service speaks.
async fn vouched(stage: &Stage, request: &Request, person: &str) -> (Code, String) {
    let sent = stage.client("desk").await.send_responses(for_whom(yes(request), person)).await;
    match sent {
        Ok(stream) => refusal(drained(stream.into_inner()).await),
        Err(status) => refusal::<()>(Err(status)),
    }
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_two_keys_of_one_person_are_one_owner_and_one_vote() {
    let people = [
        ("clerk", "user"),
        ("ada", "user"),
        ("phone", "--person ada --role approver"),
        ("bob", "user"),
    ];
    let flow = asks("approvers: {to: [ada, bob, clerk, phone], need: 2, not: [requester]}");
    let stage = Stage::with_people(&flow, &people).await;
    stage.start("clerk", "", "Bill 7.").await;
    let request = stage.inbox("phone").await.remove(0);
    stage.answer("ada", &request, json!("approve")).await.unwrap();
    let again = refusal(stage.answer("phone", &request, json!("approve")).await);
    assert_eq!(again.1, "answer.counted", "K8: the same person with another key is one vote");
    assert_eq!(stage.paid(), 0);
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
    let told = stage.audit("clerk", &request.run_id).await;
    let known: Vec<_> = told
        .iter()
        .filter(|entry| matches!(entry.action.as_str(), "voted" | "answered"))
        .map(|it| (it.principal.as_str(), it.assurance.as_str(), it.known_by.as_str()))
        .collect();
    assert_eq!(known, [("ada", "proven", "key ada"), ("bob", "proven", "key bob")]);

    // What she began with one of them is hers with the other; what she asked for she does not decide.
    let own = question(&stage.start("ada", "", "Bill 8.").await);
    assert!(stage.runs("phone").await.iter().any(|run| run.run_id == own.run_id));
    let refused = refusal(stage.answer("phone", &own, json!("approve")).await);
    assert_eq!(refused, denied("answer.not_admitted"), "K8: four eyes are two people's");
}

const DESK: [(&str, &str); 4] =
    [("clerk", "user"), ("ada", "user"), ("bob", "user"), ("desk", "--kind service")];

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_service_decides_nothing_by_itself_at_any_door() {
    let stage = Stage::with_people(&asks("to: [desk, ada], assurance: vouched"), &DESK).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let refused = refusal(stage.answer("desk", &request, json!("approve")).await);
    assert_eq!(refused, denied("answer.assurance"));
    let id = request.request_id.as_str();
    let body = json!({"model": "bills", "input": [output(id, "approve")]});
    let refused = stage.http("desk").post("/v1/responses", &body).refusal();
    assert_eq!((refused.0, refused.1.as_str()), (403, "answer.assurance"));
    // Nor what it has begun itself, over A2A.
    let sent = stage.agent("desk").rpc("SendMessage", &json!({"message": text("m1", "Bill 8.")}));
    let task = &sent["result"]["task"];
    let mut message = text("m2", "");
    message["taskId"] = task["id"].clone();
    let run = task["id"].as_str().unwrap_or_else(|| panic!("{sent}"));
    let inbox = stage.inbox("desk").await;
    let own = inbox.iter().find(|one| one.run_id == run).unwrap();
    message["parts"] = json!([{"data": {"responses": {&own.request_id: "approve"}}}]);
    let told = stage.agent("desk").rpc("SendMessage", &json!({"message": message}));
    assert!(told.to_string().contains("answer.assurance"), "{told}");
    // Nor at the console, where nobody but a person sits.
    let form = "Content-Type: application/x-www-form-urlencoded";
    let sign_in = |who: &str| {
        let key = form_of(&[("key", stage.key(who))]);
        let caller = Caller::new(stage.server.address()).with(form);
        caller.raw("POST", "/console/sign-in", &key).status
    };
    assert_eq!((sign_in("desk"), sign_in("ada")), (401, 303));
    assert_eq!(stage.paid(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_services_word_for_a_person_counts_where_the_file_says_so() {
    let proven = Stage::with_people(&asks("to: [ada]"), &DESK).await;
    let request = question(&proven.start("clerk", "", "Bill 7.").await);
    assert_eq!(vouched(&proven, &request, "ada").await, denied("answer.assurance"));
    assert_eq!(proven.paid(), 0, "K8: she has shown nothing of her own");

    let stage = Stage::with_people(&asks("to: [ada], assurance: vouched"), &DESK).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    assert_eq!(vouched(&stage, &request, "bob").await, unknown("request.unknown"));
    assert_eq!(vouched(&stage, &request, "ada").await, fine());
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
    let told = stage.audit("clerk", &request.run_id).await;
    let answered = told.iter().find(|entry| entry.action == "answered").unwrap();
    let known = (&*answered.principal, &*answered.assurance, &*answered.known_by);
    assert_eq!(known, ("ada", "vouched", "service desk"));
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_services_word_counts_where_the_operator_says_so_and_the_file_does_not_say_otherwise()
{
    let settings = "assurance = \"vouched\"\n[people.eve]\ngroups = [\"finance\"]\n";
    let stage = Stage::settled(&asks("to: [group:finance]"), &DESK, &[], settings).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    // She has no key, and is known to the operator.
    assert_eq!(vouched(&stage, &request, "eve").await, fine());
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);

    let strict = asks("to: [group:finance], assurance: proven");
    let stage = Stage::settled(&strict, &DESK, &[], settings).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    assert_eq!(vouched(&stage, &request, "eve").await, denied("answer.assurance"));
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_vouched_yes_does_not_pass_the_stage_that_wants_a_proven_one() {
    let approvers = "approvers: [{to: [ada], assurance: vouched}, {to: [ada, bob]}]";
    let stage = Stage::with_people(&asks(approvers), &DESK).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    assert_eq!(vouched(&stage, &request, "ada").await, fine());
    assert_eq!(stage.paid(), 0, "K8: the second stage takes nobody's word for her");
    assert_eq!(vouched(&stage, &request, "ada").await, denied("answer.assurance"));
    stage.answer("ada", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_only_a_service_speaks_for_others_and_only_for_people_who_are_known() {
    let stage = Stage::with_people(&asks("to: [bob]"), &DESK).await;
    let mut seen = Vec::new();
    for (who, person) in [("ada", "bob"), ("desk", "mallory"), ("desk", "desk"), ("desk", "local")]
    {
        let list = for_whom(ListSessionsRequest::default(), person);
        let grpc = refusal(stage.client(who).await.list_sessions(list).await).1;
        let header = format!("X-Holdpoint-On-Behalf-Of: {person}");
        let http = stage.http(who).with(&header).get("/v1/conversations").refusal().1;
        let sent = json!({"message": text("m1", "Bill 7.")});
        let a2a = stage.agent(who).with(&header).rpc("SendMessage", &sent).to_string();
        assert!(a2a.contains(&grpc), "{who} for {person}: {a2a}");
        seen.push((grpc, http));
    }
    let both = |code: &str| (code.to_owned(), code.to_owned());
    let unknown = both("auth.person_unknown");
    assert_eq!(seen, [both("auth.forbidden"), unknown.clone(), unknown.clone(), unknown]);
    // What it begins for her is hers.
    let start = for_whom(start_of("bills", "", "Bill 7.", ""), "ada");
    let begun = stage.client("desk").await.run_workflow(start).await.unwrap().into_inner();
    let run = drained(begun).await.unwrap()[0].run_id.clone();
    assert!(stage.runs("ada").await.iter().any(|one| one.run_id == run));
    assert!(stage.runs("desk").await.is_empty(), "it is not the service's");
}

const ROLES: [&str; 7] = ["user", "viewer", "starter", "approver", "operator", "auditor", "admin"];

/// What each role's key comes to, in their order: a call by somebody on a run of the clerk's.
async fn table(stage: &Stage, act: &str) -> Vec<(&'static str, (Code, String))> {
    let mut seen = Vec::new();
    for role in ROLES {
        let request = question(&stage.start("clerk", "", "Bill 7.").await);
        let (run_id, name) = (request.run_id.clone(), role.to_owned() + "-key");
        let mut client = stage.client(&name).await;
        let came = match act {
            "look" => refusal(client.get_run(GetRunRequest { run_id, ..Default::default() }).await),
            "start" => refusal(client.run_workflow(start_of("bills", "", "Mine.", "")).await),
            "decide" => refusal(stage.answer(&name, &request, json!("approve")).await),
            "cancel" => {
                refusal(client.cancel_run(CancelRunRequest { run_id, ..Default::default() }).await)
            }
            "fork" => {
                // A fork is its maker's, and so is the session that it is in.
                let session_id = format!("of-{role}");
                let fork = ForkRunRequest { run_id, session_id, ..Default::default() };
                refusal(client.fork_run(fork).await)
            }
            "withdraw" => {
                let request_id = request.request_id.clone();
                let withdraw = CancelRequestRequest { request_id, ..Default::default() };
                refusal(client.cancel_request(withdraw).await)
            }
            "revoke" => {
                let tool = "pay".to_owned();
                let revoke = RevokeGrantRequest { run_id, tool, ..Default::default() };
                refusal(client.revoke_grant(revoke).await)
            }
            _ => {
                let name = "go".to_owned();
                let signal = SignalRunRequest { run_id, name, ..Default::default() };
                refusal(client.signal_run(signal).await)
            }
        };
        seen.push((role, came));
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn each_role_comes_to_exactly_this_over_grpc_and_http() {
    let names: Vec<String> = ROLES.iter().map(|role| format!("{role}-key")).collect();
    let terms: Vec<String> = ROLES.iter().map(|role| format!("--role {role}")).collect();
    let mut people: Vec<_> = names.iter().zip(&terms).map(|(a, b)| (&**a, &**b)).collect();
    people.push(("clerk", "user"));
    let stage = Stage::with_people(&asks(&format!("to: [{}]", names.join(", "))), &people).await;
    let role = || denied("auth.role");
    let strangers = |no: fn() -> (Code, String), operator: (Code, String)| {
        vec![no(), no(), no(), no(), operator, denied("auth.role"), denied("auth.role")]
    };
    let no_run: fn() -> (Code, String) = || unknown("run.unknown");
    let no_request: fn() -> (Code, String) = || unknown("request.unknown");
    let wanted = [
        ("look", vec![no_run(), no_run(), no_run(), no_run(), fine(), fine(), fine()]),
        ("start", vec![fine(), role(), fine(), role(), role(), role(), role()]),
        ("decide", vec![fine(), role(), role(), fine(), role(), role(), role()]),
        ("cancel", strangers(no_run, fine())),
        ("fork", strangers(no_run, fine())),
        ("withdraw", strangers(no_request, fine())),
        ("revoke", strangers(no_run, unknown("grant.unknown"))),
        ("signal", strangers(no_run, (Code::FailedPrecondition, "run.not_listening".into()))),
    ];
    for (act, wanted) in wanted {
        let wanted: Vec<_> = ROLES.into_iter().zip(wanted).collect();
        assert_eq!(table(&stage, act).await, wanted, "{act}");
    }
    // The same over HTTP, where a start and an answer are one call.
    let mut seen = Vec::new();
    for role in ROLES {
        let request = question(&stage.start("clerk", "", "Bill 9.").await);
        let caller = stage.http(&format!("{role}-key"));
        let start = caller.post("/v1/responses", &json!({"model": "bills", "input": "Mine."}));
        let answer = json!({"model": "bills", "input": [output(&request.request_id, "approve")]});
        let answer = caller.post("/v1/responses", &answer);
        let told =
            |reply: &Reply| (reply.status, reply.status == 403 && reply.body.contains("auth.role"));
        seen.push((role, told(&start), told(&answer)));
    }
    let (yes, no) = ((200, false), (403, true));
    let wanted = [
        ("user", yes, yes),
        ("viewer", no, no),
        ("starter", yes, no),
        ("approver", no, yes),
        ("operator", no, no),
        ("auditor", no, no),
        ("admin", no, no),
    ];
    assert_eq!(seen, wanted, "what a start came to, and an answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_knows_no_workflow_but_those_it_is_confined_to() {
    let other = asks("to: [cfo]").replace("name: bills", "name: wires");
    let flow = format!("{}\n=== wires\n{other}", asks("to: [cfo]"));
    let people = [
        ("ada", "user"),
        ("phone", "--person ada --workflow wires"),
        ("cfo", "user"),
        ("cfo-wires", "--person cfo --workflow wires"),
        ("ops", "--role operator --workflow wires"),
    ];
    let stage = Stage::with_people(&flow, &people).await;
    let bill = question(&stage.start("ada", "", "Bill 7.").await);
    let mut phone = stage.client("phone").await;
    let known = phone.list_workflows(ListWorkflowsRequest {}).await.unwrap().into_inner();
    let known: Vec<_> = known.workflows.iter().map(|one| one.workflow_id.as_str()).collect();
    assert_eq!(known, ["wires"]);
    let start = refusal(phone.run_workflow(start_of("bills", "", "Bill 8.", "")).await);
    assert_eq!(start, unknown("workflow.unknown"));
    let reply = stage.http("phone").post("/v1/responses", &json!({"model": "bills", "input": "x"}));
    assert_eq!(reply.refusal().1, "workflow.unknown");
    for who in ["phone", "ops", "cfo-wires"] {
        let get = GetRunRequest { run_id: bill.run_id.clone(), ..Default::default() };
        let seen = refusal(stage.client(who).await.get_run(get).await);
        assert_eq!(seen, unknown("run.unknown"), "{who}");
        assert!(stage.runs(who).await.is_empty() && stage.inbox(who).await.is_empty(), "{who}");
        let listed = stage.client(who).await.list_sessions(ListSessionsRequest::default()).await;
        assert!(listed.unwrap().into_inner().sessions.is_empty(), "{who}");
        let into = start_of("wires", &bill.session_id, "Go on.", "");
        let into = refusal(stage.client(who).await.run_workflow(into).await);
        assert_ne!(into.0, Code::Ok, "{who}: what was said there is not told in another");
    }
    let refused = refusal(stage.answer("cfo-wires", &bill, json!("approve")).await);
    assert_eq!(refused, unknown("request.unknown"), "the right person, with the wrong key");
    let wire = phone.run_workflow(start_of("wires", "", "Wire 1.", "")).await.unwrap();
    let wire = question(&drained(wire.into_inner()).await.unwrap());
    assert_eq!(stage.inbox("cfo-wires").await.len(), 1);
    stage.answer("cfo-wires", &wire, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("phone", &wire.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn a_key_is_refused_when_its_time_has_come_on_open_streams_too() {
    let stage = Stage::with_people(&asks("to: [ada]"), &[("clerk", "user")]).await;
    let path = stage.root.path().join("keys.toml");
    let ends = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(4);
    let ada = NewKey { expires: Some(ends.to_string()), ..NewKey::of("ada", Role::User) };
    let secret = Keys::make(&path, &ada, &BTreeSet::new(), "").unwrap();
    let mut client = stage.server.client_with(&secret).await;
    let opened = async {
        loop {
            match client.watch_requests(WatchRequestsRequest::default()).await {
                Ok(stream) => return stream.into_inner(),
                Err(status) if status.code() == Code::Unauthenticated => {
                    tokio::task::yield_now().await;
                }
                Err(status) => panic!("{status}"),
            }
        }
    };
    let mut stream = timeout(SOON, opened).await.expect("the key is never taken up");
    let ended = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(status) => return Err(status),
            }
        }
    };
    let ended = timeout(SOON, ended).await.expect("the stream stays open");
    assert!(jiff::Timestamp::now() >= ends, "not before its time");
    let over = (Code::Unauthenticated, "auth.expired".to_owned());
    assert_eq!(refusal(ended), over, "as a fresh call is told");
    let refused = refusal(client.list_sessions(ListSessionsRequest::default()).await);
    assert_eq!(refused, over);
}

async fn signals(stage: &Stage, who: &str, run_id: &str, name: &str) -> (Code, String) {
    let (run_id, name) = (run_id.to_owned(), name.to_owned());
    let signal = SignalRunRequest { run_id, name, ..Default::default() };
    refusal(stage.client(who).await.signal_run(signal).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn k9_a_signal_comes_from_whom_the_file_names_or_from_an_operator() {
    let people = [
        ("clerk", "user"),
        ("bank", "--kind service"),
        ("ada", "user"),
        ("eve", "user"),
        ("watcher", "--role viewer"),
        ("checker", "--role auditor"),
        ("ops", "--role operator"),
    ];
    let settings = "[people.ada]\ngroups = [\"treasury\"]\n";
    let steps = "{id: w, wait: {signal: paid, from: [bank, watcher, 'group:treasury']}}, \
                 {id: v, wait: {signal: free}}";
    let stage = Stage::settled(&flow("bills", steps), &people, &[], settings).await;
    let mut runs = Vec::new();
    for _ in 0..4 {
        runs.push(stage.start("clerk", "", "Bill 7.").await[0].run_id.clone());
    }
    let run = runs[0].as_str();
    let waits = |name: &str| format!("it waits for the signal `{name}`");
    assert!(stage.command("clerk", &["runs", run]).out.contains(&waits("paid")));
    let slip = stage.command("ops", &["signal", run, "paid", "{bad"]);
    assert!(slip.code == 2 && slip.err.contains("PAYLOAD is no JSON"), "{slip:?}");
    assert_eq!(signals(&stage, "clerk", run, "paid").await, denied("signal.not_admitted"));
    assert_eq!(signals(&stage, "checker", run, "paid").await, denied("signal.not_admitted"));
    assert_eq!(signals(&stage, "eve", run, "paid").await, unknown("run.unknown"));
    assert_eq!(signals(&stage, "bank", run, "free").await, unknown("run.unknown"));
    assert_eq!(signals(&stage, "watcher", run, "paid").await, denied("auth.role"));
    for (who, run) in ["bank", "ada", "ops"].into_iter().zip(&runs) {
        assert_eq!(signals(&stage, who, run, "paid").await, fine(), "{who}");
    }
    // What the file gives to nobody is the owner's.
    assert!(stage.command("clerk", &["runs", run]).out.contains(&waits("free")));
    assert_eq!(signals(&stage, "eve", run, "free").await, unknown("run.unknown"));
    assert_eq!(signals(&stage, "checker", run, "free").await, denied("auth.role"));
    assert_eq!(signals(&stage, "clerk", run, "free").await, fine());
    assert_eq!(stage.deeds("clerk", run).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_stranger_learns_nothing_of_a_request_that_is_over() {
    let people =
        [("clerk", "user"), ("ada", "user"), ("bob", "user"), ("eve", "user"), ("ops", "admin")];
    let stage = Stage::with_people(&asks("to: [ada, bob]"), &people).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    stage.answer("ada", &request, json!("approve")).await.unwrap();
    let tries = async |who: &str, id: &str| {
        let responses = [(id.to_owned(), "approve".into())].into();
        let message = SendResponsesRequest { responses, ..Default::default() };
        stage.client(who).await.send_responses(message).await.unwrap_err()
    };
    let id = request.request_id.as_str();
    let never = id.replace("-0001-", "-0009-");
    let (over, none) = (tries("eve", id).await, tries("eve", &never).await);
    assert_eq!(refusal::<()>(Err(over.clone())), unknown("request.unknown"));
    assert_eq!(over.message().replace(id, "X"), none.message().replace(&never, "X"));
    let ended = (Code::AlreadyExists, "request.already_answered".to_owned());
    for who in ["clerk", "bob", "ada", "ops"] {
        assert_eq!(refusal::<()>(Err(tries(who, id).await)), ended, "{who}");
    }
    let body = json!({"model": "bills", "input": [output(id, "approve")]});
    let reply = stage.http("eve").post("/v1/responses", &body);
    assert_eq!(reply.refusal().1, "request.unknown", "{reply:?}");
    assert_eq!(
        stage.deeds("clerk", &request.run_id).await,
        [Value::Object(serde_json::Map::new())]
    );
}
