//! Run: where an execution stands, folded from its journal.
//!
//! Everything in here follows from events; nothing is set by hand outside `evolve`. What grows (the conversation, the
//! list of how questions ended) only grows at its end. What was said before it (`session_memory`) is handed in whole.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::apart::Veil;
use crate::kernel::approvers::{Admission, Asker};
use crate::kernel::done::Done;
use crate::kernel::failure::{Failure, Failures};
use crate::kernel::grant::Grant;
use crate::kernel::graph::State;
use crate::kernel::halts::Stood;
use crate::kernel::id::{RequestId, RunId, SessionId, Tail, Version};
use crate::kernel::keys::Keys;
use crate::kernel::listing::Listing;
use crate::kernel::message::{Message, Speaker, ToolCall};
use crate::kernel::operator::Operator;
use crate::kernel::question::{Ending, Leg, Origin, Question};
use crate::kernel::refused::No;
use crate::kernel::rules::InForce;
use crate::kernel::said::Said;
use crate::kernel::sealing::Belongs;
use crate::kernel::session_memory::Earlier;
use crate::kernel::spending::{Extensions, Spent, Usage};
use crate::kernel::started::Follows;
use crate::kernel::terms::Stage;
use crate::kernel::time::Millis;
use crate::kernel::trace::Trace;
use crate::kernel::turn::{Owed, Purpose, Turn, present};
use crate::kernel::workflow::{Gate, Pattern, Workflow};

