//! Layers: who said what a setting is: a flag, a variable, the settings file, or nobody.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::Args as _;

use crate::app::config_error::ConfigError;
use crate::app::settings::{FILE, Origin, Settings};
use crate::definition::nearest_within;

/// What each variable of ours begins with.
const PREFIX: &str = "HOLDPOINT_";
/// Letters by which a variable's name is another's by a slip: fewer in short ones.
const LETTERS_MAX: usize = 2;
/// Letters with which a setting's name must begin to be meant by them alone.
const BEGINNING_MIN: usize = 3;
/// What people write behind a setting's name to say what it holds.
const KINDS: [&str; 10] =
    ["addr", "address", "dir", "directory", "file", "folder", "name", "path", "uri", "url"];
/// How often a head is signed: a proof is there while somebody still looks at the page.
const AUDIT_SECONDS: &str = "5";
/// A head a day is the least that a witness can make anything of.
const AUDIT_SECONDS_MAX: u64 = 86_400;

/// What stands for the flag `--store` of `audit`, which has no value and names no database.
pub const OWN_LOG: &str = "the store's own log";

/// What is not to be lost by a value that did not come, and what is expected there.
const LOST: [(&str, &str); 6] = [
    ("store", "the address of a database; unset it to keep everything in the data directory"),
    ("policy", "a file of rules; unset it to have none"),
    ("keys", "a file of API keys; unset it for that in the data directory"),
    ("environment", "a word such as `production`, by which gates ask; unset it to have none"),
    ("four_eyes", "`true` or `false`"),
    ("assurance", "`proven` or `vouched`"),
];

/// What no empty text is, where it is typed or stands in the file.
const NEVER_NOTHING: [(&str, &str); 7] = [
    ("api_key", "a key; without the setting none is shown"),
    ("environment", "a word such as `production`: gates ask by it"),
    ("data", "the path of a directory"),
    ("workflows", "the path of a directory"),
    ("log", "a filter such as `info`; `off` writes no log"),
    ("record_inputs", "the path of a file"),
    ("push_allow", "names of hosts, by commas; without the setting there are none"),
];

/// How logs are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line, for collectors.
    Json,
}

impl LogFormat {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

pub(super) fn log_format(text: &str) -> Option<LogFormat> {
    [LogFormat::Text, LogFormat::Json].into_iter().find(|format| format.word() == text)
}

/// Who signs the heads of the log of decisions, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Audit {
    /// The key, if one was named.
    pub key: Option<PathBuf>,
    /// The key before it, if it was changed.
    pub key_before: Option<PathBuf>,
    /// The command that signs instead of us.
    pub signer: Option<String>,
    /// The command that signed before, if the key was changed.
    pub signer_before: Option<String>,
    /// How often.
    pub seconds: u64,
}

/// Everything that was said, the first before the last.
pub(super) struct Layers<'a> {
    pub(super) flags: &'a Settings,
    pub(super) env: &'a dyn Fn(&str) -> Option<String>,
    pub(super) file: Option<&'a (PathBuf, Settings)>,
    pub(super) origins: BTreeMap<&'static str, Origin>,
}

/// Refuses variables that are called nearly like a setting. The settings file refuses whatever it does not know; of variables
/// others have some that begin as ours do, such as those that clusters set for each of their services.
pub(crate) fn refuse_misspelt(variables: impl Iterator<Item = String>) -> Result<(), ConfigError> {
    let mut known = all();
    known.extend(["config", "failpoint"].map(str::to_owned));
    for variable in variables {
        let upper = variable.to_uppercase();
        let Some(name) = upper.strip_prefix(PREFIX).map(str::to_lowercase) else {
            if let Some(meant) = of_other_prefix(&upper, &known) {
                return Err(ConfigError::Misspelt { variable, meant: meant.to_owned() });
            }
            continue;
        };
        if known.contains(&name) && variable == self::variable(&name) {
            continue;
        }
        if let Some(meant) = meant_by(&name, &known) {
            return Err(ConfigError::Misspelt { variable, meant: meant.to_owned() });
        }
    }
    Ok(())
}

