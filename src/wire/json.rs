//! Json: `google.protobuf.Value` and `Struct` as JSON, written to the wire and read from it without a
//! tree of another kind in between. Not protobuf's JSON mapping of messages: that is `proto_json`.

use std::sync::{Arc, OnceLock};

use bytes::{Buf, BufMut};
use prost::encoding::{
    self, DecodeContext, WireType, double, encode_key, encode_varint, encoded_len_varint, key_len,
    message,
};
use prost::{DecodeError, Message};
use serde_json::{Map, Number, Value};

/// Whole numbers up to here are exact in a double.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;
/// The same, whole.
const WHOLE_MAX: u64 = 1 << 53;

/// The fields of `google.protobuf.Value`, of which one is set.
mod kind {
    pub(super) const NULL: u32 = 1;
    pub(super) const NUMBER: u32 = 2;
    pub(super) const STRING: u32 = 3;
    pub(super) const BOOL: u32 = 4;
    pub(super) const STRUCT: u32 = 5;
    pub(super) const LIST: u32 = 6;
}
/// The one field of `Struct` and of `ListValue`.
const MEMBERS: u32 = 1;
/// The fields of a member of `Struct`.
const NAME: u32 = 1;
const VALUE: u32 = 2;

/// prost's trait for a shape of ours: how one of its fields is read, how all of it is written, and how
/// long it is then.
macro_rules! message {
    (
        $shape:ty, |$self:ident, $tag:ident, $wire_type:ident, $buf:ident, $ctx:ident|
        read: $read:expr,
        write: $write:expr,
        len: $len:expr,
    ) => {
        impl Message for $shape {
            fn merge_field(
                &mut $self,
                $tag: u32,
                $wire_type: WireType,
                $buf: &mut impl Buf,
                $ctx: DecodeContext,
            ) -> Result<(), DecodeError> {
                $read
            }

            fn encode_raw(&$self, $buf: &mut impl BufMut) {
                $write;
            }

            fn encoded_len(&$self) -> usize {
                $len
            }

            fn clear(&mut $self) {
                *$self = Self::default();
            }
        }
    };
}

/// `google.protobuf.Value`. Shared, so that a schema of which there is one is never copied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Json(Arc<Shared>);

/// A value, and what it is on the wire once somebody has asked; of what has nothing within it, nothing. Every
/// message around it asks how long it is.
#[derive(Debug, Clone, Default)]
struct Shared {
    value: Value,
    written: OnceLock<Box<[u8]>>,
}

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Shared {
    fn written(&self) -> Option<&[u8]> {
        match &self.value {
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
            Value::Array(_) | Value::Object(_) => Some(self.written.get_or_init(|| {
                let mut sizes = Sizes::default();
                let mut written = Vec::with_capacity(sizes.of(&self.value));
                write(&self.value, &mut sizes, &mut written);
                written.into_boxed_slice()
            })),
        }
    }
}

impl Json {
    /// The JSON that a client sent, its fields by their names: the wire's order means nothing, and differs from client
    /// to client. Whoever reads what we wrote looks through it instead, and finds it as it was written.
    pub fn into_value(self) -> Value {
        let mut value = Arc::unwrap_or_clone(self.0).value;
        value.sort_all_objects();
        value
    }
}

impl std::ops::Deref for Json {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0.value
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(Arc::new(Shared { value, written: OnceLock::new() }))
    }
}

impl From<&Value> for Json {
    fn from(value: &Value) -> Self {
        value.clone().into()
    }
}

impl From<Arc<Value>> for Json {
    fn from(value: Arc<Value>) -> Self {
        Arc::unwrap_or_clone(value).into()
    }
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Value::from(text).into()
    }
}

message! {
    Json, |self, tag, wire_type, buf, ctx|
    read: {
        let shared = Arc::make_mut(&mut self.0);
        shared.written = OnceLock::new();
        read(&mut shared.value, tag, wire_type, buf, ctx)
    },
    write: match self.0.written() {
        Some(written) => buf.put_slice(written),
        None => write(&self.0.value, &mut Sizes::default(), buf),
    },
    len: self.0.written().map_or_else(|| Sizes::default().of(&self.0.value), <[u8]>::len),
}

/// `google.protobuf.Struct`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Fields(Map<String, Value>);

impl Fields {
    /// The fields by their names: the wire's order means nothing, and differs from client to client.
    pub fn into_map(mut self) -> Map<String, Value> {
        self.0.sort_keys();
        self.0.values_mut().for_each(Value::sort_all_objects);
        self.0
    }
}

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

