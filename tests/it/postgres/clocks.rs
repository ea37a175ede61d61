//! Two engines over one PostgreSQL on machines whose clocks are hours apart: whatever has a time goes by the database's.

use std::sync::Arc;

use async_trait::async_trait;
use holdpoint::app::{SharedClock, SystemClock};
use holdpoint::engine::Engine;
use holdpoint::kernel::workflow::Patience;
use holdpoint::kernel::{Millis, OnTimeout, Workflow};
use holdpoint::ports::Clock;
use serde_json::json;

use crate::support::pair::{Post, engine_on};
use crate::support::plays::{answer, start, writers};
use crate::support::postgres::Database;
use crate::support::workflows::approval;
use crate::support::{Actors, all, request_of, someone};

const HOUR: u64 = 3_600_000;

/// A machine whose clock is off.
#[derive(Debug)]
struct Off(i64);

#[async_trait]
impl Clock for Off {
    fn now(&self) -> Millis {
        Millis(SystemClock.now().0.saturating_add_signed(self.0))
    }

    async fn sleep_until(&self, at: Millis) {
        SystemClock.pause(at.since(self.now())).await;
    }

    fn ticks(&self) -> u64 {
        SystemClock.ticks()
    }

    fn fresh_stem(&self) -> String {
        SystemClock.fresh_stem()
    }
}

async fn node(database: &Database, off: i64, cast: (&[Workflow], Actors)) -> (Engine, Arc<Actors>) {
    let journal = database.open().await.journal();
    let clock: Arc<dyn Clock> = Arc::new(SharedClock::over(Arc::new(Off(off))));
    engine_on((journal, clock), &Arc::new(Post::default()), cast).await
}

/// One whose machine is two hours ahead, and one whose machine is two hours behind.
async fn apart(
    database: &Database,
    workflow: &Workflow,
    actors: fn() -> Actors,
) -> [(Engine, Arc<Actors>); 2] {
    let (hours, flows) = (i64::try_from(2 * HOUR).unwrap(), [workflow.clone()]);
    let ahead = node(database, hours, (&flows[..], actors())).await;
    [ahead, node(database, -hours, (&flows[..], actors())).await]
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_is_by_the_databases_clock_however_wrong_the_machines_are() {
    let database = Database::made().await;
    let patience =
        Patience { deadline_ms: Some(HOUR), on_timeout: OnTimeout::Reject, ..Patience::default() };
    let [(ahead, _), (behind, _)] = apart(&database, &approval(patience), writers).await;
    let store = database.open().await.journal();
    let time = async || store.replicas().unwrap().time().await.unwrap();
    let before = time().await;
    let begun = behind.start(start("approval", "", ""), &someone()).await.unwrap();
    let (run, told) = (begun.run.to_string(), all(begun.watch).await);
    let after = time().await;
    let wake = ahead.head(&run, &someone()).await.unwrap().wake_at.unwrap();
    // As exact as an answer of the database is quick.
    let about = (before.0 + HOUR - 1_000)..=(after.0 + HOUR + 1_000);
    assert!(about.contains(&wake.0), "{wake:?} is not about {about:?}");
    let taken = ahead.answer(answer(&request_of(&told), json!("approve")), &someone()).await;
    all(taken.expect("its time is not over").watch).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_decided_before_the_databases_time_is_known() {
    let clock = SharedClock::over(Arc::new(Off(0)));
    assert!(!clock.is_set());
    let database = Database::made().await;
    let journal = database.open().await.journal();
    let actors = Arc::new(writers());
    let library = holdpoint::engine::Library::default();
    let clock = Arc::new(clock);
    let engine = Engine::new(journal, clock.clone(), actors.clone(), actors, library);
    let refused = engine.start(start("approval", "", ""), &someone()).await;
    let why = refused.map(drop).unwrap_err().to_string();
    assert!(why.contains("the time of the store is not known yet"), "{why}");
    engine.settle_in().await.unwrap();
    assert!(clock.is_set());
    let refused = engine.start(start("approval", "", ""), &someone()).await;
    let why = refused.map(drop).unwrap_err().to_string();
    assert!(!why.contains("the time of the store"), "{why}");
}
