//! Form: a JSON Schema as fields that people fill in, and what is wrong with what they filled in. Pages and
//! terminals draw the fields each in their own way.
//!
//! What a schema says that no field here can show is written as JSON by hand; the kernel's own check of the
//! whole value is what counts in the end.

mod check;
mod order;
mod shape;

pub(crate) use check::{Complaints, check};
pub(crate) use order::{order, ordered};
pub(crate) use shape::{BUTTONS_MAX, Shape, resolved};

/// Schemas are followed this deep; what lies deeper is written as JSON.
pub(crate) const DEPTH_MAX: usize = 6;

/// One step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The pointer of a member.
pub(crate) fn member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", escaped(name))
}
