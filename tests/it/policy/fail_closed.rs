//! Fail closed (K7): every kind of gate against everything that can go wrong with an answer, on the
//! real engine. What was guarded did not happen without an explicit yes; `docs/fail-closed.md` is
//! made from what was seen.

use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;

use holdpoint::definition;
use holdpoint::engine::{AnswerRequest, Engine, EngineError, Published, StartRequest, Until};
use holdpoint::kernel::{AgentInput, Event, Kind, Principal, Question, Reply, Role, ToolCall};
use serde_json::{Value, json};

use crate::support::{Actors, Ground, all, request_of};

/// A kind of gate: what stands in the file, and what lets the guarded action happen.
struct Gate {
    name: &'static str,
    guards: &'static str,
    /// Steps of the graph; the guarded tool is `act`.
    steps: &'static str,
    gates: &'static str,
    yes: &'static str,
}

/// The agent that calls the guarded tool.
const WORKER: &str = "[{agent: worker}]";
/// The guarded tool as a step of its own, after another.
const LATER: &str = ", {id: act, tool: act}]";

const GATES: [Gate; 9] = [
    Gate {
        name: "`before_step`",
        guards: "the step",
        steps: "[{id: act, tool: act, gate: {mode: before_step, deadline: 1h}}]",
        gates: "[]",
        yes: "approve",
    },
    Gate {
        name: "`after_step`",
        guards: "what comes after the step",
        steps: "[{id: look, tool: look, gate: {mode: after_step, deadline: 1h}}",
        gates: "[]",
        yes: "continue",
    },
    Gate {
        name: "`both`",
        guards: "the step, and what comes after it",
        steps: "[{id: act, tool: act, gate: {mode: both, deadline: 1h}}]",
        gates: "[]",
        yes: "approve",
    },
    Gate {
        name: "`on_error`",
        guards: "what comes after a failed step",
        steps: "[{id: fails, agent: ghost, gate: {mode: on_error, deadline: 1h}}",
        gates: "[]",
        yes: "skip",
    },
    Gate {
        name: "`plan_review`",
        guards: "carrying out the plan",
        steps: "[{id: plan, agent: planner, gate: {mode: plan_review, deadline: 1h}}",
        gates: "[]",
        yes: "approve",
    },
    Gate {
        name: "human step (`approval`)",
        guards: "what comes after it",
        steps: "[{id: ok, human: {kind: approval, prompt: Go?, deadline: 1h}}",
        gates: "[]",
        yes: "approve",
    },
    Gate {
        name: "tool gate, always",
        guards: "the call",
        steps: WORKER,
        gates: "[{name: always, tools: [act], deadline: 1h}]",
        yes: "allow_once",
    },
    Gate {
        name: "tool gate, by a rule",
        guards: "the call",
        steps: WORKER,
        gates: "[{name: rule, tools: [act], deadline: 1h, when: [{keywords: [harm]}]}]",
        yes: "allow_once",
    },
    Gate {
        name: "tool gate, by a judge",
        guards: "the call",
        steps: WORKER,
        gates: "[{name: judged, tools: [act], deadline: 1h, when: [{judge: judge}]}]",
        yes: "allow_once",
    },
];

/// How the judge is, where one is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Judge {
    /// It asks for a person.
    Asks,
    /// It cannot be reached.
    Down,
    /// It says what is no verdict.
    Babbles,
}

