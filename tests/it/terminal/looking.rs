//! E8 on the real binary: looking performs nothing. Whoever lists, views, watches or exports starts
//! no work, fires no timer, delivers nothing and recovers no run; a server does, and does it once.

use std::path::Path;
use std::process::{Command, Stdio};

use holdpoint::engine::{StartRequest, Until};
use holdpoint::kernel::workflow::Patience;
use holdpoint::wire::v1::WatchRunRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::server::{Setup, drained, forget_settings, names};
use crate::support::tool_server::{Answer, ToolServer};
use crate::support::workflows::approval;
use crate::support::{Actors, Ground, all, name, someone};
use crate::terminal::cli::{Ended, holdpoint};

/// A folder with workflows and data of its own, and the other side of its tools.
pub(crate) struct Place {
    root: TempDir,
    tool: ToolServer,
}

impl Place {
    pub(crate) async fn new() -> Self {
        let tool = ToolServer::start([
            ("/pay", Answer::Json(json!("receipt 7"))),
            ("/hook", Answer::Json(json!({}))),
        ])
        .await;
        let root = TempDir::new().unwrap();
        std::fs::create_dir(root.path().join("flows")).unwrap();
        let pay = json!({"pay": {
            "provider": "http", "safety": "unsafe",
            "settings": {"method": "POST", "url": tool.url("/pay"), "allow_private": true},
        }});
        let wait = json!({"id": "hold", "wait": {"for": "1ms"}});
        let steps = json!([wait, {"id": "pay", "tool": "pay", "arguments": {"amount": 7}}]);
        let later =
            json!({"name": "later", "pattern": "graph", "graph": {"steps": steps}, "tools": pay});
        let script = json!([{"agent": "thinker", "say": "Done.", "delay": "50ms"}]);
        let slow = json!({
            "name": "slow", "pattern": "sequential", "steps": [{"agent": "thinker"}],
            "models": {"m": {"provider": "scripted", "script": script}},
            "agents": {"thinker": {"human_input": false}},
        });
        let place = Self { root, tool };
        place.flow("later", &later);
        place.flow("slow", &slow);
        place
    }

