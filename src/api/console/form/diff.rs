//! Diff: what a person changed, place by place.

use serde_json::Value;

use crate::api::console::form::member;

/// One change: where, what was there, and what is there now.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::api::console) struct Change {
    pub(in crate::api::console) at: String,
    pub(in crate::api::console) before: Option<Value>,
    pub(in crate::api::console) after: Option<Value>,
}

/// What turns `before` into `after`.
pub(in crate::api::console) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), "", &mut found);
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, at: &str, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                compare(old.get(name), new.get(name), &member(at, name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for index in 0..old.len().max(new.len()) {
                compare(old.get(index), new.get(index), &format!("{at}/{index}"), found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            found.push(Change {
                at: at.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let told = changes(
            &json!({"to": "a", "n": 1, "l": [1, 2], "gone": true}),
            &json!({"to": "b", "n": 1, "l": [1], "new": null}),
        );
        let places: Vec<_> = told.iter().map(|change| change.at.as_str()).collect();
        assert_eq!(places, ["/to", "/l/1", "/gone", "/new"]);
        assert_eq!(told[0].before, Some(json!("a")));
        assert_eq!(told[3].after, Some(json!(null)));
        assert!(changes(&json!([{"a": 1}]), &json!([{"a": 1}])).is_empty());
    }
}
