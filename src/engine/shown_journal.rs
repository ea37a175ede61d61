//! Shown journals: a run's history as pages show it, to its owner, to those who decide in it, and to onlookers; events
//! that a fork copied keep the times at which they happened. Not who is told of new events: that is `watch`.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::engine::cell::State;
use crate::engine::commands::is_inherited;
use crate::engine::{Engine, EngineError, OpenRequest};
use crate::kernel::{
    Admission, Event, Origin, Principal, Question, Recorded, Refusal, RequestId, Run, RunId, Veil,
    Version, veil,
};

impl Engine {
    /// What somebody who decides has before them: the run that asks, and the newest `limit` events of
    /// its journal. For whoever knows the run, and for those whom the question admits (K8); to them
    /// the run ends with their question.
    pub async fn case(
        &self,
        request: &RequestId,
        limit: u32,
        who: &Principal,
    ) -> Result<(Run, Vec<Recorded>), EngineError> {
        let unknown = Refusal::UnknownRequest(request.to_string());
        let (cell, ..) = self.known(&request.run, who, &unknown).await?;
        let mut run = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            if hot.run.request(request.ordinal) != *request {
                return Err(self.not_there(unknown));
            }
            self.stilled_run(&hot.run)
        };
        let asked = run.questions.get(&request.ordinal);
        let operator = self.operator();
        let now = self.inner.clock.now();
        let admission = Admission { by: run.asker(), operator: &operator, now };
        // Whoever has said something in it may see what came of that, and whoever was asked how it ended.
        let answered = || {
            let ordinal = request.ordinal;
            run.said_by(&who.id).next().is_some() || run.concerned(ordinal, &who.id, &operator)
        };
        let admits = |question: &Arc<Question>| admission.admits(question, &who.id) || answered();
        if !who.may_see(&run.owner, &run.workflow.name) && !asked.map_or_else(answered, admits) {
            return Err(unknown.into());
        }
        let mut journal = self.newest(&request.run, run.version, limit).await?;
        run.session = run.session.told_to(&who.id);
        if !run.veil.is_nothing() {
            // Whoever decides sees the question, and the call that it is about, as is for them; all around it as
            // onlookers do.
            let asked = run.questions.get(&request.ordinal).map(Arc::clone);
            let asked = asked.map(|question| OpenRequest::of(&run, question));
            let asked = asked.filter(|open| self.admits(open, who));
            let asked = asked.map(|open| open.question.as_decided());
            let lost = asked.as_ref().filter(|question| question.knows_call).and_then(|question| {
                let Origin::LostOutcome(call) = &question.origin else { return None };
                let (place, mut event) = called(&journal, call)?;
                if let Event::ToolCalled { call, .. } = &mut event {
                    veil::hide_in_address(&run.workflow, call);
                }
                Some((place, event))
            });
            let veil = run.veil.clone();
            veil.over(&mut run);
            run.questions.extend(asked.map(|question| (request.ordinal, question)));
            journal = veiled(&veil, journal);
            if let Some((place, event)) = lost
                && let Some(masked) = journal.get_mut(place)
            {
                masked.event = event;
            }
        }
        Ok((run, journal))
    }

    /// A run's journal, oldest first: the newest `limit` events of it.
    pub async fn journal(
        &self,
        run: &str,
        limit: u32,
        who: &Principal,
    ) -> Result<Vec<Recorded>, EngineError> {
        let (id, cell) = self.seen_run(run, who).await?;
        let (version, from, veil) = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            (hot.run.version, hot.run.forked_from.clone(), hot.run.veil.clone())
        };
        let journal = self.newest(&id, version, limit).await?;
        Ok(veiled(&veil, self.with_their_times(journal, from).await?.0))
    }

    /// Events that a fork copied, with the times at which they happened, and which they are (K11); those of
    /// a run that is gone keep the fork's.
    pub(super) async fn with_their_times(
        &self,
        mut journal: Vec<Recorded>,
        mut from: Option<(RunId, Version)>,
    ) -> Result<(Vec<Recorded>, BTreeSet<Version>), EngineError> {
        let mut copies = BTreeSet::new();
        while let Some((origin, saved)) = from.take() {
            let Some(head) = self.inner.journal.head(&origin).await? else { break };
            // A fork begins right after the pause that its checkpoint was saved for.
            let copied = (saved + 1).min(head.version);
            let (old, mut asked) = (self.read_all(&origin, copied).await?, 0);
            let ended: BTreeSet<u32> = old.iter().filter_map(|it| ended(&it.event)).collect();
            let taken_over = old.iter().filter(|it| is_inherited(&it.event, &mut asked));
            for (version, old) in (1..).zip(taken_over) {
                // What is open in the fork is asked there, under an id and in a time of its own.
                let is_open =
                    matches!(&old.event, Event::Asked(it) if !ended.contains(&it.ordinal));
                let same = journal.iter_mut().find(|recorded| recorded.version == version);
                if let Some(same) = same.filter(|_| !is_open) {
                    same.at = old.at;
                    copies.insert(version);
                }
            }
            from = head.forked_from;
        }
        Ok((journal, copies))
    }

    async fn newest(
        &self,
        id: &RunId,
        version: Version,
        limit: u32,
    ) -> Result<Vec<Recorded>, EngineError> {
        let mut after = version.saturating_sub(limit.into());
        let mut events: Vec<Recorded> = Vec::new();
        while after < version {
            let more = self.inner.journal.read(id, after, 1_024).await?;
            let Some(last) = more.last() else { break };
            after = last.version;
            events.extend(more.into_iter().take_while(|recorded| recorded.version <= version));
        }
        Ok(events)
    }
}

/// The intent of that call, and its place.
fn called(journal: &[Recorded], id: &str) -> Option<(usize, Event)> {
    let is_it =
        |it: &Recorded| matches!(&it.event, Event::ToolCalled { call, .. } if call.id == id);
    let place = journal.iter().position(is_it)?;
    Some((place, journal.get(place)?.event.clone()))
}

/// Events as onlookers are shown them.
fn veiled(veil: &Veil, journal: Vec<Recorded>) -> Vec<Recorded> {
    let masked = |it: Recorded| Recorded { event: veil.event(it.event), ..it };
    journal.into_iter().map(masked).collect()
}

/// The question that an event ends.
fn ended(event: &Event) -> Option<u32> {
    if let Event::Answered { ordinal, .. } | Event::Closed { ordinal, .. } = event {
        return Some(*ordinal);
    }
    None
}
