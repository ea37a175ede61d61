//! Secret: values that a file names by environment variable (`${ENV:NAME}`) and that are looked up
//! when they are needed, never kept, never shown.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE, URL_SAFE_NO_PAD};
use serde_json::Value;

use crate::kernel::placeholder;

/// What stands for a value of the environment.
const OPEN: &str = "${ENV:";
/// Shorter values are words that an honest answer may contain.
const SCRUBBED_CHARS_MIN: usize = 6;

/// A text with the values of its variables filled in. Says nothing of them.
#[derive(Clone)]
pub(super) struct Filled {
    text: String,
    values: Vec<String>,
}

impl std::fmt::Debug for Filled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Filled(…)")
    }
}

impl Filled {
    /// The text, for the one it is meant for.
    pub(super) fn reveal(&self) -> &str {
        &self.text
    }

    /// The values that were filled in.
    pub(super) fn into_values(self) -> Vec<String> {
        self.values
    }
}

/// The names of the variables in a text, or what is wrong with it.
pub(super) fn names(text: &str) -> Result<Vec<&str>, String> {
    let mut names = Vec::new();
    for part in text.split(OPEN).skip(1) {
        let Some((name, _)) = part.split_once('}') else {
            return Err(format!("`{OPEN}` has no end; expected `{OPEN}NAME}}`"));
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(format!("`{name}` is no name of an environment variable"));
        }
        names.push(name);
    }
    Ok(names)
}

/// What is wrong with a text's variables: malformed, or not set.
pub(super) fn check(text: &str) -> Result<(), String> {
    for name in names(text)? {
        lookup(name)?;
    }
    Ok(())
}

/// Fills the variables of a text in.
pub(super) fn fill(text: &str) -> Result<Filled, String> {
    fill_with(text, |plain| Ok(plain.to_owned()))
}

/// The same, with `write` for what lies between the variables. Only the text itself is ever read for
/// variables: neither what `write` makes of its pieces nor the values are.
pub(super) fn fill_with(
    text: &str,
    write: impl Fn(&str) -> Result<String, String>,
) -> Result<Filled, String> {
    let mut filled = String::new();
    let mut values = Vec::new();
    let mut parts = text.split(OPEN);
    filled.push_str(&write(parts.next().unwrap_or_default())?);
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("a variable has no end")?;
        let value = lookup(name)?;
        filled.push_str(&value);
        filled.push_str(&write(rest)?);
        values.push(value);
    }
    Ok(Filled { text: filled, values })
}

/// Takes secrets out of what came back: a server may repeat what it was sent, in one of the spellings
/// that secrets travel in: as they are, in base64, alone or within something longer, and as in URLs.
pub(super) struct Scrub {
    /// The longest first: a spelling may lie within another.
    spellings: Vec<String>,
}

impl std::fmt::Debug for Scrub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Scrub(…)")
    }
}

impl Scrub {
    pub(super) fn new(values: &[String]) -> Self {
        let secrets = values.iter().filter(|value| value.len() >= SCRUBBED_CHARS_MIN);
        let mut spellings: Vec<String> = secrets.flat_map(|secret| spellings(secret)).collect();
        spellings.retain(|spelling| spelling.len() >= SCRUBBED_CHARS_MIN);
        spellings.sort_by(|one, other| other.len().cmp(&one.len()).then_with(|| one.cmp(other)));
        spellings.dedup();
        Self { spellings }
    }

    /// A text without them.
    pub(super) fn text(&self, text: &str) -> String {
        let spellings = self.spellings.iter().filter(|spelling| text.contains(spelling.as_str()));
        spellings.fold(text.to_owned(), |text, spelling| text.replace(spelling, "[secret]"))
    }

    /// A value without them, in its names and in its texts.
    pub(super) fn value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(&text)),
            Value::Array(items) => items.into_iter().map(|item| self.value(item)).collect(),
            Value::Object(fields) => {
                let fields = fields.into_iter();
                fields.map(|(name, value)| (self.text(&name), self.value(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value,
        }
    }
}

/// The ways in which a secret is written.
fn spellings(secret: &str) -> Vec<String> {
    let hex = |write: &dyn Fn(u8) -> String| secret.bytes().map(write).collect::<String>();
    let piece = placeholder::encode(secret);
    let mut all = vec![
        secret.to_owned(),
        lower_hex(&piece),
        piece,
        url::form_urlencoded::byte_serialize(secret.as_bytes()).collect(),
        hex(&|byte| format!("%{byte:02X}")),
        hex(&|byte| format!("%{byte:02x}")),
        STANDARD.encode(secret),
        URL_SAFE.encode(secret),
    ];
    // Within something longer it begins at one of three places of a group, and the characters at its ends
    // are shared with what is around it. Without padding it is the first of these.
    for before in 0..3 {
        let mut bytes = vec![0; before];
        bytes.extend(secret.as_bytes());
        let (from, whole) = ((before * 4).div_ceil(3), bytes.len() * 4 / 3);
        for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
            all.extend(engine.encode(&bytes).get(from..whole).map(str::to_owned));
        }
    }
    all.extend([STANDARD_NO_PAD.encode(secret), URL_SAFE_NO_PAD.encode(secret)]);
    all
}

/// The same text with the digits of its percent-encoding in lower case.
fn lower_hex(encoded: &str) -> String {
    let mut parts = encoded.split('%');
    let mut lower = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (digits, rest) = part.split_at_checked(2).unwrap_or((part, ""));
        lower.push('%');
        lower.push_str(&digits.to_ascii_lowercase());
        lower.push_str(rest);
    }
    lower
}

fn lookup(name: &str) -> Result<String, String> {
    std::env::var(name).ok().filter(|value| !value.is_empty()).ok_or_else(|| {
        format!("the environment variable `{name}` is not set; set it and start again")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_is_named_and_must_be_set() {
        assert_eq!(names("Bearer ${ENV:A_1} ${ENV:B}"), Ok(vec!["A_1", "B"]));
        assert_eq!(names("plain $HOME {x}"), Ok(vec![]));
        for wrong in ["${ENV:A", "${ENV:}", "${ENV:a b}"] {
            assert!(names(wrong).is_err(), "{wrong}");
        }
        let missing = check("${ENV:HOLDPOINT_NO_SUCH_KEY}").unwrap_err();
        assert!(missing.contains("`HOLDPOINT_NO_SUCH_KEY` is not set"), "{missing}");
    }

    #[test]
    fn what_is_filled_in_is_never_shown() {
        // Set for every process that cargo starts.
        let filled = fill("in ${ENV:CARGO_MANIFEST_DIR}").unwrap();
        assert_eq!(filled.reveal(), format!("in {}", env!("CARGO_MANIFEST_DIR")));
        assert_eq!(format!("{filled:?}"), "Filled(…)");
        let told = format!("you sent {}", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(Scrub::new(&filled.into_values()).text(&told), "you sent [secret]");
    }

    #[test]
    fn a_secret_is_found_wherever_it_lies_in_what_is_encoded() {
        let scrub = Scrub::new(&["s3cr?t~~".into()]);
        for before in ["", "u", "us", "user:", "longer name:"] {
            for after in ["", "x", "xy", "xyz"] {
                let told = format!("{before}s3cr?t~~{after}");
                for encoded in [STANDARD.encode(&told), URL_SAFE_NO_PAD.encode(&told)] {
                    assert!(scrub.text(&encoded).contains("[secret]"), "{told}: {encoded}");
                }
            }
        }
        assert_eq!(scrub.text("nothing of it"), "nothing of it");
    }
}
