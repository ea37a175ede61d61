//! Paths: how a frame is called: `notify[3]/send` is step `send` for the fourth item of `notify`.

/// The path of something within.
pub(super) fn under(path: &str, label: &str) -> String {
    if path.is_empty() { label.to_owned() } else { format!("{path}/{label}") }
}

/// The path of one of many: an item of a list, a round of a loop.
pub(super) fn nth(path: &str, index: impl std::fmt::Display) -> String {
    format!("{path}[{index}]")
}

/// What a path is within, and its name there.
pub(super) fn split(path: &str) -> (&str, &str) {
    match path.strip_suffix(']').and_then(|open| open.rsplit_once('[')) {
        Some((parent, index)) => (parent, index),
        None => path.rsplit_once('/').unwrap_or(("", path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_as_it_was_put_together() {
        let item = nth(&under("", "notify"), 3);
        let step = under(&item, "send");
        assert_eq!(step, "notify[3]/send");
        assert_eq!(split(&step), ("notify[3]", "send"));
        assert_eq!(split(&item), ("notify", "3"));
        assert_eq!(split("notify"), ("", "notify"));
    }
}
