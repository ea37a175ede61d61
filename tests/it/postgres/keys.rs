//! What servers over one database share beside the runs: keys, and the key that the log is signed with. What is taken away
//! at one place is gone at all of them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use holdpoint::app::keys::Keys;
use holdpoint::kernel::Role;
use holdpoint::wire::v1::workflow_event::Event;
use holdpoint::wire::v1::{ListRunsRequest, ReleaseStoreRequest};
use tempfile::TempDir;
use tonic::Code;

use crate::bridge::calls::Caller;
use crate::grpc::keys_served::signed_in;
use crate::support::postgres::Database;
use crate::support::server::{Server, Setup, answer_to, asked, flows, run, send, start_of};
use crate::terminal::cli::{holdpoint, with_env};

/// A bound on everything that is waited for here.
const PATIENCE: Duration = Duration::from_mins(3);

/// A server over the database, with a directory of its own.
fn setup(root: &Path, name: &str, address: &str) -> Setup {
    let own = root.join(name);
    fs::create_dir_all(&own).unwrap();
    Setup::new(&own).env("HOLDPOINT_STORE", address).flows(&flows())
}

fn keys(root: &Path, address: &str, words: &[&str]) -> crate::terminal::cli::Ended {
    let words = [&["keys"], words, &["--json", "--store", address, "--data", "none"]].concat();
    let told = holdpoint(root, &words, "");
    assert_eq!(told.code, 0, "{words:?}: {told:?}");
    told
}

fn added(root: &Path, address: &str, name: &str) -> String {
    keys(root, address, &["add", name]).json()["secret"].as_str().unwrap().to_owned()
}

/// A workflow that wants two of these to say yes.
fn bills(root: &Path, to: &str) {
    let flow = format!(
        "\
name: bill
models: {{default: {{provider: scripted, script: [{{say: Paid.}}]}}}}
agents: {{clerk: {{human_input: false}}}}
pattern: graph
graph:
  steps:
    - {{id: ok, human: {{kind: approval, prompt: Pay?, approvers: {{to: [{to}], need: 2}}}}}}
    - {{id: pay, agent: clerk}}
"
    );
    fs::create_dir(root.join("flows")).unwrap();
    fs::write(root.join("flows/bill.yaml"), flow).unwrap();
}

/// What a server says to whoever shows that key.
async fn says(server: &Server, key: &str) -> Option<Code> {
    let mut client = server.client_with(key).await;
    client.list_runs(ListRunsRequest::default()).await.err().map(|status| status.code())
}

