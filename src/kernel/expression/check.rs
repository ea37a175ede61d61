//! Check: what cannot be right whatever the values are, found when a file is loaded.

use serde_json::Value;

use crate::kernel::expression::Wrong;
use crate::kernel::expression::functions::Function;
use crate::kernel::expression::parse::{Node, Operator, What};
use crate::kernel::expression::types::{Known, Type};

/// The type of an expression, or the first thing that cannot be right.
pub(super) fn check(node: &Node, known: &Known) -> Result<Type, Wrong> {
    let at = node.at;
    match &node.what {
        What::Literal(value) => Ok(Type::of(value)),
        What::Variable(name) => variable(name, at, known),
        What::Step(id) => step(id, at, known),
        What::Field(inner, name) => field(&check(inner, known)?, name, at),
        What::Index(inner, index) => {
            let (inner, by) = (check(inner, known)?, check(index, known)?);
            match (&inner, &by, &index.what) {
                (_, _, What::Literal(Value::String(name))) => field(&inner, name, at),
                (Type::List(item), Type::Number | Type::Any, _) => Ok((**item).clone()),
                (Type::Any | Type::Object { .. }, _, _) => Ok(Type::Any),
                (Type::List(_) | Type::Null | Type::Bool | Type::Number | Type::Text, _, _) => {
                    let message = format!("{} has no place by {}", inner.word(), by.word());
                    Err(Wrong::new(at, "expression.type", message))
                }
            }
        }
        What::List(items) => {
            let mut one: Option<Type> = None;
            for item in items {
                let next = check(item, known)?;
                one = Some(one.map_or_else(|| next.clone(), |before| before.or(&next)));
            }
            Ok(Type::List(Box::new(one.unwrap_or(Type::Any))))
        }
        What::Not(inner) => {
            expect(&[Type::Bool], inner, known)?;
            Ok(Type::Bool)
        }
        What::Negative(inner) => {
            expect(&[Type::Number], inner, known)?;
            Ok(Type::Number)
        }
        What::Binary(operator, left, right) => binary(*operator, left, right, at, known),
        What::Choice(condition, this, that) => {
            expect(&[Type::Bool], condition, known)?;
            Ok(check(this, known)?.or(&check(that, known)?))
        }
        What::Call(function, arguments) => call(*function, arguments, known),
    }
}

fn variable(name: &str, at: usize, known: &Known) -> Result<Type, Wrong> {
    if let Some(found) = known.variables.get(name) {
        return Ok(found.clone());
    }
    if known.steps.contains_key(name) {
        let message = format!("nothing is called `{name}`; the step is `steps.{name}`");
        return Err(Wrong::new(at, "variable.unknown", message));
    }
    let names: Vec<_> = known.variables.keys().map(String::as_str).collect();
    let names = names.join(", ");
    let message = format!("nothing is called `{name}` here; there is {names} and steps.<id>");
    Err(Wrong::new(at, "variable.unknown", message))
}

fn step(id: &str, at: usize, known: &Known) -> Result<Type, Wrong> {
    if let Some(found) = known.steps.get(id) {
        return Ok(found.clone());
    }
    let message = if known.elsewhere.iter().any(|one| one == id) {
        format!("step `{id}` has come to nothing here: it is later, or in another branch")
    } else {
        let ids: Vec<_> = known.steps.keys().map(String::as_str).collect();
        let ids = if ids.is_empty() { "none yet".to_owned() } else { ids.join(", ") };
        format!("there is no step `{id}`; here there is: {ids}")
    };
    Err(Wrong::new(at, "variable.unknown", message))
}

fn field(of: &Type, name: &str, at: usize) -> Result<Type, Wrong> {
    match of {
        Type::Any => Ok(Type::Any),
        Type::Object { fields, open } => match (fields.get(name), open) {
            (Some(found), _) => Ok(found.clone()),
            (None, true) => Ok(Type::Any),
            (None, false) => {
                let names: Vec<_> = fields.keys().map(String::as_str).collect();
                let message = format!("there is no `{name}` in it; there is: {}", names.join(", "));
                Err(Wrong::new(at, "field.unknown", message))
            }
        },
        Type::Null | Type::Bool | Type::Number | Type::Text | Type::List(_) => {
            let message = format!("{} has no field `{name}`", of.word());
            Err(Wrong::new(at, "expression.type", message))
        }
    }
}

