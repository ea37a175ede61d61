//! What the door promises: who is let in by which key, pass or service, and who is not.

use super::*;
use crate::app::keys::NewKey;
use crate::app::{SharedClock, SystemClock};
use crate::kernel::Role;

#[test]
fn a_pass_stands_for_its_key_for_its_time_and_for_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ada = Keys::add(&path, "ada.l@x.org", Role::User, "").unwrap();
    let bob = Keys::add(&path, "bob", Role::Admin, "").unwrap();
    let open = || {
        let keys = Keys::load(&path).unwrap();
        let clock = Arc::new(SystemClock);
        Keyed::open(Some(keys), BTreeSet::new(), folder.path(), clock).unwrap()
    };
    let door = open();
    let pass = door.pass(&ada, Millis(1_000)).unwrap();
    assert!(!pass.contains(&ada), "the key is not in it");
    let who = door.admit_pass(&pass, Millis(999), "console").unwrap();
    assert_eq!((who.id.as_str(), who.roles), ("ada.l@x.org", Role::User.into()));
    assert_eq!(who.known.credential, Credential::Pass("ada.l@x.org".into()));
    assert!(door.admit_pass(&pass, Millis(1_000), "console").is_err(), "its time is over");
    for forged in [
        pass.replace(".1000.", ".2000."),
        pass.replace("ada.l@x.org", "bob"),
        "bob.2000.".into(),
        "bob.2000.zz".into(),
        String::new(),
        format!("bob.2000.{}", "0".repeat(64)),
    ] {
        assert!(door.admit_pass(&forged, Millis(1), "console").is_err(), "{forged}");
    }
    assert!(door.pass("hp_nothing", Millis(1_000)).is_err());

    // After a restart it is still good, unless the key of that name is another by then.
    let again = open;
    assert!(again().admit_pass(&pass, Millis(1), "console").is_ok());
    Keys::remove(&path, "ada.l@x.org", "").unwrap();
    assert!(again().admit_pass(&pass, Millis(1), "console").is_err());
    let same = NewKey { again: true, ..NewKey::of("ada.l@x.org", Role::User) };
    Keys::make(&path, &same, &BTreeSet::new(), "").unwrap();
    assert!(again().admit_pass(&pass, Millis(1), "console").is_err());
    assert!(again().pass(&bob, Millis(5)).is_ok());

    // Whoever signs out is out, in this browser, and after a restart too.
    let (one, other) = (door.pass(&bob, Millis(9)).unwrap(), door.pass(&bob, Millis(9)).unwrap());
    door.void_pass(&one, Millis(1));
    assert!(door.admit_pass(&one, Millis(1), "console").is_err());
    assert!(door.admit_pass(&other, Millis(1), "console").is_ok());
    assert!(again().admit_pass(&one, Millis(1), "console").is_err());
    assert!(again().admit_pass(&other, Millis(1), "console").is_ok());
}

#[test]
fn whoever_has_signed_in_stays_so_when_passes_are_made_with_another_secret_after_a_move() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ada = Keys::add(&path, "ada", Role::User, "").unwrap();
    let open = || {
        let keys = Keys::load(&path).unwrap();
        let clock = Arc::new(SystemClock);
        Keyed::open(Some(keys), BTreeSet::new(), folder.path(), clock).unwrap()
    };
    let is_in = |pass: &str| open().admit_pass(pass, Millis(1), "console").is_ok();
    let (one, two) = {
        let door = open();
        (door.pass(&ada, Millis(9)).unwrap(), door.pass(&ada, Millis(9)).unwrap())
    };
    keep_secret(folder.path()).unwrap();
    let shared = |byte: u8| fs::write(folder.path().join(FILE), [byte; 32]).unwrap();
    shared(7);
    let new = open().pass(&ada, Millis(9)).unwrap();
    assert!(is_in(&one) && is_in(&two) && is_in(&new));
    open().void_pass(&one, Millis(1));
    assert!(!is_in(&one) && is_in(&two), "who signs out is out");
    // What servers have in common follows from a key that may be changed because somebody has it: nothing of it stays.
    shared(8);
    assert!(is_in(&two) && !is_in(&new));
    // No pass is good for so long.
    let kept = OpenOptions::new().write(true).open(folder.path().join(BEFORE)).unwrap();
    kept.set_modified(std::time::UNIX_EPOCH).unwrap();
    assert!(!is_in(&two) && !folder.path().join(BEFORE).exists());
}

#[test]
fn passes_of_the_key_before_are_taken_where_that_is_named_and_none_are_made_with_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ada = Keys::add(&path, "ada", Role::User, "").unwrap();
    let open = |shared: u8| {
        fs::write(folder.path().join(FILE), [shared; 32]).unwrap();
        let keys = Keys::load(&path).unwrap();
        let clock = Arc::new(SystemClock);
        Keyed::open(Some(keys), BTreeSet::new(), folder.path(), clock).unwrap()
    };
    let is_in = |door: &Keyed, pass: &str| door.admit_pass(pass, Millis(1), "console").is_ok();
    let old = open(7).pass(&ada, Millis(9)).unwrap();
    let door = open(8);
    door.take_also(None);
    assert!(!is_in(&door, &old), "nobody names the key before");
    door.take_also(Some([7; 32]));
    let new = door.pass(&ada, Millis(9)).unwrap();
    assert!(is_in(&door, &old) && is_in(&door, &new));
    assert!(!is_in(&open(7), &new), "it is the new key's");
    door.void_pass(&old, Millis(1));
    assert!(!is_in(&door, &old), "who signs out is out");
}

#[test]
fn a_key_ends_by_the_time_that_the_store_keeps_and_not_by_the_machines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys.toml");
    let ends = "2100-01-01T00:00:00Z".to_owned();
    let new = NewKey { expires: Some(ends), ..NewKey::of("ada", Role::User) };
    let ada = Keys::make(&path, &new, &BTreeSet::new(), "").unwrap();
    let clock = Arc::new(SharedClock::over(Arc::new(SystemClock)));
    let keys = Some(Keys::load(&path).unwrap());
    let door = Keyed::open(keys, BTreeSet::new(), folder.path(), clock.clone()).unwrap();
    let shown = Shown { bearer: Some(&ada), on_behalf_of: None };
    let pass = door.pass(&ada, Millis(u64::MAX)).unwrap();
    assert!(door.admit(shown, "grpc").is_ok() && door.still_admits_pass(&pass));
    // In the database it is later than that.
    clock.follow(clock.ticks(), Millis(5_000_000_000_000));
    assert!(door.admit(shown, "grpc").is_err() && !door.still_admits_pass(&pass));
    assert!(door.pass(&ada, Millis(u64::MAX)).is_err());
}
