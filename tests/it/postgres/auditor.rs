//! An auditor with a role of their own that may read and nothing else: what they are to look at can be looked at, and
//! nothing is changed by it.

use tempfile::TempDir;

use crate::support::postgres::Database;
use crate::support::server::{Setup, answer_to, asked, run, send, start_of};
use crate::terminal::cli::with_env;

/// What docs/postgres.md says that such a role is given.
fn granted(role: &str, database: &str) -> String {
    let page = include_str!("../../../docs/postgres.md");
    let (_, from) = page.split_once("create role auditor").expect("the page says it");
    let (rest, _) = from.split_once("```").expect("as a block");
    format!("create role auditor{rest}")
        .replace("auditor", role)
        .replace("on database holdpoint", &format!("on database {database}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_may_only_read_verifies_the_store_and_reads_its_trail_and_journals() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let role = format!("auditor_{}", std::process::id());
    let owner = database.client().await;
    owner.batch_execute(&granted(&role, &database.name)).await.unwrap();
    // The strictest there is: it cannot even begin to write.
    let strict = format!("alter role {role} set default_transaction_read_only = on");
    owner.batch_execute(&strict).await.unwrap();
    let server = Setup::new(root.path()).env("HOLDPOINT_STORE", &database.address()).start();
    let mut client = server.client().await;
    let told = run(&mut client, start_of("guarded", "", "Ship it.", "k")).await;
    let (id, request) = (told[0].run_id.clone(), asked(&told).unwrap().request_id);
    send(&mut client, answer_to(&request, "allow_once", "yes")).await;
    let living = "select count(*) from holdpoint.replicas";
    let before: i64 = owner.query_one(living, &[]).await.unwrap().get(0);

    let address = database.address().replacen("holdpoint@", &format!("{role}@"), 1);
    let ran = |words: &[&str]| {
        let words = [words, &["--data", "none"]].concat();
        with_env(root.path(), &words, "", &[("HOLDPOINT_STORE", &address)])
    };
    let look = |words: &[&str]| {
        let told = ran(words);
        assert_eq!(told.code, 0, "{words:?}: {told:?}");
        told.out
    };
    look(&["verify"]);
    assert!(look(&["doctor"]).contains("this role may only read"), "a note, and no damage");
    assert!(look(&["journal", &id, "--json"]).contains(&request), "the answer stands there");
    assert!(look(&["audit", "--json"]).contains(&request), "so it does in the trail");
    assert!(look(&["runs", "--json"]).contains(&id));
    assert!(!root.path().join("none").exists(), "whoever looks makes no directory");
    let after: i64 = owner.query_one(living, &[]).await.unwrap().get(0);
    assert_eq!(before, after, "no life was begun");

    for words in [&["prune", "--older-than", "1d"][..], &["restored"], &["export", "all.jsonl"]] {
        let told = ran(words);
        assert_ne!(told.code, 0, "{words:?}: {told:?}");
    }
    // One that is let begin to write, and may not.
    owner.batch_execute(&format!("alter role {role} reset all")).await.unwrap();
    for words in [&["keys", "add", "eve"][..], &["prune", "--older-than", "1d"]] {
        let told = ran(words);
        assert!(told.code != 0 && told.err.contains("this role may only read"), "{told:?}");
        assert!(!told.err.contains("password"), "{told:?}");
    }
    let told = ran(&["respond", &request, "allow_once"]);
    assert!(told.err.contains("worked on by servers alone"), "{told:?}");
    // Where functions are nobody's by themselves, whoever looks is told what lets them.
    let functions = "on all functions in schema holdpoint";
    let revoked =
        format!("revoke execute {functions} from public; revoke execute {functions} from {role}");
    owner.batch_execute(&revoked).await.unwrap();
    let grant = format!("`grant execute {functions} to {role}` lets this role look");
    for words in [&["verify"][..], &["doctor"], &["runs"], &["audit"]] {
        let told = ran(words);
        let said = format!("{}{}", told.out, told.err);
        assert!(told.code != 0 && said.contains(&grant), "{words:?}: {told:?}");
    }
    drop(server);
    let gone = format!("drop owned by {role}; drop role {role}");
    owner.batch_execute(&gone).await.unwrap();
}
