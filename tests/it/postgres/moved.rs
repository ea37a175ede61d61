//! A store goes from a directory into a database, in the server that serves it or in a command: every id stays, what was
//! acknowledged is there once, and of the two stores exactly one is in charge, wherever it is cut off.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use holdpoint::kernel::{Millis, SessionId};
use holdpoint::ports::identity::Identity;
use holdpoint::ports::{AppendError, Hook, HookRow, Note, Noting, SessionRow};
use holdpoint::store::moving::{Move, MoveError};
use holdpoint::store::{PostgresConfig, StoreConfig, transfer};
use holdpoint::wire::v1::{RunWorkflowRequest, SendResponsesRequest, WorkflowEvent};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::support::kit::Play;
use crate::support::postgres::Database;
use crate::support::server::{
    Client, Key, Server, Setup, answer_to, asked, dial, drained, forget_settings, journal, names,
    run, send, start_of,
};
use crate::support::tool_server::{Answer, ToolServer};
use crate::terminal::cli::{Ended, holdpoint, with_env};

/// A bound on everything that is waited for here.
const PATIENCE: Duration = Duration::from_mins(5);
/// Runs that wait when the move begins; `HOLDPOINT_MOVE_WAITING` says another number.
const WAITING: usize = 150;
/// Clients that start, answer and are answered all the while; `HOLDPOINT_MOVE_CLIENTS` says another number.
const CLIENTS: usize = 6;

fn setting(name: &str, usual: usize) -> usize {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap())
}

/// Asks, and then pays.
fn payment(tool: &ToolServer) -> Value {
    json!({
        "name": "payment",
        "pattern": "sequential",
        "steps": [{"id": "ask", "human": {"kind": "approval", "prompt": "Pay 7?"}}, {"agent": "clerk"}],
        "models": {"m": {"provider": "scripted", "script": [
            {"agent": "clerk", "turn": 1, "call": [{"tool": "pay", "arguments": {"amount": 7}}]},
            {"agent": "clerk", "say": "The tool said: {{last}}"},
        ]}},
        "tools": {"pay": {
            "provider": "http", "safety": "unsafe",
            "settings": {
                "method": "POST", "url": tool.url("/pay"), "allow_private": true, "timeout": "1h",
            },
        }},
        "agents": {"clerk": {"tools": ["pay"]}},
    })
}

/// A folder with the workflow in it, and whoever is paid through.
pub(crate) async fn folder() -> (TempDir, ToolServer) {
    let root = TempDir::new().unwrap();
    let tool = ToolServer::start([("/pay", Answer::Json(json!("receipt 7")))]).await;
    fs::create_dir_all(root.path().join("flows")).unwrap();
    fs::write(root.path().join("flows/payment.yaml"), payment(&tool).to_string()).unwrap();
    (root, tool)
}

/// The address with a word in it that must stand nowhere.
const WORD: &str = "hidden-word";

fn with_word(database: &Database) -> String {
    database.address().replacen("holdpoint@", &format!("holdpoint:{WORD}@"), 1)
}

fn moved(root: &Path, address: &str) -> Ended {
    let words = ["store", "move", "--data", "data", "--json"];
    with_env(root, &words, "", &[("HOLDPOINT_MOVE_TO", address)])
}

/// Serving the directory is refused, with where to go and without the password.
fn refused_here(root: &Path) {
    let told = holdpoint(root, &["serve", "--listen", "127.0.0.1:0", "--data", "data"], "");
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("was moved to the database at"), "{told:?}");
    assert!(!told.err.contains(WORD), "{told:?}");
    let format = fs::read_to_string(root.join("data/format")).unwrap();
    assert!(!format.contains(WORD), "{format}");
}

/// Whoever serves the database is refused: it is half of a store.
fn refused_there(root: &Path, address: &str) {
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", "elsewhere", "--store", address];
    // A key that was made there would be gone when the move ends.
    for words in [&words[..], &["keys", "add", "kim", "--data", "elsewhere", "--store", address]] {
        let told = holdpoint(root, words, "");
        assert_ne!(told.code, 0, "{words:?}: {told:?}");
        assert!(told.err.contains("move into this store did not come to its end"), "{told:?}");
    }
}

/// Asks to pay: the run, and its request.
async fn waits(client: &mut Client, key: &str) -> (String, String) {
    let told = run(client, start_of("payment", "", "Pay.", key)).await;
    (told[0].run_id.clone(), asked(&told).unwrap().request_id)
}

/// What the callers have in common.
struct Shared {
    waiting: Vec<(String, String)>,
    next: AtomicUsize,
    is_over: AtomicBool,
}

/// A caller that goes on when it is told to come again, as callers do.
struct Caller {
    server: String,
    client: Option<Client>,
}

