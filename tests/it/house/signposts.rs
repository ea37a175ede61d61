//! Signposts: every path that a page of ours names is there. What the pages say of it is not looked at.

use std::fs;
use std::path::Path;

/// What begins a path of the tree, where it stands between backticks.
const ROOMS: &[&str] = &["src/", "tests/", "proto/", "docs/", "examples/", "packaging/"];

#[test]
fn every_path_that_a_page_names_is_there() {
    let mut pages: Vec<_> = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md"]
        .map(|name| Path::new(name).to_path_buf())
        .to_vec();
    for folder in ["docs", "docs/decisions"] {
        pages.extend(fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()));
    }
    let (mut looked, mut gone) = (0, Vec::new());
    for page in pages.iter().filter(|page| page.extension().is_some_and(|kind| kind == "md")) {
        let text = fs::read_to_string(page).unwrap();
        for named in text.split('`').skip(1).step_by(2).flat_map(paths) {
            looked += 1;
            if !Path::new(&named).exists() {
                gone.push(format!("{}: {named}", page.display()));
            }
        }
    }
    assert!(gone.is_empty(), "{gone:#?}");
    assert!(looked > 40, "hardly anything is looked at: {looked}");
}

/// The paths that a literal names, if it names any: `src/a/{b,c}.rs` is two.
fn paths(literal: &str) -> Vec<String> {
    let is_path = ROOMS.iter().any(|room| literal.starts_with(room))
        && !literal.contains(['*', ' ', '\n', '<', '…']);
    if !is_path {
        return Vec::new();
    }
    let bare = literal.split(['#', ':']).next().unwrap_or_default();
    let parts = bare.split_once('{').and_then(|(before, rest)| {
        rest.split_once('}').map(|(names, after)| (before, names, after))
    });
    match parts {
        Some((before, names, after)) => {
            names.split(',').map(|name| format!("{before}{name}{after}")).collect()
        }
        None => vec![bare.to_owned()],
    }
}

#[test]
fn the_watch_sees_what_it_should() {
    assert_eq!(paths("src/a/{b,c}.rs"), ["src/a/b.rs", "src/a/c.rs"]);
    assert_eq!(paths("docs/x.md#there"), ["docs/x.md"]);
    assert!(paths("cargo test").is_empty() && paths("tests/**").is_empty());
}
