//! Naming: by what an answer can name an open question, for whoever named none. How a name is read is `binding`'s.

use crate::kernel::verb::Verb;

/// An open question, and by what an answer can name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Naming {
    /// Its id.
    pub request: String,
    /// What is asked.
    pub prompt: String,
    /// Its code, where it has one.
    pub code: String,
    /// What may be said to it.
    pub verbs: Vec<Verb>,
}

/// What whoever says words alone is told: how each of them is named.
pub(super) fn unbound(open: &[Naming]) -> String {
    let name = |one: &Naming| match (one.code.as_str(), one.verbs.first()) {
        ("", _) | (_, None) => format!("`{}`", one.request),
        (code, Some(verb)) => format!("`{}` (say `{} {code}`)", one.request, verb.word()),
    };
    let open: Vec<_> = open.iter().map(name).collect();
    format!(
        "a decision is open, and words alone decide nothing; answer it by its request id, its digest or its code: {}",
        open.join(", ")
    )
}
