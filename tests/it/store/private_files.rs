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
