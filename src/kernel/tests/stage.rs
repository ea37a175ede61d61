//! Stage: performs a script on a run and tells it as a play, one line an act.
//!
//! After every act the laws are judged (`judge.rs`), whatever the play is about.

use std::fmt::Write as _;
use std::sync::Arc;

use serde_json::Value;

use super::judge;
use super::script::tell;
pub(super) use super::script::{Act, answers, calls, directs, hands_to, returns, says};
use crate::kernel::workflow::Gate;
use crate::kernel::{
    Answer, AttemptFault, Command, Decision, Declined, Descent, Done, Earlier, Effect, Event,
    Failure, Follows, Millis, Operator, Principal, Purpose, Recorded, Reply, RequestId, Role, Run,
    RunId, SessionId, Spent, Started, Status, ToolFault, Version, Workflow, apply, plan, start,
};

pub(super) const STEM: &str = "01k9zq3v7m8n4p5r6s7t8v9w0x";

/// The whole play, with "Hello" as the caller's first message.
pub(super) fn play<const N: usize>(workflow: &Workflow, script: [Act; N]) -> String {
    let mut stage = Stage::open(workflow, "Hello");
    stage.perform(script);
    stage.told
}

/// A run, its journal, and the play so far.
#[derive(Debug)]
pub(super) struct Stage {
    pub(super) run: Run,
    pub(super) now: Millis,
    pub(super) journal: Vec<Recorded>,
    pub(super) told: String,
}

/// How a run begins in which nothing is special.
pub(super) fn started(input: Value) -> Started {
    Started {
        hides: Vec::new(),
        session: SessionId::parse("s").expect("an id"),
        workflow: "play".into(),
        definition: "d".into(),
        owner: "ann".into(),
        door: "grpc".into(),
        input,
        metadata: std::collections::BTreeMap::new(),
        forked_from: None,
        spent_before: Spent::default(),
        trace: None,
        from: None,
        follows: None,
        seed: "5eed".into(),
        epoch: String::new(),
        requesters: Vec::new(),
        known: None,
        descent: None,
        gates: Vec::new(),
        policy: None,
    }
}

impl Stage {
    pub(super) fn open(workflow: &Workflow, input: impl Into<Value>) -> Self {
        Self::open_after(workflow, input, Spent::default())
    }

    /// A run of a session whose earlier runs have spent so much.
    pub(super) fn open_after(
        workflow: &Workflow,
        input: impl Into<Value>,
        spent_before: Spent,
    ) -> Self {
        let stage = Self::unjudged_after(workflow, input, spent_before, Earlier::default());
        judge::judge(&stage);
        stage
    }

    /// A run of a session in which this was said before.
    pub(super) fn open_following(
        workflow: &Workflow,
        input: impl Into<Value>,
        earlier: Earlier,
    ) -> Self {
        let stage = Self::unjudged_after(workflow, input, Spent::default(), earlier);
        judge::judge(&stage);
        stage
    }

    /// A run whose start brings gates, under what an operator says.
    pub(super) fn open_under(workflow: &Workflow, gates: Vec<Gate>, operator: Operator) -> Self {
        Self::begun(workflow, Started { gates, ..started("Hello".into()) }, operator)
    }

    /// A fork from the very beginning of a run, whose start brought gates, and which is told what was done there.
    pub(super) fn open_forked(workflow: &Workflow, gates: Vec<Gate>, done: Vec<Done>) -> Self {
        let descent = Some(Box::new(Descent { family: RunId::fresh(STEM), copied: 1, done }));
        let started = Started { descent, gates, ..started("Hello".into()) };
        Self::begun(workflow, started, Operator::default())
    }

    fn begun(workflow: &Workflow, started: Started, operator: Operator) -> Self {
        let workflow = Arc::new(workflow.clone());
        let started = Started { workflow: workflow.name.clone(), ..started };
        let world = (Earlier::default(), Arc::new(operator));
        let (run, events) =
            start(RunId::fresh(STEM), workflow, started, world, Millis(0)).expect("starts");
        let (journal, told) = (Vec::new(), String::new());
        let mut stage = Self { run: *run, now: Millis(0), journal, told };
        stage.record(events);
        stage.told = format!("{}\n", stage.state());
        judge::judge(&stage);
        stage
    }

