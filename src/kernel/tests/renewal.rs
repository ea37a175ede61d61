//! Renewal: in a store that was put back, what decides is asked anew, what was under way is asked
//! about, and nothing that was allowed before still is.

use std::sync::Arc;

use serde_json::json;

use super::cast::{forever, human, sequence, step};
use super::stage::{Act, Stage, answers, calls, says};
use crate::kernel::workflow::{Patience, Safety};
use crate::kernel::{Command, Event, Kind, Origin, RequestId, Status};

fn renew(number: u32) -> Command {
    Command::Renew { epoch: format!("epoch-{number}"), seed: format!("seed-{number}") }
}

#[test]
fn what_decides_is_asked_anew_under_an_id_that_nobody_has_seen() {
    let workflow = sequence(vec![human("ok", Kind::Approval, forever()), step("a")]);
    let mut stage = Stage::open(&workflow, "Hello");
    let late = stage.answer(&[(1, json!("approve"))], "late");
    let before = stage.run.questions[&1].clone();
    assert_eq!(stage.command_by(&renew(1)), Ok(None));
    assert!(matches!(stage.run.status, Status::Waiting { .. }), "it waits as before");
    let now = stage.run.questions[&1].clone();
    assert_eq!((&before.prompt, before.ordinal), (&now.prompt, now.ordinal));
    assert_ne!(before.id(&stage.run.id), now.id(&stage.run.id));
    assert_ne!(before.digest, now.digest);
    assert_eq!(stage.command_by(&late), Err("request.asked_anew"), "the answer to the one before");
    // Once for an epoch, and again for another.
    let version = stage.run.version;
    assert_eq!(stage.command_by(&renew(1)), Ok(Some(version)));
    let between = stage.answer(&[(1, json!("approve"))], "between");
    assert_eq!(stage.command_by(&renew(2)), Ok(None));
    for old in [&late, &between] {
        assert_eq!(stage.command_by(old), Err("request.asked_anew"));
    }
    stage.perform([answers(1, "approve"), says("Done.")]);
    assert_eq!(stage.run.status, Status::Completed, "{}", stage.told);
    assert_eq!(stage.command_by(&renew(3)), Err("run.over"));
}

