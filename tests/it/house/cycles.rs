//! Cycles: no files import one another in a circle. What two of them need lies in a file below both.
//!
//! Files are followed by their `use` lines, through re-exports to the file that has the thing. Whoever is in a
//! room may use what the room's own `mod.rs` has: that is no circle. Tests are not looked at, nor paths that are
//! written out in the middle of code.

use std::collections::{BTreeMap, BTreeSet};

use crate::house::architecture::{Source, is_word, sources};

type Path = Vec<String>;

#[test]
fn no_files_import_one_another_in_a_circle() {
    let found = circles(&imports(&House::new(sources("src"))));
    let told: Vec<_> = found.iter().map(|group| format!("a circle: {group:?}")).collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}

#[test]
fn the_watch_over_circles_sees_what_it_should() {
    let file = |path: &str, text: &str| Source { path: path.into(), text: text.to_owned() };
    let house = |other: &str| {
        House::new(vec![
            file("src/lib.rs", "pub mod a;\nmod lone;\n"),
            file("src/a/mod.rs", "mod b;\nmod c;\npub use b::{B, Bee as Busy};\nuse self::c::C;\n"),
            file("src/a/b.rs", "use std::fmt;\nuse crate::a::c::{self, C};\n"),
            file("src/a/c.rs", other),
            file("src/lone.rs", "use crate::a::{\n    B,\n    Busy,\n};\n"),
        ])
    };
    let found = |other: &str| circles(&imports(&house(other)));
    let pair = vec![BTreeSet::from(["a/b.rs".to_owned(), "a/c.rs".to_owned()])];
    assert_eq!(found("use crate::a::Busy;\n"), pair, "through a re-export");
    assert_eq!(found("    use super::b::B;\n"), pair, "relatively");
    assert_eq!(found("pub(super) use crate::a::{b::B, b};\n"), pair, "in a tree");
    assert_eq!(found("// use crate::a::b::B;\n"), []);
    assert_eq!(found("#[cfg(test)]\nmod tests {\n    use crate::a::b::B;\n}\n"), []);
    assert_eq!(found("use crate::a::Thing;\n"), [], "a thing of the room itself");
}

/// All files, by the module that each is.
struct House {
    files: BTreeMap<Path, (String, Vec<Path>)>,
    /// What a module has of others under a name of its own.
    lent: BTreeMap<(Path, String), Path>,
}

impl House {
    fn new(sources: Vec<Source>) -> Self {
        let mut house = Self { files: BTreeMap::new(), lent: BTreeMap::new() };
        for source in sources.into_iter().filter(|source| !is_test(source)) {
            let file = source.place().trim_start_matches("src/").to_owned();
            let module = module_of(&file);
            let uses = used(&source.text);
            for (path, name) in &uses {
                let whole = whole(&module, path);
                house.lent.insert((module.clone(), name.clone()), whole);
            }
            let uses = uses.into_iter().map(|(path, _)| path).collect();
            house.files.insert(module, (file, uses));
        }
        house
    }

    /// The file that has what a path names, as `from` writes it.
    fn owner(&self, from: &Path, path: &[String]) -> Option<(Path, &str)> {
        let first = path.first()?.as_str();
        let child = [from.as_slice(), &path[..1]].concat();
        let is_ours =
            matches!(first, "crate" | "super" | "self") || self.files.contains_key(&child);
        if !is_ours {
            return None;
        }
        let mut path = if self.files.contains_key(&child) {
            [from.as_slice(), path].concat()
        } else {
            whole(from, path)
        };
        // Each loan leads on to another file; more than a few would be a circle of loans.
        for _ in 0..8 {
            let at = (0..=path.len()).rev().find(|&at| self.files.contains_key(&path[..at]))?;
            let module = path[..at].to_vec();
            let loan = path.get(at).and_then(|name| self.lent.get(&(module.clone(), name.clone())));
            let next = loan.map(|loan| {
                let child = [module.as_slice(), &loan[..1.min(loan.len())]].concat();
                let is_child = self.files.contains_key(&child);
                let loan = if is_child { [module.as_slice(), loan].concat() } else { loan.clone() };
                [loan.as_slice(), &path[at + 1..]].concat()
            });
            match next {
                Some(next) if next != path && self.is_ours(&next) => path = next,
                Some(_) | None => {
                    let (file, _) = self.files.get(&module)?;
                    return Some((module, file));
                }
            }
        }
        None
    }

