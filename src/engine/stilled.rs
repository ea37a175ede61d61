//! Stilled: says of open questions, wherever they are shown or counted, that their clock stands still at a halt. Whose
//! clock does, and how long is left, is said by the kernel. Nothing is changed by it: what is kept is moved on when the
//! halt ends.

use std::sync::Arc;

use crate::engine::Engine;
use crate::engine::cell::State;
use crate::kernel::{Halts, Question, Run, halt};
use crate::ports::Head;

impl Engine {
    /// A run as it is shown.
    pub(super) fn stilled_run(&self, run: &Run) -> Run {
        let (halts, mut shown) = (self.halts_listed(), Run::clone(run));
        if !halts.0.is_empty() {
            for question in shown.questions.values_mut() {
                *question = halt::shown(&halts, run, Arc::clone(question));
            }
        }
        shown
    }

    /// Where a run stands, as it is shown.
    pub(super) fn stilled_head(&self, run: &Run) -> Head {
        let (halts, mut head) = (self.halts_listed(), Head::of(run));
        if !halts.0.is_empty() {
            for question in &mut head.questions {
                *question = halt::shown(&halts, run, Arc::clone(question));
            }
        }
        head
    }

    /// The same of a list, of which there is no more than the heads.
    pub(super) async fn stilled(&self, heads: Vec<Head>) -> Vec<Head> {
        self.stilled_where(heads, |_| true).await
    }

    /// The same where only deadlines are counted: no run is looked at for a question that has none.
    pub(super) async fn stilled_clocks(&self, heads: Vec<Head>) -> Vec<Head> {
        self.stilled_where(heads, |question| question.deadline.is_some()).await
    }

    async fn stilled_where(
        &self,
        mut heads: Vec<Head>,
        matters: fn(&Question) -> bool,
    ) -> Vec<Head> {
        let halts = self.halts_listed();
        if !halts.0.is_empty() {
            for head in &mut heads {
                self.still(&halts, head, matters).await;
            }
        }
        heads
    }

    /// Most heads tell it themselves; of a question that does not, the run is looked at where it matters.
    async fn still(&self, halts: &Halts, head: &mut Head, matters: fn(&Question) -> bool) {
        let mut needs_run = false;
        for question in &mut head.questions {
            match halt::still(halts, &head.workflow, question) {
                Ok(None) => {}
                Ok(still) => Arc::make_mut(question).still = still,
                Err(halt::NeedsRun) => needs_run |= matters(question),
            }
        }
        if !needs_run {
            return;
        }
        let cell = self.inner.cells.get(&head.run);
        // One that cannot be read says so elsewhere, and is listed all the same.
        let Ok(state) = self.read(&cell).await else { return };
        let State::Hot(hot) = &*state else { return };
        for question in &mut head.questions {
            *question = halt::shown(halts, &hot.run, Arc::clone(question));
        }
    }
}
