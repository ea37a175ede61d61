//! Config: what a store on PostgreSQL is told when it is opened, and every way in which it does not. It reads the
//! address; whether somebody answers there is found out elsewhere.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::store::codec::APART;
use crate::store::postgres::address::{ESCAPES, FORM, read_by_driver, split};
use crate::store::postgres::hosts::Histories;
use crate::store::postgres::slots::{self, Slots};

/// How long a server may take to be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After how long of silence is asked whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// After how long of no acknowledgement a connection is lost.
const SILENCE: Duration = Duration::from_secs(15);

/// What the operator says of what the server does with what it has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// It has it on several machines before it answers: a synchronous standby is demanded.
    Replicated,
    /// It has it on its own disk.
    Single,
    /// The platform keeps it, in its own way: nothing but `synchronous_commit` is looked at.
    Platform,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "replicated" => Ok(Self::Replicated),
            "single" => Ok(Self::Single),
            "platform" => Ok(Self::Platform),
            other => Err(format!("`{other}` is none of `replicated`, `single` and `platform`")),
        }
    }
}

/// What a store on PostgreSQL is told.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(super) server: tokio_postgres::Config,
    pub(super) durability: Durability,
    /// Whom to trust, where that is not whom the machine trusts.
    pub(super) roots: Option<PathBuf>,
    /// Nothing is ever written: a role that may read is enough.
    pub(super) only_looks: bool,
    /// What connections are counted by, where several openings are one server's.
    slots: Option<Slots>,
    /// Which host has been used, where they are.
    histories: Option<Arc<Histories>>,
}

impl std::fmt::Debug for PostgresConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The address has a password in it.
        write!(f, "PostgresConfig({}, {:?})", self.place(), self.durability)
    }
}

/// Whether an address is one of a store on PostgreSQL.
pub fn is_postgres(address: &str) -> bool {
    ["postgres://", "postgresql://"].iter().any(|scheme| address.starts_with(scheme))
}

impl PostgresConfig {
    /// Reads an address. Several hosts may be named: the one that takes writes is used. Where no `durability=` is
    /// said it is `replicated` for several hosts and `single` for one.
    pub fn new(address: &str) -> Result<Self, PostgresError> {
        let bad = |why: String| PostgresError::Address { why };
        if !is_postgres(address) {
            return Err(bad(format!("it does not begin with `postgres://`; {FORM}")));
        }
        // Read as it stands, half of such a password would be a host that nobody has.
        if address.split('?').next().is_some_and(|front| front.matches('@').count() > 1) {
            return Err(bad(format!("there is more than one `@` in it; {FORM}, {ESCAPES}")));
        }
        let (address, ours) = split(address).map_err(bad)?;
        let mut server = read_by_driver(&address).map_err(bad)?;
        if server.get_hosts().is_empty() {
            return Err(bad(format!("it names no host; {FORM}")));
        }
        if server.get_user().is_none() || server.get_dbname().is_none() {
            return Err(bad(format!("it must name a user and a database; {FORM}")));
        }
        let durability = ours.durability.unwrap_or(if server.get_hosts().len() > 1 {
            Durability::Replicated
        } else {
            Durability::Single
        });
        server.target_session_attrs(TargetSessionAttrs::ReadWrite);
        server.connect_timeout(CONNECT_TIMEOUT);
        server.keepalives_idle(KEEPALIVE).keepalives_interval(KEEPALIVE).keepalives_retries(2);
        server.tcp_user_timeout(SILENCE);
        if server.get_application_name().is_none() {
            server.application_name("holdpoint");
        }
        let (roots, only_looks) = (ours.roots, false);
        Ok(Self { server, durability, roots, only_looks, slots: None, histories: None })
    }

    /// The same for a server that tries again and again to open its store: what the database has not answered of an opening
    /// before counts at the next, and so does which host was used.
    #[must_use]
    pub fn of_one_server(&self) -> Self {
        let (slots, histories) = (Some(self.slots()), Some(self.histories()));
        Self { slots, histories, ..self.clone() }
    }

