//! Chaos: three servers, the real binary of each, over a real PostgreSQL with a synchronous standby, while one thing after
//! another fails: servers are killed and frozen, the line to the database is cut before and after a commit, the database
//! falls over, its standby hangs, hints are lost. People answer all the while. At the end every answer that was
//! acknowledged stands in one journal once, every deed was allowed and done once, whoever watched was told everything;
//! and the counters show that each fault really happened.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use holdpoint::store::PostgresConfig;
use holdpoint::wire::json::Json;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    RunWorkflowRequest, SendResponsesRequest, WatchRunRequest, WorkflowEvent,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::{Code, Status};

use crate::support::postgres::{Private, REPLICATED};
use crate::support::proxy::Proxy;
use crate::support::server::{Client, Key, Server, Setup, answer_to, dial, drained};
use crate::support::tool_server::{Answer, ToolServer};

/// A bound on whatever is waited for: far more than it takes.
const PATIENCE: Duration = Duration::from_mins(8);
/// After so long another server is asked: the first may be frozen.
const LOOK: Duration = Duration::from_secs(10);
/// Runs that are answered while one thing fails.
const AT_ONCE: usize = 6;

/// A bill that somebody lets be paid. What is paid slowly is paid once the gate is opened.
fn flow(name: &str, tool: &ToolServer, path: &str) -> Value {
    json!({
        "name": name,
        "models": {"default": {"provider": "scripted", "script": [{"say": "Done."}]}},
        "tools": {"pay": {
            "provider": "http", "safety": "unsafe",
            "settings": {"method": "POST", "url": tool.url(path), "allow_private": true, "timeout": "1h"},
        }},
        "gates": [{"name": "money", "tools": ["pay"]}],
        "agents": {"send": {"human_input": false}},
        "pattern": "graph",
        "graph": {"steps": [
            {"id": "pay", "tool": "pay", "arguments": {"amount": "${input.amount}"}},
            {"id": "send", "agent": "send"},
        ]},
    })
}

/// A bill: what it asks, and what was said to that.
#[derive(Debug, Clone)]
struct Bill {
    run: String,
    request: String,
    amount: usize,
    is_yes: bool,
}

/// Everything.
struct Bed {
    primary: Private,
    standby: Private,
    proxy: Proxy,
    tool: ToolServer,
    addresses: Vec<String>,
    /// Whoever is asked next.
    turn: AtomicUsize,
    numbers: AtomicUsize,
    bills: Mutex<Vec<Bill>>,
    _root: TempDir,
}

impl Bed {
    async fn made() -> (Self, Vec<Server>) {
        let both = tokio::task::spawn_blocking(Private::with_standby).await.unwrap();
        let (primary, standby) = both;
        let proxy = Proxy::to(&primary.socket()).await;
        let address =
            format!("postgres://holdpoint@{}/postgres?durability=replicated", proxy.address);
        holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
        let quick = ("/pay", Answer::Json(json!("paid")));
        let slow = ("/slow", Answer::Gated(json!("paid")));
        let (root, tool) = (TempDir::new().unwrap(), ToolServer::start([quick, slow]).await);
        let servers: Vec<_> =
            (0..3).map(|number| setup(root.path(), number, (&address, &tool)).start()).collect();
        let addresses = servers.iter().map(|server| server.address().to_owned()).collect();
        let (turn, numbers) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let (bills, root) = (Mutex::default(), root);
        let bed =
            Self { primary, standby, proxy, tool, addresses, turn, numbers, bills, _root: root };
        (bed, servers)
    }

    /// One of the servers, each in its turn; none if it is not there.
    async fn any(&self) -> Option<Client> {
        let turn = self.turn.fetch_add(1, Ordering::SeqCst);
        self.at(turn % self.addresses.len()).await
    }

    async fn at(&self, which: usize) -> Option<Client> {
        let dialled = tokio::time::timeout(LOOK, dial(&self.addresses[which], Key::default()));
        dialled.await.ok()?.ok()
    }

