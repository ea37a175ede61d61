//! Form: the fields of an answer as a terminal asks for them, one by one. Pure: lines go in, a value and what
//! is wrong with it come out.
//!
//! What is typed and does not fit stays as it was typed, so that all that is wrong is told at once; whether an
//! answer is taken is the kernel's to say.

use serde_json::{Map, Number, Value};

use crate::api::form::{Shape, check, member, ordered, resolved};
use crate::cli::json;
use crate::kernel::strict;
use crate::wire::v1::Request;

/// Fields that are asked one by one; a larger form is written as JSON.
const FIELDS_MAX: usize = 60;
/// What separates the items of a list in one line.
const COMMA: char = ',';

/// What a person fills in.
#[derive(Debug, Clone)]
pub(super) struct Form {
    schema: Value,
    /// In the order in which they are asked.
    pub fields: Vec<Field>,
}

/// One thing to fill in.
#[derive(Debug, Clone)]
pub(super) struct Field {
    /// Its place in the answer, as a JSON pointer.
    at: String,
    /// Its place as people read it: `address.city`.
    pub name: String,
    /// What the file says about it.
    pub about: String,
    /// What it takes, in words.
    pub takes: String,
    /// Whether nothing is no answer.
    pub is_needed: bool,
    /// What it is if nothing is typed.
    pub default: Option<Value>,
    /// Whether what is typed is told to nobody again, and not shown as it is typed.
    pub is_secret: bool,
    taking: Taking,
    /// What it is.
    pub given: Option<Value>,
}

#[derive(Debug, Clone)]
enum Taking {
    Text,
    Number,
    Boolean,
    Choice(Vec<(Value, String)>),
    List(Box<Taking>),
    Fixed,
    Json,
}

impl Form {
    /// The form of a question whose answer has fields; nothing for any other.
    pub(super) fn of(request: &Request) -> Option<Self> {
        let mut schema = json::optional(request.response_schema.as_ref());
        ordered(&mut schema, &request.field_order);
        let mut fields = Vec::new();
        gather(&schema, &schema, ("", true, 0), &mut fields)?;
        let is_one = fields.len() <= FIELDS_MAX && !fields.is_empty();
        is_one.then_some(Self { schema, fields })
    }

    /// The places of the fields that a person is asked for.
    pub(super) fn asked(&self) -> Vec<usize> {
        let is_asked = |place: &usize| !matches!(self.fields[*place].taking, Taking::Fixed);
        (0..self.fields.len()).filter(is_asked).collect()
    }

    /// Whether any field is not for everybody's eyes.
    pub(super) fn has_secrets(&self) -> bool {
        self.fields.iter().any(|field| field.is_secret)
    }

    /// The answer as far as it is filled in.
    pub(super) fn value(&self) -> Value {
        let mut value = Value::Object(Map::new());
        for field in &self.fields {
            if let Some(given) = &field.given {
                put(&mut value, &field.at, given.clone());
            }
        }
        value
    }

    /// Everything that is wrong with it: the field, if it is one's, and why.
    pub(super) fn complaints(&self) -> Vec<(Option<usize>, String)> {
        let told = check(&self.schema, &self.value());
        let whose = |at: &str| {
            let is_of = |field: &Field| {
                let rest = at.strip_prefix(field.at.as_str());
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
            };
            // An object that is not there at all is missed at its first field.
            let is_below =
                |field: &Field| field.at.strip_prefix(at).is_some_and(|rest| rest.starts_with('/'));
            let found = self.fields.iter().position(is_of);
            found.or_else(|| self.fields.iter().position(|it| it.is_needed && is_below(it)))
        };
        let told = told.into_iter().map(|(at, why)| (whose(&at), why));
        // What is wrong with a secret may quote it.
        let is_secret = |place: Option<usize>| place.is_some_and(|it| self.fields[it].is_secret);
        let quotes = |place: Option<usize>, why: &str| {
            let given = place.and_then(|place| self.fields[place].given.as_ref());
            given.is_some_and(|given| why.contains(&crate::kernel::readable(given)))
        };
        told.map(|(place, why)| {
            let is_quoted = is_secret(place) && quotes(place, &why);
            (place, if is_quoted { "This does not fit.".into() } else { why })
        })
        .collect()
    }
}

