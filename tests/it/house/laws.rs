//! Laws: every law that the code cites is told in `docs/laws.md` and has a test with its name; the one law that can be
//! read off the text, that everything is bounded (E6), is read off it; and the faults that show that the simulation
//! would see a law broken can still be planted.
//!
//! Whether a test proves what its name says is not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use crate::house::architecture::{Source, is_word, sources};

/// The families of laws: kernel, journal, log, engine, doors.
const FAMILIES: &str = "KJLED";
/// Ways to make a queue that takes whatever comes.
const UNBOUNDED: &[&str] = &["unbounded_channel", "unbounded(", "mpsc::channel()", " = channel()"];

/// They are played by hand (`tests/sim/planted/run`), and a fault that cannot be planted shows nothing.
#[test]
fn the_faults_that_the_simulation_must_find_still_fit_the_code() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sim/planted");
    let files = folder.read_dir().unwrap().map(|file| file.unwrap().path());
    let patches: Vec<_> =
        files.filter(|path| path.extension().is_some_and(|it| it == "patch")).collect();
    assert_eq!(patches.len(), 5, "{patches:?}");
    for patch in patches {
        let mut git = Command::new("git");
        git.args(["apply", "--check"]).arg(&patch).current_dir(env!("CARGO_MANIFEST_DIR"));
        let ran = git.output().unwrap();
        assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    }
}

#[test]
fn every_law_that_is_cited_is_told_once_and_has_its_test() {
    let page = include_str!("../../../docs/laws.md");
    let mut told = BTreeMap::<String, usize>::new();
    for row in page.lines().filter_map(|line| line.strip_prefix("| ")) {
        let id = row.split(' ').next().unwrap_or_default();
        if is_law(id) {
            *told.entry(id.to_owned()).or_default() += 1;
        }
    }
    let (src, tests) = (sources("src"), sources("tests"));
    let cited: BTreeSet<_> =
        src.iter().flat_map(|source| words(&source.text)).filter(|word| is_law(word)).collect();
    let proven: BTreeSet<_> = src.iter().chain(&tests).flat_map(proofs).collect();

    let mut complaints = Vec::new();
    for law in cited.iter().filter(|law| !told.contains_key(**law)) {
        complaints.push(format!("{law} is cited in src and not told in docs/laws.md"));
    }
    for (law, times) in &told {
        if *times > 1 {
            complaints.push(format!("{law} is told {times} times in docs/laws.md"));
        }
        if !proven.contains(law) {
            complaints.push(format!("{law} has no test `fn {}_…`", law.to_lowercase()));
        }
    }
    for law in proven.iter().filter(|law| !told.contains_key(*law)) {
        complaints.push(format!("a test is named by {law}, which docs/laws.md does not tell"));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    assert!(told.len() >= 34, "the page could not be read: {told:?}");
}

#[test]
fn e6_every_queue_is_bounded_and_every_bound_has_its_reason() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        for (place, line) in source.code() {
            let is_endless = UNBOUNDED.iter().any(|way| line.contains(way));
            if is_endless && !line.contains("oneshot::") {
                complaints.push(format!("{place}: a queue without a bound"));
            }
        }
        complaints.extend(unreasoned(&source));
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn the_watch_over_the_laws_sees_what_it_should() {
    let source = |text: &str| Source { path: "src/some.rs".into(), text: text.to_owned() };
    assert_eq!(unreasoned(&source("use a::B;\nconst NAME_MAX: usize = 3;\n")).count(), 1);
    assert_eq!(unreasoned(&source("/// Why.\nconst NAME_MAX: usize = 3;\n")).count(), 0);
    assert_eq!(
        unreasoned(&source("// Why.\nconst A: u8 = 1;\npub const B_MAX: u8 = 3;\n")).count(),
        0
    );
    let found: Vec<_> =
        proofs(&source("    async fn k12_a_name() {}\nfn l_1_x() {}\nfn e_x() {}")).collect();
    assert_eq!(found, ["K12"]);
    assert!(["K1", "J12", "E8"].into_iter().all(is_law));
    assert!(!["K", "K1a", "X1", "K01", "kK1", ""].into_iter().any(is_law));
}

/// A letter of a family, and a number.
fn is_law(word: &str) -> bool {
    let mut letters = word.chars();
    let family = letters.next().is_some_and(|letter| FAMILIES.contains(letter));
    let number = letters.as_str();
    family && number.parse::<u8>().is_ok_and(|_| !number.starts_with('0'))
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !is_word(c))
}

/// The laws that tests of this file are named by.
fn proofs(source: &Source) -> impl Iterator<Item = String> {
    let names = source.text.lines().filter_map(|line| line.trim_start().split_once("fn "));
    let first = names.filter_map(|(_, name)| name.split('_').next().map(str::to_uppercase));
    first.filter(|law| is_law(law))
}

/// Bounds that stand there without a word: no comment above them, or above the row of constants that they are in.
fn unreasoned(source: &Source) -> impl Iterator<Item = String> {
    let lines: Vec<_> = source.text.lines().map(str::trim_start).collect();
    let is_const = |line: &str| {
        let line = line.strip_prefix("pub ").unwrap_or(line);
        let line = line
            .split_once(") ")
            .map_or(line, |(scope, rest)| if scope.starts_with("pub(") { rest } else { line });
        line.starts_with("const ")
    };
    let is_bound = |line: &str| {
        is_const(line) && line.split(':').next().is_some_and(|name| name.ends_with("_MAX"))
    };
    let mut wrong = Vec::new();
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| is_bound(line)) {
        let above = lines[..at].iter().rev().find(|line| !is_const(line));
        if !above.is_some_and(|above| above.starts_with("//")) {
            wrong.push(format!("{}:{}: no reason beside `{line}`", source.place(), at + 1));
        }
    }
    wrong.into_iter()
}
