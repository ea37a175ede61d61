//! Functions: the few there are. None of them can run long, touch anything or fail quietly.

use std::borrow::Cow;

use serde_json::Value;

use crate::kernel::expression::Wrong;
use crate::kernel::expression::types::word_of;
use crate::kernel::message::readable;

/// A function of the language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Size,
    Lower,
    Trim,
    Text,
    Number,
    Contains,
    First,
    Last,
    /// The first of a list whose field has that value; nothing, if there is none.
    Find,
    /// All of a list whose field has that value.
    Where,
    /// That field of each of a list.
    Pluck,
    Join,
}

const NAMES: [(&str, Function, usize); 12] = [
    ("size", Function::Size, 1),
    ("lower", Function::Lower, 1),
    ("trim", Function::Trim, 1),
    ("text", Function::Text, 1),
    ("number", Function::Number, 1),
    ("contains", Function::Contains, 2),
    ("first", Function::First, 1),
    ("last", Function::Last, 1),
    ("find", Function::Find, 3),
    ("where", Function::Where, 3),
    ("pluck", Function::Pluck, 2),
    ("join", Function::Join, 2),
];

impl Function {
    pub(super) fn of(name: &str) -> Option<Self> {
        NAMES.iter().find(|(known, ..)| *known == name).map(|(_, function, _)| *function)
    }

    pub(super) fn names() -> Vec<&'static str> {
        NAMES.iter().map(|(name, ..)| *name).collect()
    }

    pub(super) fn arguments(self) -> usize {
        NAMES.iter().find(|(_, one, _)| *one == self).map_or(0, |(_, _, count)| *count)
    }

    pub(super) fn name(self) -> &'static str {
        NAMES.iter().find(|(_, one, _)| *one == self).map_or("", |(name, ..)| *name)
    }

    /// Its value.
    pub(super) fn call<'a>(
        self,
        arguments: &[Cow<'a, Value>],
        at: usize,
    ) -> Result<Cow<'a, Value>, Wrong> {
        let of = |index: usize| arguments.get(index).map_or(&Value::Null, AsRef::as_ref);
        let wrong = |wanted: &str| {
            let message = format!("`{}` takes {wanted}, not {}", self.name(), word_of(of(0)));
            Wrong::new(at, "expression.type", message)
        };
        let text = |index: usize| of(index).as_str().ok_or_else(|| wrong("a text"));
        let list = || of(0).as_array().ok_or_else(|| wrong("a list"));
        Ok(Cow::Owned(match self {
            Self::Size => size(of(0)).ok_or_else(|| wrong("a text, a list or a map"))?.into(),
            Self::Lower => text(0)?.to_lowercase().into(),
            Self::Trim => text(0)?.trim().into(),
            Self::Text => readable(of(0)).into(),
            Self::Number => number(of(0)).ok_or_else(|| wrong("a number, or a text of one"))?,
            Self::Contains => {
                contains(of(0), of(1)).ok_or_else(|| wrong("a text or a list"))?.into()
            }
            Self::First => list()?.first().cloned().unwrap_or_default(),
            Self::Last => list()?.last().cloned().unwrap_or_default(),
            Self::Find => {
                let (field, wanted) = (text(1)?, of(2));
                let found = list()?.iter().find(|item| item.get(field) == Some(wanted));
                found.cloned().unwrap_or_default()
            }
            Self::Where => {
                let (field, wanted) = (text(1)?, of(2));
                let fits = |item: &&Value| item.get(field) == Some(wanted);
                list()?.iter().filter(fits).cloned().collect()
            }
            Self::Pluck => {
                let field = text(1)?;
                list()?.iter().map(|item| item.get(field).cloned().unwrap_or_default()).collect()
            }
            Self::Join => {
                let items: Vec<String> = list()?.iter().map(readable).collect();
                items.join(text(1)?).into()
            }
        }))
    }
}

fn size(value: &Value) -> Option<usize> {
    match value {
        Value::String(text) => Some(text.chars().count()),
        Value::Array(items) => Some(items.len()),
        Value::Object(map) => Some(map.len()),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

fn number(value: &Value) -> Option<Value> {
    match value {
        Value::Number(_) => Some(value.clone()),
        Value::String(text) => {
            let text = text.trim();
            let whole = text.parse::<i64>().ok().map(Value::from);
            whole.or_else(|| serde_json::Number::from_f64(text.parse().ok()?).map(Value::Number))
        }
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Whether one value is in another: a text in a text, whatever the case of letters; a value in a
/// list; a key in a map.
pub(super) fn contains(whole: &Value, part: &Value) -> Option<bool> {
    match whole {
        Value::String(text) => Some(text.to_lowercase().contains(&part.as_str()?.to_lowercase())),
        Value::Array(items) => Some(items.contains(part)),
        Value::Object(map) => Some(map.contains_key(part.as_str()?)),
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}