    fn is_ours(&self, path: &[String]) -> bool {
        path.first().is_some_and(|first| self.files.contains_key(&vec![first.clone()]))
    }
}

fn is_test(source: &Source) -> bool {
    let place = source.place();
    place.contains("/tests/") || place.contains("/tests") || place.ends_with("_tests.rs")
}

/// The module that a file is: `a/b.rs` and `a/b/mod.rs` are both `a::b`.
fn module_of(file: &str) -> Path {
    let stem = file.trim_end_matches(".rs");
    let parts = stem.split('/').filter(|part| !matches!(*part, "mod" | "lib"));
    parts.map(str::to_owned).collect()
}

/// A path from the crate's root; `crate`, `self` and `super` are gone from it.
fn whole(from: &[String], path: &[String]) -> Path {
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [from, &path[1..]].concat(),
        Some("super") => [&from[..from.len().saturating_sub(1)], &path[1..]].concat(),
        Some(_) | None => path.to_vec(),
    }
}

/// What a file uses, path by path, with the name that it has there.
fn used(text: &str) -> Vec<(Path, String)> {
    let body = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let code = body.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    let mut found = Vec::new();
    for statement in code.split(';') {
        let Some(at) = statement.lines().position(is_use) else { continue };
        let lines: Vec<_> = statement.lines().skip(at).collect();
        let tree = lines.join(" ");
        let Some((_, tree)) = tree.split_once("use ") else { continue };
        spread(&[], tree.trim(), &mut found);
    }
    found
}

fn is_use(line: &str) -> bool {
    let Some((scope, _)) = line.split_once("use ") else { return false };
    let scope = scope.trim();
    scope.is_empty() || scope == "pub" || (scope.starts_with("pub(") && scope.ends_with(')'))
}

/// The paths of a use tree.
fn spread(before: &[String], tree: &str, found: &mut Vec<(Path, String)>) {
    if let Some((path, inner)) = tree.split_once('{') {
        let before = [before, &parts(path)].concat();
        let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
        let mut depth = 0_usize;
        let commas = inner.split(|c: char| {
            match c {
                '{' => depth += 1,
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            c == ',' && depth == 0
        });
        for one in commas.map(str::trim).filter(|one| !one.is_empty()) {
            spread(&before, one, found);
        }
        return;
    }
    let (path, alias) =
        tree.split_once(" as ").map_or((tree, None), |(path, name)| (path, Some(name)));
    let mut path = [before, &parts(path)].concat();
    if path.len() > 1 {
        path.retain({
            let mut at = 0;
            move |part| {
                at += 1;
                at == 1 || part != "self"
            }
        });
    }
    if let Some(name) = alias.map(str::trim).or_else(|| path.last().map(String::as_str)) {
        let name = name.to_owned();
        found.push((path, name));
    }
}

fn parts(path: &str) -> Path {
    let parts = path.split("::").map(|part| part.trim_matches(|c: char| !is_word(c)));
    parts.filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// Which files each file imports from.
fn imports(house: &House) -> BTreeMap<String, BTreeSet<String>> {
    let mut imports = BTreeMap::<String, BTreeSet<String>>::new();
    for (module, (file, uses)) in &house.files {
        let owners = uses.iter().filter_map(|path| house.owner(module, path));
        let others = owners.filter(|(owner, _)| !module.starts_with(owner));
        let others = others.map(|(_, file)| file.to_owned());
        imports.entry(file.clone()).or_default().extend(others);
    }
    imports
}

/// The groups of files from each of which every other of its group can be reached.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> Vec<BTreeSet<String>> {
    let reach: BTreeMap<_, _> = imports.keys().map(|file| (file, reached(imports, file))).collect();
    let mut groups = BTreeSet::new();
    for (file, others) in &reach {
        let returns = |other: &&String| reach.get(other).is_some_and(|back| back.contains(*file));
        let mut group: BTreeSet<_> = others.iter().filter(returns).cloned().collect();
        if group.iter().any(|other| other != *file) {
            group.insert((*file).clone());
            groups.insert(group);
        }
    }
    groups.into_iter().collect()
}

fn reached(imports: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let mut reached = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(file) = open.pop() {
        for next in imports.get(&file).into_iter().flatten() {
            if reached.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    reached
}
