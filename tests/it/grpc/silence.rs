//! Silence: a peer that says nothing, or stops in the middle of what it says, is hung up on, and no
//! address takes the places of all others.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpSocket;

use crate::support::server::{Server, Setup};

/// Well beyond the second that these servers wait, and well below what they wait unless told.
const LONG: Duration = Duration::from_secs(10);
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A frame of settings that are what they are.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

fn server(root: &TempDir) -> Setup {
    Setup::new(root.path()).env("HOLDPOINT_SILENCE_SECONDS", "1")
}

/// Says so much and no more; whether the server hangs up.
fn is_hung_up_on(server: &Server, said: &[u8]) -> bool {
    let mut stream = TcpStream::connect(server.address()).unwrap();
    stream.set_read_timeout(Some(LONG)).unwrap();
    stream.write_all(said).unwrap();
    match stream.read_to_end(&mut Vec::new()) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
    }
}

/// A call of a method over HTTP/2 whose message never comes.
fn half_a_call(host: &str) -> Vec<u8> {
    let mut block = vec![0x83, 0x86];
    let mut field = |name: &[u8], value: &str| {
        block.extend(name);
        block.push(u8::try_from(value.len()).unwrap());
        block.extend(value.as_bytes());
    };
    field(&[0x04], "/holdpoint.v1.Orchestrator/ListRuns");
    field(&[0x01], host);
    field(&[0x0f, 0x10], "application/grpc");
    let length = u8::try_from(block.len()).unwrap();
    let mut said = [PREFACE, SETTINGS].concat();
    // HEADERS of stream 1, whole, with a body to come.
    said.extend([0, 0, length, 1, 4, 0, 0, 0, 1]);
    said.extend(block);
    said
}

#[test]
fn whoever_stops_in_the_middle_is_hung_up_on() {
    let root = TempDir::new().unwrap();
    let server = server(&root).start();
    let host = server.address().to_owned();
    let head = format!("Host: {host}\r\n");
    let json = "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"inp";
    let sayings: [(&str, Vec<u8>); 9] = [
        ("nothing", Vec::new()),
        ("half a preface", b"PRI * HTTP/2.0\r\n".to_vec()),
        ("a preface alone", PREFACE.to_vec()),
        ("a preface and settings", [PREFACE, SETTINGS].concat()),
        ("half a head", b"GET /healthz HT".to_vec()),
        ("half a body", format!("POST /v1/responses HTTP/1.1\r\n{head}{json}").into_bytes()),
        ("half an A2A body", format!("POST /a2a HTTP/1.1\r\n{head}{json}").into_bytes()),
        ("one call, and then nothing", format!("GET /healthz HTTP/1.1\r\n{head}\r\n").into_bytes()),
        ("half a gRPC call", half_a_call(&host)),
    ];
    std::thread::scope(|scope| {
        for (what, said) in &sayings {
            let server = &server;
            scope.spawn(move || assert!(is_hung_up_on(server, said), "{what}"));
        }
    });
    assert_eq!(server.page("/healthz").0, 200);
}

#[test]
fn a_socket_that_answers_no_ping_is_hung_up_on() {
    let root = TempDir::new().unwrap();
    let server = server(&root).start();
    let host = server.address();
    let open = format!(
        "GET /v1/ws HTTP/1.1\r\nHost: {host}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    );
    assert!(is_hung_up_on(&server, open.as_bytes()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stream_that_waits_for_its_run_is_not_silence() {
    use holdpoint::wire::v1::{CancelRunRequest, WatchRunRequest};
    let root = TempDir::new().unwrap();
    let server = server(&root).start();
    let mut client = server.client().await;
    let begun = crate::support::server::run(
        &mut client,
        crate::support::server::start_of("guarded", "", "Go.", "k"),
    );
    let run_id = begun.await[0].run_id.clone();
    let watch =
        WatchRunRequest { run_id: run_id.clone(), through_pauses: true, ..Default::default() };
    let mut stream = client.watch_run(watch).await.unwrap().into_inner();
    // As long as it takes until somebody is hung up on who owes something: this one owes nothing.
    assert!(tokio::task::block_in_place(|| is_hung_up_on(&server, b"")));
    client.cancel_run(CancelRunRequest { run_id, ..Default::default() }).await.unwrap();
    let mut last = None;
    while let Some(event) = stream.message().await.unwrap() {
        last = event.event;
    }
    assert_eq!(crate::support::server::name(&last.unwrap()), "cancelled");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_address_takes_more_than_its_share() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).env("HOLDPOINT_CONNECTIONS_PER_ADDRESS", "8").start();
    let address = server.address().parse().unwrap();
    let mut silent = Vec::new();
    for _ in 0..8 {
        silent.push(tokio::net::TcpStream::connect(address).await.unwrap());
    }
    // One more of the same address comes in: who came first and has said nothing makes room.
    assert_eq!(server.page("/healthz").0, 200);
    let mut first = silent.remove(0);
    let ended = tokio::time::timeout(LONG, first.read(&mut [0; 1])).await;
    assert!(matches!(ended, Ok(Ok(0) | Err(_))), "the first is still there");
    // Those who have spoken stay: where all have, nobody else of that address comes in.
    let host = server.address();
    let mut speaking = Vec::new();
    for _ in 0..8 {
        let mut stream = TcpStream::connect(host).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        write!(stream, "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).unwrap();
        assert_eq!(&head, b"HTTP/1.1 200");
        speaking.push(stream);
    }
    let mut late = TcpStream::connect(host).unwrap();
    late.set_read_timeout(Some(LONG)).unwrap();
    drop(write!(late, "GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n"));
    let mut heard = Vec::new();
    drop(late.read_to_end(&mut heard));
    assert!(heard.is_empty(), "a ninth of the same address");
    // Another address has a share of its own.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let mut other = socket.connect(address).await.unwrap();
    let ask = format!("GET /healthz HTTP/1.0\r\nHost: {host}\r\n\r\n");
    tokio::io::AsyncWriteExt::write_all(&mut other, ask.as_bytes()).await.unwrap();
    let mut head = [0; 12];
    other.read_exact(&mut head).await.unwrap();
    assert_eq!(&head, b"HTTP/1.0 200");
}