/// What came of a call, or that it is to be made again.
fn again(outcome: Result<Vec<WorkflowEvent>, Status>) -> Option<Vec<WorkflowEvent>> {
    match outcome {
        Ok(told) => Some(told),
        Err(status) => {
            let passes = [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal];
            assert!(passes.contains(&status.code()), "{status:?}");
            None
        }
    }
}

impl Caller {
    async fn client(&mut self) -> &mut Client {
        if self.client.is_none() {
            self.client = Some(dial(&self.server, Key::default()).await.unwrap());
        }
        self.client.as_mut().unwrap()
    }

    async fn start(&mut self, request: &RunWorkflowRequest) -> Vec<WorkflowEvent> {
        loop {
            let called = self.client().await.run_workflow(request.clone()).await;
            let told = match called {
                Ok(stream) => drained(stream.into_inner()).await,
                Err(status) => Err(status),
            };
            if let Some(told) = again(told) {
                return told;
            }
            self.client = None;
        }
    }

    /// Starts and approves its own, now and then one that waits; some more once the database is
    /// in charge, and then everything that still waits. What it began.
    async fn goes_on(mut self, number: usize, shared: Arc<Shared>) -> Vec<String> {
        let mut begun = Vec::new();
        loop {
            let was_over = shared.is_over.load(Ordering::SeqCst);
            let key = format!("{number} {}", begun.len());
            let told = self.start(&start_of("payment", "", "Pay.", &key)).await;
            let request = asked(&told).unwrap().request_id;
            begun.push(told[0].run_id.clone());
            self.answer(&answer_to(&request, "approve", &format!("yes {key}"))).await;
            if !was_over && !begun.len().is_multiple_of(4) {
                continue;
            }
            let at = shared.next.fetch_add(1, Ordering::SeqCst);
            let Some((_, request)) = shared.waiting.get(at) else {
                if was_over {
                    return begun;
                }
                continue;
            };
            self.answer(&answer_to(request, "approve", &format!("old {at}"))).await;
        }
    }

