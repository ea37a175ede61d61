//! Kit: runs to store, made by the kernel itself, and stores to put them into.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use holdpoint::kernel::workflow::{
    Agent, HumanInput, Limits, Model, Patience, Pattern, Retry, Step, Work,
};
use holdpoint::kernel::{
    Answer, Command, Decision, Descent, Earlier, Event, Kind, Millis, OnTimeout, Principal, Reply,
    Role, Run, RunId, SessionId, Started, Version, Workflow, apply, digest, start, workflow::Human,
};
use holdpoint::ports::{
    Append, AppendError, Appended, Head, Hold, Journal, KeyRow, Page, SessionRow,
};
use holdpoint::store::{MemoryCluster, OpenError, Store, StoreConfig};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::SimClock;
use crate::support::postgres::Database;

/// Every law, on every store: one body each.
macro_rules! laws {
    ($($law:ident,)*) => {
        mod memory {
            $(#[tokio::test]
            async fn $law() {
                super::$law(crate::support::kit::Bed::memory()).await;
            })*
        }
        mod cluster {
            $(#[tokio::test]
            async fn $law() {
                super::$law(crate::support::kit::Bed::cluster()).await;
            })*
        }
        mod sled {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $law() {
                super::$law(crate::support::kit::Bed::sled().await).await;
            })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $law() {
                super::$law(crate::support::kit::Bed::postgres().await).await;
            })*
        }
    };
}
pub(crate) use laws;

/// The agent's words in every run: what a short reply weighs.
pub(crate) const WORDS: &str = "I looked at the three venues you named. The Foundry is free on the \
    14th, takes sixty guests, and costs a third less than the others; the kitchen closes at ten.";

/// The open questions of a wide run: more than a head holds itself, few enough to answer all.
pub(crate) const WIDE: usize = 20;

/// An agent speaks, a person approves, an agent speaks again.
pub(crate) fn workflow(deadline_ms: Option<u64>) -> Arc<Workflow> {
    let agent = Agent {
        instructions: "Be brief.".into(),
        model: "script".into(),
        tools: Vec::new(),
        human_input: HumanInput::default(),
        output: None,
        retry: Retry::default(),
    };
    let human = Human {
        named: None,
        kind: Kind::Approval,
        prompt: "Shall we book it?".into(),
        context: Value::Null,
        options: Vec::new(),
        response_schema: None,
        show: None,
        decides: false,
        editable: None,
        patience: Patience { deadline_ms, on_timeout: OnTimeout::Reject, ..Patience::default() },
    };
    let turn = |id: &str| Step {
        id: id.into(),
        work: Work::Agent { agent: "planner".into(), prompt: None },
    };
    Arc::new(Workflow {
        secretive: false,
        name: "venue".into(),
        description: String::new(),
        input: None,
        limits: Limits::default(),
        models: BTreeMap::from([(
            "script".into(),
            Model { provider: "scripted".into(), settings: Value::Null },
        )]),
        tools: BTreeMap::new(),
        gates: Vec::new(),
        agents: BTreeMap::from([("planner".into(), agent)]),
        request_types: BTreeMap::new(),
        by_digest: false,
        pattern: Pattern::Sequential {
            steps: vec![
                turn("look"),
                Step { id: "ask".into(), work: Work::Human(Box::new(human)) },
                turn("book"),
            ],
        },
    })
}

/// As many people as `count` are asked at once, each of them something of their own.
pub(crate) fn wide(count: usize) -> Arc<Workflow> {
    let items: Vec<usize> = (1..=count).collect();
    let text = format!(
        "name: wide
pattern: graph
graph:
  steps:
    - id: each
      for_each: '{items:?}'
      as: one
      steps:
        - id: ask
          human: {{kind: approval, prompt: 'And number ${{one}}?'}}
"
    );
    let loaded = holdpoint::definition::load_text("wide.yaml", &text, &|_| Err("none".into()));
    loaded.unwrap().workflow
}

/// The stored text and the digest of a workflow.
pub(crate) fn definition(workflow: &Workflow) -> (String, String) {
    let json = serde_json::to_value(workflow).unwrap();
    (digest::of(&json), json.to_string())
}

pub(crate) fn run_id(number: u64) -> RunId {
    RunId::parse(&format!("run_{number:026}")).unwrap()
}

