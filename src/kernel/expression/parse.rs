//! Parse: a text becomes a tree, by precedence; nothing is known of variables here.

use serde_json::Value;

use crate::kernel::expression::functions::Function;
use crate::kernel::expression::token::{Token, tokens};
use crate::kernel::expression::{DEPTH_MAX, TEXT_BYTES_MAX, Wrong};

/// A part of an expression, and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) at: usize,
    pub(super) what: What,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum What {
    Literal(Value),
    Variable(String),
    /// `steps.<id>`: what an earlier step came to.
    Step(String),
    Field(Box<Node>, String),
    Index(Box<Node>, Box<Node>),
    List(Vec<Node>),
    Not(Box<Node>),
    Negative(Box<Node>),
    Binary(Operator, Box<Node>, Box<Node>),
    /// `condition ? this : that`
    Choice(Box<Node>, Box<Node>, Box<Node>),
    Call(Function, Vec<Node>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operator {
    Else,
    Or,
    And,
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    In,
    Plus,
    Minus,
    Times,
    Divide,
    Remainder,
}

impl Operator {
    /// The operator of a sign, and how tightly it binds.
    fn of(sign: &str) -> Option<(Self, u8)> {
        Some(match sign {
            "??" => (Self::Else, 1),
            "||" => (Self::Or, 2),
            "&&" => (Self::And, 3),
            "==" => (Self::Equal, 4),
            "!=" => (Self::Unequal, 4),
            "<" => (Self::Less, 4),
            "<=" => (Self::LessOrEqual, 4),
            ">" => (Self::Greater, 4),
            ">=" => (Self::GreaterOrEqual, 4),
            "in" => (Self::In, 4),
            "+" => (Self::Plus, 5),
            "-" => (Self::Minus, 5),
            "*" => (Self::Times, 6),
            "/" => (Self::Divide, 6),
            "%" => (Self::Remainder, 6),
            &_ => return None,
        })
    }
}

/// Parses a whole text.
pub(super) fn parse(text: &str) -> Result<Node, Wrong> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("an expression has at most {TEXT_BYTES_MAX} bytes");
        return Err(Wrong::new(0, "expression.too_large", message));
    }
    let mut parser = Parser { tokens: tokens(text)?, next: 0, depth: 0 };
    let node = parser.expression()?;
    match parser.peek() {
        (_, Token::End) => Ok(node),
        (at, other) => Err(unexpected(at, &other)),
    }
}

struct Parser {
    tokens: Vec<(usize, Token)>,
    next: usize,
    depth: usize,
}

impl Parser {
    fn peek(&self) -> (usize, Token) {
        let end = self.tokens.last().map_or(0, |(at, _)| *at);
        self.tokens.get(self.next).cloned().unwrap_or((end, Token::End))
    }

    fn take(&mut self) -> (usize, Token) {
        let token = self.peek();
        self.next += 1;
        token
    }

    fn takes(&mut self, sign: &'static str) -> bool {
        let is_it = self.peek().1 == Token::Sign(sign);
        self.next += usize::from(is_it);
        is_it
    }

    fn expect(&mut self, sign: &'static str) -> Result<(), Wrong> {
        if self.takes(sign) {
            return Ok(());
        }
        let at = self.peek().0;
        Err(Wrong::new(at, "expression.syntax", format!("expected `{sign}` here")))
    }

