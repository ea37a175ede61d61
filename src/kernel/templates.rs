//! Templates: texts of a file with `${…}` in them, filled in for a run: what an agent is told to be, what
//! it is told for a step, what a person is asked. A graph's steps fill in their own.

use std::borrow::Cow;

use serde_json::{Value, json};

use crate::kernel::expression::{Expression, Scope, Template};
use crate::kernel::failure::Failure;
use crate::kernel::run::Run;

/// Whether a text has variables in it, or at least the escape for none.
pub fn has_variables(text: &str) -> bool {
    text.contains("${")
}

/// What is known everywhere in a workflow: `input` and `metadata`.
struct Everywhere<'a> {
    input: &'a Value,
    metadata: Value,
}

impl Scope for Everywhere<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        match (name == "input", name == "metadata") {
            (true, _) => Some(self.input),
            (false, true) => Some(&self.metadata),
            (false, false) => None,
        }
    }

    fn step(&self, _id: &str) -> Option<&Value> {
        None
    }
}

/// A text as it is for this run.
pub(super) fn filled<'a>(run: &Run, text: &'a str) -> Result<Cow<'a, str>, Failure> {
    if !has_variables(text) {
        return Ok(Cow::Borrowed(text));
    }
    let metadata = serde_json::to_value(&run.metadata).unwrap_or_default();
    let known = Everywhere { input: &run.input, metadata };
    let filled = Template::parse(text).and_then(|template| template.fill(&known));
    filled.map(Cow::Owned).map_err(|wrong| {
        let what = format!("`{text}` cannot be filled in: {wrong}");
        Failure::new(wrong.code, what)
    })
}

/// Whether a condition over the input, the metadata and the conversation holds in this run.
pub(super) fn holds(run: &Run, condition: &Expression) -> Result<bool, Failure> {
    let metadata = serde_json::to_value(&run.metadata).unwrap_or_default();
    let last = run.conversation.iter().rev().find_map(|message| message.cleaned());
    let (last, author) = last.map(|last| (last.text, last.author)).unwrap_or_default();
    let messages = run.cleaned().len();
    let conversation = json!({"last": last, "author": author, "messages": messages});
    let known = Talk { everywhere: Everywhere { input: &run.input, metadata }, conversation };
    condition.holds(&known).map_err(|wrong| {
        let what = format!("`{}` cannot be worked out: {wrong}", condition.text());
        Failure::new(wrong.code, what)
    })
}

/// What is known where a conversation goes on: `conversation` as well.
struct Talk<'a> {
    everywhere: Everywhere<'a>,
    conversation: Value,
}

impl Scope for Talk<'_> {
    fn variable(&self, name: &str) -> Option<&Value> {
        let own = (name == "conversation").then_some(&self.conversation);
        own.or_else(|| self.everywhere.variable(name))
    }

    fn step(&self, _id: &str) -> Option<&Value> {
        None
    }
}
