//! Config: what Holdpoint was told, and by whom. Flags go before `HOLDPOINT_*`, that before
//! `holdpoint.toml`, that before the defaults.
//!
//! The comments of [`Settings`] are the documentation: they are the text of `--help`. Nothing here
//! opens a store or binds an address; the environment is handed in, so tests need not change it.

use std::{
    collections::BTreeMap,
    fmt, fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize;

use crate::api::on_cancel::OnCancel;
pub use crate::app::config_error::ConfigError;
use crate::app::config_error::FILE_BYTES_MAX;
pub use crate::app::layers::{Audit, LogFormat, OWN_LOG};
use crate::app::layers::{
    Layers, log_format, masked, names, place, plain_or_text, said, server_url,
};
use crate::app::people::{self, Person};
use crate::app::server::CONNECTIONS_MAX;
use crate::kernel::Assurance;

/// The settings file that is read from the working directory when no other is named.
pub const FILE: &str = "holdpoint.toml";
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
const HEADING: &str = "Settings";

/// One layer of settings, all of them optional: what the flags say, or what a file says.
#[derive(Debug, Clone, Default, clap::Args, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Where the sessions, runs and journals are kept (`HOLDPOINT_DATA`; default: ./holdpoint-data)
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING)]
    pub data: Option<String>,
    /// The database that the sessions, runs and journals are kept in, for several servers: `postgres://…` (`HOLDPOINT_STORE`; default: the data directory)
    ///
    /// Other users of this machine can read the flags of a process: prefer the environment where there is a password.
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING, hide_short_help = true)]
    pub store: Option<String>,
    /// Talk to this server instead of opening the data directory (`HOLDPOINT_SERVER`)
    ///
    /// An address such as `127.0.0.1:4653` or a URL such as `http://holdpoint.internal:4653`.
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING)]
    pub server: Option<String>,
    /// The API key to speak with (`HOLDPOINT_API_KEY`)
    ///
    /// Other users of this machine can read the flags of a process: prefer the environment.
    #[arg(long, global = true, value_name = "KEY", help_heading = HEADING, hide_short_help = true)]
    pub api_key: Option<String>,
    /// Where workflow files are read from, beside the shipped ones (`HOLDPOINT_WORKFLOWS`; default: ./workflows)
    #[arg(long, global = true, value_name = "DIR", help_heading = HEADING, hide_short_help = true)]
    pub workflows: Option<String>,
    /// The address to serve gRPC and HTTP on (`HOLDPOINT_LISTEN`; default: 127.0.0.1:4653)
    ///
    /// On any address but loopback the server refuses to start without API keys.
    #[arg(long, global = true, value_name = "ADDR", help_heading = HEADING, hide_short_help = true)]
    pub listen: Option<String>,
    /// The workflow that `/a2a` and `/.well-known/agent-card.json` stand for (`HOLDPOINT_A2A_ROOT`; default: the first by name)
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING, hide_short_help = true)]
    pub a2a_root: Option<String>,
    /// Also speak A2A's protocol 0.3, on all bindings: `true` or `false` (`HOLDPOINT_A2A_V03`; default: false)
    #[arg(long, global = true, value_name = "BOOL", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub a2a_v03: Option<String>,
    /// Whether A2A's callers may set up webhooks for their tasks: `true` or `false` (`HOLDPOINT_A2A_PUSH`; default: true)
    #[arg(long, global = true, value_name = "BOOL", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub a2a_push: Option<String>,
    /// Workflows whose waiting tasks are not answered by a message that names only their context, by commas (`HOLDPOINT_A2A_NO_RESUME`; default: none)
    #[arg(long, global = true, value_name = "NAMES", help_heading = HEADING, hide_short_help = true)]
    pub a2a_no_resume: Option<String>,
    /// The private key that agent cards are signed with, as PKCS#8 in PEM: P-256 or Ed25519 (`HOLDPOINT_A2A_CARD_KEY`; default: cards are not signed)
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub a2a_card_key: Option<String>,
    /// Let a plain HTTP message without a conversation answer its caller's single waiting run, for clients such as qlaw-cli that know no conversations: `true` or `false` (`HOLDPOINT_HTTP_STICKY`; default: false)
    #[arg(long, global = true, value_name = "BOOL", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub http_sticky: Option<String>,
    /// What cancelling does while something is asked, in the chat and over HTTP: `hide`, `withdraw` or `run` (`HOLDPOINT_ON_CANCEL`; default: withdraw in the chat, run over HTTP)
    #[arg(long, global = true, value_name = "WORD", help_heading = HEADING, hide_short_help = true)]
    pub on_cancel: Option<String>,
    /// Where clients reach this server, as agent cards say it (`HOLDPOINT_PUBLIC_URL`; default: where it listens)
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING, hide_short_help = true)]
    pub public_url: Option<String>,
    /// Where what happens to requests and runs is told, signed (`HOLDPOINT_WEBHOOK_URL`)
    #[arg(long, global = true, value_name = "URL", help_heading = HEADING, hide_short_help = true)]
    pub webhook_url: Option<String>,
    /// What the webhook's calls are signed with (`HOLDPOINT_WEBHOOK_SECRET`)
    ///
    /// Other users of this machine can read the flags of a process: prefer the environment.
    #[arg(long, global = true, value_name = "SECRET", help_heading = HEADING, hide_short_help = true)]
    pub webhook_secret: Option<String>,
    /// Hosts beyond the public internet that A2A's callers may have webhooks at, by commas; `*` is any (`HOLDPOINT_PUSH_ALLOW`; default: none)
    #[arg(long, global = true, value_name = "HOSTS", help_heading = HEADING, hide_short_help = true)]
    pub push_allow: Option<String>,
    /// The file of hashed API keys (`HOLDPOINT_KEYS`; default: keys.toml in the data directory)
    ///
    /// `holdpoint keys add` writes it. A file that is named here must exist for the server to start.
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub keys: Option<String>,
    /// The file of the operator's rules over all workflows; it is looked at while the server runs (`HOLDPOINT_POLICY`; default: none)
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub policy: Option<String>,
    /// Where this server works, such as `production`: gates with `when: environment` look at it (`HOLDPOINT_ENVIRONMENT`; default: `development` without keys; with keys such a gate asks until it is said)
    #[arg(long, global = true, value_name = "NAME", help_heading = HEADING, hide_short_help = true)]
    pub environment: Option<String>,
    /// Whether nobody may decide what they asked for themselves: `true` or `false` (`HOLDPOINT_FOUR_EYES`; default: false)
    #[arg(long, global = true, value_name = "BOOL", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub four_eyes: Option<String>,
    /// How well whoever decides must be known: `proven`, by a key of their own or at the console, or `vouched`, by a service's word (`HOLDPOINT_ASSURANCE`; default: proven)
    #[arg(long, global = true, value_name = "WORD", help_heading = HEADING, hide_short_help = true)]
    pub assurance: Option<String>,
    /// Who belongs to which groups, and is what in the house; in the settings file only.
    #[arg(skip)]
    #[serde(default)]
    pub people: BTreeMap<String, Person>,
    /// The private key that heads of the log of decisions are signed with, Ed25519 as PKCS#8 in PEM, made if it is not there; with `audit_signer`, its public key (`HOLDPOINT_AUDIT_KEY`; default: audit.key in the data directory)
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub audit_key: Option<String>,
    /// The private key that signed those heads before this one, to have it sign which comes after it: needed once, when the key is changed (`HOLDPOINT_AUDIT_KEY_BEFORE`)
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub audit_key_before: Option<String>,
    /// A command that signs those heads instead: the text on stdin, the signature in base64 on stdout (`HOLDPOINT_AUDIT_SIGNER`)
    #[arg(long, global = true, value_name = "CMD", help_heading = HEADING, hide_short_help = true)]
    pub audit_signer: Option<String>,
    /// The command that signed those heads before, where the key before is behind one (`HOLDPOINT_AUDIT_SIGNER_BEFORE`)
    #[arg(long, global = true, value_name = "CMD", help_heading = HEADING, hide_short_help = true)]
    pub audit_signer_before: Option<String>,
    /// How often a head is signed where anything is new, in seconds (`HOLDPOINT_AUDIT_SECONDS`; default: 5)
    #[arg(long, global = true, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub audit_seconds: Option<String>,
    /// What is logged, as a tracing filter such as `info` or `holdpoint=debug` (`HOLDPOINT_LOG`; default: info)
    #[arg(long, global = true, value_name = "FILTER", help_heading = HEADING, hide_short_help = true)]
    pub log: Option<String>,
    /// How logs are written: `text` or `json` (`HOLDPOINT_LOG_FORMAT`; default: text)
    #[arg(long, global = true, value_name = "FORMAT", help_heading = HEADING, hide_short_help = true)]
    pub log_format: Option<String>,
    /// Record what every agent is given, as JSON lines, in this file (`HOLDPOINT_RECORD_INPUTS`)
    ///
    /// It holds conversations in the clear: meant for debugging and for tests.
    #[arg(long, global = true, value_name = "FILE", help_heading = HEADING, hide_short_help = true)]
    pub record_inputs: Option<String>,
    /// How long a stopping server waits for what is under way, in seconds (`HOLDPOINT_DRAIN_SECONDS`; default: 20)
    #[arg(long, global = true, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub drain_seconds: Option<String>,
    /// How long a peer may be silent that owes the rest of a request or the answer to a ping, in seconds (`HOLDPOINT_SILENCE_SECONDS`; default: 30)
    #[arg(long, global = true, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub silence_seconds: Option<String>,
    /// Connections of one address at once, of 10,000 in all (`HOLDPOINT_CONNECTIONS_PER_ADDRESS`; default: 2500)
    #[arg(long, global = true, value_name = "N", help_heading = HEADING, hide_short_help = true)]
    #[serde(default, deserialize_with = "plain_or_text")]
    pub connections_per_address: Option<String>,
}

