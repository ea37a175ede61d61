//! Offline: what commands ask of the rooms below without a run: files, drawings, the store itself.
//!
//! Each function is the one line between a command and its room.

use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio_util::task::AbortOnDropHandle;

use crate::agents::Registry;
use crate::app::clock::SystemClock;
use crate::app::keys::Keys;
use crate::app::{AppError, Config, people, policy, store as shared};
use crate::definition::{self, Loaded};
use crate::kernel::{Millis, Operator, Workflow};
use crate::ports::identity::Identity;
use crate::ports::{Clock as _, Fault, Journal, Note, Noting, RunFilter};
use crate::store::transfer::{self, Counts};
use crate::store::{self, StoreConfig};

/// Runs forgotten in one step, for each of which all that stay are looked through once.
const PRUNE_RUNS: usize = 100_000;
/// How often a command that takes long shows that it lives: a few times in what a life lasts.
const BEAT: Duration = Duration::from_secs(2);
/// How often it is looked whether servers have died.
const LOOK: Duration = Duration::from_millis(500);
/// For so long that one which died is forgotten by then: eight seconds.
const LOOKS: usize = 16;
/// Runs counted at a time.
const LISTED_AT_ONCE: usize = 500;

/// One file that was checked.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The file.
    pub path: PathBuf,
    /// The workflow in it, if it could be read that far.
    pub workflow: Option<String>,
    /// What is wrong with it.
    pub problems: Vec<Problem>,
    /// What is worth a second look at its place, and is not wrong.
    pub warnings: Vec<Problem>,
    /// What is worth a word, and is not wrong.
    pub notes: Vec<String>,
}

/// One thing that is wrong with a file.
#[derive(Debug, Clone)]
pub struct Problem {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The stable code.
    pub code: String,
    /// What is wrong and what was expected.
    pub message: String,
    /// What was probably meant.
    pub hint: Option<String>,
    /// All of it as people read it, with the source line and a caret.
    pub shown: String,
}

/// How a workflow is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Drawing {
    /// Text that Markdown viewers draw.
    Mermaid,
    /// Text that Graphviz draws.
    Dot,
    /// A picture.
    Svg,
}

/// Which file a schema is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum SchemaOf {
    /// A workflow file.
    Workflow,
    /// The script of a scripted model.
    Script,
    /// The operator's policy.
    Policy,
}

/// What went through an export or an import.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Definitions.
    pub definitions: u64,
    /// Runs.
    pub runs: u64,
    /// Events.
    pub events: u64,
}

/// Checks the files and folders; the configured folder if none is named.
pub fn check(config: &Config, paths: &[PathBuf]) -> Vec<Checked> {
    let configured = [config.workflows.clone()];
    let paths = if paths.is_empty() { &configured } else { paths };
    // Who has a key stands against nothing: whom the settings put into a group is in it. What is only worth a
    // word looks at who there is now.
    let operator = people::operator(config, None, SystemClock.now());
    let present = present(config);
    let mut checked = Vec::new();
    for path in paths {
        let (loaded, problems) = if path.is_dir() {
            definition::load_dir(path)
        } else {
            match definition::load_file(path) {
                Ok(loaded) => (vec![loaded], Vec::new()),
                Err(problems) => (Vec::new(), problems),
            }
        };
        for one in loaded {
            checked.push(Checked {
                path: one.path.clone().unwrap_or_else(|| path.clone()),
                workflow: Some(one.workflow.name.clone()),
                problems: provider_problems(&one)
                    .iter()
                    .chain(&one.people_problems(&operator))
                    .map(problem)
                    .collect(),
                warnings: one.warnings.iter().chain(&provider_doubts(&one)).map(problem).collect(),
                notes: one.people_notes(&present),
            });
        }
        for found in problems {
            let file = PathBuf::from(&found.file);
            let shown = problem(&found);
            match checked.iter_mut().find(|known| known.path == file) {
                Some(known) => known.problems.push(shown),
                None => checked.push(Checked {
                    path: file,
                    workflow: None,
                    problems: vec![shown],
                    warnings: Vec::new(),
                    notes: Vec::new(),
                }),
            }
        }
    }
    checked.extend(checked_policy(config));
    checked
}

/// Who there is now.
fn present(config: &Config) -> Operator {
    // Those of a database are not looked at for this: files are checked where nobody serves them, too.
    let keys = Keys::for_server(config).ok().flatten();
    let keys = keys.filter(|keys| !config.shares_keys() && !keys.list().is_empty());
    people::operator(config, keys.as_ref(), SystemClock.now())
}

