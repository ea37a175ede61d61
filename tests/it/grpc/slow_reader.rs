//! A client that asks for streams and stops reading them: it is cut, it holds up nobody, and nothing
//! piles up behind it.

use std::io::{ErrorKind, Write as _};
use std::net::TcpStream;
use std::thread;

use tempfile::TempDir;

use crate::bridge::calls::Caller;
use crate::support::server::Server;

/// What the server may grow by meanwhile: a stream of it has about this much, and hundreds are asked for.
const GROWTH_KIB_MAX: u64 = 64 << 10;

#[test]
fn a_client_that_stops_reading_is_cut_and_nothing_is_buffered_for_it() {
    let here = TempDir::new().unwrap();
    let server = Server::start(here.path());
    let caller = Caller::new(server.address());
    let long = "All work and no play. ".repeat(30_000);
    let id = caller.start("approve_and_send", &long)["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/responses/{id}?stream=true");
    assert!(caller.get(&path).body.len() > 2_000_000, "a stream worth of not being read");
    let before = server.resident_kib();

    let mut stream = TcpStream::connect(server.address()).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.address());
    let deaf = thread::spawn(move || {
        // It asks on and on, which blocks when the server no longer hears it, and fails when it is cut.
        loop {
            if let Err(error) = stream.write_all(request.as_bytes()) {
                return error;
            }
        }
    });
    for _ in 0..20 {
        let told = caller.start("approve_and_send", "Tell Ada.");
        assert_eq!(told["status"], "completed", "others are served all the while");
    }
    let cut = deaf.join().unwrap();
    assert!(matches!(cut.kind(), ErrorKind::ConnectionReset | ErrorKind::BrokenPipe), "{cut}");
    let grown = server.resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB were kept for it");
}