/// Where an execution stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The session it belongs to.
    pub session: SessionId,
    /// The definition it keeps for life.
    #[serde(skip, default = "Workflow::of_nothing")]
    pub workflow: Arc<Workflow>,
    /// The definition's digest.
    pub definition: String,
    /// Whose run it is.
    pub owner: String,
    /// The events folded so far.
    pub version: Version,
    /// When it came to be.
    pub started_at: Millis,
    /// When it last changed.
    pub updated_at: Millis,
    /// Whether it moves, waits or is over.
    pub status: Status,
    /// What the caller said.
    pub input: Value,
    /// The version that a person put in the place of what was said, and how much had been said by then.
    pub edited: Option<(usize, Value)>,
    /// What was said to work that is done again, by the step that asked: who said it, and their note.
    pub returned: BTreeMap<String, Value>,
    /// Whatever the caller wants to find again.
    pub metadata: BTreeMap<String, String>,
    /// Where it was forked from.
    pub forked_from: Option<(RunId, Version)>,
    /// The first run of its family, where it was forked from one; not known of what earlier builds forked.
    pub family: Option<RunId>,
    /// How many of its events are copies, where it says so.
    pub(super) copied: Version,
    /// What was done before it and not anew in it; and of each deed, whether that was let be done anew.
    pub(super) done: Vec<(Done, bool)>,
    /// Who asked for what it does: its owner, and whoever asked for what it was forked from.
    pub requesters: Vec<String>,
    /// Who has answered something in it.
    pub participants: BTreeSet<String>,
    /// Whose yes let it go on last, where anybody was named: a question about a deed that follows from it is
    /// theirs too (K8).
    pub let_on_by: Vec<Stage>,
    /// The call that they let be made, where that was at the gate of its step.
    pub(super) let_on_call: Option<SeenCall>,
    /// What the nonces of its questions are drawn from.
    pub seed: String,
    /// Whether that lies open in its journal: nothing was known to be secret when it was written.
    pub is_seed_open: bool,
    /// What it knows to be secret.
    pub veil: Veil,
    /// The epoch of the store that it was last told of.
    pub epoch: String,
    /// How often, and over what, that became another.
    pub renewals: Vec<Renewal>,
    /// How long it has stood still.
    pub stood: Stood,
    /// Calls that were not made, since a halt stood: by turn and id.
    pub held: BTreeSet<(u32, String)>,
    /// Who began the leg that it is in, and where.
    pub leg: Leg,
    /// What the operator says now; handed in, never folded.
    #[serde(skip)]
    pub operator: Arc<Operator>,
    /// What was refused in other runs of the family; handed in, never folded (K11).
    #[serde(skip)]
    pub noes: Arc<Vec<No>>,
    /// What was refused in it, and not taken up again since.
    pub refusals: Vec<No>,
    /// Everything that was said.
    pub conversation: Vec<Arc<Message>>,
    /// The weight of it.
    pub conversation_bytes: usize,
    /// Turns that are under way, by number.
    pub turns: BTreeMap<u32, Turn>,
    /// Turns taken so far.
    pub turns_taken: u32,
    /// How many of them were judges'; these count against nobody's steps.
    pub judgements: u32,
    /// Questions that are open, by ordinal.
    pub questions: BTreeMap<u32, Arc<Question>>,
    /// How every question ended, by ordinal from 1; open ones are `None`.
    pub endings: Vec<Option<Ending>>,
    /// The end of every question's id, by ordinal from 1, as it was asked last.
    pub tails: Vec<Option<Tail>>,
    /// Whom every question was ever addressed to, by ordinal from 1.
    pub asked_of: Vec<Vec<String>>,
    /// Words that did not end their question, by its ordinal.
    pub voted: Vec<(u32, Said)>,
    /// What its last pause told of.
    pub listing: Listing,
    /// What the pattern goes by: the last thing that happened to the workflow as a whole.
    pub last: Last,
    /// How far its pattern has come.
    pub progress: Progress,
    /// The result, once there is one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub output: Option<Value>,
    /// Versions at which the run was saved.
    pub checkpoints: Vec<(Version, Millis)>,
    /// Of each of them, whether anything was asked there.
    pub pauses: Vec<bool>,
    /// What all its model calls cost.
    pub usage: Usage,
    /// Tool calls that came back with an error.
    pub failed_calls: u32,
    /// How often each tool and each step has failed.
    pub failures: Failures,
    /// Gates that its start brought.
    pub brought: Vec<Gate>,
    /// Whether one of those has asked.
    pub(super) held_back: bool,
    /// Whom what waits at one of those is to be put before, by the question's ordinal.
    pub(super) owed: BTreeMap<u32, Owed>,
    /// What of the operator's policy is in force.
    pub policy: InForce,
    /// Tools that a person allowed for the rest of the run.
    pub grants: Vec<Grant>,
    /// What it spent of its budgets.
    pub spent: Spent,
    /// What its session had spent before it.
    pub spent_before: Spent,
    /// What the other runs of its session have spent and begun by now; whoever drives it looks it up. Not
    /// folded: what follows from it is (`extensions`).
    #[serde(skip)]
    pub spent_beside: Spent,
    /// What people added to its budgets, or refused to.
    pub extensions: Extensions,
    /// Once it is over before its time: agents that still work for it, with what they noted.
    pub abandoned: Vec<(String, Value)>,
    /// Calls whose step was stopped while they were being made, by turn: nothing follows from them,
    /// but what comes of them is taken down.
    pub loose: Vec<(u32, ToolCall)>,
    /// Where its graph stands, if its workflow is one.
    pub graph: State,
    /// The trace that its caller was in.
    pub trace: Option<Trace>,
    /// What was asked of it with an idempotency key.
    pub keys: Keys,
    /// What it goes on from.
    pub follows: Option<Box<Follows>>,
    /// What was said before it; a run that is over may be without it, as it asks nobody any more.
    #[serde(skip)]
    pub earlier: Earlier,
}

/// Whether a run moves, waits or is over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Status {
    /// Something is owed to the world.
    Running,
    /// Nothing is owed but answers, external events or the clock.
    Waiting {
        /// Since when.
        since: Millis,
    },
    /// Over, and did what it should.
    Completed,
    /// Over, and did not.
    Failed(Failure),
    /// Stopped.
    Cancelled {
        /// By whom.
        by: String,
    },
}

impl Status {
    /// The word used on the wire.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Waiting { .. } => "WAITING",
            Self::Completed => "COMPLETED",
            Self::Failed(_) => "FAILED",
            Self::Cancelled { .. } => "CANCELLED",
        }
    }

    /// Whether the run is over.
    pub fn is_over(&self) -> bool {
        match self {
            Self::Running | Self::Waiting { .. } => false,
            Self::Completed | Self::Failed(_) | Self::Cancelled { .. } => true,
        }
    }
}