    /// The operator says something else now, and the run is told.
    pub(super) fn ruled(&mut self, operator: Operator) {
        self.run.operator = Arc::new(operator);
        match apply(&mut self.run, &Command::Rule, self.now).expect("taken") {
            Decision::Events(events) => self.record(events),
            Decision::Repeat { .. } => {}
        }
        judge::judge(self);
    }

    /// A run too large to be judged after every act.
    pub(super) fn unjudged(workflow: &Workflow, input: impl Into<Value>) -> Self {
        Self::unjudged_after(workflow, input, Spent::default(), Earlier::default())
    }

    /// Performs one act, which must be taken, and judges nothing.
    pub(super) fn act_unjudged(&mut self, act: &Act) {
        let command = self.command(act);
        match apply(&mut self.run, &command, self.now).expect("taken") {
            Decision::Events(events) => self.record(events),
            Decision::Repeat { .. } => panic!("a repeat"),
        }
    }

    fn unjudged_after(
        workflow: &Workflow,
        input: impl Into<Value>,
        spent_before: Spent,
        earlier: Earlier,
    ) -> Self {
        let workflow = Arc::new(workflow.clone());
        let now = Millis(0);
        let messages = earlier.messages().len();
        let follows =
            (messages > 0).then(|| Follows { run: RunId::fresh(STEM), also: Vec::new(), messages });
        let follows = follows.map(Box::new);
        let workflow_name = workflow.name.clone();
        let plain = started(input.into());
        let started = Started { workflow: workflow_name, spent_before, follows, ..plain };
        let (run, events) =
            start(RunId::fresh(STEM), workflow, started, (earlier, Arc::default()), now)
                .expect("starts");
        let mut stage = Self { run: *run, now, journal: Vec::new(), told: String::new() };
        stage.record(events);
        let opening = format!("{}\n", stage.state());
        stage.told = opening;
        stage
    }

    pub(super) fn perform<const N: usize>(&mut self, script: [Act; N]) {
        for act in script {
            let line = match self.act(&act) {
                Ok(None) => self.state(),
                Ok(Some(after)) => format!("repeats what came after {after}"),
                Err(code) => format!("refused {code}"),
            };
            writeln!(self.told, "{} -> {line}", tell(&act)).expect("text");
        }
    }