/// Waits until it says that.
async fn until(server: &Server, key: &str, wanted: Option<Code>) {
    let waited = tokio::time::timeout(PATIENCE, async {
        let mut every = tokio::time::interval(Duration::from_millis(100));
        while says(server, key).await != wanted {
            every.tick().await;
        }
    });
    assert!(waited.await.is_ok(), "{wanted:?}: {}", server.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_made_or_removed_anywhere_counts_at_every_server() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let (ada, bob) = (added(root, &address, "ada"), added(root, &address, "bob"));
    let servers = ["one", "two"].map(|name| setup(root, name, &address).start());
    for server in &servers {
        assert_eq!(says(server, &ada).await, None);
        assert_eq!(says(server, "hp_none").await, Some(Code::Unauthenticated));
    }
    keys(root, &address, &["remove", "ada"]);
    for server in &servers {
        until(server, &ada, Some(Code::Unauthenticated)).await;
        assert_eq!(says(server, &bob).await, None, "nobody else's is gone");
    }
    let eve = added(root, &address, "eve");
    until(&servers[1], &eve, None).await;
    // One that was removed and comes again is asked for by all, too; and the last one leaves no door open.
    for name in ["bob", "eve"] {
        keys(root, &address, &["remove", name]);
    }
    for server in &servers {
        until(server, &eve, Some(Code::Unauthenticated)).await;
    }
    // The command says so, and a server that saw it before it did, or does not know of the other yet. The first keys have
    // come, too.
    let words = ["audit", "--store", "--data", "none"];
    let told = with_env(root, &words, "", &[("HOLDPOINT_STORE", &address)]);
    assert_eq!(told.code, 0, "{told:?}");
    let told = told.out;
    for change in ["came: ada, bob", "went: ada"] {
        assert!((1..=3).contains(&told.matches(change).count()), "{change}: {told}");
    }
    let kept = "select string_agg(encode(body, 'escape'), '') from holdpoint.kept";
    let kept: String = database.client().await.query_one(kept, &[]).await.unwrap().get(0);
    assert!(!kept.contains(&ada) && !kept.contains("hp_"), "only hashes are there");
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_that_a_key_was_removed_is_noted_with_it_where_nobody_serves() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    added(root, &address, "ada");
    added(root, &address, "bob");
    drop(setup(root, "one", &address).start());
    keys(root, &address, &["remove", "bob"]);
    let words = ["audit", "--store", "--data", "none"];
    let told = with_env(root, &words, "", &[("HOLDPOINT_STORE", &address)]);
    assert_eq!(told.out.matches("went: bob").count(), 1, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_the_vote_of_somebody_whose_key_was_removed_counts_for_nothing_from_then_on() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    bills(root, "bob, cfo, eve");
    let [ada, bob, cfo, eve] = ["ada", "bob", "cfo", "eve"].map(|name| added(root, &address, name));
    let start = |name| setup(root, name, &address).flows(&root.join("flows")).start();
    let [one, two] = ["one", "two"].map(start);
    let begun = run(&mut one.client_with(&ada).await, start_of("bill", "", "Bill 7.", "")).await;
    let request = asked(&begun).unwrap().request_id;
    let yes = answer_to(&request, "approve", "");
    send(&mut one.client_with(&bob).await, yes.clone()).await;
    // Every server still has him among its people when the next word comes: it is the database that knows better.
    let mut hers = two.client_with(&eve).await;
    keys(root, &address, &["remove", "bob"]);
    let told = send(&mut hers, yes.clone()).await;
    let Some(Event::VoteReceived(vote)) = told.last().and_then(|it| it.event.clone()) else {
        panic!("one of two has said so: {told:?}");
    };
    assert_eq!((vote.principal.as_str(), &vote.void[..]), ("eve", &["bob".to_owned()][..]));
    let told = send(&mut one.client_with(&cfo).await, yes).await;
    let said = told.last().and_then(|it| it.event.clone());
    assert!(matches!(said, Some(Event::ResponseReceived(_))), "and now two have: {told:?}");

    // Somebody who is given another key has not said with it what was said with the one that is gone.
    let begun = run(&mut one.client_with(&ada).await, start_of("bill", "", "Bill 8.", "")).await;
    let yes = answer_to(&asked(&begun).unwrap().request_id, "approve", "");
    send(&mut two.client_with(&eve).await, yes.clone()).await;
    keys(root, &address, &["remove", "eve"]);
    keys(root, &address, &["add", "eve", "--again"]);
    let told = send(&mut one.client_with(&cfo).await, yes).await;
    let Some(Event::VoteReceived(vote)) = told.last().and_then(|it| it.event.clone()) else {
        panic!("one of two has said so: {told:?}");
    };
    assert_eq!((vote.principal.as_str(), &vote.void[..]), ("cfo", &["eve".to_owned()][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn k8_what_whoever_showed_no_key_has_said_counts_for_nothing_once_there_is_one() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    bills(root, "local, eve");
    let server = setup(root, "one", &address).flows(&root.join("flows")).start();
    let mut client = server.client().await;
    let begun = run(&mut client, start_of("bill", "", "Bill 7.", "")).await;
    let yes = answer_to(&asked(&begun).unwrap().request_id, "approve", "");
    send(&mut client, yes.clone()).await;
    let eve = added(root, &address, "eve");
    // Until then everybody is `local`, whatever they show, and nothing that they say is written.
    until(&server, "hp_none", Some(Code::Unauthenticated)).await;
    let told = send(&mut server.client_with(&eve).await, yes).await;
    let Some(Event::VoteReceived(vote)) = told.last().and_then(|it| it.event.clone()) else {
        panic!("one of two has said so: {told:?}");
    };
    assert_eq!((vote.principal.as_str(), &vote.void[..]), ("eve", &["local".to_owned()][..]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_keys_of_the_first_server_are_taken_along_and_a_named_file_stays_the_files() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    fs::create_dir_all(root.join("one/data")).unwrap();
    let told = holdpoint(root, &["keys", "add", "ada", "--json", "--data", "one/data"], "").json();
    let ada = told["secret"].as_str().unwrap().to_owned();
    let one = setup(root, "one", &address).start();
    let two = setup(root, "two", &address).start();
    assert_eq!(says(&one, &ada).await, None);
    assert_eq!(says(&two, &ada).await, None, "it is known where there is no file");
    assert_eq!(says(&two, "hp_none").await, Some(Code::Unauthenticated), "and asked for");
    // A server that keeps to a file of its own does so.
    let words = ["keys", "add", "bob", "--json", "--keys", "file.toml"];
    let told = holdpoint(root, &words, "").json();
    let bob = told["secret"].as_str().unwrap().to_owned();
    let path = root.join("file.toml");
    let three = setup(root, "three", &address).arg("--keys").arg(path.to_str().unwrap()).start();
    assert_eq!(says(&three, &bob).await, None);
    assert_eq!(says(&three, &ada).await, Some(Code::Unauthenticated));
    assert_eq!(says(&two, &bob).await, Some(Code::Unauthenticated));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_key_in_a_database_counts_what_only_local_could_answer() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let server = setup(root, "one", &address).start();
    let told = run(&mut server.client().await, start_of("approve_and_send", "", "Go.", "k")).await;
    let waits = asked(&told).unwrap().request_id;
    let told = keys(root, &address, &["add", "ada"]).json();
    assert_eq!(told["waits_for_local"]["count"], 1, "{told}");
    assert_eq!(told["waits_for_local"]["requests"][0], waits.as_str(), "{told}");
    let told = keys(root, &address, &["add", "bob"]).json();
    assert!(told["waits_for_local"].is_null(), "it was told: {told}");
    for name in ["ada", "bob"] {
        keys(root, &address, &["remove", name]);
    }
    let words = ["keys", "add", "eve", "--store", &address, "--data", "none"];
    let told = holdpoint(root, &words, "");
    assert!(told.err.contains("1 question waits for `local` alone"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_an_answer_without_a_key_that_is_being_written_when_the_first_is_made_does_not_count() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let server = setup(root, "one", &address).start();
    let mut client = server.client().await;
    let told = run(&mut client, start_of("approve_and_send", "", "Go.", "k")).await;
    let request = asked(&told).unwrap().request_id;
    let path = root.join("first.toml");
    Keys::add(&path, "first", Role::User, "").unwrap();
    let first = fs::read_to_string(path).unwrap();
    let elsewhere = database.open().await.journal();
    let (lock, look) = (database.client().await, database.client().await);
    let version = async || {
        let sql = "select version from holdpoint.runs";
        look.query_one(sql, &[]).await.unwrap().get::<_, i64>(0)
    };
    let before = version().await;
    // What is written to the run waits for its row: it was decided on, and is not compared yet.
    lock.batch_execute("begin; select from holdpoint.runs for update").await.unwrap();
    let answered = tokio::spawn(async move {
        let answered = client.send_responses(answer_to(&request, "approve", "yes")).await;
        answered.map(drop).map_err(|status| status.code())
    });
    let waits = "select count(*) from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and query like '%holdpoint.append(%'";
    while look.query_one(waits, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        tokio::task::yield_now().await;
    }
    let replicas = elsewhere.replicas().unwrap();
    assert!(replicas.remember_if("keys", None, &first).await.unwrap());
    lock.batch_execute("commit").await.unwrap();
    let answered = tokio::time::timeout(PATIENCE, answered).await.unwrap().unwrap();
    assert_eq!(answered, Err(Code::Unauthenticated), "{}", server.told());
    assert_eq!(version().await, before, "nothing was written");
}

/// Waits until it is so.
async fn until_so(what: &str, server: &Server, is_so: impl Fn() -> bool) {
    let waited = tokio::time::timeout(PATIENCE, async {
        while !is_so() {
            tokio::task::yield_now().await;
        }
    });
    assert!(waited.await.is_ok(), "{what}: {}", server.told());
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_a_key_that_was_removed_is_not_taken_again_where_the_database_went_back() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let ada = added(root, &address, "ada");
    let told = keys(root, &address, &["add", "chief", "--role", "admin"]).json();
    let chief = told["secret"].as_str().unwrap().to_owned();
    let server = setup(root, "one", &address).start();
    assert_eq!(says(&server, &ada).await, None);
    let client = database.client().await;
    let saved = "create table public.kept as select * from holdpoint.kept where name = 'mown.keys'";
    client.batch_execute(saved).await.unwrap();
    keys(root, &address, &["remove", "ada"]);
    until(&server, &ada, Some(Code::Unauthenticated)).await;

    let back = "update holdpoint.kept k set body = p.body from public.kept p where p.name = k.name";
    client.batch_execute(back).await.unwrap();
    let is_told = || server.told().contains("a key that was removed is in the database again");
    until_so("it is told", &server, is_told).await;
    assert_eq!(says(&server, &ada).await, Some(Code::Unauthenticated));
    assert_eq!(says(&server, &chief).await, None, "nobody else is locked out");
    // Held, it is as before; once somebody has let it go on, what the database has counts.
    client.batch_execute("update holdpoint.marks set mark = 0").await.unwrap();
    until_so("it is held", &server, || server.page("/readyz").1.contains("gone back in time"))
        .await;
    assert_eq!(says(&server, &ada).await, Some(Code::Unauthenticated));
    let mut grpc = server.client_with(&chief).await;
    grpc.release_store(ReleaseStoreRequest::default()).await.unwrap();
    until(&server, &ada, None).await;
}

fn audit_key(root: &Path, name: &str) -> PathBuf {
    let path = root.join(name);
    let made = Command::new("openssl")
        .args(["genpkey", "-algorithm", "ed25519", "-out"])
        .arg(&path)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    fs::set_permissions(&path, mode).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn one_key_signs_the_log_and_whoever_was_given_another_is_refused() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let with = |name: &str, key: &Path| {
        setup(root, name, &address).arg("--audit-key").arg(key.to_str().unwrap())
    };
    let (key, other) = (audit_key(root, "audit.pem"), audit_key(root, "other.pem"));
    let one = with("one", &key).start();
    let two = with("two", &key).start();
    let public = |name: &str| fs::read_to_string(root.join(name).join("data/audit.pub")).unwrap();
    assert_eq!(public("one"), public("two"));
    let refused = with("three", &other);
    assert!(refused.try_start().is_err());
    let told = refused.told();
    assert!(
        told.contains("signed with another key") && told.contains(public("one").trim()),
        "{told}"
    );
    // One that was given none serves, signs nothing, and says so.
    let four = setup(root, "four", &address).start();
    let says_so = || four.told().contains("this one signs nothing");
    until_so("it says that it signs nothing", &four, says_so).await;
    assert_eq!(public("one"), public("four"), "heads are checked with the key that signs");
    // What the console's passes are made with is alike where the key is, and in no table.
    let pass = |name: &str| fs::read(root.join(name).join("data/console.key")).unwrap();
    assert_eq!(pass("one"), pass("two"));
    assert_ne!(pass("one"), pass("four"));
    drop((one, two, four));
    // Handed over by the one before, all take the new one, and the old one signs no more.
    let before = key.to_str().unwrap();
    let next = with("five", &other).arg("--audit-key-before").arg(before).start();
    assert_ne!(public("five"), public("one"));
    assert!(with("six", &key).try_start().is_err());
    drop(next);
    let told = holdpoint(root, &["verify", "--store", &address, "--data", "none"], "");
    assert_eq!(told.code, 0, "{told:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_has_signed_in_stays_so_under_a_new_key_where_the_one_before_is_named() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    let ada = added(root, &address, "ada");
    let (key, other) = (audit_key(root, "audit.pem"), audit_key(root, "other.pem"));
    let (old, new) = (key.to_str().unwrap(), other.to_str().unwrap());
    let one = setup(root, "one", &address).arg("--audit-key").arg(old).start();
    let pass = signed_in(&one, &ada);
    let inbox = |server: &Server| {
        let caller = Caller::new(server.address()).with(&format!("Cookie: {pass}"));
        caller.get("/console/inbox").status
    };
    assert_eq!(inbox(&one), 200);
    let with = |name: &str| setup(root, name, &address).arg("--audit-key").arg(new);
    let two = with("two").arg("--audit-key-before").arg(old).start();
    // One that comes later, and the first one when its turn comes.
    let three = with("three").arg("--audit-key-before").arg(old).start();
    drop(one);
    let one = with("one").arg("--audit-key-before").arg(old).start();
    assert_eq!((inbox(&two), inbox(&three), inbox(&one)), (200, 200, 200));
    // Where it is not named, nothing that was made with it is good.
    let four = with("four").start();
    assert_ne!(inbox(&four), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn k7_where_the_keys_are_gone_nobody_is_let_in_without_one() {
    let (root, database) = (TempDir::new().unwrap(), Database::made().await);
    let (root, address) = (root.path(), database.address());
    // Without any from the first on, everybody on this machine is let in; that is said.
    drop(setup(root, "none", &address).start());
    added(root, &address, "ada");
    drop(setup(root, "one", &address).start());
    let client = database.client().await;
    for gone in ["keys remove", "delete from holdpoint.kept where name = 'mown.keys'"] {
        if gone == "keys remove" {
            keys(root, &address, &["remove", "ada"]);
        } else {
            added(root, &address, "bob");
            drop(setup(root, "one", &address).start());
            client.batch_execute(gone).await.unwrap();
        }
        let refused = setup(root, "one", &address);
        assert!(refused.try_start().is_err(), "{gone}");
        let told = refused.told();
        assert!(told.contains("ask for API keys") && told.contains("holdpoint keys add"), "{told}");
    }
    let cara = added(root, &address, "cara");
    assert_eq!(says(&setup(root, "one", &address).start(), &cara).await, None);
    // A file of its own that has none opens nothing either.
    fs::write(root.join("empty.toml"), "").unwrap();
    let refused =
        setup(root, "two", &address).arg(&format!("--keys={}", root.join("empty.toml").display()));
    assert!(refused.try_start().is_err());
    assert!(refused.told().contains("it has no keys"), "{}", refused.told());
}