pub(crate) fn session_id(name: &str) -> SessionId {
    SessionId::parse(name).unwrap()
}

/// A run and what it has yet to be stored with.
#[derive(Debug, Clone)]
pub(crate) struct Play {
    pub(crate) run: Run,
}

impl Play {
    /// Begins run `number` of a session: it owes the first agent's words.
    pub(crate) fn begin(number: u64, session: &str, owner: &str, at: u64) -> (Self, Append) {
        Self::begin_with(number, (session, owner), at, &workflow(None), json!("Find a venue."))
    }

    pub(crate) fn begin_with(
        number: u64,
        whose: (&str, &str),
        at: u64,
        workflow: &Arc<Workflow>,
        input: Value,
    ) -> (Self, Append) {
        Self::founded(number, whose, at, workflow, (input, None))
    }

    /// Begins run `number` as a fork of the family of another.
    pub(crate) fn fork(number: u64, family: u64, session: &str, at: u64) -> (Self, Append) {
        let descent = Descent { family: run_id(family), copied: 1, done: Vec::new() };
        let founded = (json!("Find a venue."), Some(Box::new(descent)));
        Self::founded(number, (session, "ann"), at, &workflow(None), founded)
    }

    fn founded(
        number: u64,
        (session, owner): (&str, &str),
        at: u64,
        workflow: &Arc<Workflow>,
        (input, descent): (Value, Option<Box<Descent>>),
    ) -> (Self, Append) {
        let started = Started {
            hides: Vec::new(),
            gates: Vec::new(),
            policy: None,
            session: session_id(session),
            workflow: workflow.name.clone(),
            definition: definition(workflow).0,
            owner: owner.into(),
            door: "grpc".into(),
            input,
            metadata: BTreeMap::new(),
            forked_from: None,
            spent_before: holdpoint::kernel::Spent::default(),
            trace: None,
            from: None,
            follows: None,
            seed: "5eed".into(),
            epoch: String::new(),
            requesters: Vec::new(),
            known: None,
            descent,
        };
        let id = run_id(number);
        let (nothing, at_once) = (Earlier::default(), Millis(at));
        let (run, events) =
            start(id, Arc::clone(workflow), started, (nothing, Arc::default()), at_once).unwrap();
        let play = Self { run: *run };
        let session = SessionRow::new(play.run.session.clone(), owner, Millis(at));
        let append = Append { session: Some(session), ..play.append(0, at, events) };
        (play, append)
    }

    fn append(&self, expected: Version, at: u64, events: Vec<Event>) -> Append {
        Append {
            hidden: None,
            run: self.run.id.clone(),
            expected,
            token: None,
            fence: None,
            hold: Hold::Keep,
            guards: Vec::new(),
            at: Millis(at),
            events: events.into_iter().map(Arc::new).collect(),
            head: Head::of(&self.run),
            session: None,
            key: None,
            channels: Vec::new(),
            hooks: Vec::new(),
        }
    }

    /// Takes a command, and says what is to be appended.
    pub(crate) fn take(&mut self, command: &Command, at: u64) -> Append {
        let expected = self.run.version;
        let Decision::Events(events) = apply(&mut self.run, command, Millis(at)).unwrap() else {
            panic!("a repeat has nothing to append");
        };
        self.append(expected, at, events)
    }

    /// The agent whose turn it is speaks.
    pub(crate) fn speak(&mut self, text: &str, at: u64) -> Append {
        let (turn, attempt) = {
            let turn = self.run.turns.values().next().unwrap();
            (turn.number, turn.attempt)
        };
        let reply = Reply { text: text.into(), ..Reply::default() };
        self.take(&Command::Replied { turn, attempt, reply, summarises: None }, at)
    }

    /// Somebody approves.
    pub(crate) fn approve(&mut self, at: u64) -> Append {
        let ordinal = *self.run.questions.keys().next().unwrap();
        self.approve_one(ordinal, at)
    }

    /// Somebody approves this.
    pub(crate) fn approve_one(&mut self, ordinal: u32, at: u64) -> Append {
        let answer =
            Answer { request: self.run.request(ordinal), value: json!("approve"), digest: None };
        let principal = Principal::new(self.run.owner.clone(), Role::User, "grpc");
        let (answers, key, seed) = (vec![answer], String::new(), String::new());
        self.take(&Command::Answer { answers, key, principal, seed }, at)
    }

