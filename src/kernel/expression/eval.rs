//! Eval: what an expression comes to. Whatever does not fit is an error, never quietly false.

use std::borrow::Cow;
use std::cmp::Ordering;

use serde_json::{Number, Value};

use crate::kernel::expression::Wrong;
use crate::kernel::expression::functions::contains;
use crate::kernel::expression::parse::{Node, Operator, What};
use crate::kernel::expression::types::word_of;

/// Texts that are made in an expression are part of a conversation or a call.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Where variables have their values.
pub trait Scope {
    /// A variable's value.
    fn variable(&self, name: &str) -> Option<&Value>;
    /// What a step came to.
    fn step(&self, id: &str) -> Option<&Value>;
}

/// What an expression comes to.
pub(super) fn eval<'a>(node: &'a Node, scope: &'a dyn Scope) -> Result<Cow<'a, Value>, Wrong> {
    let at = node.at;
    match &node.what {
        What::Literal(value) => Ok(Cow::Borrowed(value)),
        What::Variable(name) => scope.variable(name).map(Cow::Borrowed).ok_or_else(|| {
            Wrong::new(at, "variable.unknown", format!("nothing is called `{name}` here"))
        }),
        What::Step(id) => scope.step(id).map(Cow::Borrowed).ok_or_else(|| {
            Wrong::new(at, "variable.unknown", format!("step `{id}` has come to nothing yet"))
        }),
        What::Field(inner, name) => field(eval(inner, scope)?, name, at),
        What::Index(inner, index) => {
            let (inner, index) = (eval(inner, scope)?, eval(index, scope)?);
            match index.as_ref() {
                Value::String(name) => field(inner, name, at),
                other @ (Value::Null
                | Value::Bool(_)
                | Value::Number(_)
                | Value::Array(_)
                | Value::Object(_)) => item(inner, other, at),
            }
        }
        What::List(items) => {
            let items: Result<Vec<_>, _> =
                items.iter().map(|one| eval(one, scope).map(Cow::into_owned)).collect();
            Ok(Cow::Owned(Value::Array(items?)))
        }
        What::Not(inner) => {
            let value = truth(inner, scope)?;
            Ok(Cow::Owned(Value::Bool(!value)))
        }
        What::Negative(inner) => {
            let value = eval(inner, scope)?;
            arithmetic(Operator::Minus, &Value::from(0), &value, at).map(Cow::Owned)
        }
        What::Binary(operator, left, right) => binary(*operator, left, right, at, scope),
        What::Choice(condition, this, that) => {
            if truth(condition, scope)? {
                eval(this, scope)
            } else {
                eval(that, scope)
            }
        }
        What::Call(function, arguments) => {
            let values: Result<Vec<_>, _> = arguments.iter().map(|one| eval(one, scope)).collect();
            function.call(&values?, at)
        }
    }
}

fn truth(node: &Node, scope: &dyn Scope) -> Result<bool, Wrong> {
    let value = eval(node, scope)?;
    value.as_bool().ok_or_else(|| {
        let message = format!("expected true or false here, not {}", word_of(&value));
        Wrong::new(node.at, "expression.type", message)
    })
}

fn binary<'a>(
    operator: Operator,
    left: &'a Node,
    right: &'a Node,
    at: usize,
    scope: &'a dyn Scope,
) -> Result<Cow<'a, Value>, Wrong> {
    match operator {
        Operator::Else => match eval(left, scope) {
            Ok(value) if !value.is_null() => Ok(value),
            Err(wrong) if wrong.code != "value.missing" => Err(wrong),
            Ok(_) | Err(_) => eval(right, scope),
        },
        Operator::Or => {
            let holds = truth(left, scope)? || truth(right, scope)?;
            Ok(Cow::Owned(Value::Bool(holds)))
        }
        Operator::And => {
            let holds = truth(left, scope)? && truth(right, scope)?;
            Ok(Cow::Owned(Value::Bool(holds)))
        }
        Operator::Equal
        | Operator::Unequal
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::In => {
            let (left, right) = (eval(left, scope)?, eval(right, scope)?);
            compare(operator, &left, &right, at).map(|holds| Cow::Owned(Value::Bool(holds)))
        }
        Operator::Plus
        | Operator::Minus
        | Operator::Times
        | Operator::Divide
        | Operator::Remainder => {
            let (left, right) = (eval(left, scope)?, eval(right, scope)?);
            arithmetic(operator, &left, &right, at).map(Cow::Owned)
        }
    }
}

fn field<'a>(value: Cow<'a, Value>, name: &str, at: usize) -> Result<Cow<'a, Value>, Wrong> {
    let missing = |what: String| Wrong::new(at, "value.missing", what);
    let found = match value {
        Cow::Borrowed(Value::Object(map)) => map.get(name).map(Cow::Borrowed),
        Cow::Owned(Value::Object(mut map)) => map.swap_remove(name).map(Cow::Owned),
        other @ (Cow::Borrowed(_) | Cow::Owned(_)) => {
            return Err(missing(format!("`.{name}` is asked of {}", word_of(&other))));
        }
    };
    found.ok_or_else(|| missing(format!("there is no `{name}` in it")))
}

