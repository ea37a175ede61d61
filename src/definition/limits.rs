//! Limits: how large parts of a file may be, where more than one reader of it must know. Whether a file keeps
//! to them is found out in `check`.

/// A name is a key in the store, a word in every log and a part of tool names.
pub(super) const NAME_CHARS_MAX: usize = 64;
