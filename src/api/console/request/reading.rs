//! Reading: what is long is not approved before its end was on the screen. This is the page's own care, and
//! no rule of the kernel's: other doors have their own ways of showing.
//!
//! The box at the end of what is decided is ticked by whoever gets there, or by the script once it was in
//! view; with a keyboard or a screen reader as with a wheel, there is no other way to it.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::request::Case;
use crate::api::console::visit::Visit;
use crate::kernel::oversight::chars;
use crate::kernel::{Question, Seen, Verb};

/// More characters than this are more than a screen of a phone, and of many a window.
const LONG_CHARS: u64 = 1_500;
/// A second press of the same button comes sooner than this after the next page is there; nobody reads as fast.
const GLANCE_MS: u64 = 700;
/// The form that the box belongs to, wherever on the page it stands.
pub(super) const FORM: &str = "decide";

fn is_long(question: &Question) -> bool {
    question.decides() && chars(question) > LONG_CHARS
}

/// The box at the end of what is decided, where that is long.
pub(super) fn end(visit: &Visit, case: &Case) -> Markup {
    let is_ticked = visit.fields.get("read") == Some("yes");
    html! {
        @if case.ended.is_none() && is_long(&case.question) {
            p.read-end data-read-end {
                label {
                    input type="checkbox" name="read" value="yes" form=(FORM) checked[is_ticked];
                    " I have read this to its end"
                }
            }
        }
    }
}

/// Why an answer is not taken yet: a yes to what nobody has read.
pub(super) fn refuses(visit: &Visit, question: &Question, value: &Value) -> Option<String> {
    let passes = Verb::of(value).is_none_or(|verb| !verb.is_no());
    let came_next = visit.fields.get("came_next") == Some("yes");
    if passes && came_next && visit.now.0.saturating_sub(shown_at(visit)) < GLANCE_MS {
        let words = "This is the next request, and you answered at once: the press may have been meant for the \
                     one before. Look at it, then decide.";
        return Some(words.into());
    }
    let is_unread = visit.fields.get("read") != Some("yes");
    (passes && is_unread && is_long(question)).then(|| {
        "What you decide is long. Read it to its end and tick the box there; a no can be said at once."
            .to_owned()
    })
}

/// When the page was first shown that the form belongs to.
pub(super) fn shown_at(visit: &Visit) -> u64 {
    let given = visit.fields.given("shown_at").and_then(|text| text.parse().ok());
    given.filter(|at| *at <= visit.now.0).unwrap_or(visit.now.0)
}

/// What whoever sends the form was shown, and for how long. When it was shown is the browser's word: nobody was shown
/// anything before it was asked.
pub(super) fn seen(visit: &Visit, question: &Question) -> Seen {
    let chars = chars(question);
    let since = shown_at(visit).max(question.asked_at.0);
    Seen { chars, ms: visit.now.0.saturating_sub(since) }
}
