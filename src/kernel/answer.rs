//! Answer: what answers mean for a run. All of them are taken or none; each once (K2), against
//! what was shown (K3), and as nothing but what it clearly says (K7).
//!
//! What an answer leads to is not decided here: that follows once it is folded in.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kernel::command::{Answer, Refusal};
use crate::kernel::decide::Decision;
use crate::kernel::digest;
use crate::kernel::event::{Event, Failure, Version};
use crate::kernel::gate::{self, Ruling};
use crate::kernel::id::RequestId;
use crate::kernel::message::readable;
use crate::kernel::principal::Principal;
use crate::kernel::question::{Origin, Question};
use crate::kernel::run::{CONVERSATION_BYTES_MAX, Ending, Run};
use crate::kernel::schema;
use crate::kernel::time::Millis;

/// What `answers`, given together under `key`, mean.
pub(super) fn decide(
    run: &Run,
    answers: &[Answer],
    key: &str,
    principal: &Principal,
    now: Millis,
) -> Result<Decision, Refusal> {
    refuse_malformed(run, answers)?;
    if let Some(first) = first_time(run, answers, key, principal)? {
        return Ok(Decision::Repeat { after: first - 1 });
    }
    let mut events = Vec::with_capacity(answers.len() + 1);
    let mut abort = None;
    let mut bytes = run.bytes_in_all();
    for answer in answers {
        let question = open_question(run, &answer.request)?;
        let value = accepted(run, question, answer, now)?;
        bytes += readable(&value).len();
        if bytes > CONVERSATION_BYTES_MAX {
            let field = format!("responses[{}]", answer.request);
            let remedy = format!("the conversation may have {CONVERSATION_BYTES_MAX} bytes in all");
            return Err(Refusal::TooLarge { field, remedy });
        }
        let allowed = allowed_call(run, question, &value);
        if aborts(question, &value) {
            let by = format!("{} ended the run at step `{}`", principal.id, question.step);
            abort = Some(Event::Failed(Failure::new("outcome.aborted", by)));
        }
        let given = (value != answer.value).then(|| digest::of(&answer.value));
        events.push(Event::Answered {
            ordinal: question.ordinal,
            value,
            by: principal.id.clone(),
            door: principal.door.into(),
            key: key.to_owned(),
            given,
            from: principal.from.clone(),
        });
        // The intent, recorded before the deed (E2): exactly what was allowed, or what was edited.
        events.extend(allowed);
    }
    // The end comes last, so that the other answers are kept and a repeat finds them all.
    events.extend(abort);
    Ok(Decision::Events(events))
}

/// The question, if it is open; a refusal that says how it ended, if it was.
pub(super) fn open_question<'a>(run: &'a Run, id: &RequestId) -> Result<&'a Question, Refusal> {
    refuse_foreign(run, id)?;
    if let Some(question) = run.questions.get(&id.ordinal) {
        return Ok(question);
    }
    let request = id.to_string();
    let index = usize::try_from(id.ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
    match index.and_then(|index| run.endings.get(index)?.as_ref()) {
        Some(Ending::Answered { by, .. }) => {
            Err(Refusal::AlreadyAnswered { request, by: by.clone() })
        }
        Some(Ending::Closed(how)) => Err(Refusal::RequestClosed { request, how }),
        None => Err(Refusal::UnknownRequest(request)),
    }
}

fn refuse_foreign(run: &Run, id: &RequestId) -> Result<(), Refusal> {
    if id.run == run.id {
        return Ok(());
    }
    Err(Refusal::ForeignRequest { request: id.to_string(), run: run.id.to_string() })
}

fn refuse_malformed(run: &Run, answers: &[Answer]) -> Result<(), Refusal> {
    if answers.is_empty() {
        return Err(Refusal::invalid("responses", "expected at least one, by its request_id"));
    }
    let mut seen = BTreeSet::new();
    for answer in answers {
        refuse_foreign(run, &answer.request)?;
        let field = format!("responses[{}]", answer.request);
        if !seen.insert(answer.request.ordinal) {
            return Err(Refusal::invalid(field, "the same request twice; answer it once"));
        }
        if schema::is_too_deep(&answer.value) {
            let remedy = format!("it may nest {} deep", schema::DEPTH_MAX);
            return Err(Refusal::TooLarge { field, remedy });
        }
    }
    Ok(())
}

/// K2: the version of the first of these answers, if the same principal gave exactly these with
/// the same key before; a refusal, if it gave others with it.
fn first_time(
    run: &Run,
    answers: &[Answer],
    key: &str,
    principal: &Principal,
) -> Result<Option<Version>, Refusal> {
    if key.is_empty() {
        return Ok(None);
    }
    let mut first = None;
    let mut known = 0;
    for (ordinal, ending) in (1..).zip(&run.endings) {
        let Some(Ending::Answered { by, key: used, given, version }) = ending else { continue };
        if used != key || *by != principal.id {
            continue;
        }
        let again = answers.iter().find(|answer| answer.request.ordinal == ordinal);
        if again.is_none_or(|answer| digest::of(&answer.value) != *given) {
            return Err(Refusal::KeyReused(key.to_owned()));
        }
        known += 1;
        first = Some(first.map_or(*version, |earlier: Version| earlier.min(*version)));
    }
    if known > 0 && known < answers.len() {
        return Err(Refusal::KeyReused(key.to_owned()));
    }
    Ok(first)
}

/// The answer as it is taken: in time, to what was shown, and of the right shape.
fn accepted(
    run: &Run,
    question: &Question,
    answer: &Answer,
    now: Millis,
) -> Result<Value, Refusal> {
    let request = answer.request.to_string();
    if question.deadline.is_some_and(|deadline| deadline <= now) {
        return Err(Refusal::RequestClosed { request, how: "its deadline has passed" });
    }
    if answer.digest.as_ref().is_some_and(|shown| *shown != question.digest(&run.id)) {
        return Err(Refusal::StaleDigest { request });
    }
    question.read(&answer.value).map_err(|mismatch| Refusal::WrongAnswer { request, mismatch })
}

/// The call that an answer at a gate lets through, with the arguments that it says.
fn allowed_call(run: &Run, question: &Question, value: &Value) -> Option<Event> {
    let (Origin::Gate(call), Some(turn)) = (&question.origin, question.turn) else { return None };
    let mut call = (**call).clone();
    match gate::ruling(value) {
        Ruling::AllowOnce | Ruling::AllowForRun => {}
        Ruling::Edit(arguments) => call.arguments = arguments,
        Ruling::Deny => return None,
    }
    let safety = run.workflow.tools.get(&call.tool).map(|tool| tool.safety).unwrap_or_default();
    Some(Event::ToolCalled { turn, call, safety })
}

/// Whether an answer about a lost outcome ends the run.
fn aborts(question: &Question, value: &Value) -> bool {
    let verb = value.get("verb").and_then(Value::as_str);
    matches!(question.origin, Origin::LostOutcome(_)) && verb == Some("abort")
}
