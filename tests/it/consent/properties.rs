//! Consent as a property: whatever the workflow, whoever speaks and however they name a question, with
//! forks, edits, restarts and changing groups in between, no deed is done that was not allowed (K3, K8, K9,
//! K10, K11). The oracle knows the rules of the file, who belongs to what and which answers were taken; of
//! the engine it asks what is open and what was done, and never why.
//!
//! Each round is drawn from a seed. `HOLDPOINT_CONSENT_ROUNDS=100000` runs so many of them, and
//! `HOLDPOINT_CONSENT_SEED=n` the one that failed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use holdpoint::engine::{
    AnswerRequest, Engine, EngineError, Entry, ForkRequest, Library, StartRequest, Until,
};
use holdpoint::kernel::{Principal, Role, ToolCall, ToolFault, Workflow, digest};
use holdpoint::ports::{Journal, Tools};
use serde_json::{Value, json};

use crate::consent::drawn::{File, Known, PEOPLE, Roll, Stage};
use crate::support::chance::Chance;
use crate::support::{Actors, SimClock, all};

/// Rounds that the suite takes part in; a longer one is a command of its own.
const ROUNDS: u64 = 120;
/// What is tried in one round.
const ACTS: usize = 40;

/// A question as somebody saw it.
#[derive(Debug, Clone)]
struct Shown {
    id: String,
    digest: String,
    code: String,
    run: String,
    /// The rules that asked, or the step whose beginning was asked about.
    rules: BTreeSet<String>,
    amount: u64,
    verbs: Vec<String>,
}

/// An answer that was taken.
#[derive(Debug, Clone)]
struct Taken {
    at: usize,
    run: String,
    /// The rules that had asked, or the step whose beginning was asked about.
    rules: BTreeSet<String>,
    /// The amount that was shown, or that they put in its place.
    amount: u64,
    by: &'static str,
    verb: String,
    is_edit: bool,
    roll: Roll,
}

impl Taken {
    fn is_yes(&self) -> bool {
        matches!(self.verb.as_str(), "approve" | "allow_once" | "allow_for_run" | "edit")
    }
}

/// A deed that was done.
#[derive(Debug, Clone)]
struct Deed {
    at: usize,
    run: String,
    step: String,
    amount: u64,
    key: String,
}

/// The other side: what was really done, and when.
#[derive(Debug, Default)]
struct Wiring {
    deeds: Mutex<Vec<Deed>>,
    now: Mutex<usize>,
}

#[async_trait]
impl Tools for Wiring {
    async fn call(&self, _: &Workflow, call: &ToolCall, key: &str) -> Result<Value, ToolFault> {
        let run = key.split('/').next().unwrap_or_default().to_owned();
        let step = call.id.split('#').next().unwrap_or_default().to_owned();
        let amount = call.arguments["amount"].as_u64().unwrap_or_default();
        let at = *self.now.lock().unwrap();
        self.deeds.lock().unwrap().push(Deed { at, run, step, amount, key: key.to_owned() });
        Ok(json!("paid"))
    }
}

/// One round.
struct Round {
    file: File,
    workflow: Workflow,
    journal: Arc<dyn Journal>,
    clock: Arc<SimClock>,
    world: Arc<Wiring>,
    engine: Engine,
    roll: Roll,
    runs: BTreeMap<String, Known>,
    taken: Vec<Taken>,
    /// Names of questions that were shown once, open or not.
    shown: Vec<Shown>,
    told: String,
    answers: usize,
}

fn person(who: &str) -> Principal {
    let role = if who == "root" { Role::Admin } else { Role::User };
    Principal::new(who, role, "grpc")
}

impl Round {
    async fn open(chance: &mut Chance) -> Self {
        let file = File::drawn(chance);
        let workflow = file.workflow();
        let journal = holdpoint::store::memory().journal();
        let (clock, world) = (Arc::new(SimClock::default()), Arc::new(Wiring::default()));
        let roll = Roll::drawn(chance);
        let engine = Self::engine(&workflow, &journal, &clock, &world).await;
        engine.operate(roll.operator());
        Self {
            file,
            workflow,
            journal,
            clock,
            world,
            engine,
            roll,
            runs: BTreeMap::new(),
            taken: Vec::new(),
            shown: Vec::new(),
            told: String::new(),
            answers: 0,
        }
    }

