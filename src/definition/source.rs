//! Source: a YAML text as a value, with the place of every key and value in it.
//!
//! Bounded: a file has at most 1 MiB, and what its aliases unfold to is bounded as well. Nothing
//! here knows what the file is about.

use std::{collections::HashMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};
use serde_saphyr::{Location, Spanned};

use crate::definition::problem::Problem;

/// A workflow is written by hand: a larger file is a mistake, and is read whole into memory.
pub const FILE_BYTES_MAX: usize = 1 << 20;
/// What aliases may unfold to, in events; a hand-written file stays far below.
const ALIAS_EVENTS_MAX: usize = 10_000;
/// Values nest at most this deep, as everywhere in the house (`kernel::schema::DEPTH_MAX`).
const DEPTH_MAX: usize = 64;

/// A place in the text, both counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    line: usize,
    column: usize,
}

impl From<Location> for Place {
    fn from(location: Location) -> Self {
        let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self { line: number(location.line()), column: number(location.column()) }
    }
}

/// A YAML text as a value, with the place of everything in it.
#[derive(Debug, Clone)]
pub(super) struct Source {
    file: String,
    text: String,
    /// The whole text as JSON.
    pub(super) value: Value,
    /// By JSON pointer: where the key stands (where the value does, in a list), and the value.
    places: HashMap<String, (Place, Place)>,
}

impl Source {
    /// Reads a YAML text.
    pub(super) fn read(file: &str, text: &str) -> Result<Self, Vec<Problem>> {
        if text.len() > FILE_BYTES_MAX {
            let message =
                format!("the file has {} bytes; the most is {FILE_BYTES_MAX}", text.len());
            return Err(vec![Problem::of_file(file, "file.too_large", message)]);
        }
        let options = serde_saphyr::options! {
            budget: serde_saphyr::budget! { max_depth: DEPTH_MAX },
            alias_limits: serde_saphyr::alias_limits! {
                max_total_replayed_events: ALIAS_EVENTS_MAX,
            },
            with_snippet: false,
            strict_booleans: true,
        };
        let root: Spanned<Content> = serde_saphyr::from_str_with_options(text, options)
            .map_err(|error| vec![unreadable(file, text, &error)])?;
        let mut places = HashMap::new();
        let here = Place::from(root.referenced);
        let value = unfold(root.value, "", (here, here), &mut places);
        if value.is_null() {
            return Err(vec![Problem::of_file(file, "file.empty", "the file is empty")]);
        }
        Ok(Self { file: file.to_owned(), text: text.to_owned(), value, places })
    }

    /// A problem with the value at a JSON pointer, or the nearest there is above it.
    pub(super) fn at(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Problem {
        self.problem(self.place(pointer).1, code, message)
    }

    /// A problem with the key at a JSON pointer.
    pub(super) fn at_key(
        &self,
        pointer: &str,
        code: &'static str,
        message: impl Into<String>,
    ) -> Problem {
        self.problem(self.place(pointer).0, code, message)
    }

    /// A problem with one character of the text at a JSON pointer, where that can be told from how
    /// it is written.
    pub(super) fn at_char(
        &self,
        pointer: &str,
        (text, at): (&str, usize),
        code: &'static str,
        message: impl Into<String>,
    ) -> Problem {
        let mut problem = self.at(pointer, code, message);
        let column = problem.column.saturating_sub(1);
        let rest: String = problem.excerpt.chars().skip(column).collect();
        let quote = usize::from(rest.starts_with(['"', '\'']));
        let written: String = rest.chars().skip(quote).collect();
        let is_within = text.chars().take(at).all(|c| c != '\n');
        if is_within && written.starts_with(text.lines().next().unwrap_or_default()) {
            problem.column += quote + at;
        } else if let Some((line, column)) = self.in_block(&problem, text, at) {
            self.text.lines().nth(line).unwrap_or_default().clone_into(&mut problem.excerpt);
            (problem.line, problem.column) = (line + 1, column + 1);
        }
        problem
    }

    /// Where a character of a text of several lines is, if it is written line by line; counted from 0.
    fn in_block(&self, begin: &Problem, text: &str, at: usize) -> Option<(usize, usize)> {
        let before: Vec<char> = text.chars().take(at).collect();
        let lines = before.iter().filter(|c| **c == '\n').count();
        let within = before.iter().rev().take_while(|c| **c != '\n').count();
        let line = begin.line.checked_sub(1)? + lines;
        let (written, meant) = (self.text.lines().nth(line)?, text.lines().nth(lines)?);
        let indent = written.strip_suffix(meant)?;
        Some((line, indent.chars().count() + within))
    }

    fn place(&self, pointer: &str) -> (Place, Place) {
        let mut pointer = pointer;
        loop {
            if let Some(places) = self.places.get(pointer) {
                return *places;
            }
            match pointer.rsplit_once('/') {
                Some((above, _)) => pointer = above,
                None => return <(Place, Place)>::default(),
            }
        }
    }

    fn problem(&self, place: Place, code: &'static str, message: impl Into<String>) -> Problem {
        placed(&self.file, &self.text, place, Problem::of_file(&self.file, code, message))
    }
}

/// A JSON pointer's next part, escaped.
pub(super) fn under(pointer: &str, part: impl fmt::Display) -> String {
    format!("{pointer}/{}", part.to_string().replace('~', "~0").replace('/', "~1"))
}

fn placed(file: &str, text: &str, place: Place, problem: Problem) -> Problem {
    let line = place.line.checked_sub(1).and_then(|index| text.lines().nth(index));
    Problem {
        file: file.to_owned(),
        line: place.line,
        column: place.column,
        excerpt: line.unwrap_or_default().to_owned(),
        ..problem
    }
}

/// What the parser says of a text that it cannot read.
fn unreadable(file: &str, text: &str, error: &serde_saphyr::Error) -> Problem {
    use serde_saphyr::Error;

    let mut error = error.without_snippet();
    while let Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let place = error.location().map(Place::from).unwrap_or_default();
    let problem =
        |code, message: String| placed(file, text, place, Problem::of_file(file, code, message));
    #[expect(clippy::wildcard_enum_match_arm, reason = "the parser's own list, open to more")]
    match error {
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().unwrap_or("the same key");
            problem("key.duplicate", format!("`{key}` is given twice; keep one of them"))
        }
        Error::AliasReplayCounterOverflow { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. }
        | Error::Budget { .. } => problem(
            "file.too_large",
            format!(
                "the file unfolds to too much: at most {DEPTH_MAX} levels, {ALIAS_EVENTS_MAX} values by alias"
            ),
        ),
        Error::MultipleDocuments { .. } => problem(
            "yaml.documents",
            "a file describes one thing; take the `---` and what follows out".into(),
        ),
        other => {
            let words = other.to_string();
            let first = words.lines().next().unwrap_or_default();
            let bare = first.split(" at line ").next().unwrap_or_default();
            problem("yaml.syntax", format!("the file is not YAML: {bare}"))
        }
    }
}

