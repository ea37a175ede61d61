//! Wishes to halt, as people and programs say them: what is wrong with one, one that comes again, and what whoever waits is
//! told of it.

use holdpoint::wire::v1::HaltRequest;
use holdpoint::wire::v1::halt_request::Scope;
use serde_json::json;
use tonic::Code;

use crate::consent::stage::{LOCAL, Stage, question, refusal};
use crate::evidence::halting::{gated, halt, halts, release};

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_wish_to_halt_stops_nothing_and_says_why() {
    let stage = Stage::open(&gated()).await;
    let wish = |scope: Option<Scope>, reason: &str| HaltRequest {
        scope,
        reason: reason.into(),
        ..Default::default()
    };
    let long = "x".repeat(501);
    let wrong = [
        (wish(None, "why"), "scope"),
        (wish(Some(Scope::All(false)), "why"), "scope"),
        (wish(Some(Scope::All(true)), "  "), "reason"),
        (wish(Some(Scope::All(true)), &long), "reason"),
        (wish(Some(Scope::WorkflowId("bill".into())), "why"), "workflow_id"),
        (wish(Some(Scope::Tool("play".into())), "why"), "tool"),
        (wish(Some(Scope::Agent("nobody".into())), "why"), "agent"),
    ];
    for (request, field) in wrong {
        let refused = stage.client(LOCAL).await.halt(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(format!("{refused:?}").contains(field), "{field}: {refused:?}");
    }
    assert_eq!(halts(&stage).await, []);
    // The same wish twice is one halt; the same key for another is none.
    let keyed = |scope| HaltRequest { idempotency_key: "k".into(), ..wish(Some(scope), "why") };
    let mut client = stage.client(LOCAL).await;
    for _ in 0..2 {
        client.halt(keyed(Scope::Tool("pay".into()))).await.unwrap();
    }
    let other = refusal(client.halt(keyed(Scope::All(true))).await);
    assert_eq!(other, (Code::AlreadyExists, "idempotency_key.reused".into()));
    assert_eq!(halts(&stage).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_names_nothing_that_there_is_is_told_which_command_lists_it() {
    let stage = Stage::open(&gated()).await;
    let listed = stage.command(LOCAL, &["workflows", "bills"]);
    assert!(listed.out.lines().any(|line| line == "tools:  pay"), "{listed:?}");
    let listed = stage.command(LOCAL, &["workflows", "bills", "--json"]).json();
    assert_eq!(listed["workflow"]["tools"], json!(["pay"]), "{listed}");
    for (words, part) in [
        (["halt", "--tool", "play", "--reason=odd"], "holdpoint workflows NAME"),
        (["halt", "--agent", "nobody", "--reason=odd"], "holdpoint workflows NAME"),
        (["halt", "--workflow", "bill", "--reason=odd"], "holdpoint workflows"),
        (["halt", "--release", "halt_of_nobody", "--json"], "holdpoint halt"),
    ] {
        let refused = stage.command(LOCAL, &words);
        let said = format!("{}{}", refused.out, refused.err);
        assert!(refused.code != 0 && said.contains(part), "{words:?}: {refused:?}");
        assert!(!said.contains("ListHalts"), "{refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wish_that_comes_again_after_the_release_stops_nothing_and_is_told_so() {
    let mut stage = Stage::open(&gated()).await;
    let wish = HaltRequest {
        scope: Some(Scope::All(true)),
        reason: "odd".into(),
        idempotency_key: "k".into(),
    };
    let told = stage.client(LOCAL).await.halt(wish.clone()).await.unwrap().into_inner();
    release(&stage, LOCAL, &told.halt.unwrap()).await.unwrap();
    for _ in 0..2 {
        let again = stage.client(LOCAL).await.halt(wish.clone()).await.unwrap_err();
        assert_eq!(again.code(), Code::InvalidArgument, "{again:?}");
        assert!(again.message().contains("use another key"), "{again:?}");
        assert_eq!(halts(&stage).await, []);
        stage.server.restart();
    }
    let other = HaltRequest { idempotency_key: "k2".into(), ..wish };
    stage.client(LOCAL).await.halt(other).await.unwrap();
    assert_eq!(halts(&stage).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_says_that_its_question_takes_no_decision() {
    let stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    let shown = |words: &[&str]| stage.command(LOCAL, words);
    assert_eq!(shown(&["runs", &asked.run_id, "--json"]).json()["halts"], json!([]));
    for scope in [Scope::All(true), Scope::WorkflowId("bills".into()), Scope::Tool("pay".into())] {
        let stands = halt(&stage, LOCAL, scope).await.unwrap();
        let told = shown(&["runs", &asked.run_id, "--json"]).json();
        assert_eq!(told["run"]["status"], "WAITING", "{told}");
        assert_eq!(told["halts"][0]["halt_id"], stands.halt_id.as_str(), "{told}");
        let told = shown(&["runs", &asked.run_id]);
        assert!(told.out.contains("a halt stands"), "{told:?}");
        let listed = shown(&["inbox", "--json"]).json();
        assert_eq!(listed["halts"][0]["halt_id"], stands.halt_id.as_str(), "{listed}");
        let one = shown(&["inbox", &asked.request_id, "--json"]).json();
        assert_eq!(one["halts"][0]["halt_id"], stands.halt_id.as_str(), "{one}");
        let page = stage.console(LOCAL).raw("GET", &format!("/console/runs/{}", asked.run_id), "");
        assert!(page.body.contains("It stands: "), "{}", page.body);
        assert!(stage.server.page("/metrics").1.contains("holdpoint_halts 1"));
        release(&stage, LOCAL, &stands).await.unwrap();
    }
    assert_eq!(shown(&["inbox", "--json"]).json()["halts"], json!([]));
    assert!(stage.server.page("/metrics").1.contains("holdpoint_halts 0"));
}
