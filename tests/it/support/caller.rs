//! Caller: a client that never gives up, and a ledger of everything that callers were told.
//!
//! A call that breaks off is made again with the same idempotency key, at whatever address the
//! server has by then. The ledger is what the laws are judged by in the end.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{
    ListRequestsRequest, ListRunsRequest, RunStatus, RunWorkflowRequest, SendResponsesRequest,
    WorkflowEvent,
};
use tokio::sync::watch;
use tokio::time::timeout;
use tonic::{Response, Status, Streaming};
use tonic_types::StatusExt as _;

use crate::support::server::{Client, Key, answer_to, asked, dial, journal, name, names, start_of};

/// Tries of one call: far more than kills in the longest of rounds.
const TRIES_MAX: u32 = 100_000;

/// After how long somebody who was not taken in asks again.
const DIAL_AGAIN: Duration = Duration::from_secs(1);

/// Where the server is: which of its lives, and the address, if it listens.
pub(crate) type Place = (u64, Option<String>);

/// Everything that callers were told.
#[derive(Debug)]
pub(crate) struct Ledger {
    told: Mutex<Told>,
    /// How many events have been heard by all callers together.
    pub(crate) heard: watch::Sender<Heard>,
}

/// Events that callers heard: a call that is made again hears its own again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Heard {
    pub(crate) in_all: u64,
    pub(crate) new: u64,
}

#[derive(Debug, Default)]
struct Told {
    /// Acknowledged starts: the run by key.
    starts: BTreeMap<String, String>,
    /// Acknowledged answers: what was said, by request.
    answers: BTreeMap<String, String>,
    /// Events by run and sequence.
    events: HashMap<String, BTreeMap<u64, WorkflowEvent>>,
    /// Conversations that came to their end.
    finished: u64,
    /// What each caller is at, by name.
    busy: BTreeMap<String, String>,
}

impl Ledger {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { told: Mutex::default(), heard: watch::channel(Heard::default()).0 })
    }

    pub(crate) fn finished(&self) -> u64 {
        self.told.lock().unwrap().finished
    }

    /// What each caller is at, for whoever has waited for them in vain.
    pub(crate) fn busy(&self) -> String {
        format!("{:#?}", self.told.lock().unwrap().busy)
    }

    fn acknowledged(&self, wish: &Wish, run: &str) {
        let mut told = self.told.lock().unwrap();
        match wish {
            Wish::Start(start) => {
                let key = start.idempotency_key.clone();
                let first = told.starts.entry(key).or_insert_with(|| run.to_owned());
                assert_eq!(first, run, "one start became two runs");
            }
            Wish::Answer { request, value, .. } => {
                let said = told.answers.entry(request.clone()).or_insert_with(|| value.clone());
                assert_eq!(said, value);
            }
        }
    }

    fn heard(&self, event: &WorkflowEvent) {
        let mut told = self.told.lock().unwrap();
        let events = told.events.entry(event.run_id.clone()).or_default();
        let known = events.len();
        let first = events.entry(event.sequence).or_insert_with(|| event.clone());
        assert_eq!(first, event, "E1: an event was told twice, and differently");
        let new = u64::from(events.len() > known);
        drop(told);
        self.heard.send_modify(|heard| {
            *heard = Heard { in_all: heard.in_all + 1, new: heard.new + new };
        });
    }

    /// Holds what was told against what is there now. Returns runs and events.
    pub(crate) async fn judge(&self, client: &mut Client) -> (u64, u64) {
        let (starts, answers, events) = {
            let told = self.told.lock().unwrap();
            (told.starts.clone(), told.answers.clone(), told.events.clone())
        };
        let (mut sum, mut received) = (0, BTreeMap::new());
        for run in starts.values() {
            let journal = journal(client, run).await;
            sum += journal.len() as u64;
            judge_journal(&journal);
            for (sequence, told) in &events[run] {
                let index = usize::try_from(*sequence).unwrap() - 1;
                assert_eq!(&journal[index], told, "E1: an event that was told is another now");
            }
            for event in &journal {
                if let Some(Event::ResponseReceived(response)) = &event.event {
                    *received.entry(response.request_id.clone()).or_insert(0) += 1;
                }
            }
        }
        for (request, value) in &answers {
            assert_eq!(received.get(request), Some(&1), "the answer `{value}` to {request}");
        }
        assert_eq!(received.len(), answers.len(), "an answer that nobody gave");
        assert_eq!(all_runs(client).await, starts.len(), "a start became two runs, or none");
        let open = client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner();
        assert_eq!(open.requests, [], "K6: a finished run waits for nothing");
        (starts.len() as u64, sum)
    }
}

