//! Decided: who decided what, as `holdpoint verify` tells it of a bundle: one line for each, and the same for programs.
//! What is secret stands in it as it does in the bundle.

use serde_json::{Value, json};

use crate::app::counted;
use crate::cli::plainly::quoted;
use crate::cli::term::line;
use crate::kernel::evidence::decided::{Act, Decided};

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
        "value": one.value,
        "shown": Some(&one.shown).filter(|shown| !shown.is_empty()),
        "shown_is_asked": one.is_as_asked,
        "veiled": asked.map(|asked| asked.is_veiled),
        "copied": one.is_copied,
        "leaf": leaf,
        "proven": one.is_proven,
    })
}

/// How many of them somebody decided; what ended without an answer nobody did.
pub(super) fn counts(all: &[Decided]) -> String {
    let ended = all.iter().filter(|one| matches!(one.act, Act::Closed(_))).count();
    let number = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
    let decisions = match number(all.len() - ended) {
        0 => "no decision".to_owned(),
        count => counted(count, "decision"),
    };
    if ended == 0 {
        return decisions;
    }
    format!("{decisions}, {} that ended without an answer", counted(number(ended), "question"))
}

/// In words.
pub(super) fn in_words(one: &Decided) -> String {
    let by = if one.by.is_empty() { "-" } else { one.by.as_str() };
    let place = one.instead_of.as_ref().map(|whose| format!(" in the place of {whose}"));
    let door = if one.door.is_empty() { String::new() } else { format!(" by {}", one.door) };
    let known = one.known.as_ref().map_or_else(String::new, |known| {
        format!(" [{}, {}]", known.assurance.word(), known.credential)
    });
    let asked = one.asked.as_ref().map_or_else(
        || format!("question {}", one.ordinal),
        |asked| quoted(asked.title.as_ref().unwrap_or(&asked.prompt), ASKED_CHARS_MAX),
    );
    let value = one.value.as_ref().map_or_else(String::new, |value| format!(" => {value}"));
    let leaf = match one.leaf {
        Some((_, Some(index))) => format!("leaf {index}"),
        Some((_, None)) => "a leaf without a place yet".to_owned(),
        None => "no leaf".to_owned(),
    };
    let shown = match one.is_as_asked {
        Some(true) => "; what was shown is what was asked",
        Some(false) => "; WHAT WAS SHOWN IS NOT WHAT STANDS HERE AS ASKED",
        None if one.lacks_secrets() => "; what was shown cannot be computed without the secrets",
        None => "",
    };
    let masked = if one.was_masked() { "; some of it was masked to them" } else { "" };
    let copied = if one.is_copied { "; copied from the run that it was forked from" } else { "" };
    let proven = if one.is_proven { "" } else { "; NOT PROVEN" };
    let (time, place, word) = (one.at.date(), place.unwrap_or_default(), one.act.word());
    let said = line(&format!("{time} {by}{place}{door}{known} {word} {asked}{value}"), CHARS_MAX);
    // What matters of it is never cut off by how long a question is.
    format!("{said} (version {}, {leaf}{shown}{masked}{copied}{proven})", one.version)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::kernel::{Closing, Millis};

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
}
