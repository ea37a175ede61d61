//! A2A calls: the least of a client for A2A's HTTP bindings, so that tests see what is really sent.

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

    /// A header's value.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        let mut found = lines.filter(|(known, _)| known.eq_ignore_ascii_case(name));
        found.next().map(|(_, value)| value)
    }
}

/// One agent at an address.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) address: String,
    /// Below the server: `/a2a` or `/a2a/{workflow}`.
    pub(crate) path: String,
    /// Header lines that go with every call.
    pub(crate) headers: Vec<String>,
}

impl Agent {
    pub(crate) fn new(address: &str, path: &str) -> Self {
        let headers = vec!["A2A-Version: 1.0".into()];
        Self { address: address.into(), path: path.into(), headers }
    }

    pub(crate) fn with(mut self, header: &str) -> Self {
        self.headers.push(header.into());
        self
    }

    fn dial(&self, verb: &str, path: &str, body: &str) -> BufReader<TcpStream> {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        // HTTP/1.0: the body ends where the connection does, and a stream needs no unpacking.
        let mut head = format!("{verb} {path} HTTP/1.0\r\nHost: {}\r\n", self.address);
        for line in &self.headers {
            head.push_str(line);
            head.push_str("\r\n");
        }
        head.extend(["Content-Length: ", &body.len().to_string(), "\r\n\r\n"]);
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(body.as_bytes()).unwrap();
        BufReader::new(stream)
    }

    /// A call over plain HTTP, below the server.
    pub(crate) fn http(&self, verb: &str, path: &str, body: &str) -> Reply {
        let mut answer = String::new();
        self.dial(verb, path, body).read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        Reply { status, head: head.into(), body: body.into() }
    }

    /// A call by HTTP+JSON, below the agent.
    pub(crate) fn rest(&self, verb: &str, path: &str, body: &Value) -> Reply {
        let agent = self.clone().with("Content-Type: application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        agent.http(verb, &format!("{}{path}", self.path), &body)
    }

    /// A call by JSON-RPC: its whole response.
    pub(crate) fn rpc(&self, method: &str, params: &Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let reply = self.rest("POST", "", &call);
        let response = reply.json();
        assert_eq!(response["id"], 7, "{reply:?}");
        response
    }

    /// A call by JSON-RPC that succeeds.
    pub(crate) fn call(&self, method: &str, params: &Value) -> Value {
        let mut response = self.rpc(method, params);
        assert!(response.get("error").is_none(), "{response}");
        response["result"].take()
    }

    /// Sends a message: its task.
    pub(crate) fn send(&self, message: &Value) -> Value {
        self.call("SendMessage", &json!({"message": message}))["task"].take()
    }

    /// A stream by JSON-RPC.
    pub(crate) fn stream(&self, method: &str, params: &Value) -> Events {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let agent = self.clone().with("Content-Type: application/json");
        let mut reader = agent.dial("POST", &self.path, &call.to_string());
        let mut line = String::new();
        while reader.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        Events { reader }
    }
}

/// The events of a stream, as they come.
#[derive(Debug)]
pub(crate) struct Events {
    reader: BufReader<TcpStream>,
}

impl Iterator for Events {
    /// The id, and what was told.
    type Item = (String, Value);

    fn next(&mut self) -> Option<(String, Value)> {
        let mut id = String::new();
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).unwrap_or_default() == 0 {
                return None;
            }
            if let Some(given) = line.strip_prefix("id: ") {
                id = given.trim().into();
            }
            if let Some(data) = line.strip_prefix("data: ") {
                let mut told: Value = serde_json::from_str(data).unwrap();
                return Some((id, told["result"].take()));
            }
        }
    }
}

/// A message of a caller.
pub(crate) fn text(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

/// The same, to a task.
/// What a person types who decides: the verb and the code that was printed with the question.
#[expect(clippy::needless_pass_by_value, reason = "a value or a reference, as it is at hand")]
pub(crate) fn coded(told: impl ToString, verb: &str) -> String {
    let told = told.to_string();
    let begins = format!("`{verb} ");
    let (_, rest) = told.split_once(&begins).unwrap_or_else(|| panic!("no code in {told}"));
    let (code, _) = rest.split_once('`').unwrap();
    format!("{verb} {code}")
}

pub(crate) fn to(task: &Value, mut message: Value) -> Value {
    message["taskId"] = task["id"].clone();
    message
}

pub(crate) fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap().strip_prefix("TASK_STATE_").unwrap()
}

/// An event of a stream in a word or two.
pub(crate) fn word(told: &Value) -> String {
    if let Some(task) = told.get("task") {
        return format!("task {}", state(task));
    }
    if let Some(update) = told.get("statusUpdate") {
        let said = update["status"]["message"]["parts"][0]["text"].as_str();
        let said = said.filter(|_| state(update) == "WORKING").map(|text| format!(": {text}"));
        return format!("{}{}", state(update), said.unwrap_or_default());
    }
    let parts = &told["artifactUpdate"]["artifact"]["parts"];
    format!("artifact: {}", parts[0]["text"].as_str().unwrap())
}
