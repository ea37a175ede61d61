//! An import that is cut off leaves something that nobody takes for the whole of it.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::consent::stage::{LOCAL, Stage};
use crate::terminal::cli::holdpoint;

const FLOW: &str = "
name: letters
models: {default: {provider: scripted, script: [{say: Dear team}]}}
agents: {draft: {human_input: false}}
pattern: sequential
steps:
  - {agent: draft}
  - {id: decide, human: {kind: approval, prompt: Send it?}}
";

/// Imports, and dies after so many appends.
fn cut(root: &Path, after: u32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    let command = command.args(["import", "all.jsonl", "--data", "new"]).current_dir(root);
    let point = format!("store.after_import_append:{after}");
    let ended = command.env("HOLDPOINT_FAILPOINT", point).output().unwrap();
    assert_eq!(ended.status.code(), None, "it was to be killed: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_import_is_refused_by_whoever_would_serve_it_and_found_by_the_doctor() {
    let mut stage = Stage::open(FLOW).await;
    for number in 0..5 {
        stage.start(LOCAL, &format!("s{number}"), "Go.").await;
    }
    stage.server.kill();
    let root = stage.root.path();
    assert_eq!(holdpoint(root, &["export", "all.jsonl", "--data", "data"], "").code, 0);
    for after in [1, 4] {
        cut(root, after);
        let refused = |words: &[&str]| {
            let told = holdpoint(root, &[words, &["--data", "new"]].concat(), "");
            assert_ne!(told.code, 0, "{words:?}: {told:?}");
            assert!(told.err.contains("did not come to its end"), "{words:?}: {told:?}");
            let remedy = "`holdpoint import FILE --data 'new'` with the same file goes on with it";
            assert!(told.err.contains(remedy), "{words:?}: {told:?}");
        };
        refused(&["serve", "--listen", "127.0.0.1:0"]);
        refused(&["runs"]);
        refused(&["inbox"]);
        refused(&["export", "again.jsonl"]);
        refused(&["restored"]);
        refused(&["verify"]);
        refused(&["prune", "--older-than", "1d"]);
        let told = holdpoint(root, &["doctor", "--data", "new"], "");
        assert_ne!(told.code, 0, "{told:?}");
        assert!(told.out.contains("did not come to its end"), "{told:?}");
        assert!(told.out.contains("`mv 'new' 'new.half'`"), "{told:?}");
        fs::rename(root.join("new"), root.join(format!("new.half{after}"))).unwrap();
    }
    assert_eq!(holdpoint(root, &["import", "all.jsonl", "--data", "new"], "").code, 0);
    let told = holdpoint(root, &["runs", "--json", "--data", "new"], "").json();
    assert_eq!(told["runs"].as_array().map(Vec::len), Some(5), "{told}");
}
