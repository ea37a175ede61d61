//! Halts: what somebody has stopped, by name. What of a run that stops is said by `halt`.

use serde::{Deserialize, Serialize};

use crate::kernel::nested::{is_called, is_within};
use crate::kernel::principal::{Known, Principal};
use crate::kernel::time::Millis;

/// Who stops everything, and through which door, where a file says so: no key is called this.
pub const BY_FILE: &str = "file";

/// What is stopped.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// Everything.
    All,
    /// All runs of one workflow.
    Workflow(String),
    /// All calls of one tool.
    Tool(String),
    /// All work of one agent.
    Agent(String),
}

impl Scope {
    /// What it is, in words.
    pub fn words(&self) -> String {
        match self {
            Self::All => "everything".into(),
            Self::Workflow(name) => format!("the workflow `{name}`"),
            Self::Tool(name) => format!("the tool `{name}`"),
            Self::Agent(name) => format!("the agent `{name}`"),
        }
    }

    /// Whether a run of that workflow stands as a whole.
    pub(super) fn holds_run(&self, workflow: &str) -> bool {
        match self {
            Self::All => true,
            Self::Workflow(name) => name == workflow,
            Self::Tool(_) | Self::Agent(_) => false,
        }
    }

    /// Whether it stops this work in a run of that workflow.
    pub(super) fn holds(&self, workflow: &str, agent: &str, tool: Option<&str>) -> bool {
        match self {
            Self::All => true,
            // One that is a step of another: its tools and agents are called after it.
            Self::Workflow(name) => {
                let is_of_it = |called: &str| is_within(called, name);
                self.holds_run(workflow) || is_of_it(agent) || tool.is_some_and(is_of_it)
            }
            Self::Tool(name) => tool.is_some_and(|tool| is_called(tool, name)),
            Self::Agent(name) => is_called(agent, name),
        }
    }
}

/// One halt.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Halt {
    /// By what it is taken back.
    pub id: String,
    /// What is stopped.
    pub scope: Scope,
    /// Why, in the words of whoever stopped it.
    pub reason: String,
    /// Who stopped it.
    pub by: String,
    /// Where they said so.
    pub door: String,
    /// How they were known; absent before it was written down, and where a file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Known>>,
    /// Since when.
    pub at: Millis,
    /// Whether it is being taken back: runs are told how long they stood, and then it is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_ending: bool,
    /// Who takes it back, once somebody does: should the process die meanwhile, the next one notes them and nobody else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_by: Option<Box<EndedBy>>,
    /// The caller's idempotency key; empty if it had none. Of a file that several servers heed: where it lies.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub key: String,
}

impl Halt {
    /// The machine that the file lies on by which it stands, and its path there; nothing where somebody said it at a door,
    /// and where one process has the store alone: there is but one such file.
    pub fn lies_at(&self) -> Option<(&str, &str)> {
        let place = (self.door == BY_FILE).then_some(self.key.as_str())?;
        place.split_once(':').filter(|(host, _)| !host.is_empty())
    }

    /// Who stopped it, in words: of a file, on which machine it is to be removed.
    pub fn by_whom(&self) -> String {
        match self.lies_at() {
            Some((host, _)) => format!("{} on {host}", self.by),
            None => self.by.clone(),
        }
    }
}

/// Whoever takes a halt back.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct EndedBy {
    /// Who; empty where an earlier build did not keep it.
    pub who: String,
    /// Where.
    pub door: String,
    /// How they were known; absent where a file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Box<Known>>,
    /// Why, in their words; empty where they did not say, and where a file does.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

impl From<&Principal> for EndedBy {
    fn from(who: &Principal) -> Self {
        let (who, door, known) = who.recorded();
        Self { who, door, known, reason: String::new() }
    }
}

/// Every halt that stands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Halts(pub Vec<Halt>);

impl Halts {
    /// The halt by which runs of that workflow stand as a whole, if one does.
    pub fn of_run(&self, workflow: &str) -> Option<&Halt> {
        self.0.iter().find(|halt| halt.scope.holds_run(workflow))
    }

    /// The halt by which nothing at all is done, if one stands.
    pub fn of_all(&self) -> Option<&Halt> {
        self.0.iter().find(|halt| halt.scope == Scope::All)
    }

    /// Whether one stops this work in runs of that workflow.
    pub fn stop(&self, workflow: &str, agent: &str, tool: Option<&str>) -> bool {
        self.0.iter().any(|halt| halt.scope.holds(workflow, agent, tool))
    }
}

/// How long a run has stood, as its journal says. Questions keep their own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Stood {
    /// Up to when the run as a whole was told.
    pub(super) run: Millis,
}

/// That the clock of a question stands still: a halt stands in its way, and no deadline of it passes meanwhile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Still {
    /// What is halted, in words: the first of the halts that stand in its way.
    pub what: String,
    /// How long there is to answer once it goes on; for ever, if absent.
    pub left_ms: Option<u64>,
}

/// Whether a character of a reason steers whatever shows it, in place of being read: a terminal, a line, its direction.
pub fn steers(char: char) -> bool {
    let turns = matches!(char, '\u{200e}' | '\u{200f}' | '\u{061c}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    char.is_control() || turns || matches!(char, '\u{2028}' | '\u{2029}')
}

/// A reason that came by no door which could refuse it, as it is told: what steers is spelled out.
pub fn legible(reason: &str) -> String {
    let mut told = String::with_capacity(reason.len());
    for char in reason.chars() {
        if steers(char) {
            told.extend(char.escape_default());
        } else {
            told.push(char);
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_halt_by_a_file_says_on_which_machine_that_lies_and_one_at_a_door_says_who() {
        let halt = |door: &str, key: &str| Halt {
            id: "halt_1".into(),
            scope: Scope::All,
            reason: "fire".into(),
            by: if door == BY_FILE { BY_FILE.into() } else { "ada".into() },
            door: door.into(),
            known: None,
            at: Millis(1),
            is_ending: false,
            ended_by: None,
            key: key.into(),
        };
        let by_file = halt(BY_FILE, "vm-c:/var/lib/a:b/HALT");
        assert_eq!(by_file.lies_at(), Some(("vm-c", "/var/lib/a:b/HALT")));
        assert_eq!(by_file.by_whom(), "file on vm-c");
        // Where one process has the store alone, and on a machine that has no name.
        for nowhere in [halt(BY_FILE, ""), halt(BY_FILE, ":/data/HALT")] {
            assert_eq!((nowhere.lies_at(), nowhere.by_whom().as_str()), (None, "file"));
        }
        // A key that somebody chose is no place.
        let at_a_door = halt("grpc", "vm-c:/x");
        assert_eq!((at_a_door.lies_at(), at_a_door.by_whom().as_str()), (None, "ada"));
    }

    #[test]
    fn a_reason_steers_nothing_that_shows_it() {
        let told = legible("\u{1b}[31mred\u{1b}[0m, Zoë\u{9b}2J \u{202e}dab\u{2028}ready");
        assert_eq!(told, r"\u{1b}[31mred\u{1b}[0m, Zoë\u{9b}2J \u{202e}dab\u{2028}ready");
        assert!(!told.chars().any(steers));
    }
}
