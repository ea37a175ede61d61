//! Forms: texts and values with `${…}` in them, which expressions fill in.
//!
//! A text that is nothing but one `${…}` is that value; any other is a text, with values as a
//! person would read them. `$${` is a plain `${`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

use crate::kernel::expression::{Expression, Known, Scope, Type, Wrong};
use crate::kernel::message::readable;

/// What a form may come to: a prompt or an argument, not a document.
const FILLED_BYTES_MAX: usize = 1 << 20;

/// A text with `${…}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    /// An expression, and the character of the text that it begins at.
    Value(usize, Expression),
}

impl Template {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        let mut parts = Vec::new();
        let mut plain = String::new();
        let chars: Vec<char> = text.chars().collect();
        let mut at = 0;
        while let Some(&next) = chars.get(at) {
            let begins = |at: usize| chars.get(at..at + 2) == Some(&['$', '{']);
            if next == '$' && begins(at + 1) {
                plain.push_str("${");
                at += 3;
            } else if begins(at) {
                let begin = at + 2;
                let end = end_of(&chars, begin).ok_or_else(|| {
                    Wrong::new(at, "expression.syntax", "`${` begins here and does not end")
                })?;
                let inner: String = chars.get(begin..end).unwrap_or_default().iter().collect();
                let moved = |wrong: Wrong| Wrong { at: wrong.at + begin, ..wrong };
                let expression = Expression::parse(&inner).map_err(moved)?;
                if !plain.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut plain)));
                }
                parts.push(Part::Value(begin, expression));
                at = end + 1;
            } else {
                plain.push(next);
                at += 1;
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Self { text: text.to_owned(), parts })
    }

    /// The text that it was written as.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text that it comes to.
    pub fn fill(&self, scope: &dyn Scope) -> Result<String, Wrong> {
        let mut filled = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => filled.push_str(text),
                Part::Value(at, expression) => {
                    let moved = |wrong: Wrong| Wrong { at: wrong.at + at, ..wrong };
                    filled.push_str(&readable(&expression.eval(scope).map_err(moved)?));
                }
            }
            if filled.len() > FILLED_BYTES_MAX {
                let message = format!("it comes to more than {FILLED_BYTES_MAX} bytes");
                return Err(Wrong::new(0, "expression.too_large", message));
            }
        }
        Ok(filled)
    }

    /// The value that it comes to: that of its one expression, if there is nothing else.
    pub fn value(&self, scope: &dyn Scope) -> Result<Value, Wrong> {
        match self.parts.as_slice() {
            [Part::Value(at, expression)] => {
                expression.eval(scope).map_err(|wrong| Wrong { at: wrong.at + at, ..wrong })
            }
            [] | [Part::Text(_)] | [_, _, ..] => self.fill(scope).map(Value::String),
        }
    }

    /// Its type, or the first thing that cannot be right.
    pub fn check(&self, known: &Known) -> Result<Type, Wrong> {
        let mut only = Type::Text;
        for part in &self.parts {
            if let Part::Value(at, expression) = part {
                let moved = |wrong: Wrong| Wrong { at: wrong.at + at, ..wrong };
                let found = expression.check(known).map_err(moved)?;
                if self.parts.len() == 1 {
                    only = found;
                }
            }
        }
        Ok(only)
    }
}