impl Gate {
    /// The workflow; where the judge is broken, it stands at the guarded tool beside the gate.
    fn workflow(&self, judge: Judge) -> holdpoint::kernel::Workflow {
        let later = if self.steps.ends_with(']') { "" } else { LATER };
        let mut gates = self.gates.to_owned();
        if judge != Judge::Asks && !gates.contains("judge") {
            let beside = "{name: beside, tags: [deeds], deadline: 1h, when: [{judge: judge}]}]";
            let comma = if gates == "[]" { "" } else { ", " };
            gates = format!("{}{comma}{beside}", gates.trim_end_matches(']'));
        }
        let own = if gates.contains("judge") { ", judge: {}" } else { "" };
        let cast =
            ["worker", "planner", "ghost"].into_iter().filter(|name| self.steps.contains(name));
        let cast: Vec<_> = cast.map(|name| format!("{name}: {{tools: [act]}}")).collect();
        let cast = if cast.is_empty() { "none: {}".to_owned() } else { cast.join(", ") };
        let idle = if cast == "none: {}" { ", {agent: none}" } else { "" };
        let steps = format!("{}{later}", self.steps);
        let steps = format!("{}{idle}]", steps.strip_suffix(']').unwrap());
        let text = format!(
            "name: guarded\nmodels: {{m: {{provider: scripted, script: [{{say: x}}]}}}}\n\
             tools:\n  act: {{provider: scripted, tags: [deeds], settings: {{returns: done}}}}\n  \
             look: {{provider: scripted, settings: {{returns: seen}}}}\n\
             agents: {{{cast}{own}}}\ngates: {gates}\npattern: graph\ngraph:\n  steps: {steps}\n"
        );
        let loaded = definition::load_text("guarded.yaml", &text, &|_| Err("no script".into()));
        let loaded = loaded.unwrap_or_else(|problems| panic!("{problems:?} in\n{text}"));
        (*loaded.workflow).clone()
    }
}

fn cast(judge: Judge) -> Actors {
    let acts = |input: &AgentInput| {
        let mut reply = Reply { text: "This may do harm.".into(), ..Reply::default() };
        let is_over = input.messages.iter().any(|message| message.call_id.is_some());
        if !is_over {
            reply.calls = vec![ToolCall::new("c1", "act", json!({}))];
        }
        reply
    };
    let actors = Actors::default().says("planner", "First this, then that.").says("none", "Hm.");
    let actors = actors.plays("worker", acts);
    match judge {
        Judge::Asks => actors.says("judge", "{\"ask\": true, \"reason\": \"harm\"}"),
        Judge::Down => actors,
        Judge::Babbles => actors.says("judge", "{\"ask\": \"rather not\"}"),
    }
}

/// A run that waits at its gate.
struct Stage<'a> {
    gate: &'a Gate,
    ground: Ground,
    engine: Engine,
    run: String,
    told: Vec<Published>,
}

fn person(id: &str, role: Role) -> Principal {
    Principal::new(id, role, "grpc")
}

fn ann() -> Principal {
    person("ann", Role::User)
}

fn code(error: EngineError) -> String {
    let EngineError::Refused(refusal) = error else { panic!("{error}") };
    format!("refused (`{}`)", refusal.code())
}

/// What no question takes for an answer.
fn nonsense() -> [Value; 9] {
    [
        json!("sure, why not"),
        json!(""),
        json!(null),
        json!(1),
        json!([]),
        json!({}),
        json!({"decision": "yes, but"}),
        json!({"approve": true}),
        json!({"decision": ["approve", "allow_once", "continue", "skip"]}),
    ]
}

impl<'a> Stage<'a> {
    async fn open(gate: &'a Gate, judge: Judge) -> Self {
        let ground = Ground::new(cast(judge));
        let engine = ground.boot(&[gate.workflow(judge)]).await;
        let request = StartRequest {
            workflow: "guarded".into(),
            input: json!("Go."),
            ..StartRequest::default()
        };
        let begun = engine.start(request, &ann()).await.unwrap();
        let run = begun.run.to_string();
        let told = all(begun.watch).await;
        Self { gate, ground, engine, run, told }
    }

    fn question(&self) -> Arc<Question> {
        let waiting = self.told.iter().rev().find_map(|told| told.waiting.clone());
        waiting.unwrap_or_else(|| panic!("{}: {:?}", self.gate.name, self.told)).questions[0]
            .clone()
    }

    fn request(&self, value: Value) -> AnswerRequest {
        let answers = vec![(request_of(&self.told), value, None)];
        AnswerRequest { answers, ..AnswerRequest::default() }
    }

    /// Says something about the open question; what followed is kept.
    async fn say(&mut self, value: Value, who: &Principal) -> Result<(), String> {
        let begun = self.engine.answer(self.request(value), who).await.map_err(code)?;
        self.told = all(begun.watch).await;
        Ok(())
    }

    /// How often the guarded action happened.
    fn deeds(&self) -> usize {
        let calls = self.ground.actors.calls.lock().unwrap();
        calls.iter().filter(|(tool, _)| tool == "act").count()
    }

