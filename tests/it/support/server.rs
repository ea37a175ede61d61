//! Server: the real binary, started, killed and started again by tests, and clients that speak to it.

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use holdpoint::wire::v1::orchestrator_client::OrchestratorClient;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    Request, RunStatus, RunWorkflowRequest, SendResponsesRequest, WatchRunRequest, WorkflowEvent,
};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Error};
use tonic::{Status, Streaming};

/// Speaks gRPC, as any caller does.
pub(crate) type Client = OrchestratorClient<InterceptedService<Channel, Key>>;

/// Shows an API key, if there is one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Key(Option<String>);

impl Interceptor for Key {
    fn call(&mut self, mut request: tonic::Request<()>) -> Result<tonic::Request<()>, Status> {
        if let Some(key) = &self.0 {
            let bearer = format!("Bearer {key}").parse().unwrap();
            request.metadata_mut().insert("authorization", bearer);
        }
        Ok(request)
    }
}

/// Connects to a server, which may have died.
pub(crate) async fn dial(address: &str, key: Key) -> Result<Client, Error> {
    let channel = Endpoint::from_shared(format!("http://{address}"))?.connect().await?;
    Ok(OrchestratorClient::with_interceptor(channel, key))
}

/// How a server is to be started.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    root: PathBuf,
    arguments: Vec<String>,
    env: Vec<(String, String)>,
    /// Where it listens; anywhere unless told.
    listen: String,
    /// The folder of its workflows; that of the tests unless told.
    flows: PathBuf,
    /// A bound on the size of any file it writes, in KiB: the disk is full there.
    file_kib_max: Option<u64>,
}

impl Setup {
    /// A server below `root`: data in `data`, its log in `server.log`.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            arguments: Vec::new(),
            env: Vec::new(),
            listen: "127.0.0.1:0".into(),
            flows: flows(),
            file_kib_max: None,
        }
    }

    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listen = address.into();
        self
    }

    pub(crate) fn flows(mut self, folder: &Path) -> Self {
        self.flows = folder.to_path_buf();
        self
    }

    pub(crate) fn arg(mut self, argument: &str) -> Self {
        self.arguments.push(argument.into());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Kills itself at the `passage`-th passage of the failpoint.
    pub(crate) fn failpoint(self, name: &str, passage: u32) -> Self {
        self.env("HOLDPOINT_FAILPOINT", &format!("{name}:{passage}"))
    }

    pub(crate) fn file_kib_max(mut self, kib: u64) -> Self {
        self.file_kib_max = Some(kib);
        self
    }

    /// The process, before it has said anything.
    pub(crate) fn spawn(&self) -> Child {
        let binary = env!("CARGO_BIN_EXE_holdpoint");
        let mut command = match self.file_kib_max {
            None => Command::new(binary),
            Some(kib) => {
                let mut shell = Command::new("bash");
                let limit = format!("ulimit -f {kib}; exec \"$0\" \"$@\"");
                shell.args(["-c", &limit, binary]);
                shell
            }
        };
        forget_settings(&mut command);
        // A test may bring workflows of its own.
        let (data, own) = (self.root.join("data"), self.root.join("flows"));
        let flows = if own.exists() { &own } else { &self.flows };
        command
            .args(["serve", "--json", "--listen", &self.listen])
            .arg("--data")
            .arg(data)
            .arg("--workflows")
            .arg(flows)
            .args(&self.arguments)
            .envs(self.env.iter().cloned())
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log())
            .spawn()
            .unwrap()
    }

    /// A server that listens; or how the process ended before it did.
    pub(crate) fn try_start(&self) -> Result<Server, ExitStatus> {
        let mut child = self.spawn();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            return Err(child.wait().unwrap());
        }
        let told: serde_json::Value = serde_json::from_str(&line).unwrap();
        let address = told["listening"].as_str().unwrap().to_owned();
        Ok(Server { setup: self.clone(), child, address })
    }

    pub(crate) fn start(&self) -> Server {
        self.try_start().unwrap_or_else(|status| panic!("{status}: {}", self.told()))
    }

    /// What servers below this root have logged.
    pub(crate) fn told(&self) -> String {
        fs::read_to_string(self.root.join("server.log")).unwrap_or_default()
    }

    fn log(&self) -> File {
        let path = self.root.join("server.log");
        OpenOptions::new().create(true).append(true).open(path).unwrap()
    }
}

/// Takes away the settings of whoever runs the tests.
pub(crate) fn forget_settings(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("HOLDPOINT_") {
            command.env_remove(name);
        }
    }
}

/// The workflows that tests run.
pub(crate) fn flows() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/flows")
}