/// An inner expression that must be of one of these types, as far as is known.
fn expect(wanted: &[Type], node: &Node, known: &Known) -> Result<Type, Wrong> {
    let found = check(node, known)?;
    let fits = |one: &Type| std::mem::discriminant(one) == std::mem::discriminant(&found);
    if found == Type::Any || wanted.iter().any(fits) {
        return Ok(found);
    }
    let words: Vec<_> = wanted.iter().map(Type::word).collect();
    let message = format!("expected {} here, not {}", words.join(" or "), found.word());
    Err(Wrong::new(node.at, "expression.type", message))
}

fn binary(
    operator: Operator,
    left: &Node,
    right: &Node,
    at: usize,
    known: &Known,
) -> Result<Type, Wrong> {
    match operator {
        Operator::Else => {
            let (one, other) = (check(left, known)?, check(right, known)?);
            Ok(if one == Type::Null { other } else { one.or(&other) })
        }
        Operator::Or | Operator::And => {
            expect(&[Type::Bool], left, known)?;
            expect(&[Type::Bool], right, known)?;
            Ok(Type::Bool)
        }
        Operator::Equal | Operator::Unequal => {
            let (one, other) = (check(left, known)?, check(right, known)?);
            comparable(&one, &other, at)?;
            Ok(Type::Bool)
        }
        Operator::Less | Operator::LessOrEqual | Operator::Greater | Operator::GreaterOrEqual => {
            let one = expect(&[Type::Number, Type::Text], left, known)?;
            let other = expect(&[Type::Number, Type::Text], right, known)?;
            comparable(&one, &other, at)?;
            Ok(Type::Bool)
        }
        Operator::In => {
            check(left, known)?;
            let any = Box::new(Type::Any);
            expect(&[Type::Text, Type::List(any), Type::any_object()], right, known)?;
            Ok(Type::Bool)
        }
        Operator::Plus => {
            let one = expect(&[Type::Number, Type::Text], left, known)?;
            let other = expect(&[Type::Number, Type::Text], right, known)?;
            comparable(&one, &other, at)?;
            Ok(if one == Type::Any { other } else { one })
        }
        Operator::Minus | Operator::Times | Operator::Divide | Operator::Remainder => {
            expect(&[Type::Number], left, known)?;
            expect(&[Type::Number], right, known)?;
            let divides = matches!(operator, Operator::Divide | Operator::Remainder);
            let is_zero =
                matches!(&right.what, What::Literal(value) if value.as_f64() == Some(0.0));
            if divides && is_zero {
                let message = "nothing can be divided by zero";
                return Err(Wrong::new(right.at, "expression.zero", message));
            }
            Ok(Type::Number)
        }
    }
}

/// Apples are compared with apples; nothing can be compared with anything.
fn comparable(one: &Type, other: &Type, at: usize) -> Result<(), Wrong> {
    let loose = |one: &Type| matches!(one, Type::Any | Type::Null);
    let alike = std::mem::discriminant(one) == std::mem::discriminant(other);
    if alike || loose(one) || loose(other) {
        return Ok(());
    }
    let message = format!("{} is never comparable with {}", one.word(), other.word());
    Err(Wrong::new(at, "expression.type", message))
}

fn call(function: Function, arguments: &[Node], known: &Known) -> Result<Type, Wrong> {
    let list = || Type::List(Box::new(Type::Any));
    let wanted: Vec<Vec<Type>> = match function {
        Function::Size => vec![vec![Type::Text, list(), Type::any_object()]],
        Function::Lower | Function::Trim => vec![vec![Type::Text]],
        Function::Text => vec![vec![]],
        Function::Number => vec![vec![Type::Text, Type::Number]],
        Function::Contains => vec![vec![Type::Text, list(), Type::any_object()], vec![]],
        Function::First | Function::Last => vec![vec![list()]],
        Function::Find | Function::Where => vec![vec![list()], vec![Type::Text], vec![]],
        Function::Pluck | Function::Join => vec![vec![list()], vec![Type::Text]],
    };
    let mut first = Type::Any;
    for (index, (node, wanted)) in arguments.iter().zip(&wanted).enumerate() {
        let found =
            if wanted.is_empty() { check(node, known)? } else { expect(wanted, node, known)? };
        if index == 0 {
            first = found;
        }
    }
    let item = match &first {
        Type::List(item) => (**item).clone(),
        Type::Any | Type::Null | Type::Bool | Type::Number | Type::Text | Type::Object { .. } => {
            Type::Any
        }
    };
    Ok(match function {
        Function::Size | Function::Number => Type::Number,
        Function::Lower | Function::Trim | Function::Text | Function::Join => Type::Text,
        Function::Contains => Type::Bool,
        Function::First | Function::Last | Function::Find => item,
        Function::Where => Type::List(Box::new(item)),
        Function::Pluck => Type::List(Box::new(Type::Any)),
    })
}
