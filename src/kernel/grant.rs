//! Grant: what a person allowed for the rest of a run, and what that lets through. Whether a gate heeds it is said
//! in `gate`.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::kernel::said::Vote;
use crate::kernel::time::Millis;

/// Calls that a person allowed for the rest of the run: of one tool, at one gate, within the bounds
/// that they were shown (K10).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Grant {
    /// The gate that asked.
    pub gate: String,
    /// The tool.
    pub tool: String,
    /// The largest number at each place of the arguments that the gate looks at.
    pub bounds: Vec<(String, f64)>,
    /// Which of these places are not told to whoever looks at it.
    pub hidden: BTreeSet<String>,
    /// Who allowed it.
    pub by: String,
    /// Every word that it rests on: theirs, those of whoever had to say the same, and that by which a place was handed to
    /// any of them.
    pub rests_on: Vec<Vote>,
    /// When.
    pub at: Millis,
    /// Until when, if not to the end.
    pub until: Option<Millis>,
}

impl Grant {
    /// What it lets through, in words.
    pub fn words(&self) -> String {
        let bounds = self.bounds.iter().map(|(pointer, most)| {
            let most =
                if self.hidden.contains(pointer) { "•••".into() } else { most.to_string() };
            format!(" with `{pointer}` up to {most}")
        });
        format!("`{}` at gate `{}`{}", self.tool, self.gate, bounds.collect::<String>())
    }

    /// Hides what `is_secret` says of the numbers that it lets through; for a view of it, which lets nothing through.
    pub(super) fn hide(&mut self, is_secret: impl Fn(f64) -> bool) {
        let secret = self.bounds.iter_mut().filter(|(_, most)| is_secret(*most));
        for (pointer, most) in secret {
            self.hidden.insert(pointer.clone());
            *most = f64::NEG_INFINITY;
        }
    }

    /// Whether it still stands at `now`.
    pub fn stands(&self, now: Millis) -> bool {
        self.until.is_none_or(|until| now < until)
    }

    /// Whether it lets a call of `tool` with these arguments through `gate` at `now`.
    pub fn covers(&self, gate: &str, tool: &str, arguments: &Value, now: Millis) -> bool {
        let is_within = |(pointer, most): &(String, f64)| {
            let number = arguments.pointer(pointer).and_then(Value::as_f64);
            number.is_some_and(|number| number <= *most)
        };
        self.gate == gate
            && self.tool == tool
            && self.stands(now)
            && self.bounds.iter().all(is_within)
    }
}
