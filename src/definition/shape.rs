//! Shape: whether a file has the shape of its schema, and every place where it has not.

use jsonschema::{
    JsonType, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::Value;

use crate::definition::problem::Problem;
use crate::definition::source::{Source, under};

/// More problems than these help nobody at once.
const PROBLEMS_MAX: usize = 100;

/// Every place where the source does not have the shape of the schema.
pub(super) fn check(source: &Source, schema: &Value, validator: &Validator) -> Vec<Problem> {
    let shape = Shape { source, schema };
    let errors = validator.iter_errors(&source.value);
    errors.flat_map(|error| shape.problems(&error)).take(PROBLEMS_MAX).collect()
}

struct Shape<'a> {
    source: &'a Source,
    schema: &'a Value,
}

impl Shape<'_> {
    fn problems(&self, error: &ValidationError<'_>) -> Vec<Problem> {
        let at = error.instance_path().as_str();
        let shown = shown(error.instance());
        #[expect(clippy::wildcard_enum_match_arm, reason = "our schemas use these keywords only")]
        match error.kind() {
            ValidationErrorKind::AdditionalProperties { unexpected } => {
                unexpected.iter().map(|field| self.unknown_field(error, field)).collect()
            }
            ValidationErrorKind::Required { property } => {
                vec![self.missing_field(error, property.as_str().unwrap_or_default())]
            }
            ValidationErrorKind::Type { kind } => {
                let expected = self.in_its_words(error).unwrap_or_else(|| types(kind));
                let message = format!("{} is {shown}; expected {expected}", thing(at));
                vec![self.source.at(at, "field.type", message)]
            }
            ValidationErrorKind::AnyOf { context }
            | ValidationErrorKind::OneOfNotValid { context } => self.one_of_many(error, context),
            ValidationErrorKind::Enum { .. } | ValidationErrorKind::Constant { .. } => {
                vec![self.other_word(error)]
            }
            ValidationErrorKind::Pattern { .. } => {
                let expected = self.in_its_words(error).unwrap_or_default();
                let message = format!("{} is {shown}; expected {expected}", thing(at));
                vec![self.source.at(at, "field.value", message)]
            }
            other => {
                let bound = bound(other).unwrap_or_else(|| error.to_string());
                let message = format!("{} is {shown}; expected {bound}", thing(at));
                vec![self.source.at(at, "field.range", message)]
            }
        }
    }

    /// A field that is not there, with the words that it may be where there are only some.
    fn missing_field(&self, error: &ValidationError<'_>, field: &str) -> Problem {
        let at = error.instance_path().as_str();
        let message = format!("{} needs the field `{field}`", thing(at));
        let problem = self.source.at_key(at, "field.missing", message);
        let mut words = Vec::new();
        if let Some(schema) = self.schema_of(error).and_then(|all| all["properties"].get(field)) {
            self.describe(schema, &mut words);
        }
        if words.is_empty() || !words.iter().all(|word| word.starts_with('`')) {
            return problem;
        }
        problem.hint(format!("it is one of: {}", words.join(", ")))
    }

    /// Whether what a step of a sequence has not is what one of a graph has: whoever writes it there means a graph,
    /// and has not said so.
    fn is_a_graphs(&self, at: &str, field: &str) -> bool {
        let of_graph = &self.schema["$defs"]["NodeFile"]["properties"];
        let is_step = at.strip_prefix("/steps/").is_some_and(|index| !index.contains('/'));
        is_step && of_graph.get(field).is_some()
    }

    fn unknown_field(&self, error: &ValidationError<'_>, field: &str) -> Problem {
        let at = error.instance_path().as_str();
        let known = self.schema_of(error).and_then(|schema| schema["properties"].as_object());
        let known: Vec<&str> =
            known.iter().flat_map(|map| map.keys()).map(String::as_str).collect();
        let message = format!("{} has no field `{field}`", thing(at));
        let problem = self.source.at_key(&under(at, field), "field.unknown", message);
        if self.is_a_graphs(at, field) {
            let hint = format!(
                "a step of a graph may have `{field}`: `pattern: graph`, and the steps under `graph.steps`"
            );
            return problem.hint(hint);
        }
        let problem = problem.did_you_mean(field, known.iter().copied());
        if problem.hint.is_some() {
            return problem;
        }
        problem.hint(format!("it may have: {}", known.join(", ")))
    }

    /// A value that may have several shapes: the complaints of the shape that it comes nearest to,
    /// or else what the shapes are.
    fn one_of_many(
        &self,
        error: &ValidationError<'_>,
        context: &[Vec<ValidationError<'static>>],
    ) -> Vec<Problem> {
        let at = error.instance_path().as_str();
        // A map is nearest to the shape whose fields it has.
        let is_anothers = |inner: &ValidationError<'_>| {
            let fields = matches!(
                inner.kind(),
                ValidationErrorKind::Required { .. }
                    | ValidationErrorKind::AdditionalProperties { .. }
            );
            fields && inner.instance_path().as_str() == at
        };
        let is_none = |inner: &ValidationError<'_>| is_off(inner, at) || is_anothers(inner);
        let nearest = context.iter().find(|branch| !branch.iter().any(is_none));
        let near = nearest.or_else(|| {
            context.iter().find(|branch| !branch.iter().any(|inner| is_off(inner, at)))
        });
        if let Some(near) = near {
            return near.iter().flat_map(|inner| self.problems(inner)).collect();
        }
        vec![self.other_word(error)]
    }

    /// A value that is none of those expected.
    fn other_word(&self, error: &ValidationError<'_>) -> Problem {
        let at = error.instance_path().as_str();
        let mut words = Vec::new();
        if let Some(schema) = self.schema_of(error) {
            self.describe(schema, &mut words);
        }
        let shown = shown(error.instance());
        let message = format!("{} is {shown}; expected {}", thing(at), words.join(" or "));
        let known = words.iter().filter_map(|word| word.strip_prefix('`')?.strip_suffix('`'));
        match error.instance().as_str() {
            Some(written) if words.iter().any(|word| word.starts_with('`')) => {
                let problem = self.source.at(at, "field.value", message);
                problem.did_you_mean(written, known)
            }
            _ => self.source.at(at, "field.type", message),
        }
    }

    /// What is expected where the schema has a pattern: its description says it best.
    fn in_its_words(&self, error: &ValidationError<'_>) -> Option<String> {
        let schema = self.schema_of(error).filter(|schema| schema.get("pattern").is_some())?;
        let words = schema["description"].as_str()?.trim_end_matches('.');
        Some(words.replacen("A ", "a ", 1))
    }

    /// The schema whose keyword complains.
    fn schema_of(&self, error: &ValidationError<'_>) -> Option<&Value> {
        let (schema, _keyword) = error.schema_path().as_str().rsplit_once('/')?;
        self.schema.pointer(schema)
    }

    fn describe(&self, schema: &Value, words: &mut Vec<String>) {
        if let Some(target) = schema["$ref"].as_str() {
            let target = target.strip_prefix('#').and_then(|pointer| self.schema.pointer(pointer));
            return target.into_iter().for_each(|target| self.describe(target, words));
        }
        for keyword in ["anyOf", "oneOf"] {
            for branch in schema[keyword].as_array().into_iter().flatten() {
                self.describe(branch, words);
            }
        }
        let constants = schema["enum"].as_array().into_iter().flatten();
        words.extend(constants.chain(schema.get("const")).map(shown));
        let has_words = schema.get("enum").is_some() || schema.get("const").is_some();
        if let Some(kind) = schema["type"].as_str().filter(|_| !has_words) {
            words.extend(word_of(kind, schema));
        }
    }
}

