//! What only a store on PostgreSQL has: processes that share it, answers that are lost on the way, and a database that
//! is not fit to be trusted. The contract of every store is in `contract*`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use holdpoint::kernel::Millis;
use holdpoint::ports::{
    Append, AppendError, Guard, Hint, Hold, Hook, HookRow, Journal, Rewind, Settlement, Token,
};
use holdpoint::store::{Migrated, PostgresConfig, PostgresError};

use crate::support::kit::{Play, WORDS, moved_to, run_id};
use crate::support::postgres::{Database, Private};

const TAKE: Hold = Hold::Take { from: None };
/// Connections that are cut under appends: more than an append is tried again for.
const CUTS: u64 = 24;

/// A database, and two processes that have it open.
pub(super) async fn pair() -> (Database, [Arc<dyn Journal>; 2]) {
    let database = Database::made().await;
    let both = [database.open().await.journal(), database.open().await.journal()];
    (database, both)
}

/// Lets the database's clock go on for whoever lives, or carries something.
async fn age(database: &Database, seconds: u32) {
    let sql = format!(
        "update holdpoint.replicas set until = until - interval '{seconds} seconds';
         update holdpoint.outbox set held_until = held_until - interval '{seconds} seconds'"
    );
    database.client().await.batch_execute(&sql).await.unwrap();
}