/// Who said what a setting is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A flag on the command line.
    Flag,
    /// A `HOLDPOINT_*` variable.
    Env,
    /// The settings file.
    File,
    /// Nobody.
    Default,
}

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
                "an address or a `http://` URL",
                server_url,
            )?,
            webhook_url: layers.optional(
                "webhook_url",
                "a `http://` or `https://` URL",
                |text| text.contains("://").then(|| server_url(text)).flatten(),
            )?,
            webhook_secret: layers.text("webhook_secret"),
            push_allow: layers.text("push_allow").as_deref().map(names).unwrap_or_default(),
            keys: layers.path("keys"),
            policy: layers.path("policy"),
            environment: layers.text("environment"),
            four_eyes: layers
                .parsed("four_eyes", "false", "`true` or `false`", |it| it.parse().ok())?,
            assurance: layers.parsed("assurance", "proven", ASSURANCES, Assurance::parse)?,
            people: file.as_ref().map(|(_, file)| file.people.clone()).unwrap_or_default(),
            audit: layers.audit()?,
            log: layers.text("log").unwrap_or_else(|| "info".into()),
            log_format: layers.parsed("log_format", "text", "`text` or `json`", log_format)?,
            record_inputs: layers.path("record_inputs"),
            server: layers.optional("server", "an address or a `http://` URL", server_url)?,
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
            ("server", self.server.clone()),
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
            ("public_url", self.public_url.clone()),
            ("webhook_url", self.webhook_url.clone()),
            ("webhook_secret", self.webhook_secret.as_ref().map(|_| "********".into())),
            ("push_allow", Some(self.push_allow.join(","))),
            ("keys", self.keys.as_deref().and_then(path)),
            ("policy", self.policy.as_deref().and_then(path)),
            ("environment", self.environment.clone()),
            ("four_eyes", Some(self.four_eyes.to_string())),
            ("assurance", Some(self.assurance.word().into())),
            ("audit_key", self.audit.key.as_deref().and_then(path)),
            ("audit_key_before", self.audit.key_before.as_deref().and_then(path)),
            ("audit_signer", self.audit.signer.clone()),
            ("audit_signer_before", self.audit.signer_before.clone()),
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
        lines.extend(people::dump(&self.people, self.file.as_deref()));
        lines.join("\n") + "\n"
    }
}

