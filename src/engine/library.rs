//! Library: the workflows that can be started, by name, and those that runs in flight still use.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use crate::kernel::Workflow;
use crate::kernel::evidence::is_definition;
use crate::ports::{Fault, Journal};

/// A workflow that can be started.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The definition.
    pub workflow: Arc<Workflow>,
    /// Its digest: the version that runs keep.
    pub digest: String,
}

/// The workflows by name, and by digest.
#[derive(Debug, Default)]
pub struct Library {
    by_name: RwLock<BTreeMap<String, Entry>>,
    by_digest: RwLock<HashMap<String, Arc<Workflow>>>,
}

impl Library {
    /// Makes a definition startable under its name, and durable under its digest, so that its
    /// runs need no file any more.
    pub async fn add(&self, journal: &dyn Journal, entry: Entry) -> Result<(), Fault> {
        if journal.definition(&entry.digest).await?.is_none() {
            let json = serde_json::to_string(&*entry.workflow)
                .map_err(|error| Fault::Permanent(error.to_string()))?;
            journal.put_definition(&entry.digest, &json).await?;
        }
        self.show(entry);
        Ok(())
    }

    /// Makes a definition known and writes nothing: whoever only looks starts none of its runs.
    pub fn show(&self, entry: Entry) {
        self.remember(&entry.digest, Arc::clone(&entry.workflow));
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(entry.workflow.name.clone(), entry);
    }

    /// The workflow of that name.
    pub fn get(&self, name: &str) -> Option<Entry> {
        self.by_name.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Entry> {
        let by_name = self.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.values().cloned().collect()
    }

    /// The definition that a run keeps: from memory, or from the store.
    pub(super) async fn kept(
        &self,
        journal: &dyn Journal,
        digest: &str,
    ) -> Result<Arc<Workflow>, Fault> {
        let known =
            self.by_digest.read().unwrap_or_else(PoisonError::into_inner).get(digest).cloned();
        if let Some(workflow) = known {
            return Ok(workflow);
        }
        let json = journal
            .definition(digest)
            .await?
            .ok_or_else(|| Fault::Corrupt(format!("definition `{digest}` is not in the store")))?;
        // It is what decides who is asked: bytes that are none of ours are never run (J13).
        if !is_definition(digest, &json) {
            let what = "what lies there has another digest; `holdpoint verify` says more";
            return Err(Fault::Corrupt(format!("definition `{digest}`: {what}")));
        }
        let workflow: Workflow = serde_json::from_str(&json)
            .map_err(|error| Fault::Corrupt(format!("definition `{digest}`: {error}")))?;
        let workflow = Arc::new(workflow);
        self.remember(digest, Arc::clone(&workflow));
        Ok(workflow)
    }

    fn remember(&self, digest: &str, workflow: Arc<Workflow>) {
        let mut known = self.by_digest.write().unwrap_or_else(PoisonError::into_inner);
        known.insert(digest.to_owned(), workflow);
    }
}
