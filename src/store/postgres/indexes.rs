//! Indexes that keep nothing out: lists and clocks are read by them, and nothing is wrong without them but that it takes
//! ever longer. So one that is gone refuses nobody: whoever serves warns, and whoever migrates makes it again.

use tokio_postgres::GenericClient;
use tokio_postgres::types::Type;

use crate::store::postgres::PostgresJournal;
use crate::store::postgres::raising::{MAKE, RAISE};

/// What a line that makes one begins with; a unique one is a part of the tables' shape.
const BEGINS: &str = "create index ";

/// Those that are there and are used.
const THERE: &str = "select c.relname::text
    from pg_catalog.pg_index i join pg_catalog.pg_class c on c.oid = i.indexrelid
    join pg_catalog.pg_namespace n on n.oid = c.relnamespace
    where n.nspname = 'holdpoint' and i.indisvalid and c.relname = any ($1)";

/// One of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Index {
    pub(super) name: &'static str,
    /// What makes it.
    make: &'static str,
}

impl Index {
    /// What makes it anew, also where it was left half made.
    pub(super) fn anew(self) -> String {
        format!("drop index if exists holdpoint.{}; {}", self.name, self.make)
    }
}

/// All that the tables are made with.
fn all() -> impl Iterator<Item = Index> {
    let texts = std::iter::once(MAKE).chain(RAISE.iter().map(|(_, text)| *text));
    texts.flat_map(str::lines).filter_map(|make| {
        let name = make.strip_prefix(BEGINS)?.split(' ').next()?;
        Some(Index { name, make })
    })
}

/// Those that a database lacks.
pub(super) async fn missing(
    client: &(impl GenericClient + Sync),
) -> Result<Vec<Index>, tokio_postgres::Error> {
    let names: Vec<&str> = all().map(|index| index.name).collect();
    let rows = client.query_typed(THERE, &[(&names as _, Type::TEXT_ARRAY)]).await?;
    let there: Vec<String> =
        rows.iter().map(|row| row.try_get(0)).collect::<Result<_, tokio_postgres::Error>>()?;
    Ok(all().filter(|index| there.iter().all(|name| name != index.name)).collect())
}

/// That one is missing, and what to do.
pub(super) fn words(index: Index) -> String {
    format!(
        "the index `{}` is missing: what is read by it takes longer, and ever longer; `holdpoint store migrate` makes it again",
        index.name
    )
}

impl PostgresJournal {
    /// Warns of those that are missing. Where they cannot be asked for now, `doctor` names them.
    pub(super) async fn warn_of_indexes(&self) {
        let Ok(mut lent) = self.connections.lend().await else { return };
        let Ok(client) = lent.client() else { return };
        for index in missing(&*client).await.unwrap_or_default() {
            tracing::warn!("{}", words(index));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_that_the_tables_are_made_with_is_known_by_its_name_and_is_made_anew_whole() {
        let all: Vec<_> = all().collect();
        let texts = std::iter::once(MAKE).chain(RAISE.iter().map(|(_, text)| *text));
        let made: usize = texts.map(|text| text.matches("create index ").count()).sum();
        assert!(all.len() == made && made > 10, "each stands on a line of its own: {all:?}");
        for index in all {
            assert!(
                index.make.ends_with(';') && index.make.contains(" on holdpoint."),
                "{index:?}"
            );
            let is_name = |c: char| c.is_ascii_lowercase() || c == '_';
            assert!(index.name.chars().all(is_name), "{index:?}");
        }
    }
}
