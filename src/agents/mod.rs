//! Agents: who does the work. A registry of providers, by name; each has its own file.
//!
//! A provider is told everything by its input and looks nothing up (K5).

mod record;
mod script;
mod scripted;
mod scripted_tool;
#[cfg(test)]
mod tests;
mod tools;

use std::{io, path::Path, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::agents::record::Record;
use crate::agents::tools::Toolbox;
use crate::kernel::{AgentInput, AttemptFault, Reply, ToolFault, Workflow};
use crate::ports::{Agents, Clock, DeltaSink, Tools};

/// Providers of models, as files name them.
pub const MODEL_PROVIDERS: [&str; 1] = ["scripted"];

/// All providers there are.
#[derive(Debug)]
pub struct Registry {
    clock: Arc<dyn Clock>,
    record: Option<Record>,
    toolbox: Toolbox,
}

impl Registry {
    /// All providers, with a clock for those that take time.
    pub fn new(clock: Arc<dyn Clock>) -> Self {
        let toolbox = Toolbox::new(Arc::clone(&clock));
        Self { clock, record: None, toolbox }
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
        for (name, model) in &workflow.models {
            let at = format!("/models/{name}");
            match model.provider.as_str() {
                "scripted" => scripted::check(&model.settings)
                    .map_err(|(inner, wrong)| (format!("{at}{inner}"), wrong))?,
                other => return Err(unknown(&at, other, &MODEL_PROVIDERS)),
            }
        }
        for (name, tool) in &workflow.tools {
            Toolbox::check(name, tool)?;
        }
        Ok(())
    }

    fn reply_at_once(
        &self,
        workflow: &Workflow,
        input: &AgentInput,
    ) -> Option<Result<Reply, AttemptFault>> {
        let reply = match provider_of(workflow, input) {
            "scripted" => scripted::reply_at_once(workflow, input)?,
            other => Err(unheard_of(other)),
        };
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
        match provider_of(workflow, input) {
            "scripted" => scripted::reply(workflow, input, self.clock.as_ref(), deltas).await,
            other => Err(unheard_of(other)),
        }
    }
}

#[async_trait]
impl Tools for Registry {
    async fn call(
        &self,
        workflow: &Workflow,
        tool: &str,
        arguments: &Value,
        key: &str,
    ) -> Result<Value, ToolFault> {
        let Some(tool) = workflow.tools.get(tool) else {
            let message = format!("there is no tool `{tool}`");
            return Err(tools::fault("tool.unknown", message, false));
        };
        self.toolbox.call(tool, arguments, key).await
    }
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