/// How far a pattern has come, where it counts that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// Sequential: the step that comes next, counted from 0.
    Step(u32),
    /// Handoff: turns of the agent that speaks, since it was handed the conversation or the user last spoke.
    Turns(u32),
    /// Nothing is counted: a coordinator goes by what happened last, a graph by its own state.
    Uncounted,
}

impl Progress {
    /// Where a run begins.
    pub(super) fn of(pattern: &Pattern) -> Self {
        match pattern {
            Pattern::Sequential { .. } => Self::Step(0),
            Pattern::Handoff(_) => Self::Turns(0),
            Pattern::Coordinator { .. } | Pattern::Graph(_) => Self::Uncounted,
        }
    }

    /// A turn has ended, and the conversation was handed on with it or not.
    pub(super) fn turned(&mut self, is_handed_on: bool) {
        match self {
            Self::Step(next) => *next += 1,
            Self::Turns(turns) => *turns = if is_handed_on { 0 } else { *turns + 1 },
            Self::Uncounted => {}
        }
    }

    /// The place of the step that comes next; the first, where steps are not counted.
    pub(super) fn step(self) -> usize {
        match self {
            Self::Step(next) => usize::try_from(next).unwrap_or(usize::MAX),
            Self::Turns(_) | Self::Uncounted => 0,
        }
    }

    /// Turns that an agent has taken on its own; where they are not counted, more than any may take (K7).
    pub(super) fn turns(self) -> u32 {
        match self {
            Self::Turns(turns) => turns,
            Self::Step(_) | Self::Uncounted => u32::MAX,
        }
    }
}

/// The last thing that happened to the workflow as a whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Last {
    /// The run came to be.
    Started,
    /// A turn ended.
    Turned {
        /// The step.
        step: String,
        /// Who performed it.
        agent: String,
        /// Why.
        purpose: Purpose,
        /// To whom it handed over.
        handoff: Option<String>,
        /// Its structured output.
        output: Value,
    },
    /// A question outside any turn ended.
    Asked {
        /// The step that asked.
        step: String,
        /// The agent that waits for it.
        agent: Option<String>,
        /// What made it.
        origin: Origin,
        /// What came of it.
        reply: Heard,
    },
}

/// What came of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Heard {
    /// An answer, and from whom.
    Answer {
        /// What was said.
        value: Value,
        /// Who said it.
        by: String,
        /// Whether it says no, where a yes or a no was asked for.
        is_rejection: bool,
    },
    /// Nothing, and the file says to go on.
    Nothing,
    /// Nothing: that is a no.
    Expired,
    /// It was taken back, by whom.
    Withdrawn(String),
}

/// One renewal of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Renewal {
    /// What is asked anew, and how the id ended by which each of it was known before.
    pub(super) anew: BTreeMap<u32, Option<Tail>>,
}

/// A call that was shown to those who let its step begin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SeenCall {
    pub(super) step: String,
    pub(super) tool: String,
    pub(super) arguments: Value,
}

impl Run {
    /// The id of the run's `ordinal`-th question.
    pub fn request(&self, ordinal: u32) -> RequestId {
        RequestId { run: self.id.clone(), ordinal, tail: self.tail(ordinal) }
    }

    /// The end of that; none of what was not asked.
    pub(super) fn tail(&self, ordinal: u32) -> Option<Tail> {
        let index = usize::try_from(ordinal).ok()?.checked_sub(1)?;
        self.tails.get(index).copied().flatten()
    }

