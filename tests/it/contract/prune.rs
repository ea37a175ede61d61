//! Contract: what pruning leaves alone, on every store.

use holdpoint::kernel::Millis;
use holdpoint::ports::{RunFilter, SessionRow};

use crate::support::kit::{Bed, Play, WORDS, laws, run_id, session_id, workflow};

laws! {
    pruning_leaves_alone_a_family_in_which_something_goes_on,
    the_forks_of_a_family_are_listed_oldest_first,
    pruning_leaves_alone_a_session_in_which_something_goes_on,
    a_session_has_its_runs_in_order_whichever_it_came_to_be_with,
}

async fn pruning_leaves_alone_a_session_in_which_something_goes_on(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    // `s` has a run that waits, `t` one that moves; in `u` and `v` all is over. More runs stay than
    // are taken at a time, and they are the longest over.
    let mut parked = Play::park(&*journal, 900, "s", 10, &workflow(None)).await;
    let (mut moving, begin) = Play::begin(901, "t", "ann", 10);
    journal.append(begin).await.unwrap();
    for number in 1..=200 {
        let session = if number % 2 == 0 { "s" } else { "t" };
        Play::park(&*journal, number, session, 10, &workflow(None))
            .await
            .finish(&*journal, 50)
            .await;
    }
    for (number, session) in [(301, "u"), (302, "v"), (303, "u")] {
        Play::park(&*journal, number, session, 10, &workflow(None))
            .await
            .finish(&*journal, 60)
            .await;
    }
    assert_eq!(journal.prune(Millis(100), 2).await.unwrap(), 2);
    assert_eq!(journal.prune(Millis(100), 100).await.unwrap(), 1);
    assert_eq!(journal.prune(Millis(100), 100).await.unwrap(), 0);
    assert!(journal.head(&run_id(1)).await.unwrap().is_some());
    assert_eq!(journal.session(&session_id("u")).await.unwrap(), None);
    parked.finish(&*journal, 70).await;
    assert_eq!(journal.prune(Millis(100), 1_000).await.unwrap(), 101);
    assert_eq!(journal.session(&session_id("s")).await.unwrap(), None);
    assert!(journal.session(&session_id("t")).await.unwrap().is_some());
    let spoken = moving.speak(WORDS, 80);
    journal.append(spoken).await.unwrap();
    assert_eq!(journal.prune(Millis(100), 1_000).await.unwrap(), 0, "it waits now");
    moving.finish(&*journal, 90).await;
    assert_eq!(journal.prune(Millis(100), 1_000).await.unwrap(), 101);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn pruning_leaves_alone_a_family_in_which_something_goes_on(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    // One run and two forks of it, each in a session of its own; a stranger is beside them.
    let mut first = Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    let mut forks = Vec::new();
    for (number, session) in [(2, "t"), (3, "u")] {
        let (mut fork, begin) = Play::fork(number, 1, session, 10);
        journal.append(begin).await.unwrap();
        let spoken = fork.speak(WORDS, 20);
        journal.append(spoken).await.unwrap();
        forks.push(fork);
    }
    Play::park(&*journal, 4, "v", 10, &workflow(None)).await.finish(&*journal, 50).await;
    first.finish(&*journal, 50).await;
    forks[0].finish(&*journal, 50).await;
    assert_eq!(journal.prune(Millis(100), 10).await.unwrap(), 1, "the stranger alone");
    assert_eq!(journal.forks(&run_id(1)).await.unwrap(), [run_id(2), run_id(3)]);
    forks[1].finish(&*journal, 60).await;
    assert_eq!(journal.prune(Millis(100), 10).await.unwrap(), 3);
    assert_eq!(journal.forks(&run_id(1)).await.unwrap(), []);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn the_forks_of_a_family_are_listed_oldest_first(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    Play::park(&*journal, 1, "s", 10, &workflow(None)).await;
    for (number, family) in [(9, 1), (5, 1), (7, 2)] {
        let (mut fork, begin) = Play::fork(number, family, "s", 10);
        journal.append(begin).await.unwrap();
        let spoken = fork.speak(WORDS, 20);
        journal.append(spoken).await.unwrap();
    }
    assert_eq!(journal.forks(&run_id(1)).await.unwrap(), [run_id(5), run_id(9)]);
    assert_eq!(journal.forks(&run_id(2)).await.unwrap(), [run_id(7)]);
    assert_eq!(journal.forks(&run_id(9)).await.unwrap(), []);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn a_session_has_its_runs_in_order_whichever_it_came_to_be_with(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    for (number, over_at) in [(5, 50), (3, 60), (7, 60), (9, 60)] {
        let mut play = Play::park(&*journal, number, "s", 10, &workflow(None)).await;
        play.finish(&*journal, over_at).await;
    }
    Play::park(&*journal, 4, "t", 10, &workflow(None)).await;
    let filter = RunFilter { session: Some(session_id("s")), ..RunFilter::default() };
    let listed = async || {
        let (mut runs, mut cursor) = (Vec::new(), None);
        loop {
            let page = journal.heads(&filter, cursor.as_deref(), 1).await.unwrap();
            runs.extend(page.rows.into_iter().map(|head| head.run));
            cursor = page.next;
            if cursor.is_none() {
                return runs;
            }
        }
    };
    let ids = |numbers: &[u64]| numbers.iter().copied().map(run_id).collect::<Vec<_>>();
    assert_eq!(listed().await, ids(&[9, 7, 5, 3]));
    let row = SessionRow {
        metadata: [("topic".to_owned(), "ships".to_owned())].into(),
        ..journal.session(&session_id("s")).await.unwrap().unwrap()
    };
    let knew = journal.session(&row.session).await.unwrap();
    journal.put_session(knew, row.clone()).await.unwrap();
    assert_eq!(listed().await, ids(&[9, 7, 5, 3]), "it is kept as its owner changed it");
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
    assert_eq!(journal.prune(Millis(55), 100).await.unwrap(), 1);
    assert_eq!(listed().await, ids(&[9, 7, 3]));
    assert_eq!(journal.session(&session_id("s")).await.unwrap(), Some(row));
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
    assert_eq!(journal.prune(Millis(65), 2).await.unwrap(), 2);
    assert_eq!(listed().await.len(), 1);
    assert_eq!(journal.prune(Millis(65), 2).await.unwrap(), 1);
    assert_eq!(journal.session(&session_id("s")).await.unwrap(), None);
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}
