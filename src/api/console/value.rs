//! Value: values that others gave, as a person reads them: facts as a list, a text laid out, the rest as a tree.
//! Where exactly these letters count (what is changed, what a tool is sent), a text stays as it was written.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::text::{shown, words};
use crate::api::console::{markdown, tree};
use crate::kernel::Verb;

/// How deep facts are laid out; what lies deeper is a tree.
const DEPTH_MAX: usize = 4;

/// A value as a person reads it; a text with its marks laid out, and its source beside it.
pub(super) fn value(value: &Value) -> Markup {
    match value {
        Value::String(text) => markdown::text(text),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
            exact(value)
        }
    }
}

/// A value as a person reads it, with every text as it is.
pub(super) fn exact(value: &Value) -> Markup {
    laid_out(value, 0)
}

fn laid_out(value: &Value, depth: usize) -> Markup {
    match value {
        Value::Null => html! { span.quiet { "nothing" } },
        Value::String(text) => html! { span.prose { (shown(text)) } },
        Value::Bool(_) | Value::Number(_) => html! { code { (value.to_string()) } },
        Value::Object(map) if !map.is_empty() && depth < DEPTH_MAX => html! {
            dl.facts {
                @for (name, fact) in map {
                    div { dt { (shown(name)) } dd { (laid_out(fact, depth + 1)) } }
                }
            }
        },
        Value::Array(items) if !items.is_empty() && items.iter().all(Value::is_string) => html! {
            ul.plain { @for item in items { li { (laid_out(item, depth + 1)) } } }
        },
        Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => html! {
            ol.plain { @for item in items { li { (laid_out(item, depth + 1)) } } }
        },
        Value::Object(_) | Value::Array(_) => tree::tree(value),
    }
}

/// An answer as a person reads it: a decision as a word, with what was said beside it.
pub(super) fn answer(answer: &Value) -> Markup {
    let Some(members) = answer.as_object() else { return value(answer) };
    let word = ["decision", "verb"].into_iter().find_map(|name| members.get(name)?.as_str());
    let Some(word) = word else { return value(answer) };
    let rest = members.iter().filter(|(name, _)| !["decision", "verb"].contains(&name.as_str()));
    let class = match Verb::parse(word) {
        Some(Verb::Edit) => "yes",
        Some(verb) if verb.lets_pass() => "yes",
        Some(Verb::Reject | Verb::Deny | Verb::Abort | Verb::Return) => "no",
        Some(_) | None => "other",
    };
    html! {
        p.verdict { span class={ "word " (class) } { (words(word)) } }
        @for (name, said) in rest {
            @match said {
                Value::String(said) if name == "note" => { div.note { (markdown::text(said)) } }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
                    h4 { (shown(&words(name))) } (value(said))
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_in_values_stays_text() {
        let value = serde_json::json!({"<img src=x>": "<script>alert(1)</script>", "n": [1, {}]});
        let text = self::value(&value).into_string();
        assert!(!text.contains("<script") && !text.contains("<img"), "{text}");
    }

    #[test]
    fn a_text_alone_is_laid_out_and_one_among_facts_stays_as_it_is() {
        assert!(
            value(&serde_json::json!("**pay**")).into_string().contains("<strong>pay</strong>")
        );
        let facts = value(&serde_json::json!({"text": "**pay**"})).into_string();
        assert!(facts.contains("**pay**") && !facts.contains("<strong>"), "{facts}");
    }
}
