//! The stage for refusals: a server with keys, and runs in every state that a bad input can meet.

use holdpoint::wire::v1::{ListRunsRequest, ListSessionsRequest, WatchRunRequest, WorkflowEvent};
use tempfile::TempDir;

use crate::consent::stage::terms_of;
use crate::support::server::{Client, Server, answer_to, asked, drained, run, send, start_of};
use crate::terminal::cli::holdpoint;

/// Who calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    Ada,
    Bob,
    /// An admin.
    Ops,
    /// Shows a key that nobody has.
    Stranger,
    /// Shows none.
    Nobody,
}

/// A server, and what is on it. All of it but one run is Ada's.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) server: Server,
    /// A waiting run, and its request: any text.
    pub(crate) run: String,
    pub(crate) chat: String,
    /// A request of that run that was never made.
    pub(crate) never: String,
    /// An open request for one of two options.
    pub(crate) choice: String,
    /// A run that is over, and its request, which was answered.
    pub(crate) over: String,
    pub(crate) answered: String,
    /// A request whose deadline has passed.
    pub(crate) expired: String,
    keys: [String; 3],
    _root: TempDir,
}

impl Stage {
    pub(crate) async fn set() -> Self {
        let root = TempDir::new().unwrap();
        let data = root.path().join("data");
        let add = |name: &str, role: &str| {
            let add = ["keys", "add", name, "--json", "--data", data.to_str().unwrap()];
            let told = holdpoint(root.path(), &[&add[..], &terms_of(role)].concat(), "");
            told.json()["secret"].as_str().unwrap().to_owned()
        };
        let keys = [add("ada", "user"), add("bob", "user"), add("ops", "admin")];
        let server = Server::start(root.path());
        let mut ada = server.client_with(&keys[0]).await;
        let chat = run(&mut ada, start_of("chat", "ada-chat", "Hello", "stage-key")).await;
        let choice = run(&mut ada, start_of("choice", "ada-choice", "Hello", "")).await;
        let sent = run(&mut ada, start_of("approve_and_send", "ada-over", "Hello", "")).await;
        let answered = asked(&sent).unwrap().request_id;
        send(&mut ada, answer_to(&answered, "approve", "answer-key")).await;
        let hurried = run(&mut ada, start_of("hurried", "ada-late", "Hello", "")).await;
        until_over(&mut ada, &hurried).await;
        for workflow in ["chat", "choice"] {
            run(&mut ada, start_of(workflow, "ada-two", "Hello", "")).await;
        }
        let mut bob = server.client_with(&keys[1]).await;
        run(&mut bob, start_of("chat", "bob-chat", "Hello", "")).await;
        let chat_id = asked(&chat).unwrap().request_id;
        Self {
            server,
            run: chat[0].run_id.clone(),
            never: chat_id.replace("-0001", "-0009"),
            chat: chat_id,
            choice: asked(&choice).unwrap().request_id,
            over: sent[0].run_id.clone(),
            answered,
            expired: asked(&hurried).unwrap().request_id,
            keys,
            _root: root,
        }
    }

    pub(crate) fn key(&self, who: Who) -> Option<&str> {
        match who {
            Who::Ada => Some(&self.keys[0]),
            Who::Bob => Some(&self.keys[1]),
            Who::Ops => Some(&self.keys[2]),
            Who::Stranger => Some("hp_nobody"),
            Who::Nobody => None,
        }
    }

    /// Everything there is: the sessions, and each run with the length of its journal.
    pub(crate) async fn footprint(&self) -> (Vec<String>, Vec<(String, u64)>) {
        let mut ops = self.server.client_with(&self.keys[2]).await;
        let runs = ops.list_runs(ListRunsRequest::default()).await.unwrap().into_inner();
        let sessions = ops.list_sessions(ListSessionsRequest::default()).await.unwrap();
        let sessions = sessions.into_inner().sessions.into_iter();
        (
            sessions.map(|session| session.session_id).collect(),
            runs.runs.into_iter().map(|run| (run.run_id, run.sequence)).collect(),
        )
    }
}

async fn until_over(client: &mut Client, events: &[WorkflowEvent]) {
    let run_id = events[0].run_id.clone();
    let request = WatchRunRequest { run_id, after_sequence: 0, through_pauses: true };
    drained(client.watch_run(request).await.unwrap().into_inner()).await.unwrap();
}
