//! Secret: values that a schema marks. `writeOnly: true` and `format: password` are nobody's to read: a
//! person who decides is shown that they are there and how long they are. `secret: true` is for those who
//! decide, and for nobody beside them. The digest of what was shown has both as salted hashes; what is done
//! has them as they are. What becomes of them in a journal, and at the doors, is `veil`'s.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kernel::canonical;
use crate::kernel::digest;
use crate::kernel::following::{self, DEPTH_MAX, OTHER_ITEMS, OTHER_MEMBERS, beside};
use crate::kernel::workflow::Workflow;

pub use crate::kernel::following::{is_marked, marks};
pub use crate::kernel::unfollowed::unfollowed;

/// From whom a value is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum From {
    /// From everybody who looks: `writeOnly`, `format: password`.
    Everybody,
    /// From everybody who does not decide: `secret`.
    Onlookers,
}

/// Where a call's arguments have what nobody is to read, as JSON pointers.
pub fn of_call(workflow: &Workflow, tool: &str, arguments: &Value) -> Vec<String> {
    only(From::Everybody, all_of_call(workflow, tool, arguments))
}

/// Where they have what is for those who decide alone.
pub(super) fn confided(workflow: &Workflow, tool: &str, arguments: &Value) -> Vec<String> {
    only(From::Onlookers, all_of_call(workflow, tool, arguments))
}

fn only(from: From, found: Vec<(String, From)>) -> Vec<String> {
    found.into_iter().filter(|(_, kept)| *kept == from).map(|(at, _)| at).collect()
}

/// Where they have either.
pub(super) fn all_of_call(
    workflow: &Workflow,
    tool: &str,
    arguments: &Value,
) -> Vec<(String, From)> {
    let Some(tool) = workflow.tools.get(tool) else { return Vec::new() };
    let mut found = tool.parameters.as_ref().map_or_else(Vec::new, |it| marked(it, arguments));
    for path in &tool.secret {
        let names: Vec<_> = path.split('.').collect();
        named(&names, arguments, "", &mut found);
    }
    found
}

/// Where a call's arguments have what its tool marks: by its schema, or by names beside it.
pub fn places(schema: Option<&Value>, names: &[String], arguments: &Value) -> Vec<String> {
    let mut found = schema.map_or_else(Vec::new, |schema| marked(schema, arguments));
    for path in names {
        named(&path.split('.').collect::<Vec<_>>(), arguments, "", &mut found);
    }
    found.into_iter().map(|(at, _)| at).collect()
}

/// What is wrong where a schema says something with `secret` that is neither yes nor no: it would mark nothing, and what
/// was meant to be hidden would be told.
pub fn misspelled(schema: &Value) -> Option<&'static str> {
    let mut found = false;
    following::each(schema, &mut |part| {
        found |= part.get("secret").is_some_and(|said| !said.is_boolean());
    });
    found.then_some(
        "`secret` marks what is for those who decide alone: expected `true`, or leave it out",
    )
}

/// A schema that is nobody's here to write: what says something with `secret` or `writeOnly` that is neither yes nor no
/// marks there. Whoever wrote it is not there to be told, and meant to hide something.
#[must_use]
pub fn made_plain(mut schema: Value) -> Value {
    following::each_mut(&mut schema, &mut |part| {
        for word in ["secret", "writeOnly"] {
            if let Some(said) = part.get_mut(word).filter(|said| !said.is_boolean()) {
                *said = Value::Bool(true);
            }
        }
    });
    schema
}

/// A definition that says of itself whether anything in it is marked: its tools' arguments, its people's
/// answers, what it is given.
#[must_use]
pub fn noticed(mut workflow: Workflow) -> Workflow {
    workflow.secretive = workflow.tools.values().any(|tool| !tool.secret.is_empty())
        || serde_json::to_value(&workflow).is_ok_and(|all| marks(&all));
    workflow
}