fn item<'a>(value: Cow<'a, Value>, index: &Value, at: usize) -> Result<Cow<'a, Value>, Wrong> {
    let missing = |what: String| Wrong::new(at, "value.missing", what);
    let place = index.as_u64().and_then(|place| usize::try_from(place).ok());
    let Some(place) = place else {
        return Err(missing(format!("`{index}` is no place in a list")));
    };
    let found = match value {
        Cow::Borrowed(Value::Array(items)) => items.get(place).map(Cow::Borrowed),
        Cow::Owned(Value::Array(mut items)) => {
            (place < items.len()).then(|| Cow::Owned(items.swap_remove(place)))
        }
        other @ (Cow::Borrowed(_) | Cow::Owned(_)) => {
            return Err(missing(format!("`[{place}]` is asked of {}", word_of(&other))));
        }
    };
    found.ok_or_else(|| missing(format!("the list has no place {place}; they count from 0")))
}

fn compare(operator: Operator, left: &Value, right: &Value, at: usize) -> Result<bool, Wrong> {
    let apples = || {
        let message = format!("{} cannot be compared with {}", word_of(left), word_of(right));
        Wrong::new(at, "expression.type", message)
    };
    if operator == Operator::In {
        return contains(right, left).ok_or_else(apples);
    }
    let order = match (left, right) {
        (Value::Number(one), Value::Number(other)) => order(one, other),
        (Value::String(one), Value::String(other)) => Some(one.cmp(other)),
        (
            Value::Null
            | Value::Bool(_)
            | Value::Number(_)
            | Value::String(_)
            | Value::Array(_)
            | Value::Object(_),
            _,
        ) => {
            let is_equality = matches!(operator, Operator::Equal | Operator::Unequal);
            let alike = std::mem::discriminant(left) == std::mem::discriminant(right)
                || left.is_null()
                || right.is_null();
            if !is_equality || !alike {
                return Err(apples());
            }
            Some(if left == right { Ordering::Equal } else { Ordering::Less })
        }
    };
    let order = order.ok_or_else(apples)?;
    Ok(match operator {
        Operator::Equal => order == Ordering::Equal,
        Operator::Unequal => order != Ordering::Equal,
        Operator::Less => order == Ordering::Less,
        Operator::LessOrEqual => order != Ordering::Greater,
        Operator::Greater => order == Ordering::Greater,
        Operator::GreaterOrEqual => order != Ordering::Less,
        Operator::Else
        | Operator::Or
        | Operator::And
        | Operator::In
        | Operator::Plus
        | Operator::Minus
        | Operator::Times
        | Operator::Divide
        | Operator::Remainder => return Err(apples()),
    })
}

fn order(one: &Number, other: &Number) -> Option<Ordering> {
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (Some(_) | None, _) => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

fn arithmetic(operator: Operator, left: &Value, right: &Value, at: usize) -> Result<Value, Wrong> {
    let wrong = |code, message: &str| Err(Wrong::new(at, code, message));
    if let (Operator::Plus, Value::String(one), Value::String(other)) = (operator, left, right) {
        if one.len() + other.len() > TEXT_BYTES_MAX {
            return wrong("expression.too_large", "the text that this makes is too long");
        }
        return Ok(Value::String(format!("{one}{other}")));
    }
    let (Some(one), Some(other)) = (left.as_f64(), right.as_f64()) else {
        let message = format!("{} and {} cannot be reckoned with", word_of(left), word_of(right));
        return wrong("expression.type", &message);
    };
    let divides = matches!(operator, Operator::Divide | Operator::Remainder);
    if divides && other == 0.0 {
        return wrong("expression.zero", "nothing can be divided by zero");
    }
    if let (Some(one), Some(other)) = (left.as_i64(), right.as_i64())
        && let Some(whole) = whole(operator, one, other)
    {
        return Ok(whole.into());
    }
    let number = match operator {
        Operator::Plus => one + other,
        Operator::Minus => one - other,
        Operator::Times => one * other,
        Operator::Divide => one / other,
        Operator::Remainder => one % other,
        Operator::Else
        | Operator::Or
        | Operator::And
        | Operator::Equal
        | Operator::Unequal
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::In => return wrong("expression.type", "this is no reckoning"),
    };
    let number = Number::from_f64(number).map(Value::Number);
    number.map_or_else(|| wrong("expression.type", "the number is too large to be kept"), Ok)
}

/// In whole numbers, where it comes out even.
fn whole(operator: Operator, one: i64, other: i64) -> Option<i64> {
    match operator {
        Operator::Plus => one.checked_add(other),
        Operator::Minus => one.checked_sub(other),
        Operator::Times => one.checked_mul(other),
        Operator::Divide => (one.checked_rem(other)? == 0).then(|| one.checked_div(other))?,
        Operator::Remainder => one.checked_rem(other),
        Operator::Else
        | Operator::Or
        | Operator::And
        | Operator::Equal
        | Operator::Unequal
        | Operator::Less
        | Operator::LessOrEqual
        | Operator::Greater
        | Operator::GreaterOrEqual
        | Operator::In => None,
    }
}
