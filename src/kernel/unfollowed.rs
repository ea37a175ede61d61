//! Unfollowed: what in a schema may lead to a mark that nobody would find. Nothing fails open, so such a schema is refused
//! where it is written. A look through a value knows some words of schemas (`following` has them); whatever stands under
//! any other, of any draft or of somebody's own, is not come to.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::kernel::following::{self, DATA, DEPTH_MAX, NAMED, below, beside, is_marked, marks};
use crate::kernel::schema::Compiled;

/// Words that keep schemas for others to refer to: what nobody refers to says nothing.
const KEPT: [&str; 2] = ["$defs", "definitions"];

/// Words under which a schema is for a value that no look comes to there, whoever refers to it from elsewhere.
const UNSEEN: [&str; 5] = ["contentSchema", "disallow", "extends", "not", "propertyNames"];

/// What in a schema that marks something would not be found: where, as a JSON pointer, and why.
pub fn unfollowed(schema: &Value) -> Option<(String, String)> {
    if !marks(schema) {
        return None;
    }
    let reach = Reach::of(schema);
    let (at, what) = following::unfollowed(schema)
        .map(|what| (String::new(), what))
        .or_else(|| reach.lost(schema, "", false).map(|at| (at.clone(), format!("`{at}`"))))
        .or_else(|| {
            let what = format!("what lies behind more than {DEPTH_MAX} schemas for one value");
            reach.is_too_deep.then_some((String::new(), what))
        })?;
    let why = format!(
        "{what} cannot be followed, and something in this schema is marked as secret: write out what it leads to, or \
         mark it in its own place"
    );
    Some((at, why))
}

/// What a look through any value may come to in a schema.
#[derive(Default)]
struct Reach {
    /// Where those schemas lie in memory: the same words may stand in another place, and not be found there.
    found: BTreeSet<usize>,
    /// Whether it ends before something that may be marked.
    is_too_deep: bool,
}

impl Reach {
    fn of(root: &Value) -> Self {
        let mut reach = Self::default();
        let (mut ahead, mut seen) = (vec![(root, DEPTH_MAX)], BTreeSet::new());
        while let Some((schema, left)) = ahead.pop() {
            // The same schema may be come to with more of the way behind, and end there.
            if !seen.insert((place_of(schema), left)) {
                continue;
            }
            reach.found.insert(place_of(schema));
            // What is marked is hidden with everything in it.
            if is_marked(schema) {
                continue;
            }
            let (beside, below) = (beside(root, schema), below(schema));
            if let Some(left) = left.checked_sub(1) {
                ahead.extend(beside.into_iter().map(|it| (it, left)));
                ahead.extend(below.into_iter().map(|it| (it, DEPTH_MAX)));
            } else {
                reach.is_too_deep |= beside.into_iter().chain(below).any(may_mark);
            }
        }
        reach
    }

