//! The stage for consent: a server with one workflow, the people who call it, and a tool whose deeds
//! are counted on its other side. What is to be true there is said by the tests, not here.

use std::collections::BTreeMap;
use std::fs;

use futures::{SinkExt as _, StreamExt as _};
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    AuditEntry, ListAuditRequest, ListRequestsRequest, ListRunsRequest, Request, Run, RunStatus,
    RunWorkflowRequest, SendResponsesRequest, WatchRunRequest, WorkflowEvent,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::a2a::calls::Agent;
use crate::bridge::calls::{Caller, Reply};
use crate::support::server::{Client, Server, Setup, asked, drained, journal, run, start_of};
use crate::support::tool_server::{Answer, ToolServer};
use crate::terminal::cli::holdpoint;

/// The tool that does something in the world, for every workflow here; `TOOLS` is where.
pub(crate) const TOOL: &str = "
  pay:
    provider: http
    parameters: {type: object}
    settings: {method: POST, url: 'TOOLS/pay', allow_private: true}
";

/// The workflow `bills`: these steps, in which the tool may be called, and somebody who has the last word.
pub(crate) fn bills(steps: &str) -> String {
    format!(
        "
name: bills
models:
  default: {{provider: scripted, script: [{{say: Done.}}]}}
tools:{TOOL}
agents:
  idle: {{human_input: false}}
pattern: graph
graph:
  steps: [{steps}, {{id: end, agent: idle}}]
"
    )
}

/// A client of the server's.
pub(crate) type Calls = Client;

/// Who calls on a server without keys.
pub(crate) const LOCAL: &str = "";

/// A server, its people, and what was really done.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    pub(crate) root: TempDir,
    pub(crate) tools: ToolServer,
    keys: BTreeMap<String, String>,
    workflow: String,
}

impl Stage {
    /// A server without keys: everybody is `local`.
    pub(crate) async fn open(flow: &str) -> Self {
        Self::with_people(flow, &[]).await
    }

    /// A server whose people have keys: a name and a role, or terms such as `--person ada`, each.
    pub(crate) async fn with_people(flow: &str, people: &[(&str, &str)]) -> Self {
        Self::set(flow, people, &[]).await
    }

    /// The same, told something more at its start.
    pub(crate) async fn set(flow: &str, people: &[(&str, &str)], arguments: &[&str]) -> Self {
        Self::settled(flow, people, arguments, "").await
    }

    /// The same, with this as its settings file.
    pub(crate) async fn settled(
        flow: &str,
        people: &[(&str, &str)],
        arguments: &[&str],
        settings: &str,
    ) -> Self {
        // One place answers, one breaks down behind a gateway, one breaks down itself.
        let tools = ToolServer::start([
            ("/pay", Answer::Json(json!("paid"))),
            ("/moved", Answer::GatedTo("/pay")),
            ("/torn", Answer::Raw(502, Vec::new(), Vec::new())),
            ("/broken", Answer::Raw(500, Vec::new(), Vec::new())),
        ])
        .await;
        let root = TempDir::new().unwrap();
        let flow = flow.replace("TOOLS", &tools.url(""));
        fs::create_dir(root.path().join("flows")).unwrap();
        // Other files may come along; the first is the one that is called.
        let mut files = flow.split("\n=== ");
        let first = files.next().unwrap();
        let name = first.lines().find_map(|line| line.strip_prefix("name: ")).unwrap();
        let others = files.map(|file| file.split_once('\n').unwrap());
        for (name, text) in [(name, first)].into_iter().chain(others) {
            fs::write(root.path().join(format!("flows/{name}.yaml")), text).unwrap();
        }
        let workflow = name.to_owned();
        fs::write(root.path().join("holdpoint.toml"), settings).unwrap();
        let add = |name: &str, role: &str| {
            let words = ["keys", "add", name, "--json", "--keys", "keys.toml"];
            let words = [&words[..], &terms_of(role)].concat();
            let told = holdpoint(root.path(), &words, "").json();
            told["secret"].as_str().unwrap().to_owned()
        };
        let keys: BTreeMap<_, _> =
            people.iter().map(|(name, role)| ((*name).to_owned(), add(name, role))).collect();
        let mut setup = Setup::new(root.path());
        if !keys.is_empty() {
            setup = setup.arg("--keys=keys.toml");
        }
        let setup = arguments.iter().fold(setup, |setup, argument| setup.arg(argument));
        Self { server: setup.start(), root, tools, keys, workflow }
    }

