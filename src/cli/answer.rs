//! Answer: what a person types, as the value that a question takes. Pure.
//!
//! The server has the last word: it validates against the response schema, and refuses what does
//! not fit. Here only the ways of typing are translated, and nothing vague ever becomes a yes (K7).

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::cli::form::Form;
use crate::cli::json;
use crate::definition::nearest;
use crate::kernel::{Verb, strict};
use crate::wire::v1::Request;

/// Ends the conversation where the question allows it.
pub(super) const END: &str = "/end";

/// What is said about a side effect that may have happened.
const OUTCOMES: &str = "happened: what came of it, redo or abort";

/// What a typed answer means.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Meaning {
    /// This value.
    Value(Value),
    /// A no; a person may say why.
    Reject,
    /// A no to a tool call; a person may say why.
    Deny,
    /// The side effect happened; a person may say what came of it.
    Happened,
    /// Another version of what is decided, to be written in an editor.
    Edit,
    /// This word, which takes a person's reasons with it.
    Reasoned(String),
    /// Nothing that the question takes; this is what it takes.
    Unclear(String),
}

/// Understands what was typed.
pub(super) fn read(request: &Request, typed: &str) -> Meaning {
    let text = &*without_code(request, typed.trim());
    let schema = json::optional(request.response_schema.as_ref());
    if takes_decision(&schema) {
        return decision(text, &schema);
    }
    if takes_gate(&schema) {
        return ruling(text, &schema);
    }
    if takes_verbs(&schema) {
        return verb(text);
    }
    if takes_words(request, &schema) {
        return word(request, text);
    }
    if text == END && takes_end(&schema) {
        return Meaning::Value(json!({"verb": "end"}));
    }
    if let Some(id) = option_by_number(request, text) {
        return Meaning::Value(Value::String(id));
    }
    let is_number = !text.is_empty() && text.chars().all(|char| char.is_ascii_digit());
    let is_named = request.options.iter().any(|one| one.id == text || one.label == text);
    if is_number && schema["enum"].is_array() && !is_named {
        let count = request.options.len();
        return Meaning::Unclear(format!("there is no {text}: choose from 1 to {count}"));
    }
    if matches!(schema.get("type").and_then(Value::as_str), Some("object" | "array")) {
        return match strict::read(text.as_bytes()) {
            Ok(value) => Meaning::Value(value),
            Err(error) => Meaning::Unclear(format!("this question takes JSON: {error}")),
        };
    }
    Meaning::Value(Value::String(text.to_owned()))
}

/// What is said, without this question's code after the word: `approve KWQFM: but hurry` is how other doors have it. The
/// code of another question is none here, and stays (K9).
fn without_code<'a>(request: &Request, text: &'a str) -> Cow<'a, str> {
    let (said, note) = text.split_once(':').unwrap_or((text, ""));
    let mut words = said.split_whitespace();
    let (Some(word), Some(code), None) = (words.next(), words.next(), words.next()) else {
        return text.into();
    };
    if request.code.is_empty() || !code.eq_ignore_ascii_case(&request.code) {
        return text.into();
    }
    if note.trim().is_empty() { word.into() } else { format!("{word}: {note}").into() }
}

/// The fields of a question that has some: whatever is no decision and takes an object with members.
pub(super) fn form(request: &Request) -> Option<Form> {
    let schema = json::optional(request.response_schema.as_ref());
    let is_decided = takes_decision(&schema) || takes_gate(&schema) || takes_verbs(&schema);
    if is_decided || takes_words(request, &schema) || !request.options.is_empty() {
        return None;
    }
    Form::of(request)
}

/// Whether it is about a tool call that waits at a gate.
pub(super) fn takes_call(request: &Request) -> bool {
    takes_gate(&json::optional(request.response_schema.as_ref()))
}

/// A no, with a reason if there is one.
pub(super) fn reject(note: &str) -> Value {
    decided(Verb::Reject.word(), note)
}

/// A no to a tool call, with a reason if there is one.
pub(super) fn deny(note: &str) -> Value {
    decided(Verb::Deny.word(), note)
}