/// What must hold for the journal of a run that has completed.
fn judge_journal(journal: &[WorkflowEvent]) {
    let sequences: Vec<_> = journal.iter().map(|event| event.sequence).collect();
    assert_eq!(sequences, (1..=journal.len() as u64).collect::<Vec<_>>(), "J5: gaps or forks");
    let names = names(journal);
    let count = |wanted: &str| names.iter().filter(|name| **name == wanted).count();
    assert_eq!((count("started"), count("completed"), count("output")), (1, 1, 1), "{names:?}");
    assert_eq!((names[0], names[names.len() - 1]), ("started", "completed"));
    assert_eq!(count("failed") + count("cancelled") + count("request_closed"), 0, "{names:?}");
    let mut done = BTreeMap::new();
    let mut invoked = BTreeMap::new();
    for event in journal {
        if let Some(Event::ExecutorCompleted(step)) = &event.event {
            *done.entry(step.turn).or_insert(0) += 1;
        }
        if let Some(Event::ExecutorInvoked(step)) = &event.event {
            let last = invoked.insert(step.turn, step.attempt).unwrap_or(0);
            assert!(last < step.attempt, "attempts of a turn count up: {names:?}");
            assert!(!done.contains_key(&step.turn), "E3: a completed step began again");
        }
    }
    assert_eq!(done.values().collect::<Vec<_>>(), [&1, &1, &1], "each of three steps once");
    let Some(Event::Started(started)) = &journal[0].event else { panic!("{names:?}") };
    let (answers, tools) = if started.workflow_id == "errand" { (1, 1) } else { (3, 0) };
    assert_eq!(count("response_received"), answers, "{names:?}");
    assert_eq!(count("tool_result"), tools, "{names:?}");
}

async fn all_runs(client: &mut Client) -> usize {
    let (mut count, mut page_token) = (0, String::new());
    loop {
        let request = ListRunsRequest { page_size: 1000, page_token, ..Default::default() };
        let page = client.list_runs(request).await.unwrap().into_inner();
        let over = |run: &holdpoint::wire::v1::Run| run.status() == RunStatus::Completed;
        assert!(page.runs.iter().all(over), "every run finishes");
        count += page.runs.len();
        page_token = page.next_page_token;
        if page_token.is_empty() {
            return count;
        }
    }
}

/// A call that is made until it is done.
#[derive(Debug, Clone)]
enum Wish {
    Start(RunWorkflowRequest),
    Answer { request: String, value: String, through: Through },
}

impl Wish {
    /// Which it is.
    fn words(&self) -> String {
        match self {
            Self::Start(start) => format!("start {}", start.idempotency_key),
            Self::Answer { request, .. } => format!("answer {request}"),
        }
    }
}

#[derive(Debug, Clone)]
enum Through {
    Responses(SendResponsesRequest),
    /// The session waits for one thing only, so plain input answers it.
    Input(RunWorkflowRequest),
}

/// A client that never gives up.
#[derive(Debug)]
pub(crate) struct Caller {
    name: String,
    place: watch::Receiver<Place>,
    ledger: Arc<Ledger>,
    client: Option<(u64, Client)>,
    /// What it adds to everything it says.
    more: String,
}

impl Caller {
    pub(crate) fn new(name: &str, place: watch::Receiver<Place>, ledger: Arc<Ledger>) -> Self {
        Self { name: name.into(), place, ledger, client: None, more: String::new() }
    }

    /// One that says so much that a few turns fill the write-ahead log, and the store settles.
    pub(crate) fn talkative(self) -> Self {
        Self { more: " and so on".repeat(5_000), ..self }
    }

