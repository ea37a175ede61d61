//! Asked: a question in words, for doors at which people talk: what is decided, what is asked, and by
//! what an answer names it.

use crate::kernel::{Choice, Question, Refusal, Standing, Verb, Vote, readable};

/// What a client shows of what is decided; more is no text that anybody reads in a chat.
const SUBJECT_BYTES_MAX: usize = 16 << 10;

/// A question in words. A code is printed with the whole of what it decides, or not at all (K9).
pub(super) fn words(question: &Question) -> String {
    let mut words = question.prompt.clone();
    for refused in &question.refused {
        words.extend(["\nRefused before: ", &refused.words(), "."]);
    }
    for done in question.already_done() {
        words.extend(["\nDone already, where this was forked from: ", done, "."]);
    }
    words += &escalated(question);
    let subject = question.shown();
    let shown = if subject.is_null() { String::new() } else { readable(&subject) };
    let fits = shown.len() <= SUBJECT_BYTES_MAX;
    if question.decides() && !shown.is_empty() && fits {
        words.extend(["\n\n", &shown, "\n"]);
    }
    for (place, choice) in (1_usize..).zip(&question.options) {
        let Choice { description, .. } = choice;
        let more = if description.is_empty() { String::new() } else { format!(": {description}") };
        let label = choice.label();
        words.extend(["\n", &place.to_string(), ". ", label, &more]);
    }
    if question.decides() {
        words.push('\n');
        words += &how(question, fits);
    } else if !question.code().is_empty() {
        let code = question.code();
        words.extend(["\nAnswer by name, or by number with the code: `1 ", &code, "`."]);
    }
    words
}

/// A question that is not for whoever is told of it: what it is, and whom it waits for.
pub(super) fn waits(question: &Question, why: &Refusal) -> String {
    let escalated = escalated(question);
    format!("{}{escalated}\n\nThis is not yours to answer: {why}.", question.prompt)
}

/// Who is asked now, who was before, and until when, once nobody has answered in time; nothing before that.
fn escalated(question: &Question) -> String {
    if question.asked_before.is_empty() {
        return String::new();
    }
    let before: Vec<&str> = question.asked_before.iter().map(String::as_str).collect();
    let now = question.to.iter().map(String::as_str).filter(|name| !before.contains(name));
    let now: Vec<&str> = now.collect();
    // A clock that stands still has no time by which it is over.
    let deadline = question.deadline.filter(|_| question.still.is_none());
    let until = deadline.and_then(|at| {
        let at = jiff::Timestamp::from_millisecond(i64::try_from(at.0).ok()?).ok()?;
        Some(format!(", until {}", at.strftime("%Y-%m-%dT%H:%M:%SZ")))
    });
    let (before, now) = (before.join(", "), now.join(", "));
    let until = until.unwrap_or_default();
    format!(
        "\nNobody answered in time: {now} is asked as well now{until}; before, it was asked of {before} alone."
    )
}

/// How a question stands that takes more than one: who has said what, and who is missing.
pub(super) fn votes(question: &Question) -> String {
    let said = |vote: &Vote| match &vote.instead_of {
        None => format!("{}: {}", vote.by, vote.verb),
        Some(owner) => format!("{} in the place of {owner}: {}", vote.by, vote.verb),
    };
    let said: Vec<_> = question.standing_votes().map(said).collect();
    let Standing { missing, silent } = question.standing(question.stage);
    let mut words = format!("Taken. So far: {}.", said.join(", "));
    if missing > 0 {
        let are = if missing == 1 { "is" } else { "are" };
        let of = if silent.is_empty() { question.to.join(", ") } else { silent.join(", ") };
        words.extend([" ", &missing.to_string(), " more ", are, " needed, of: ", &of, "."]);
    }
    let later = question.stages.iter().skip(usize::try_from(question.stage).unwrap_or(0) + 1);
    let later: Vec<_> = later.map(|stage| stage.to.join(", ")).collect();
    if !later.is_empty() {
        words.extend([" Asked after that: ", &later.join("; "), "."]);
    }
    words
}

/// How a decision is answered in words.
fn how(question: &Question, fits: bool) -> String {
    if !fits {
        return "What is to be decided is too long for this place: open it in the console, or answer \
                by its request id."
            .into();
    }
    if question.needs_digest() {
        return "This is answered only with the digest of what is shown: in the console, or by its request \
                id with its digest."
            .into();
    }
    let code = question.code();
    let told = |verb: &Verb| {
        let note = if verb.needs_note() { ": why" } else { "" };
        format!("`{} {code}{note}`", verb.word())
    };
    // A version of one's own goes by no code: an instruction must not become the text.
    let offered = question.verbs();
    let verbs: Vec<_> = offered.iter().filter(|verb| !verb.brings_another()).map(told).collect();
    let more = if question.editable.is_some() {
        " A version of your own goes by the request id, as {\"decision\": \"edit\", \"subject\": …}."
    } else {
        ""
    };
    match verbs.split_last() {
        Some((last, rest)) if !rest.is_empty() => {
            format!("Answer {} or {last}.{more}", rest.join(", "))
        }
        Some((only, _)) => format!("Answer {only}."),
        None => format!("Answer with your words after the code: it is `{code}`."),
    }
}
