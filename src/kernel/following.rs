//! Following: what a schema marks, and where its references lead, within the schema itself: by a JSON pointer
//! (`#/$defs/card`), by an anchor (`#card`), by a name (`card.json`, `card.json#number`). Nothing is looked up elsewhere.
//! Where a reference may lead to several places, all of them are told: what is looked for there is what is secret, and
//! what is marked by any of them is marked.

use serde_json::{Map, Value};

/// How many schemas are looked into for one place of a value; a schema that leads to itself ends there.
pub(super) const DEPTH_MAX: usize = 16;
/// Words of a schema whose values are no schemas: what is chosen from, or stands there unless something is said.
pub(super) const DATA: [&str; 4] = ["enum", "const", "default", "examples"];
/// Words whose values have schemas, or names, by names that somebody chose, whatever those are.
pub(super) const NAMED: [&str; 7] = [
    "properties",
    "patternProperties",
    "dependentSchemas",
    "dependentRequired",
    "dependencies",
    "$defs",
    "definitions",
];

/// Words for members that no other word names, and for items that none counts.
pub(super) const OTHER_MEMBERS: [&str; 2] = ["additionalProperties", "unevaluatedProperties"];
/// Earlier drafts have the first items in `items`, and the others beside it.
pub(super) const OTHER_ITEMS: [&str; 4] =
    ["items", "additionalItems", "contains", "unevaluatedItems"];

/// Whether a schema marks the value itself.
pub fn is_marked(schema: &Value) -> bool {
    is_nobodys(schema) || schema["secret"] == true
}

/// Whether it marks it as nobody's to read.
pub(super) fn is_nobodys(schema: &Value) -> bool {
    schema["writeOnly"] == true || schema["format"] == "password"
}

/// Whether a schema marks anything at all.
pub fn marks(schema: &Value) -> bool {
    match schema {
        Value::Object(members) => is_marked(schema) || members.values().any(marks),
        Value::Array(items) => items.iter().any(marks),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// What `reference` leads to in `root`.
pub(super) fn followed<'s>(root: &'s Value, reference: &str) -> Vec<&'s Value> {
    let (name, place) = reference.split_once('#').unwrap_or((reference, ""));
    let mut documents = Vec::new();
    if name.is_empty() && root.get("$id").is_none() {
        documents.push(root);
    }
    // What has a name of its own is a document of its own, which says of its parts from where it begins.
    each(root, &mut |schema| {
        let own = schema.get("$id").and_then(Value::as_str);
        if own.is_some_and(|own| name.is_empty() || is_called(own, name)) {
            documents.push(schema);
        }
    });
    let Some(place) = decoded(place) else { return Vec::new() };
    let mut found = Vec::new();
    for document in documents {
        if place.is_empty() || place.starts_with('/') {
            found.extend(document.pointer(&place));
            continue;
        }
        each(document, &mut |schema| {
            let is_here = |word: &str| schema.get(word).and_then(Value::as_str) == Some(&place);
            if is_here("$anchor") || is_here("$dynamicAnchor") || is_named_by(schema, &place) {
                found.push(schema);
            }
        });
    }
    found
}

/// A reference in what is part of a schema that cannot be followed from its `root`, in words.
pub(super) fn unfollowed(root: &Value) -> Option<String> {
    let mut found = None;
    each(root, &mut |schema| {
        let said = |word: &str| schema.get(word).and_then(Value::as_str);
        let lost = said("$ref").filter(|to| followed(root, to).is_empty());
        let lost = lost.map(|to| format!("`$ref: {to}`"));
        let dynamic = ["$dynamicRef", "$recursiveRef"].into_iter().find(|it| said(it).is_some());
        found = found.take().or(lost).or_else(|| dynamic.map(|word| format!("`{word}`")));
    });
    found
}

/// The schemas that a schema has its value fit as well, references included. What any of several marks is marked: which of
/// them fits is not asked.
pub(super) fn beside<'s>(root: &'s Value, schema: &'s Value) -> Vec<&'s Value> {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter();
    let lists = lists.filter_map(|word| schema.get(word)?.as_array()).flatten();
    let ifs = ["if", "then", "else"].into_iter().filter_map(|word| schema.get(word));
    let named = ["dependentSchemas", "dependencies"].into_iter();
    let named = named.filter_map(|word| schema.get(word)?.as_object()).flat_map(|all| all.values());
    let elsewhere = schema.get("$ref").and_then(Value::as_str);
    let elsewhere = elsewhere.into_iter().flat_map(|to| followed(root, to));
    lists.chain(ifs).chain(named).chain(elsewhere).collect()
}

