//! What was said with a key that is gone (K8): a vote, an edit, a hand-over, a grant, a service's word for somebody. Each is
//! as old as its key, whichever its person has now, and another's key does not stand for it.

use holdpoint::wire::v1::{DelegateRequestRequest, Request, SendResponsesRequest};
use serde_json::{Value, json};
use tonic::Code;

use crate::consent::stage::{Calls, Stage, bills, question, refusal, terms_of};
use crate::support::server::drained;
use crate::terminal::cli::holdpoint;

const PEOPLE: [(&str, &str); 7] = [
    ("clerk", "user"),
    ("bob", "user"),
    ("cfo", "user"),
    ("dan", "user"),
    ("eve", "user"),
    ("desk", "--kind service"),
    ("other", "--kind service"),
];

const PAY: &str = "{id: act, tool: pay}";

fn asks(terms: &str) -> String {
    bills(&format!("{{id: ask, human: {{kind: approval, prompt: Pay it?, {terms}}}}}, {PAY}"))
}

/// Two calls behind one gate, and a question between them.
fn paid_twice(to: &str) -> String {
    let steps = "{id: act, tool: pay, arguments: {amount: 10}}, \
                 {id: ask, human: {kind: approval, prompt: Once more?, to: [clerk]}}, \
                 {id: again, tool: pay, arguments: {amount: 8}}";
    let when = "[{argument: {pointer: /amount, over: 5}}]";
    let gate = format!("gates: [{{name: money, tools: [pay], to: [{to}], when: {when}}}]\nagents:");
    bills(steps).replace("agents:", &gate)
}

/// Somebody's key is taken away, and where that is said they are given another; its secret.
fn renews(stage: &mut Stage, who: &str, anew: Option<&str>) -> String {
    let keys = |words: &[&str]| {
        let words = [&["keys"], words, &["--json", "--keys", "keys.toml"]].concat();
        holdpoint(stage.root.path(), &words, "").json()
    };
    keys(&["remove", who]);
    let secret = anew.map(|terms| {
        let told = keys(&[&["add", who, "--again"], &terms_of(terms)[..]].concat());
        told["secret"].as_str().unwrap().to_owned()
    });
    // It knows of that from its first moment.
    stage.server.restart();
    secret.unwrap_or_default()
}

fn said(request: &Request, value: &Value) -> SendResponsesRequest {
    SendResponsesRequest {
        responses: [(request.request_id.clone(), value.clone().into())].into(),
        digests: [(request.request_id.clone(), request.digest.clone())].into(),
        ..Default::default()
    }
}

/// A service says something for somebody.
async fn vouches<T>(
    stage: &Stage,
    service: &str,
    person: &str,
    message: T,
) -> (Calls, tonic::Request<T>) {
    let mut request = tonic::Request::new(message);
    request.metadata_mut().insert("x-holdpoint-on-behalf-of", person.parse().unwrap());
    (stage.client(service).await, request)
}

fn hand_over(request: &Request, to: &str) -> DelegateRequestRequest {
    let (request_id, to) = (request.request_id.clone(), to.into());
    DelegateRequestRequest { request_id, to, for_ms: 3_600_000, ..Default::default() }
}