    async fn engine(
        workflow: &Workflow,
        journal: &Arc<dyn Journal>,
        clock: &Arc<SimClock>,
        world: &Arc<Wiring>,
    ) -> Engine {
        let library = Library::default();
        let digest = digest::of(&serde_json::to_value(workflow).unwrap());
        let entry = Entry { workflow: Arc::new(workflow.clone()), digest };
        library.add(&**journal, entry).await.unwrap();
        let actors = Arc::new(Actors::default().says("idle", "Done."));
        let engine =
            Engine::new(Arc::clone(journal), clock.clone(), actors, world.clone(), library);
        engine.recover().await.unwrap();
        engine
    }

    fn tell(&mut self, what: &str) {
        writeln!(self.told, "{what}").unwrap();
    }

    /// Until nothing moves in a run.
    async fn rest(&self, run: &str) {
        let root = person("root");
        all(self.engine.watch(run, 0, Until::CurrentRest, &root).await.unwrap()).await;
    }

    async fn act(&mut self, chance: &mut Chance, number: usize) {
        *self.world.now.lock().unwrap() = number;
        match chance.below(100) {
            0..8 => self.start(chance, number).await,
            8..70 => self.answer(chance, number).await,
            70..80 => self.say(chance, number).await,
            80..90 => self.fork(chance, number).await,
            90..96 => {
                self.roll = Roll::drawn(chance);
                self.engine.operate(self.roll.operator());
                let roll = format!("{number}: roll {:?}", self.roll);
                self.tell(&roll);
            }
            _ => {
                let (workflow, journal) = (&self.workflow, &self.journal);
                self.engine = Self::engine(workflow, journal, &self.clock, &self.world).await;
                self.engine.operate(self.roll.operator());
            }
        }
    }

    async fn start(&mut self, chance: &mut Chance, number: usize) {
        let who = PEOPLE[chance.below(PEOPLE.len())];
        let request = StartRequest {
            workflow: "pays".into(),
            input: json!("Go."),
            ..StartRequest::default()
        };
        let Ok(begun) = self.engine.start(request, &person(who)).await else { return };
        let (run, session) = (begun.run.to_string(), begun.watch.session_id().to_string());
        self.rest(&run).await;
        self.tell(&format!("{number}: {who} starts {run}"));
        let requesters = BTreeSet::from([who.to_owned()]);
        self.runs.insert(run, Known { owner: who, session, requesters });
    }

    async fn fork(&mut self, chance: &mut Chance, number: usize) {
        let runs: Vec<String> = self.runs.keys().cloned().collect();
        let Some(run) = chance.one(&runs).cloned() else { return };
        let who = PEOPLE[chance.below(PEOPLE.len())];
        let request = ForkRequest { run: run.clone(), ..ForkRequest::default() };
        let Ok(begun) = self.engine.fork(request, &person(who)).await else { return };
        let (fork, session) = (begun.run.to_string(), begun.watch.session_id().to_string());
        self.rest(&fork).await;
        self.tell(&format!("{number}: {who} forks {run} as {fork}"));
        let mut requesters = self.runs[&run].requesters.clone();
        requesters.insert(who.to_owned());
        self.runs.insert(fork, Known { owner: who, session, requesters });
    }

    /// A question, open now or at some time before.
    async fn asked(&mut self, chance: &mut Chance) -> Option<Shown> {
        if chance.holds(12) {
            return chance.one(&self.shown).cloned();
        }
        let runs: Vec<String> = self.runs.keys().cloned().collect();
        let run = chance.one(&runs)?.clone();
        let view = self.engine.run(&run, &person("root")).await.unwrap().run;
        let open: Vec<_> = view.questions.values().collect();
        let question = chance.one(&open)?;
        let rules: BTreeSet<String> = question.rules().into_iter().map(str::to_owned).collect();
        let before = BTreeSet::from([format!("before {}", question.step)]);
        let shown = Shown {
            id: question.id(&view.id).to_string(),
            digest: question.digest.clone(),
            code: question.code(),
            rules: if rules.is_empty() { before } else { rules },
            amount: question.shown()["arguments"]["amount"].as_u64().unwrap_or_default(),
            verbs: question.verbs().into_iter().map(|verb| verb.word().to_owned()).collect(),
            run,
        };
        self.shown.push(shown.clone());
        Some(shown)
    }

