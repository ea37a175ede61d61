//! Play: one seed. Three processes over one store that loses answers, is away, and says that others were first; they
//! freeze, die and come back; people begin, answer, cancel, fork, halt and listen at whichever they like. What must hold of
//! it is the checker's.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::task::Poll;

use holdpoint::engine::{Engine, ForkRequest, HaltRequest, Library, StartRequest, Until};
use holdpoint::kernel::{Millis, Principal, RunId, Scope};
use holdpoint::ports::{Clock as _, HeadStatus, Hook, RunFilter};
use holdpoint::store::{MemoryCluster, MemoryReplica, Mishap, Picture};
use serde_json::json;
use tokio::task::AbortHandle;

use crate::cast::{Cast, Fares, Wiring};
use crate::checker::Heard;
use crate::clock::SimClock;
use crate::dice::Dice;
use crate::flows;
use crate::people::said;

/// Those who answer; the last is asked by nobody, and tries all the same.
pub(crate) const PEOPLE: [&str; 4] = ["ann", "bob", "cara", "eve"];
/// What a seed does before everybody is let finish, unless somebody wants less.
pub(crate) const STEPS: usize = 40;
/// How often everybody is let go on for ten seconds at the end before what is unfinished is called so.
const LAST_ROUNDS: usize = 40;

/// Which store it is played on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Store {
    True,
    /// One that says of some appends that they are written, and does not have them: by it is seen whether whoever
    /// checks sees anything.
    Lying,
    /// One that goes back in time once, as a database does that fails over to a standby without everything.
    Forgetful,
}

/// The step before which such a store is as it will be again.
const PICTURED: usize = 12;

/// A process.
struct Node {
    engine: Engine,
    replica: MemoryReplica,
    cast: Arc<Cast>,
    /// What runs in it beside what it is asked: gone with it.
    loops: Vec<AbortHandle>,
}

impl Node {
    fn fares(&self) -> Fares {
        *self.cast.fares.lock().unwrap()
    }
}

/// An answer that somebody gave, and what they were told.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) request: String,
    pub(crate) who: &'static str,
    pub(crate) key: String,
    pub(crate) outcome: Option<Result<(), String>>,
}

/// Somebody who was told that they would be told of a run, from this version on.
#[derive(Debug, Clone)]
pub(crate) struct Listens {
    pub(crate) run: RunId,
    pub(crate) channel: String,
    pub(crate) from: u64,
}

/// One seed.
pub(crate) struct Play {
    dice: Dice,
    clock: Arc<SimClock>,
    pub(crate) cluster: MemoryCluster,
    nodes: Vec<Node>,
    pub(crate) world: Arc<Wiring>,
    pub(crate) given: Arc<Mutex<Vec<Given>>>,
    pub(crate) heard: Arc<Mutex<Vec<Heard>>>,
    pub(crate) listens: Arc<Mutex<Vec<Listens>>>,
    /// Watchers who were not told in time.
    pub(crate) late: Mutex<Vec<String>>,
    pub(crate) store: Store,
    /// What the store goes back to, how many had died by then, and how many listened.
    picture: Option<(Picture, usize, usize)>,
    /// Runs that it had more of, and whether anybody noticed.
    pub(crate) rewound: BTreeSet<RunId>,
    pub(crate) noticed: bool,
}

/// Whoever begins everything.
pub(crate) fn owner() -> Principal {
    Principal::local("grpc")
}

impl Play {
    pub(crate) async fn new(seed: u64, store: Store) -> Self {
        let clock = Arc::new(SimClock::default());
        let mut play = Self {
            dice: Dice::new(seed),
            cluster: MemoryCluster::new(clock.clone()),
            clock,
            nodes: Vec::new(),
            world: Arc::default(),
            given: Arc::default(),
            heard: Arc::default(),
            listens: Arc::default(),
            late: Mutex::default(),
            store,
            picture: None,
            rewound: BTreeSet::new(),
            noticed: false,
        };
        for _ in 0..3 {
            play.join().await;
        }
        play
    }

