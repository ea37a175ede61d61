//! Checker: what must hold of every seed, judged at its end by whoever saw everything: what people were told, what the
//! journals have, what tools really did, what listeners and watchers heard. It knows nothing of how any of it is done.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use holdpoint::kernel::{Event, Millis, Origin, Recorded, RunId};
use holdpoint::ports::{Fence, Hold, Incarnation};
use serde_json::Value;

use crate::cast::{Cast, is_carried};
use crate::play::{Play, Store};

/// What a watcher was told: of which run, at which process, and the versions in order.
#[derive(Debug)]
pub(crate) struct Heard {
    pub(crate) run: RunId,
    pub(crate) at: Arc<Cast>,
    pub(crate) sequences: Vec<u64>,
}

/// What came of a seed.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    /// What does not hold.
    pub(crate) wrong: Vec<String>,
    /// Everything that was written, for whoever compares.
    pub(crate) written: String,
    /// How much of what matters happened at all.
    pub(crate) seen: Seen,
}

/// How much of what matters happened.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Seen {
    pub(crate) runs: u64,
    pub(crate) answers: u64,
    pub(crate) refused: u64,
    pub(crate) done: u64,
    pub(crate) altered: u64,
    pub(crate) told: u64,
    pub(crate) recovered: u64,
    pub(crate) watched: u64,
    pub(crate) rewound: u64,
}

impl Seen {
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            runs: self.runs + other.runs,
            answers: self.answers + other.answers,
            refused: self.refused + other.refused,
            done: self.done + other.done,
            altered: self.altered + other.altered,
            told: self.told + other.told,
            recovered: self.recovered + other.recovered,
            watched: self.watched + other.watched,
            rewound: self.rewound + other.rewound,
        }
    }
}

/// Every journal.
type Journals = BTreeMap<RunId, Vec<Recorded>>;

/// Looks at everything.
pub(crate) async fn checked(play: &Play) -> Outcome {
    let journal = play.cluster.join().journal();
    let mut wrong = journal.verify().await.unwrap().damage;
    let (mut journals, mut written) = (Journals::new(), String::new());
    for (run, goes_on) in play.runs().await {
        let events = journal.read(&run, 0, 10_000).await.unwrap();
        for recorded in &events {
            writeln!(written, "{run} {recorded:?}").unwrap();
        }
        if goes_on {
            wrong.push(format!("{run} is left undone"));
        }
        journals.insert(run, events);
    }
    let mut seen = answers(play, &journals, &mut wrong);
    deeds(play, &journals, &mut wrong, &mut seen);
    listeners(play, &journals, &mut wrong);
    // What the store had forgotten is given out again.
    if play.store != Store::Forgetful {
        fences(play, &mut wrong);
        halts(play, &mut wrong);
    }
    let heard = play.heard.lock().unwrap();
    for Heard { run, sequences, .. } in heard.iter().filter(|heard| !is_lost(play, &heard.run)) {
        if sequences.iter().zip(1..).any(|(heard, place)| *heard != place) {
            wrong.push(format!("E1: a watcher of {run} heard {sequences:?}"));
        }
    }
    let late = play.late.lock().unwrap();
    wrong.extend(late.iter().map(|what| format!("E1: {what}, long after it was written")));
    seen.watched = heard.len() as u64;
    seen.rewound = u64::from(play.noticed);
    seen.runs = journals.len() as u64;
    seen.told = play.world.told.lock().unwrap().len() as u64;
    seen.altered = *play.world.altered.lock().unwrap();
    let is_check = |recorded: &&Recorded| match &recorded.event {
        Event::Asked(question) => matches!(question.origin, Origin::LostOutcome(_)),
        _ => false,
    };
    seen.recovered = journals.values().flatten().filter(is_check).count() as u64;
    Outcome { wrong, written, seen }
}

/// Once somebody was told that everything is stopped, nothing is done until somebody lets it go on, wherever.
fn halts(play: &Play, wrong: &mut Vec<String>) {
    let halts = play.world.halts.lock().unwrap();
    for time in play.world.times.lock().unwrap().iter() {
        let stands = |(from, until): &&(Millis, Option<Millis>)| {
            from < time && until.is_none_or(|until| *time < until)
        };
        if let Some(halt) = halts.iter().find(stands) {
            wrong.push(format!(
                "K4: something was done at {time:?}, and everything was halted: {halt:?}"
            ));
        }
    }
}

/// Every word that was acknowledged is in exactly one journal exactly once, by whoever said it; none that was refused
/// is in any; and a question ends once.
fn answers(play: &Play, journals: &Journals, wrong: &mut Vec<String>) -> Seen {
    let mut seen = Seen::default();
    let mut words = BTreeMap::<(String, String), Vec<String>>::new();
    for (run, events) in journals {
        let mut ended = BTreeMap::<u32, u32>::new();
        for recorded in events {
            let (ordinal, by, key) = match &recorded.event {
                Event::Answered { ordinal, by, key, .. } => {
                    *ended.entry(*ordinal).or_default() += 1;
                    (ordinal, by, key)
                }
                Event::Voted { ordinal, by, key, .. } => (ordinal, by, key),
                Event::Closed { ordinal, .. } => {
                    *ended.entry(*ordinal).or_default() += 1;
                    continue;
                }
                _ => continue,
            };
            if by == "eve" {
                wrong.push(format!("K8: {run} took the word of somebody it did not ask"));
            }
            let word = (by.clone(), key.clone());
            words.entry(word).or_default().push(format!("{run} {ordinal}"));
        }
        for (ordinal, times) in ended.iter().filter(|(_, times)| **times > 1) {
            wrong.push(format!("K2: question {ordinal} of {run} ended {times} times"));
        }
    }
    // What a fork took over was said in the run that it is of.
    let is_copied = |places: &Vec<String>| {
        let ordinals: BTreeSet<_> = places.iter().map(|place| place.split(' ').nth(1)).collect();
        ordinals.len() == 1
    };
    for (word, places) in words.iter().filter(|(_, places)| places.len() > 1) {
        if !is_copied(places) {
            wrong.push(format!("K2: {word:?} stands at {places:?}"));
        }
    }
    let all = play.given.lock().unwrap();
    for given in all.iter() {
        let places = words.get(&(given.who.to_owned(), given.key.clone()));
        if places.is_some_and(|places| !places.contains(&place_of(&given.request))) {
            wrong.push(format!("K3: {given:?} stands at {places:?}"));
        }
        let is_there = places.is_some();
        match &given.outcome {
            Some(Ok(())) if !is_there && is_lost(play, &run_of(&given.request)) => {}
            Some(Ok(())) if !is_there => wrong.push(format!("lost: {given:?}")),
            Some(Ok(())) => seen.answers += 1,
            Some(Err(why)) if why.starts_with("refused") => {
                seen.refused += 1;
                if is_there {
                    wrong.push(format!("taken and refused: {given:?}"));
                }
            }
            Some(Err(_)) | None => {}
        }
    }
    seen
}

