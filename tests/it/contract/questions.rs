//! Contract of many open questions, J7, on every store: however many, a run's head has them all.

use holdpoint::kernel::{Command, Principal};
use holdpoint::ports::{Append, Head};
use serde_json::json;

use crate::support::kit::{Bed, Play, WIDE, laws, wide};

laws! {
    j7_many_open_questions_are_listed_whole_at_every_step,
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

fn spread(number: u64) -> (Play, Append) {
    Play::begin_with(number, ("s", "ann"), 10, &wide(WIDE), json!("Go."))
}
