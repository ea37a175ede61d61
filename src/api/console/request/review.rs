//! Review: what a person has changed, before it is sent: word by word in a text, place by place in a value, and
//! then the whole of what would go on or be done. Nothing is decided here.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::form::{self, Change, ROOT, label, member};
use crate::api::console::request::ask::Member;
use crate::api::console::request::verbs::spelled;
use crate::api::console::request::{Case, Draft};
use crate::api::console::{consequences, text, value};
use crate::api::words::{self, Piece};
use crate::kernel::{Origin, Question, Verb};

/// What is edited, and what becomes of it.
enum Edit {
    /// The arguments of a call, which is then made.
    Arguments,
    /// What an approval is about, which then goes on.
    Subject,
    /// A plan, which is then carried out.
    Plan,
}

impl Edit {
    fn of(question: &Question, word: &str) -> Self {
        match &question.origin {
            _ if word != Verb::Edit.word() => Self::Plan,
            Origin::Gate(_) => Self::Arguments,
            Origin::UserTurn
            | Origin::Directive
            | Origin::ToolCall(_)
            | Origin::HumanStep
            | Origin::LostOutcome(_)
            | Origin::Budget(_)
            | Origin::Phase(_) => Self::Subject,
        }
    }
}

/// The link to the editor.
pub(super) fn offer(question: &Question, word: &str) -> String {
    match Edit::of(question, word) {
        Edit::Subject => "Edit, then approve".into(),
        Edit::Arguments | Edit::Plan => spelled(word),
    }
}

/// What stands above the editor.
pub(super) fn heading(question: &Question, word: &str) -> &'static str {
    match Edit::of(question, word) {
        Edit::Arguments => "Edit the arguments",
        Edit::Subject => "Your own version of what you decide",
        Edit::Plan => "Your own version",
    }
}

/// Every change, and what it comes to.
pub(super) fn review(case: &Case, members: &[Member], draft: &Draft, word: &str) -> Markup {
    let value = |name: &str| draft.value.as_ref().and_then(|value| value.get(name));
    let edit = Edit::of(&case.question, word);
    html! {
        h2 { "Review the changes" }
        @for one in members {
            @if let (Some(original), Some(edited)) = (&one.original, value(&one.name)) {
                @if let (Some(before), Some(after)) = (original.as_str(), edited.as_str()) {
                    div.diff.worded tabindex="0" role="region" aria-label="Changes" { (worded(before, after)) }
                } @else {
                    (diff(&form::changes(original, edited)))
                }
                input type="hidden" name={ "reviewed/" (one.name) } value=(edited.to_string());
                h3 { @match edit {
                    Edit::Arguments => { "Exactly this will be done" }
                    Edit::Subject => { "Exactly this goes on" }
                    Edit::Plan => { "This will be used" }
                } }
                div.deed { @match edit {
                    Edit::Arguments => { (consequences::arguments(edited)) }
                    Edit::Subject | Edit::Plan => { (value::exact(edited)) }
                } }
                @if let Edit::Subject = edit { (asked_anew(&case.question)) }
            } @else if let Some(own) = value(&one.name).and_then(Value::as_str) {
                input type="hidden" name=(member(ROOT, &one.name)) value=(own);
                p { strong { (label(&one.schema, &one.name)) ": " } (text::shown(own)) }
            }
        }
        input type="hidden" name="decision" value=(word);
        div.buttons {
            button.primary type="submit" name="confirmed" value="yes" { @match edit {
                Edit::Arguments => { "Allow it with these changes" }
                Edit::Subject => { "Approve this version" }
                Edit::Plan => { "Use this version" }
            } }
            button type="submit" name="back" value="yes" { "Edit more" }
            a.button href={ "/console/requests/" (case.id) } { "Throw the changes away" }
        }
    }
}

/// What follows where more than one person must agree to a version (K10).
fn asked_anew(question: &Question) -> Markup {
    let needs_others = question.stages.len() > 1 || question.stages.iter().any(|one| one.need > 1);
    html! {
        @if needs_others {
            p.quiet {
                "More people must agree. They are asked anew, about this version"
                @if question.votes.is_empty() { "." } @else { "; what was said to the one before counts for nothing." }
            }
        }
    }
}

/// Texts in one, with what is gone and what is new.
fn worded(before: &str, after: &str) -> Markup {
    html! {
        span.prose {
            @for piece in words::changes(before, after) {
                @match piece {
                    Piece::Same(text) => { (text::shown(text)) }
                    Piece::Gone(text) => { del { (text::shown(&ends(text))) } }
                    Piece::New(text) => { ins { (text::shown(&ends(text))) } }
                }
            }
        }
    }
}

/// Texts beside one another: what is gone is marked in the one, what is new in the other.
fn sided(before: &str, after: &str) -> (Markup, Markup) {
    let pieces = words::changes(before, after);
    let old = html! { span.prose { @for piece in &pieces { @match piece {
        Piece::Same(text) => { (text::shown(text)) }
        Piece::Gone(text) => { del { (text::shown(&ends(text))) } }
        Piece::New(_) => {}
    } } } };
    let new = html! { span.prose { @for piece in &pieces { @match piece {
        Piece::Same(text) => { (text::shown(text)) }
        Piece::New(text) => { ins { (text::shown(&ends(text))) } }
        Piece::Gone(_) => {}
    } } } };
    (old, new)
}

/// The end of a line that came or went can be seen.
fn ends(text: &str) -> String {
    text.replace('\n', "⏎\n")
}

fn diff(changes: &[Change]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Changes" { table.diff {
            thead { tr { th scope="col" { "Where" } th scope="col" { "Before" } th scope="col" { "After" } } }
            tbody {
                @for change in changes {
                    tr {
                        th scope="row" { code { (text::shown(change.at.trim_start_matches('/'))) } }
                        @if let (Some(Value::String(before)), Some(Value::String(after))) = (&change.before, &change.after) {
                            @let (before, after) = sided(before, after);
                            td.before { (before) }
                            td.after { (after) }
                        } @else {
                            td.before { @match &change.before { Some(value) => { del { (value::exact(value)) } } None => { "not there" } } }
                            td.after { @match &change.after { Some(value) => { ins { (value::exact(value)) } } None => { "taken away" } } }
                        }
                    }
                }
            }
        } }
    }
}
