//! The embedded store and its directory: what survives, what is refused, and in which words.

use std::fs;
use std::path::Path;
use std::time::Duration;

use holdpoint::kernel::Millis;
use holdpoint::ports::{AppendError, Fault, Head, Hold, Journal, RunFilter, StoreReport};
use holdpoint::store::{OpenError, StoreConfig, packing};

use crate::store::sled::{flip, raw};
use crate::support::kit::{
    Bed, Play, WORDS, config, key_row, open, open_with, run_id, session_id, workflow,
};

#[tokio::test(flavor = "multi_thread")]
async fn j2_a_restart_keeps_everything() {
    let bed = Bed::sled().await;
    let before = filled(&bed).await;
    drop(bed.store);
    let journal = open(bed.dir.as_ref().unwrap().path()).await.unwrap().journal();
    assert_eq!(picture(&*journal).await, before);
    assert_eq!(journal.key("ann", "k").await.unwrap(), Some(key_row(&run_id(99))));
    assert!(journal.session(&session_id("s1")).await.unwrap().is_some());
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn saving_the_page_table_in_mid_life_loses_nothing() {
    let bed = Bed::sled().await;
    bed.journal().close().await;
    // So small that nearly every group closes and opens the database.
    let eager = StoreConfig { refresh_bytes_max: 4_096, ..config(bed.path()) };
    let store = open_with(&eager).await.unwrap();
    let bed = bed.reopened(store);
    let before = filled(&bed).await;
    assert!(bed.journal().is_healthy());
    bed.journal().close().await;
    let snapshots = names(&bed.path().join("store"), "snap.");
    assert_eq!(snapshots.len(), 1, "{snapshots:?}");
    let journal = open(bed.path()).await.unwrap().journal();
    assert_eq!(picture(&*journal).await, before);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_table_is_saved_where_nobody_waits_for_it_and_the_store_goes_on() {
    let bed = Bed::sled().await;
    bed.journal().close().await;
    let store = bed.path().join("store");
    let saved = || names(&store, "snap.");
    let before = saved();
    let quiet = StoreConfig { refresh_bytes: 4_096, ..config(bed.path()) };
    let bed = bed.reopened(open_with(&quiet).await.unwrap());
    let filled = filled(&bed).await;
    // Whoever reads sees no difference meanwhile.
    let waited = tokio::time::timeout(Duration::from_mins(1), async {
        while saved() == before || saved().is_empty() {
            assert_eq!(picture(&*bed.journal()).await, filled);
        }
    });
    waited.await.expect("nobody writes");
    assert!(bed.journal().is_healthy());
    assert_eq!(picture(&*bed.journal()).await, filled);
    let (play, begin) = Play::begin(50, "later", "ann", 10);
    bed.journal().append(begin).await.unwrap();
    assert!(bed.journal().read(&play.run.id, 0, 1).await.is_ok_and(|events| events.len() == 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn j4_fences_grow_across_restarts() {
    let bed = Bed::sled().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    bed.journal().append(begin).await.unwrap();
    let run = play.run.id.clone();
    let mut spoken = play.speak(WORDS, 20);
    spoken.hold = Hold::Take { from: None };
    let old = bed.journal().append(spoken).await.unwrap();
    bed.journal().close().await;

    let journal = open(bed.path()).await.unwrap().journal();
    let new = journal.take(&run, None, play.run.version).await.unwrap();
    assert!(new > old.fence && old.fence > 0);
    let mut late = play.approve(30);
    late.fence = Some(old.fence);
    let refused = journal.append(late).await;
    assert!(matches!(refused, Err(AppendError::Superseded)), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn j6_a_damaged_entry_is_reported_and_never_read() {
    let bed = Bed::sled().await;
    filled(&bed).await;
    bed.journal().close().await;
    let hurt = flip(bed.path(), b'j');
    let journal = open(bed.path()).await.unwrap().journal();
    let mut corrupt = 0;
    for number in 0..10 {
        match journal.read(&run_id(number), 0, 100).await {
            Ok(events) => assert!(!events.is_empty()),
            Err(Fault::Corrupt(what)) => {
                corrupt += 1;
                assert!(what.contains("checksum"), "{what}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!(corrupt, 1);
    let report = journal.verify().await.unwrap();
    assert!(!report.damage.is_empty());
    assert!(report.damage.iter().all(|what| what.contains(hurt.as_str())), "{:?}", report.damage);
}

#[tokio::test(flavor = "multi_thread")]
async fn j5_a_journal_that_lost_an_entry_is_refused_and_never_read_past_it() {
    for lost in ["first", "last"] {
        let bed = Bed::sled().await;
        let mut play = Play::park(&*bed.journal(), 0, "s", 10, &workflow(None)).await;
        bed.journal().append(play.approve(20)).await.unwrap();
        let whole = bed.journal().read(&run_id(0), 0, 100).await.unwrap();
        bed.journal().close().await;
        {
            let db = raw(bed.path());
            let mut entries = db.scan_prefix(b"j");
            let entry = if lost == "first" { entries.next() } else { entries.next_back() };
            db.remove(entry.unwrap().unwrap().0).unwrap();
            db.flush().unwrap();
        }
        let journal = open(bed.path()).await.unwrap().journal();
        let told = journal.read(&run_id(0), 0, 100).await.unwrap_err().to_string();
        assert!(told.contains("of its journal is missing"), "{lost}: {told}");
        let report = journal.verify().await.unwrap();
        assert!(report.damage.iter().any(|what| what.contains("is missing")), "{report:?}");
        assert!(journal.is_healthy(), "{lost}: damage is told, and is no panic");
        assert!(whole.len() > 2, "{lost}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j6_a_run_with_a_damaged_head_takes_no_appends_and_others_do() {
    let bed = Bed::sled().await;
    let mut first = Play::park(&*bed.journal(), 0, "s", 10, &workflow(None)).await;
    let mut second = Play::park(&*bed.journal(), 1, "s", 10, &workflow(None)).await;
    bed.journal().close().await;
    assert_eq!(flip(bed.path(), b'h'), run_id(0));
    let journal = open(bed.path()).await.unwrap().journal();
    let refused = journal.append(first.approve(20)).await;
    assert!(matches!(refused, Err(AppendError::Fault(Fault::Corrupt(_)))), "{refused:?}");
    assert!(matches!(journal.head(&run_id(0)).await, Err(Fault::Corrupt(_))));
    journal.append(second.approve(20)).await.unwrap();
    assert!(journal.is_healthy());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_lies_is_found() {
    let bed = Bed::sled().await;
    filled(&bed).await;
    bed.journal().close().await;
    {
        let db = raw(bed.path());
        let (waiting, _) = db.scan_prefix(b"w").next().unwrap().unwrap();
        db.remove(&waiting).unwrap();
        let (going, _) = db.scan_prefix(b"h").next().unwrap().unwrap();
        db.insert([b"g", &going[1..]].concat(), b"").unwrap();
        db.flush().unwrap();
    }
    let damage = open(bed.path()).await.unwrap().journal().verify().await.unwrap().damage;
    assert_eq!(damage.len(), 2, "{damage:?}");
    assert!(damage[0].contains("missing from index `w`"), "{damage:?}");
    assert!(damage[1].contains("does not belong in index `g`"), "{damage:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_opener_is_told_where_the_first_can_be_talked_to() {
    let bed = Bed::sled().await;
    let refused = holdpoint::store::open(&config(bed.path())).await.unwrap_err();
    assert!(matches!(refused, OpenError::Held { server: None, .. }), "{refused:?}");
    bed.store.announce("127.0.0.1:4653").unwrap();
    let refused = holdpoint::store::open(&config(bed.path())).await.unwrap_err();
    let text = refused.to_string();
    assert!(
        text.contains("127.0.0.1:4653") && text.contains(&std::process::id().to_string()),
        "{text}"
    );
    bed.journal().close().await;
    assert!(!bed.path().join("server.json").exists());
    open(bed.path()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn another_format_is_refused_with_the_way_out() {
    let bed = Bed::sled().await;
    bed.journal().close().await;
    fs::write(bed.path().join("format"), "holdpoint store 9\n").unwrap();
    let refused = open(bed.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::WrongFormat { .. }), "{refused:?}");
    let text = refused.to_string();
    assert!(
        text.contains("store 9") && text.contains("export") && text.contains("import"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_of_another_format_is_an_error_of_its_own() {
    let bed = Bed::sled().await;
    Play::park(&*bed.journal(), 0, "s", 10, &workflow(None)).await;
    bed.journal().close().await;
    {
        let db = raw(bed.path());
        let (key, value) = db.scan_prefix(b"j").next().unwrap().unwrap();
        let mut value = value.clone();
        value[0] = 9;
        db.insert(key, value).unwrap();
        db.flush().unwrap();
    }
    let journal = open(bed.path()).await.unwrap().journal();
    match journal.read(&run_id(0), 0, 10).await {
        Err(Fault::Permanent(what)) => assert!(what.contains("format 9"), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_database_is_damage_and_never_a_fresh_store() {
    let bed = Bed::sled().await;
    bed.journal().close().await;
    fs::remove_dir_all(bed.path().join("store")).unwrap();
    let refused = open(bed.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    assert!(!bed.path().join("store").exists(), "nothing was put in its place");

    fs::create_dir(bed.path().join("store")).unwrap();
    fs::write(bed.path().join("store/db"), b"").unwrap();
    let refused = open(bed.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_snapshot_is_refused_and_a_half_written_one_is_cleared_away() {
    let bed = Bed::sled().await;
    let before = filled(&bed).await;
    bed.journal().close().await;
    let half = bed.path().join("store/snap.FFFFFFFFFFFFFFFF.generating");
    fs::write(&half, b"half").unwrap();
    let store = open(bed.path()).await.unwrap();
    assert_eq!(picture(&*store.journal()).await, before);
    assert!(!half.exists());
    store.journal().close().await;

    let name = names(&bed.path().join("store"), "snap.").remove(0);
    let name = bed.path().join("store").join(name);
    let bytes = fs::read(&name).unwrap();
    fs::write(&name, &bytes[..bytes.len() - 1]).unwrap();
    let refused = open(bed.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
    assert!(!refused.to_string().contains("backtrace"), "{refused}");
    fs::write(&name, &bytes).unwrap();
    let journal = open(bed.path()).await.unwrap().journal();
    assert_eq!(picture(&*journal).await, before, "nothing was lost by trying");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_directory_of_other_files_is_left_alone() {
    let dir = tempfile::TempDir::new().unwrap();
    fs::write(dir.path().join("thesis.tex"), "precious").unwrap();
    let refused = open(dir.path()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Foreign { .. }), "{refused:?}");
    assert!(!dir.path().join("store").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_opening_that_was_cut_short_can_be_done_again() {
    let dir = tempfile::TempDir::new().unwrap();
    fs::write(dir.path().join("format"), "holdpoint store 1 unfinished\n").unwrap();
    let store = open(dir.path()).await.unwrap();
    Play::park(&*store.journal(), 1, "s", 10, &workflow(None)).await;
    let format = fs::read_to_string(dir.path().join("format")).unwrap();
    assert_eq!(format.trim(), "holdpoint store 4");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_without_room_is_refused_before_anything_is_written() {
    let dir = tempfile::TempDir::new().unwrap();
    let greedy = StoreConfig { reserve_bytes: u64::MAX, ..config(dir.path()) };
    let refused = open_with(&greedy).await.unwrap_err();
    assert!(matches!(refused, OpenError::NoSpace { .. }), "{refused:?}");
    assert!(refused.to_string().contains("free some space"), "{refused}");
    assert!(!dir.path().join("store").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_nearly_full_takes_no_appends_but_can_be_read_and_pruned() {
    let bed = Bed::sled().await;
    let before = filled(&bed).await;
    bed.journal().close().await;
    let room = rustix::fs::statvfs(bed.path()).unwrap();
    let reserve_bytes = room.f_bavail * room.f_frsize * 2;
    let journal = open_with(&StoreConfig { reserve_bytes, ..config(bed.path()) }).await;
    let journal = journal.unwrap().journal();
    assert!(journal.is_healthy() && !journal.has_room(), "it is well, and waits for room");
    let refused = journal.append(Play::begin(50, "u", "ann", 10).1).await;
    match refused {
        Err(AppendError::Fault(Fault::Retriable(what))) => {
            assert!(what.contains("free some space"));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(picture(&*journal).await, before);
    assert_eq!(journal.prune(Millis(1_000), 100).await.unwrap(), 4);
}

/// The files as they are when the last answer has been given are what `kill -9` leaves.
#[tokio::test(flavor = "multi_thread")]
async fn j2_what_was_acknowledged_is_in_the_files_before_they_are_closed() {
    let bed = Bed::sled().await;
    let before = filled(&bed).await;
    let copy = tempfile::TempDir::new().unwrap();
    fs::create_dir(copy.path().join("store")).unwrap();
    for name in ["format", "wal", "wal2", "store/db", "store/conf"] {
        fs::copy(bed.path().join(name), copy.path().join(name)).unwrap();
    }
    if bed.path().join("values").exists() {
        crate::store::damage::copy(&bed.path().join("values"), &copy.path().join("values"));
    }
    let journal = open(copy.path()).await.unwrap().journal();
    assert_eq!(picture(&*journal).await, before);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_path_that_cannot_be_a_directory_is_named() {
    let dir = tempfile::TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "").unwrap();
    let refused = open(&file.join("data")).await.unwrap_err();
    assert!(refused.to_string().contains("file/data"), "{refused}");
}

/// Ten runs in every state, and one with a key.
async fn filled(bed: &Bed) -> Vec<(Head, usize)> {
    let journal = bed.journal();
    bed.define().await;
    for number in 0..10 {
        let workflow = workflow([None, Some(1_000)][usize::from(number % 2 == 0)]);
        let session = format!("s{number}");
        let mut play = Play::park(&*journal, number, &session, 10 + number, &workflow).await;
        if number % 3 == 0 {
            play.finish(&*journal, 100).await;
        }
    }
    let (_, mut begin) = Play::begin(99, "t", "ann", 10);
    begin.key = Some(("k".into(), key_row(&begin.run)));
    journal.append(begin).await.unwrap();
    let StoreReport { damage, .. } = journal.verify().await.unwrap();
    assert_eq!(damage, Vec::<String>::new());
    picture(&*journal).await
}

/// What can be seen of a store: every head, and how much there is to read of it.
async fn picture(journal: &dyn Journal) -> Vec<(Head, usize)> {
    let mut picture = Vec::new();
    for head in journal.heads(&RunFilter::default(), None, 1_000).await.unwrap().rows {
        let events = journal.read(&head.run, 0, 1_000).await.unwrap();
        assert_eq!(events.len() as u64, head.version);
        picture.push((head, events.len()));
    }
    assert!(!picture.is_empty());
    picture
}

fn names(dir: &Path, prefix: &str) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn j6_wherever_a_packed_record_rots_its_run_is_told_as_damaged() {
    let bed = Bed::sled().await;
    Play::park(&*bed.journal(), 0, "s", 10, &workflow(None)).await;
    bed.journal().close().await;
    // As a build before this one laid it in the tree.
    let (key, whole) = {
        let (key, value) = raw(bed.path()).scan_prefix(b"j").next().unwrap().unwrap();
        (key, packing::pack(&value).unwrap())
    };
    for at in [1, 2, 3, 4, whole.len() / 2, whole.len() - 1] {
        let mut rotten = whole.clone();
        rotten[at] ^= 1;
        {
            let db = raw(bed.path());
            db.insert(&key, rotten).unwrap();
            db.flush().unwrap();
        }
        let journal = open(bed.path()).await.unwrap().journal();
        let told = journal.read(&run_id(0), 0, 10).await.unwrap_err();
        assert!(
            matches!(&told, Fault::Corrupt(what) if what.contains(run_id(0).as_str())),
            "{told}"
        );
        assert!(journal.is_healthy(), "damage is told, and is no panic");
        journal.close().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn j6_wherever_the_value_log_rots_its_runs_are_told_as_damaged() {
    let bed = Bed::sled().await;
    Play::park(&*bed.journal(), 0, "s", 10, &workflow(None)).await;
    bed.journal().close().await;
    let file = bed.path().join("values/1");
    let whole = fs::read(&file).unwrap();
    for at in [0, 4, 8, 12, 16, 17, whole.len() / 2] {
        let mut rotten = whole.clone();
        rotten[at] ^= 1;
        fs::write(&file, rotten).unwrap();
        let journal = open(bed.path()).await.unwrap().journal();
        let told = journal.verify().await.unwrap().damage;
        assert!(told.iter().any(|what| what.contains("checksum")), "{at}: {told:?}");
        assert!(journal.is_healthy(), "damage is told, and is no panic");
        journal.close().await;
    }
    for (length, what) in [(10, "`values/1` has lost its end"), (0, "`values/1` is missing")] {
        fs::write(&file, &whole[..length]).unwrap();
        if length == 0 {
            fs::remove_file(&file).unwrap();
        }
        let refused = open(bed.path()).await.unwrap_err();
        assert!(matches!(refused, OpenError::Damaged { .. }), "{refused:?}");
        assert!(refused.to_string().contains(what), "{refused}");
    }
}
