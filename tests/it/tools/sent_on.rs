//! Sent on: what became of a call that somebody redirected, or whose leave ended while it was on its way: done, not made, or
//! nobody knows, which a person is asked about.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use holdpoint::kernel::ToolCall;
use holdpoint::ports::Tools as _;
use holdpoint::ports::leave::{self, Leave};
use serde_json::json;

use crate::support::tool_server::{Answer, ToolServer};
use crate::tools::http::{call, registry, workflow};

/// A leave that holds so often, and as often again whenever it is asked anew.
fn leave_that_ages(lasts: usize, is_renewed: bool) -> Leave {
    let left = Arc::new(AtomicUsize::new(lasts));
    let asked = Arc::clone(&left);
    let leave = Leave::new(move || {
        let one = |left: usize| left.checked_sub(1);
        asked.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one).is_ok()
    });
    leave.renewed_by(move || {
        if is_renewed {
            left.store(lasts, Ordering::SeqCst);
        }
        Box::pin(async {})
    })
}

/// One that sends every call on to another place of its own.
async fn sends_on(status: u16) -> ToolServer {
    let there = vec![("location", "/there".to_owned())];
    let on = Answer::Raw(status, there, Vec::new());
    ToolServer::start([("/pay", on), ("/there", Answer::Json(json!("paid")))]).await
}

#[tokio::test]
async fn e9_a_call_that_was_sent_on_and_is_stopped_there_may_have_happened() {
    for (status, lasts) in [(307, 3), (307, 5), (308, 4), (303, 3)] {
        let server = sends_on(status).await;
        let settings = json!({"method": "POST", "url": server.url("/pay"), "allow_private": true});
        let paid = call(&settings, json!({}));
        let refused = leave::within(Some(leave_that_ages(lasts, false)), paid).await.unwrap_err();
        assert!(refused.may_have_happened, "{status} {lasts}: {refused:?}");
        assert_eq!(
            server.seen().len(),
            1,
            "{status} {lasts}: whoever sent it on has read all of it"
        );
    }
    // Some do the deed, and then answer with this; where it leads is not followed.
    let server = sends_on(302).await;
    let settings = json!({"method": "POST", "url": server.url("/pay"), "allow_private": true});
    let refused = call(&settings, json!({})).await.unwrap_err();
    assert!(refused.may_have_happened && refused.failure.code == "tool.redirect", "{refused:?}");
}

#[tokio::test]
async fn what_somebody_took_and_sent_on_to_nothing_may_have_happened() {
    let away = "http://other.example/x";
    for (method, status, place, code) in [
        // It was taken, and what was to be seen of it is not there.
        ("POST", 303, "/gone", "tool.status"),
        ("DELETE", 303, "/broken", "tool.status"),
        // Not followed: whoever said so has read the call all the same.
        ("GET", 302, away, "tool.redirect"),
        ("GET", 307, away, "tool.redirect"),
        ("POST", 307, away, "tool.redirect"),
        ("POST", 308, "ftp://files.example/x", "tool.redirect"),
        ("PUT", 307, "", "tool.redirect"),
    ] {
        let there = if place.is_empty() { vec![] } else { vec![("location", place.to_owned())] };
        let server = ToolServer::start([
            ("/pay", Answer::Raw(status, there, Vec::new())),
            ("/gone", Answer::Raw(404, vec![], Vec::new())),
            ("/broken", Answer::Raw(500, vec![], Vec::new())),
        ])
        .await;
        let settings = json!({"method": method, "url": server.url("/pay"), "allow_private": true});
        let refused = call(&settings, json!({})).await.unwrap_err();
        let what = format!("{method} {status} {place}: {refused:?}");
        assert_eq!(
            (refused.failure.code.as_str(), refused.may_have_happened),
            (code, true),
            "{what}"
        );
        // What changes nothing may be asked for again.
        let call = ToolCall::new("c1", "t", json!({}));
        let looked = registry().call(&workflow("pure", &settings), &call, "run_1/1/c1").await;
        let is_get = method == "GET" && place == away;
        assert!(!is_get || !looked.unwrap_err().may_have_happened, "{what}");
    }
    // Sent on, and then told no by the one whom it was for: that is a no.
    let on = Answer::Raw(307, vec![("location", "/no".to_owned())], Vec::new());
    let no = Answer::Raw(409, vec![], Vec::new());
    let server = ToolServer::start([("/pay", on), ("/no", no)]).await;
    let settings = json!({"method": "POST", "url": server.url("/pay"), "allow_private": true});
    assert!(!call(&settings, json!({})).await.unwrap_err().may_have_happened);
}

#[tokio::test]
async fn a_leave_that_grew_old_while_a_call_was_sent_on_is_asked_anew() {
    let server = sends_on(307).await;
    let settings = json!({"method": "POST", "url": server.url("/pay"), "allow_private": true});
    let paid = leave::within(Some(leave_that_ages(2, true)), call(&settings, json!({}))).await;
    assert_eq!((paid.unwrap(), server.seen().len()), (json!("paid"), 2));
}

#[tokio::test]
async fn e9_whoever_may_be_taken_for_dead_by_now_connects_to_nobody_and_writes_nothing() {
    for (method, asked) in [("POST", 3), ("DELETE", 2)] {
        for lasts in 0..asked {
            let server = ToolServer::start([("/pay", Answer::Json(json!("paid")))]).await;
            let settings =
                json!({"method": method, "url": server.url("/pay"), "allow_private": true});
            let left = Arc::new(AtomicUsize::new(lasts));
            let holds = {
                let left = Arc::clone(&left);
                move || {
                    let one = |left: usize| left.checked_sub(1);
                    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one).is_ok()
                }
            };
            let paid = call(&settings, json!({}));
            let refused = leave::within(Some(Leave::new(holds)), paid).await.unwrap_err();
            assert!(
                refused.failure.message.contains("taken for dead"),
                "{method} {lasts}: {refused:?}"
            );
            assert!(!refused.may_have_happened, "{method} {lasts}: nobody is asked whether it did");
            assert_eq!(server.seen().len(), 0, "{method}: asked {lasts} times and then no more");
        }
        let server = ToolServer::start([("/pay", Answer::Json(json!("paid")))]).await;
        let settings = json!({"method": method, "url": server.url("/pay"), "allow_private": true});
        let paid = call(&settings, json!({}));
        let paid = leave::within(Some(Leave::new(|| true)), paid).await;
        assert_eq!((paid.unwrap(), server.seen().len()), (json!("paid"), 1), "{method}");
    }
}
