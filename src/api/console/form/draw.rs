//! Draw: fields as HTML, each with its label, its hint, and what is wrong with it beside it.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::form::{Complaints, ITEMS_MAX, ROOT, member};
use crate::api::console::{text, value};
use crate::api::form::{BUTTONS_MAX, Shape, resolved};
use crate::kernel::secret;

/// A form's fields: the schema, what is filled in, what was there at first, and what is wrong.
#[derive(Debug)]
pub(in crate::api::console) struct Sheet<'a> {
    pub(in crate::api::console) root: &'a Value,
    pub(in crate::api::console) complaints: &'a Complaints,
    /// What was there at first, where what is filled in is a change of it.
    pub(in crate::api::console) original: Option<&'a Value>,
    /// The list that is to have one more place, by its pointer.
    pub(in crate::api::console) grown: Option<&'a str>,
}

/// One field's place.
struct Place<'a> {
    schema: &'a Value,
    value: Option<&'a Value>,
    /// The JSON pointer of the place.
    at: String,
    label: String,
    is_required: bool,
    depth: usize,
    /// Whether it, or what it belongs to, is marked as secret: nothing of it is drawn but what was there at first.
    is_secret: bool,
}

impl Place<'_> {
    fn name(&self) -> String {
        format!("{ROOT}{}", self.at)
    }

    /// An id that may be named in a list of ids.
    fn id(&self) -> String {
        self.name().replace(char::is_whitespace, "_")
    }

    fn described(&self, complaint: Option<&String>) -> Option<String> {
        let hint = hint(self.schema).map(|_| format!("{}-hint", self.id()));
        let error = complaint.map(|_| format!("{}-error", self.id()));
        let both: Vec<_> = hint.into_iter().chain(error).collect();
        (!both.is_empty()).then(|| both.join(" "))
    }
}