    /// Which host has been used.
    pub(super) fn histories(&self) -> Arc<Histories> {
        self.histories.clone().unwrap_or_default()
    }

    /// What connections are counted by.
    pub(super) fn slots(&self) -> Slots {
        self.slots.clone().unwrap_or_else(|| Slots::of(self.server.get_hosts().len()))
    }

    /// The same for whoever only looks: a role that may write nothing is as good.
    #[must_use]
    pub(super) fn looking(&self) -> Self {
        let mut looking = self.clone();
        looking.server.target_session_attrs(TargetSessionAttrs::Any);
        looking.only_looks = true;
        looking
    }

    /// The same for each of the hosts alone.
    pub(super) fn hosts(&self) -> Vec<Self> {
        let (server, ports) = (&self.server, self.server.get_ports());
        let addresses = server.get_hostaddrs();
        let alone = server.get_hosts().iter().zip(0..).map(|(host, at)| {
            let mut one = without_hosts(server);
            match host {
                Host::Tcp(name) => one.host(name),
                #[cfg(unix)]
                Host::Unix(dir) => one.host_path(dir),
            };
            if let Some(address) = addresses.get(at) {
                one.hostaddr(*address);
            }
            if let Some(port) = ports.get(at).or(ports.first()) {
                one.port(*port);
            }
            Self { server: one, ..self.clone() }
        });
        alone.collect()
    }

    /// Where it is, without the password.
    pub fn place(&self) -> String {
        format!("{}/{}", self.names().join(","), self.server.get_dbname().unwrap_or_default())
    }

    /// Whether a place that was written down before is this one: the same database at one of the hosts. Others are added to
    /// an address, and taken away, while the database stays what it is.
    pub fn is_at(&self, place: &str) -> bool {
        let Some((hosts, database)) = place.rsplit_once('/') else { return false };
        let names = self.names();
        self.server.get_dbname() == Some(database)
            && hosts.split(',').any(|host| names.iter().any(|name| name == host))
    }

    /// The hosts, each with its port.
    fn names(&self) -> Vec<String> {
        let ports = self.server.get_ports();
        let names = self.server.get_hosts().iter().zip(0..).map(|(host, at)| {
            let port = ports.get(at).or(ports.first()).copied().unwrap_or(5432);
            match host {
                Host::Tcp(name) => format!("{name}:{port}"),
                #[cfg(unix)]
                Host::Unix(dir) => format!("{}:{port}", dir.display()),
            }
        });
        names.collect()
    }
}

/// Everything that a driver's address says but where.
fn without_hosts(of: &tokio_postgres::Config) -> tokio_postgres::Config {
    let mut one = tokio_postgres::Config::new();
    of.get_user().map(|user| one.user(user));
    of.get_password().map(|password| one.password(password));
    of.get_dbname().map(|name| one.dbname(name));
    of.get_options().map(|options| one.options(options));
    of.get_application_name().map(|name| one.application_name(name));
    of.get_connect_timeout().map(|time| one.connect_timeout(*time));
    of.get_tcp_user_timeout().map(|time| one.tcp_user_timeout(*time));
    of.get_keepalives_interval().map(|time| one.keepalives_interval(time));
    of.get_keepalives_retries().map(|count| one.keepalives_retries(count));
    one.keepalives(of.get_keepalives()).keepalives_idle(of.get_keepalives_idle());
    one.ssl_mode(of.get_ssl_mode()).ssl_negotiation(of.get_ssl_negotiation());
    one.target_session_attrs(of.get_target_session_attrs());
    one.channel_binding(of.get_channel_binding());
    one
}

/// What to do about a connection that is not safe: with no TLS at the server there is nobody to trust.
fn tls_remedy(why: &str) -> &'static str {
    if why.contains("support TLS") {
        "turn on `ssl` at the server, or say `sslmode=disable` in the address where the network is yours"
    } else {
        "`sslrootcert=FILE` in the address says whom to trust, in place of whom this machine trusts"
    }
}

