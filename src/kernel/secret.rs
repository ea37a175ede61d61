//! Secret: values that a schema marks as nobody's to read: `writeOnly: true`, or `format: password`. A
//! person who decides is shown that they are there and how long they are; the digest of what was shown has
//! them as salted hashes; what is done has them as they are. Nothing is hidden from the journal here.

use serde_json::{Value, json};

use crate::kernel::canonical;
use crate::kernel::digest;
use crate::kernel::workflow::Workflow;

/// How deep a schema is looked into; arguments nest no deeper than this in any tool that people write.
const DEPTH_MAX: usize = 16;

/// Where the secrets of a call's arguments are, as JSON pointers.
pub fn of_call(workflow: &Workflow, tool: &str, arguments: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(schema) = workflow.tools.get(tool).and_then(|tool| tool.parameters.as_ref()) {
        find(schema, arguments, "", &mut found, DEPTH_MAX);
    }
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

fn find(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>, depth: usize) {
    let is_secret = schema["writeOnly"] == true || schema["format"] == "password";
    if is_secret {
        found.push(at.to_owned());
        return;
    }
    if depth == 0 {
        return;
    }
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                let Some(schema) = schema.pointer("/properties").and_then(|all| all.get(name))
                else {
                    continue;
                };
                let name = name.replace('~', "~0").replace('/', "~1");
                find(schema, value, &format!("{at}/{name}"), found, depth - 1);
            }
        }
        Value::Array(items) => {
            let Some(schema) = schema.get("items") else { return };
            for (index, value) in items.iter().enumerate() {
                find(schema, value, &format!("{at}/{index}"), found, depth - 1);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
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

/// What people see of a secret: that there is one, and how long it is.
pub(super) fn mask(secret: &Value) -> Value {
    let length = secret.as_str().map_or_else(|| secret.to_string().len(), |it| it.chars().count());
    json!(format!("••• ({length} characters)"))
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
        let mut found = Vec::new();
        find(&schema, &value, "", &mut found, DEPTH_MAX);
        found.sort();
        assert_eq!(found, ["/keys/0/a~1b", "/pass"]);
        let mut shown = value.clone();
        replace(&mut shown, "", &found, &mask);
        assert_eq!(shown["pass"], "••• (7 characters)");
        assert_eq!(shown["keys"][0]["a/b"], "••• (1 characters)");
        assert_eq!(shown["user"], "ada");
    }

    #[test]
    fn a_salted_hash_tells_secrets_and_questions_apart() {
        let (one, other) = (json!("hunter2"), json!("hunter3"));
        assert_ne!(salted(&one, "n1"), salted(&other, "n1"));
        assert_ne!(salted(&one, "n1"), salted(&one, "n2"));
        assert!(!salted(&one, "n1").to_string().contains("hunter"));
    }
}
