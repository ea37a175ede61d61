//! Evidence, its keys: who signs the heads of the log, and how one key comes after another without a break in what
//! can be proven. What they sign is `evidence_served`'s business.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use holdpoint::kernel::evidence::note::VerifyKey;
use holdpoint::wire::v1::GetReceiptRequest;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::evidence::put_back::{is_held_as_gone_back, is_signed, released};
use crate::evidence::served::{command, decided, scripted, stopped, text};
use crate::support::server::Setup;
use crate::terminal::cli::holdpoint;

#[test]
fn a_key_that_others_can_read_or_that_is_none_is_refused_with_the_remedy() {
    let root = TempDir::new().unwrap();
    let key = root.path().join("audit.pem");
    fs::write(&key, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    let data = root.path().join("data");
    let serve = |more: &[&str]| {
        let words = ["serve", "--listen", "127.0.0.1:0", "--data", data.to_str().unwrap()];
        holdpoint(root.path(), &[&words[..], more].concat(), "")
    };
    let named = format!("--audit-key={}", key.display());
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let open = serve(&[&named]);
    assert!(open.code == 1 && open.err.contains("others can read it"), "{}", open.err);
    assert!(open.err.contains("audit_key") && open.err.contains("chmod 600"), "{}", open.err);
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let none = serve(&[&named]);
    assert!(none.code == 1 && none.err.contains("expected an Ed25519 key"), "{}", none.err);
    let alone = serve(&["--audit-signer=true"]);
    assert!(alone.code == 2 && alone.err.contains("public key"), "{}", alone.err);
    let private = serve(&["--audit-signer=true", &named]);
    assert!(private.code == 1 && private.err.contains("name+id+key"), "{}", private.err);
}

#[test]
fn a_signer_without_its_public_key_is_told_where_that_line_comes_from() {
    let root = TempDir::new().unwrap();
    let key = root.path().join("signer.pub");
    let named = format!("--audit-key={}", key.display());
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", "data", "--audit-signer=true"];
    let serve = || holdpoint(root.path(), &[&words[..], &[&named]].concat(), "");
    let is_told = |what: &str| {
        let told = serve();
        assert_eq!(told.code, 1, "{what}: {}", told.err);
        assert!(told.err.contains("The signing key"), "{what}: {}", told.err);
        assert!(!told.err.contains("genpkey"), "{what}: {}", told.err);
    };
    is_told("there is none");
    fs::write(&key, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    is_told("it is a private one");
    // What the docs have for it, copied as it stands there, with the indentation of its list.
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/evidence.md");
    let docs = fs::read_to_string(docs).unwrap();
    let (_, rest) = docs.split_once("  ```sh\n  openssl pkey").unwrap();
    let script = format!("  openssl pkey{}", rest.split_once("  ```").unwrap().0);
    let made = format!("openssl genpkey -algorithm ed25519 -out signer.pem && {script}");
    let made = Command::new("bash").args(["-c", &made]).current_dir(root.path()).status();
    assert!(made.unwrap().success());
    let line = fs::read_to_string(&key).unwrap();
    let known = VerifyKey::parse(&line).expect("it is such a line");
    assert_eq!(known.text().trim_end(), line.trim_end());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_that_leads_to_no_key_makes_none_where_another_has_signed() {
    let root = TempDir::new().unwrap();
    let [key, slip, next] =
        ["audit.pem", "audti.pem", "next.pem"].map(|name| root.path().join(name));
    let named = |key: &Path| format!("--audit-key={}", key.display());
    let setup = Setup::new(root.path());
    stopped(setup.clone().arg(&named(&key))).await;
    assert!(key.exists(), "in a new store it is made where it is wanted");
    let words = ["serve", "--listen", "127.0.0.1:0", "--data", "data"];
    let told = holdpoint(root.path(), &[&words[..], &[&named(&slip)]].concat(), "");
    assert!(told.code == 1 && told.err.contains("there is no such file"), "{}", told.err);
    assert!(told.err.contains("audit_key_before") && !slip.exists(), "{}", told.err);
    // Whoever says which one came before means another.
    let changed = setup.clone().arg(&named(&next));
    stopped(changed.arg(&format!("--audit-key-before={}", key.display()))).await;
    assert!(next.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_whoever_has_the_first_key_checks_what_the_third_has_signed_and_a_break_is_named() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    let setup = Setup::new(root.path());
    let first_run = stopped(setup.clone()).await;
    let first = root.path().join("first.pub");
    fs::copy(data.join("audit.pub"), &first).unwrap();
    // Each key is put aside, and signs which comes after it.
    let mut run = first_run;
    for key in ["one.pem", "two.pem"] {
        let before = root.path().join(key);
        fs::rename(data.join("audit.key"), &before).unwrap();
        run = stopped(setup.clone().arg(&format!("--audit-key-before={}", before.display()))).await;
    }
    assert_ne!(text(&first), text(&data.join("audit.pub")));
    let with = |words: &[&str], key: &Path| {
        command(root.path(), &[words, &["--key", key.to_str().unwrap(), "--json"]].concat())
    };
    let looked = with(&["verify"], &first);
    assert_eq!(looked.code, 0, "{}{}", looked.out, looked.err);
    let now = text(&data.join("audit.pub"));
    assert_eq!(looked.json()["key"], now.trim(), "it says which key signs now");
    let file = root.path().join("run.json");
    let words = ["export", file.to_str().unwrap(), "--run", &run];
    assert_eq!(command(root.path(), &words).code, 0);
    let check = |name: &str| {
        let key = first.to_str().unwrap();
        holdpoint(root.path(), &["verify", name, "--key", key, "--json"], "")
    };
    assert_eq!(check("run.json").code, 0, "{}", check("run.json").out);
    fs::copy(&first, data.join("audit.pub")).unwrap();
    assert_eq!(
        scripted(root.path(), "run.json").0,
        Some(0),
        "{}",
        scripted(root.path(), "run.json").1
    );
    // A word that is not the key's own, or none at all, breaks the chain there.
    let mut bundle: Value = serde_json::from_str(&text(&file)).unwrap();
    let own = bundle["keys"][1]["signature"].take();
    for signature in [json!(""), bundle["keys"][0]["signature"].clone()] {
        bundle["keys"][1]["signature"] = signature;
        fs::write(root.path().join("forged.json"), bundle.to_string()).unwrap();
        let told = check("forged.json");
        let finding = told.json()["finding"].as_str().unwrap_or_default().to_owned();
        assert!(told.code == 1 && finding.contains("the chain of keys is broken"), "{finding}");
        assert_ne!(scripted(root.path(), "forged.json").0, Some(0));
    }
    assert!(own.as_str().is_some_and(|own| !own.is_empty()));
    // Where the key is gone, and none is named, nothing is signed with any other.
    fs::remove_file(data.join("audit.key")).unwrap();
    let mut server = setup.clone().start();
    decided(&server).await;
    assert!(server.page("/readyz").1.contains("heads are not being signed"));
    server.terminate();
    server.wait();
    assert!(!data.join("audit.key").exists());
    let whole = with(&["verify"], &first);
    assert_eq!(whole.code, 0, "{}", whole.out);
    // A key that was put in its place without a word of the one before.
    let (other, strange) = (TempDir::new().unwrap(), root.path().join("strange.pem"));
    let named = format!("--audit-key={}", strange.display());
    stopped(Setup::new(other.path()).arg(&named)).await;
    stopped(setup.arg(&named)).await;
    let broken = with(&["verify"], &first);
    assert_eq!(broken.code, 1);
    assert!(broken.out.contains("the chain of keys is broken"), "{}", broken.out);
    let own = command(root.path(), &["verify", "--json"]);
    assert_eq!(own.code, 0, "by itself it holds: {}", own.out);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_key_that_only_a_command_can_reach_signs_heads_and_which_key_comes_after_it() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    let setup = Setup::new(root.path());
    let (first, away) = (root.path().join("first.pub"), root.path().join("away.pem"));
    // No code of ours: another program makes the key, and signs what it is given.
    let script = "const c = require('crypto'), f = require('fs'); \
                  const form = { privateKeyEncoding: { type: 'pkcs8', format: 'pem' }, publicKeyEncoding: { type: 'spki', format: 'pem' } }; \
                  f.writeFileSync(process.argv[1], c.generateKeyPairSync('ed25519', form).privateKey, { mode: 0o600 })";
    let made = Command::new("node").args(["-e", script]).arg(&away).status().unwrap();
    assert!(made.success());
    stopped(setup.clone().arg(&format!("--audit-key={}", away.display()))).await;
    fs::copy(data.join("audit.pub"), &first).unwrap();
    let script = "const c = require('crypto'), f = require('fs'); \
                  console.log(c.sign(null, f.readFileSync(0), f.readFileSync(process.argv[1])).toString('base64'))";
    let command_line = format!("node -e \"{script}\" {}", away.display());
    let behind = setup.clone().arg(&format!("--audit-key={}", first.display()));
    stopped(behind.arg(&format!("--audit-signer={command_line}"))).await;
    let held = || {
        let key = first.to_str().unwrap();
        command(root.path(), &["verify", "--key", key, "--json"])
    };
    let outside = held();
    assert_eq!((outside.code, &outside.json()["key"]), (0, &text(&first).trim().into()));
    assert_eq!(outside.json()["signed"], outside.json()["leaves"], "{}", outside.out);
    // A key of our own comes after it, and the command signs that.
    let changed = setup.clone().arg(&format!("--audit-signer-before={command_line}"));
    let run_id = stopped(changed.clone()).await;
    // Over gRPC a receipt brings what leads from the key before to the one that signs.
    let server = changed.start();
    let mut client = server.client().await;
    let mut found = None;
    for sequence in 1..40 {
        let wish = GetReceiptRequest { run_id: run_id.clone(), sequence, ..Default::default() };
        found =
            found.or(client.get_receipt(wish).await.ok().and_then(|it| it.into_inner().receipt));
    }
    let receipt = found.unwrap();
    let [change] = &receipt.keys[..] else { panic!("{receipt:?}") };
    assert_eq!((change.before.as_str(), &change.key), (text(&first).trim(), &receipt.key));
    assert!(!change.signature.is_empty(), "{change:?}");
    drop(server);
    let own = held();
    assert_eq!(own.code, 0, "{}{}", own.out, own.err);
    assert_eq!(own.json()["key"], text(&data.join("audit.pub")).trim());
    assert_ne!(text(&first), text(&data.join("audit.pub")));
    // One that cannot sign with the key before breaks the chain, and is never believed.
    fs::remove_file(data.join("audit.key")).unwrap();
    stopped(setup.arg(&format!("--audit-signer-before={command_line}"))).await;
    let broken = held();
    assert!(
        broken.code == 1 && broken.out.contains("the chain of keys is broken"),
        "{}",
        broken.out
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_verify_names_the_key_that_signed_a_receipt_and_not_the_one_that_was_brought() {
    let root = TempDir::new().unwrap();
    let data = root.path().join("data");
    let setup = Setup::new(root.path());
    let run = stopped(setup.clone()).await;
    let (first, before) = (root.path().join("first.pub"), root.path().join("one.pem"));
    fs::copy(data.join("audit.pub"), &first).unwrap();
    fs::rename(data.join("audit.key"), &before).unwrap();
    stopped(setup.arg(&format!("--audit-key-before={}", before.display()))).await;
    assert_eq!(command(root.path(), &["export", "run.json", "--run", &run]).code, 0);
    let check = |file: &str| {
        let words = ["verify", file, "--key", first.to_str().unwrap(), "--json"];
        holdpoint(root.path(), &words, "").json()
    };
    let bundle = check("run.json");
    let version = bundle["decisions"][0]["version"].to_string();
    let receipt = command(root.path(), &["receipt", &run, &version]);
    fs::write(root.path().join("receipt.json"), &receipt.out).unwrap();
    let told = check("receipt.json");
    let now = text(&data.join("audit.pub"));
    assert_eq!((&told["ok"], &told["signed_by"]), (&json!(true), &json!(now.trim())), "{told}");
    assert_eq!(told["signed_by"], bundle["signed_by"]);
    assert_ne!(now, text(&first));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_no_key_is_named_the_leaves_that_one_has_signed_are_not_called_unsigned() {
    let root = TempDir::new().unwrap();
    let setup = Setup::new(root.path());
    let away = root.path().join("away.pem");
    stopped(setup.clone().arg(&format!("--audit-key={}", away.display()))).await;
    let mut server = setup.start();
    decided(&server).await;
    let page = server.page("/metrics").1;
    let figure = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name}: {page}")).parse::<u64>().unwrap()
    };
    server.terminate();
    server.wait();
    let looked = command(root.path(), &["verify", "--json"]).json();
    let signed = looked["signed"].as_u64().unwrap();
    assert!(signed > 0, "{looked}");
    assert_eq!(figure("holdpoint_leaves") - figure("holdpoint_leaves_unsigned"), signed);
}

/// A command that signs with a key as another program would, and its public key, for a log of the origin that the key was
/// first used for.
async fn signed_outside(root: &Path) -> (String, String) {
    let (away, public) = (root.join("away.pem"), root.join("kept/signer.pub"));
    let first = TempDir::new().unwrap();
    stopped(Setup::new(first.path()).arg(&format!("--audit-key={}", away.display()))).await;
    fs::create_dir_all(root.join("kept")).unwrap();
    fs::copy(first.path().join("data/audit.pub"), &public).unwrap();
    let script = "const c = require('crypto'), f = require('fs'); \
                  console.log(c.sign(null, f.readFileSync(0), f.readFileSync(process.argv[1])).toString('base64'))";
    let signer = format!("--audit-signer=node -e \"{script}\" {}", away.display());
    (signer, format!("--audit-key={}", public.display()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_log_that_was_written_anew_is_not_signed_by_a_signer_that_has_signed_another() {
    let root = TempDir::new().unwrap();
    let (signer, key) = signed_outside(root.path()).await;
    let setup = Setup::new(root.path()).arg("--audit-seconds=1").arg(&signer).arg(&key);
    stopped(setup.clone()).await;
    // Whoever can write to the disk exports, writes over what they like, and imports: another origin, and nothing else.
    let data = root.path().join("data");
    assert_eq!(command(root.path(), &["export", "all.jsonl"]).code, 0);
    let words = ["import", "all.jsonl", "--data", "forged"];
    assert_eq!(holdpoint(root.path(), &words, "").code, 0);
    fs::remove_dir_all(&data).unwrap();
    fs::rename(root.path().join("forged"), &data).unwrap();
    let server = setup.start();
    while !server.told().contains("and never this one") {
        tokio::task::yield_now().await;
    }
    assert!(!is_signed(&server));
    // Whoever means it to be another store says so.
    let kept = released(root.path(), &server, &[]);
    assert!(kept.out.contains("not forgotten: the head of "), "{kept:?}");
    let given_up = released(root.path(), &server, &["--forget-head"]);
    assert!(given_up.out.contains("\nforgotten: the head of "), "{given_up:?}");
    decided(&server).await;
    while !is_signed(&server) {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn j13_a_key_that_is_changed_knows_what_the_one_before_has_signed() {
    let root = TempDir::new().unwrap();
    let (data, copy) = (root.path().join("data"), root.path().join("copy"));
    let [first, next] = ["first.pem", "next.pem"].map(|name| root.path().join(name));
    let setup = Setup::new(root.path()).arg("--audit-seconds=1");
    let named = setup.clone().arg(&format!("--audit-key={}", first.display()));
    stopped(named.clone()).await;
    assert!(Command::new("cp").arg("-r").args([&data, &copy]).status().unwrap().success());
    stopped(named).await;
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();
    // Put back in silence; and then the key is changed, as somebody may who wants it signed again.
    let known = root.path().join("known.pub");
    fs::copy(data.join("audit.pub"), &known).unwrap();
    let changed = setup.arg(&format!("--audit-key={}", next.display()));
    let named = changed.clone().arg(&format!("--audit-key-before={}", first.display()));
    let mut server = named.start();
    is_held_as_gone_back(&server).await;
    released(root.path(), &server, &[]);
    decided(&server).await;
    assert!(server.page("/readyz").1.contains("heads are not being signed"));
    assert!(!next.with_added_extension("heads").exists(), "it has signed nothing");
    server.terminate();
    server.wait();
    // Nor has the one before said that this one comes after it: whoever has that believes nothing that it signs later.
    stopped(changed).await;
    let told = command(root.path(), &["verify", "--key", known.to_str().unwrap()]);
    assert!(told.code == 1 && told.out.contains("the chain of keys is broken"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_head_that_cannot_be_kept_beside_its_key_is_signed_and_said_so() {
    let root = TempDir::new().unwrap();
    let key = root.path().join("audit.pem");
    // Nothing can be put in the place of a directory.
    fs::create_dir_all(root.path().join("audit.pem.heads.new/in the way")).unwrap();
    let setup = Setup::new(root.path()).arg("--audit-seconds=1");
    let server = setup.arg(&format!("--audit-key={}", key.display())).start();
    decided(&server).await;
    while !server.page("/readyz").1.contains("not kept beside its key") {
        tokio::task::yield_now().await;
    }
    assert!(is_signed(&server));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_signer_that_never_stops_talking_is_heard_for_a_moment_and_ends_with_what_it_started() {
    let root = TempDir::new().unwrap();
    let (_, key) = signed_outside(root.path()).await;
    let talks = root.path().join("talks");
    let signer = format!("--audit-signer=(echo $$ > {}; yes) | cat", talks.display());
    let setup = Setup::new(root.path()).arg("--audit-seconds=1").arg(&signer).arg(&key);
    let server = setup.start();
    decided(&server).await;
    while !server.page("/readyz").1.contains("heads are not being signed") {
        tokio::task::yield_now().await;
    }
    assert!(server.told().contains("says more than 4096 bytes"), "{}", server.told());
}
