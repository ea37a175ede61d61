//! Sequential: one step after the other; agents speak, people decide.

use serde_json::Value;

use crate::kernel::draft::Draft;
use crate::kernel::editing;
use crate::kernel::failure::Failure;
use crate::kernel::message::readable;
use crate::kernel::pattern::{Move, expired};
use crate::kernel::question::{Origin, Subject};
use crate::kernel::run::{Heard, Last, Run};
use crate::kernel::templates;
use crate::kernel::terms::Kind;
use crate::kernel::turn::Purpose;
use crate::kernel::verb::Verb;
use crate::kernel::workflow::{Human, Step, Work};

pub(super) fn next(run: &Run, steps: &[Step]) -> Move {
    if let Some(end) = stopped(&run.last) {
        return end;
    }
    let index = run.progress.step();
    let Some(step) = steps.get(index) else {
        return Move::Finish(output(run));
    };
    match &step.work {
        Work::Agent { agent, .. } => {
            Move::Turn { step: step.id.clone(), agent: agent.clone(), purpose: Purpose::Work }
        }
        Work::Human(human) => match templates::filled(run, &human.prompt) {
            Ok(prompt) => match subject(run, human) {
                Err(failure) => placed(step, failure),
                Ok(subject) => Move::Ask(Box::new(Draft {
                    step: step.id.clone(),
                    agent: None,
                    turn: None,
                    origin: Origin::HumanStep,
                    kind: human.kind,
                    prompt: prompt.into_owned(),
                    context: human.context.clone(),
                    editable: editing::wanted(human.editable.as_ref(), subject.as_deref()),
                    options: human.options.clone(),
                    schema: human
                        .response_schema
                        .clone()
                        .or_else(|| run.workflow.named(human.named.as_deref()).1),
                    patience: human.patience.clone(),
                    subject,
                    decides: human.decides,
                    returns: returns(steps, index, human),
                    named: run.workflow.named(human.named.as_deref()).0,
                })),
            },
            Err(failure) => placed(step, failure),
        },
    }
}

/// Whether an approval may be returned: where an agent's step comes before it, and the file has no
/// words of its own for the answer.
fn returns(steps: &[Step], index: usize, human: &Human) -> bool {
    let is_verdict = matches!(human.kind, Kind::Approval | Kind::PlanReview);
    is_verdict && human.response_schema.is_none() && author(steps, index).is_some()
}

/// The place of the agent's step whose work the step at `index` is about: the one before it, with
/// nothing but people's in between.
pub(in crate::kernel) fn author(steps: &[Step], index: usize) -> Option<usize> {
    let is_agents = |step: &Step| matches!(step.work, Work::Agent { .. });
    steps.get(..index)?.iter().rposition(is_agents)
}

fn placed(step: &Step, failure: Failure) -> Move {
    Move::Fail(Failure { message: format!("step `{}`: {}", step.id, failure.message), ..failure })
}

/// What a person decides: what the file shows them, or else, for a decision, what was said last.
fn subject(run: &Run, human: &Human) -> Result<Option<Box<Subject>>, Failure> {
    match &human.show {
        Some(show) => {
            let shown = templates::filled(run, show)?;
            Ok(Some(Box::new(Subject::Shown(Value::String(shown.into_owned())))))
        }
        None if human.kind.may_pass_by_silence() && !human.decides => Ok(None),
        None => Ok(run.last_said().map(|text| Box::new(Subject::Shown(text)))),
    }
}

/// K4: what was rejected, expired or withdrawn is the end of the road.
fn stopped(last: &Last) -> Option<Move> {
    match last {
        Last::Started | Last::Turned { .. } => None,
        Last::Asked { step, reply, .. } => match reply {
            Heard::Answer { is_rejection: false, .. } | Heard::Nothing => None,
            // It was given back: the agent's step comes next, and then it is asked again.
            Heard::Answer { value, .. } if Verb::of(value) == Some(Verb::Return) => None,
            Heard::Answer { is_rejection: true, by, value } => {
                let note = value.get("note").map(readable).unwrap_or_default();
                let because = if note.is_empty() { String::new() } else { format!(": {note}") };
                Some(Move::Fail(Failure::new(
                    "question.rejected",
                    format!("{by} rejected step `{step}`{because}"),
                )))
            }
            Heard::Expired => Some(expired(step)),
            Heard::Withdrawn(by) => Some(Move::Cancel { by: by.clone() }),
        },
    }
}

/// The last step's structured output, or else an agent's last words or the version that a person put in
/// their place, or else a person's answer.
fn output(run: &Run) -> Value {
    let words = run.last_words().map(|message| Value::String(message.text.clone()));
    let words = run.last_version().cloned().or(words);
    match &run.last {
        Last::Turned { output, .. } if !output.is_null() => output.clone(),
        Last::Asked { reply: Heard::Answer { value, .. }, .. } => {
            words.unwrap_or_else(|| value.clone())
        }
        Last::Turned { .. } | Last::Started | Last::Asked { .. } => words.unwrap_or_default(),
    }
}