    fn deeper<T>(&mut self, of: impl FnOnce(&mut Self) -> Result<T, Wrong>) -> Result<T, Wrong> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let message = format!("an expression nests at most {DEPTH_MAX} deep");
            return Err(Wrong::new(self.peek().0, "expression.too_large", message));
        }
        let outcome = of(self);
        self.depth -= 1;
        outcome
    }

    fn expression(&mut self) -> Result<Node, Wrong> {
        self.deeper(|parser| {
            let condition = parser.binary(1)?;
            if !parser.takes("?") {
                return Ok(condition);
            }
            let this = parser.expression()?;
            parser.expect(":")?;
            let that = parser.expression()?;
            let at = condition.at;
            let what = What::Choice(Box::new(condition), Box::new(this), Box::new(that));
            Ok(Node { at, what })
        })
    }

    fn binary(&mut self, tightest: u8) -> Result<Node, Wrong> {
        let mut left = self.unary()?;
        let mut chained = 0;
        loop {
            let (at, Token::Sign(sign)) = self.peek() else { return Ok(left) };
            let Some((operator, binds)) = Operator::of(sign) else { return Ok(left) };
            if binds < tightest {
                return Ok(left);
            }
            // A long chain is a deep tree.
            chained += 1;
            if chained > DEPTH_MAX * 4 {
                let message = format!("at most {} of these in a row", DEPTH_MAX * 4);
                return Err(Wrong::new(at, "expression.too_large", message));
            }
            self.next += 1;
            let right = self.deeper(|parser| parser.binary(binds + 1))?;
            let what = What::Binary(operator, Box::new(left), Box::new(right));
            left = Node { at, what };
        }
    }

    fn unary(&mut self) -> Result<Node, Wrong> {
        let at = self.peek().0;
        if self.takes("!") {
            let inner = self.deeper(Self::unary)?;
            return Ok(Node { at, what: What::Not(Box::new(inner)) });
        }
        if self.takes("-") {
            let inner = self.deeper(Self::unary)?;
            return Ok(Node { at, what: What::Negative(Box::new(inner)) });
        }
        let first = self.first()?;
        self.postfix(first)
    }

    fn postfix(&mut self, mut node: Node) -> Result<Node, Wrong> {
        let mut links = 0;
        loop {
            let at = self.peek().0;
            links += 1;
            if links > DEPTH_MAX {
                let message = format!("a path has at most {DEPTH_MAX} parts");
                return Err(Wrong::new(at, "expression.too_large", message));
            }
            if self.takes(".") {
                let (at, Token::Name(name)) = self.take() else {
                    return Err(Wrong::new(at, "expression.syntax", "expected a name after `.`"));
                };
                let is_step = node.what == What::Variable("steps".into());
                let what = if is_step { What::Step(name) } else { What::Field(node.into(), name) };
                node = Node { at, what };
            } else if self.takes("[") {
                let index = self.expression()?;
                self.expect("]")?;
                node = Node { at, what: What::Index(Box::new(node), Box::new(index)) };
            } else {
                return Ok(node);
            }
        }
    }

    fn first(&mut self) -> Result<Node, Wrong> {
        let (at, token) = self.take();
        let what = match token {
            Token::Number(number) => What::Literal(Value::Number(number)),
            Token::Text(text) => What::Literal(Value::String(text)),
            Token::Name(name) => match name.as_str() {
                "true" => What::Literal(Value::Bool(true)),
                "false" => What::Literal(Value::Bool(false)),
                "null" => What::Literal(Value::Null),
                &_ if self.takes("(") => return self.call(at, &name),
                &_ => What::Variable(name),
            },
            Token::Sign("(") => {
                let inner = self.expression()?;
                self.expect(")")?;
                return Ok(inner);
            }
            Token::Sign("[") => What::List(self.listed("]")?),
            other @ (Token::Sign(_) | Token::End) => return Err(unexpected(at, &other)),
        };
        Ok(Node { at, what })
    }

    fn call(&mut self, at: usize, name: &str) -> Result<Node, Wrong> {
        let Some(function) = Function::of(name) else {
            let message = format!(
                "there is no function `{name}`; there is: {}",
                Function::names().join(", ")
            );
            return Err(Wrong::new(at, "function.unknown", message));
        };
        let arguments = self.listed(")")?;
        let wanted = function.arguments();
        if arguments.len() != wanted {
            let message = format!("`{name}` takes {wanted} values; here are {}", arguments.len());
            return Err(Wrong::new(at, "function.arguments", message));
        }
        Ok(Node { at, what: What::Call(function, arguments) })
    }

    fn listed(&mut self, end: &'static str) -> Result<Vec<Node>, Wrong> {
        let mut items = Vec::new();
        if self.takes(end) {
            return Ok(items);
        }
        loop {
            items.push(self.expression()?);
            if self.takes(end) {
                return Ok(items);
            }
            self.expect(",")?;
        }
    }
}

fn unexpected(at: usize, token: &Token) -> Wrong {
    let what = match token {
        Token::Number(number) => format!("`{number}`"),
        Token::Text(_) => "a text".into(),
        Token::Name(name) => format!("`{name}`"),
        Token::Sign(sign) => format!("`{sign}`"),
        Token::End => {
            return Wrong::new(at, "expression.syntax", "the expression ends too soon");
        }
    };
    Wrong::new(at, "expression.syntax", format!("{what} was not expected here"))
}
