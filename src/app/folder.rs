//! Folder: the workflows' files become what can be started, and again whenever they change. A file that is wrong is
//! wrong by itself: the others are taken, its earlier version stays in force, and where there is none nothing of
//! its name is started, not even an example of the same name.
//!
//! Files are looked at and not listened to: a change counts once the folder has been still for a moment, so that
//! none is taken half, and within a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::agents::Registry;
use crate::app::config::Origin;
use crate::app::discovery::{self, Offered};
use crate::app::{AppError, Config, SystemClock, offline, reread};
use crate::definition::{self, Loaded, Problem, Voices};
use crate::engine::{Broken, Edition, Library, Reach};
use crate::kernel::Operator;
use crate::ports::{Agents as _, Clock as _, Journal};

/// How often it looks: twice without a change between, and what is there counts.
const EVERY: Duration = Duration::from_millis(200);
/// A file that changed so lately may change again in the same tick of the file system's clock.
const FRESH: Duration = Duration::from_secs(2);
/// Folders below the folder that are looked into: scripts may lie there.
const DEPTH_MAX: usize = 3;
/// Files that are looked at; a folder with more is not one that somebody wrote.
const FILES_MAX: usize = 10_000;
/// How much of what is wrong with one file is told where others are told of, too.
const PROBLEMS_MAX: usize = 5;

/// What is said beside what is wrong with a file that does not tell its name.
const NAMELESS: &str =
    "\nit does not tell its `name`, which may be that of an example: no example is begun meanwhile";

/// What tells one state of the folder from another: every file that a workflow may be made of.
type Stamp = BTreeMap<PathBuf, (u64, u64, i64, i64, i64, i64)>;

/// The folder of the workflows, as it was when it was last taken.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    is_named: bool,
    voices: Voices,
    data: PathBuf,
    registry: Arc<Registry>,
    reach: Reach,
    /// The workflows that were described in files when they were last right.
    names: BTreeMap<PathBuf, String>,
    /// The names that files had since this began: no example has one of them any more.
    own: BTreeSet<String>,
    /// The digest of each file as it is in force, by the workflow's name.
    taken: BTreeMap<String, String>,
    /// What is known to be wrong.
    broken: Vec<Broken>,
    stamp: Stamp,
}

/// What the folder holds.
struct Found {
    good: Vec<(PathBuf, Loaded)>,
    wrong: Vec<(PathBuf, Vec<Problem>)>,
}

impl Folder {
    /// The folder that the settings name.
    pub(super) fn new(config: &Config, registry: Arc<Registry>, reach: Reach) -> Self {
        Self {
            path: config.workflows.clone(),
            is_named: config.origin("workflows") != Origin::Default,
            voices: if config.scripted { Voices::Scripted } else { Voices::Named },
            data: config.data.clone(),
            registry,
            reach,
            names: BTreeMap::new(),
            own: BTreeSet::new(),
            taken: BTreeMap::new(),
            broken: Vec::new(),
            stamp: Stamp::new(),
        }
    }

    /// Takes the folder as it is. One that was named and cannot be read is an error; a file in it is not.
    pub(super) async fn take(
        &mut self,
        library: &Library,
        journal: &Arc<dyn Journal>,
        operator: &Operator,
    ) -> Result<(), AppError> {
        self.stamp = stamp(&self.path);
        let found = found(&self.path, self.is_named, self.voices)
            .map_err(|problem| AppError::Workflows(vec![*problem]))?;
        self.apply(found, (library, journal), operator, true).await
    }

    /// Looks at the folder for as long as the server runs. `operator` says who there is when it has changed.
    pub(super) async fn watch(mut self, engine: crate::engine::Engine, journal: Arc<dyn Journal>) {
        let mut every = tokio::time::interval(EVERY);
        let (mut seen, mut is_fresh) = (self.stamp.clone(), false);
        loop {
            every.tick().await;
            let path = self.path.clone();
            let Ok(now) = tokio::task::spawn_blocking(move || stamp(&path)).await else { continue };
            let was_moving = now != seen;
            seen = now;
            // Somebody is still writing; or nothing has changed.
            if was_moving || (seen == self.stamp && !is_fresh) {
                continue;
            }
            let (path, is_named, voices) = (self.path.clone(), self.is_named, self.voices);
            let looked = tokio::task::spawn_blocking(move || {
                let found = found(&path, is_named, voices);
                (found, stamp(&path))
            });
            let Ok((found, after)) = looked.await else { continue };
            if after != seen {
                // It was written to while it was read: what was read is nothing.
                seen = after;
                continue;
            }
            is_fresh = is_young(&after);
            self.stamp = after;
            let taken = match found {
                Ok(found) => {
                    let operator = engine.operator();
                    self.apply(found, (engine.library(), &journal), &operator, false).await
                }
                Err(problem) => Err(AppError::Workflows(vec![*problem])),
            };
            if let Err(error) = taken {
                // All of what was there stays; the next change is looked at anew.
                tracing::error!(%error, "the folder of the workflows could not be taken");
            }
        }
    }

