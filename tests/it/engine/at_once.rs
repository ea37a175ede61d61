//! The same call twice at the same moment, and a call while others write: however the store's answers fall between one
//! another, a start that is repeated answers nothing, and a look comes to its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use holdpoint::engine::{Begun, Engine, EngineError, Until};
use holdpoint::kernel::workflow::Patience;
use holdpoint::store::{MemoryReplica, Mishap};
use serde_json::json;

use crate::support::pair::Pair;
use crate::support::plays::{answer, start, writers};
use crate::support::workflows::{approval, chat};
use crate::support::{Actors, all, names, request_of, someone};

/// The calls of a process to the store of which each in turn is the slow one: more than either of these makes.
const CALLS: u32 = 40;

/// Lets others have many turns before one of the calls of a process comes to the store, and one before each other.
fn slow_at(replica: &MemoryReplica, nth: u32) {
    let calls = Arc::new(AtomicU32::new(0));
    let turns = move || if calls.fetch_add(1, Ordering::SeqCst) == nth { 60 } else { 1 };
    replica.delay_by(Box::new(turns));
}

async fn said(engine: &Engine) -> Result<Begun, EngineError> {
    engine.start(start("chat", "talk", "k"), &someone()).await
}

#[tokio::test]
async fn k9_what_began_a_run_answers_nothing_in_it_where_it_comes_twice_at_once() {
    for nth in 0..CALLS {
        for is_at_two in [false, true] {
            let pair = Pair::new(&[chat(3)], || Actors::default().says("host", "Yes?")).await;
            let (a, b) = (&pair.a, if is_at_two { &pair.b } else { &pair.a });
            slow_at(&b.replica, nth);
            let (one, two) = tokio::join!(said(&a.engine), said(&b.engine));
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!(one.run, two.run, "one run, slow at {nth}, at two: {is_at_two}");
            let (run, who) = (one.run.as_str(), someone());
            let watch = a.engine.watch(run, 0, Until::CurrentRest, &who).await.unwrap();
            let told = names(&all(watch).await);
            assert!(!told.contains(&"answered"), "slow at {nth}, at two: {is_at_two}: {told:?}");
        }
    }
}

#[tokio::test]
async fn e1_a_look_at_what_another_writes_to_meanwhile_comes_to_its_end() {
    for turns in 0..80 {
        let pair = Pair::new(&[approval(Patience::default())], writers).await;
        let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
        let request = request_of(&all(begun.watch).await);
        // It has the run in memory, and is told that its own answer came second: it looks again.
        pair.b.engine.run(begun.run.as_str(), &someone()).await.unwrap();
        pair.b.replica.befall(Mishap::Moved);
        slow_at(&pair.b.replica, u32::MAX);
        let (yes, no) = (answer(&request, json!("approve")), answer(&request, json!("reject")));
        let who = someone();
        let later = async {
            for _ in 0..turns {
                tokio::task::yield_now().await;
            }
            pair.a.engine.answer(yes, &who).await
        };
        let both = async { tokio::join!(later, pair.b.engine.answer(no, &who)) };
        let enough = async {
            for _ in 0..10 {
                pair.settle().await;
            }
        };
        let outcome = tokio::select! {
            biased;
            outcome = both => Some(outcome),
            () = enough => None,
        };
        let (yes, no) = outcome.unwrap_or_else(|| panic!("it looks for ever, after {turns} turns"));
        assert_eq!(u32::from(yes.is_ok()) + u32::from(no.is_ok()), 1, "after {turns} turns");
    }
}
