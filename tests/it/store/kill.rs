//! Kill: the real server under load, killed at random and at every named point, loses nothing that
//! was acknowledged and does nothing twice.
//!
//! The short round kills some 120 times. `HOLDPOINT_KILLS=300 HOLDPOINT_CUTS=100 cargo nextest run at_random`
//! makes a longer one of it (docs/long-rounds.md); `HOLDPOINT_SEED=…` repeats the choices of an earlier round.

use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use holdpoint::wire::v1::{ListRunsRequest, WatchRunRequest};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::{JoinSet, block_in_place, yield_now};
use tokio::time::timeout;

use crate::store::collected::COLLECTING;
use crate::support::caller::{Caller, Heard, Ledger, Place};
use crate::support::chance::Chance;
use crate::support::kit;
use crate::support::server::{Server, Setup, drained, names, run, start_of};
use crate::terminal::cli::holdpoint;

/// Kills of a short round: the issue wants 100 at least.
const KILLS: u64 = 120;
/// Clients at once: several commands share a group commit, and two cores stay two cores.
const CALLERS: u64 = 4;
/// Far more than a call or a death takes; a bound, not a measure.
const PATIENCE: Duration = Duration::from_mins(5);

/// Every failpoint, with the passages to die at. Boots pass some of them once.
const STORE: &[(&str, &[u32])] = &[
    ("store.before_epoch", &[1]),
    ("store.after_epoch", &[1]),
    ("store.before_format", &[1]),
    ("store.after_format", &[1]),
    // The first passages define the workflows at the first boot, one each.
    // Three more say which store this is, what is in force, and that it serves.
    ("store.before_record", &[1, 9, 11, 12, 13, 15]),
    ("store.after_record", &[2, 10, 12, 13, 16]),
    ("store.after_sync", &[3, 11, 12, 14, 17]),
    ("store.after_write", &[4, 9, 12, 15, 18]),
    ("store.before_ack", &[5, 10, 12, 13, 19]),
    ("store.after_ack", &[6, 11, 12, 14, 20]),
];
/// What is passed at a boot after a death, when the write-ahead log is given to sled again.
const REPLAY: &[(&str, &[u32])] = &[
    ("store.before_replay", &[1]),
    ("store.before_checkpoint", &[1]),
    ("store.values_written", &[1]),
    ("store.values_synced", &[1]),
    ("store.flushed", &[1]),
    ("store.flush_synced", &[1]),
    ("store.after_checkpoint", &[1]),
];
const ENGINE: &[(&str, &[u32])] = &[
    ("engine.before_append", &[1, 2, 4, 7]),
    ("engine.after_append", &[1, 2, 4, 7]),
    ("engine.after_publish", &[1, 2, 4, 7]),
    ("engine.before_effect", &[1, 2, 3, 4]),
    ("engine.after_effect", &[1, 2, 3, 4]),
];
const API: &[(&str, &[u32])] = &[
    ("api.before_command", &[1, 2, 4, 6]),
    ("api.before_ack", &[1, 2, 4, 6]),
    ("api.before_event", &[1, 5, 12, 25]),
    ("api.after_events", &[1, 2, 4, 6]),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_nothing_is_lost_and_nothing_happens_twice() {
    let kills = setting("HOLDPOINT_KILLS").unwrap_or(KILLS);
    let seed =
        setting("HOLDPOINT_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("HOLDPOINT_SEED={seed} HOLDPOINT_KILLS={kills}");
    let root = TempDir::new().unwrap();
    let field = Field::new(Setup::new(root.path()), root.path(), None);
    let finished = field.endures(kills, &mut Chance(seed)).await;
    println!("{finished} conversations");
}

/// Power cuts of a short round; each copies the store.
const CUTS: u64 = 24;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j2_a_power_cut_at_random_loses_nothing_that_was_acknowledged() {
    let cuts = setting("HOLDPOINT_CUTS").or_else(|| setting("HOLDPOINT_KILLS")).unwrap_or(CUTS);
    let seed =
        setting("HOLDPOINT_SEED").unwrap_or_else(|| RandomState::new().build_hasher().finish());
    println!("HOLDPOINT_SEED={seed} HOLDPOINT_CUTS={cuts}");
    for is_torn in [false, true] {
        let root = TempDir::new().unwrap();
        let platter = root.path().join("platter");
        let setup = Setup::new(root.path())
            .env("LD_PRELOAD", shim(root.path()).to_str().unwrap())
            .env("PL_REAL", root.path().join("data").to_str().unwrap())
            .env("PL_SHADOW", platter.to_str().unwrap());
        // Torn: a third of what was never synced is there all the same, in halves and with holes.
        let setup = if is_torn { setup.env("PL_RAND", "1") } else { setup };
        let field = Field::new(setup, root.path(), Some(platter));
        let finished = field.endures(cuts / 2, &mut Chance(seed)).await;
        println!("{finished} conversations");
    }
}

/// A library that lets bytes reach the platter only when their file is synced.
fn shim(root: &Path) -> std::path::PathBuf {
    let library = root.join("shim.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/power/shim.c");
    let built = std::process::Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-w", "-o"])
        .arg(&library)
        .arg(source)
        .arg("-ldl")
        .status();
    assert!(built.unwrap().success());
    library
}

impl Field {
    /// Dies again and again under load, and is judged in the end.
    async fn endures(mut self, kills: u64, chance: &mut Chance) -> u64 {
        let field = &mut self;
        let is_enough = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for number in 0..CALLERS {
            let caller = field.caller(&format!("c{number}"));
            let is_talkative = number % 2 != 0;
            let mut caller = if is_talkative { caller.talkative() } else { caller };
            let is_enough = Arc::clone(&is_enough);
            callers.spawn(async move {
                let mut turn = 0;
                while !is_enough.load(Ordering::Relaxed) {
                    // Fifty thousand words that are drafted one by one are no load but a wait, of minutes where
                    // the machine is busy.
                    let is_slow = (turn + number) % 3 == 0 && !is_talkative;
                    let workflow = if is_slow { "errand" } else { "chat" };
                    caller.converse(workflow, turn).await;
                    turn += 1;
                }
            });
        }
        let mut heard = field.ledger.heard.subscribe();
        let mut killed = 0;
        while killed < kills {
            // Now while they catch up with what they knew, now while they come further.
            let is_further = chance.next().is_multiple_of(2);
            let count = |heard: &Heard| if is_further { heard.new } else { heard.in_all };
            let moment = count(&heard.borrow()) + chance.next() % 60;
            let waiting = async { heard.wait_for(|heard| count(heard) >= moment).await.map(drop) };
            tokio::select! {
                outcome = timeout(PATIENCE, waiting) => outcome.expect("somebody hears something").unwrap(),
                Some(ended) = callers.join_next() => ended.expect("callers go on until it is enough"),
            }
            for _ in 0..chance.next() % 200 {
                yield_now().await;
            }
            field.die();
            killed += 1;
            while chance.next().is_multiple_of(6) {
                die_young(&field.setup, chance.next() % 40_000).await;
                field.cut();
                killed += 1;
            }
            field.live();
        }
        is_enough.store(true, Ordering::Relaxed);
        while let Some(ended) = timeout(PATIENCE, callers.join_next())
            .await
            .unwrap_or_else(|_| panic!("not all come home: {}", field.ledger.busy()))
        {
            ended.unwrap();
        }
        let finished = field.ledger.finished();
        assert!(finished > 0, "{finished} conversations are no load");
        self.judge().await;
        finished
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_point_of_the_store_nothing_is_lost() {
    for_each_passage(STORE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_log_is_replayed_nothing_is_lost() {
    for_each_passage(REPLAY).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_during_a_checkpoint_nothing_acknowledged_is_lost() {
    for point in [
        "store.before_checkpoint",
        "store.values_written",
        "store.values_synced",
        "store.flushed",
        "store.flush_synced",
        "store.after_checkpoint",
    ] {
        for passage in [1, 2] {
            die_settling(point, passage).await;
        }
    }
}

/// Runs with much text, so that the write-ahead log fills, until the server dies of it.
async fn die_settling(point: &str, passage: u32) {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).failpoint(point, passage).start();
    let mut client = server.client().await;
    let words: Vec<_> = (0..9_000_u32).map(|word| (word * word).to_string()).collect();
    let text = words.join(" ");
    let mut kept = Vec::new();
    let last = loop {
        let key = format!("key-{}", kept.len());
        let request = start_of("chat", "", &text, &key);
        let outcome = match client.run_workflow(request.clone()).await {
            Ok(stream) => drained(stream.into_inner()).await,
            Err(status) => Err(status),
        };
        match outcome {
            Ok(events) => kept.push(events[0].run_id.clone()),
            Err(_) => break request,
        }
        assert!(kept.len() < 100, "{point}:{passage} is never passed");
    };
    drop((client, server));
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    // Whether the last one got in is not known; with its key it is in once now.
    kept.push(run(&mut client, last).await[0].run_id.clone());
    let request = ListRunsRequest { page_size: 1_000, ..Default::default() };
    let found = client.list_runs(request).await.unwrap().into_inner().runs;
    let mut found: Vec<_> = found.into_iter().map(|run| run.run_id).collect();
    found.sort();
    kept.sort();
    assert_eq!(found, kept, "{point}:{passage}");
    server.kill();
    let data = root.path().join("data");
    let doctor = ["doctor", "--data", data.to_str().unwrap()];
    assert_eq!(holdpoint(root.path(), &doctor, "").code, 0, "{point}:{passage}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_point_of_the_engine_nothing_is_lost() {
    for_each_passage(ENGINE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_every_point_of_the_door_nothing_is_lost() {
    for_each_passage(API).await;
}

#[test]
fn every_failpoint_there_is_has_its_kills() {
    let mut found = BTreeSet::new();
    collect(Path::new("src"), &mut found);
    // Killed in transfer_cut.rs, where something is imported.
    assert!(found.remove("store.after_import_append"));
    // And in postgres/transfer.rs, where it is imported into a database.
    assert!(found.remove("store.before_import_end"));
    // Killed in postgres/moved.rs, where a store goes into a database.
    for point in ["reached", "begun", "copying", "retired", "compared", "whole", "left", "over"] {
        assert!(found.remove(&format!("move.{point}")));
    }
    // Killed in engine/outbox.rs, where somebody listens.
    assert!(found.remove("outbox.before_settle"));
    // Killed in consent/restored.rs, where there is something to renew.
    assert!(found.remove("engine.before_renewal"));
    assert!(found.remove("engine.after_renewal"));
    // Killed in consent/family.rs, where a no is told to forks.
    assert!(found.remove("engine.before_recall"));
    // Killed in policy/served.rs, where runs are told of another policy.
    assert!(found.remove("engine.before_rule"));
    // Killed in evidence/halting.rs, where something is stopped and goes on.
    for point in ["kept", "ending", "told", "ended"] {
        assert!(found.remove(&format!("engine.halt_{point}")));
    }
    // Killed in evidence/taken_over.rs, where there is an older store.
    assert!(found.remove("store.before_takeover"));
    assert!(found.remove("store.after_takeover"));
    // Killed in taken_over.rs, where there is one whose values lie in the tree.
    assert!(found.remove("store.before_renaming"));
    assert!(found.remove("store.after_renaming"));
    // Killed in collected.rs, where much is written over.
    for point in COLLECTING {
        assert!(found.remove(point));
    }
    let killed: BTreeSet<_> =
        [STORE, REPLAY, ENGINE, API].concat().iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(found, killed);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_passes_while_the_server_is_dead_is_kept_afterwards() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let events = run(&mut client, start_of("hurried", "", "Quick!", "")).await;
    let last = events.last().unwrap();
    server.restart();
    let (run_id, after_sequence) = (last.run_id.clone(), last.sequence);
    let request = WatchRunRequest { run_id, after_sequence, through_pauses: true };
    let stream = server.client().await.watch_run(request).await.unwrap().into_inner();
    let events = timeout(PATIENCE, drained(stream)).await.unwrap().unwrap();
    assert_eq!(names(&events), ["request_closed", "failed"]);
    let asked = last.time.unwrap();
    let closed = events[0].time.unwrap();
    let passed =
        (closed.seconds - asked.seconds) * 1000 + i64::from(closed.nanos - asked.nanos) / 1_000_000;
    assert!(passed >= 200, "never early: {passed} ms");
}

/// Where servers live and die, and callers call.
struct Field {
    setup: Setup,
    server: Option<Server>,
    place: watch::Sender<Place>,
    ledger: Arc<Ledger>,
    root: std::path::PathBuf,
    /// What a power cut leaves: the bytes that were synced. None, where only processes die.
    platter: Option<std::path::PathBuf>,
}

impl Field {
    fn new(setup: Setup, root: &Path, platter: Option<std::path::PathBuf>) -> Self {
        let mut field = Self {
            setup,
            server: None,
            place: watch::channel((0, None)).0,
            ledger: Ledger::new(),
            root: root.to_path_buf(),
            platter,
        };
        field.live();
        field
    }

    fn caller(&self, name: &str) -> Caller {
        Caller::new(name, self.place.subscribe(), Arc::clone(&self.ledger))
    }

    fn live(&mut self) {
        let server = block_in_place(|| self.setup.start());
        self.move_in(server);
    }

    fn move_in(&mut self, server: Server) {
        let address = server.address().to_owned();
        self.server = Some(server);
        self.place.send_modify(|(life, place)| {
            *life += 1;
            *place = Some(address);
        });
    }

    fn die(&mut self) {
        self.place.send_modify(|(_, place)| *place = None);
        block_in_place(|| drop(self.server.take()));
        self.cut();
    }

    /// Only what is on the platter is there, if the power went and not just the process.
    fn cut(&self) {
        let Some(platter) = &self.platter else { return };
        let data = self.root.join("data");
        fs::remove_dir_all(&data).unwrap();
        crate::store::damage::copy(platter, &data);
    }

    /// Holds the laws against what is there, through the door and then in the store itself.
    async fn judge(mut self) {
        let mut client = self.server.as_ref().unwrap().client().await;
        let (runs, events) = self.ledger.judge(&mut client).await;
        self.die();
        let store = kit::open(&self.root.join("data")).await.unwrap();
        let report = store.journal().verify().await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        assert_eq!((report.runs, report.events, report.open_questions), (runs, events, 0));
        store.journal().close().await;
        let data = self.root.join("data");
        let doctor = ["doctor", "--json", "--data", data.to_str().unwrap()];
        let found = holdpoint(&self.root, &doctor, "");
        assert_eq!((found.code, &found.json()["ok"]), (0, &true.into()), "{}", found.out);
        // No false alarm: whatever was cut off, what is there is a chain with its leaves (J13).
        let verify = ["verify", "--json", "--data", data.to_str().unwrap()];
        let found = holdpoint(&self.root, &verify, "");
        assert_eq!((found.code, &found.json()["ok"]), (0, &true.into()), "{}", found.out);
    }
}

/// Starts a server and kills it before it has said that it listens, or right after.
async fn die_young(setup: &Setup, moment: u64) {
    let mut child = setup.spawn();
    for _ in 0..moment {
        yield_now().await;
    }
    child.kill().unwrap();
    block_in_place(|| child.wait()).unwrap();
}

async fn for_each_passage(points: &[(&str, &[u32])]) {
    for (name, passages) in points {
        for passage in *passages {
            die_at(name, *passage).await;
        }
    }
}

/// Two conversations on a server that dies at the point, twice if it comes by again.
async fn die_at(name: &str, passage: u32) {
    let root = TempDir::new().unwrap();
    let armed = Setup::new(root.path()).failpoint(name, passage);
    let mut lives = [&armed, &armed].into_iter();
    let mut field = Field {
        setup: Setup::new(root.path()),
        server: None,
        place: watch::channel((0, None)).0,
        ledger: Ledger::new(),
        root: root.path().to_path_buf(),
        platter: None,
    };
    if REPLAY.iter().any(|(point, _)| *point == name) {
        // A life that leaves something to replay.
        let server = Server::start(root.path());
        field.move_in(server);
        field.caller("before").converse("chat", 0).await;
        field.die();
    }
    let mut caller = field.caller("c");
    let calls = tokio::spawn(async move {
        caller.converse("chat", 1).await;
        caller.converse("errand", 2).await;
    });
    let mut calls = std::pin::pin!(calls);
    let mut deaths = 0;
    loop {
        let setup = lives.next().unwrap_or(&field.setup);
        let server = match block_in_place(|| setup.try_start()) {
            Ok(server) => server,
            Err(status) => {
                assert_eq!(status.signal(), Some(9), "{name}:{passage} {status}: {}", setup.told());
                deaths += 1;
                continue;
            }
        };
        field.move_in(server);
        let is_over = tokio::select! {
            outcome = &mut calls => {
                outcome.unwrap();
                true
            }
            () = field.server.as_ref().unwrap().ended() => false,
        };
        if is_over {
            break;
        }
        deaths += 1;
        field.die();
    }
    // The last of the door's points lies behind the last word that a caller hears.
    if deaths == 0 {
        let server = field.server.as_ref().unwrap();
        timeout(PATIENCE, server.ended())
            .await
            .unwrap_or_else(|_| panic!("{name}:{passage} is never passed"));
    }
    field.die();
    field.live();
    field.judge().await;
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for rest in text.split("failpoint::hit(\"").skip(1) {
            found.insert(rest.split('"').next().unwrap().to_owned());
        }
    }
}
