//! Answer: what answers mean for a run. All of them are taken or none; each once (K2), against
//! what was shown (K3), from those alone whom its question admits (K8), and as nothing but what it
//! clearly says (K7).
//!
//! What an answer leads to is not decided here: that follows once it is folded in.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kernel::approvers;
use crate::kernel::binding;
use crate::kernel::brought;
use crate::kernel::command::{Answer, Decision};
use crate::kernel::digest;
use crate::kernel::draft::Next;
use crate::kernel::editing;
use crate::kernel::event::{Closing, Event};
use crate::kernel::failure::Failure;
use crate::kernel::gate::{self, Ruling};
use crate::kernel::halt;
use crate::kernel::id::{RequestId, Version};
use crate::kernel::limits::CONVERSATION_BYTES_MAX;
use crate::kernel::message::readable;
use crate::kernel::permission;
use crate::kernel::principal::{Known, Principal, Seen};
use crate::kernel::question::{Closed, Ending, Origin, Question};
use crate::kernel::refusal::Refusal;
use crate::kernel::renewal;
use crate::kernel::run::Run;
use crate::kernel::said::{Said, Vote};
use crate::kernel::schema::{self, Mismatch};
use crate::kernel::time::Millis;
use crate::kernel::veil;
use crate::kernel::verb::Verb;

/// More than this nobody is shown: a door that says so has not counted.
const SEEN_CHARS_MAX: u64 = 16 * 1024 * 1024;

/// What `answers`, given together under `key`, mean; `seed` is for what is asked once they have told of a secret.
pub(super) fn decide(
    run: &Run,
    answers: &[Answer],
    (key, seed): (&str, &str),
    principal: &Principal,
    now: Millis,
) -> Result<Decision, Refusal> {
    refuse_malformed(run, answers)?;
    if let Some(first) = first_time(run, answers, (principal, key), now)? {
        return Ok(Decision::Repeat { after: first - 1 });
    }
    let mut events = Vec::with_capacity(answers.len() + 1);
    let mut abort = None;
    let mut bytes = run.bytes_in_all();
    let mut asked = Next::of(run);
    for answer in answers {
        let question = open_question(run, &answer.request, principal)?;
        let place = refuse_unasked(run, question, principal, now)?;
        let instead_of = (place != principal.id).then(|| place.to_owned());
        permission::refuse_handed_over(&run.admission(now), (&run.id, question), principal)?;
        halt::refuse_decision(run, question)?;
        let value = accepted(run, question, answer, now)?;
        editing::refuse_unchanged(question, &value, &answer.request.to_string())?;
        bytes += readable(&value).len();
        refuse_flood(bytes, answer)?;
        let (verb, shown) = decided(question, &value, answer)?;
        let next = verb.and_then(|verb| {
            let said = (principal.id.as_str(), principal.known.footing(), verb);
            run.admission(now).after(question, said)
        });
        if let Some(stage) = next {
            refuse_counted(run, (question, &value), (answer, &principal.id), now)?;
            // More people are needed: a word that adds up, and no more.
            events.push(Event::Voted {
                ordinal: question.ordinal,
                given: digest::of(&answer.value),
                value,
                by: principal.id.clone(),
                door: principal.door.into(),
                key: key.to_owned(),
                shown,
                stage,
                known: Some(Box::new(known(principal, question, now))),
                instead_of,
                void: run.admission(now).void(question),
                seed: String::new(),
            });
            continue;
        }
        let mut allowed = allowed_call(run, question, &value, (principal, asked), now);
        if Verb::of(&value) == Some(Verb::Redo) {
            allowed.extend(gate::again(run, question, asked, now));
        }
        let mut anew = editing::asked_anew(run, (question, &value), (principal, asked), now);
        editing::tell_note(&value, allowed.iter_mut().chain(&mut anew));
        let speaks = (principal.id.as_str(), instead_of.as_deref());
        editing::refuse_unanswerable(run, question, speaks, (allowed.iter().chain(&anew), now))?;
        abort = abort.or_else(|| ends(question, &value, &principal.id));
        let given = (value != answer.value).then(|| digest::of(&answer.value));
        events.push(Event::Answered {
            ordinal: question.ordinal,
            value,
            by: principal.id.clone(),
            door: principal.door.into(),
            key: key.to_owned(),
            given,
            from: principal.from.clone(),
            shown,
            known: Some(Box::new(known(principal, question, now))),
            instead_of,
            asks_anew: anew.is_some(),
            seed: String::new(),
        });
        // The intent, recorded before the deed (E2): exactly what was allowed. What was edited is
        // another action, and may be asked about in its turn (K10).
        asked = allowed.iter().chain(&anew).fold(asked, Next::after);
        events.extend(allowed.into_iter().chain(anew));
    }
    // The end comes last, so that the other answers are kept and a repeat finds them all.
    events.extend(abort);
    Ok(Decision::Events(renewal::covered(run, events, seed)))
}