/// The schemas that a schema has for what is in its value: members and items.
pub(super) fn below(schema: &Value) -> Vec<&Value> {
    let named = ["properties", "patternProperties"].into_iter();
    let named = named.filter_map(|word| schema.get(word)?.as_object()).flat_map(|all| all.values());
    let lists = ["prefixItems", "items"].into_iter();
    let lists = lists.filter_map(|word| schema.get(word)?.as_array()).flatten();
    let others = [OTHER_MEMBERS.as_slice(), OTHER_ITEMS.as_slice()].concat().into_iter();
    named.chain(lists).chain(others.filter_map(|word| schema.get(word))).collect()
}

/// Goes through a schema and all schemas in it.
pub(super) fn each<'s>(schema: &'s Value, work: &mut dyn FnMut(&'s Value)) {
    match schema {
        Value::Object(members) => {
            work(schema);
            for (name, value) in members {
                if let Some(named) = value.as_object().filter(|_| NAMED.contains(&name.as_str())) {
                    named.values().for_each(|schema| each(schema, work));
                } else if !DATA.contains(&name.as_str()) {
                    each(value, work);
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| each(item, work)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The same, to change what they say.
pub(super) fn each_mut(schema: &mut Value, work: &mut dyn FnMut(&mut Map<String, Value>)) {
    match schema {
        Value::Object(members) => {
            work(members);
            for (name, value) in members {
                if NAMED.contains(&name.as_str())
                    && let Value::Object(named) = value
                {
                    named.values_mut().for_each(|schema| each_mut(schema, work));
                } else if !DATA.contains(&name.as_str()) {
                    each_mut(value, work);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| each_mut(item, work)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Whether a schema that calls itself so is meant by a name, which may be told from beside it.
fn is_called(own: &str, name: &str) -> bool {
    let own = own.trim_end_matches('#');
    let name = name.trim_start_matches("./");
    let ends_in = |whole: &str, end: &str| {
        whole
            .strip_suffix(end)
            .is_some_and(|before| before.is_empty() || before.ends_with(['/', ':']))
    };
    ends_in(own, name.trim_start_matches("../").trim_start_matches('/')) || ends_in(name, own)
}

/// As earlier drafts have anchors: `$id: '#card'`.
fn is_named_by(schema: &Value, place: &str) -> bool {
    let named = |word: &str| schema.get(word).and_then(Value::as_str)?.strip_prefix('#');
    named("$id") == Some(place) || named("id") == Some(place)
}

/// What stands after the `#` of a URL; none where it is no text.
fn decoded(place: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(place.len());
    let mut rest = place.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.filter(|_| *first == b'%').and_then(|it| std::str::from_utf8(it).ok());
        if let Some(byte) = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            bytes.push(byte);
            rest = after.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = after;
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reference_is_followed_by_place_anchor_and_name_within_the_schema() {
        let root = json!({
            "$id": "https://x.example/all.json",
            "$defs": {
                "a b": {"title": "spaced"},
                "card": {"$anchor": "card", "title": "anchored"},
                "other": {"$id": "other.json", "title": "named", "$defs": {"in": {"title": "within"}}},
                "base": {"$id": "base.json", "$defs": {"n": {"$anchor": "in", "title": "its anchor"}}},
                "data": {"const": {"$anchor": "card", "title": "no schema"}},
            },
        });
        let titles = |reference: &str| -> Vec<_> {
            followed(&root, reference).iter().map(|it| it["title"].as_str().unwrap()).collect()
        };
        assert_eq!(titles("#/$defs/a%20b"), ["spaced"]);
        assert_eq!(titles("#card"), ["anchored"]);
        assert_eq!(titles("other.json"), ["named"]);
        assert_eq!(titles("https://x.example/other.json#/$defs/in"), ["within"]);
        assert_eq!(titles("base.json#in"), ["its anchor"]);
        assert_eq!(titles("#/$defs/in"), ["within"], "as it is said within a document of its own");
        assert!(titles("nowhere.json").is_empty() && titles("#nobody").is_empty());
    }

    #[test]
    fn what_cannot_be_followed_is_told() {
        let refers = |to: &str| json!({"properties": {"x": {"$ref": to}}, "$defs": {"a": {}}});
        assert_eq!(unfollowed(&refers("#/$defs/a")), None);
        assert_eq!(unfollowed(&refers("far.json")), Some("`$ref: far.json`".into()));
        assert_eq!(unfollowed(&json!({"$dynamicRef": "#n"})), Some("`$dynamicRef`".into()));
        assert_eq!(unfollowed(&json!({"const": {"$ref": "far.json"}})), None, "that is no schema");
        let named = json!({"properties": {"const": {"$ref": "far.json"}}});
        assert!(unfollowed(&named).is_some(), "that is a schema, whatever it is called");
    }
}