impl Field {
    /// Takes what was typed; nothing typed is what it is without a word.
    pub(super) fn fill(&mut self, typed: &str) {
        let text = typed.trim();
        self.given = if text.is_empty() {
            self.given.take().or_else(|| self.default.clone())
        } else if text == "-" && !self.is_needed {
            None
        } else {
            Some(self.taking.read(text))
        };
    }

    /// What it is, in a few words; nothing of what nobody is to read.
    pub(super) fn told(&self) -> String {
        match &self.given {
            None => "–".into(),
            Some(_) if self.is_secret => "(not shown)".into(),
            Some(Value::Bool(is)) => if *is { "yes" } else { "no" }.into(),
            Some(value) => crate::kernel::readable(value),
        }
    }

    /// Whether what is typed for it stands on no screen.
    pub(super) fn is_hidden(&self) -> bool {
        self.is_secret
    }

    /// What becomes of a line that is left empty.
    pub(super) fn on_enter(&self) -> String {
        match (&self.given, &self.default, self.is_needed) {
            (Some(_), _, _) => format!("Enter keeps {}", self.told()),
            (None, Some(_), _) if self.is_secret => "Enter takes what the file says".into(),
            (None, Some(default), _) => {
                format!("Enter takes {}", crate::kernel::readable(default))
            }
            (None, None, true) => "needed".into(),
            (None, None, false) => "Enter leaves it out".into(),
        }
    }
}

impl Taking {
    fn read(&self, text: &str) -> Value {
        match self {
            Self::Text => Value::from(text),
            Self::Number => number(text),
            Self::Boolean => match text.to_lowercase().as_str() {
                "y" | "yes" | "true" => Value::Bool(true),
                "n" | "no" | "false" => Value::Bool(false),
                &_ => Value::from(text),
            },
            Self::Choice(choices) => chosen(choices, text),
            Self::List(_) if text.starts_with('[') => json_or_text(text),
            Self::List(each) => {
                let items = text.split(COMMA).map(str::trim).filter(|item| !item.is_empty());
                items.map(|item| each.read(item)).collect()
            }
            Self::Fixed | Self::Json => json_or_text(text),
        }
    }
}

/// An option by what it is called; by its number where none is called that.
fn chosen(choices: &[(Value, String)], text: &str) -> Value {
    let is_named = |(value, told): &&(Value, String)| {
        told.eq_ignore_ascii_case(text) || value.as_str() == Some(text)
    };
    let by_number = || choices.get(text.parse::<usize>().ok()?.checked_sub(1)?);
    let found = choices.iter().find(is_named).or_else(by_number);
    found.map_or_else(|| Value::from(text), |(value, _)| value.clone())
}

fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Number::from).ok();
    let whole = whole.or_else(|| text.parse::<u64>().map(Number::from).ok());
    let number = whole.or_else(|| Number::from_f64(text.parse().ok()?));
    number.map_or_else(|| Value::from(text), Value::Number)
}

fn json_or_text(text: &str) -> Value {
    strict::read(text.as_bytes()).unwrap_or_else(|_| Value::from(text))
}

/// The fields below an object; nothing where the schema is no object with members.
fn gather(
    root: &Value,
    schema: &Value,
    (at, is_needed, depth): (&str, bool, usize),
    fields: &mut Vec<Field>,
) -> Option<()> {
    let schema = resolved(root, schema);
    let Shape::Object(members) = Shape::of(root, schema, depth) else { return None };
    for (name, inner, is_required) in members {
        let (at, is_needed) = (member(at, name), is_needed && is_required);
        if gather(root, inner, (&at, is_needed, depth + 1), fields).is_none() {
            fields.push(field(root, resolved(root, inner), (at, is_needed, depth + 1)));
        }
    }
    Some(())
}

