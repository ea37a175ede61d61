//! Core: what the A2A door does, once for all bindings: who calls which agent, and for what.
//!
//! Every workflow is an agent of its own; a task of another workflow is unknown to it, and so is
//! another caller's (D2).

mod push;
mod send;
mod stream;
mod tasks;

use std::sync::Arc;

use crate::api::a2a::errors::{Kind, Outcome, Problem};
use crate::api::a2a::mapping::{self, HISTORY_DEFAULT};
use crate::api::{Doorkeeper, Shown};
use crate::engine::{Engine, Entry, Onlooker, RunView};
use crate::kernel::Principal;
use crate::ports::Head;
use crate::wire::a2a::Task;

pub(super) use stream::TaskStream;

/// The agent over an engine.
#[derive(Debug, Clone)]
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) doorkeeper: Arc<dyn Doorkeeper>,
    /// The workflow that is the root's agent, if one was chosen.
    pub(super) root: Option<String>,
    /// Whether tasks may have webhooks.
    pub(super) push: bool,
    /// Workflows that are not resumed by their context alone.
    pub(super) no_resume: Vec<String>,
}

/// Who calls, and which agent.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) who: Principal,
    pub(super) agent: Entry,
    /// Makes the beginning of a task, and its cancelling, safe to repeat (`Idempotency-Key`); empty for none.
    pub(super) key: String,
    /// The tenant, as the caller named it.
    pub(super) tenant: String,
    /// Whether the caller speaks the older version of the protocol.
    pub(super) is_older: bool,
}

impl Caller {
    fn workflow(&self) -> &str {
        &self.agent.workflow.name
    }
}

impl Core {
    /// The caller behind what is `shown`.
    pub(super) fn admit(&self, shown: Shown<'_>) -> Outcome<Principal> {
        Ok(self.doorkeeper.admit(shown, "a2a")?)
    }

    /// The agent that a path or a tenant names; the root's where neither does.
    pub(super) fn agent(&self, path: Option<&str>, tenant: &str) -> Outcome<Entry> {
        let name = match (path, tenant) {
            (Some(path), "") => Some(path),
            (Some(path), tenant) if path == tenant => Some(path),
            (Some(path), _) => {
                let remedy = format!("this is the agent `{path}`; leave the tenant out");
                return Err(Problem::invalid("tenant", remedy));
            }
            (None, "") => None,
            (None, tenant) => Some(tenant),
        };
        let library = self.engine.library();
        let entry = match name {
            Some(name) => library.get(name),
            None => match &self.root {
                Some(root) => library.get(root),
                None => library.all().into_iter().next(),
            },
        };
        entry.ok_or_else(|| {
            let name: String = name.unwrap_or_default().chars().take(80).collect();
            let message = format!("there is no agent `{name}`; every workflow is one by its name");
            Problem::new(Kind::NotFound, "workflow.unknown", message)
        })
    }

    /// Refuses webhooks where the operator has turned them off.
    fn offers_push(&self) -> Outcome<()> {
        if self.push {
            return Ok(());
        }
        let message = "push notifications are turned off; subscribe to the task instead";
        Err(Problem::new(Kind::PushNotificationNotSupported, "push.unsupported", message))
    }

    /// The caller, as it looks at a run.
    fn onlooker(&self, caller: &Caller, head: &Head) -> Onlooker {
        Onlooker::new(&self.engine, head, &caller.who)
    }

    /// A run of this agent that this caller may see, as a task.
    async fn task(&self, caller: &Caller, task: &str, history: Option<usize>) -> Outcome<Task> {
        let view = self.view(caller, task).await?;
        Ok(whole(&view, history, &self.onlooker(caller, &view.head)))
    }

    /// A run of this agent that this caller may see.
    async fn view(&self, caller: &Caller, task: &str) -> Outcome<RunView> {
        if task.is_empty() {
            return Err(Problem::invalid("id", "expected a task's id; ListTasks names them"));
        }
        let view = self.engine.run(task, &caller.who).await.map_err(|error| {
            let problem = Problem::from(error);
            if problem.kind == Kind::TaskNotFound { Problem::no_task(task) } else { problem }
        })?;
        if view.head.workflow != caller.workflow() {
            return Err(Problem::no_task(task));
        }
        Ok(view)
    }
}

/// A run as a task, with so much of its history, for whoever looks at it.
fn whole(view: &RunView, history: Option<usize>, onlooker: &Onlooker) -> Task {
    let (head, run) = (&onlooker.sees_head(view.head.clone()), &view.run);
    let limit = history.unwrap_or(HISTORY_DEFAULT);
    let conversation = run.conversation.iter().map(AsRef::as_ref);
    Task {
        artifacts: view.output().map(mapping::artifact).into_iter().collect(),
        history: mapping::history(&head.run, head.session.as_str(), conversation, limit),
        ..mapping::task(head, &|one| onlooker.barred(one))
    }
}
