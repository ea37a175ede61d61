//! Digests: the SHA-256 of a value's canonical JSON (keys sorted), as lower-case hex.

use ring::digest::{SHA256, digest};
use serde_json::Value;

/// The digest of a value; equal values have equal digests whatever the order of their keys.
pub fn of(value: &Value) -> String {
    let mut text = Canonical::default();
    text.value(value);
    text.digest()
}

/// A value's canonical JSON: no spaces, and keys in order.
pub fn canonical(value: &Value) -> Vec<u8> {
    let mut text = Canonical::default();
    text.value(value);
    text.0
}

/// The digest of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let sum = digest(&SHA256, bytes);
    let mut hex = String::with_capacity(64);
    for byte in sum.as_ref() {
        hex.push(char::from(HEX[usize::from(byte >> 4)]));
        hex.push(char::from(HEX[usize::from(byte & 15)]));
    }
    hex
}

/// Canonical JSON as it is written: no spaces, and keys in order.
#[derive(Debug, Default)]
pub(super) struct Canonical(Vec<u8>);

impl Canonical {
    /// Writes what is canonical already.
    pub(super) fn raw(&mut self, text: &str) -> &mut Self {
        self.0.extend_from_slice(text.as_bytes());
        self
    }

    /// Writes a text.
    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        // Writing to memory does not fail.
        serde_json::to_writer(&mut self.0, text).unwrap_or_default();
        self
    }

    /// Writes a value.
    pub(super) fn value(&mut self, value: &Value) -> &mut Self {
        match value {
            Value::Object(map) => {
                let mut keys: Vec<_> = map.keys().collect();
                keys.sort_unstable();
                for (index, key) in keys.into_iter().enumerate() {
                    self.raw(if index == 0 { "{" } else { "," }).text(key).raw(":");
                    self.value(&map[key]);
                }
                self.raw(if map.is_empty() { "{}" } else { "}" })
            }
            Value::Array(items) => {
                self.raw("[");
                for (index, item) in items.iter().enumerate() {
                    self.raw(if index == 0 { "" } else { "," }).value(item);
                }
                self.raw("]")
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                serde_json::to_writer(&mut self.0, value).unwrap_or_default();
                self
            }
        }
    }

    /// The digest of what was written.
    pub(super) fn digest(&self) -> String {
        of_bytes(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_order_of_keys_does_not_matter() {
        assert_eq!(of(&json!({"a": 1, "b": [2]})), of(&json!({"b": [2], "a": 1})));
        assert_ne!(of(&json!({"a": 1})), of(&json!({"a": 2})));
    }

    #[test]
    fn the_canonical_form_is_firm() {
        let mut text = Canonical::default();
        text.value(&json!({"b": {}, "a": [], "c": [1, {"z": "\n\"", "y": null}, 2.5]}));
        let text = String::from_utf8(text.0).expect("JSON is UTF-8");
        assert_eq!(text, r#"{"a":[],"b":{},"c":[1,{"y":null,"z":"\n\""},2.5]}"#);
    }
}
