//! Contract of the store's own log, L1 to L3, one body each, on every store.

use holdpoint::kernel::Millis;
use holdpoint::ports::log::{DEEDS_MAX, REFUSALS_MAX};
use holdpoint::ports::{Logged, Note, Noting};

use crate::support::kit::{Bed, laws, run_id};

laws! {
    l1_entries_are_listed_newest_first_under_numbers_that_grow,
    l2_a_lane_keeps_the_newest_and_says_how_many_it_forgot,
    l3_more_of_the_same_changes_how_often_and_nothing_else,
    a_cursor_of_the_log_that_is_none_gives_an_empty_page,
    what_is_kept_under_a_name_is_what_was_last_put,
}

fn refused(number: u64) -> Note {
    let request = format!("req_{number}");
    Note::answer_refused(("eve", "grpc"), &request, Some(run_id(1)), "answer.not_admitted")
}

fn once(at: u64, note: Note) -> Noting {
    Noting::once(Millis(at), note)
}

/// Everything, page by page.
async fn log(bed: &Bed, limit: usize) -> Vec<Logged> {
    let (mut rows, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = bed.journal().notes(cursor.as_deref(), limit).await.unwrap();
        assert!(page.rows.len() <= limit + 1, "a page, and what was forgotten");
        rows.extend(page.rows);
        cursor = page.next;
        if cursor.is_none() {
            return rows;
        }
    }
}

async fn l1_entries_are_listed_newest_first_under_numbers_that_grow(bed: Bed) {
    let journal = bed.journal();
    assert_eq!(log(&bed, 10).await, []);
    let notes = [
        refused(1),
        Note::ServerStopped { address: "here".into() },
        refused(2),
        Note::Restored,
        refused(3),
    ];
    for (note, at) in notes.iter().zip(10..) {
        journal.note(once(at, note.clone())).await.unwrap();
    }
    for limit in [1, 2, 3, 100] {
        let told = log(&bed, limit).await;
        let sequences: Vec<_> = told.iter().map(|entry| entry.sequence).collect();
        assert_eq!(sequences, [5, 4, 3, 2, 1], "{limit} at a time");
        let told: Vec<_> = told.into_iter().rev().map(|entry| entry.note).collect();
        assert_eq!(told, notes, "{limit} at a time");
    }
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn l2_a_lane_keeps_the_newest_and_says_how_many_it_forgot(bed: Bed) {
    let journal = bed.journal();
    journal.note(once(1, Note::Restored)).await.unwrap();
    let most = REFUSALS_MAX + 5;
    let note = |number| journal.note(once(number, refused(number)));
    // Those that are looked at below come in order, the others together.
    for number in 1..=6 {
        note(number).await.unwrap();
    }
    for outcome in futures::future::join_all((7..most).map(note)).await {
        outcome.unwrap();
    }
    note(most).await.unwrap();
    let told = log(&bed, 5_000).await;
    assert!(REFUSALS_MAX + DEEDS_MAX >= told.len() as u64);
    assert_eq!(told.len() as u64, REFUSALS_MAX + 2, "its bound, the deed, and what was forgotten");
    assert_eq!(told[0].note, refused(most));
    let [.., oldest, deed, forgotten] = told.as_slice() else { panic!("{}", told.len()) };
    assert_eq!(oldest.note, refused(6));
    assert_eq!(deed.note, Note::Restored, "refusals push out nothing but refusals");
    assert_eq!((&forgotten.note, forgotten.count), (&Note::Forgotten, 5));
    assert_eq!(forgotten.last, Millis(5));
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn l3_more_of_the_same_changes_how_often_and_nothing_else(bed: Bed) {
    let journal = bed.journal();
    let place = journal.note(once(10, refused(1))).await.unwrap();
    journal.note(once(11, refused(2))).await.unwrap();
    let more = Noting {
        place: Some(place),
        first: Millis(10),
        last: Millis(20),
        count: 3,
        note: refused(1),
    };
    assert_eq!(journal.note(more.clone()).await.unwrap(), place);
    let told = log(&bed, 10).await;
    let counts: Vec<_> = told.iter().map(|entry| (entry.sequence, entry.count)).collect();
    assert_eq!(counts, [(2, 1), (1, 3)]);
    assert_eq!((told[1].first, told[1].last), (Millis(10), Millis(20)));
    // What another entry says is another entry, whatever place it names; and a count never goes back.
    let other = Noting { note: refused(9), ..more.clone() };
    journal.note(other).await.unwrap();
    journal.note(Noting { count: 2, ..more }).await.unwrap();
    let told: Vec<_> = log(&bed, 10).await.into_iter().map(|it| (it.note, it.count)).collect();
    assert_eq!(told, [(refused(9), 3), (refused(2), 1), (refused(1), 3)]);
}

async fn a_cursor_of_the_log_that_is_none_gives_an_empty_page(bed: Bed) {
    let journal = bed.journal();
    journal.note(once(1, Note::Restored)).await.unwrap();
    for cursor in ["", "x", "1", "1.x", "-1.2", "99999999999999999999.0"] {
        assert_eq!(journal.notes(Some(cursor), 10).await.unwrap().rows, [], "{cursor}");
    }
    let far = format!("{}.{}", u64::MAX, u64::MAX);
    assert_eq!(journal.notes(Some(&far), 10).await.unwrap().rows.len(), 1);
}

async fn what_is_kept_under_a_name_is_what_was_last_put(bed: Bed) {
    let journal = bed.journal();
    assert_eq!(journal.remembered("posture").await.unwrap(), None);
    let long = "x".repeat(20_000);
    for text in ["one", &long, "two"] {
        journal.remember("posture", text).await.unwrap();
        assert_eq!(journal.remembered("posture").await.unwrap().as_deref(), Some(text));
    }
    assert_eq!(journal.remembered("pos").await.unwrap(), None);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}
