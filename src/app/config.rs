//! Config: what Holdpoint was told, and by whom. Flags go before `HOLDPOINT_*`, that before
//! `holdpoint.toml`, that before the defaults.
//!
//! Nothing here opens a store or binds an address; the environment is handed in, so tests need not
//! change it.

use std::{
    collections::BTreeMap,
    fmt, fs,
    io::{self, Read as _},
    net::SocketAddr,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use unicode_normalization::UnicodeNormalization as _;

use crate::api::on_cancel::OnCancel;
pub use crate::app::config_error::ConfigError;
use crate::app::config_error::FILE_BYTES_MAX;
pub use crate::app::layers::{Audit, LogFormat, OWN_LOG};
use crate::app::layers::{
    Layers, dialled, hosts, log_format, masked_command, masked_path, masked_whole, names, place,
    public, said, server_url,
};
pub(crate) use crate::app::layers::{masked, refuse_misspelt};
use crate::app::reread;
use crate::app::server::CONNECTIONS_MAX;
use crate::app::settings::Person;
pub use crate::app::settings::{FILE, HEADING, Origin, Settings};
use crate::kernel::Assurance;

/// The port spells HOLD on a telephone.
const LISTEN: &str = "127.0.0.1:4653";
/// Shorter than the 30 seconds that container supervisors give before they kill.
const DRAIN_SECONDS: &str = "20";
/// A drain longer than an hour is a server that was not told to stop.
const DRAIN_SECONDS_MAX: u64 = 3600;
/// Whoever is slower is no client of ours, and keeps a place from one that is.
const SILENCE_SECONDS: &str = "30";
/// Silence that is longer than an hour is no bound.
const SILENCE_SECONDS_MAX: u64 = 3600;
/// A quarter of all: four addresses are needed to take every place.
const CONNECTIONS_PER_ADDRESS: &str = "2500";
/// What an operator may ask of whoever decides.
const ASSURANCES: &str = "`proven` or `vouched`";

/// Everything Holdpoint was told, understood and checked.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "settings, each said apart from the others")]
pub struct Config {
    /// The address to serve on.
    pub listen: SocketAddr,
    /// The data directory.
    pub data: PathBuf,
    /// The database in place of its store.
    pub store: Option<String>,
    /// The directory of workflow files.
    pub workflows: PathBuf,
    /// Whether nothing is to be done but to stop: what asks for less than it must may stop all the same.
    pub only_stops: bool,
    /// Whether models speak from the scripts beside the files; no setting, but what a command says.
    pub scripted: bool,
    /// The workflow that is the agent of the A2A root.
    pub a2a_root: Option<String>,
    /// Whether A2A's protocol 0.3 is spoken as well.
    pub a2a_v03: bool,
    /// Whether A2A's callers may set up webhooks.
    pub a2a_push: bool,
    /// Workflows that are not resumed by their context alone.
    pub a2a_no_resume: Vec<String>,
    /// The private key that agent cards are signed with.
    pub a2a_card_key: Option<PathBuf>,
    /// Whether a plain HTTP message answers its caller's single waiting run.
    pub http_sticky: bool,
    /// What cancelling does while something is asked, where somebody has said.
    pub on_cancel: Option<OnCancel>,
    /// Where clients reach this server.
    pub public_url: Option<String>,
    /// The operator's webhook.
    pub webhook_url: Option<String>,
    /// What its calls are signed with.
    pub webhook_secret: Option<String>,
    /// Hosts beyond the public internet that callers may have webhooks at.
    pub push_allow: Vec<String>,
    /// The file of API keys, if one was named; see [`Config::keys_path`].
    pub keys: Option<PathBuf>,
    /// The file of the operator's rules.
    pub policy: Option<PathBuf>,
    /// Where this server works, if the operator says.
    pub environment: Option<String>,
    /// Whether nobody may decide what they asked for themselves.
    pub four_eyes: bool,
    /// How well whoever decides must be known, where the file does not say.
    pub assurance: Assurance,
    /// Who belongs to which groups, and is what in the house.
    pub people: BTreeMap<String, Person>,
    /// Who signs the heads of the log of decisions, and how often.
    pub audit: Audit,
    /// The tracing filter. Commands other than `serve` log only if somebody set it.
    pub log: String,
    /// How logs are written.
    pub log_format: LogFormat,
    /// Where agents' inputs are recorded.
    pub record_inputs: Option<PathBuf>,
    /// The server to talk to, as a URL.
    pub server: Option<String>,
    /// The API key to speak with.
    pub api_key: Option<String>,
    /// How long a stopping server waits for what is under way.
    pub drain_seconds: u64,
    /// How long a peer may be silent that owes something.
    pub silence_seconds: u64,
    /// Connections of one address at once.
    pub connections_per_address: usize,
    /// The settings file that was read.
    pub file: Option<PathBuf>,
    origins: BTreeMap<&'static str, Origin>,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The dump masks the API key; a derived `Debug` would put it into a log.
        f.write_str(&self.dump())
    }
}

