//! Devui schema: an answer's schema as DevUI's page can show it.
//!
//! Its form has a field for each property of an object and knows no alternatives, and what it holds is
//! filled in before anybody has looked: the first word of every list. So whatever fits the sheet fits the
//! question, a bare value is a property called `response`, and the first word is never a yes (K7).

use serde_json::{Value, json};

use crate::kernel::Verb;

/// Words that do nothing, or undo it.
const NOES: [&str; 3] = [Verb::Reject.word(), Verb::Deny.word(), Verb::Abort.word()];

/// The sheet for a schema.
pub(super) fn of(schema: &Value) -> Value {
    let variants = schema["anyOf"].as_array().or_else(|| schema["oneOf"].as_array());
    let variants: Vec<_> = variants.map_or_else(|| vec![schema], |all| all.iter().collect());
    // What a person can simply write comes first; then fields; a verb alone ends things.
    let is_text = |one: &&&Value| one["type"] == "string";
    let has_fields = |one: &&&Value| one["properties"].is_object();
    let has_verb = |one: &&&Value| one["properties"]["verb"].is_object();
    let fields = variants.iter().find(|one| has_fields(one) && !has_verb(one));
    if let Some(object) = fields {
        return with_fields(object);
    }
    let bare =
        variants.iter().find(is_text).or_else(|| variants.iter().find(|one| !has_fields(one)));
    match (bare, variants.iter().find(has_fields)) {
        (Some(bare), _) => json!({
            "type": "object", "properties": {"response": field(bare)}, "required": ["response"],
        }),
        (None, Some(object)) => with_fields(object),
        (None, None) => json!({"type": "object", "properties": {"response": {}}}),
    }
}

fn with_fields(object: &Value) -> Value {
    let members = object["properties"].as_object().into_iter().flatten();
    // A field that goes with one word alone is none that a form without alternatives can have; nor is the word.
    let bound = object.pointer("/else/properties").and_then(Value::as_object);
    let is_bound = |name: &str| bound.is_some_and(|bound| bound.get(name) == Some(&json!(false)));
    let word = object.pointer("/if/properties/decision/const").filter(|_| bound.is_some());
    let members = members.filter(|(name, _)| !is_bound(name));
    let members = members.map(|(name, schema)| (name.clone(), field(&without(schema, word))));
    let properties: serde_json::Map<_, _> = members.collect();
    let required = object.get("required").cloned().unwrap_or_else(|| json!([]));
    json!({"type": "object", "properties": properties, "required": required})
}

/// A field without one of its words.
fn without(schema: &Value, word: Option<&Value>) -> Value {
    let mut schema = schema.clone();
    if let (Some(word), Some(words)) = (word, schema.get_mut("enum").and_then(Value::as_array_mut))
    {
        words.retain(|known| known != word);
    }
    schema
}

/// One field: a list of words says that it is one of texts, and begins with a no.
fn field(schema: &Value) -> Value {
    let mut field = schema.clone();
    let Some(words) = schema["enum"].as_array() else { return field };
    let is_no = |word: &&Value| word.as_str().is_some_and(|word| NOES.contains(&word));
    let (noes, others): (Vec<_>, Vec<_>) = words.iter().partition(is_no);
    let words: Vec<_> = noes.into_iter().chain(others).collect();
    if words.iter().all(|word| word.is_string()) {
        field["type"] = json!("string");
    }
    field["enum"] = json!(words);
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_fields_and_begins_with_a_no() {
        let full = json!({
            "type": "object",
            "properties": {"decision": {"enum": ["approve", "skip", "reject"]}, "note": {"type": "string"}},
            "required": ["decision"],
        });
        let sheet = of(&json!({"anyOf": [full, {"enum": ["approve", "skip", "reject"]}]}));
        assert_eq!(
            sheet["properties"]["decision"],
            json!({"type": "string", "enum": ["reject", "approve", "skip"]})
        );
        assert_eq!(sheet["required"], json!(["decision"]));
        assert_eq!(of(&full), sheet);
    }

    #[test]
    fn k7_what_goes_with_one_word_alone_is_no_field_of_a_form_without_alternatives() {
        let editable = json!({
            "type": "object",
            "properties": {"decision": {"enum": ["approve", "edit", "reject"]}, "subject": {"type": "string"}, "note": {}},
            "required": ["decision"],
            "if": {"properties": {"decision": {"const": "edit"}}},
            "then": {"required": ["decision", "subject"]},
            "else": {"properties": {"subject": false}},
        });
        let sheet = of(&editable);
        assert_eq!(sheet["properties"]["decision"]["enum"], json!(["reject", "approve"]));
        assert!(sheet["properties"].get("subject").is_none(), "{sheet}");
    }

    #[test]
    fn a_bare_value_is_called_response() {
        let one = |schema: Value| of(&schema)["properties"]["response"].clone();
        assert_eq!(one(json!({"enum": ["b", "a"]})), json!({"type": "string", "enum": ["b", "a"]}));
        assert_eq!(one(json!({"type": "integer"})), json!({"type": "integer"}));
        let turn = json!({"anyOf": [
            {"type": "string"}, {"type": "object", "properties": {"verb": {"const": "end"}}},
            {"type": "array", "maxItems": 0}]});
        assert_eq!(one(turn), json!({"type": "string"}));
        assert_eq!(of(&json!({}))["type"], "object");
    }
}
