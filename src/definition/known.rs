//! Known: whether those whom a file asks are there, as the operator knows them. A file can be right by
//! itself and ask a group that nobody is in: then nobody would ever pass it.
//!
//! Who has a name of their own is only noted: a key may be added any day. What a file says of people
//! by itself is checked with the rest of it (`check/people`).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::definition::problem::Problem;
use crate::definition::source::{Source, under};
use crate::kernel::Operator;

/// What a file is about, and not whom it asks: names in there are anybody's.
const OTHER: [&str; 9] = [
    "arguments",
    "context",
    "input",
    "metadata",
    "parameters",
    "response_schema",
    "output",
    "script",
    "settings",
];

/// Who speaks where there are no keys.
const LOCAL: &str = "local";

/// Kinds of a human step that let something happen.
const DECISIONS: [&str; 2] = ["approval", "plan_review"];

/// Groups and roles that nobody is in, and stages that need more people than there are, where the
/// operator has said anything of people; and, where nobody decides what they asked for, decisions that
/// are asked of nobody else.
pub(super) fn problems(source: &Source, operator: &Operator) -> Vec<Problem> {
    let mut found = Vec::new();
    if operator.four_eyes {
        alone(source, ("", &source.value), &mut found);
    }
    if !operator.people.is_empty() {
        look(source, operator, ("", &source.value), &mut found);
    }
    found
}

/// Names that nobody has yet, and groups where the operator has put nobody into any.
pub(super) fn notes(source: &Source, operator: &Operator) -> Vec<String> {
    let mut named = BTreeSet::new();
    collect(&source.value, &mut named);
    let is_group = |name: &str| name.contains(':');
    let is_unknown = |name: &&str| {
        let is_said = !operator.people.is_empty();
        let is_nobody = *name != LOCAL && !operator.people.contains_key(*name);
        if is_group(name) { !is_said } else { is_nobody }
    };
    let told = |name: &str| {
        if is_group(name) {
            format!(
                "nobody can be in `{name}`: nothing is said of people; `[people.NAME]` in \
                 holdpoint.toml puts somebody in it"
            )
        } else if operator.people.is_empty() {
            format!(
                "`{name}` is asked, and nobody can be that: there are no keys, so that everybody here is `{LOCAL}`; \
                 `holdpoint keys add {name}` makes one"
            )
        } else {
            format!(
                "`{name}` is asked, and is nobody here yet: `[people]` does not have that name; a key of that name will do"
            )
        }
    };
    named.into_iter().filter(is_unknown).map(told).collect()
}

/// Everybody who is asked, by the names that the file has for them.
fn collect<'a>(value: &'a Value, all: &mut BTreeSet<&'a str>) {
    match value {
        Value::Object(members) => {
            let to = value.get("to").and_then(Value::as_array);
            all.extend(to.into_iter().flatten().filter_map(Value::as_str));
            let inner = members.iter().filter(|(name, _)| !OTHER.contains(&name.as_str()));
            for (_, member) in inner {
                collect(member, all);
            }
        }
        Value::Array(items) => {
            for item in items {
                collect(item, all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Decisions that are asked of whoever began the run, and of nobody else.
fn alone(source: &Source, (at, value): (&str, &Value), all: &mut Vec<Problem>) {
    match value {
        Value::Object(members) => {
            let inner = members.iter().filter(|(name, _)| !OTHER.contains(&name.as_str()));
            for (name, member) in inner {
                let at = under(at, name);
                let decides = match name.as_str() {
                    "gate" | "review" => member.is_object(),
                    "human" => {
                        let kind = member.get("kind").and_then(Value::as_str);
                        kind.is_some_and(|kind| DECISIONS.contains(&kind))
                            || member.get("decides") == Some(&Value::Bool(true))
                    }
                    &_ => false,
                };
                if decides {
                    own(source, (&at, member), all);
                }
                if name == "gates" {
                    for (index, gate) in member.as_array().into_iter().flatten().enumerate() {
                        own(source, (&under(&at, index), gate), all);
                    }
                }
                alone(source, (&at, member), all);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                alone(source, (&under(at, index), item), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A decision that names nobody is asked of whoever owns the session. One with a deadline may be asked
/// of somebody else in time.
fn own(source: &Source, (at, decision): (&str, &Value), all: &mut Vec<Problem>) {
    let says = |name: &str| decision.get(name).is_some_and(|value| !value.is_null());
    if !["to", "approvers", "deadline", "on_timeout"].into_iter().any(says) {
        let message = "nobody can pass this under `four_eyes`: without `to` it is asked of whoever \
                       began the run, who may not decide it; say `to` whom else";
        all.push(source.at(at, "approvers.impassable", message));
    }
}

fn look(source: &Source, operator: &Operator, (at, value): (&str, &Value), all: &mut Vec<Problem>) {
    match value {
        Value::Object(members) => {
            if let Some(to) = value.get("to").and_then(Value::as_array) {
                addressed(source, operator, (&under(at, "to"), to), all);
                enough(source, operator, (at, value), all);
            }
            let inner = members.iter().filter(|(name, _)| !OTHER.contains(&name.as_str()));
            for (name, member) in inner {
                look(source, operator, (&under(at, name), member), all);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                look(source, operator, (&under(at, index), item), all);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Every group and role that is asked has somebody in it.
fn addressed(
    source: &Source,
    operator: &Operator,
    (at, to): (&str, &[Value]),
    all: &mut Vec<Problem>,
) {
    for (index, named) in to.iter().enumerate() {
        let Some(named) = named.as_str().filter(|named| named.contains(':')) else { continue };
        if members(operator, named).is_empty() {
            let message = format!(
                "nobody is in `{named}`, as the settings have it; name somebody who is, or put them \
                 in it under `[people.NAME]`"
            );
            all.push(source.at(&under(at, index), "approvers.nobody", message));
        }
    }
}

/// A stage needs no more people than it can have, all of its levels included.
fn enough(
    source: &Source,
    operator: &Operator,
    (at, stage): (&str, &Value),
    all: &mut Vec<Problem>,
) {
    let Some(need) = stage.get("need").and_then(Value::as_u64) else { return };
    let levels = stage.get("escalate").and_then(Value::as_array).into_iter().flatten();
    let lists = [stage].into_iter().chain(levels).filter_map(|one| one.get("to")?.as_array());
    let named: Vec<&str> = lists.flatten().filter_map(Value::as_str).collect();
    // Where nobody but people are named, the file's own check has counted them.
    if !named.iter().any(|named| named.contains(':')) {
        return;
    }
    let people: BTreeSet<&str> = named.iter().flat_map(|named| members(operator, named)).collect();
    if u64::try_from(people.len()).unwrap_or(u64::MAX) < need {
        let message = format!(
            "nobody can pass this stage: it needs {need} people, and as the settings have it there \
             are {}",
            people.len()
        );
        all.push(source.at(&under(at, "need"), "approvers.impassable", message));
    }
}

/// Who is meant by a name.
fn members<'a>(operator: &'a Operator, named: &'a str) -> BTreeSet<&'a str> {
    if !named.contains(':') {
        return BTreeSet::from([named]);
    }
    let people = operator.people.keys().filter(|who| operator.means(named, who));
    people.map(String::as_str).collect()
}
