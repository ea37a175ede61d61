//! Form: a JSON Schema as fields that a person fills in, and the fields as JSON again.
//!
//! A field is named by the JSON pointer of its place, so reading needs nothing but the schema. What a
//! schema says that no field here can show is written as JSON by hand; the server's own check of the
//! whole value is what counts in the end.

mod check;
mod diff;
mod draw;
mod read;
mod shape;

pub(super) use check::{Complaints, check};
pub(super) use diff::{Change, changes};
pub(super) use draw::{Sheet, label};
pub(super) use read::{over, read};
pub(super) use shape::{Shape, resolved};

/// What every field's name begins with.
pub(super) const ROOT: &str = "answer";
/// Schemas are followed this deep; what lies deeper is written as JSON.
const DEPTH_MAX: usize = 6;
/// Items of a list that can be edited one by one; a longer list is written as JSON.
const ITEMS_MAX: usize = 100;

/// One step of a JSON pointer.
fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// The pointer of a member.
pub(super) fn member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", escaped(name))
}
