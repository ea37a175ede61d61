//! Values: `google.protobuf.Value` ↔ JSON.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as Proto};
use serde_json::{Map, Number, Value};

/// Whole numbers up to here are exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

pub(super) fn to_json(proto: Proto) -> Value {
    match proto.kind {
        None | Some(Kind::NullValue(_)) => Value::Null,
        Some(Kind::BoolValue(value)) => Value::Bool(value),
        Some(Kind::NumberValue(value)) => number(value),
        Some(Kind::StringValue(value)) => Value::String(value),
        Some(Kind::ListValue(list)) => list.values.into_iter().map(to_json).collect(),
        Some(Kind::StructValue(object)) => {
            let mut fields: Vec<_> = object.fields.into_iter().collect();
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            let fields = fields.into_iter().map(|(name, value)| (name, to_json(value)));
            Value::Object(fields.collect::<Map<_, _>>())
        }
    }
}

/// A double that is a whole number is read as one: the wire knows no integers, schemas do.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and exact")]
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

pub(super) fn from_json(value: &Value) -> Proto {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(value) => Kind::BoolValue(*value),
        Value::Number(value) => Kind::NumberValue(value.as_f64().unwrap_or(f64::NAN)),
        Value::String(value) => Kind::StringValue(value.clone()),
        Value::Array(items) => {
            Kind::ListValue(ListValue { values: items.iter().map(from_json).collect() })
        }
        Value::Object(map) => {
            let fields = map.iter().map(|(name, value)| (name.clone(), from_json(value)));
            Kind::StructValue(Struct { fields: fields.collect() })
        }
    };
    Proto { kind: Some(kind) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_comes_back_as_it_went() {
        let value = json!({"a": [1, 2.5, "x", null, true], "b": {"c": -3}});
        assert_eq!(to_json(from_json(&value)), value);
    }

    #[test]
    fn what_is_no_number_is_null() {
        let proto = Proto { kind: Some(Kind::NumberValue(f64::INFINITY)) };
        assert_eq!(to_json(proto), Value::Null);
    }
}
