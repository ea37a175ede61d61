//! Keys of a server that runs: what is changed in their file counts within two seconds, for calls and for
//! streams that are open; and what a browser keeps is void when its person signs out.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

use holdpoint::app::keys::{Keys, NewKey};
use holdpoint::kernel::Role;
use holdpoint::wire::v1::{ListRunsRequest, WatchRequestsRequest};
use tempfile::TempDir;
use tokio::time::{Instant, timeout};
use tonic::Code;

use crate::bridge::calls::Caller;
use crate::bridge::live::Socket;
use crate::support::server::{Client, Server, Setup};

/// How soon a change counts, and what a loaded machine may add to it.
const SOON: Duration = Duration::from_secs(5);

fn add(path: &Path, name: &str) -> String {
    Keys::add(path, name, Role::User, "").unwrap()
}

/// What a call without effect comes to.
async fn called(client: &mut Client) -> Code {
    match client.list_runs(ListRunsRequest::default()).await {
        Ok(_) => Code::Ok,
        Err(status) => status.code(),
    }
}

/// Returns when calls come to this; there is nothing to wait for but the next look at the file.
async fn comes_to(client: &mut Client, wanted: Code) {
    let until = Instant::now() + SOON;
    while called(client).await != wanted {
        assert!(Instant::now() < until, "not within {SOON:?}");
        tokio::task::yield_now().await;
    }
}

