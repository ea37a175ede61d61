//! MCP tools: real third-party servers over both transports, and servers that die, hang, lie and
//! talk too much.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use holdpoint::agents::Registry;
use holdpoint::app::SystemClock;
use holdpoint::definition::load_text;
use holdpoint::kernel::{ToolCall, ToolFault, Workflow, schema, secret};
use holdpoint::ports::leave::{self, Leave};
use holdpoint::ports::{Agents as _, Tools as _};
use http::StatusCode;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::tool_server::{Answer, ToolServer};

fn registry() -> Registry {
    Registry::new(Arc::new(SystemClock))
}

/// A workflow whose agent may use `tools` of the MCP server `s`.
fn workflow(server: &Value, tools: &[&str], described: &Value) -> Workflow {
    let file = json!({
        "name": "w",
        "pattern": "sequential",
        "steps": [{"agent": "a"}],
        "models": {"m": {"provider": "scripted", "script": [{"say": "hm"}]}},
        "mcp": {"s": server},
        "tools": described,
        "agents": {"a": {"tools": tools}},
    });
    let loaded = load_text("w.yaml", &file.to_string(), &|_| Err(String::new()));
    loaded.unwrap_or_else(|problems| panic!("{problems:?}")).workflow.as_ref().clone()
}

/// A program of `tests/clients/install.sh`.
fn installed(path: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/mcp").join(path);
    assert!(path.exists(), "{} is missing: run tests/clients/install.sh", path.display());
    path
}

/// A server that misbehaves, and the file in which it counts.
struct Bad {
    folder: tempfile::TempDir,
    server: Value,
}

impl Bad {
    fn new(mode: &str) -> Self {
        let folder = tempfile::TempDir::new().unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients/bad_mcp.py");
        let command = json!(["python3", script, mode, folder.path().join("calls")]);
        Self { folder, server: json!({"command": command, "timeout": "20s"}) }
    }

    /// The keys of the calls that it has heard.
    fn calls(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("calls")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    async fn discovered(&self, registry: &Registry) -> Workflow {
        let found = registry.discover(&workflow(&self.server, &["s.act"], &json!({}))).await;
        found.unwrap_or_else(|wrong| panic!("{wrong:?}"))
    }
}

async fn act(registry: &Registry, workflow: &Workflow) -> Result<Value, ToolFault> {
    registry.call(workflow, &ToolCall::new("c1", "s__act", json!({"n": 1})), "run_1/1/c1").await
}

#[tokio::test]
async fn a_real_server_from_pypi_is_discovered_and_called_over_stdio() {
    let command = json!([installed("venv/bin/mcp-server-time"), "--local-timezone", "UTC"]);
    let server = json!({"command": command, "safety": "pure"});
    let registry = registry();
    let asked = workflow(&server, &["s.*"], &json!({}));
    registry.check(&asked).unwrap();
    let found = registry.discover(&asked).await.unwrap();
    assert_eq!(found.agents["a"].tools, ["s__convert_time", "s__get_current_time"]);
    let tool = &found.tools["s__get_current_time"];
    assert!(tool.description.contains("current time"), "{}", tool.description);
    let parameters = tool.parameters.as_ref().unwrap();
    assert!(schema::check(parameters, &json!({"timezone": "Europe/Paris"})).is_ok());
    assert!(schema::check(parameters, &json!({})).is_err(), "its schema is known: {parameters}");
    let arguments = json!({"timezone": "Europe/Paris"});
    let told = registry
        .call(&found, &ToolCall::new("c", "s__get_current_time", arguments), "k")
        .await
        .unwrap();
    // Some releases answer with structure, some with the same as text.
    let told = told.as_str().map_or(told.clone(), |text| serde_json::from_str(text).unwrap());
    assert_eq!(told["timezone"], "Europe/Paris");
    let wrong = json!({"timezone": "Middle/Earth"});
    let fault = registry
        .call(&found, &ToolCall::new("c", "s__get_current_time", wrong), "k")
        .await
        .unwrap_err();
    assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), ("tool.failed", false));
}

