//! Places: what those who are asked do with their place before anybody decides. A *claim* says that
//! somebody is looking at a question; it is advice, and refuses nobody. A *delegation* hands one's own
//! place to somebody else for a while.
//!
//! What a place is worth is not decided here: `approvers` counts, and counts a place once, whoever
//! speaks in it.
//!
//! - **K8** A place goes to nobody whom the question excludes, to nobody who is asked already, and is
//!   not handed on. When its time is up, what was said in it counts for nothing.

use crate::kernel::answer::{open_question, refuse_unasked};
use crate::kernel::claims::{Claim, Claimed, Delegated, Delegation, Holder, Span};
use crate::kernel::command::{Decision, Wish};
use crate::kernel::event::Event;
use crate::kernel::id::RequestId;
use crate::kernel::principal::Principal;
use crate::kernel::question::{Closed, Question};
use crate::kernel::refusal::Refusal;
use crate::kernel::run::Run;
use crate::kernel::time::Millis;

/// How long a claim may last: whoever looks longer than a day claims again.
pub const CLAIM_MS_MAX: u64 = 24 * 60 * 60 * 1_000;
/// How long a place may be handed over: no leave is longer than a year.
pub const DELEGATION_MS_MAX: u64 = 366 * 24 * 60 * 60 * 1_000;
/// A name's length; longer ones are nobody's.
const NAME_BYTES_MAX: usize = 256;

/// What a claim means; without a `span` it is let go.
pub(super) fn claim(
    run: &Run,
    request: &RequestId,
    span: Option<Span>,
    (principal, key): Wish<'_>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let question = asked_of(run, request, principal, now)?;
    let own = |claim: &Claim| claim.by == principal.id && claim.stands(now);
    if let Some(span) = span {
        refuse_span(span, CLAIM_MS_MAX, now)?;
    } else if !question.claim.as_ref().is_some_and(own) {
        return Err(Refusal::NotClaimed { request: request.to_string() });
    }
    let (by, door, key) = (principal.id.clone(), principal.door.to_owned(), key.to_owned());
    let known = Some(Box::new(principal.known.clone()));
    let claimed = Claimed { ordinal: question.ordinal, by, door, span, known, key };
    Ok(Decision::Events(vec![Event::Claimed(claimed)]))
}

/// What handing a place over means; to nobody, it is taken back.
pub(super) fn delegate(
    run: &Run,
    request: &RequestId,
    to: Option<&Holder>,
    (principal, key): Wish<'_>,
    now: Millis,
) -> Result<Decision, Refusal> {
    let question = match to {
        // Whoever handed a place over can take it back, also where they are no longer asked.
        None => {
            let question = open_question(run, request, principal)?;
            if question.handed(&principal.id, now).is_none() {
                refuse_unasked(run, question, principal, now)?;
                return Err(Refusal::NotDelegated { request: request.to_string() });
            }
            question
        }
        Some(holder) => {
            let question = asked_of(run, request, principal, now)?;
            refuse_holder(run, question, holder, principal, now)?;
            question
        }
    };
    let (by, door, key) = (principal.id.clone(), principal.door.to_owned(), key.to_owned());
    let known = Some(Box::new(principal.known.clone()));
    let delegated = Delegated { ordinal: question.ordinal, by, door, to: to.cloned(), known, key };
    Ok(Decision::Events(vec![Event::Delegated(delegated)]))
}

/// The question, if it is open and admits whoever speaks.
fn asked_of<'a>(
    run: &'a Run,
    request: &RequestId,
    principal: &Principal,
    now: Millis,
) -> Result<&'a Question, Refusal> {
    let question = open_question(run, request, principal)?;
    refuse_unasked(run, question, principal, now)?;
    if question.deadline.is_some_and(|deadline| deadline <= now) {
        let request = request.to_string();
        return Err(Refusal::RequestClosed { request, how: Closed::Expired });
    }
    Ok(question)
}

fn refuse_span(span: Span, most_ms: u64, now: Millis) -> Result<(), Refusal> {
    let end = span.end(now);
    let field = match span {
        Span::Until(_) => "until",
        Span::ForMs(_) => "for_ms",
    };
    if end <= now {
        return Err(Refusal::invalid(field, "expected a time to come, or a length of time"));
    }
    if end > now.plus(most_ms) {
        let hours = most_ms / (60 * 60 * 1_000);
        let remedy = format!("at most {hours} hours from now; do it again when that is over");
        return Err(Refusal::TooLarge { field: field.into(), remedy });
    }
    Ok(())
}