    /// What its questions' digests tell of it.
    pub(super) fn belongs(&self) -> Belongs<'_> {
        Belongs {
            run: &self.id,
            definition: &self.definition,
            requesters: &self.requesters,
            seed: &self.seed,
            epoch: &self.epoch,
        }
    }

    /// Whose run asks, as far as admission needs it.
    pub fn asker(&self) -> Asker<'_> {
        let (owner, requesters) = (self.owner.as_str(), self.requesters.as_slice());
        Asker { owner, requesters, workflow: &self.workflow.name }
    }

    /// By what it is judged, at `now`, whom its questions admit.
    pub fn admission(&self, now: Millis) -> Admission<'_> {
        self.admission_by(&self.operator, now)
    }

    /// The same by what the operator says now, where the run was not told yet.
    pub fn admission_by<'a>(&'a self, operator: &'a Operator, now: Millis) -> Admission<'a> {
        Admission { by: self.asker(), operator, now }
    }

    /// The run's last words by an agent, for an output. What a human step asks has no author.
    pub fn last_words(&self) -> Option<&Message> {
        self.conversation
            .iter()
            .rev()
            .map(AsRef::as_ref)
            .filter(|message| message.role == Speaker::Assistant && !message.author.is_empty())
            .find(|message| message.cleaned().is_some())
    }

    /// What an agent said last, or else what the caller said: the subject of a decision of which the
    /// file does not say what it is about.
    pub(super) fn last_said(&self) -> Option<Value> {
        if let Some(version) = self.last_version() {
            return Some(version.clone());
        }
        let words = self.last_words().map(|message| message.text.clone());
        words.map(Value::String).or_else(|| Some(self.input.clone()))
    }

    /// The whole conversation as a person may be shown it: nobody's tool traffic.
    pub fn cleaned(&self) -> Vec<Message> {
        self.conversation.iter().filter_map(|message| message.cleaned()).collect()
    }

    /// Steps taken so far.
    pub fn steps_taken(&self) -> u32 {
        self.turns_taken.saturating_sub(self.judgements)
    }

    /// How many messages people and callers have sent.
    pub fn user_messages(&self) -> usize {
        self.conversation.iter().filter(|message| message.role == Speaker::User).count()
    }

    /// When the clock must be looked at again: the next deadline, the next try, or the end of the
    /// time that the run may take.
    pub fn wake_at(&self) -> Option<Millis> {
        if self.status.is_over() {
            return None;
        }
        let deadlines = self.questions.values().filter_map(|question| question.deadline);
        let reminders = self.questions.values().filter_map(|question| question.remind_at);
        let tries = self.turns.values().filter_map(|turn| turn.retry_at);
        let judges = self.turns.values().filter_map(|turn| Some(turn.judging()?.until));
        let waits = self.graph.wake_at();
        let asked = deadlines.chain(reminders);
        asked.chain(tries).chain(judges).chain(waits).chain(self.time_is_up_at()).min()
    }

    /// What a later run of the session remembers of this one: what was said to everybody, and
    /// nobody's tool traffic. A message that is nothing else is shared, not copied.
    pub fn said(&self) -> Vec<Arc<Message>> {
        let plain = |message: &Message| {
            let speaks = message.role != Speaker::Tool && !message.text.is_empty();
            speaks && message.audience.is_all() && message.calls.is_empty()
        };
        let said = self.conversation.iter().filter_map(|message| {
            if plain(message) {
                return Some(Arc::clone(message));
            }
            message.cleaned().map(Arc::new)
        });
        said.collect()
    }

    /// The run with what was said before it, where it had been given that.
    #[must_use]
    pub fn remembering(mut self, earlier: Earlier) -> Self {
        self.earlier = earlier.newest(self.begins());
        self
    }

    /// The place of its own first message in all that its agents are given.
    pub(super) fn begins(&self) -> usize {
        self.follows.as_ref().map_or(0, |follows| follows.messages)
    }

    /// The weight of what was said, before it and in it.
    pub fn bytes_in_all(&self) -> usize {
        self.earlier.bytes().saturating_add(self.conversation_bytes)
    }

    /// A turn that is under way, to be changed.
    pub(super) fn turn_mut(&mut self, number: u32) -> Result<&mut Turn, &'static str> {
        self.turns.get_mut(&number).ok_or("no such turn is under way")
    }

    /// A question that is open, to be changed.
    pub(super) fn question_mut(&mut self, ordinal: u32) -> Result<&mut Question, &'static str> {
        self.questions.get_mut(&ordinal).map(Arc::make_mut).ok_or("no such question is open")
    }
}
