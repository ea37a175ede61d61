//! Refused: that something was refused, where, and by whom. Whether what is asked now is the same, and what follows
//! from that, is decided in `family`.

use serde::{Deserialize, Serialize};

use crate::kernel::id::RunId;
use crate::kernel::time::Millis;

/// That something was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// The run that it was asked in.
    pub run: RunId,
    /// Who refused; `timer` at a deadline.
    pub by: String,
    /// By which word; `expired` or `withdrawn` where nobody said one.
    pub how: String,
    /// When.
    pub at: Millis,
}

impl Refused {
    /// In words.
    pub fn words(&self) -> String {
        let Self { run, by, how, at } = self;
        match how.as_str() {
            "expired" => format!("nobody answered it in run {run} by {}, which is a no", at.date()),
            "withdrawn" => format!("{by} took it back in run {run} on {}", at.date()),
            how => format!("{by} refused it ({how}) in run {run} on {}", at.date()),
        }
    }
}

/// A no, and to what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct No {
    /// What was asked, by `Question::likeness`.
    pub(super) question: String,
    /// The call that waited at a gate, whichever step made it.
    pub(super) call: Option<String>,
    pub(super) refused: Refused,
}