    /// Another process comes.
    async fn join(&mut self) {
        let (replica, library) = (self.cluster.join(), Library::default());
        let journal = replica.journal();
        for entry in flows::all() {
            library.add(&*journal, entry.clone()).await.unwrap();
        }
        let cast = Arc::new(Cast::new(&self.clock, &self.dice, &self.world));
        let both = (cast.clone() as _, cast.clone() as _);
        let engine =
            Engine::with_notifier(journal, self.clock.clone(), both, library, cast.clone());
        engine.settle_in().await.unwrap();
        engine.recover().await.unwrap();
        let (dice, lies) = (self.dice.clone(), self.store == Store::Lying);
        replica.leave_to(Box::new(move |_| match dice.roll(100) {
            0..3 => Some(Mishap::Away),
            3..7 => Some(Mishap::Unheard),
            7..10 => Some(Mishap::Unsent),
            10..12 => Some(Mishap::Moved),
            12..20 if lies => Some(Mishap::Swallowed),
            _ => None,
        }));
        let dice = self.dice.clone();
        // Others write between one call and the next, as they do where each takes a while.
        replica.delay_by(Box::new(move || match dice.roll(24) {
            0..3 => 1,
            3 => 3,
            _ => 0,
        }));
        let (timing, sharing, carrying) = (engine.clone(), engine.clone(), engine.clone());
        let loops = [
            tokio::spawn(async move { timing.run_timers().await }),
            tokio::spawn(async move { sharing.run_replica().await }),
            tokio::spawn(async move { carrying.run_outbox().await }),
        ];
        let loops = loops.iter().map(tokio::task::JoinHandle::abort_handle).collect();
        self.nodes.push(Node { engine, replica, cast, loops });
    }

    async fn settle(&self) {
        for _ in 0..40 {
            let mut is_second = false;
            // Behind all that is ready, and no further: the runtime's own look at its timers would be half of a seed.
            std::future::poll_fn(|context| {
                if std::mem::replace(&mut is_second, true) {
                    return Poll::Ready(());
                }
                context.waker().wake_by_ref();
                Poll::Pending
            })
            .await;
        }
    }

    async fn pass(&self, ms: u64, at_a_time: u64) {
        for _ in 0..ms.div_ceil(at_a_time) {
            self.clock.advance(at_a_time);
            self.settle().await;
        }
    }

    fn engine(&self) -> Option<Engine> {
        self.node().map(|(engine, _)| engine)
    }

    /// A process that is not dead, and how it fares.
    fn node(&self) -> Option<(Engine, Arc<Cast>)> {
        let living: Vec<_> = self.nodes.iter().filter(|node| node.fares() != Fares::Dead).collect();
        self.dice.pick(&living).map(|node| (node.engine.clone(), node.cast.clone()))
    }

    /// How far every journal is.
    async fn versions(&self) -> BTreeMap<RunId, u64> {
        let journal = self.cluster.join().journal();
        let heads = journal.heads(&RunFilter::default(), None, 1_000).await.unwrap().rows;
        journal.close().await;
        heads.into_iter().map(|head| (head.run, head.version)).collect()
    }

    /// Lets ten seconds pass in which nothing goes wrong: whoever watches anywhere has heard by then of all that was
    /// written before.
    async fn pass_heard(&self) {
        let written = self.versions().await;
        self.pass(10_000, 1_000).await;
        for heard in self.heard.lock().unwrap().iter() {
            let is_dead = *heard.at.fares.lock().unwrap() == Fares::Dead;
            let (has, is) = (heard.sequences.last().copied().unwrap_or(0), written.get(&heard.run));
            let is_lost = self.rewound.contains(&heard.run);
            if !is_dead && !is_lost && is.is_some_and(|is| has < *is) {
                let what = format!("a watcher of {} heard {has} of {is:?}", heard.run);
                self.late.lock().unwrap().push(what);
            }
        }
    }

    /// What is open, as the store has it.
    async fn open(&self) -> Vec<String> {
        let journal = self.cluster.join().journal();
        let page = journal.waiting(None, 1_000).await.unwrap();
        journal.close().await;
        let ids = page.rows.iter().flat_map(|head| {
            head.questions.iter().map(|question| question.id(&head.run).to_string())
        });
        ids.collect()
    }

    /// Every run, and whether something is still to come of it.
    pub(crate) async fn runs(&self) -> Vec<(RunId, bool)> {
        let journal = self.cluster.join().journal();
        let heads = journal.heads(&RunFilter::default(), None, 1_000).await.unwrap().rows;
        journal.close().await;
        let goes_on =
            |status: &HeadStatus| matches!(status, HeadStatus::Running | HeadStatus::Waiting(_));
        heads.into_iter().map(|head| (head.run, goes_on(&head.status))).collect()
    }

