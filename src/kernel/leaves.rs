//! Leaves: what a value is made of: texts, numbers, names of members. Whoever looks for something in it, or puts something
//! else there, goes through here.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Map, Value};

/// Whoever puts something else in the places of what a value is made of.
pub(super) trait Touch {
    /// A text, a number, a yes or a no.
    fn leaf(&mut self, value: &mut Value);

    /// The name of a member; none where it stays as it is.
    fn name(&mut self, name: &str) -> Option<String>;
}

/// Goes through a value, leaf by leaf and name by name.
pub(super) fn walk(value: &mut Value, touch: &mut dyn Touch) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, touch)),
        Value::Object(members) => {
            let names: Vec<_> = members.keys().map(|name| touch.name(name)).collect();
            if names.iter().any(Option::is_some) {
                let (old, mut counts) = (std::mem::take(members), BTreeMap::new());
                for ((name, value), other) in old.into_iter().zip(names) {
                    let name = unused(members, &mut counts, other.unwrap_or(name));
                    members.insert(name, value);
                }
            }
            members.values_mut().for_each(|value| walk(value, touch));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => touch.leaf(value),
    }
}

/// A name that no member has yet: two that are masked are two still. How many there are of each is counted: to try all
/// of them anew for each would take as long as they are many, times as many.
fn unused(
    members: &Map<String, Value>,
    counts: &mut BTreeMap<String, usize>,
    name: String,
) -> String {
    if !members.contains_key(&name) {
        return name;
    }
    let count = counts.entry(name.clone()).or_insert(1);
    loop {
        *count += 1;
        let other = format!("{name} {count}");
        if !members.contains_key(&other) {
            return other;
        }
    }
}

/// The texts, numbers and names of a value.
pub(super) fn texts_in<'v>(value: &'v Value, found: &mut Vec<Cow<'v, str>>) {
    match value {
        Value::String(text) => found.push(text.into()),
        Value::Number(number) => found.push(number.to_string().into()),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, found)),
        Value::Object(members) => {
            for (name, value) in members {
                found.push(name.into());
                texts_in(value, found);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}

/// How many words a text has.
pub(super) fn words(text: &str) -> usize {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).count()
}
