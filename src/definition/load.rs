//! Load: workflow files from a folder, a path or a text, checked as a whole and ready to run.
//!
//! A script that a scripted model names is read here and kept in the definition, so that a run in
//! flight needs no file any more.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Component, Path, PathBuf},
    sync::{Arc, LazyLock},
};

use jsonschema::Validator;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::definition::check::{check, check_rules, program, warnings};
use crate::definition::compile::compile;
use crate::definition::file::WorkflowFile;
use crate::definition::known;
use crate::definition::models::{ModelFile, ScriptSource};
use crate::definition::problem::Problem;
use crate::definition::schema::{script_schema, workflow_schema};
use crate::definition::script::{RuleFile, ScriptFile};
use crate::definition::shape;
use crate::definition::source::{FILE_BYTES_MAX, Source, under};
use crate::definition::sub::{self, Subs};
use crate::kernel::{Operator, Workflow, digest};

/// A folder with more workflow files than this is not one that somebody wrote.
const FILES_MAX: usize = 10_000;
/// The provider that answers from a script.
const SCRIPTED: &str = "scripted";

/// A workflow that is ready to run.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The definition.
    pub workflow: Arc<Workflow>,
    /// The digest of the definition: its version. Comments and layout do not count.
    pub digest: String,
    /// The file's text.
    pub source: String,
    /// Where it was read; nowhere, for a text.
    pub path: Option<PathBuf>,
    /// What is worth a second look, each with its place; nothing of it is wrong.
    pub warnings: Vec<Problem>,
    places: Source,
}

impl Loaded {
    /// What stands against it as the operator knows people: groups that nobody is in, stages that
    /// nobody can pass.
    pub fn people_problems(&self, operator: &Operator) -> Vec<Problem> {
        known::problems(&self.places, operator)
    }

    /// What is worth a word of whom it asks, and stands against nothing: somebody may be named later.
    pub fn people_notes(&self, operator: &Operator) -> Vec<String> {
        known::notes(&self.places, operator)
    }

    /// A problem that only a later room can see (an unknown provider, say), at its place in the
    /// file. `pointer` is a JSON pointer such as `/models/default/provider`.
    pub fn problem(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Problem {
        self.places.at(pointer, code, message)
    }

    /// That another file claims its name.
    pub fn duplicate(&self, other: &str) -> Problem {
        let name = &self.workflow.name;
        let message = format!(
            "`{other}` claims the name `{name}`, too: keep one of the two, or name them apart; until then neither is taken"
        );
        self.problem("/name", "workflow.duplicate", message)
    }
}

/// Whose voices a workflow's models have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Voices {
    /// Those that the file names.
    #[default]
    Named,
    /// Those of the script `NAME.script.yaml`, where one lies beside the file: for whoever tries it.
    Scripted,
}

/// Loads one file.
pub fn load_file(path: &Path) -> Result<Loaded, Vec<Problem>> {
    load_file_with(path, Voices::Named)
}

fn load_file_with(path: &Path, voices: Voices) -> Result<Loaded, Vec<Problem>> {
    let name = path.display().to_string();
    let text =
        read(path).map_err(|error| vec![Problem::of_file(&name, "file.unreadable", error)])?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let resolve = |script: &str| {
        let path = folder.join(beside(script)?);
        Ok((path.display().to_string(), read(&path)?))
    };
    let from = From { folder: Some(folder), resolve: &resolve, voices };
    let mut loaded = load(&name, &text, &from, &[])?;
    loaded.path = Some(path.to_owned());
    Ok(loaded)
}

/// Finds the script of a name: what to call it in problems, and its text; or why it cannot.
pub type ResolveScript<'a> = &'a dyn Fn(&str) -> Result<(String, String), String>;

/// Loads a text. `name` is what it is called in problems.
pub fn load_text(
    name: &str,
    text: &str,
    resolve_script: ResolveScript<'_>,
) -> Result<Loaded, Vec<Problem>> {
    let from = From { folder: None, resolve: resolve_script, voices: Voices::Named };
    load(name, text, &from, &[])
}

/// Where the files beside a workflow come from.
struct From<'a> {
    folder: Option<&'a Path>,
    resolve: ResolveScript<'a>,
    voices: Voices,
}

