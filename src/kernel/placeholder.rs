//! Placeholder: arguments put into a tool's texts and bodies. `{{name}}` stands for an argument. What
//! `${…}` stands for is `expression`'s.
//!
//! In a URL a value is one piece, whatever is in it: it cannot open a new path, query or host.
//! It is pure, and here, because a person is told where a call goes before it is made (`deed`), and the
//! adapter that makes it must come to the same.

use serde_json::{Map, Value};

/// The arguments that a text names.
pub fn names(text: &str) -> Vec<&str> {
    let parts = text.split("{{").skip(1);
    parts.filter_map(|part| part.split_once("}}").map(|(name, _)| name.trim())).collect()
}

/// The arguments that any text in a value names.
pub fn names_in(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => names(text),
        Value::Array(items) => items.iter().flat_map(names_in).collect(),
        Value::Object(fields) => fields.values().flat_map(names_in).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => Vec::new(),
    }
}

/// A text with its arguments, each passed through `write`. An argument that is not there is named.
pub fn fill(
    text: &str,
    arguments: &Map<String, Value>,
    write: impl Fn(&str) -> String,
) -> Result<String, String> {
    let mut filled = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        filled.push_str(before);
        match arguments.get(name.trim()) {
            None | Some(Value::Null) => return Err(name.trim().to_owned()),
            Some(value) => filled.push_str(&write(&plain(value))),
        }
        rest = after;
    }
    filled.push_str(rest);
    Ok(filled)
}

/// A body with its arguments. A text that is one argument and nothing else becomes that argument,
/// of whatever type; a field whose argument is not there is left out.
pub fn fill_value(value: &Value, arguments: &Map<String, Value>) -> Option<Value> {
    match value {
        Value::String(text) => {
            let only = text.strip_prefix("{{").and_then(|rest| rest.strip_suffix("}}"));
            match only.filter(|name| !name.contains("{{") && !name.contains("}}")) {
                Some(name) => arguments.get(name.trim()).cloned(),
                None => fill(text, arguments, str::to_owned).ok().map(Value::String),
            }
        }
        Value::Array(items) => {
            Some(items.iter().filter_map(|item| fill_value(item, arguments)).collect())
        }
        Value::Object(fields) => {
            let filled = fields.iter().filter_map(|(name, value)| {
                fill_value(value, arguments).map(|value| (name.clone(), value))
            });
            Some(Value::Object(filled.collect()))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Some(value.clone()),
    }
}

/// A value as text: a text as it is, anything else as JSON.
pub fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn percent(byte: u8) -> String {
    format!("%{byte:02X}")
}

/// One piece of a URL, every character that could end the piece encoded.
pub fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&percent(byte));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn arguments() -> Map<String, Value> {
        let value = json!({"id": "a/b?c#d é", "n": 3, "tags": ["x"], "none": null});
        value.as_object().unwrap().clone()
    }

    #[test]
    fn a_value_in_a_url_stays_one_piece() {
        let filled = fill("/orders/{{id}}?n={{ n }}", &arguments(), encode);
        assert_eq!(filled.unwrap(), "/orders/a%2Fb%3Fc%23d%20%C3%A9?n=3");
        assert_eq!(fill("{{none}}", &arguments(), encode), Err("none".to_owned()));
        assert_eq!(fill("{{gone}}", &arguments(), encode), Err("gone".to_owned()));
        assert_eq!(fill("{{open", &arguments(), encode), Ok("{{open".to_owned()));
    }

    #[test]
    fn a_body_keeps_the_types_of_its_arguments_and_leaves_out_what_is_not_there() {
        let body = json!({"n": "{{n}}", "all": "{{tags}}", "text": "n is {{n}}", "gone": "{{gone}}", "fixed": 1});
        let filled = fill_value(&body, &arguments()).unwrap();
        assert_eq!(filled, json!({"n": 3, "all": ["x"], "text": "n is 3", "fixed": 1}));
        assert_eq!(names_in(&body), ["n", "tags", "n", "gone"]);
    }
}
