//! Nested: what things are called in a workflow that is a step of another: their names begin with the step's. A rule or
//! a halt that names a tool means it there as well. It says nothing of what a rule does.

/// What stands between a step's name and a name within it.
const BETWEEN: &str = "__";

/// Whether what is called so is what `name` means, itself or within a step.
pub(super) fn is_called(called: &str, name: &str) -> bool {
    called == name || called.strip_suffix(name).is_some_and(|before| before.ends_with(BETWEEN))
}

/// Whether what is called so is within a step of that name.
pub(super) fn is_within(called: &str, step: &str) -> bool {
    let mut names: Vec<_> = called.split(BETWEEN).collect();
    names.pop();
    names.contains(&step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_itself_and_what_is_called_so_within_a_step() {
        assert!(is_called("pay", "pay") && is_called("inner__pay", "pay"));
        assert!(is_called("outer__inner__pay", "inner__pay"));
        assert!(!is_called("repay", "pay") && !is_called("inner__pay", "inner"));
        assert!(is_within("outer__inner__pay", "inner") && is_within("inner__pay", "inner"));
        assert!(!is_within("pay", "pay") && !is_within("inner__pay", "pay"));
    }
}
