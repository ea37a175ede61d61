//! Settings: whether a server keeps what it acknowledges, by what is set there, and what to do where it does not.

use tokio_postgres::Client;

use crate::store::postgres::address::Durability;
use crate::store::postgres::config::PostgresConfig;
use crate::store::postgres::error::PostgresError;
use crate::store::postgres::faults::refused;

/// The first version that was tried.
const OLDEST: i32 = 140_000;

/// What is asked of a server: what is set, where that is (as `name=place`), and by which names that is undone.
const SETTINGS: &str = "
select current_setting('server_version_num')::int, current_setting('server_version'),
    pg_catalog.pg_is_in_recovery(), current_setting('fsync', true), current_setting('full_page_writes', true),
    current_setting('synchronous_commit', true), current_setting('synchronous_standby_names', true),
    current_setting('default_transaction_isolation', true),
    (select pg_catalog.string_agg(name || '=' || source, ',') from pg_catalog.pg_settings where name in
      ('fsync', 'full_page_writes', 'synchronous_commit', 'default_transaction_isolation')),
    pg_catalog.quote_ident(session_user), pg_catalog.quote_ident(pg_catalog.current_database())";

/// What is given up by whoever has the platform vouch for what it acknowledges.
const PLATFORM: &str = "where the platform keeps what it acknowledges in its own way, `durability=platform` in the address gives \
     up this check, and that of every other setting but `synchronous_commit`";

/// What to do where a standby is wanted and none is waited for.
const NO_STANDBY: &str = "set it to those that must have what was acknowledged, such as `alter system set \
     synchronous_standby_names = 'ANY 1 (one, two)'`, then `select pg_reload_conf()`; or say `durability=single` in the \
     address where one server is all there is";

/// A setting, and where it is set: nobody who looks at the server's sees a role's or a database's.
#[derive(Debug, Clone, Copy)]
struct Set<'a> {
    setting: &'static str,
    /// In the words of `pg_settings`.
    source: &'a str,
    /// Who is connected, and to which database, as a statement has them.
    role: &'a str,
    database: &'a str,
}

impl Set<'_> {
    /// What makes it what it must be.
    fn undo(self, must_be: &str) -> String {
        let Self { setting, source, role, database } = self;
        let how = match source {
            "database" => {
                format!("it is set on the database: `alter database {database} reset {setting}`")
            }
            "user" => format!("it is set on the role: `alter role {role} reset {setting}`"),
            "database user" => format!(
                "it is set on the role in this database: `alter role {role} in database {database} reset {setting}`"
            ),
            "global" => format!("it is set on all roles: `alter role all reset {setting}`"),
            "client" => "it is set in the address: take it out of `options`".to_owned(),
            "command line" => format!(
                "it is set where the server is started: take `-c {setting}` out there, and start it again"
            ),
            _ => format!(
                "`alter system reset {setting}` at the server (or take it out of its `postgresql.conf`), then `select \
                 pg_reload_conf()`"
            ),
        };
        format!("set it to `{must_be}`; {how}")
    }
}

/// Where a setting is set, of what was told of all of them.
fn source_of<'a>(sources: &'a str, setting: &str) -> &'a str {
    let of = |pair: &'a str| pair.strip_prefix(setting)?.strip_prefix('=');
    sources.split(',').find_map(of).unwrap_or_default()
}

/// Whether a server keeps what it acknowledges.
pub(super) async fn check(config: &PostgresConfig, client: &Client) -> Result<(), PostgresError> {
    let place = config.place();
    let row = client.query_typed_one(SETTINGS, &[]).await;
    let row = row.map_err(|error| refused(place.clone(), &error))?;
    let text = |at: usize| row.try_get::<_, Option<String>>(at).ok().flatten().unwrap_or_default();
    if row.try_get::<_, i32>(0).unwrap_or(0) < OLDEST {
        return Err(PostgresError::TooOld { place, found: text(1) });
    }
    if row.try_get::<_, bool>(2).unwrap_or(true) {
        return Err(PostgresError::Standby { place });
    }
    let (sources, role, database) = (text(8), text(9), text(10));
    let undo = |setting: &'static str, must_be: &str| {
        let source = source_of(&sources, setting);
        Set { setting, source, role: &role, database: &database }.undo(must_be)
    };
    let off = |setting, value, remedy| {
        Err(PostgresError::Unsafe { place: place.clone(), setting, value, remedy })
    };
    if ["off", "local"].contains(&text(5).as_str()) {
        return off("synchronous_commit", text(5), undo("synchronous_commit", "on"));
    }
    if config.durability == Durability::Platform {
        return Ok(());
    }
    if !["", "read committed"].contains(&text(7).as_str()) {
        let setting = "default_transaction_isolation";
        return off(setting, text(7), undo(setting, "read committed"));
    }
    for (at, setting) in [(3, "fsync"), (4, "full_page_writes")] {
        if text(at) == "off" {
            return off(setting, text(at), format!("{}; {PLATFORM}", undo(setting, "on")));
        }
    }
    if config.durability == Durability::Replicated && text(6).is_empty() {
        return off("synchronous_standby_names", "''".into(), NO_STANDBY.into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn undo(setting: &'static str, source: &str) -> String {
        Set { setting, source, role: "ann", database: "\"Db\"" }.undo("on")
    }

    #[test]
    fn what_undoes_a_setting_is_a_command_that_can_be_typed_as_it_stands() {
        for (source, told) in [
            ("database", "`alter database \"Db\" reset synchronous_commit`"),
            ("user", "`alter role ann reset synchronous_commit`"),
            ("database user", "`alter role ann in database \"Db\" reset synchronous_commit`"),
            ("global", "`alter role all reset synchronous_commit`"),
            ("client", "take it out of `options`"),
            ("configuration file", "`alter system reset synchronous_commit`"),
        ] {
            let undo = undo("synchronous_commit", source);
            assert!(undo.contains(told) && !undo.contains('…'), "{source}: {undo}");
            assert!(undo.starts_with("set it to `on`; "), "{source}: {undo}");
        }
    }

    #[test]
    fn what_is_set_at_the_server_counts_once_that_has_read_it_again() {
        for setting in ["synchronous_commit", "fsync", "full_page_writes"] {
            let file = undo(setting, "configuration file");
            assert!(file.contains(&format!("`alter system reset {setting}`")), "{file}");
            assert!(file.contains("then `select pg_reload_conf()`"), "{file}");
            // What stands there counts before every file.
            let started = undo(setting, "command line");
            assert!(started.contains("start it again"), "{started}");
            assert!(!started.contains("alter system"), "{started}");
        }
        assert!(NO_STANDBY.contains("`select pg_reload_conf()`"), "{NO_STANDBY}");
    }

    #[test]
    fn where_a_setting_is_set_is_found_among_all_of_them() {
        let sources = "fsync=default,synchronous_commit=database user,full_page_writes=global";
        assert_eq!(source_of(sources, "synchronous_commit"), "database user");
        assert_eq!(source_of(sources, "full_page_writes"), "global");
        assert_eq!(source_of(sources, "full"), "", "a part of a name is none");
    }
}
