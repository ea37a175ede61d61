//! Strict: JSON in which every name of an object is given once.
//!
//! Most readers keep the last of two members of one name, some keep the first: what one program showed to a
//! person, another would then read otherwise. So whatever can decide something is read here, and what says
//! one thing twice says nothing (K7). Not a reader of files or of what a model says.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Why a text was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Misread {
    /// It is no JSON.
    NoJson(String),
    /// A member is given twice; where it is.
    Twice(String),
}

impl fmt::Display for Misread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoJson(why) => f.write_str(why),
            Self::Twice(place) => write!(f, "`{place}` is given twice; say it once"),
        }
    }
}

/// Reads a value.
pub fn read(bytes: &[u8]) -> Result<Value, Misread> {
    let twice = RefCell::new(None);
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let value = Tree { twice: &twice }.deserialize(&mut reader).and_then(|value| {
        reader.end()?;
        Ok(value)
    });
    value.map_err(|error| match twice.into_inner() {
        Some(place) => Misread::Twice(place),
        None => Misread::NoJson(error.to_string()),
    })
}

/// A value of which the place of a second member is told.
#[derive(Clone, Copy)]
struct Tree<'a> {
    twice: &'a RefCell<Option<String>>,
}

impl Tree<'_> {
    /// Says of a fault further in where it is.
    fn within(self, name: &str) {
        if let Some(place) = &mut *self.twice.borrow_mut() {
            *place = format!("{}.{place}", short(name));
        }
    }
}

/// A name as it is told: callers choose it, and as long as they like.
fn short(name: &str) -> String {
    name.chars().take(80).collect()
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            match items.next_element_seed(self) {
                Ok(Some(item)) => list.push(item),
                Ok(None) => return Ok(Value::Array(list)),
                Err(error) => {
                    self.within(&list.len().to_string());
                    return Err(error);
                }
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            if map.contains_key(&name) {
                *self.twice.borrow_mut() = Some(short(&name));
                return Err(A::Error::custom("a member is given twice"));
            }
            let value = members.next_value_seed(self).inspect_err(|_| self.within(&name))?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_said_once_is_read_as_any_reader_reads_it() {
        for text in [
            "null",
            "[]",
            "-7",
            "18446744073709551615",
            "0.1",
            "1e300",
            r#""\u00e9\n""#,
            r#"{"b": {"a": [1, {"a": true}]}, "a": "x"}"#,
        ] {
            let usual: Value = serde_json::from_str(text).unwrap();
            let read = read(text.as_bytes()).unwrap();
            assert_eq!(read, usual, "{text}");
            assert_eq!(read.to_string(), usual.to_string(), "in its order: {text}");
        }
    }

    #[test]
    fn k7_what_is_said_twice_is_told_with_its_place() {
        for (text, place) in [
            (r#"{"a": 1, "a": 1}"#, "a"),
            (r#"{"responses": {"req_1": "approve", "req_1": "reject"}}"#, "responses.req_1"),
            (r#"{"input": [1, {"output": {"x": 1, "\u0078": 2}}]}"#, "input.1.output.x"),
        ] {
            assert_eq!(read(text.as_bytes()), Err(Misread::Twice(place.into())), "{text}");
        }
        let long = format!(r#"{{"{0}": 1, "{0}": 2}}"#, "x".repeat(10_000));
        assert_eq!(read(long.as_bytes()), Err(Misread::Twice("x".repeat(80))));
    }

    #[test]
    fn what_is_no_json_is_said_to_be_none() {
        let deep = "[".repeat(10_000);
        for text in ["", "{", r#"{"a": 1} x"#, "nul", &deep] {
            assert!(matches!(read(text.as_bytes()), Err(Misread::NoJson(_))), "{text:.20}");
        }
        assert_eq!(read(b" {} "), Ok(json!({})));
    }
}
