//! Contract: the laws of the journal, J1 to J7, one body each, on every store. Those on who drives a run are in
//! `contract_holding`.

pub(crate) mod evidence;
pub(crate) mod folds;
pub(crate) mod holding;
pub(crate) mod log;
pub(crate) mod outbox;
pub(crate) mod prune;
pub(crate) mod questions;
pub(crate) mod sessions;
pub(crate) mod twins;

use std::sync::Arc;

use holdpoint::kernel::{Command, Event, Millis, Principal, RunId, replay};
use holdpoint::ports::{AppendError, Fault, Head, Journal, RunFilter, SessionRow};
use serde_json::json;

use crate::support::kit::{
    Bed, Play, WORDS, all, definition, key_row, laws, moved_to, run_id, session_id, workflow,
};

laws! {
    j1_all_events_of_an_append_are_recorded_or_none,
    j3_at_another_version_nothing_is_written_and_the_caller_is_told,
    j3_of_many_writers_at_one_version_one_wins,
    j5_a_journal_can_be_read_on_from_any_version,
    j7_the_inbox_lists_the_soonest_deadline_then_the_longest_waiting,
    j7_due_timers_are_listed_soonest_first,
    j7_runs_that_owe_something_are_listed,
    a_session_belongs_to_whoever_began_it,
    a_session_is_kept_as_it_was_last_put,
    a_key_stands_for_the_run_it_started,
    runs_are_listed_newest_first,
    sessions_are_listed_page_by_page,
    a_cursor_that_is_none_gives_an_empty_page,
    definitions_are_kept_as_they_were_first_put,
    large_values_come_back_whole,
    pruning_takes_all_that_hangs_on_a_run_and_nothing_else,
    a_store_that_is_well_says_so,
    an_append_that_contradicts_itself_is_written_nowhere,
    a_closed_store_takes_no_writes,
}

async fn j1_all_events_of_an_append_are_recorded_or_none(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let mut events = begin.events.clone();
    assert_eq!(journal.append(begin).await.unwrap().version, play.run.version);
    let spoken = play.speak(WORDS, 20);
    assert!(spoken.events.len() > 3, "several events in one append");
    events.extend(spoken.events.clone());
    journal.append(spoken).await.unwrap();

    let read = journal.read(&play.run.id, 0, 1_000).await.unwrap();
    assert_eq!(
        read.iter().map(|recorded| &recorded.event).collect::<Vec<_>>(),
        events.iter().map(|event| &**event).collect::<Vec<_>>()
    );
    assert_eq!(replay(&play.run.id, workflow(None), &read).unwrap(), play.run);
    assert_eq!(journal.head(&play.run.id).await.unwrap(), Some(Head::of(&play.run)));
    assert_eq!(journal.read(&run_id(2), 0, 10).await.unwrap(), Vec::new());
    assert_eq!(journal.head(&run_id(2)).await.unwrap(), None);
}

async fn j3_at_another_version_nothing_is_written_and_the_caller_is_told(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin.clone()).await.unwrap();
    assert_eq!(moved_to(journal.append(begin).await), play.run.version);
    let version = play.run.version;
    let spoken = play.speak(WORDS, 20);
    play.approve(30);
    let too_far = play.speak("Booked.", 40);
    assert_eq!(moved_to(journal.append(too_far).await), version);
    assert_eq!(journal.head(&play.run.id).await.unwrap().unwrap().version, version);
    let (_, elsewhere) = Play::begin(2, "s", "ann", 10);
    let mut unborn = spoken.clone();
    unborn.run = elsewhere.run.clone();
    unborn.head.run = elsewhere.run;
    assert_eq!(moved_to(journal.append(unborn).await), 0);
    journal.append(spoken).await.unwrap();
}

