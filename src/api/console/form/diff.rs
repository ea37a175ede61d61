//! Diff: what a person changed, place by place.

use serde_json::Value;

use crate::api::console::form::member;

/// One change: where, what was there, and what is there now.
#[derive(Debug, Clone, PartialEq)]
pub(in crate::api::console) struct Change {
    pub(in crate::api::console) at: String,
    pub(in crate::api::console) before: Option<Value>,
    pub(in crate::api::console) after: Option<Value>,
}

/// What turns `before` into `after`.
pub(in crate::api::console) fn changes(before: &Value, after: &Value) -> Vec<Change> {
    let mut found = Vec::new();
    compare(Some(before), Some(after), "", &mut found);
    found
}

fn compare(before: Option<&Value>, after: Option<&Value>, at: &str, found: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(old)), Some(Value::Object(new))) => {
            let added = new.keys().filter(|name| !old.contains_key(*name));
            for name in old.keys().chain(added) {
                compare(old.get(name), new.get(name), &member(at, name), found);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) => {
            for (before, after) in beside(old, new) {
                let index = before.or(after).unwrap_or_default();
                let (before, after) = (before.map(|at| &old[at]), after.map(|at| &new[at]));
                compare(before, after, &format!("{at}/{index}"), found);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            found.push(Change {
                at: at.to_owned(),
                before: before.cloned(),
                after: after.cloned(),
            });
        }
    }
}

/// Items that are set beside one another; in longer lists they are, place by place.
const ITEMS_MAX: usize = 100;

/// Which items of two lists belong together, so that one that is taken away does not make all that
/// follow look changed. Places are of the old list where there is one, else of the new.
fn beside(old: &[Value], new: &[Value]) -> Vec<(Option<usize>, Option<usize>)> {
    let mut rows = Vec::new();
    let (mut from, mut to) = (0, 0);
    let kept = if old.len().max(new.len()) > ITEMS_MAX { Vec::new() } else { kept(old, new) };
    for (before, after) in kept.into_iter().chain([(old.len(), new.len())]) {
        // What lies between two that belong together is set beside each other in order.
        while from < before || to < after {
            rows.push(((from < before).then_some(from), (to < after).then_some(to)));
            (from, to) = ((from + 1).min(before), (to + 1).min(after));
        }
        if before < old.len() && after < new.len() {
            rows.push((Some(before), Some(after)));
        }
        (from, to) = (before + 1, after + 1);
    }
    rows
}

/// The pairs of like items, in order, that are most alike together.
fn kept(old: &[Value], new: &[Value]) -> Vec<(usize, usize)> {
    // The best that can be had of what follows each place.
    let mut best = vec![vec![0_u32; new.len() + 1]; old.len() + 1];
    for (before, one) in old.iter().enumerate().rev() {
        for (after, other) in new.iter().enumerate().rev() {
            let likeness = likeness(one, other);
            let both = if likeness == 0 { 0 } else { likeness + best[before + 1][after + 1] };
            best[before][after] = both.max(best[before + 1][after]).max(best[before][after + 1]);
        }
    }
    let (mut before, mut after, mut pairs) = (0, 0, Vec::new());
    while before < old.len() && after < new.len() {
        let whole = best[before][after];
        if whole == best[before + 1][after] {
            before += 1;
        } else if whole == best[before][after + 1] {
            after += 1;
        } else {
            pairs.push((before, after));
            (before, after) = (before + 1, after + 1);
        }
    }
    pairs
}

/// How much two items are alike: the same, or with something in common.
fn likeness(one: &Value, other: &Value) -> u32 {
    if one == other {
        return 3;
    }
    let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return 0 };
    let has_shared = one.iter().any(|(name, value)| other.get(name) == Some(value));
    u32::from(has_shared)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_told() {
        let told = changes(
            &json!({"to": "a", "n": 1, "l": [1, 2], "gone": true}),
            &json!({"to": "b", "n": 1, "l": [1], "new": null}),
        );
        let places: Vec<_> = told.iter().map(|change| change.at.as_str()).collect();
        assert_eq!(places, ["/to", "/l/1", "/gone", "/new"]);
        assert_eq!(told[0].before, Some(json!("a")));
        assert_eq!(told[3].after, Some(json!(null)));
        assert!(changes(&json!([{"a": 1}]), &json!([{"a": 1}])).is_empty());
    }

    #[test]
    fn an_item_that_is_taken_away_leaves_the_others_as_they_were() {
        let step = |title: &str, details: &str| json!({"title": title, "details": details});
        let before = json!([step("Analyse", "Measure."), step("Report", "In words.")]);
        let after = json!([step("Report", "In figures."), step("Explain", "To all.")]);
        let told = changes(&before, &after);
        let told: Vec<_> = told
            .iter()
            .map(|one| (one.at.as_str(), one.before.is_some(), one.after.is_some()))
            .collect();
        assert_eq!(
            told,
            [("/0", true, false), ("/1/details", true, true), ("/1", false, true)],
            "taken away, changed, new"
        );
        let words = changes(&json!(["a", "b", "c"]), &json!(["a", "x", "c", "d"]));
        let places: Vec<_> = words.iter().map(|change| change.at.as_str()).collect();
        assert_eq!(places, ["/1", "/3"]);
        assert!(changes(&json!([]), &json!([1]))[0].before.is_none());
    }
}