    async fn answer(&mut self, request: &SendResponsesRequest) {
        loop {
            let called = self.client().await.send_responses(request.clone()).await;
            let told = match called {
                Ok(stream) => drained(stream.into_inner()).await,
                Err(status) => Err(status),
            };
            if again(told).is_some() {
                return;
            }
            self.client = None;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_moves_while_it_is_served_and_nothing_is_lost_or_done_twice() {
    let (root, tool) = folder().await;
    let database = Database::empty().await;
    let server = Setup::new(root.path()).start();
    let (runs, clients) =
        (setting("HOLDPOINT_MOVE_WAITING", WAITING), setting("HOLDPOINT_MOVE_CLIENTS", CLIENTS));
    let mut asking = Vec::new();
    for number in 0..clients {
        let mut client = server.client().await;
        asking.push(tokio::spawn(async move {
            let mut waiting = Vec::new();
            for key in (number..runs).step_by(clients) {
                waiting.push(waits(&mut client, &format!("waiting {key}")).await);
            }
            waiting
        }));
    }
    let mut waiting = Vec::new();
    for asked in asking {
        waiting.extend(asked.await.unwrap());
    }
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let shared = Arc::new(Shared { waiting, next, is_over });
    let callers: Vec<_> = (0..clients)
        .map(|number| {
            let caller = Caller { server: server.address().to_owned(), client: None };
            tokio::spawn(caller.goes_on(number, Arc::clone(&shared)))
        })
        .collect();
    let (folder, address) = (root.path().to_owned(), with_word(&database));
    let ended = tokio::task::spawn_blocking(move || moved(&folder, &address)).await.unwrap();
    assert_eq!(ended.code, 0, "{ended:?} {}", server.told());
    println!("moved: {}", ended.out);
    shared.is_over.store(true, Ordering::SeqCst);
    let mut runs: Vec<_> = shared.waiting.iter().map(|(run, _)| run.clone()).collect();
    for caller in callers {
        runs.extend(tokio::time::timeout(PATIENCE, caller).await.unwrap().unwrap());
    }
    // Everything that was acknowledged is there once, and was done once.
    let mut client = server.client().await;
    for run in &runs {
        let told = tokio::time::timeout(PATIENCE, journal(&mut client, run)).await.unwrap();
        let answers = names(&told).iter().filter(|name| **name == "response_received").count();
        assert_eq!((answers, names(&told).last()), (1, Some(&"completed")), "{run}");
    }
    assert_eq!(tool.seen().len(), runs.len(), "one yes, one deed");
    assert!(!ended.out.contains(WORD) && !server.told().contains(WORD), "{}", server.told());
    refused_here(root.path());
    assert_eq!(server.page("/readyz").0, 200);
    let told = holdpoint(root.path(), &["verify", "--store", &database.address()], "");
    assert_eq!(told.code, 0, "{told:?}");
    let told =
        holdpoint(root.path(), &["doctor", "--store", &database.address(), "--data", "x"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

/// Starts a server that dies there while its store moves; the run that waits, and its request.
pub(crate) async fn cut_off(root: &Path, address: &str, point: &str) -> (String, String) {
    let server = Setup::new(root).failpoint(point, 1).start();
    let waiting = waits(&mut server.client().await, point).await;
    let wish = json!({"to": address}).to_string();
    fs::write(root.join("data/move.new"), wish).unwrap();
    fs::rename(root.join("data/move.new"), root.join("data/move.json")).unwrap();
    let ended = tokio::time::timeout(PATIENCE, server.ended()).await;
    ended.unwrap_or_else(|_| panic!("{point} is never passed: {}", server.told()));
    waiting
}

/// It is answered there, and done.
pub(crate) async fn is_done(server: &Server, (run, request): &(String, String)) {
    let mut client = server.client().await;
    let told = send(&mut client, answer_to(request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn until_the_switch_the_directory_is_in_charge_wherever_a_move_is_cut_off() {
    let (root, _tool) = folder().await;
    let (root, database) = (root.path(), Database::empty().await);
    let address = database.address();
    for point in [
        "move.reached",
        "move.begun",
        "move.copying",
        "move.retired",
        "move.compared",
        "move.whole",
    ] {
        let waiting = cut_off(root, &address, point).await;
        refused_there(root, &address);
        let server = Setup::new(root).start();
        is_done(&server, &waiting).await;
    }
    // And the same command begins anew.
    let ended = moved(root, &address);
    assert_eq!(ended.code, 0, "{ended:?}");
    refused_here(root);
}

#[tokio::test(flavor = "multi_thread")]
async fn from_the_switch_on_the_database_is_in_charge_wherever_a_move_is_cut_off() {
    for (point, is_by_command) in [("move.left", true), ("move.left", false), ("move.over", false)]
    {
        let (root, tool) = folder().await;
        let (root, database) = (root.path(), Database::empty().await);
        let address = database.address();
        let waiting = cut_off(root, &address, point).await;
        refused_here(root);
        if is_by_command {
            refused_there(root, &address);
            let ended = moved(root, &address);
            assert_eq!(ended.code, 0, "{ended:?}");
        }
        // Whoever serves the database with that directory beside it goes on by itself.
        let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
        is_done(&server, &waiting).await;
        assert_eq!(tool.seen().len(), 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_nobody_serves_is_moved_as_it_is_and_a_cut_move_again() {
    let (root, tool) = folder().await;
    let (root, database) = (root.path(), Database::empty().await);
    let address = database.address();
    let mut server = Setup::new(root).start();
    let mut client = server.client().await;
    let waiting = waits(&mut client, "one").await;
    let done = waits(&mut client, "two").await;
    is_done(&server, &done).await;
    server.terminate();
    assert_eq!(server.wait().code(), Some(0), "{}", server.told());
    let told = holdpoint(root, &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let told = holdpoint(root, &["export", "before.jsonl", "--data", "data"], "");
    assert_eq!(told.code, 0, "{told:?}");
    for point in ["move.copying:1", "move.whole:1"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        forget_settings(&mut command);
        let command = command.args(["store", "move", "--data", "data", "--to", &address]);
        let ended = command.current_dir(root).env("HOLDPOINT_FAILPOINT", point).output().unwrap();
        assert_eq!(ended.status.code(), None, "it was to be killed: {ended:?}");
        refused_there(root, &address);
    }
    let ended = moved(root, &address);
    assert_eq!((ended.code, &ended.json()["runs"]), (0, &json!(2)), "{ended:?}");
    refused_here(root);
    let ended = moved(root, &address);
    assert_eq!(ended.code, 0, "once more changes nothing: {ended:?}");
    // It is the same store: what comes out is what was in it, byte by byte.
    let told = holdpoint(root, &["export", "after.jsonl", "--store", &address, "--data", "x"], "");
    assert_eq!(told.code, 0, "{told:?}");
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();
    assert_eq!(read("before.jsonl"), read("after.jsonl"));
    let key = fs::read_to_string(root.join("data/audit.pub")).unwrap();
    let words = ["verify", "--store", &address, "--data", "x", "--key", key.trim()];
    let told = holdpoint(root, &words, "");
    assert_eq!(told.code, 0, "the heads that were signed before hold: {told:?}");
    // Its keys came along: a server that has nothing else of it lets nobody in without one.
    let fresh = root.join("fresh");
    fs::create_dir_all(fresh.join("flows")).unwrap();
    let server = Setup::new(&fresh).env("HOLDPOINT_STORE", &address).start();
    let stranger =
        server.client().await.send_responses(answer_to(&waiting.1, "approve", "no")).await;
    assert_eq!(stranger.unwrap_err().code(), Code::Unauthenticated);
    let told = holdpoint(root, &["doctor", "--store", &address, "--data", "x"], "");
    assert!(told.out.contains("1 in the database"), "{told:?}");
    drop(server);
    // As if there had never been any.
    fs::remove_file(root.join("data/keys.toml")).unwrap();
    let no_keys = "delete from holdpoint.kept where name in ('mown.keys', 'mown.posture')";
    database.client().await.batch_execute(no_keys).await.unwrap();
    let server = Setup::new(root).env("HOLDPOINT_STORE", &address).start();
    is_done(&server, &waiting).await;
    assert_eq!(tool.seen().len(), 2);
    // A database that has a store of its own takes no other.
    let told = moved(root, &address);
    assert_eq!(told.code, 0, "{told:?}");
    fs::create_dir_all(root.join("other")).unwrap();
    let words = ["run", "payment", "Pay.", "--data", "other/data", "--workflows", "flows"];
    assert_ne!(holdpoint(root, &words, "").code, 1);
    let told = moved(&root.join("other"), &address);
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("has a store of its own"), "{told:?}");
}

/// Everything that a store gives away.
async fn export_of(journal: &dyn holdpoint::ports::Journal) -> String {
    let mut file = Vec::new();
    transfer::export(journal, &mut file, &mut |_| {}).await.unwrap();
    String::from_utf8(file).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_while_a_store_is_copied_comes_along_and_what_differs_is_not_switched() {
    let (root, database) = (TempDir::new().unwrap(), Database::empty().await);
    let config = PostgresConfig::new(&database.address()).unwrap();
    let store = holdpoint::store::open(&StoreConfig::new(root.path())).await.unwrap();
    let journal = store.journal();
    Identity::fresh("epoch".into()).keep(&*journal).await.unwrap();
    let mut plays = Vec::new();
    for number in 1..=40 {
        let (play, begin) = Play::begin(number, &format!("s{number}"), "ann", 10);
        let (digest, definition) = crate::support::kit::definition(&play.run.workflow);
        journal.put_definition(&digest, &definition).await.unwrap();
        journal.append(begin).await.unwrap();
        plays.push(play);
    }
    let mut moving = Move::begin(&store, &config, "one".into()).await.unwrap();
    moving.copy(&|_| {}).await.unwrap();
    // Somebody takes something out of the database meanwhile.
    let client = database.client().await;
    client.batch_execute("delete from holdpoint.entries").await.unwrap();
    let differs = moving.finish().await;
    assert!(matches!(differs, Err(MoveError::Differs(_))), "{differs:?}");
    // The directory is in charge, and goes on.
    let more = plays[0].speak("more", 20);
    journal.append(more).await.unwrap();

    let mut moving = Move::begin(&store, &config, "two".into()).await.unwrap();
    moving.copy(&|_| {}).await.unwrap();
    let more = plays[1].speak("meanwhile", 30);
    journal.append(more).await.unwrap();
    let (mut late, begin) = Play::begin(99, "late", "bob", 30);
    journal.append(begin).await.unwrap();
    let run = plays[2].run.id.clone();
    let hook = Hook { id: "h".into(), url: "http://listener".into(), ..Hook::default() };
    journal.put_hook(&HookRow { run, hook }).await.unwrap();
    let alone = SessionId::parse("alone").unwrap();
    journal.put_session(None, SessionRow::new(alone, "ann", Millis(30))).await.unwrap();
    journal.note(Noting::once(Millis(40), Note::Restored)).await.unwrap();
    journal.remember("something", "of its own").await.unwrap();
    journal.evidence().sequence(1_000).await.unwrap();
    moving.catch_up().await.unwrap();
    let more = late.speak("at the last moment", 50);
    journal.append(more).await.unwrap();
    let moved = moving.finish().await.unwrap();
    assert_eq!(moved.runs, 41);
    // It takes nothing more, and says so to whoever would write.
    let refused = journal.append(plays[5].speak("too late", 60)).await;
    assert!(matches!(refused, Err(AppendError::Fault(_))), "{refused:?}");

    let there = database.open().await.journal();
    assert_eq!(export_of(&*journal).await, export_of(&*there).await);
    assert_eq!(there.remembered("something").await.unwrap().as_deref(), Some("of its own"));
    assert_eq!(
        journal.evidence().tree().await.unwrap(),
        there.evidence().tree().await.unwrap(),
        "the log of leaves is the same"
    );
    let (here, other) =
        (journal.notes(None, 50).await.unwrap(), there.notes(None, 50).await.unwrap());
    assert_eq!(here.rows.len(), other.rows.len());
    let report = there.verify().await.unwrap();
    assert!(report.damage.is_empty(), "{:?}", report.damage);
}