#[test]
fn words_that_were_asked_for_still_are_and_what_is_over_keeps_its_id() {
    let workflow = sequence(vec![
        human("ok", Kind::Approval, forever()),
        human("why", Kind::Clarification, forever()),
        human("sure", Kind::Approval, forever()),
    ]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.perform([answers(1, "approve")]);
    let before = [stage.request(1), stage.request(2)];
    let said = stage.answer(&[(2, json!("Because."))], "k");
    assert_eq!(stage.command_by(&renew(1)), Ok(None));
    assert_eq!([stage.request(1), stage.request(2)], before);
    assert_eq!(stage.command_by(&said), Ok(None), "it is the same question");
    let third = stage.run.questions[&3].clone();
    assert_eq!(third.id(&stage.run.id), stage.request(3));
    assert_eq!(stage.run.epoch, "epoch-1");
}

/// The ids of two questions, of which the first has been answered: nonces are drawn from `seed`, and all is asked `later`.
fn ids_of(seed: &str, later: u64) -> [RequestId; 2] {
    let asks = |step| human(step, Kind::Approval, forever());
    let mut stage = Stage::open(&sequence(vec![asks("ok"), asks("sure")]), "Hello");
    stage.now = stage.now.plus(later);
    let renew = Command::Renew { epoch: "epoch-1".into(), seed: seed.into() };
    stage.command_by(&renew).unwrap();
    let first = stage.request(1);
    stage.perform([answers(1, "approve")]);
    assert_eq!(stage.request(1), first, "it is known as it was when it has ended");
    [first, stage.request(2)]
}

#[test]
fn k9_what_is_asked_in_the_place_of_what_a_store_lost_has_another_id() {
    let seed = crate::kernel::seed("drawn once");
    let (lost, since) = (ids_of(&seed, 0), ids_of(&seed, 1));
    assert_eq!(lost, ids_of(&seed, 0), "a journal says which");
    for (lost, since) in lost.iter().zip(&since) {
        assert_eq!((&lost.run, lost.ordinal), (&since.run, since.ordinal));
        assert_ne!(lost.tail, since.tail);
    }
}

#[test]
fn what_an_earlier_build_asked_keeps_the_id_that_people_hold() {
    let ids = ids_of("5eed-1", 0);
    assert_eq!(ids, ids_of("5eed-1", 77));
    let tails = ids.map(|id| id.tail.map(|tail| tail.to_string()).unwrap_or_default());
    assert_eq!(tails, ["hnhmhzcn", "6hjnxq34"].map(String::from));
}

#[test]
fn the_digest_of_what_is_asked_tells_the_epoch() {
    let workflow = sequence(vec![human("ok", Kind::Approval, forever())]);
    let digests = ["epoch-1", "epoch-2"].map(|epoch| {
        let mut stage = Stage::open(&workflow, "Hello");
        let renew = Command::Renew { epoch: epoch.into(), seed: "the same".into() };
        stage.command_by(&renew).unwrap();
        stage.run.questions[&1].digest.clone()
    });
    assert_ne!(digests[0], digests[1]);
}

#[test]
fn a_call_that_was_under_way_is_asked_about_though_it_could_be_repeated() {
    for (safety, asked) in [(Safety::Pure, 0), (Safety::Idempotent, 1), (Safety::Unsafe, 1)] {
        let mut workflow = sequence(vec![step("a")]);
        workflow.tools.get_mut("lookup").unwrap().safety = safety;
        let mut stage = Stage::open(&workflow, "Hello");
        stage.perform([calls("", [("c1", "lookup", json!({}))])]);
        assert_eq!(stage.command_by(&renew(1)), Ok(None));
        let origins: Vec<_> = stage.run.questions.values().map(|it| it.origin.clone()).collect();
        assert_eq!(origins, vec![Origin::LostOutcome("c1".into()); asked], "{safety:?}");
        stage.perform([Act::Recovers]);
        assert_eq!(stage.run.questions.len(), asked, "{safety:?}: it is asked once");
    }
}

#[test]
fn whoever_has_as_long_as_at_first_is_not_expired_by_the_backups_age() {
    let within = Patience { deadline_ms: Some(1_000), ..forever() };
    let workflow = sequence(vec![human("ok", Kind::Approval, within)]);
    let mut stage = Stage::open(&workflow, "Hello");
    stage.now = stage.now.plus(900_000);
    assert_eq!(stage.command_by(&renew(1)), Ok(None));
    assert_eq!(stage.run.questions[&1].deadline, Some(stage.now.plus(1_000)));
    let renewed = stage.journal.iter().filter(|it| matches!(it.event, Event::Renewed { .. }));
    assert_eq!(renewed.count(), 1);
}

/// An agent asks for a PIN, and whether it may; what it says then is shown to somebody.
fn curious() -> Stage {
    let workflow = sequence(vec![step("a"), human("ok", Kind::Approval, forever())]);
    let mut stage = Stage::open(&workflow, "Hello");
    let pin = json!({"type": "string", "secret": true});
    let schema = json!({"type": "object", "properties": {"pin": pin}});
    let asks = [
        ("c1", "request_user_input", json!({"prompt": "Your PIN?", "response_schema": schema})),
        ("c2", "request_user_input", json!({"prompt": "May I?", "request_type": "approval"})),
    ];
    stage.perform([calls("", asks)]);
    stage
}

#[test]
fn after_an_answer_that_tells_of_a_first_secret_nonces_are_drawn_from_what_is_hidden() {
    let mut stage = curious();
    assert!(stage.run.is_seed_open, "nothing was marked when it began");
    let open = stage.run.questions[&2].clone();
    let given = stage.answer(&[(1, json!({"pin": "4406"}))], "");
    assert_eq!(stage.command_by(&given), Ok(None));
    assert_eq!((stage.run.seed.as_str(), stage.run.is_seed_open), ("fresh", false));
    let same = &stage.run.questions[&2];
    assert_eq!((&same.digest, stage.request(2)), (&open.digest, open.id(&stage.run.id)));
    stage.perform([answers(2, "approve"), says("It is 4406."), answers(3, "approve")]);
    assert_eq!(stage.run.status, Status::Completed, "{}", stage.told);
    // Once, and not open where it is stored.
    let answered = stage.journal.iter().filter(|it| matches!(it.event, Event::Answered { .. }));
    let told: Vec<_> = answered.filter(|it| it.event.seed().is_some()).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    let events = [Arc::new(told[0].event.clone())];
    let hidden = stage.run.hidden(&events, &mut || "salt".into()).unwrap();
    assert!(hidden.events[0].seed().is_some_and(|seed| seed.starts_with("⟦sha256:")));
    // Whoever reads the journal finds the digests that were shown.
    let Event::Started(started) = &stage.journal[0].event else { panic!("it begins") };
    let mut started = started.clone();
    let mut digests = std::collections::BTreeMap::new();
    for recorded in &stage.journal {
        started.renew(&recorded.event);
        if let Event::Asked(question) = &recorded.event {
            let sealed = started.sealed(&stage.run.id, question, recorded.at);
            digests.insert(question.ordinal, sealed.digest);
        }
        if let Event::Answered { ordinal, shown, .. } = &recorded.event
            && !shown.is_empty()
        {
            assert_eq!(digests.get(ordinal), Some(shown));
        }
    }
}

#[test]
fn an_answer_that_tells_of_no_secret_leaves_what_nonces_are_drawn_from() {
    let mut stage = curious();
    let given = stage.answer(&[(1, json!({"pin": ""})), (2, json!("approve"))], "");
    assert_eq!(stage.command_by(&given), Ok(None));
    assert_eq!((stage.run.seed.as_str(), stage.run.is_seed_open), ("5eed", true));
}
