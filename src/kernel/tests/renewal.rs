//! Renewal: in a store that was put back, what decides is asked anew, what was under way is asked
//! about, and nothing that was allowed before still is.

use serde_json::json;

use super::cast::{forever, human, sequence, step};
use super::stage::{Act, Stage, answers, calls, says};
use crate::kernel::workflow::{Patience, Safety};
use crate::kernel::{Command, Event, Kind, Origin, Status};

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
