//! Examples: every program and file in `examples/` does what it says, with nothing but Python and the binary.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use tempfile::TempDir;

use crate::evidence::served::command;
use crate::support::server::{
    Server, Setup, answer_to, asked, forget_settings, run, send, start_of,
};

const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");

fn python(name: &str) -> Command {
    let mut command = Command::new("python3");
    forget_settings(&mut command);
    command.arg(Path::new(EXAMPLES).join(name)).stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// What `approve.py` says, given these words of the person's.
fn approved(server: &Server, workflow: &str, words: &str, says: &str) -> String {
    let mut child = python("approve.py")
        .args([workflow, words])
        .env("HOLDPOINT_SERVER", server.url())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(says.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_http_example_shows_what_is_decided_and_sends_exactly_that() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).start();
    let told = approved(&server, "approve_and_send", "Tell Ada.", "approve\n");
    assert!(told.contains("Send this message?\n\nTell Ada.\n"), "{told}");
    assert!(told.trim_end().ends_with("Sent: Tell Ada."), "{told}");
    let told = approved(&server, "approve_and_send", "Tell Ben.", "reject\n");
    assert!(!told.contains("Sent:"), "{told}");
}

#[test]
fn the_refund_example_asks_for_a_large_amount_and_pays_only_with_a_yes() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).flows(Path::new(EXAMPLES)).start();
    let told = approved(&server, "refunds", "Refund order 7.", "allow_once\n");
    assert!(told.contains("\"amount\": 120"), "{told}");
    assert!(told.trim_end().ends_with("The refund is on its way."), "{told}");
    let told = approved(&server, "refunds", "Refund order 7.", "deny\n");
    assert!(told.trim_end().ends_with("Nothing was refunded."), "{told}");
}

/// The receiver, and what it prints.
struct Receiver {
    child: Child,
    lines: BufReader<ChildStdout>,
    port: String,
}

impl Receiver {
    fn start(secret: &str, heads: &Path) -> Self {
        let mut command = python("webhook.py");
        command.arg("0").arg(heads).env("HOLDPOINT_WEBHOOK_SECRET", secret);
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        let mut receiver = Self { child, lines, port: String::new() };
        let line = receiver.line();
        line.rsplit(' ').next().unwrap().clone_into(&mut receiver.port);
        receiver
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// What a receiver says to a body that nobody has signed.
fn posted(port: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
    let length = body.len();
    write!(stream, "POST / HTTP/1.0\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test]
async fn the_webhook_example_prints_what_is_signed_and_nothing_else() {
    const SECRET: &str = "whsec_a_long_random_text";
    let root = TempDir::new().unwrap();
    let mut receiver = Receiver::start(SECRET, &root.path().join("heads.jsonl"));
    let url = format!("http://127.0.0.1:{}/", receiver.port);
    let forged = posted(&receiver.port, r#"{"id": "1", "type": "run.completed"}"#);
    assert!(forged.starts_with("HTTP/1.0 401"), "what nobody signed is refused: {forged}");
    let told = ["--webhook-url", &url, "--webhook-secret", SECRET, "--audit-seconds=3600"];
    let server = told.iter().fold(Setup::new(root.path()), |setup, one| setup.arg(one)).start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "k0")).await;
    let request = asked(&events).unwrap().request_id;
    let run_id = &events[0].run_id;
    assert_eq!(receiver.line(), format!("request.asked approve_and_send {run_id} {request}"));
    send(&mut client, answer_to(&request, "approve", "k1")).await;
    assert_eq!(receiver.line(), format!("request.answered approve_and_send {run_id} {request}"));
    assert_eq!(receiver.line(), format!("run.completed approve_and_send {run_id}"));
}

#[tokio::test]
async fn the_webhook_example_keeps_every_head_that_it_is_told_of() {
    const SECRET: &str = "whsec_a_long_random_text";
    let root = TempDir::new().unwrap();
    let kept = root.path().join("heads.jsonl");
    let mut receiver = Receiver::start(SECRET, &kept);
    let url = format!("http://127.0.0.1:{}/", receiver.port);
    let told = ["--webhook-url", &url, "--webhook-secret", SECRET, "--audit-seconds=1"];
    let mut server = told.iter().fold(Setup::new(root.path()), |setup, one| setup.arg(one)).start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("approve_and_send", "", "Tell Ada.", "k0")).await;
    send(&mut client, answer_to(&asked(&events).unwrap().request_id, "approve", "k1")).await;
    let line = loop {
        let line = receiver.line();
        assert!(!line.is_empty(), "it went away");
        if line.starts_with("evidence.head ") {
            break line;
        }
    };
    // It is on the disk before it is printed, and printed before it is answered.
    let kept = std::fs::read_to_string(kept).unwrap();
    let head: serde_json::Value = serde_json::from_str(kept.lines().next().unwrap()).unwrap();
    let note = head["note"].as_str().unwrap();
    let words: Vec<_> = note.lines().take(3).collect();
    assert_eq!(line, format!("evidence.head {}", words.join(" ")));
    assert_eq!(head["leaves"].to_string(), words[1]);
    let file = root.path().join("head.txt");
    std::fs::write(&file, note).unwrap();
    server.terminate();
    server.wait();
    let told = command(root.path(), &["verify", "--since", file.to_str().unwrap()]);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
}