/// Two must agree to a version; one of them made it, with a key that is gone.
async fn assert_asked_again(stage: &Stage, request: &Request) {
    let anew = stage.inbox("eve").await.remove(0);
    assert_ne!(anew.request_id, request.request_id, "the version is asked about");
    stage.answer("eve", &anew, json!("approve")).await.unwrap();
    assert_eq!(stage.paid(), 0, "one of two has said so");
    stage.answer("cfo", &anew, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_edit_is_as_old_as_the_key_that_it_was_made_with() {
    let flow =
        asks("show: '${input}', editable: true, approvers: [{to: [bob, cfo, eve], need: 2}]");
    let mut stage = Stage::with_people(&flow, &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let edit = json!({"decision": "edit", "subject": "Bill 666."});
    stage.answer("bob", &request, edit).await.unwrap();
    renews(&mut stage, "bob", Some("user"));
    assert_asked_again(&stage, &request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_edit_that_a_service_made_for_somebody_goes_with_that_services_key() {
    let terms = "show: '${input}', editable: true, assurance: vouched, approvers: [{to: [bob, cfo, eve], need: 2}]";
    let mut stage = Stage::with_people(&asks(terms), &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let edit = said(&request, &json!({"decision": "edit", "subject": "Bill 666."}));
    let (mut client, edit) = vouches(&stage, "desk", "bob", edit).await;
    drained(client.send_responses(edit).await.unwrap().into_inner()).await.unwrap();
    renews(&mut stage, "desk", Some("--kind service"));
    assert_asked_again(&stage, &request).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_arguments_that_were_changed_with_a_key_that_is_gone_pass_no_gate() {
    let flow = bills("{id: act, tool: pay, arguments: {amount: 10}}").replace(
        "agents:",
        "gates: [{name: big, tools: [pay], to: [bob, eve], when: [{argument: {pointer: /amount, over: 5}}]}, {name: two, tools: [pay], to: [cfo], when: [{argument: {pointer: /amount, over: 5}}]}]\nagents:",
    );
    let mut stage = Stage::with_people(&flow, &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let edit = json!({"decision": "edit", "arguments": {"amount": 666}});
    stage.answer("bob", &request, edit).await.unwrap();
    renews(&mut stage, "bob", Some("user"));
    let anew = stage.inbox("cfo").await.remove(0);
    stage.answer("cfo", &anew, json!("allow_once")).await.unwrap();
    let open = stage.inbox("eve").await.remove(0);
    assert_eq!(stage.paid(), 0, "nobody has said yes at the first gate");
    stage.answer("eve", &open, json!("allow_once")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await, [json!({"amount": 666})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_hand_over_is_as_old_as_the_key_that_it_was_made_with() {
    let mut stage = Stage::with_people(&asks("to: [bob]"), &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    stage.client("bob").await.delegate_request(hand_over(&request, "dan")).await.unwrap();
    assert_eq!(stage.inbox("dan").await.len(), 1);
    let bob = renews(&mut stage, "bob", Some("user"));
    assert_eq!(stage.inbox("dan").await, []);
    let refused = refusal(stage.answer("dan", &request, json!("approve")).await);
    assert_ne!(refused.0, Code::Ok);
    assert_eq!(stage.paid(), 0);
    // The place is his own again.
    let yes = said(&request, &json!("approve"));
    let sent = stage.server.client_with(&bob).await.send_responses(yes).await.unwrap();
    drained(sent.into_inner()).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_what_a_service_said_for_somebody_goes_with_its_key_and_no_other_stands_for_it() {
    let terms = "assurance: vouched, approvers: [{to: [bob, cfo, eve], need: 2}]";
    for anew in [None, Some("--kind service"), Some("--kind service --role viewer"), Some("user")] {
        let mut stage = Stage::with_people(&asks(terms), &PEOPLE).await;
        let request = question(&stage.start("clerk", "", "Bill 7.").await);
        let yes = said(&request, &json!("approve"));
        let (mut client, yes) = vouches(&stage, "desk", "bob", yes).await;
        drained(client.send_responses(yes).await.unwrap().into_inner()).await.unwrap();
        renews(&mut stage, "desk", anew);
        stage.answer("eve", &request, json!("approve")).await.unwrap();
        assert_eq!(stage.paid(), 0, "one of two has said so: {anew:?}");
        // What the other says for him counts, and what the first says once more would, too.
        let yes = said(&request, &json!("approve"));
        let (mut client, yes) = vouches(&stage, "other", "bob", yes).await;
        drained(client.send_responses(yes).await.unwrap().into_inner()).await.unwrap();
        assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1, "{anew:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_a_place_that_a_service_handed_over_goes_with_its_key() {
    let mut stage = Stage::with_people(&asks("assurance: vouched, to: [bob]"), &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let (mut client, handed) = vouches(&stage, "desk", "bob", hand_over(&request, "dan")).await;
    client.delegate_request(handed).await.unwrap();
    assert_eq!(stage.inbox("dan").await.len(), 1);
    renews(&mut stage, "desk", None);
    assert_ne!(refusal(stage.answer("dan", &request, json!("approve")).await).0, Code::Ok);
    stage.answer("bob", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
pub(crate) async fn k8_what_was_allowed_for_the_run_is_allowed_no_more_without_the_key_that_allowed_it()
 {
    let flow = paid_twice("bob, cfo");
    for renewed in [false, true] {
        let mut stage = Stage::with_people(&flow, &PEOPLE).await;
        let request = question(&stage.start("clerk", "", "Bill 7.").await);
        stage.answer("bob", &request, json!("allow_for_run")).await.unwrap();
        let more = stage.until("clerk", &request.run_id, |one| one.prompt == "Once more?").await;
        assert_eq!(stage.paid(), 1);
        if renewed {
            renews(&mut stage, "bob", Some("user"));
        }
        stage.answer("clerk", &more, json!("approve")).await.unwrap();
        let deeds = stage.deeds("clerk", &request.run_id).await.len();
        assert_eq!(deeds, if renewed { 1 } else { 2 });
        assert_eq!(stage.inbox("cfo").await.len(), usize::from(renewed), "it is asked");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_what_was_allowed_for_the_run_in_a_place_goes_with_the_key_that_handed_it_over() {
    let flow = paid_twice("bob");
    for renewed in [false, true] {
        let mut stage = Stage::with_people(&flow, &PEOPLE).await;
        let request = question(&stage.start("clerk", "", "Bill 7.").await);
        stage.client("bob").await.delegate_request(hand_over(&request, "dan")).await.unwrap();
        stage.answer("dan", &request, json!("allow_for_run")).await.unwrap();
        let more = stage.until("clerk", &request.run_id, |one| one.prompt == "Once more?").await;
        if renewed {
            renews(&mut stage, "bob", Some("user"));
        }
        stage.answer("clerk", &more, json!("approve")).await.unwrap();
        let deeds = stage.deeds("clerk", &request.run_id).await.len();
        assert_eq!(deeds, if renewed { 1 } else { 2 });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_what_was_said_in_a_place_that_was_taken_back_is_not_said_in_the_next() {
    let flow = asks("approvers: [{to: [bob, cfo, eve], need: 2}]");
    for renewed in [false, true] {
        let mut stage = Stage::with_people(&flow, &PEOPLE).await;
        let request = question(&stage.start("clerk", "", "Bill 7.").await);
        let mut bob = stage.client("bob").await;
        bob.delegate_request(hand_over(&request, "dan")).await.unwrap();
        stage.answer("dan", &request, json!("approve")).await.unwrap();
        if renewed {
            let secret = renews(&mut stage, "bob", Some("user"));
            bob = stage.server.client_with(&secret).await;
        } else {
            let back = DelegateRequestRequest {
                request_id: request.request_id.clone(),
                take_back: true,
                ..Default::default()
            };
            bob.delegate_request(back).await.unwrap();
        }
        bob.delegate_request(hand_over(&request, "dan")).await.unwrap();
        stage.answer("eve", &request, json!("approve")).await.unwrap();
        assert_eq!(stage.paid(), 0, "dan has said nothing in this one: {renewed}");
        stage.answer("dan", &request, json!("approve")).await.unwrap();
        assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_place_is_handed_over_again_by_the_same_call_where_the_first_counts_no_more() {
    let mut stage = Stage::with_people(&asks("to: [bob]"), &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let handed =
        DelegateRequestRequest { idempotency_key: "once".into(), ..hand_over(&request, "dan") };
    stage.client("bob").await.delegate_request(handed.clone()).await.unwrap();
    let bob = renews(&mut stage, "bob", Some("user"));
    assert_eq!(stage.inbox("dan").await, []);
    for _ in 0..2 {
        stage.server.client_with(&bob).await.delegate_request(handed.clone()).await.unwrap();
        assert_eq!(stage.inbox("dan").await.len(), 1);
    }
    stage.answer("dan", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_a_vote_that_counts_no_more_is_given_again_by_the_same_call() {
    let flow = asks("approvers: [{to: [bob, cfo, eve], need: 2}]");
    let mut stage = Stage::with_people(&flow, &PEOPLE).await;
    let request = question(&stage.start("clerk", "", "Bill 7.").await);
    let yes = SendResponsesRequest {
        idempotency_key: "once".into(),
        ..said(&request, &json!("approve"))
    };
    let sent = stage.client("bob").await.send_responses(yes.clone()).await.unwrap();
    drained(sent.into_inner()).await.unwrap();
    let bob = renews(&mut stage, "bob", Some("user"));
    for _ in 0..2 {
        let sent = stage.server.client_with(&bob).await.send_responses(yes.clone()).await.unwrap();
        drained(sent.into_inner()).await.unwrap();
        assert_eq!(stage.paid(), 0);
    }
    stage.answer("eve", &request, json!("approve")).await.unwrap();
    assert_eq!(stage.deeds("clerk", &request.run_id).await.len(), 1);
}
