//! Phase gates: a person looks at a step before it is begun, when its work is done, or when it has
//! failed; and what their word means, there and at a step that asks them itself.
//!
//! - **K4** A step that was rejected, or that nobody let through in time, is not begun.
//! - **K7** Only the words that are offered mean anything, and silence is a no.

use serde_json::{Value, json};

use crate::kernel::editing;
use crate::kernel::event::Failure;
use crate::kernel::graph::outcome::{Outcome, Point};
use crate::kernel::graph::program::{After, PhaseGate, Step};
use crate::kernel::graph::state::{Abort, Asking, Frame, Phase, Released};
use crate::kernel::message::readable;
use crate::kernel::pattern::Draft;
use crate::kernel::question::{Choice, Kind, Origin, Question};
use crate::kernel::reading::needs_note;
use crate::kernel::run::Heard;
use crate::kernel::verb::Verb;
use crate::kernel::workflow::Workflow;

/// What a person may say at a point, in the order in which it is offered.
fn verbs(point: Point, step: &Step, gate: &PhaseGate, frame: &Frame) -> Vec<Verb> {
    match point {
        Point::Before => vec![Verb::Approve, Verb::Reject, Verb::Skip],
        Point::After if frame.redone < gate.redo && step.task.agent().is_some() => {
            vec![Verb::Continue, Verb::Redo, Verb::Return, Verb::Abort]
        }
        Point::After if frame.redone < gate.redo => vec![Verb::Continue, Verb::Redo, Verb::Abort],
        Point::After => vec![Verb::Continue, Verb::Abort],
        Point::Review => vec![Verb::Approve, Verb::Reject, Verb::Revise, Verb::Modify],
        Point::Error if frame.retried + 1 < gate.attempts => {
            vec![Verb::Retry, Verb::Skip, Verb::Abort]
        }
        Point::Error => vec![Verb::Skip, Verb::Abort],
    }
}

/// The question at a point. `shown` is what there is to look at.
pub(super) fn question(
    point: Point,
    (step, workflow): (&Step, &Workflow),
    gate: &PhaseGate,
    frame: &Frame,
    (shown, prompt): (Value, Option<String>),
) -> Draft {
    let verbs = verbs(point, step, gate, frame);
    let path = frame.path.to_string();
    let (kind, asked) = match point {
        Point::Before => (Kind::Approval, format!("May step `{path}` begin?")),
        Point::After => (Kind::Approval, format!("Step `{path}` is done. Go on?")),
        Point::Review => (Kind::PlanReview, format!("Step `{path}` made a plan. Go on with it?")),
        Point::Error => (Kind::Approval, format!("Step `{path}` failed. What now?")),
    };
    let mut context = json!({"point": point});
    if let (Value::Object(context), Value::Object(shown)) = (&mut context, shown) {
        context.extend(shown);
    }
    let choice = |verb: &Verb| Choice {
        id: verb.word().to_owned(),
        label: String::new(),
        description: meaning(point, *verb).to_owned(),
    };
    Draft {
        step: path,
        agent: step.task.agent().map(str::to_owned),
        turn: None,
        origin: Origin::Phase(point),
        kind,
        prompt: prompt.unwrap_or(asked),
        context,
        options: verbs.iter().map(choice).collect(),
        schema: Some(schema(&verbs, step, workflow)),
        patience: gate.patience.clone(),
        subject: None,
        decides: true,
        returns: false,
        editable: None,
    }
}