/// What to do about tables that may not be made, or changed: a right to what is in a schema helps nobody to make that.
fn owner_remedy(are_there: bool) -> &'static str {
    if are_there {
        "the tables are looked through and changed by the role that owns them: run this as that one (`\\dn holdpoint` in psql \
         names it)"
    } else {
        "that user may not make the schema `holdpoint` there: `grant create on database NAME to USER`, or make it the owner \
         (`alter database NAME owner to USER`)"
    }
}

/// Why a store on PostgreSQL did not open. Nothing was changed, and no empty one was put in its place.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// The address is none.
    #[error("the address of the store cannot be read: {why}")]
    Address {
        /// What is wrong, and what to write in its place.
        why: String,
    },
    /// Nobody answers.
    #[error("the database at {place} cannot be reached: {why}")]
    Away {
        /// Where.
        place: String,
        /// What the network says.
        why: String,
    },
    /// It lets us not in, or not at what is ours.
    #[error(
        "the database at {place} refuses: {why}; check user, password and database, and give that user the right \
         to use schema `holdpoint` and all that is in it"
    )]
    Denied {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// Whoever asks may not make, or change, our tables.
    #[error("the database at {place} refuses: {why}; {}", owner_remedy(*.are_there))]
    NotOwner {
        /// Where.
        place: String,
        /// What it says.
        why: String,
        /// Whether there are any.
        are_there: bool,
    },
    /// It answers with a no that has nothing to do with who asks.
    #[error("the database at {place} says: {why}")]
    Says {
        /// Where.
        place: String,
        /// What it says.
        why: String,
        /// Whether it may say otherwise in a while.
        passes: bool,
    },
    /// It takes no more connections.
    #[error(
        "the database at {place} takes no more connections: {why}; raise `max_connections`, or the limit of the role or the \
         database (`alter role … connection limit …`): a server takes {} at most, see docs/scale.md",
        slots::AT_MOST
    )]
    Crowded {
        /// Where.
        place: String,
        /// What it says.
        why: String,
    },
    /// It has not answered what was asked over all the connections that this process may have.
    #[error(
        "the database at {place} has not answered what was asked over {} connections; no more are opened until it does",
        slots::AT_MOST
    )]
    Unanswered {
        /// Where.
        place: String,
    },
    /// It commits nothing: whoever must have it, too, is not there.
    #[error(
        "the database at {place} waits for a synchronous standby, and commits nothing until one is there: bring it back, or name \
         another in `synchronous_standby_names`; `pg_stat_replication` has those that are there"
    )]
    NoStandby {
        /// Where.
        place: String,
    },
    /// Its certificate is not trusted, or there is none.
    #[error(
        "no safe connection to the database at {place}: {why}; {}", tls_remedy(.why)
    )]
    Untrusted {
        /// Where.
        place: String,
        /// What is wrong.
        why: String,
    },
    /// It is older than what was tried.
    #[error("the database at {place} is PostgreSQL {found}; 14 or later is needed")]
    TooOld {
        /// Where.
        place: String,
        /// Its version.
        found: String,
    },
    /// It takes no writes.
    #[error(
        "the database at {place} takes no writes: it is a standby, or read-only; give the address of the primary, or \
         of all hosts: `postgres://USER@ONE,OTHER/DATABASE`. Where it is the primary, `default_transaction_read_only` may be set \
         on the role or the database: `alter role … reset default_transaction_read_only`"
    )]
    Standby {
        /// Where.
        place: String,
    },
    /// It was the primary once, and others have gone on without it.
    #[error(
        "the only host that takes writes is one whose place another had taken: it lacks what was written since; the          one that was promoted last is waited for"
    )]
    Woken,
    /// Several take writes, and none of them is the later one.
    #[error(
        "{places} take writes, and nothing says which of them was promoted last: neither is used until one of them is stopped, or \
         follows the other as its standby; a copy that was started without `standby.signal` is such a one"
    )]
    Twins {
        /// Where.
        places: String,
    },
    /// It takes writes in the place of the one that this process has used, and is no later one.
    #[error(
        "the database at {place} is the only one that takes writes, and not the one that this process has used, nor one that was \
         promoted after it; that one is waited for"
    )]
    Another {
        /// Where.
        place: String,
    },
    /// It forgets what it has acknowledged.
    #[error(
        "the database at {place} has `{setting} = {value}`: it could lose what it acknowledged; {remedy}"
    )]
    Unsafe {
        /// Where.
        place: String,
        /// Which setting.
        setting: &'static str,
        /// What it is.
        value: String,
        /// What to do.
        remedy: &'static str,
    },
    /// Nobody made our tables there.
    #[error(
        "there is no Holdpoint store in the database at {place}; `holdpoint store migrate --store ADDRESS` makes one"
    )]
    NoStore {
        /// Where.
        place: String,
    },
    /// Our tables are of an earlier build.
    #[error(
        "the store in the database at {place} has schema {found}, this program needs {SCHEMA}; \
         `holdpoint store migrate --store ADDRESS` takes it there"
    )]
    Older {
        /// Where.
        place: String,
        /// Its schema.
        found: i32,
    },
    /// Our tables are to be changed while somebody serves from them.
    #[error(
        "{servers} of those who serve from the database at {place} are alive, and would write as the tables were before; stop \
         them first (one that died is forgotten after seven seconds), then run this again"
    )]
    Served {
        /// Where.
        place: String,
        /// How many.
        servers: i64,
    },
    /// Our tables are of a later build.
    #[error(
        "the store in the database at {place} has schema {found}, this program knows {SCHEMA}: a later build made it; \
         use that one"
    )]
    Newer {
        /// Where.
        place: String,
        /// Its schema.
        found: i32,
    },
    /// What is stored there is of a form that only a later build reads.
    #[error(
        "the store in the database at {place} has records of form {found}, this program reads up to {reads}: a later build \
         wrote there; use that one"
    )]
    NewerForm {
        /// Where.
        place: String,
        /// The form of what is stored.
        found: i32,
        /// What this program reads.
        reads: i32,
    },
    /// Somebody who lives does not read what this program writes.
    #[error(
        "{who} serves from the database at {place} and reads records up to form {reads}; this program writes form {writes}: \
         it waits until that server is upgraded or stopped"
    )]
    OlderReplica {
        /// Where.
        place: String,
        /// Who, in words.
        who: String,
        /// What they read.
        reads: i32,
        /// What this program writes.
        writes: i32,
    },
    /// Somebody changed our tables.
    #[error(
        "the tables of the store in the database at {place} are not as they were made: {what}; put that back, or restore \
         the database"
    )]
    Altered {
        /// Where.
        place: String,
        /// The first difference.
        what: String,
    },
}