/// The setting of a variable whose beginning is not quite ours: `HOLPOINT_KEYS`, `HOLDPOINTKEYS`.
fn of_other_prefix<'a>(upper: &str, known: &'a [String]) -> Option<&'a str> {
    let bare = |text: &str| text.replace(['_', '-', ' '], "").to_uppercase();
    let whole = bare(upper);
    let is_joined = |known: &&String| whole.strip_prefix(&bare(PREFIX)) == Some(&bare(known));
    let is_named = |known: &&String| {
        let head = upper.strip_suffix(&known.to_uppercase());
        let head = head.and_then(|head| head.strip_suffix('_'));
        head.is_some_and(|head| {
            nearest_within(head, [bare(PREFIX).as_str()], LETTERS_MAX).is_some()
        })
    };
    known.iter().find(|known| is_joined(known) || is_named(known)).map(String::as_str)
}

/// Each setting that one value says.
fn all() -> Vec<String> {
    let bare = Settings::augment_args(clap::Command::new("settings"));
    bare.get_arguments().map(|setting| setting.get_id().to_string()).collect()
}

/// The setting that a name stands near enough to be a slip, and nothing more: others' words are refused by nobody.
fn meant_by<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    // `policy_file` and `datadir` are the setting, and what it is of.
    let bare = KINDS.iter().find_map(|kind| name.strip_suffix(kind));
    let bare = bare.map(|bare| bare.trim_end_matches('_')).filter(|bare| !bare.is_empty());
    let is_known = |bare: &&str| known.iter().any(|known| known == bare);
    let exactly = bare.filter(is_known).and_then(|bare| known.iter().find(|known| *known == bare));
    exactly.map(String::as_str).or_else(|| near(name, known)).or_else(|| near(bare?, known))
}

/// The setting that is called so but for some letters, or that begins so: `env`.
fn near<'a>(name: &str, known: &'a [String]) -> Option<&'a str> {
    let letters = |text: &str| {
        let mut letters: Vec<_> = text.chars().collect();
        letters.sort_unstable();
        letters
    };
    let is_beginning = |known: &str| name.len() >= BEGINNING_MIN && known.starts_with(name);
    let known = || known.iter().map(String::as_str);
    let bound = LETTERS_MAX.min(name.chars().count() / 3);
    let swapped = known().find(|known| letters(known) == letters(name));
    let mistyped = || nearest_within(name, known(), bound);
    swapped.or_else(mistyped).or_else(|| known().find(|known| is_beginning(known)))
}

