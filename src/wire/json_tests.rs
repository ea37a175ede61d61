//! Json, tried: what prost writes is read, what is written prost reads, and any bytes are read or refused.

use proptest::prelude::*;
use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value as Tree};
use serde_json::json;

use super::*;

/// The same value in the shapes that prost itself writes and reads.
fn tree(value: &Value) -> Tree {
    let kind = match value {
        Value::Null => Kind::NullValue(0),
        Value::Bool(yes) => Kind::BoolValue(*yes),
        Value::Number(number) => Kind::NumberValue(double_of(number)),
        Value::String(text) => Kind::StringValue(text.clone()),
        Value::Array(items) => {
            Kind::ListValue(ListValue { values: items.iter().map(tree).collect() })
        }
        Value::Object(fields) => Kind::StructValue(Struct {
            fields: fields.iter().map(|(name, it)| (name.clone(), tree(it))).collect(),
        }),
    };
    Tree { kind: Some(kind) }
}

/// Values whose objects have their names in order.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        (-1e6..1e6_f64).prop_map(Value::from),
        ".{0,200}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 60, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(".{0,12}", inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn prost_reads_what_we_write_and_we_read_what_prost_writes(value in values()) {
        let ours = Json::from(&value).encode_to_vec();
        prop_assert_eq!(ours.len(), Json::from(&value).encoded_len());
        prop_assert_eq!(Tree::decode(ours.as_slice()).unwrap(), tree(&value));
        let back = Json::decode(tree(&value).encode_to_vec().as_slice()).unwrap();
        prop_assert_eq!(&tree(&back), &tree(&value));
        prop_assert_eq!(back.to_string(), Json::decode(ours.as_slice()).unwrap().to_string());
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let tree = Tree::decode(bytes.as_slice());
        prop_assert_eq!(Json::decode(bytes.as_slice()).is_ok(), tree.is_ok());
    }
}

#[test]
fn a_value_comes_back_as_it_went() {
    let value = json!({"a": [1, 2.5, "x", null, true], "b": {"c": -3}, "": []});
    let back = Json::decode(Json::from(&value).encode_to_vec().as_slice()).unwrap();
    assert_eq!(back.into_value(), value);
}

#[test]
fn what_is_no_number_is_null() {
    let infinite = Tree { kind: Some(Kind::NumberValue(f64::INFINITY)) }.encode_to_vec();
    assert_eq!(*Json::decode(infinite.as_slice()).unwrap(), Value::Null);
    assert_eq!(*Json::decode([].as_slice()).unwrap(), Value::Null);
}

#[test]
fn fields_are_read_as_they_were_written_and_handed_over_in_the_order_of_their_names() {
    let value = json!({"b": 1, "a": [{"d": 2, "c": 3}]});
    let back = Json::decode(Json::from(&value).encode_to_vec().as_slice()).unwrap();
    assert_eq!(back.to_string(), value.to_string());
    assert_eq!(back.into_value().to_string(), r#"{"a":[{"c":3,"d":2}],"b":1}"#);
    let fields = Fields::from(value.as_object().unwrap().clone()).encode_to_vec();
    let fields = Value::Object(Fields::decode(fields.as_slice()).unwrap().into_map());
    assert_eq!(fields.to_string(), r#"{"a":[{"c":3,"d":2}],"b":1}"#);
}

#[test]
fn what_is_nested_too_deep_is_refused() {
    let deep = |levels| (0..levels).fold(Value::Null, |inner, _| json!([inner]));
    let bytes = |levels| Json::from(deep(levels)).encode_to_vec();
    assert!(Json::decode(bytes(40).as_slice()).is_ok());
    assert!(Json::decode(bytes(1_000).as_slice()).is_err());
    assert!(Tree::decode(bytes(1_000).as_slice()).is_err());
}