    /// Performs one act and judges the laws. A repeat tells where its events began, a refusal its
    /// code.
    pub(super) fn act(&mut self, act: &Act) -> Result<Option<Version>, &'static str> {
        let command = self.command(act);
        self.command_by(&command)
    }

    /// Gives the run a command and judges the laws.
    pub(super) fn command_by(
        &mut self,
        command: &Command,
    ) -> Result<Option<Version>, &'static str> {
        let before = self.run.clone();
        let told = match apply(&mut self.run, command, self.now) {
            Ok(Decision::Events(events)) => {
                self.record(events);
                Ok(None)
            }
            Ok(Decision::Repeat { after }) => Ok(Some(after)),
            Err(declined) => Err(code_of(&declined)),
        };
        if told != Ok(None) {
            judge::k1_no_trace(&before, &self.run);
        }
        judge::judge(self);
        told
    }

    fn command(&mut self, act: &Act) -> Command {
        let (turn, attempt, summarises) = self.owed_reply();
        let replied = |reply| Command::Replied { turn, attempt, reply, summarises };
        let failure = |text: &str| Failure::new("world.fault", text);
        match act {
            Act::Says(text) => replied(Reply { text: text.clone(), ..Reply::default() }),
            Act::Outputs(value) => {
                replied(Reply { output: Some(value.clone()), ..Reply::default() })
            }
            Act::Calls(text, calls) => {
                replied(Reply { text: text.clone(), calls: calls.clone(), ..Reply::default() })
            }
            Act::Fails(retriable) => {
                let fault = AttemptFault { failure: failure("no line"), retriable: *retriable };
                Command::AttemptFailed { turn, attempt, fault }
            }
            Act::Returns(call_id, outcome) => {
                let turns = self.run.turns.values();
                let of =
                    turns.filter(|turn| turn.calls.iter().any(|open| open.call.id == *call_id));
                let turn = of.map(|turn| turn.number).next().unwrap_or(0);
                let outcome = outcome.clone().map_err(|text| ToolFault {
                    failure: failure(&text),
                    may_have_happened: text.contains("lost"),
                });
                Command::ToolReturned { turn, call_id: call_id.clone(), outcome }
            }
            Act::Answers(answers, key) => self.answer(answers, key),
            Act::Withdraws(ordinal) => Command::Withdraw {
                request: self.request(*ordinal),
                principal: ann(),
                key: String::new(),
            },
            Act::Cancels => {
                Command::Cancel { reason: "enough".into(), principal: ann(), key: String::new() }
            }
            Act::Waits(ms) => {
                self.now = self.now.plus(*ms);
                Command::Tick
            }
            Act::Recovers => Command::Recover,
            Act::Signals(name, value) => Command::Signal {
                name: (*name).to_owned(),
                value: value.clone(),
                principal: ann(),
                key: String::new(),
            },
        }
    }

    pub(super) fn answer(&self, answers: &[(u32, Value)], key: &str) -> Command {
        let answer = |(ordinal, value): &(u32, Value)| Answer {
            request: self.request(*ordinal),
            value: value.clone(),
            digest: None,
        };
        let answers = answers.iter().map(answer).collect();
        Command::Answer { answers, key: key.into(), principal: ann(), seed: "fresh".into() }
    }

    pub(super) fn request(&self, ordinal: u32) -> RequestId {
        self.run.request(ordinal)
    }

    /// What the agent that is to reply next would be given, one line a message.
    pub(super) fn given(&self) -> String {
        let mut text = String::new();
        for effect in plan(&self.run) {
            let Effect::Reply { input, .. } = effect else { continue };
            for message in &input.messages {
                let calls: Vec<_> = message.calls.iter().map(|call| call.tool.as_str()).collect();
                let calls = if calls.is_empty() { String::new() } else { format!(" {calls:?}") };
                let (role, author) = (message.role.word(), &message.author);
                writeln!(text, "{role} {author}: {}{calls}", message.text).expect("text");
            }
            return text;
        }
        text
    }

    fn owed_reply(&self) -> (u32, u32, Option<usize>) {
        let owed = plan(&self.run).into_iter().find_map(|effect| match effect {
            Effect::Reply { turn, attempt, input } => Some((turn, attempt, input.summarises)),
            Effect::CallTool { .. } => None,
        });
        owed.unwrap_or((0, 0, None))
    }

    fn record(&mut self, events: Vec<Event>) {
        for event in events {
            let version = Version::try_from(self.journal.len()).expect("small") + 1;
            self.journal.push(Recorded { version, at: self.now, event });
        }
    }

    fn state(&self) -> String {
        match &self.run.status {
            Status::Running => self.owed(),
            Status::Waiting { .. } => {
                let asks = self.run.questions.values();
                let asks = asks.map(|asked| format!("#{} {}", asked.ordinal, asked.kind.word()));
                let mut asks = asks.collect::<Vec<_>>();
                if self.run.graph.waits() {
                    let at = self.run.wake_at().map(|at| format!(" until {at}"));
                    asks.push(format!("what may come{}", at.unwrap_or_default()));
                }
                format!("waiting for {}", asks.join(", "))
            }
            Status::Completed => {
                let output = self.run.output.clone().unwrap_or_default();
                let spoken = output.as_array().map(|spoken| format!("{} messages", spoken.len()));
                format!("completed with {}", spoken.unwrap_or_else(|| output.to_string()))
            }
            Status::Failed(failure) => format!("failed {}", failure.code),
            Status::Cancelled { by } => format!("cancelled by {by}"),
        }
    }

    fn owed(&self) -> String {
        let owed = plan(&self.run).into_iter().map(|effect| match effect {
            Effect::Reply { turn, attempt, input } => {
                let sums_up = self.run.turns[&turn].purpose == Purpose::Synthesis;
                let tries = if attempt > 1 { format!(" try {attempt}") } else { String::new() };
                format!("{}{}{tries}", input.agent, if sums_up { " sums up" } else { "" })
            }
            Effect::CallTool { call, .. } => format!("{}({})", call.tool, call.id),
        });
        let mut owed: Vec<_> = owed.collect();
        if let Some(at) = self.run.wake_at() {
            owed.push(format!("clock at {at}"));
        }
        owed.join(", ")
    }
}

pub(super) fn ann() -> Principal {
    Principal::new("ann", Role::User, "grpc")
}

fn code_of(declined: &Declined) -> &'static str {
    match declined {
        Declined::Refused(refusal) => refusal.code(),
        Declined::Corrupt(corruption) => panic!("decide made what cannot be: {corruption}"),
    }
}
