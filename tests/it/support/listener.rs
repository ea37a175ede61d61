//! A server of somebody else's: plain HTTP, answering as a test tells it to, and keeping what it heard.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use serde_json::Value;

/// Longer than any test takes that is going well.
const PATIENCE: Duration = Duration::from_secs(30);

/// One call as it was heard.
#[derive(Debug, Clone)]
pub(crate) struct Heard {
    pub(crate) path: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Heard {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// What is answered: a status and a JSON body, or the events of a stream.
pub(crate) type Answer = (u16, String);

/// Ends the events of a stream that never ends: they are told over and over.
pub(crate) const FOR_EVER: &str = ": for ever\n";

/// Listens until the test is over.
pub(crate) struct Listener {
    address: String,
    heard: mpsc::Receiver<Heard>,
}

impl Listener {
    pub(crate) fn start(answer: impl Fn(&Heard) -> Answer + Send + Sync + 'static) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let (tell, heard) = mpsc::channel();
        let answer = Arc::new(answer);
        std::thread::spawn(move || {
            for stream in socket.incoming().map_while(Result::ok) {
                let (tell, answer) = (tell.clone(), Arc::clone(&answer));
                std::thread::spawn(move || {
                    let Some(call) = read(&stream) else { return };
                    let (status, body) = answer(&call);
                    // Told first: whoever is answered may look for it at once.
                    drop(tell.send(call));
                    write(stream, status, &body);
                });
            }
        });
        Self { address, heard }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A call that was made already, if there is one.
    pub(crate) fn heard(&self) -> Option<Heard> {
        self.heard.try_recv().ok()
    }

    /// The next call.
    pub(crate) fn next(&self) -> Heard {
        self.heard.recv_timeout(PATIENCE).expect("nobody called")
    }
}

fn read(stream: &TcpStream) -> Option<Heard> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let path = line.split(' ').nth(1)?.to_owned();
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(Heard { path, headers, body })
}

fn write(mut stream: TcpStream, status: u16, body: &str) {
    let kind = if body.starts_with("data:") { "text/event-stream" } else { "application/json" };
    let length = match body.strip_suffix(FOR_EVER) {
        Some(_) => String::new(),
        None => format!("Content-Length: {}\r\n", body.len()),
    };
    let head =
        format!("HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\n{length}Connection: close\r\n\r\n");
    // Whoever called may have died, and whoever is told the same for ever leaves at last.
    let mut told = stream.write_all(format!("{head}{body}").as_bytes());
    while body.ends_with(FOR_EVER) && told.is_ok() {
        told = stream.write_all(body.as_bytes());
    }
}