enum Content {
    Scalar(Value),
    List(Vec<Spanned<Content>>),
    Map(Vec<(Spanned<String>, Spanned<Content>)>),
}

/// Gathers the value, and the place of everything in it.
fn unfold(
    content: Content,
    pointer: &str,
    here: (Place, Place),
    places: &mut HashMap<String, (Place, Place)>,
) -> Value {
    places.insert(pointer.to_owned(), here);
    match content {
        Content::Scalar(value) => value,
        Content::List(items) => {
            let each = |(index, item): (usize, Spanned<Content>)| {
                let pointer = under(pointer, index);
                let place = Place::from(item.referenced);
                unfold(item.value, &pointer, (place, place), places)
            };
            Value::Array(items.into_iter().enumerate().map(each).collect())
        }
        Content::Map(entries) => {
            let mut map = Map::new();
            for (key, item) in entries {
                let pointer = under(pointer, &key.value);
                let place = (Place::from(key.referenced), Place::from(item.referenced));
                map.insert(key.value, unfold(item.value, &pointer, place, places));
            }
            Value::Object(map)
        }
    }
}

impl<'de> Deserialize<'de> for Content {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ContentVisitor)
    }
}

struct ContentVisitor;

impl<'de> Visitor<'de> for ContentVisitor {
    type Value = Content;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Content, E> {
        Ok(Content::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Content, E> {
        Ok(Content::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Content, D::Error> {
        Content::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Content, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            items.push(item);
        }
        Ok(Content::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Content, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Content::Map(entries))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn place(source: &Source, pointer: &str) -> (usize, usize) {
        let problem = source.at(pointer, "x", "y");
        (problem.line, problem.column)
    }

    #[test]
    fn every_value_and_key_has_its_place() {
        let text = "a: 1\nb:\n  - x\n  - {c: true}\n\"d/e\": ~\n";
        let source = Source::read("f", text).unwrap();
        assert_eq!(source.value, json!({"a": 1, "b": ["x", {"c": true}], "d/e": null}));
        assert_eq!(place(&source, "/a"), (1, 4));
        assert_eq!(place(&source, "/b/1/c"), (4, 9));
        assert_eq!(place(&source, "/b/1/nowhere/at/all"), (4, 5));
        assert_eq!(source.at_key("/d~1e", "x", "y").line, 5);
        let key = source.at_key("/b/1/c", "x", "y");
        assert_eq!((key.line, key.column, key.excerpt.as_str()), (4, 6, "  - {c: true}"));
    }

    #[test]
    fn what_is_not_yaml_is_told_with_its_place() {
        for (text, code, line) in [
            ("a: [1\nb: 2", "yaml.syntax", 2),
            ("a: 1\na: 2\n", "key.duplicate", 2),
            ("", "file.empty", 0),
            ("a: 1\n---\nb: 2\n", "yaml.documents", 3),
        ] {
            let problem = Source::read("f", text).expect_err(text).remove(0);
            assert_eq!((problem.code, problem.line), (code, line), "{problem}");
        }
    }

    #[test]
    fn bombs_are_refused() {
        let large = Source::read("f", &"x".repeat(FILE_BYTES_MAX + 1)).expect_err("too large");
        assert_eq!(large[0].code, "file.too_large");
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..8 {
            let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
            bomb = format!("{bomb}a{level}: &a{level} [{aliases}]\n");
        }
        assert_eq!(Source::read("f", &bomb).expect_err("a bomb")[0].code, "file.too_large");
        let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
        assert_eq!(Source::read("f", &deep).expect_err("too deep")[0].code, "file.too_large");
    }
}