/// Checks the operator's policy, where there is one, against the workflows and people that there are.
pub(super) fn checked_policy(config: &Config) -> Option<Checked> {
    let path = config.policy.as_deref()?;
    let (own, _) = if config.workflows.is_dir() {
        definition::load_dir(&config.workflows)
    } else {
        (Vec::new(), Vec::new())
    };
    let all = own.into_iter().chain(definition::shipped());
    let workflows: Vec<_> = all.map(|loaded| loaded.workflow).collect();
    let problems = policy::read(path, &workflows, &present(config)).err().unwrap_or_default();
    Some(Checked {
        path: path.to_path_buf(),
        workflow: None,
        problems: problems.iter().map(problem).collect(),
        warnings: Vec::new(),
        notes: Vec::new(),
    })
}

/// What the providers say of a workflow that is right as a file.
pub(super) fn provider_problems(loaded: &Loaded) -> Vec<definition::Problem> {
    let registry = Registry::new(Arc::new(SystemClock)).without_keys();
    let wrong = registry.problems(&loaded.workflow).into_iter();
    wrong.map(|(field, remedy)| loaded.problem(&field, "provider.invalid", remedy)).collect()
}

/// What the providers would have somebody look at again.
pub(super) fn provider_doubts(loaded: &Loaded) -> Vec<definition::Problem> {
    let doubts = Registry::doubts(&loaded.workflow).into_iter();
    doubts.map(|(field, why)| loaded.problem(&field, "provider.private", why)).collect()
}

fn problem(found: &definition::Problem) -> Problem {
    Problem {
        line: found.line,
        column: found.column,
        code: found.code.to_owned(),
        message: found.message.clone(),
        hint: found.hint.clone(),
        shown: found.to_string(),
    }
}

/// Whether the store here is of the format before: whatever opens it takes it over.
pub fn is_older(config: &Config) -> bool {
    store::is_older(&config.data)
}

/// Draws the workflow of that name, or in that file.
pub fn graph(config: &Config, name: &str, drawing: Drawing) -> Result<String, AppError> {
    let workflow = if Path::new(name).is_file() {
        definition::load_file(Path::new(name)).map_err(AppError::Workflows)?.workflow
    } else {
        named(config, name).ok_or_else(|| AppError::UnknownWorkflow(name.to_owned()))?
    };
    Ok(match drawing {
        Drawing::Mermaid => definition::draw::mermaid(&workflow),
        Drawing::Dot => definition::draw::dot(&workflow),
        Drawing::Svg => definition::draw::svg(&workflow),
    })
}

/// The workflow of that name, among those of this machine and those that are shipped.
fn named(config: &Config, name: &str) -> Option<Arc<Workflow>> {
    let (own, _) = if config.workflows.is_dir() {
        definition::load_dir(&config.workflows)
    } else {
        (Vec::new(), Vec::new())
    };
    let all = own.into_iter().chain(definition::shipped());
    all.map(|loaded| loaded.workflow).find(|workflow| workflow.name == name)
}

/// Those of these names that no workflow on this machine has.
pub fn unknown_workflows<'a>(config: &Config, names: &'a [String]) -> Vec<&'a str> {
    names.iter().map(String::as_str).filter(|name| named(config, name).is_none()).collect()
}

/// The JSON Schema of a kind of file.
pub fn schema(of: SchemaOf) -> Value {
    match of {
        SchemaOf::Workflow => definition::workflow_schema().clone(),
        SchemaOf::Script => definition::script_schema().clone(),
        SchemaOf::Policy => definition::policy_schema().clone(),
    }
}