    fn flow(&self, name: &str, flow: &Value) {
        let path = self.path().join(format!("flows/{name}.yaml"));
        std::fs::write(path, flow.to_string()).unwrap();
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    /// A command on this place's data, without a server.
    pub(crate) fn command(&self, arguments: &[&str]) -> Ended {
        let hook = self.tool.url("/hook");
        let place = ["--data", "data", "--workflows", "flows"];
        let told = ["--webhook-url", &hook, "--webhook-secret", "whsec_test"];
        holdpoint(self.path(), &[arguments, &place, &told].concat(), "")
    }

    fn setup(&self) -> Setup {
        Setup::new(self.path())
            .arg("--webhook-url")
            .arg(&self.tool.url("/hook"))
            .arg("--webhook-secret")
            .arg("whsec_test")
    }

    /// Begins a run in a process that dies at `failpoint`, and says which run it is.
    fn cut_off(&self, workflow: &str, failpoint: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
        forget_settings(&mut command);
        let died = command
            .args(["run", workflow, "Now.", "--json", "--data", "data", "--workflows", "flows"])
            .args(["--webhook-url", &self.tool.url("/hook"), "--webhook-secret", "whsec_test"])
            .env("HOLDPOINT_FAILPOINT", failpoint)
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let signal = std::os::unix::process::ExitStatusExt::signal(&died.status);
        assert_eq!(signal, Some(9), "{}", String::from_utf8_lossy(&died.stderr));
        let exported = String::from_utf8(self.exported()).unwrap();
        let mut lines = exported.lines().map(|line| serde_json::from_str(line).unwrap());
        // The newest run comes first.
        let id = |line: Value| line["run"]["run"].as_str().map(str::to_owned);
        lines.find_map(id).unwrap_or_else(|| panic!("{exported}"))
    }

    /// A run that waits for a moment that has passed, before an unsafe deed. Nobody serves.
    fn overdue(&self) -> String {
        // Dead before its own clock could wake it.
        self.cut_off("later", "engine.after_append:1")
    }

    /// The whole store, byte for byte.
    fn exported(&self) -> Vec<u8> {
        let ended = self.command(&["export", "-"]);
        assert_eq!(ended.code, 0, "{}", ended.err);
        ended.out.into_bytes()
    }

    /// The paths that somebody outside was called by.
    fn calls(&self) -> Vec<String> {
        self.tool.seen().into_iter().map(|seen| seen.path).collect()
    }
}

/// Everything that only looks, at a run where it can.
fn looks(run: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["inbox"],
        vec!["inbox", "--watch"],
        vec!["runs"],
        vec!["runs", run],
        vec!["sessions"],
        vec!["journal", run],
        vec!["audit"],
        vec!["audit", "--run", run],
        vec!["checkpoint", run],
        vec!["watch", run],
        vec!["watch", run, "--follow"],
        vec!["workflows"],
        vec!["workflows", "later"],
        vec!["doctor"],
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_no_command_that_looks_performs_what_is_due_and_a_server_does_once() {
    let place = Place::new().await;
    let run = place.overdue();
    let before = place.exported();
    for look in looks(&run) {
        let ended = place.command(&look);
        assert!([0, 4].contains(&ended.code), "{look:?}: {}", ended.err);
        assert_eq!(place.calls(), Vec::<String>::new(), "{look:?} called somebody");
        assert!(place.exported() == before, "{look:?} changed something");
    }
    let server = place.setup().start();
    let mut client = server.client().await;
    let request =
        WatchRunRequest { run_id: run.clone(), through_pauses: true, ..Default::default() };
    let told = drained(client.watch_run(request).await.unwrap().into_inner()).await.unwrap();
    assert_eq!(names(&told).last(), Some(&"completed"));
    let paid = place.calls().iter().filter(|path| *path == "/pay").count();
    assert_eq!(paid, 1, "once, by the server");
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_a_turn_that_was_cut_off_is_left_as_it_is_by_those_who_look() {
    let place = Place::new().await;
    let run = place.cut_off("slow", "engine.before_effect:1");
    let before = place.exported();
    for look in looks(&run) {
        let ended = place.command(&look);
        assert_eq!(ended.code, 0, "{look:?}: {}", ended.err);
        assert!(place.exported() == before, "{look:?} changed something");
    }
    let shown = place.command(&["runs", &run, "--json"]).json();
    assert!(shown.to_string().contains("RUNNING"), "{shown}");
    // Whoever takes it up drives it.
    let ended = place.command(&["resume", &run]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(ended.out.contains("Done."), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn e8_a_command_that_changes_a_run_drives_that_run_alone() {
    let place = Place::new().await;
    let overdue = place.overdue();
    let cut = place.cut_off("slow", "engine.before_effect:1");
    let stands = |run: &str| {
        let shown = place.command(&["journal", run, "--json"]);
        assert_eq!(shown.code, 0, "{}", shown.err);
        shown.out
    };
    let (one, other) = (stands(&overdue), stands(&cut));
    let ended = place.command(&["run", "approve_and_send", "Tell Ada.", "--json"]);
    assert_eq!(ended.code, 4, "{}", ended.err);
    let asked = place.command(&["inbox", "--json"]).json();
    let request = asked["requests"][0]["request_id"].as_str().unwrap().to_owned();
    let mine = asked["requests"][0]["run_id"].as_str().unwrap().to_owned();
    let ended = place.command(&["respond", &request, "yes", "--json"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let ended = place.command(&["fork", &mine, "--json", "--no-input"]);
    assert_eq!(ended.code, 4, "{}", ended.err);
    let forked = ended.lines()[0]["run_id"].as_str().unwrap().to_owned();
    let ended = place.command(&["cancel", &forked]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    assert!(!place.calls().contains(&"/pay".to_owned()), "{:?}", place.calls());
    assert!(place.calls().contains(&"/hook".to_owned()), "its own listeners are told");
    assert_eq!((stands(&overdue), stands(&cut)), (one, other), "others were left alone");
    // A run's own clock is looked at by whoever takes it up.
    let ended = place.command(&["resume", &overdue]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let paid = place.calls().iter().filter(|path| *path == "/pay").count();
    assert_eq!(paid, 1);
}

/// The servers that listings must not wake: this one would leave a trace.
#[tokio::test(flavor = "multi_thread")]
async fn e8_a_listing_starts_no_tool_server() {
    let place = Place::new().await;
    let trace = place.path().join("was-started");
    let started = json!({
        "name": "with_tools", "pattern": "sequential", "steps": [{"agent": "a"}],
        "models": {"m": {"provider": "scripted", "script": [{"agent": "a", "say": "x"}]}},
        "mcp": {"s": {"command": ["sh", "-c", format!("touch {}", trace.display())]}},
        "agents": {"a": {"tools": ["s.*"]}},
    });
    place.flow("with_tools", &started);
    for look in [&["workflows"][..], &["inbox"], &["runs"], &["sessions"], &["audit"]] {
        let ended = place.command(look);
        assert_eq!(ended.code, 0, "{look:?}: {}", ended.err);
        assert!(!trace.exists(), "{look:?} started a server");
    }
}

#[tokio::test]
async fn e8_those_who_look_recover_nothing_and_whoever_recovers_does() {
    let actors = Actors::default().says("draft", "Dear team").slowly("draft");
    let ground = Ground::new(actors);
    let workflows = [approval(Patience::default())];
    let engine = ground.boot(&workflows).await;
    let input = json!("Tell the team.");
    let request = StartRequest { workflow: "approval".into(), input, ..StartRequest::default() };
    let mut begun = engine.start(request, &someone()).await.unwrap();
    let run = begun.run.to_string();
    while name(&begun.watch.next().await.unwrap().unwrap().event) != "delta" {}

    // Another process, in the midst of that turn.
    let engine = ground.engine(&workflows).await;
    let left = ground.journal.head(&begun.run).await.unwrap().unwrap().version;
    assert_eq!(engine.run(&run, &someone()).await.unwrap().head.version, left, "a view");
    engine.checkpoints(&run, &someone()).await.unwrap();
    engine.journal(&run, 10, &someone()).await.unwrap();
    let mut watch = engine.watch(&run, 0, Until::Asked, &someone()).await.unwrap();
    for _ in 0..left {
        watch.next().await.unwrap().unwrap();
    }
    let now = ground.journal.head(&begun.run).await.unwrap().unwrap().version;
    assert_eq!(now, left, "nothing was recovered by looking");
    engine.recover().await.unwrap();
    ground.actors.gate("draft").add_permits(10);
    assert_eq!(all(watch).await.last().map(|last| name(&last.event)), Some("parked"));
}

#[test]
fn listings_where_there_is_no_data_create_nothing_and_say_where_they_looked() {
    let here = TempDir::new().unwrap();
    for (list, word) in [
        ("inbox", "requests"),
        ("runs", "runs"),
        ("sessions", "sessions"),
        ("audit", ""),
        ("workflows", "workflows"),
        ("doctor", ""),
    ] {
        let ended = holdpoint(here.path(), &[list], "");
        assert_eq!(ended.code, 0, "{list}: {}", ended.err);
        let told = format!("{}{}", ended.out, ended.err);
        assert!(told.contains("holdpoint-data"), "{list} says where it looked: {told}");
        let ended = holdpoint(here.path(), &[list, "--json"], "");
        assert_eq!(ended.code, 0, "{list}: {}", ended.err);
        match word {
            "" | "workflows" => {}
            word => assert_eq!(ended.json()[word], json!([]), "{list}"),
        }
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "{list} made something");
    }
    let run = "run_01k9zq3v7m8n4p5r6s7t8v9w0x";
    for (look, code) in
        [(&["journal", run][..], 5), (&["watch", run], 5), (&["prune", "--older-than", "1d"], 1)]
    {
        let ended = holdpoint(here.path(), look, "");
        assert_eq!(ended.code, code, "{look:?}: {}", ended.err);
        assert!(ended.err.contains("holdpoint-data"), "{look:?}: {}", ended.err);
        assert_eq!(std::fs::read_dir(here.path()).unwrap().count(), 0, "{look:?} made something");
    }
    // Keys may be there before any run is.
    assert_eq!(holdpoint(here.path(), &["keys", "add", "ada"], "").code, 0);
    for look in [&["inbox"][..], &["doctor"], &["keys", "list"]] {
        assert_eq!(holdpoint(here.path(), look, "").code, 0, "{look:?}");
        assert!(!here.path().join("holdpoint-data/format").exists(), "{look:?} made a store");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_waits_the_inbox_says_where_it_looked() {
    let place = Place::new().await;
    assert_eq!(place.command(&["run", "slow", "Now."]).code, 0);
    let ended = place.command(&["inbox"]);
    assert!(ended.out.contains("nothing waits") && ended.out.contains("data"), "{}", ended.out);
    let server = place.setup().start();
    let ended = holdpoint(place.path(), &["inbox", "--server", &server.url()], "");
    assert!(ended.out.contains(&server.url()), "{}", ended.out);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_that_is_refused_leaves_no_file() {
    let place = Place::new().await;
    let names = || {
        let found = std::fs::read_dir(place.path()).unwrap();
        let mut names: Vec<_> =
            found.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let before = names();
    let refused = place.command(&["export", "all.jsonl"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert_eq!(names(), before, "no data: no file");
    assert_eq!(place.command(&["run", "slow", "Now."]).code, 0);
    let server = place.setup().start();
    assert_eq!(place.command(&["export", "all.jsonl"]).code, 1);
    assert!(!names().iter().any(|name| name.contains("all.jsonl")), "{:?}", names());
    drop(server);
    let ended = place.command(&["export", "all.jsonl"]);
    assert_eq!(ended.code, 0, "{}", ended.err);
    let exported = std::fs::read(place.path().join("all.jsonl")).unwrap();
    assert_eq!(place.command(&["export", "all.jsonl"]).code, 1, "what is there stays");
    assert_eq!(std::fs::read(place.path().join("all.jsonl")).unwrap(), exported);
    assert_eq!(names().iter().filter(|name| name.contains("all.jsonl")).count(), 1);
}