/// A yes, with a note if there is one.
pub(super) fn approve(note: &str) -> Value {
    decided(Verb::Approve.word(), note)
}

/// A word at a gate, with a note if there is one.
pub(super) fn decided(word: &str, note: &str) -> Value {
    match note.trim() {
        "" => json!({"decision": word}),
        note => json!({"decision": word, "note": note}),
    }
}

/// Whether it is a decision that a note can still go with.
pub(super) fn is_bare(value: &Value) -> bool {
    let fields = value.as_object().filter(|fields| fields.len() == 1);
    fields.is_some_and(|fields| fields.get("decision").is_some_and(Value::is_string))
}

/// The side effect happened, and this came of it: JSON where it is, else text.
pub(super) fn happened(came: &str) -> Value {
    let result = match came.trim() {
        "" => Value::Null,
        text => strict::read(text.as_bytes()).unwrap_or_else(|_| Value::String(text.into())),
    };
    json!({"verb": Verb::Happened.word(), "result": result})
}

/// Whether somebody says yes, to a question of ours that a yes or a no answers.
pub(super) fn is_yes(typed: &str) -> bool {
    matches!(typed.trim().to_lowercase().as_str(), "y" | "yes")
}

/// Whether what somebody `said` before they saw what it decides stands: Enter says so, a yes, and the same word again.
pub(super) fn stands(typed: &str, said: &str) -> bool {
    typed.trim().is_empty() || typed.trim() == said || is_yes(typed)
}

/// What can be typed in a conversation, in a few words.
pub(super) fn usage(request: &Request) -> String {
    format!("{}; exit leaves the run waiting", takes(request))
}

/// What is taken for an answer, in a few words.
pub(super) fn takes(request: &Request) -> String {
    let schema = json::optional(request.response_schema.as_ref());
    if takes_decision(&schema) {
        decisions(&schema)
    } else if takes_gate(&schema) {
        let all = if takes_all(&schema) { ", all for the rest of the run" } else { "" };
        let back = if takes_return(&schema) { ", return" } else { "" };
        let edit = if says_edit(&schema) { ", or edit" } else { "" };
        let end = if takes_note(&schema) { "" } else { " to end the run" };
        format!("y for this once{all}, n{end}{back}{edit}")
    } else if takes_verbs(&schema) {
        OUTCOMES.to_owned()
    } else if takes_words(request, &schema) {
        let note = if takes_note(&schema) { ", a note after a colon" } else { "" };
        format!("1 to {}{note}", request.options.len())
    } else if !request.options.is_empty() {
        format!("1 to {}", request.options.len())
    } else if takes_end(&schema) {
        format!("your answer, {END} to end the conversation")
    } else {
        match schema.get("type").and_then(Value::as_str) {
            Some(kind @ ("integer" | "number" | "boolean")) => format!("a value of type {kind}"),
            Some("object" | "array") => match form(request) {
                Some(form) => format!("JSON with {}", named(&form)),
                None => "JSON".into(),
            },
            Some(_) | None => "your answer".into(),
        }
    }
}

/// The fields of a form, those that may be left out with a question mark.
fn named(form: &Form) -> String {
    let names = form.asked().into_iter().map(|place| {
        let field = &form.fields[place];
        if field.is_needed { field.name.clone() } else { format!("{}?", field.name) }
    });
    names.collect::<Vec<_>>().join(", ")
}

/// What was probably meant, where one of the words that are taken is near. Never taken for it (K7).
fn near(text: &str, words: &[&str]) -> String {
    let meant = nearest(&text.to_lowercase(), words.iter().copied());
    meant.map(|word| format!("; did you mean `{word}`?")).unwrap_or_default()
}

/// The words that an approval takes.
fn decisions(schema: &Value) -> String {
    let (edit, back) = (takes_edit(schema), takes_return(schema));
    let words = match (edit, back) {
        (true, true) => "y, n, edit or return",
        (true, false) => "y, n or edit",
        (false, true) => "y, n or return",
        (false, false) => "y or n",
    };
    words.to_owned()
}

