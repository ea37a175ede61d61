//! Addresses: those that were typed or set, which may have a password in them; what is said of them has none. Where an
//! address is understood it is told without one by whoever understands it: this is for whatever is refused before that.

use std::env;
use std::ffi::OsString;

use crate::app::config::masked;
use crate::cli::exit::Trouble;

/// Each address that has a secret in it, and the same without.
#[derive(Debug)]
pub(super) struct Addresses(Vec<(String, String)>);

impl Addresses {
    /// Of these words, and of the settings in the environment.
    pub(super) fn of(arguments: &[OsString]) -> Self {
        let typed = arguments.iter().filter_map(|argument| argument.to_str());
        // A flag is named without its value, and a value without its flag.
        let typed = typed.map(|word| match word.split_once('=') {
            Some((flag, value)) if flag.starts_with("--") => value.to_owned(),
            Some(_) | None => word.to_owned(),
        });
        let set = env::vars_os().filter_map(|(name, value)| {
            name.to_str()?.starts_with("HOLDPOINT_").then(|| value.into_string().ok()).flatten()
        });
        let all = typed.chain(set).filter(|address| address.contains("://"));
        let both = all.map(|address| (masked(&address), address));
        Self(both.filter(|(hidden, address)| hidden != address).collect())
    }

    /// Whether there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A text with nobody's password in it.
    pub(super) fn hide(&self, text: &str) -> String {
        let hidden =
            |said: String, (hidden, address): &(String, String)| said.replace(address, hidden);
        self.0.iter().fold(text.to_owned(), hidden)
    }

    /// The same of what is told when a command comes to nothing.
    pub(super) fn hide_in(&self, mut trouble: Trouble) -> Trouble {
        trouble.message = self.hide(&trouble.message);
        trouble.hint = trouble.hint.map(|hint| self.hide(&hint));
        trouble
    }
}