fn refuse_holder(
    run: &Run,
    question: &Question,
    holder: &Holder,
    principal: &Principal,
    now: Millis,
) -> Result<(), Refusal> {
    let who = holder.who.as_str();
    if who.is_empty() || who.len() > NAME_BYTES_MAX || who.contains(':') {
        return Err(Refusal::invalid("to", "expected one person's name, no group and no role"));
    }
    if who == principal.id {
        return Err(Refusal::invalid("to", "expected somebody else's name: the place is yours"));
    }
    refuse_span(holder.span, DELEGATION_MS_MAX, now)?;
    if let Some(deadline) = question.deadline
        && holder.span.end(now) > deadline
    {
        let remedy = format!(
            "the question itself ends at {}; hand your place over until then at the most",
            deadline.date()
        );
        return Err(Refusal::invalid("until", remedy));
    }
    let refused = |why: String| {
        let request = question.id(&run.id).to_string();
        Err(Refusal::NotDelegable { request, why })
    };
    if !question.decides() && question.to.is_empty() {
        return refused(
            "only a decision, or a question that names whom it asks, has places".into(),
        );
    }
    let admission = run.admission(now);
    let stage = question.stage;
    // No chains: what was handed to somebody is not theirs to hand on, nor is their own meanwhile.
    let standing = || question.delegations.iter().filter(|handed| handed.stands(now));
    if let Some(handed) = standing().find(|handed| handed.to == principal.id) {
        let by = &handed.by;
        return refused(format!(
            "you speak in the place of {by}, and whoever does hands none over"
        ));
    }
    if standing().any(|handed| handed.by == who) {
        return refused(format!("`{who}` has handed their own place over; choose somebody else"));
    }
    if !run.operator.knows(who) {
        return refused(format!("nobody is called `{who}` here; choose somebody with a key"));
    }
    if !run.operator.could_hear(who, &run.workflow.name) {
        return refused(format!(
            "`{who}` could not decide it; choose a person who may answer here"
        ));
    }
    if admission.is_barred(question, stage, who) {
        return refused(format!("the question excludes `{who}`; choose somebody else"));
    }
    // In whichever stage: one word would stand for two lists.
    let stages = u32::try_from(question.stages.len()).unwrap_or(u32::MAX).max(1);
    if (0..stages).any(|stage| admission.is_asked(question, stage, who)) {
        return refused(format!("`{who}` is asked already, and counts once; choose somebody else"));
    }
    Ok(())
}

/// Folds a claim in. It takes the place of whichever there was.
pub(super) fn claimed(run: &mut Run, claimed: &Claimed, at: Millis) -> Result<(), &'static str> {
    let question = run.question_mut(claimed.ordinal)?;
    let by = claimed.by.clone();
    question.claim = claimed.span.map(|span| Claim { by, until: span.end(at) });
    Ok(())
}

/// Folds in that a place was handed over, or taken back. Nobody has more than one to hand over.
pub(super) fn delegated(
    run: &mut Run,
    delegated: &Delegated,
    at: Millis,
) -> Result<(), &'static str> {
    let question = run.question_mut(delegated.ordinal)?;
    question.delegations.retain(|handed| handed.by != delegated.by);
    if let Some(holder) = &delegated.to {
        // Whoever was asked may learn how it ended.
        run.also_asked(delegated.ordinal, std::slice::from_ref(&holder.who));
    }
    let question = run.question_mut(delegated.ordinal)?;
    question.delegations.extend(delegated.to.as_ref().map(|holder| Delegation {
        by: delegated.by.clone(),
        to: holder.who.clone(),
        until: holder.span.end(at),
        assurance: delegated.known.as_ref().map(|known| known.assurance).unwrap_or_default(),
        service: delegated.known.as_ref().and_then(|known| known.service().map(str::to_owned)),
        at: Some(at),
    }));
    Ok(())
}

impl Question {
    /// The claim that stands at `now`.
    pub fn claimed(&self, now: Millis) -> Option<&Claim> {
        self.claim.as_ref().filter(|claim| claim.stands(now))
    }

    /// To whom somebody has handed their place, if that stands at `now`.
    pub fn handed(&self, by: &str, now: Millis) -> Option<&Delegation> {
        self.delegations.iter().find(|handed| handed.by == by && handed.stands(now))
    }
}