impl Layers<'_> {
    fn find(&mut self, name: &'static str) -> Option<(String, Origin)> {
        let flag = self.flags.get(name).map(|text| (text, Origin::Flag));
        let flag = flag.filter(|(text, _)| name != "store" || text != OWN_LOG);
        let env = || said(self.env, name).map(|text| (text, Origin::Env));
        let file = || self.file.and_then(|(_, file)| file.get(name)).map(|it| (it, Origin::File));
        let found = flag.or_else(env).or_else(file);
        self.origins.insert(name, found.as_ref().map_or(Origin::Default, |(_, origin)| *origin));
        found
    }

    pub(super) fn text(&mut self, name: &'static str) -> Option<String> {
        self.find(name).map(|(text, _)| text)
    }

    /// A path in the settings file is meant from where that file is, not from where we stand.
    pub(super) fn path(&mut self, name: &'static str) -> Option<PathBuf> {
        let (text, origin) = self.find(name)?;
        let folder = self.file.and_then(|(path, _)| path.parent());
        match (origin, folder) {
            (Origin::File, Some(folder)) => Some(folder.join(text)),
            (Origin::Flag | Origin::Env | Origin::File | Origin::Default, _) => Some(text.into()),
        }
    }

    /// Refuses settings that were set to nothing, where going on without them would leave out what was meant: a value
    /// that was lost on its way here is no wish for the other store, or for no rules.
    pub(super) fn refuse_lost(&self) -> Result<(), ConfigError> {
        self.refuse_blank()?;
        for (name, expected) in NEVER_NOTHING {
            let file = self.file.and_then(|(_, file)| file.get(name));
            let said = [(self.flags.get(name), Origin::Flag), (file, Origin::File)];
            if let Some((_, origin)) =
                said.iter().find(|(text, _)| text.as_deref().map(str::trim) == Some(""))
            {
                let place = place(name, *origin, self.file.map(|(path, _)| path.as_path()));
                return Err(ConfigError::Bad { place, value: String::new(), expected });
            }
        }
        for (name, expected) in LOST {
            let file = self.file.and_then(|(_, file)| file.get(name));
            let flag = self.flags.get(name).filter(|text| name != "store" || text != OWN_LOG);
            let said = [
                (flag, Origin::Flag),
                ((self.env)(&variable(name)), Origin::Env),
                (file, Origin::File),
            ];
            let is_named =
                |(text, _): &(Option<String>, _)| text.as_ref().is_some_and(|it| !it.is_empty());
            let is_lost = |(text, _): &&(Option<String>, Origin)| text.as_deref() == Some("");
            if let (false, Some((_, origin))) =
                (said.iter().any(is_named), said.iter().find(is_lost))
            {
                let place = place(name, *origin, self.file.map(|(path, _)| path.as_path()));
                return Err(ConfigError::Bad { place, value: String::new(), expected });
            }
        }
        Ok(())
    }

    /// Refuses values of nothing but blanks, whoever said them: they are no wish, and would be taken for a name.
    fn refuse_blank(&self) -> Result<(), ConfigError> {
        // Of a secret of nothing but blanks whoever signs with it says what is to be done.
        for name in all().into_iter().filter(|name| name != "webhook_secret") {
            let file = self.file.and_then(|(_, file)| file.get(&name));
            let said = [
                (self.flags.get(&name), Origin::Flag),
                ((self.env)(&variable(&name)), Origin::Env),
                (file, Origin::File),
            ];
            let is_blank = |text: &str| !text.is_empty() && text.trim().is_empty();
            let blank = said.into_iter().find(|(text, _)| text.as_deref().is_some_and(is_blank));
            if let Some((Some(value), origin)) = blank {
                let place = place(&name, origin, self.file.map(|(path, _)| path.as_path()));
                let expected = "a value, but blanks; leave it out to have none";
                return Err(ConfigError::Bad { place, value, expected });
            }
        }
        Ok(())
    }

    /// Who signs, and how often.
    pub(super) fn audit(&mut self) -> Result<Audit, ConfigError> {
        let expected = "a number of seconds from 1 to 86400";
        let seconds = self.parsed("audit_seconds", AUDIT_SECONDS, expected, |text| {
            text.parse().ok().filter(|seconds| (1..=AUDIT_SECONDS_MAX).contains(seconds))
        })?;
        let (key, key_before) = (self.path("audit_key"), self.path("audit_key_before"));
        let (signer, signer_before) = (self.text("audit_signer"), self.text("audit_signer_before"));
        Ok(Audit { key, key_before, signer, signer_before, seconds })
    }

    pub(super) fn optional<T>(
        &mut self,
        name: &'static str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, ConfigError> {
        let Some((value, origin)) = self.find(name) else { return Ok(None) };
        let file = self.file.map(|(path, _)| path.as_path());
        if let Some(parsed) = parse(&value) {
            return Ok(Some(parsed));
        }
        let (place, value) = (place(name, origin, file), without_secrets(&value));
        Err(ConfigError::Bad { place, value, expected })
    }

    pub(super) fn parsed<T>(
        &mut self,
        name: &'static str,
        default: &str,
        expected: &'static str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<T, ConfigError> {
        let found = self.optional(name, expected, &parse)?;
        Ok(found.or_else(|| parse(default)).expect("a default parses"))
    }
}

/// A variable that is set to nothing is not set: that is how shells and unit files clear one. What is not to be lost
/// so is refused by name ([`Layers::refuse_lost`]).
pub(super) fn said(env: &dyn Fn(&str) -> Option<String>, name: &str) -> Option<String> {
    env(&variable(name)).filter(|text| !text.is_empty())
}

fn variable(name: &str) -> String {
    format!("{PREFIX}{}", name.to_uppercase())
}

pub(super) fn place(name: &str, origin: Origin, file: Option<&Path>) -> String {
    match origin {
        Origin::Flag => format!("--{}", name.replace('_', "-")),
        Origin::Env => variable(name),
        Origin::File => {
            format!("`{name}` in {}", file.unwrap_or_else(|| Path::new(FILE)).display())
        }
        Origin::Default => "default".into(),
    }
}

