//! People: who is asked, who has said what, who claims and who stands in, as the wire has it; and what
//! callers wish of that. Nothing is decided here.

use crate::api::times::{millis, time};
use crate::kernel::{
    Claimed, Delegated, Delegation, Excluded, Holder, Millis, Question, Refusal, Seen, Span, Stage,
    Vote,
};
use crate::wire::v1 as pb;

/// How long a claim lasts where nobody says: time enough to read.
const CLAIM_MS: u64 = 10 * 60 * 1_000;

/// A question's stages, each with how it stands.
pub(super) fn stages(question: &Question) -> Vec<pb::Stage> {
    (0..).zip(&question.stages).map(|(number, one)| stage(question, number, one)).collect()
}

fn stage(question: &Question, number: u32, stage: &Stage) -> pb::Stage {
    let not = stage.not.iter().map(|excluded| match excluded {
        Excluded::Requester => "requester".to_owned(),
        Excluded::Editor => "editor".to_owned(),
        Excluded::Participant => "participant".to_owned(),
    });
    let standing = question.standing(number);
    pb::Stage {
        rules: stage.rules.clone(),
        to: stage.to.clone(),
        not: not.collect(),
        need: stage.need,
        missing: standing.missing,
        silent: standing.silent,
    }
}

/// What somebody had been shown.
pub(super) fn shown(seen: Seen) -> pb::Shown {
    pb::Shown { characters: seen.chars, milliseconds: seen.ms }
}

/// A standing word.
pub(super) fn vote(vote: &Vote) -> pb::Vote {
    pb::Vote {
        principal: vote.by.clone(),
        verb: vote.verb.clone(),
        stage: vote.stage,
        instead_of: vote.instead_of.clone().unwrap_or_default(),
    }
}

/// A place that was handed over.
pub(super) fn delegation(handed: &Delegation) -> pb::Delegation {
    let (principal, to) = (handed.by.clone(), handed.to.clone());
    pb::Delegation { principal, to, until: Some(time(handed.until)) }
}

/// A claim, or its end, as the stream tells it.
pub(super) fn claimed(request_id: String, claimed: &Claimed, at: Millis) -> pb::RequestClaimed {
    pb::RequestClaimed {
        request_id,
        principal: claimed.by.clone(),
        door: claimed.door.clone(),
        until: claimed.span.map(|span| time(span.end(at))),
    }
}

/// A place that was handed over or taken back, as the stream tells it.
pub(super) fn delegated(
    request_id: String,
    delegated: &Delegated,
    at: Millis,
) -> pb::RequestDelegated {
    let to = delegated.to.as_ref();
    pb::RequestDelegated {
        request_id,
        principal: delegated.by.clone(),
        door: delegated.door.clone(),
        to: to.map(|holder| holder.who.clone()).unwrap_or_default(),
        until: to.map(|holder| time(holder.span.end(at))),
    }
}

/// What a claim asks for.
pub(super) fn claim(request: &pb::ClaimRequestRequest) -> Result<Option<Span>, Refusal> {
    match (request.release, request.for_ms) {
        (true, 0) => Ok(None),
        (true, _) => {
            Err(Refusal::invalid("for_ms", "what is let go has no length of time; leave it out"))
        }
        (false, 0) => Ok(Some(Span::ForMs(CLAIM_MS))),
        (false, ms) => Ok(Some(Span::ForMs(ms))),
    }
}

/// What a delegation asks for.
pub(super) fn holder(request: &pb::DelegateRequestRequest) -> Result<Option<Holder>, Refusal> {
    let span = match (request.until, request.for_ms) {
        (None, 0) => None,
        (Some(until), 0) => Some(Span::Until(millis(until))),
        (None, ms) => Some(Span::ForMs(ms)),
        (Some(_), _) => {
            return Err(Refusal::invalid("for_ms", "expected `until` or `for_ms`, not both"));
        }
    };
    match (request.take_back, span) {
        (true, None) if request.to.is_empty() => Ok(None),
        (true, _) => {
            let remedy = "what is taken back goes to nobody; leave `to`, `until` and `for_ms` out";
            Err(Refusal::invalid("take_back", remedy))
        }
        (false, None) => {
            Err(Refusal::invalid("until", "expected how long: a time in `until`, or `for_ms`"))
        }
        (false, Some(span)) => Ok(Some(Holder { who: request.to.clone(), span })),
    }
}