    #[track_caller]
    fn undone(&self, when: &str) {
        assert_eq!(self.deeds(), 0, "K7: {}, {when}: it happened without a yes", self.gate.name);
    }

    /// The person says yes to whatever is asked: it happens, once.
    async fn passes_on_a_yes(mut self) {
        for _ in 0..3 {
            if self.told.last().is_none_or(|last| *last.event != Event::Parked) {
                break;
            }
            let yes = match (self.question().kind, self.gate.yes) {
                (Kind::ToolApproval, _) => "allow_once",
                (_, yes) if self.deeds() == 0 => yes,
                (..) => "continue",
            };
            self.say(json!(yes), &ann()).await.unwrap();
        }
        assert_eq!(self.deeds(), 1, "{}: after a yes it happens, once", self.gate.name);
    }

    /// How the run stands, in a few words.
    fn standing(&self) -> String {
        let told = &*self.told.last().unwrap().event;
        if let Event::Failed(failure) = told {
            return format!("the run fails (`{}`)", failure.code);
        }
        assert_eq!(*told, Event::Completed, "{}", self.gate.name);
        "the agent is told no, and the run goes on without it".into()
    }

    async fn over(&mut self) {
        let after = self.told.last().unwrap().sequence;
        let watch = self.engine.watch(&self.run, after, Until::Over, &ann()).await.unwrap();
        self.told = all(watch).await;
    }
}

async fn no_answer(gate: &Gate) -> String {
    let mut stage = Stage::open(gate, Judge::Asks).await;
    stage.undone("before anybody has spoken");
    stage.ground.clock.advance(3_600_000);
    stage.over().await;
    stage.undone("nobody answered");
    stage.standing()
}

async fn late_answer(gate: &Gate) -> String {
    let mut stage = Stage::open(gate, Judge::Asks).await;
    let request = stage.request(json!(gate.yes));
    stage.ground.clock.advance(3_600_000);
    let refused = code(stage.engine.answer(request.clone(), &ann()).await.unwrap_err());
    stage.over().await;
    let again = code(stage.engine.answer(request, &ann()).await.unwrap_err());
    assert_eq!(refused, again, "{}: late is late", gate.name);
    stage.undone("the answer was late");
    refused
}

async fn nonsense_answer(gate: &Gate) -> String {
    let mut stage = Stage::open(gate, Judge::Asks).await;
    let mut said = String::new();
    for value in nonsense() {
        said = stage.say(value.clone(), &ann()).await.expect_err(&value.to_string());
        assert_eq!(said, "refused (`answer.invalid`)", "{}: {value}", gate.name);
        stage.undone(&value.to_string());
    }
    stage.passes_on_a_yes().await;
    format!("{said}; it stays open")
}

async fn broken_judge(gate: &Gate, judge: Judge) -> String {
    let mut stage = Stage::open(gate, judge).await;
    stage.undone("the judge is broken");
    let kind = stage.question().kind;
    if kind == Kind::ToolApproval {
        let context = stage.question().context.clone();
        let verdicts = context["verdicts"].as_array().map_or(0, Vec::len);
        stage.passes_on_a_yes().await;
        let before = "a person is asked before any judge";
        return if verdicts > 0 { "a person is asked".into() } else { before.into() };
    }
    stage.say(json!(gate.yes), &ann()).await.unwrap();
    stage.undone("a yes to the step is no yes to the call that a broken judge looked at");
    assert_eq!(stage.question().kind, Kind::ToolApproval, "{}", gate.name);
    stage.passes_on_a_yes().await;
    "a person is asked here, and again about the call".into()
}

