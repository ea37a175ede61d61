//! What stages, votes and places promise, on a question alone: no run, no journal.

use super::*;

use crate::kernel::claims::Delegation;
use crate::kernel::id::RunId;
use crate::kernel::operator::{Membership, Say, Voice};
use crate::kernel::principal::{Principal, Role};
use crate::kernel::question::Origin;
use crate::kernel::terms::Kind;

const OWNER: &str = "clerk";
const PROVEN: Footing<'static> = Footing { assurance: Assurance::Proven, service: None, at: None };

fn people(names: &[&str]) -> Operator {
    let people = names.iter().map(|name| ((*name).to_owned(), Membership::default()));
    Operator { people: people.collect(), ..Operator::default() }
}

fn stage(to: &[&str], need: u32) -> Stage {
    Stage { to: to.iter().map(|name| (*name).to_owned()).collect(), need, ..Stage::default() }
}

fn question(stages: Vec<Stage>) -> Question {
    let to = stages[0].to.clone();
    Question { to, stages, ..Question::bare(Kind::Approval, Origin::HumanStep) }
}

fn vote(by: &str, stage: u32) -> Vote {
    Vote {
        by: by.into(),
        verb: "approve".into(),
        stage,
        assurance: Assurance::Proven,
        service: None,
        instead_of: None,
        at: None,
    }
}

fn handed(by: &str, to: &str, until: u64) -> Delegation {
    let (assurance, service, at) = (Assurance::Proven, None, None);
    Delegation { by: by.into(), to: to.into(), until: Millis(until), assurance, service, at }
}

fn at(operator: &Operator, now: u64) -> Admission<'_> {
    let by = Asker { owner: OWNER, requesters: &[], workflow: "bills" };
    Admission { by, operator, now: Millis(now) }
}

fn yes(operator: &Operator, question: &Question, who: &str) -> Option<u32> {
    at(operator, 10).after(question, (who, PROVEN, Verb::Approve))
}

#[test]
fn k8_whom_one_stage_excludes_another_may_need() {
    let operator = people(&["ann", "clerk"]);
    let first = Stage { not: vec![Excluded::Requester], ..stage(&["ann", "clerk"], 1) };
    let mut asked = question(vec![first, stage(&["clerk"], 1)]);
    let admits = |asked: &Question, who| at(&operator, 0).admits(asked, who);
    assert!(admits(&asked, "ann") && !admits(&asked, "clerk"));
    assert_eq!(yes(&operator, &asked, "ann"), Some(1));
    asked.votes.push(vote("ann", 0));
    asked.enter(1, Millis(0));
    assert!(admits(&asked, "clerk") && !admits(&asked, "ann"));
    assert_eq!(yes(&operator, &asked, "clerk"), None, "what the first stage excludes is its own");
}

#[test]
fn k8_whoever_is_gone_at_the_last_word_counts_for_nothing_and_their_stage_is_asked_again() {
    let mut asked = question(vec![stage(&["ann", "bob"], 1), stage(&["cfo"], 1)]);
    asked.votes.push(vote("ann", 0));
    asked.enter(1, Millis(0));
    assert_eq!(yes(&people(&["ann", "bob", "cfo"]), &asked, "cfo"), None);
    let without = people(&["bob", "cfo"]);
    assert_eq!(yes(&without, &asked, "cfo"), Some(0));
    asked.votes.push(vote("cfo", 1));
    asked.enter(0, Millis(0));
    assert_eq!(asked.to, ["ann", "bob"]);
    assert_eq!(yes(&without, &asked, "bob"), None, "what the CFO has said stands");
}

