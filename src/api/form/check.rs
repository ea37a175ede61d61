//! Check: what is wrong with a value, field by field, in words for the person who filled it in.
//!
//! Only to put the reason beside the field: whether an answer is taken is the kernel's to say.

use std::collections::BTreeMap;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::Value;

use crate::api::form::member;
use crate::kernel::schema::complaint;
use crate::kernel::secret;

/// Complaints that are shown at once; a form with more is a form that was not filled in.
const COMPLAINTS_MAX: usize = 50;

/// What is wrong, by the JSON pointer of the place.
pub(crate) type Complaints = BTreeMap<String, String>;

/// What is wrong with `value`.
pub(crate) fn check(schema: &Value, value: &Value) -> Complaints {
    let mut complaints = Complaints::new();
    // As the kernel reads it: what fits here fits there.
    let Ok(validator) = jsonschema::options().should_validate_formats(true).build(schema) else {
        complaints.insert(String::new(), "The schema of this form is broken.".into());
        return complaints;
    };
    let is_quiet = secret::marks(schema);
    for error in validator.iter_errors(value).take(COMPLAINTS_MAX) {
        let at = error.instance_path().to_string();
        let (at, words) = if let ValidationErrorKind::Required { property } = error.kind() {
            let name = property.as_str().unwrap_or_default();
            (member(&at, name), "This is needed.".to_owned())
        } else {
            (at, words(error.kind(), &complaint(&error, is_quiet)))
        };
        complaints.entry(at).or_insert(words);
    }
    complaints
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is said in the validator's own words")]
fn words(kind: &ValidationErrorKind, own: &str) -> String {
    match kind {
        ValidationErrorKind::Type { kind: TypeKind::Single(kind) } => {
            format!("Expected {}.", a_kind(&kind.to_string()))
        }
        ValidationErrorKind::Minimum { limit } => format!("At least {limit}."),
        ValidationErrorKind::Maximum { limit } => format!("At most {limit}."),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("More than {limit}."),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("Less than {limit}."),
        ValidationErrorKind::MinLength { limit: 1 } => "This is needed.".into(),
        ValidationErrorKind::MinLength { limit } => format!("At least {limit} characters."),
        ValidationErrorKind::MaxLength { limit } => format!("At most {limit} characters."),
        ValidationErrorKind::MinItems { limit } => format!("At least {limit}."),
        ValidationErrorKind::MaxItems { limit } => format!("At most {limit}."),
        ValidationErrorKind::Pattern { pattern } => format!("Expected the form {pattern}"),
        ValidationErrorKind::Format { format } => format!("Expected a {format}."),
        ValidationErrorKind::MultipleOf { multiple_of } => format!("A multiple of {multiple_of}."),
        ValidationErrorKind::Enum { .. } => "Choose one of these.".into(),
        _ => format!("{own}."),
    }
}

fn a_kind(kind: &str) -> &'static str {
    match kind {
        "integer" => "a whole number",
        "number" => "a number",
        "boolean" => "yes or no",
        "string" => "a text",
        "array" => "a list",
        "object" => "fields, or JSON in braces",
        &_ => "something else",
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_wrong_field_has_its_own_reason() {
        let schema = json!({"type": "object", "required": ["name", "n"], "properties": {
            "name": {"type": "string"}, "n": {"type": "integer", "minimum": 3},
            "list": {"type": "array", "items": {"type": "number"}}}});
        let complaints = check(&schema, &json!({"n": 1, "list": [1, "x"]}));
        let told: Vec<_> = complaints.iter().map(|(at, why)| (at.as_str(), why.as_str())).collect();
        assert_eq!(
            told,
            [
                ("/list/1", "Expected a number."),
                ("/n", "At least 3."),
                ("/name", "This is needed.")
            ]
        );
        assert!(check(&schema, &json!({"n": 3, "name": ""})).is_empty());
    }
}
