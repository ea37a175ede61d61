//! Policy: a run is told what the operator's rules are for it before anything else is done with it, and every run
//! that is under way is when they change. What a run makes of it is the kernel's.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::MutexGuard;

use crate::engine::cell::{Cell, State};
use crate::engine::drive::Extras;
use crate::engine::{Engine, EngineError, Reach};
use crate::failpoint;
use crate::kernel::{Command, Operator, Policy, Run};
use crate::ports::RunFilter;

/// Runs listed at a time.
const PAGE: usize = 256;

/// What is wrong with the policy that somebody wrote; the one before it is in force.
#[derive(Debug, Default)]
pub(super) struct Rulebook {
    trouble: RwLock<Option<String>>,
}

impl Engine {
    /// Goes by these rules from now on: each run is told before anything else is done with it.
    pub fn rule(&self, policy: Policy) {
        let mut held = self.inner.operator.write().unwrap_or_else(PoisonError::into_inner);
        *held = Arc::new(Operator { policy: Arc::new(policy), ..(**held).clone() });
    }

    /// Says what is wrong with the rules that somebody wrote, or that nothing is any more.
    pub fn trouble_with_policy(&self, why: Option<String>) {
        let trouble = &self.inner.rulebook.trouble;
        *trouble.write().unwrap_or_else(PoisonError::into_inner) = why;
    }

    /// What is wrong with the rules that somebody wrote.
    pub fn policy_trouble(&self) -> Option<String> {
        self.inner.rulebook.trouble.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether something else is in force for a run than its journal has.
    pub(super) fn is_ruled_otherwise(&self, run: &Run) -> bool {
        if run.status.is_over() || self.is_held() {
            return false;
        }
        let operator = self.operator();
        let now = operator.policy.for_run(&run.workflow.name, &run.requesters, &operator);
        !now.is_same(&run.policy)
    }

    /// Tells a run that is held what is in force for it, where that has changed.
    pub(super) async fn heed_policy(
        &self,
        cell: &Arc<Cell>,
        state: &mut MutexGuard<'_, State>,
    ) -> Result<(), EngineError> {
        let is_due = matches!(&**state, State::Hot(hot) if self.is_ruled_otherwise(&hot.run));
        if is_due {
            Box::pin(self.command(cell, state, &Command::Rule, Extras::default())).await?;
        }
        Ok(())
    }

    /// Tells every run that is not over what is in force for it; how many there are. One that cannot be told now is
    /// told before anything else is done with it.
    pub async fn rule_all(&self) -> Result<u64, EngineError> {
        if self.reach() == Reach::Nothing || self.is_held() {
            return Ok(0);
        }
        let (mut runs, mut cursor) = (0, None);
        loop {
            let journal = &self.inner.journal;
            let page = journal.heads(&RunFilter::default(), cursor.as_deref(), PAGE).await?;
            for head in page.rows.iter().filter(|head| !head.status.is_over()) {
                failpoint::hit("engine.before_rule");
                let cell = self.inner.cells.get(&head.run);
                if let Err(error) = self.hot(&cell).await.map(drop) {
                    tracing::error!(run.id = %head.run, %error, "run could not be told of the policy");
                }
                runs += 1;
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(runs);
            }
        }
    }
}