/// Where a value has what a schema marks, as JSON pointers.
pub(super) fn marked(schema: &Value, value: &Value) -> Vec<(String, From)> {
    let mut found = Vec::new();
    Search { root: schema, found: &mut found }.find(schema, value, "", DEPTH_MAX);
    found
}

/// A call's arguments as people are shown them.
pub fn masked(workflow: &Workflow, tool: &str, arguments: &Value) -> Value {
    let secrets = of_call(workflow, tool, arguments);
    let mut arguments = arguments.clone();
    replace(&mut arguments, "", &secrets, &mask);
    arguments
}

/// A call's arguments as people are shown them, where it is known what in them is secret.
pub fn hidden(arguments: &Value, secrets: &[String]) -> Value {
    let mut arguments = arguments.clone();
    replace(&mut arguments, "", secrets, &mask);
    arguments
}

fn kept_from(schema: &Value) -> Option<From> {
    let from = if following::is_nobodys(schema) { From::Everybody } else { From::Onlookers };
    is_marked(schema).then_some(from)
}

/// A look through a value beside its schema.
struct Search<'a> {
    root: &'a Value,
    found: &'a mut Vec<(String, From)>,
}

impl Search<'_> {
    fn find(&mut self, schema: &Value, value: &Value, at: &str, depth: usize) {
        if let Some(from) = kept_from(schema) {
            if !self.found.iter().any(|(known, _)| known == at) {
                self.found.push((at.to_owned(), from));
            }
            return;
        }
        let Some(depth) = depth.checked_sub(1) else { return };
        for schema in beside(self.root, schema) {
            self.find(schema, value, at, depth);
        }
        self.below(schema, value, at);
    }

    /// What a value has within it, by what a schema says of that. Values nest only so deep, so it begins anew there.
    fn below(&mut self, schema: &Value, value: &Value, at: &str) {
        match value {
            Value::Object(members) => {
                let patterns = schema.get("patternProperties").and_then(Value::as_object);
                let others = OTHER_MEMBERS.iter().filter_map(|word| schema.get(*word));
                let others: Vec<_> =
                    patterns.into_iter().flat_map(|all| all.values()).chain(others).collect();
                for (name, value) in members {
                    let at = below(at, name);
                    if let Some(own) = schema.get("properties").and_then(|all| all.get(name)) {
                        self.find(own, value, &at, DEPTH_MAX);
                        continue;
                    }
                    for schema in &others {
                        self.find(schema, value, &at, DEPTH_MAX);
                    }
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    let own = ["prefixItems", "items"].into_iter();
                    let own = own.filter_map(|word| schema.get(word)?.as_array()?.get(index));
                    let all = OTHER_ITEMS.iter().filter_map(|word| schema.get(*word));
                    for schema in own.chain(all) {
                        self.find(schema, value, &format!("{at}/{index}"), DEPTH_MAX);
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// What a file names beside a tool whose schema is not its own: `card.number`; of a list, each item's.
fn named(names: &[&str], value: &Value, at: &str, found: &mut Vec<(String, From)>) {
    match (names, value) {
        ([], _) if found.iter().any(|(known, _)| known == at) => {}
        ([], _) => found.push((at.to_owned(), From::Onlookers)),
        (_, Value::Array(items)) => {
            for (index, value) in items.iter().enumerate() {
                named(names, value, &format!("{at}/{index}"), found);
            }
        }
        ([name, rest @ ..], Value::Object(members)) => {
            if let Some(value) = members.get(*name) {
                named(rest, value, &below(at, name), found);
            }
        }
        (_, Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_)) => {}
    }
}

fn below(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// Puts something else in the place of what is at those pointers below `root`.
pub(super) fn replace(
    value: &mut Value,
    root: &str,
    pointers: &[String],
    with: &dyn Fn(&Value) -> Value,
) {
    for pointer in pointers {
        if let Some(secret) = value.pointer_mut(&format!("{root}{pointer}")) {
            *secret = with(secret);
        }
    }
}

/// How what stands in the place of a secret begins and ends; between them, how long that is.
pub(super) const MASK_OPENS: &str = "••• (";
pub(super) const MASK_CLOSES: &str = " characters)";

/// What people see of a secret: that there is one, and how long it is. Of what is masked already, the same.
pub(super) fn mask(secret: &Value) -> Value {
    let text = secret.as_str();
    if text.is_some_and(|text| text.starts_with(MASK_OPENS) && text.ends_with(MASK_CLOSES)) {
        return secret.clone();
    }
    let length = text.map_or_else(|| secret.to_string().len(), |it| it.chars().count());
    json!(format!("{MASK_OPENS}{length}{MASK_CLOSES}"))
}

/// Where a value has something that stands in the place of a secret, as a JSON pointer.
pub(super) fn masked_at(value: &Value) -> Option<String> {
    fn find(value: &Value, at: &str) -> Option<String> {
        match value {
            Value::String(text) => text.contains("•••").then(|| at.to_owned()),
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, item)| find(item, &format!("{at}/{index}")))
            }
            Value::Object(members) => members.iter().find_map(|(name, value)| {
                let at = below(at, name);
                if name.contains("•••") { Some(at) } else { find(value, &at) }
            }),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }
    find(value, "")
}

/// The names that a schema gives to members: whoever reads the file knows them.
pub(super) fn names(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::Object(named)) = members.get("properties") {
                found.extend(named.keys().cloned());
            }
            members.values().for_each(|value| names(value, found));
        }
        Value::Array(items) => items.iter().for_each(|item| names(item, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// What a digest has of a secret.
pub(super) fn salted(secret: &Value, salt: &str) -> Value {
    let mut text = format!("holdpoint secret {salt} ").into_bytes();
    canonical::write(secret, &mut text);
    json!({"sha256": digest::of_bytes(&text)})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_schema_marks_is_found_wherever_it_is() {
        let schema = json!({"properties": {
            "user": {"type": "string"},
            "pass": {"type": "string", "format": "password"},
            "keys": {"items": {"properties": {"a/b": {"writeOnly": true}}}},
        }});
        let value = json!({"user": "ada", "pass": "hunter2", "keys": [{"a/b": 7}, {}]});
        let mut found = only(From::Everybody, marked(&schema, &value));
        found.sort();
        assert_eq!(found, ["/keys/0/a~1b", "/pass"]);
        let mut shown = value.clone();
        replace(&mut shown, "", &found, &mask);
        assert_eq!(shown["pass"], "••• (7 characters)");
        assert_eq!(shown["keys"][0]["a/b"], "••• (1 characters)");
        assert_eq!(shown["user"], "ada");
    }

    #[test]
    fn what_is_for_those_who_decide_is_found_in_objects_lists_and_ways_of_saying_it() {
        let schema = json!({
            "$defs": {"card": {"properties": {"number": {"secret": true}}}},
            "properties": {
                "card": {"$ref": "#/$defs/card"},
                "pins": {"type": "array", "items": {"secret": true}},
                "more": {"oneOf": [{"type": "null"}, {"additionalProperties": {"secret": true}}]},
                "open": {"type": "string"},
            },
        });
        let value = json!({
            "card": {"number": "4111"}, "pins": ["1", "2"], "more": {"x": 1}, "open": "yes",
        });
        let mut found = only(From::Onlookers, marked(&schema, &value));
        found.sort();
        assert_eq!(found, ["/card/number", "/more/x", "/pins/0", "/pins/1"]);
        let mut found = Vec::new();
        named(&["cards", "number"], &json!({"cards": [{"number": 1}, {}]}), "", &mut found);
        assert_eq!(found, [("/cards/0/number".to_owned(), From::Onlookers)]);
        assert!(marks(&schema) && !marks(&json!({"properties": {"secret": {"type": "string"}}})));
    }

    #[test]
    fn what_a_reference_leads_to_is_marked_however_it_is_said() {
        let schema = json!({
            "$defs": {
                "a b": {"secret": true},
                "card": {"$anchor": "card", "secret": true},
                "other": {"$id": "other.json", "secret": true},
                "base": {"$id": "base.json", "$defs": {"n": {"$anchor": "in", "secret": true}}},
                "tree": {"properties": {"pin": {"secret": true}, "next": {"$ref": "#/$defs/tree"}}},
            },
            "properties": {
                "a": {"$ref": "#/$defs/a%20b"}, "b": {"$ref": "#card"}, "c": {"$ref": "other.json"},
                "d": {"$ref": "base.json#in"}, "e": {"$ref": "#/$defs/tree"},
                "f": {"items": [{"type": "string"}, {"secret": true}]}, "open": {"type": "string"},
            },
        });
        let mut tree = json!({"pin": 1});
        for _ in 0..30 {
            tree = json!({"next": tree});
        }
        let value =
            json!({"a": 1, "b": 2, "c": 3, "d": 4, "e": tree, "f": ["x", "y"], "open": "yes"});
        let mut found = only(From::Onlookers, marked(&schema, &value));
        found.sort();
        let deep = format!("/e{}/pin", "/next".repeat(30));
        assert_eq!(found, ["/a", "/b", "/c", "/d", deep.as_str(), "/f/1"]);
        assert_eq!(unfollowed(&schema), None);
    }

    #[test]
    fn a_mark_that_is_neither_yes_nor_no_is_found_and_a_name_or_data_is_none() {
        for said in [json!("true"), json!(1), json!(null), json!([true]), json!({"a": 1})] {
            let own = json!({"secret": said});
            assert!(misspelled(&own).is_some(), "{own}");
            for word in ["items", "additionalProperties", "not"] {
                assert!(misspelled(&json!({word: own})).is_some(), "{word}: {own}");
            }
            let named = json!({"properties": {"default": own, "secret": {"type": "string"}}});
            assert!(misspelled(&named).is_some(), "whatever it is called: {named}");
            assert_eq!(misspelled(&json!({"default": own, "enum": [own], "const": own})), None);
        }
        assert_eq!(misspelled(&json!({"items": [{"secret": true}, {"secret": false}]})), None);
        let named = json!({"properties": {"secret": {"type": "string"}},
            "dependentRequired": {"secret": ["a"]}, "dependencies": {"secret": ["a"]}});
        assert_eq!(misspelled(&named), None);
    }

    #[test]
    fn a_mark_in_other_words_than_yes_or_no_is_made_one_and_a_name_or_data_stays() {
        for said in [json!("true"), json!(1), json!(null), json!([true]), json!({"a": 1})] {
            let odd = json!({"$defs": {"card": {"writeOnly": said}}, "properties": {
                "pin": {"secret": said}, "secret": {"type": "string"},
                "cards": {"items": {"$ref": "#/$defs/card"}}, "open": {"secret": false},
                "data": {"default": {"secret": said}},
            }});
            let value = json!({"pin": 1, "secret": 2, "cards": [3], "open": 4, "data": 5});
            assert!(marked(&odd, &value).is_empty(), "as it is said it marks nothing: {odd}");
            let plain = made_plain(odd.clone());
            let mut found = marked(&plain, &value);
            found.sort_by(|one, other| one.0.cmp(&other.0));
            let wanted = [("/cards/0", From::Everybody), ("/pin", From::Onlookers)];
            assert_eq!(found, wanted.map(|(at, from)| (at.to_owned(), from)), "{odd}");
            for same in ["/properties/secret", "/properties/open", "/properties/data"] {
                assert_eq!(plain.pointer(same), odd.pointer(same), "{odd}");
            }
            assert_eq!(made_plain(plain.clone()), plain);
        }
    }

    #[test]
    fn a_salted_hash_tells_secrets_and_questions_apart() {
        let (one, other) = (json!("hunter2"), json!("hunter3"));
        assert_ne!(salted(&one, "n1"), salted(&other, "n1"));
        assert_ne!(salted(&one, "n1"), salted(&one, "n2"));
        assert!(!salted(&one, "n1").to_string().contains("hunter"));
    }
}
