//! Architecture: the house stands as it is drawn. Imports go downstairs, the kernel is pure, and
//! every file says what it is and stays small.
//!
//! It reads text, not syntax: it stops honest mistakes, not determined ones.

use std::fs;
use std::path::{Path, PathBuf};

/// Each room and the rooms that it may use besides itself. Rooms of one floor are strangers.
const HOUSE: &[(&str, &[&str])] = &[
    ("kernel", &[]),
    ("wire", &[]),
    ("ports", &["kernel"]),
    ("definition", &["kernel"]),
    ("engine", &["kernel", "ports"]),
    ("store", &["kernel", "ports"]),
    ("agents", &["kernel", "ports", "wire"]),
    ("api", &["kernel", "ports", "wire", "definition", "engine"]),
    ("app", &["kernel", "ports", "wire", "definition", "engine", "store", "agents", "api"]),
    ("bench", &["wire"]),
    (
        "cli",
        &[
            "kernel",
            "ports",
            "wire",
            "definition",
            "engine",
            "store",
            "agents",
            "api",
            "app",
            "bench",
        ],
    ),
];
/// Leaves: they use no room, so every room may use them.
const LEAVES: &[&str] = &["failpoint"];
/// Files that stand outside the rooms: the crate's two roots.
const ROOTS: &[&str] = &["lib.rs", "main.rs"];
/// Imports in which the room that is reached cannot be seen; write `use crate::room::…;` for each.
const VEILED: &[&str] = &["crate::{", "crate::*", "super::super"];
/// What the kernel may not mention: whatever waits, looks at a clock, draws lots or touches the
/// world. Time is `Millis`, and it is an argument.
const WORLDLY: &[&str] = &[
    "async ",
    ".await",
    "tokio",
    "futures",
    "uuid::",
    "jiff::",
    "SystemTime",
    "Instant",
    "std::time",
    "std::fs",
    "std::net",
    "std::env",
    "std::io",
    "std::thread",
    "std::process",
    "println!",
    "tracing",
    "Mutex",
];
/// The only file that names the tree on disk: another one could take its place behind the same calls.
const TREE: &str = "src/store/embedded/tree.rs";
/// Beyond this a file is two files; the tests at its foot are not counted.
const LINES_MAX: usize = 500;

