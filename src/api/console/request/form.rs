//! Form: a question's form as HTML. Whatever can be decided with one press is a button.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::form::{self, Change, ROOT, Shape, Sheet, label, member, resolved};
use crate::api::console::request::ask::{Ask, Deed, EDITS, Member};
use crate::api::console::request::{Case, Draft, reading};
use crate::api::console::visit::Visit;
use crate::api::console::{outlook, text};
use crate::kernel::Verb;

/// Choices beyond this many are a list to open.
const BUTTONS_MAX: usize = 12;

/// The form of an open question.
pub(super) fn form(visit: &Visit, case: &Case, draft: &Draft) -> Markup {
    let ask = Ask::of(&case.question);
    let inner = match (&ask, &draft.editing) {
        (Ask::Decision { members, .. }, Some(word)) if EDITS.contains(&word.as_str()) => {
            if draft.is_review {
                review(case, members, draft, word)
            } else {
                editor(case, members, draft, word)
            }
        }
        (Ask::Decision { decisions, members }, _) => decision(case, decisions, members, draft),
        (Ask::Options(_) | Ask::Turn | Ask::Outcome | Ask::Value, _) => simple(case, &ask, draft),
    };
    html! {
        form.answer id=(reading::FORM) method="post" action={ "/console/requests/" (case.id) } novalidate {
            input type="hidden" name="shown_at" value=(reading::shown_at(visit));
            input type="hidden" name="digest" value=(case.question.digest);
            input type="hidden" name="key" value=(visit.engine().fresh_key());
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

fn decision(case: &Case, decisions: &[Deed], members: &[Member], draft: &Draft) -> Markup {
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
                    a.button href={ "/console/requests/" (case.id) "?edit=" (word) } { (spelled(word)) "…" }
                } @else {
                    button class=(look(word)) type="submit" name="decision" value=(word) { (spelled(word)) }
                }
            }
        }
    }
}

fn editor(case: &Case, members: &[Member], draft: &Draft, word: &str) -> Markup {
    html! {
        h2 { (heading(word)) }
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

fn review(case: &Case, members: &[Member], draft: &Draft, word: &str) -> Markup {
    let value = |name: &str| draft.value.as_ref().and_then(|value| value.get(name));
    html! {
        h2 { "Review the changes" }
        @for one in members {
            @if let (Some(original), Some(edited)) = (&one.original, value(&one.name)) {
                (diff(&form::changes(original, edited)))
                input type="hidden" name={ "reviewed/" (one.name) } value=(edited.to_string());
                h3 { @if word == Verb::Edit.word() { "Exactly this will be done" } @else { "This will be used" } }
                div.deed { @if word == Verb::Edit.word() { (outlook::arguments(edited)) } @else { (text::value(edited)) } }
            } @else if let Some(own) = value(&one.name).and_then(Value::as_str) {
                input type="hidden" name=(member(ROOT, &one.name)) value=(own);
                p { strong { (label(&one.schema, &one.name)) ": " } (text::shown(own)) }
            }
        }
        input type="hidden" name="decision" value=(word);
        div.buttons {
            button.primary type="submit" name="confirmed" value="yes" { (confirmation(word)) }
            button type="submit" name="back" value="yes" { "Edit more" }
            a.button href={ "/console/requests/" (case.id) } { "Throw the changes away" }
        }
    }
}

fn diff(changes: &[Change]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changes" { table.diff {
            thead { tr { th scope="col" { "Where" } th scope="col" { "Before" } th scope="col" { "After" } } }
            tbody {
                @for change in changes {
                    tr {
                        th scope="row" { code { (text::shown(change.at.trim_start_matches('/'))) } }
                        td.before { @match &change.before { Some(value) => { del { (text::value(value)) } } None => { "not there" } } }
                        td.after { @match &change.after { Some(value) => { ins { (text::value(value)) } } None => { "taken away" } } }
                    }
                }
            }
        } }
    }
}

/// A decision as a button says it.
pub(in crate::api::console) fn spelled(word: &str) -> String {
    match Verb::parse(word) {
        Some(Verb::AllowForRun) => "Allow for the rest of the run".into(),
        Some(Verb::Edit) => "Edit, then allow".into(),
        Some(Verb::Revise) => "Ask for another version".into(),
        Some(Verb::Modify) => "Use my own version".into(),
        Some(Verb::Return) => "Return with a note".into(),
        Some(_) | None => text::words(word),
    }
}

fn heading(word: &str) -> &'static str {
    if word == Verb::Edit.word() { "Edit the arguments" } else { "Your own version" }
}

fn confirmation(word: &str) -> &'static str {
    if word == Verb::Edit.word() { "Allow it with these changes" } else { "Use this version" }
}

fn look(word: &str) -> &'static str {
    match Verb::parse(word) {
        Some(Verb::Approve | Verb::AllowOnce | Verb::Continue) => "primary",
        Some(Verb::Reject | Verb::Deny | Verb::Abort) => "danger",
        Some(_) | None => "plain",
    }
}
