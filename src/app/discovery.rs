//! Discovery: what MCP servers say of their tools becomes part of a workflow before it can be
//! started, and is kept beside the store, so that a server that is down tomorrow stops nobody.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::agents::Registry;
use crate::definition::{Loaded, Problem};
use crate::engine::{Entry, Library, Prepare};
use crate::kernel::{ANY, Workflow, digest, secret};
use crate::ports::Journal;

/// Where what was discovered is kept, in the data directory. A cache: it may be deleted.
const FOLDER: &str = "discovered";

/// A workflow whose servers are asked when it is first started.
#[derive(Debug)]
struct Later {
    journal: Arc<dyn Journal>,
    data: PathBuf,
    registry: Arc<Registry>,
    loaded: Loaded,
}

#[async_trait]
impl Prepare for Later {
    async fn prepare(&self) -> Result<Entry, String> {
        let prepared = entry((&*self.journal, &self.data), &self.registry, &self.loaded).await;
        prepared.map_err(|problem| problem.to_string())
    }
}

/// Puts the workflow of a file into the library. No server is asked for that: those whose tools it does not
/// describe itself are asked when it is first started.
pub(super) async fn offer(
    (library, journal): (&Library, &Arc<dyn Journal>),
    (data, registry): (&Path, &Arc<Registry>),
    loaded: &Loaded,
) -> Result<(), Offered> {
    let shown = known(data, loaded)?;
    if is_told(&loaded.workflow) {
        library.add(&**journal, shown).await?;
        return Ok(());
    }
    let (data, registry, loaded) = (data.to_path_buf(), Arc::clone(registry), loaded.clone());
    let journal = Arc::clone(journal);
    library.show_until(shown, Arc::new(Later { journal, data, registry, loaded }));
    Ok(())
}