    /// Begins a bill, at whoever takes it; what it asks.
    async fn begun(&self, workflow: &str, is_yes: bool) -> Bill {
        let amount = self.numbers.fetch_add(1, Ordering::SeqCst) + 1;
        let request = RunWorkflowRequest {
            workflow_id: workflow.into(),
            input: Some(Json::from(json!({"amount": amount}))),
            idempotency_key: format!("start {amount}"),
            ..Default::default()
        };
        let told = loop {
            let Some(mut client) = self.any().await else { continue };
            let begun =
                async { drained(client.run_workflow(request.clone()).await?.into_inner()).await };
            match tokio::time::timeout(LOOK, begun).await {
                Ok(Ok(told)) if asked(&told).is_some() => break told,
                Ok(Ok(_)) | Err(_) => {}
                Ok(Err(status)) => passing(&status),
            }
        };
        let (run, request) = (told[0].run_id.clone(), asked(&told).unwrap());
        let bill = Bill { run, request, amount, is_yes };
        self.bills.lock().unwrap().push(bill.clone());
        bill
    }

    /// Says what is to be said of a bill until somebody has acknowledged it.
    async fn answered(&self, bill: &Bill) {
        let word = if bill.is_yes { "approve" } else { "reject" };
        let said = answer_to(&bill.request, word, &format!("answer {}", bill.amount));
        self.said(said).await;
    }

    async fn said(&self, said: SendResponsesRequest) {
        loop {
            let Some(mut client) = self.any().await else { continue };
            match tokio::time::timeout(LOOK, client.send_responses(said.clone())).await {
                Ok(Ok(_)) => return,
                Ok(Err(status)) => passing(&status),
                Err(_) => {}
            }
        }
    }

    /// Follows a bill to its end; where nobody knows whether it was paid, somebody says that it was.
    async fn over(&self, bill: &Bill) {
        loop {
            let Some(mut client) = self.any().await else { continue };
            let request = WatchRunRequest { run_id: bill.run.clone(), ..Default::default() };
            let watched = async { drained(client.watch_run(request).await?.into_inner()).await };
            let told = match tokio::time::timeout(LOOK, watched).await {
                Ok(Ok(told)) => told,
                Ok(Err(status)) => {
                    passing(&status);
                    continue;
                }
                Err(_) => continue,
            };
            let last = told.last().and_then(|told| told.event.as_ref());
            if let Some(Event::Completed(_) | Event::Failed(_) | Event::Cancelled(_)) = last {
                return;
            }
            if let Some(check) = asked(&told).filter(|check| *check != bill.request) {
                let value: Json = json!({"verb": "happened", "result": "paid"}).into();
                let idempotency_key = format!("check {check}");
                let responses = [(check, value)].into();
                let said =
                    SendResponsesRequest { responses, idempotency_key, ..Default::default() };
                self.said(said).await;
            }
        }
    }

    /// Bills are begun, answered and followed to their end while something fails.
    async fn bills_while<T>(&self, failing: impl Future<Output = T>) -> T {
        let bills = futures::future::join_all((0..AT_ONCE).map(|number| async move {
            let bill = self.begun("bill", number % 3 != 0).await;
            self.answered(&bill).await;
            self.over(&bill).await;
        }));
        let both = async { tokio::join!(bills, failing).1 };
        tokio::time::timeout(PATIENCE, both).await.expect("somebody waits for ever")
    }
}

fn setup(root: &Path, number: usize, (address, tool): (&str, &ToolServer)) -> Setup {
    let own = root.join(number.to_string());
    std::fs::create_dir_all(own.join("flows")).unwrap();
    for (name, path) in [("bill", "/pay"), ("slow", "/slow")] {
        let file = own.join(format!("flows/{name}.yaml"));
        std::fs::write(file, flow(name, tool, path).to_string()).unwrap();
    }
    Setup::new(&own).env("HOLDPOINT_STORE", address).arg("--drain-seconds").arg("0")
}

/// What a stream ends with that asks somebody.
fn asked(told: &[WorkflowEvent]) -> Option<String> {
    let Event::Status(status) = told.last()?.event.as_ref()? else { return None };
    let waiting = status.workflow_waiting.as_ref()?;
    waiting.requests.first().map(|request| request.request_id.clone())
}

