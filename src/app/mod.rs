//! App: the wiring. What the configuration says becomes a store, an engine and its doors.

mod attach;
mod auth;
#[cfg(feature = "postgres")]
mod awaiting;
mod brake;
pub mod client;
mod clock;
pub mod config;
mod config_error;
mod connect;
mod credentials;
mod crowd;
mod discovery;
mod dispatch;
pub mod doctor;
pub mod evidence;
mod folder;
mod gate;
mod heads;
mod house;
pub mod keyring;
pub mod keys;
mod layers;
mod leave;
mod looked;
pub mod moving;
mod notifier;
pub mod offline;
mod otlp;
mod people;
mod policy;
mod posture;
pub mod private;
pub mod probe;
mod reload;
mod reread;
mod run;
mod server;
mod settings;
mod signer;
mod slow_reader;
pub mod store;
mod stranded;
mod supervisor;
pub mod telemetry;
mod void;
mod watchman;
mod wiring;
mod write_coalescing;

use std::net::SocketAddr;
use std::path::PathBuf;

pub use crate::engine::Reach;
pub use attach::Followed;
pub use client::Client;
pub use clock::{SharedClock, SystemClock};
pub use config::Config;
pub use connect::{Connection, Hands, connect};
pub use run::serve;

/// Why the app cannot do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AppError {
    /// The server does not answer.
    #[error("cannot reach the server at {server}")]
    Unreachable {
        /// Its URL.
        server: String,
        /// Why.
        source: Box<tonic::transport::Error>,
    },
    /// The server that had the data directory does not answer any more.
    #[error("the server at {server} does not answer")]
    Gone {
        /// Its address.
        server: String,
        /// Why.
        source: std::io::Error,
    },
    /// TLS is not built in.
    #[error("cannot speak TLS to `{0}`")]
    NoTls(String),
    /// The API key cannot be sent.
    #[error("api_key: the key has characters that no key has")]
    BadKey,
    /// The keys file cannot be used.
    #[error(transparent)]
    Keys(#[from] keys::KeysError),
    /// A store that had keys has none any more.
    #[error(
        "servers over this database ask for API keys, and this one would ask for none: everybody on this machine would be let in"
    )]
    KeysGone,
    /// A store that was served with a policy would be without one.
    #[error(
        "this store was served with rules of its operator ({0}), and no policy is named: what they ask about would be done unasked"
    )]
    PolicyGone(String),
    /// A data directory that had keys has none any more, and neither has its file.
    #[error("this store was served with API keys, and `{}` has none: everybody on this machine would be let in", .0.display())]
    OwnKeysGone(PathBuf),
    /// The store does not open.
    #[error(transparent)]
    Store(#[from] crate::store::OpenError),
    /// The store in a database does not open.
    #[cfg(feature = "postgres")]
    #[error("store: {0}")]
    Postgres(#[from] crate::store::PostgresError),
    /// This build knows no databases.
    #[error("store: this program was built without the feature `postgres`")]
    NoPostgres,
    /// No database was named.
    #[error("store: no database is named")]
    NoStoreNamed,
    /// Servers run over a store that is to be changed as a whole.
    #[error("{servers} server(s) run over this store: {named}")]
    Served {
        /// How many.
        servers: usize,
        /// Which, by what they say of themselves.
        named: String,
    },
    /// A command alone would be one more engine beside the servers.
    #[error("store: what is in a database is worked on by servers alone")]
    SharedStore,
    /// The data directory has a store of its own, which nobody would see.
    #[error(
        "store: `{}` has a store of its own, with runs in it, and what they ask would be seen by nobody while the database is served",
        .0.display()
    )]
    OwnStore(PathBuf),
    /// The store opened, but what it is cannot be found out, or its runs cannot be told.
    #[error("the store cannot be settled in: {0}")]
    Unsettled(#[source] crate::engine::EngineError),
    /// The store opened, but does not work.
    #[error("the store does not work")]
    Fault(#[from] crate::ports::Fault),
    /// Workflow files are wrong.
    #[error("{} in the workflow files:\n\n{}", count(.0.len()), shown(.0))]
    Workflows(Vec<crate::definition::Problem>),
    /// The operator's policy is wrong.
    #[error("{} in the policy file:\n\n{}", count(.0.len()), shown(.0))]
    Policy(Vec<crate::definition::Problem>),
    /// No workflow of that name.
    #[error("there is no workflow `{0}`")]
    UnknownWorkflow(String),
    /// Something that is no run's id was named.
    #[error("--run: `{0}` is no run")]
    UnknownRun(String),
    /// There is no data.
    #[error("there is no data in `{}`", .0.display())]
    NoData(PathBuf),
    /// The store is of an earlier form, and looking must not change it.
    #[error(
        "the store in `{}` is of an earlier form, without a chain; nothing in it was changed",
        .0.display()
    )]
    Older(PathBuf),
    /// An import into the store was cut off.
    #[error("an import into {place} did not come to its end, and part of it is missing")]
    HalfImported {
        /// Where.
        place: String,
        /// What ends it.
        remedy: String,
    },
    /// A store could not be moved.
    #[error(transparent)]
    Transfer(#[from] crate::store::transfer::TransferError),
    /// A store could not be moved into a database.
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Move(#[from] crate::store::moving::MoveError),
    /// Somebody has asked for a move already.
    #[error("`{}` is there: a move was asked for already", .0.display())]
    MoveAsked(PathBuf),
    /// The server did not move its store.
    #[error("the store was not moved: {0}")]
    MoveFailed(String),
    /// The server ended meanwhile.
    #[error(
        "the server ended before the store had moved; the data directory is in charge, as before"
    )]
    MoveCut,
    /// The address cannot be listened on.
    #[error("cannot listen on {listen}")]
    Bind {
        /// The address.
        listen: SocketAddr,
        /// Why.
        source: std::io::Error,
    },
    /// Anybody could come in.
    #[error("{listen} can be reached from other machines, and there are no API keys")]
    NoKeys {
        /// The address.
        listen: SocketAddr,
        /// Whether they would be in the database that was named.
        in_store: bool,
    },
    /// Agent cards cannot be signed.
    #[error("a2a_card_key: cannot sign with `{}`", .path.display())]
    CardKey {
        /// The file.
        path: PathBuf,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Heads of the log cannot be signed with this.
    #[error("{setting}: cannot use `{}`: {why}", .path.display())]
    AuditKey {
        /// Which setting names it.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// What a signer outside signs could not be checked with this.
    #[error("audit_key: cannot use `{}` as the public key of `audit_signer`: {why}", .path.display())]
    SignerKey {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// Another key signs the log of a store that several servers share.
    #[error("audit_key: the log of this store is signed with another key: {theirs}")]
    OtherAuditKey {
        /// Which one.
        theirs: String,
    },
    /// Signatures from outside could not be checked.
    #[error(
        "audit_key: `audit_signer` is set, and there is no public key to check its signatures with"
    )]
    NoAuditKey,
    /// What is to be verified, or held against, is not what it should be.
    #[error("{0}")]
    Evidence(String),
    /// The webhook's calls could not be signed.
    #[error("webhook_secret: `webhook_url` is set, and there is nothing to sign its calls with")]
    NoWebhookSecret,
    /// The recording cannot be written.
    #[error("record_inputs: cannot write `{}`", .path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The secret of the console's passes cannot be kept.
    #[error("cannot keep `console.key` in `{}`", .data.display())]
    Passes {
        /// The data directory.
        data: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The log filter cannot be understood.
    #[error("log: `{filter}` is no filter: {why}")]
    LogFilter {
        /// What was given.
        filter: String,
        /// What is wrong with it.
        why: String,
    },
    /// Traces cannot be sent as the environment says.
    #[error("{variable}: {why}")]
    Traces {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// A run cannot be taken up.
    #[error("`{run}` cannot be taken up")]
    Stuck {
        /// The run.
        run: String,
        /// Why.
        source: crate::engine::EngineError,
    },
    /// Our own bug.
    #[error("an internal error: {0}")]
    Internal(String),
}

impl AppError {
    /// Whether it may be otherwise when the same is tried again.
    fn may_pass(&self) -> bool {
        use crate::engine::EngineError;
        if let Self::Fault(fault) | Self::Unsettled(EngineError::Fault(fault)) = self
            && fault.may_pass()
        {
            return true;
        }
        #[cfg(feature = "postgres")]
        if let Self::Postgres(error) = self {
            return error.may_pass();
        }
        false
    }

    /// What to do about it, if it is known.
    #[expect(clippy::too_many_lines, reason = "a table: a row for each")]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Unreachable { .. } | Self::Gone { .. } => {
                Some(
                    "check the address, and that the server runs; without --server a command works on the data directory of this \
                     machine, and on nothing that the server has"
                        .into(),
                )
            }
            Self::NoTls(_) => Some("use `http://`, through a proxy that ends TLS".into()),
            Self::BadKey => Some("`holdpoint keys add NAME` makes one".into()),
            Self::KeysGone => Some(
                "`holdpoint keys add NAME --store URL` makes one; where there are some, leave `keys` out. `holdpoint audit --store` says when they went"
                    .into(),
            ),
            Self::PolicyGone(_) => Some(
                "name it with `--policy FILE`, HOLDPOINT_POLICY, or `policy` in holdpoint.toml; where there are to be no rules any more, name \
                 a file that says `rules: []`"
                    .into(),
            ),
            Self::OwnKeysGone(_) => Some(
                "put the file back, or make a key with `holdpoint keys add NAME`; where it lies elsewhere, name it with `--keys`. \
                 `holdpoint audit --store` says which there were"
                    .into(),
            ),
            Self::NoKeys { in_store: true, .. } => Some(
                "`holdpoint keys add NAME --store URL` (or with HOLDPOINT_STORE set) makes one; or listen on 127.0.0.1".into(),
            ),
            Self::NoKeys { in_store: false, .. } => {
                Some("`holdpoint keys add NAME` makes one; or listen on 127.0.0.1".into())
            }
            Self::Bind { source, .. } if source.kind() == std::io::ErrorKind::AddrInUse => {
                Some("another program listens there; choose another with --listen".into())
            }
            Self::Traces { .. } => {
                Some("unset `OTEL_EXPORTER_OTLP_ENDPOINT` to send no traces".into())
            }
            Self::LogFilter { .. } => Some("try `info`, or `holdpoint=debug`".into()),
            Self::UnknownWorkflow(_) => Some("`holdpoint workflows` lists them".into()),
            Self::UnknownRun(_) => Some("`holdpoint runs` lists them".into()),
            Self::NoData(_) => Some(
                "name the directory with --data, or a server with --server or HOLDPOINT_SERVER".into(),
            ),
            Self::Older(_) => Some(OLDER.into()),
            Self::HalfImported { remedy, .. } => Some(remedy.clone()),
            Self::Store(crate::store::OpenError::Held { server: Some(_), .. }) => {
                Some("this command wants the directory for itself; stop the server first".into())
            }
            Self::Store(crate::store::OpenError::Held { server: None, .. }) => {
                Some("it is free when that command ends".into())
            }
            Self::Served { .. } => Some(
                "stop them first; those that died have been waited for".into(),
            ),
            Self::SharedStore => Some(
                "name one of them with --server or HOLDPOINT_SERVER; one that runs on this machine is found by its --data. What is \
                 in a directory is worked on without `store`"
                    .into(),
            ),
            Self::OwnStore(data) => Some(format!(
                "`holdpoint store move --data '{}'` takes it into a database that is empty; to leave it where it is, name another \
                 directory with --data; to serve it, leave `store` out",
                data.display()
            )),
            Self::NoStoreNamed => Some("name one with --store or HOLDPOINT_STORE".into()),
            Self::NoPostgres => Some("`cargo build --features postgres` has it".into()),
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => None,
            Self::NoWebhookSecret => Some(
                "set HOLDPOINT_WEBHOOK_SECRET (`openssl rand -hex 32` makes one) here and at the \
                 listener, or unset `webhook_url`"
                    .into(),
            ),
            Self::CardKey { .. } => {
                Some("`openssl genpkey -algorithm ed25519 -out card.pem` makes one".into())
            }
            Self::AuditKey { setting: "audit_key_before", .. } => Some(
                "it must be the file that heads were signed with before: no other can stand for it; without it leave that setting \
                 out".into(),
            ),
            Self::AuditKey { .. } => {
                Some("`openssl genpkey -algorithm ed25519 -out audit.pem` makes one; mind its permissions".into())
            }
            Self::OtherAuditKey { .. } => Some(
                "give this server the same key or signer as the others; to change it at all of them, name the one before \
                 with `audit_key_before`"
                    .into(),
            ),
            Self::NoAuditKey | Self::SignerKey { .. } => Some(
                "with `audit_signer`, `audit_key` names a file with the signer's public key in one line, `name+id+key`: \
                 docs/evidence.md has its form, and a command that makes it (\"The signing key\")"
                    .into(),
            ),
            Self::Workflows(_) => {
                Some("`holdpoint check` shows the same, but for keys that are not set".into())
            }
            Self::Policy(_) => Some("`holdpoint check` shows the same where `policy` names it".into()),
            Self::Stuck { .. } | Self::Unsettled(_) => {
                Some("`holdpoint doctor` looks at the whole store".into())
            }
            Self::MoveAsked(_) => Some(
                "wait for it; if no server runs on the directory, remove the file and run this again".into(),
            ),
            Self::MoveFailed(_) | Self::MoveCut => {
                Some("see to the reason and run this again: it begins anew".into())
            }
            #[cfg(feature = "postgres")]
            Self::Move(_) => None,
            Self::Keys(_)
            | Self::Store(_)
            | Self::Fault(_)
            | Self::Transfer(_)
            | Self::Bind { .. }
            | Self::Record { .. }
            | Self::Passes { .. }
            | Self::Evidence(_)
            | Self::Internal(_) => None,
        }
    }

    /// Whether what the settings say makes no sense, whatever lies where they point.
    pub fn is_of_settings(&self) -> bool {
        #[cfg(feature = "postgres")]
        if let Self::Postgres(crate::store::PostgresError::Address { .. }) = self {
            return true;
        }
        matches!(
            self,
            Self::BadKey
                | Self::LogFilter { .. }
                | Self::NoAuditKey
                | Self::NoStoreNamed
                | Self::NoTls(_)
                | Self::NoWebhookSecret
                | Self::Traces { .. }
        )
    }

    /// Whether it is the server that is not there, rather than something that is wrong.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Unreachable { .. } | Self::Gone { .. })
    }
}

/// What takes an older store over.
const OLDER: &str = "`holdpoint serve` takes it over when it starts: from then on it can be verified; copy the directory first, if \
                     you want it as it is";

/// So many of something, as one says it: `1 run`, `2 runs`.
pub fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

fn count(problems: usize) -> String {
    if problems == 1 { "one problem".into() } else { format!("{problems} problems") }
}

fn shown(problems: &[crate::definition::Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}