/// What is expected of an environment's name.
const ENVIRONMENT: &str =
    "one word of letters, digits, `-`, `_`, `.` and `/`, such as `production`";

impl Config {
    /// Understands the flags, the environment and the settings file together.
    ///
    /// `named` is the file that was asked for; without one, `holdpoint.toml` is read if it is there.
    #[expect(clippy::too_many_lines, reason = "a line for each setting")]
    pub fn resolve(
        flags: &Settings,
        env: &dyn Fn(&str) -> Option<String>,
        named: Option<&Path>,
    ) -> Result<Self, ConfigError> {
        let named = named.map(Path::to_path_buf).or_else(|| said(env, "config").map(PathBuf::from));
        let file = read_file(named.as_deref())?;
        let mut layers = Layers { flags, env, file: file.as_ref(), origins: BTreeMap::new() };
        layers.refuse_lost()?;
        let config = Self {
            scripted: false,
            only_stops: false,
            listen: layers.parsed(
                "listen",
                LISTEN,
                "an address such as `127.0.0.1:4653`",
                |text| text.parse().ok(),
            )?,
            data: layers.path("data").unwrap_or_else(|| PathBuf::from("./holdpoint-data")),
            store: layers.text("store"),
            workflows: layers.path("workflows").unwrap_or_else(|| PathBuf::from("./workflows")),
            a2a_root: layers.text("a2a_root"),
            a2a_v03: layers
                .parsed("a2a_v03", "false", "`true` or `false`", |it| it.parse().ok())?,
            a2a_push: layers
                .parsed("a2a_push", "true", "`true` or `false`", |it| it.parse().ok())?,
            a2a_no_resume: layers.text("a2a_no_resume").as_deref().map(names).unwrap_or_default(),
            a2a_card_key: layers.path("a2a_card_key"),
            http_sticky: layers
                .parsed("http_sticky", "false", "`true` or `false`", |it| it.parse().ok())?,
            on_cancel: layers.optional("on_cancel", OnCancel::WORDS, OnCancel::parse)?,
            public_url: layers.optional(
                "public_url",
                "a URL such as `https://agents.example`, with nothing behind `?`",
                public,
            )?,
            webhook_url: layers.optional(
                "webhook_url",
                "a `http://` or `https://` URL",
                |text| text.contains("://").then(|| server_url(text)).flatten(),
            )?,
            webhook_secret: layers.text("webhook_secret"),
            push_allow: layers
                .optional("push_allow", "names of hosts by commas, without ports, or `*`", hosts)?
                .unwrap_or_default(),
            keys: layers.path("keys"),
            policy: layers.path("policy"),
            environment: layers.optional("environment", ENVIRONMENT, environment)?,
            four_eyes: layers
                .parsed("four_eyes", "false", "`true` or `false`", |it| it.parse().ok())?,
            assurance: layers.parsed("assurance", "proven", ASSURANCES, Assurance::parse)?,
            people: file.as_ref().map(|(_, file)| file.people.clone()).unwrap_or_default(),
            audit: layers.audit()?,
            log: layers.text("log").unwrap_or_else(|| "info".into()),
            log_format: layers.parsed("log_format", "text", "`text` or `json`", log_format)?,
            record_inputs: layers.path("record_inputs"),
            server: layers.optional(
                "server",
                "an address or a `http://` URL, with nothing behind the port",
                dialled,
            )?,
            api_key: layers.text("api_key"),
            drain_seconds: layers.parsed(
                "drain_seconds",
                DRAIN_SECONDS,
                "a number of seconds from 0 to 3600",
                |text| text.parse().ok().filter(|seconds| *seconds <= DRAIN_SECONDS_MAX),
            )?,
            silence_seconds: layers.parsed(
                "silence_seconds",
                SILENCE_SECONDS,
                "a number of seconds from 1 to 3600",
                |text| {
                    text.parse().ok().filter(|seconds| (1..=SILENCE_SECONDS_MAX).contains(seconds))
                },
            )?,
            connections_per_address: layers.parsed(
                "connections_per_address",
                CONNECTIONS_PER_ADDRESS,
                "a number from 1 to 10000",
                |text| text.parse().ok().filter(|share| (1..=CONNECTIONS_MAX).contains(share)),
            )?,
            file: file.as_ref().map(|(path, _)| path.clone()),
            origins: layers.origins,
        };
        Ok(config)
    }

