//! Served: decisions on a real server, and what a stranger can check of them afterwards: with the data directory,
//! with one file, or with a script that was written from `docs/evidence.md` alone (J13).

use std::fs;
use std::path::Path;
use std::process::Command;

use holdpoint::kernel::evidence::Hash;
use holdpoint::kernel::evidence::note::{SignedHead, VerifyKey};
use holdpoint::kernel::evidence::tree::{leaf_hash, led_to};
use holdpoint::wire::v1::GetReceiptRequest;
use holdpoint::wire::v1::workflow_event::Event;
use serde_json::{Value, json};
use tempfile::TempDir;
use tonic::Code;

use crate::support::listener::Listener;
use crate::support::server::{Server, Setup, answer_to, asked, drained, run, send, start_of};
use crate::terminal::cli::{Ended, holdpoint};

pub(crate) fn command(root: &Path, words: &[&str]) -> Ended {
    let data = root.join("data");
    holdpoint(root, &[words, &["--data", data.to_str().unwrap()]].concat(), "")
}

/// A run on whose payment somebody has decided.
pub(crate) async fn decided(server: &Server) -> String {
    let mut client = server.client().await;
    let events = run(&mut client, start_of("errand", "", "paper", "")).await;
    let request = asked(&events).unwrap().request_id;
    let events = send(&mut client, answer_to(&request, "approve", "")).await;
    events[0].run_id.clone()
}

/// A store that was stopped in good order after a decision, and the run.
pub(crate) async fn stopped(setup: Setup) -> String {
    let mut server = setup.start();
    let run = decided(&server).await;
    server.terminate();
    server.wait();
    run
}

/// What the script says that was written from `docs/evidence.md` alone.
pub(crate) fn scripted(root: &Path, file: &str) -> (Option<i32>, String) {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(here.join("target/clients/venv/bin/python"));
    command.arg(here.join("examples/verify.py")).arg(file).arg("data/audit.pub");
    let output = command.current_dir(root).output().unwrap();
    let told = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8_lossy(&told).into_owned())
}

