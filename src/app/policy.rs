//! Policy: the operator's rules from a file, read when a server begins and looked at while it runs. A file that is
//! wrong in anything is refused whole: what was in force stays so, and `/readyz` and the log say why.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::app::{AppError, Config, reread};
use crate::definition::{self, FILE_BYTES_MAX, Problem};
use crate::engine::{Engine, EngineError};
use crate::kernel::{Operator, Policy, Workflow};
use crate::ports::{Fault, Journal, Note};

/// How often it looks: a change counts within two seconds, with room for a machine that is busy.
const EVERY: Duration = Duration::from_millis(500);

/// What tells one state of a file from another, and the workflows and people that it was read for.
type Stamp = (u64, u64, i64, i64, u64, Vec<String>);

/// Under which name the store keeps which policy it was served with last.
const NAME: &str = "policy";

/// A policy, as it is remembered: what it came to, and the names of its rules.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Served {
    digest: String,
    rules: Vec<String>,
}

impl Served {
    fn of(policy: &Policy) -> Self {
        let rules = policy.rules.iter().map(|rule| rule.name.clone()).collect();
        Self { digest: policy.digest.clone(), rules }
    }

    async fn last(journal: &dyn Journal) -> Result<Option<Self>, Fault> {
        let kept = journal.remembered(NAME).await?;
        Ok(kept.and_then(|text| serde_json::from_str(&text).ok()))
    }

    fn words(&self) -> String {
        format!("policy {}: {}", self.digest, self.rules.join(", "))
    }

    async fn keep(&self, engine: &Engine) -> Result<(), EngineError> {
        engine.remember(NAME, &serde_json::to_string(self).unwrap_or_default()).await
    }
}

/// Refuses to go on without any policy where the store was served with one that had rules: a setting that was lost looks
/// like one that never was (K7). Whoever wants none says so, with one that has none.
pub(super) async fn refuse_lost(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    if config.policy.is_some() || config.only_stops {
        return Ok(());
    }
    match Served::last(journal).await? {
        Some(served) if !served.rules.is_empty() => Err(AppError::PolicyGone(served.words())),
        Some(_) | None => Ok(()),
    }
}

/// The policy that the settings name, for an engine that has its workflows; none, where they name none.
pub(super) fn open(config: &Config, engine: &Engine) -> Result<(), AppError> {
    let Some(path) = &config.policy else { return Ok(()) };
    let policy = read_for(path, engine).map_err(AppError::Policy)?;
    engine.rule(policy);
    Ok(())
}

/// Notes a policy that is another than the store was served with last, before it is served: what was changed while no
/// server ran is told as well.
pub(super) async fn keep_first(
    config: &Config,
    engine: &Engine,
    journal: &dyn Journal,
) -> Result<(), EngineError> {
    if config.policy.is_none() {
        return Ok(());
    }
    let now = Served::of(&engine.operator().policy);
    let before = Served::last(journal).await?;
    if before.as_ref() == Some(&now) {
        return Ok(());
    }
    engine.note(Note::PolicyChanged { what: vec![now.words()] }).await;
    now.keep(engine).await
}

fn read_for(path: &Path, engine: &Engine) -> Result<Policy, Vec<Problem>> {
    let workflows: Vec<Arc<Workflow>> =
        engine.library().all().into_iter().map(|entry| entry.workflow).collect();
    read(path, &workflows, &engine.operator())
}

/// The policy of a file, for these workflows and these people; or everything that is wrong with it.
pub(super) fn read(
    path: &Path,
    workflows: &[Arc<Workflow>],
    operator: &Operator,
) -> Result<Policy, Vec<Problem>> {
    let name = path.display().to_string();
    definition::load_policy(&name, &text(path)?, workflows, operator)
}

/// Refuses a policy file that cannot be read at all, before a store is opened for it. What it says is looked at once it is
/// known which workflows and people there are.
pub(super) fn refuse_unreadable(config: &Config) -> Result<(), AppError> {
    let Some(path) = &config.policy else { return Ok(()) };
    text(path).map(drop).map_err(AppError::Policy)
}

fn text(path: &Path) -> Result<String, Vec<Problem>> {
    let name = path.display().to_string();
    let unreadable = |error: &dyn std::fmt::Display| {
        vec![Problem::of_file(&name, "file.unreadable", format!("it cannot be read: {error}"))]
    };
    reread::text(path, FILE_BYTES_MAX as u64).map_err(|error| {
        if error.kind() != io::ErrorKind::FileTooLarge {
            return unreadable(&error);
        }
        let message = format!("the file has more than {FILE_BYTES_MAX} bytes, which is the most");
        vec![Problem::of_file(&name, "file.too_large", message)]
    })
}

/// Looks at the file for as long as the server runs.
pub(super) async fn watch(engine: Engine, path: PathBuf) {
    let mut seen = None;
    let mut every = tokio::time::interval(EVERY);
    loop {
        every.tick().await;
        let now = stamp(&path, &engine);
        if now.is_some() && now == seen {
            continue;
        }
        seen = now;
        let (beside, file) = (engine.clone(), path.clone());
        let looked = tokio::task::spawn_blocking(move || read_for(&file, &beside)).await;
        match looked {
            Ok(Ok(policy)) => take(&engine, policy).await,
            Ok(Err(problems)) => complain(&engine, &problems),
            Err(error) => tracing::error!(%error, "the policy file could not be looked at"),
        }
    }
}

fn stamp(path: &Path, engine: &Engine) -> Option<Stamp> {
    let about = fs::metadata(path).ok()?;
    let mut known: Vec<String> =
        engine.library().all().into_iter().map(|entry| entry.digest).collect();
    let operator: Arc<Operator> = engine.operator();
    known.extend(operator.people.iter().map(|(name, member)| {
        format!("{name} {} {}", member.groups.join(","), member.titles.join(","))
    }));
    let (changed, nanos) = (about.ctime(), about.ctime_nsec());
    Some((about.dev(), about.ino(), changed, nanos, about.size(), known))
}

async fn take(engine: &Engine, policy: Policy) {
    if engine.policy_trouble().is_some() {
        tracing::info!("the policy file is right again");
        engine.trouble_with_policy(None);
    }
    let before = engine.operator();
    if *before.policy == policy {
        return;
    }
    let (digest, served) = (policy.digest.clone(), Served::of(&policy));
    engine.rule(policy);
    // Noted when it is in force, and before any run is told.
    engine.note(Note::PolicyChanged { what: vec![served.words()] }).await;
    if let Err(error) = served.keep(engine).await {
        tracing::warn!(%error, "which policy is in force could not be kept");
    }
    match engine.rule_all().await {
        Ok(runs) => tracing::info!(policy = digest, runs, "the policy has changed"),
        Err(EngineError::Draining) => {}
        Err(error) => tracing::error!(%error, "not every run was told of the policy yet"),
    }
}

fn complain(engine: &Engine, problems: &[Problem]) {
    let why = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    if engine.policy_trouble().as_ref() == Some(&why) {
        return;
    }
    tracing::error!(
        why,
        "the policy file is refused: the rules of before are in force, and no others"
    );
    engine.trouble_with_policy(Some(why));
}
