//! Transfer: what goes out comes in again, the same, and a file that is not whole does nothing.

use std::io::Cursor;
use std::time::Duration;

use holdpoint::kernel::{Millis, digest};
use holdpoint::ports::identity::Identity;
use holdpoint::ports::{Hook, HookRow, Journal, RunFilter, SessionRow, Settlement};
use holdpoint::store::transfer::{Counts, TransferError, export, import};

use crate::support::held::Held;
use crate::support::kit::{Bed, Play, WORDS, definition, key_row, run_id, session_id, workflow};

async fn filled(bed: &Bed) {
    bed.define().await;
    let journal = bed.journal();
    for number in 0..30 {
        let session = format!("s{}", number % 7);
        let workflow = workflow([None, Some(1_000)][usize::from(number % 2 == 0)]);
        let mut play = Play::park(&*journal, number, &session, 10 + number, &workflow).await;
        if number % 3 == 0 {
            play.finish(&*journal, 100).await;
        }
    }
    let (mut play, mut begin) = Play::begin(99, "t", "bob", 10);
    begin.key = Some(("k".into(), key_row(&begin.run)));
    journal.append(begin).await.unwrap();
    journal.append(play.speak(&WORDS.repeat(1_000), 20)).await.unwrap();
}

async fn exported(journal: &dyn Journal) -> (Vec<u8>, Counts) {
    let mut bytes = Vec::new();
    let counts = export(journal, &mut bytes, &mut |_| {}).await.unwrap();
    (bytes, counts)
}

