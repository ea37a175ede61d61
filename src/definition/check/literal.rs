//! Literal: secrets that stand in the file itself. A definition is handed out whole, to whoever may start it and in
//! every bundle: what is written there is nobody's secret. These are warnings: it may be an example.

use serde_json::Value;

use crate::definition::file::WorkflowFile;
use crate::definition::problem::Problem;
use crate::definition::source::{Source, under};
use crate::kernel::{has_variables, secret};

/// Words of a schema that say what a value is, or may be.
const SAYS: [&str; 4] = ["default", "const", "enum", "examples"];

/// What is marked as secret and written out, in the order of its lines.
pub(super) fn literals(source: &Source, file: &WorkflowFile) -> Vec<Problem> {
    let mut look = Look { source, file, found: Vec::new() };
    look.value("", &source.value);
    look.found
}

struct Look<'a> {
    source: &'a Source,
    file: &'a WorkflowFile,
    found: Vec<Problem>,
}

impl Look<'_> {
    fn value(&mut self, at: &str, value: &Value) {
        match value {
            Value::Object(members) => {
                self.call(at, value);
                let said = SAYS.iter().find(|word| members.contains_key(**word));
                if let Some(word) = said.filter(|_| secret::is_marked(value)) {
                    self.found(&under(at, word));
                }
                for (name, value) in members {
                    self.value(&under(at, name), value);
                }
            }
            Value::Array(items) => {
                for (index, value) in items.iter().enumerate() {
                    self.value(&under(at, index), value);
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }

    /// A call of a tool, by a step or by a script: its arguments in marked places.
    fn call(&mut self, at: &str, value: &Value) {
        let tool = value.get("tool").and_then(Value::as_str);
        let tool = tool.and_then(|name| self.file.tools.get(name));
        let (Some(tool), Some(arguments)) = (tool, value.get("arguments")) else { return };
        let at = under(at, "arguments");
        for place in secret::places(tool.parameters.as_ref(), &tool.secret, arguments) {
            let is_literal = |value: &Value| match value {
                Value::String(text) => !text.is_empty() && !has_variables(text),
                Value::Number(_) => true,
                Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => false,
            };
            if arguments.pointer(&place).is_some_and(is_literal) {
                self.found(&format!("{at}{place}"));
            }
        }
    }

    fn found(&mut self, at: &str) {
        let message = "this is marked as secret and stands in the file, which is handed out whole";
        let hint = "take it from the input, from a person's answer, or from the settings of the tool \
                    (`${ENV:NAME}`)";
        self.found.push(self.source.at(at, "secret.literal", message).hint(hint));
    }
}