fn meaning(point: Point, verb: Verb) -> &'static str {
    match (point, verb) {
        (Point::Before, Verb::Approve) => "the step is done",
        (Point::Before, Verb::Reject) => "the step fails, and is not begun",
        (Point::Review, Verb::Approve) => "the run goes on with the plan",
        (Point::Review, Verb::Reject) => "the run fails",
        (Point::Review, Verb::Revise) => {
            "the plan is made again, with your note in front of the planner"
        }
        (Point::Review, Verb::Modify) => "the run goes on with your `plan` in place of this one",
        (_, Verb::Skip) => "the step is passed over, and the run goes on",
        (_, Verb::Continue) => "the run goes on",
        (_, Verb::Redo) => "the step is done again, with your note in front of it",
        (_, Verb::Return) => "no: the agent does the step again, with your note in front of it",
        (_, Verb::Retry) => "the step is tried again",
        (_, Verb::Abort) => "the run ends here",
        (
            _,
            Verb::Approve
            | Verb::Reject
            | Verb::AllowOnce
            | Verb::AllowForRun
            | Verb::Edit
            | Verb::Deny
            | Verb::Revise
            | Verb::Modify
            | Verb::Happened,
        ) => "",
    }
}

/// The schema of an answer: a verb alone, or with a note; a plan where one may be given.
fn schema(verbs: &[Verb], step: &Step, workflow: &Workflow) -> Value {
    let words = |verbs: &[Verb]| verbs.iter().map(|verb| verb.word()).collect::<Vec<_>>();
    let mut properties = json!({"decision": {"enum": words(verbs)}, "note": {"type": "string"}});
    let mut full = json!({
        "type": "object",
        "required": ["decision"],
        "additionalProperties": false,
    });
    let mut alone = verbs.to_vec();
    alone.retain(|verb| *verb != Verb::Modify && !verb.needs_note());
    if verbs.contains(&Verb::Return) {
        full["allOf"] = json!([needs_note(Verb::Return)]);
    }
    if verbs.contains(&Verb::Modify) {
        properties["plan"] = plan_schema(step, workflow).unwrap_or_else(|| json!({}));
        full["allOf"] = json!([
            {"if": {"properties": {"decision": {"const": Verb::Modify.word()}}},
             "then": {"required": ["decision", "plan"]},
             // A plan beside another word could mean two things (K7).
             "else": {"properties": {"plan": false}}},
            {"if": {"properties": {"decision": {"const": Verb::Revise.word()}}},
             "then": {"required": ["decision", "note"]}},
        ]);
    }
    full["properties"] = properties;
    json!({"anyOf": [full, {"enum": words(&alone)}]})
}

/// What a plan must look like: the schema of the step or of its agent, or that of the last step within
/// that has one.
fn plan_schema(step: &Step, workflow: &Workflow) -> Option<Value> {
    let agents = || workflow.agents.get(step.task.agent()?)?.output.as_ref();
    if let Some(schema) = step.task.output().or_else(agents) {
        return Some(schema.clone());
    }
    let block = step.task.blocks().into_iter().next()?;
    block.iter().rev().find_map(|step| plan_schema(step, workflow))
}

/// What came of a question at a gate.
pub(super) struct Ruled {
    pub(super) phase: Phase,
    /// Whether the step was ordered again, after it was done or after it failed.
    pub(super) redone: bool,
    pub(super) retried: bool,
    /// What the person said to everybody.
    pub(super) said: Vec<(String, Value)>,
}

