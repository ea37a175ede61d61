//! Narrate: an event as it is told to the outside, with what a listener needs to understand it.
//!
//! A journal holds each fact once; a listener also wants the step's name, the open requests of a
//! pause and the last words before a question. All of it follows from the run.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kernel::{
    Event, Message, Millis, Question, Recorded, RequestId, Run, RunId, Seen, SessionId, Status,
    Version, halt, oversight, secret,
};

/// How many messages before a question are told with it; the whole conversation is a call away.
const RECENT_MESSAGES: usize = 20;

/// An event as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Published {
    /// Its place in the journal.
    pub sequence: Version,
    /// When it was recorded.
    pub at: Millis,
    /// What happened.
    pub event: Arc<Event>,
    /// The step it belongs to, where the event names only the turn.
    pub step: Option<String>,
    /// With a pause: what is waited for.
    pub waiting: Option<Arc<Waiting>>,
    /// With a question: what a listener needs to show it. With a word that is not the last it needs: how it
    /// stands by then.
    pub asked: Option<Asked>,
    /// With a message: its place in the conversation.
    pub message_ordinal: usize,
    /// The question that it is about.
    pub request: Option<RequestId>,
    /// With the end of a question that decides: how long it was open.
    pub waited_ms: Option<u64>,
    /// With a word on a question that decides: how much there was to read, and for how long at most.
    pub at_most: Option<Seen>,
    /// With a tool's call: where in its arguments something is that people are not to read, as JSON pointers.
    pub secrets: Vec<String>,
}

/// A question as it is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The workflow's name.
    pub workflow: String,
    /// The question, as it is now kept.
    pub question: Arc<Question>,
    /// The last messages before it.
    pub recent: Vec<Arc<Message>>,
}

/// What a run waits for: `workflow_waiting`.
#[derive(Debug, Clone, PartialEq)]
pub struct Waiting {
    /// The run.
    pub run: RunId,
    /// Its session.
    pub session: SessionId,
    /// The workflow's name.
    pub workflow: String,
    /// Since when.
    pub since: Millis,
    /// The open questions; of a pause that is told, perhaps the first of them only.
    pub questions: Vec<Arc<Question>>,
    /// How many are open.
    pub open: usize,
}

impl Published {
    /// An event as its journal has it, and nothing of the run around it.
    pub(super) fn alone(recorded: Recorded) -> Self {
        Self {
            sequence: recorded.version,
            at: recorded.at,
            event: Arc::new(recorded.event),
            step: None,
            waiting: None,
            asked: None,
            message_ordinal: 0,
            request: None,
            waited_ms: None,
            at_most: None,
            secrets: Vec::new(),
        }
    }
}

impl Waiting {
    /// What `run` waits for, if it does.
    pub fn of(run: &Run) -> Option<Self> {
        Self::listing(run, usize::MAX)
    }

    /// The same, as its last pause is told.
    fn told(run: &Run) -> Option<Self> {
        Self::listing(run, run.listing.most())
    }

    fn listing(run: &Run, most: usize) -> Option<Self> {
        let Status::Waiting { since } = run.status else { return None };
        Some(Self {
            run: run.id.clone(),
            session: run.session.clone(),
            workflow: run.workflow.name.clone(),
            since,
            questions: run
                .questions
                .values()
                .take(most)
                .map(|question| halt::shown(&run.operator.halts, run, Arc::clone(question)))
                .map(|question| run.veil.question(question))
                .collect(),
            open: run.questions.len(),
        })
    }

    /// How many open questions are not listed.
    pub fn unlisted(&self) -> usize {
        self.open.saturating_sub(self.questions.len())
    }
}

/// Remembers the names of turns under way, which most events leave out.
#[derive(Debug, Clone, Default)]
pub(super) struct Narrator {
    steps: BTreeMap<u32, String>,
    /// When what is open and decides was asked, and how many characters that is.
    asked: BTreeMap<u32, (Millis, u64)>,
    /// How much of the conversation has been told or passed over.
    messages: usize,
    /// Whether the run rested when it was last told of.
    pub(super) rested: bool,
}

impl Narrator {
    /// A narrator that takes over from where `run` stands.
    pub(super) fn at(run: &Run) -> Self {
        let steps = run.turns.values().map(|turn| (turn.number, turn.step.clone())).collect();
        let rested = matches!(run.status, Status::Waiting { .. });
        let decisions = run.questions.values().filter(|question| question.decides());
        let asked = |question: &Arc<Question>| (question.asked_at, oversight::chars(question));
        let asked = decisions.map(|question| (question.ordinal, asked(question))).collect();
        Self { steps, asked, messages: run.conversation.len(), rested }
    }