/// Whether the store has lost something of a run.
fn is_lost(play: &Play, run: &RunId) -> bool {
    play.rewound.contains(run)
}

/// The run of a request.
fn run_of(request: &str) -> RunId {
    let run = request.trim_start_matches("req_").split('-').next().unwrap_or_default();
    RunId::parse(&format!("run_{run}")).unwrap()
}

/// Where the word to a request belongs.
fn place_of(request: &str) -> String {
    let mut parts = request.trim_start_matches("req_").split('-');
    let (run, ordinal) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    format!("run_{run} {}", ordinal.trim_start_matches('0'))
}

/// What was done was allowed like this by those who were asked, and was done once.
fn deeds(play: &Play, journals: &Journals, wrong: &mut Vec<String>, seen: &mut Seen) {
    let mut done = BTreeMap::<(String, String), Vec<Value>>::new();
    for (tool, key, arguments) in play.world.done.lock().unwrap().iter() {
        seen.done += 1;
        done.entry((tool.clone(), key.clone())).or_default().push(arguments.clone());
    }
    for ((tool, key), all) in done {
        let run = RunId::parse(key.split('/').next().unwrap_or_default()).unwrap();
        if all.len() > 1 && tool == "pay" && !is_lost(play, &run) {
            wrong.push(format!("E2: {key} was done {} times", all.len()));
        }
        if is_lost(play, &run) {
            continue;
        }
        let events = journals.get(&run).map_or(&[][..], Vec::as_slice);
        for arguments in all {
            if !is_allowed(events, &arguments) {
                wrong.push(format!("K3: {key} was done with {arguments}, which nobody allowed"));
            }
            let is_noted = events.iter().any(|recorded| match &recorded.event {
                Event::ToolCalled { call, .. } => call.arguments == arguments,
                _ => false,
            });
            if !is_noted {
                wrong.push(format!("E2: {key} was done, and its intent is in no journal"));
            }
        }
    }
}

/// Whether as many as it takes were shown exactly that, and said yes to it.
fn is_allowed(events: &[Recorded], arguments: &Value) -> bool {
    let shown = events.iter().filter_map(|recorded| match &recorded.event {
        Event::Asked(question) => match &question.origin {
            Origin::Gate(call) if call.arguments == *arguments => Some(question),
            _ => None,
        },
        _ => None,
    });
    shown.into_iter().any(|question| {
        let said = events.iter().filter_map(|recorded| match &recorded.event {
            Event::Answered { ordinal, value, by, .. }
            | Event::Voted { ordinal, value, by, .. } => {
                let is_yes = value.get("decision").is_some_and(|word| word == "allow_once");
                (*ordinal == question.ordinal && is_yes).then_some(by.as_str())
            }
            _ => None,
        });
        let people: BTreeSet<_> = said.filter(|who| ["ann", "bob", "cara"].contains(who)).collect();
        let need = question.stages.iter().map(|stage| stage.need as usize).max();
        people.len() >= need.unwrap_or(1)
    })
}

/// Whoever was told that they would be told was told.
fn listeners(play: &Play, journals: &Journals, wrong: &mut Vec<String>) {
    let told = play.world.told.lock().unwrap();
    for listens in play.listens.lock().unwrap().iter().filter(|one| !is_lost(play, &one.run)) {
        let events = journals.get(&listens.run).map_or(&[][..], Vec::as_slice);
        let later = events.iter().filter(|recorded| recorded.version > listens.from);
        for recorded in later.filter(|recorded| is_carried(&recorded.event)) {
            let place = (listens.run.to_string(), listens.channel.clone(), recorded.version);
            if !told.contains(&place) {
                wrong.push(format!("J8: {place:?} was never told"));
            }
        }
    }
}

/// Whoever wrote as the one who drives a run was that.
fn fences(play: &Play, wrong: &mut Vec<String>) {
    let mut holders = BTreeMap::<RunId, (Incarnation, Fence)>::new();
    for written in play.cluster.written() {
        let shown = written.fence.map(|fence| (written.by, fence));
        let holder = holders.get(&written.run).copied();
        if shown.is_some() && shown != holder {
            wrong.push(format!("J4: {written:?}, and {holder:?} drove it"));
        }
        match written.hold {
            Hold::Keep => {}
            Hold::Take { .. } => drop(holders.insert(written.run, (written.by, written.next))),
            Hold::Leave => drop(holders.remove(&written.run)),
        }
    }
}