async fn j3_of_many_writers_at_one_version_one_wins(bed: Bed) {
    let journal = bed.journal();
    let (play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    let mut writers = Vec::new();
    for number in 0..32_u32 {
        let (mut play, journal) = (play.clone(), Arc::clone(&journal));
        let spoken = play.speak(&format!("words of writer {number}"), 20);
        writers.push(tokio::spawn(async move { (number, journal.append(spoken).await) }));
    }
    let mut winners = Vec::new();
    for writer in writers {
        match writer.await.unwrap() {
            (number, Ok(_)) => winners.push(number),
            (_, outcome) => assert!(moved_to(outcome) > play.run.version),
        }
    }
    assert_eq!(winners.len(), 1);
    let text = format!("words of writer {}", winners[0]);
    let read = journal.read(&play.run.id, play.run.version, 100).await.unwrap();
    let is_theirs = |event: &Event| matches!(event, Event::MessageAdded { message, .. } if message.text == text);
    assert_eq!(read.iter().filter(|recorded| is_theirs(&recorded.event)).count(), 1);
}

async fn j5_a_journal_can_be_read_on_from_any_version(bed: Bed) {
    let journal = bed.journal();
    let mut play = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    play.finish(&*journal, 20).await;
    // A neighbour on either side must not be read by mistake.
    Play::park(&*journal, 0, "s", 10, &workflow(None)).await;
    Play::park(&*journal, 2, "s", 10, &workflow(None)).await;
    let whole = journal.read(&play.run.id, 0, 1_000).await.unwrap();
    let versions: Vec<_> = whole.iter().map(|recorded| recorded.version).collect();
    assert_eq!(versions, (1..=play.run.version).collect::<Vec<_>>());
    for after in 0..whole.len() + 2 {
        for limit in [0, 1, 2, 3, 100] {
            let read = journal.read(&play.run.id, after as u64, limit).await.unwrap();
            let expected: Vec<_> = whole.iter().skip(after).take(limit).cloned().collect();
            assert_eq!(read, expected, "after {after}, at most {limit}");
        }
    }
    assert_eq!(journal.read(&play.run.id, u64::MAX, 5).await.unwrap(), Vec::new());
}

async fn j7_the_inbox_lists_the_soonest_deadline_then_the_longest_waiting(bed: Bed) {
    let journal = bed.journal();
    // Deadlines: none, none, 1020, 5010, 1015.
    let asked = [
        (1, 30, None),
        (2, 10, None),
        (3, 20, Some(1_000)),
        (4, 10, Some(5_000)),
        (5, 15, Some(1_000)),
    ];
    let mut plays = Vec::new();
    for (number, at, deadline) in asked {
        plays.push(Play::park(&*journal, number, "s", at, &workflow(deadline)).await);
    }
    for limit in [1, 2, 5, 10] {
        assert_eq!(inbox(&*journal, limit).await, [5, 3, 4, 2, 1].map(run_id), "pages of {limit}");
    }
    let head = journal.waiting(None, 1).await.unwrap().rows.remove(0);
    assert_eq!(head.questions[0].prompt, "Shall we book it?");
    let approved = plays[2].approve(40);
    journal.append(approved).await.unwrap();
    assert_eq!(inbox(&*journal, 3).await, [5, 4, 2, 1].map(run_id));
}

async fn inbox(journal: &dyn Journal, limit: usize) -> Vec<RunId> {
    let heads = all(limit, |cursor, limit| async move {
        journal.waiting(cursor.as_deref(), limit).await.unwrap()
    });
    heads.await.into_iter().map(|head| head.run).collect()
}

async fn j7_due_timers_are_listed_soonest_first(bed: Bed) {
    let journal = bed.journal();
    assert_eq!(journal.next_due().await.unwrap(), None);
    let mut plays = Vec::new();
    for (number, at, deadline) in [(1, 30, Some(1_000)), (2, 10, None), (3, 20, Some(1_000))] {
        plays.push(Play::park(&*journal, number, "s", at, &workflow(deadline)).await);
    }
    assert_eq!(journal.next_due().await.unwrap(), Some(Millis(1_020)));
    assert_eq!(journal.due(Millis(1_019), 10).await.unwrap(), Vec::new());
    let both = vec![(Millis(1_020), run_id(3)), (Millis(1_030), run_id(1))];
    assert_eq!(journal.due(Millis(1_030), 10).await.unwrap(), both);
    assert_eq!(journal.due(Millis(1_030), 1).await.unwrap(), both[..1]);
    let expired = plays[2].take(&Command::Tick, 1_020);
    journal.append(expired).await.unwrap();
    assert_eq!(journal.next_due().await.unwrap(), Some(Millis(1_030)));
}

async fn j7_runs_that_owe_something_are_listed(bed: Bed) {
    let journal = bed.journal();
    for number in 1..=5 {
        let (mut play, begin) = Play::begin(number, "s", "ann", 10);
        journal.append(begin).await.unwrap();
        if number == 3 {
            let parked = play.speak(WORDS, 20);
            journal.append(parked).await.unwrap();
        }
    }
    let journal = &journal;
    for limit in [1, 3, 4] {
        let running = all(limit, |cursor, limit| async move {
            journal.running(cursor.as_deref(), limit).await.unwrap()
        });
        assert_eq!(running.await, [1, 2, 4, 5].map(run_id), "pages of {limit}");
    }
}

async fn a_session_belongs_to_whoever_began_it(bed: Bed) {
    let journal = bed.journal();
    let (_, anns) = Play::begin(1, "s", "ann", 10);
    let row = anns.session.clone();
    journal.append(anns).await.unwrap();
    let (_, bobs) = Play::begin(2, "s", "bob", 20);
    let refused = journal.append(bobs).await;
    assert!(matches!(refused, Err(AppendError::SessionTaken)), "{refused:?}");
    assert_eq!(journal.head(&run_id(2)).await.unwrap(), None);
    let (_, again) = Play::begin(3, "s", "ann", 30);
    journal.append(again).await.unwrap();
    assert_eq!(journal.session(&session_id("s")).await.unwrap(), row);
    assert_eq!(journal.session(&session_id("t")).await.unwrap(), None);
}

async fn a_session_is_kept_as_it_was_last_put(bed: Bed) {
    let journal = bed.journal();
    let mut row = SessionRow::new(session_id("s"), "ann", Millis(10));
    let mut knew = None;
    for words in ["x".repeat(10_000), "y".into()] {
        row.metadata.insert("topic".into(), words);
        journal.put_session(knew.replace(row.clone()), row.clone()).await.unwrap();
        assert_eq!(journal.session(&session_id("s")).await.unwrap(), Some(row.clone()));
    }
    let stolen = SessionRow { owner: "bob".into(), ..row.clone() };
    let stolen = journal.put_session(knew.clone(), stolen).await;
    assert!(matches!(stolen, Err(AppendError::SessionTaken)), "{stolen:?}");
    assert!(journal.verify().await.unwrap().damage.is_empty());
    journal.append(Play::begin(1, "s", "ann", 20).1).await.unwrap();
    assert_eq!(journal.session(&session_id("s")).await.unwrap(), Some(row), "as it was");
}

async fn a_key_stands_for_the_run_it_started(bed: Bed) {
    let journal = bed.journal();
    let begin = |number, owner: &str, key: &str| {
        let session = format!("s-{owner}");
        let (_, mut begin) = Play::begin(number, &session, owner, 10);
        begin.key = Some((key.into(), key_row(&begin.run)));
        begin
    };
    journal.append(begin(1, "ann", "k")).await.unwrap();
    match journal.append(begin(2, "ann", "k")).await {
        Err(AppendError::KeyTaken(row)) => assert_eq!(row, key_row(&run_id(1))),
        other => panic!("{other:?}"),
    }
    assert_eq!(journal.head(&run_id(2)).await.unwrap(), None);
    journal.append(begin(3, "bob", "k")).await.unwrap();
    let long = "k".repeat(10_000);
    journal.append(begin(4, "ann", &long)).await.unwrap();
    assert_eq!(journal.key("ann", "k").await.unwrap(), Some(key_row(&run_id(1))));
    assert_eq!(journal.key("bob", "k").await.unwrap(), Some(key_row(&run_id(3))));
    assert_eq!(journal.key("cleo", "k").await.unwrap(), None);
    let kept = journal.key_of(&run_id(4)).await.unwrap();
    assert_eq!(kept, Some((long, key_row(&run_id(4)))));
    let (mut play, second) = Play::begin(5, "s-ann", "ann", 10);
    journal.append(second).await.unwrap();
    let spoken = play.speak(WORDS, 20);
    journal.append(spoken).await.unwrap();
    assert_eq!(journal.key_of(&run_id(5)).await.unwrap(), None);
}

async fn runs_are_listed_newest_first(bed: Bed) {
    let journal = bed.journal();
    for number in 1..=7 {
        let (session, owner) = if number % 2 == 0 { ("s", "ann") } else { ("st", "bob") };
        let (_, begin) = Play::begin(number, session, owner, 10);
        journal.append(begin).await.unwrap();
    }
    let filters = [
        (RunFilter::default(), vec![7, 6, 5, 4, 3, 2, 1]),
        (RunFilter { session: Some(session_id("s")), ..RunFilter::default() }, vec![6, 4, 2]),
        (RunFilter { owner: Some("bob".into()), ..RunFilter::default() }, vec![7, 5, 3, 1]),
        (RunFilter { status: Some("WAITING".into()), ..RunFilter::default() }, vec![]),
        (
            RunFilter { workflow: Some("venue".into()), ..RunFilter::default() },
            vec![7, 6, 5, 4, 3, 2, 1],
        ),
        (RunFilter { workflow: Some("other".into()), ..RunFilter::default() }, vec![]),
    ];
    let journal = &journal;
    for (filter, expected) in &filters {
        for limit in [1, 2, 3, 7, 100] {
            let heads = all(limit, |cursor, limit| async move {
                journal.heads(filter, cursor.as_deref(), limit).await.unwrap()
            });
            let runs: Vec<_> = heads.await.into_iter().map(|head| head.run).collect();
            let expected: Vec<_> = expected.iter().copied().map(run_id).collect();
            assert_eq!(runs, expected, "{filter:?}, pages of {limit}");
        }
    }
    let last = journal.heads(&RunFilter::default(), None, 7).await.unwrap();
    assert_eq!(last.next, None, "a full last page has no next");
}

async fn sessions_are_listed_page_by_page(bed: Bed) {
    let journal = bed.journal();
    for (number, name, owner) in
        [(1, "ses_1", "ann"), (2, "ses_2", "bob"), (3, "ses_3", "ann"), (4, "ses_3", "ann")]
    {
        let (_, begin) = Play::begin(number, name, owner, 10);
        journal.append(begin).await.unwrap();
    }
    let journal = &journal;
    for (owner, expected) in
        [(None, vec!["ses_3", "ses_2", "ses_1"]), (Some("ann"), vec!["ses_3", "ses_1"])]
    {
        for limit in [1, 2, 3] {
            let rows = all(limit, |cursor, limit| async move {
                journal.sessions(owner, cursor.as_deref(), limit).await.unwrap()
            });
            let names: Vec<_> = rows.await.iter().map(|row| row.session.to_string()).collect();
            assert_eq!(names, expected, "{owner:?}, pages of {limit}");
        }
    }
}

async fn a_cursor_that_is_none_gives_an_empty_page(bed: Bed) {
    let journal = bed.journal();
    Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    for cursor in ["", "nonsense", "ünsinn, und zwar ein langer, mit Umlauten: äöüäöüäöü", "run_"]
    {
        let filter = RunFilter::default();
        assert_eq!(journal.heads(&filter, Some(cursor), 5).await.unwrap().rows, vec![]);
        assert_eq!(journal.waiting(Some(cursor), 5).await.unwrap().rows, vec![]);
        assert_eq!(journal.running(Some(cursor), 5).await.unwrap().rows, vec![]);
    }
    assert_eq!(journal.sessions(None, Some("two words"), 5).await.unwrap().rows, vec![]);
}

async fn definitions_are_kept_as_they_were_first_put(bed: Bed) {
    let journal = bed.journal();
    assert_eq!(journal.definition("d").await.unwrap(), None);
    let large = format!("\"{}\"", "x".repeat(100_000));
    journal.put_definition("d", &large).await.unwrap();
    journal.put_definition("d", "another").await.unwrap();
    assert_eq!(journal.definition("d").await.unwrap(), Some(large));
}

async fn large_values_come_back_whole(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let text: String = ('a'..='z').cycle().take(1 << 18).collect();
    let input = json!(format!("{text}{text}{text}{text}"));
    let (mut play, begin) = Play::begin_with(1, ("s", "ann"), 10, &workflow(None), input);
    journal.append(begin).await.unwrap();
    let spoken = play.speak(&text, 20);
    journal.append(spoken).await.unwrap();
    let read = journal.read(&play.run.id, 0, 100).await.unwrap();
    assert_eq!(replay(&play.run.id, workflow(None), &read).unwrap(), play.run);

    // A head that was large and is small again leaves nothing behind.
    let mut cancelled = play.clone().take(
        &Command::Cancel {
            reason: String::new(),
            principal: Principal::local("cli"),
            key: String::new(),
        },
        30,
    );
    let mut padded = cancelled.clone();
    padded.head.metadata.insert("note".into(), "n".repeat(50_000));
    padded.events = vec![Arc::new(Event::Warned(holdpoint::kernel::Failure::new("x", "y")))];
    padded.head.version = padded.expected + 1;
    padded.head.status = holdpoint::ports::HeadStatus::Running;
    journal.append(padded.clone()).await.unwrap();
    assert_eq!(journal.head(&play.run.id).await.unwrap(), Some(padded.head));
    cancelled.expected += 1;
    cancelled.head.version += 1;
    journal.append(cancelled.clone()).await.unwrap();
    assert_eq!(journal.head(&play.run.id).await.unwrap(), Some(cancelled.head));
    let report = journal.verify().await.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!(journal.prune(Millis(100), 10).await.unwrap(), 1);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn pruning_takes_all_that_hangs_on_a_run_and_nothing_else(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    // Sessions: `s` has one run over early and one late; `t` one early; `u` one that waits.
    for (number, session, at) in [(1, "s", 100), (2, "s", 900), (3, "t", 200)] {
        let (mut play, mut begin) = Play::begin(number, session, "ann", 10);
        begin.key = Some((format!("k{number}"), key_row(&begin.run)));
        journal.append(begin).await.unwrap();
        let spoken = play.speak(WORDS, 20);
        journal.append(spoken).await.unwrap();
        play.finish(&*journal, at).await;
    }
    Play::park(&*journal, 4, "u", 10, &workflow(Some(1_000))).await;

    assert_eq!(journal.prune(Millis(100), 10).await.unwrap(), 0, "not over before then");
    assert_eq!(journal.prune(Millis(500), 1).await.unwrap(), 1);
    assert_eq!(journal.prune(Millis(500), 10).await.unwrap(), 1);
    assert_eq!(journal.prune(Millis(500), 10).await.unwrap(), 0);
    for gone in [1, 3] {
        let run = run_id(gone);
        assert_eq!(journal.head(&run).await.unwrap(), None);
        assert_eq!(journal.read(&run, 0, 100).await.unwrap(), Vec::new());
        assert_eq!(journal.key("ann", &format!("k{gone}")).await.unwrap(), None);
    }
    assert!(journal.session(&session_id("s")).await.unwrap().is_some());
    assert_eq!(journal.session(&session_id("t")).await.unwrap(), None);
    assert_eq!(journal.key("ann", "k2").await.unwrap(), Some(key_row(&run_id(2))));
    let left = journal.heads(&RunFilter::default(), None, 10).await.unwrap().rows;
    assert_eq!(left.iter().map(|head| head.run.clone()).collect::<Vec<_>>(), [4, 2].map(run_id));
    let report = journal.verify().await.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!((report.runs, report.sessions, report.open_questions), (2, 2, 1));
}

async fn a_store_that_is_well_says_so(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let mut events = 0;
    for number in 0..20 {
        let workflow = workflow([None, Some(1_000)][usize::from(number % 2 == 0)]);
        let mut play = Play::park(&*journal, number, "s", 10 + number, &workflow).await;
        if number % 3 == 0 {
            play.finish(&*journal, 100).await;
        }
        events += play.run.version;
    }
    assert!(journal.is_healthy());
    let report = journal.verify().await.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
    assert_eq!((report.runs, report.sessions, report.events), (20, 1, events));
    assert_eq!(report.open_questions, 13);
}

async fn an_append_that_contradicts_itself_is_written_nowhere(bed: Bed) {
    let journal = bed.journal();
    let (_, begin) = Play::begin(1, "s", "ann", 10);
    let mut wrong = begin.clone();
    wrong.head.version += 1;
    let mut empty = begin.clone();
    empty.events.clear();
    let mut foreign = begin.clone();
    foreign.head.run = run_id(2);
    for append in [wrong, empty, foreign] {
        let refused = journal.append(append).await;
        assert!(matches!(refused, Err(AppendError::Fault(Fault::Permanent(_)))), "{refused:?}");
    }
    assert_eq!(journal.head(&run_id(1)).await.unwrap(), None);
    journal.append(begin).await.unwrap();
    let (digest, _) = definition(&workflow(None));
    assert_eq!(journal.head(&run_id(1)).await.unwrap().unwrap().definition, digest);
}

async fn a_closed_store_takes_no_writes(bed: Bed) {
    let journal = bed.journal();
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    journal.close().await;
    assert!(!journal.is_healthy());
    let refused = journal.append(play.speak(WORDS, 20)).await;
    assert!(matches!(refused, Err(AppendError::Fault(Fault::Retriable(_)))), "{refused:?}");
    journal.close().await;
}
