//! The inbox as a property: whatever was asked, escalated, claimed, handed over, voted on, let lapse, cancelled or forked,
//! and whoever belongs to what by now, somebody's inbox by the index is what is found by reading everything. On a store
//! in memory, on one that several processes share, and on PostgreSQL.
//!
//! Each round is drawn from a seed. `HOLDPOINT_DESKS_ROUNDS=1000` runs so many of them.

use std::sync::Arc;

use holdpoint::definition::load_text;
use holdpoint::engine::{
    Engine, Entry, ForkRequest, InboxFilter, Library, OpenRequest, StartRequest,
};
use holdpoint::kernel::{
    Environment, Holder, Membership, Operator, Principal, Role, Span, Workflow, digest,
};
use holdpoint::ports::{Clock as _, Journal};
use holdpoint::store::MemoryCluster;
use serde_json::json;

use crate::support::chance::Chance;
use crate::support::plays::{answer, start};
use crate::support::postgres::Database;
use crate::support::{Actors, SimClock};

/// Those who may be asked, and one who never is.
const PEOPLE: [&str; 6] = ["ann", "bob", "cara", "dan", "eve", "group:finance"];
/// What is tried in one round.
const ACTS: usize = 60;

const FLOWS: [&str; 3] = [
    "
name: bills
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: approval
        prompt: Pay it?
        approvers:
          - {to: ['group:finance'], need: 2, within: 10m, escalate: [{to: [cara, 'role:director'], within: 10m}]}
          - {to: ['role:director', dan], not: [requester]}
",
    "
name: both
pattern: graph
graph:
  steps:
    - id: both
      parallel:
        mine: [{id: own, human: {kind: approval, prompt: And yours?}}]
        theirs: [{id: ask, human: {kind: approval, prompt: Theirs?, to: [ann, bob], deadline: 5m}}]
        late: [{id: late, human: {kind: approval, prompt: Late?, to: [dan], deadline: 7m, on_timeout: {escalate_to: {to: [ann], within: 5m}}}}]
",
    "
name: many
pattern: graph
graph:
  steps:
    - id: each
      for_each: '[1, 2, 3]'
      as: one
      steps:
        - {id: ask, human: {kind: approval, prompt: 'And number ${one}?', to: [cara, 'group:audit']}}
",
];

/// One round, on some store.
struct Round {
    engine: Engine,
    journal: Arc<dyn Journal>,
    clock: Arc<SimClock>,
    runs: Vec<String>,
    told: Vec<String>,
}

fn person(who: &str) -> Principal {
    Principal::new(who, Role::User, "grpc")
}

fn admin() -> Principal {
    Principal::new("root", Role::Admin, "grpc")
}

/// Who belongs to what, for now.
fn roll(chance: &mut Chance) -> Operator {
    let mut people = std::collections::BTreeMap::new();
    for who in PEOPLE.into_iter().chain(["root"]) {
        let mut some = |of: &[&str]| -> Vec<String> {
            of.iter().filter(|_| chance.holds(50)).map(|name| (*name).to_owned()).collect()
        };
        let (groups, titles) = (some(&["finance", "audit"]), some(&["director"]));
        people.insert(who.to_owned(), Membership { groups, titles, ..Membership::default() });
    }
    let four_eyes = chance.holds(20);
    Operator {
        environment: Environment::Named("tests".into()),
        people,
        four_eyes,
        ..Operator::default()
    }
}

impl Round {
    async fn open(journal: Arc<dyn Journal>, clock: Arc<SimClock>) -> Self {
        let library = Library::default();
        for text in FLOWS {
            let loaded = load_text("flow.yaml", text, &|_| Err("none".into()));
            let workflow: Arc<Workflow> = loaded.unwrap_or_else(|no| panic!("{no:?}")).workflow;
            let digest = digest::of(&serde_json::to_value(&*workflow).unwrap());
            library.add(&*journal, Entry { workflow, digest }).await.unwrap();
        }
        let actors = Arc::new(Actors::default());
        let engine = Engine::new(
            Arc::clone(&journal),
            Arc::clone(&clock) as _,
            Arc::clone(&actors) as _,
            actors,
            library,
        );
        engine.settle_in().await.unwrap();
        let (timing, sharing) = (engine.clone(), engine.clone());
        tokio::spawn(async move { timing.run_timers().await });
        tokio::spawn(async move { sharing.run_replica().await });
        Self { engine, journal, clock, runs: Vec::new(), told: Vec::new() }
    }

