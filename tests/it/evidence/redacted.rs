//! Redacted: what a file marks as secret is seen by those who decide, and in the hands of the tool that it is for,
//! and nowhere else that a server speaks: no log, trace, webhook, list, page or bundle.

use std::fs;
use std::path::Path;
use std::process::Command;

use holdpoint::wire::v1::{
    GetRequestRequest, GetRunRequest, GetSessionRequest, ListAuditRequest, ListCheckpointsRequest,
    ListRequestsRequest, ListRunsRequest, ListSessionsRequest, Request,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use crate::bridge::calls::Caller;
use crate::consent::stage::form_of;
use crate::support::collector::Collector;
use crate::support::listener::Listener;
use crate::support::server::{
    Client, Server, Setup, answer_to, asked, drained, journal, run, start_of,
};
use crate::support::tool_server::{Answer, ToolServer};
use crate::terminal::cli::{Ended, holdpoint};

/// Long enough to stand nowhere else; and one that is short, and would be guessed from a plain hash.
const NUMBER: &str = "4929-canary-7731";
const PIN: &str = "97531";

const FLOW: &str = "
name: refund
models: {default: {provider: scripted, script: [{say: Done.}]}}
tools:
  pay:
    provider: http
    parameters:
      type: object
      properties:
        amount: {type: integer}
        card: {type: object, properties: {number: {type: string, secret: true}}}
        pins: {type: array, items: {type: object, properties: {pin: {type: string, secret: true}}}}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
gates: [{name: money, tools: [pay], to: [boss]}]
agents: {idle: {human_input: false}}
pattern: graph
graph:
  steps:
    - id: ask
      human:
        kind: clarification
        prompt: Which card?
        response_schema:
          type: object
          properties:
            number: {type: string, secret: true}
            pin: {type: string, secret: true}
    - id: pay
      tool: pay
      arguments:
        amount: 5
        card: {number: '${steps.ask.number}'}
        pins: [{pin: '${steps.ask.pin}'}]
    - {id: end, agent: idle}
  output: 'paid from ${steps.ask.number}'
";

/// A server with people, and everybody outside who listens to it.
struct Scene {
    server: Server,
    /// The same that dies nowhere.
    calm: Setup,
    root: TempDir,
    tools: ToolServer,
    listener: Listener,
    collector: Collector,
    keys: Vec<(&'static str, String)>,
}

impl Scene {
    async fn set(failpoint: Option<(&str, u32)>) -> Self {
        let paid = Answer::Json(json!({"note": format!("charged {NUMBER}")}));
        let tools = ToolServer::start([("/pay", paid)]).await;
        let (listener, collector) =
            (Listener::start(|_| (200, "{}".into())), Collector::start().await);
        let root = TempDir::new().unwrap();
        fs::create_dir(root.path().join("flows")).unwrap();
        let flow = FLOW.replace("TOOLS", &tools.url(""));
        fs::write(root.path().join("flows/refund.yaml"), flow).unwrap();
        let add = |name: &'static str, role: &str| {
            let words = ["keys", "add", name, "--role", role, "--json", "--keys", "keys.toml"];
            let told = holdpoint(root.path(), &words, "").json();
            (name, told["secret"].as_str().unwrap().to_owned())
        };
        let keys = vec![
            add("ada", "user"),
            add("boss", "user"),
            add("eve", "user"),
            add("aud", "auditor"),
            add("root", "admin"),
        ];
        let calm = Setup::new(root.path())
            .arg("--keys=keys.toml")
            .arg(&format!("--webhook-url={}/hook", listener.url()))
            .env("HOLDPOINT_WEBHOOK_SECRET", "s3cret")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.url)
            .env("OTEL_BSP_SCHEDULE_DELAY", "50")
            .env("HOLDPOINT_LOG", "debug");
        let setup = match failpoint {
            Some((name, passage)) => calm.clone().failpoint(name, passage),
            None => calm.clone(),
        };
        Self { server: setup.start(), calm, root, tools, listener, collector, keys }
    }

    fn key(&self, who: &str) -> &str {
        &self.keys.iter().find(|(name, _)| *name == who).unwrap().1
    }

    async fn client(&self, who: &str) -> Client {
        self.server.client_with(self.key(who)).await
    }

    fn http(&self, who: &str, path: &str) -> String {
        let bearer = format!("Authorization: Bearer {}", self.key(who));
        Caller::new(self.server.address()).with(&bearer).raw("GET", path, "").body
    }

    fn page(&self, who: &str, path: &str) -> String {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let caller = Caller::new(self.server.address()).with(form);
        let signed = caller.raw("POST", "/console/sign-in", &form_of(&[("key", self.key(who))]));
        let cookie = signed.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then_some(value)
        });
        let cookie = cookie.unwrap().split(';').next().unwrap().to_owned();
        caller.with(&format!("Cookie: {cookie}")).raw("GET", path, "").body
    }

    fn command(&self, who: &str, words: &[&str]) -> Ended {
        let url = self.server.url();
        let all = [&["--server", &url, "--api-key", self.key(who)], words].concat();
        holdpoint(self.root.path(), &all, "")
    }

    fn offline(&self, words: &[&str]) -> Ended {
        holdpoint(self.root.path(), &[words, &["--data", "data"]].concat(), "")
    }

    /// Ada is asked for the card, and gives it; what boss is asked then, as the inbox has it.
    async fn asked(&self) -> (String, Request) {
        let mut ada = self.client("ada").await;
        let begun = run(&mut ada, start_of("refund", "mine", "Money back, please.", "")).await;
        let request = asked(&begun).unwrap();
        let mut answer = answer_to(&request.request_id, "", "");
        let given = json!({"number": NUMBER, "pin": PIN});
        answer.responses = [(request.request_id.clone(), given.into())].into();
        let told = ada.send_responses(answer).await.unwrap().into_inner();
        let told = drained(told).await.unwrap();
        hides("what is streamed to whoever answered", &format!("{told:?}"));
        (request.run_id, self.open("boss").await.pop().unwrap())
    }

    async fn open(&self, who: &str) -> Vec<Request> {
        let rows = self.client(who).await.list_requests(ListRequestsRequest::default()).await;
        rows.unwrap().into_inner().requests
    }

    async fn request(&self, who: &str, id: &str) -> Result<Request, Code> {
        let wanted = GetRequestRequest { request_id: id.into() };
        let got = self.client(who).await.get_request(wanted).await;
        got.map(|got| got.into_inner().request.unwrap()).map_err(|status| status.code())
    }

    /// Everything that a server says to whoever decides nothing.
    async fn everything(&self, run: &str, request: &str) {
        let run_id = || run.to_owned();
        for who in ["ada", "aud", "root", "boss"] {
            let mut client = self.client(who).await;
            let mut told = Vec::new();
            if ["ada", "aud", "root"].contains(&who) {
                told.push(format!("{:?}", journal(&mut client, run).await));
                let wanted = GetRunRequest { run_id: run_id(), omit_conversation: false };
                told.push(format!("{:?}", client.get_run(wanted).await.unwrap()));
                let wanted = ListCheckpointsRequest { run_id: run_id() };
                told.push(format!("{:?}", client.list_checkpoints(wanted).await.unwrap()));
                assert!(told[0].contains("•••"), "{told:?}");
            }
            let session = GetSessionRequest { session_id: "mine".into() };
            told.push(format!("{:?}", client.get_session(session).await.ok()));
            let all = (
                client.list_requests(ListRequestsRequest::default()).await.unwrap(),
                client.list_runs(ListRunsRequest::default()).await.unwrap(),
                client.list_sessions(ListSessionsRequest::default()).await.unwrap(),
                client.list_audit(ListAuditRequest::default()).await.unwrap(),
            );
            told.push(format!("{all:?}"));
            for told in told {
                hides(&format!("gRPC to {who}"), &told);
            }
            for path in [
                "/v1/conversations/mine",
                "/v1/conversations/mine/items",
                "/v1/conversations",
                "/v1/workflows/refund/runs",
                "/a2a/refund/tasks",
                &format!("/a2a/refund/tasks/{run}"),
                "/metrics",
            ] {
                hides(&format!("{path} to {who}"), &self.http(who, path));
            }
            for path in [
                "/console/inbox".to_owned(),
                "/console/runs".into(),
                format!("/console/runs/{run}"),
                "/console/sessions".into(),
                "/console/sessions/mine".into(),
                "/console/audit".into(),
                format!("/console/audit?run={run}"),
                "/console/log".into(),
                "/console/oversight".into(),
            ] {
                hides(&format!("{path} to {who}"), &self.page(who, &path));
            }
            for words in [&["inbox"][..], &["runs"], &["runs", run], &["journal", run], &["audit"]]
            {
                let ended = self.command(who, words);
                hides(&format!("{words:?} of {who}"), &(ended.out + &ended.err));
                let ended = self.command(who, &[words, &["--json"]].concat());
                hides(&format!("{words:?} of {who}"), &(ended.out + &ended.err));
            }
        }
        // Whoever knows of it and does not decide it.
        let seen = self.request("ada", request).await;
        hides("the request to whoever does not decide", &format!("{seen:?}"));
        let page = self.page("ada", &format!("/console/requests/{request}"));
        hides("its page to whoever does not decide", &page);
        hides("the log", &fs::read_to_string(self.root.path().join("server.log")).unwrap());
        hides("traces", &String::from_utf8_lossy(&self.collector.raw()));
        while let Some(heard) = self.listener.heard() {
            hides("the webhook", &String::from_utf8_lossy(&heard.body));
        }
    }
}

