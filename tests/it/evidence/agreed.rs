//! Agreed: `holdpoint verify` and the script that was written from `docs/evidence.md` say the same of whatever is odd in a
//! file, and `verify` says who decided what in one that is not (J13).

use std::fs;
use std::path::Path;

use holdpoint::kernel::evidence::bundle::Bundle;
use holdpoint::kernel::evidence::leaf::Leaf;
use holdpoint::kernel::evidence::tree::leaf_hash;
use holdpoint::kernel::evidence::walk::{Entry, Walk};
use holdpoint::wire::v1::CancelRunRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::evidence::served::{command, scripted, stopped, text};
use crate::support::server::{Server, Setup, run, start_of};
use crate::terminal::cli::{Ended, holdpoint};

/// A bundle of a run that is over.
async fn exported(root: &Path) -> Value {
    let run = stopped(Setup::new(root)).await;
    let file = root.join("run.json");
    let told = command(root, &["export", file.to_str().unwrap(), "--run", &run]);
    assert_eq!(told.code, 0, "{}", told.err);
    serde_json::from_str(&text(&file)).unwrap()
}

/// A receipt of its first leaf.
fn receipt(bundle: &Value) -> Value {
    let leaf = &bundle["leaves"][0];
    let text = leaf["text"].as_str().unwrap();
    let (run, version) = {
        let leaf = Leaf::parse(text).unwrap();
        let (run, version) = leaf.version().unwrap();
        (run.to_string(), version)
    };
    json!({
        "run_id": run, "sequence": version, "leaf": text, "leaf_hash": leaf_hash(text.as_bytes()),
        "index": leaf["index"], "proof": leaf["proof"], "head": bundle["head"], "key": bundle["key"], "keys": [],
    })
}

fn looked(root: &Path, file: &str) -> Ended {
    fs::write(root.join("odd.json"), file).unwrap();
    holdpoint(root, &["verify", "odd.json", "--key", "data/audit.pub"], "")
}

/// What both say of a file.
fn both(root: &Path, file: &str, what: &str) -> i32 {
    let ours = looked(root, file);
    let (theirs, told) = scripted(root, "odd.json");
    assert_eq!(Some(ours.code), theirs, "{what}: {}{}\n{told}", ours.out, ours.err);
    ours.code
}

fn with(file: &Value, place: &str, value: Value) -> String {
    let mut odd = file.clone();
    let (within, name) = place.rsplit_once('/').unwrap();
    let within = odd.pointer_mut(within).unwrap();
    match within.as_array_mut() {
        Some(items) => items[name.parse::<usize>().unwrap()] = value,
        None => within[name] = value,
    }
    odd.to_string()
}

fn before(file: &Value, members: &str) -> String {
    file.to_string().replacen('{', &format!("{{{members},"), 1)
}

