//! Form: fields on a page for a JSON Schema, and what was filled in as JSON again.
//!
//! A field is named by the JSON pointer of its place, so reading needs nothing but the schema. Which fields
//! a schema asks for, and what is wrong with them, is said in `api/form`.

mod diff;
mod draw;
mod read;

pub(super) use crate::api::form::{Complaints, Shape, check, member, resolved};
pub(super) use diff::{Change, changes};
pub(super) use draw::{Sheet, label};
pub(super) use read::{over, read};

/// What every field's name begins with.
pub(super) const ROOT: &str = "answer";
/// Items of a list that can be edited one by one; a longer list is written as JSON.
const ITEMS_MAX: usize = 100;