    /// Where a part of a schema has what may mark something and is not come to.
    fn lost(&self, part: &Value, at: &str, is_kept: bool) -> Option<String> {
        let is_found = self.found.contains(&place_of(part));
        // What is kept for others is looked at where they refer to it.
        let is_kept = is_kept && !is_found;
        match part {
            Value::Object(_) if is_found && is_marked(part) => None,
            Value::Object(_) if !is_found && !is_kept && (is_marked(part) || refers(part)) => {
                Some(at.to_owned())
            }
            Value::Object(_) if is_found && overlapped(part) => {
                Some(below_at(at, "patternProperties"))
            }
            Value::Object(members) => {
                let mut members = members.iter().filter(|(name, _)| !DATA.contains(&name.as_str()));
                members.find_map(|(name, value)| {
                    let is_kept = is_kept || KEPT.contains(&name.as_str());
                    let at = below_at(at, name);
                    if UNSEEN.contains(&name.as_str()) {
                        return Self::default().lost(value, &at, is_kept);
                    }
                    let named = value.as_object().filter(|_| NAMED.contains(&name.as_str()));
                    named.map_or_else(
                        || self.lost(value, &at, is_kept),
                        |all| {
                            let mut all = all.iter();
                            all.find_map(|(name, it)| self.lost(it, &below_at(&at, name), is_kept))
                        },
                    )
                })
            }
            Value::Array(items) => {
                let mut items = items.iter().enumerate();
                items.find_map(|(index, it)| self.lost(it, &format!("{at}/{index}"), is_kept))
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
    }
}

/// A member that is named is looked at by its name alone, though a pattern may be for it as well.
fn overlapped(schema: &Value) -> bool {
    let all = |word: &str| schema.get(word).and_then(Value::as_object);
    let (Some(patterns), Some(named)) = (all("patternProperties"), all("properties")) else {
        return false;
    };
    let is_for = |pattern: &str, name: &str| {
        !Compiled::of(&json!({"patternProperties": {pattern: false}})).fits(&json!({name: null}))
    };
    let mut marking = patterns.iter().filter(|(_, schema)| may_mark(schema));
    let open = |(_, own): &(&String, &Value)| !is_marked(own);
    marking.any(|(pattern, _)| named.iter().filter(open).any(|(name, _)| is_for(pattern, name)))
}

/// Whether something in a schema may mark what it is for.
fn may_mark(schema: &Value) -> bool {
    let mut found = marks(schema);
    following::each(schema, &mut |part| found |= refers(part));
    found
}

fn refers(schema: &Value) -> bool {
    schema.get("$ref").is_some_and(Value::is_string)
}

fn place_of(schema: &Value) -> usize {
    std::ptr::from_ref(schema).addr()
}

fn below_at(at: &str, name: &str) -> String {
    format!("{at}/{}", name.replace('~', "~0").replace('/', "~1"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(schema: &Value) -> Option<String> {
        unfollowed(schema).map(|(at, _)| at)
    }

    #[test]
    fn a_schema_with_marks_that_would_not_be_found_is_not_taken() {
        let with = |more: Value| json!({"properties": {"pin": {"secret": true}, "x": more}});
        for more in [
            json!({"$ref": "far.json"}),
            json!({"$ref": "#nobody"}),
            json!({"$dynamicRef": "#pin"}),
            json!({"propertyNames": {"secret": true}}),
            json!({"not": {"$ref": "#/properties/pin"}}),
        ] {
            assert!(unfollowed(&with(more.clone())).is_some(), "{more}");
        }
        assert_eq!(unfollowed(&json!({"$defs": {}, "title": "nothing is marked"})), None);
        assert_eq!(unfollowed(&with(json!({"not": {"required": ["a"]}}))), None);
    }

    #[test]
    fn a_mark_under_any_word_that_is_not_followed_is_told_with_its_place() {
        let card = json!({"properties": {"u": {"secret": true}}});
        for word in ["contentSchema", "not", "propertyNames", "extends", "disallow", "x-own"] {
            let schema = json!({"properties": {"blob": {"type": "string", word: card}}});
            let at = format!("/properties/blob/{word}/properties/u");
            assert_eq!(place(&schema), Some(at), "{word}");
            let listed = json!({"items": {word: [{"type": "null"}, {"writeOnly": true}]}});
            assert_eq!(place(&listed), Some(format!("/items/{word}/1")), "{word}");
            let referred =
                json!({"$defs": {"card": card}, "items": {word: {"$ref": "#/$defs/card"}}});
            assert_eq!(place(&referred), Some(format!("/items/{word}")), "{word}");
        }
        // It is found where it is referred to, and not where it stands.
        let into = json!({"properties": {
            "a": {"$ref": "#/properties/b/contentSchema"},
            "b": {"type": "string", "contentSchema": {"type": "string", "secret": true}},
        }});
        assert_eq!(place(&into), Some("/properties/b/contentSchema".into()));
        let named = json!({"properties": {"contentSchema": card}});
        assert_eq!(place(&named), None, "that is what a member is called");
        let pattern =
            json!({"properties": {"a/pin": {}}, "patternProperties": {"pin$": {"secret": true}}});
        assert_eq!(place(&pattern), Some("/patternProperties".into()));
        let another =
            json!({"properties": {"a": {}}, "patternProperties": {"pin$": {"secret": true}}});
        assert_eq!(place(&another), None);
    }

    #[test]
    fn every_word_that_is_followed_is_taken() {
        let secret = json!({"secret": true});
        for word in ["properties", "patternProperties", "dependentSchemas", "dependencies"] {
            assert_eq!(place(&json!({"items": {word: {"a": secret}}})), None, "{word}");
        }
        for word in ["allOf", "anyOf", "oneOf", "prefixItems", "items"] {
            assert_eq!(place(&json!({"items": {word: [secret]}})), None, "{word}");
        }
        for word in [
            "if",
            "then",
            "else",
            "items",
            "additionalItems",
            "contains",
            "unevaluatedItems",
            "additionalProperties",
            "unevaluatedProperties",
        ] {
            assert_eq!(place(&json!({"properties": {"a": {word: secret}}})), None, "{word}");
        }
    }

    #[test]
    fn what_is_kept_for_others_is_looked_at_where_they_refer_to_it() {
        let kept = |refers: Value| json!({"$defs": {"blob": {"contentSchema": {"secret": true}}}, "properties": {"x": refers}});
        assert_eq!(place(&kept(json!({}))), None, "nobody refers to it");
        let at = Some("/$defs/blob/contentSchema".to_owned());
        assert_eq!(place(&kept(json!({"$ref": "#/$defs/blob"}))), at);
        let elsewhere =
            json!({"shapes": {"pin": {"secret": true}}, "items": {"$ref": "#/shapes/pin"}});
        assert_eq!(place(&elsewhere), None, "wherever it is kept");
        assert_eq!(place(&json!({"default": {"secret": true}, "items": {"secret": true}})), None);
    }

    #[test]
    fn a_mark_behind_more_schemas_than_are_looked_into_is_not_taken() {
        let behind = |count: usize| {
            (0..count).fold(json!({"secret": true}), |inner, _| json!({"allOf": [inner]}))
        };
        assert_eq!(place(&behind(DEPTH_MAX)), None);
        assert!(unfollowed(&behind(DEPTH_MAX + 1)).is_some());
    }
}
