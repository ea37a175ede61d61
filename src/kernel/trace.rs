//! Trace: the context of whoever began a run, in W3C's form. Kept with the run, so that what is done
//! for it days later still belongs to the same trace; it changes nothing that the run does.

use serde::{Deserialize, Serialize};

/// What of `tracestate` is kept: W3C asks for no more to be passed on.
const STATE_BYTES_MAX: usize = 512;

/// A place in a trace, as it travels in headers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trace {
    /// W3C's `traceparent`: `00-<trace>-<span>-<flags>`, all in lower-case hex.
    pub parent: String,
    /// W3C's `tracestate`, as it came.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub state: String,
}

impl Trace {
    /// What two headers say; nothing, where they say nothing that can be understood.
    pub fn read(parent: &str, state: &str) -> Option<Self> {
        let parts: Vec<&str> = parent.trim().split('-').collect();
        let [version, trace, span, flags, rest @ ..] = parts.as_slice() else { return None };
        let is_known = *version == "00" && rest.is_empty();
        let is_later = is_hex(version, 2) && *version != "00" && *version != "ff";
        let is_id = |id: &str, chars| is_hex(id, chars) && id.contains(|c| c != '0');
        if !(is_known || is_later) || !is_id(trace, 32) || !is_id(span, 16) || !is_hex(flags, 2) {
            return None;
        }
        let is_state =
            state.len() <= STATE_BYTES_MAX && state.bytes().all(|b| (32..127).contains(&b));
        let state = if is_state { state.trim() } else { "" };
        Some(Self { parent: format!("00-{trace}-{span}-{flags}"), state: state.to_owned() })
    }

    /// The trace's id, in hex.
    pub fn trace_id(&self) -> &str {
        self.parent.split('-').nth(1).unwrap_or_default()
    }

    /// The id of the place in it, in hex.
    pub fn span_id(&self) -> &str {
        self.parent.split('-').nth(2).unwrap_or_default()
    }

    /// Whether whoever began it records it.
    pub fn is_sampled(&self) -> bool {
        let flags = self.parent.rsplit('-').next().unwrap_or_default();
        u8::from_str_radix(flags, 16).is_ok_and(|flags| flags & 1 == 1)
    }
}

fn is_hex(text: &str, chars: usize) -> bool {
    text.len() == chars && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn a_context_is_taken_as_it_comes() {
        let trace = Trace::read(PARENT, "vendor=1").unwrap();
        assert_eq!((trace.parent.as_str(), trace.state.as_str()), (PARENT, "vendor=1"));
        assert_eq!(trace.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(trace.span_id(), "00f067aa0ba902b7");
        assert!(trace.is_sampled());
        assert!(!Trace::read(&PARENT.replace("-01", "-00"), "").unwrap().is_sampled());
        let later = Trace::read(&format!("cc{}-more", PARENT.trim_start_matches("00")), "");
        assert_eq!(later.unwrap().parent, PARENT);
    }

    #[test]
    fn nonsense_is_no_context() {
        for wrong in [
            "",
            "00",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        ] {
            assert_eq!(Trace::read(wrong, ""), None, "{wrong}");
        }
        assert_eq!(Trace::read(PARENT, &"x".repeat(513)).unwrap().state, "");
    }
}
