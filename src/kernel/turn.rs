//! Turn: one go at a step that is under way: who is at it, what was said in it so far, and which of its calls are open.
//! Whose turn it is next is the pattern's to say, and what an event changes in a turn is `evolve`'s.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::kernel::failure::Undone;
use crate::kernel::message::ToolCall;
use crate::kernel::terms::Stage;
use crate::kernel::time::Millis;
use crate::kernel::tool::Safety;
use crate::kernel::workflow::Gate;

/// Why an agent is given a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// To do its work.
    #[default]
    Work,
    /// To sum up what everyone has said.
    Synthesis,
    /// To say whether a person must look at another's call.
    Judgement,
}

impl Purpose {
    /// Whether this is the default, and need not be stored.
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
    pub fn is_work(&self) -> bool {
        *self == Self::Work
    }
}

/// A turn that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    /// Which of the run's turns.
    pub number: u32,
    /// The step.
    pub step: String,
    /// Who performs it; nobody, where it is a tool's own.
    pub agent: String,
    /// Whose it is, with what that alone has.
    pub kind: TurnKind,
    /// Why.
    pub purpose: Purpose,
    /// When it began.
    pub began_at: Millis,
    /// Which try.
    pub attempt: u32,
    /// Tries that failed on their own account.
    pub failures: u32,
    /// Replies in this turn.
    pub rounds: u32,
    /// Times the agent was told that its reply does not fit.
    pub corrections: u32,
    /// Calls whose outcome is not yet known.
    pub calls: Vec<OpenCall>,
    /// When the next try is due, after a failure.
    pub retry_at: Option<Millis>,
    /// To whom it hands the conversation at its end.
    pub handoff: Option<String>,
    /// What whoever works on it noted, to find it again after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub memo: Option<Value>,
    /// What the agent is told for this turn, where that was worked out when it began.
    pub prompt: Option<String>,
    /// The agent's last words in it.
    pub said: String,
    /// It was begun by yeses to what stood when they were asked for: messages from each first place on, up
    /// to the second, are not for it.
    pub unseen: Vec<(usize, usize)>,
    /// A reply that was cut short and goes on.
    pub unfinished: Option<Unfinished>,
}

/// Whose turn it is. That is said when it begins, and stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum TurnKind {
    /// An agent's, which works.
    Agent,
    /// A tool's own step, which no agent performs.
    Tool(ToolStep),
    /// A judge's, which looks at another's call.
    Judge(Judging),
}

impl TurnKind {
    /// As the beginning of a turn tells it: a judge's names a call, and a tool's has no agent.
    fn of(agent: &str, judges: Option<Judging>) -> Self {
        match judges {
            Some(judging) => Self::Judge(judging),
            None if agent.is_empty() => Self::Tool(ToolStep::default()),
            None => Self::Agent,
        }
    }
}

/// How far a tool's own step has come.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ToolStep {
    /// The call that it is about.
    pub made: Option<ToolCall>,
    /// And what came of it.
    pub returned: Option<Result<Value, Undone>>,
}

impl Turn {
    /// A turn that has just begun; a judge's, where it judges a call.
    pub(super) fn new(
        number: u32,
        step: String,
        agent: String,
        (purpose, judges): (Purpose, Option<Judging>),
    ) -> Self {
        Self {
            number,
            step,
            kind: TurnKind::of(&agent, judges),
            agent,
            purpose,
            began_at: Millis(0),
            attempt: 1,
            failures: 0,
            rounds: 0,
            corrections: 0,
            calls: Vec::new(),
            retry_at: None,
            handoff: None,
            prompt: None,
            said: String::new(),
            unseen: Vec::new(),
            memo: None,
            unfinished: None,
        }
    }

    /// Whether it is a tool's and not an agent's.
    pub fn is_tools(&self) -> bool {
        matches!(self.kind, TurnKind::Tool(_))
    }

    /// Whether it is a judge's.
    pub fn is_judges(&self) -> bool {
        matches!(self.kind, TurnKind::Judge(_))
    }

