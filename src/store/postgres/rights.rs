//! Rights: what whoever is connected may do with our tables, and what gives them the right to what they may not.

use tokio_postgres::{Error, GenericClient};

/// A right that is missing, in words, with what gives it: everything that is ours is read and written, and the tables that
/// say what they are only read and locked.
const LACKING: &str = "
select what, grants from (
  select wanted.word || ' in holdpoint.' || c.relname as what,
         'grant ' || wanted.word || ' on holdpoint.' || c.relname || ' to ' || pg_catalog.quote_ident(current_user) as grants
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['select', 'update', 'insert', 'delete']) as wanted (word)
    where n.nspname = 'holdpoint' and c.relkind = 'r'
      and (c.relname <> 'meta' or wanted.word in ('select', 'update'))
      and not pg_catalog.has_table_privilege(c.oid, wanted.word)
  union all
  select 'execute holdpoint.' || p.proname,
         'grant execute on all functions in schema holdpoint to ' || pg_catalog.quote_ident(current_user)
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'holdpoint' and not pg_catalog.has_function_privilege(p.oid, 'execute')
) missing order by what limit 1";

/// Whether none of our tables may be written to.
const IS_READER: &str = "
select not exists (select 1
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and c.relkind = 'r'
      and pg_catalog.has_table_privilege(c.oid, 'insert, update, delete'))";

/// What is said of such a one where they look: nothing is wrong with that.
pub(super) const ONLY_READS: &str =
    "this role may only read: enough to look, and not for a server, nor for commands that write";

/// What somebody who connects, and may not do all that a server does, lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// Every right to write: they are let look, and nothing else.
    ToWrite,
    /// A right among others that they have.
    One {
        /// To do what.
        what: String,
        /// The statement that gives it.
        grants: String,
    },
}

impl Lacking {
    /// What whoever wants to write is refused with.
    pub(super) fn why(&self) -> String {
        match self {
            Self::ToWrite => "this role may only read".into(),
            Self::One { what, .. } => format!("permission denied to {what}"),
        }
    }

    /// What they can do about it.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::ToWrite => "what writes, as this does, wants the role that servers have, or one with the same rights".into(),
            Self::One { grants, .. } => format!("`{grants}` gives that right; servers need all of them"),
        }
    }
}

/// What whoever is connected lacks of what a server needs; of several rights the first.
pub(super) async fn lacking(client: &impl GenericClient) -> Result<Option<Lacking>, Error> {
    let Some(row) = client.query_typed_opt(LACKING, &[]).await? else { return Ok(None) };
    if client.query_typed_one(IS_READER, &[]).await?.try_get(0)? {
        return Ok(Some(Lacking::ToWrite));
    }
    Ok(Some(Lacking::One { what: row.try_get(0)?, grants: row.try_get(1)? }))
}

/// What to do about a no to whoever connects, by the code that it has.
pub(super) fn remedy(code: &str) -> &'static str {
    match code {
        "3D000" => {
            "`createdb NAME --owner USER` makes it, and `holdpoint store migrate` the store in it; or the address names the \
             wrong one"
        }
        "42501" => {
            "give that user the right: `grant connect on database NAME to USER`, `grant usage on schema holdpoint to USER`, \
             `grant select, insert, update, delete on all tables in schema holdpoint to USER`"
        }
        _ => "check user and password in the address, and what `pg_hba.conf` says of them",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_no_has_a_remedy_of_its_own() {
        let (gone, denied, wrong) = (remedy("3D000"), remedy("42501"), remedy("28P01"));
        assert!(gone.contains("createdb") && !gone.contains("password"), "{gone}");
        assert!(denied.contains("grant usage") && !denied.contains("password"), "{denied}");
        assert!(wrong.contains("password") && !wrong.contains("grant"), "{wrong}");
        assert_eq!(wrong, remedy("28000"), "whoever is not let in at all");
    }

    #[test]
    fn whoever_may_only_read_is_told_that_and_not_of_one_right() {
        let reads = Lacking::ToWrite;
        assert!(reads.why().contains("may only read") && !reads.remedy().contains("grant"));
        let one =
            Lacking::One { what: "delete in holdpoint.runs".into(), grants: "grant it".into() };
        assert_eq!(one.why(), "permission denied to delete in holdpoint.runs");
        assert!(one.remedy().starts_with("`grant it`"), "{}", one.remedy());
    }
}