#[test]
fn imports_go_downstairs_only() {
    let mut complaints = Vec::new();
    for source in sources("src") {
        let Some(room) = source.room() else { continue };
        for (place, line) in source.code() {
            complaints.extend(climbs(&room, line).map(|why| format!("{place}: {why}")));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_room_is_in_the_drawing() {
    for source in sources("src") {
        let place = source.place();
        let known = match source.room() {
            Some(room) => is_room(&room) || LEAVES.contains(&room.as_str()),
            None => ROOTS.contains(&place.trim_start_matches("src/")),
        };
        assert!(known, "{place}: this room is not in the drawing; give it a floor");
    }
}

#[test]
fn the_kernel_is_pure() {
    let mut complaints = Vec::new();
    for source in sources("src/kernel") {
        for (place, line) in source.code() {
            complaints.extend(impurity(line).map(|why| format!("{place}: {why}")));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn sled_is_named_in_one_file_alone() {
    let names = |source: &&Source| source.code().any(|(_, line)| line.contains("sled::"));
    let found: Vec<_> = sources("src").iter().filter(names).map(Source::place).collect();
    assert_eq!(found, [TREE]);
}

#[test]
fn every_file_says_what_it_is_and_stays_small() {
    for source in sources("src").iter().chain(&sources("tests")) {
        let place = source.place();
        assert!(source.text.starts_with("//! "), "{place}: its first line does not say what it is");
        let body = source.text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let lines = body.lines().count();
        assert!(lines <= LINES_MAX, "{place}: {lines} lines; it is two files");
    }
}

#[test]
fn the_watch_sees_what_it_should() {
    for (room, line) in [
        ("kernel", "use crate::ports::Clock;"),
        ("store", "    let run = crate::engine::Engine::new();"),
        ("engine", "use crate::store::open;"),
        ("ports", "pub use super::engine::Engine;"),
        ("api", "use crate::app::Config;"),
        ("agents", "use crate::{kernel::Run, engine::Engine};"),
        ("wire", "use crate::kernel::Run;"),
        ("failpoint", "use crate::kernel::Run;"),
    ] {
        assert_eq!(climbs(room, line).count(), 1, "{room}: {line}");
    }
    for (room, line) in [
        ("kernel", "use crate::kernel::run::Run;"),
        ("kernel", "use super::engine_like;"),
        ("api", "use crate::engine::Engine;"),
        ("store", "crate::failpoint::here(\"append\");"),
        ("cli", "use crate::app::run;"),
    ] {
        assert_eq!(climbs(room, line).next(), None, "{room}: {line}");
    }
    for line in [
        "        _ => None,",
        "match x { A | _ => 1 }",
        "async fn f() {}",
        "let at = Instant::now();",
    ] {
        assert!(impurity(line).is_some(), "{line}");
    }
    for line in ["        &_ => None,", "        Some(_) | None => 1,", "let instant = 3;"] {
        assert_eq!(impurity(line), None, "{line}");
    }
}

/// Why `line` may not stand in `room`, once for every reach upstairs or next door.
fn climbs<'a>(room: &'a str, line: &'a str) -> impl Iterator<Item = String> + 'a {
    let below =
        HOUSE.iter().find(|(name, _)| *name == room).map_or(&[] as &[&str], |(_, rooms)| rooms);
    let veiled = VEILED.iter().filter(|form| line.contains(**form));
    let veiled = veiled.map(|form| format!("`{form}` hides the room that it reaches"));
    let reached = ["crate::", "super::"].into_iter().flat_map(|root| line.split(root).skip(1));
    let reached = reached.map(|rest| rest.split(|c: char| !is_word(c)).next().unwrap_or_default());
    let wrong =
        reached.filter(move |other| is_room(other) && *other != room && !below.contains(other));
    veiled.chain(wrong.map(move |other| format!("`{room}` may not use `{other}`")))
}

/// What in `line` the kernel may not say. An arm `_ =>` would swallow a new state in silence; on a
/// text, which has no list of states, it is written `&_ =>`.
fn impurity(line: &str) -> Option<String> {
    let word = WORLDLY.iter().find(|word| line.contains(**word));
    let before = |at: usize| line.get(..at).and_then(|before| before.chars().next_back());
    let is_arm = |at: usize| before(at).is_none_or(|c| c != '&' && !is_word(c));
    let swallows = line.match_indices("_ =>").any(|(at, _)| is_arm(at));
    match (word, swallows) {
        (Some(word), _) => Some(format!("the kernel may not say `{}`", word.trim())),
        (None, true) => Some("`_ =>` would swallow a new state; name what is meant".into()),
        (None, false) => None,
    }
}

fn is_room(name: &str) -> bool {
    HOUSE.iter().any(|(room, _)| *room == name)
}

pub(crate) fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

pub(crate) struct Source {
    /// From the package's folder.
    pub(crate) path: PathBuf,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn place(&self) -> String {
        self.path.display().to_string()
    }

    /// The room it stands in: the folder under `src`, or the file itself if it stands alone there.
    fn room(&self) -> Option<String> {
        let first = self.path.components().nth(1)?.as_os_str().to_str()?;
        (!ROOTS.contains(&first)).then(|| first.trim_end_matches(".rs").to_owned())
    }

    /// Its lines of code with their places; comments may speak of anything.
    pub(crate) fn code(&self) -> impl Iterator<Item = (String, &str)> {
        let lines = (1..).zip(self.text.lines());
        let code = lines.filter(|(_, line)| !line.trim_start().starts_with("//"));
        code.map(|(number, line)| (format!("{}:{number}", self.place()), line))
    }
}

/// Every Rust file under `folder`.
pub(crate) fn sources(folder: &str) -> Vec<Source> {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut folders = vec![package.join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder that can be read") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a text");
                let path = path.strip_prefix(package).expect("in the package").to_owned();
                found.push(Source { path, text });
            }
        }
    }
    found
}
