//! Phase gates: a person looks at a step before it is begun, when its work is done, or when it has
//! failed; and what their word means, there and at a step that asks them itself.
//!
//! - **K4** A step that was rejected, or that nobody let through in time, is not begun.
//! - **K7** Only the words that are offered mean anything, and silence is a no.

use serde_json::{Value, json};

use crate::kernel::brought::{self, Asks};
use crate::kernel::choice::Choice;
use crate::kernel::draft::Draft;
use crate::kernel::editing;
use crate::kernel::failure::Failure;
use crate::kernel::gate;
use crate::kernel::graph::outcome::{Outcome, Point};
use crate::kernel::graph::program::{
    ATTEMPTS_DEFAULT, After, PhaseGate, REDO_DEFAULT, REVISE_DEFAULT, Step, Task,
};
use crate::kernel::graph::scope::Place;
use crate::kernel::graph::state::{Abort, Asking, Frame, Phase, Released};
use crate::kernel::message::{ToolCall, readable};
use crate::kernel::policy::STEP;
use crate::kernel::question::{Origin, Question};
use crate::kernel::rules::ANY;
use crate::kernel::run::{Heard, Run};
use crate::kernel::schema;
use crate::kernel::terms::Kind;
use crate::kernel::turn::{Purpose, Turn, Wish};
use crate::kernel::verb::Verb;
use crate::kernel::workflow::{Gate, Pattern, Workflow};

