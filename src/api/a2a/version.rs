//! Version: which version of the protocol is spoken, and the no to any other. 0.3 has both of its own (`v03`).

use crate::api::a2a::errors::{Outcome, Problem};

/// The version of the protocol that is spoken.
pub(super) const PROTOCOL: &str = "1.0";

/// Refuses a version that is not spoken here: one says `Major.Minor`; nothing said means 0.3, as the protocol has it.
pub(super) fn check(given: Option<&str>) -> Outcome<()> {
    let given = given.map(str::trim).filter(|text| !text.is_empty()).unwrap_or("0.3");
    let mut numbers = given.split('.');
    if (numbers.next(), numbers.next()) == (Some("1"), Some("0")) {
        return Ok(());
    }
    Err(Problem::version(given, PROTOCOL))
}
