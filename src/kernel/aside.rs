//! Aside: what is carried beside something that is shown, for those who are shown more of it. It is no part of what it
//! stands beside: it is not stored, not compared, and not told by being looked at.

use std::fmt;
use std::sync::Arc;

/// What is carried, if anything is.
#[derive(Clone)]
pub struct Aside<T>(pub(super) Option<Arc<T>>);

impl<T> Default for Aside<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> fmt::Debug for Aside<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
    }
}

impl<T> PartialEq for Aside<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<T> Eq for Aside<T> {}