/// What a person's word, or the lack of one, makes of a step.
pub(super) fn ruling(
    step: &Step,
    frame: &Frame,
    (asking, released): (Asking, Released),
    reply: &Heard,
) -> Ruled {
    let path = &frame.path;
    let ruled = |phase| Ruled { phase, redone: false, retried: false, said: Vec::new() };
    let (value, by) = match reply {
        Heard::Answer { value, by, .. } => (value, by),
        Heard::Nothing | Heard::Expired => {
            let why = format!("nobody answered at the gate of step `{path}` before its deadline");
            let failure = Failure::new("question.expired", why);
            return ruled(Phase::Ended(Outcome::Failed(failure)));
        }
        Heard::Withdrawn(by) => {
            return ruled(Phase::Aborted(Abort::Cancel { by: by.clone() }));
        }
    };
    let verb = Verb::of(value);
    let note = value.get("note").map(readable).filter(|note| !note.is_empty());
    let because = note.as_ref().map(|note| format!(": {note}")).unwrap_or_default();
    let failed =
        |code: &str, what: &str| Failure::new(code, format!("{by} {what} step `{path}`{because}"));
    let skipped = || Phase::Ended(Outcome::Skipped(format!("by {by}{because}")));
    let gate = step.gate.as_ref();
    // Whoever looks before it is begun looks again: what it does now, they have not been shown (K3).
    let again = || match gate {
        Some(gate) if gate.before => Phase::Again,
        Some(_) | None => Phase::Cleared(None),
    };
    let (mut redone, mut retried) = (false, false);
    let mut said: Vec<_> = note.map(|note| (by.clone(), Value::String(note))).into_iter().collect();
    let phase = match (asking, verb) {
        (Asking::Before, Some(Verb::Approve)) => Phase::Cleared(Some(Box::new(released))),
        (Asking::Before | Asking::Error(_), Some(Verb::Skip)) => skipped(),
        (Asking::After(work), Some(Verb::Continue))
        | (Asking::Review(work), Some(Verb::Approve)) => Phase::Ended(Outcome::Done(work)),
        (Asking::After(_), Some(Verb::Redo | Verb::Return))
            if gate.is_some_and(|gate| frame.redone < gate.redo) =>
        {
            redone = true;
            again()
        }
        (Asking::Review(_), Some(Verb::Revise))
            if gate.is_some_and(|gate| frame.redone < gate.redo) =>
        {
            redone = true;
            again()
        }
        (Asking::Review(_), Some(Verb::Revise)) => {
            let rounds = frame.redone;
            let what = format!("step `{path}`: no plan was approved after {rounds} revisions");
            Phase::Ended(Outcome::Failed(Failure::new("plan.rounds", what)))
        }
        (Asking::Review(_), Some(Verb::Modify)) => {
            let plan = value.get("plan").cloned().unwrap_or_default();
            said.push((by.clone(), plan.clone()));
            Phase::Ended(Outcome::Done(plan))
        }
        (Asking::Error(_), Some(Verb::Retry))
            if gate.is_some_and(|gate| frame.retried + 1 < gate.attempts) =>
        {
            retried = true;
            again()
        }
        (Asking::After(_) | Asking::Error(_), _) => {
            Phase::Aborted(Abort::Fail(failed("gate.aborted", "ended the run at")))
        }
        (Asking::Before | Asking::Review(_) | Asking::Human, _) => {
            Phase::Ended(Outcome::Failed(failed("question.rejected", "rejected")))
        }
    };
    Ruled { phase, redone, retried, said }
}

/// What came of a step's own question. K4: what was rejected, expired or withdrawn is the end of the
/// road; what was given back is done again.
pub(super) fn decided(path: &str, question: &Question, reply: &Heard) -> Phase {
    match reply {
        Heard::Answer { value, by, is_rejection: false } => {
            Phase::Worked(editing::came(question, value, by))
        }
        Heard::Nothing => Phase::Worked(Value::Null),
        Heard::Answer { value, by, .. } if Verb::of(value) == Some(Verb::Return) => {
            let note = value.get("note").map(readable).unwrap_or_default();
            Phase::Ended(Outcome::Returned(format!("by {by}: {note}")))
        }
        Heard::Answer { value, by, is_rejection: true } => {
            let note = value.get("note").map(readable).unwrap_or_default();
            let because = if note.is_empty() { String::new() } else { format!(": {note}") };
            let why = format!("{by} rejected step `{path}`{because}");
            Phase::Ended(Outcome::Failed(Failure::new("question.rejected", why)))
        }
        Heard::Expired => {
            let why = format!("nobody answered the question of step `{path}` before its deadline");
            Phase::Ended(Outcome::Failed(Failure::new("question.expired", why)))
        }
        Heard::Withdrawn(by) => Phase::Aborted(Abort::Cancel { by: by.clone() }),
    }
}

/// Whether, and where, a person looks at work that is done.
pub(super) fn after(step: &Step) -> Option<(Point, &PhaseGate)> {
    let gate = step.gate.as_ref()?;
    match gate.after {
        After::Nothing => None,
        After::Look => Some((Point::After, gate)),
        After::Review => Some((Point::Review, gate)),
    }
}
