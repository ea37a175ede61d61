//! Lost: what a person is asked about a call of which nobody knows whether it was made; who that is, and whether what
//! is secret in it is theirs to see.

use serde_json::json;

use crate::kernel::draft::{self, Draft};
use crate::kernel::graph::Frozen;
use crate::kernel::question::{Origin, Question, Subject};
use crate::kernel::run::{Run, SeenCall};
use crate::kernel::secret;
use crate::kernel::terms::{Kind, Patience, Stage};
use crate::kernel::time::Millis;
use crate::kernel::turn::{OpenCall, Turn};

/// Nobody knows whether a deed was done, and it may not be done twice: a person is asked (E2), of
/// those whose yes released it (K8).
pub(super) fn outcome(
    run: &Run,
    (turn, open): (&Turn, &OpenCall),
    ordinal: u32,
    why: &str,
) -> Question {
    let released = if open.released.is_empty() { &run.let_on_by } else { &open.released };
    let untimed = |stage: &Stage| Stage { within_ms: None, escalate: Vec::new(), ..stage.clone() };
    let draft = Draft {
        step: turn.step.clone(),
        agent: (!turn.is_tools()).then(|| turn.agent.clone()),
        turn: Some(turn.number),
        origin: Origin::LostOutcome(open.call.id.clone()),
        kind: Kind::OutcomeCheck,
        prompt: format!("{why} It may have happened. Did it?"),
        context: json!({
            "tool": open.call.tool,
            "arguments": secret::masked(&run.workflow, &open.call.tool, &open.call.arguments),
        }),
        options: Vec::new(),
        schema: None,
        patience: Patience {
            approvers: released.iter().map(untimed).collect(),
            ..Patience::default()
        },
        subject: None,
        decides: true,
        returns: false,
        editable: None,
        named: None,
    };
    let ordinal = usize::try_from(ordinal).unwrap_or(usize::MAX);
    let asked = draft::ask(&run.workflow, draft, ordinal, Millis(0));
    Question { knows_call: is_known(run, turn, open), ..asked }
}

/// Whether those who are asked were asked, by the file or the operator, whether that very call may be made: then it was
/// shown to them as its tool marks it, and is again. To anybody else it would tell what was confided to the run and
/// never to them: to an owner who lets a call fail and forks, or to whoever approved something else before it. Whether
/// it happened they can say without.
fn is_known(run: &Run, turn: &Turn, open: &OpenCall) -> bool {
    if !open.released.is_empty() {
        return true;
    }
    if run.let_on_by.is_empty() {
        // A gate that names nobody asks the owner, who is asked here, too.
        return open.looked.has_passed_another();
    }
    let (step, call) = (&turn.step, &open.call);
    run.let_on_call.as_ref().is_some_and(|seen| {
        seen.step == *step && seen.tool == call.tool && seen.arguments == call.arguments
    })
}

/// The call that a question at a step's gate is about, if it is about one.
pub(super) fn seen_at(question: &Question) -> Option<SeenCall> {
    match (&question.origin, question.subject.as_deref()) {
        (Origin::Phase(_), Some(Subject::Task(Frozen::Tool { tool, arguments, .. }))) => {
            let (step, tool) = (question.step.clone(), tool.clone());
            Some(SeenCall { step, tool, arguments: arguments.clone() })
        }
        (_, _) => None,
    }
}