    /// One thing happens.
    pub(crate) async fn step(&mut self, number: usize) {
        if self.store == Store::Forgetful {
            self.forget(number).await;
        }
        match self.dice.roll(26) {
            0..5 => self.start(number),
            5..13 => self.answer(number).await,
            13 => self.cancel().await,
            14 => self.fork(number).await,
            15..17 => self.listen(number).await,
            17 => self.halt(),
            18 => {
                let running = self.of(Fares::Well);
                if running.len() > 1 {
                    self.fare(running[0], Fares::Frozen);
                }
            }
            19..21 => self.thaw(),
            21 => {
                let running = self.of(Fares::Well);
                if running.len() > 1 {
                    let index = *self.dice.pick(&running).unwrap();
                    self.fare(index, Fares::Dead);
                    self.join().await;
                }
            }
            22 => self.cluster.mute(self.dice.roll(2) == 0),
            _ => {}
        }
        self.pass(self.dice.roll(8) * 500, 500).await;
        self.settle().await;
    }

    fn of(&self, fares: Fares) -> Vec<usize> {
        (0..self.nodes.len()).filter(|index| self.nodes[*index].fares() == fares).collect()
    }

    fn thaw(&self) {
        for index in self.of(Fares::Frozen) {
            self.fare(index, Fares::Well);
        }
    }

    fn fare(&self, index: usize, fares: Fares) {
        let node = &self.nodes[index];
        *node.cast.fares.lock().unwrap() = fares;
        node.cast.changed.notify_waiters();
        match fares {
            Fares::Well => node.replica.thaw_unaware(self.dice.roll(120)),
            Fares::Frozen => node.replica.freeze(),
            Fares::Dead => {
                node.replica.kill();
                node.loops.iter().for_each(AbortHandle::abort);
            }
        }
    }

    fn start(&self, number: usize) {
        let (Some(engine), Some((watcher, cast))) = (self.engine(), self.node()) else { return };
        let workflow = *self.dice.pick(&flows::NAMES).unwrap();
        let request = StartRequest {
            workflow: workflow.into(),
            input: json!({"amount": number + 1}),
            key: format!("start {number}"),
            ..StartRequest::default()
        };
        let (heard, clock) = (self.heard.clone(), self.clock.clone());
        tokio::spawn(async move {
            let Ok(begun) = engine.start(request, &owner()).await else { return };
            let run = begun.run;
            let place = {
                let mut heard = heard.lock().unwrap();
                let at = cast.clone();
                heard.push(Heard { run: run.clone(), at, sequences: Vec::new() });
                heard.len() - 1
            };
            // As whoever watches does: a stream that breaks off is taken up where it did.
            while *cast.fares.lock().unwrap() != Fares::Dead {
                let after = heard.lock().unwrap()[place].sequences.last().copied().unwrap_or(0);
                let watch = watcher.watch(&run.to_string(), after, Until::Over, &owner()).await;
                if let Ok(mut watch) = watch {
                    while let Ok(told) = watch.next().await {
                        let Some(published) = told else { return };
                        heard.lock().unwrap()[place].sequences.push(published.sequence);
                    }
                }
                clock.sleep_until(clock.now().plus(1_000)).await;
            }
        });
    }

    async fn answer(&self, number: usize) {
        let open = self.open().await;
        let (Some(engine), Some(request)) = (self.engine(), self.dice.pick(&open)) else { return };
        let who = *self.dice.pick(&PEOPLE).unwrap();
        let (key, place) = (format!("answer {number}"), self.given.lock().unwrap().len());
        let given = Given { request: request.clone(), who, key: key.clone(), outcome: None };
        self.given.lock().unwrap().push(given);
        let (request, all, yes) = (request.clone(), self.given.clone(), self.dice.roll(4) > 0);
        tokio::spawn(async move {
            let outcome = said(&engine, &request, (who, &key), yes).await;
            all.lock().unwrap()[place].outcome = Some(outcome);
        });
    }

    /// One of the runs that are not over, and a process.
    async fn one(&self) -> Option<(RunId, Engine)> {
        let mut runs = self.runs().await;
        runs.retain(|(_, goes_on)| *goes_on);
        let (run, _) = self.dice.pick(&runs)?;
        Some((run.clone(), self.engine()?))
    }

    async fn cancel(&self) {
        let Some((run, engine)) = self.one().await else { return };
        tokio::spawn(async move {
            drop(engine.cancel(&run.to_string(), "enough", "", &owner()).await);
        });
    }

    async fn fork(&self, number: usize) {
        let Some((run, engine)) = self.one().await else { return };
        let key = format!("fork {number}");
        let request = ForkRequest { run: run.to_string(), key, ..ForkRequest::default() };
        tokio::spawn(async move { drop(engine.fork(request, &owner()).await) });
    }