    /// The secret of somebody's key.
    pub(crate) fn key(&self, who: &str) -> &str {
        &self.keys[who]
    }

    fn bearer(&self, who: &str) -> Option<String> {
        self.keys.get(who).map(|key| format!("Bearer {key}"))
    }

    /// A command line of somebody's.
    pub(crate) fn command(&self, who: &str, words: &[&str]) -> crate::terminal::cli::Ended {
        let url = self.server.url();
        let mut all = vec!["--server", &url];
        if let Some(key) = self.keys.get(who) {
            all.extend(["--api-key", key]);
        }
        all.extend(words);
        holdpoint(self.root.path(), &all, "")
    }

    pub(crate) async fn client(&self, who: &str) -> Client {
        match self.keys.get(who) {
            Some(key) => self.server.client_with(key).await,
            None => self.server.client().await,
        }
    }

    /// A client, if anybody is there.
    pub(crate) async fn calls(&self, who: &str) -> Result<Calls, tonic::transport::Error> {
        self.server.try_client(self.keys.get(who).cloned()).await
    }

    pub(crate) fn http(&self, who: &str) -> Caller {
        let caller = Caller::new(self.server.address());
        match self.bearer(who) {
            Some(bearer) => caller.with(&format!("Authorization: {bearer}")),
            None => caller,
        }
    }

    pub(crate) fn agent(&self, who: &str) -> Agent {
        let agent = Agent::new(self.server.address(), &format!("/a2a/{}", self.workflow));
        match self.bearer(who) {
            Some(bearer) => agent.with(&format!("Authorization: {bearer}")),
            None => agent,
        }
    }

    /// One message over a WebSocket of its own, and the word that came back.
    pub(crate) async fn socket(&self, who: &str, message: &Value) -> Value {
        let url = format!("ws://{}/v1/ws", self.server.address());
        let mut request = url.into_client_request().unwrap();
        if let Some(bearer) = self.bearer(who) {
            request.headers_mut().insert("authorization", bearer.parse().unwrap());
        }
        let (mut stream, _) = tokio_tungstenite::connect_async(request).await.unwrap();
        stream.send(Message::Text(message.to_string().into())).await.unwrap();
        loop {
            let Message::Text(text) = stream.next().await.unwrap().unwrap() else { continue };
            let told: Value = serde_json::from_str(&text).unwrap();
            if told["type"] == "ack" || told["type"] == "error" {
                return told;
            }
        }
    }

    /// Starts the workflow in a session; what was told until it rested.
    pub(crate) async fn start(&self, who: &str, session: &str, input: &str) -> Vec<WorkflowEvent> {
        run(&mut self.client(who).await, start_of(&self.workflow, session, input, "")).await
    }

    /// Words to the session, which answer nothing by themselves.
    pub(crate) async fn say(&self, who: &str, session: &str, words: &str) -> Result<(), Status> {
        let request: RunWorkflowRequest = start_of(&self.workflow, session, words, "");
        let stream = self.client(who).await.run_workflow(request).await?.into_inner();
        drained(stream).await.map(|_| ())
    }

    /// An answer by request id and, where one is given, the digest of what was shown.
    pub(crate) async fn answer(
        &self,
        who: &str,
        request: &Request,
        value: Value,
    ) -> Result<Vec<WorkflowEvent>, Status> {
        let id = request.request_id.clone();
        let message = SendResponsesRequest {
            responses: [(id.clone(), value.into())].into(),
            digests: [(id, request.digest.clone())].into(),
            ..Default::default()
        };
        drained(self.client(who).await.send_responses(message).await?.into_inner()).await
    }