fn field(root: &Value, schema: &Value, (at, is_needed, depth): (String, bool, usize)) -> Field {
    let (taking, takes) = taking(root, schema, depth);
    let words = |name: &str| schema.get(name).and_then(Value::as_str);
    let about = words("description").or_else(|| words("title")).unwrap_or_default().to_owned();
    let name = at.trim_start_matches('/').replace('/', ".");
    let name = name.replace("~1", "/").replace("~0", "~");
    let given = matches!(taking, Taking::Fixed).then(|| schema["const"].clone());
    let is_marked = schema["writeOnly"] == true || schema["secret"] == true;
    let is_secret = is_marked || schema["format"] == "password";
    let default = schema.get("default").cloned();
    Field { at, name, about, takes, is_needed, default, is_secret, taking, given }
}

/// How a line is read for a schema, and what it takes in words.
fn taking(root: &Value, schema: &Value, depth: usize) -> (Taking, String) {
    match Shape::of(root, schema, depth) {
        Shape::Text { .. } => {
            let word = match schema.get("format").and_then(Value::as_str) {
                Some("date") => "a date such as 2026-03-31",
                Some("time") => "a time such as 14:05:00",
                Some("date-time") => "a date and time such as 2026-03-31T14:05:00Z",
                Some("email") => "an e-mail address",
                Some("uri" | "url") => "an address such as https://…",
                Some(_) | None => "a text",
            };
            (Taking::Text, bounded(word, schema))
        }
        Shape::Number { is_whole: true } => (Taking::Number, bounded("a whole number", schema)),
        Shape::Number { is_whole: false } => (Taking::Number, bounded("a number", schema)),
        Shape::Boolean => (Taking::Boolean, "yes or no".into()),
        Shape::Choice(choices) => {
            let words = format!("one of {}", listed(&choices));
            (Taking::Choice(choices), words)
        }
        Shape::Many(choices) => {
            let words = format!("any of {}, separated by commas", listed(&choices));
            (Taking::List(Box::new(Taking::Choice(choices))), words)
        }
        Shape::List(items) => match taking(root, resolved(root, items), depth + 1) {
            (Taking::List(_) | Taking::Json | Taking::Fixed, _) => {
                (Taking::Json, "a list as JSON: […]".into())
            }
            (each, words) => {
                (Taking::List(Box::new(each)), format!("{words}; several, separated by commas"))
            }
        },
        Shape::Fixed(_) => (Taking::Fixed, String::new()),
        Shape::Object(_) | Shape::Json => (Taking::Json, "JSON".into()),
    }
}

fn listed(choices: &[(Value, String)]) -> String {
    let named = (1..).zip(choices).map(|(number, (_, told))| format!("{number} {told}"));
    named.collect::<Vec<_>>().join(", ")
}

/// The word for a type, with the bounds that the schema gives it.
fn bounded(word: &str, schema: &Value) -> String {
    let bound = |name: &str, before: &str, after: &str| {
        let limit = schema.get(name).filter(|limit| limit.is_number())?;
        Some(format!(", {before} {limit}{after}"))
    };
    let bounds = [
        bound("minimum", "at least", ""),
        bound("exclusiveMinimum", "more than", ""),
        bound("maximum", "at most", ""),
        bound("exclusiveMaximum", "less than", ""),
        bound("maxLength", "at most", " characters"),
    ];
    let pattern = schema.get("pattern").and_then(Value::as_str);
    let pattern = pattern.map(|pattern| format!(", of the form {pattern}"));
    let all = bounds.into_iter().chain([pattern]).flatten();
    all.fold(word.to_owned(), |words, bound| words + &bound)
}