    /// Who said what `name` is.
    pub fn origin(&self, name: &str) -> Origin {
        self.origins.get(name).copied().unwrap_or(Origin::Default)
    }

    /// Where the API keys are: the file that was named, else `keys.toml` in the data directory.
    pub fn keys_path(&self) -> PathBuf {
        self.keys.clone().unwrap_or_else(|| self.data.join("keys.toml"))
    }

    /// Whether the API keys are in the store that was named, for all of its servers.
    pub(super) fn shares_keys(&self) -> bool {
        self.store.is_some() && self.keys.is_none()
    }

    /// What was understood, as TOML, with where each value came from. Secrets are masked.
    pub fn dump(&self) -> String {
        let path = |path: &Path| Some(path.display().to_string());
        let values = [
            ("data", path(&self.data)),
            ("store", self.store.as_deref().map(masked)),
            ("server", self.server.as_deref().map(masked_whole)),
            ("api_key", self.api_key.as_ref().map(|_| "********".into())),
            ("workflows", path(&self.workflows)),
            ("listen", Some(self.listen.to_string())),
            ("a2a_root", self.a2a_root.clone()),
            ("a2a_v03", Some(self.a2a_v03.to_string())),
            ("a2a_push", Some(self.a2a_push.to_string())),
            ("a2a_no_resume", Some(self.a2a_no_resume.join(","))),
            ("a2a_card_key", self.a2a_card_key.as_deref().and_then(path)),
            ("http_sticky", Some(self.http_sticky.to_string())),
            ("on_cancel", self.on_cancel.map(|means| means.word().into())),
            ("public_url", self.public_url.as_deref().map(masked_whole)),
            ("webhook_url", self.webhook_url.as_deref().map(masked_path)),
            ("webhook_secret", self.webhook_secret.as_ref().map(|_| "********".into())),
            ("push_allow", Some(self.push_allow.join(","))),
            ("keys", self.keys.as_deref().and_then(path)),
            ("policy", self.policy.as_deref().and_then(path)),
            ("environment", self.environment.clone()),
            ("four_eyes", Some(self.four_eyes.to_string())),
            ("assurance", Some(self.assurance.word().into())),
            ("audit_key", self.audit.key.as_deref().and_then(path)),
            ("audit_key_before", self.audit.key_before.as_deref().and_then(path)),
            ("audit_signer", self.audit.signer.as_deref().map(masked_command)),
            ("audit_signer_before", self.audit.signer_before.as_deref().map(masked_command)),
            ("audit_seconds", Some(self.audit.seconds.to_string())),
            ("log", Some(self.log.clone())),
            ("log_format", Some(self.log_format.word().into())),
            ("record_inputs", self.record_inputs.as_deref().and_then(path)),
            ("drain_seconds", Some(self.drain_seconds.to_string())),
            ("silence_seconds", Some(self.silence_seconds.to_string())),
            ("connections_per_address", Some(self.connections_per_address.to_string())),
        ];
        let mut lines = vec![match &self.file {
            Some(file) => format!("# settings file: {}", file.display()),
            None => format!("# settings file: none (no {FILE} here)"),
        }];
        for (name, value) in values {
            let place = place(name, self.origin(name), self.file.as_deref());
            lines.push(match value {
                Some(plain)
                    if matches!(
                        name,
                        "audit_seconds"
                            | "drain_seconds"
                            | "silence_seconds"
                            | "connections_per_address"
                            | "a2a_v03"
                            | "a2a_push"
                            | "http_sticky"
                            | "four_eyes"
                    ) =>
                {
                    format!("{name} = {plain}  # {place}")
                }
                Some(text) => format!("{name} = {}  # {place}", toml::Value::String(text)),
                None => format!("# {name} is not set"),
            });
        }
        lines.extend(people_dump(&self.people, self.file.as_deref()));
        lines.join("\n") + "\n"
    }
}