    /// An answer by anybody, to anything that was ever asked, by any name, saying anything.
    async fn answer(&mut self, chance: &mut Chance, number: usize) {
        let Some(asked) = self.asked(chance).await else { return };
        let who = PEOPLE[chance.below(PEOPLE.len())];
        let yes = asked.verbs.first().cloned().unwrap_or_default();
        let said = match chance.below(10) {
            0 => "yes".to_owned(),
            1 => "2".to_owned(),
            // A yes more often than chance has it, or nothing would ever be done.
            2..7 => yes.clone(),
            _ => chance.one(&asked.verbs).cloned().unwrap_or_default(),
        };
        let other = 1 + u64::try_from(chance.below(900)).unwrap();
        let is_edit = said == "edit";
        let value = if is_edit {
            json!({"decision": "edit", "arguments": {"amount": other}})
        } else {
            json!(said)
        };
        let session = self.runs[&asked.run].session.clone();
        let id = asked.id.clone();
        let (name, session, digest, is_right) = match chance.below(8) {
            0 => (asked.digest.clone(), session, None, true),
            1 => (asked.code.clone(), session, None, true),
            2 => (id, String::new(), Some(asked.digest.clone()), true),
            3 => (id, String::new(), Some("0".repeat(64)), false),
            // What somebody could make up who knows the run.
            4 => (id.rsplit_once('-').unwrap().0.to_owned(), String::new(), None, false),
            _ => (id, String::new(), None, true),
        };
        self.answers += 1;
        let key = if chance.holds(30) { format!("key-{}", self.answers) } else { String::new() };
        let request = AnswerRequest {
            session,
            run: String::new(),
            answers: vec![(name.clone(), value.clone(), digest)],
            key: key.clone(),
        };
        let begun = match self.engine.answer(request.clone(), &person(who)).await {
            Ok(begun) => begun,
            Err(error) => {
                return self.tell(&format!("{number}: {who} says {value} to {name}: {error}"));
            }
        };
        self.rest(begun.run.as_str()).await;
        self.tell(&format!("{number}: {who} says {value} to {name} ({}): taken", asked.amount));
        assert!(is_right, "K9: a name that is not the question's was taken\n{}", self.told);
        let amount = if is_edit { other } else { asked.amount };
        let verb = if said == "yes" { yes } else { said };
        let (run, rules, roll) = (asked.run, asked.rules, self.roll.clone());
        self.taken.push(Taken { at: number, run, rules, amount, by: who, verb, is_edit, roll });
        if !key.is_empty() && chance.holds(50) {
            // Sent again: the same outcome, and nothing more.
            let before = self.world.deeds.lock().unwrap().len();
            if let Ok(again) = self.engine.answer(request, &person(who)).await {
                self.rest(again.run.as_str()).await;
            }
            let after = self.world.deeds.lock().unwrap().len();
            assert_eq!(before, after, "K2: a repeat did something\n{}", self.told);
        }
    }

    /// Words, into a session that may wait for a decision.
    async fn say(&mut self, chance: &mut Chance, number: usize) {
        let runs: Vec<String> = self.runs.keys().cloned().collect();
        let Some(run) = chance.one(&runs).cloned() else { return };
        let known = self.runs[&run].clone();
        let who = if chance.holds(60) { known.owner } else { PEOPLE[chance.below(PEOPLE.len())] };
        let words = ["approve", "yes", "allow_once", "1", "go on"];
        let words = words[chance.below(words.len())];
        let waits = self.engine.run(&run, &person("root")).await.unwrap().run.questions.len();
        let request = StartRequest {
            workflow: "pays".into(),
            session: known.session.clone(),
            input: json!(words),
            ..StartRequest::default()
        };
        match self.engine.start(request, &person(who)).await {
            Ok(begun) => {
                let new = begun.run.to_string();
                assert!(
                    !self.runs.contains_key(&new),
                    "K9: {who} said `{words}` and it answered a decision of {new} ({waits} open)\n{}",
                    self.told
                );
                self.rest(&new).await;
                self.tell(&format!("{number}: {who} says `{words}`, which starts {new}"));
                let requesters = BTreeSet::from([who.to_owned(), known.owner.to_owned()]);
                let session = known.session;
                self.runs.insert(new, Known { owner: known.owner, session, requesters });
            }
            Err(EngineError::Refused(_)) => {}
            Err(other) => panic!("{other}\n{}", self.told),
        }
    }