async fn two_at_once(gate: &Gate) -> String {
    let mut told = String::new();
    for round in 0..8 {
        let mut stage = Stage::open(gate, Judge::Asks).await;
        let no = match gate.yes {
            "allow_once" => "deny",
            "continue" | "skip" => "abort",
            _ => "reject",
        };
        // One person at two doors: another would not be let in.
        let (bob, yes) = (Principal { door: "console", ..ann() }, stage.request(json!(gate.yes)));
        let (no, ann) = (stage.request(json!(no)), ann());
        let (one, other) = if round % 2 == 0 {
            tokio::join!(stage.engine.answer(yes, &ann), stage.engine.answer(no, &bob))
        } else {
            let (no, yes) =
                tokio::join!(stage.engine.answer(no, &bob), stage.engine.answer(yes, &ann));
            (yes, no)
        };
        let is_yes = one.is_ok();
        let (winner, loser) = match (one, other) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            (one, other) => panic!("{}: {:?} {:?}", gate.name, one.is_ok(), other.is_ok()),
        };
        assert!(loser.to_string().contains("ann"), "{loser}");
        told = code(loser);
        stage.told = all(winner.watch).await;
        assert!(is_yes || stage.deeds() == 0, "K4: {}: a no was overruled", gate.name);
        assert!(stage.deeds() <= 1, "K2: {}: acted twice", gate.name);
    }
    format!("one counts, the other is {told}")
}

async fn stranger(gate: &Gate) -> String {
    let mut stage = Stage::open(gate, Judge::Asks).await;
    let said = stage.say(json!(gate.yes), &person("mallory", Role::User)).await.unwrap_err();
    stage.undone("a stranger said yes");
    stage.passes_on_a_yes().await;
    format!("{said}, as if there were nothing; it stays open")
}

async fn unasked(gate: &Gate) -> String {
    let mut stage = Stage::open(gate, Judge::Asks).await;
    let said = stage.say(json!(gate.yes), &person("ops", Role::Admin)).await.unwrap_err();
    stage.undone("K8: an admin who was not asked said yes");
    stage.passes_on_a_yes().await;
    format!("{said}; it stays open")
}

async fn meant_for_another(gate: &Gate) -> String {
    let stage = Stage::open(gate, Judge::Asks).await;
    let session = stage.engine.head(&stage.run, &ann()).await.unwrap().session.to_string();
    let request = StartRequest { session, input: json!(gate.yes), ..StartRequest::default() };
    let said = code(stage.engine.start(request, &ann()).await.unwrap_err());
    stage.undone("K9: a word that named no question was taken for a yes");
    stage.passes_on_a_yes().await;
    format!("{said}, words alone decide nothing; it stays open")
}

const COLUMNS: [&str; 9] = [
    "nobody answers",
    "the answer is late",
    "the answer is nonsense",
    "a judge is down",
    "a judge talks nonsense",
    "two answer at once",
    "a stranger answers",
    "somebody who was not asked answers",
    "the answer was meant for the question before",
];

async fn page() -> String {
    let mut page = String::from(
        "# What happens when nothing is as it should be\n\n\
         Every kind of gate against everything that can go wrong with an answer, played on the real engine. In no \
         case does what is guarded happen without an explicit yes. Where a judge is broken, it stands at the guarded \
         tool beside the gate of the row.\n\n\
         <!-- Made by tests/it/policy/fail_closed.rs: HOLDPOINT_BLESS=1 cargo test the_page_of_what_fails_closed -->\n",
    );
    for gate in &GATES {
        let cells = [
            no_answer(gate).await,
            late_answer(gate).await,
            nonsense_answer(gate).await,
            broken_judge(gate, Judge::Down).await,
            broken_judge(gate, Judge::Babbles).await,
            two_at_once(gate).await,
            stranger(gate).await,
            unasked(gate).await,
            meant_for_another(gate).await,
        ];
        let mut name = gate.name.to_owned();
        if let Some(first) = name.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        write!(
            page,
            "\n## {name}\n\nGuards {}.\n\n| what goes wrong | what happens |\n|---|---|\n",
            gate.guards
        )
        .unwrap();
        for (column, cell) in COLUMNS.iter().zip(cells) {
            writeln!(page, "| {column} | {cell} |").unwrap();
        }
    }
    page + &crate::policy::fail_closed_doors::table().await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_what_fails_closed_is_what_was_seen() {
    let page = page().await;
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/fail-closed.md");
    if std::env::var_os("HOLDPOINT_BLESS").is_some() {
        fs::write(path, &page).unwrap();
    }
    let written = fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "docs/fail-closed.md is out of date: run again with HOLDPOINT_BLESS=1"
    );
}