/// What a person may say at a point, in the order in which it is offered.
fn verbs(
    point: Point,
    step: &Step,
    gate: &PhaseGate,
    (frame, is_brought): (&Frame, bool),
) -> Vec<Verb> {
    match point {
        // A start's own gate asks for a yes or a no.
        Point::Before if is_brought => vec![Verb::Approve, Verb::Reject],
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
    (frame, is_brought): (&Frame, bool),
    (shown, prompt): (Value, Option<String>),
) -> Draft {
    let verbs = verbs(point, step, gate, (frame, is_brought));
    let said = if is_brought { plain_schema(&verbs) } else { schema(&verbs, step, workflow) };
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
        description: match (is_brought, verb) {
            (true, Verb::Approve) => "it goes on to whoever else looks at it",
            (true, _) => "the run ends here",
            (false, verb) => meaning(point, *verb),
        }
        .to_owned(),
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
        schema: Some(said),
        patience: gate.patience.clone(),
        subject: None,
        decides: true,
        returns: false,
        editable: None,
        named: None,
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

/// The schema of an answer where a start's own gate asks: a verb, and no words (`brought`).
fn plain_schema(verbs: &[Verb]) -> Value {
    let words: Vec<_> = verbs.iter().map(|verb| verb.word()).collect();
    let full = json!({
        "type": "object",
        "properties": {"decision": {"enum": words}},
        "required": ["decision"],
        "additionalProperties": false,
    });
    json!({"anyOf": [full, {"enum": words}]})
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
        full["allOf"] = json!([Verb::Return.note_rule()]);
    }
    if verbs.contains(&Verb::Modify) {
        let plan = plan_schema(step, workflow).unwrap_or_else(|| json!({}));
        // It stands in the first of two ways of saying it.
        properties["plan"] = schema::within(&plan, "/anyOf/0/properties/plan");
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
    let attempts = gate.map_or(ATTEMPTS_DEFAULT, |gate| gate.attempts);
    // Whoever looks before it is begun looks again: what it does now, they have not been shown (K3).
    let again = || Phase::Again;
    let (mut redone, mut retried) = (false, false);
    let mut said: Vec<_> = note.map(|note| (by.clone(), Value::String(note))).into_iter().collect();
    let phase = match (asking, verb) {
        (Asking::Before, Some(Verb::Approve)) => Phase::Cleared(Some(Box::new(released))),
        (Asking::Before | Asking::Error(_), Some(Verb::Skip)) => skipped(),
        (Asking::After(work), Some(Verb::Continue))
        | (Asking::Review(work), Some(Verb::Approve)) => Phase::Ended(Outcome::Done(work)),
        (Asking::After(_), Some(Verb::Redo | Verb::Return))
            if frame.redone < redo(gate, Point::After) =>
        {
            redone = true;
            again()
        }
        (Asking::Review(_), Some(Verb::Revise)) if frame.redone < redo(gate, Point::Review) => {
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
        (Asking::Error(_), Some(Verb::Retry)) if frame.retried + 1 < attempts => {
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

/// Who looks at a step, where: its own gate, and the rules in force that ask there.
pub(super) struct Looks {
    pub(super) point: Point,
    pub(super) gate: PhaseGate,
    /// What a rule asks, where the step's own gate has no words.
    pub(super) prompt: Option<String>,
    /// The rules, and why each asks; nothing where it is the step's own gate alone.
    pub(super) rules: Vec<Asks>,
    /// Where these are a start's own, the rules that ask when they have been passed.
    pub(super) then: Vec<Asks>,
}

/// Who looks at a step at this moment, with these facts before them; nobody, where nothing asks. What is released
/// has passed some already.
pub(super) fn in_force(
    place: &Place<'_>,
    moment: Moment,
    (shown, released): (&Value, Option<&Released>),
) -> Option<Looks> {
    let (run, step) = (place.run, place.step);
    let has_passed = |gate: &str| released.is_some_and(|it| it.rules.iter().any(|one| one == gate));
    let looked = released.map(|released| &released.looked);
    let own_name = own_name(&step.id);
    let is_owed = looked.is_some_and(|looked| looked.owes(&own_name).is_some());
    let own = own(step, moment)
        .filter(|_| !has_passed(&own_name) && (is_owed || !run.lifts_step(&step.id)));
    let alone = |(point, gate): (Point, &PhaseGate)| Looks {
        point,
        gate: gate.clone(),
        prompt: None,
        rules: Vec::new(),
        then: Vec::new(),
    };
    let is_one = acts(run, step);
    let gone = looked.into_iter().flat_map(|looked| looked.gone(run));
    let all = run.gates().chain(gone);
    let mut bound = all.filter(|gate| is_bound(gate, (step, is_one), moment)).peekable();
    if bound.peek().is_none() {
        return own.map(alone);
    }
    let path = place.frame.path.to_string();
    let agent = step.task.agent().unwrap_or_default().to_owned();
    let turn = Turn::new(run.turns_taken + 1, path.clone(), agent, (Purpose::Work, None));
    let call = ToolCall::new(path, step.id.clone(), shown.clone());
    let wish = Wish { turn: &turn, call: &call, said: "", judged: &[], looked, is_step: true };
    let asks = |gate: &'_ Gate| gate::why(gate, run, (wish, false));
    let left = bound.filter(|gate| !has_passed(&gate.name));
    let asking = left.filter_map(|gate| Some((gate.clone(), asks(gate)?)));
    let (brought, others): (Vec<_>, Vec<_>) =
        asking.partition(|(gate, _)| brought::is_named_so(&gate.name));
    if !brought.is_empty() {
        // A start's own gates ask before all others, and alone.
        let own = own.map(|_| (own_name, looked_at_anyway()));
        let then = own.into_iter().chain(others.into_iter().map(|(gate, why)| (gate.name, why)));
        return Some(Looks { then: then.collect(), ..looks(None, moment, &brought, &step.id) });
    }
    if others.is_empty() {
        return own.map(alone);
    }
    Some(looks(own, moment, &others, &step.id))
}

/// Why a step's own gate asks.
fn looked_at_anyway() -> Vec<String> {
    vec!["looked at in any case".to_owned()]
}

/// What a step's own gate is called among the rules.
fn own_name(id: &str) -> String {
    format!("{STEP}{id}")
}

/// A step's own gate and the rules that ask as one: each is satisfied by those whom it asks (K8).
fn looks(
    own: Option<(Point, &PhaseGate)>,
    moment: Moment,
    asking: &[(Gate, Vec<String>)],
    id: &str,
) -> Looks {
    let is_review = asking.iter().any(|(gate, _)| gate.at.contains(&Point::Review));
    let point = match (own, moment) {
        (Some((point, _)), _) => point,
        (None, Moment::Before) => Point::Before,
        (None, Moment::Done) if is_review => Point::Review,
        (None, Moment::Done) => Point::After,
        (None, Moment::Failed) => Point::Error,
    };
    let itself = own.map(|(_, gate)| Gate {
        name: own_name(id),
        patience: gate.patience.clone(),
        ..Gate::default()
    });
    let all = itself.iter().chain(asking.iter().map(|(gate, _)| gate));
    let patience = gate::terms(all);
    let blank = || PhaseGate {
        before: false,
        after: After::Nothing,
        on_error: false,
        prompt: None,
        redo: redo(None, point),
        attempts: ATTEMPTS_DEFAULT,
        patience: patience.clone(),
    };
    let gate = own.map_or_else(blank, |(_, gate)| gate.clone());
    let why = |gate: &Gate| (gate.name.clone(), looked_at_anyway());
    let rules =
        itself.iter().map(why).chain(asking.iter().cloned().map(|(gate, why)| (gate.name, why)));
    let prompt = asking.iter().find_map(|(gate, _)| gate.prompt.clone());
    let (rules, then) = (rules.collect(), Vec::new());
    Looks { point, rules, then, prompt, gate: PhaseGate { patience, ..gate } }
}

/// When a person looks at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    Done,
    Failed,
}

/// Whether a rule is bound to a step at that moment.
fn is_bound(gate: &Gate, (step, acts): (&Step, bool), moment: Moment) -> bool {
    // What a start brought looks before anything is done, and never at what to do about it afterwards.
    if brought::is_named_so(&gate.name) && moment != Moment::Before {
        return false;
    }
    let is_step = |id: &String| *id == step.id || id == ANY && acts;
    let is_step = gate.steps.iter().any(is_step);
    let default = [Point::Before];
    let at = if gate.at.is_empty() { &default[..] } else { &gate.at };
    is_step
        && match moment {
            Moment::Before => at.contains(&Point::Before),
            Moment::Done => at.contains(&Point::After) || at.contains(&Point::Review),
            Moment::Failed => at.contains(&Point::Error),
        }
}

/// Whether any gate in force is bound to a step.
pub(super) fn is_looked_at(run: &Run, step: &Step) -> bool {
    let mut gates = run.gates().filter(|gate| !gate.steps.is_empty()).peekable();
    gates.peek().is_some() && {
        let acts = acts(run, step);
        gates.any(|gate| gate.steps.iter().any(|id| *id == step.id || id == ANY && acts))
    }
}

/// Whether somebody acts in a step, as `*` means it: of a plan each of its steps is one, and what is within is not
/// asked about again; elsewhere it is an agent, a tool or another workflow.
fn acts(run: &Run, step: &Step) -> bool {
    let Pattern::Graph(program) = &run.workflow.pattern else { return false };
    if !run.gates().any(|gate| gate.steps.iter().any(|id| id == ANY)) {
        return false;
    }
    let is_plans = |step: &Step| step.id == PLAN_STEP && matches!(step.task, Task::Group { .. });
    if program.all().into_iter().any(|step| is_plans(step)) {
        return is_plans(step);
    }
    matches!(step.task, Task::Agent { .. } | Task::Tool { .. } | Task::Sub { .. })
}

/// What a step of a plan is called.
const PLAN_STEP: &str = "execute";

/// A step's own gate, where it looks at that moment.
fn own(step: &Step, moment: Moment) -> Option<(Point, &PhaseGate)> {
    let gate = step.gate.as_ref()?;
    match (moment, gate.after) {
        (Moment::Before, _) => gate.before.then_some((Point::Before, gate)),
        (Moment::Failed, _) => gate.on_error.then_some((Point::Error, gate)),
        (Moment::Done, After::Nothing) => None,
        (Moment::Done, After::Look) => Some((Point::After, gate)),
        (Moment::Done, After::Review) => Some((Point::Review, gate)),
    }
}

/// How often a step may be done again.
fn redo(gate: Option<&PhaseGate>, point: Point) -> u32 {
    match (gate, point) {
        (Some(gate), _) => gate.redo,
        (None, Point::Review) => REVISE_DEFAULT,
        (None, Point::Before | Point::After | Point::Error) => REDO_DEFAULT,
    }
}

/// The rules that a question at the gate of a step was asked by, and those that were passed before it; the step's own
/// gate asks with the first that is not a start's own.
pub(super) fn passed(question: &Question, id: &str) -> Vec<String> {
    let listed = ["gates", "passed"].iter().filter_map(|field| question.context.get(field));
    let names = listed.filter_map(Value::as_array).flatten();
    let names = names.filter_map(Value::as_str).map(str::to_owned);
    let mut names: Vec<String> = names.chain(question.passed.iter().cloned()).collect();
    let own = own_name(id);
    if !brought::is_brought(question) && !names.contains(&own) {
        names.push(own);
    }
    names
}