fn hides(what: &str, told: &str) {
    for secret in [NUMBER, PIN] {
        // Five digits may be part of a moment, to the microsecond.
        let is_digit = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
        let found = told.match_indices(secret).find(|(at, _)| {
            let (before, rest) = told.split_at(*at);
            let after = rest.strip_prefix(secret).and_then(|after| after.chars().next());
            !is_digit(before.chars().next_back()) && !is_digit(after)
        });
        if let Some((at, _)) = found {
            let from = told.floor_char_boundary(at.saturating_sub(300));
            let to = told.floor_char_boundary((at + 60).min(told.len()));
            panic!("{what}: {secret} is there: …{}…", told.get(from..to).unwrap_or(told));
        }
    }
}

fn shows(what: &str, told: &str) {
    assert!(told.contains(NUMBER) && told.contains(PIN), "{what}: {told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[expect(clippy::too_many_lines, reason = "one look after the other, at everything that is told")]
async fn a_secret_is_seen_by_those_who_decide_and_in_the_tools_hands_alone() {
    let mut scene = Scene::set(None).await;
    let (run, listed) = scene.asked().await;
    let id = listed.request_id.clone();
    assert!(listed.veiled && listed.admits_you == Some(true), "{listed:?}");
    scene.everything(&run, &id).await;

    // Boss decides, and sees it whole wherever they look at the one question.
    let whole = scene.request("boss", &id).await.unwrap();
    assert!(!whole.veiled && whole.digest == listed.digest, "{whole:?}");
    shows("GetRequest", &format!("{whole:?}"));
    shows("the console", &scene.page("boss", &format!("/console/requests/{id}")));
    shows("the terminal", &scene.command("boss", &["respond", &id, "--json"]).out);
    assert_eq!(scene.request("eve", &id).await.unwrap_err(), Code::NotFound);
    hides("another's page", &scene.page("eve", &format!("/console/requests/{id}")));

    let mut boss = scene.client("boss").await;
    let mut answer = answer_to(&id, "", "");
    answer.responses = [(id.clone(), json!({"decision": "allow_once"}).into())].into();
    answer.digests = [(id.clone(), whole.digest)].into();
    let told = drained(boss.send_responses(answer).await.unwrap().into_inner()).await.unwrap();
    hides("what is streamed to whoever decided", &format!("{told:?}"));
    scene.tools.asked().await;
    let sent = scene.tools.seen()[0].json();
    let wanted = json!({"amount": 5, "card": {"number": NUMBER}, "pins": [{"pin": PIN}]});
    assert_eq!(sent, wanted, "the tool has the values");
    let mut ada = scene.client("ada").await;
    let ended = journal(&mut ada, &run).await;
    assert_eq!(crate::support::server::names(&ended).last(), Some(&"completed"), "{ended:?}");
    scene.collector.named("invoke_workflow refund").await;
    scene.everything(&run, &id).await;
    // What is said afterwards in the same session.
    let again =
        crate::support::server::run(&mut ada, start_of("refund", "mine", "And once more.", ""))
            .await;
    hides("the next run of the session", &format!("{again:?}"));
    scene.server.terminate();
    scene.server.wait();
    hides("the log", &fs::read_to_string(scene.root.path().join("server.log")).unwrap());

    // What is handed out without the right to it proves as much as what has it.
    let looked = scene.offline(&["verify", "--json"]).json();
    assert_eq!(looked["ok"], true, "{looked}");
    let exported = scene.offline(&["export", "redacted.json", "--run", &run]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    let read = |name: &str| fs::read_to_string(scene.root.path().join(name)).unwrap();
    hides("a bundle", &read("redacted.json"));
    let verify = |name: &str| {
        let words = ["verify", name, "--key", "data/audit.pub", "--json"];
        holdpoint(scene.root.path(), &words, "")
    };
    let told = verify("redacted.json");
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    assert!(told.json()["left_out"].as_u64().unwrap() > 4, "{}", told.out);
    let exported = scene.offline(&["export", "whole.json", "--run", &run, "--with-secrets"]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    shows("a bundle with secrets", &read("whole.json"));
    let told = verify("whole.json");
    assert_eq!((told.code, &told.json()["left_out"]), (0, &json!(0)), "{}", told.out);
    for (file, is_said) in [("redacted.json", true), ("whole.json", false)] {
        let told = holdpoint(scene.root.path(), &["verify", file, "--key", "data/audit.pub"], "");
        let why = "what was shown cannot be computed without the secrets";
        assert_eq!(told.out.contains(why), is_said, "{file}: {told:?}");
        scripted(scene.root.path(), file);
    }
    // Which run was handed out, and whether with what is secret in it, stands in its own trail, too.
    for trail in [&["audit", "--run", &run][..], &["audit", "--store"]] {
        let told = scene.offline(trail).out;
        for how in ["without what is secret", "with what is secret"] {
            assert!(told.contains(&format!("{run}, {how}")), "{trail:?}: {told}");
        }
    }
    // A secret that was changed is not what its hash says, and neither is a hash.
    let forged = read("whole.json").replacen(NUMBER, "4929-forged-7731", 1);
    fs::write(scene.root.path().join("forged.json"), forged).unwrap();
    assert_eq!(verify("forged.json").code, 1);
    let hash = read("redacted.json");
    let at = hash.find("⟦sha256:").unwrap() + "⟦sha256:".len();
    let (before, rest) = hash.split_at(at);
    let (first, after) = rest.split_at(1);
    let digit = if first == "0" { "1" } else { "0" };
    let forged = format!("{before}{digit}{after}");
    fs::write(scene.root.path().join("forged.json"), forged).unwrap();
    assert_eq!(verify("forged.json").code, 1);

    // A backup has everything, and a store that is made from it hides it again.
    assert_eq!(scene.offline(&["export", "backup.jsonl"]).code, 0);
    shows("a backup", &read("backup.jsonl"));
    let other = TempDir::new().unwrap();
    let file = scene.root.path().join("backup.jsonl");
    let imported = ["import", file.to_str().unwrap(), "--data", "data"];
    assert_eq!(holdpoint(other.path(), &imported, "").code, 0);
    let looked = holdpoint(other.path(), &["verify", "--data", "data", "--json"], "").json();
    assert_eq!(looked["ok"], true, "{looked}");
    let words = ["export", "run.json", "--run", &run, "--data", "data"];
    assert_eq!(holdpoint(other.path(), &words, "").code, 0);
    hides("a bundle of an import", &fs::read_to_string(other.path().join("run.json")).unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_asked_what_came_of_a_call_sees_the_call() {
    // The server dies once the tool has been called, and before it is told what came of that.
    let mut scene = Scene::set(Some(("engine.after_effect", 1))).await;
    let (run, gate) = scene.asked().await;
    let mut boss = scene.client("boss").await;
    let mut answer = answer_to(&gate.request_id, "", "");
    answer.responses = [(gate.request_id.clone(), json!({"decision": "allow_once"}).into())].into();
    let cut = match boss.send_responses(answer).await {
        Ok(stream) => drained(stream.into_inner()).await.is_err(),
        Err(_) => true,
    };
    assert!(cut, "the server went on");
    scene.server.wait();
    scene.server = scene.calm.start();
    let lost = loop {
        if let Some(lost) = scene.open("boss").await.pop() {
            break lost;
        }
    };
    let id = lost.request_id.clone();
    assert_eq!(lost.kind(), holdpoint::wire::v1::RequestKind::OutcomeCheck, "{lost:?}");
    hides("the list", &format!("{lost:?}"));
    shows("GetRequest", &format!("{:?}", scene.request("boss", &id).await));
    shows("the console", &scene.page("boss", &format!("/console/requests/{id}")));
    shows("the terminal", &scene.command("boss", &["inbox", &id, "--json"]).out);
    scene.everything(&run, &id).await;
}

/// The script that was written from `docs/evidence.md` says the same.
pub(super) fn scripted(root: &Path, file: &str) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("target/clients/venv/bin/python");
    assert!(python.exists(), "run tests/clients/install.sh first");
    let mut command = Command::new(python);
    command.arg(here.join("examples/verify.py")).arg(file).arg("data/audit.pub");
    let output = command.current_dir(root).output().unwrap();
    assert!(output.status.success(), "{file}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_a_secret_is_stored_a_server_tells_nobody_and_asks_or_goes_on() {
    for (failpoint, is_kept) in [("engine.before_append", false), ("engine.after_append", true)] {
        // The first append is the start's, the second the answer's.
        let mut scene = Scene::set(Some((failpoint, 2))).await;
        let mut ada = scene.client("ada").await;
        let begun = run(&mut ada, start_of("refund", "mine", "Money back, please.", "")).await;
        let request = asked(&begun).unwrap();
        let mut answer = answer_to(&request.request_id, "", "the same");
        let given: Value = json!({"number": NUMBER, "pin": PIN});
        answer.responses = [(request.request_id.clone(), given.into())].into();
        let cut = match ada.send_responses(answer.clone()).await {
            Ok(stream) => drained(stream.into_inner()).await.is_err(),
            Err(_) => true,
        };
        assert!(cut, "{failpoint}: the server went on");
        scene.server.wait();
        scene.server = scene.calm.start();
        // What was asked for the card tells it at once; boss is asked when the run has gone on.
        let card = scene.request("ada", &request.request_id).await;
        assert_eq!(card.is_err(), is_kept, "{failpoint}: {card:?}");
        // The same again, with its key: it is taken once.
        let mut ada = scene.client("ada").await;
        let told = ada.send_responses(answer).await.unwrap().into_inner();
        hides(failpoint, &format!("{:?}", drained(told).await.unwrap()));
        let open = scene.open("boss").await.pop().unwrap();
        scene.everything(&request.run_id, &open.request_id).await;
        shows(failpoint, &format!("{:?}", scene.request("boss", &open.request_id).await));
        scene.server.kill();
        let looked = scene.offline(&["verify", "--json"]).json();
        assert_eq!(looked["ok"], true, "{failpoint}: {looked}");
        let words = ["export", "run.json", "--run", &request.run_id];
        assert_eq!(scene.offline(&words).code, 0);
        let bundle = fs::read_to_string(scene.root.path().join("run.json")).unwrap();
        hides(failpoint, &bundle);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_said_before_it_became_secret_is_hidden_from_then_on_by_the_same_server_too() {
    let scene = Scene::set(None).await;
    let mut ada = scene.client("ada").await;
    let said = format!("My card is {NUMBER}, and {PIN} it is.");
    let begun = run(&mut ada, start_of("refund", "", &said, "")).await;
    let open = asked(&begun).unwrap();
    shows("before anybody marked it", &format!("{begun:?}"));
    let mut answer = answer_to(&open.request_id, "", "");
    let card = json!({"number": NUMBER, "pin": PIN});
    answer.responses = [(open.request_id.clone(), card.into())].into();
    drained(ada.send_responses(answer).await.unwrap().into_inner()).await.unwrap();
    for who in ["ada", "aud", "root"] {
        let trail = scene.http(who, &format!("/v1/runs/{}/audit", open.run_id));
        assert!(trail.contains("\"started\""), "{trail}");
        hides(&format!("the trail, to {who}"), &trail);
        let told = scene.command(who, &["journal", &open.run_id, "--json"]);
        assert!(told.out.contains("\"started\""), "{}", told.out);
        hides(&format!("the journal, to {who}"), &told.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_later_run_of_the_session_tells_nobody_what_was_secret_before() {
    let scene = Scene::set(None).await;
    let (_, open) = scene.asked().await;
    let mut answer = answer_to(&open.request_id, "", "");
    answer.responses = [(open.request_id.clone(), json!("deny").into())].into();
    let told = scene.client("boss").await.send_responses(answer).await.unwrap().into_inner();
    drained(told).await.unwrap();
    let mut ada = scene.client("ada").await;
    let begun = run(&mut ada, start_of("refund", "mine", "Once more, please.", "")).await;
    let second = asked(&begun).unwrap().run_id;
    for who in ["ada", "aud", "root"] {
        let trail = scene.http(who, &format!("/v1/runs/{second}/audit"));
        assert!(trail.contains("\"started\""), "{trail}");
        hides(&format!("the trail, to {who}"), &trail);
        assert!(!trail.contains("seed"), "what nonces are drawn from: {trail}");
    }
}
