//! Two engines over one store, and a halt at one of them: nothing is done at the other either, whoever is frozen, dies or
//! was about to send something.

use std::sync::Arc;

use holdpoint::engine::Until;
use holdpoint::kernel::Scope;
use holdpoint::kernel::workflow::Safety;
use holdpoint::ports::HeadStatus;
use tokio::sync::Semaphore;

use crate::support::pair::Pair;
use crate::support::plays::{payers, start};
use crate::support::workflows::with_tool;
use crate::support::{all, names, someone};

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

#[tokio::test]
async fn k4_what_was_about_to_be_sent_when_another_server_halted_it_is_not_sent() {
    let actors = || {
        let mut actors = payers();
        actors.connecting = Some(Arc::new(Semaphore::new(0)));
        actors
    };
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], actors).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    // It hears of nothing from now on, and nobody takes it for dead yet.
    pair.a.replica.freeze();
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
    let run = begun.run.to_string();
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
