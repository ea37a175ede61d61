//! Digests: the SHA-256 of a value's canonical JSON (keys sorted), as lower-case hex.

use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// The digest of a value; equal values have equal digests whatever the order of their keys.
pub fn of(value: &Value) -> String {
    let mut text = String::with_capacity(256);
    write_canonical(value, &mut text);
    of_bytes(text.as_bytes())
}

/// The first 128 bits of a digest: the version of a definition, which is kept with every run. Nobody
/// gains by making two files of their own collide.
pub fn short_of(value: &Value) -> String {
    let mut digest = of(value);
    digest.truncate(32);
    digest
}

/// The digest of bytes.
pub fn of_bytes(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let sum = Sha256::digest(bytes);
    let mut hex = String::with_capacity(64);
    for byte in sum {
        hex.push(char::from(HEX[usize::from(byte >> 4)]));
        hex.push(char::from(HEX[usize::from(byte & 15)]));
    }
    hex
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<_> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (index, key) in keys.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                out.push_str(&Value::String(key.clone()).to_string());
                out.push(':');
                write_canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
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
}