/// Whether a value is of another kind than what a branch expects there, whatever else is in it.
fn is_off(error: &ValidationError<'_>, at: &str) -> bool {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "any other complaint is about what is in it"
    )]
    let outright = match error.kind() {
        ValidationErrorKind::Type { .. }
        | ValidationErrorKind::Enum { .. }
        | ValidationErrorKind::Constant { .. } => true,
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context } => {
            context.iter().all(|branch| branch.iter().any(|inner| is_off(inner, at)))
        }
        _ => false,
    };
    outright && error.instance_path().as_str() == at
}

fn word_of(kind: &str, schema: &Value) -> Option<String> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    match kind {
        "string" => Some("a text".into()),
        "integer" => Some("a whole number".into()),
        "number" => Some("a number".into()),
        "boolean" => Some("true or false".into()),
        "array" => Some("a list".into()),
        "object" => match required.collect::<Vec<_>>().as_slice() {
            [] => Some("a map".into()),
            fields => Some(format!("a map with `{}`", fields.join("`, `"))),
        },
        _ => None,
    }
}

fn types(kind: &TypeKind) -> String {
    let word = |kind: JsonType| word_of(&kind.to_string(), &Value::Null);
    let words: Vec<String> = match kind {
        TypeKind::Single(one) => word(*one).into_iter().collect(),
        TypeKind::Multiple(many) => many.iter().filter_map(word).collect(),
    };
    words.join(" or ")
}

#[expect(clippy::wildcard_enum_match_arm, reason = "the rest is told in the validator's words")]
fn bound(kind: &ValidationErrorKind) -> Option<String> {
    match kind {
        ValidationErrorKind::Minimum { limit } => Some(format!("at least {limit}")),
        ValidationErrorKind::Maximum { limit } => Some(format!("at most {limit}")),
        ValidationErrorKind::MinItems { limit } => Some(format!("at least {limit} of them")),
        ValidationErrorKind::MaxItems { limit } => Some(format!("at most {limit} of them")),
        ValidationErrorKind::MinLength { .. } => Some("a text that is not empty".into()),
        _ => None,
    }
}

/// A value in few words.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "empty".into(),
        Value::Bool(_) | Value::Number(_) => format!("`{value}`"),
        Value::String(text) if text.chars().count() <= 40 => format!("`{text}`"),
        Value::String(_) => "a text".into(),
        Value::Array(items) if items.is_empty() => "an empty list".into(),
        Value::Array(_) => "a list".into(),
        Value::Object(_) => "a map".into(),
    }
}

/// The thing at a pointer, in words.
fn thing(pointer: &str) -> String {
    let parts: Vec<&str> = pointer.split('/').skip(1).collect();
    if parts.is_empty() { "the file".into() } else { format!("`{}`", parts.join(".")) }
}