pub(crate) fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_decision_is_proven_on_another_machine_with_the_public_key_alone() {
    let root = TempDir::new().unwrap();
    let run = stopped(Setup::new(root.path())).await;
    let looked = command(root.path(), &["verify", "--json"]).json();
    assert_eq!((&looked["ok"], &looked["waiting"]), (&true.into(), &0.into()), "{looked}");
    assert_eq!(looked["signed"], looked["leaves"], "all of it is signed: {looked}");

    let elsewhere = TempDir::new().unwrap();
    let (bundle, key) = (elsewhere.path().join("run.json"), elsewhere.path().join("audit.pub"));
    let exported = command(root.path(), &["export", bundle.to_str().unwrap(), "--run", &run]);
    assert_eq!(exported.code, 0, "{}", exported.err);
    fs::copy(root.path().join("data/audit.pub"), &key).unwrap();
    drop(root);
    let verify = |file: &Path, key: &Path| {
        let words = ["verify", file.to_str().unwrap(), "--key", key.to_str().unwrap(), "--json"];
        holdpoint(elsewhere.path(), &words, "")
    };
    let told = verify(&bundle, &key);
    assert_eq!(told.code, 0, "{}{}", told.out, told.err);
    let told = told.json();
    assert_eq!((&told["run"], &told["unproven"]), (&Value::from(run.clone()), &0.into()));
    assert!(told["proven"].as_u64().unwrap() >= 2, "a decision and an end: {told}");
    assert!(told["signed_by"].as_str().unwrap().starts_with("holdpoint/"), "{told}");

    // What a script says that was written from the page alone.
    let python = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/clients/venv/bin/python");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/verify.py");
    let scripted = |file: &Path| {
        let output = Command::new(&python).arg(&script).arg(file).arg(&key).output().unwrap();
        (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (is_ok, why) = scripted(&bundle);
    assert!(is_ok, "{why}");
    let refuses = |file: &Path, what: &str| {
        let (is_ok, why) = scripted(file);
        assert!(!is_ok && why.starts_with("wrong: ") && why.lines().count() == 1, "{what}: {why}");
    };

    // Each change of it is found by both, and ours names the place.
    let whole = text(&bundle);
    let forged = elsewhere.path().join("forged.json");
    let (definition, journal) = whole.split_once("\"entries\"").unwrap();
    for (from, to) in [
        (r#"\"by\":\"local\""#, r#"\"by\":\"eve\""#),
        (r#"\"approve\""#, r#"\"reject\""#),
        (r#"\"order\":\"12345\""#, r#"\"order\":\"99999\""#),
    ] {
        assert!(journal.contains(from), "{from}");
        let changed = journal.replacen(from, to, 1);
        fs::write(&forged, format!("{definition}\"entries\"{changed}")).unwrap();
        let found = verify(&forged, &key);
        assert_eq!(found.code, 1, "{from}: {}", found.out);
        let finding = found.json()["finding"].as_str().unwrap().to_owned();
        assert!(finding.starts_with(&format!("run `{run}` at version ")), "{from}: {finding}");
        refuses(&forged, from);
    }
    fs::write(&forged, whole.replacen("errand", "orders", 1)).unwrap();
    assert_eq!(verify(&forged, &key).code, 1, "another definition");
    refuses(&forged, "another definition");
    let mut leafless: Value = serde_json::from_str(&whole).unwrap();
    leafless["leaves"] = json!([]);
    fs::write(&forged, leafless.to_string()).unwrap();
    assert_eq!(verify(&forged, &key).code, 1, "decisions that no leaf speaks of");
    refuses(&forged, "decisions that no leaf speaks of");
    fs::write(&forged, &whole.as_bytes()[..whole.len() / 2]).unwrap();
    let cut = verify(&forged, &key);
    assert_eq!(cut.code, 1);
    assert!(cut.json()["finding"].as_str().unwrap().contains("cut short"), "{}", cut.out);
    let stranger = VerifyKey::new("holdpoint/stranger", [7; 32]).unwrap();
    fs::write(&key, stranger.text()).unwrap();
    let foreign = verify(&bundle, &key).json();
    assert!(foreign["finding"].as_str().unwrap().contains("did not sign it"), "{foreign}");
    fs::write(&key, "no key").unwrap();
    let wrong = verify(&bundle, &key);
    let told = ["--key", "no blank and no `+`"];
    assert!(wrong.code == 1 && told.iter().all(|it| wrong.err.contains(it)), "{}", wrong.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heads_are_handed_to_the_listener_and_a_store_is_held_against_them() {
    let listener = Listener::start(|_| (200, "{}".into()));
    let root = TempDir::new().unwrap();
    let setup = Setup::new(root.path())
        .arg(&format!("--webhook-url={}/hook", listener.url()))
        .arg("--audit-seconds=1")
        .env("HOLDPOINT_WEBHOOK_SECRET", "s3cret");
    let mut server = setup.start();
    decided(&server).await;
    let note = loop {
        let heard = listener.next().json();
        if heard["type"] == "evidence.head" {
            break heard["note"].as_str().unwrap().to_owned();
        }
    };
    server.terminate();
    server.wait();
    let kept = root.path().join("head.txt");
    fs::write(&kept, &note).unwrap();
    let told = command(root.path(), &["verify", "--since", kept.to_str().unwrap()]);
    assert_eq!(told.code, 0, "{}", told.out);
    let size = SignedHead::parse(&note).unwrap().head.size;
    assert!(told.out.contains(&format!("goes on from a head of {size} leaves")), "{}", told.out);
    let told = command(root.path(), &["verify", "--json", "--since", kept.to_str().unwrap()]);
    assert_eq!(told.json()["since"]["leaves"], size, "{}", told.out);
    // Another store, which never had that head.
    let other = TempDir::new().unwrap();
    stopped(Setup::new(other.path())).await;
    let told = command(other.path(), &["verify", "--since", kept.to_str().unwrap()]);
    assert_eq!(told.code, 1, "{}", told.out);
    assert!(told.out.contains("the head from outside"), "{}", told.out);
    fs::write(&kept, "no head").unwrap();
    let told = command(root.path(), &["verify", "--since", kept.to_str().unwrap()]);
    assert!(told.code == 1 && told.err.contains("--since"), "{}", told.err);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_that_hangs_dies_or_signs_rubbish_delays_proofs_and_no_decision() {
    let rubbish = format!("printf %s {}", "A".repeat(88));
    for signer in ["exec sleep 600", "exit 3", "echo '!'", &rubbish] {
        let root = TempDir::new().unwrap();
        let key = root.path().join("signer.pub");
        fs::write(&key, VerifyKey::new("outside", [1; 32]).unwrap().text()).unwrap();
        let setup = Setup::new(root.path())
            .arg(&format!("--audit-key={}", key.display()))
            .arg(&format!("--audit-signer={signer}"))
            .arg("--audit-seconds=1");
        let mut server = setup.start();
        decided(&server).await;
        while signer != "exec sleep 600"
            && !server.page("/readyz").1.contains("heads are not being signed")
        {}
        assert_eq!(server.page("/readyz").0, 200, "{signer}");
        let metrics = server.page("/metrics").1;
        assert!(!metrics.contains("holdpoint_heads_signed_total 1"), "{signer}: {metrics}");
        decided(&server).await;
        server.kill();
        let looked = command(root.path(), &["verify", "--json"]).json();
        assert_eq!(
            (&looked["ok"], &looked["signed"]),
            (&true.into(), &Value::Null),
            "{signer}: {looked}"
        );
        // Whoever brings a key is not told that all is well where it has signed nothing.
        let held = command(root.path(), &["verify", "--json", "--key", "signer.pub"]).json();
        assert_eq!(held["ok"], false, "{signer}: {held}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_look_that_was_cut_off_goes_on_and_looks_at_whatever_has_changed_since() {
    let root = TempDir::new().unwrap();
    let setup = Setup::new(root.path());
    for _ in 0..3 {
        stopped(setup.clone()).await;
    }
    let looked = || {
        let told = command(root.path(), &["verify", "--resume", "looked.txt", "--json"]);
        assert_eq!(told.code, 0, "{}{}", told.out, told.err);
        let told = told.json();
        (told["runs"].as_u64().unwrap(), told["skipped"].as_u64().unwrap(), told["events"].clone())
    };
    let (runs, skipped, events) = looked();
    assert_eq!((runs, skipped), (3, 0));
    assert_eq!(looked(), (3, 3, events.clone()), "all of them were seen, and count still");
    // Cut off in the middle of a line: that run is looked at again.
    let file = root.path().join("looked.txt");
    let kept = text(&file);
    fs::write(&file, kept.get(..kept.len() - 10).unwrap()).unwrap();
    assert_eq!(looked(), (3, 2, events.clone()));
    assert_eq!(looked(), (3, 3, events));
    // What has come since is looked at.
    stopped(setup).await;
    let (runs, skipped, _) = looked();
    assert_eq!((runs, skipped), (4, 3));
    // Another file is nobody's to write into.
    fs::write(&file, "dear diary\n").unwrap();
    let refused = command(root.path(), &["verify", "--resume", "looked.txt"]);
    assert!(refused.code != 0 && refused.err.contains("--resume"), "{}", refused.err);
    assert_eq!(text(&file), "dear diary\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_is_not_there_is_not_exported() {
    let root = TempDir::new().unwrap();
    stopped(Setup::new(root.path())).await;
    let file = root.path().join("none.json");
    let unknown = format!("run_{}", "0".repeat(26));
    for (run, why) in [(unknown.as_str(), "there is no run"), ("nonsense", "is no run")] {
        let told = command(root.path(), &["export", file.to_str().unwrap(), "--run", run]);
        assert!(told.code == 5 && told.err.contains(why), "{}", told.err);
        assert!(!file.exists(), "nothing is left behind");
    }
    let log = command(root.path(), &["audit", "--store"]);
    assert!(log.code == 0 && !log.out.contains("exported"), "nothing was: {}", log.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_run_that_was_pruned_receipt_and_export_name_its_tombstone() {
    let root = TempDir::new().unwrap();
    let run = stopped(Setup::new(root.path())).await;
    let pruned = command(root.path(), &["prune", "--older-than", "0m", "--json"]);
    assert_eq!(pruned.json()["pruned"], 1, "{pruned:?}");
    let run = run.as_str();
    for words in [&["export", "none.json", "--run", run][..], &["receipt", run, "7"]] {
        let told = command(root.path(), words);
        let is_told = told.err.contains("it was pruned") && told.err.contains("its tombstone ");
        assert!(told.code != 0 && is_told, "{words:?}: {told:?}");
    }
    assert!(!root.path().join("none.json").exists(), "nothing is left behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_definition_without_its_gate_under_the_old_digest_is_not_run() {
    let root = TempDir::new().unwrap();
    let mut server = Server::start(root.path());
    let mut client = server.client().await;
    let events = run(&mut client, start_of("errand", "", "paper", "")).await;
    let request = asked(&events).unwrap().request_id;
    server.terminate();
    server.wait();
    let db = crate::store::sled::raw(&root.path().join("data"));
    let mut changed = 0;
    for row in db.scan_prefix([holdpoint::store::keys::DEFINITION]) {
        let (key, record) = row.unwrap();
        // Those in chunks are other ones.
        let Ok(json) = holdpoint::store::codec::unseal(&key, &record) else { continue };
        let json = str::from_utf8(json).unwrap();
        if json.contains("\"name\":\"errand\"") {
            let record =
                holdpoint::store::codec::seal(&key, json.replace("12345", "99999").as_bytes());
            db.insert(&key, record).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 1);
    db.flush().unwrap();
    drop(db);
    // Without its file the definition comes from the store alone.
    fs::create_dir(root.path().join("flows")).unwrap();
    let server = Server::start(root.path());
    let refused = server.client().await.send_responses(answer_to(&request, "approve", "")).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::DataLoss, "{refused:?}");
    drop(server);
    let told = command(root.path(), &["doctor"]);
    assert!(told.code == 1 && told.out.contains("it is not what its digest says"), "{}", told.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_whoever_decides_is_given_a_receipt_at_once_and_its_proof_with_the_next_head() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).arg("--audit-seconds=1").start();
    let mut client = server.client().await;
    let events = run(&mut client, start_of("errand", "", "paper", "")).await;
    let request = asked(&events).unwrap().request_id;
    let reply = client.send_responses(answer_to(&request, "approve", "")).await.unwrap();
    let named = reply.metadata().get("x-holdpoint-receipt").expect("a decision has a receipt");
    let named = named.to_str().unwrap().to_owned();
    let told = drained(reply.into_inner()).await.unwrap();
    let received =
        told.iter().find(|event| matches!(event.event, Some(Event::ResponseReceived(_))));
    let (run_id, sequence) = (told[0].run_id.clone(), received.unwrap().sequence);
    let wish = GetReceiptRequest { run_id: run_id.clone(), sequence, leaf_hash: named.clone() };
    let at_once = client.get_receipt(wish).await.unwrap().into_inner().receipt.unwrap();
    let hash = leaf_hash(at_once.leaf.as_bytes());
    assert_eq!((&at_once.leaf_hash, &named), (&hash.to_string(), &named));
    assert!(at_once.leaf.contains("\"decision\""), "{}", at_once.leaf);

    let stranger = "0".repeat(64);
    let proven = loop {
        let wish = GetReceiptRequest { run_id: run_id.clone(), sequence, leaf_hash: named.clone() };
        let receipt = client.get_receipt(wish).await.unwrap().into_inner().receipt.unwrap();
        assert_eq!((&receipt.leaf, receipt.sequence), (&at_once.leaf, at_once.sequence));
        if !receipt.head.is_empty() {
            break receipt;
        }
    };
    let head = SignedHead::parse(&proven.head).unwrap();
    assert!(head.is_signed_by(&VerifyKey::parse(&proven.key).unwrap()));
    let proof: Vec<_> = proven.proof.iter().map(|hash| Hash::parse(hash).unwrap()).collect();
    let led = led_to(hash, proven.index.unwrap(), head.head.size, &proof);
    assert_eq!(led, Some(head.head.root));

    let (status, page) = server.page(&format!("/v1/runs/{run_id}/receipts/{sequence}"));
    let page: Value = serde_json::from_str(&page).unwrap();
    assert_eq!((status, &page["leaf_hash"]), (200, &named.clone().into()), "{page}");
    assert_eq!(server.page(&format!("/v1/runs/{run_id}/receipts/soon")).0, 400);
    assert_eq!(server.page(&format!("/console/runs/{run_id}/receipts/{sequence}")).0, 200);
    let (_, figures) = server.page("/console/oversight");
    assert!(figures.contains("1 decision;") && figures.contains("errand: approve"), "{figures}");
    let metrics = server.page("/metrics").1;
    assert!(metrics.contains("holdpoint_decisions_total{said=\"yes\"} 1"), "{metrics}");
    assert!(metrics.contains("holdpoint_decision_seconds_bucket{le=\"3600\"} 1"), "{metrics}");
    assert!(metrics.contains("holdpoint_requests_open{age=\"hour\"} 0"), "{metrics}");
    let (_, audit) = server.page("/console/audit");
    assert!(audit.contains(&format!("/console/runs/{run_id}/receipts/{sequence}")), "{audit}");
    for (run_id, sequence) in [(run_id.clone(), 1), (run_id.clone(), 10_000)] {
        let wish = GetReceiptRequest { run_id, sequence, leaf_hash: String::new() };
        let refused = client.get_receipt(wish).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{sequence}: {refused:?}");
    }
    let nobody = format!("run_{}", "0".repeat(26));
    let wish = GetReceiptRequest { run_id: nobody, sequence, leaf_hash: stranger };
    assert_eq!(client.get_receipt(wish).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_receipt_is_in_the_replies_of_every_door_and_is_checked_alone() {
    let root = TempDir::new().unwrap();
    let server = Setup::new(root.path()).arg("--audit-seconds=1").start();
    let http = crate::bridge::calls::Caller::new(server.address());
    let asked = http.start("errand", "paper");
    assert!(asked.get("receipt").is_none(), "nothing was decided: {asked}");
    let call = crate::bridge::calls::call_id(&asked);
    let body = json!({"model": "errand", "previous_response_id": asked["id"],
        "input": [crate::bridge::calls::output(&call, "{\"decision\": \"approve\"}")]});
    let answered = http.post("/v1/responses", &body).ok();
    let receipt = answered["receipt"].clone();
    assert!(receipt["leaf"].as_str().unwrap().contains("\"decision\""), "{answered}");

    // The page of what was answered has it too.
    let request = asked["workflow_waiting"]["requests"][0]["request_id"].as_str().unwrap();
    let page = server.page(&format!("/console/requests/{request}")).1;
    let (run, sequence) = (receipt["run_id"].as_str().unwrap(), &receipt["sequence"]);
    assert!(page.contains(receipt["leaf_hash"].as_str().unwrap()), "{page}");
    let download = format!("/console/requests/{request}/receipt");
    assert!(page.contains(&download), "{page}");
    let downloaded: Value = serde_json::from_str(&server.page(&download).1).unwrap();
    assert_eq!(downloaded["leaf"], receipt["leaf"]);

    // At once it is open; with the next head it is proven; whatever is changed in it is found.
    let file = root.path().join("receipt.json");
    let verify = |receipt: &Value| {
        fs::write(&file, receipt.to_string()).unwrap();
        let key = root.path().join("data/audit.pub");
        let words = ["verify", file.to_str().unwrap(), "--key", key.to_str().unwrap(), "--json"];
        let told = holdpoint(root.path(), &words, "");
        (told.code, told.json())
    };
    assert_eq!(verify(&receipt).0, 4, "{:?}", verify(&receipt).1);
    let (code, told) = scripted(root.path(), "receipt.json");
    assert!(code == Some(4) && told.contains("open: no signed head holds it yet"), "{told}");
    let proven = loop {
        let path = format!("/v1/runs/{run}/receipts/{sequence}");
        let told: Value = serde_json::from_str(&server.page(&path).1).unwrap();
        if !told["head"].is_null() {
            break told;
        }
    };
    assert_eq!(proven["leaf"], receipt["leaf"]);
    let (code, told) = verify(&proven);
    assert_eq!((code, &told["ok"]), (0, &true.into()), "{told}");
    let (code, told) = scripted(root.path(), "receipt.json");
    assert!(code == Some(0) && told.contains("is in the log"), "{told}");
    for (field, value) in [
        ("leaf", json!(proven["leaf"].as_str().unwrap().replace("decision", "vote"))),
        ("leaf_hash", json!("0".repeat(64))),
        ("index", json!(proven["index"].as_u64().unwrap() + 1)),
        ("head", json!(proven["head"].as_str().unwrap().replacen('\n', "\n1", 1))),
    ] {
        let mut forged = proven.clone();
        forged[field] = value;
        assert_eq!(verify(&forged).0, 1, "{field}");
        assert_ne!(scripted(root.path(), "receipt.json").0, Some(0), "{field}");
    }
}
