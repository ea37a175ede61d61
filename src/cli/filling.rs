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
/// Typed alone, it leads to the field before. No field is ever filled in with that alone, but by JSON.
const BACK: &str = "<";
/// Typed alone at the first field, it has the whole answer asked for, unseen.
const WHOLE: &str = "{";

/// A form, and what of it is still to be asked.
#[derive(Debug, Clone)]
pub(super) struct Filling {
    form: Form,
    /// Fields that are still to be asked, by their places; none once it waits to be sent.
    open: VecDeque<usize>,
    /// Nothing was typed yet: the whole answer may be.
    is_first: bool,
    /// What is typed stands on a screen while it is typed, line by line.
    is_in_sight: bool,
    /// The whole answer is asked for in place of a field, and nothing of it is shown.
    wants_whole: bool,
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
        Self { form, open, is_first: true, is_in_sight: false, wants_whole: false }
    }

    /// The same where every line stands on a screen before it is taken.
    pub(super) fn in_sight(mut self) -> Self {
        self.is_in_sight = true;
        self
    }

    /// Whether what is typed next, or has been begun with `typed`, is not for the screen: a secret, or an answer that
    /// has one in it.
    pub(super) fn is_hidden(&self, typed: &str) -> bool {
        let is_whole = self.is_first && typed.trim_start().starts_with(WHOLE);
        self.wants_whole
            || self.asks().is_some_and(Field::is_hidden)
            || (is_whole && self.form.has_secrets())
    }

    /// The field that is asked for; nothing where it is asked whether to send.
    pub(super) fn asks(&self) -> Option<&Field> {
        self.open.front().map(|place| &self.form.fields[*place])
    }

    /// The name of the field that is asked for, and what it takes.
    pub(super) fn heading(&self) -> Option<(String, String)> {
        let field = self.asks()?;
        if self.wants_whole {
            let takes = "JSON in one line · secret, not shown as you type";
            return Some(("the whole answer".to_owned(), takes.to_owned()));
        }
        let about = if field.about.is_empty() { "" } else { " · " };
        let secret = if field.is_secret { "secret, not shown as you type · " } else { "" };
        let told = format!("{secret}{}{about}{}", field.takes, field.about);
        Some((line(&field.name, NAME_CHARS_MAX), line(&told, CHARS_MAX)))
    }

    /// What may be typed now.
    pub(super) fn usage(&self) -> String {
        let back = if self.before().is_some() { "; < goes back" } else { "" };
        let is_guarded = self.is_first && self.is_in_sight && self.form.has_secrets();
        let whole = if is_guarded { "; { alone takes all of it as JSON, not shown" } else { "" };
        match self.asks() {
            Some(_) if self.wants_whole => "Enter asks field by field".to_owned(),
            Some(field) => line(&field.on_enter(), BRIEF_CHARS_MAX) + whole + back,
            None => format!("Enter sends this, a number changes a field{back}"),
        }
    }

    /// The field before the one that is asked for; the last one where it is asked whether to send.
    fn before(&self) -> Option<usize> {
        let here = self.open.front().copied().unwrap_or(usize::MAX);
        self.form.asked().into_iter().rev().find(|place| *place < here)
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
        if std::mem::take(&mut self.wants_whole) {
            return Self::whole(typed);
        }
        if typed.trim() == BACK {
            return self.back();
        }
        let Some(place) = self.open.front().copied() else { return self.settle(typed) };
        if self.is_first && typed.trim() == WHOLE {
            self.wants_whole = true;
            return Took::Next;
        }
        let whole = strict::read(typed.trim().as_bytes()).ok();
        if let Some(whole) = whole.filter(|whole| self.is_first && whole.is_object()) {
            if self.is_in_sight && self.form.has_secrets() {
                let why = "not taken: a field of it is secret, and this stands on the screen; type { alone first";
                return Took::Wrong(vec![why.to_owned()]);
            }
            return Took::Filled(whole);
        }
        self.is_first = false;
        self.form.fields[place].fill(typed);
        self.open.pop_front();
        if self.open.is_empty() { self.judge() } else { Took::Next }
    }

    /// The whole answer, typed unseen; an empty line goes on with the fields.
    fn whole(typed: &str) -> Took {
        if typed.trim().is_empty() {
            return Took::Next;
        }
        match strict::read(typed.trim().as_bytes()) {
            Ok(whole) if whole.is_object() => Took::Filled(whole),
            // What is wrong with it would quote it.
            Ok(_) | Err(_) => Took::Wrong(vec!["this is no JSON object, in one line".to_owned()]),
        }
    }

    /// Asks for the field before once more; what it has is kept by pressing Enter.
    fn back(&mut self) -> Took {
        let Some(place) = self.before() else {
            return Took::Wrong(vec!["there is no field before this one".to_owned()]);
        };
        self.open.push_front(place);
        Took::Next
    }

    /// Looks at what is filled in, and opens what is wrong with it again.
    fn judge(&mut self) -> Took {
        let mut wrong = self.form.complaints();
        if wrong.is_empty() {
            return Took::Next;
        }
        // In the order in which they are asked, which is the file's; what is no field's comes last.
        wrong.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
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
        assert_eq!(wrong, ["pan: At least 4 characters.", "cvc: Expected a whole number."]);
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

    #[test]
    fn the_field_before_is_asked_again_and_keeps_what_it_has() {
        let mut filling = filling();
        assert!(!filling.usage().contains("goes back"), "{}", filling.usage());
        assert!(matches!(filling.take("<"), Took::Wrong(_)), "there is none before the first");
        assert_eq!(filling.take("4242"), Took::Next);
        assert!(filling.usage().contains("< goes back"), "{}", filling.usage());
        assert_eq!(filling.take("12/30"), Took::Next);
        for name in ["cvc", "expiry"] {
            assert_eq!(asked(&filling), name);
            assert_eq!(filling.take("<"), Took::Next);
        }
        assert_eq!(asked(&filling), "pan");
        for (name, typed) in [("pan", "4343"), ("expiry", ""), ("cvc", "1")] {
            assert_eq!(asked(&filling), name);
            assert_eq!(filling.take(typed), Took::Next);
        }
        // Before it is sent, too.
        assert_eq!((asked(&filling).to_owned(), filling.take("<")), (String::new(), Took::Next));
        assert_eq!((asked(&filling).to_owned(), filling.take("2")), ("cvc".into(), Took::Next));
        let sent = json!({"pan": "4343", "expiry": "12/30", "cvc": 2});
        assert_eq!(filling.take(""), Took::Filled(sent));
    }

    #[test]
    fn an_answer_with_a_secret_in_it_is_not_taken_from_a_line_that_everybody_sees() {
        let schema = json!({"type": "object", "properties": {
            "name": {"type": "string"}, "pin": {"type": "string", "secret": true}}});
        let request = Request { response_schema: Some(schema.into()), ..Default::default() };
        let secret = Filling::new(Form::of(&request).unwrap());
        let whole = r#"{"name": "Ada", "pin": "1234"}"#;
        let answer = Took::Filled(json!({"name": "Ada", "pin": "1234"}));
        // Nobody sees what comes through a pipe, and a screen of ours shows dots from the brace on.
        assert_eq!(secret.clone().take(whole), answer);
        assert!(secret.is_hidden(r#"{"na"#) && !secret.is_hidden("Ada"));
        let mut seen = secret.in_sight();
        assert!(seen.usage().contains("{ alone"), "{}", seen.usage());
        let Took::Wrong(why) = seen.take(whole) else { panic!("{seen:?}") };
        assert!(!why.concat().contains("1234") && why.concat().contains("{ alone"), "{why:?}");
        assert_eq!(seen.take("{"), Took::Next);
        assert!(seen.is_hidden(""));
        let mut wrong = seen.clone();
        let Took::Wrong(why) = wrong.take("{1234") else { panic!("{wrong:?}") };
        assert!(!why.concat().contains("1234"), "{why:?}");
        let mut left = seen.clone();
        assert_eq!((left.take(""), asked(&left)), (Took::Next, "name"));
        assert_eq!(seen.take(whole), answer);
        // Where nothing is secret a line that is seen is as good as any.
        assert!(matches!(filling().in_sight().take(r#"{"pan": "4242"}"#), Took::Filled(_)));
    }
}
