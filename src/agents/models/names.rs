//! Names: what a tool is called on the wire.
//!
//! Providers take letters, digits, `_` and `-`, at most 64 of them; ours may have dots and be
//! longer. The name on the wire follows from the tool's own name alone, so that a conversation
//! reads the same at every turn.

use std::borrow::Cow;

use crate::kernel::{ToolOffer, digest};

/// What every provider takes.
const CHARS_MAX: usize = 64;
/// Enough of a digest that two tools of one agent do not meet.
const DIGEST_CHARS: usize = 8;

/// A tool's name on the wire.
pub(super) fn on_wire(name: &str) -> Cow<'_, str> {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.len() <= CHARS_MAX && name.chars().all(fits) {
        return Cow::Borrowed(name);
    }
    let plain = name.chars().map(|c| if fits(c) { c } else { '_' });
    let mut made: String = plain.take(CHARS_MAX - DIGEST_CHARS - 1).collect();
    made.push('_');
    made.extend(digest::of_bytes(name.as_bytes()).chars().take(DIGEST_CHARS));
    Cow::Owned(made)
}

/// The tool that is meant by a name on the wire. An unknown one stays as it is: the kernel tells
/// the agent that there is no such tool.
pub(super) fn meant(offers: &[ToolOffer], name: &str) -> String {
    let offer = offers.iter().find(|offer| on_wire(&offer.name) == name);
    offer.map_or(name, |offer| offer.name.as_str()).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_name_that_no_provider_takes_comes_back_as_it_was() {
        let long = format!("handoff_to_{}", "a".repeat(64));
        let names = ["search", "time.get_current_time", long.as_str(), "time_get_current_time"];
        let offer = |&name: &&str| ToolOffer {
            name: name.into(),
            description: String::new(),
            parameters: json!({}),
        };
        let offers: Vec<ToolOffer> = names.iter().map(offer).collect();
        for name in names {
            let wire = on_wire(name);
            assert!(wire.len() <= CHARS_MAX && !wire.contains('.'), "{wire}");
            assert_eq!(meant(&offers, &wire), name);
        }
        assert_eq!(meant(&offers, "nobody_offered_this"), "nobody_offered_this");
    }
}