/// What `server-everything` does, whatever carries it.
async fn everything_works(server: &Value) {
    let registry = registry();
    let described = json!({
        "add": {"provider": "mcp", "safety": "pure", "settings": {"server": "s", "tool": "get-sum"}},
    });
    let asked = workflow(server, &["s.echo", "add", "s.get-structured-content"], &described);
    let found = registry.discover(&asked).await.unwrap_or_else(|wrong| panic!("{wrong:?}"));
    let call = async |tool: &str, arguments: Value| {
        registry
            .call(&found, &ToolCall::new("c", tool, arguments), "k")
            .await
            .unwrap_or_else(|wrong| panic!("{wrong:?}"))
    };
    let echo = call("s__echo", json!({"message": "hello"})).await;
    assert_eq!(echo, json!("Echo: hello"));
    let sum = call("add", json!({"a": 2, "b": 40})).await;
    assert!(sum.as_str().unwrap().contains("42"), "{sum}");
    let weather = call("s__get-structured-content", json!({"location": "New York"})).await;
    assert!(weather["temperature"].is_number(), "{weather}");
    // The connection is kept: many calls at once go over it.
    let many = (0..20).map(|n| call("s__echo", json!({"message": n.to_string()})));
    let many = futures::future::join_all(many).await;
    assert_eq!(many[19], json!("Echo: 19"));
}

#[tokio::test]
async fn a_real_server_from_npm_works_over_stdio() {
    let program = installed("node_modules/.bin/mcp-server-everything");
    everything_works(&json!({"command": [program, "stdio"]})).await;
}

/// Ended with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_server_from_npm_works_over_streamable_http() {
    let program = installed("node_modules/.bin/mcp-server-everything");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let mut child = Command::new(program)
        .arg("streamableHttp")
        .env("PORT", port.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let _running = Running(child);
    assert!(lines.any(|line| line.unwrap().contains("listening on port")));
    let server = json!({"url": format!("http://127.0.0.1:{port}/mcp"), "allow_private": true});
    everything_works(&server).await;
    let refused = json!({"url": format!("http://127.0.0.1:{port}/mcp")});
    let asked = workflow(&refused, &["s.echo"], &json!({}));
    let (field, remedy) = registry().discover(&asked).await.unwrap_err();
    assert_eq!(field, "/mcp/s");
    assert!(remedy.contains("not on the public internet"), "{remedy}");
}

#[tokio::test]
async fn a_server_that_dies_is_a_named_fault_and_is_started_again() {
    let (bad, registry) = (Bad::new("dies"), registry());
    let found = bad.discovered(&registry).await;
    for times in 1..=2 {
        let fault = act(&registry, &found).await.unwrap_err();
        assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), ("tool.lost", true));
        assert_eq!(bad.calls().len(), times, "an unsafe call is not repeated");
    }
    let bad = Bad::new("dies_once");
    let mut safe = bad.discovered(&registry).await;
    safe.tools.get_mut("s__act").unwrap().safety = holdpoint::kernel::workflow::Safety::Idempotent;
    assert_eq!(act(&registry, &safe).await.unwrap(), json!("done"));
    assert_eq!(bad.calls(), ["run_1/1/c1", "run_1/1/c1"], "again, with the same key");
}

#[tokio::test]
async fn a_server_that_hangs_is_given_up_and_started_again() {
    let mut bad = Bad::new("hangs");
    let registry = registry();
    bad.server["timeout"] = json!("1s");
    let found = bad.discovered(&registry).await;
    for times in 1..=2 {
        let fault = act(&registry, &found).await.unwrap_err();
        assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), ("tool.timeout", true));
        assert_eq!(bad.calls().len(), times, "the second call reaches a fresh server");
    }
}

#[tokio::test]
async fn fifty_megabytes_are_not_taken() {
    let (bad, registry) = (Bad::new("huge"), registry());
    let found = bad.discovered(&registry).await;
    let fault = act(&registry, &found).await.unwrap_err();
    assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), ("tool.too_large", false));
    let fault = act(&registry, &found).await.unwrap_err();
    assert_eq!(fault.failure.code, "tool.too_large", "a fresh server, and the same again");
}

