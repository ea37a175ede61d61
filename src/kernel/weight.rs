//! Weight: about how much memory a value holds, for bounds on what is kept in memory. Nothing is decided by it.

use serde_json::Value;

use crate::kernel::question::{Question, Subject};
use crate::kernel::run::Run;

/// What a value weighs beside its texts.
const PLACE: usize = 32;

/// About how many bytes a value holds.
#[must_use]
pub fn weight(value: &Value) -> usize {
    PLACE
        + match value {
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(weight).sum(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| PLACE + name.len() + weight(value)).sum()
            }
        }
}

impl Question {
    /// About how many bytes it holds: what it shows is often long, and often said twice.
    pub fn weight(&self) -> usize {
        let subject = match self.subject.as_deref() {
            Some(Subject::Shown(value)) => weight(value),
            Some(Subject::Task(_)) | None => 0,
        };
        self.prompt.len() + weight(&self.context) + subject
    }
}

impl Run {
    /// About how many bytes it holds.
    pub fn weight(&self) -> usize {
        let asked: usize = self.questions.values().map(|question| question.weight()).sum();
        let output = self.output.as_ref().map_or(0, weight);
        self.bytes_in_all() + weight(&self.input) + asked + output
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_weighs_what_is_said_in_it_wherever_that_stands() {
        let long = "x".repeat(10_000);
        let light = weight(&json!({"said": [{"by": "ada"}]}));
        assert!(light < 1_000);
        let heavy = weight(&json!({"said": [{"by": long.as_str()}]}));
        assert!((10_000..10_000 + light).contains(&heavy), "{heavy}");
    }
}