/// A head whose signature says the same in another spelling.
fn respelled(head: &str) -> String {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bare = head.trim_end().strip_suffix('=').unwrap();
    let last = bare.chars().last().unwrap();
    let next = DIGITS.chars().nth(DIGITS.find(last).unwrap() + 1).unwrap();
    format!("{}{next}=\n", bare.strip_suffix(last).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_verify_and_the_script_refuse_the_same_bundles() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let head = bundle["head"].as_str().unwrap();
    assert_eq!(both(root.path(), &bundle.to_string(), "the bundle itself"), 0);
    assert_eq!(both(root.path(), &with(&bundle, "/keys", json!([])), "no change of the key"), 0);
    assert_eq!(both(root.path(), &with(&bundle, "/entries/0/secrets", json!([])), "no secrets"), 0);
    assert_eq!(both(root.path(), &with(&bundle, "/head", Value::Null), "no head yet"), 4);
    let late = with(&bundle, "/leaves/0/index", Value::Null);
    assert_eq!(both(root.path(), &late, "a leaf without a place yet"), 4);
    let deep = format!("\"x\": {}{}", "[".repeat(130), "]".repeat(130));
    let wrong = [
        ("a member that is given twice", before(&bundle, "\"x\": 1, \"x\": 2")),
        ("a long number", before(&bundle, &format!("\"x\": {}", "9".repeat(5_000)))),
        ("a number beyond all", before(&bundle, &format!("\"x\": {}", "9".repeat(400)))),
        ("half a character", before(&bundle, r#""x": "\ud800""#)),
        ("a deep one", before(&bundle, &deep)),
        ("secrets", with(&bundle, "/entries/0/secrets", json!({}))),
        ("secrets", with(&bundle, "/entries/0/secrets", json!(""))),
        ("secrets", with(&bundle, "/entries/0/secrets", Value::Null)),
        ("keys", with(&bundle, "/keys", Value::Null)),
        ("keys", with(&bundle, "/keys", json!([["a", "b", ""]]))),
        ("keys", with(&bundle, "/keys", json!([{"before": "a", "key": "b", "signature": "!"}]))),
        ("key", with(&bundle, "/key", json!(7))),
        ("key", with(&bundle, "/key", json!([]))),
        ("head", with(&bundle, "/head", json!(""))),
        ("head", with(&bundle, "/head", json!([]))),
        ("a short line", with(&bundle, "/head", format!("{head}\u{2014} other AAAA\n").into())),
        ("rubbish", with(&bundle, "/head", format!("{head}rubbish\n").into())),
        ("base64", with(&bundle, "/head", respelled(head).into())),
        ("index", with(&bundle, "/leaves/0/index", json!(1e30))),
        ("index", with(&bundle, "/leaves/0/index", json!("0"))),
        ("proof", with(&bundle, "/leaves/0/proof", Value::Null)),
        ("leaves", with(&bundle, "/leaves/0", json!([bundle["leaves"][0]["text"]]))),
        ("a list", json!([bundle["format"], 1]).to_string()),
    ];
    for (what, file) in wrong {
        assert_eq!(both(root.path(), &file, what), 1, "{what}");
    }
    let mut late: Value = serde_json::from_str(&late).unwrap();
    late["leaves"][0]["proof"] = json!(["rubbish"]);
    assert_eq!(both(root.path(), &late.to_string(), "a proof that is none"), 1);
}

/// The same with one more append, chained as it should be by somebody who has no key.
fn longer(bundle: &Value, payload: &str) -> String {
    let mut longer: Bundle = serde_json::from_value(bundle.clone()).unwrap();
    let mut walk = Walk::new(&longer.run);
    for entry in &longer.entries {
        walk.take(entry).unwrap();
    }
    let (version, prev) = (walk.version() + 1, Some(walk.link()));
    let payload = payload.to_owned();
    longer.entries.push(Entry { version, prev, payload, secrets: Vec::new() });
    serde_json::to_string(&longer).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_verify_and_the_script_say_the_same_of_what_nobody_has_signed() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    for (payload, code) in [
        (r#"{"at":1,"events":["checkpoint_saved"]}"#, 4),
        (r#"{"at":1,"events":[{"reminded":{"ordinal":1}}]}"#, 4),
        (r#"{"at":1,"events":[{"reminded":{"ordinal":1.0}}]}"#, 4),
        (r#"{"at":1,"events":[{"reminded":{"ordinal":1e0}},"checkpoint_saved"]}"#, 4),
        (r#"{"at":1,"events":[{"of_a_later_build":{}}]}"#, 4),
        (r#"{"at":1.0,"events":["checkpoint_saved"]}"#, 1),
        (r#"{"at":1,"events":[{"answered":{"ordinal":1.0}}]}"#, 1),
        (r#"{"at":1,"events":["completed",{"reminded":{"ordinal":1.0}}]}"#, 1),
        (r#"{"at":1,"events":[["reminded"]]}"#, 1),
        (r#"{"at":1,"events":[{"reminded":{},"parked":{}}]}"#, 1),
        (r#"{"at":1,"events":[{"started":1.0}]}"#, 1),
        (r#"{"at":1,"events":[]}"#, 1),
    ] {
        assert_eq!(both(root.path(), &longer(&bundle, payload), payload), code, "{payload}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_receipt_is_of_the_run_and_the_sequence_of_its_leaf_and_says_nothing_twice() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let receipt = receipt(&bundle);
    assert_eq!(both(root.path(), &receipt.to_string(), "the receipt itself"), 0);
    let mut protobuf = receipt.clone();
    let members = protobuf.as_object_mut().unwrap();
    for (ours, theirs) in [("run_id", "runId"), ("leaf_hash", "leafHash")] {
        let value = members.remove(ours).unwrap();
        members.insert(theirs.into(), value);
    }
    for name in ["sequence", "index"] {
        members[name] = members[name].to_string().into();
    }
    assert_eq!(both(root.path(), &protobuf.to_string(), "as protobuf writes it"), 0);
    for none in [Value::Null, json!("")] {
        let open = with(&receipt, "/head", none);
        assert_eq!(both(root.path(), &open, "no head yet"), 4);
    }
    let other = format!("run_{}", "0".repeat(26));
    let next = receipt["sequence"].as_u64().unwrap() + 1;
    let wrong = [
        ("another run", with(&receipt, "/run_id", json!(other))),
        ("another run, as protobuf has it", with(&protobuf, "/runId", json!(other))),
        ("two runs", with(&receipt, "/runId", receipt["run_id"].clone())),
        ("another sequence", with(&receipt, "/sequence", json!(next))),
        ("another sequence, as a text", with(&receipt, "/sequence", json!(next.to_string()))),
        ("two leaves", before(&receipt, r#""leaf": "forged""#)),
        ("a member that is given twice", before(&receipt, r#""x": {"y": 1, "y": 1}"#)),
        ("a sign", with(&receipt, "/index", json!("+0"))),
        ("no head, and a head", with(&receipt, "/head", json!([]))),
        ("keys", with(&receipt, "/keys", Value::Null)),
        ("proof", with(&receipt, "/proof", Value::Null)),
    ];
    for (what, file) in wrong {
        assert_eq!(both(root.path(), &file, what), 1, "{what}");
    }
    let index = format!("\"index\":{}", receipt["index"]);
    let negative = receipt.to_string().replace(&index, "\"index\":-0");
    assert_ne!(negative, receipt.to_string());
    assert_eq!(both(root.path(), &negative, "less than nothing"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_verify_lists_who_decided_what_when_and_by_which_leaf() {
    let root = TempDir::new().unwrap();
    let bundle = exported(root.path()).await;
    let words = looked(root.path(), &bundle.to_string());
    assert_eq!(words.code, 0, "{}", words.out);
    let json = ["verify", "odd.json", "--key", "data/audit.pub", "--json"];
    let told = holdpoint(root.path(), &json, "").json();
    let [decision] = told["decisions"].as_array().unwrap().as_slice() else { panic!("{told}") };
    assert_eq!((&decision["by"], &decision["door"]), (&json!("local"), &json!("grpc")), "{told}");
    assert_eq!(decision["action"], "answered", "{told}");
    assert!(decision["value"].to_string().contains("approve"), "{told}");
    assert_eq!((&decision["proven"], &decision["copied"]), (&json!(true), &json!(false)), "{told}");
    // What was shown is computed again from what was asked.
    assert_eq!(decision["shown"].as_str().unwrap().len(), 64, "{told}");
    assert_eq!(decision["shown_is_asked"], true, "{told}");
    let leaf = bundle["leaves"].as_array().unwrap().iter().find(|leaf| {
        let version = format!("\"version\":{},", decision["leaf"]["version"]);
        leaf["text"].as_str().unwrap().contains(&version)
    });
    assert_eq!(decision["leaf"]["index"], leaf.unwrap()["index"], "{told}");
    for part in ["1 decision:", "local by grpc [proven, machine] answered \"", "leaf "] {
        assert!(words.out.contains(part), "{part}: {}", words.out);
    }
    let asked = decision["prompt"].as_str().unwrap();
    assert!(words.out.contains(asked) && words.out.contains("approve"), "{}", words.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_verify_says_who_cancelled_a_run_and_why() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let run_id = run(&mut client, start_of("errand", "", "paper", "")).await[0].run_id.clone();
    let reason = "too dear".to_owned();
    let cancel = CancelRunRequest { run_id: run_id.clone(), reason, ..Default::default() };
    client.cancel_run(cancel).await.unwrap();
    drop(client);
    server.terminate();
    server.wait();
    let file = root.path().join("run.json");
    let words = ["export", file.to_str().unwrap(), "--run", &run_id];
    assert_eq!(command(root.path(), &words).code, 0);
    let told = looked(root.path(), &text(&file));
    assert_eq!(told.code, 0, "{}", told.out);
    let said = "local by grpc [proven, machine] cancelled the run: \"too dear\" (version ";
    assert!(told.out.contains(said), "{}", told.out);
    let json = ["verify", "odd.json", "--key", "data/audit.pub", "--json"];
    let told = holdpoint(root.path(), &json, "").json();
    let cancelled = &told["cancelled"];
    assert_eq!((&cancelled["by"], &cancelled["reason"]), (&json!("local"), &json!("too dear")));
    assert_eq!(cancelled["proven"], true, "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_of_a_run_in_which_nobody_has_decided_anything_verify_says_what_is_not_proven() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let events = run(&mut server.client().await, start_of("errand", "", "paper", "")).await;
    server.terminate();
    server.wait();
    let file = root.path().join("run.json");
    let words = ["export", file.to_str().unwrap(), "--run", &events[0].run_id];
    assert_eq!(command(root.path(), &words).code, 0);
    let told = looked(root.path(), &text(&file));
    assert_eq!(told.code, 4, "{}", told.out);
    assert!(
        told.out.contains("NOT PROVEN: all ") && told.out.contains("has a leaf"),
        "{}",
        told.out
    );
}
