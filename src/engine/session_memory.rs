//! Session memory: puts together what was said in a session before a run: from memory where the run that it
//! follows is there, else from the journals, one after the other. Nothing of it is stored twice.
//!
//! What is followed is over and changes no more, so no run is held or waited for here. A run that was
//! pruned ends the chain: what comes after it is remembered, and that is no error.

use std::sync::Arc;

use crate::engine::cell::State;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    CONVERSATION_BYTES_MAX, EARLIER_MESSAGES_MAX, EARLIER_RUNS_MAX, Earlier, Follows, Message,
    Remembers, Run, RunId, SessionId, Veil,
};
use crate::ports::RunFilter;

/// One run of the chain.
struct Link {
    said: Vec<Arc<Message>>,
    /// What it remembers itself, where that is known.
    earlier: Option<Earlier>,
    follows: Option<Follows>,
}

impl Engine {
    /// What a new run in `session` goes on from, and what it is given of it.
    pub(super) async fn following(
        &self,
        session: &SessionId,
        remembers: Remembers,
    ) -> Result<(Option<Follows>, Earlier), EngineError> {
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let mut over = self.all_heads(&filter).await?;
        over.retain(|head| head.status.is_over());
        let Some(newest) = over.first() else { return Ok((None, Earlier::default())) };
        // Whatever was over when the newest began is known to it; a fork, which goes on from another
        // place, leaves what came between behind on purpose.
        let since = newest.started_at;
        let strays = over.iter().skip(1).filter(|head| head.updated_at >= since);
        let mut also: Vec<RunId> = strays.map(|head| head.run.clone()).collect();
        also.reverse();
        let mut follows = Follows { run: newest.run.clone(), also: Vec::new(), messages: 0 };
        // A run that does not look back is still a link: those after it remember what was before.
        let is_blind = remembers == Remembers::Run;
        if is_blind && also.is_empty() {
            return Ok((Some(follows), Earlier::default()));
        }
        let known = self.said_up_to(&follows).await?;
        also.retain(|run| !known.runs().contains(run));
        follows.also = also;
        if is_blind {
            return Ok((Some(follows), Earlier::default()));
        }
        let earlier = match follows.also.as_slice() {
            [] => known,
            _ => self.said_up_to(&follows).await?,
        };
        follows.messages = earlier.messages().len();
        Ok((Some(follows), earlier))
    }

    /// What is secret in the runs that a new one goes on from: it may be said again there.
    pub(super) async fn hidden_before(
        &self,
        follows: Option<&Follows>,
    ) -> Result<Vec<String>, EngineError> {
        let mut veil = Veil::default();
        let Some(follows) = follows else { return Ok(Vec::new()) };
        let mut runs = follows.also.clone();
        runs.push(follows.run.clone());
        for run in runs {
            if let Some(head) = self.inner.journal.head(&run).await? {
                veil.join(&head.veil);
            }
        }
        Ok(veil.told())
    }

    /// A run as it was loaded, with what was said before it, if it is still to ask somebody.
    pub(super) async fn recalling(&self, run: Run) -> Result<Run, EngineError> {
        match &run.follows {
            Some(follows) if follows.messages > 0 && !run.status.is_over() => {
                let earlier = Box::pin(self.said_up_to(follows)).await?;
                Ok(run.remembering(earlier))
            }
            Some(_) | None => Ok(run),
        }
    }

    /// What was said up to the end of the runs that are followed: in them, in what the first of them
    /// follows, and so on.
    async fn said_up_to(&self, follows: &Follows) -> Result<Earlier, EngineError> {
        let (mut spoken, mut weight) = (Vec::new(), Weight::default());
        let mut before = Earlier::default();
        let mut next = Some(follows.clone());
        // Backwards, so that a run that is gone ends it: what is remembered has no holes.
        'chain: while let Some(Follows { run, also, .. }) = next.take() {
            for id in also.into_iter().rev() {
                let Some(link) = self.link(&id).await? else { break 'chain };
                weight.add(&link.said);
                spoken.push((id, link.said));
            }
            let Some(link) = self.link(&run).await? else { break };
            weight.add(&link.said);
            spoken.push((run, link.said));
            match link.earlier {
                Some(earlier) => before = earlier,
                // More than a run may begin after is not read: it is refused.
                None if weight.is_too_much() => {}
                None => next = link.follows,
            }
        }
        spoken.reverse();
        Ok(Earlier::then(&before, spoken))
    }

    async fn link(&self, id: &RunId) -> Result<Option<Link>, EngineError> {
        if let Some(link) = self.link_in_memory(id) {
            return Ok(Some(link));
        }
        let Some(head) = self.inner.journal.head(id).await? else { return Ok(None) };
        let workflow = self.inner.library.kept(&*self.inner.journal, &head.definition).await?;
        Ok(Some(Link::of(&self.fold_all(id, workflow, head.version).await?)))
    }

    /// The same without reading. A run that somebody holds just now is read after all: waiting for it
    /// here could be waiting for ourselves.
    fn link_in_memory(&self, id: &RunId) -> Option<Link> {
        let cell = self.inner.cells.peek(id)?;
        let state = cell.state.try_lock().ok()?;
        match &*state {
            State::Hot(hot) if hot.run.status.is_over() => Some(Link::of(&hot.run)),
            State::Hot(_) | State::Cold => None,
        }
    }
}

/// How much was read so far.
#[derive(Debug, Default)]
struct Weight {
    runs: usize,
    messages: usize,
    bytes: usize,
}

impl Weight {
    fn add(&mut self, said: &[Arc<Message>]) {
        self.runs += 1;
        self.messages += said.len();
        self.bytes += said.iter().map(|message| message.bytes()).sum::<usize>();
    }

    fn is_too_much(&self) -> bool {
        self.runs > EARLIER_RUNS_MAX
            || self.messages > EARLIER_MESSAGES_MAX
            || self.bytes > CONVERSATION_BYTES_MAX
    }
}

impl Link {
    fn of(run: &Run) -> Self {
        let earlier = run.earlier.clone();
        let is_known = run.follows.is_none() || !earlier.messages().is_empty();
        Self {
            said: run.said(),
            earlier: is_known.then_some(earlier),
            follows: run.follows.as_deref().cloned(),
        }
    }
}
