//! Secret: a key from the environment, which no log, journal or error ever shows.
//!
//! It has no `Debug`, no `Display` and no `Serialize`, so it cannot be printed by accident; it
//! leaves only as a header that is marked sensitive.

use std::fmt;
use std::sync::Arc;

use http::HeaderValue;

/// What stands where a key stood.
const MASK: &str = "********";

/// A key.
pub(in crate::agents) struct Secret(String);

impl Secret {
    /// The key that was read, if it is one; whitespace around it is a slip of the shell.
    pub(in crate::agents) fn new(key: &str) -> Option<Self> {
        let key = key.trim();
        (!key.is_empty()).then(|| Self(key.to_owned()))
    }

    /// As a header with something before it; none if a header cannot carry it.
    pub(in crate::agents) fn header(&self, before: &str) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(&format!("{before}{}", self.0)).ok()?;
        value.set_sensitive(true);
        Some(value)
    }

    /// A text in which the key does not occur: servers like to repeat what they were sent.
    pub(in crate::agents) fn masked(&self, text: &str) -> String {
        text.replace(&self.0, MASK)
    }
}

type LookUp = dyn Fn(&str) -> Option<String> + Send + Sync;

/// Where keys are looked up by the name of their variable.
#[derive(Clone)]
pub(in crate::agents) struct Environment(Arc<LookUp>);

impl Environment {
    /// Looks keys up with `look_up`.
    pub(in crate::agents) fn new(
        look_up: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(look_up))
    }

    /// The key in the variable `name`, if it is set.
    pub(in crate::agents) fn key(&self, name: &str) -> Option<Secret> {
        (self.0)(name).as_deref().and_then(Secret::new)
    }
}

impl Default for Environment {
    fn default() -> Self {
        Self::new(|name| std::env::var(name).ok())
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Environment")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_leaves_only_as_a_header_that_does_not_show_it() {
        let secret = Secret::new(" sk-1234\n").expect("a key");
        let header = secret.header("Bearer ").expect("a header can carry it");
        assert_eq!(header.as_bytes(), b"Bearer sk-1234");
        assert!(!format!("{header:?}").contains("1234"));
        assert_eq!(secret.masked("no such key: sk-1234!"), "no such key: ********!");
        assert!(Secret::new("a\nb").expect("a key").header("").is_none());
        assert!(Secret::new("  ").is_none());
    }
}