/// The schema that this program reads and writes.
pub const SCHEMA: i32 = 4;
/// The newest form of records that this program reads: up to 3 as `store/codec` numbers them; in the fourth an answer may
/// bring the seed that later questions' nonces are drawn from, and whoever does not know that finds other ids.
pub const READS: i32 = 4;
/// The one that it writes.
pub(super) const WRITES: i32 = READS;

impl PostgresError {
    /// Whether nothing was found out about what is there: it was not reached, or did not say.
    pub(super) fn is_away(&self) -> bool {
        self.may_pass()
            && !matches!(
                self,
                Self::Standby { .. }
                    | Self::Woken
                    | Self::Twins { .. }
                    | Self::Another { .. }
                    | Self::OlderReplica { .. }
            )
    }

    /// Whether waiting may help: the database is out of reach, or is not the primary yet.
    pub fn may_pass(&self) -> bool {
        matches!(
            self,
            Self::Away { .. }
                | Self::Says { passes: true, .. }
                | Self::Crowded { .. }
                | Self::Unanswered { .. }
                | Self::NoStandby { .. }
                | Self::Standby { .. }
                | Self::Woken
                | Self::Twins { .. }
                | Self::Another { .. }
                | Self::OlderReplica { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_its_password_told_to_nobody() {
        let odd = "postgres://ann:p%40ss%3A%2F%3F%23%25w@one:5433,two/db?sslmode=verify-full&sslrootcert=/ca.pem";
        let config = PostgresConfig::new(odd).expect("it is one");
        assert_eq!(config.server.get_password(), Some(&b"p@ss:/?#%w"[..]));
        assert_eq!(config.durability, Durability::Replicated, "several hosts");
        assert_eq!(config.roots, Some(PathBuf::from("/ca.pem")));
        assert!(!format!("{config:?}").contains("ss:"), "{config:?}");
        let one = PostgresConfig::new("postgresql://ann@one/db").expect("it is one");
        assert_eq!((one.durability, one.place()), (Durability::Single, "one:5432/db".into()));
        let told = PostgresConfig::new("postgres://ann@one,two/db?durability=single");
        assert_eq!(told.expect("it is one").durability, Durability::Single);
    }

    #[test]
    fn a_database_is_the_same_whichever_hosts_are_named_beside_one_that_was() {
        let named = PostgresConfig::new("postgres://ann@one:5433,two/db").expect("it is one");
        for place in ["one:5433/db", "two:5432/db", "one:5433,two:5432/db", "gone:5432,two:5432/db"]
        {
            assert!(named.is_at(place), "{place}");
        }
        for place in ["one:5432/db", "one:5433/other", "three:5432/db", "", "db"] {
            assert!(!named.is_at(place), "{place}");
        }
        let socket = PostgresConfig::new("postgres://ann@%2Frun%2Fpg/db").expect("it is one");
        assert!(socket.is_at(&socket.place()), "{}", socket.place());
    }

    #[test]
    fn what_has_nothing_to_do_with_who_asks_says_nothing_of_passwords() {
        let (place, why) = (|| "one/db".to_owned(), || "no".to_owned());
        for error in [
            PostgresError::Says { place: place(), why: why(), passes: true },
            PostgresError::Crowded { place: place(), why: why() },
            PostgresError::Unanswered { place: place() },
            PostgresError::NoStandby { place: place() },
        ] {
            assert!(error.may_pass() && !error.to_string().contains("password"), "{error}");
        }
        let crowded = PostgresError::Crowded { place: place(), why: why() }.to_string();
        assert!(
            crowded.contains("`max_connections`") && crowded.contains("docs/scale.md"),
            "{crowded}"
        );
    }

    #[test]
    fn whoever_may_not_make_tables_is_told_which_right_that_takes() {
        let told = |are_there| {
            let (place, why) = ("one/db".to_owned(), "permission denied".to_owned());
            PostgresError::NotOwner { place, why, are_there }.to_string()
        };
        assert!(told(false).contains("grant create on database"), "{}", told(false));
        assert!(!told(false).contains("to use schema"), "there is none: {}", told(false));
        assert!(told(true).contains("the role that owns them"), "{}", told(true));
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_remedy() {
        let form = "it is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
        for (bad, remedy) in [
            ("mysql://x", form),
            ("postgres://", form),
            ("postgres://ann@one", form),
            ("postgres://ann@one:port/db", form),
            ("postgres://ann:p@ss@one/db", form),
            ("postgres://ann@one/db?x=1", "`sslmode`, `sslrootcert`, `durability`"),
            ("postgres://ann@one/db?durability=some", "none of `replicated`, `single`"),
            ("postgres://ann@one/db?sslmode=allow", "`allow` is none of `disable`"),
        ] {
            let refused = PostgresConfig::new(bad).expect_err(bad).to_string();
            assert!(refused.contains(remedy), "{bad}: {refused}");
            // Who has no such sign in it has nothing to learn of how they are written.
            let has_signs = bad.contains("p@ss");
            assert_eq!(refused.contains("%40"), has_signs, "{bad}: {refused}");
        }
        let untrusted = |why: &str| {
            PostgresError::Untrusted { place: "one/db".into(), why: why.into() }.to_string()
        };
        assert!(untrusted("server does not support TLS").contains("sslmode=disable"));
        assert!(!untrusted("invalid peer certificate").contains("sslmode=disable"));
    }
}