/// Writes the whole store to `to`; `progress` is told how many runs are done.
pub async fn export(
    config: &Config,
    mut to: Box<dyn Write + Send>,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<Transferred, AppError> {
    let journal = whole(config).await?;
    let mut tell = |counts: Counts| progress(counts.runs);
    // Before the first byte: an export that is cut off was one, too.
    note(&*journal, Note::Exported { run: None, secrets: Some(true) }).await;
    let outcome = transfer::export(&*journal, &mut to, &mut tell).await;
    journal.close().await;
    Ok(transferred(outcome?))
}

/// Reads a whole store from `from` into an empty one, or goes on with what was cut off; returns what was read, and how many
/// runs are not over. The file is read twice: it is checked before anything is written.
pub async fn import(
    config: &Config,
    from: std::fs::File,
    progress: &(dyn Fn(u64) + Send + Sync),
) -> Result<(Transferred, u64), AppError> {
    let source = &mut BufReader::new(from);
    // Before there is a store: what a wrong file, or a death meanwhile, leaves behind is nothing.
    transfer::check(source)?;
    let journal = match shared::worked_on(config).await? {
        Some(journal) => journal,
        None => store::open(&StoreConfig::new(&config.data)).await?.journal(),
    };
    refuse_served(&*journal).await?;
    let _alive = alive(&journal);
    let mut tell = |counts: Counts| progress(counts.runs);
    let another = Identity::renewed(SystemClock.fresh_secret()).at(time_of(&*journal).await?);
    let outcome = transfer::import(&*journal, source, &another, &mut tell).await;
    let outcome = match outcome {
        Ok(counts) => {
            note(&*journal, Note::Imported { runs: counts.runs, events: counts.events }).await;
            unfinished(&*journal).await.map(|open| (transferred(counts), open)).map_err(Into::into)
        }
        Err(error) => Err(error.into()),
    };
    journal.close().await;
    outcome
}

fn transferred(counts: Counts) -> Transferred {
    Transferred { definitions: counts.definitions, runs: counts.runs, events: counts.events }
}

/// Forgets runs that were over this long ago; returns how many.
pub async fn prune(config: &Config, older_than_ms: u64) -> Result<u64, AppError> {
    let journal = whole(config).await?;
    let before = Millis(time_of(&*journal).await?.0.saturating_sub(older_than_ms));
    let mut pruned = 0;
    let outcome = loop {
        match journal.prune(before, PRUNE_RUNS).await {
            Ok(0) => break Ok(pruned),
            Ok(some) => pruned += some as u64,
            Err(fault) => break Err(fault),
        }
    };
    note(&*journal, Note::Pruned { runs: pruned, before }).await;
    journal.close().await;
    Ok(outcome?)
}

/// Says that the data directory was put back from a backup; returns how many runs are not over.
pub async fn restored(config: &Config) -> Result<u64, AppError> {
    let journal = whole(config).await?;
    refuse_served(&*journal).await?;
    note(&*journal, Note::Restored).await;
    let identity = Identity::renewed(SystemClock.fresh_secret()).at(time_of(&*journal).await?);
    let outcome = match identity.keep(&*journal).await {
        Ok(()) => unfinished(&*journal).await,
        Err(fault) => Err(fault),
    };
    journal.close().await;
    Ok(outcome?)
}

/// Refuses while servers run over a store that several share: one of them may act before it hears of it. One that died, or
/// whose last sign of life came along in a backup, is waited for until it is forgotten: nobody can stop it.
async fn refuse_served(journal: &dyn Journal) -> Result<(), AppError> {
    let Some(replicas) = journal.replicas() else { return Ok(()) };
    let mut every = tokio::time::interval(LOOK);
    for _ in 0..LOOKS {
        every.tick().await;
        // Where no server runs, nobody else has said yet who of them is dead.
        replicas.bury().await?;
        // One that has not said yet who it is may be about to act, too.
        let is_served = replicas.living().await?.iter().any(|who| *who != journal.incarnation());
        if !is_served {
            return Ok(());
        }
        // This one lives meanwhile.
        replicas.beat().await?;
    }
    let named = replicas.listed().await?.into_iter().map(|one| one.who);
    let named: Vec<_> = named.map(|who| format!("{} ({})", who.name, who.address)).collect();
    journal.close().await;
    Err(AppError::Served { servers: named.len().max(1), named: named.join(", ") })
}

/// Shows others who share the store that somebody is at it, until it is dropped.
fn alive(journal: &Arc<dyn Journal>) -> Option<AbortOnDropHandle<()>> {
    journal.replicas()?;
    let journal = Arc::clone(journal);
    let beating = async move {
        let mut every = tokio::time::interval(BEAT);
        while let Some(replicas) = journal.replicas() {
            every.tick().await;
            // Whoever is taken for dead all the same finds the store changed under its hands, and says so.
            drop(replicas.beat().await);
        }
    };
    Some(AbortOnDropHandle::new(tokio::spawn(beating)))
}

/// How many runs are not over.
async fn unfinished(journal: &dyn Journal) -> Result<u64, Fault> {
    let (mut runs, mut cursor) = (0, None);
    loop {
        let page = journal.heads(&RunFilter::default(), cursor.as_deref(), LISTED_AT_ONCE).await?;
        runs += page.rows.iter().filter(|head| !head.status.is_over()).count() as u64;
        cursor = page.next;
        if cursor.is_none() {
            return Ok(runs);
        }
    }
}

/// What time it is for a store: by its own clock where it has one, whatever this machine's is set to.
pub(super) async fn time_of(journal: &dyn Journal) -> Result<Millis, Fault> {
    match journal.replicas() {
        Some(replicas) => replicas.time().await,
        None => Ok(SystemClock.now()),
    }
}

/// Notes what a command did to the whole store. A full disk is no reason not to move out of it.
pub(super) async fn note(journal: &dyn Journal, note: Note) {
    let now = time_of(journal).await.unwrap_or_else(|_| SystemClock.now());
    if let Err(fault) = journal.note(Noting::once(now, note)).await {
        tracing::warn!(%fault, "this could not be noted in the store's own log");
    }
}

/// Which store a command works on, as people are told: a database without its password, or a directory.
pub fn place(config: &Config) -> String {
    let place = bare_place(config);
    if config.store.is_some() { place } else { format!("`{place}`") }
}

/// The same for scripts, with no mark about it.
pub fn bare_place(config: &Config) -> String {
    shared::place(config)
}

/// Whether the data directory has a store of its own.
pub fn has_own_store(config: &Config) -> bool {
    store::has_own(&config.data)
}

/// The server over the database that is named which has this data directory, if one lives.
pub fn server_here(config: &Config) -> Option<String> {
    shared::server_here(config)
}

/// Whether there is anything in the data directory yet.
pub fn has_data(config: &Config) -> bool {
    config.store.is_some() || store::is_there(&config.data)
}

/// What is said of a store that is not whole; none of one that is.
pub(super) fn half(config: &Config, known: &Identity) -> Option<AppError> {
    let fault = known.refuse_half().err()?;
    if known.moving.is_some() {
        return Some(fault.into());
    }
    let place = shared::place(config);
    if config.store.is_some() {
        let remedy = "`holdpoint import FILE --store ADDRESS` with the same file goes on with it; with another: drop the schema \
                      `holdpoint` in the database first, then `holdpoint store migrate`";
        return Some(AppError::HalfImported { place, remedy: remedy.into() });
    }
    // Nothing is deleted: keys and settings may lie in the same directory.
    let aside = config.data.with_added_extension("half");
    let remedy = format!(
        "`holdpoint import FILE --data '{place}'` with the same file goes on with it; with another: `mv '{place}' '{}'` first \
         (keys and settings that lay in it are there then)",
        aside.display()
    );
    Some(AppError::HalfImported { place: format!("`{place}`"), remedy })
}

/// Refuses a store whose import was cut off, and closes it: half of what people were asked and said would stand for
/// all of it.
pub(super) async fn refuse_half(config: &Config, journal: &dyn Journal) -> Result<(), AppError> {
    let Some(known) = Identity::of(journal).await? else { return Ok(()) };
    let Some(half) = half(config, &known) else { return Ok(()) };
    journal.close().await;
    Err(half)
}

/// The same as [`existing`], where nothing of it is missing.
pub(super) async fn whole(config: &Config) -> Result<Arc<dyn Journal>, AppError> {
    let journal = existing(config).await?;
    refuse_half(config, &*journal).await?;
    Ok(journal)
}

/// The store that is named, to look at it: of a database a role that may only read is enough.
pub(super) async fn seen(config: &Config) -> Result<Arc<dyn Journal>, AppError> {
    match shared::looked_at(config).await? {
        Some(journal) => Ok(journal),
        None => there(config, StoreConfig::looked_at(&config.data)).await,
    }
}

/// The store of a data directory that must be there: looking at one must not make one.
pub(super) async fn existing(config: &Config) -> Result<Arc<dyn Journal>, AppError> {
    if let Some(journal) = shared::worked_on(config).await? {
        return Ok(journal);
    }
    there(config, StoreConfig::new(&config.data)).await
}

async fn there(config: &Config, store: StoreConfig) -> Result<Arc<dyn Journal>, AppError> {
    if !store::is_there(&config.data) {
        return Err(AppError::NoData(config.data.clone()));
    }
    Ok(store::open(&store).await?.journal())
}
