//! Settings: what one layer may say, the flags or the settings file, and which layers there are. Which of them
//! goes before which, and what a value means, is not said here.
//!
//! The comments of [`Settings`] are the documentation: they are the text of `--help`.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The settings file that is read from the working directory when no other is named.
pub const FILE: &str = "holdpoint.toml";
/// Under which heading they are told.
pub const HEADING: &str = "Settings";

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

/// A person, as `[people.NAME]` of the settings file has them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Person {
    /// Groups: `group:finance` in a workflow's `to`.
    #[serde(default)]
    pub groups: Vec<String>,
    /// What they are in the house: `role:director` in a workflow's `to`.
    #[serde(default)]
    pub roles: Vec<String>,
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

/// A setting that files may also have as a number or a switch.
fn plain_or_text<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(i64),
        Fraction(f64),
        Switch(bool),
        Text(String),
    }
    Ok(Some(match Either::deserialize(from)? {
        Either::Number(number) => number.to_string(),
        // No setting is one; which it is not to be is told with the setting's name.
        Either::Fraction(number) => number.to_string(),
        Either::Switch(switch) => switch.to_string(),
        Either::Text(text) => text,
    }))
}
