//! Two engines over one store, and a halt at one of them: nothing is done at the other either, whoever is frozen, dies or
//! was about to send something.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use holdpoint::engine::{EngineError, ForkRequest, HaltRequest, Until};
use holdpoint::kernel::workflow::{Patience, Safety};
use holdpoint::kernel::{Principal, Refusal, Scope};
use holdpoint::ports::{Credentials, Fault, Guard, HeadStatus, Journal, Vouched};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::support::pair::Pair;
use crate::support::plays::{answer, payers, start, writers};
use crate::support::workflows::{approval, with_tool};
use crate::support::{all, names, request_of, someone};

#[tokio::test]
async fn k4_a_halt_at_one_stops_the_other_before_the_next_deed() {
    let actors = || payers().slowly("worker");
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], actors).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    let halt = pair.halt(&pair.b.engine, Scope::All).await;
    // It is let come home, and what would follow is not done.
    pair.a.actors.gate("worker").add_permits(9);
    pair.pass(3_000).await;
    assert_eq!(pair.calls(), []);
    pair.b.engine.release_halt(&halt.id, &someone()).await.unwrap();
    pair.pass(3_000).await;
    pair.a.actors.gate("pay").add_permits(1);
    pair.b.actors.gate("pay").add_permits(1);
    let run = begun.run.to_string();
    let told = all(pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(pair.calls().len(), 1);
}

/// A call of A's that waits for its connection. It hears of nothing from now on, and nobody takes it for dead yet.
async fn about_to_send() -> (Pair, String) {
    let actors = || {
        let mut actors = payers();
        actors.connecting = Some(Arc::new(Semaphore::new(0)));
        actors
    };
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], actors).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    pair.a.replica.freeze();
    (pair, begun.run.to_string())
}

#[tokio::test]
async fn k4_what_was_about_to_be_sent_when_another_server_halted_it_is_not_sent() {
    let (pair, run) = about_to_send().await;
    let halt = pair.halt(&pair.b.engine, Scope::All).await;
    pair.a.actors.connecting.as_ref().unwrap().add_permits(9);
    pair.settle().await;
    assert_eq!(pair.calls(), [], "somebody was told that nothing is sent any more");
    pair.a.replica.thaw();
    pair.pass(3_000).await;
    assert_eq!(pair.calls(), []);
    pair.b.actors.connecting.as_ref().unwrap().add_permits(9);
    pair.b.engine.release_halt(&halt.id, &someone()).await.unwrap();
    pair.a.actors.gate("pay").add_permits(1);
    pair.b.actors.gate("pay").add_permits(1);
    pair.pass(3_000).await;
    let told = all(pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap()).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(pair.calls().len(), 1);
}

#[tokio::test]
async fn e8_what_a_dead_owner_left_at_a_halt_waits_there_and_keeps_nobody_busy() {
    let actors = || payers().slowly("worker");
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], actors).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    let halt = pair.halt(&pair.b.engine, Scope::All).await;
    pair.a.actors.gate("worker").add_permits(9);
    pair.pass(2_000).await;
    // Its call is not made, and its owner dies.
    pair.a.replica.kill();
    pair.pass(20_000).await;
    assert_eq!(pair.calls(), []);
    // Whoever took it up still lives, and does everything else.
    pair.b.actors.gate("worker").add_permits(9);
    pair.b.engine.release_halt(&halt.id, &someone()).await.unwrap();
    pair.b.actors.gate("pay").add_permits(1);
    pair.pass(5_000).await;
    let run = begun.run.to_string();
    let head = pair.b.engine.head(&run, &someone()).await.unwrap();
    assert_eq!(head.status, HeadStatus::Completed);
    assert_eq!(pair.calls().len(), 1, "and nobody was asked whether it had happened");
}

/// Everybody's key is good until it is removed.
#[derive(Debug, Default)]
struct Removed(AtomicBool);

#[async_trait]
impl Credentials for Removed {
    async fn vouch(&self, _who: &Principal) -> Result<Vouched, Fault> {
        let is_gone = self.0.load(Ordering::SeqCst);
        Ok(if is_gone { Vouched::Unknown } else { Vouched::Good(None) })
    }
}