fn put(whole: &mut Value, at: &str, value: Value) {
    let mut inner = whole;
    for part in at.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        if !inner.is_object() {
            *inner = Value::Object(Map::new());
        }
        let Some(members) = inner.as_object_mut() else { return };
        inner = members.entry(name).or_insert(Value::Null);
    }
    *inner = value;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn form(schema: Value) -> Option<Form> {
        Form::of(&Request { response_schema: Some(schema.into()), ..Default::default() })
    }

    fn filled(schema: Value, typed: &[&str]) -> Form {
        let mut form = form(schema).unwrap();
        for (place, typed) in form.asked().into_iter().zip(typed) {
            form.fields[place].fill(typed);
        }
        form
    }

    fn trip() -> Value {
        json!({"type": "object", "required": ["guests", "day", "at"], "properties": {
            "guests": {"type": "integer", "minimum": 1, "maximum": 60, "description": "How many come"},
            "day": {"type": "string", "format": "date"},
            "vegan": {"type": "boolean", "default": false},
            "how": {"enum": ["bus", "train"]},
            "extras": {"type": "array", "items": {"enum": ["wine", "cake"]}, "uniqueItems": true},
            "names": {"type": "array", "items": {"type": "string"}},
            "at": {"type": "object", "required": ["city"], "properties": {
                "city": {"type": "string"}, "zip": {"type": "string"}}},
            "v": {"const": 2},
        }})
    }

    #[test]
    fn a_schema_with_members_is_asked_field_by_field_and_nothing_else_is() {
        let form = form(trip()).unwrap();
        let told: Vec<_> =
            form.fields.iter().map(|one| (one.name.as_str(), one.is_needed)).collect();
        let expected = [
            ("guests", true),
            ("day", true),
            ("vegan", false),
            ("how", false),
            ("extras", false),
            ("names", false),
            ("at.city", true),
            ("at.zip", false),
            ("v", false),
        ];
        let mut told = told;
        told.sort_unstable();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(told, expected);
        let guests = form.fields.iter().find(|one| one.name == "guests").unwrap();
        assert_eq!(guests.takes, "a whole number, at least 1, at most 60");
        assert_eq!(
            (guests.about.as_str(), guests.on_enter().as_str()),
            ("How many come", "needed")
        );
        for other in [json!({"type": "string"}), json!({}), json!({"type": "object"})] {
            assert!(self::form(other).is_none());
        }
    }

    fn by_name(schema: Value, typed: &[(&str, &str)]) -> Form {
        let mut form = form(schema).unwrap();
        for place in form.asked() {
            let name = form.fields[place].name.clone();
            let line = typed.iter().find(|(one, _)| *one == name).map_or("", |(_, line)| line);
            form.fields[place].fill(line);
        }
        form
    }

    #[test]
    fn lines_become_the_answer_and_an_empty_one_is_the_default_or_nothing() {
        let form = by_name(
            trip(),
            &[
                ("guests", " 30 "),
                ("day", "2026-03-31"),
                ("how", "2"),
                ("extras", "cake, 1"),
                ("names", "Ada, Bob"),
                ("at.city", "Graz"),
            ],
        );
        assert_eq!(
            form.value(),
            json!({"guests": 30, "day": "2026-03-31", "vegan": false, "how": "train",
                "extras": ["cake", "wine"], "names": ["Ada", "Bob"], "at": {"city": "Graz"}, "v": 2})
        );
        assert_eq!(form.complaints(), []);
    }

    #[test]
    fn everything_that_is_wrong_is_told_at_once_each_at_its_field() {
        let form = by_name(trip(), &[("guests", "many"), ("vegan", "perhaps"), ("how", "3")]);
        let mut told: Vec<_> = form
            .complaints()
            .into_iter()
            .map(|(place, why)| (form.fields[place.unwrap()].name.clone(), why))
            .collect();
        told.sort_unstable();
        let told: Vec<_> = told.iter().map(|(name, why)| (name.as_str(), why.as_str())).collect();
        assert_eq!(
            told,
            [
                ("at.city", "This is needed."),
                ("day", "This is needed."),
                ("guests", "Expected a whole number."),
                ("how", "Choose one of these."),
                ("vegan", "Expected yes or no."),
            ]
        );
    }

    #[test]
    fn what_nobody_is_to_read_is_not_told_again_and_what_was_given_is_kept() {
        let schema = json!({"type": "object", "properties": {
            "pin": {"type": "string", "writeOnly": true}}});
        let mut form = filled(schema, &["1234"]);
        assert_eq!(form.fields[0].told(), "(not shown)");
        let marked = json!({"type": "object", "properties": {
            "pin": {"type": "string", "secret": true, "maxLength": 3, "default": "000"}}});
        let marked = filled(marked, &["1234"]);
        assert!(marked.fields[0].is_secret && marked.fields[0].told() == "(not shown)");
        assert!(!format!("{:?}", marked.complaints()).contains("1234"));
        form.fields[0].fill("");
        assert_eq!(form.value(), json!({"pin": "1234"}));
        form.fields[0].fill("-");
        assert_eq!(form.value(), json!({}));
    }
}