#[tokio::test]
async fn a_changed_definition_is_noticed_before_anything_is_called() {
    let (bad, registry) = (Bad::new("changes"), registry());
    let found = bad.discovered(&registry).await;
    assert_eq!(act(&registry, &found).await.unwrap(), json!("done"));
    let fault = act(&registry, &found).await.unwrap_err();
    assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), ("tool.changed", false));
    assert_eq!(bad.calls().len(), 1, "it was not called");
    // A workflow that is loaded now is told the new one.
    let fresh = bad.discovered(&registry).await;
    assert_ne!(fresh.tools["s__act"].parameters, found.tools["s__act"].parameters);
    assert_eq!(act(&registry, &fresh).await.unwrap(), json!("done"));
}

#[tokio::test]
async fn a_servers_mark_that_is_neither_yes_nor_no_is_a_mark_and_its_tool_is_called() {
    let (bad, registry) = (Bad::new("misspells"), registry());
    let found = bad.discovered(&registry).await;
    let arguments = json!({"n": 1, "pin": "4406", "code": "8812"});
    let told = found.tools["s__act"].parameters.as_ref();
    let mut marked = secret::places(told, &[], &arguments);
    marked.sort();
    assert_eq!(marked, ["/code", "/pin"], "{told:?}");
    assert_eq!(act(&registry, &found).await.unwrap(), json!("done"), "nothing has changed");
}

#[tokio::test]
async fn parameters_in_the_file_need_no_server_at_the_start_and_are_compared_at_the_call() {
    let (bad, registry) = (Bad::new("works"), registry());
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let described = |parameters: &Value| {
        let settings = json!({"server": "s", "tool": "act"});
        json!({"s__act": {"provider": "mcp", "parameters": parameters, "settings": settings}})
    };
    let same = workflow(&bad.server, &["s__act"], &described(&schema));
    assert_eq!(registry.discover(&same).await.unwrap(), same, "nothing is asked");
    assert_eq!(act(&registry, &same).await.unwrap(), json!("done"));
    let other = workflow(&bad.server, &["s__act"], &described(&json!({"type": "object"})));
    assert_eq!(act(&registry, &other).await.unwrap_err().failure.code, "tool.changed");
    assert_eq!(bad.calls().len(), 1);
}

#[tokio::test]
async fn what_a_server_gets_wrong_has_a_name() {
    let registry = registry();
    for (mode, code) in
        [("lies", "tool.invalid_result"), ("fails", "tool.failed"), ("declines", "tool.declined")]
    {
        let bad = Bad::new(mode);
        let found = bad.discovered(&registry).await;
        let fault = act(&registry, &found).await.unwrap_err();
        assert_eq!((fault.failure.code.as_str(), fault.may_have_happened), (code, false), "{mode}");
    }
}

#[tokio::test]
async fn a_server_that_cannot_be_asked_is_told_with_what_it_said_itself() {
    let slow = |mode: &str| {
        let mut bad = Bad::new(mode);
        bad.server["timeout"] = json!("1s");
        bad
    };
    let (silent, no_schema) = (slow("silent_list"), Bad::new("no_schema"));
    let gone = json!({"command": ["/no/such/program"]});
    let loud = json!({"command": ["python3", "-c", "raise SystemExit('broken config')"]});
    for (server, words) in [
        (&silent.server, "did not list its tools"),
        (&no_schema.server, "no JSON Schema"),
        (&gone, "/no/such/program"),
        (&loud, "broken config"),
    ] {
        let asked = workflow(server, &["s.act"], &json!({}));
        let (field, remedy) = registry().discover(&asked).await.unwrap_err();
        assert_eq!(field, "/mcp/s");
        assert!(remedy.contains(words), "{remedy}");
    }
    let bad = Bad::new("works");
    let asked = workflow(&bad.server, &["s.nothing"], &json!({}));
    let (_, remedy) = registry().discover(&asked).await.unwrap_err();
    assert!(remedy.contains("has no tool `nothing`; it has: act"), "{remedy}");
}

#[tokio::test]
async fn an_http_server_that_talks_too_much_or_nonsense_is_a_named_fault() {
    let reply = |id: u32, result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result});
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}});
    let server = ToolServer::start([
        ("/endless", Answer::Endless),
        ("/text", Answer::Raw(200, vec![("content-type", "text/html".into())], b"<p>".to_vec())),
        ("/error", Answer::Raw(500, vec![], b"boom".to_vec())),
        ("/hello", Answer::Json(reply(0, hello))),
    ])
    .await;
    for path in ["/endless", "/text", "/error", "/hello"] {
        let place = json!({"url": server.url(path), "allow_private": true, "timeout": "2s"});
        let asked = workflow(&place, &["s.act"], &json!({}));
        let (field, remedy) = registry().discover(&asked).await.unwrap_err();
        assert_eq!(field, "/mcp/s", "{path}");
        assert!(remedy.len() < 1_000, "{path}: {remedy}");
    }
}

