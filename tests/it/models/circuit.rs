//! A server that fails again and again is left alone for a while, by all runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::models::chat;
use crate::models::desk::{Desk, Hasty, hello};
use crate::models::fixture::{Answer, Fixture};

#[tokio::test]
async fn a_circuit_opens_is_probed_once_and_closes() {
    let is_well = Arc::new(AtomicBool::new(false));
    let well = Arc::clone(&is_well);
    let server = Fixture::start(move |_, _| {
        if well.load(Ordering::SeqCst) {
            Answer::stream(chat::saying(&["Fine."]))
        } else {
            Answer::json(503, &json!({}))
        }
    })
    .await;
    let clock = Arc::new(Hasty::default());
    let desk = Desk::new(clock.clone(), "openai_chat", &server.base_url, &json!({"retries": 0}));
    for _ in 0..10 {
        let (code, _) = Desk::fault(desk.ask(&hello()).await.0);
        assert_eq!(code, "model.unavailable");
    }
    let open = desk.ask(&hello()).await.0;
    let message = open.as_ref().unwrap_err().failure.message.clone();
    assert!(message.ends_with("last: the server says 503"), "{message}");
    assert_eq!(Desk::fault(open), ("model.circuit_open".to_owned(), true));
    assert_eq!(server.seen().len(), 10, "a server that is left alone is not asked");

    clock.advance(15_000);
    assert_eq!(Desk::fault(desk.ask(&hello()).await.0).0, "model.unavailable");
    assert_eq!(Desk::fault(desk.ask(&hello()).await.0).0, "model.circuit_open");
    assert_eq!(server.seen().len(), 11, "one probe");

    clock.advance(15_000);
    is_well.store(true, Ordering::SeqCst);
    for _ in 0..2 {
        assert_eq!(desk.ask(&hello()).await.0.unwrap().text, "Fine.");
    }
}

#[tokio::test]
async fn a_no_that_is_ours_opens_no_circuit() {
    let server = Fixture::always(Answer::json(401, &json!({}))).await;
    let desk = Desk::new(
        Arc::new(Hasty::default()),
        "openai_chat",
        &server.base_url,
        &json!({"retries": 0}),
    );
    for _ in 0..20 {
        assert_eq!(Desk::fault(desk.ask(&hello()).await.0).0, "model.unauthorized");
    }
    assert_eq!(server.seen().len(), 20);
}