impl Sheet<'_> {
    /// The fields for `schema` at `at`.
    pub(in crate::api::console) fn field(
        &self,
        schema: &Value,
        value: Option<&Value>,
        at: &str,
        (label, is_required): (&str, bool),
    ) -> Markup {
        let label = label.to_owned();
        let at = at.to_owned();
        self.place(&Place { schema, value, at, label, is_required, depth: 0, is_secret: false })
    }

    fn place(&self, place: &Place<'_>) -> Markup {
        let schema = resolved(self.root, place.schema);
        let shape = Shape::of(self.root, schema, place.depth);
        // What is written out as JSON is secret if anything in it is.
        let is_marked = |schema: &Value| {
            secret::is_marked(schema) || (shape == Shape::Json && secret::marks(schema))
        };
        let is_secret = place.is_secret || is_marked(place.schema) || is_marked(schema);
        let value = place.value.or_else(|| schema.get("default"));
        let has_parts = matches!(shape, Shape::Object(_) | Shape::List(_));
        let value = value.filter(|_| has_parts || !is_secret).or_else(|| self.first_at(place));
        let (at, label) = (place.at.clone(), place.label.clone());
        let place = Place { schema, value, at, label, is_secret, ..*place };
        match shape {
            Shape::Fixed(_) => html! {},
            Shape::Object(members) => self.object(&place, &members),
            Shape::List(items) => self.list(&place, items),
            Shape::Boolean => {
                let choices = [(true.into(), "Yes".to_owned()), (false.into(), "No".to_owned())];
                self.radios(&place, &choices, |_, value| value.to_string())
            }
            Shape::Choice(choices) if choices.len() <= BUTTONS_MAX => {
                self.radios(&place, &choices, |index, _| index.to_string())
            }
            Shape::Choice(choices) => self.framed(&place, &select(self, &place, &choices)),
            Shape::Many(choices) => self.boxes(&place, &choices),
            Shape::Text { input, is_long } => {
                self.framed(&place, &self.text(&place, input, is_long))
            }
            Shape::Number { is_whole } => self.framed(&place, &self.number(&place, is_whole)),
            Shape::Json => self.framed(&place, &self.json(&place)),
        }
    }

    /// What was there at first, which whoever changes it is shown.
    fn first_at(&self, place: &Place<'_>) -> Option<&Value> {
        self.original.filter(|_| place.value.is_some())?.pointer(&place.at)
    }

    fn complaint(&self, place: &Place<'_>) -> Option<&String> {
        self.complaints.get(&place.at)
    }

    /// A label, a control, and what is to be said of it.
    fn framed(&self, place: &Place<'_>, control: &Markup) -> Markup {
        html! {
            div.field {
                label for=(place.id()) { (text::shown(&place.label)) (needed(place)) }
                (control)
                @if place.is_secret {
                    p.hint { "Secret: not kept on this page. Type it again where something has to be corrected." }
                }
                (self.remarks(place))
            }
        }
    }

    fn remarks(&self, place: &Place<'_>) -> Markup {
        let hidden = place.value.and_then(Value::as_str).filter(|text| text::has_hidden(text));
        let original = self.original.map(|original| original.pointer(&place.at));
        // What has parts says so part by part.
        let is_whole = |value: Option<&Value>| {
            value.is_none_or(|value| !value.is_object() && !value.is_array())
        };
        let original = original.filter(|_| !place.is_secret);
        let hidden = hidden.filter(|_| !place.is_secret);
        let was =
            original.filter(|was| *was != place.value && is_whole(*was) && is_whole(place.value));
        html! {
            @if let Some(hint) = hint(place.schema) {
                p.hint id={ (place.id()) "-hint" } { (text::shown(hint)) }
            }
            @if let Some(text) = hidden {
                p.warn { "There are characters in it that cannot be seen: " code { (text::shown(text)) } }
            }
            @if let Some(was) = was {
                p.was { "Changed; it was " @match was {
                    Some(was) => { (value::exact(was)) } None => { "not there" }
                } }
            }
            @if let Some(complaint) = self.complaint(place) {
                p.error id={ (place.id()) "-error" } { (text::shown(complaint)) }
            }
        }
    }

    fn text(&self, place: &Place<'_>, input: &str, is_long: bool) -> Markup {
        let complaint = self.complaint(place);
        let text = place.value.map(crate::kernel::readable).unwrap_or_default();
        let lines = text.lines().count().clamp(if place.depth == 0 { 3 } else { 1 }, 16);
        let (invalid, described) = (complaint.map(|_| "true"), place.described(complaint));
        html! {
            @if place.is_secret {
                input id=(place.id()) name=(place.name()) type="password" autocomplete="off" value=(text)
                    aria-invalid=[invalid] aria-describedby=[described];
            } @else if is_long {
                textarea id=(place.id()) name=(place.name()) rows=(lines) aria-invalid=[invalid]
                    aria-describedby=[described] { "\n" (text) }
            } @else {
                input id=(place.id()) name=(place.name()) type=(input) value=(text)
                    aria-invalid=[invalid] aria-describedby=[described];
            }
        }
    }

    fn number(&self, place: &Place<'_>, is_whole: bool) -> Markup {
        let complaint = self.complaint(place);
        let text = place.value.map(crate::kernel::readable).unwrap_or_default();
        let mode = if is_whole { "numeric" } else { "decimal" };
        let kind = if place.is_secret { "password" } else { "text" };
        html! {
            input.short id=(place.id()) name=(place.name()) type=(kind) inputmode=(mode) value=(text)
                autocomplete="off" aria-invalid=[complaint.map(|_| "true")]
                aria-describedby=[place.described(complaint)];
        }
    }

    fn json(&self, place: &Place<'_>) -> Markup {
        let complaint = self.complaint(place);
        // A text that is not JSON was typed here and did not fit; a text of its own is quoted.
        let typed = place.value.and_then(Value::as_str).filter(|_| complaint.is_some());
        let laid_out = |value| serde_json::to_string_pretty(value).unwrap_or_default();
        let text = typed.map(str::to_owned).or_else(|| place.value.map(laid_out));
        let text = text.unwrap_or_default();
        let lines = text.lines().count().clamp(3, 16);
        html! {
            textarea.code id=(place.id()) name=(place.name()) rows=(lines) spellcheck="false"
                aria-invalid=[complaint.map(|_| "true")]
                aria-describedby=[place.described(complaint)] { "\n" (text) }
        }
    }

    fn radios(
        &self,
        place: &Place<'_>,
        choices: &[(Value, String)],
        spelled: impl Fn(usize, &Value) -> String,
    ) -> Markup {
        let complaint = self.complaint(place);
        html! {
            fieldset.field aria-describedby=[place.described(complaint)] {
                legend { (text::shown(&place.label)) (needed(place)) }
                div.choices {
                    @for (index, (value, word)) in choices.iter().enumerate() {
                        label.choice {
                            input type="radio" name=(place.name()) value=(spelled(index, value))
                                checked[place.value == Some(value)];
                            span { (text::shown(word)) }
                        }
                    }
                }
                (self.remarks(place))
            }
        }
    }

    fn boxes(&self, place: &Place<'_>, choices: &[(Value, String)]) -> Markup {
        let chosen = place.value.and_then(Value::as_array);
        let is_chosen = |value: &Value| chosen.is_some_and(|chosen| chosen.contains(value));
        html! {
            fieldset.field aria-describedby=[place.described(self.complaint(place))] {
                legend { (text::shown(&place.label)) (needed(place)) }
                input type="hidden" name={ (place.name()) "#" } value="";
                div.choices {
                    @for (index, (value, word)) in choices.iter().enumerate() {
                        label.choice {
                            input type="checkbox" name=(place.name()) value=(index) checked[is_chosen(value)];
                            span { (text::shown(word)) }
                        }
                    }
                }
                (self.remarks(place))
            }
        }
    }

    fn object(&self, place: &Place<'_>, members: &[(&str, &Value, bool)]) -> Markup {
        let each = html! {
            @for (name, schema, is_required) in members {
                (self.place(&Place {
                    schema,
                    value: place.value.and_then(|value| value.get(name)),
                    at: member(&place.at, name),
                    label: label(resolved(self.root, schema), name),
                    is_required: *is_required,
                    depth: place.depth + 1,
                    is_secret: place.is_secret,
                }))
            }
        };
        if place.label.is_empty() {
            return html! { (each) (self.remarks(place)) };
        }
        html! {
            fieldset.group { legend { (text::shown(&place.label)) } (self.remarks(place)) (each) }
        }
    }

    /// The items there are, and a place for one more; an item that is emptied is taken away.
    fn list(&self, place: &Place<'_>, items: &Value) -> Markup {
        let filled = place.value.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        let extra = if self.grown == Some(place.at.as_str()) { 2 } else { 1 };
        let count = (filled.len() + extra).min(ITEMS_MAX);
        html! {
            fieldset.group aria-describedby=[place.described(self.complaint(place))] {
                legend { (text::shown(&place.label)) (needed(place)) }
                input type="hidden" name={ (place.name()) "#" } value="";
                (self.remarks(place))
                ol.items {
                    @for index in 0..count {
                        li {
                            (self.place(&Place {
                                schema: items,
                                value: filled.get(index),
                                at: format!("{}/{index}", place.at),
                                label: format!("{} {}", place.label, index + 1),
                                is_required: true,
                                depth: place.depth + 1,
                                is_secret: place.is_secret,
                            }))
                        }
                    }
                }
                p.hint { "Leave an item empty to take it away." }
                button type="submit" name="grow" value=(place.at) formnovalidate { "One more place" }
            }
        }
    }
}

