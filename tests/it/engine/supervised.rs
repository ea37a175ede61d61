//! Supervised: what those who start servers rely on: systemd is told how it is, a container asks by an exit code, and
//! a first start on an open address makes its own first key, once.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::server::{Server, Setup};
use crate::terminal::cli::{holdpoint, with_env};

#[test]
fn a_supervisor_is_told_that_it_serves_lives_and_stops() {
    let root = tempdir().unwrap();
    let place = root.path().join("notify");
    let line = UnixDatagram::bind(&place).unwrap();
    // Nobody waits for ever for a word that does not come.
    line.set_read_timeout(Some(Duration::from_mins(1))).unwrap();
    let hears = |word: &str| {
        let mut bytes = [0; 256];
        loop {
            let length = line.recv(&mut bytes).unwrap_or_else(|error| panic!("{word}: {error}"));
            if String::from_utf8_lossy(&bytes[..length]).lines().any(|one| one == word) {
                return;
            }
        }
    };
    let setup = Setup::new(root.path())
        .env("NOTIFY_SOCKET", place.to_str().unwrap())
        .env("WATCHDOG_USEC", "100000");
    let mut server = setup.start();
    hears("READY=1");
    hears("WATCHDOG=1");
    hears("WATCHDOG=1");
    server.terminate();
    hears("STOPPING=1");
    assert!(server.wait().success());
    // A supervisor that is gone stops nobody.
    drop(line);
    fs::remove_file(&place).unwrap();
    assert_eq!(setup.start().page("/healthz").0, 200);
}

#[test]
fn health_is_an_exit_code() {
    let root = tempdir().unwrap();
    let here = root.path();
    let mut server = Server::start(here);
    let url = server.url();
    let well = holdpoint(here, &["health", "--server", &url], "");
    assert_eq!((well.code, well.out.as_str()), (0, "ok\n"), "{well:?}");
    let ready = holdpoint(here, &["health", "--ready", "--json", "--server", &url], "");
    assert_eq!((ready.code, ready.json()["detail"].as_str()), (0, Some("ready")), "{ready:?}");
    // As a container asks: by what it was told to listen on, which others may reach, too.
    let port = server.address().rsplit(':').next().unwrap();
    let env = [("HOLDPOINT_LISTEN", format!("0.0.0.0:{port}"))];
    let env: Vec<_> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    assert_eq!(with_env(here, &["health"], "", &env).code, 0);
    let other = with_env(here, &["health", "--data", "other"], "", &env);
    assert_eq!(other.code, 7, "what listens there is not the server of that directory: {other:?}");
    assert!(other.err.contains("`other`") && !here.join("other").exists(), "{other:?}");
    server.kill();
    let gone = holdpoint(here, &["health", "--server", &url], "");
    assert_eq!(gone.code, 7, "{gone:?}");
    assert!(gone.err.contains("does not answer") && gone.err.contains("hint"), "{gone:?}");
}

#[test]
fn what_is_unwell_or_no_holdpoint_is_not_well() {
    let root = tempdir().unwrap();
    for (answer, code) in [
        ("HTTP/1.1 503 Service Unavailable\r\n\r\nthe store takes no writes\n", 1),
        ("HTTP/1.1 404 Not Found\r\n\r\n", 7),
        ("220 mail.example.org\r\n", 7),
        ("", 7),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let other = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // A socket that is closed with unread bytes resets the connection, and the answer may go with it.
            let asked = BufReader::new(&stream).lines().map(Result::unwrap);
            assert!(asked.take_while(|line| !line.is_empty()).count() > 0);
            stream.write_all(answer.as_bytes()).unwrap();
        });
        let ended = holdpoint(root.path(), &["health", "--server", &url], "");
        assert_eq!(ended.code, code, "{answer}: {ended:?}");
        other.join().unwrap();
    }
}

/// The first key that a server has printed, if it has.
fn first_key(told: &str) -> Option<String> {
    let shown = told.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut keys = shown.filter_map(|it| Some(it["first_key"]["secret"].as_str()?.to_owned()));
    let first = keys.next();
    assert_eq!(keys.next(), None, "it was printed twice");
    first
}

#[test]
fn a_first_start_on_an_open_address_prints_a_key_once_that_ends() {
    let root = tempdir().unwrap();
    let setup = Setup::new(root.path()).listen("0.0.0.0:0").arg("--first-key");
    let server = setup.start();
    let url = server.url().replace("0.0.0.0", "127.0.0.1");
    let key = first_key(&server.told()).unwrap();
    let kept = fs::read_to_string(root.path().join("data/keys.toml")).unwrap();
    assert!(!kept.contains(&key) && kept.contains("expires"), "{kept}");
    let words = ["workflows", "--server", &url];
    assert_eq!(holdpoint(root.path(), &words, "").code, 6, "without it nobody comes in");
    let env = [("HOLDPOINT_API_KEY", key.as_str())];
    let started = ["run", "approve_and_send", "Tell the team.", "--server", &url, "--json"];
    assert_eq!(with_env(root.path(), &started, "", &env).code, 4);
    drop(server);
    let again = setup.start();
    assert_eq!(first_key(&again.told()), Some(key), "a second start makes none");
}

#[test]
fn no_first_key_is_made_where_there_is_anything_to_take() {
    // Data without keys: whoever took the keys file away is given nothing.
    let used = tempdir().unwrap();
    drop(Server::start(used.path()));
    let refused = Setup::new(used.path()).listen("0.0.0.0:0").arg("--first-key").try_start();
    assert!(refused.is_err() && !used.path().join("data/keys.toml").exists());
    // On loopback none is needed; a keys file that was named is somebody's to write; and nobody who did not ask.
    let fresh = tempdir().unwrap();
    drop(Setup::new(fresh.path()).arg("--first-key").start());
    assert!(!fresh.path().join("data/keys.toml").exists());
    let named = tempdir().unwrap();
    let setup = Setup::new(named.path()).listen("0.0.0.0:0").arg("--first-key");
    assert!(setup.arg("--keys").arg("keys.toml").try_start().is_err());
    let silent = tempdir().unwrap();
    assert!(Setup::new(silent.path()).listen("0.0.0.0:0").try_start().is_err());
    for place in [&used, &fresh, &named, &silent] {
        let log = fs::read_to_string(place.path().join("server.log")).unwrap();
        assert_eq!(first_key(&log), None, "{log}");
    }
}

#[test]
fn the_manual_has_a_page_for_every_command_and_the_version_says_how_it_was_built() {
    let root = tempdir().unwrap();
    let ended = holdpoint(root.path(), &["man", "pages"], "");
    assert_eq!(ended.code, 0, "{ended:?}");
    for page in ["holdpoint.1", "holdpoint-respond.1", "holdpoint-keys-add.1"] {
        let text = fs::read_to_string(root.path().join("pages").join(page)).unwrap();
        assert!(text.contains(".SH"), "{page}");
    }
    let version = holdpoint(root.path(), &["--version"], "").out;
    assert!(
        version.starts_with(concat!("holdpoint ", env!("CARGO_PKG_VERSION"), " (")),
        "{version}"
    );
}