/// How whoever answers is known. What they were shown is their door's word: nobody was shown anything before it was asked.
fn known(principal: &Principal, question: &Question, now: Millis) -> Known {
    let seen = principal.known.seen.map(|seen| Seen {
        chars: seen.chars.min(SEEN_CHARS_MAX),
        ms: seen.ms.min(now.since(question.asked_at)),
    });
    Known { seen, ..principal.known.clone() }
}

/// Words that a conversation has no room for are not said in it.
fn refuse_flood(bytes: usize, answer: &Answer) -> Result<(), Refusal> {
    if bytes <= CONVERSATION_BYTES_MAX {
        return Ok(());
    }
    let field = format!("responses[{}]", answer.request);
    let remedy = format!("the conversation may have {CONVERSATION_BYTES_MAX} bytes in all");
    Err(Refusal::TooLarge { field, remedy })
}

/// A question is taken back.
pub(super) fn withdraw(
    run: &Run,
    request: &RequestId,
    (principal, key): (&Principal, &str),
) -> Result<Decision, Refusal> {
    let question = open_question(run, request, principal)?;
    let (ordinal, closing) = (question.ordinal, Closing::Withdrawn);
    let ((by, door, known), key) = (principal.recorded(), key.to_owned());
    Ok(Decision::Events(vec![Event::Closed { ordinal, closing, by, door, known, key }]))
}

/// What an answer decides by, and the digest of what was shown for that; of a question that decides nothing neither.
fn decided(
    question: &Question,
    value: &Value,
    answer: &Answer,
) -> Result<(Option<Verb>, String), Refusal> {
    let decides = question.decides();
    let verb = decides.then(|| Verb::of(value)).flatten();
    refuse_other_words(question, verb, answer)?;
    Ok((verb, if decides { question.digest.clone() } else { String::new() }))
}

/// Words of one question add up only where they are one.
fn refuse_other_words(
    question: &Question,
    verb: Option<Verb>,
    answer: &Answer,
) -> Result<(), Refusal> {
    let said = verb.and_then(|verb| approvers::disagrees(question, verb));
    let Some(said) = said else { return Ok(()) };
    let expected = format!("`{said}`, as those who were asked before have said, or a no");
    let mismatch = Mismatch { at: String::new(), expected };
    Err(Refusal::WrongAnswer { request: answer.request.to_string(), mismatch })
}

/// K2: whoever has said the same already, and adds no word to it, is told that it counts.
fn refuse_counted(
    run: &Run,
    (question, value): (&Question, &Value),
    (answer, who): (&Answer, &str),
    now: Millis,
) -> Result<(), Refusal> {
    let adds_words = value.get("note").is_some_and(|note| !readable(note).is_empty());
    let Some(verb) = Verb::of(value).filter(|_| !adds_words) else { return Ok(()) };
    let admission = run.admission(now);
    let is_it =
        |vote: &Vote| vote.by == who && vote.stage == question.stage && vote.verb == verb.word();
    if !question.votes.iter().any(|vote| is_it(vote) && admission.counts(question, vote)) {
        return Ok(());
    }
    let (request, missing) =
        (answer.request.to_string(), question.standing(question.stage).missing);
    Err(Refusal::AlreadyCounted { request, verb: verb.word(), missing })
}

