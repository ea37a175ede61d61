//! Oversight: figures of how people decide, for a person to look at: what waits and since when, how long decisions
//! took, who said yes how often, and what was decided quicker than it could be read. Figures and a list; never a
//! judgement, and nothing depends on them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::kernel::message::readable;
use crate::kernel::principal::Seen;
use crate::kernel::question::{Origin, Question};
use crate::kernel::time::Millis;
use crate::kernel::verb::Verb;

/// Characters that somebody reads in a second, at most: twice what people usually do. Quicker than that was not
/// read.
pub const READ_CHARS_PER_SECOND: u64 = 50;
/// Up to which ages what is open is counted together: an hour, a day, a week; the rest is older.
const AGES_MS: [u64; 3] = [3_600_000, 86_400_000, 604_800_000];

/// A decision that somebody made.
#[derive(Debug, Clone)]
pub struct Made<'a> {
    /// Who.
    pub by: &'a str,
    /// When.
    pub at: Millis,
    /// What was asked.
    pub question: &'a Question,
    /// What they said.
    pub value: &'a Value,
    /// What they had been shown, where their door can tell.
    pub seen: Option<Seen>,
}

/// Whether a decision could have been read for, as far as anybody can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// It was made quicker than what there was can be read.
    Quick,
    /// What was shown was shown for long enough.
    Readable,
    /// Its door does not tell what it showed, and since the asking there was time enough.
    Unknown,
}

impl Made<'_> {
    /// Whether it could have been read for.
    pub fn pace(&self, chars_per_second: u64) -> Pace {
        pace(self.seen, since_asked(self.question, self.at), chars_per_second)
    }
}

/// How many characters there are to decide a question by.
pub fn chars(question: &Question) -> u64 {
    let all = question.prompt.chars().count() + readable(&question.shown()).chars().count();
    u64::try_from(all).unwrap_or(u64::MAX)
}

/// What somebody had before them at most when they answered a question, at whichever door: all of it, since it was asked.
pub fn since_asked(question: &Question, at: Millis) -> Seen {
    Seen { chars: chars(question), ms: at.since(question.asked_at) }
}

/// Whether a decision could have been read for, by what its door says that it showed and by what there was at most.
pub fn pace(seen: Option<Seen>, at_most: Seen, chars_per_second: u64) -> Pace {
    // Nobody reads before there is anything to read, whatever was shown where.
    if is_quick(at_most, chars_per_second) {
        return Pace::Quick;
    }
    match seen {
        Some(seen) if is_quick(seen, chars_per_second) => Pace::Quick,
        Some(_) => Pace::Readable,
        None => Pace::Unknown,
    }
}

/// Whether so much cannot be read in that time.
fn is_quick(seen: Seen, chars_per_second: u64) -> bool {
    seen.ms < seen.chars.saturating_mul(1_000) / chars_per_second.max(1)
}

/// What stands for a question where questions are counted together: its gate, its step.
pub fn gate_of(workflow: &str, question: &Question) -> String {
    let what = match &question.origin {
        Origin::Gate(call) => call.tool.as_str(),
        Origin::UserTurn
        | Origin::Directive
        | Origin::ToolCall(_)
        | Origin::HumanStep
        | Origin::LostOutcome(_)
        | Origin::Budget(_)
        | Origin::Phase(_) => question.step.as_str(),
    };
    format!("{workflow}: {what}")
}

/// How often something was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Share {
    /// Words that let it pass.
    pub yes: u64,
    /// Words that refused it.
    pub no: u64,
    /// Of all of them, those quicker than could be read.
    pub quick: u64,
    /// Of all of them, those of which nobody knows.
    pub unknown: u64,
    /// Of the yeses, those to what somebody had edited.
    pub edited: u64,
}

/// What is open, by age.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Open {
    /// Within the hour, the day, the week, and older.
    pub ages: [u64; 4],
    /// Beyond their deadline; what stands still at a halt is not.
    pub overdue: u64,
}

impl Open {
    /// What its ages are called.
    pub const AGES: [&'static str; 4] = ["hour", "day", "week", "older"];

    /// Counts one that is open.
    pub fn count(&mut self, question: &Question, now: Millis) {
        let age = now.since(question.asked_at);
        let place = AGES_MS.iter().position(|bound| age < *bound).unwrap_or(AGES_MS.len());
        self.ages[place] += 1;
        self.overdue += u64::from(question.is_overdue(now));
    }
}

/// The figures.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Figures {
    /// What is open, by whom it waits for.
    pub open: BTreeMap<String, Open>,
    /// Who said what how often.
    pub people: BTreeMap<String, Share>,
    /// What was said at which gate.
    pub gates: BTreeMap<String, Share>,
    /// How long decisions took from the asking, in milliseconds, the shortest first.
    pub took_ms: Vec<u64>,
}

impl Figures {
    /// Counts what is open.
    pub fn open(&mut self, waits_for: &str, question: &Question, now: Millis) {
        self.open.entry(waits_for.to_owned()).or_default().count(question, now);
    }