    /// The console with somebody signed in: a caller whose forms are taken.
    pub(crate) fn console(&self, who: &str) -> Caller {
        let form = "Content-Type: application/x-www-form-urlencoded";
        let caller = Caller::new(self.server.address()).with(form);
        let Some(key) = self.keys.get(who) else { return caller };
        let signed = caller.raw("POST", "/console/sign-in", &form_of(&[("key", key)]));
        let head = signed.head.lines().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("set-cookie").then_some(value)
        });
        let cookie = head.unwrap().split(';').next().unwrap().to_owned();
        caller.with(&format!("Cookie: {cookie}"))
    }

    /// The form of a request as the console would send it, whether or not it showed one.
    pub(crate) fn form(&self, who: &str, request: &Request, fields: &[(&str, &str)]) -> Reply {
        let digest = [("digest", request.digest.as_str())];
        let path = format!("/console/requests/{}", request.request_id);
        self.console(who).raw("POST", &path, &form_of(&[&digest[..], fields].concat()))
    }

    /// What was really done, once the run rests: what the tool was sent, in order.
    pub(crate) async fn deeds(&self, who: &str, run_id: &str) -> Vec<Value> {
        journal(&mut self.client(who).await, run_id).await;
        self.tools.seen().iter().map(crate::support::tool_server::Seen::json).collect()
    }

    /// How often the tool was called so far.
    pub(crate) fn paid(&self) -> usize {
        self.tools.seen().len()
    }

    /// What waits for somebody, as their inbox has it.
    pub(crate) async fn inbox(&self, who: &str) -> Vec<Request> {
        let request = ListRequestsRequest::default();
        self.client(who).await.list_requests(request).await.unwrap().into_inner().requests
    }

    pub(crate) async fn runs(&self, who: &str) -> Vec<Run> {
        let request = ListRunsRequest::default();
        self.client(who).await.list_runs(request).await.unwrap().into_inner().runs
    }

    pub(crate) async fn audit(&self, who: &str, run_id: &str) -> Vec<AuditEntry> {
        let request = ListAuditRequest { run_id: run_id.into(), ..Default::default() };
        self.client(who).await.list_audit(request).await.unwrap().into_inner().entries
    }

    /// The answers that a run has taken: to what, and by whom.
    pub(crate) async fn answers(&self, who: &str, run_id: &str) -> Vec<(String, String)> {
        let told = journal(&mut self.client(who).await, run_id).await;
        let answers = told.into_iter().filter_map(|event| match event.event {
            Some(Event::ResponseReceived(it)) => Some((it.request_id, it.principal)),
            Some(_) | None => None,
        });
        answers.collect()
    }

    /// Follows a run through its pauses until it waits for something like this.
    pub(crate) async fn until(
        &self,
        who: &str,
        run_id: &str,
        is_it: impl Fn(&Request) -> bool,
    ) -> Request {
        let watch =
            WatchRunRequest { run_id: run_id.into(), through_pauses: true, after_sequence: 0 };
        let mut stream = self.client(who).await.watch_run(watch).await.unwrap().into_inner();
        loop {
            let told = stream.message().await.unwrap().expect("the run never asked that");
            let Some(Event::Status(status)) = told.event else { continue };
            if status.status() != RunStatus::Waiting {
                continue;
            }
            let open = status.workflow_waiting.unwrap().requests;
            if let Some(found) = open.into_iter().find(&is_it) {
                return found;
            }
        }
    }

    /// What is wrong where nothing should have been done, and the question should still be open.
    pub(crate) async fn touched(&self, who: &str, request: &Request) -> Option<String> {
        let deeds = self.deeds(who, &request.run_id).await;
        if !deeds.is_empty() {
            return Some(format!("it was done without a yes to it: {deeds:?}"));
        }
        let open: Vec<_> = self.inbox(who).await.into_iter().map(|one| one.request_id).collect();
        let is_gone = !open.contains(&request.request_id);
        is_gone.then(|| format!("the question is gone; open: {open:?}"))
    }

    /// Asserts that nothing was done and that the question is still open.
    pub(crate) async fn assert_untouched(&self, who: &str, request: &Request, how: &str) {
        assert_eq!(self.touched(who, request).await, None, "{how}");
    }
}

/// The terms of a key in words. An `admin` of these stages works with what they see, too.
pub(crate) fn terms_of(role: &str) -> Vec<&str> {
    match role {
        "admin" => vec!["--role", "user", "--role", "operator", "--role", "admin"],
        terms if terms.starts_with("--") => terms.split_whitespace().collect(),
        role => vec!["--role", role],
    }
}

/// What people are told to decide by, as text.
pub(crate) fn facts(request: &Request) -> String {
    format!("{:?}", request.context)
}

/// The one request that a start ended with.
pub(crate) fn question(events: &[WorkflowEvent]) -> Request {
    asked(events).expect("the run asks")
}

/// A form's fields as a browser sends them.
pub(crate) fn form_of(fields: &[(&str, &str)]) -> String {
    url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish()
}

/// A refusal in two words: its status and its reason.
pub(crate) fn refusal<T>(outcome: Result<T, Status>) -> (Code, String) {
    match outcome {
        Ok(_) => (Code::Ok, String::new()),
        Err(status) => {
            let reason = status.get_details_error_info().map(|info| info.reason);
            (status.code(), reason.unwrap_or_default())
        }
    }
}