#[test]
fn k8_what_was_said_with_a_key_that_is_gone_counts_for_nothing_though_its_person_has_another() {
    let mut operator = people(&["ann", "bob"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    asked.votes.push(Vote { at: Some(Millis(5)), ..vote("ann", 0) });
    let mut since = |own: u64, vouched: u64| {
        operator.people.get_mut("ann").unwrap().own[0].since = Millis(own);
        for (name, since) in [("desk", vouched), ("other", 0)] {
            let service = Say { since: Millis(since), ..Say::default() };
            operator.services.insert(name.to_owned(), service);
        }
        operator.clone()
    };
    assert_eq!(yes(&since(5, 9), &asked, "bob"), None, "a key of hers is as old as her word");
    assert_eq!(yes(&since(6, 0), &asked, "bob"), Some(0), "all of hers are newer");
    assert_eq!(at(&since(6, 0), 10).void(&asked), [(0, "ann".to_owned())]);
    // What a service said for her goes by that service's key, and not by another's; and what says no time by none.
    asked.votes[0].assurance = Assurance::Vouched;
    asked.votes[0].service = Some("desk".into());
    asked.stages[0].assurance = Some(Assurance::Vouched);
    assert_eq!(at(&since(6, 0), 10).void(&asked), []);
    assert_eq!(at(&since(0, 6), 10).void(&asked), [(0, "ann".to_owned())]);
    let mut without = since(0, 0);
    without.services.remove("desk");
    assert_eq!(at(&without, 10).void(&asked), [(0, "ann".to_owned())], "`other` has not said it");
    asked.votes[0].at = None;
    assert_eq!(at(&since(6, 6), 10).void(&asked), []);
}

#[test]
fn k8_a_key_that_is_good_elsewhere_alone_does_not_stand_for_one_that_is_gone() {
    let mut operator = people(&["ann", "bob"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    asked.votes.push(Vote { at: Some(Millis(5)), ..vote("ann", 0) });
    let within = |name: &str| Voice::Within([name.to_owned()].into());
    let ann = operator.people.get_mut("ann").unwrap();
    ann.own[0].since = Millis(6);
    ann.own.push(Say { voice: within("others"), since: Millis(0) });
    assert_eq!(yes(&operator, &asked, "bob"), Some(0));
    operator.people.get_mut("ann").unwrap().own[1].voice = within("bills");
    assert_eq!(yes(&operator, &asked, "bob"), None);
}

#[test]
fn k8_what_was_said_in_a_place_is_not_said_in_it_once_it_is_handed_over_again() {
    let operator = people(&["ann", "bob", "dan"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    asked.delegations.push(Delegation { at: Some(Millis(4)), ..handed("ann", "dan", 20) });
    asked.votes.push(Vote { at: Some(Millis(5)), ..vote("dan", 0) });
    assert_eq!(yes(&operator, &asked, "bob"), None);
    asked.delegations[0].at = Some(Millis(6));
    assert_eq!(at(&operator, 10).void(&asked), [(0, "dan".to_owned())]);
    assert_eq!(yes(&operator, &asked, "bob"), Some(0));
}

#[test]
fn k8_a_place_that_was_handed_over_with_a_key_that_is_gone_is_its_owners_again() {
    let mut operator = people(&["ann", "bob", "dan"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    asked.delegations.push(Delegation { at: Some(Millis(5)), ..handed("ann", "dan", 20) });
    asked.votes.push(vote("dan", 0));
    assert_eq!(yes(&operator, &asked, "bob"), None, "in the place of ann");
    operator.people.get_mut("ann").unwrap().own[0].since = Millis(6);
    assert!(!at(&operator, 10).admits(&asked, "dan"));
    assert_eq!(at(&operator, 10).void(&asked), [(0, "dan".to_owned())]);
    assert_eq!(yes(&operator, &asked, "bob"), Some(0));
    let run = RunId::fresh("01m7q134g5egptb149ntc3g92v");
    let ann = Principal::new("ann", Role::User, "test");
    let refused = |operator: &Operator| {
        crate::kernel::permission::refuse_handed_over(&at(operator, 10), (&run, &asked), &ann)
    };
    assert_eq!(refused(&operator), Ok(()), "and hers to speak in");
    operator.people.get_mut("ann").unwrap().own[0].since = Millis(5);
    assert!(refused(&operator).is_err());
    // The same of one that a service handed over for her.
    let handed = &mut asked.delegations[0];
    (handed.assurance, handed.service) = (Assurance::Vouched, Some("desk".into()));
    asked.stages[0].assurance = Some(Assurance::Vouched);
    assert!(!at(&operator, 10).admits(&asked, "dan"), "that is nobody now");
    operator.services.insert("desk".into(), Say::default());
    assert!(at(&operator, 10).admits(&asked, "dan"));
}

#[test]
fn k8_whoever_was_asked_as_well_counts_also_when_the_stage_is_left() {
    let operator = people(&["ann", "deputy", "cfo"]);
    let mut asked = question(vec![stage(&["ann"], 1), stage(&["cfo"], 1)]);
    asked.to.push("deputy".into());
    assert_eq!(yes(&operator, &asked, "deputy"), Some(1));
    asked.votes.push(vote("deputy", 0));
    asked.enter(1, Millis(0));
    assert_eq!(yes(&operator, &asked, "cfo"), None);
}

#[test]
fn k8_whoever_hands_a_place_over_and_whoever_holds_it_are_one() {
    let operator = people(&["ann", "bob", "dan"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    assert!(!at(&operator, 10).admits(&asked, "dan"));
    asked.delegations.push(handed("ann", "dan", 20));
    assert!(at(&operator, 10).admits(&asked, "dan"));
    asked.votes.push(vote("ann", 0));
    assert_eq!(yes(&operator, &asked, "dan"), Some(0), "one place, one vote");
    assert_eq!(yes(&operator, &asked, "bob"), None);
}

#[test]
fn k8_a_place_that_is_over_or_whose_owner_is_not_admitted_counts_for_nothing() {
    let operator = people(&["ann", "bob", "dan"]);
    let mut asked = question(vec![stage(&["ann", "bob"], 2)]);
    asked.delegations.push(handed("ann", "dan", 20));
    asked.votes.push(vote("dan", 0));
    let said = ("bob", PROVEN, Verb::Approve);
    assert_eq!(at(&operator, 19).after(&asked, said), None);
    assert_eq!(at(&operator, 20).after(&asked, said), Some(0), "its time is up");
    assert_eq!(yes(&people(&["bob", "dan"]), &asked, "bob"), Some(0), "ann is nobody");
    asked.stages[0].not.push(Excluded::Participant);
    asked.participants.push("dan".into());
    assert_eq!(yes(&operator, &asked, "bob"), Some(0), "dan is excluded");
}

#[test]
fn who_is_missing_is_told_by_what_was_said() {
    let mut asked = question(vec![stage(&["ann", "bob", "group:finance"], 2)]);
    asked.delegations.push(handed("ann", "dan", 9));
    asked.votes.push(Vote { instead_of: Some("ann".into()), ..vote("dan", 0) });
    let standing = asked.standing(0);
    assert_eq!(
        standing,
        Standing { missing: 1, silent: vec!["bob".into(), "group:finance".into()] }
    );
    // What was said in a place that was taken back is nobody's word.
    asked.delegations.clear();
    assert_eq!((asked.standing(0).missing, asked.standing_votes().count()), (2, 0));
}