/// Why a workflow is not in the library.
#[derive(Debug, thiserror::Error)]
pub(super) enum Offered {
    /// Its file is wrong.
    #[error(transparent)]
    Wrong(#[from] Box<Problem>),
    /// The store does not work.
    #[error(transparent)]
    Fault(#[from] crate::ports::Fault),
}

/// The workflow of a file, ready to be started; a problem where its servers cannot be asked and
/// were never asked before.
async fn entry(
    (journal, data): (&dyn Journal, &Path),
    registry: &Registry,
    loaded: &Loaded,
) -> Result<Entry, Box<Problem>> {
    let workflow = &loaded.workflow;
    if is_told(workflow) {
        return as_written(loaded);
    }
    let kept = kept(data, loaded);
    let found = match registry.discover(workflow).await {
        Ok(found) => {
            let found = agreed(journal, loaded, found).await?;
            keep(&kept, &found);
            found
        }
        Err((field, remedy)) => match read_any(journal, &kept, loaded).await {
            Some(found) => {
                tracing::warn!(
                    workflow = workflow.name,
                    field,
                    remedy,
                    "the tools are those of last time"
                );
                found
            }
            None => return Err(Box::new(loaded.problem(&field, "mcp.unreachable", remedy))),
        },
    };
    discovered(loaded, found)
}

/// What all servers that share a store go by: what the first of them was told of the tools of this file. Two that were
/// told different things would start two different workflows by one name.
async fn agreed(
    journal: &dyn Journal,
    loaded: &Loaded,
    found: Workflow,
) -> Result<Workflow, Box<Problem>> {
    let Some(replicas) = journal.replicas() else { return Ok(found) };
    let unkept = |why: String| Box::new(loaded.problem("/tools", "mcp.unreachable", why));
    let text = serde_json::to_string(&found).map_err(|error| unkept(error.to_string()))?;
    let first = replicas.remember_if(&name(loaded), None, &text).await;
    if first.map_err(|fault| unkept(fault.to_string()))? {
        return Ok(found);
    }
    let kept = shared(journal, loaded).await;
    let kept = kept.ok_or_else(|| unkept("what was discovered before cannot be read".into()))?;
    if kept != found {
        let workflow = &loaded.workflow.name;
        tracing::warn!(
            workflow,
            "the tools are those that the first server was told of: change the file to have others"
        );
    }
    Ok(kept)
}

/// What was discovered before, by this server or by another.
async fn read_any(journal: &dyn Journal, kept: &Path, loaded: &Loaded) -> Option<Workflow> {
    match journal.replicas() {
        Some(_) => shared(journal, loaded).await,
        None => read(kept),
    }
}

async fn shared(journal: &dyn Journal, loaded: &Loaded) -> Option<Workflow> {
    let text = journal.remembered(&name(loaded)).await.ok().flatten()?;
    serde_json::from_str(&text).ok()
}

/// Under which name a store that several servers share keeps what was discovered for a file.
fn name(loaded: &Loaded) -> String {
    format!("{FOLDER}.{}", loaded.digest)
}

/// The same for whoever only looks: no server is asked. What was never discovered is shown as it is
/// written.
pub(super) fn known(data: &Path, loaded: &Loaded) -> Result<Entry, Box<Problem>> {
    if is_told(&loaded.workflow) {
        return as_written(loaded);
    }
    match read(&kept(data, loaded)) {
        Some(found) => discovered(loaded, found),
        None => Ok(Entry { workflow: Arc::clone(&loaded.workflow), digest: loaded.digest.clone() }),
    }
}

/// Whether the file itself says what its tools take.
fn is_told(workflow: &Workflow) -> bool {
    workflow.tools.values().all(|tool| tool.provider != "mcp" || tool.parameters.is_some())
}

fn kept(data: &Path, loaded: &Loaded) -> PathBuf {
    data.join(FOLDER).join(format!("{}.json", loaded.digest))
}

fn as_written(loaded: &Loaded) -> Result<Entry, Box<Problem>> {
    match unbound(loaded, &loaded.workflow) {
        Some(problem) => Err(Box::new(problem)),
        None => Ok(Entry { workflow: Arc::clone(&loaded.workflow), digest: loaded.digest.clone() }),
    }
}

fn discovered(loaded: &Loaded, mut found: Workflow) -> Result<Entry, Box<Problem>> {
    if let Some(problem) = unbound(loaded, &found) {
        return Err(Box::new(problem));
    }
    // What earlier builds have kept stands there as the servers said it.
    for tool in found.tools.values_mut() {
        tool.parameters = tool.parameters.take().map(secret::made_plain);
    }
    let found = secret::noticed(found);
    let digest = digest::of(&serde_json::to_value(&found).unwrap_or_default());
    Ok(Entry { workflow: Arc::new(found), digest })
}

/// A gate that is bound to a tool that there is not, now that the servers have told theirs: it would
/// let everything pass (K7).
fn unbound(loaded: &Loaded, workflow: &Workflow) -> Option<Problem> {
    for (index, gate) in workflow.gates.iter().enumerate() {
        let is_missing = |tool: &&String| *tool != ANY && !workflow.tools.contains_key(*tool);
        if let Some(tool) = gate.tools.iter().find(is_missing) {
            let names: Vec<_> = workflow.tools.keys().map(String::as_str).collect();
            let wrong = format!(
                "gate `{}` is bound to `{tool}`, and there is no such tool; there is: {}",
                gate.name,
                names.join(", ")
            );
            return Some(loaded.problem(&format!("/gates/{index}/tools"), "tool.unknown", wrong));
        }
        let looks_elsewhere =
            !gate.handoffs.is_empty() || !gate.replies.is_empty() || !gate.steps.is_empty();
        if gate.tools.is_empty() && gate.tags.is_empty() && !looks_elsewhere {
            let wrong = format!("gate `{}` is bound to no tool that there is", gate.name);
            return Some(loaded.problem(&format!("/gates/{index}/tools"), "gate.unbound", wrong));
        }
    }
    None
}

/// Written aside and renamed, so that a crash leaves the old one or the new one.
fn keep(path: &PathBuf, workflow: &Workflow) {
    let kept = || -> std::io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let aside = path.with_extension("new");
        std::fs::write(&aside, serde_json::to_vec(workflow)?)?;
        std::fs::rename(&aside, path)
    };
    if let Err(error) = kept() {
        tracing::warn!(path = %path.display(), %error, "discovered tools could not be kept");
    }
}

fn read(path: &Path) -> Option<Workflow> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::definition::load_text;

    #[test]
    fn what_an_earlier_build_has_kept_of_a_server_is_marked_however_that_was_spelled() {
        let file = json!({
            "name": "w", "pattern": "sequential", "steps": [{"agent": "a"}],
            "models": {"m": {"provider": "scripted", "script": [{"say": "hm"}]}},
            "mcp": {"s": {"command": ["nobody"]}}, "agents": {"a": {"tools": ["s.act"]}},
        });
        let loaded = load_text("w.yaml", &file.to_string(), &|_| Err(String::new())).unwrap();
        for (said, marks) in [(json!("true"), true), (json!(1), true), (json!(false), false)] {
            let mut kept = (*loaded.workflow).clone();
            let schema = json!({"type": "object", "properties": {"pin": {"secret": said}}});
            kept.tools.get_mut("s__act").unwrap().parameters = Some(schema);
            let entry = discovered(&loaded, kept).unwrap();
            let told = entry.workflow.tools["s__act"].parameters.as_ref();
            let places = secret::places(told, &[], &json!({"pin": "4406"}));
            assert_eq!((entry.workflow.secretive, places.len() == 1), (marks, marks), "{said}");
        }
    }
}