/// A word, and the note after its colon. An answer in JSON is one word.
fn noted(text: &str) -> (String, &str) {
    let is_json = text.starts_with(['{', '[', '"']);
    let (word, note) = text.split_once(':').filter(|_| !is_json).unwrap_or((text, ""));
    (word.trim().to_lowercase(), note.trim())
}

fn decision(text: &str, schema: &Value) -> Meaning {
    let (word, note) = noted(text);
    match (Verb::plainly(&word), word.as_str()) {
        (Some(true), _) => Meaning::Value(approve(note)),
        (Some(false), _) if note.is_empty() => Meaning::Reject,
        (Some(false), _) => Meaning::Value(reject(note)),
        (None, "return") => returned(note),
        (None, "e" | "edit") if takes_edit(schema) && note.is_empty() => Meaning::Edit,
        (None, _) => match strict::read(text.as_bytes()) {
            Ok(value) if value.is_object() => Meaning::Value(value),
            Ok(_) | Err(_) if takes_edit(schema) => {
                let back = if takes_return(schema) { ", return to have it changed" } else { "" };
                let words = "type y to approve, n to reject, edit to change it yourself";
                let near = near(text, &["approve", "reject", "edit", "return"]);
                Meaning::Unclear(format!("{words}{back}{near}"))
            }
            Ok(_) | Err(_) if takes_return(schema) => {
                let near = near(text, &["approve", "reject", "return"]);
                let words = "type y to approve, n to reject or return to have it changed";
                Meaning::Unclear(format!("{words}{near}"))
            }
            Ok(_) | Err(_) => {
                let near = near(text, &["approve", "reject"]);
                Meaning::Unclear(format!("type y to approve or n to reject{near}"))
            }
        },
    }
}

/// Back to whoever wrote it, who must be told what should be different.
fn returned(note: &str) -> Meaning {
    let word = Verb::Return.word();
    match note {
        "" => Meaning::Reasoned(word.into()),
        note => Meaning::Value(decided(word, note)),
    }
}

/// What is typed about a tool call that waits at a gate.
fn ruling(text: &str, schema: &Value) -> Meaning {
    let (word, note) = noted(text);
    match (Verb::plainly(&word), word.as_str()) {
        (Some(true), _) | (None, "allow_once") => {
            Meaning::Value(decided(Verb::AllowOnce.word(), note))
        }
        (None, "all" | "allow_for_run") => Meaning::Value(decided(Verb::AllowForRun.word(), note)),
        (Some(false), _) if note.is_empty() && takes_note(schema) => Meaning::Deny,
        (Some(false), _) => Meaning::Value(deny(note)),
        (None, "return") if takes_return(schema) => returned(note),
        (None, "e" | "edit") if note.is_empty() && says_edit(schema) => Meaning::Edit,
        (None, _) => match strict::read(text.as_bytes()) {
            Ok(value) if value.is_object() => Meaning::Value(value),
            Ok(_) | Err(_) => {
                let words = [("y", true), ("all", takes_all(schema)), ("n", true)];
                let more = [("edit", says_edit(schema)), ("return", takes_return(schema))];
                let words = words.into_iter().chain(more);
                let taken: Vec<_> = words.filter(|(_, is)| *is).map(|(word, _)| word).collect();
                let meant: Vec<_> = ["allow", "deny"].into_iter().chain(taken.clone()).collect();
                let near = near(text, &meant);
                Meaning::Unclear(format!("type one of: {}{near}", taken.join(", ")))
            }
        },
    }
}

/// What is typed about a side effect that nobody knows of: that it happened, with what came of it after a colon, or what
/// is to be done now.
fn verb(text: &str) -> Meaning {
    let (word, came) = noted(text);
    match (word.as_str(), came) {
        ("h" | "happened", "") => Meaning::Happened,
        ("h" | "happened", came) => Meaning::Value(happened(came)),
        ("r" | "redo", "") => Meaning::Value(json!({"verb": Verb::Redo.word()})),
        ("a" | "abort", "") => Meaning::Value(json!({"verb": Verb::Abort.word()})),
        (_, _) => match strict::read(text.as_bytes()) {
            Ok(value) if value.is_object() => Meaning::Value(value),
            Ok(_) | Err(_) => Meaning::Unclear(format!("type one of: {OUTCOMES}")),
        },
    }
}