    /// Everything that is open, in order, read through.
    async fn everything(&self) -> Vec<OpenRequest> {
        self.listed(&admin(), &InboxFilter::default(), 100).await
    }

    async fn listed(&self, who: &Principal, of: &InboxFilter, limit: usize) -> Vec<OpenRequest> {
        let (mut found, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.engine.inbox(who, of, cursor.as_deref(), limit).await.unwrap();
            found.extend(page.rows);
            cursor = page.next;
            if cursor.is_none() {
                return found;
            }
        }
    }

    /// What each is shown by the index is what is theirs of everything. A no is told to the run's family by a task of its
    /// own, which asks there anew, and who is asked as well when nobody answers by another: what changed while it was looked
    /// at, is looked at again.
    async fn compare(&self) -> usize {
        let asked = |rows: &[OpenRequest]| -> Vec<_> {
            rows.iter().map(|row| (row.id().to_string(), Arc::clone(&row.question))).collect()
        };
        let mut all = self.everything().await;
        loop {
            let shown = self.shown().await;
            let again = self.everything().await;
            if asked(&again) == asked(&all) {
                return self.hold(&all, &shown);
            }
            all = again;
        }
    }

    /// What each is shown, and what whoever sees everything is when asking for theirs.
    async fn shown(&self) -> Vec<[Vec<OpenRequest>; 2]> {
        let mut shown = Vec::new();
        for who in PEOPLE {
            let of = InboxFilter { principal: Some(who.to_owned()), ..InboxFilter::default() };
            let own = self.listed(&person(who), &InboxFilter::default(), 2).await;
            shown.push([own, self.listed(&admin(), &of, 3).await]);
        }
        shown
    }

    /// Holds what was shown to each against everything; how much it was.
    fn hold(&self, all: &[OpenRequest], shown: &[[Vec<OpenRequest>; 2]]) -> usize {
        let (operator, now, told) = (self.engine.operator(), self.clock.now(), &self.told);
        let ids = |rows: Vec<&OpenRequest>| -> Vec<String> {
            rows.iter().map(|row| row.id().to_string()).collect()
        };
        for (who, [own, asked_for]) in PEOPLE.map(person).iter().zip(shown) {
            let theirs = all.iter().filter(|row| row.is_known_to(who, &operator, now)).collect();
            assert_eq!(ids(own.iter().collect()), ids(theirs), "{}: {told:#?}", who.id);
            let theirs = all.iter().filter(|row| row.admits(who, &operator, now)).collect();
            assert_eq!(ids(asked_for.iter().collect()), ids(theirs), "{}: {told:#?}", who.id);
        }
        shown.iter().map(|[own, _]| own.len()).sum()
    }

    /// Lets time go on, and every clock that is due be looked at.
    async fn pass(&self, ms: u64) {
        self.clock.advance(ms);
        let mut turns = 0;
        while !self.journal.due(self.clock.now(), 1).await.unwrap().is_empty() {
            tokio::task::yield_now().await;
            turns += 1;
            // Whoever looked just before time went on looks again a second later.
            if turns % 1_000 == 0 {
                self.clock.advance(1_000);
            }
        }
    }

