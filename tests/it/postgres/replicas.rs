//! Servers over one PostgreSQL, as whoever operates them sees them: who there is and who drives what, a newer build that
//! waits for an older one, a database that has gone back in time, and one that is not to be trusted any more though
//! everybody is still connected to it.

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use holdpoint::store::{Migrated, PostgresConfig};
use holdpoint::wire::v1::{
    ListAuditRequest, ListHaltsRequest, ListReplicasRequest, ReleaseHaltRequest,
    ReleaseStoreRequest, WatchRunRequest,
};
use serde_json::json;
use tempfile::TempDir;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::postgres::served::{House, UNANSWERED, page_of, setup};
use crate::support::postgres::{Database, Private, launch};
use crate::support::server::{Client, Server, answer_to, asked, drained, journal, names, send};
use crate::support::tool_server::Answer;

/// A bound on everything that is waited for here: far more than it takes.
const PATIENCE: Duration = Duration::from_mins(5);

/// Returns what a page says once it says it with these words, or no longer does.
pub(crate) async fn said(server: &Server, path: &str, is_it: impl Fn(u16, &str) -> bool) -> String {
    let look = async {
        loop {
            let (status, told) = server.page(path);
            if is_it(status, &told) {
                return told;
            }
            tokio::task::yield_now().await;
        }
    };
    let told = tokio::time::timeout(PATIENCE, look).await;
    told.unwrap_or_else(|_| panic!("{path}: {:?}; {}", server.page(path), server.told()))
}

pub(crate) async fn ready(server: &Server) {
    said(server, "/readyz", |status, told| status == 200 && told.starts_with("ready\n")).await;
}

