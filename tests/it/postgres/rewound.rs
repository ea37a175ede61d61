//! A database that has gone back in time: which runs whoever lives knows to lack something, also where they were written
//! over since. And what lies beyond where a log is said to end.

use holdpoint::kernel::Millis;
use holdpoint::ports::{Journal, LostRun};
use holdpoint::store::verify::{Against, verify};
use tokio_postgres::Client;

use crate::support::kit::{Play, WORDS, definition, workflow};
use crate::support::postgres::Database;

/// Everything that is stored, as it was; who lives is not part of it.
pub(crate) struct Picture {
    client: Client,
    tables: Vec<String>,
}

impl Picture {
    pub(crate) async fn take(database: &Database) -> Self {
        let client = database.client().await;
        let sql = "select tablename::text from pg_tables where schemaname = 'holdpoint'
            and tablename not in ('meta', 'replicas')";
        let rows = client.query_typed(sql, &[]).await.unwrap();
        let tables: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
        for table in &tables {
            let saved = format!("create table public.{table} as select * from holdpoint.{table}");
            client.batch_execute(&saved).await.unwrap();
        }
        Self { client, tables }
    }

    /// Goes back to it, in one step.
    pub(crate) async fn go_back(&self) {
        self.go_back_after("").await;
    }

    /// The same, after this in the same step.
    pub(crate) async fn go_back_after(&self, first: &str) {
        let back = self.tables.iter().map(|table| {
            format!(
                "delete from holdpoint.{table}; insert into holdpoint.{table} select * from public.{table};"
            )
        });
        let back = back.collect::<String>();
        self.client.batch_execute(&format!("begin; {first}; {back} commit")).await.unwrap();
    }
}

async fn begun(journal: &dyn Journal, number: u64) -> Play {
    let (play, begin) = Play::begin(number, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    play
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_runs_that_were_written_over_since_are_known_by_whoever_knew_them_before() {
    let database = Database::made().await;
    let one = database.open().await.journal();
    let mut plays = Vec::new();
    for number in 1..=6 {
        plays.push(begun(&*one, number).await);
    }
    let picture = Picture::take(&database).await;
    let fresh = begun(&*one, 7).await;
    let mut again = plays.clone();
    let had: Vec<_> = plays[..4].iter().map(|play| play.run.version).collect();
    for play in &mut plays[..4] {
        one.append(play.speak(WORDS, 20)).await.unwrap();
    }
    let replicas = one.replicas().unwrap();
    assert_eq!(replicas.look_back().await.unwrap(), None);
    assert_eq!(replicas.lost().await.unwrap(), [], "nothing is, so far");
    picture.go_back().await;
    // Somebody who could not know: the first goes on as before, the second as far as it was, the third beyond that.
    let other = database.open().await.journal();
    for play in &mut again[1..3] {
        other.append(play.speak("Other words.", 30)).await.unwrap();
    }
    other.append(again[2].approve(40)).await.unwrap();
    // And whoever knew it looks at it before anybody has said so.
    for play in &plays {
        one.head(&play.run.id).await.unwrap();
    }
    let lost = |play: &Play, had, has| LostRun { run: play.run.id.clone(), had, has };
    let known = [
        lost(&plays[0], plays[0].run.version, had[0]),
        lost(&plays[1], plays[1].run.version, again[1].run.version),
        lost(&plays[2], plays[2].run.version, again[2].run.version),
        lost(&plays[3], plays[3].run.version, had[3]),
        lost(&fresh, fresh.run.version, 0),
    ];
    assert!(known[1].had == known[1].has && known[2].had < known[2].has, "{known:?}");
    assert_eq!(replicas.lost().await.unwrap(), known);
    assert!(replicas.look_back().await.unwrap().is_some());
    assert_eq!(replicas.lost().await.unwrap(), known, "for as long as it is not seen to");
    replicas.unlearn(None);
    assert_eq!(replicas.lost().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_what_others_wrote_or_forgot_as_they_should_is_not_lost() {
    let database = Database::made().await;
    let [one, other] = [database.open().await.journal(), database.open().await.journal()];
    let (digest, text) = definition(&workflow(None));
    one.put_definition(&digest, &text).await.unwrap();
    let mut play = Play::park(&*one, 1, "s", 10, &workflow(None)).await;
    let mut gone = Play::park(&*one, 2, "t", 10, &workflow(None)).await;
    gone.finish(&*one, 20).await;
    play.finish(&*other, 30).await;
    let replicas = one.replicas().unwrap();
    assert_eq!(replicas.lost().await.unwrap(), []);
    assert_eq!(other.prune(Millis(25), 10).await.unwrap(), 1);
    assert_eq!(replicas.lost().await.unwrap(), [], "a tombstone says so, waiting");
    other.evidence().sequence(100).await.unwrap();
    assert_eq!(replicas.lost().await.unwrap(), [], "and in its place");
}

/// What `verify` finds.
async fn findings(journal: &dyn Journal) -> Vec<String> {
    let verified = verify(journal, &Against::default(), &|_| {}).await.unwrap();
    verified.findings.iter().map(ToString::to_string).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn j13_leaves_and_entries_beyond_where_their_log_is_said_to_end_are_found() {
    let database = Database::made().await;
    let journal = database.open().await.journal();
    let (digest, text) = definition(&workflow(None));
    journal.put_definition(&digest, &text).await.unwrap();
    let mut play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    play.finish(&*journal, 20).await;
    let noting = holdpoint::ports::Noting::once(Millis(30), holdpoint::ports::Note::Restored);
    journal.note(noting).await.unwrap();
    journal.evidence().sequence(100).await.unwrap();
    assert_eq!(findings(&*journal).await, [""; 0]);
    let client = database.client().await;
    client.batch_execute("create table public.kept as select * from holdpoint.kept").await.unwrap();
    let back = "delete from holdpoint.kept; insert into holdpoint.kept select * from public.kept";
    for (harm, word) in [
        ("update holdpoint.kept set body = null where name = 'mtree'", "leaves lie beyond that"),
        ("delete from holdpoint.kept where name = 'mtree'", "where the log of leaves ends is gone"),
        ("update holdpoint.kept set body = null where name = 'mlog'", "entries lie beyond that"),
        ("delete from holdpoint.kept where name = 'mlog'", "own log begins and ends is gone"),
    ] {
        client.batch_execute(harm).await.unwrap();
        let told = findings(&*journal).await;
        assert!(told.iter().any(|line| line.contains(word)), "{harm}: {told:?}");
        client.batch_execute(back).await.unwrap();
        assert_eq!(findings(&*journal).await, [""; 0]);
    }
}
