//! People: who is asked, who has said what, who claims and who stands in: as JSON and in words. When a
//! claim or a delegation is over is seen by the reader's own clock.

use serde_json::{Value, json};

use crate::app::SystemClock;
use crate::cli::json::{optional, time, timestamp};
use crate::cli::render::date;
use crate::cli::term::line;
use crate::ports::Clock as _;
use crate::wire::v1::{
    Delegation, Request, RequestClaimed, RequestDelegated, Stage, Vote, VoteReceived,
};

/// Names on one line; `--json` has them whole.
const CHARS_MAX: usize = 400;

pub(super) fn stage(stage: &Stage) -> Value {
    let Stage { rules, to, not, need, missing, silent } = stage;
    json!({"rules": rules, "to": to, "not": not, "need": need, "missing": missing, "silent": silent})
}

pub(super) fn vote(vote: &Vote) -> Value {
    let Vote { principal, verb, stage, instead_of } = vote;
    json!({"principal": principal, "verb": verb, "stage": stage, "instead_of": instead_of})
}

pub(super) fn delegation(handed: &Delegation) -> Value {
    let Delegation { principal, to, until } = handed;
    json!({"principal": principal, "to": to, "until": time(until.as_ref())})
}

pub(super) fn vote_received(vote: &VoteReceived) -> Value {
    let VoteReceived { request_id, value, principal, door, assurance, known_by, instead_of, void } =
        vote;
    json!({
        "request_id": request_id,
        "value": optional(value.as_ref()),
        "principal": principal,
        "door": door,
        "assurance": assurance,
        "known_by": known_by,
        "instead_of": instead_of,
        "void": void,
    })
}

pub(super) fn claimed(claimed: &RequestClaimed) -> Value {
    let RequestClaimed { request_id, principal, door, until } = claimed;
    let until = time(until.as_ref());
    json!({"request_id": request_id, "principal": principal, "door": door, "until": until})
}

pub(super) fn delegated(delegated: &RequestDelegated) -> Value {
    let RequestDelegated { request_id, principal, door, to, until } = delegated;
    json!({
        "request_id": request_id,
        "principal": principal,
        "door": door,
        "to": to,
        "until": time(until.as_ref()),
    })
}

/// The reader's own clock.
pub(super) fn now() -> jiff::Timestamp {
    let ms = i64::try_from(SystemClock.now().0).unwrap_or(i64::MAX);
    jiff::Timestamp::from_millisecond(ms).unwrap_or(jiff::Timestamp::MAX)
}

/// A claim as it happens, in words.
pub(super) fn told_claim(it: &RequestClaimed) -> String {
    match it.until.as_ref().and_then(timestamp) {
        Some(until) => format!("{} looks at {} until {}", it.principal, it.request_id, date(until)),
        None => format!("{} no longer looks at {}", it.principal, it.request_id),
    }
}

/// A delegation as it happens, in words.
pub(super) fn told_delegation(it: &RequestDelegated) -> String {
    match it.until.as_ref().and_then(timestamp) {
        Some(until) => {
            format!("{} speaks in the place of {} until {}", it.to, it.principal, date(until))
        }
        None => format!("{} speaks for themselves again", it.principal),
    }
}

/// How a question stands with those who are asked, one line for each thing there is to say.
pub(super) fn standing(request: &Request, now: jiff::Timestamp) -> Vec<String> {
    let mut told = Vec::new();
    for (number, stage) in request.stages.iter().enumerate() {
        let is_here = u32::try_from(number) == Ok(request.stage);
        let of_stage = |vote: &&Vote| usize::try_from(vote.stage) == Ok(number);
        let said =
            request.votes.iter().filter(of_stage).map(|vote| match vote.instead_of.as_str() {
                "" => format!("{} said {}", vote.principal, vote.verb),
                whose => format!("{} said {} in the place of {whose}", vote.principal, vote.verb),
            });
        let mut words: Vec<String> = said.collect();
        if is_here && stage.missing > 0 && (stage.need > 1 || !words.is_empty()) {
            let silent = stage.silent.join(", ");
            words.push(format!("{} more of {silent} must say the same", stage.missing));
        }
        if !words.is_empty() {
            told.push(words.join("; "));
        }
    }
    if let Some(until) = request.claimed_until.as_ref().and_then(timestamp)
        && now < until
    {
        told.push(format!("claimed by {} until {}", request.claimed_by, date(until)));
    }
    for handed in &request.delegations {
        if let Some(until) = handed.until.as_ref().and_then(timestamp)
            && now < until
        {
            let (to, whose) = (&handed.to, &handed.principal);
            told.push(format!("{to} speaks in the place of {whose} until {}", date(until)));
        }
    }
    told.iter().map(|words| line(words, CHARS_MAX)).collect()
}
