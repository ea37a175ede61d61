//! Two engines over one PostgreSQL, each with connections of its own: whatever is begun at one is watched, answered and
//! cancelled at the other, and what one leaves another finishes. The same as `two_engines`, where time is a test's to
//! move; here it is the database's.

use std::sync::Arc;
use std::time::Duration;

use holdpoint::app::SystemClock;
use holdpoint::engine::{
    Engine, EngineError, ForkRequest, HaltRequest, InboxChange, InboxFilter, StartRequest, Until,
};
use holdpoint::kernel::workflow::{Patience, Safety};
use holdpoint::kernel::{
    Budget, Budgets, Event, OnExceeded, OnTimeout, Refusal, RunId, Scope, Workflow,
};
use holdpoint::ports::{HeadStatus, Hook, Journal};
use serde_json::json;

use crate::contract::holding::rests_on_what_is_kept;
use crate::support::pair::{Post, engine_on};
use crate::support::plays::{answer, payers, slow_sender, start, writers};
use crate::support::postgres::Database;
use crate::support::workflows::{approval, chat, with_tool};
use crate::support::{Actors, all, name, names, request_of, someone};

/// A process.
struct Node {
    engine: Engine,
    journal: Arc<dyn Journal>,
    actors: Arc<Actors>,
}

/// Two of them.
struct Pair {
    database: Database,
    post: Arc<Post>,
    a: Node,
    b: Node,
}

impl Pair {
    async fn new(workflows: &[Workflow], actors: impl Fn() -> Actors) -> Self {
        let (database, post) = (Database::made().await, Arc::new(Post::default()));
        let a = node(&database, &post, (workflows, actors())).await;
        let b = node(&database, &post, (workflows, actors())).await;
        Self { database, post, a, b }
    }

    fn calls(&self) -> Vec<(String, String)> {
        let [one, other] = [&self.a, &self.b].map(|node| node.actors.calls.lock().unwrap().clone());
        one.into_iter().chain(other).collect()
    }
}

async fn node(
    database: &Database,
    post: &Arc<Post>,
    (workflows, actors): (&[Workflow], Actors),
) -> Node {
    let journal = database.open().await.journal();
    let on = (Arc::clone(&journal), Arc::new(SystemClock) as _);
    let (engine, actors) = engine_on(on, post, (workflows, actors)).await;
    Node { engine, journal, actors }
}

async fn asked(patience: Patience, actors: impl Fn() -> Actors) -> (Pair, String, String) {
    let pair = Pair::new(&[approval(patience)], actors).await;
    let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    let request = request_of(&all(begun.watch).await);
    (pair, run, request)
}

/// Asked, answered at A, and A is at the slow part of it.
async fn sending() -> (Pair, String) {
    let (pair, run, request) = asked(Patience::default(), slow_sender).await;
    pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    (pair, run)
}

async fn told(engine: &Engine, run: &str) -> Vec<&'static str> {
    let watch = engine.watch(run, 0, Until::CurrentRest, &someone()).await.unwrap();
    names(&all(watch).await)
}

async fn to_the_end(engine: &Engine, run: &str) -> Vec<&'static str> {
    let watch = engine.watch(run, 0, Until::Over, &someone()).await.unwrap();
    let heard = tokio::time::timeout(Duration::from_mins(1), all(watch)).await.unwrap();
    names(&heard)
}

async fn status(engine: &Engine, run: &str) -> HeadStatus {
    engine.head(run, &someone()).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_run_begun_at_one_is_watched_and_answered_at_the_other() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    assert_eq!(told(&pair.b.engine, &run).await, told(&pair.a.engine, &run).await);
    let mut watch = pair.a.engine.watch(&run, 7, Until::Over, &someone()).await.unwrap();
    let begun = pair.b.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    let seen = names(&all(begun.watch).await);
    assert_eq!(seen.last(), Some(&"completed"));
    let mut heard = Vec::new();
    while let Some(published) = watch.next().await.unwrap() {
        heard.push(name(&published.event));
    }
    assert_eq!(heard, seen, "whoever watches at the other hears the same, once");
    assert_eq!(pair.a.actors.inputs.lock().unwrap().len(), 1, "the answer was taken elsewhere");
}

