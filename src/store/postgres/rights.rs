//! Rights: what whoever is connected may do with our tables, and what gives them the right to what they may not.

use tokio_postgres::{Error, GenericClient};

/// The rights that are missing, each with what it is missing of, whether that is everything that it is wanted of, and who
/// lacks it: everything that is ours is read and written, and the tables that say what they are only read and locked.
const LACKING: &str = "
select word, places, is_every, pg_catalog.quote_ident(current_user) from (
  select wanted.nth, wanted.word, pg_catalog.bool_and(not given.is_so) as is_every,
         string_agg('holdpoint.' || pg_catalog.quote_ident(c.relname), ', ' order by c.relname)
           filter (where not given.is_so) as places
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    cross join unnest(array['select', 'insert', 'update', 'delete']) with ordinality as wanted (word, nth)
    cross join lateral (select pg_catalog.has_table_privilege(c.oid, wanted.word)) as given (is_so)
    where n.nspname = 'holdpoint' and c.relkind = 'r' and (c.relname <> 'meta' or wanted.word in ('select', 'update'))
    group by wanted.nth, wanted.word
  union all
  select 5, 'execute', true, string_agg('holdpoint.' || pg_catalog.quote_ident(p.proname), ', ' order by p.proname)
    from pg_catalog.pg_proc p join pg_catalog.pg_namespace n on n.oid = p.pronamespace
    where n.nspname = 'holdpoint' and not pg_catalog.has_function_privilege(p.oid, 'execute')
) missing where places is not null order by nth";

/// Whether none of our tables may be written to.
const IS_READER: &str = "
select not exists (select 1
    from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and c.relkind = 'r'
      and pg_catalog.has_table_privilege(c.oid, 'insert, update, delete'))";

/// Where the credentials of those lie who listen to runs: not for everybody who looks.
const HOOKS: &str = "holdpoint.hooks";

/// What is said of such a one where they look: nothing is wrong with that.
pub(super) const ONLY_READS: &str =
    "this role may only read: enough to look, and not for a server, nor for commands that write";

/// A right that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Missing {
    /// The word for it in a `grant`.
    right: String,
    /// What it is missing of, in the words of a statement.
    places: String,
    /// Whether that is everything that it is wanted of.
    is_every: bool,
}

impl Missing {
    fn is_of_functions(&self) -> bool {
        self.right == "execute"
    }

    /// What whoever looks lacks of it: they execute and select, and nobody who looks has to see what lies with the hooks.
    fn for_a_look(self) -> Option<Self> {
        if self.is_of_functions() {
            return Some(self);
        }
        let seen: Vec<_> = self.places.split(", ").filter(|place| *place != HOOKS).collect();
        let is_wanted = self.right == "select" && !seen.is_empty();
        let is_every = self.is_every && seen.len() == self.places.split(", ").count();
        is_wanted.then(|| Self { places: seen.join(", "), right: self.right.clone(), is_every })
    }

    /// What somebody may not do for want of it.
    fn what(&self) -> String {
        let Self { right, places, .. } = self;
        match (self.is_of_functions(), self.is_every) {
            (true, _) => format!("{right} {places}"),
            (false, true) => format!("{right} in all tables of schema holdpoint"),
            (false, false) => format!("{right} in {places}"),
        }
    }

    /// What it is given on.
    fn on(&self) -> &str {
        match (self.is_of_functions(), self.is_every) {
            (true, _) => "all functions in schema holdpoint",
            (false, true) => "all tables in schema holdpoint",
            (false, false) => &self.places,
        }
    }
}

/// What somebody who connects, and may not do all that a server does, lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Lacking {
    /// Every right to write: they are let look, and nothing else.
    ToWrite,
    /// Rights among others that they have.
    Rights {
        /// Which.
        missing: Vec<Missing>,
        /// Who lacks them, as a statement has it.
        role: String,
    },
}

impl Lacking {
    /// What whoever wants to write is refused with.
    pub(super) fn why(&self) -> String {
        match self {
            Self::ToWrite => "this role may only read".into(),
            Self::Rights { missing, .. } => {
                let what: Vec<_> = missing.iter().map(Missing::what).collect();
                format!("permission denied to {}", what.join(", and to "))
            }
        }
    }

    /// What they can do about it.
    pub(super) fn remedy(&self) -> String {
        match self {
            Self::ToWrite => "what writes, as this does, wants the role that servers have, or one with the same rights".into(),
            Self::Rights { missing, role } => {
                let give = if missing.len() == 1 { "gives that right" } else { "give these rights" };
                format!("{} {give}; servers need all of them", grants(missing, role))
            }
        }
    }
}

/// The statements that give rights: one for all that are given on the same.
fn grants(missing: &[Missing], role: &str) -> String {
    let grants = missing.chunk_by(|one, next| one.on() == next.on()).map(|same| {
        let rights: Vec<_> = same.iter().map(|one| one.right.as_str()).collect();
        let on = same.first().map(Missing::on).unwrap_or_default();
        format!("`grant {} on {on} to {role}`", rights.join(", "))
    });
    grants.collect::<Vec<_>>().join(", ")
}