    async fn apply(
        &mut self,
        found: Found,
        (library, journal): (&Library, &Arc<dyn Journal>),
        operator: &Operator,
        is_first: bool,
    ) -> Result<(), AppError> {
        let (mut broken, mut has_changed) = (Vec::new(), false);
        let mut there = BTreeSet::new();
        let since = (!is_first).then(|| SystemClock.now());
        let mut good: Vec<(Option<PathBuf>, Loaded)> = Vec::new();
        let (mut is_any_nameless, mut claimed) = (false, BTreeSet::new());
        for (path, problems) in found.wrong {
            let claims = definition::called(&path);
            let tells = self.names.contains_key(&path) || !claims.is_empty();
            let name = self.name_of(&path, &claims);
            claimed.extend(claims);
            let mut one = self.wrong(&path, name, &problems);
            if !tells {
                is_any_nameless = true;
                one.why.push_str(NAMELESS);
            }
            broken.push(one);
        }
        good.extend(found.good.into_iter().map(|(path, loaded)| (Some(path), loaded)));
        let own: BTreeSet<String> = good.iter().map(|(_, it)| it.workflow.name.clone()).collect();
        let is_free = |loaded: &Loaded| !own.contains(&loaded.workflow.name);
        good.extend(definition::shipped().into_iter().filter(is_free).map(|it| (None, it)));
        for (path, loaded) in good {
            let name = loaded.workflow.name.clone();
            // Whoever had the name and is wrong now keeps it: another file may have less of what is asked in it (K7).
            if let Some(other) = broken.iter().find(|one| one.workflow == name) {
                let twin = path.map(|path| (loaded.duplicate(&other.file), path));
                broken.extend(twin.map(|(problem, path)| self.wrong(&path, name, &[problem])));
                continue;
            }
            // What is wrong may have the name of any example, and asked more; and what was somebody's file is not an
            // example's a moment later: a file is away for as long as it takes to save it (K7).
            let is_kept = is_any_nameless || claimed.contains(&name) || self.own.contains(&name);
            if path.is_none() && is_kept {
                continue;
            }
            self.own.extend(path.is_some().then(|| name.clone()));
            if self.taken.get(&name) == Some(&loaded.digest) {
                self.names.extend(path.map(|path| (path, name.clone())));
                there.insert(name);
                continue;
            }
            match self.offered(&loaded, (library, journal), operator).await {
                Ok(()) => {}
                Err(Offered::Wrong(problem)) => {
                    let path = path.unwrap_or_default();
                    broken.push(self.wrong(&path, name, &[*problem]));
                    continue;
                }
                Err(Offered::Fault(fault)) => return Err(fault.into()),
            }
            library.describe(&name, Edition { source: loaded.source.as_str().into(), since });
            if !is_first {
                let version = &loaded.digest;
                tracing::info!(
                    workflow = name,
                    version,
                    "the workflow has changed: new runs follow it"
                );
            }
            has_changed = true;
            self.taken.insert(name.clone(), loaded.digest);
            self.names.extend(path.map(|path| (path, name.clone())));
            there.insert(name);
        }
        has_changed |= self.drop_gone(library, &mut broken, there);
        self.names.retain(|path, _| reread::lies(path));
        self.tell(&broken);
        self.broken.clone_from(&broken);
        library.settle(broken, has_changed);
        Ok(())
    }

    /// Has no new run begin with what is no longer there; an earlier version of a broken file is. Whether
    /// anything went.
    fn drop_gone(
        &mut self,
        library: &Library,
        broken: &mut [Broken],
        mut there: BTreeSet<String>,
    ) -> bool {
        for one in &mut *broken {
            let is_taken = self.taken.contains_key(&one.workflow);
            one.has_earlier = is_taken && !there.contains(&one.workflow);
        }
        let earlier = broken.iter().filter(|one| one.has_earlier);
        there.extend(earlier.map(|one| one.workflow.clone()));
        let is_gone = |name: &&String| !there.contains(*name);
        let gone: Vec<String> = self.taken.keys().filter(is_gone).cloned().collect();
        for name in &gone {
            tracing::info!(workflow = name, "the workflow is gone: no new run begins with it");
            library.remove(name);
            self.taken.remove(name);
        }
        !gone.is_empty()
    }

