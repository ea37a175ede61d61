//! Decided: who decided what, as `holdpoint verify` tells it of a bundle: one line for each, and the same for programs.
//! What is secret stands in it as it does in the bundle.

use serde_json::{Value, json};

use crate::app::counted;
use crate::cli::plainly::quoted;
use crate::cli::term::line;
use crate::kernel::evidence::decided::{Act, Cancelled, Decided};
use crate::kernel::{Known, Version};

/// A line that a person can take in.
const CHARS_MAX: usize = 400;
/// How much of it a question may take: what was decided comes after it.
const ASKED_CHARS_MAX: usize = 160;

/// All of one, for programs.
pub(super) fn of(one: &Decided) -> Value {
    let asked = one.asked.as_ref();
    let leaf = one.leaf.map(|(version, index)| json!({"version": version, "index": index}));
    json!({
        "action": one.act.word(),
        "version": one.version,
        "time": one.at.date(),
        "by": one.by,
        "instead_of": one.instead_of,
        "door": one.door,
        "assurance": one.known.as_ref().map(|known| known.assurance.word()),
        "known_by": one.known.as_ref().map(|known| known.credential.to_string()),
        "ordinal": one.ordinal,
        "request_id": asked.and_then(|asked| asked.request.as_ref()).map(ToString::to_string),
        "kind": asked.map(|asked| asked.kind.word()),
        "title": asked.and_then(|asked| asked.title.as_ref()),
        "prompt": asked.map(|asked| &asked.prompt),
        "decides": asked.map(|asked| asked.decides),
        "value": one.value,
        "shown": Some(&one.shown).filter(|shown| !shown.is_empty()),
        "shown_is_asked": one.is_as_asked,
        "veiled": asked.map(|asked| asked.is_veiled),
        "copied": one.is_copied,
        "leaf": leaf,
        "proven": one.is_proven,
    })
}

/// How many of them somebody decided, and how many are answers that decide nothing; what ended without an answer nobody
/// decided.
pub(super) fn counts(all: &[Decided]) -> String {
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let ended = number(all.iter().filter(|one| matches!(one.act, Act::Closed(_))).count());
    let decisions = number(all.iter().filter(|one| one.is_decision()).count());
    let answers = number(all.len()) - ended - decisions;
    let mut told = match decisions {
        0 => "no decision".to_owned(),
        count => counted(count, "decision"),
    };
    if answers > 0 {
        told.extend([", ", &*counted(answers, "answer")]);
    }
    if ended > 0 {
        told.extend([", ", &*counted(ended, "question"), " that ended without an answer"]);
    }
    told
}

/// Who cancelled a run, for programs.
pub(super) fn cancelled(one: &Cancelled) -> Value {
    let leaf = one.leaf.map(|(version, index)| json!({"version": version, "index": index}));
    json!({
        "version": one.version,
        "time": one.at.date(),
        "by": one.by,
        "door": one.door,
        "assurance": one.known.as_ref().map(|known| known.assurance.word()),
        "known_by": one.known.as_ref().map(|known| known.credential.to_string()),
        "reason": Some(&one.reason).filter(|reason| !reason.is_empty()),
        "leaf": leaf,
        "proven": one.is_proven,
    })
}

/// The same, in words.
pub(super) fn cancelled_in_words(one: &Cancelled) -> String {
    let reason = match one.reason.as_str() {
        "" => ", and gave no reason".to_owned(),
        reason => format!(": {}", quoted(reason, ASKED_CHARS_MAX)),
    };
    let (time, who) = (one.at.date(), who((&one.by, ""), &one.door, one.known.as_ref()));
    let said = line(&format!("{time} {who} cancelled the run{reason}"), CHARS_MAX);
    let proven = if one.is_proven { "" } else { "; NOT PROVEN" };
    format!("{said} (version {}, {}{proven})", one.version, placed(one.leaf))
}

/// Who, in whose place, through which door, and how they were known.
fn who((by, place): (&str, &str), door: &str, known: Option<&Known>) -> String {
    let by = if by.is_empty() { "-" } else { by };
    let door = if door.is_empty() { String::new() } else { format!(" by {door}") };
    let known = known.map_or_else(String::new, |known| {
        format!(" [{}, {}]", known.assurance.word(), known.credential)
    });
    format!("{by}{place}{door}{known}")
}

/// Where in the log its leaf is.
fn placed(leaf: Option<(Version, Option<u64>)>) -> String {
    match leaf {
        Some((_, Some(index))) => format!("leaf {index}"),
        Some((_, None)) => "a leaf without a place yet".to_owned(),
        None => "no leaf".to_owned(),
    }
}