impl From<'_> {
    /// Has the models of a file speak from the script that lies beside it.
    fn voice(&self, name: &str, file: &mut WorkflowFile) {
        let stem = Path::new(name).file_stem().unwrap_or_default().to_string_lossy();
        let script = format!("{stem}.script.yaml");
        if self.voices == Voices::Named || (self.resolve)(&script).is_err() {
            return;
        }
        for model in file.models.values_mut().filter(|model| model.provider != SCRIPTED) {
            SCRIPTED.clone_into(&mut model.provider);
            model.script = Some(ScriptSource::File(script.clone()));
        }
    }
}

/// Loads a text that lies beside others; `within` are the files that it is a step of.
fn load(
    name: &str,
    text: &str,
    from: &From<'_>,
    within: &[String],
) -> Result<Loaded, Vec<Problem>> {
    let places = Source::read(name, text)?;
    let mut file: WorkflowFile = shaped(&places, workflow_schema(), &WORKFLOW_SHAPE)?;
    from.voice(name, &mut file);
    let within = [within, &[name.to_owned()]].concat();
    let (subs, mut problems) = others(&places, &file, from, &within);
    problems.extend(check(&places, &file, &subs));
    problems.sort_by_key(|problem| (problem.line, problem.column));
    let (folder, resolve_script) = (from.folder, from.resolve);
    let mut settings = BTreeMap::new();
    for (model, terms) in &file.models {
        let pointer = under("/models", model);
        let script = Script { places: &places, file: &file, folder, pointer };
        match script.settings(terms, resolve_script) {
            Ok(value) => {
                settings.insert(model.clone(), value);
            }
            Err(more) => problems.extend(more),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut workflow = compile(&file, &settings, program(&places, &file, &subs));
    sub::adopt(&mut workflow, &subs);
    let digest = digest::of(&serde_json::to_value(&workflow).unwrap_or_default());
    let source = text.to_owned();
    let warnings = warnings(&places, &file);
    Ok(Loaded { workflow: Arc::new(workflow), digest, source, path: None, warnings, places })
}

/// The workflows that a file has as steps, and what is wrong with them.
fn others(
    places: &Source,
    file: &WorkflowFile,
    from: &From<'_>,
    within: &[String],
) -> (Subs, Vec<Problem>) {
    let (mut subs, mut problems) = (Subs::new(), Vec::new());
    let Some(graph) = &file.graph else { return (subs, problems) };
    let mut left: Vec<_> = vec![("/graph/steps".to_owned(), graph.steps.as_slice())];
    while let Some((above, nodes)) = left.pop() {
        for (index, node) in nodes.iter().enumerate() {
            let pointer = under(&above, index);
            let inner = node.blocks().into_iter();
            left.extend(inner.map(|(place, nodes)| (format!("{pointer}{place}"), nodes)));
            let Some(other) = &node.workflow else { continue };
            let pointer = format!("{pointer}/workflow/file");
            match one_other(places, &pointer, &other.file, from, within) {
                Ok(loaded) => drop(subs.insert(other.file.clone(), loaded.workflow)),
                Err(more) => problems.extend(more),
            }
        }
    }
    (subs, problems)
}

fn one_other(
    places: &Source,
    pointer: &str,
    file: &str,
    from: &From<'_>,
    within: &[String],
) -> Result<Loaded, Vec<Problem>> {
    let told = |code, message: String| vec![places.at(pointer, code, message)];
    let (name, text) = (from.resolve)(file).map_err(|error| {
        told("workflow.unreadable", format!("the workflow `{file}` cannot be used: {error}"))
    })?;
    if within.contains(&name) {
        let way = within.join(" → ");
        return Err(told(
            "workflow.recursion",
            format!("`{file}` is a step of itself: {way} → {name}"),
        ));
    }
    if within.len() > sub::DEPTH_MAX {
        let message = format!("workflows are steps of one another at most {} deep", sub::DEPTH_MAX);
        return Err(told("workflow.depth", message));
    }
    load(&name, &text, from, within)
}

/// Loads every `*.yaml` of a folder but the scripts, in the order of their names. Where two files claim one name,
/// neither has it.
pub fn load_dir(folder: &Path) -> (Vec<Loaded>, Vec<Problem>) {
    let (mut loaded, mut problems) = (Vec::new(), Vec::new());
    match load_each(folder, Voices::Named) {
        Err(problem) => problems.push(*problem),
        Ok(each) => {
            for (_, one) in each {
                match one {
                    Ok(one) => loaded.push(one),
                    Err(more) => problems.extend(more),
                }
            }
        }
    }
    (loaded, problems)
}

/// A file of a folder, and what came of it.
pub type Each = (PathBuf, Result<Loaded, Vec<Problem>>);

/// The same, file by file: one that is wrong is wrong by itself.
pub fn load_each(folder: &Path, voices: Voices) -> Result<Vec<Each>, Box<Problem>> {
    let paths = workflow_files(folder).map_err(|error| {
        let (name, message) =
            (folder.display().to_string(), format!("the folder cannot be read: {error}"));
        Box::new(Problem::of_file(&name, "folder.unreadable", message))
    })?;
    let mut each: Vec<Each> = paths
        .into_iter()
        .map(|path| {
            let one = load_file_with(&path, voices);
            (path, one)
        })
        .collect();
    let claims = claims(&each);
    for (path, one) in &mut each {
        let Ok(loaded) = &*one else { continue };
        let name = &loaded.workflow.name;
        let others = claims.get(name).into_iter().flatten();
        if let Some(other) = others.into_iter().find(|other| *other != path) {
            let file = other.file_name().unwrap_or(other.as_os_str()).to_string_lossy();
            *one = Err(vec![loaded.duplicate(&file)]);
        }
    }
    Ok(each)
}

/// Who claims which name. A file that is wrong does, too: which of two was meant is not for us to say, and the other
/// one may have less of what is asked in it (K7).
fn claims(each: &[Each]) -> BTreeMap<String, Vec<PathBuf>> {
    let mut claims: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for (path, one) in each {
        let names = match one {
            Ok(loaded) => BTreeSet::from([loaded.workflow.name.clone()]),
            Err(_) => called(path),
        };
        for name in names {
            claims.entry(name).or_default().push(path.clone());
        }
    }
    claims
}

/// What a file that cannot be taken may call itself: what it says as YAML, where it is that, and whatever stands behind
/// a `name` in it, however it is written. One too many keeps a name from another file; one too few hands it over.
pub fn called(path: &Path) -> BTreeSet<String> {
    let bytes = read_bytes(path).unwrap_or_default();
    // Also of what is written in two bytes a letter.
    let bare: Vec<u8> = bytes.into_iter().filter(|byte| *byte != 0).collect();
    let text = String::from_utf8_lossy(&bare);
    let parsed = serde_saphyr::from_str::<Value>(&text).ok();
    let said = parsed.and_then(|it| it.get("name")?.as_str().map(str::to_owned));
    said.into_iter()
        .chain(text.split(['\n', '\r', ',', '{', '\u{85}', '\u{2028}']).filter_map(named))
        .collect()
}

/// What a line or a member calls a `name`, if it does.
fn named(piece: &str) -> Option<String> {
    let trim = |text: &str| {
        text.trim_matches(|c: char| c.is_whitespace() || "\"'?\u{feff}".contains(c)).to_owned()
    };
    let (key, value) = piece.split_once(':')?;
    if trim(key) != "name" {
        return None;
    }
    let value = value.split(" #").next().unwrap_or_default();
    let bare = value
        .split_whitespace()
        .rfind(|word| !word.starts_with(['&', '!', '*']))
        .unwrap_or_default();
    let is_letter = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let name: String = trim(bare).chars().take_while(|c| is_letter(*c)).collect();
    (!name.is_empty()).then_some(name)
}

fn workflow_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)?.take(FILES_MAX) {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(".yaml").or_else(|| name.strip_suffix(".yml"));
        // Also what is no file: a link that leads nowhere yet is no sign that nobody put one (K7). Editors put hidden
        // ones beside what they have open.
        let counts = !name.starts_with('.') || path.is_file();
        if counts && stem.is_some_and(|stem| !stem.ends_with(".script")) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Reads a file that is not too large, as text.
fn read(path: &Path) -> Result<String, String> {
    String::from_utf8(read_bytes(path)?).map_err(|_| "the file is not UTF-8 text".into())
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, String> {
    // Nobody waits for the other end of a pipe.
    let not_waiting = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(not_waiting).open(path);
    let file = file.map_err(|error| unreadable(&error))?;
    // Not every size is told beforehand, and a device has no end.
    let about = file.metadata().map_err(|error| unreadable(&error))?;
    if !about.is_file() {
        return Err("it is not a file".into());
    }
    let mut bytes = Vec::new();
    let most = FILE_BYTES_MAX as u64;
    file.take(most + 1).read_to_end(&mut bytes).map_err(|error| unreadable(&error))?;
    if bytes.len() > FILE_BYTES_MAX { Err(too_large()) } else { Ok(bytes) }
}

fn too_large() -> String {
    format!("the file has more than {FILE_BYTES_MAX} bytes, which is the most")
}

fn unreadable(error: &io::Error) -> String {
    if error.kind() == io::ErrorKind::NotFound {
        "there is no such file, or it is a link that leads nowhere".into()
    } else {
        format!("the file cannot be read: {error}")
    }
}

/// A script lies in its workflow's folder or below, and so does a recording: a workflow file may
/// not reach for others.
fn beside(script: &str) -> Result<&Path, String> {
    let path = Path::new(script);
    if path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir)) {
        return Ok(path);
    }
    Err("a file is named relative to its workflow, and lies in its folder or below".into())
}

static WORKFLOW_SHAPE: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::validator_for(workflow_schema()).expect("our own schema is a JSON Schema")
});
static SCRIPT_SHAPE: LazyLock<Validator> = LazyLock::new(|| {
    jsonschema::validator_for(script_schema()).expect("our own schema is a JSON Schema")
});

