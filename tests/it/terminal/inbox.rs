//! The inbox of a user: what is theirs, in the order in which an admin sees it, whatever else is open.

use holdpoint::engine::{AnswerRequest, Engine, InboxFilter, StartRequest};
use holdpoint::kernel::workflow::Patience;
use holdpoint::kernel::{Principal, Role};
use serde_json::json;

use crate::support::workflows::approval;
use crate::support::{Actors, Ground, all, request_of, someone};

fn user(id: &str) -> Principal {
    Principal { id: id.into(), roles: Role::User.into(), ..someone() }
}

async fn ask(engine: &Engine, who: &Principal) -> String {
    let request = StartRequest {
        workflow: "approval".into(),
        input: json!("Tell the team."),
        ..StartRequest::default()
    };
    request_of(&all(engine.start(request, who).await.unwrap().watch).await)
}

async fn answer(engine: &Engine, request: &str, who: &Principal) {
    let answers = vec![(request.to_owned(), json!("approve"), None)];
    let request = AnswerRequest { answers, ..AnswerRequest::default() };
    all(engine.answer(request, who).await.unwrap().watch).await;
}

/// Everything in somebody's inbox, page by page.
async fn inbox(engine: &Engine, who: &Principal, rows: i32) -> Vec<String> {
    let (mut ids, mut token) = (Vec::new(), String::new());
    loop {
        let page = engine.inbox_page(who, &InboxFilter::default(), &token, rows).await.unwrap();
        ids.extend(page.rows.iter().map(|row| row.id().to_string()));
        match page.next {
            Some(next) => token = next,
            None => return ids,
        }
    }
}

/// What an admin sees of one owner.
async fn seen_of(engine: &Engine, owner: &str) -> Vec<String> {
    let page = engine.inbox_page(&someone(), &InboxFilter::default(), "", 1_000).await.unwrap();
    let own = page.rows.iter().filter(|row| row.owner == owner);
    own.map(|row| row.id().to_string()).collect()
}

#[tokio::test]
async fn a_users_inbox_is_what_an_admin_sees_of_theirs_through_every_change() {
    let actors = Actors::default().says("draft", "Dear team").says("send", "Sent.");
    let ground = Ground::new(actors);
    let workflows = [approval(Patience::default())];
    let engine = ground.boot(&workflows).await;
    let (ann, ben) = (user("ann"), user("ben"));
    let mut anns = Vec::new();
    for round in 0..40 {
        ground.clock.advance(1_000);
        ask(&engine, &ben).await;
        if round % 10 == 0 {
            anns.push(ask(&engine, &ann).await);
        }
    }
    assert_eq!(inbox(&engine, &ann, 3).await, anns, "in pages, the longest waiting first");
    assert_eq!(inbox(&engine, &ben, 7).await.len(), 40);

    // What is answered goes, and what is asked comes.
    answer(&engine, &anns.remove(1), &ann).await;
    ground.clock.advance(1_000);
    anns.push(ask(&engine, &ann).await);
    assert_eq!(inbox(&engine, &ann, 2).await, anns);
    assert_eq!(seen_of(&engine, "ann").await, anns);
    assert_eq!(seen_of(&engine, "ben").await, inbox(&engine, &ben, 1_000).await);

    // So it is after a restart, and one who has nothing has nothing.
    drop(engine);
    let engine = ground.boot(&workflows).await;
    answer(&engine, &anns.remove(0), &ann).await;
    assert_eq!(inbox(&engine, &ann, 1).await, anns);
    assert!(inbox(&engine, &user("eve"), 10).await.is_empty());
}
