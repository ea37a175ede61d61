//! Server: the real binary, started, killed and started again by tests, and clients that speak to it.
//!
//! With `HOLDPOINT_TEST_STORE=postgres` in the environment, or within `on_three_servers`, it is three of them over one
//! PostgreSQL, and every client that is made speaks with the next: the same tests, on many machines.

use std::cell::Cell;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

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

use crate::support::postgres::Database;

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
    /// Where it listens, or each of them; anywhere unless told.
    listen: Vec<String>,
    /// The folder of its workflows; that of the tests unless told.
    flows: PathBuf,
    /// A bound on the size of any file it writes, in KiB: the disk is full there.
    file_kib_max: Option<u64>,
    /// What three of them share, once they have been started.
    shared: Option<Arc<Database>>,
}

thread_local! {
    /// Whether what this thread starts is three over one PostgreSQL.
    static IS_SHARED: Cell<bool> = const { Cell::new(false) };
}

/// Plays a test on three servers over one PostgreSQL.
pub(crate) fn on_three_servers(test: impl FnOnce()) {
    IS_SHARED.set(true);
    test();
    IS_SHARED.set(false);
}

/// Where a process is told what to die of.
const FAILPOINT: &str = "HOLDPOINT_FAILPOINT";

/// How many there are where they share a store.
const REPLICAS: usize = 3;

impl Setup {
    /// A server below `root`: data in `data`, its log in `server.log`.
    pub(crate) fn new(root: &Path) -> Self {
        Self {
            root: root.to_path_buf(),
            arguments: Vec::new(),
            env: Vec::new(),
            listen: Vec::new(),
            flows: flows(),
            file_kib_max: None,
            shared: None,
        }
    }

    pub(crate) fn listen(mut self, address: &str) -> Self {
        self.listen = vec![address.into()];
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
        self.env(FAILPOINT, &format!("{name}:{passage}"))
    }

    pub(crate) fn file_kib_max(mut self, kib: u64) -> Self {
        self.file_kib_max = Some(kib);
        self
    }

    /// The process, before it has said anything.
    pub(crate) fn spawn(&self) -> Child {
        self.spawn_nth(0)
    }

    fn spawn_nth(&self, number: usize) -> Child {
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
        let data = if number == 0 { "data".into() } else { format!("data-{number}") };
        let key = (number > 0).then(|| ("HOLDPOINT_AUDIT_KEY", self.root.join("data/audit.key")));
        // A test may bring workflows of its own.
        let (data, own) = (self.root.join(data), self.root.join("flows"));
        let flows = if own.exists() { &own } else { &self.flows };
        command
            .args(["serve", "--json", "--listen"])
            .arg(self.listen.get(number).map_or("127.0.0.1:0", String::as_str))
            .arg("--data")
            .arg(data)
            .arg("--workflows")
            .arg(flows)
            .args(&self.arguments)
            .envs(key)
            // Of several, one dies of what it is to die of.
            .envs(self.env.iter().filter(|(name, _)| number == 0 || name != FAILPOINT).cloned())
            .envs(self.shared.iter().map(|database| ("HOLDPOINT_STORE", database.address())))
            .current_dir(&self.root)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(self.log())
            .spawn()
            .unwrap()
    }

    /// A server that listens; or how the process ended before it did.
    pub(crate) fn try_start(&self) -> Result<Server, ExitStatus> {
        let mut setup = self.clone();
        if setup.shared.is_none() && setup.is_to_share() {
            setup.shared = Some(Arc::new(Database::made_at_once()));
        }
        let count = if setup.shared.is_some() { REPLICAS } else { 1 };
        let (children, addresses) = (Vec::new(), Vec::new());
        let mut server = Server { setup, children, addresses, next: 0.into(), stays: false.into() };
        // The first makes the key that all of them sign with.
        server.listens_from(0..1)?;
        server.listens_from(1..count)?;
        Ok(server)
    }

    /// Whether whoever runs the tests wants them on a shared store, and this one has not been told another.
    fn is_to_share(&self) -> bool {
        let is_told = self.env.iter().any(|(name, _)| name == "HOLDPOINT_STORE")
            || self.arguments.iter().any(|argument| argument.starts_with("--store"));
        let is_wanted = std::env::var_os("HOLDPOINT_TEST_STORE").is_some_and(|on| on == "postgres");
        !is_told && (is_wanted || IS_SHARED.get())
    }

    /// Whether the first of them is to die of something, so that everybody has to call there.
    fn is_to_die(&self) -> bool {
        self.env.iter().any(|(name, _)| name == FAILPOINT)
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

/// A server that listens, or several as one. It is killed when it goes out of scope.
#[derive(Debug)]
pub(crate) struct Server {
    setup: Setup,
    children: Vec<Child>,
    addresses: Vec<String>,
    /// Whose turn it is to be called.
    next: AtomicUsize,
    /// Whether it is always the first one's.
    stays: AtomicBool,
}

impl Server {
    pub(crate) fn start(root: &Path) -> Self {
        Setup::new(root).start()
    }

    /// Starts these of several, and hears from each of them where it listens.
    fn listens_from(&mut self, numbers: Range<usize>) -> Result<(), ExitStatus> {
        for number in numbers.clone() {
            self.children.push(self.setup.spawn_nth(number));
        }
        for child in &mut self.children[numbers] {
            let mut line = String::new();
            BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
            if line.is_empty() {
                return Err(child.wait().unwrap());
            }
            let told: serde_json::Value = serde_json::from_str(&line).unwrap();
            self.addresses.push(told["listening"].as_str().unwrap().to_owned());
        }
        Ok(())
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address())
    }

    /// Of several, only one is called from now on: for what each server counts, or a terminal remembers, for itself.
    pub(crate) fn stay(&self) {
        self.stays.store(true, Ordering::Relaxed);
    }

    /// Where to call: of several, the next each time.
    pub(crate) fn address(&self) -> &str {
        if self.setup.is_to_die() || self.stays.load(Ordering::Relaxed) {
            return &self.addresses[0];
        }
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        &self.addresses[turn % self.addresses.len()]
    }

    pub(crate) async fn client(&self) -> Client {
        dial(self.address(), Key::default()).await.unwrap()
    }

    pub(crate) async fn client_with(&self, api_key: &str) -> Client {
        dial(self.address(), Key(Some(api_key.into()))).await.unwrap()
    }

    /// A client, if anybody is there.
    pub(crate) async fn try_client(&self, api_key: Option<String>) -> Result<Client, Error> {
        dial(self.address(), Key(api_key)).await
    }

    /// As a power cut would end it.
    pub(crate) fn kill(&mut self) {
        for child in &mut self.children {
            // It may have died on its own already.
            drop(child.kill());
            child.wait().unwrap();
        }
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
        *self = Setup { listen: self.addresses.clone(), ..self.setup.clone() }.start();
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
        self.children[0].wait().unwrap()
    }

    /// Its resident memory.
    pub(crate) fn resident_kib(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.children[0].id())).unwrap();
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
        Pid::from_raw(i32::try_from(self.children[0].id()).unwrap()).unwrap()
    }

    pub(crate) fn told(&self) -> String {
        self.setup.told()
    }

    /// A page over plain HTTP: its status and its body.
    pub(crate) fn page(&self, path: &str) -> (u16, String) {
        let address = self.address();
        let mut stream = TcpStream::connect(address).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
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