message! {
    Fields, |self, tag, wire_type, buf, ctx|
    read: {
        if tag != MEMBERS {
            return encoding::skip_field(wire_type, tag, buf, ctx);
        }
        let mut member = Member::default();
        message::merge(wire_type, &mut member, buf, ctx)?;
        self.0.insert(member.name, member.value.0);
        Ok(())
    },
    write: measured(buf, |sizes| sizes.of_fields(&self.0), |sizes, buf| {
        write_fields(&self.0, sizes, buf);
    }),
    len: Sizes::default().of_fields(&self.0),
}

/// A member of `Struct`.
#[derive(Debug, Default)]
struct Member {
    name: String,
    value: Node,
}

message! {
    Member, |self, tag, wire_type, buf, ctx|
    read: match tag {
        NAME => encoding::string::merge(wire_type, &mut self.name, buf, ctx),
        VALUE => message::merge(wire_type, &mut self.value, buf, ctx),
        _ => encoding::skip_field(wire_type, tag, buf, ctx),
    },
    write: measured(buf, |sizes| sizes.of_member(&self.name, &self.value.0), |sizes, buf| {
        write_member(&self.name, &self.value.0, sizes, buf);
    }),
    len: Sizes::default().of_member(&self.name, &self.value.0),
}

/// `google.protobuf.ListValue`.
#[derive(Debug, Default)]
struct List(Vec<Value>);

message! {
    List, |self, tag, wire_type, buf, ctx|
    read: {
        if tag != MEMBERS {
            return encoding::skip_field(wire_type, tag, buf, ctx);
        }
        let mut item = Node::default();
        message::merge(wire_type, &mut item, buf, ctx)?;
        self.0.push(item.0);
        Ok(())
    },
    write: measured(buf, |sizes| sizes.of_list(&self.0), |sizes, buf| {
        write_list(&self.0, sizes, buf);
    }),
    len: Sizes::default().of_list(&self.0),
}

/// A value within another: nobody shares it.
#[derive(Debug, Default)]
struct Node(Value);

message! {
    Node, |self, tag, wire_type, buf, ctx|
    read: read(&mut self.0, tag, wire_type, buf, ctx),
    write: measured(buf, |sizes| sizes.of(&self.0), |sizes, buf| write(&self.0, sizes, buf)),
    len: Sizes::default().of(&self.0),
}

/// Reads one field of a value; the last that is set counts, and two objects or two lists become one.
fn read(
    into: &mut Value,
    tag: u32,
    wire_type: WireType,
    buf: &mut impl Buf,
    ctx: DecodeContext,
) -> Result<(), DecodeError> {
    *into = match tag {
        kind::NULL => {
            encoding::int32::merge(wire_type, &mut 0, buf, ctx)?;
            Value::Null
        }
        kind::NUMBER => {
            let mut value = 0.0;
            double::merge(wire_type, &mut value, buf, ctx)?;
            number(value)
        }
        kind::STRING => {
            let mut text = String::new();
            encoding::string::merge(wire_type, &mut text, buf, ctx)?;
            Value::String(text)
        }
        kind::BOOL => {
            let mut yes = false;
            encoding::bool::merge(wire_type, &mut yes, buf, ctx)?;
            Value::Bool(yes)
        }
        kind::STRUCT => {
            let mut fields = Fields(into.as_object_mut().map(std::mem::take).unwrap_or_default());
            message::merge(wire_type, &mut fields, buf, ctx)?;
            Value::Object(fields.0)
        }
        kind::LIST => {
            let mut list = List(into.as_array_mut().map(std::mem::take).unwrap_or_default());
            message::merge(wire_type, &mut list, buf, ctx)?;
            Value::Array(list.0)
        }
        _ => return encoding::skip_field(wire_type, tag, buf, ctx),
    };
    Ok(())
}

/// A double that is a whole number is read as one: the wire knows no integers, schemas do.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and exact")]
fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() <= EXACT_MAX {
        return Value::from(value as i64);
    }
    Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// A whole number that a double cannot hold, by its digits: a person is shown exactly what will be sent
/// (K3), and a text says it where the wire's number would say another.
fn beyond(number: &Number) -> Option<String> {
    let is_beyond = match (number.as_i64(), number.as_u64()) {
        (Some(whole), _) => whole.unsigned_abs() > WHOLE_MAX,
        (None, Some(whole)) => whole > WHOLE_MAX,
        (None, None) => false,
    };
    is_beyond.then(|| number.to_string())
}