#[tokio::test(flavor = "multi_thread")]
async fn d1_a_run_that_moves_at_one_is_cancelled_at_the_other() {
    let (pair, run) = sending().await;
    pair.b.engine.cancel(&run, "enough", "", &someone()).await.unwrap();
    pair.a.actors.given_up().await;
    assert!(matches!(status(&pair.a.engine, &run).await, HeadStatus::Cancelled(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_a_look_at_what_another_drives_changes_nothing() {
    let (pair, run) = sending().await;
    let (b, who) = (&pair.b.engine, someone());
    // The first piece of what is said is on its way while its speaker waits: the tenth event.
    let before = loop {
        let head = b.head(&run, &who).await.unwrap();
        if head.version >= 10 {
            break head;
        }
    };
    b.run(&run, &who).await.unwrap();
    b.journal(&run, 100, &who).await.unwrap();
    b.checkpoints(&run, &who).await.unwrap();
    b.inbox(&who, &InboxFilter::default(), None, 10).await.unwrap();
    b.recover().await.unwrap();
    assert_eq!(b.head(&run, &who).await.unwrap(), before);
    assert_eq!(pair.b.actors.inputs.lock().unwrap().len(), 0);
    pair.a.actors.gate("send").add_permits(1);
    let heard = to_the_end(b, &run).await;
    assert!(!heard.contains(&"step_failed"), "{heard:?}");
    assert_eq!(heard.last(), Some(&"completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn e3_what_the_dead_have_left_is_finished_by_another_once() {
    let (pair, run) = sending().await;
    // It is taken for dead, and does not know it yet.
    let dead = pair.a.journal.incarnation().0;
    let sql = format!("delete from holdpoint.replicas where incarnation = {dead}");
    pair.database.client().await.batch_execute(&sql).await.unwrap();
    // The other takes it, or the same one in another life.
    tokio::select! {
        () = pair.a.actors.asked() => {}
        () = pair.b.actors.asked() => {}
    }
    pair.a.actors.gate("send").add_permits(2);
    pair.b.actors.gate("send").add_permits(1);
    let watch = pair.b.engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
    let heard = all(watch).await;
    assert_eq!(names(&heard).last(), Some(&"completed"));
    let ended = heard.iter().filter(|told| matches!(&*told.event, Event::StepCompleted { .. }));
    assert_eq!(ended.count(), 2, "each step once");
}

#[tokio::test(flavor = "multi_thread")]
async fn j4_whoever_was_taken_for_dead_does_nothing_twice() {
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], payers).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    let run = begun.run.to_string();
    pair.a.actors.asked().await;
    let dead = pair.a.journal.incarnation();
    let sql = format!("delete from holdpoint.replicas where incarnation = {}", dead.0);
    pair.database.client().await.batch_execute(&sql).await.unwrap();
    let watch = pair.b.engine.watch(&run, 0, Until::CurrentRest, &someone()).await.unwrap();
    let request = request_of(&all(watch).await);
    assert_eq!(pair.calls().len(), 1, "E2: nobody knows whether it happened: a person is asked");
    pair.a.actors.gate("pay").add_permits(1);
    let said = answer(&request, json!({"verb": "happened", "result": "done"}));
    let begun = pair.a.engine.answer(said, &someone()).await.unwrap();
    assert_eq!(names(&all(begun.watch).await).last(), Some(&"completed"));
    assert_eq!(pair.calls().len(), 1, "one yes, one deed");
}

#[tokio::test(flavor = "multi_thread")]
async fn k2_of_two_answers_at_once_one_wins_and_the_other_is_told_who() {
    for _ in 0..5 {
        let (pair, run, request) = asked(Patience::default(), writers).await;
        let who = someone();
        let (one, other) = tokio::join!(
            pair.a.engine.answer(answer(&request, json!("approve")), &who),
            pair.b.engine.answer(answer(&request, json!("reject")), &who),
        );
        let outcomes = [one.map(drop), other.map(drop)];
        assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1, "{outcomes:?}");
        let refused = outcomes.into_iter().find_map(Result::err).unwrap();
        let is_told = matches!(
            refused,
            EngineError::Refused(Refusal::AlreadyAnswered { .. } | Refusal::RequestClosed { .. })
        );
        assert!(is_told, "{refused:?}");
        let told = to_the_end(&pair.a.engine, &run).await;
        let ends = |name: &&&str| ["answered", "closed"].contains(*name);
        assert_eq!(told.iter().filter(ends).count(), 1, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j8_a_hook_put_at_one_is_told_of_what_the_other_writes() {
    let (pair, run) = sending().await;
    let id = RunId::parse(&run).unwrap();
    let hook = Hook { id: "h1".into(), url: "https://example.org/".into(), ..Hook::default() };
    pair.b.engine.put_hook(&id, hook, &someone()).await.unwrap();
    pair.a.actors.gate("send").add_permits(1);
    to_the_end(&pair.a.engine, &run).await;
    let last = pair.a.engine.head(&run, &someone()).await.unwrap().version;
    let until_told = async {
        while pair.post.told.lock().unwrap().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), until_told).await.unwrap();
    assert_eq!(*pair.post.told.lock().unwrap(), [("push:h1".to_owned(), last)], "once");
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_a_deadline_comes_once() {
    let patience =
        Patience { deadline_ms: Some(1_000), on_timeout: OnTimeout::Reject, ..Patience::default() };
    let (pair, run, _) = asked(patience, writers).await;
    let heard = to_the_end(&pair.b.engine, &run).await;
    assert_eq!(heard, to_the_end(&pair.a.engine, &run).await);
    assert_eq!(heard.iter().filter(|name| **name == "closed").count(), 1, "{heard:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k11_a_no_in_a_fork_at_one_counts_at_the_other() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let fork = ForkRequest { run: run.clone(), ..ForkRequest::default() };
    let forked = pair.b.engine.fork(fork, &someone()).await.unwrap().run.to_string();
    let head = pair.b.engine.head(&forked, &someone()).await.unwrap();
    let open = head.questions[0].id(&head.run).to_string();
    pair.b.engine.answer(answer(&open, json!("reject")), &someone()).await.unwrap();
    let outcome = pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await;
    let Err(EngineError::Refused(refusal)) = outcome.map(drop) else { panic!("the no was lost") };
    assert_eq!(refusal.code(), "request.asked_anew", "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k4_a_halt_at_one_stops_the_other_before_the_next_deed() {
    let actors = || payers().slowly("worker");
    let pair = Pair::new(&[with_tool(Safety::Unsafe)], actors).await;
    let begun = pair.a.engine.start(start("with_tool", "", ""), &someone()).await.unwrap();
    pair.a.actors.asked().await;
    let wish = HaltRequest { scope: Scope::All, reason: "odd".into(), key: String::new() };
    let halt = pair.b.engine.halt(wish, &someone()).await.unwrap();
    // It is let come home, and what would follow is not done.
    let version = pair.b.engine.head(&begun.run.to_string(), &someone()).await.unwrap().version;
    pair.a.actors.gate("worker").add_permits(9);
    pair.b.actors.gate("worker").add_permits(9);
    let gone_on = async {
        let run = begun.run.to_string();
        while pair.b.engine.head(&run, &someone()).await.unwrap().version == version {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone_on).await.unwrap();
    assert_eq!(pair.calls(), []);
    pair.b.engine.release_halt(&halt.id, &someone()).await.unwrap();
    pair.a.actors.gate("pay").add_permits(1);
    pair.b.actors.gate("pay").add_permits(1);
    assert_eq!(to_the_end(&pair.b.engine, &begun.run.to_string()).await.last(), Some(&"completed"));
    assert_eq!(pair.calls().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_starts_with_one_key_begin_one_run() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let who = someone();
    let (one, other) = tokio::join!(
        pair.a.engine.start(start("approval", "", "k"), &who),
        pair.b.engine.start(start("approval", "", "k"), &who),
    );
    assert_eq!(one.unwrap().run, other.unwrap().run);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_session_at_both_spend_of_one_budget() {
    let mut workflow = chat(100);
    let session = Budget { model_calls: Some(2), ..Budget::default() };
    let (run, on_exceeded) = (Budget::default(), OnExceeded::Fail);
    workflow.limits.budgets = Budgets { run, session, on_exceeded, deadline_ms: None };
    let actors = || Actors::default().says("host", "Well.").slowly("host");
    let pair = Pair::new(&[workflow], actors).await;
    let afresh = |engine: &Engine| {
        let request = StartRequest { afresh: true, ..start("chat", "shared", "") };
        let engine = engine.clone();
        async move { engine.start(request, &someone()).await.unwrap().run.to_string() }
    };
    let (a, b) = (&pair.a.engine, &pair.b.engine);
    let runs: [String; 4] = tokio::join!(afresh(a), afresh(b), afresh(a), afresh(b)).into();
    let two_failed = async {
        let mut failed = 0;
        while failed < 2 {
            failed = 0;
            for run in &runs {
                failed += usize::from(matches!(status(b, run).await, HeadStatus::Failed(_)));
            }
        }
    };
    tokio::time::timeout(Duration::from_mins(1), two_failed).await.unwrap();
    let calls = |node: &Node| node.actors.inputs.lock().unwrap().len();
    assert_eq!(calls(&pair.a) + calls(&pair.b), 2, "no call beyond it was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_inbox_at_one_shows_what_the_other_asks_and_hears_of_the_answer() {
    let pair = Pair::new(&[approval(Patience::default())], writers).await;
    let mut inbox = pair.b.engine.watch_inbox(someone(), InboxFilter::default());
    assert!(matches!(inbox.next().await.unwrap(), InboxChange::CaughtUp));
    let begun = pair.a.engine.start(start("approval", "", ""), &someone()).await.unwrap();
    let request = request_of(&all(begun.watch).await);
    let InboxChange::Opened(opened) = inbox.next().await.unwrap() else { panic!("nothing") };
    assert_eq!(opened.id().to_string(), request);
    pair.a.engine.answer(answer(&request, json!("approve")), &someone()).await.unwrap();
    let closed = inbox.next().await.unwrap();
    let InboxChange::Closed { how, by, .. } = &closed else { panic!("{closed:?}") };
    assert_eq!((*how, by.as_str()), ("answered", "local"));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_gives_back_when_it_leaves_another_takes_at_once() {
    let (pair, run) = sending().await;
    pair.a.engine.shut_down(Duration::ZERO).await;
    pair.b.actors.asked().await;
    pair.b.actors.gate("send").add_permits(1);
    assert_eq!(to_the_end(&pair.b.engine, &run).await.last(), Some(&"completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_halt_waits_for_the_decision_that_is_being_written_and_none_comes_after_it() {
    let (pair, run, request) = asked(Patience::default(), writers).await;
    let (lock, look) = (pair.database.client().await, pair.database.client().await);
    lock.batch_execute("begin; lock table holdpoint.entries in share mode").await.unwrap();
    let waits = async |kind: &str, count: i64| {
        let sql = "select count(*) from pg_locks where not granted and locktype = $1
            and database = (select oid from pg_database where datname = current_database())";
        while look.query_one(sql, &[&kind]).await.unwrap().get::<_, i64>(0) < count {
            tokio::task::yield_now().await;
        }
    };
    let engine = pair.a.engine.clone();
    let answered = tokio::spawn(async move {
        engine.answer(answer(&request, json!("approve")), &someone()).await.map(drop)
    });
    waits("relation", 1).await;
    let engine = pair.b.engine.clone();
    let wish = HaltRequest { scope: Scope::All, reason: "why".into(), key: String::new() };
    let halted = tokio::spawn(async move { engine.halt(wish, &someone()).await });
    waits("advisory", 1).await;
    assert!(!halted.is_finished(), "what is being written is written first");
    lock.batch_execute("commit").await.unwrap();
    answered.await.unwrap().unwrap();
    halted.await.unwrap().unwrap();
    assert!(!matches!(status(&pair.b.engine, &run).await, HeadStatus::Waiting(_)));
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_what_rests_on_what_is_kept_is_not_written_once_that_is_another() {
    let database = Database::made().await;
    let [a, b] = [database.open().await.journal(), database.open().await.journal()];
    rests_on_what_is_kept([&*a, &*b]).await;
}