    /// One conversation from beginning to end: three pauses of `chat`, or the one of `errand`.
    pub(crate) async fn converse(&mut self, workflow: &str, number: u64) {
        let topic = format!("{}-{number}", self.name);
        let session = if number.is_multiple_of(2) { "" } else { &topic };
        let key = |turn: u32| format!("{topic}-{turn}");
        let begins = format!("{topic} begins{}", self.more);
        let start = start_of(workflow, session, &begins, &key(0));
        let mut events = self.call(Wish::Start(start)).await;
        let mut turn = 0;
        while let Some(open) = asked(&events) {
            turn += 1;
            let value = if workflow == "errand" {
                "approve".into()
            } else {
                format!("{topic} says {turn}{}", self.more)
            };
            let through = if turn == 2 && !session.is_empty() {
                Through::Input(start_of(workflow, session, &value, &key(turn)))
            } else {
                Through::Responses(answer_to(&open.request_id, &value, &key(turn)))
            };
            events = self.call(Wish::Answer { request: open.request_id, value, through }).await;
        }
        assert_eq!(names(&events).last(), Some(&"completed"), "{topic}");
        self.ledger.told.lock().unwrap().finished += 1;
    }

    /// Notes what it is at.
    fn at(&self, what: &str, wish: &Wish) {
        let what = format!("{what} {}", wish.words());
        self.ledger.told.lock().unwrap().busy.insert(self.name.clone(), what);
    }

    async fn call(&mut self, wish: Wish) -> Vec<WorkflowEvent> {
        for tried in 0..TRIES_MAX {
            self.at(
                &format!("dials for the {tried}th time in life {}:", self.place.borrow().0),
                &wish,
            );
            let Some(mut client) = self.connected().await else { continue };
            self.at("calls:", &wish);
            match self.once(&mut client, &wish).await {
                Ok(events) => return events,
                Err(status) => {
                    let told = status.get_details_error_info().map(|info| info.reason);
                    let may_repeat = told.as_deref().is_none_or(|reason| {
                        reason == "server.busy" || reason == "server.draining"
                    });
                    assert!(may_repeat, "{wish:?} was refused: {status:?}");
                    // Dialled anew: a connection can break where a server lives on.
                    self.client = None;
                }
            }
        }
        panic!("{wish:?} came to nothing");
    }

    /// A connection to the server as it lives now; none if it has just died.
    async fn connected(&mut self) -> Option<Client> {
        let (life, address) =
            self.place.wait_for(|(_, address)| address.is_some()).await.unwrap().clone();
        if let Some((known, client)) = &self.client
            && *known == life
        {
            return Some(client.clone());
        }
        let address = address.unwrap();
        if let Ok(client) = dial(&address, Key::default()).await {
            self.client = Some((life, client.clone()));
            return Some(client);
        }
        // Most likely it has died, and lives again elsewhere; or it is slow to take anybody in, and is asked once more.
        drop(timeout(DIAL_AGAIN, self.place.wait_for(|(current, _)| *current > life)).await);
        None
    }

    async fn once(&self, client: &mut Client, wish: &Wish) -> Result<Vec<WorkflowEvent>, Status> {
        let response: Response<Streaming<WorkflowEvent>> = match wish {
            Wish::Start(start) | Wish::Answer { through: Through::Input(start), .. } => {
                client.run_workflow(start.clone()).await?
            }
            Wish::Answer { through: Through::Responses(answer), .. } => {
                client.send_responses(answer.clone()).await?
            }
        };
        let run =
            response.metadata().get("x-holdpoint-run-id").unwrap().to_str().unwrap().to_owned();
        self.ledger.acknowledged(wish, &run);
        self.at(&format!("listens to {run}:"), wish);
        let mut stream = response.into_inner();
        let mut events: Vec<WorkflowEvent> = Vec::new();
        while let Some(event) = stream.message().await? {
            self.ledger.heard(&event);
            self.at(&format!("heard {} of {run}:", event.sequence), wish);
            if let Some(last) = events.last() {
                assert_eq!(event.sequence, last.sequence + 1, "E1: nothing missing");
            }
            events.push(event);
        }
        let last = events.last().and_then(|last| last.event.as_ref()).map(name);
        assert!(matches!(last, Some("status" | "completed")), "a stream ends at rest: {last:?}");
        Ok(events)
    }
}
