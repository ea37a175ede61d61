//! Error: every way in which a store on PostgreSQL does not open, with the remedy in its words. What the database says no
//! with once it is open is told in `faults`.

use crate::store::postgres::slots;

/// What to do about a connection that is not safe: with no TLS at the server there is nobody to trust.
fn tls_remedy(why: &str) -> &'static str {
    if why.contains("support TLS") {
        "turn on `ssl` at the server, or say `sslmode=disable` in the address where the network is yours"
    } else {
        "`sslrootcert=FILE` in the address says whom to trust, in place of whom this machine trusts"
    }
}

/// What to do about a server that nobody reached, or that is none; of one that was reached and went, or is slow, nothing but to wait.
fn away_remedy(why: &str) -> &'static str {
    // The driver's words for what does not come to a connection.
    let unreached = ["error connecting to server", "timeout waiting for server"];
    // And for an answer that makes no sense.
    let strange = ["error parsing response", "unexpected message from server"];
    if strange.iter().any(|words| why.starts_with(words)) || why.contains("bytes remaining") {
        "; what answers there does not speak as PostgreSQL does: check the port in the address"
    } else if unreached.iter().any(|words| why.starts_with(words)) {
        "; check host and port in the address, that the server runs, and that it listens there (`listen_addresses` and `port` in \
         its `postgresql.conf`)"
    } else {
        ""
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
    #[error("the database at {place} cannot be reached: {why}{}", away_remedy(.why))]
    Away {
        /// Where.
        place: String,
        /// What the network says.
        why: String,
    },
    /// It lets us not in, or not at what is ours.
    #[error("the database at {place} refuses: {why}; {remedy}")]
    Denied {
        /// Where.
        place: String,
        /// What it says.
        why: String,
        /// What to do about that.
        remedy: String,
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
         on the role or the database: `alter role … reset default_transaction_read_only`, or `alter database …` the same"
    )]
    Standby {
        /// Where.
        place: String,
    },
    /// Of several hosts some are standbys, and the primary is none of those that answer.
    #[error(
        "no host in the address takes writes: {standbys} answers, as a standby or read-only, and {others}; bring the primary back, or, \
         where that stays away for good, promote one of them (`select pg_promote()` there)"
    )]
    NoPrimary {
        /// Where those are.
        standbys: String,
        /// What is known of the others.
        others: String,
    },
    /// It was the primary once, and others have gone on without it.
    #[error(
        "the only host that takes writes is one whose place another had taken: it lacks what was written since; the one that was promoted last is waited for"
    )]
    Woken,
    /// Several take writes, and none of them is the later one.
    #[error(
        "{places} take writes, and nothing says which of them was promoted last: neither is used until one of them is stopped, or \
         follows the other as its standby; a copy that was started without `standby.signal` is such a one, and so is another \
         database of the same server"
    )]
    Twins {
        /// Where.
        places: String,
    },
    /// Two take writes, and the one that was promoted last does not come from the other.
    #[error(
        "{other} and {place} take writes, and {place}, which was promoted last, does not come from the other, which has {what}: \
         neither is used until one of them is stopped, or follows the other as its standby"
    )]
    Parted {
        /// Where the one is that was promoted last.
        place: String,
        /// Where the other is.
        other: String,
        /// What that has.
        what: String,
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
        remedy: String,
    },
    /// Nobody made our tables there.
    #[error(
        "there is no Holdpoint store in the database at {place}; `holdpoint store migrate --store ADDRESS` makes an empty one \
         (a backup that was to be put back there was not: see what `pg_restore` said)"
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
        "the tables of the store in the database at {place} are not as they were made: {what}; {remedy}"
    )]
    Altered {
        /// Where.
        place: String,
        /// The first difference.
        what: String,
        /// What to do.
        remedy: &'static str,
    },
}

/// The schema that this program reads and writes.
pub const SCHEMA: i32 = 4;
/// The newest form of records that this program reads: up to 3 as `store/codec` numbers them; in the fourth an answer may
/// bring the seed that later questions' nonces are drawn from, in the fifth they are drawn from when it was asked, too.
/// Whoever does not know that finds other ids.
pub const READS: i32 = 5;
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
                    | Self::Parted { .. }
                    | Self::Another { .. }
                    | Self::OlderReplica { .. }
            )
    }

    /// Whether it is about our tables, which are the same over every connection.
    pub(super) fn is_of_tables(&self) -> bool {
        matches!(
            self,
            Self::NoStore { .. }
                | Self::Older { .. }
                | Self::Newer { .. }
                | Self::NewerForm { .. }
                | Self::Altered { .. }
        )
    }

    /// Whether there are two that take writes, of which none is used.
    pub(super) fn is_doubled(&self) -> bool {
        matches!(self, Self::Twins { .. } | Self::Parted { .. })
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
                | Self::NoPrimary { .. }
                | Self::Woken
                | Self::Twins { .. }
                | Self::Parted { .. }
                | Self::Another { .. }
                | Self::OlderReplica { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_server_that_nobody_reached_is_told_with_what_to_look_at() {
        let told = |why: &str| {
            PostgresError::Away { place: "one:5432/db".into(), why: why.into() }.to_string()
        };
        for why in [
            "error connecting to server: failed to lookup address information: Name or service not known",
            "error connecting to server: Connection refused (os error 111)",
            "timeout waiting for server",
        ] {
            let told = told(why);
            assert!(
                told.contains(why) && told.contains("check host and port in the address"),
                "{told}"
            );
        }
        // One that answered before: there is nothing to look for in the address.
        let slow = told("it takes too long to answer");
        assert!(!slow.contains("address"), "{slow}");
        // What was told once already is not told twice.
        let again = told(&told("timeout waiting for server"));
        assert_eq!(again.matches("check host").count(), 1, "{again}");
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
}