fn double_of(number: &Number) -> f64 {
    number.as_f64().unwrap_or(f64::NAN)
}

/// Writes a value whose parts were measured before, in the order in which they are come to.
fn write(value: &Value, sizes: &mut Sizes, buf: &mut impl BufMut) {
    match value {
        Value::Null => encoding::int32::encode(kind::NULL, &0, buf),
        Value::Number(number) => match beyond(number) {
            Some(digits) => encoding::string::encode(kind::STRING, &digits, buf),
            None => double::encode(kind::NUMBER, &double_of(number), buf),
        },
        Value::String(text) => encoding::string::encode(kind::STRING, text, buf),
        Value::Bool(yes) => encoding::bool::encode(kind::BOOL, yes, buf),
        Value::Object(fields) => {
            open(kind::STRUCT, sizes.next(), buf);
            write_fields(fields, sizes, buf);
        }
        Value::Array(items) => {
            open(kind::LIST, sizes.next(), buf);
            write_list(items, sizes, buf);
        }
    }
}

fn write_fields(fields: &Map<String, Value>, sizes: &mut Sizes, buf: &mut impl BufMut) {
    for (name, value) in fields {
        open(MEMBERS, sizes.next(), buf);
        write_member(name, value, sizes, buf);
    }
}

fn write_member(name: &String, value: &Value, sizes: &mut Sizes, buf: &mut impl BufMut) {
    encoding::string::encode(NAME, name, buf);
    open(VALUE, sizes.next(), buf);
    write(value, sizes, buf);
}

fn write_list(items: &[Value], sizes: &mut Sizes, buf: &mut impl BufMut) {
    for item in items {
        open(MEMBERS, sizes.next(), buf);
        write(item, sizes, buf);
    }
}

/// What stands before a message within another.
fn open(tag: u32, length: usize, buf: &mut impl BufMut) {
    encode_key(tag, WireType::LengthDelimited, buf);
    encode_varint(length as u64, buf);
}

/// The lengths of the messages within a value, in the order in which they are written. The wire has each
/// before its message: measured whenever it is come to, the inmost would be measured once for every message
/// around it.
#[derive(Debug, Default)]
struct Sizes {
    all: Vec<usize>,
    written: usize,
}

impl Sizes {
    /// Measures a message within another, and keeps a place for it before those within it.
    fn within(&mut self, tag: u32, measure: impl FnOnce(&mut Self) -> usize) -> usize {
        let place = self.all.len();
        self.all.push(0);
        let length = measure(self);
        self.all[place] = length;
        key_len(tag) + encoded_len_varint(length as u64) + length
    }

    fn next(&mut self) -> usize {
        self.written += 1;
        self.all[self.written - 1]
    }

    fn of(&mut self, value: &Value) -> usize {
        match value {
            Value::Null => encoding::int32::encoded_len(kind::NULL, &0),
            Value::Number(number) => match beyond(number) {
                Some(digits) => encoding::string::encoded_len(kind::STRING, &digits),
                None => double::encoded_len(kind::NUMBER, &double_of(number)),
            },
            Value::String(text) => encoding::string::encoded_len(kind::STRING, text),
            Value::Bool(yes) => encoding::bool::encoded_len(kind::BOOL, yes),
            Value::Object(fields) => self.within(kind::STRUCT, |sizes| sizes.of_fields(fields)),
            Value::Array(items) => self.within(kind::LIST, |sizes| sizes.of_list(items)),
        }
    }

    fn of_fields(&mut self, fields: &Map<String, Value>) -> usize {
        let mut sum = 0;
        for (name, value) in fields {
            sum += self.within(MEMBERS, |sizes| sizes.of_member(name, value));
        }
        sum
    }

    fn of_member(&mut self, name: &String, value: &Value) -> usize {
        encoding::string::encoded_len(NAME, name) + self.within(VALUE, |sizes| sizes.of(value))
    }

    fn of_list(&mut self, items: &[Value]) -> usize {
        items.iter().map(|item| self.within(MEMBERS, |sizes| sizes.of(item))).sum()
    }
}

/// Writes what is measured first.
fn measured<B: BufMut>(
    buf: &mut B,
    measure: impl FnOnce(&mut Sizes) -> usize,
    write: impl FnOnce(&mut Sizes, &mut B),
) {
    let mut sizes = Sizes::default();
    measure(&mut sizes);
    write(&mut sizes, buf);
}

#[cfg(test)]
#[path = "json_tests.rs"]
mod tests;