/// The people of the settings file as TOML, each with where that came from.
fn people_dump(people: &BTreeMap<String, Person>, file: Option<&Path>) -> Vec<String> {
    let mut lines = Vec::new();
    let place = file.map_or_else(String::new, |file| format!("  # {}", file.display()));
    for (name, person) in people {
        lines.push(format!("\n[people.{}]{place}", toml::Value::String(name.clone())));
        for (field, values) in [("groups", &person.groups), ("roles", &person.roles)] {
            if !values.is_empty() {
                let values = values.iter().cloned().map(toml::Value::String).collect();
                lines.push(format!("{field} = {}", toml::Value::Array(values)));
            }
        }
    }
    lines
}

/// Why a value is not the right one, without it: a secret may be a number, or stand at another setting's place.
fn without_value(why: &str) -> String {
    let is_of_value = why.starts_with("invalid type: ") || why.starts_with("invalid value: ");
    match why.rsplit_once(", expected ") {
        Some((_, expected)) if is_of_value => format!("what stands there is not {expected}"),
        Some(_) | None => why.to_owned(),
    }
}

/// The field whose value begins where this part of a line ends.
fn field_before(line: &str) -> Option<&str> {
    let field = line.trim_end().strip_suffix('=')?.trim();
    let is_name =
        !field.is_empty() && field.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
    is_name.then_some(field)
}

/// What an environment is called. What looks like another word, or has signs around it that no gate lists, would never be
/// asked by, and looks as if it were (K7).
fn environment(text: &str) -> Option<String> {
    let text = text.trim();
    let is_letter = |c: char| c.is_alphanumeric() || "-_./".contains(c);
    let (latin, other): (Vec<char>, Vec<char>) =
        text.chars().filter(|c| c.is_alphabetic()).partition(char::is_ascii);
    let is_plain = text.nfkc().eq(text.chars()) && (latin.is_empty() || other.is_empty());
    (is_plain && !text.is_empty() && text.chars().all(is_letter)).then(|| text.to_owned())
}

/// What comes through a pipe, up to what a settings file may have.
fn piped(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(text)
}

fn read_file(named: Option<&Path>) -> Result<Option<(PathBuf, Settings)>, ConfigError> {
    let path = named.unwrap_or_else(|| Path::new(FILE)).to_path_buf();
    let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
    if named.is_none() && !reread::lies(&path) {
        return Ok(None);
    }
    // One that is named may be a pipe: somebody is at its other end.
    let is_pipe = named.is_some() && fs::metadata(&path).map_err(unreadable)?.file_type().is_fifo();
    let text = if is_pipe { piped(&path) } else { reread::text(&path, FILE_BYTES_MAX) };
    let text = match text {
        Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
            return Err(ConfigError::TooLarge(path));
        }
        text => text.map_err(unreadable)?,
    };
    match toml::from_str(&text) {
        Ok(settings) => Ok(Some((path, settings))),
        Err(error) => {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let (line, why) = (before.matches('\n').count() + 1, without_value(error.message()));
            let why = match before.rsplit('\n').next().and_then(field_before) {
                Some(field) => format!("`{field}`: {why}"),
                None => why,
            };
            Err(ConfigError::NotSettings { path, line, why })
        }
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