/// Names of hosts by commas, or `*` for all. Anything else would match none, and be passed over.
pub(super) fn hosts(text: &str) -> Option<Vec<String>> {
    let is_host = |name: &String| {
        let authority = name.parse::<http::uri::Authority>();
        name == "*" || authority.is_ok_and(|it| it.host() == name)
    };
    let listed = names(text);
    (!listed.is_empty() && listed.iter().all(is_host)).then_some(listed)
}

/// Names by commas.
pub(super) fn names(text: &str) -> Vec<String> {
    let listed = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    listed.map(str::to_owned).collect()
}

/// An address with nobody's password in it.
pub(crate) fn masked(address: &str) -> String {
    masked_where(address, |name| name.to_ascii_lowercase().contains("pass"))
}

/// An address that others made up, with nothing in it that may be a secret: whatever it says of itself behind `?`.
pub(super) fn masked_whole(address: &str) -> String {
    masked_where(address, |_| true)
}

/// What was said where something else was expected: an address may have a password in it, whether it is one or not.
fn without_secrets(text: &str) -> String {
    if text.contains("://") {
        return masked_whole(text);
    }
    match text.rsplit_once('@') {
        Some((_, host)) => format!("********@{host}"),
        None => text.to_owned(),
    }
}

fn masked_where(address: &str, is_secret: impl Fn(&str) -> bool) -> String {
    let Some((scheme, rest)) = address.split_once("://") else {
        // The form with spaces has its password anywhere, and one that is mistyped may have.
        let has_one = address.contains("password") || address.contains('@');
        return if has_one { "********".into() } else { address.to_owned() };
    };
    let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
    let place = match place.rsplit_once('@') {
        Some((_, host)) => format!("********@{host}"),
        None => place.to_owned(),
    };
    let query =
        query.split('&').filter(|one| !one.is_empty()).map(|one| match one.split_once('=') {
            Some((name, _)) if is_secret(name) => format!("{name}=********"),
            None if is_secret(one) => "********".to_owned(),
            Some(_) | None => one.to_owned(),
        });
    let query: Vec<_> = query.collect();
    let mark = if query.is_empty() { "" } else { "?" };
    format!("{scheme}://{place}{mark}{}", query.join("&"))
}

/// A server to talk to: nothing that stands behind its port would be heeded.
pub(super) fn dialled(text: &str) -> Option<String> {
    let url = server_url(text)?;
    let uri: http::Uri = url.parse().ok()?;
    (uri.path() == "/" && uri.query().is_none()).then_some(url)
}

/// Where clients reach this server: paths are put behind it.
pub(super) fn public(text: &str) -> Option<String> {
    let url = server_url(text)?;
    let uri: http::Uri = url.parse().ok()?;
    (text.contains("://") && uri.query().is_none()).then_some(url)
}

/// A command that others made up: its program, and nothing of what it is given, which may be a secret.
pub(super) fn masked_command(command: &str) -> String {
    match masked_whole(command).split_once(char::is_whitespace) {
        // What stands before the program is given to it as well.
        Some((program, _)) if !program.contains('=') => format!("{program} ********"),
        Some(_) => "********".to_owned(),
        None => masked_whole(command),
    }
}

/// Where calls go, by the host alone: for some the path is the secret.
pub(super) fn masked_path(address: &str) -> String {
    let masked = masked_whole(address);
    match masked.split_once("://").and_then(|(scheme, rest)| Some((scheme, rest.split_once('/')?)))
    {
        Some((_, (_, ""))) | None => masked,
        Some((scheme, (host, _))) => format!("{scheme}://{host}/********"),
    }
}

/// An address alone is meant as plain HTTP; whatever else is wrong shows when it is dialled.
pub(super) fn server_url(text: &str) -> Option<String> {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let uri: http::Uri = url.parse().ok()?;
    let known = matches!(uri.scheme_str(), Some("http" | "https"));
    // Of a port that is none the parser says nothing but that there is none.
    let authority = uri.authority()?.as_str();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let has_port = host.rsplit_once(':').is_some_and(|(_, rest)| !rest.ends_with(']'));
    if has_port && uri.port_u16().is_none() {
        return None;
    }
    (known && uri.host().is_some_and(|host| !host.is_empty())).then_some(url)
}
