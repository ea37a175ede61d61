//! Hooks: who wants to be told what happens to a run, kept with it and taken away again.

use crate::engine::cell::State;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Act, Principal, Refusal, RunId};
use crate::ports::{HOOKS_MAX, Hook, HookRow};

impl Engine {
    /// Keeps a hook of a run that this principal may see, in place of one with the same id.
    pub async fn put_hook(
        &self,
        run: &RunId,
        hook: Hook,
        who: &Principal,
    ) -> Result<HookRow, EngineError> {
        let known = self.hooks(run, who).await?;
        self.refuse_listening(run, who).await?;
        self.check_hook(&hook)?;
        let is_new = !known.iter().any(|row| row.hook.id == hook.id);
        if is_new && known.len() >= HOOKS_MAX {
            let remedy = format!("a run has at most {HOOKS_MAX}; take one away first");
            return Err(Refusal::TooLarge { field: "hooks".into(), remedy }.into());
        }
        let row = HookRow { run: run.clone(), hook };
        let cell = self.inner.cells.get(run);
        // Held, so that no event falls between the hook and those who look for it.
        let mut state = self.read(&cell).await?;
        self.inner.journal.put_hook(&row).await?;
        if let State::Hot(hot) = &mut *state {
            hot.hooks.retain(|known| known.hook.id != row.hook.id);
            hot.hooks.push(row.clone());
        }
        Ok(row)
    }

    /// Refuses a hook that nobody would ever be told by.
    pub(super) fn check_hook(&self, hook: &Hook) -> Result<(), Refusal> {
        self.inner.notifier.check(&hook.url).map_err(|why| Refusal::invalid("url", why))
    }

    /// The hooks of a run that this principal may see.
    pub async fn hooks(&self, run: &RunId, who: &Principal) -> Result<Vec<HookRow>, EngineError> {
        let head = self.inner.journal.head(run).await?;
        let Some(_) = head.filter(|head| who.may_see(&head.owner, &head.workflow)) else {
            return Err(Refusal::UnknownRun(run.to_string()).into());
        };
        Ok(self.inner.journal.hooks(run).await?)
    }

    /// Refuses whoever may see the run, and not set up who is told of it.
    async fn refuse_listening(&self, run: &RunId, who: &Principal) -> Result<(), EngineError> {
        let head = self.inner.journal.head(run).await?;
        let owner = head.map(|head| head.owner).unwrap_or_default();
        Ok(who.may(Act::Listen, &owner)?)
    }

    /// Takes a hook away; one that is not there is no matter.
    pub async fn remove_hook(
        &self,
        run: &RunId,
        id: &str,
        who: &Principal,
    ) -> Result<(), EngineError> {
        self.hooks(run, who).await?;
        self.refuse_listening(run, who).await?;
        let cell = self.inner.cells.get(run);
        let mut state = self.read(&cell).await?;
        self.inner.journal.remove_hook(run, id).await?;
        if let State::Hot(hot) = &mut *state {
            hot.hooks.retain(|known| known.hook.id != id);
        }
        Ok(())
    }
}