/// What whoever is connected lacks of what a server needs: all of it, so that nobody comes again for each.
pub(super) async fn lacking(client: &impl GenericClient) -> Result<Option<Lacking>, Error> {
    let Some((missing, role)) = missing(client).await? else { return Ok(None) };
    if client.query_typed_one(IS_READER, &[]).await?.try_get(0)? {
        return Ok(Some(Lacking::ToWrite));
    }
    Ok(Some(Lacking::Rights { missing, role }))
}

/// The same of what whoever only looks needs, which is less: why they cannot, and what to do.
pub(super) async fn lacking_to_look(
    client: &impl GenericClient,
) -> Result<Option<(String, String)>, Error> {
    let Some((missing, role)) = missing(client).await? else { return Ok(None) };
    let missing: Vec<_> = missing.into_iter().filter_map(Missing::for_a_look).collect();
    if missing.is_empty() {
        return Ok(None);
    }
    let gives = format!("{} lets this role look", grants(&missing, &role));
    Ok(Some((Lacking::Rights { missing, role }.why(), gives)))
}

/// The rights that are missing, and who lacks them; none where nothing is.
async fn missing(client: &impl GenericClient) -> Result<Option<(Vec<Missing>, String)>, Error> {
    let rows = client.query_typed(LACKING, &[]).await?;
    let Some(first) = rows.first() else { return Ok(None) };
    let missing = rows.iter().map(|row| {
        let (right, places, is_every) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        Ok(Missing { right, places, is_every })
    });
    Ok(Some((missing.collect::<Result<_, Error>>()?, first.try_get(3)?)))
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
             `grant select, insert, update, delete on all tables in schema holdpoint to USER`, `grant execute on all functions in \
             schema holdpoint to USER`"
        }
        _ => "check user and password in the address, and what `pg_hba.conf` says of them",
    }
}

/// The same of a password that was wrong. A `%` that stands in it as itself is taken with what comes after it for another
/// sign, and nobody is told of that.
pub(super) fn of_password(has_percent: bool) -> String {
    let percent = if has_percent {
        "; a `%` of the password itself is written `%25` in the address"
    } else {
        ""
    };
    format!("{}{percent}", remedy("28P01"))
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
    }

    fn missing(right: &str, places: &str, is_every: bool) -> Missing {
        Missing { right: right.into(), places: places.into(), is_every }
    }

    fn told(missing: Vec<Missing>) -> (String, String) {
        let lacking = Lacking::Rights { missing, role: "weak".into() };
        (lacking.why(), lacking.remedy())
    }

    #[test]
    fn one_right_that_is_missing_is_told_with_the_statement_that_gives_it() {
        let (why, remedy) = told(vec![missing("delete", "holdpoint.runs", false)]);
        assert_eq!(why, "permission denied to delete in holdpoint.runs");
        let gives =
            "`grant delete on holdpoint.runs to weak` gives that right; servers need all of them";
        assert_eq!(remedy, gives);
    }

    #[test]
    fn whoever_only_looks_lacks_what_looking_takes_and_nothing_of_hooks() {
        let to_look = |right, places, is_every| {
            let lacks = missing(right, places, is_every).for_a_look();
            lacks.map(|lacks| grants(&[lacks], "aud"))
        };
        assert_eq!(to_look("insert", "holdpoint.runs", false), None);
        assert_eq!(to_look("select", "holdpoint.hooks", false), None);
        let given = "`grant select on holdpoint.runs to aud`".to_owned();
        assert_eq!(to_look("select", "holdpoint.hooks, holdpoint.runs", false), Some(given));
        let given = "`grant execute on all functions in schema holdpoint to aud`".to_owned();
        assert_eq!(to_look("execute", "holdpoint.kept_as", true), Some(given));
    }

    #[test]
    fn all_rights_that_are_missing_are_told_at_once() {
        let (why, remedy) = told(vec![missing("delete", "holdpoint.a, holdpoint.b", true)]);
        assert_eq!(why, "permission denied to delete in all tables of schema holdpoint");
        assert!(
            remedy.starts_with("`grant delete on all tables in schema holdpoint to weak` gives")
        );
        let (why, remedy) = told(vec![
            missing("insert", "holdpoint.a, holdpoint.b", true),
            missing("update", "holdpoint.a, holdpoint.b", true),
            missing("delete", "holdpoint.runs, holdpoint.desks", false),
            missing("execute", "holdpoint.append", true),
        ]);
        assert!(
            why.contains("insert in all tables of schema holdpoint, and to update in all"),
            "{why}"
        );
        assert!(why.ends_with("and to execute holdpoint.append"), "{why}");
        let gives = "`grant insert, update on all tables in schema holdpoint to weak`, `grant delete on holdpoint.runs, \
                     holdpoint.desks to weak`, `grant execute on all functions in schema holdpoint to weak` give these rights";
        assert!(remedy.starts_with(gives), "{remedy}");
    }

    #[test]
    fn of_a_password_with_a_percent_in_it_is_told_how_that_is_written() {
        assert!(
            of_password(true).contains("`%25`") && of_password(true).starts_with(remedy("28P01"))
        );
        assert_eq!(of_password(false), remedy("28P01"));
    }
}
