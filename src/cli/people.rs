//! People: who is asked, who has said what, who claims and who stands in, in words. When a
//! claim or a delegation is over is seen by the reader's own clock.

use serde_json::json;

use crate::app::SystemClock;
use crate::cli::Ctx;
use crate::cli::exit::{Exit, Trouble};
use crate::cli::json::timestamp;
use crate::cli::render::date;
use crate::cli::term::line;
use crate::kernel::readable;
use crate::ports::Clock as _;
use crate::wire::v1::{Request, RequestClaimed, RequestDelegated, RequestEscalated, Shown, Vote};

/// Names on one line; `--json` has them whole.
const CHARS_MAX: usize = 400;

/// Somebody's word, as the server took it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// It answers the question.
    Answer,
    /// It counts, and others are needed.
    Vote,
}

/// What somebody has before them who answers at this terminal: how much of it there is to decide by, and
/// since when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight {
    characters: u64,
    since: u64,
}

impl Sight {
    /// A request that is shown now.
    pub(super) fn of(request: &Request) -> Self {
        let subject = request.subject.as_ref().map(|subject| readable(subject));
        let all = request.prompt.chars().count() + subject.map_or(0, |text| text.chars().count());
        Self { characters: u64::try_from(all).unwrap_or(u64::MAX), since: SystemClock.now().0 }
    }

    /// What was shown by now.
    pub(super) fn shown(self) -> Shown {
        let milliseconds = SystemClock.now().0.saturating_sub(self.since);
        Shown { characters: self.characters, milliseconds }
    }
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

/// That others are asked as well, in words.
pub(super) fn told_escalation(it: &RequestEscalated) -> String {
    let until = it.deadline.as_ref().and_then(timestamp).map(date);
    let until = until.map(|at| format!(" until {at}")).unwrap_or_default();
    line(&format!("{} now waits for {}{until}", it.request_id, it.to.join(", ")), CHARS_MAX)
}

/// A length of time in its largest unit and the one below.
pub(super) fn length(ms: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3_600, "h"), (60, "min"), (1, "s")];
    let seconds = ms.div_ceil(1_000);
    let first = UNITS.iter().position(|(unit, _)| seconds >= *unit).unwrap_or(UNITS.len() - 1);
    let (mut left, mut told) = (seconds, Vec::new());
    for (unit, name) in UNITS.iter().skip(first).take(2) {
        if left >= *unit || told.is_empty() {
            told.push(format!("{} {name}", left / unit));
        }
        left %= unit;
    }
    told.join(" ")
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

/// Whom a question waits for, where that is not whoever reads this.
pub(super) fn others(request: &Request) -> Option<String> {
    if request.admits_you != Some(false) {
        return None;
    }
    let whom = match request.to.as_slice() {
        [] => "somebody else".to_owned(),
        to => to.join(", "),
    };
    Some(line(&format!("not for you: waits for {whom}"), CHARS_MAX))
}

/// What a question of a type of its own is called in the workflow's file.
pub(super) fn title(request: &Request) -> Option<String> {
    let title = request.r#type.as_ref().map(|it| line(&it.title, 80))?;
    (!title.is_empty()).then_some(title)
}

/// Whom it waited for before others were asked, too, in words that follow those it waits for now.
pub(super) fn before(request: &Request) -> String {
    match request.asked_before.as_slice() {
        [] => String::new(),
        some => format!("; before, of {} alone", line(&some.join(", "), CHARS_MAX)),
    }
}

/// That nobody answered in time and others are asked by now, in a few words.
pub(super) fn escalated(request: &Request) -> Option<String> {
    if request.asked_before.is_empty() {
        return None;
    }
    let now = line(&request.to.join(", "), CHARS_MAX);
    Some(format!("asked of {now}{}", before(request)))
}

/// How a word was taken, for whoever gave it and sees no more of the run. `before` and `now` are the
/// question as they saw it then, and as they see it after.
pub(super) fn taken(word: Option<Word>, before: Option<&Request>, now: Option<&Request>) -> String {
    if word != Some(Word::Vote) {
        return "your answer is taken".into();
    }
    let stage_of = |request: &Request, more: u32| {
        let place = usize::try_from(request.stage + more).unwrap_or(usize::MAX);
        request.stages.get(place).cloned()
    };
    let same = now.filter(|now| before.is_none_or(|before| before.stage == now.stage));
    if let Some(stage) = same.and_then(|now| stage_of(now, 0)) {
        let are = if stage.missing == 1 { "is" } else { "are" };
        return format!("your vote is taken; {} more {are} needed", stage.missing);
    }
    let next = before.and_then(|before| stage_of(before, 1)).filter(|stage| !stage.to.is_empty());
    match next {
        Some(next) => {
            let whom = line(&next.to.join(", "), CHARS_MAX);
            format!("your vote is taken; {whom} is asked next")
        }
        None => "your vote is taken; others are asked, too".into(),
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
        let silent = if stage.silent.is_empty() { &stage.to } else { &stage.silent };
        let silent = silent.join(", ");
        let has_others = request.stages.len() > 1 && !silent.is_empty();
        if is_here && stage.missing > 0 && (stage.need > 1 || !words.is_empty()) {
            words.push(format!("{} more of {silent} must say the same", stage.missing));
        } else if is_here && stage.missing > 0 && has_others {
            words.push(format!("{silent} is still needed"));
        } else if stage.missing > 0 && has_others && words.is_empty() {
            words.push(format!("then {silent}"));
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

/// Tells how a request stands with those who are asked, after what became of it now.
pub(super) fn tell(ctx: &Ctx, request: &Request, first: Option<String>) -> Result<Exit, Trouble> {
    if ctx.json {
        let told = json!({"request": crate::cli::json::of(request)});
        ctx.term.line(&told.to_string())?;
        return Ok(Exit::Done);
    }
    for words in first.into_iter().chain(standing(request, now())) {
        ctx.term.line(&line(&words, CHARS_MAX))?;
    }
    Ok(Exit::Done)
}
