//! Schemas: whether a JSON value fits a JSON Schema, and what plain text means under one.
//!
//! Pure: no reference is ever resolved over a network or from a file.

use jsonschema::ValidationError;
use jsonschema::error::ValidationErrorKind;
use serde_json::Value;

use crate::kernel::following;
use crate::kernel::strict;

/// Values nest at most this deep: deeper ones are nobody's answer, and recursion costs stack.
pub const DEPTH_MAX: usize = 64;

/// Where a value does not fit, and what was expected there.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected {expected}")]
pub struct Mismatch {
    /// JSON pointer into the value; empty for the value itself.
    pub at: String,
    /// What was expected, in words.
    pub expected: String,
}

/// Checks that `schema` is a JSON Schema at all.
pub fn check_schema(schema: &Value) -> Result<(), String> {
    validator(schema).map(|_| ())
}

/// Checks `value` against `schema`. A schema that is none refuses everything (K7).
pub fn check(schema: &Value, value: &Value) -> Result<(), Mismatch> {
    Compiled::of(schema).check(value, "schema")
}

/// The same of what a workflow is given.
pub fn check_input(schema: &Value, value: &Value) -> Result<(), Mismatch> {
    Compiled::of(schema).check(value, "input schema")
}

/// A JSON Schema, ready to be checked against: getting there costs far more than checking does.
#[derive(Debug)]
pub struct Compiled {
    validator: Result<jsonschema::Validator, String>,
    /// The one type it names, if it names one.
    kind: Option<String>,
    /// Whether something in it is marked: then not even the name of a member is told again.
    marks: bool,
}

/// A schema's validator. What it says of a format (`date`, `email`) holds, too: nobody writes it for show.
fn validator(schema: &Value) -> Result<jsonschema::Validator, String> {
    let options = jsonschema::options().should_validate_formats(true);
    options.build(schema).map_err(|error| error.to_string())
}

impl Compiled {
    /// Compiles a schema.
    pub fn of(schema: &Value) -> Self {
        let kind = schema.get("type").and_then(Value::as_str).map(str::to_owned);
        Self { validator: validator(schema), kind, marks: following::marks(schema) }
    }

    /// Whether `value` fits. Nothing fits a schema that is none (K7).
    pub fn fits(&self, value: &Value) -> bool {
        self.validator.as_ref().is_ok_and(|validator| validator.is_valid(value))
    }

    /// Checks `value`, and says where it does not fit what is called so.
    fn check(&self, value: &Value, called: &str) -> Result<(), Mismatch> {
        if self.fits(value) { Ok(()) } else { Err(self.mismatch_with(value, called)) }
    }

    /// Where an answer, which does not fit, does not.
    pub fn mismatch(&self, value: &Value) -> Mismatch {
        self.mismatch_with(value, "response schema")
    }

    fn mismatch_with(&self, value: &Value, called: &str) -> Mismatch {
        let validator = match &self.validator {
            Ok(validator) => validator,
            Err(error) => {
                let expected = format!("a valid schema: {error}");
                return Mismatch { at: String::new(), expected };
            }
        };
        let first = validator.iter_errors(value).next();
        let (at, complaint) = first.map_or_else(Default::default, |error| {
            (error.instance_path().to_string(), complaint(&error, self.marks))
        });
        Mismatch { at, expected: describe((self.kind.as_deref(), called), &complaint) }
    }

    /// What a plain text means, where the schema is a simple one: a number or a truth value.
    pub fn read_plain(&self, text: &str) -> Option<Value> {
        read_plain(self.kind.as_deref()?, text)
    }
}

/// A schema as it stands within another at `place`, a JSON pointer: what it says of its own parts (`#/$defs/card`) is
/// said from the other's root. One that has a name of its own (`$id`) is its own root wherever it stands.
pub(super) fn within(schema: &Value, place: &str) -> Value {
    let mut schema = schema.clone();
    refer(&mut schema, &|path| Some(format!("{place}{path}")));
    schema
}

/// The same schema by itself again, as it was before it was put there.
pub fn alone(schema: &Value, place: &str) -> Value {
    let mut schema = schema.clone();
    let own = |path: &str| {
        let path = path.strip_prefix(place)?;
        (path.is_empty() || path.starts_with('/')).then(|| path.to_owned())
    };
    refer(&mut schema, &own);
    schema
}