fn select(sheet: &Sheet<'_>, place: &Place<'_>, choices: &[(Value, String)]) -> Markup {
    let complaint = sheet.complaint(place);
    html! {
        select id=(place.id()) name=(place.name()) aria-invalid=[complaint.map(|_| "true")]
            aria-describedby=[place.described(complaint)] {
            option value="" { "Choose" }
            @for (index, (value, word)) in choices.iter().enumerate() {
                option value=(index) selected[place.value == Some(value)] { (text::shown(word)) }
            }
        }
    }
}

fn needed(place: &Place<'_>) -> Markup {
    html! { @if !place.is_required { span.optional { " optional" } } }
}

fn hint(schema: &Value) -> Option<&str> {
    schema.get("description").and_then(Value::as_str).filter(|hint| !hint.is_empty())
}

/// What a member is called: by its schema's title, or its name.
pub(in crate::api::console) fn label(schema: &Value, name: &str) -> String {
    let title = schema.get("title").and_then(Value::as_str);
    title.map_or_else(|| text::words(name), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_field_has_its_label_its_value_and_its_complaint() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "description": "How <many>?"},
            "how": {"enum": ["post", "mail"]}, "day": {"type": "string", "format": "date"},
            "list": {"type": "array", "items": {"type": "string"}}}});
        let complaints = Complaints::from([("/n".to_owned(), "At least 3.".to_owned())]);
        let original = json!({"n": 4});
        let sheet = Sheet {
            root: &schema,
            complaints: &complaints,
            original: Some(&original),
            grown: None,
        };
        let value = json!({"n": 1, "how": "mail", "list": ["<b>"]});
        let text = sheet.field(&schema, Some(&value), "", ("", true)).into_string();
        for part in [
            "<label for=\"answer/n\">N</label>",
            "aria-describedby=\"answer/n-hint answer/n-error\"",
            "How &lt;many&gt;?",
            "<p class=\"error\" id=\"answer/n-error\">At least 3.</p>",
            "Changed; it was <code>4</code>",
            "type=\"radio\" name=\"answer/how\" value=\"1\" checked",
            "type=\"date\"",
            "name=\"answer/list/0\"",
            "&lt;b&gt;",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
    #[test]
    fn what_is_secret_is_typed_unseen_and_does_not_come_back() {
        let schema = json!({"type": "object", "properties": {
            "pin": {"type": "string", "secret": true}, "code": {"type": "integer", "secret": true},
            "card": {"type": "object", "secret": true, "properties": {"no": {"type": "string"}}},
            "keys": {"type": "array", "items": {"type": "string", "secret": true}},
            "free": {"secret": true}, "to": {"type": "string"}}});
        let value = json!({"pin": "can\u{200b}ary", "code": 4711, "card": {"no": "4929"},
            "keys": ["k-1"], "free": {"a": "f-1"}, "to": "Ada"});
        let complaints = Complaints::from([("/pin".to_owned(), "Expected the form x".to_owned())]);
        let draw = |original: Option<&Value>| {
            let sheet = Sheet { root: &schema, complaints: &complaints, original, grown: None };
            sheet.field(&schema, Some(&value), "", ("", true)).into_string()
        };
        let page = draw(None);
        for gone in ["can", "ary", "4711", "4929", "k-1", "f-1"] {
            assert!(!page.contains(gone), "{gone}\n{page}");
        }
        for name in ["pin", "code", "card/no", "keys/0"] {
            let field =
                page.split("<input").find(|it| it.contains(&format!("name=\"answer/{name}\"")));
            let field = field.unwrap_or_default();
            assert!(
                field.contains("type=\"password\"") && field.contains("autocomplete=\"off\""),
                "{field}"
            );
        }
        assert!(page.contains("Ada") && page.contains("Expected the form x"), "{page}");
        // Whoever changes what they were shown has that, and not what they typed.
        let page = draw(Some(&json!({"pin": "shown-before"})));
        assert!(page.contains("shown-before") && !page.contains("can"), "{page}");
    }
}