/// A no that passes; any other is a fault of ours.
fn passing(status: &Status) {
    let codes = [Code::Unavailable, Code::Unknown, Code::Cancelled, Code::Internal];
    assert!(codes.contains(&status.code()), "{status:?}");
}

/// A figure of a server's own.
fn figure(server: &Server, name: &str) -> u64 {
    let (_, page) = server.page("/metrics");
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|rest| rest.trim().parse().ok()).unwrap_or(0)
}

fn signal(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_fails_no_answer_is_lost_doubled_or_misapplied() {
    let (bed, mut servers) = Bed::made().await;
    let mut seen = BTreeMap::new();
    seen.insert("killed", killed(&bed, &mut servers).await);
    seen.insert("reborn after a freeze", frozen(&bed, &servers).await);
    let (unheard, unsent) = cut(&bed).await;
    seen.insert("committed, and nobody heard", unheard);
    seen.insert("cut before it was sent", unsent);
    seen.insert("listeners cut off", unhinted(&bed).await);
    seen.insert("refused while the standby hung", hung(&bed).await);
    seen.insert("database fell over", fallen(&bed).await);
    assert!(seen.values().all(|count| *count > 0), "some of it did not happen: {seen:?}");
    judged(&bed).await;
    for server in &servers {
        assert_eq!(server.page("/healthz").0, 200);
    }
    eprintln!("{seen:?}; {} answers", bed.bills.lock().unwrap().len());
}

/// Servers are killed, one after the other, and come back.
async fn killed(bed: &Bed, servers: &mut [Server]) -> u64 {
    let killing = async {
        for server in servers.iter_mut() {
            // In the middle of something: another bill has just been begun.
            bed.begun("bill", true).await;
            tokio::task::block_in_place(|| server.restart_here());
        }
        servers.len() as u64
    };
    let count = bed.bills_while(killing).await;
    let all = bed.bills.lock().unwrap().clone();
    for bill in &all {
        bed.answered(bill).await;
        tokio::time::timeout(PATIENCE, bed.over(bill)).await.unwrap();
    }
    count
}

/// A server is frozen in the middle of a call, taken for dead, and wakes.
async fn frozen(bed: &Bed, servers: &[Server]) -> u64 {
    let bill = bed.begun("slow", true).await;
    let before = figure(&servers[0], "holdpoint_replica_reborn_total");
    let word = answer_to(&bill.request, "approve", &format!("answer {}", bill.amount));
    let stream = bed.at(0).await.unwrap().send_responses(word).await.unwrap();
    let asked = tokio::time::timeout(PATIENCE, bed.tool.asked_at("/slow"));
    asked.await.unwrap();
    servers[0].freeze();
    bed.bills_while(bed.over(&bill)).await;
    servers[0].thaw();
    bed.tool.open_gate();
    drop(stream);
    let woken = async {
        while figure(&servers[0], "holdpoint_replica_reborn_total") == before {
            tokio::task::yield_now().await;
        }
        figure(&servers[0], "holdpoint_replica_reborn_total") - before
    };
    tokio::time::timeout(PATIENCE, woken).await.unwrap()
}

/// The line to the database is cut before what is to be written comes there, and before anybody hears that it was.
async fn cut(bed: &Bed) -> (u64, u64) {
    let knife = &bed.proxy.knife;
    knife.cut(4);
    bed.bills_while(async {}).await;
    knife.cut(0);
    (knife.unheard.load(Ordering::SeqCst), knife.unsent.load(Ordering::SeqCst))
}

/// Whoever listens for hints is cut off, again and again: what others write is heard of all the same.
async fn unhinted(bed: &Bed) -> u64 {
    let client = bed.primary.client().await;
    let is_over = AtomicUsize::new(0);
    let cutting = async {
        let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where query ilike 'listen holdpoint%' and pid <> pg_backend_pid()";
        let mut count = 0;
        while is_over.load(Ordering::SeqCst) == 0 || count == 0 {
            let row = client.query_typed_one(sql, &[]).await.unwrap();
            count += u64::try_from(row.get::<_, i64>(0)).unwrap();
            tokio::task::yield_now().await;
        }
        count
    };
    // Each is watched at one server while it is answered at another.
    let watching = async {
        bed.bills_while(async {}).await;
        is_over.store(1, Ordering::SeqCst);
    };
    tokio::join!(cutting, watching).0
}

/// The standby hangs: nothing is acknowledged before it has it, and everything is once it goes on.
async fn hung(bed: &Bed) -> u64 {
    let bill = bed.begun("bill", true).await;
    let standby = bed.standby.client().await;
    let receiver = "select pid from pg_stat_wal_receiver where status = 'streaming'";
    let streaming = async {
        loop {
            if let Some(row) = standby.query_typed_opt(receiver, &[]).await.unwrap() {
                return row.get::<_, i32>(0);
            }
        }
    };
    let pid = tokio::time::timeout(PATIENCE, streaming).await.unwrap();
    signal(pid, Signal::STOP);
    let word = answer_to(&bill.request, "approve", &format!("answer {}", bill.amount));
    let refusing = async {
        let mut client = bed.at(1).await.unwrap();
        let refused = client.send_responses(word).await.map(drop);
        refused.expect_err("it was acknowledged, and the standby does not have it")
    };
    let refused = tokio::time::timeout(PATIENCE, refusing).await.unwrap();
    passing(&refused);
    signal(pid, Signal::CONT);
    tokio::time::timeout(PATIENCE, bed.answered(&bill)).await.unwrap();
    tokio::time::timeout(PATIENCE, bed.over(&bill)).await.unwrap();
    1
}

/// The database falls over, twice, as after a power cut.
async fn fallen(bed: &Bed) -> u64 {
    let falling = async {
        for _ in 0..2 {
            bed.begun("bill", false).await;
            tokio::task::block_in_place(|| bed.primary.restart(REPLICATED));
        }
        2
    };
    let count = bed.bills_while(falling).await;
    let all = bed.bills.lock().unwrap().clone();
    for bill in &all {
        bed.answered(bill).await;
        tokio::time::timeout(PATIENCE, bed.over(bill)).await.unwrap();
    }
    count
}

/// Everything is looked at: what each server tells of each run, and what the tool was really asked.
async fn judged(bed: &Bed) {
    let deeds = bed.tool.seen();
    let paid =
        |amount: usize| deeds.iter().filter(|seen| seen.json()["amount"] == json!(amount)).count();
    let bills = bed.bills.lock().unwrap().clone();
    for bill in &bills {
        let mut checks = 0;
        for which in 0..bed.addresses.len() {
            let mut client = bed.at(which).await.unwrap();
            let request = WatchRunRequest { run_id: bill.run.clone(), ..Default::default() };
            let told = drained(client.watch_run(request).await.unwrap().into_inner());
            let told = tokio::time::timeout(PATIENCE, told).await.unwrap().unwrap();
            let mut sequences = told.iter().map(|told| told.sequence).zip(1..);
            assert!(sequences.all(|(is, place)| is == place), "{bill:?}: a gap");
            let answers = told.iter().filter_map(|told| {
                let Some(Event::ResponseReceived(received)) = &told.event else { return None };
                Some(received.request_id.as_str())
            });
            let (own, others): (Vec<_>, Vec<_>) =
                answers.partition(|request| *request == bill.request);
            assert_eq!(own.len(), 1, "{bill:?}: its answer stands there once");
            checks = others.len();
        }
        let most = usize::from(bill.is_yes);
        let least = if checks > 0 { 0 } else { most };
        let count = paid(bill.amount);
        assert!((least..=most).contains(&count), "{bill:?} was paid {count} times");
    }
    let known: Vec<_> = bills.iter().map(|bill| json!(bill.amount)).collect();
    assert!(deeds.iter().all(|seen| known.contains(&seen.json()["amount"])), "{deeds:?}");
}
