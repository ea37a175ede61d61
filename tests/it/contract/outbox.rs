//! Contract of the outbox, J8, one body each, on every store.

use holdpoint::kernel::Millis;
use holdpoint::ports::{AppendError, Hook, HookRow, Settlement};

use crate::support::kit::{Bed, Play, WORDS, laws, run_id};

laws! {
    j8_an_entry_is_recorded_with_its_events_or_not_at_all,
    j8_an_entry_is_listed_until_its_tip_is_settled,
    j8_entries_are_due_in_their_time,
    j8_hooks_are_kept_and_taken_away_with_what_they_are_owed,
}

const CHANNEL: &str = "webhook";
const EVER: Millis = Millis(u64::MAX);

fn hook(run: u64, id: &str) -> HookRow {
    let hook = Hook { id: id.into(), url: "https://hooks.example".into(), ..Hook::default() };
    HookRow { run: run_id(run), hook }
}

async fn j8_an_entry_is_recorded_with_its_events_or_not_at_all(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let (mut play, mut begin) = Play::begin(1, "s", "ann", 10);
    begin.channels = vec![CHANNEL.into()];
    begin.hooks = vec![hook(1, "a")];
    let mut elsewhere = begin.clone();
    elsewhere.expected = 7;
    elsewhere.head.version += 7;
    let refused = journal.append(elsewhere).await;
    assert!(matches!(refused, Err(AppendError::Moved { .. })), "{refused:?}");
    assert_eq!(journal.outbox_entries(EVER, 10).await.unwrap(), Vec::new());
    assert_eq!(journal.hooks(&run_id(1)).await.unwrap(), Vec::new());

    let first = journal.append(begin).await.unwrap().version;
    let owed = journal.outbox_entries(EVER, 10).await.unwrap();
    assert_eq!(owed.len(), 1);
    assert_eq!((owed[0].after, owed[0].tip, owed[0].due), (0, first, Millis(10)));
    assert_eq!(journal.hooks(&run_id(1)).await.unwrap(), [hook(1, "a")]);
    let mut spoken = play.speak(WORDS, 20);
    spoken.channels = vec![CHANNEL.into(), "other".into()];
    let second = journal.append(spoken).await.unwrap().version;
    let owed = journal.outbox_entries(EVER, 10).await.unwrap();
    let told: Vec<_> = owed.iter().map(|it| (it.channel.as_str(), it.after, it.tip)).collect();
    assert_eq!(told, [(CHANNEL, 0, second), ("other", first, second)]);
    let report = journal.verify().await.unwrap();
    assert_eq!(report.damage, Vec::<String>::new());
}

async fn j8_an_entry_is_listed_until_its_tip_is_settled(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let (mut play, mut begin) = Play::begin(1, "s", "ann", 10);
    begin.channels = vec![CHANNEL.into()];
    let first = journal.append(begin).await.unwrap().version;
    let mut spoken = play.speak(WORDS, 20);
    spoken.channels = vec![CHANNEL.into()];
    let second = journal.append(spoken).await.unwrap().version;
    let run = run_id(1);
    // Somebody read up to the first tip while the second came.
    journal.settle(&run, CHANNEL, Settlement::Delivered { up_to: first }).await.unwrap();
    let owed = journal.outbox_entries(EVER, 10).await.unwrap();
    assert_eq!((owed[0].after, owed[0].tip), (first, second));
    journal.settle(&run, CHANNEL, Settlement::Delivered { up_to: second }).await.unwrap();
    assert_eq!(journal.outbox_entries(EVER, 10).await.unwrap(), Vec::new());
    assert_eq!(journal.next_outbox_entry().await.unwrap(), None);
    // What is not owed any more is no matter.
    journal.settle(&run, CHANNEL, Settlement::Dropped).await.unwrap();
    journal.settle(&run_id(9), CHANNEL, Settlement::Dropped).await.unwrap();
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn j8_entries_are_due_in_their_time(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    for number in 1..=3 {
        let (_, mut begin) = Play::begin(number, "s", "ann", 100 * number);
        begin.channels = vec![CHANNEL.into()];
        journal.append(begin).await.unwrap();
    }
    let runs = |owed: Vec<holdpoint::ports::OutboxEntry>| -> Vec<_> {
        owed.into_iter().map(|outbox_entry| outbox_entry.run).collect()
    };
    assert_eq!(
        runs(journal.outbox_entries(Millis(200), 10).await.unwrap()),
        [run_id(1), run_id(2)]
    );
    let later = Settlement::Later { after: 0, due: Millis(900), problem: "busy".into() };
    journal.settle(&run_id(1), CHANNEL, later).await.unwrap();
    assert_eq!(journal.next_outbox_entry().await.unwrap(), Some(Millis(200)));
    assert_eq!(runs(journal.outbox_entries(EVER, 10).await.unwrap()), [2, 3, 1].map(run_id));
    assert_eq!(runs(journal.outbox_entries(EVER, 1).await.unwrap()), [run_id(2)]);
    let last = journal.outbox_entries(EVER, 10).await.unwrap().pop().unwrap();
    assert_eq!((last.tries, last.problem.as_str()), (1, "busy"));
}

async fn j8_hooks_are_kept_and_taken_away_with_what_they_are_owed(bed: Bed) {
    let journal = bed.journal();
    bed.define().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    journal.append(begin).await.unwrap();
    let mut named = hook(1, "b");
    named.hook.token = "t".repeat(4_000);
    for row in [&hook(1, "a"), &named, &hook(2, "c")] {
        journal.put_hook(row).await.unwrap();
    }
    let mut again = hook(1, "a");
    again.hook.url = "https://elsewhere.example".into();
    journal.put_hook(&again).await.unwrap();
    assert_eq!(journal.hooks(&run_id(1)).await.unwrap(), [again, named]);
    assert!(journal.put_hook(&hook(1, "")).await.is_err());
    let mut spoken = play.speak(WORDS, 20);
    spoken.channels = vec!["push:a".into(), "push:b".into()];
    journal.append(spoken).await.unwrap();
    journal.remove_hook(&run_id(1), "a").await.unwrap();
    journal.remove_hook(&run_id(1), "a").await.unwrap();
    let owed = journal.outbox_entries(EVER, 10).await.unwrap();
    assert_eq!(owed.iter().map(|it| it.channel.as_str()).collect::<Vec<_>>(), ["push:b"]);
    play.finish(&*journal, 30).await;
    assert_eq!(journal.prune(EVER, 10).await.unwrap(), 1);
    assert_eq!(journal.outbox_entries(EVER, 10).await.unwrap(), Vec::new());
    assert_eq!(journal.hooks(&run_id(1)).await.unwrap(), Vec::new());
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}