async fn imported(journal: &dyn Journal, bytes: &[u8]) -> Result<Counts, TransferError> {
    let another = Identity::renewed("e".into());
    import(journal, &mut Cursor::new(bytes), &another, &mut |_| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_goes_out_comes_in_again() {
    let from = Bed::sled().await;
    filled(&from).await;
    let (bytes, counts) = exported(&*from.journal()).await;
    assert_eq!((counts.definitions, counts.runs), (2, 31));

    for to in [Bed::memory(), Bed::sled().await] {
        let journal = to.journal();
        assert_eq!(imported(&*journal, &bytes).await.unwrap(), counts);
        let report = journal.verify().await.unwrap();
        assert_eq!(report.damage, Vec::<String>::new());
        assert_eq!((report.runs, report.sessions, report.events), (31, 8, counts.events));
        let filter = RunFilter::default();
        let old = from.journal().heads(&filter, None, 100).await.unwrap();
        assert_eq!(journal.heads(&filter, None, 100).await.unwrap(), old);
        assert_eq!(
            journal.waiting(None, 100).await.unwrap(),
            from.journal().waiting(None, 100).await.unwrap()
        );
        assert_eq!(journal.key("bob", "k").await.unwrap(), Some(key_row(&run_id(99))));
        let (again, _) = exported(&*journal).await;
        assert!(again == bytes, "an export of an import is the same file");
        let refused = imported(&*journal, &bytes).await;
        assert!(matches!(refused, Err(TransferError::NotEmpty)), "{refused:?}");
    }
}

#[tokio::test]
async fn an_empty_store_makes_a_whole_file() {
    let (bytes, counts) = exported(&*Bed::memory().journal()).await;
    assert_eq!(counts, Counts::default());
    assert_eq!(imported(&*Bed::memory().journal(), &bytes).await.unwrap(), counts);
}

#[tokio::test]
async fn a_file_that_is_not_whole_does_nothing() {
    let from = Bed::memory();
    filled(&from).await;
    let (bytes, _) = exported(&*from.journal()).await;
    let text = String::from_utf8(bytes.clone()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let without = |line: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != line);
        kept.flat_map(|(_, line)| [*line, "\n"]).collect::<String>()
    };
    let entry = lines.iter().position(|line| line.starts_with("{\"append\"")).unwrap();
    let mut files = vec![
        ("empty", String::new()),
        ("something else", "once upon a time\n".into()),
        ("newer", text.replacen("\"version\":2", "\"version\":3", 1)),
        ("edited", text.replacen("The Foundry", "The Laundry", 1)),
        ("more at the end", format!("{text}{{\"append\":{{\"at\":1,\"events\":[]}}}}\n")),
        ("without its first line", without(0)),
        ("without a definition", without(1)),
        ("without an entry", without(entry)),
        ("without its last line", without(lines.len() - 1)),
    ];
    for cut in [text.len() / 3, text.len() / 2, text.len() - 1] {
        files.push(("cut", text.get(..cut).unwrap().into()));
    }
    let journal = Bed::memory().journal();
    for (name, file) in files {
        let refused = imported(&*journal, file.as_bytes()).await;
        assert!(refused.is_err(), "{name}");
        let page = journal.heads(&RunFilter::default(), None, 1).await.unwrap();
        assert!(page.rows.is_empty(), "{name}: something was written");
    }
    imported(&*journal, &bytes).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn j8_whoever_listens_and_whatever_they_are_owed_goes_along() {
    let from = Bed::sled().await;
    filled(&from).await;
    let (journal, run) = (from.journal(), run_id(50));
    let (mut play, mut begin) = Play::begin(50, "u", "bob", 10);
    begin.channels = vec!["webhook".into(), "push:h1".into()];
    journal.append(begin).await.unwrap();
    let mut more = play.speak("More of it.", 20);
    more.channels = vec!["webhook".into(), "push:h1".into()];
    journal.append(more).await.unwrap();
    let hook = Hook { id: "h1".into(), url: "https://example.org/".into(), ..Hook::default() };
    journal.put_hook(&HookRow { run: run.clone(), hook }).await.unwrap();
    journal.settle(&run, "push:h1", Settlement::Delivered { up_to: 2 }).await.unwrap();
    let empty = SessionRow::new(session_id("nothing-yet"), "ann", Millis(7));
    journal.put_session(None, empty.clone()).await.unwrap();
    let owed = async |journal: &dyn Journal| {
        let mut owed = journal.outbox_entries(Millis(u64::MAX), 100).await.unwrap();
        owed.sort_by(|one, other| one.channel.cmp(&other.channel));
        owed.into_iter().map(|one| (one.channel, one.after, one.tip)).collect::<Vec<_>>()
    };
    assert_eq!(owed(&*journal).await.len(), 2);

    let (bytes, counts) = exported(&*journal).await;
    assert_eq!((counts.hooks, counts.sessions), (1, 1));
    for to in [Bed::memory(), Bed::sled().await] {
        let into = to.journal();
        assert_eq!(imported(&*into, &bytes).await.unwrap(), counts);
        assert_eq!(into.hooks(&run).await.unwrap(), journal.hooks(&run).await.unwrap());
        assert_eq!(owed(&*into).await, owed(&*journal).await);
        let session = into.session(&empty.session).await.unwrap();
        assert_eq!(session, Some(empty.clone()));
        assert_eq!(into.verify().await.unwrap().damage, Vec::<String>::new());
        let known = Identity::of(&*into).await.unwrap().unwrap();
        assert!(!known.is_importing && known.is_renewed, "{known:?}");
    }
}

#[tokio::test]
async fn a_file_of_the_version_before_is_read() {
    let from = Bed::memory();
    filled(&from).await;
    let (bytes, counts) = exported(&*from.journal()).await;
    let text = String::from_utf8(bytes).unwrap().replacen("\"version\":2", "\"version\":1", 1);
    let end = text.trim_end().rfind('\n').unwrap() + 1;
    let (lines, _) = text.split_at(end);
    let sum = digest::of_bytes(lines.as_bytes());
    let (definitions, runs, events) = (counts.definitions, counts.runs, counts.events);
    let older = format!(
        "{lines}{{\"end\":{{\"definitions\":{definitions},\"runs\":{runs},\"events\":{events},\"sha256\":\"{sum}\"}}}}\n"
    );
    assert_eq!(imported(&*Bed::memory().journal(), older.as_bytes()).await.unwrap(), counts);
}

/// More runs than are written at a time, each of a definition of its own, which stands before it in the file, and with
/// listeners; and sessions without runs behind them.
async fn varied() -> (Vec<u8>, Counts) {
    let journal = Bed::memory().journal();
    for number in 0..200 {
        let workflow = workflow(Some(1_000 + number));
        let (digest, json) = definition(&workflow);
        journal.put_definition(&digest, &json).await.unwrap();
        let session = format!("s{number}");
        let mut play = Play::park(&*journal, number, &session, 10 + number, &workflow).await;
        if number % 3 == 0 {
            play.finish(&*journal, 500).await;
        }
        // So that many want a connection when the first of them are done.
        for id in ["h1", "h2"] {
            let hook =
                Hook { id: id.into(), url: "https://example.org/".into(), ..Hook::default() };
            journal.put_hook(&HookRow { run: run_id(number), hook }).await.unwrap();
        }
        let empty = SessionRow::new(session_id(&format!("nothing-{number}")), "ann", Millis(7));
        journal.put_session(None, empty).await.unwrap();
    }
    let (bytes, counts) = exported(&*journal).await;
    assert_eq!((counts.definitions, counts.runs), (200, 200));
    assert_eq!((counts.hooks, counts.sessions), (400, 200));
    (bytes, counts)
}

/// The import of that, which comes to its end.
async fn ends(journal: &dyn Journal) {
    let (bytes, counts) = varied().await;
    let importing = imported(journal, &bytes);
    let done = tokio::time::timeout(Duration::from_mins(1), importing).await;
    assert_eq!(done.expect("it waits for itself").unwrap(), counts);
    let report = journal.verify().await.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!((report.runs, report.events), (counts.runs, counts.events));
}

#[tokio::test]
async fn an_import_goes_on_while_its_own_runs_have_every_connection() {
    ends(&*Held::narrow()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_runs_of_many_definitions_go_into_a_database() {
    ends(&*Bed::postgres().await.journal()).await;
}
