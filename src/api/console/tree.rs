//! Tree: a JSON value as a tree whose parts fold; every name, number and text as it is. Nothing is left out: what is
//! too large for a tree is JSON, whole.

use maud::{Markup, html};
use serde_json::Value;

use crate::api::console::text;

/// Parts of a tree; a larger value is JSON.
const PARTS_MAX: usize = 2_000;
/// How deep the parts of a large tree stand open at first.
const OPEN_DEPTH: usize = 2;
/// Parts of a tree that stands open whole: what fits on a screen is not folded away.
const SMALL_PARTS: usize = 60;
/// How deep a tree goes; a deeper value is JSON.
const DEPTH_MAX: usize = 20;

/// A value as a tree.
pub(super) fn tree(value: &Value) -> Markup {
    let mut left = PARTS_MAX;
    if !is_small(value, DEPTH_MAX, &mut left) || !has_parts(value) {
        return plain(value);
    }
    let open = if PARTS_MAX - left <= SMALL_PARTS { DEPTH_MAX } else { OPEN_DEPTH };
    html! { div.tree { (part(&html! {}, value, open)) } }
}

/// A value as JSON, laid out.
pub(super) fn plain(value: &Value) -> Markup {
    let text = serde_json::to_string_pretty(value).unwrap_or_default();
    html! { pre.code tabindex="0" { (text::shown(&text)) } }
}

fn has_parts(value: &Value) -> bool {
    match value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(members) => !members.is_empty(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

fn is_small(value: &Value, depth: usize, left: &mut usize) -> bool {
    let (Some(deeper), Some(fewer)) = (depth.checked_sub(1), left.checked_sub(1)) else {
        return false;
    };
    *left = fewer;
    match value {
        Value::Array(items) => items.iter().all(|item| is_small(item, deeper, left)),
        Value::Object(members) => members.values().all(|member| is_small(member, deeper, left)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

/// One part, of which `open` levels stand open.
fn part(label: &Markup, value: &Value, open: usize) -> Markup {
    if !has_parts(value) {
        return html! { div.leaf { (label) (text::shown(&value.to_string())) } };
    }
    let (count, kind) = match value {
        Value::Array(items) => (items.len(), "item"),
        Value::Object(members) => (members.len(), "member"),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => (0, ""),
    };
    html! {
        details open[open > 0] {
            summary { (label) span.quiet { (text::counted(count, kind)) } }
            @match value {
                Value::Array(items) => { @for (place, item) in (1_usize..).zip(items) {
                    (part(&html! { span.quiet { (place) ". " } }, item, open.saturating_sub(1)))
                } }
                Value::Object(members) => { @for (name, member) in members {
                    (part(&html! { span.name { (text::shown(&Value::from(name.as_str()).to_string())) } ": " }, member, open.saturating_sub(1)))
                } }
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_tree_has_every_name_and_value_as_it_is() {
        let value = json!({"to": "<b>\u{202e}", "lines": [{"n": 1.5}, []], "ok": true});
        let page = tree(&value).into_string();
        for part in ["&quot;to&quot;", "&lt;b&gt;", "\\u{202e}", "1.5", "2 items", "true", "[]"] {
            assert!(page.contains(part), "{part}: {page}");
        }
        assert!(!page.contains('\u{202e}'));
    }

    #[test]
    fn what_is_too_large_or_too_deep_for_a_tree_is_json_whole() {
        let wide: Value = (0..5_000).collect();
        assert!(tree(&wide).into_string().contains("4999"));
        assert!(!tree(&wide).into_string().contains("<details"));
        let mut deep = json!("end");
        for _ in 0..60 {
            deep = json!([deep]);
        }
        let page = tree(&deep).into_string();
        assert!(page.contains("end") && !page.contains("<details"));
    }
}
