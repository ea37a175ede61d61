//! Sessions, on every store: two who change one at once do not lose one another's change.

use std::collections::BTreeMap;

use holdpoint::kernel::Millis;
use holdpoint::ports::{AppendError, SessionRow};

use crate::support::held::Held;
use crate::support::kit::{Bed, laws, session_id};
use crate::support::{Actors, Ground, someone};

laws! {
    a_session_is_put_only_over_what_the_caller_knew,
}

async fn a_session_is_put_only_over_what_the_caller_knew(bed: Bed) {
    let journal = bed.journal();
    let first = SessionRow::new(session_id("s"), "ann", Millis(10));
    let labelled = |word: &str| {
        let metadata = [(word.to_owned(), "yes".to_owned())].into();
        SessionRow { metadata, ..first.clone() }
    };
    let put = |knew: Option<SessionRow>, row| journal.put_session(knew, row);
    let moved = put(Some(first.clone()), labelled("one")).await;
    assert!(matches!(moved, Err(AppendError::SessionMoved)), "it is not there: {moved:?}");
    put(None, first.clone()).await.unwrap();
    let moved = put(None, labelled("one")).await;
    assert!(matches!(moved, Err(AppendError::SessionMoved)), "it is there: {moved:?}");
    // Two who both knew the first: one of them must look again.
    let both = futures::join!(
        put(Some(first.clone()), labelled("one")),
        put(Some(first.clone()), labelled("other"))
    );
    let refused = [&both.0, &both.1].into_iter().filter(|outcome| outcome.is_err()).count();
    assert_eq!(refused, 1, "{both:?}");
    let kept = journal.session(&session_id("s")).await.unwrap();
    let kept_one = if both.0.is_ok() { labelled("one") } else { labelled("other") };
    assert_eq!(kept, Some(kept_one));
    assert!(journal.verify().await.unwrap().damage.is_empty());
}

#[tokio::test]
async fn two_changes_of_a_session_at_once_are_both_kept() {
    let ground = Ground { journal: Held::new(), ..Ground::new(Actors::default()) };
    let engine = ground.engine(&[]).await;
    let who = someone();
    let session = engine.open_session(BTreeMap::new(), &who).await.unwrap().session.to_string();
    let labelled = |word: &'static str| {
        let (engine, session, who) = (&engine, &session, &who);
        async move {
            let change = |row: &mut SessionRow| {
                row.metadata.insert(word.into(), "yes".into());
            };
            engine.change_session(session, who, change).await.unwrap();
        }
    };
    futures::join!(labelled("one"), labelled("other"));
    let row = engine.session_row(&session, &who).await.unwrap();
    let words: Vec<_> = row.metadata.keys().map(String::as_str).collect();
    assert_eq!(words, ["one", "other"]);
}
