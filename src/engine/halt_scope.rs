//! Halt scope: whether there is what somebody wants stopped, by the names that workflows and runs have. What a halt of it
//! means is the kernel's.

use crate::engine::commands::check::shortened;
use crate::engine::{Engine, EngineError};
use crate::kernel::{Refusal, Scope, halt};
use crate::ports::Head;

/// Runs that are looked at a time.
const AT_ONCE: usize = 64;

impl Engine {
    /// What is to be stopped, as it is called here. What nobody knows is refused: whoever meant something else would
    /// think it stopped.
    pub(super) async fn known_scope(&self, scope: Scope) -> Result<Scope, EngineError> {
        if self.is_known(&scope).await? {
            return Ok(scope);
        }
        let (what, name) = match &scope {
            Scope::All => return Ok(scope),
            Scope::Workflow(name) => ("workflow", name),
            Scope::Tool(name) => ("tool", name),
            Scope::Agent(name) => ("agent", name),
        };
        if let Some(plain) = spelled(&scope)
            && self.is_known(&plain).await?
        {
            return Ok(plain);
        }
        let name = shortened(name);
        if matches!(scope, Scope::Workflow(_)) {
            return Err(Refusal::UnknownWorkflow(name).into());
        }
        let listing = "`holdpoint workflows NAME` lists the agents and tools of one";
        let remedy = format!("there is no {what} `{name}`; {listing}");
        Err(Refusal::invalid(what, remedy).into())
    }

    async fn is_known(&self, scope: &Scope) -> Result<bool, EngineError> {
        if *scope == Scope::All
            || self.inner.library.all().iter().any(|entry| halt::knows(&entry.workflow, scope))
        {
            return Ok(true);
        }
        // A file that is gone, or was changed, may have left runs that are not over: those that move are what a brake is for.
        let mut cursor = None;
        loop {
            let page = self.inner.journal.running(cursor.as_deref(), AT_ONCE).await?;
            for run in &page.rows {
                let head = self.inner.journal.head(run).await?;
                if let Some(head) = head
                    && self.is_known_by(&head, scope).await?
                {
                    return Ok(true);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        let mut cursor = None;
        loop {
            let page = self.inner.journal.waiting(cursor.as_deref(), AT_ONCE).await?;
            for head in &page.rows {
                if self.is_known_by(head, scope).await? {
                    return Ok(true);
                }
            }
            cursor = page.next;
            if cursor.is_none() {
                return Ok(false);
            }
        }
    }

    async fn is_known_by(&self, head: &Head, scope: &Scope) -> Result<bool, EngineError> {
        let workflow = self.inner.library.kept(&*self.inner.journal, &head.definition).await?;
        Ok(halt::knows(&workflow, scope))
    }
}

/// A tool of an MCP server as runs call it, where it was written as files write it: `server.tool`.
fn spelled(scope: &Scope) -> Option<Scope> {
    match scope {
        Scope::Tool(name) if name.contains('.') => Some(Scope::Tool(name.replace('.', "__"))),
        Scope::All | Scope::Workflow(_) | Scope::Tool(_) | Scope::Agent(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_of_a_server_is_meant_by_the_name_that_files_have_for_it() {
        let tool = |name: &str| Scope::Tool(name.into());
        assert_eq!(spelled(&tool("gun.strike")), Some(tool("gun__strike")));
        assert_eq!(spelled(&tool("pay")), None);
        assert_eq!(spelled(&Scope::Agent("a.b".into())), None);
    }
}