/// How an open stream of the inbox ends.
async fn ends(stream: &mut tonic::Streaming<holdpoint::wire::v1::WatchRequestsResponse>) -> Code {
    let told = async {
        loop {
            match stream.message().await {
                Ok(Some(_)) => {}
                Ok(None) => return Code::Ok,
                Err(status) => return status.code(),
            }
        }
    };
    timeout(SOON, told).await.expect("the stream stays open")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_removed_is_refused_at_once_on_open_streams_too() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("keys.toml");
    let (ada, bob) = (add(&path, "ada"), add(&path, "bob"));
    let server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    let mut clients = (server.client_with(&ada).await, server.client_with(&bob).await);
    let watch = WatchRequestsRequest::default;
    let mut hers = clients.0.watch_requests(watch()).await.unwrap().into_inner();
    let mut his = clients.1.watch_requests(watch()).await.unwrap().into_inner();
    hers.message().await.unwrap();
    his.message().await.unwrap();
    Keys::remove(&path, "ada", "").unwrap();
    assert_eq!(ends(&mut hers).await, Code::Unauthenticated);
    assert_eq!(called(&mut clients.0).await, Code::Unauthenticated);
    assert_eq!(called(&mut clients.1).await, Code::Ok, "the others go on");

    let eve = add(&path, "eve");
    comes_to(&mut server.client_with(&eve).await, Code::Ok).await;
    // The same name is not the same key.
    Keys::remove(&path, "bob", "").unwrap();
    let same = NewKey { again: true, ..NewKey::of("bob", Role::User) };
    Keys::make(&path, &same, &BTreeSet::new(), "").unwrap();
    assert_eq!(ends(&mut his).await, Code::Unauthenticated);
    comes_to(&mut clients.1, Code::Unauthenticated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_keys_file_that_breaks_opens_and_shuts_nothing_and_is_told() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("keys.toml");
    let ada = add(&path, "ada");
    let server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    let mut client = server.client_with(&ada).await;
    assert_eq!(server.page("/readyz"), (200, "ready\n".into()));
    let good = fs::read_to_string(&path).unwrap();
    let until = Instant::now() + SOON;
    fs::write(&path, "nonsense").unwrap();
    while !server.page("/readyz").1.contains("keys") {
        assert!(Instant::now() < until, "{}", server.page("/readyz").1);
    }
    assert_eq!(server.page("/readyz").0, 200, "it serves");
    assert!(server.told().contains("keys file"), "{}", server.told());
    assert_eq!(called(&mut client).await, Code::Ok, "the keys that were there");
    assert_eq!(called(&mut server.client().await).await, Code::Unauthenticated);
    fs::remove_file(&path).unwrap();
    fs::write(&path, good).unwrap();
    let bob = add(&path, "bob");
    comes_to(&mut server.client_with(&bob).await, Code::Ok).await;
    assert_eq!(server.page("/readyz"), (200, "ready\n".into()));
    fs::remove_file(&path).unwrap();
    let until = Instant::now() + SOON;
    while !server.page("/readyz").1.contains("keys") {
        assert!(Instant::now() < until, "{}", server.page("/readyz").1);
    }
    assert_eq!(called(&mut server.client().await).await, Code::Unauthenticated, "still keyed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_keys_asks_for_them_when_there_are_some() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let mut nobody = server.client().await;
    let mut stream = nobody.watch_requests(WatchRequestsRequest::default()).await.unwrap();
    let ada = add(&root.path().join("data/keys.toml"), "ada");
    assert_eq!(ends(stream.get_mut()).await, Code::Unauthenticated);
    assert_eq!(called(&mut nobody).await, Code::Unauthenticated);
    assert_eq!(called(&mut server.client_with(&ada).await).await, Code::Ok);
    assert_eq!(Caller::new(server.address()).get("/v1/workflows").status, 401);
    assert_eq!(server.page("/console/inbox").0, 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_over_http_and_sockets_end_with_their_key() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("keys.toml");
    let ada = add(&path, "ada");
    let server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    let pass = signed_in(&server, &ada);
    let mut live = TcpStream::connect(server.address()).unwrap();
    live.set_read_timeout(Some(SOON)).unwrap();
    let host = server.address();
    write!(live, "GET /console/live HTTP/1.0\r\nHost: {host}\r\nCookie: {pass}\r\n\r\n").unwrap();
    let mut head = [0; 12];
    live.read_exact(&mut head).unwrap();
    assert_eq!(&head, b"HTTP/1.0 200");
    let bearer = format!("holdpoint.v1, bearer.{ada}");
    let mut socket = Socket::open(&server, &[("sec-websocket-protocol", &bearer)]).await.unwrap();
    Keys::remove(&path, "ada", "").unwrap();
    live.read_to_end(&mut Vec::new()).expect("the stream stays open");
    let over = async { while socket.hear().await.is_some() {} };
    timeout(SOON, over).await.expect("the socket stays open");
}

/// Signs in at the console; returns the cookie.
pub(crate) fn signed_in(server: &Server, key: &str) -> String {
    let form = "Content-Type: application/x-www-form-urlencoded";
    let caller = Caller::new(server.address()).with(form);
    let reply = caller.raw("POST", "/console/sign-in", &format!("key={key}"));
    let cookie = reply.head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then_some(value)
    });
    cookie.unwrap().split(';').next().unwrap().to_owned()
}

#[test]
fn a_pass_is_void_after_signing_out_and_after_a_restart_too() {
    let root = TempDir::new().unwrap();
    let ada = add(&root.path().join("keys.toml"), "ada");
    let mut server = Setup::new(root.path()).arg("--keys=keys.toml").start();
    let (pass, other) = (signed_in(&server, &ada), signed_in(&server, &ada));
    assert_ne!(pass, other, "each browser has one of its own");
    let seen = |server: &Server, pass: &str| {
        let caller = Caller::new(server.address()).with(&format!("Cookie: {pass}"));
        caller.get("/console/inbox").status
    };
    assert_eq!((seen(&server, &pass), seen(&server, &other)), (200, 200));
    let out = Caller::new(server.address()).with(&format!("Cookie: {pass}"));
    assert_eq!(out.raw("POST", "/console/sign-out", "").status, 303);
    assert_eq!((seen(&server, &pass), seen(&server, &other)), (401, 200));
    server.restart();
    assert_eq!((seen(&server, &pass), seen(&server, &other)), (401, 200));
}