/// A server that listens. It is killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Server {
    setup: Setup,
    child: Child,
    address: String,
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        Setup::new(root).start()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(crate) async fn client(&self) -> Client {
        dial(&self.address, Key::default()).await.unwrap()
    }

    pub(crate) async fn client_with(&self, api_key: &str) -> Client {
        dial(&self.address, Key(Some(api_key.into()))).await.unwrap()
    }

    /// A client, if anybody is there.
    pub(crate) async fn try_client(&self, api_key: Option<String>) -> Result<Client, Error> {
        dial(&self.address, Key(api_key)).await
    }

    /// As a power cut would end it.
    pub(crate) fn kill(&mut self) {
        // It may have died on its own already.
        drop(self.child.kill());
        self.child.wait().unwrap();
    }

    /// Kills it, and starts it again without what it was told in its environment.
    pub(crate) fn restart(&mut self) {
        self.kill();
        let setup = Setup { env: Vec::new(), file_kib_max: None, ..self.setup.clone() };
        *self = setup.start();
    }

    /// Kills it, and starts it again where it was: whoever calls it finds it there.
    pub(crate) fn restart_here(&mut self) {
        self.kill();
        *self = Setup { listen: self.address.clone(), ..self.setup.clone() }.start();
    }

    /// Kills it, and starts one that kills itself at the failpoint.
    pub(crate) fn restart_at(&mut self, failpoint: &str) {
        self.kill();
        *self = self.setup.clone().failpoint(failpoint, 1).start();
    }

    /// The same, at a later passage.
    pub(crate) fn restart_at_passage(&mut self, failpoint: &str, passage: u32) {
        self.kill();
        *self = self.setup.clone().failpoint(failpoint, passage).start();
    }

    /// Asks it to stop.
    pub(crate) fn terminate(&self) {
        kill_process(self.pid(), Signal::TERM).unwrap();
    }

    /// Stops it where it is, as a machine that is suspended.
    pub(crate) fn freeze(&self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
    }

    /// Lets it go on as if nothing had been.
    pub(crate) fn thaw(&self) {
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Its resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }

    /// Returns when it has ended, and leaves it to be waited for.
    pub(crate) async fn ended(&self) {
        let id = WaitId::Pid(self.pid());
        let look = move || waitid(id.clone(), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        // Whoever was waited for meanwhile has ended too.
        tokio::task::spawn_blocking(move || retry_on_intr(look).ok()).await.unwrap();
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap()
    }

    pub(crate) fn told(&self) -> String {
        self.setup.told()
    }

    /// A page over plain HTTP: its status and its body.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).unwrap();
        let head =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn start_of(
    workflow: &str,
    session: &str,
    input: &str,
    key: &str,
) -> RunWorkflowRequest {
    RunWorkflowRequest {
        workflow_id: workflow.into(),
        session_id: session.into(),
        input: Some(input.into()),
        idempotency_key: key.into(),
        ..Default::default()
    }
}

pub(crate) fn answer_to(request: &str, value: &str, key: &str) -> SendResponsesRequest {
    SendResponsesRequest {
        responses: [(request.to_owned(), value.into())].into(),
        idempotency_key: key.into(),
        ..Default::default()
    }
}

/// Everything that a stream tells until it ends.
pub(crate) async fn drained(
    mut stream: Streaming<WorkflowEvent>,
) -> Result<Vec<WorkflowEvent>, Status> {
    let mut told = Vec::new();
    while let Some(event) = stream.message().await? {
        told.push(event);
    }
    Ok(told)
}

pub(crate) async fn run(client: &mut Client, request: RunWorkflowRequest) -> Vec<WorkflowEvent> {
    drained(client.run_workflow(request).await.unwrap().into_inner()).await.unwrap()
}

pub(crate) async fn send(client: &mut Client, request: SendResponsesRequest) -> Vec<WorkflowEvent> {
    drained(client.send_responses(request).await.unwrap().into_inner()).await.unwrap()
}

/// The whole journal of a run, until it rests.
pub(crate) async fn journal(client: &mut Client, run_id: &str) -> Vec<WorkflowEvent> {
    let request = WatchRunRequest { run_id: run_id.into(), ..Default::default() };
    drained(client.watch_run(request).await.unwrap().into_inner()).await.unwrap()
}

/// The one request that a stream ended with.
pub(crate) fn asked(events: &[WorkflowEvent]) -> Option<Request> {
    let Event::Status(status) = events.last()?.event.as_ref()? else { return None };
    assert_eq!(status.status(), RunStatus::Waiting);
    status.workflow_waiting.clone().unwrap().requests.into_iter().next()
}

/// The names of events, as the wire has them.
pub(crate) fn names(events: &[WorkflowEvent]) -> Vec<&'static str> {
    events.iter().map(|event| name(event.event.as_ref().unwrap())).collect()
}

pub(crate) fn name(event: &Event) -> &'static str {
    match event {
        Event::Started(_) => "started",
        Event::Status(_) => "status",
        Event::ExecutorInvoked(_) => "executor_invoked",
        Event::ExecutorCompleted(_) => "executor_completed",
        Event::ExecutorFailed(_) => "executor_failed",
        Event::Delta(_) => "delta",
        Event::Message(_) => "message",
        Event::ToolCall(_) => "tool_call",
        Event::ToolResult(_) => "tool_result",
        Event::Handoff(_) => "handoff",
        Event::RequestInfo(_) => "request_info",
        Event::ResponseReceived(_) => "response_received",
        Event::VoteReceived(_) => "vote_received",
        Event::RequestClaimed(_) => "request_claimed",
        Event::RequestDelegated(_) => "request_delegated",
        Event::CheckpointSaved(_) => "checkpoint_saved",
        Event::Output(_) => "output",
        Event::Warning(_) => "warning",
        Event::Completed(_) => "completed",
        Event::Failed(_) => "failed",
        Event::Cancelled(_) => "cancelled",
        Event::RequestClosed(_) => "request_closed",
        Event::GrantRevoked(_) => "grant_revoked",
        Event::Noted(_) => "noted",
        Event::RequestReminded(_) => "request_reminded",
        Event::RequestEscalated(_) => "request_escalated",
        Event::StepOpened(_) => "step_opened",
        Event::StepWorked(_) => "step_worked",
        Event::StepSettled(_) => "step_settled",
        Event::SignalReceived(_) => "signal_received",
    }
}
