//! Settings: what every provider that is spoken to over HTTP reads in the same way: the name of the
//! variable that holds a key, lengths of time, headers of one's own. No key is ever in here.

use std::collections::BTreeMap;

use http::{HeaderName, HeaderValue};

use crate::kernel::duration_ms;

/// What is wrong: where in the settings, and the remedy.
pub(super) type Wrong = (String, String);

/// Headers of one's own; a gateway wants one or two.
const HEADERS_MAX: usize = 32;
/// What `key_env` says where a server wants no key.
const NO_KEY: &str = "none";
/// Longer is no name of a variable.
const NAME_BYTES_MAX: usize = 128;
/// Headers that carry keys, or belong to the connection or to the trace.
const HEADERS_OURS: [&str; 12] = [
    "authorization",
    "proxy-authorization",
    "x-api-key",
    "api-key",
    "cookie",
    "host",
    "content-type",
    "content-length",
    "transfer-encoding",
    "connection",
    "traceparent",
    "tracestate",
];

/// The variable that `key_env` names; none, where it says that there is no key.
pub(super) fn key_env(given: &str) -> Result<Option<String>, Wrong> {
    if given == NO_KEY {
        return Ok(None);
    }
    let fits = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if !given.is_empty() && given.len() <= NAME_BYTES_MAX && given.chars().all(fits) {
        return Ok(Some(given.to_owned()));
    }
    // What is in the field may be a key after all, so it is not repeated.
    let remedy = "expected the name of an environment variable, in capitals, or `none`; the key \
                  itself does not belong into a file";
    Err(("/key_env".into(), remedy.into()))
}

/// One of the `timeouts`, at most as long as `(most, in words)`.
pub(super) fn timeout(
    name: &str,
    text: Option<&str>,
    default: u64,
    (most, in_words): (u64, &str),
) -> Result<u64, Wrong> {
    let Some(text) = text else { return Ok(default) };
    duration_ms(text).filter(|ms| (1..=most).contains(ms)).ok_or_else(|| {
        let remedy = format!("expected a length of time up to {in_words}: `500ms`, `30s`, `10m`");
        (format!("/timeouts/{name}"), remedy)
    })
}

/// Headers of one's own; those in `ours` are the protocol's.
pub(super) fn headers(
    given: &BTreeMap<String, String>,
    ours: &[&str],
) -> Result<Vec<(HeaderName, HeaderValue)>, Wrong> {
    if given.len() > HEADERS_MAX {
        return Err(("/headers".into(), format!("expected at most {HEADERS_MAX} headers")));
    }
    let read = |(name, value): (&String, &String)| {
        let at = |remedy: &str| (format!("/headers/{name}"), remedy.to_owned());
        let lower = name.to_ascii_lowercase();
        if HEADERS_OURS.contains(&lower.as_str()) || ours.contains(&lower.as_str()) {
            return Err(at("this header is Holdpoint's to send; a key is named in `key_env`"));
        }
        let header =
            HeaderName::from_bytes(name.as_bytes()).map_err(|_| at("this is no header"))?;
        let value = HeaderValue::from_str(value).map_err(|_| at("a header is one line of text"))?;
        Ok((header, value))
    };
    given.iter().map(read).collect()
}
