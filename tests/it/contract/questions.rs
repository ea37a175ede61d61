//! Contract of many open questions, J7, on every store: however many, a run's head has them all.

use holdpoint::kernel::{Command, Principal};
use holdpoint::ports::{Append, Desk, Head};
use serde_json::json;

use crate::support::kit::{Bed, Play, WIDE, WORDS, laws, wide, workflow};

laws! {
    j7_many_open_questions_are_listed_whole_at_every_step,
    j7_what_lies_on_somebodys_desks_is_listed_in_the_order_of_everything,
}

async fn j7_many_open_questions_are_listed_whole_at_every_step(bed: Bed) {
    bed.define().await;
    let journal = bed.journal();
    let parties: Vec<_> = (1..=2).map(spread).collect();
    for (play, begin) in &parties {
        assert_eq!(play.run.questions.len(), WIDE);
        journal.append(begin.clone()).await.unwrap();
    }
    let mut plays: Vec<_> = parties.into_iter().map(|(play, _)| play).collect();
    // From the middle outwards, and from as many as lie apart down to none.
    for step in 0..u32::try_from(WIDE).unwrap() {
        let half = u32::try_from(WIDE / 2).unwrap();
        let ordinal = if step % 2 == 0 { half - step / 2 } else { half + 1 + step / 2 };
        let answered = plays[0].approve_one(ordinal, u64::from(step) + 20);
        journal.append(answered).await.unwrap();
        let head = journal.head(&plays[0].run.id).await.unwrap().unwrap();
        assert_eq!(head, Head::of(&plays[0].run));
        if step == half / 4 {
            let reason = String::new();
            let stop =
                Command::Cancel { reason, principal: Principal::local("cli"), key: String::new() };
            let stopped = plays[1].take(&stop, 90);
            journal.append(stopped).await.unwrap();
        }
        let listed = journal.waiting(None, 10).await.unwrap().rows;
        let open: Vec<_> = plays.iter().filter(|play| !play.run.questions.is_empty()).collect();
        assert_eq!(listed, open.iter().map(|play| Head::of(&play.run)).collect::<Vec<_>>());
    }
    assert!(plays.iter().all(|play| play.run.status.is_over()));
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

async fn j7_what_lies_on_somebodys_desks_is_listed_in_the_order_of_everything(bed: Bed) {
    bed.define().await;
    let journal = bed.journal();
    let owners = ["ann", "bob", "ann", "cara", "bob", "ann", "ann"];
    let mut plays = Vec::new();
    for (number, owner) in (1..).zip(owners) {
        let flow = workflow([Some(5_000), None, Some(1_000)][usize::try_from(number % 3).unwrap()]);
        let begun = Play::begin_with(number, (owner, owner), 10, &flow, json!("Go."));
        let (mut play, begin) = begun;
        journal.append(begin).await.unwrap();
        journal.append(play.speak(WORDS, 10)).await.unwrap();
        plays.push(play);
    }
    let desks = |names: &[&str]| -> Vec<_> {
        names.iter().flat_map(|name| [Desk::began(name), Desk::asked(name)]).collect()
    };
    for step in 0..=plays.len() {
        let all = journal.waiting(None, 100).await.unwrap().rows;
        assert_eq!(all.len(), plays.len() - step);
        for names in [&["ann"][..], &["bob", "cara"], &["nobody"], &[]] {
            let theirs: Vec<_> =
                all.iter().filter(|head| names.contains(&head.owner.as_str())).cloned().collect();
            let (mut found, mut cursor) = (Vec::new(), None::<String>);
            loop {
                let page = journal.waiting_on(&desks(names), cursor.as_deref(), 2).await.unwrap();
                found.extend(page.rows);
                cursor = page.next;
                if cursor.is_none() {
                    break;
                }
            }
            assert_eq!(found, theirs, "{names:?}");
        }
        if let Some(play) = plays.get_mut(step) {
            play.finish(&*journal, 20).await;
        }
    }
    let none = journal.waiting_on(&desks(&["ann"]), Some("nothing"), 2).await.unwrap();
    assert!(none.rows.is_empty() && none.next.is_none());
    assert_eq!(journal.verify().await.unwrap().damage, Vec::<String>::new());
}

fn spread(number: u64) -> (Play, Append) {
    Play::begin_with(number, ("s", "ann"), 10, &wide(WIDE), json!("Go."))
}
