//! Read: what was filled in, as JSON. What does not fit is kept as it was written, so that it can be
//! shown again with the reason beside it.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use crate::api::console::fields::Fields;
use crate::api::console::form::{ITEMS_MAX, member};
use crate::api::form::{Shape, resolved};
use crate::kernel::strict;

/// The value of the field named `at`, by its schema; nothing, where nothing was filled in.
pub(in crate::api::console) fn read(fields: &Fields, schema: &Value, at: &str) -> Option<Value> {
    Reader { fields, root: schema }.value(schema, at, 0)
}

/// What was filled in over what was there: what a form cannot show (members that the schema does not
/// name, an empty text beside none) stays as it was.
pub(in crate::api::console) fn over(
    root: &Value,
    original: &Value,
    filled: Option<Value>,
) -> Value {
    merged(root, root, Some(original), filled, 0).unwrap_or(Value::Null)
}

fn merged(
    root: &Value,
    schema: &Value,
    original: Option<&Value>,
    filled: Option<Value>,
    depth: usize,
) -> Option<Value> {
    let schema = resolved(root, schema);
    let Shape::Object(members) = Shape::of(root, schema, depth) else {
        let kept = original.filter(|original| is_blank(original));
        return filled.or_else(|| kept.cloned());
    };
    let before = original.and_then(Value::as_object);
    let mut filled = match filled {
        Some(Value::Object(filled)) => filled,
        Some(other) => return Some(other),
        None => Map::new(),
    };
    let mut object = Map::new();
    // In the order of what was there, so that a change reads as one.
    let names = before.into_iter().flat_map(Map::keys).map(String::as_str);
    let mut names: Vec<_> = names.collect();
    names.extend(members.iter().map(|(name, ..)| *name));
    for name in names {
        let original = before.and_then(|before| before.get(name));
        let member = members.iter().find(|(known, ..)| *known == name);
        let value = match member {
            Some((_, schema, _)) => merged(root, schema, original, filled.remove(name), depth + 1),
            None => original.cloned(),
        };
        if let Some(value) = value.filter(|_| !object.contains_key(name)) {
            object.insert(name.to_owned(), value);
        }
    }
    (!object.is_empty() || original.is_some()).then_some(Value::Object(object))
}

fn is_blank(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

struct Reader<'a> {
    fields: &'a Fields,
    root: &'a Value,
}

impl Reader<'_> {
    fn value(&self, schema: &Value, at: &str, depth: usize) -> Option<Value> {
        let schema = resolved(self.root, schema);
        match Shape::of(self.root, schema, depth) {
            Shape::Text { .. } => {
                self.fields.get(at).filter(|text| !text.is_empty()).map(Value::from)
            }
            Shape::Number { .. } => self.fields.given(at).map(number),
            Shape::Boolean => match self.fields.given(at)? {
                "true" => Some(Value::Bool(true)),
                "false" => Some(Value::Bool(false)),
                other => Some(other.into()),
            },
            Shape::Choice(choices) => self.fields.given(at).map(|given| meant(&choices, given)),
            Shape::Many(choices) => {
                // A mark says that the boxes were there, so that none ticked means an empty list.
                self.fields.get(&format!("{at}#"))?;
                Some(self.fields.all(at).map(|given| meant(&choices, given)).collect())
            }
            Shape::List(items) => self.list(items, at, depth),
            Shape::Object(members) => {
                let mut object = Map::new();
                for (name, schema, _) in members {
                    if let Some(value) = self.value(schema, &member(at, name), depth + 1) {
                        object.insert(name.to_owned(), value);
                    }
                }
                (!object.is_empty()).then_some(Value::Object(object))
            }
            Shape::Fixed(value) => Some(value.clone()),
            Shape::Json => self.fields.given(at).map(json),
        }
    }

    fn list(&self, items: &Value, at: &str, depth: usize) -> Option<Value> {
        self.fields.get(&format!("{at}#"))?;
        let below = format!("{at}/");
        let places = self.fields.below(&below);
        let places: BTreeSet<usize> =
            places.filter_map(|rest| rest.split('/').next()?.parse().ok()).collect();
        let each = places.into_iter().take(ITEMS_MAX);
        // An item that was left empty is an item taken away.
        let list =
            each.filter_map(|place| self.value(items, &format!("{below}{place}"), depth + 1));
        Some(list.collect())
    }
}

fn meant(choices: &[(Value, String)], given: &str) -> Value {
    let place = given.parse::<usize>().ok().and_then(|place| choices.get(place));
    place.map_or_else(|| Value::String(given.to_owned()), |(value, _)| value.clone())
}

fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Number::from).ok();
    let whole = whole.or_else(|| text.parse::<u64>().map(Number::from).ok());
    let number = whole.or_else(|| Number::from_f64(text.parse().ok()?));
    number.map_or_else(|| Value::String(text.to_owned()), Value::Number)
}

fn json(text: &str) -> Value {
    strict::read(text.as_bytes()).unwrap_or_else(|_| Value::String(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_become_the_value_that_the_schema_speaks_of() {
        let schema = json!({"type": "object", "properties": {
            "to": {"type": "string"}, "amount": {"type": "number"}, "count": {"type": "integer"},
            "fast": {"type": "boolean"}, "how": {"enum": ["post", 7]},
            "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}}},
            "rest": {}, "inner": {"type": "object", "properties": {"x": {"type": "string"}}},
        }});
        let fields = Fields::of(&[
            ("a/to", "Ada\nL"),
            ("a/amount", " 2.50 "),
            ("a/count", "three"),
            ("a/fast", "false"),
            ("a/how", "1"),
            ("a/tags#", ""),
            ("a/tags", "0"),
            ("a/tags", "1"),
            ("a/lines#", ""),
            ("a/lines/0/n", "4"),
            ("a/lines/1/n", ""),
            ("a/lines/10/n", "6"),
            ("a/rest", "{\"k\": [1]}"),
            ("a/inner/x", ""),
        ]);
        assert_eq!(
            read(&fields, &schema, "a"),
            Some(json!({
                "to": "Ada\nL", "amount": 2.5, "count": "three", "fast": false, "how": 7,
                "tags": ["a", "b"], "lines": [{"n": 4}, {"n": 6}], "rest": {"k": [1]},
            }))
        );
    }

    #[test]
    fn what_a_form_cannot_show_stays_as_it_was() {
        let schema = json!({"type": "object", "properties": {
            "to": {"type": "string"}, "cc": {"type": "string"}, "n": {"type": "integer"},
            "in": {"type": "object", "properties": {"x": {"type": "string"}}}}});
        let original = json!({"other": [1], "to": "a", "cc": "", "n": 1, "in": {"x": "1", "y": 2}});
        let filled = json!({"to": "a", "n": 1, "in": {"x": "1"}});
        assert_eq!(over(&schema, &original, Some(filled)), original, "nothing was changed");
        let filled = json!({"to": "b", "in": {"x": "2"}});
        let expected = json!({"other": [1], "to": "b", "cc": "", "in": {"x": "2", "y": 2}});
        assert_eq!(over(&schema, &original, Some(filled)), expected);
    }

    #[test]
    fn nothing_filled_in_is_nothing() {
        let schema = json!({"type": "object", "properties": {"x": {"type": "string"}}});
        assert_eq!(read(&Fields::of(&[("a/x", "")]), &schema, "a"), None);
        assert_eq!(read(&Fields::of(&[]), &json!({"type": "integer"}), "a"), None);
    }
}