#[tokio::test]
async fn k7_whoever_was_cut_off_neither_halts_nor_lets_go_on_by_a_key_that_was_removed_meanwhile() {
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], payers).await;
    let keys = Arc::new(Removed::default());
    pair.a.engine.know_by(Arc::clone(&keys) as _);
    let halt = pair.halt(&pair.b.engine, Scope::All).await;
    // Both are asked for by a server that does not hear from the store, and wait there.
    pair.a.replica.freeze();
    let (engine, id) = (pair.a.engine.clone(), halt.id.clone());
    let released = tokio::spawn(async move { engine.release_halt(&id, &someone()).await });
    let engine = pair.a.engine.clone();
    let wish = HaltRequest { scope: Scope::All, reason: "why".into(), key: String::new() };
    let halted = tokio::spawn(async move { engine.halt(wish, &someone()).await });
    pair.settle().await;
    assert!(!released.is_finished() && !halted.is_finished());
    keys.0.store(true, Ordering::SeqCst);
    pair.a.replica.thaw();
    for outcome in [released.await.unwrap(), halted.await.unwrap()] {
        let no = matches!(outcome, Err(EngineError::Refused(Refusal::UnknownKey)));
        assert!(no, "{outcome:?}");
    }
    assert_eq!(pair.b.engine.halts().0, [halt], "it stands, and no other does");
}

/// Somebody's key is removed right after it was looked up.
#[derive(Debug)]
struct Overtaken(Arc<dyn Journal>);

#[async_trait]
impl Credentials for Overtaken {
    async fn vouch(&self, _who: &Principal) -> Result<Vouched, Fault> {
        let kept = self.0.remembered("keys").await?;
        if kept.as_deref() == Some("gone") {
            return Ok(Vouched::Unknown);
        }
        self.0.remember("keys", "gone").await?;
        Ok(Vouched::Good(Some(Guard::kept("keys", kept.as_deref()))))
    }
}

#[tokio::test]
async fn k7_a_key_that_is_removed_between_the_look_and_the_write_decides_and_begins_nothing() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let begun = pair.b.engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let request = request_of(&all(begun.watch).await);
    let journal = pair.b.replica.journal();
    pair.a.engine.know_by(Arc::new(Overtaken(Arc::clone(&journal))));
    let is_unknown =
        |error: &EngineError| matches!(error, EngineError::Refused(Refusal::UnknownKey));
    journal.remember("keys", "good").await.unwrap();
    let said = pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await;
    assert!(said.as_ref().is_err_and(is_unknown), "{said:?}");
    let head = pair.b.engine.head(&begun.run.to_string(), &someone()).await.unwrap();
    assert!(matches!(head.status, HeadStatus::Waiting(_)), "{head:?}");
    let halt = pair.halt(&pair.b.engine, Scope::All).await;
    for is_release in [true, false] {
        journal.remember("keys", "good").await.unwrap();
        let wish = HaltRequest { scope: Scope::All, reason: "why".into(), key: String::new() };
        let outcome = if is_release {
            pair.a.engine.release_halt(&halt.id, &someone()).await
        } else {
            pair.a.engine.halt(wish, &someone()).await
        };
        assert!(outcome.as_ref().is_err_and(is_unknown), "{outcome:?}");
    }
    assert_eq!(pair.b.engine.halts().0, std::slice::from_ref(&halt));
    pair.b.engine.release_halt(&halt.id, &someone()).await.unwrap();
    let forked = ForkRequest { run: begun.run.to_string(), ..ForkRequest::default() };
    journal.remember("keys", "good").await.unwrap();
    let forked = pair.a.engine.fork(forked, &someone()).await.map(|begun| begun.run);
    assert!(forked.as_ref().is_err_and(is_unknown), "{forked:?}");
}

#[tokio::test]
async fn e8_what_was_about_to_be_sent_when_another_server_ended_its_run_is_not_sent() {
    let (pair, run) = about_to_send().await;
    pair.b.engine.cancel(&run, "enough", "", &someone()).await.unwrap();
    pair.a.actors.connecting.as_ref().unwrap().add_permits(9);
    pair.a.actors.gate("pay").add_permits(1);
    pair.settle().await;
    pair.a.replica.thaw();
    pair.pass(3_000).await;
    assert_eq!(pair.calls(), []);
}
