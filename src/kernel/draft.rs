//! Draft: a question before it is one, and how it becomes one: with an ordinal, its stages and its deadline. Whether
//! anything is asked at all is decided elsewhere.

use serde_json::Value;

use crate::kernel::brought;
use crate::kernel::choice::Choice;
use crate::kernel::event::Event;
use crate::kernel::graph::Frozen;
use crate::kernel::named::Named;
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::run::Run;
use crate::kernel::secret;
use crate::kernel::terms::{Kind, OnTimeout, Patience, Stage};
use crate::kernel::time::Millis;
use crate::kernel::workflow::Workflow;

/// A question before it has an ordinal and a deadline.
#[derive(Debug, Clone, PartialEq)]
pub struct Draft {
    /// The step that asks.
    pub step: String,
    /// The agent that waits for the answer.
    pub agent: Option<String>,
    /// The turn that waits for it.
    pub turn: Option<u32>,
    /// What made it.
    pub origin: Origin,
    /// What kind of decision.
    pub kind: Kind,
    /// What is asked.
    pub prompt: String,
    /// Facts to decide by.
    pub context: Value,
    /// What may be chosen.
    pub options: Vec<Choice>,
    /// The schema of the answer, where the kind's own is not enough.
    pub schema: Option<Value>,
    /// How long it waits.
    pub patience: Patience,
    /// What is decided, where it is not the call of a gate.
    pub subject: Option<Box<Subject>>,
    /// Whether it decides although its kind alone would not.
    pub decides: bool,
    /// Whether it may be returned to the agent whose work it is about.
    pub returns: bool,
    /// What a version of it must look like, where one may be put in its place.
    pub editable: Option<Value>,
    /// The request type that it is of.
    pub named: Option<Box<Named>>,
}

/// The numbers that the next question and the next turn have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Next {
    pub(super) question: usize,
    pub(super) turn: u32,
}

impl Next {
    /// What comes next in a run.
    pub(super) fn of(run: &Run) -> Self {
        Self { question: run.endings.len() + 1, turn: run.turns_taken + 1 }
    }

    /// What comes after that event.
    pub(super) fn after(self, event: &Event) -> Self {
        let begins = matches!(event, Event::StepStarted { attempt: 1, .. });
        Self {
            question: self.question + usize::from(matches!(event, Event::Asked(_))),
            turn: self.turn + u32::from(begins),
        }
    }
}

/// A draft becomes a question: it gets its ordinal, its stages and its deadline. What may not pass by
/// silence is rejected by it, whatever the terms say (K7).
pub(super) fn ask(workflow: &Workflow, draft: Draft, ordinal: usize, now: Millis) -> Question {
    let (mut secrets, mut confided) = secrets(workflow, &draft);
    // Whoever starts a run chooses whom its own gates ask: what is for those whom the file asks is not theirs to show.
    if brought::is_told_so(&draft.context) {
        secrets.append(&mut confided);
    }
    let mut context = draft.context;
    for place in ["/arguments", "/task/arguments"] {
        secret::replace(&mut context, place, &secrets, &secret::mask);
    }
    let silent = draft.kind.may_pass_by_silence() && !draft.decides;
    let stages = stages(&draft.patience);
    let (to, within_ms) = match stages.first() {
        Some(first) => (first.to.clone(), first.within_ms),
        None => (Vec::new(), draft.patience.deadline_ms),
    };
    Question {
        ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
        step: draft.step,
        agent: draft.agent,
        turn: draft.turn,
        prompt: draft.prompt,
        context,
        options: draft.options,
        schema: draft.schema,
        deadline: within_ms.map(|ms| now.plus(ms)),
        on_timeout: if silent || draft.patience.on_timeout.passes_nothing() {
            draft.patience.on_timeout
        } else {
            OnTimeout::Reject
        },
        to,
        remind_ms: draft.patience.remind_ms,
        decides: draft.decides,
        returns: draft.returns,
        editable: draft.editable,
        named: draft.named,
        by_digest: workflow.by_digest || draft.patience.by_digest,
        secrets,
        confided,
        subject: draft.subject,
        stages,
        ..Question::bare(draft.kind, draft.origin)
    }
}

/// Where what is decided has secrets, and what of it is for those who decide alone.
fn secrets(workflow: &Workflow, draft: &Draft) -> (Vec<String>, Vec<String>) {
    let (tool, arguments) = match (&draft.origin, draft.subject.as_deref()) {
        (Origin::Gate(call), _) => (&call.tool, &call.arguments),
        (_, Some(Subject::Task(Frozen::Tool { tool, arguments, .. }))) => (tool, arguments),
        (_, _) => return (Vec::new(), Vec::new()),
    };
    (secret::of_call(workflow, tool, arguments), secret::confided(workflow, tool, arguments))
}

/// Who is asked, one after the other; nothing, where it is simply whoever owns the session.
fn stages(patience: &Patience) -> Vec<Stage> {
    if !patience.approvers.is_empty() {
        return patience.approvers.clone();
    }
    if patience.to.is_empty() && patience.not.is_empty() && patience.assurance.is_none() {
        return Vec::new();
    }
    vec![patience.only_stage()]
}
