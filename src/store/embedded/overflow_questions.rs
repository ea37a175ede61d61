//! Overflow questions: the questions of a run that has too many of them for its head, each in a place of its own.
//!
//! A head is written with every append. With a thousand open questions in it, a thousand answers
//! would write half a million of them; so beyond a few only those are written that an append is
//! about. Nothing here reads: that is the reader's.

use std::collections::HashSet;
use std::sync::Arc;

use crate::kernel::{Event, Question};
use crate::ports::{Fault, Head};
use crate::store::codec;
use crate::store::embedded::chunks::{self, Sealed};
use crate::store::keys::{self, Packed};

/// Questions that a head holds itself: more than most runs ever have open, and few enough to be
/// written over and over.
const IN_HEAD_MAX: usize = 16;

/// Questions that lie beside a head.
#[derive(Debug, Default)]
pub(super) struct OverflowQuestions {
    questions: Vec<Arc<Question>>,
    /// Those that are new or not as they were, in order.
    changed: Vec<(u32, Sealed)>,
}

/// What is to be done for the questions of one append.
#[derive(Debug, Default)]
pub(super) struct OverflowChanges {
    pub(super) put: Vec<Sealed>,
    pub(super) gone: Vec<Vec<u8>>,
}

impl OverflowQuestions {
    /// Takes the questions out of a head that has too many. `events` are those that it was just
    /// folded from.
    pub(super) fn take(
        head: &mut Head,
        run: &Packed,
        events: &[Arc<Event>],
    ) -> Result<Self, Fault> {
        if head.questions.len() <= IN_HEAD_MAX {
            return Ok(Self::default());
        }
        let questions = std::mem::take(&mut head.questions);
        let about: HashSet<u32> = events.iter().filter_map(|event| event.question()).collect();
        let changed = questions.iter().filter(|question| about.contains(&question.ordinal));
        let changed = changed.map(|question| Ok((question.ordinal, sealed(run, question)?)));
        Ok(Self { changed: changed.collect::<Result<_, Fault>>()?, questions })
    }

    /// Which questions lie beside the head, in order.
    pub(super) fn ordinals(&self) -> Arc<[u32]> {
        self.questions.iter().map(|question| question.ordinal).collect()
    }

    /// What must be written where those of `old` lie.
    pub(super) fn changes(&self, run: &Packed, old: &[u32]) -> Result<OverflowChanges, Fault> {
        if self.questions.is_empty() && old.is_empty() {
            return Ok(OverflowChanges::default());
        }
        let mut changes = OverflowChanges::default();
        let is_open = |ordinal| {
            self.questions.binary_search_by_key(ordinal, |question| question.ordinal).is_ok()
        };
        let gone = old.iter().filter(|ordinal| !is_open(ordinal));
        changes.gone.extend(gone.map(|ordinal| keys::question(run, *ordinal)));
        changes.put.extend(self.changed.iter().map(|(_, sealed)| sealed.clone()));
        // The few that were in the head until now.
        for question in &self.questions {
            let is_known = old.binary_search(&question.ordinal).is_ok();
            let put = self.changed.binary_search_by_key(&question.ordinal, |(ordinal, _)| *ordinal);
            if !is_known && put.is_err() {
                changes.put.push(sealed(run, question)?);
            }
        }
        Ok(changes)
    }

    /// Its weight, for the bound on a group.
    pub(super) fn bytes(&self) -> usize {
        self.changed.iter().map(|(_, sealed)| sealed.record.len()).sum()
    }
}

fn sealed(run: &Packed, question: &Question) -> Result<Sealed, Fault> {
    let key = keys::question(run, question.ordinal);
    let record = codec::seal_json(&key, question)?;
    chunks::check(record.len())?;
    Ok(Sealed { key, record })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: Packed = [7; keys::RUN_BYTES];

    fn question(ordinal: u32) -> Arc<Question> {
        let json = serde_json::json!({
            "ordinal": ordinal, "step": "ask", "origin": "human_step", "kind": "approval",
            "prompt": "Well?", "response_schema": {}, "asked_at": 0, "messages": 0,
        });
        Arc::new(serde_json::from_value(json).expect("a question"))
    }

    fn overflow(open: impl Iterator<Item = u32>, changed: &[u32]) -> OverflowQuestions {
        let changed = changed.iter().map(|&one| (one, sealed(&RUN, &question(one)).expect("JSON")));
        OverflowQuestions { questions: open.map(question).collect(), changed: changed.collect() }
    }

    fn places(changes: &OverflowChanges) -> (Vec<&[u8]>, Vec<&[u8]>) {
        let put = changes.put.iter().map(|sealed| sealed.key.as_slice());
        (put.collect(), changes.gone.iter().map(Vec::as_slice).collect())
    }

    #[test]
    fn an_answer_among_a_thousand_is_one_write() {
        let old: Vec<u32> = (1..=1_000).collect();
        let answered = overflow((1..=1_000).filter(|&one| one != 500), &[]);
        let changes = answered.changes(&RUN, &old).expect("JSON");
        assert_eq!(places(&changes), (vec![], vec![&keys::question(&RUN, 500)[..]]));
    }

    #[test]
    fn only_what_is_new_or_changed_is_written() {
        let changes = overflow(1..=20, &[3]).changes(&RUN, &(1..=19).collect::<Vec<_>>());
        let changes = changes.expect("JSON");
        let put = [3, 20].map(|one| keys::question(&RUN, one));
        assert_eq!(places(&changes), (put.iter().map(Vec::as_slice).collect(), vec![]));
    }

    #[test]
    fn what_was_in_the_head_is_put_beside_it_and_goes_back() {
        let out = overflow(1..=17, &[17]).changes(&RUN, &[]).expect("JSON");
        assert_eq!((out.put.len(), out.gone.len()), (17, 0));
        let back = OverflowQuestions::default()
            .changes(&RUN, &(1..=17).collect::<Vec<_>>())
            .expect("JSON");
        assert_eq!((back.put.len(), back.gone.len()), (0, 17));
    }
}