/// The file as its shape, or every place where it has another.
pub(super) fn shaped<T: DeserializeOwned>(
    source: &Source,
    schema: &Value,
    validator: &Validator,
) -> Result<T, Vec<Problem>> {
    let problems = shape::check(source, schema, validator);
    if !problems.is_empty() {
        return Err(problems);
    }
    T::deserialize(&source.value)
        .map_err(|error| vec![source.at("", "field.value", error.to_string())])
}

/// A model's script, in the workflow file or beside it.
struct Script<'a> {
    places: &'a Source,
    file: &'a WorkflowFile,
    folder: Option<&'a Path>,
    pointer: String,
}

impl Script<'_> {
    fn settings(
        &self,
        model: &ModelFile,
        resolve_script: ResolveScript<'_>,
    ) -> Result<Value, Vec<Problem>> {
        let pointer = under(&self.pointer, "script");
        match (model.provider.as_str(), &model.script) {
            (SCRIPTED, None) => {
                let message = "a scripted model needs a `script`: a file, or a list of rules";
                Err(vec![self.places.at_key(&self.pointer, "script.missing", message)])
            }
            (SCRIPTED, Some(ScriptSource::Rules(rules))) => {
                let problems = check_rules(self.places, &pointer, rules, self.file);
                if problems.is_empty() { Ok(embedded(rules)) } else { Err(problems) }
            }
            (SCRIPTED, Some(ScriptSource::File(name))) => {
                let (name, text) = resolve_script(name).map_err(|error| {
                    let message = format!("the script `{name}` cannot be used: {error}");
                    vec![self.places.at(&pointer, "script.unreadable", message)]
                })?;
                self.in_file(&name, &text)
            }
            (_, Some(_)) => {
                let provider = &model.provider;
                let message =
                    format!("only the provider `scripted` has a script, and this is `{provider}`");
                Err(vec![self.places.at_key(&pointer, "field.unknown", message)])
            }
            (_, None) => self.as_written(model),
        }
    }

    /// The settings of any other provider, as they are written; a file that they name lies beside
    /// the workflow.
    fn as_written(&self, model: &ModelFile) -> Result<Value, Vec<Problem>> {
        let written = self.places.value.pointer(&self.pointer).and_then(Value::as_object);
        let mut settings = written.cloned().unwrap_or_default();
        settings.remove("provider");
        if let Some(file) = &model.file {
            let beside = beside(file).map_err(|error| {
                vec![self.places.at(&under(&self.pointer, "file"), "file.elsewhere", error)]
            })?;
            let path = self.folder.map_or_else(|| beside.to_owned(), |folder| folder.join(beside));
            settings.insert("file".into(), path.display().to_string().into());
        }
        Ok(Value::Object(settings))
    }

    fn in_file(&self, name: &str, text: &str) -> Result<Value, Vec<Problem>> {
        let places = Source::read(name, text)?;
        let script: ScriptFile = shaped(&places, script_schema(), &SCRIPT_SHAPE)?;
        let problems = check_rules(&places, "/rules", &script.rules, self.file);
        if problems.is_empty() { Ok(embedded(&script.rules)) } else { Err(problems) }
    }
}

fn embedded(rules: &[RuleFile]) -> Value {
    json!({"script": {"rules": rules.iter().map(RuleFile::compile).collect::<Vec<_>>()}})
}
