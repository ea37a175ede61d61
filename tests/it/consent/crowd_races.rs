//! Two voters for the last word, at the same moment: both are heard or one is refused, and what they
//! decide is done once; and a server that dies at any point while places and votes are given.
//!
//! The short round has four thousand races. `HOLDPOINT_RACES=10000 cargo nextest run last_word` makes a
//! long one of it.

use std::sync::Arc;

use holdpoint::engine::{AnswerRequest, EngineError, StartRequest, Until};
use holdpoint::kernel::workflow::Patience;
use holdpoint::kernel::{Principal, Refusal, Role, Stage};
use holdpoint::wire::v1::{
    ClaimRequestRequest, DelegateRequestRequest, Request, SendResponsesRequest,
};
use serde_json::json;
use tonic::{Code, Status};

use crate::consent::stage;
use crate::support::server::{drained, journal};
use crate::support::workflows::approval;
use crate::support::{Actors, Ground, all, names, request_of, someone};

/// Races of a short round.
const RACES: u64 = 2_000;

fn person(name: &str) -> Principal {
    Principal::new(name, Role::User, "grpc")
}

fn races() -> u64 {
    let given = std::env::var("HOLDPOINT_RACES").ok();
    given.map_or(RACES, |given| given.parse().expect("HOLDPOINT_RACES is a number"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn k2_two_voters_race_for_the_last_word_and_the_run_goes_on_once() {
    // Where two are needed both are heard; where one is, the other is refused.
    for need in [2, 1] {
        let to = vec!["ann".into(), "bob".into()];
        let approvers = vec![Stage { to, need, ..Stage::default() }];
        let actors = Actors::default().says("draft", "Dear team").says("send", "Sent.");
        let ground = Ground::new(actors);
        let patience = Patience { approvers, ..Patience::default() };
        let engine = Arc::new(ground.boot(&[approval(patience)]).await);
        let (mut both, mut refused) = (0, 0);
        for _ in 0..races() {
            let start = StartRequest {
                workflow: "approval".into(),
                input: json!("Tell the team."),
                ..StartRequest::default()
            };
            let begun = engine.start(start, &someone()).await.unwrap();
            let run = begun.run.to_string();
            let request = request_of(&all(begun.watch).await);
            let vote = |who: &'static str| {
                let (engine, request) = (Arc::clone(&engine), request.clone());
                tokio::spawn(async move {
                    let answers = vec![(request, json!("approve"), None)];
                    let wish = AnswerRequest { answers, ..AnswerRequest::default() };
                    engine.answer(wish, &person(who)).await.map(drop)
                })
            };
            let (one, other) = (vote("ann"), vote("bob"));
            let heard = [one.await.unwrap(), other.await.unwrap()];
            let late = heard.iter().filter(|heard| {
                matches!(heard, Err(EngineError::Refused(Refusal::AlreadyAnswered { .. })))
            });
            let late = late.count();
            assert_eq!(heard.iter().filter(|heard| heard.is_ok()).count(), 2 - late, "{heard:?}");
            let watch = engine.watch(&run, 0, Until::Over, &someone()).await.unwrap();
            let told = all(watch).await;
            let count = |name| names(&told).into_iter().filter(|one| *one == name).count();
            let (votes, ends) = (count("voted"), (count("answered"), count("completed")));
            assert_eq!(ends, (1, 1), "one continuation: {:?}", names(&told));
            assert_eq!(count("invoked"), 2, "each step once");
            assert_eq!((votes + late, late <= 1), (1, true), "both are heard, or one is refused");
            both += votes;
            refused += late;
        }
        let rounds = usize::try_from(races()).unwrap();
        assert_eq!((both, refused), if need == 2 { (rounds, 0) } else { (0, rounds) });
    }
}

const PEOPLE: [(&str, &str); 4] =
    [("clerk", "user"), ("ann", "user"), ("bob", "user"), ("dan", "user")];

/// Two people, and then an agent's last word.
const FLOW: &str = "
name: bills
models:
  default: {provider: scripted, script: [{say: Done.}]}
agents:
  idle: {human_input: false}
pattern: graph
graph:
  steps:
    - {id: ask, human: {kind: approval, prompt: Pay it?, approvers: {to: [ann, bob], need: 2}}}
    - {id: end, agent: idle}
";

/// Whether an answer, a claim or a place was lost on the way: then it is sent again.
async fn until_taken<T, F: Future<Output = Result<T, Status>>>(
    stage: &mut stage::Stage,
    send: impl Fn(stage::Calls) -> F,
    who: &str,
) {
    loop {
        if let Ok(calls) = stage.calls(who).await {
            match send(calls).await {
                Ok(_) => return,
                // It was heard before the reply was lost.
                Err(status) if status.code() == Code::AlreadyExists => return,
                Err(_) => {}
            }
        }
        // It died of the failpoint it was started with, and lives on without.
        stage.server.restart();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_any_point_votes_claims_and_places_count_once() {
    for (point, passages) in [
        ("api.before_command", [1, 3]),
        ("engine.before_append", [1, 3]),
        ("engine.after_append", [1, 3]),
        // The first one says that it serves.
        ("store.before_record", [2, 4]),
        ("store.after_sync", [2, 4]),
        ("api.before_ack", [1, 3]),
    ] {
        for passage in passages {
            let mut stage = stage::Stage::with_people(FLOW, &PEOPLE).await;
            stage.start("clerk", "", "Bill 7.").await;
            let request: Request = stage.inbox("ann").await.remove(0);
            stage.server.restart_at_passage(point, passage);
            let id = request.request_id.clone();
            let claim = ClaimRequestRequest {
                request_id: id.clone(),
                idempotency_key: "claim".into(),
                ..Default::default()
            };
            let hand = DelegateRequestRequest {
                request_id: id.clone(),
                to: "dan".into(),
                for_ms: 60 * 60 * 1_000,
                idempotency_key: "hand".into(),
                ..Default::default()
            };
            let vote = |key: &str| SendResponsesRequest {
                responses: [(id.clone(), json!("approve").into())].into(),
                idempotency_key: key.into(),
                ..Default::default()
            };
            let (first, second) = (vote("dan"), vote("bob"));
            let claiming = |mut calls: stage::Calls| {
                let claim = claim.clone();
                async move { calls.claim_request(claim).await.map(drop) }
            };
            let handing = |mut calls: stage::Calls| {
                let hand = hand.clone();
                async move { calls.delegate_request(hand).await.map(drop) }
            };
            let voting = |vote: &SendResponsesRequest| {
                let vote = vote.clone();
                move |mut calls: stage::Calls| {
                    let vote = vote.clone();
                    async move {
                        let stream = calls.send_responses(vote).await?.into_inner();
                        drained(stream).await.map(drop)
                    }
                }
            };
            until_taken(&mut stage, claiming, "bob").await;
            until_taken(&mut stage, handing, "ann").await;
            until_taken(&mut stage, voting(&first), "dan").await;
            until_taken(&mut stage, voting(&second), "bob").await;
            // Returns when the run is over.
            journal(&mut stage.client("clerk").await, &request.run_id).await;
            let trail = stage.audit("clerk", &request.run_id).await;
            let count = |act: &str| trail.iter().filter(|entry| entry.action == act).count();
            let counts = ["claimed", "delegated", "voted", "answered", "completed"].map(count);
            assert_eq!(counts, [1; 5], "{point}:{passage}: {trail:?}");
        }
    }
}