/// Where the brace is that ends an expression; braces in quotes end nothing.
fn end_of(chars: &[char], begin: usize) -> Option<usize> {
    let mut quote = None;
    let mut at = begin;
    while let Some(&next) = chars.get(at) {
        match (quote, next) {
            (None, '}') => return Some(at),
            (None, '"' | '\'') => quote = Some(next),
            (Some(_), '\\') => at += 1,
            (Some(open), _) if open == next => quote = None,
            (None | Some(_), _) => {}
        }
        at += 1;
    }
    None
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

/// A JSON value whose texts are templates.
#[derive(Debug, Clone, PartialEq)]
pub struct Form {
    source: Value,
    shape: Shape,
}

#[derive(Debug, Clone, PartialEq)]
enum Shape {
    Plain(Value),
    Text(Template),
    List(Vec<Shape>),
    Map(Vec<(String, Shape)>),
}

impl Default for Form {
    fn default() -> Self {
        Self { source: Value::Null, shape: Shape::Plain(Value::Null) }
    }
}

impl Form {
    /// Parses every text of a value; a wrong one is told with its JSON pointer.
    pub fn parse(source: &Value) -> Result<Self, (String, Wrong)> {
        Ok(Self { source: source.clone(), shape: shape(source, "")? })
    }

    /// Whether it is nothing at all.
    pub fn is_nothing(&self) -> bool {
        self.source.is_null()
    }

    /// The value that it comes to.
    pub fn fill(&self, scope: &dyn Scope) -> Result<Value, Wrong> {
        let value = fill(&self.shape, scope)?;
        if readable(&value).len() > FILLED_BYTES_MAX {
            let message = format!("it comes to more than {FILLED_BYTES_MAX} bytes");
            return Err(Wrong::new(0, "expression.too_large", message));
        }
        Ok(value)
    }

    /// Its type, or the first thing that cannot be right, with its JSON pointer.
    pub fn check(&self, known: &Known) -> Result<Type, (String, Wrong)> {
        check(&self.shape, "", known)
    }
}

fn shape(value: &Value, pointer: &str) -> Result<Shape, (String, Wrong)> {
    Ok(match value {
        Value::String(text) => {
            Shape::Text(Template::parse(text).map_err(|wrong| (pointer.to_owned(), wrong))?)
        }
        Value::Array(items) => {
            let each = |(index, item)| shape(item, &format!("{pointer}/{index}"));
            Shape::List(items.iter().enumerate().map(each).collect::<Result<_, _>>()?)
        }
        Value::Object(map) => {
            let each = |(name, item): (&String, &Value)| {
                Ok((name.clone(), shape(item, &format!("{pointer}/{name}"))?))
            };
            Shape::Map(map.iter().map(each).collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => Shape::Plain(value.clone()),
    })
}

fn fill(shape: &Shape, scope: &dyn Scope) -> Result<Value, Wrong> {
    Ok(match shape {
        Shape::Plain(value) => value.clone(),
        Shape::Text(template) => template.value(scope)?,
        Shape::List(items) => {
            Value::Array(items.iter().map(|item| fill(item, scope)).collect::<Result<_, _>>()?)
        }
        Shape::Map(fields) => {
            let each = |(name, item): &(String, Shape)| Ok((name.clone(), fill(item, scope)?));
            Value::Object(fields.iter().map(each).collect::<Result<_, Wrong>>()?)
        }
    })
}

fn check(shape: &Shape, pointer: &str, known: &Known) -> Result<Type, (String, Wrong)> {
    Ok(match shape {
        Shape::Plain(value) => Type::of(value),
        Shape::Text(template) => {
            template.check(known).map_err(|wrong| (pointer.to_owned(), wrong))?
        }
        Shape::List(items) => {
            let mut one: Option<Type> = None;
            for (index, item) in items.iter().enumerate() {
                let next = check(item, &format!("{pointer}/{index}"), known)?;
                one = Some(one.map_or_else(|| next.clone(), |before| before.or(&next)));
            }
            Type::List(Box::new(one.unwrap_or(Type::Any)))
        }
        Shape::Map(fields) => {
            let each = |(name, item): &(String, Shape)| {
                Ok((name.clone(), check(item, &format!("{pointer}/{name}"), known)?))
            };
            Type::object(fields.iter().map(each).collect::<Result<Vec<_>, _>>()?)
        }
    })
}

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = Value::deserialize(deserializer)?;
        Self::parse(&source).map_err(|(at, wrong)| de::Error::custom(format!("at `{at}`: {wrong}")))
    }
}