    /// What every deed must have behind it.
    fn judge(&self) {
        let deeds = self.world.deeds.lock().unwrap().clone();
        let mut keys = BTreeSet::new();
        let mut steps = BTreeSet::new();
        for deed in &deeds {
            let wrong = |what: &str| -> String {
                format!("{what}: {deed:?}\n{}\n{:#?}", self.told, self.file)
            };
            assert!(keys.insert(deed.key.clone()), "{}", wrong("K10: one call made twice"));
            let once = (deed.run.clone(), deed.step.clone());
            assert!(steps.insert(once), "{}", wrong("K10: one step done twice"));
            let step = self.file.steps.iter().find(|step| step.id == deed.step).unwrap();
            if let Some(stages) = &step.before {
                let name = format!("before {}", step.id);
                let why = self.missing(&name, stages, (deed, step.amount), None);
                assert!(why.is_none(), "{}", wrong(&why.unwrap_or_default()));
            }
            for (rule, stages) in self.file.wanted(step, deed.amount) {
                let why = self.missing(&rule.name, &stages, (deed, deed.amount), rule.over);
                assert!(why.is_none(), "{}", wrong(&why.unwrap_or_default()));
            }
        }
    }

    /// What a rule lacks that a deed has passed.
    fn missing(
        &self,
        rule: &str,
        stages: &[Stage],
        (deed, amount): (&Deed, u64),
        over: Option<u64>,
    ) -> Option<String> {
        let run = &self.runs[&deed.run];
        let of_rule = |taken: &&Taken| {
            taken.run == deed.run && taken.at <= deed.at && taken.rules.contains(rule)
        };
        let granted = |taken: &Taken| {
            taken.verb == "allow_for_run" && taken.amount.max(over.unwrap_or(0)) >= amount
        };
        if over.is_some() && self.taken.iter().filter(of_rule).any(granted) {
            return None;
        }
        let plain = [Stage { to: Vec::new(), need: 1, not: Vec::new() }];
        let stages = if stages.is_empty() { &plain[..] } else { stages };
        for stage in stages {
            let says_yes = |taken: &&Taken| {
                taken.amount == amount
                    && taken.is_yes()
                    && taken.roll.admits(stage, taken.by, run, taken.is_edit)
            };
            let yes = self.taken.iter().filter(of_rule).filter(says_yes);
            let people: BTreeSet<&str> = yes.map(|taken| taken.by).collect();
            if people.len() < stage.need {
                return Some(format!("K8: `{rule}` wants {stage:?}, and had {people:?}"));
            }
        }
        None
    }
}

async fn round(seed: u64) -> (usize, usize) {
    let mut chance = Chance(seed);
    let mut round = Round::open(&mut chance).await;
    round.start(&mut chance, 0).await;
    for number in 1..=ACTS {
        round.act(&mut chance, number).await;
    }
    round.judge();
    let deeds = round.world.deeds.lock().unwrap().len();
    (deeds, round.taken.len())
}

fn given(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap())
}

#[tokio::test]
async fn k8_no_deed_is_done_that_the_right_people_have_not_allowed() {
    let rounds = given("HOLDPOINT_CONSENT_ROUNDS").unwrap_or(ROUNDS);
    let first = given("HOLDPOINT_CONSENT_SEED");
    let seeds = first.map_or(0..rounds, |seed| seed..seed + 1);
    let (mut deeds, mut taken) = (0, 0);
    for seed in seeds {
        println!("seed {seed}");
        let (done, said) = round(seed).await;
        deeds += done;
        taken += said;
    }
    println!("{deeds} deeds, {taken} answers taken");
    // An oracle that never sees a deed proves nothing.
    assert!(first.is_some() || deeds > 100, "{deeds} deeds, {taken} answers taken");
}