/// The question, if it is open; a refusal that says how it ended, if it was.
pub(super) fn open_question<'a>(
    run: &'a Run,
    id: &RequestId,
    principal: &Principal,
) -> Result<&'a Question, Refusal> {
    refuse_foreign(run, id)?;
    let request = id.to_string();
    // K9: whoever names it has been shown it. One from before there were tails is known to those who
    // know the run, and to those whom it asks.
    let knows_run = principal.may_see(&run.owner, &run.workflow.name);
    let is_asked = || run.concerned(id.ordinal, &principal.id, &run.operator);
    let knows_it = id.tail.is_some() || knows_run || is_asked();
    if *id != run.request(id.ordinal) || !knows_it {
        if knows_it && run.was_asked_anew(id) {
            return Err(Refusal::AskedAnew { request });
        }
        return Err(Refusal::UnknownRequest(request));
    }
    if let Some(question) = run.questions.get(&id.ordinal) {
        return Ok(question);
    }
    // Whoever was never asked does not learn that there was anything, nor how it ended (D2).
    if !knows_run && !is_asked() {
        return Err(Refusal::UnknownRequest(request));
    }
    let index = usize::try_from(id.ordinal).ok().and_then(|ordinal| ordinal.checked_sub(1));
    match index.and_then(|index| run.endings.get(index)?.as_ref()) {
        Some(Ending::Answered(said)) => {
            Err(Refusal::AlreadyAnswered { request, by: said.by.clone() })
        }
        Some(Ending::Closed(how)) => Err(Refusal::RequestClosed { request, how: *how }),
        None => Err(Refusal::UnknownRequest(request)),
    }
}

/// K8: only those whom a question admits answer it, each in a place: their own, or one that was handed
/// to them. Who knows of the run, or is asked elsewhere in it, is told whom it waits for; to all others
/// there is no such question (D2).
pub(super) fn refuse_unasked<'a>(
    run: &Run,
    question: &'a Question,
    who: &'a Principal,
    now: Millis,
) -> Result<&'a str, Refusal> {
    let place = permission::place_of(&run.admission(now), (&run.id, question), who);
    let Err(Refusal::NotAdmitted { request, .. }) = &place else { return place };
    let knows_run = who.may_see(&run.owner, &run.workflow.name);
    if !knows_run && !approvers::concerns(question, run.asker(), &who.id, &run.operator) {
        return Err(Refusal::UnknownRequest(request.clone()));
    }
    place
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
    (principal, key): (&Principal, &str),
    now: Millis,
) -> Result<Option<Version>, Refusal> {
    if key.is_empty() {
        return Ok(None);
    }
    let mut first = None;
    let mut known = 0;
    let said =
        run.still_said_by(&principal.id, run.admission(now)).filter(|(_, said)| said.key == key);
    for (ordinal, Said { given, version, .. }) in said {
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
        return Err(Refusal::RequestClosed { request, how: Closed::Expired });
    }
    if answer.digest.as_ref().is_some_and(|shown| *shown != question.digest) {
        return Err(Refusal::StaleDigest { request });
    }
    binding::refuse_unseen(question, answer.digest.as_deref(), &request)?;
    let read = question.read(&answer.value);
    let read = read.and_then(|value| veil::refuse_masks(run, question, &value).map(|()| value));
    // What would have been right may name what is not theirs to read.
    read.map_err(|Mismatch { at, expected }| {
        let expected = run.veil.text(&expected).into_owned();
        Refusal::WrongAnswer { request, mismatch: Mismatch { at, expected } }
    })
}

/// The call that an answer at a gate lets through; what becomes of it, where they changed it.
fn allowed_call(
    run: &Run,
    question: &Question,
    value: &Value,
    (by, next): (&Principal, Next),
    now: Millis,
) -> Vec<Event> {
    let (Origin::Gate(call), Some(_)) = (&question.origin, question.turn) else {
        return Vec::new();
    };
    let mut call = (**call).clone();
    match gate::ruling(value) {
        Ruling::AllowOnce | Ruling::AllowForRun => {}
        Ruling::Edit(arguments) => {
            (call.arguments, call.deed) = (arguments, None);
            let by = (by.id.as_str(), by.known.footing());
            return gate::edited(run, (question, &call), by, next, now);
        }
        Ruling::Deny => return Vec::new(),
    }
    // What was let past a start's own gate is looked at again, by all others.
    if brought::is_brought(question) {
        return Vec::new();
    }
    gate::allowed(run, (question, &call), next, now)
}

/// The end of the run, where an answer about a lost outcome is that.
fn ends(question: &Question, value: &Value, who: &str) -> Option<Event> {
    let by = || format!("{who} ended the run at step `{}`", question.step);
    aborts(question, value).then(|| Event::Failed(Failure::new("outcome.aborted", by())))
}

/// Whether an answer about a lost outcome ends the run.
fn aborts(question: &Question, value: &Value) -> bool {
    matches!(question.origin, Origin::LostOutcome(_)) && Verb::of(value) == Some(Verb::Abort)
}
