//! Web pages: a server without keys does nothing for the pages that a browser on the same machine
//! happens to show, at none of its doors; with and without keys, gRPC is gRPC and nothing else.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use holdpoint::wire::v1::orchestrator_client::OrchestratorClient;
use holdpoint::wire::v1::{GetRunRequest, ListRequestsRequest, RunStatus};
use prost::Message as _;
use tempfile::TempDir;
use tonic::transport::Endpoint;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::bridge::calls::Caller;
use crate::support::server::{Server, Setup, answer_to, asked, names, run, start_of};

const SEND: &str = "/holdpoint.v1.Orchestrator/SendResponses";
const LIST: &str = "/holdpoint.v1.Orchestrator/ListRequests";
const LISTED: &str = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
const HEALTH: &str = "/grpc.health.v1.Health/Check";
const TASKS: &str = "/lf.a2a.v1.A2AService/ListTasks";
/// One page of every door.
const PAGES: [&str; 9] = [
    "/console/inbox",
    "/console/assets/console.css",
    "/a2a/.well-known/agent-card.json",
    "/.well-known/agent-card.json",
    "/v1/workflows",
    "/openapi.json",
    "/metrics",
    "/health",
    "/nothing/here",
];

/// A key that signs nothing but the cards of these tests.
const CARD_KEY: &str = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEII/EbeCJddRuBHFX7eHcaO/QgV+F0WKX6p/NXYdj/N2t\n-----END PRIVATE KEY-----\n";

/// A message as gRPC frames it.
fn framed(message: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    bytes.extend(u32::try_from(message.len()).unwrap().to_be_bytes());
    bytes.extend(message);
    bytes
}

/// Sends a request over HTTP/1.1 as it stands; returns the answer's status, and all of it.
fn http(server: &Server, verb: &str, path: &str, heads: &[&str], body: &[u8]) -> (u16, String) {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    let heads: Vec<String> = heads.iter().map(|head| format!("{head}\r\n")).collect();
    let heads = heads.concat();
    let length = body.len();
    let head = format!(
        "{verb} {path} HTTP/1.1\r\n{heads}Connection: close\r\nContent-Length: {length}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    let mut answer = Vec::new();
    // A connection that is cut is as good a no as any.
    drop(stream.read_to_end(&mut answer));
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.split(' ').nth(1).unwrap_or("0").parse().unwrap(), answer)
}

