//! Choice: one thing that a question offers, and what it is called to whoever is not to read its own name. Which
//! of them an answer means is `reading`'s to say.

use serde::{Deserialize, Serialize};

/// One thing that may be chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// What the answer says.
    pub id: String,
    /// What a person reads; the id where empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// More about it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
}

impl Choice {
    /// What a person reads.
    pub fn label(&self) -> &str {
        if self.label.is_empty() { &self.id } else { &self.label }
    }

    /// What it is made of.
    pub(super) fn texts(&mut self) -> [&mut String; 3] {
        [&mut self.id, &mut self.label, &mut self.description]
    }

    /// What names the option at that place to whoever is not to read its id. No other is called that.
    pub(super) fn stand_in(options: &[Self], at: usize) -> String {
        let mut name = format!("option-{}", at + 1);
        let is_taken = |name: &str| options.iter().any(|one| one.id == name || one.label == name);
        while is_taken(&name) {
            name.push('-');
        }
        name
    }
}