    /// Something happens, or is refused.
    async fn act(&mut self, chance: &mut Chance) {
        let who = person(PEOPLE[chance.below(PEOPLE.len())]);
        let open = self.everything().await;
        let request = chance.one(&open).map(|row| row.id().to_string()).unwrap_or_default();
        let run = chance.one(&self.runs).cloned().unwrap_or_default();
        let span = Span::ForMs(60_000 + 1_000 * u64::try_from(chance.below(600)).unwrap());
        let engine = &self.engine;
        let (what, outcome) = match chance.below(16) {
            0..4 => {
                let name = ["bills", "both", "many"][chance.below(3)];
                let wish = StartRequest { afresh: true, ..start(name, "", "") };
                let begun = engine.start(wish, &who).await;
                self.runs.extend(begun.as_ref().map(|begun| begun.run.to_string()));
                ("start", begun.map(drop))
            }
            4..8 => {
                let verb = if chance.holds(70) { "approve" } else { "reject" };
                ("answer", engine.answer(answer(&request, json!(verb)), &who).await.map(drop))
            }
            8 => ("claim", engine.claim(&request, Some(span), "", &who).await.map(drop)),
            9 | 10 => {
                let to = PEOPLE[chance.below(PEOPLE.len())].to_owned();
                let holder = Some(Holder { who: to, span });
                ("delegate", engine.delegate(&request, holder, "", &who).await.map(drop))
            }
            11 => ("take back", engine.delegate(&request, None, "", &who).await.map(drop)),
            12 => ("cancel", engine.cancel(&run, "enough", "", &who).await.map(drop)),
            13 => {
                let wish = ForkRequest { run, ..ForkRequest::default() };
                let forked = engine.fork(wish, &who).await;
                self.runs.extend(forked.as_ref().map(|forked| forked.run.to_string()));
                ("fork", forked.map(drop))
            }
            14 => {
                engine.operate(roll(chance));
                ("roll", Ok(()))
            }
            _ => {
                self.pass(60_000 * (1 + u64::try_from(chance.below(8)).unwrap())).await;
                ("pass", Ok(()))
            }
        };
        let came = outcome.map_or_else(|no| no.to_string(), |()| "done".to_owned());
        self.told.push(format!("{} {what} {request}: {came}", who.id));
    }
}

fn rounds() -> u64 {
    let said = std::env::var("HOLDPOINT_DESKS_ROUNDS").ok().and_then(|text| text.parse().ok());
    said.unwrap_or(6)
}

/// Plays a round from that seed; how much was shown to people, and how much of what was tried was done.
async fn play(journal: Arc<dyn Journal>, clock: Arc<SimClock>, seed: u64) -> (usize, usize) {
    let mut chance = Chance(seed);
    let mut round = Round::open(journal, clock).await;
    round.engine.operate(roll(&mut chance));
    let mut shown = 0;
    for _ in 0..ACTS {
        round.act(&mut chance).await;
        shown += round.compare().await;
    }
    assert_eq!(round.journal.verify().await.unwrap().damage, [""; 0], "seed {seed}");
    let done = round.told.iter().filter(|line| line.ends_with(": done")).count();
    round.engine.shut_down(std::time::Duration::ZERO).await;
    (shown, done)
}

fn enough((shown, done): (usize, usize), rounds: u64) {
    let rounds = usize::try_from(rounds).unwrap();
    assert!(shown > 100 * rounds && done > 20 * rounds, "{shown} shown, {done} done");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_inbox_by_the_index_is_the_inbox_by_reading_everything_in_memory() {
    for seed in 0..rounds() {
        let clock = Arc::new(SimClock::default());
        enough(play(holdpoint::store::memory().journal(), clock, seed).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_inbox_by_the_index_is_the_inbox_by_reading_everything_where_several_share_it() {
    for seed in 100..100 + rounds() {
        let clock = Arc::new(SimClock::default());
        let cluster = MemoryCluster::new(Arc::clone(&clock) as _);
        enough(play(cluster.join().journal(), clock, seed).await, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_an_inbox_by_the_index_is_the_inbox_by_reading_everything_on_postgresql() {
    for seed in 200..200 + rounds() {
        let database = Database::made().await;
        let journal = database.open().await.journal();
        enough(play(journal, Arc::new(SimClock::default()), seed).await, 1);
    }
}