    async fn listen(&self, number: usize) {
        let Some((run, engine)) = self.one().await else { return };
        let (listens, cluster) = (self.listens.clone(), self.cluster.clone());
        let id = format!("h{number}");
        let hook = Hook { id: id.clone(), url: "https://example.org/".into(), ..Hook::default() };
        tokio::spawn(async move {
            if engine.put_hook(&run, hook, &owner()).await.is_err() {
                return;
            }
            let journal = cluster.join().journal();
            let from = journal.head(&run).await.unwrap().map_or(0, |head| head.version);
            journal.close().await;
            listens.lock().unwrap().push(Listens { run, channel: format!("push:{id}"), from });
        });
    }

    /// Stops everything for a while.
    fn halt(&self) {
        let (Some(engine), Some(other)) = (self.engine(), self.engine()) else { return };
        let (clock, ms) = (self.clock.clone(), self.dice.roll(10_000));
        let wish = HaltRequest { scope: Scope::All, reason: "odd".into(), key: String::new() };
        let world = Arc::clone(&self.world);
        tokio::spawn(async move {
            let Ok(halt) = engine.halt(wish, &owner()).await else { return };
            let place = {
                let mut halts = world.halts.lock().unwrap();
                halts.push((clock.now(), None));
                halts.len() - 1
            };
            clock.sleep_until(clock.now().plus(ms)).await;
            world.halts.lock().unwrap()[place].1.get_or_insert(clock.now());
            drop(other.release_halt(&halt.id, &owner()).await);
        });
    }

    /// The store goes back to how it was some steps before; within seconds somebody must have noticed.
    async fn forget(&mut self, number: usize) {
        if number == PICTURED {
            let (dead, listens) = (self.of(Fares::Dead).len(), self.listens.lock().unwrap().len());
            self.picture = Some((self.cluster.picture(), dead, listens));
        }
        if number <= PICTURED || self.dice.roll(4) > 0 {
            return;
        }
        let Some((picture, dead, listens)) = self.picture.take() else { return };
        let had = self.versions().await;
        self.cluster.go_back(&picture);
        let has = self.versions().await;
        let lost = had.into_iter().filter(|(run, version)| has.get(run) != Some(version));
        self.rewound = lost.map(|(run, _)| run).collect();
        self.listens.lock().unwrap().truncate(listens);
        self.thaw();
        self.pass(20_000, 500).await;
        let journal = self.cluster.join().journal();
        let said = journal.remembered("identity").await.unwrap().unwrap_or_default();
        journal.close().await;
        self.noticed = said.contains("is_rewound");
        // Whoever knew of it may be dead: then nobody can notice.
        if !self.rewound.is_empty() && !self.noticed && self.of(Fares::Dead).len() == dead {
            let what = format!("nobody noticed that {:?} went back", self.rewound);
            self.late.lock().unwrap().push(what);
        }
        // Somebody has looked, and lets everything go on.
        for node in self.nodes.iter().filter(|node| node.fares() == Fares::Well) {
            drop(node.engine.release_store(false, &owner()).await);
        }
    }

    /// Everybody is let finish: nothing goes wrong any more.
    pub(crate) async fn finish(&mut self) {
        self.thaw();
        for node in &self.nodes {
            node.replica.leave_to(Box::new(|_| None));
        }
        self.cluster.mute(false);
        self.join().await;
        let last = self.nodes.last().unwrap();
        last.replica.leave_to(Box::new(|_| None));
        let engine = last.engine.clone();
        self.pass(10_000, 1_000).await;
        self.pass_heard().await;
        for round in 0..LAST_ROUNDS {
            if engine.is_held() {
                drop(engine.release_store(false, &owner()).await);
            }
            for (_, until) in self.world.halts.lock().unwrap().iter_mut() {
                until.get_or_insert(self.clock.now());
            }
            for halt in engine.halts_listed().0 {
                drop(engine.release_halt(&halt.id, &owner()).await);
            }
            for (number, request) in self.open().await.into_iter().enumerate() {
                for who in ["ann", "bob", "local"] {
                    let key = format!("last {round} {number} {who}");
                    let outcome = said(&engine, &request, (who, &key), true).await;
                    let (request, outcome) = (request.clone(), Some(outcome));
                    self.given.lock().unwrap().push(Given { request, who, key, outcome });
                }
            }
            self.pass_heard().await;
            if self.runs().await.iter().all(|(_, goes_on)| !goes_on) {
                break;
            }
        }
        self.pass_heard().await;
        // Whoever listens is told the last of it; what somebody died with is taken for lost after a minute.
        for _ in 0..LAST_ROUNDS {
            self.pass(5_000, 1_000).await;
            let journal = self.cluster.join().journal();
            let owed = journal.outbox_entries(Millis(u64::MAX), 1).await.unwrap();
            journal.close().await;
            if owed.is_empty() {
                break;
            }
        }
    }
}