impl Settings {
    pub(super) fn get(&self, name: &str) -> Option<String> {
        let value = match name {
            "data" => &self.data,
            "store" => &self.store,
            "server" => &self.server,
            "api_key" => &self.api_key,
            "workflows" => &self.workflows,
            "listen" => &self.listen,
            "a2a_root" => &self.a2a_root,
            "a2a_v03" => &self.a2a_v03,
            "a2a_push" => &self.a2a_push,
            "a2a_no_resume" => &self.a2a_no_resume,
            "a2a_card_key" => &self.a2a_card_key,
            "http_sticky" => &self.http_sticky,
            "on_cancel" => &self.on_cancel,
            "public_url" => &self.public_url,
            "webhook_url" => &self.webhook_url,
            "webhook_secret" => &self.webhook_secret,
            "push_allow" => &self.push_allow,
            "keys" => &self.keys,
            "policy" => &self.policy,
            "environment" => &self.environment,
            "four_eyes" => &self.four_eyes,
            "assurance" => &self.assurance,
            "audit_key" => &self.audit_key,
            "audit_key_before" => &self.audit_key_before,
            "audit_signer" => &self.audit_signer,
            "audit_signer_before" => &self.audit_signer_before,
            "audit_seconds" => &self.audit_seconds,
            "log" => &self.log,
            "log_format" => &self.log_format,
            "record_inputs" => &self.record_inputs,
            "drain_seconds" => &self.drain_seconds,
            "silence_seconds" => &self.silence_seconds,
            "connections_per_address" => &self.connections_per_address,
            &_ => &None,
        };
        value.clone()
    }
}

fn read_file(named: Option<&Path>) -> Result<Option<(PathBuf, Settings)>, ConfigError> {
    let path = named.unwrap_or_else(|| Path::new(FILE)).to_path_buf();
    let unreadable = |source| ConfigError::Unreadable { path: path.clone(), source };
    match fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
        Ok(about) if about.len() > FILE_BYTES_MAX => return Err(ConfigError::TooLarge(path)),
        Ok(_) => {}
    }
    let text = fs::read_to_string(&path).map_err(unreadable)?;
    match toml::from_str(&text) {
        Ok(settings) => Ok(Some((path, settings))),
        Err(source) => Err(ConfigError::NotSettings { path, source: Box::new(source) }),
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