/// Has what a schema says of its own parts say it otherwise.
fn refer(schema: &mut Value, other: &dyn Fn(&str) -> Option<String>) {
    match schema {
        Value::Object(members) => {
            if members.get("$id").is_some_and(Value::is_string) {
                return;
            }
            for (name, value) in members {
                // What is chosen from, or stands there unless something is said, is no schema.
                let is_data = ["enum", "const", "default", "examples"].contains(&name.as_str());
                let is_ref = ["$ref", "$dynamicRef", "$recursiveRef"].contains(&name.as_str());
                if let Value::String(to) = value
                    && is_ref
                {
                    // An anchor (`#card`) is found from anywhere in the same document.
                    let path = to.strip_prefix('#');
                    let path = path.filter(|path| path.is_empty() || path.starts_with('/'));
                    if let Some(path) = path.and_then(other) {
                        *to = format!("#{path}");
                    }
                } else if !is_data {
                    refer(value, other);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| refer(item, other)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// How deep a value nests; stops counting once past the bound.
pub fn is_too_deep(value: &Value) -> bool {
    fn deeper(value: &Value, left: usize) -> bool {
        if left == 0 {
            return true;
        }
        match value {
            Value::Array(items) => items.iter().any(|item| deeper(item, left - 1)),
            Value::Object(map) => map.values().any(|item| deeper(item, left - 1)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        }
    }
    deeper(value, DEPTH_MAX)
}

fn read_plain(kind: &str, text: &str) -> Option<Value> {
    match kind {
        "integer" => text.parse::<i64>().ok().map(Value::from),
        "number" => {
            let number = text.parse::<f64>().ok()?;
            serde_json::Number::from_f64(number).map(Value::Number)
        }
        "boolean" => match text.to_lowercase().as_str() {
            "true" | "yes" => Some(Value::Bool(true)),
            "false" | "no" => Some(Value::Bool(false)),
            &_ => None,
        },
        "object" | "array" => strict::read(text.as_bytes()).ok(),
        &_ => None,
    }
}

/// What is wrong, without the value: whoever sent it has it, and whoever else reads this is not to. It may be secret, or
/// hold what is; and a text that says it again would be masked, which tells of what is secret elsewhere. Of names that a
/// schema does not know, one is told, since most are misspelled; none where something is marked.
pub fn complaint(error: &ValidationError<'_>, is_quiet: bool) -> String {
    if let ValidationErrorKind::AdditionalProperties { unexpected }
    | ValidationErrorKind::UnevaluatedProperties { unexpected } = error.kind()
    {
        return match unexpected.first().filter(|_| !is_quiet) {
            Some(name) => format!("`{name}` is not the name of one of its members"),
            None => "there is a member that it does not name".into(),
        };
    }
    if matches!(error.kind(), ValidationErrorKind::PropertyNames { .. }) {
        return "the name of a member does not fit".into();
    }
    error.masked_with("the value").to_string()
}

fn describe((kind, called): (Option<&str>, &str), complaint: &str) -> String {
    match kind {
        Some(kind) => format!("a value of type {kind} that fits the {called} ({complaint})"),
        None => format!("a value that fits the {called} ({complaint})"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_mismatch_says_where() {
        let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
        let mismatch = check(&schema, &json!({"n": "x"})).expect_err("not an integer");
        assert_eq!(mismatch.at, "/n");
        assert_eq!(check(&schema, &json!({"n": 3})), Ok(()));
    }

    #[test]
    fn a_mismatch_does_not_say_the_value_again() {
        let schema = json!({"type": "object", "additionalProperties": false, "properties": {
            "iban": {"type": "string", "pattern": "^DE[0-9]+$", "secret": true}}});
        let value = json!({"iban": "XX-CANARY-1234"});
        let told = check_input(&schema, &value).expect_err("no IBAN of ours");
        assert_eq!(told.at, "/iban");
        let expected = "a value of type object that fits the input schema (the value does not match \
                        \"^DE[0-9]+$\")";
        assert_eq!(told.expected, expected);
        let all = Compiled::of(&json!({"oneOf": [schema, {"type": "null"}]}));
        assert!(!format!("{:?}", all.mismatch(&value)).contains("CANARY"), "nor all around it");
        let named = json!({"XX-CANARY-1234": 1});
        assert!(!format!("{:?}", check(&schema, &named)).contains("CANARY"), "nor a name");
        let open = json!({"additionalProperties": false, "properties": {"to": {}}});
        let told = check(&open, &json!({"too": 1})).expect_err("a name too many");
        assert_eq!(
            told.expected,
            "a value that fits the schema (`too` is not the name of one of its members)"
        );
    }

    #[test]
    fn a_broken_schema_accepts_nothing() {
        assert!(check(&json!({"type": "nonsense"}), &json!(1)).is_err());
    }

    #[test]
    fn depth_is_bounded() {
        let mut value = json!(1);
        for _ in 0..DEPTH_MAX - 1 {
            value = json!([value]);
        }
        assert!(!is_too_deep(&value));
        assert!(is_too_deep(&json!([value])));
    }

    #[test]
    fn a_schema_within_another_finds_its_own_parts() {
        let own = json!({
            "$defs": {
                "card": {"type": "object", "properties": {"next": {"$ref": "#/$defs/card"}}},
                "all": {"$anchor": "all", "type": "array", "items": {"$ref": "#"}},
            },
            "type": "object",
            "properties": {"card": {"$ref": "#/$defs/card"}, "$ref": {"enum": ["#/x"]}},
        });
        let place = "/properties/arguments";
        let outer = json!({"properties": {"arguments": within(&own, place)}});
        assert_eq!(outer.pointer(place).map(|it| alone(it, place)), Some(own));
        assert_eq!(check_schema(&outer), Ok(()));
        assert_eq!(check(&outer, &json!({"arguments": {"card": {"next": {}}}})), Ok(()));
        let wrong = check(&outer, &json!({"arguments": {"card": {"next": 1}}}));
        assert_eq!(wrong.expect_err("no card").at, "/arguments/card/next");
        assert_eq!(
            outer.pointer("/properties/arguments/properties/$ref/enum/0"),
            Some(&json!("#/x"))
        );
    }

    #[test]
    fn a_format_holds_and_is_not_for_show() {
        let date = Compiled::of(&json!({"type": "string", "format": "date"}));
        assert!(date.fits(&json!("2026-03-31")));
        assert!(!date.fits(&json!("thirty")) && !date.fits(&json!("2026-02-30")));
        let password = Compiled::of(&json!({"type": "string", "format": "password"}));
        assert!(password.fits(&json!("anything")), "what no format is known for says nothing");
    }
}
