//! Bridge calls: the least of a client for plain HTTP and server-sent events, so that tests see what
//! is really sent.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};

/// What came back.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("no JSON: {self:?}"))
    }

    /// The body of a call that succeeded.
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// A refusal in three words: its status, its code and the field.
    pub(crate) fn refusal(&self) -> (u16, String, String) {
        let error = self.json()["error"].take();
        let text = |field: &str| error[field].as_str().unwrap_or_default().to_owned();
        assert!(!text("message").is_empty() && !text("type").is_empty(), "{self:?}");
        (self.status, text("code"), text("param"))
    }
}

/// One server-sent event, as it came.
#[derive(Debug, Clone)]
pub(crate) struct Sse {
    pub(crate) event: Option<String>,
    pub(crate) data: Value,
}

impl Sse {
    pub(crate) fn kind(&self) -> &str {
        self.data["type"].as_str().unwrap()
    }
}

/// A caller of one server.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    address: String,
    headers: Vec<String>,
}

impl Caller {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.into(), headers: Vec::new() }
    }

    pub(crate) fn with(mut self, header: &str) -> Self {
        self.headers.push(header.into());
        self
    }

    /// A caller that reads events by hand, as qlaw-cli does.
    pub(crate) fn by_hand(address: &str) -> Self {
        Self::new(address).with("Accept: text/event-stream")
    }

    pub(crate) fn dial(&self, verb: &str, path: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // HTTP/1.0: the body ends where the connection does, and a stream needs no unpacking.
        let mut head = format!("{verb} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        for line in &self.headers {
            head.extend([line, "\r\n"]);
        }
        if verb == "POST" && path.starts_with("/console") {
            // As every browser says it of a form of the page's own.
            head.push_str("Sec-Fetch-Site: same-origin\r\n");
        }
        head.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n"]);
        stream.write_all(head.as_bytes()).unwrap();
        // A server that refuses a body need not read it.
        drop(stream.write_all(body.as_bytes()));
        BufReader::new(stream)
    }

    /// A call with any text for a body.
    pub(crate) fn raw(&self, verb: &str, path: &str, body: &str) -> Reply {
        let mut answer = String::new();
        // One that was refused in the middle of its body may be cut off after its answer.
        drop(self.dial(verb, path, body).read_to_string(&mut answer));
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.into(), body: body.into() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.raw("GET", path, "")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        let caller = self.clone().with("Content-Type: application/json");
        caller.raw("POST", path, &body.to_string())
    }

    /// A stream that has begun, event by event.
    pub(crate) fn follow(&self, verb: &str, path: &str, body: &Value) -> Events {
        let caller = self.clone().with("Content-Type: application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut reader = caller.dial(verb, path, &body);
        let mut head = String::new();
        while reader.read_line(&mut head).unwrap() > 2 {}
        assert!(head.to_lowercase().contains("content-type: text/event-stream"), "{head}");
        Events { reader, is_done: false }
    }

    /// A stream to its end, which it must say.
    pub(crate) fn events(&self, verb: &str, path: &str, body: &Value) -> Vec<Sse> {
        let mut events = self.follow(verb, path, body);
        let told: Vec<_> = events.by_ref().collect();
        assert!(events.is_done, "a stream ends with [DONE]: {told:?}");
        for (before, after) in told.iter().zip(told.iter().skip(1)) {
            let number = |sse: &Sse| sse.data["sequence_number"].as_u64().unwrap();
            assert_eq!(number(before) + 1, number(after), "{before:?} {after:?}");
        }
        told
    }

    /// Starts a workflow and waits until it rests.
    pub(crate) fn start(&self, workflow: &str, input: &str) -> Value {
        self.post("/v1/responses", &json!({"model": workflow, "input": input})).ok()
    }
}

/// The events of a stream, as they come.
#[derive(Debug)]
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
    is_done: bool,
}

impl Iterator for Events {
    type Item = Sse;

    fn next(&mut self) -> Option<Sse> {
        let (mut event, mut id, mut data) = (None, None, None);
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                if let Some(data) = data {
                    let data: Value = data;
                    assert_eq!(
                        id,
                        Some(data["sequence_number"].to_string()),
                        "its place is its id"
                    );
                    return Some(Sse { event, data });
                }
            } else if let Some(name) = line.strip_prefix("event: ") {
                assert!(data.is_none(), "the name of an event goes before its data");
                event = Some(name.to_owned());
            } else if let Some(given) = line.strip_prefix("id: ") {
                id = Some(given.to_owned());
            } else if line == "data: [DONE]" {
                self.is_done = true;
            } else if let Some(text) = line.strip_prefix("data: ") {
                data = Some(serde_json::from_str(text).unwrap());
            }
        }
    }
}

/// What a response asks first.
pub(crate) fn call_id(response: &Value) -> String {
    response["workflow_waiting"]["requests"][0]["request_id"].as_str().unwrap().to_owned()
}

/// The answer to a request, as an SDK sends it.
pub(crate) fn output(call_id: &str, output: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call_id, "output": output})
}

pub(crate) fn kinds(events: &[Sse]) -> Vec<&str> {
    events.iter().map(Sse::kind).collect()
}
