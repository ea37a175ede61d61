//! Taken over: a store of the first complete build, which knew no chain, gets one when it is opened (J13); and
//! should that be cut off at whatever point, the next opening finishes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::store::taken_over::{ENDS, left};
use crate::support::server::Setup;
use crate::terminal::cli::holdpoint;

/// Every point that an opening passes while it takes a store over.
const POINTS: &[(&str, u32)] = &[
    ("store.before_takeover", 1),
    ("store.after_record", 1),
    ("store.after_takeover", 1),
    ("store.before_checkpoint", 1),
    ("store.flushed", 1),
    ("store.flush_synced", 1),
    ("store.after_checkpoint", 1),
    ("store.before_epoch", 1),
    ("store.after_epoch", 1),
    ("store.before_format", 1),
    ("store.after_format", 1),
];

fn verified(root: &Path) -> Value {
    let data = root.join("data");
    let told = holdpoint(root, &["verify", "--json", "--data", data.to_str().unwrap()], "");
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    told.json()
}

/// Everything that lies below.
fn bytes(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(bytes(&path));
        } else {
            all.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    all
}

/// Opens it as a command does that works on runs: that takes it over. What it said of that.
fn opened(root: &Path) -> String {
    let data = root.join("data");
    let told = holdpoint(root, &["runs", "--data", data.to_str().unwrap()], "");
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    told.err
}

#[test]
fn a_command_that_takes_a_store_over_says_so_once() {
    for command in ["inbox", "runs", "sessions"] {
        let (root, _) = left("stopped");
        let data = root.path().join("data").display().to_string();
        let look = || holdpoint(root.path(), &[command, "--data", &data], "").err;
        let said = look();
        assert!(said.contains("of the format before") && said.contains(&data), "{command}: {said}");
        assert!(!look().contains("of the format before"), "{command}");
    }
    let (root, _) = left("stopped");
    let data = root.path().join("data").display().to_string();
    let told = holdpoint(root.path(), &["inbox", "--json", "--data", &data], "");
    assert!(
        told.err.starts_with(r#"{"notice":"#) && told.json()["requests"].is_array(),
        "{told:?}"
    );
}

fn format(root: &Path) -> String {
    fs::read_to_string(root.join("data/format")).unwrap().trim().to_owned()
}

#[test]
fn j13_a_store_of_the_build_before_is_chained_with_one_leaf_a_journal() {
    for end in ENDS {
        let (root, _) = left(end);
        assert_eq!(format(root.path()), "holdpoint store 1");
        opened(root.path());
        let told = verified(root.path());
        assert_eq!(format(root.path()), "holdpoint store 4");
        let [runs, events, unchained, waiting] =
            ["runs", "events", "unchained", "waiting"].map(|name| told[name].as_u64().unwrap());
        assert!(runs > 1 && events > runs, "{told}");
        assert_eq!((unchained, waiting), (events, runs), "all of it is from before: {told}");
        assert_eq!(verified(root.path()), told, "looking changes nothing");
    }
}

#[test]
fn e8_verify_and_doctor_take_nothing_over_by_looking_and_say_what_does() {
    let (root, _) = left("stopped");
    let data = root.path().join("data");
    let look = |word: &str| holdpoint(root.path(), &[word, "--data", data.to_str().unwrap()], "");
    let before = bytes(&data);
    let told = look("verify");
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(
        told.err.contains("of an earlier form") && told.err.contains("holdpoint serve"),
        "{}",
        told.err
    );
    let told = look("doctor");
    assert!(told.code == 0 && told.out.contains("holdpoint serve"), "{}{}", told.out, told.err);
    assert_eq!(format(root.path()), "holdpoint store 1");
    assert!(bytes(&data) == before, "not one byte");
}

#[test]
fn j13_a_takeover_that_is_killed_at_whatever_point_is_finished_by_the_next_opening() {
    for end in ENDS {
        let (root, _) = left(end);
        opened(root.path());
        let whole = verified(root.path());
        for (point, passage) in POINTS {
            let (root, _) = left(end);
            let armed = Setup::new(root.path()).arg("--keys=keys.toml").failpoint(point, *passage);
            let ended = armed.spawn().wait().unwrap();
            assert!(!ended.success(), "{point}: it dies there");
            opened(root.path());
            let told = verified(root.path());
            for name in ["runs", "events", "unchained", "waiting"] {
                assert_eq!(told[name], whole[name], "{point}, {end}: {name}");
            }
            assert_eq!(format(root.path()), "holdpoint store 4", "{point}, {end}");
        }
    }
}

#[test]
fn j13_what_was_taken_over_cannot_be_changed_afterwards() {
    let (root, _) = left("stopped");
    opened(root.path());
    verified(root.path());
    let data = root.path().join("data");
    let db = crate::store::sled::raw(&data);
    let changed = db.scan_prefix([holdpoint::store::keys::ENTRY]).find_map(|row| {
        let (key, record) = row.unwrap();
        let (link, payload) = holdpoint::store::codec::unseal_chained(&key, &record).ok()?;
        assert_eq!(link, None, "entries stay as they are");
        let text = str::from_utf8(payload).unwrap();
        text.contains("clerk").then(|| (key.to_vec(), text.replacen("clerk", "crook", 1)))
    });
    let (key, text) = changed.expect("somebody began something");
    let record = holdpoint::store::codec::seal(&key, text.as_bytes());
    db.insert(&key, record).unwrap();
    db.flush().unwrap();
    drop(db);
    let run = holdpoint::store::keys::read_entry(&key).unwrap().0;
    let words = ["verify", "--data", data.to_str().unwrap()];
    let told = holdpoint(root.path(), &words, "");
    assert_eq!(told.code, 1, "{}", told.out);
    let expected = "what lies up to here is not what was taken over";
    let place = told.out.lines().find(|line| line.contains(expected));
    assert!(place.is_some_and(|line| line.contains(run.as_str())), "{}", told.out);
}