/// What is typed at a step's gate: one of the words that are offered, by name or number, perhaps with a
/// note after a colon; or the whole answer as JSON.
fn word(request: &Request, text: &str) -> Meaning {
    if text.starts_with('{') {
        return match strict::read(text.as_bytes()) {
            Ok(value) => Meaning::Value(value),
            Err(error) => Meaning::Unclear(format!("this is no JSON: {error}")),
        };
    }
    let (word, note) = text.split_once(':').unwrap_or((text, ""));
    let word = word.trim().to_lowercase();
    let offers = |word: &str| request.options.iter().any(|option| option.id == word);
    let word = option_by_number(request, &word).unwrap_or(word);
    let plainly = Verb::plainly(&word).map(|yes| if yes { Verb::Approve } else { Verb::Reject });
    let plainly = plainly.filter(|verb| !offers(&word) && offers(verb.word()));
    let word = plainly.map_or(word, |verb| verb.word().to_owned());
    let is_offered = offers(&word);
    match (is_offered, word.as_str(), note.trim()) {
        (true, "modify", _) => Meaning::Unclear(
            "write your own version: {\"decision\": \"modify\", \"plan\": …}".into(),
        ),
        (true, "revise" | "return", "") => Meaning::Reasoned(word),
        (true, _, note) => Meaning::Value(decided(&word, note)),
        (false, ..) => {
            let offered: Vec<_> = request.options.iter().map(|one| one.id.as_str()).collect();
            let near = near(&word, &offered);
            Meaning::Unclear(format!("type one of: {}{near}", offered.join(", ")))
        }
    }
}

/// An option that is itself called `2` is meant by its name, not by its place.
fn option_by_number(request: &Request, text: &str) -> Option<String> {
    if request.options.iter().any(|option| option.id == text || option.label == text) {
        return None;
    }
    let index = text.parse::<usize>().ok()?.checked_sub(1)?;
    request.options.get(index).map(|option| option.id.clone())
}

fn takes_decision(schema: &Value) -> bool {
    says(&schema["properties"]["decision"], Verb::Approve.word())
}

fn takes_gate(schema: &Value) -> bool {
    says(&schema["properties"]["decision"], Verb::AllowOnce.word())
}

fn takes_return(schema: &Value) -> bool {
    says(&schema["properties"]["decision"], Verb::Return.word())
}

fn takes_edit(schema: &Value) -> bool {
    takes_decision(schema) && says_edit(schema)
}

fn says_edit(schema: &Value) -> bool {
    says(&schema["properties"]["decision"], Verb::Edit.word())
}

/// Whether words may come with it; at a gate that the run's start brought, none may.
fn takes_note(schema: &Value) -> bool {
    let has_note = |one: &Value| one["properties"]["note"].is_object();
    has_note(schema) || any_of(schema).any(has_note)
}

fn takes_all(schema: &Value) -> bool {
    says(&schema["properties"]["decision"], Verb::AllowForRun.word())
}

fn takes_verbs(schema: &Value) -> bool {
    any_of(schema).any(|one| says(&one["properties"]["verb"], Verb::Redo.word()))
}

/// A gate of a step: its words are options, and each may come with more.
fn takes_words(request: &Request, schema: &Value) -> bool {
    let is_decided = |one: &Value| one["properties"]["decision"]["enum"].is_array();
    !request.options.is_empty() && any_of(schema).any(is_decided)
}

fn takes_end(schema: &Value) -> bool {
    any_of(schema).any(|one| says(&one["properties"]["verb"], "end"))
}

fn any_of(schema: &Value) -> impl Iterator<Item = &Value> {
    schema["anyOf"].as_array().into_iter().flatten()
}

fn says(schema: &Value, word: &str) -> bool {
    let listed = schema["enum"].as_array().is_some_and(|words| words.iter().any(|it| it == word));
    listed || schema["const"] == word
}

#[cfg(test)]
#[path = "answer_tests.rs"]
mod tests;
