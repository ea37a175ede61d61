//! Expression: the small language in which a workflow file asks about values: conditions,
//! arguments, prompts.
//!
//! Pure and bounded: no loops, no functions of one's own, no way to change anything. What can be
//! known when a file is loaded is checked then (`check`); what cannot is an error when it is
//! evaluated, and never quietly false (K7).

mod check;
mod eval;
mod form;
mod functions;
mod parse;
mod token;
mod types;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use serde_json::Value;

pub use eval::Scope;
pub use form::{Form, Template};
pub use types::{Known, Type};

use parse::Node;

/// An expression's length: it is a condition that a person reads, not a program.
pub const TEXT_BYTES_MAX: usize = 4_096;
/// How deep an expression nests; parsing and evaluating recurse.
pub const DEPTH_MAX: usize = 32;

/// What is wrong with an expression, and where.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Wrong {
    /// The character it is about, counted from 0.
    pub at: usize,
    /// Stable, for programs: `expression.syntax`, `variable.unknown` …
    pub code: &'static str,
    /// For people.
    pub message: String,
}

impl Wrong {
    fn new(at: usize, code: &'static str, message: impl Into<String>) -> Self {
        Self { at, code, message: message.into() }
    }
}

/// An expression, parsed. Stored as the text that it was written as.
#[derive(Clone)]
pub struct Expression {
    text: String,
    root: Node,
}

impl Expression {
    /// Parses a text.
    pub fn parse(text: &str) -> Result<Self, Wrong> {
        Ok(Self { text: text.to_owned(), root: parse::parse(text)? })
    }

    /// The text that it was written as.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Its value, where these variables hold.
    pub fn eval(&self, scope: &dyn Scope) -> Result<Value, Wrong> {
        eval::eval(&self.root, scope).map(std::borrow::Cow::into_owned)
    }

    /// Whether it holds. Anything but a truth value is an error.
    pub fn holds(&self, scope: &dyn Scope) -> Result<bool, Wrong> {
        let value = eval::eval(&self.root, scope)?;
        value.as_bool().ok_or_else(|| {
            let what = types::word_of(&value);
            Wrong::new(0, "expression.type", format!("a condition is true or false, not {what}"))
        })
    }

    /// Its type, or the first thing that cannot be right whatever the values are.
    pub fn check(&self, known: &Known) -> Result<Type, Wrong> {
        check::check(&self.root, known)
    }

    /// The same, for a condition.
    pub fn check_condition(&self, known: &Known) -> Result<(), Wrong> {
        match self.check(known)? {
            Type::Bool | Type::Any => Ok(()),
            other @ (Type::Null
            | Type::Number
            | Type::Text
            | Type::List(_)
            | Type::Object { .. }) => {
                let message = format!("a condition is true or false; this is {}", other.word());
                Err(Wrong::new(0, "expression.type", message))
            }
        }
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Expression {}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.text)
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
