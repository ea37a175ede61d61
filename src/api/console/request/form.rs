//! Form: a question's form as HTML. Whatever can be decided with one press is a button.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::flow::{self, Near};
use crate::api::console::form::{ROOT, Shape, Sheet, label, member, resolved};
use crate::api::console::request::ask::{Ask, Deed, EDITS, Member, why_sealed};
use crate::api::console::request::verbs::{key, look, spelled};
use crate::api::console::request::{Case, Draft, reading, review};
use crate::api::console::text;
use crate::api::console::visit::Visit;
use crate::kernel::Verb;

/// Choices beyond this many are a list to open.
const BUTTONS_MAX: usize = 12;

/// The form of an open question.
pub(super) fn form(visit: &Visit, case: &Case, draft: &Draft, near: &Near) -> Markup {
    let ask = Ask::of(&case.question);
    let inner = match (&ask, &draft.editing) {
        (Ask::Decision { members, .. }, Some(word)) if EDITS.contains(&word.as_str()) => {
            if draft.is_review {
                review::review(case, members, draft, word)
            } else {
                editor(case, members, draft, word)
            }
        }
        (Ask::Decision { decisions, members, sealed }, _) => html! {
            (decision((case, near), decisions, members, draft))
            @if !sealed.is_empty() {
                p.quiet { (why_sealed(&case.question)) " Other doors take a whole version, as JSON." }
            }
        },
        (Ask::Options(_) | Ask::Turn | Ask::Outcome | Ask::Value, _) => simple(case, &ask, draft),
    };
    html! {
        form.answer id=(reading::FORM) method="post" action={ "/console/requests/" (case.id) } novalidate {
            input type="hidden" name="shown_at" value=(reading::shown_at(visit));
            input type="hidden" name="digest" value=(case.question.digest);
            input type="hidden" name="key" value=(visit.engine().fresh_key());
            @if let Some(list) = &near.list { input type="hidden" name=(flow::LIST) value=(list); }
            @if let Some(next) = &near.after { input type="hidden" name="next" value=(next); }
            @if draft.done.is_some() { input type="hidden" name="came_next" value="yes"; }
            (whole_complaint(draft))
            (inner)
        }
    }
}

/// What is wrong with the answer as a whole.
fn whole_complaint(draft: &Draft) -> Markup {
    let count = draft.complaints.len();
    html! {
        @if count > 0 {
            p.error role="alert" {
                @match draft.complaints.get("") {
                    Some(why) => { (text::shown(why)) }
                    None if count == 1 => { "One field is not as it should be; the reason is beside it." }
                    None => { (count) " fields are not as they should be; the reasons are beside them." }
                }
            }
        }
    }
}

fn simple(case: &Case, ask: &Ask, draft: &Draft) -> Markup {
    match ask {
        Ask::Options(options) => html! {
            div.options role="group" aria-label="Choose one" {
                @for option in options {
                    button.option type="submit" name=(ROOT) value=(option.id) {
                        strong { (text::shown(option.label())) }
                        @if !option.description.is_empty() { span { (text::shown(&option.description)) } }
                    }
                }
            }
        },
        Ask::Turn => html! {
            div.field {
                label for=(ROOT) { "Your message" }
                textarea id=(ROOT) name=(ROOT) rows="4" data-send { "\n" (said(draft)) }
            }
            div.buttons {
                button.primary type="submit" { "Send" }
                button type="submit" name="verb" value="end" { "End the conversation" }
            }
        },
        Ask::Outcome => outcome(),
        Ask::Decision { .. } => html! {},
        Ask::Value => value(case, draft),
    }
}

