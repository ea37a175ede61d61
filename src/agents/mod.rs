//! Agents: who does the work. A registry of providers, by name; each has its own file.
//!
//! A provider is told everything by its input and looks nothing up (K5).

mod a2a;
mod last_look;
mod models;
mod places;
mod post;
mod record;
mod settings;
#[cfg(test)]
mod tests;
mod tools;
mod trace;

use std::{io, path::Path, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::agents::a2a::Remotes;
use crate::agents::models::{Environment, Models, scripted};
use crate::agents::record::Record;
use crate::agents::tools::Toolbox;
use crate::kernel::workflow::Model;
use crate::kernel::{AgentInput, AttemptFault, Reply, ToolCall, ToolFault, Workflow};
use crate::ports::{Agents, Clock, DeltaSink, Tools};

pub use models::MODEL_PROVIDERS;
pub use post::HttpPoster;

/// All providers there are.
#[derive(Debug)]
pub struct Registry {
    models: Models,
    remotes: Remotes,
    record: Option<Record>,
    toolbox: Toolbox,
}

impl Registry {
    /// All providers, with a clock for those that take time.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let toolbox = Toolbox::new(Arc::clone(&clock));
        let remotes = Remotes::new(Arc::clone(&clock));
        Self { models: Models::new(clock), remotes, record: None, toolbox }
    }

    /// The same, taking keys from elsewhere than the process's environment.
    #[must_use]
    pub fn with_environment(
        mut self,
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.models.set_environment(Environment::new(look_up));
        self
    }

    /// The same, checking files without looking for keys: whoever writes a workflow need not have
    /// those of whoever runs it.
    #[must_use]
    pub fn without_keys(mut self) -> Self {
        self.models.wants_keys = false;
        self
    }

    /// The same, writing every input of a model to a file, one line of JSON each.
    pub fn recording(mut self, path: &Path) -> io::Result<Self> {
        self.record = Some(Record::open(path)?);
        Ok(self)
    }

    /// A workflow with what its MCP servers say of their tools; `(field path, remedy)` where one
    /// says nothing.
    pub async fn discover(&self, workflow: &Workflow) -> Result<Workflow, (String, String)> {
        self.toolbox.discover(workflow).await
    }

    /// Everything that is wrong with a workflow's models and tools: `(field path, remedy)`, in the order of their names.
    pub fn problems(&self, workflow: &Workflow) -> Vec<(String, String)> {
        let mut wrong = Vec::new();
        for (name, model) in &workflow.models {
            let at = format!("/models/{name}");
            let placed = |(inner, wrong): (String, String)| (format!("{at}{inner}"), wrong);
            if !Models::has(&model.provider) {
                wrong.push(unknown(&at, &model.provider, &MODEL_PROVIDERS));
            } else if model.provider == a2a::PROVIDER {
                wrong.extend(Remotes::check(model, self.models.keys()).err().map(placed));
            } else {
                wrong.extend(self.models.check(model).into_iter().map(placed));
            }
        }
        let tools = workflow.tools.iter();
        wrong.extend(tools.filter_map(|(name, tool)| Toolbox::check(name, tool).err()));
        wrong.extend(places::never(workflow));
        wrong
    }

    /// What of it is worth a second look, and not wrong: in the same form.
    pub fn doubts(workflow: &Workflow) -> Vec<(String, String)> {
        places::hardly(workflow)
    }

    fn note(&self, input: &AgentInput) {
        if let Some(record) = &self.record {
            record.write(input);
        }
    }
}

#[async_trait]
impl Agents for Registry {
    /// The path is a JSON pointer into the workflow file: `/models/default/provider`.
    fn check(&self, workflow: &Workflow) -> Result<(), (String, String)> {
        self.problems(workflow).into_iter().next().map_or(Ok(()), Err)
    }

    fn reply_at_once(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>> {
        let reply = Models::reply_at_once(workflow, input)?;
        self.note(input);
        Some(reply)
    }

    async fn reply(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
        deltas: &mut dyn DeltaSink,
    ) -> Result<Reply, AttemptFault> {
        self.note(input);
        if let Some(model) = remote(workflow, input) {
            return self.remotes.reply(model, self.models.environment(), input, deltas).await;
        }
        let reply = self.models.reply(workflow, input, deltas).await;
        reply.unwrap_or_else(|| Err(unheard_of(provider_of(workflow, input))))
    }

    async fn release(&self, workflow: &Workflow, agent: &str, memo: &Value) -> Result<(), String> {
        let model = workflow.agents.get(agent).and_then(|it| workflow.models.get(&it.model));
        match model.filter(|model| model.provider == a2a::PROVIDER) {
            Some(model) => self.remotes.release(model, self.models.environment(), memo).await,
            None => Ok(()),
        }
    }
}

#[async_trait]
impl Tools for Registry {
    async fn call(
        &self,
        workflow: &Workflow,
        call: &ToolCall,
        key: &str,
    ) -> Result<Value, ToolFault> {
        let Some(tool) = workflow.tools.get(&call.tool) else {
            let message = format!("there is no tool `{}`", call.tool);
            return Err(tools::fault("tool.unknown", message, false));
        };
        self.toolbox.call(tool, call, key).await
    }
}

/// The remote agent that answers, if one does.
fn remote<'a>(workflow: &'a Workflow, input: &AgentInput) -> Option<&'a Model> {
    workflow.models.get(&input.model).filter(|model| model.provider == a2a::PROVIDER)
}

fn provider_of<'a>(workflow: &'a Workflow, input: &AgentInput) -> &'a str {
    workflow.models.get(&input.model).map_or("", |model| model.provider.as_str())
}

fn unknown(at: &str, provider: &str, known: &[&str]) -> (String, String) {
    let remedy = format!("there is no provider `{provider}`; there is: {}", known.join(", "));
    (format!("{at}/provider"), remedy)
}

/// A definition from elsewhere may name a provider that this server does not have.
fn unheard_of(provider: &str) -> AttemptFault {
    let message = format!("this server has no provider `{provider}`");
    scripted::fault("provider.unknown", message, false)
}