    /// Counts a decision; words that decide nothing are none.
    pub fn made(&mut self, workflow: &str, made: &Made<'_>, chars_per_second: u64) {
        let Some(verb) = Verb::of(made.value).filter(|_| made.question.decides()) else { return };
        let pace = made.pace(chars_per_second);
        let is_edited = !made.question.editor.is_empty();
        let people = self.people.entry(made.by.to_owned()).or_default();
        let gates = self.gates.entry(gate_of(workflow, made.question)).or_default();
        for share in [people, gates] {
            share.no += u64::from(verb.is_no());
            share.yes += u64::from(!verb.is_no());
            share.quick += u64::from(pace == Pace::Quick);
            share.unknown += u64::from(pace == Pace::Unknown);
            share.edited += u64::from(is_edited && !verb.is_no());
        }
        let took = made.at.since(made.question.asked_at);
        let place = self.took_ms.partition_point(|known| *known <= took);
        self.took_ms.insert(place, took);
    }

    /// Within how long so many in a hundred were decided: 50 is the middle. It is what the last of that many took, the
    /// quickest first (nearest rank): never less than so many took.
    pub fn took(&self, percent: usize) -> Option<u64> {
        let rank = self.took_ms.len().saturating_mul(percent.min(100)).div_ceil(100);
        self.took_ms.get(rank.saturating_sub(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kernel::halts::Still;
    use crate::kernel::terms::Kind;

    fn question() -> Question {
        let asked_at = Millis(1_000);
        Question {
            step: "pay".into(),
            asked_at,
            ..Question::bare(Kind::Approval, Origin::HumanStep)
        }
    }

    #[test]
    fn decisions_are_counted_by_person_and_gate_and_quick_ones_are_told() {
        let mut figures = Figures::default();
        let edited = Question { editor: "ann".into(), ..question() };
        let plain = question();
        let slow = Some(Seen { chars: 100, ms: 60_000 });
        let quick = Some(Seen { chars: 5_000, ms: 400 });
        for (by, question, said, seen) in [
            ("ann", &plain, "approve", slow),
            ("ann", &plain, "approve", quick),
            ("bob", &plain, "reject", None),
            ("bob", &edited, "approve", None),
            ("bob", &plain, "whatever", None),
        ] {
            let value = json!(said);
            let made = Made { by, at: Millis(3_000), question, value: &value, seen };
            figures.made("bills", &made, READ_CHARS_PER_SECOND);
        }
        assert_eq!(figures.people["ann"], Share { yes: 2, no: 0, quick: 1, unknown: 0, edited: 0 });
        assert_eq!(figures.people["bob"], Share { yes: 1, no: 1, quick: 0, unknown: 2, edited: 1 });
        let at_gate = Share { yes: 3, no: 1, quick: 1, unknown: 2, edited: 1 };
        assert_eq!(figures.gates["bills: pay"], at_gate);
        assert_eq!((figures.took(50), figures.took_ms.len()), (Some(2_000), 4));
        assert_eq!(Figures::default().took(50), None);
    }

    #[test]
    fn what_was_decided_sooner_after_the_asking_than_it_can_be_read_is_quick_at_any_door() {
        let long = Question { prompt: "x".repeat(2_760), ..question() };
        let pace = |at, seen| {
            let value = json!("approve");
            let made = Made { by: "ann", at: Millis(at), question: &long, value: &value, seen };
            made.pace(READ_CHARS_PER_SECOND)
        };
        let little = Some(Seen { chars: 1, ms: 100 });
        assert_eq!([pace(1_100, None), pace(1_100, little)], [Pace::Quick; 2]);
        assert_eq!([pace(56_199, None), pace(56_200, None)], [Pace::Quick, Pace::Unknown]);
        let shown = |ms| Some(Seen { chars: 2_760, ms });
        assert_eq!(pace(90_000, shown(400)), Pace::Quick);
        assert_eq!(pace(90_000, shown(60_000)), Pace::Readable);
    }

    #[test]
    fn nine_of_ten_of_four_decisions_are_all_four() {
        let took = |took_ms: &[u64], percent| {
            Figures { took_ms: took_ms.to_vec(), ..Figures::default() }.took(percent)
        };
        let four = [220, 14_280, 14_890, 29_180];
        assert_eq!((took(&four, 50), took(&four, 90)), (Some(14_280), Some(29_180)));
        assert_eq!((took(&four, 0), took(&four, 100)), (Some(220), Some(29_180)));
        let ten: Vec<u64> = (1..=10).collect();
        assert_eq!((took(&ten, 50), took(&ten, 90)), (Some(5), Some(9)));
        assert_eq!(took(&[7], 90), Some(7));
    }

    #[test]
    fn what_is_open_is_counted_by_age_and_by_whom_it_waits_for() {
        let mut figures = Figures::default();
        let day = 86_400_000;
        for (asked_at, deadline) in [(10 * day, None), (9 * day, Some(10 * day)), (1, None)] {
            let question = Question {
                asked_at: Millis(asked_at),
                deadline: deadline.map(Millis),
                ..question()
            };
            figures.open("group:finance", &question, Millis(10 * day + 1));
        }
        assert_eq!(figures.open["group:finance"], Open { ages: [1, 0, 1, 1], overdue: 1 });
    }

    #[test]
    fn what_stands_still_at_a_halt_is_not_overdue() {
        let mut open = Open::default();
        let late = Question { deadline: Some(Millis(2_000)), ..question() };
        let still = Some(Still { what: "everything".into(), left_ms: Some(1) });
        open.count(&Question { still, ..late.clone() }, Millis(9_000));
        assert_eq!(open, Open { ages: [1, 0, 0, 0], overdue: 0 });
        open.count(&late, Millis(9_000));
        assert_eq!(open.overdue, 1);
    }
}