fn said(draft: &Draft) -> String {
    draft.value.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn outcome() -> Markup {
    html! {
        p { "The call was begun, and nobody knows whether it was done. Look for yourself, then say." }
        div.field {
            label for="result" { "What it returned" span.optional { " if it happened; text or JSON" } }
            textarea #result .code name="result" rows="2" {}
        }
        div.buttons {
            button.primary type="submit" name="verb" value=(Verb::Happened.word()) { "It happened" }
            button type="submit" name="verb" value=(Verb::Redo.word()) { "It did not: do it again" }
            button.danger type="submit" name="verb" value=(Verb::Abort.word()) { "End the run" }
        }
    }
}

fn value(case: &Case, draft: &Draft) -> Markup {
    let schema = case.question.response_schema();
    let shape = Shape::of(&schema, resolved(&schema, &schema), 0);
    if let Shape::Choice(choices) = &shape
        && choices.len() <= BUTTONS_MAX
    {
        return html! {
            div.options role="group" aria-label="Choose one" {
                @for (index, (_, word)) in choices.iter().enumerate() {
                    button.option type="submit" name=(ROOT) value=(index) { strong { (text::shown(word)) } }
                }
            }
        };
    }
    if shape == Shape::Boolean {
        return html! {
            div.buttons {
                button.primary type="submit" name=(ROOT) value="true" { "Yes" }
                button type="submit" name=(ROOT) value="false" { "No" }
            }
        };
    }
    let name = if matches!(shape, Shape::Object(_)) { "" } else { "Your answer" };
    html! {
        (sheet(&schema, draft, None).field(&schema, draft.value.as_ref(), "", (name, true)))
        div.buttons { button.primary type="submit" { "Send the answer" } }
    }
}

fn sheet<'a>(root: &'a Value, draft: &'a Draft, original: Option<&'a Value>) -> Sheet<'a> {
    Sheet { root, complaints: &draft.complaints, original, grown: draft.grown.as_deref() }
}

fn decision(
    (case, near): (&Case, &Near),
    decisions: &[Deed],
    members: &[Member],
    draft: &Draft,
) -> Markup {
    let own = members.iter().filter(|member| member.original.is_none());
    let has_edit = members.iter().any(|member| member.original.is_some());
    let is_edit = |word: &str| has_edit && EDITS.contains(&word);
    html! {
        @for one in own {
            (sheet(&one.schema, draft, None).field(
                &one.schema,
                draft.value.as_ref().and_then(|value| value.get(&one.name)),
                &member("", &one.name),
                (&label(&one.schema, &one.name), one.is_required),
            ))
        }
        @if decisions.iter().any(|deed| !deed.meaning.is_empty()) {
            dl.meanings {
                @for deed in decisions { @if !deed.meaning.is_empty() {
                    div { dt { (spelled(&deed.word)) } dd { (text::ticked(&deed.meaning)) } }
                } }
            }
        }
        div.buttons {
            @for Deed { word, .. } in decisions {
                @if is_edit(word) {
                    a.button href={ "/console/requests/" (case.id) "?edit=" (word) (kept(near)) } data-key="e" { (review::offer(&case.question, word)) "…" }
                } @else {
                    button class=(look(word)) type="submit" name="decision" value=(word) data-key=[key(word)] { (spelled(word)) }
                }
            }
        }
    }
}

/// The list that somebody came from, in an address that has something in it already.
fn kept(near: &Near) -> String {
    let Some(list) = &near.list else { return String::new() };
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    format!("&{}", query.append_pair(flow::LIST, list).finish())
}

fn editor(case: &Case, members: &[Member], draft: &Draft, word: &str) -> Markup {
    html! {
        h2 { (review::heading(&case.question, word)) }
        p.quiet { "Nothing is done yet: you will see every change before you decide." }
        @for one in members {
            @let original = one.original.as_ref();
            @let filled = draft.value.as_ref().and_then(|value| value.get(&one.name)).or(original);
            @let whole = original.map(|original| placed(&one.name, original));
            (sheet(&one.schema, draft, whole.as_ref()).field(
                &one.schema, filled, &member("", &one.name),
                (&label(&one.schema, &one.name), one.is_required),
            ))
        }
        div.buttons {
            button.primary type="submit" name="decision" value=(word) { "Review the changes" }
            a.button href={ "/console/requests/" (case.id) } { "Back" }
        }
    }
}

/// A member in its place in the answer.
fn placed(name: &str, value: &Value) -> Value {
    Value::Object([(name.to_owned(), value.clone())].into_iter().collect())
}