/// In words.
pub(super) fn in_words(one: &Decided) -> String {
    let place = one.instead_of.as_ref().map(|whose| format!(" in the place of {whose}"));
    let place = place.unwrap_or_default();
    let who = who((&one.by, &place), &one.door, one.known.as_ref());
    let asked = one.asked.as_ref().map_or_else(
        || format!("question {}", one.ordinal),
        |asked| quoted(asked.title.as_ref().unwrap_or(&asked.prompt), ASKED_CHARS_MAX),
    );
    let value = one.value.as_ref().map_or_else(String::new, |value| format!(" => {value}"));
    let leaf = placed(one.leaf);
    let shown = match one.is_as_asked {
        Some(true) => "; what was shown is what was asked",
        Some(false) => "; WHAT WAS SHOWN IS NOT WHAT STANDS HERE AS ASKED",
        None if one.lacks_secrets() => "; what was shown cannot be computed without the secrets",
        None => "",
    };
    let masked = if one.was_masked() { "; some of it was masked to them" } else { "" };
    let copied = if one.is_copied { "; copied from the run that it was forked from" } else { "" };
    let proven = if one.is_proven { "" } else { "; NOT PROVEN" };
    let (time, word) = (one.at.date(), one.act.word());
    let said = line(&format!("{time} {who} {word} {asked}{value}"), CHARS_MAX);
    // What matters of it is never cut off by how long a question is.
    format!("{said} (version {}, {leaf}{shown}{masked}{copied}{proven})", one.version)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::kernel::evidence::decided::Asked;
    use crate::kernel::{Closing, Kind, Millis};

    fn one(act: Act) -> Decided {
        Decided {
            version: 3,
            append: 3,
            at: Millis(0),
            act,
            ordinal: 1,
            asked: None,
            value: None,
            by: "bob".into(),
            instead_of: None,
            door: "http".into(),
            known: None,
            shown: String::new(),
            is_as_asked: None,
            is_copied: false,
            leaf: None,
            is_proven: true,
        }
    }

    #[test]
    fn what_ended_without_an_answer_is_not_counted_as_a_decision() {
        let (said, ended) = (one(Act::Answered), one(Act::Closed(Closing::Rejected)));
        assert_eq!(counts(slice::from_ref(&said)), "1 decision");
        assert_eq!(
            counts(slice::from_ref(&ended)),
            "no decision, 1 question that ended without an answer"
        );
        let all = [said.clone(), one(Act::Voted), ended.clone(), ended];
        assert_eq!(counts(&all), "2 decisions, 2 questions that ended without an answer");
    }

    #[test]
    fn an_answer_that_decides_nothing_is_counted_apart_from_decisions() {
        let asked = |kind: Kind, decides: bool| {
            let (title, prompt) = (None, "The PIN?".to_owned());
            let (request, digest) = (None, None);
            Asked { kind, title, prompt, decides, request, is_veiled: false, digest }
        };
        let words =
            Decided { asked: Some(asked(Kind::Clarification, false)), ..one(Act::Answered) };
        let said = Decided { asked: Some(asked(Kind::Approval, true)), ..one(Act::Answered) };
        assert_eq!(counts(slice::from_ref(&words)), "no decision, 1 answer");
        let all = [said, words.clone(), words, one(Act::Closed(Closing::Moot))];
        let told = "1 decision, 2 answers, 1 question that ended without an answer";
        assert_eq!(counts(&all), told);
        let decides = [of(&all[0]), of(&all[1])].map(|one| one["decides"].clone());
        assert_eq!(decides, [json!(true), json!(false)]);
    }

    #[test]
    fn who_cancelled_a_run_is_told_with_the_reason_and_the_leaf() {
        let mut ended = Cancelled {
            version: 9,
            append: 9,
            at: Millis(0),
            by: "eve".into(),
            reason: "too \"dear\"".into(),
            door: "grpc".into(),
            known: None,
            leaf: Some((9, Some(3))),
            is_proven: true,
        };
        let told = "1970-01-01T00:00:00Z eve by grpc cancelled the run: \"too \\\"dear\\\"\" (version 9, leaf 3)";
        assert_eq!(cancelled_in_words(&ended), told);
        assert_eq!(cancelled(&ended)["reason"], "too \"dear\"");
        (ended.reason, ended.is_proven) = (String::new(), false);
        let told = cancelled_in_words(&ended);
        assert!(told.contains("gave no reason (version 9, leaf 3; NOT PROVEN)"), "{told}");
        assert_eq!(cancelled(&ended)["reason"], Value::Null);
    }
}
