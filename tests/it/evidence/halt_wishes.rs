//! Wishes to halt, as people and programs say them: what is wrong with one, one that comes again, and what whoever waits is
//! told of it.

use holdpoint::wire::v1::halt_request::Scope;
use holdpoint::wire::v1::{HaltRequest, ListAuditRequest, ReleaseStoreRequest};
use serde_json::json;
use tonic::Code;

use crate::consent::stage::{LOCAL, Stage, bills, question, refusal};
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
        (wish(Some(Scope::All(true)), "\u{1b}[31mred"), "reason"),
        (wish(Some(Scope::All(true)), "one\ntwo"), "reason"),
        (wish(Some(Scope::Tool("play".into())), "why"), "tool"),
        (wish(Some(Scope::Agent("nobody".into())), "why"), "agent"),
    ];
    for (request, field) in wrong {
        let refused = stage.client(LOCAL).await.halt(request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused:?}");
        assert!(format!("{refused:?}").contains(field), "{field}: {refused:?}");
    }
    let unknown = wish(Some(Scope::WorkflowId("bill".into())), "why");
    let refused = refusal(stage.client(LOCAL).await.halt(unknown).await);
    assert_eq!(refused, (Code::NotFound, "workflow.unknown".into()));
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
        // It has no deadline, and is told to stand all the same.
        assert_eq!(listed["requests"][0]["halted"], true, "{listed}");
        let row = shown(&["inbox"]);
        assert!(row.out.lines().nth(1).is_some_and(|row| row.contains("  halted  ")), "{row:?}");
        let whole = shown(&["inbox", &asked.request_id]);
        assert!(whole.out.contains("stands still while halted"), "{whole:?}");
        let one = shown(&["inbox", &asked.request_id, "--json"]).json();
        assert_eq!(one["halts"][0]["halt_id"], stands.halt_id.as_str(), "{one}");
        let page = stage.console(LOCAL).raw("GET", &format!("/console/runs/{}", asked.run_id), "");
        assert!(page.body.contains("It stands: "), "{}", page.body);
        assert!(stage.server.page("/metrics").1.contains("holdpoint_halts 1"));
        release(&stage, LOCAL, &stands).await.unwrap();
    }
    let listed = shown(&["inbox", "--json"]).json();
    assert_eq!(listed["halts"], json!([]));
    assert_eq!(listed["requests"][0]["halted"], false, "{listed}");
    assert!(stage.server.page("/metrics").1.contains("holdpoint_halts 0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nobody_sits_a_run_that_stands_at_a_halt_is_left_with_4() {
    let stage = Stage::open(&bills("{id: act, tool: pay}")).await;
    let stands = halt(&stage, LOCAL, Scope::Tool("pay".into())).await.unwrap();
    let told = stage.command(LOCAL, &["run", "bills", "Bill 7."]);
    assert_eq!(told.code, 4, "{told:?}");
    assert!(told.err.contains(&format!("a halt stands: {}", stands.halt_id)), "{told:?}");
    // A server goes on with it by itself.
    assert!(told.err.contains("it goes on when the halt is taken back"), "{told:?}");
    assert!(!told.err.contains("holdpoint resume "), "{told:?}");
    let (_, named) = told.err.split_once("holdpoint watch ").unwrap();
    let run = named.split_whitespace().next().unwrap();
    for words in [&["resume", run][..], &["watch", run], &["resume", run, "--json"]] {
        let told = stage.command(LOCAL, words);
        assert_eq!(told.code, 4, "{words:?}: {told:?}");
        assert!(told.err.contains("a halt stands: "), "{words:?}: {told:?}");
    }
    release(&stage, LOCAL, &stands).await.unwrap();
    assert_eq!(stage.command(LOCAL, &["watch", run]).code, 0, "it goes on");
    assert_eq!(stage.paid(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_a_halt_is_taken_back_stands_in_the_log_and_all_go_on_by_one_command() {
    let people = [("op", "operator"), ("root", "admin")];
    let stage = Stage::set(&gated(), &people, &["--four-eyes=true"]).await;
    let tool = || Scope::Tool("pay".into());
    let first = halt(&stage, "op", tool()).await.unwrap();
    let back = |reason| stage.command("root", &["halt", "--release", &first.halt_id, reason]);
    assert!(back("--reason=one\ntwo").code != 0, "as where something is stopped");
    assert_eq!(back("--reason=the bank says so").code, 0);
    let log = stage.command("root", &["audit", "--store"]);
    let line = log.out.lines().find(|line| line.contains("halt_released")).unwrap_or_default();
    assert!(line.contains("the tool `pay`: the bank says so"), "{log:?}");
    // One that they may not take back keeps no other.
    let own = halt(&stage, "root", Scope::All(true)).await.unwrap();
    let others = [halt(&stage, "op", tool()).await, halt(&stage, "op", Scope::All(true)).await];
    let told = stage.command("root", &["halt", "--release", "all"]);
    assert!(told.code != 0 && told.err.contains("still stopped: 1 of 3"), "{told:?}");
    assert!(told.err.contains(&format!("{} stands: ", own.halt_id)), "{told:?}");
    for other in others {
        assert!(told.out.contains(&format!("goes on: {}", other.unwrap().halt_id)), "{told:?}");
    }
    let left = stage.command("root", &["halt", "--json"]).json();
    assert_eq!(left["halts"].as_array().map(Vec::len), Some(1), "{left}");
    assert_eq!(left["halts"][0]["halt_id"], own.halt_id.as_str(), "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_releases_a_halt_as_if_it_were_a_store_is_told_how_it_is_taken_back() {
    let stage = Stage::open(&gated()).await;
    assert_eq!(stage.command(LOCAL, &["halt", "--release", "all"]).out, "nothing is halted\n");
    let all = halt(&stage, LOCAL, Scope::All(true)).await.unwrap();
    let told = stage.command(LOCAL, &["release", &all.halt_id]);
    assert_eq!(told.code, 2, "{told:?}");
    let remedy = format!("holdpoint halt --release {}", all.halt_id);
    assert!(told.err.contains(&remedy), "{told:?}");
    assert_eq!(halts(&stage).await.len(), 1, "it stands");
    let told = stage.command(LOCAL, &["halt", "--release", "all", "--json"]).json();
    assert_eq!(told["halts"][0]["halt_id"], all.halt_id.as_str(), "{told}");
    assert_eq!(halts(&stage).await, []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_and_a_release_that_are_refused_stand_in_the_stores_own_log() {
    let people = [("ann", "starter"), ("op", "operator"), ("root", "admin")];
    let mut stage = Stage::set(&gated(), &people, &["--four-eyes=true"]).await;
    for _ in 0..2 {
        halt(&stage, "ann", Scope::All(true)).await.unwrap_err();
    }
    let stands = halt(&stage, "root", Scope::All(true)).await.unwrap();
    for who in ["op", "root"] {
        release(&stage, who, &stands).await.unwrap_err();
    }
    let wish = ReleaseStoreRequest::default();
    stage.client("ann").await.release_store(wish).await.unwrap_err();
    stage.server.restart();
    let request = ListAuditRequest { store: true, ..Default::default() };
    let told = stage.client("root").await.list_audit(request).await.unwrap().into_inner();
    let mut refused: Vec<_> = told
        .entries
        .iter()
        .filter(|entry| entry.action.ends_with("_refused"))
        .map(|entry| {
            assert_eq!(entry.door, "grpc", "{entry:?}");
            (entry.action.as_str(), entry.principal.as_str(), entry.note.clone(), entry.count)
        })
        .collect();
    refused.sort();
    let of_halt = format!("{}: auth.forbidden", stands.halt_id);
    let wanted = [
        ("halt_refused", "ann", "everything: auth.forbidden".to_owned(), 2),
        ("release_refused", "ann", "the store: auth.forbidden".to_owned(), 1),
        ("release_refused", "op", of_halt.clone(), 1),
        ("release_refused", "root", of_halt, 1),
    ];
    assert_eq!(refused, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_lets_the_file_go_on_by_the_name_it_is_listed_under_is_told_to_remove_it() {
    let stage = Stage::open(&gated()).await;
    std::fs::write(stage.root.path().join("data/HALT"), "call the office\n").unwrap();
    for id in ["file", "halt_file"] {
        let refused = stage.command(LOCAL, &["halt", "--release", id]);
        assert_ne!(refused.code, 0, "{refused:?}");
        assert!(refused.err.contains("remove the file"), "{id}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_file_says_steers_no_page_and_no_message() {
    let stage = Stage::open(&gated()).await;
    let asked = question(&stage.start(LOCAL, "s", "Bill 7.").await);
    std::fs::write(stage.root.path().join("data/HALT"), "\u{1b}[31mcall\u{7} the office\n")
        .unwrap();
    let refused = stage.answer(LOCAL, &asked, json!("allow_once")).await.unwrap_err();
    let told = r"\u{1b}[31mcall\u{7} the office";
    assert!(refused.message().contains(told), "{refused:?}");
    let standing = halts(&stage).await;
    assert_eq!(standing[0].reason, told);
    let page = stage.server.page("/readyz").1;
    assert!(page.contains(told) && !page.contains('\u{1b}'), "{page}");
}
