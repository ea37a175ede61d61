//! Filling: a form while it is filled in, a line after the other, until there is an answer to send. Pure: `fill` asks
//! for the lines on a terminal, the chat on its screen, and both hear the same of what was typed.

use std::collections::VecDeque;

use serde_json::Value;

use crate::cli::form::{Field, Form};
use crate::cli::term::line;
use crate::kernel::strict;

/// A field on one line; the file's own words may be many.
const CHARS_MAX: usize = 300;
/// How what is filled in is told.
const BRIEF_CHARS_MAX: usize = 120;
const NAME_CHARS_MAX: usize = 64;

/// A form, and what of it is still to be asked.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    form: Form,
    /// Fields that are still to be asked, by their places; none once it waits to be sent.
    open: VecDeque<usize>,
    /// Nothing was typed yet: the whole answer may be.
    is_first: bool,
}

/// What came of a line.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Took {
    /// There is more to ask.
    Next,
    /// This is wrong, all of it; it is asked again.
    Wrong(Vec<String>),
    /// This is to be sent.
    Filled(Value),
}

impl Filling {
    pub(super) fn new(form: Form) -> Self {
        let open = form.asked().into();
        Self { form, open, is_first: true }
    }

    /// The field that is asked for; nothing where it is asked whether to send.
    pub(super) fn asks(&self) -> Option<&Field> {
        self.open.front().map(|place| &self.form.fields[*place])
    }

    /// The name of the field that is asked for, and what it takes.
    pub(super) fn heading(&self) -> Option<(String, String)> {
        let field = self.asks()?;
        let about = if field.about.is_empty() { "" } else { " · " };
        let secret = if field.is_secret { "secret, not shown as you type · " } else { "" };
        let told = format!("{secret}{}{about}{}", field.takes, field.about);
        Some((line(&field.name, NAME_CHARS_MAX), line(&told, CHARS_MAX)))
    }

    /// What may be typed now.
    pub(super) fn usage(&self) -> String {
        match self.asks() {
            Some(field) => line(&field.on_enter(), BRIEF_CHARS_MAX),
            None => "Enter sends this, a number changes a field".to_owned(),
        }
    }

    /// What is filled in, a line a field.
    pub(super) fn told(&self) -> Vec<String> {
        let numbered = (1..).zip(self.form.asked());
        let told = numbered.map(|(number, place)| {
            let field = &self.form.fields[place];
            line(&format!("{number}. {}  {}", field.name, field.told()), CHARS_MAX)
        });
        told.collect()
    }

    /// Takes a line. Whoever writes the whole answer as JSON at the first field is asked for no other.
    pub(super) fn take(&mut self, typed: &str) -> Took {
        let Some(place) = self.open.front().copied() else { return self.settle(typed) };
        let whole = strict::read(typed.trim().as_bytes()).ok();
        if let Some(whole) = whole.filter(|whole| self.is_first && whole.is_object()) {
            return Took::Filled(whole);
        }
        self.is_first = false;
        self.form.fields[place].fill(typed);
        self.open.pop_front();
        if self.open.is_empty() { self.judge() } else { Took::Next }
    }

    /// Looks at what is filled in, and opens what is wrong with it again.
    fn judge(&mut self) -> Took {
        let wrong = self.form.complaints();
        if wrong.is_empty() {
            return Took::Next;
        }
        let mut open: Vec<_> = wrong.iter().filter_map(|(place, _)| *place).collect();
        open.sort_unstable();
        open.dedup();
        if open.is_empty() {
            open = self.form.asked();
        }
        let told = wrong.iter().map(|(place, why)| {
            let name = place.map_or("the answer", |place| self.form.fields[place].name.as_str());
            line(&format!("{name}: {why}"), CHARS_MAX)
        });
        let told = told.collect();
        // What did not fit is typed anew, and not kept by pressing Enter.
        for place in &open {
            self.form.fields[*place].given = None;
        }
        self.open = open.into();
        Took::Wrong(told)
    }

    /// What is said to the question whether to send it.
    fn settle(&mut self, typed: &str) -> Took {
        let asked = self.form.asked();
        let other = match typed.trim().to_lowercase().as_str() {
            "" | "y" | "yes" | "send" => return Took::Filled(self.form.value()),
            other => other.parse::<usize>().ok().and_then(|one| one.checked_sub(1)),
        };
        match other.and_then(|number| asked.get(number)) {
            Some(place) => {
                self.open.push_back(*place);
                Took::Next
            }
            None => Took::Wrong(vec![format!("type Enter, or 1 to {}", asked.len())]),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::wire::v1::Request;

    fn filling() -> Filling {
        let schema = json!({"type": "object", "required": ["pan", "cvc"], "properties": {
            "pan": {"type": "string", "minLength": 4}, "expiry": {"type": "string"},
            "cvc": {"type": "integer"}}});
        let request = Request { response_schema: Some(schema.into()), ..Default::default() };
        Filling::new(Form::of(&request).unwrap())
    }

    fn asked(filling: &Filling) -> &str {
        filling.asks().map_or("", |field| field.name.as_str())
    }

    #[test]
    fn fields_are_asked_in_the_order_of_the_file_and_all_that_is_wrong_again_in_that_order() {
        let mut filling = filling();
        for (name, typed) in [("pan", "12"), ("expiry", "")] {
            assert_eq!(asked(&filling), name);
            assert_eq!(filling.take(typed), Took::Next);
        }
        assert_eq!(asked(&filling), "cvc");
        let Took::Wrong(wrong) = filling.take("many") else { panic!("{filling:?}") };
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert_eq!(asked(&filling), "pan");
        assert_eq!(filling.take("4242"), Took::Next);
        assert_eq!(asked(&filling), "cvc");
        assert_eq!(filling.take("123"), Took::Next);
        assert_eq!(filling.told(), ["1. pan  4242", "2. expiry  –", "3. cvc  123"]);
        assert_eq!(filling.take("2"), Took::Next);
        assert_eq!(asked(&filling), "expiry");
        assert_eq!(filling.take("12/30"), Took::Next);
        assert!(matches!(filling.take("4"), Took::Wrong(_)));
        let sent = Took::Filled(json!({"pan": "4242", "expiry": "12/30", "cvc": 123}));
        assert_eq!(filling.take(""), sent);
        assert_eq!(filling.take("send"), sent, "what did not arrive is sent again");
    }

    #[test]
    fn the_whole_answer_may_be_written_at_the_first_field_and_nowhere_else() {
        let whole = r#"{"pan": "4242", "cvc": 1}"#;
        assert_eq!(filling().take(whole), Took::Filled(json!({"pan": "4242", "cvc": 1})));
        let mut later = filling();
        later.take("4242");
        assert_eq!(later.take(whole), Took::Next);
    }
}
