//! Two processes over one store: an engine each, agents and tools of their own, one clock.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holdpoint::engine::{Engine, Entry, HaltRequest, Library};
use holdpoint::kernel::{Event, Halt, Scope, Workflow, digest};
use holdpoint::ports::{Clock, Delivery, Journal, Notifier, Undelivered};
use holdpoint::store::{MemoryCluster, MemoryReplica};

use crate::support::{Actors, SimClock, someone};

/// A process.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) replica: MemoryReplica,
    pub(crate) actors: Arc<Actors>,
}

/// Two of them.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) cluster: MemoryCluster,
    pub(crate) clock: Arc<SimClock>,
    pub(crate) post: Arc<Post>,
    pub(crate) a: Node,
    pub(crate) b: Node,
}

/// Listeners outside, and what they were told: channel, version and who carried it.
#[derive(Debug, Default)]
pub(crate) struct Post {
    pub(crate) told: Mutex<Vec<(String, u64)>>,
}

#[async_trait]
impl Notifier for Post {
    fn carries(&self, _lane: &str, _workflow: &str, event: &Event) -> bool {
        matches!(event, Event::Completed | Event::Parked)
    }

    fn channels(&self) -> &[String] {
        &[]
    }

    fn check(&self, _url: &str) -> Result<(), String> {
        Ok(())
    }

    async fn carry(&self, consignment: Delivery<'_>) -> Result<(), Undelivered> {
        let told = (consignment.channel.to_owned(), consignment.version);
        self.told.lock().unwrap().push(told);
        Ok(())
    }
}

impl Pair {
    /// Two processes with these workflows, each with agents as `actors` makes them.
    pub(crate) async fn new(workflows: &[Workflow], actors: impl Fn() -> Actors) -> Self {
        let clock = Arc::new(SimClock::default());
        let (cluster, post) = (MemoryCluster::new(clock.clone()), Arc::new(Post::default()));
        let a = node(&cluster, &clock, &post, (workflows, actors())).await;
        let b = node(&cluster, &clock, &post, (workflows, actors())).await;
        let pair = Self { cluster, clock, post, a, b };
        pair.settle().await;
        pair
    }

    /// Lets everything happen that can without time going on.
    pub(crate) async fn settle(&self) {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    }

    /// Lets time go on, in steps in which everybody does what they must.
    pub(crate) async fn pass(&self, ms: u64) {
        for _ in 0..ms.div_ceil(500) {
            self.clock.advance(500);
            self.settle().await;
        }
    }

    /// Halts something at one of them: it is told when no other sends anything any more, which takes time.
    pub(crate) async fn halt(&self, engine: &Engine, scope: Scope) -> Halt {
        let wish = HaltRequest { scope, reason: "odd".into(), key: String::new() };
        let who = someone();
        let (halt, ()) = tokio::join!(engine.halt(wish, &who), self.pass(2_000));
        halt.unwrap()
    }

    /// Whatever the tools of both were called with.
    pub(crate) fn calls(&self) -> Vec<(String, String)> {
        let [one, other] = [&self.a, &self.b].map(|node| node.actors.calls.lock().unwrap().clone());
        one.into_iter().chain(other).collect()
    }
}

/// A process that has just been started.
pub(crate) async fn node(
    cluster: &MemoryCluster,
    clock: &Arc<SimClock>,
    post: &Arc<Post>,
    (workflows, actors): (&[Workflow], Actors),
) -> Node {
    let replica = cluster.join();
    let on = (replica.journal(), clock.clone() as Arc<dyn Clock>);
    let (engine, actors) = engine_on(on, post, (workflows, actors)).await;
    Node { engine, replica, actors }
}

/// An engine that has just been started over whatever store.
pub(crate) async fn engine_on(
    (journal, clock): (Arc<dyn Journal>, Arc<dyn Clock>),
    post: &Arc<Post>,
    (workflows, actors): (&[Workflow], Actors),
) -> (Engine, Arc<Actors>) {
    let (actors, library) = (Arc::new(actors), Library::default());
    for workflow in workflows {
        let digest = digest::of(&serde_json::to_value(workflow).unwrap());
        let entry = Entry { workflow: Arc::new(workflow.clone()), digest };
        library.add(&*journal, entry).await.unwrap();
    }
    let cast = (Arc::clone(&actors) as _, Arc::clone(&actors) as _);
    let engine = Engine::with_notifier(journal, clock, cast, library, post.clone());
    engine.settle_in().await.unwrap();
    engine.recover().await.unwrap();
    let (timing, carrying, sharing) = (engine.clone(), engine.clone(), engine.clone());
    tokio::spawn(async move { timing.run_timers().await });
    tokio::spawn(async move { carrying.run_outbox().await });
    tokio::spawn(async move { sharing.run_replica().await });
    (engine, actors)
}