/// The inbox over HTTP/2, as whoever calls the server by that name and says so much else.
async fn listed(server: &Server, name: &str, heads: &[(&'static str, &str)]) -> Result<(), Status> {
    let endpoint = Endpoint::from_shared(server.url()).unwrap();
    let endpoint = endpoint.origin(format!("http://{name}").parse().unwrap());
    let mut client = OrchestratorClient::new(endpoint.connect().await.unwrap());
    let mut request = tonic::Request::new(ListRequestsRequest::default());
    for (head, value) in heads {
        request.metadata_mut().insert(*head, value.parse().unwrap());
    }
    client.list_requests(request).await.map(drop)
}

/// What a refusal says in a program's words.
fn reason(refused: &Status) -> String {
    refused.get_details_error_info().map(|info| info.reason).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_no_page_answers_a_question_by_a_request_that_needs_no_leave() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let mut client = server.client().await;
    let events = run(&mut client, start_of("guarded", "", "Go.", "k")).await;
    let request = asked(&events).unwrap();
    let answer = framed(&answer_to(&request.request_id, "approve", "").encode_to_vec());
    let own = format!("Host: {}", server.address());
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/grpc-web",
        "application/grpc-web+proto",
        "application/grpc-web-text",
        "application/json",
        // Right but for the protocol beneath.
        "application/grpc",
    ] {
        let kind = format!("Content-Type: {kind}");
        let (status, told) = http(&server, "POST", SEND, &[&own, &kind], &answer);
        assert_eq!(status, 415, "{kind}: {told}");
        assert!(told.contains("call.not_grpc"), "{kind}: {told}");
    }
    let (status, _) = http(&server, "POST", SEND, &[&own], &answer);
    assert_eq!(status, 415, "no type at all");
    for path in [LIST, LISTED, HEALTH, TASKS] {
        let kind = "Content-Type: application/grpc";
        let (status, told) = http(&server, "POST", path, &[&own, kind], &framed(b""));
        assert_eq!(status, 415, "{path}: {told}");
    }
    let run_id = events[0].run_id.clone();
    let stands = client.get_run(GetRunRequest { run_id, ..Default::default() }).await.unwrap();
    assert_eq!(stands.into_inner().run.unwrap().status(), RunStatus::Waiting);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_a_form_that_does_not_say_whose_it_is_decides_nothing() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let mut client = server.client().await;
    let events = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "k")).await;
    let request = asked(&events).unwrap();
    let path = format!("/console/requests/{}", request.request_id);
    let form = format!("digest={}&decision=approve", request.digest);
    let own = format!("Host: {}", server.address());
    let kind = "Content-Type: application/x-www-form-urlencoded";
    let (status, told) = http(&server, "POST", &path, &[&own, kind], form.as_bytes());
    assert_eq!(status, 403, "{told}");
    let run_id = events[0].run_id.clone();
    let stands = client.get_run(GetRunRequest { run_id: run_id.clone(), ..Default::default() });
    let stands = stands.await.unwrap().into_inner().run.unwrap();
    assert_eq!(stands.status(), RunStatus::Waiting);
    // The same from one of our own pages, as an older browser says it.
    let origin = format!("Origin: {}", server.url());
    let (status, told) = http(&server, "POST", &path, &[&own, kind, &origin], form.as_bytes());
    assert!(status < 400, "{told}");
    let told = crate::support::server::journal(&mut client, &run_id).await;
    assert_eq!(names(&told).last(), Some(&"completed"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn c4_grpc_answers_only_to_our_own_names_and_pages_where_no_key_guards_it() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).arg("--public-url").arg("https://hold.example").start();
    let port = server.address().rsplit(':').next().unwrap();
    for name in ["localhost", "127.0.0.1", "[::1]"] {
        let name = format!("{name}:{port}");
        listed(&server, &name, &[]).await.unwrap();
        let origin = format!("http://{name}");
        listed(&server, &name, &[("origin", &origin)]).await.unwrap();
    }
    listed(&server, "hold.example", &[("origin", "https://hold.example")]).await.unwrap();
    for name in ["evil.example", "localhost.evil.example", "evil.example:4653", "10.0.0.1"] {
        let no = listed(&server, name, &[]).await.unwrap_err();
        assert_eq!((no.code(), reason(&no).as_str()), (Code::PermissionDenied, "host.foreign"));
    }
    let own = server.address();
    for foreign in [
        ("origin", "http://evil.example"),
        ("origin", "null"),
        ("origin", "http://127.0.0.1:1"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let no = listed(&server, own, &[foreign]).await.unwrap_err();
        let told = (no.code(), reason(&no));
        assert_eq!(told, (Code::PermissionDenied, "origin.foreign".into()), "{foreign:?}");
    }
    listed(&server, own, &[("sec-fetch-site", "same-origin")]).await.unwrap();
    let hosted = listed(&server, own, &[("host", "evil.example")]).await.unwrap_err();
    assert_eq!(reason(&hosted), "host.foreign", "either name counts");
}

#[test]
fn c4_every_page_is_kept_from_foreign_names_and_sites_where_no_key_guards_it() {
    let root = TempDir::new().unwrap();
    let server = Server::start(root.path());
    let own = format!("Host: {}", server.address());
    for path in PAGES {
        let get = |heads: &[&str]| http(&server, "GET", path, heads, b"");
        let (status, told) = get(&[&own]);
        assert!(status != 403 && status != 421, "{path}: {told}");
        for host in ["Host: evil.example", "Host: localhost:80.evil", "Host: [::1]x"] {
            let (status, told) = get(&[host]);
            assert!(status == 421 && told.contains("host.foreign"), "{path} {host}: {told}");
        }
        for foreign in [
            "Origin: http://evil.example",
            "Origin: null",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: iframe",
        ] {
            let (status, told) = get(&[&own, foreign]);
            assert!(status == 403 && told.contains("origin.foreign"), "{path} {foreign}: {told}");
        }
        // Whoever types an address, or follows a link to it, may read what is there.
        for ours in [
            "Sec-Fetch-Site: none\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document",
            "Sec-Fetch-Site: cross-site\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Dest: document",
            "Sec-Fetch-Site: same-origin",
        ] {
            let (status, told) = get(&[&own, ours]);
            assert!(status != 403 && status != 421, "{path} {ours}: {told}");
        }
    }
    let absolute = http(&server, "GET", "http://evil.example/metrics", &[&own], b"");
    assert_eq!(absolute.0, 421, "either name counts");
    for probe in ["/healthz", "/readyz"] {
        assert_eq!(http(&server, "GET", probe, &["Host: 10.1.2.3:4653"], b"").0, 200, "{probe}");
        let page = ["Host: 10.1.2.3:4653", "Origin: http://evil.example"];
        assert_eq!(http(&server, "GET", probe, &page, b"").0, 403, "{probe}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_keys_any_name_will_do_and_grpc_is_still_grpc() {
    let root = TempDir::new().unwrap();
    let keys = root.path().join("keys.toml");
    let role = holdpoint::kernel::Role::Admin;
    let key = holdpoint::app::keys::Keys::add(&keys, "ada", role, "").unwrap();
    let server = Setup::new(root.path()).arg("--keys").arg("keys.toml").start();
    let bearer = format!("Bearer {key}");
    listed(&server, "hold.example", &[("authorization", &bearer)]).await.unwrap();
    let caller = Caller::new(server.address()).with(&format!("Authorization: {bearer}"));
    assert_eq!(caller.get("/v1/workflows").status, 200);
    let heads = [
        "Host: hold.example",
        &format!("Authorization: {bearer}"),
        "Content-Type: application/grpc",
    ];
    assert_eq!(http(&server, "POST", LIST, &heads, &framed(b"")).0, 415);
}

#[test]
fn m7_no_card_points_at_a_name_that_the_server_was_not_given() {
    let root = TempDir::new().unwrap();
    let keys = root.path().join("keys.toml");
    let role = holdpoint::kernel::Role::Admin;
    holdpoint::app::keys::Keys::add(&keys, "ada", role, "").unwrap();
    let key = root.path().join("card.pem");
    std::fs::write(&key, CARD_KEY).unwrap();
    let setup = Setup::new(root.path()).arg("--keys=keys.toml").arg("--a2a-card-key=card.pem");
    let card = |server: &Server, host: &str| {
        let host = format!("Host: {host}");
        http(server, "GET", "/a2a/approve_and_send/.well-known/agent-card.json", &[&host], b"")
    };
    {
        let server = setup.start();
        let own = format!("http://{}/a2a/", server.address());
        for foreign in ["evil.example", "evil.example:4653", "10.0.0.1"] {
            let (status, told) = card(&server, foreign);
            assert!(status == 200 && told.contains(&own), "{foreign}: {told}");
            let is_signed = told.contains("\"signatures\"");
            assert!(is_signed && !told.contains(foreign), "{foreign}: {told}");
        }
        let port = server.address().rsplit(':').next().unwrap();
        let (_, told) = card(&server, &format!("localhost:{port}"));
        assert!(told.contains(&format!("http://localhost:{port}/a2a/")), "{told}");
    }
    let named = setup.arg("--public-url=https://hold.example").start();
    let (_, told) = card(&named, "evil.example");
    assert!(told.contains("https://hold.example/a2a/") && !told.contains("evil"), "{told}");
}

#[test]
fn m7_a_server_on_all_addresses_makes_no_card_for_a_name_of_the_callers_choice() {
    let root = TempDir::new().unwrap();
    let keys = root.path().join("keys.toml");
    let role = holdpoint::kernel::Role::Admin;
    holdpoint::app::keys::Keys::add(&keys, "ada", role, "").unwrap();
    let setup = Setup::new(root.path()).listen("0.0.0.0:0").arg("--keys=keys.toml");
    let server = setup.start();
    let path = "/a2a/approve_and_send/.well-known/agent-card.json";
    let (status, told) = http(&server, "GET", path, &["Host: evil.example"], b"");
    assert_eq!(status, 400, "{told}");
    assert!(told.contains("--public-url"), "{told}");
    let (status, told) = http(&server, "GET", path, &["Host: 127.0.0.1:1"], b"");
    assert!(status == 200 && told.contains("http://127.0.0.1:1/a2a/"), "{told}");
}