#[test]
fn a_server_is_a_command_or_a_url_and_its_variables_are_set() {
    for (server, at, words) in [
        (json!({}), "", "expected a `command"),
        (json!({"command": ["x"], "url": "http://x/"}), "", "expected a `command"),
        (json!({"url": "ftp://x/"}), "/url", "https://"),
        (json!({"command": ["x"], "timeout": "9h"}), "/timeout", "at most `1h`"),
        (json!({"command": ["x"], "env": {"K": "${ENV:HOLDPOINT_MISSING}"}}), "/env/K", "not set"),
    ] {
        let (field, remedy) =
            registry().check(&workflow(&server, &["s.act"], &json!({}))).unwrap_err();
        assert_eq!(field, format!("/mcp/s{at}"), "{server}");
        assert!(remedy.contains(words), "{remedy}");
    }
}

/// An MCP server over HTTP that forgets its first session in the middle of a call, when a test lets it.
struct Forgetful {
    url: String,
    forget: Arc<Notify>,
    asked: Asked,
}

/// The methods that it was asked, in their order.
type Asked = Arc<Mutex<Vec<String>>>;

impl Forgetful {
    async fn start() -> Self {
        let (forget, asked) = (Arc::new(Notify::new()), Asked::default());
        let state = (Arc::clone(&forget), Arc::clone(&asked));
        let routes = Router::new().route("/mcp", post(Self::answer)).with_state(state);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
        Self { url, forget, asked }
    }

    async fn answer(State((forget, asked)): State<(Arc<Notify>, Asked)>, body: String) -> Response {
        let message: Value = serde_json::from_str(&body).unwrap();
        let method = message["method"].as_str().unwrap_or_default().to_owned();
        let calls = {
            let mut asked = asked.lock().unwrap();
            asked.push(method.clone());
            asked.iter().filter(|one| **one == "tools/call").count()
        };
        let result = match method.as_str() {
            "initialize" => json!({
                "protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                "serverInfo": {"name": "x", "version": "1"},
            }),
            "tools/list" => json!({"tools": [{"name": "act", "inputSchema": {"type": "object"}}]}),
            "tools/call" if calls == 1 => {
                forget.notified().await;
                return StatusCode::NOT_FOUND.into_response();
            }
            "tools/call" => json!({"content": [{"type": "text", "text": "done"}]}),
            _ => return StatusCode::ACCEPTED.into_response(),
        };
        let told = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        let headers = [("mcp-session-id", "s"), ("content-type", "application/json")];
        (headers, told.to_string()).into_response()
    }

    fn calls(&self) -> usize {
        self.asked.lock().unwrap().iter().filter(|one| **one == "tools/call").count()
    }
}

#[tokio::test]
async fn e9_a_session_that_ended_is_begun_anew_and_nothing_is_called_in_it_without_leave() {
    for may in [true, false] {
        let server = Forgetful::start().await;
        let place = json!({"url": server.url, "allow_private": true, "timeout": "20s"});
        let registry = registry();
        let found = registry.discover(&workflow(&place, &["s.act"], &json!({}))).await.unwrap();
        let holds = Arc::new(AtomicBool::new(true));
        let leave = {
            let holds = Arc::clone(&holds);
            Leave::new(move || holds.load(Ordering::SeqCst))
        };
        let called = leave::within(Some(leave), act(&registry, &found));
        let meanwhile = async {
            while server.calls() == 0 {
                tokio::task::yield_now().await;
            }
            // A halt is said, or the server is taken for dead, while the call hangs.
            holds.store(may, Ordering::SeqCst);
            server.forget.notify_one();
        };
        let (outcome, ()) = tokio::join!(called, meanwhile);
        if may {
            assert_eq!((outcome.unwrap(), server.calls()), (json!("done"), 2));
        } else {
            let fault = outcome.unwrap_err();
            assert!(!fault.may_have_happened, "{fault:?}");
            assert_eq!(server.calls(), 1, "it is not called again");
        }
    }
}