async fn private(settings: &'static [&'static str]) -> (Private, String) {
    let server = tokio::task::spawn_blocking(move || Private::start(settings)).await.unwrap();
    let address = server.address("postgres");
    holdpoint::store::migrate(&PostgresConfig::new(&address).unwrap()).await.unwrap();
    (server, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_share_a_store_are_listed_with_what_they_drive() {
    let database = Database::made().await;
    let answer = Answer::Gated(json!("receipt 7"));
    let house = House::open(&database.address(), 2, ("idempotent", answer)).await;
    let (run, request) = house.asked("k").await;
    let mut client = house.servers[0].client().await;
    let yes = answer_to(&request, "approve", "yes");
    let stream = client.send_responses(yes).await.unwrap().into_inner();
    house.tool.asked().await;
    let mut other = house.servers[1].client().await;
    let listed = other.list_replicas(ListReplicasRequest {}).await.unwrap().into_inner().replicas;
    assert_eq!(listed.len(), 2, "{listed:?}");
    let (own, others): (Vec<_>, Vec<_>) = listed.iter().partition(|replica| replica.is_self);
    assert_eq!((own.len(), own[0].runs_driven, others[0].runs_driven), (1, 0, 1), "{listed:?}");
    assert_eq!(others[0].address, house.servers[0].address());
    assert_eq!(others[0].version, env!("CARGO_PKG_VERSION"));
    assert!(!others[0].name.is_empty() && !others[0].draining, "{listed:?}");
    assert!(others[0].start_time.is_some() && others[0].beat_time.is_some(), "{listed:?}");
    let told =
        said(&house.servers[1], "/readyz", |_, told| told.contains("share the store: 2")).await;
    assert!(told.starts_with("ready\n"), "{told}");
    let (status, page) = house.servers[1].page("/console/replicas");
    assert!(status == 200 && page.contains(house.servers[0].address()), "{page}");
    assert!(page.contains("(this one)") && page.contains("serving"), "{page}");
    let (_, page) = house.servers[1].page(&format!("/console/runs/{run}"));
    // Both run on this machine: its name alone says nothing.
    let driver = format!("({})", house.servers[0].address());
    assert!(page.contains("Driven by") && page.contains(&driver), "{page}");
    house.tool.open_gate();
    drained(stream).await.unwrap();
    let (_, page) = house.servers[1].page(&format!("/console/runs/{run}"));
    assert!(!page.contains("Driven by"), "nobody drives what is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_taken_for_dead_is_named_in_the_log_and_so_is_the_database() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let server = setup(root.path(), &database.address()).start();
    let place = PostgresConfig::new(&database.address()).unwrap().place();
    assert!(server.told().contains(&place), "where it serves from: {}", server.told());
    let died =
        "insert into holdpoint.replicas (incarnation, until, name, address, program, reads, writes)
        select 7, now() - interval '1 hour', 'attic', '192.0.2.7:4653', '0.0.9', reads, writes
        from holdpoint.replicas limit 1";
    database.client().await.batch_execute(died).await.unwrap();
    while !server.told().contains("is taken for dead") {
        tokio::task::yield_now().await;
    }
    assert!(server.told().contains("attic (192.0.2.7:4653)"), "{}", server.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_has_its_store_alone_lists_nobody() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let mut client = server.client().await;
    let listed = client.list_replicas(ListReplicasRequest {}).await.unwrap().into_inner();
    assert!(listed.replicas.is_empty(), "{listed:?}");
    assert!(server.page("/console/replicas").1.contains("has its store alone"));
    assert_eq!(server.page("/readyz"), (200, "ready\n".into()));
}

/// Somebody who lives for an hour, and reads and writes these forms.
fn somebody(reads: i32, writes: i32) -> String {
    format!(
        "insert into holdpoint.replicas (incarnation, until, name, program, reads, writes)
         values (7, now() + interval '1 hour', 'attic', '0.0.9', {reads}, {writes})"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_build_waits_until_nobody_is_left_who_cannot_read_what_it_writes() {
    let database = Database::made().await;
    let client = database.client().await;
    client.batch_execute(&somebody(2, 2)).await.unwrap();
    let root = TempDir::new().unwrap();
    let port: SocketAddr = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let setup = setup(root.path(), &database.address()).listen(&port.to_string());
    let starting = tokio::task::spawn_blocking(move || setup.start());
    let waiting = async {
        loop {
            let page = page_of(port, "/readyz").filter(|(_, told)| !told.contains(UNANSWERED));
            if let Some((status, told)) = page {
                return (status, told);
            }
            tokio::task::yield_now().await;
        }
    };
    let (status, told) = tokio::time::timeout(PATIENCE, waiting).await.unwrap();
    assert_eq!(status, 503);
    for word in ["attic (0.0.9)", "reads records up to form 2", "upgraded or stopped"] {
        assert!(told.contains(word), "{told}");
    }
    let form = client.query_typed_one("select form from holdpoint.meta", &[]).await.unwrap();
    assert_eq!(form.get::<_, i32>(0), 3, "as the store was made");
    client.batch_execute("delete from holdpoint.replicas where incarnation = 7").await.unwrap();
    let served = tokio::time::timeout(PATIENCE, starting).await.unwrap().unwrap();
    ready(&served).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_later_build_reads_is_not_served() {
    let database = Database::made().await;
    let client = database.client().await;
    let config = PostgresConfig::new(&database.address()).unwrap();
    for (change, back) in [
        ("update holdpoint.meta set form = 6", "update holdpoint.meta set form = 5"),
        (somebody(6, 6).as_str(), "delete from holdpoint.replicas where incarnation = 7"),
    ] {
        client.batch_execute(change).await.unwrap();
        let refused = holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err();
        assert!(!refused.may_pass(), "{refused}");
        assert!(refused.to_string().contains("a later build wrote there"), "{refused}");
        client.batch_execute(back).await.unwrap();
    }
    holdpoint::store::open_postgres(&config).await.unwrap().journal().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_build_before_is_raised_and_keeps_what_it_has() {
    let database = Database::made().await;
    let client = database.client().await;
    let before = "drop table holdpoint.marks; drop table holdpoint.desks;
        alter table holdpoint.runs drop column desks;
        alter table holdpoint.meta drop column form;
        alter table holdpoint.replicas drop column name, drop column address, drop column program, drop column since,
          drop column draining, drop column reads, drop column writes;
        insert into holdpoint.definitions (digest, body) values ('d', 'b');
        update holdpoint.meta set schema = 1";
    client.batch_execute(before).await.unwrap();
    let config = PostgresConfig::new(&database.address()).unwrap();
    let refused = holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err();
    assert!(refused.to_string().contains("holdpoint store migrate"), "{refused}");
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Raised);
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Current);
    holdpoint::store::open_postgres(&config).await.unwrap().journal().close().await;
    let kept = client.query_typed_one("select count(*) from holdpoint.definitions", &[]).await;
    assert_eq!(kept.unwrap().get::<_, i64>(0), 1);
}

/// What a watcher is told in the end who saw more of the run than there is now.
async fn refused_watcher(client: &mut Client, run: &str, last: u64) -> Status {
    loop {
        let request =
            WatchRunRequest { run_id: run.to_owned(), after_sequence: last, ..Default::default() };
        let told = match client.watch_run(request).await {
            Ok(stream) => drained(stream.into_inner()).await,
            Err(status) => Err(status),
        };
        if let Err(status) = told
            && status.code() != Code::Unavailable
        {
            return status;
        }
    }
}

/// Until the store's log says that the payment was begun in what is missing.
async fn lost_deed_noted(client: &mut Client) {
    let request = ListAuditRequest { store: true, ..Default::default() };
    loop {
        let log = client.list_audit(request.clone()).await.unwrap().into_inner().entries;
        let is_it = |note: &str| note.contains("begun in what is missing: pay");
        if log.iter().any(|entry| entry.action == "rewound" && is_it(&entry.note)) {
            return;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_a_database_that_went_back_is_said_so_and_waits_for_an_operator() {
    let (database, address) = private(&[]).await;
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&address, 2, ("unsafe", answer)).await;
    let (run, request) = house.asked("k").await;
    // A copy of everything, as a standby has it that then gets nothing more.
    let copy = TempDir::new().unwrap();
    let (database, copy) = tokio::task::spawn_blocking(move || {
        database.stop();
        database.copy_to(copy.path());
        launch(database.dir.path(), &[]);
        (database, copy)
    })
    .await
    .unwrap();
    ready(&house.servers[0]).await;
    let mut client = house.servers[0].client().await;
    let told = loop {
        // The database has just come back: until it is acknowledged.
        let yes = answer_to(&request, "approve", "yes");
        if let Ok(stream) = client.send_responses(yes).await
            && let Ok(told) = drained(stream.into_inner()).await
        {
            break told;
        }
    };
    assert_eq!(names(&told).last(), Some(&"completed"));
    let last = told.last().unwrap().sequence;
    let database = tokio::task::spawn_blocking(move || {
        database.stop();
        std::fs::remove_dir_all(database.dir.path().join("data")).unwrap();
        let mut back = std::process::Command::new("cp");
        back.arg("-a").arg(copy.path().join("data")).arg(database.dir.path().join("data"));
        assert!(back.status().unwrap().success());
        launch(database.dir.path(), &[]);
        database
    });
    let _database = database.await.unwrap();
    for server in &house.servers {
        let told = said(server, "/readyz", |_, told| told.contains("gone back in time")).await;
        assert!(told.contains("holdpoint release"), "{told}");
        assert_eq!(server.page("/readyz").0, 503);
    }
    let figure = |server: &Server| {
        let page = server.page("/metrics").1;
        page.lines().any(|line| line == "holdpoint_store_rewound_total 1")
    };
    assert!(house.servers.iter().all(figure), "it is counted, at each");
    assert!(house.servers.iter().all(|server| server.told().contains("gone back in time")));
    // Nobody is held up by silence: whoever saw more than there is now is told so.
    let watched = refused_watcher(&mut client, &run, last);
    let refused = tokio::time::timeout(PATIENCE, watched).await.unwrap();
    let reason = refused.get_details_error_info().unwrap().reason;
    assert_eq!((refused.code(), reason.as_str()), (Code::DataLoss, "store.rewound"));
    // Nothing is decided before somebody has looked; what was begun in what is missing is told.
    let held = client.send_responses(answer_to(&request, "approve", "again")).await.unwrap_err();
    let reason = held.get_details_error_info().unwrap().reason;
    assert!(["store.held", "request.asked_anew"].contains(&reason.as_str()), "{held}");
    let noted = lost_deed_noted(&mut client);
    tokio::time::timeout(PATIENCE, noted).await.expect("the deed that is lost stands in the log");
    client.release_store(ReleaseStoreRequest::default()).await.unwrap();
    for server in &house.servers {
        ready(server).await;
    }
    let told = journal(&mut client, &run).await;
    let anew = asked(&told).unwrap().request_id;
    assert_ne!(anew, request, "it is asked anew");
    assert_eq!(house.tool.seen().len(), 1, "nothing was done meanwhile");
    let told = send(&mut client, answer_to(&anew, "reject", "no")).await;
    assert!(told.len() > 1);
    assert_eq!(house.tool.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_are_taken_away_are_noticed_by_whoever_is_connected() {
    let database = Database::made().await;
    let client = database.client().await;
    let role = format!("clerk_{}", database.name);
    let made = format!(
        "create role {role} login; grant usage on schema holdpoint to {role};
         grant select, insert, update, delete on all tables in schema holdpoint to {role}"
    );
    client.batch_execute(&made).await.unwrap();
    let address = database.address().replace("holdpoint@", &format!("{role}@"));
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&address, 1, ("unsafe", answer)).await;
    let (run, request) = house.asked("k").await;
    let server = &house.servers[0];
    ready(server).await;
    client.batch_execute(&format!("revoke insert on holdpoint.entries from {role}")).await.unwrap();
    // A busy machine may have said other things before.
    let denied = "permission denied to insert in holdpoint.entries";
    said(server, "/readyz", |status, told| status == 503 && told.contains(denied)).await;
    assert_eq!(server.page("/healthz").0, 200, "it lives");
    let mut grpc = server.client().await;
    let refused = grpc.send_responses(answer_to(&request, "approve", "yes")).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    client.batch_execute(&format!("grant insert on holdpoint.entries to {role}")).await.unwrap();
    ready(server).await;
    let told = send(&mut grpc, answer_to(&request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"), "{run}");
    drop(house);
    client.batch_execute(&format!("drop owned by {role}; drop role {role}")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_reload_that_turns_syncing_off_is_noticed_and_nothing_is_acknowledged_meanwhile() {
    let (database, address) = private(&[]).await;
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&address, 1, ("unsafe", answer)).await;
    let (_, request) = house.asked("k").await;
    let (server, client) = (&house.servers[0], database.client().await);
    for (setting, word) in
        [("fsync", "fsync = off"), ("synchronous_commit", "synchronous_commit = off")]
    {
        ready(server).await;
        client.batch_execute(&format!("alter system set {setting} = off")).await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
        // A busy machine may have said other things before.
        let told =
            said(server, "/readyz", |status, told| status == 503 && told.contains(word)).await;
        let undo = format!("`alter system reset {setting}` at the server");
        assert!(told.contains(&undo) && told.contains("`select pg_reload_conf()`"), "{told}");
        let mut grpc = server.client().await;
        let refused = grpc.send_responses(answer_to(&request, "approve", "yes")).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unavailable, "{refused}");
        client.batch_execute(&format!("alter system reset {setting}")).await.unwrap();
        client.batch_execute("select pg_reload_conf()").await.unwrap();
    }
    ready(server).await;
    let told = send(&mut server.client().await, answer_to(&request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_halt_by_a_file_says_at_every_server_on_which_machine_and_where_that_lies() {
    let database = Database::made().await;
    let answer = Answer::Json(json!("receipt 7"));
    let house = House::open(&database.address(), 2, ("unsafe", answer)).await;
    std::fs::write(house.root.path().join("0/data/HALT"), "fire").unwrap();
    let told = said(&house.servers[1], "/readyz", |_, told| told.contains("halted: ")).await;
    let mut client = house.servers[1].client().await;
    let halts = client.list_halts(ListHaltsRequest {}).await.unwrap().into_inner().halts;
    let halt = &halts[0];
    assert_eq!((halt.halt_id.as_str(), halt.principal.as_str()), ("halt_file", "file"));
    assert!(!halt.host.is_empty() && halt.path.ends_with("/0/data/HALT"), "{halt:?}");
    let machine = format!("(by file on {}: fire)", halt.host);
    assert!(told.contains(&machine) && !told.contains(&halt.path), "{told}");
    let (_, page) = house.servers[1].page("/console/inbox");
    assert!(page.contains(&format!("By file on {} since", halt.host)), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_file_on_one_machine_stopped_stays_stopped_when_that_machine_is_gone() {
    let database = Database::made().await;
    let answer = Answer::Json(json!("receipt 7"));
    let mut house = House::open(&database.address(), 2, ("unsafe", answer)).await;
    let (_, request) = house.asked("k").await;
    std::fs::write(house.root.path().join("0/data/HALT"), "fire").unwrap();
    said(&house.servers[1], "/readyz", |_, told| told.contains("halted: ")).await;
    drop(house.servers.remove(0));
    let server = &house.servers[0];
    // Once the other is dead for it, too.
    said(server, "/metrics", |_, told| told.contains("\nholdpoint_replicas 1\n")).await;
    let mut client = server.client().await;
    let refused = client.send_responses(answer_to(&request, "approve", "yes")).await.unwrap_err();
    assert_eq!(refused.get_details_error_info().unwrap().reason, "halted", "{refused}");
    // The machine is out of reach: an admin takes it back here.
    let release = ReleaseHaltRequest { halt_id: "halt_file".into(), reason: String::new() };
    client.release_halt(release).await.unwrap();
    let told = send(&mut client, answer_to(&request, "approve", "yes")).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
}
