//! Bundles that somebody has added to: what no signed head holds is never called proven, whatever the file says it is.

use std::fs;
use std::path::Path;

use holdpoint::kernel::evidence::bundle::Bundle;
use holdpoint::kernel::evidence::walk::{Entry, Walk};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::evidence::served::{command, stopped, text};
use crate::support::server::Setup;
use crate::terminal::cli::{Ended, holdpoint};

/// A bundle of a run that is over, and the public key beside it.
async fn exported(root: &Path) -> Bundle {
    let run = stopped(Setup::new(root)).await;
    let file = root.join("run.json");
    let words = ["export", file.to_str().unwrap(), "--run", &run];
    assert_eq!(command(root, &words).code, 0);
    Bundle::read(&text(&file)).unwrap()
}

fn looked(root: &Path, file: &Value) -> Ended {
    fs::write(root.join("forged.json"), file.to_string()).unwrap();
    let key = root.join("data/audit.pub");
    holdpoint(root, &["verify", "forged.json", "--json", "--key", key.to_str().unwrap()], "")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_what_is_put_after_the_last_leaf_is_told_to_be_unproven() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let told = looked(root.path(), &serde_json::to_value(&bundle).unwrap());
    assert_eq!((told.code, &told.json()["unproven_events"]), (0, &json!(0)), "{}", told.out);
    assert_eq!(told.json()["over"], json!(true), "{}", told.out);
    // Whoever cuts the end off leaves something that is proven, and is told to be no end.
    let mut cut = bundle.clone();
    let end = cut.entries.pop().unwrap();
    cut.leaves.retain(|leaf| !leaf.text.contains(&format!("\"version\":{},", end.version)));
    let told = looked(root.path(), &serde_json::to_value(&cut).unwrap());
    assert_eq!((&told.json()["over"], &told.json()["finding"]), (&json!(false), &Value::Null));
    // Chained as it should be, by somebody who has no key; after the end, and in the place of the end.
    for kept in [bundle.entries.len(), bundle.entries.len() - 1] {
        let mut forged = bundle.clone();
        let gone = forged.entries.split_off(kept);
        let texts = gone.iter().map(|entry| format!("\"version\":{},", entry.version));
        for named in texts {
            forged.leaves.retain(|leaf| !leaf.text.contains(&named));
        }
        let mut walk = Walk::new(&forged.run);
        for entry in &forged.entries {
            walk.take(entry).unwrap();
        }
        forged.entries.push(Entry {
            version: walk.version() + 1,
            prev: Some(walk.link()),
            payload: r#"{"at":1,"events":["checkpoint_saved"]}"#.into(),
            secrets: Vec::new(),
        });
        let told = looked(root.path(), &serde_json::to_value(&forged).unwrap());
        assert_eq!((told.code, &told.json()["ok"]), (4, &json!(false)), "{}", told.out);
        assert!(told.json()["unproven_events"].as_u64() > Some(0), "{}", told.out);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_bundle_is_looked_at_as_one_whatever_receipt_it_carries() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let leaf = &bundle.leaves[0];
    let hash = holdpoint::kernel::evidence::tree::leaf_hash(leaf.text.as_bytes());
    let mut forged = serde_json::to_value(&bundle).unwrap();
    let decided = bundle.entries.iter().position(|it| it.payload.contains("approve")).unwrap();
    let other = bundle.entries[decided].payload.replace("approve", "reject");
    forged["entries"][decided]["payload"] = other.into();
    forged["leaf"] = leaf.text.clone().into();
    forged["leaf_hash"] = hash.to_string().into();
    forged["index"] = leaf.index.into();
    forged["proof"] = json!(leaf.proof);
    let told = looked(root.path(), &forged);
    assert_eq!((told.code, &told.json()["ok"]), (1, &json!(false)), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_leaf_that_is_there_twice_and_a_definition_that_says_one_thing_twice_are_found() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let mut twice = bundle.clone();
    twice.leaves.push(bundle.leaves[0].clone());
    let told = looked(root.path(), &serde_json::to_value(&twice).unwrap());
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("it is there twice"), "{}", told.out);
    // The last of two members of one name is what most programs read; some read the first.
    let mut twice = bundle.clone();
    twice.definition.json = bundle.definition.json.replacen('{', r#"{"name":"another","#, 1);
    let told = looked(root.path(), &serde_json::to_value(&twice).unwrap());
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("definition"), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_store_that_was_imported_says_when_its_log_began_and_which_heads_it_cannot_hold() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let here = root.path();
    assert_eq!(command(here, &["export", "all.jsonl"]).code, 0);
    assert_eq!(holdpoint(here, &["import", "all.jsonl", "--data", "new"], "").code, 0);
    assert_eq!(command(here, &["verify", "--json"]).json()["imported"], Value::Null);
    let words = ["verify", "--data", "new"];
    let told = holdpoint(here, &[&words[..], &["--json"]].concat(), "");
    let began = told.json()["imported"].as_str().unwrap().to_owned();
    let told = holdpoint(here, &words, "");
    let line = format!("its log began by an import, at {began}");
    assert!(told.code == 0 && told.out.contains(&line), "{told:?}");
    // A head of the log before is none of this one, and a key would not help.
    fs::write(here.join("head.txt"), bundle.head.unwrap()).unwrap();
    let told = holdpoint(here, &[&words[..], &["--since", "head.txt"]].concat(), "");
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.out.contains("hold the store that was exported against that one"), "{told:?}");
}
