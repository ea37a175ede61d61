//! Library: the workflows that can be started, by name, and those that runs in flight still use. What is in it may
//! change while the engine runs: new runs follow what is there when they begin, the others keep what they began
//! with. Where definitions come from is not known here.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use tokio::sync::watch;

use crate::kernel::evidence::is_definition;
use crate::kernel::{Millis, Refusal, Workflow};
use crate::ports::{Fault, Journal};

/// A workflow that can be started.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The definition.
    pub workflow: Arc<Workflow>,
    /// Its digest: the version that runs keep.
    pub digest: String,
}

/// Makes a definition whole right before its first run: asks the servers of its tools what they take.
#[async_trait]
pub trait Prepare: Send + Sync + std::fmt::Debug {
    /// The definition as it can be started; or why it cannot.
    async fn prepare(&self) -> Result<Entry, String>;
}

/// A file that cannot be used as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    /// Its name, without the folder.
    pub file: String,
    /// The workflow that it describes, as far as that can be told.
    pub workflow: String,
    /// What is wrong with it, with its place and the remedy.
    pub why: String,
    /// Whether an earlier version of it is in force.
    pub has_earlier: bool,
}

/// What is told of a definition besides what it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Edition {
    /// The file's text.
    pub source: Arc<str>,
    /// Since when it is the one in force, where that began while the engine ran.
    pub since: Option<Millis>,
}

/// The workflows by name, and by digest.
#[derive(Debug, Default)]
pub struct Library {
    by_name: RwLock<BTreeMap<String, Entry>>,
    by_digest: RwLock<HashMap<String, Arc<Workflow>>>,
    editions: RwLock<HashMap<String, Edition>>,
    /// Those that are made whole when they are first started, by digest.
    later: RwLock<HashMap<String, Arc<dyn Prepare>>>,
    broken: RwLock<Vec<Broken>>,
    changes: watch::Sender<()>,
}

impl Library {
    /// Makes a definition startable under its name, and durable under its digest, so that its
    /// runs need no file any more.
    pub async fn add(&self, journal: &dyn Journal, entry: Entry) -> Result<(), Fault> {
        keep(journal, &entry).await?;
        self.show(entry);
        Ok(())
    }

    /// Makes a definition known and writes nothing: whoever only looks starts none of its runs.
    pub fn show(&self, entry: Entry) {
        self.remember(&entry.digest, Arc::clone(&entry.workflow));
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        by_name.insert(entry.workflow.name.clone(), entry);
    }

    /// Makes a definition known that is made whole when it is first started.
    pub fn show_until(&self, entry: Entry, later: Arc<dyn Prepare>) {
        let mut waiting = self.later.write().unwrap_or_else(PoisonError::into_inner);
        waiting.insert(entry.digest.clone(), later);
        drop(waiting);
        self.show(entry);
    }

    /// The definition as a run begins with it. Where it has to be made whole first and cannot be, nothing begins.
    pub(super) async fn ready(
        &self,
        journal: &dyn Journal,
        entry: Entry,
    ) -> Result<Result<Entry, Refusal>, Fault> {
        let later = {
            let waiting = self.later.read().unwrap_or_else(PoisonError::into_inner);
            waiting.get(&entry.digest).cloned()
        };
        let Some(later) = later else { return Ok(Ok(entry)) };
        let whole = match later.prepare().await {
            Ok(whole) => whole,
            Err(why) => {
                let workflow = entry.workflow.name.clone();
                return Ok(Err(Refusal::BrokenWorkflow { workflow, why }));
            }
        };
        keep(journal, &whole).await?;
        self.remember(&whole.digest, Arc::clone(&whole.workflow));
        if whole.digest == entry.digest {
            // It was whole already. One that was not stays on the list: whoever has it in hand still has to
            // have it made whole.
            let mut waiting = self.later.write().unwrap_or_else(PoisonError::into_inner);
            waiting.remove(&entry.digest);
        }
        let mut by_name = self.by_name.write().unwrap_or_else(PoisonError::into_inner);
        // Not where the file has changed meanwhile: what is newer stays.
        if let Some(known) = by_name.get_mut(&entry.workflow.name)
            && known.digest == entry.digest
        {
            *known = whole.clone();
        }
        Ok(Ok(whole))
    }

    /// Takes a name out: no new run begins with it.
    pub fn remove(&self, name: &str) {
        self.by_name.write().unwrap_or_else(PoisonError::into_inner).remove(name);
        self.editions.write().unwrap_or_else(PoisonError::into_inner).remove(name);
    }

    /// Says what is told of the definition of that name.
    pub fn describe(&self, name: &str, edition: Edition) {
        let mut editions = self.editions.write().unwrap_or_else(PoisonError::into_inner);
        editions.insert(name.to_owned(), edition);
    }

    /// What is told of the definition of that name.
    pub fn edition(&self, name: &str) -> Edition {
        let editions = self.editions.read().unwrap_or_else(PoisonError::into_inner);
        editions.get(name).cloned().unwrap_or_default()
    }

    /// Says which files cannot be used, and whether anything here has changed.
    pub fn settle(&self, broken: Vec<Broken>, has_changed: bool) {
        let mut known = self.broken.write().unwrap_or_else(PoisonError::into_inner);
        let has_changed = has_changed || *known != broken;
        *known = broken;
        drop(known);
        if has_changed {
            self.changes.send_replace(());
        }
    }

    /// The files that cannot be used.
    pub fn broken(&self) -> Vec<Broken> {
        self.broken.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Tells of every change.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
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

/// Makes a definition durable under its digest.
async fn keep(journal: &dyn Journal, entry: &Entry) -> Result<(), Fault> {
    if journal.definition(&entry.digest).await?.is_none() {
        let json = serde_json::to_string(&*entry.workflow)
            .map_err(|error| Fault::Permanent(error.to_string()))?;
        journal.put_definition(&entry.digest, &json).await?;
    }
    Ok(())
}
