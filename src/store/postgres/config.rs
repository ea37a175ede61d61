//! Config: what a store on PostgreSQL is told when it is opened. It reads the address; whether somebody answers there is
//! found out elsewhere.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::config::{Host, TargetSessionAttrs};

use crate::store::postgres::address::{
    Durability, ESCAPES, FORM, has_percent, read_by_driver, split,
};
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::hosts::Histories;
use crate::store::postgres::slots::Slots;

/// How long a server may take to be reached.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// After how long of silence is asked whether the other end is still there.
const KEEPALIVE: Duration = Duration::from_secs(5);
/// After how long of no acknowledgement a connection is lost.
const SILENCE: Duration = Duration::from_secs(15);

/// What a store on PostgreSQL is told.
#[derive(Clone)]
pub struct PostgresConfig {
    pub(super) server: tokio_postgres::Config,
    pub(super) durability: Durability,
    /// Whom to trust, where that is not whom the machine trusts.
    pub(super) roots: Option<PathBuf>,
    /// Nothing is ever written: a role that may read is enough.
    pub(super) only_looks: bool,
    /// There is a `%` in the password as it was written.
    pub(super) has_percent: bool,
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
        // A file read into a variable brings its last line break along, which nobody sees.
        if address.contains(char::is_control) {
            return Err(bad(format!(
                "there is a line break in it, or another sign that cannot be seen: take it out; {FORM}"
            )));
        }
        // Read as it stands, half of such a password would be a host that nobody has.
        if address.split('?').next().is_some_and(|front| front.matches('@').count() > 1) {
            return Err(bad(format!("there is more than one `@` in it; {FORM}, {ESCAPES}")));
        }
        let has_percent = has_percent(address);
        let (address, ours) = split(address).map_err(bad)?;
        let mut server = read_by_driver(&address).map_err(bad)?;
        if server.get_hosts().is_empty() {
            return Err(bad(format!("it names no host; {FORM}")));
        }
        if server.get_user().is_none() || server.get_dbname().is_none() {
            return Err(bad(format!("it must name a user and a database; {FORM}")));
        }
        let is_guessed = ours.durability.is_none();
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
        let (slots, histories) = (None, None);
        let config = Self { server, durability, roots, only_looks, has_percent, slots, histories };
        // Two names are two machines: as one that was meant to be another it would ask for a standby that nobody has.
        let names = config.names();
        let is_repeated = |at: usize| names[..at].contains(&names[at]);
        match (1..names.len()).find(|at| is_repeated(*at)) {
            Some(at) if is_guessed => {
                Err(bad(format!("the host `{}` is named twice; name each once", names[at])))
            }
            Some(_) | None => Ok(config),
        }
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
        let alone = server.get_hosts().iter().zip(0..).map(|(host, at)| {
            let mut one = without_hosts(server);
            match host {
                Host::Tcp(name) => one.host(name),
                #[cfg(unix)]
                Host::Unix(dir) => one.host_path(dir),
            };
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
        for twice in ["postgres://ann@one,one:5432/db", "postgres://ann@one:5433,two,one:5433/db"] {
            let refused = PostgresConfig::new(twice)
                .expect_err("one of them was meant to be another")
                .to_string();
            assert!(refused.contains("`one:543") && refused.contains("named twice"), "{refused}");
        }
        assert!(PostgresConfig::new("postgres://ann@one:5433,one:5434/db").is_ok());
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
    fn a_percent_is_noticed_in_the_password_and_nowhere_else() {
        for (address, is_so) in [
            ("postgres://ann:p%41w@one/db", true),
            ("postgres://ann:p%25w@one/db", true),
            ("postgres://ann:pw@one/db", false),
            ("postgres://an%40n@one/db", false),
            ("postgres://ann@%2Frun%2Fpg/db?options=-c%20x", false),
        ] {
            let config = PostgresConfig::new(address).expect(address);
            assert_eq!(config.has_percent, is_so, "{address}");
        }
    }

    #[test]
    fn a_host_or_a_port_after_the_question_mark_is_refused_and_not_one_more_host() {
        for (parameter, field) in [
            ("host=/run/pg", "host: "),
            ("host=two", "host: "),
            ("hos%74=two", "host: "),
            ("sslmode=disable&hostaddr=10.0.0.1", "hostaddr: "),
            ("port=5433", "port: "),
        ] {
            let address = format!("postgres://ann@127.0.0.1:5432/db?{parameter}");
            let refused = PostgresConfig::new(&address).expect_err(parameter).to_string();
            assert!(
                refused.contains(&format!("cannot be read: {field}")),
                "{parameter}: {refused}"
            );
            assert!(refused.contains("before the `/`"), "{parameter}: {refused}");
            assert!(refused.contains("`a:5432,b:5432`"), "{parameter}: {refused}");
        }
        let socket = PostgresConfig::new("postgres://ann@%2Frun%2Fpg:5433/db").expect("it is one");
        assert_eq!(
            (socket.durability, socket.place()),
            (Durability::Single, "/run/pg:5433/db".into())
        );
    }

    #[test]
    fn what_is_no_address_is_refused_with_the_remedy() {
        let form = "it is `postgres://USER:PASSWORD@HOST:PORT/DATABASE`";
        for (bad, remedy) in [
            ("mysql://x", form),
            ("postgres://", form),
            ("postgres://ann@one", form),
            ("postgres://ann@one:port/db", form),
            ("postgres://ann@one/db\n", "take it out"),
            ("postgres://ann:p@ss@one/db", form),
            ("postgres://ann:p@ss:w/o?r#d%@127.0.0.1:5432/db", form),
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
        let away =
            |why: &str| PostgresError::Away { place: "one/db".into(), why: why.into() }.to_string();
        let web = "error parsing response from server: bytes remaining on stream";
        assert!(away(web).contains("does not speak as PostgreSQL does: check the port"));
        assert!(away("error connecting to server: refused").contains("check host and port"));
    }
}
