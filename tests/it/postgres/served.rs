//! Several servers over one PostgreSQL, the real binary of each: what is begun at one is answered at another while the
//! first is dead, frozen or leaves, and while the database itself falls over. Nothing is lost, and nothing happens twice.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use holdpoint::store::PostgresConfig;
use holdpoint::wire::json::Json;
use holdpoint::wire::v1::{SendResponsesRequest, WorkflowEvent};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::postgres::{Database, Private};
use crate::support::server::{
    Server, Setup, answer_to, asked, drained, forget_settings, journal, names, run, send, start_of,
};
use crate::support::tool_server::{Answer, ToolServer};

/// A bound on everything that is waited for here: far more than it takes.
const PATIENCE: Duration = Duration::from_mins(5);

/// What a start says before it knows why it waits.
pub(crate) const UNANSWERED: &str = "waiting: the database has not answered yet";

/// Asks, and then pays.
fn payment(tool: &ToolServer, safety: &str) -> Value {
    json!({
        "name": "payment",
        "pattern": "sequential",
        "steps": [{"id": "ask", "human": {"kind": "approval", "prompt": "Pay 7?"}}, {"agent": "clerk"}],
        "models": {"m": {"provider": "scripted", "script": [
            {"agent": "clerk", "turn": 1, "call": [{"tool": "pay", "arguments": {"amount": 7}}]},
            {"agent": "clerk", "say": "The tool said: {{last}}"},
        ]}},
        "tools": {"pay": {
            "provider": "http", "safety": safety,
            "settings": {
                "method": "POST", "url": tool.url("/pay"), "allow_private": true, "timeout": "1h",
            },
        }},
        "agents": {"clerk": {"tools": ["pay"]}},
    })
}

/// Servers over one database, each with a directory of its own.
pub(crate) struct House {
    pub(crate) root: TempDir,
    pub(crate) tool: ToolServer,
    pub(crate) servers: Vec<Server>,
}

impl House {
    pub(crate) async fn open(
        address: &str,
        count: usize,
        (safety, answer): (&str, Answer),
    ) -> Self {
        let root = TempDir::new().unwrap();
        let tool = ToolServer::start([("/pay", answer)]).await;
        let flow = payment(&tool, safety).to_string();
        let servers = (0..count).map(|number| {
            let own = root.path().join(number.to_string());
            std::fs::create_dir_all(own.join("flows")).unwrap();
            std::fs::write(own.join("flows/payment.yaml"), &flow).unwrap();
            setup(&own, address).start()
        });
        let servers = servers.collect();
        Self { root, tool, servers }
    }

    /// Asked at the first of them: the run, and what it asks.
    pub(crate) async fn asked(&self, key: &str) -> (String, String) {
        let mut client = self.servers[0].client().await;
        let told = run(&mut client, start_of("payment", "", "Pay.", key)).await;
        (told[0].run_id.clone(), asked(&told).unwrap().request_id)
    }

    /// Everything that one of them tells of a run until it rests.
    pub(crate) async fn told(&self, at: usize, run: &str) -> Vec<WorkflowEvent> {
        let mut client = self.servers[at].client().await;
        tokio::time::timeout(PATIENCE, journal(&mut client, run)).await.unwrap()
    }
}

pub(crate) fn setup(own: &Path, address: &str) -> Setup {
    Setup::new(own).env("HOLDPOINT_STORE", address).arg("--drain-seconds").arg("0")
}

/// A page of whoever listens there, if anybody does.
pub(crate) fn page_of(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(head.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let status = answer.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_once("\r\n\r\n")?.1.to_owned()))
}

