//! An export goes into a database and out again: the same file both ways, and what is cut off on the way is refused by
//! whoever would serve it and gone on with by the same command.

use std::path::Path;
use std::process::Command;

use holdpoint::wire::v1::ListRequestsRequest;

use crate::consent::stage::{LOCAL, Stage};
use crate::support::postgres::Database;
use crate::support::server::{Setup, answer_to, forget_settings, names, send};
use crate::terminal::cli::{Ended, holdpoint};

const FLOW: &str = "
name: letters
models: {default: {provider: scripted, script: [{say: Dear team}]}}
agents: {draft: {human_input: false}}
pattern: sequential
steps:
  - {agent: draft}
  - {id: decide, human: {kind: approval, prompt: Send it?}}
";
const RUNS: usize = 5;

/// A store with runs that wait, exported to `all.jsonl` in the stage's folder.
async fn exported() -> Stage {
    let mut stage = Stage::open(FLOW).await;
    for number in 0..RUNS {
        stage.start(LOCAL, &format!("s{number}"), "Go.").await;
    }
    stage.server.kill();
    let told = holdpoint(stage.root.path(), &["export", "all.jsonl", "--data", "data"], "");
    assert_eq!(told.code, 0, "{told:?}");
    stage
}

fn into(root: &Path, words: &[&str], address: &str) -> Ended {
    holdpoint(root, &[words, &["--data", "new", "--store", address]].concat(), "")
}

/// Imports, and dies there.
fn cut(root: &Path, address: &str, point: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdpoint"));
    forget_settings(&mut command);
    let command = command.args(["import", "all.jsonl", "--data", "new", "--store", address]);
    let ended = command.current_dir(root).env("HOLDPOINT_FAILPOINT", point).output().unwrap();
    assert_eq!(ended.status.code(), None, "it was to be killed: {ended:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_export_goes_into_a_database_and_out_again_with_what_waits_for_people() {
    let stage = exported().await;
    let (root, database) = (stage.root.path(), Database::made().await);
    let address = database.address();
    let told = into(root, &["import", "all.jsonl"], &address);
    assert_eq!(told.code, 0, "{told:?}");
    let told = into(root, &["verify"], &address);
    assert_eq!(told.code, 0, "links, leaves and heads hold: {told:?}");
    let told = into(root, &["import", "all.jsonl"], &address);
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("not empty"), "{told:?}");

    // Out again: the same runs, and the same events in them.
    let told = into(root, &["export", "again.jsonl"], &address);
    assert_eq!(told.code, 0, "{told:?}");
    let lines = |name: &str| {
        let text = std::fs::read_to_string(root.join(name)).unwrap();
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(lines("all.jsonl"), lines("again.jsonl"));
    let told = holdpoint(root, &["import", "again.jsonl", "--data", "back"], "");
    assert_eq!(told.code, 0, "{told:?}");

    // It is another store: what was open is asked anew once somebody has looked, and answered there.
    let own = root.join("served");
    std::fs::create_dir_all(own.join("flows")).unwrap();
    std::fs::write(own.join("flows/letters.yaml"), FLOW).unwrap();
    let server = Setup::new(&own).env("HOLDPOINT_STORE", &address).start();
    let told = holdpoint(root, &["release", "--server", &server.url()], "");
    assert_eq!(told.code, 0, "{told:?}");
    let mut client = server.client().await;
    let open = client.list_requests(ListRequestsRequest::default()).await.unwrap().into_inner();
    assert_eq!(open.requests.len(), RUNS, "{open:?}");
    for request in &open.requests {
        let id = &request.request_id;
        let told = send(&mut client, answer_to(id, "approve", &format!("yes {id}"))).await;
        assert_eq!(names(&told).last(), Some(&"completed"));
    }
}

/// It speaks of the database, and of nothing that lies in the data directory.
fn says_half(told: &str) {
    assert!(told.contains("an import into the database at "), "{told}");
    assert!(told.contains("did not come to its end"), "{told}");
    assert!(told.contains("`holdpoint import FILE --store ADDRESS` with the same file"), "{told}");
    assert!(told.contains("drop the schema"), "{told}");
    assert!(!told.contains("--data") && !told.contains("`mv "), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_import_that_is_cut_off_is_refused_and_goes_on_with_the_same_file_alone() {
    let stage = exported().await;
    let (root, database) = (stage.root.path(), Database::made().await);
    let address = database.address();
    std::fs::copy(root.join("all.jsonl"), root.join("kept.jsonl")).unwrap();
    for point in ["store.after_import_append:1", "store.before_import_end:1"] {
        cut(root, &address, point);
        for words in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["export", "no.jsonl"],
            &["verify"],
            &["prune", "--older-than", "1d"],
            &["keys", "add", "kim"],
        ] {
            let told = into(root, words, &address);
            assert_ne!(told.code, 0, "{point}: {words:?}: {told:?}");
            says_half(&told.err);
        }
        let told = into(root, &["doctor"], &address);
        says_half(&told.out);
        // Whoever was killed is dead once its time is over.
        let over = "update holdpoint.replicas set until = until - interval '1 minute'";
        database.client().await.batch_execute(over).await.unwrap();
        // Of another file nothing is put beside it.
        let other = holdpoint(
            root,
            &["run", "letters", "Go.", "--data", "other", "--workflows", "flows"],
            "",
        );
        assert_ne!(other.code, 1, "{other:?}");
        let told = holdpoint(root, &["export", "other.jsonl", "--data", "other"], "");
        assert_eq!(told.code, 0, "{told:?}");
        let told = into(root, &["import", "other.jsonl"], &address);
        assert_ne!(told.code, 0, "{point}: {told:?}");
        assert!(told.err.contains("another file"), "{point}: {told:?}");
        std::fs::remove_file(root.join("other.jsonl")).unwrap();
    }
    // While somebody is at it, or may be, nobody else is.
    let now = "insert into holdpoint.replicas (incarnation, until, reads, writes)
        values (7, now() + interval '1 minute', 5, 5)";
    database.client().await.batch_execute(now).await.unwrap();
    let told = into(root, &["import", "kept.jsonl"], &address);
    assert_ne!(told.code, 0, "{told:?}");
    assert!(told.err.contains("run over this store"), "{told:?}");
    let gone = "delete from holdpoint.replicas";
    database.client().await.batch_execute(gone).await.unwrap();
    let told = into(root, &["import", "kept.jsonl"], &address);
    assert_eq!(told.code, 0, "{told:?}");
    let told = into(root, &["verify", "--json"], &address);
    assert_eq!(told.code, 0, "{told:?}");
    let told = into(root, &["export", "again.jsonl", "--json"], &address).json();
    assert_eq!(told["runs"], RUNS, "{told}");
}