    async fn offered(
        &self,
        loaded: &Loaded,
        (library, journal): (&Library, &Arc<dyn Journal>),
        operator: &Operator,
    ) -> Result<(), Offered> {
        if let Err((field, remedy)) = self.registry.check(&loaded.workflow) {
            return Err(Box::new(loaded.problem(&field, "provider.invalid", remedy)).into());
        }
        if self.reach == Reach::Nothing {
            library.show(discovery::known(&self.data, loaded)?);
            return Ok(());
        }
        if self.reach == Reach::Everything {
            // People change while a server runs: that refuses nothing, and is said.
            for found in loaded.people_problems(operator) {
                let (workflow, place) = (&loaded.workflow.name, found.line);
                tracing::warn!(%workflow, line = place, code = found.code, "{}", found.message);
            }
            for doubt in offline::provider_doubts(loaded) {
                let (workflow, line) = (&loaded.workflow.name, doubt.line);
                tracing::warn!(%workflow, line, code = doubt.code, "{}", doubt.message);
            }
            for note in loaded.people_notes(operator) {
                tracing::warn!(workflow = %loaded.workflow.name, "{note}");
            }
        }
        discovery::offer((library, journal), (&self.data, &self.registry), loaded).await
    }

    /// Says what is newly wrong, and what no longer is.
    fn tell(&self, broken: &[Broken]) {
        if self.reach != Reach::Everything {
            return;
        }
        for one in broken.iter().filter(|one| !self.broken.contains(one)) {
            let (file, workflow, why) = (&one.file, &one.workflow, &one.why);
            if one.has_earlier {
                tracing::error!(
                    file,
                    workflow,
                    why,
                    "the file is broken: its earlier version is in force"
                );
            } else {
                tracing::error!(file, workflow, why, "the file is broken: it cannot be started");
            }
        }
        let is_mended = |one: &&Broken| !broken.iter().any(|now| now.file == one.file);
        for one in self.broken.iter().filter(is_mended) {
            tracing::info!(file = one.file, "the file is in order again");
        }
    }

    fn wrong(&self, path: &Path, workflow: String, problems: &[Problem]) -> Broken {
        let file = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let mut told: Vec<String> =
            problems.iter().take(PROBLEMS_MAX).map(ToString::to_string).collect();
        if problems.len() > PROBLEMS_MAX {
            told.push(format!("and {} more", problems.len() - PROBLEMS_MAX));
        }
        // The folder is the operator's; whoever may start a workflow need not know where it lies.
        let folder = format!("{}/", self.path.display());
        let why = told.join("\n").replace(&folder, "");
        Broken { file, workflow, why, has_earlier: false }
    }

    /// What a file that cannot be read describes: what it described before, what it calls itself, or what it
    /// is called.
    fn name_of(&self, path: &Path, claims: &BTreeSet<String>) -> String {
        let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        self.names.get(path).or_else(|| claims.first()).cloned().unwrap_or_else(stem)
    }
}

/// Reads the folder. The one that is looked for unasked need not be there.
fn found(folder: &Path, is_named: bool, voices: Voices) -> Result<Found, Box<Problem>> {
    let mut found = Found { good: Vec::new(), wrong: Vec::new() };
    if !is_named && !folder.exists() {
        return Ok(found);
    }
    for (path, one) in definition::load_each(folder, voices)? {
        match one {
            Ok(loaded) => found.good.push((path, loaded)),
            Err(problems) => found.wrong.push((path, problems)),
        }
    }
    Ok(found)
}

fn stamp(folder: &Path) -> Stamp {
    let mut stamp = Stamp::new();
    look(folder, 0, &mut stamp);
    stamp
}

fn look(folder: &Path, depth: usize, stamp: &mut Stamp) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        if stamp.len() >= FILES_MAX {
            return;
        }
        let path = entry.path();
        // What a link leads to is what is read; one that leads nowhere is seen itself.
        let Ok(about) = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)) else {
            continue;
        };
        if about.is_dir() {
            if depth < DEPTH_MAX {
                look(&path, depth + 1, stamp);
            }
            // One that is called like a file counts as one that is wrong.
            if !path.extension().is_some_and(|kind| kind == "yaml" || kind == "yml") {
                continue;
            }
        }
        let (modified, changed) =
            ((about.mtime(), about.mtime_nsec()), (about.ctime(), about.ctime_nsec()));
        let state = (about.ino(), about.size(), modified.0, modified.1, changed.0, changed.1);
        stamp.insert(path, state);
    }
}

/// Whether a file is so young that it may have changed without a sign of it.
fn is_young(stamp: &Stamp) -> bool {
    let newest = stamp.values().map(|state| state.4).max().unwrap_or_default();
    let newest = Duration::from_secs(u64::try_from(newest).unwrap_or_default());
    let age = SystemTime::UNIX_EPOCH.checked_add(newest).and_then(|at| at.elapsed().ok());
    age.is_none_or(|age| age < FRESH)
}