fn happened(request: &str) -> SendResponsesRequest {
    let said: Json = json!({"verb": "happened", "result": "receipt 7"}).into();
    SendResponsesRequest { responses: [(request.to_owned(), said)].into(), ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_began_another_finishes_when_the_first_is_dead() {
    let database = Database::made().await;
    let answer = Answer::Json(json!("receipt 7"));
    let mut house = House::open(&database.address(), 3, ("unsafe", answer)).await;
    let (run, request) = house.asked("k").await;
    house.servers[0].kill();
    assert_eq!(names(&house.told(1, &run).await).last(), Some(&"status"), "watched at another");
    let mut client = house.servers[1].client().await;
    let told = send(&mut client, answer_to(&request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
    assert_eq!(house.tool.seen().len(), 1, "one yes, one deed");
    // The same answer again, at the third: it is known there, too.
    let mut client = house.servers[2].client().await;
    send(&mut client, answer_to(&request, "approve", "yes")).await;
    let told = house.told(2, &run).await;
    assert_eq!(names(&told).iter().filter(|name| **name == "response_received").count(), 1);
    assert_eq!(house.tool.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_frozen_and_wakes_does_nothing_twice() {
    let database = Database::made().await;
    let answer = Answer::Gated(json!("receipt 7"));
    let house = House::open(&database.address(), 2, ("unsafe", answer)).await;
    let (run, request) = house.asked("k").await;
    let (waiting, other) = (house.asked("l").await, &house.servers[1]);
    let mut client = house.servers[0].client().await;
    let yes = answer_to(&request, "approve", "yes");
    let stream = client.send_responses(yes).await.unwrap().into_inner();
    house.tool.asked().await;
    house.servers[0].freeze();
    // Meanwhile another question of the frozen one is answered at the other.
    let mut client = other.client().await;
    let answered = client.send_responses(answer_to(&waiting.1, "reject", "no")).await.unwrap();
    drained(answered.into_inner()).await.unwrap();
    // Nobody knows whether it was paid: a person is asked, once the other has taken the run.
    let told = house.told(1, &run).await;
    let check = asked(&told).unwrap().request_id;
    assert_ne!(check, request, "{told:?}");
    assert_eq!(house.tool.seen().len(), 1);
    send(&mut client, happened(&check)).await;
    house.tool.open_gate();
    house.servers[0].thaw();
    drop(stream);
    let (one, two) = (house.told(0, &run).await, house.told(1, &run).await);
    assert_eq!(names(&one), names(&two));
    assert_eq!(names(&one).last(), Some(&"completed"));
    assert_eq!(house.tool.seen().len(), 1, "one yes, one deed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_falls_over_loses_nothing_and_doubles_nothing() {
    let server = tokio::task::spawn_blocking(|| Private::start(&[])).await.unwrap();
    let address = server.address("postgres");
    holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&address, 3, ("idempotent", answer)).await;
    let mut asked = Vec::new();
    for number in 0..6 {
        asked.push(house.asked(&format!("k{number}")).await);
    }
    let falls = tokio::task::spawn_blocking(move || {
        for _ in 0..3 {
            server.restart(&[]);
        }
        server
    });
    let answers = asked.iter().enumerate().map(|(number, (_, request))| {
        let server = &house.servers[number % 3];
        async move {
            let mut client = server.client().await;
            // Until it is acknowledged: with its key it counts once.
            loop {
                let yes = answer_to(request, "approve", &format!("yes-{number}"));
                if let Ok(stream) = client.send_responses(yes).await
                    && drained(stream.into_inner()).await.is_ok()
                {
                    return;
                }
                tokio::task::yield_now().await;
            }
        }
    });
    tokio::time::timeout(PATIENCE, futures::future::join_all(answers)).await.unwrap();
    let _server = falls.await.unwrap();
    for (run, _) in &asked {
        let over = tokio::time::timeout(PATIENCE, async {
            loop {
                let mut client = house.servers[0].client().await;
                let request = holdpoint::wire::v1::WatchRunRequest {
                    run_id: run.clone(),
                    ..Default::default()
                };
                if let Ok(stream) = client.watch_run(request).await
                    && let Ok(told) = drained(stream.into_inner()).await
                    && names(&told).last() == Some(&"completed")
                {
                    return told;
                }
                tokio::task::yield_now().await;
            }
        });
        let told = over.await.unwrap();
        let answers = names(&told).iter().filter(|name| **name == "response_received").count();
        assert_eq!(answers, 1, "{run}");
    }
    let mut keys: Vec<_> = house.tool.seen().iter().map(|seen| seen.key().to_owned()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 6, "one deed for each yes, by its key");
    for server in &house.servers {
        assert_eq!(server.page("/healthz").0, 200, "nobody had to be started again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_leaves_hands_over_at_once() {
    let database = Database::made().await;
    let answer = Answer::Gated(json!("receipt 7"));
    let mut house = House::open(&database.address(), 2, ("idempotent", answer)).await;
    let (run, request) = house.asked("k").await;
    let mut client = house.servers[0].client().await;
    let yes = answer_to(&request, "approve", "yes");
    let stream = client.send_responses(yes).await.unwrap().into_inner();
    house.tool.asked().await;
    house.servers[0].terminate();
    drop((stream, client));
    assert_eq!(house.servers[0].wait().code(), Some(0), "{}", house.servers[0].told());
    let client = database.client().await;
    let left = "select count(*) from holdpoint.runs where holder is not null
        and holder not in (select incarnation from holdpoint.replicas)";
    let left = client.query_typed_one(left, &[]).await.unwrap().get::<_, i64>(0);
    assert_eq!(left, 0, "what it held is nobody's, or the other's already");
    house.tool.asked().await;
    house.tool.open_gate();
    let told = tokio::time::timeout(PATIENCE, async {
        loop {
            let told = house.told(1, &run).await;
            if names(&told).last() == Some(&"completed") {
                return;
            }
        }
    });
    told.await.unwrap();
    let seen = house.tool.seen();
    assert_eq!((seen.len(), seen[0].key()), (2, seen[1].key()), "again, with the same key");
    assert!(house.root.path().exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_listens_before_the_database_has_answered() {
    let both = tokio::task::spawn_blocking(Private::with_standby).await.unwrap();
    let (primary, standby) = both;
    let address = format!("{}?durability=replicated", primary.address("postgres"));
    holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
    // From here on every commit waits.
    let stopped = tokio::task::spawn_blocking(move || {
        standby.stop();
        standby
    });
    let standby = stopped.await.unwrap();
    let root = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut starting = setup(root.path(), &address).listen(&port.to_string()).spawn();
    let page = async |path: &str| {
        loop {
            if let Some(told) = page_of(port, path) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    let (status, told) = tokio::time::timeout(PATIENCE, page("/readyz")).await.unwrap();
    assert!(status == 503 && told.starts_with(UNANSWERED), "{status}: {told}");
    assert_eq!(page("/healthz").await.0, 200, "it lives");
    let reason = async {
        loop {
            let (_, told) = page("/readyz").await;
            if !told.starts_with(UNANSWERED) {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, reason).await.unwrap();
    assert!(told.contains("waits for a synchronous standby"), "{told}");
    starting.kill().unwrap();
    starting.wait().unwrap();
    drop((primary, standby));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_waits_for_its_database_and_says_why_it_is_not_ready() {
    let server = tokio::task::spawn_blocking(|| Private::start(&[])).await.unwrap();
    let address = server.address("postgres");
    holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
    server.stop();
    let root = TempDir::new().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = setup(root.path(), &address).listen(&port.to_string());
    let starting = tokio::task::spawn_blocking(move || setup.start());
    let page = async |path: &str| {
        loop {
            if let Some(told) = page_of(port, path).filter(|(_, told)| !told.contains(UNANSWERED)) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    let (status, told) = tokio::time::timeout(PATIENCE, page("/readyz")).await.unwrap();
    assert_eq!(status, 503);
    assert!(
        told.contains("waiting: the database at") && told.contains("cannot be reached"),
        "{told}"
    );
    assert_eq!(page("/healthz").await.0, 200, "it lives");
    let private = tokio::task::spawn_blocking(move || {
        crate::support::postgres::launch(server.dir.path(), &[]);
        server
    });
    let private = private.await.unwrap();
    let served = tokio::time::timeout(PATIENCE, starting).await.unwrap().unwrap();
    let (status, told) = served.page("/readyz");
    assert!(status == 200 && told.starts_with("ready\n"), "{told}");
    // And again, while it serves.
    let private = tokio::task::spawn_blocking(move || {
        private.stop();
        private
    });
    let _private = private.await.unwrap();
    let unready = async {
        loop {
            let (status, told) = page("/readyz").await;
            if status != 200 {
                return told;
            }
        }
    };
    let told = tokio::time::timeout(PATIENCE, unready).await.unwrap();
    assert!(told.contains("the database"), "{told}");
    let log = served.told();
    assert_eq!(log.matches("the database is away").count(), 1, "once, in plain words: {log}");
    assert_eq!(page("/healthz").await.0, 200, "nobody need start it again");
}

fn holdpoint(address: &str, arguments: &[&str]) -> (i32, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    forget_settings(&mut command);
    let root = TempDir::new().unwrap();
    let output = command.args(arguments).env("HOLDPOINT_STORE", address).current_dir(root.path());
    let output = output.output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code().unwrap(), String::from_utf8(told).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_is_made_by_its_command_and_by_no_other() {
    let database = Database::empty().await;
    let address = database.address();
    let (code, told) = holdpoint(&address, &["serve", "--listen", "127.0.0.1:0"]);
    assert_ne!(code, 0);
    assert!(told.contains("holdpoint store migrate"), "{told}");
    let (code, told) = holdpoint(&address, &["store", "migrate"]);
    assert!(code == 0 && told.contains("made a store"), "{told}");
    let (code, told) = holdpoint(&address, &["store", "migrate", "--json"]);
    assert!(code == 0 && told.contains("\"made\":false"), "{told}");
    let (code, told) = holdpoint(&address, &["doctor"]);
    assert!(code == 0 && told.contains("0 runs"), "{told}");
    let (code, told) = holdpoint(&address, &["inbox"]);
    assert_eq!(code, 0, "whoever looks may: {told}");
    let (code, told) = holdpoint(&address, &["run", "approve_and_send", "x"]);
    assert_ne!(code, 0, "{told}");
    assert!(told.contains("--server"), "{told}");
    let (code, told) = holdpoint("postgres://ann:p@ss@w/rd@db/x", &["serve"]);
    assert_ne!(code, 0);
    assert!(told.contains("%40"), "{told}");
    assert!(!told.contains("p@ss"), "no password is told: {told}");
    let (_, told) = holdpoint("postgres://ann:hunter2@db/x", &["--dump-config"]);
    assert!(told.contains("store = ") && !told.contains("hunter2"), "{told}");
}