    /// Tells one event. `run` has it folded in; live, it may have folded in the rest of its batch.
    pub(super) fn tell(
        &mut self,
        run: &Run,
        sequence: Version,
        at: Millis,
        event: Arc<Event>,
    ) -> Published {
        let step = self.step_of(&event);
        let waiting = if *event == Event::Parked { Waiting::told(run).map(Arc::new) } else { None };
        let asked = if let Event::Asked(question) = &*event {
            run.questions.get(&question.ordinal).map(|kept| with_recent(run, kept))
        } else if let Event::Voted { ordinal, .. } = &*event {
            run.questions.get(ordinal).map(|kept| Asked {
                workflow: run.workflow.name.clone(),
                question: run.veil.question(Arc::clone(kept)),
                recent: Vec::new(),
            })
        } else {
            None
        };
        let at_most = self.at_most(&event, at);
        let waited_ms = self.waited(&event, at);
        let message_ordinal = self.ordinal_of(run, &event);
        let request = event.question().map(|ordinal| run.request(ordinal));
        let secrets = if let Event::ToolCalled { call, .. } = &*event {
            secret::of_call(&run.workflow, &call.tool, &call.arguments)
        } else {
            Vec::new()
        };
        // Whoever watches does not decide by it: those who do are shown the question whole.
        let event = veiled(run, event);
        Published {
            sequence,
            at,
            event,
            step,
            waiting,
            asked,
            message_ordinal,
            request,
            waited_ms,
            at_most,
            secrets,
        }
    }

    /// What whoever spoke had before them at most: before it was asked nobody was shown anything.
    fn at_most(&self, event: &Event, at: Millis) -> Option<Seen> {
        let (Event::Answered { ordinal, .. } | Event::Voted { ordinal, .. }) = event else {
            return None;
        };
        self.asked.get(ordinal).map(|(asked, chars)| Seen { chars: *chars, ms: at.since(*asked) })
    }

    /// How long a decision was waited for that an event brings; where it takes more words than one, with the last.
    fn waited(&mut self, event: &Event, at: Millis) -> Option<u64> {
        if let Event::Asked(question) = event
            && question.decides()
        {
            self.asked.insert(question.ordinal, (at, oversight::chars(question)));
        }
        if let Event::Closed { ordinal, .. } = event {
            self.asked.remove(ordinal);
        }
        let Event::Answered { ordinal, .. } = event else { return None };
        self.asked.remove(ordinal).map(|(asked, _)| at.since(asked))
    }

    /// Live, the run may be ahead of the event: the message is looked for from where we were.
    fn ordinal_of(&mut self, run: &Run, event: &Event) -> usize {
        let Event::MessageAdded { message, .. } = event else { return 0 };
        let rest = run.conversation.iter().enumerate().skip(self.messages);
        let found = rest.into_iter().find(|(_, said)| ***said == *message);
        self.messages = found.map_or(run.conversation.len(), |(index, _)| index + 1);
        self.messages
    }

    fn step_of(&mut self, event: &Event) -> Option<String> {
        match event {
            Event::StepStarted { turn, step, .. } => {
                self.steps.insert(*turn, step.clone());
                None
            }
            Event::StepCompleted { turn, .. } => self.steps.remove(turn),
            Event::Delta { turn, .. }
            | Event::ToolCalled { turn, .. }
            | Event::ToolReturned { turn, .. }
            | Event::HandedOff { turn, .. }
            | Event::Noted { turn, .. }
            | Event::StepFailed { turn, .. } => self.steps.get(turn).cloned(),
            Event::Started(_)
            | Event::MessageAdded { .. }
            | Event::Asked(_)
            | Event::Answered { .. }
            | Event::Voted { .. }
            | Event::Claimed(_)
            | Event::Delegated(_)
            | Event::Closed { .. }
            | Event::Reminded { .. }
            | Event::Stood { .. }
            | Event::Held { .. }
            | Event::Escalated { .. }
            | Event::Revoked { .. }
            | Event::Renewed { .. }
            | Event::Ruled(_)
            | Event::StepOpened { .. }
            | Event::StepOutcome { .. }
            | Event::StepClosed { .. }
            | Event::Signalled { .. }
            | Event::CheckpointSaved
            | Event::Parked
            | Event::Output { .. }
            | Event::Warned(_)
            | Event::Completed
            | Event::Failed(_)
            | Event::Cancelled { .. } => None,
        }
    }
}

/// An event as onlookers are told it.
fn veiled(run: &Run, event: Arc<Event>) -> Arc<Event> {
    let keeps_to_itself = event.seed().is_some() || matches!(&*event, Event::Started(_));
    if run.veil.is_nothing() && !keeps_to_itself {
        return event;
    }
    Arc::new(run.veil.event(Arc::unwrap_or_clone(event)))
}

fn with_recent(run: &Run, kept: &Arc<Question>) -> Asked {
    let before = run.conversation.get(..kept.messages).unwrap_or(&run.conversation);
    let skipped = before.len().saturating_sub(RECENT_MESSAGES);
    let mut recent: Vec<_> = before.iter().skip(skipped).cloned().collect();
    run.veil.messages(&mut recent);
    let question = run.veil.question(Arc::clone(kept));
    Asked { workflow: run.workflow.name.clone(), question, recent }
}