    /// Begins, speaks, and is stored parked on its question.
    pub(crate) async fn park(
        journal: &dyn Journal,
        number: u64,
        session: &str,
        at: u64,
        workflow: &Arc<Workflow>,
    ) -> Self {
        let input = json!("Find a venue.");
        let (mut play, begin) = Self::begin_with(number, (session, "ann"), at, workflow, input);
        journal.append(begin).await.unwrap();
        let spoken = play.speak(WORDS, at);
        journal.append(spoken).await.unwrap();
        play
    }

    /// Approves, speaks once more, and is stored completed; what the store said of both.
    pub(crate) async fn finish(&mut self, journal: &dyn Journal, at: u64) -> [Appended; 2] {
        let approved = self.approve(at);
        let approved = journal.append(approved).await.unwrap();
        let spoken = self.speak("Booked.", at);
        [approved, journal.append(spoken).await.unwrap()]
    }
}

/// A key row for a run.
pub(crate) fn key_row(run: &RunId) -> KeyRow {
    KeyRow { request: "d1".into(), run: run.clone() }
}

/// A store in a directory of its own, small and eager.
#[derive(Debug)]
pub(crate) struct Bed {
    pub(crate) store: Store,
    pub(crate) dir: Option<TempDir>,
    /// It goes with the bed.
    _database: Option<Database>,
}

impl Bed {
    pub(crate) fn memory() -> Self {
        Self { store: holdpoint::store::memory(), dir: None, _database: None }
    }

    /// One of several processes, alone so far.
    pub(crate) fn cluster() -> Self {
        let cluster = MemoryCluster::new(Arc::new(SimClock::default()));
        Self { store: cluster.join().store(), dir: None, _database: None }
    }

    pub(crate) async fn sled() -> Self {
        let dir = TempDir::new().unwrap();
        let store = open(dir.path()).await.unwrap();
        Self { store, dir: Some(dir), _database: None }
    }

    pub(crate) async fn postgres() -> Self {
        let database = Database::made().await;
        Self { store: database.open().await, dir: None, _database: Some(database) }
    }

    /// The same, opened again.
    pub(crate) fn reopened(self, store: Store) -> Self {
        Self { store, ..self }
    }

    pub(crate) fn journal(&self) -> Arc<dyn Journal> {
        self.store.journal()
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.as_ref().unwrap().path()
    }

    /// Stores the definitions that the kit's runs use.
    pub(crate) async fn define(&self) {
        for deadline in [None, Some(1_000), Some(5_000)] {
            self.define_one(&workflow(deadline)).await;
        }
        self.define_one(&wide(WIDE)).await;
    }

    async fn define_one(&self, workflow: &Workflow) {
        let (digest, json) = definition(workflow);
        self.journal().put_definition(&digest, &json).await.unwrap();
    }
}

pub(crate) fn config(dir: &Path) -> StoreConfig {
    StoreConfig { cache_bytes: 8 << 20, reserve_bytes: 0, ..StoreConfig::new(dir) }
}

/// Opens a store, waiting for whoever has just been dropped.
pub(crate) async fn open(dir: &Path) -> Result<Store, OpenError> {
    open_with(&config(dir)).await
}

pub(crate) async fn open_with(config: &StoreConfig) -> Result<Store, OpenError> {
    for _ in 0..100_000 {
        match holdpoint::store::open(config).await {
            Err(OpenError::Held { .. }) => tokio::task::yield_now().await,
            opened => return opened,
        }
    }
    holdpoint::store::open(config).await
}

/// Every row of a listing, page by page.
pub(crate) async fn all<T, F>(
    limit: usize,
    mut page: impl FnMut(Option<String>, usize) -> F,
) -> Vec<T>
where
    F: Future<Output = Page<T>>,
{
    let mut rows = Vec::new();
    let mut cursor = None;
    loop {
        let page = page(cursor, limit).await;
        assert!(page.rows.len() <= limit);
        rows.extend(page.rows);
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
}

pub(crate) fn moved_to(outcome: Result<Appended, AppendError>) -> Version {
    match outcome {
        Err(AppendError::Moved { at }) => at,
        other => panic!("expected the journal to be elsewhere, got {other:?}"),
    }
}