async fn refused(address: &str) -> PostgresError {
    let config = PostgresConfig::new(address).unwrap();
    holdpoint::store::open_postgres(&config).await.map(drop).unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn j12_the_living_are_displaced_by_nobody_who_does_not_name_them() {
    let (database, [one, other]) = pair().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    let held = one.append(Append { hold: TAKE, ..begin }).await.unwrap();
    let by = Some(one.incarnation());
    let refused = other.take(&run, None, play.run.version).await;
    assert!(matches!(&refused, Err(AppendError::Held { by: held }) if *held == by), "{refused:?}");
    let replicas = other.replicas().unwrap();
    assert_eq!(replicas.living().await.unwrap(), [one.incarnation(), other.incarnation()]);
    assert_eq!(replicas.stranded(10).await.unwrap(), []);
    let standing = replicas.standing(&run).await.unwrap().unwrap();
    assert_eq!(standing.holder, Some((one.incarnation(), true)));

    age(&database, 7).await;
    replicas.beat().await.unwrap().unwrap();
    assert_eq!(replicas.bury().await.unwrap().len(), 1);
    assert_eq!(replicas.stranded(10).await.unwrap(), std::slice::from_ref(&run));
    let taken = Append { hold: Hold::Take { from: by }, ..play.clone().speak("by another", 20) };
    other.append(taken).await.unwrap();
    let zombie = Append { fence: Some(held.fence), ..play.speak("by the dead", 20) };
    let refused = one.append(zombie).await;
    assert!(matches!(refused, Err(AppendError::Superseded)), "J4 comes before J3: {refused:?}");
    assert_eq!(one.replicas().unwrap().beat().await.unwrap(), None, "death is for good");
    let before = one.incarnation();
    one.replicas().unwrap().reborn().await.unwrap();
    assert_ne!(one.incarnation(), before);
    assert_eq!(one.replicas().unwrap().beat().await.unwrap(), Some(6_000));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_decided_on_must_not_have_changed_when_it_is_written() {
    let (_database, [one, other]) = pair().await;
    let (_, first) = Play::begin(1, "s", "ann", 10);
    let (_, second) = Play::begin(2, "s", "ann", 10);
    let guard = |number, raises| vec![Guard { name: "purse s".into(), number, raises }];
    one.append(Append { guards: guard(0, true), ..first }).await.unwrap();
    let refused = other.append(Append { guards: guard(0, false), ..second.clone() }).await;
    assert!(
        matches!(&refused, Err(AppendError::GuardMoved(name)) if name == "purse s"),
        "{refused:?}"
    );
    assert_eq!(other.head(&run_id(2)).await.unwrap(), None);
    let number = other.replicas().unwrap().guard("purse s").await.unwrap();
    other.append(Append { guards: guard(number, false), ..second }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_raise_one_guard_at_once_each_number_is_had_once() {
    let (_database, both) = pair().await;
    let mut tasks = Vec::new();
    for number in 1..=40 {
        let journal = Arc::clone(&both[usize::from(number % 2 == 0)]);
        let (_, begin) = Play::begin(number, "s", "ann", 10);
        tasks.push(tokio::spawn(async move {
            loop {
                let number = journal.replicas().unwrap().guard("purse s").await.unwrap();
                let guards = vec![Guard { name: "purse s".into(), number, raises: true }];
                match journal.append(Append { guards, ..begin.clone() }).await {
                    Ok(_) => return number,
                    Err(AppendError::GuardMoved(_)) => {}
                    Err(other) => panic!("{other}"),
                }
            }
        }));
    }
    let mut had = Vec::new();
    for task in tasks {
        had.push(task.await.unwrap());
    }
    had.sort_unstable();
    assert_eq!(had, (0..40).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn j8_whoever_does_not_know_of_a_listener_writes_nothing() {
    let (_database, [one, other]) = pair().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    one.append(begin).await.unwrap();
    let hook = Hook { id: "h".into(), url: "https://hooks.example".into(), ..Hook::default() };
    other.put_hook(&HookRow { run: run.clone(), hook }).await.unwrap();
    let guard = |number| vec![Guard { name: Guard::hooks(&run), number, raises: false }];
    let spoken = play.speak(WORDS, 20);
    let refused = one.append(Append { guards: guard(0), ..spoken.clone() }).await;
    assert!(matches!(refused, Err(AppendError::GuardMoved(_))), "{refused:?}");
    let standing = one.replicas().unwrap().standing(&run).await.unwrap().unwrap();
    one.append(Append { guards: guard(standing.hooks), ..spoken }).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_is_carried_by_one_of_them_and_by_another_when_that_takes_too_long() {
    let (database, [one, two]) = pair().await;
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    one.append(Append { channels: vec!["webhook".into()], ..begin }).await.unwrap();
    let take = async |journal: &Arc<dyn Journal>| {
        journal.replicas().unwrap().take_outbox_entries(Millis(1_000), 10).await.unwrap()
    };
    assert_eq!(take(&one).await.len(), 1);
    assert_eq!(take(&two).await.len(), 0);
    age(&database, 61).await;
    assert_eq!(take(&two).await.len(), 1, "whoever had it is taken for lost");
    one.settle(&play.run.id, "webhook", Settlement::Dropped).await.unwrap();
    let left = two.outbox_entries(Millis(1_000), 10).await.unwrap();
    assert_eq!(left.len(), 1, "what becomes of it is theirs to say");
    two.settle(&play.run.id, "webhook", Settlement::Dropped).await.unwrap();
    assert_eq!(two.outbox_entries(Millis(1_000), 10).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_group_each_is_written_or_refused_alone() {
    let (_database, [one, other]) = pair().await;
    let mut plays = Vec::new();
    for number in 1..=100 {
        let (play, begin) = Play::begin(number, "s", "ann", 10);
        one.append(begin).await.unwrap();
        plays.push(play);
    }
    // At the other, every third has gone on meanwhile.
    for play in plays.iter().step_by(3) {
        other.append(play.clone().speak("first", 20)).await.unwrap();
    }
    let appends = plays.iter_mut().map(|play| one.append(play.speak(WORDS, 30)));
    for (number, outcome) in futures::future::join_all(appends).await.into_iter().enumerate() {
        match outcome {
            Ok(appended) => assert!(number % 3 != 0 && appended.version > 1),
            refused => assert!(number % 3 == 0 && moved_to(refused) > 1),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j9_connections_that_are_cut_lose_nothing_and_double_nothing() {
    let (database, [journal, _]) = pair().await;
    let cut = Arc::new(AtomicU64::new(0));
    let (knife, counted) = (database.client().await, Arc::clone(&cut));
    let cutting = tokio::spawn(async move {
        let sql = "select count(pg_terminate_backend(pid)) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid()
              and query like '%holdpoint.append(%' and state = 'active'";
        while counted.load(Ordering::SeqCst) < CUTS {
            let row = knife.query_typed_one(sql, &[]).await.unwrap();
            counted.fetch_add(u64::try_from(row.get::<_, i64>(0)).unwrap(), Ordering::SeqCst);
            tokio::task::yield_now().await;
        }
    });
    let mut tasks = Vec::new();
    for number in 1..=16 {
        let (journal, (mut play, begin)) =
            (Arc::clone(&journal), Play::begin(number, "s", "ann", 10));
        tasks.push(tokio::spawn(async move {
            let by = journal.incarnation();
            let mut appends = vec![begin, play.speak(WORDS, 20), play.approve(30)];
            appends.push(play.speak("Booked.", 40));
            for (append, at) in appends.into_iter().zip(0..) {
                let token = Some(Token { by, number: number * 100 + at });
                let append = Append { token, ..append };
                // As the engine does: again, with its token, for as long as nobody knows.
                loop {
                    match journal.append(append.clone()).await {
                        Ok(_) => break,
                        Err(AppendError::Unknown(_) | AppendError::Fault(_)) => {}
                        Err(other) => panic!("{other}"),
                    }
                }
            }
            play
        }));
    }
    let mut plays = Vec::new();
    for task in tasks {
        plays.push(task.await.unwrap());
    }
    cutting.abort();
    assert!(cut.load(Ordering::SeqCst) > 0, "nothing was cut: nothing was tried");
    for play in plays {
        let read = journal.read(&play.run.id, 0, 1_000).await.unwrap();
        assert_eq!(read.len() as u64, play.run.version);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_writes_the_other_hears_of() {
    let (_database, [one, other]) = pair().await;
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    let replicas = other.replicas().unwrap();
    assert_eq!(replicas.hint().await, Some(Hint::Lost), "it has just begun to listen");
    one.append(begin).await.unwrap();
    let heard = tokio::time::timeout(Duration::from_secs(30), replicas.hint()).await.unwrap();
    assert_eq!(heard, Some(Hint::Run(play.run.id.clone(), 0)));
    other.close().await;
    assert_eq!(replicas.hint().await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_held_is_free_when_it_closes() {
    let (_database, [one, other]) = pair().await;
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    one.append(Append { hold: TAKE, ..begin }).await.unwrap();
    one.close().await;
    let replicas = other.replicas().unwrap();
    assert_eq!(replicas.stranded(10).await.unwrap(), std::slice::from_ref(&play.run.id));
    assert_eq!(replicas.living().await.unwrap(), [other.incarnation()]);
    other.take(&play.run.id, None, play.run.version).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn j6_a_row_that_somebody_changed_is_not_believed() {
    let (database, [journal, _]) = pair().await;
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    let client = database.client().await;
    let sql = "update holdpoint.entries set body = set_byte(body, length(body) - 9, 120)";
    client.batch_execute(sql).await.unwrap();
    let read = journal.read(&play.run.id, 0, 10).await.unwrap_err();
    assert!(read.to_string().contains("damaged"), "{read}");
    client.batch_execute("update holdpoint.runs set owner = 'bob'").await.unwrap();
    let report = journal.verify().await.unwrap();
    assert!(!report.damage.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_a_database_that_lacks_what_it_acknowledged_is_found_out_once() {
    let (database, [one, other]) = pair().await;
    let (_, begin) = Play::begin(1, "s", "ann", 10);
    one.append(begin).await.unwrap();
    let (replicas, others) = (one.replicas().unwrap(), other.replicas().unwrap());
    assert_eq!(replicas.look_back().await.unwrap(), None);
    let client = database.client().await;
    client.batch_execute("update holdpoint.marks set mark = 0").await.unwrap();
    assert_eq!(replicas.look_back().await.unwrap(), Some(Rewind { had: 1, has: 0 }));
    assert_eq!(replicas.look_back().await.unwrap(), None, "it is told once");
    assert_eq!(others.look_back().await.unwrap(), None, "nothing was acknowledged to it");
    others.beat().await.unwrap();
    // Further back than a life began.
    client.batch_execute("delete from holdpoint.marks").await.unwrap();
    assert!(others.look_back().await.unwrap().is_some());
    one.append(Play::begin(2, "s", "ann", 20).1).await.unwrap();
    assert_eq!(replicas.look_back().await.unwrap(), Some(Rewind { had: 2, has: 0 }));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_store_is_made_unless_somebody_says_so() {
    let database = Database::empty().await;
    let missing = refused(&database.address()).await;
    assert!(matches!(missing, PostgresError::NoStore { .. }), "{missing}");
    assert!(missing.to_string().contains("holdpoint store migrate"), "{missing}");
    let config = PostgresConfig::new(&database.address()).unwrap();
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Made);
    assert_eq!(holdpoint::store::migrate(&config).await.unwrap(), Migrated::Current);
    holdpoint::store::open_postgres(&config).await.unwrap().journal().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_schema_and_altered_tables_are_refused_with_the_remedy() {
    let database = Database::made().await;
    let client = database.client().await;
    for (schema, word) in [(3, "migrate"), (5, "later build")] {
        client
            .batch_execute(&format!("update holdpoint.meta set schema = {schema}"))
            .await
            .unwrap();
        let told = refused(&database.address()).await.to_string();
        assert!(told.contains(word), "{told}");
    }
    client.batch_execute("update holdpoint.meta set schema = 4").await.unwrap();
    for (change, back, word) in [
        ("drop column hooks", "add column hooks bigint not null default 0", "runs.hooks"),
        ("alter column holder type integer", "alter column holder type bigint", "runs.holder"),
        ("add column mine text", "drop column mine", "runs.mine"),
    ] {
        client.batch_execute(&format!("alter table holdpoint.runs {change}")).await.unwrap();
        let told = refused(&database.address()).await;
        assert!(matches!(told, PostgresError::Altered { .. }), "{told}");
        assert!(told.to_string().contains(word), "{told}");
        client.batch_execute(&format!("alter table holdpoint.runs {back}")).await.unwrap();
    }
    // What loses what was acknowledged, or lets somebody else decide what is written.
    let drops = "create function public.drops() returns trigger language plpgsql as 'begin return null; end'; \
        create trigger t before insert on holdpoint.entries for each row execute function public.drops()";
    for (change, back) in [
        ("alter table holdpoint.entries set unlogged", "alter table holdpoint.entries set logged"),
        (drops, "drop trigger t on holdpoint.entries"),
        (
            "create rule r as on insert to holdpoint.outbox do instead nothing",
            "drop rule r on holdpoint.outbox",
        ),
        (
            "alter table holdpoint.entries drop constraint entries_pkey",
            "alter table holdpoint.entries add primary key (run, last)",
        ),
        (
            "alter table holdpoint.runs enable row level security",
            "alter table holdpoint.runs disable row level security",
        ),
        // What keeps some rows out, hides them, brings foreign ones, or writes what nobody said.
        ("create unique index u on holdpoint.desks (run)", "drop index holdpoint.u"),
        (
            "alter table holdpoint.outbox alter column tries set default 7",
            "alter table holdpoint.outbox alter column tries set default 0",
        ),
        ("create table public.more () inherits (holdpoint.entries)", "drop table public.more"),
        ("create policy p on holdpoint.runs using (false)", "drop policy p on holdpoint.runs"),
    ] {
        client.batch_execute(change).await.unwrap();
        let told = refused(&database.address()).await;
        assert!(matches!(told, PostgresError::Altered { .. }), "{change}: {told}");
        client.batch_execute(back).await.unwrap();
    }
    database.open().await.journal().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_no_rights_is_told_so() {
    let database = Database::made().await;
    let client = database.client().await;
    let role = format!("stranger_{}", database.name);
    client.batch_execute(&format!("create role {role} login")).await.unwrap();
    let address = database.address().replace("holdpoint@", &format!("{role}@"));
    let told = refused(&address).await;
    assert!(matches!(told, PostgresError::Denied { .. }), "{told}");
    assert!(told.to_string().contains("permission denied"), "{told}");
    assert!(told.to_string().contains("`grant usage on schema holdpoint to USER`"), "{told}");
    let nowhere = database.address().replace(&database.name, "nowhere_at_all");
    let told = refused(&nowhere).await;
    assert!(matches!(told, PostgresError::Denied { .. }), "{told}");
    assert!(told.to_string().contains("`createdb NAME --owner USER`"), "{told}");
    assert!(!told.to_string().contains("grant"), "no right makes it: {told}");
    // One right of many.
    let given = format!(
        "grant usage on schema holdpoint to {role}; \
         grant select, insert, update, delete on all tables in schema holdpoint to {role}; \
         revoke delete on holdpoint.runs from {role}"
    );
    client.batch_execute(&given).await.unwrap();
    let told = refused(&address).await.to_string();
    assert!(told.contains("permission denied to delete in holdpoint.runs"), "{told}");
    assert!(told.contains(&format!("`grant delete on holdpoint.runs to {role}`")), "{told}");
    // Several at once, and not one a start.
    let revoke = format!("revoke delete on all tables in schema holdpoint from {role}");
    client.batch_execute(&revoke).await.unwrap();
    let told = refused(&address).await.to_string();
    let grant = format!("`grant delete on all tables in schema holdpoint to {role}` gives");
    assert!(told.contains(&grant), "{told}");
    let reads =
        format!("revoke insert, update, delete on all tables in schema holdpoint from {role}");
    client.batch_execute(&reads).await.unwrap();
    let told = refused(&address).await.to_string();
    assert!(told.contains("this role may only read") && !told.contains("grant"), "{told}");
    client.batch_execute(&format!("drop owned by {role}")).await.unwrap();
    client.batch_execute(&format!("drop role {role}")).await.unwrap();
    let away = PostgresConfig::new("postgres://ann@127.0.0.1:1/db").unwrap();
    let told = holdpoint::store::open_postgres(&away).await.map(drop).unwrap_err();
    assert!(matches!(told, PostgresError::Away { .. }) && told.may_pass(), "{told}");
    assert!(told.to_string().contains("check host and port in the address"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_may_lose_what_it_acknowledged_is_refused() {
    let database = Database::made().await;
    let client = database.client().await;
    let set = format!("alter database {} set synchronous_commit", database.name);
    client.batch_execute(&format!("{set} = off")).await.unwrap();
    let told = refused(&database.address()).await.to_string();
    assert!(told.contains("synchronous_commit = off"), "{told}");
    client.batch_execute(&format!("{set} = on")).await.unwrap();
    let set = format!("alter database {} set default_transaction_isolation", database.name);
    client.batch_execute(&format!("{set} = 'repeatable read'")).await.unwrap();
    let told = refused(&database.address()).await.to_string();
    assert!(told.contains("default_transaction_isolation = repeatable read"), "{told}");
    assert!(told.contains("set it to `read committed`; it is set on the database"), "{told}");
    client.batch_execute(&format!("{set} = 'read committed'")).await.unwrap();
    let told = refused(&format!("{}?durability=replicated", database.address())).await.to_string();
    assert!(told.contains("synchronous_standby_names = ''"), "{told}");
    assert!(told.contains("set it to those that must have") && !told.contains("`on`"), "{told}");
    database.open().await.journal().close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_does_not_sync_and_one_that_takes_no_writes_are_refused() {
    let server = tokio::task::spawn_blocking(|| Private::start(&["fsync=off"])).await.unwrap();
    let told = refused(&server.address("postgres")).await.to_string();
    assert!(told.contains("fsync = off"), "{told}");
    assert!(told.contains("`durability=platform` in the address gives up this check"), "{told}");
    let platform = format!("{}?durability=platform", server.address("postgres"));
    let told = refused(&platform).await;
    assert!(matches!(told, PostgresError::NoStore { .. }), "the platform keeps it: {told}");
    let server = tokio::task::spawn_blocking(move || {
        server.restart(&["full_page_writes=off"]);
        server
    });
    let server = server.await.unwrap();
    let told = refused(&server.address("postgres")).await.to_string();
    assert!(told.contains("full_page_writes = off"), "{told}");
    let server = tokio::task::spawn_blocking(move || {
        server.restart(&["wal_level=replica"]);
        server.stand_by();
        server
    });
    let server = server.await.unwrap();
    let told = refused(&server.address("postgres")).await;
    assert!(matches!(told, PostgresError::Standby { .. }) && told.may_pass(), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_several_hosts_takes_no_more_connections_the_longer_it_is_used() {
    let database = Database::made().await;
    let (one, rest) =
        database.address().split_once('@').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (host, name) = rest.split_once('/').unwrap();
    let config =
        PostgresConfig::new(&format!("{one}@{host},{host}/{name}?durability=single")).unwrap();
    let store = holdpoint::store::open_postgres(&config).await.unwrap();
    let client = database.client().await;
    let count = async || {
        let sql = "select count(*) from pg_stat_activity where datname = current_database()";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let replicas = store.journal();
    let replicas = replicas.replicas().unwrap();
    for _ in 0..6 {
        replicas.beat().await.unwrap();
    }
    let before = count().await;
    for _ in 0..60 {
        replicas.beat().await.unwrap();
    }
    // One that was just opened to look, and is not closed yet, may be among them.
    assert!(count().await <= before + 2, "{} and {before}", count().await);
    store.journal().close().await;
}
