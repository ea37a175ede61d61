//! Earlier: puts together what was said in a session before a run: from memory where the run that it
//! follows is there, else from the journals, one after the other. Nothing of it is stored twice.
//!
//! What is followed is over and changes no more, so no run is held or waited for here. A run that was
//! pruned ends the chain: what comes after it is remembered, and that is no error.

use std::sync::Arc;

use crate::engine::cell::State;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    CONVERSATION_BYTES_MAX, EARLIER_RUNS_MAX, Earlier, Follows, Message, Remembers, Run, RunId,
    SessionId, replay,
};
use crate::ports::RunFilter;

/// Heads looked at in one go for a run that is over: nearly always the newest is.
const LOOK: usize = 8;

/// One run of the chain.
struct Link {
    said: Vec<Arc<Message>>,
    /// What it remembers itself, where that is known.
    earlier: Option<Earlier>,
    follows: Option<RunId>,
}

impl Engine {
    /// What a new run in `session` goes on from, and what it is given of it.
    pub(super) async fn following(
        &self,
        session: &SessionId,
        remembers: Remembers,
    ) -> Result<(Option<Follows>, Earlier), EngineError> {
        let Some(run) = self.newest_over(session).await? else {
            return Ok((None, Earlier::default()));
        };
        // A run that does not look back is still a link: those after it remember what was before.
        let earlier = match remembers {
            Remembers::Run => Earlier::default(),
            Remembers::Session => self.said_up_to(&run).await?,
        };
        let messages = earlier.messages().len();
        Ok((Some(Follows { run, messages }), earlier))
    }

    /// A run as it was loaded, with what was said before it, if it is still to ask somebody.
    pub(super) async fn recalling(&self, run: Run) -> Result<Run, EngineError> {
        match &run.follows {
            Some(follows) if follows.messages > 0 && !run.status.is_over() => {
                let earlier = Box::pin(self.said_up_to(&follows.run)).await?;
                Ok(run.remembering(earlier))
            }
            Some(_) | None => Ok(run),
        }
    }

    async fn newest_over(&self, session: &SessionId) -> Result<Option<RunId>, EngineError> {
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let mut cursor = None;
        loop {
            let page = self.inner.journal.heads(&filter, cursor.as_deref(), LOOK).await?;
            if let Some(head) = page.rows.into_iter().find(|head| head.status.is_over()) {
                return Ok(Some(head.run));
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(None);
            }
        }
    }

    /// What was said up to the end of `run`: in it, in the one that it follows, and so on.
    async fn said_up_to(&self, run: &RunId) -> Result<Earlier, EngineError> {
        let (mut spoken, mut bytes) = (Vec::new(), 0_usize);
        let mut before = Earlier::default();
        let mut next = Some(run.clone());
        while let Some(id) = next.take() {
            let Some(link) = self.link(&id).await? else { break };
            bytes += link.said.iter().map(|message| message.bytes()).sum::<usize>();
            spoken.push(link.said);
            match link.earlier {
                Some(earlier) => before = earlier,
                // More than a run may begin after is not read: it is refused.
                None if spoken.len() > EARLIER_RUNS_MAX || bytes > CONVERSATION_BYTES_MAX => {}
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
        let events = self.read_all(id, head.version).await?;
        Ok(Some(Link::of(&replay(id, workflow, &events)?)))
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

impl Link {
    fn of(run: &Run) -> Self {
        let earlier = run.earlier.clone();
        let is_known = run.follows.is_none() || !earlier.messages().is_empty();
        Self {
            said: run.said(),
            earlier: is_known.then_some(earlier),
            follows: run.follows.as_ref().map(|follows| follows.run.clone()),
        }
    }
}
