//! The examples of docs/workflows.md, as they stand there: each is written into a folder and run.

use std::fs;

use serde_json::json;
use tempfile::TempDir;

use crate::terminal::cli::{Ended, holdpoint};

/// The example that begins with this comment, in a folder of its own.
fn example(file: &str) -> TempDir {
    let docs = fs::read_to_string("docs/workflows.md").unwrap();
    let begins = format!("```yaml\n# {file}\n");
    let text = docs.split(&begins).nth(1).unwrap_or_else(|| panic!("{file} is not there"));
    let text = text.split("```").next().unwrap();
    let root = TempDir::new().unwrap();
    fs::create_dir(root.path().join("workflows")).unwrap();
    fs::write(root.path().join("workflows").join(file), text).unwrap();
    let checked = holdpoint(root.path(), &["check"], "");
    assert_eq!(checked.code, 0, "{checked:?}");
    root
}

fn output(root: &TempDir) -> serde_json::Value {
    let runs = holdpoint(root.path(), &["runs", "--json"], "").json();
    let id = runs["runs"][0]["run_id"].as_str().unwrap().to_owned();
    holdpoint(root.path(), &["runs", &id, "--json"], "").json()["output"].clone()
}

fn completes(ended: &Ended) {
    assert_eq!(ended.code, 0, "{ended:?}");
}

#[test]
fn the_example_of_a_question_with_fields_runs() {
    let root = example("trip.yaml");
    // Asked in the order of the file: guests, day, vegan.
    let lines = "30\n2026-03-31\n\n\n";
    completes(&holdpoint(root.path(), &["run", "trip", "Go.", "-i"], lines));
    assert_eq!(output(&root), json!("30 guests on 2026-03-31"));
}

#[test]
fn the_example_of_a_list_runs_as_its_page_says() {
    let root = example("invite.yaml");
    let guests = r#"{"guests": [{"name": "Ada"}, {"name": "Bob"}]}"#;
    let ended = holdpoint(root.path(), &["run", "invite", "--input-json", guests, "-i"], "y\n");
    completes(&ended);
    assert!(ended.out.contains("Invite 2 guests?"), "{ended:?}");
    assert_eq!(output(&root), json!(["invited Ada", "invited Bob"]));
}

#[test]
fn the_example_of_a_script_with_tool_calls_runs() {
    let root = example("lookup.yaml");
    let ended = holdpoint(root.path(), &["run", "lookup", "Where is my order?"], "");
    completes(&ended);
    for part in ["I look it up.", "find_order({\"id\":42})", "order 42: shipped", "It has shipped."]
    {
        assert!(ended.out.contains(part), "{part}: {}", ended.out);
    }
}
