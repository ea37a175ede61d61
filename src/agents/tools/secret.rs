//! Secret: values that a file names by environment variable (`${ENV:NAME}`) and that are looked up
//! when they are needed, never kept, never shown.

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
    let mut filled = String::new();
    let mut values = Vec::new();
    let mut parts = text.split(OPEN);
    filled.push_str(parts.next().unwrap_or_default());
    for part in parts {
        let (name, rest) = part.split_once('}').ok_or("a variable has no end")?;
        let value = lookup(name)?;
        filled.push_str(&value);
        filled.push_str(rest);
        values.push(value);
    }
    Ok(Filled { text: filled, values })
}

/// Takes secrets out of what came back: a server may repeat what it was sent.
pub(super) fn scrub(text: &str, values: &[String]) -> String {
    let secrets = values.iter().filter(|value| value.len() >= SCRUBBED_CHARS_MIN);
    secrets.fold(text.to_owned(), |text, secret| text.replace(secret.as_str(), "[secret]"))
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
        assert_eq!(scrub(&told, &filled.into_values()), "you sent [secret]");
    }
}