    /// The call that it looks at, where it is a judge's.
    pub fn judging(&self) -> Option<&Judging> {
        match &self.kind {
            TurnKind::Judge(judging) => Some(judging),
            TurnKind::Agent | TurnKind::Tool(_) => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn judging_mut(&mut self) -> Option<&mut Judging> {
        match &mut self.kind {
            TurnKind::Judge(judging) => Some(judging),
            TurnKind::Agent | TurnKind::Tool(_) => None,
        }
    }

    /// How far it has come, where it is a tool's own.
    pub fn tool_step(&self) -> Option<&ToolStep> {
        match &self.kind {
            TurnKind::Tool(step) => Some(step),
            TurnKind::Agent | TurnKind::Judge(_) => None,
        }
    }

    /// The same, to be changed.
    pub(super) fn tool_step_mut(&mut self) -> Option<&mut ToolStep> {
        match &mut self.kind {
            TurnKind::Tool(step) => Some(step),
            TurnKind::Agent | TurnKind::Judge(_) => None,
        }
    }

    /// The call that it is about, where it is a tool's own and has come to one.
    pub fn made(&self) -> Option<&ToolCall> {
        self.tool_step()?.made.as_ref()
    }

    /// Notes what a tool's own step is about; an agent makes many calls, and is about none of them.
    pub(super) fn makes(&mut self, call: &ToolCall) {
        if let Some(step) = self.tool_step_mut() {
            step.made = Some(call.clone());
        }
    }

    /// Whether the next thing owed is the agent's reply.
    pub fn owes_reply(&self) -> bool {
        let rests = self.calls.is_empty() && self.retry_at.is_none() && self.handoff.is_none();
        rests && !self.is_tools()
    }

    /// Whether it rests until a person answers.
    pub fn rests_on_people(&self) -> bool {
        !self.calls.is_empty()
            && self.calls.iter().all(|open| matches!(open.waits, CallWaits::Person(_)))
    }
}

/// A value that is there, though it be null.
pub(super) fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}

/// A call whose outcome is not yet known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenCall {
    /// The call.
    pub call: ToolCall,
    /// What it waits for.
    pub waits: CallWaits,
    /// What judges said of it.
    pub judged: Vec<Judgement>,
    /// Whose yes released it, if it was asked about: a question about the deed is theirs too (K8).
    pub released: Vec<Stage>,
    /// What gates that the run's start brought have had of it.
    pub(super) looked: Looked,
}

/// What an open call waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum CallWaits {
    /// The tool.
    Tool(Safety),
    /// A person: the question's ordinal.
    Person(u32),
    /// A judge: the number of its turn.
    Judge(u32),
    /// Nobody any more: what follows from the judge's word comes next.
    Nobody,
}

/// What a judge said of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    /// Who.
    pub agent: String,
    /// Whether a person must look.
    pub ask: bool,
    /// Why, in its words; or why it has none.
    pub reason: String,
}

/// A call that a judge looks at before it is made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judging {
    /// The turn whose call it is.
    pub turn: u32,
    /// The call, as it will be made.
    pub call: ToolCall,
    /// When the judge has taken too long.
    pub until: Millis,
}

/// A reply of which pieces were said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Where in the conversation its first piece is.
    pub from: usize,
    /// What was said so far.
    pub text: String,
    /// In how many pieces.
    pub pieces: u32,
}

/// Rules that would have asked when something was first looked at, each as it was then, and why.
pub(super) type Owed = Vec<(Gate, Vec<String>)>;

/// What something that waits has passed, and whom it is still to be put before.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct Looked {
    /// The gates that somebody has let it pass.
    pub(super) passed: Vec<String>,
    /// Those that would have asked when a start's own gate first held it: they ask, whatever has happened since,
    /// though nobody had them in force any more (K7: what would be open now stays open).
    pub(super) owed: Owed,
}

/// A call on its way to being made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wish<'a> {
    pub(super) turn: &'a Turn,
    pub(super) call: &'a ToolCall,
    /// What the agent says with it.
    pub(super) said: &'a str,
    /// What judges have said of it so far.
    pub(super) judged: &'a [Judgement],
    /// What gates that the start brought have had of it.
    pub(super) looked: Option<&'a Looked>,
    /// Whether it is a step that is about to be begun, or done, and no call.
    pub(super) is_step: bool,
}
