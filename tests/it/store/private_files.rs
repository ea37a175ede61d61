//! Private files: what a data directory and an export hold is for their owner's eyes alone.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::TempDir;

use crate::support::server::{Server, Setup, run, start_of};
use crate::terminal::cli::holdpoint;

/// Everything below a directory, and itself, that anybody else could read, write or enter.
fn open_to_others(path: &Path) -> Vec<String> {
    let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
    let mut open = Vec::new();
    if mode & 0o077 != 0 {
        open.push(format!("{} {mode:o}", path.display()));
    }
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            open.extend(open_to_others(&entry.unwrap().path()));
        }
    }
    open
}

/// Lets everybody read everything below, as the build before did.
fn expose(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).unwrap() {
            expose(&entry.unwrap().path());
        }
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    } else {
        fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_directory_is_its_owners_alone() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    run(&mut server.client().await, start_of("guarded", "", "Go.", "k")).await;
    let data = root.path().join("data");
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert!(!server.told().contains("permissions"), "nothing to mend: {}", server.told());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_older_data_directory_is_mended_with_a_word() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    {
        let server = Server::start(root.path());
        run(&mut server.client().await, start_of("guarded", "", "Go.", "k")).await;
    }
    expose(&data);
    let server = Setup::new(root.path()).start();
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    assert!(server.told().contains("permissions"), "{}", server.told());
}

#[test]
fn keys_and_exports_are_their_owners_alone() {
    let root = TempDir::new().unwrap();
    let here = |arguments: &[&str]| holdpoint(root.path(), arguments, "");
    assert_eq!(here(&["keys", "add", "ada"]).code, 0);
    let ran = here(&["run", "approve_and_send", "Invite the team.", "--json"]);
    assert_eq!(ran.code, 4, "{}", ran.err);
    let data = root.path().join("holdpoint-data");
    assert_eq!(open_to_others(&data), Vec::<String>::new());
    let exported = here(&["export", "out.jsonl"]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    assert_eq!(open_to_others(&root.path().join("out.jsonl")), Vec::<String>::new());
    assert_eq!(here(&["import", "out.jsonl", "--data", "again"]).code, 0);
    assert_eq!(open_to_others(&root.path().join("again")), Vec::<String>::new());
}

/// Every file below a directory, with its mode and what is in it.
fn picture(path: &Path) -> Vec<(String, u32, Vec<u8>)> {
    let about = fs::symlink_metadata(path).unwrap();
    let bytes = if about.is_file() { fs::read(path).unwrap() } else { Vec::new() };
    let mut seen = vec![(path.display().to_string(), about.permissions().mode(), bytes)];
    if about.is_dir() {
        let mut below: Vec<_> = fs::read_dir(path).unwrap().map(|it| it.unwrap().path()).collect();
        below.sort();
        seen.extend(below.iter().flat_map(|path| picture(path)));
    }
    seen
}

#[test]
fn what_is_somebody_elses_is_refused_and_left_as_it_is_by_every_command() {
    let root = TempDir::new().unwrap();
    let theirs = root.path().join("theirs");
    fs::create_dir_all(theirs.join("deep/er")).unwrap();
    fs::write(theirs.join("deep/er/id_rsa.pub"), "ssh-rsa").unwrap();
    fs::write(theirs.join("format"), "A4").unwrap();
    fs::write(root.path().join("passwd"), "root").unwrap();
    // Names of ours, with what is somebody else's in them.
    for (folder, name, text) in [
        ("web", "server.json", "{\"port\": 8080}"),
        ("locked", "lock", "by ann"),
        ("public", "audit.pub", "not a key"),
        ("keyed", "keys.toml", "door = 1234"),
        ("letters", "format", "holdpoint store 3"),
    ] {
        fs::create_dir(root.path().join(folder)).unwrap();
        fs::write(root.path().join(folder).join(name), text).unwrap();
    }
    fs::write(root.path().join("letters/letter.tex"), "Dear").unwrap();
    for folder in ["theirs", "passwd", "web", "locked", "public", "keyed", "letters"] {
        expose(&root.path().join(folder));
    }
    let own = holdpoint(root.path(), &["run", "approve_and_send", "x", "--data", "own"], "");
    assert_eq!(own.code, 4, "{own:?}");
    let exported = holdpoint(root.path(), &["export", "export.jsonl", "--data", "own"], "");
    assert_eq!(exported.code, 0, "{exported:?}");
    for data in ["theirs", "theirs/deep", "passwd", "web", "locked", "public", "letters", "keyed"] {
        let before = picture(root.path());
        for words in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["dev", "--listen", "127.0.0.1:0"],
            &["run", "approve_and_send", "x"],
            &["chat", "approve_and_send"],
            &["halt", "--all", "--reason", "x"],
            &["release"],
            &["inbox"],
            &["runs"],
            &["sessions"],
            &["audit"],
            &["doctor"],
            &["verify"],
            &["export", "-"],
            &["import", "export.jsonl"],
            &["prune", "--older-than", "1d"],
            &["keys", "add", "ada"],
            &["keys", "remove", "ada"],
        ] {
            // Where there are none but keys, looking finds nothing, and that is no mistake.
            let looks = ["serve", "run", "keys"].contains(&words[0]);
            if data == "keyed" && !looks {
                continue;
            }
            let words: Vec<_> = words.iter().copied().chain(["--data", data]).collect();
            let told = holdpoint(root.path(), &words, "");
            assert!(told.code != 0, "{words:?}: {told:?}");
            let said = format!("{}{}", told.out, told.err);
            assert!(said.contains(data), "it is named: {words:?}: {told:?}");
            assert_eq!(picture(root.path()), before, "{words:?}");
        }
    }
}

#[test]
fn k7_where_the_keys_of_a_directory_are_gone_nobody_is_let_in_without_one() {
    let root = TempDir::new().unwrap();
    let made = holdpoint(root.path(), &["keys", "add", "ada", "--data", "data"], "");
    assert_eq!(made.code, 0, "{made:?}");
    drop(Setup::new(root.path()).start());
    let keys = root.path().join("data/keys.toml");
    let kept = fs::read(&keys).unwrap();
    for lost in [Some(""), Some("[[keys]"), None] {
        match lost {
            Some(text) => fs::write(&keys, text).unwrap(),
            None => fs::remove_file(&keys).unwrap(),
        }
        let setup = Setup::new(root.path());
        assert!(setup.try_start().is_err(), "{lost:?}");
        let told = setup.told();
        assert!(told.contains("keys.toml"), "{lost:?}: {told}");
    }
    fs::write(&keys, kept).unwrap();
    drop(Setup::new(root.path()).start());
}
